"""What the learners share: reading their parameters, the fit itself, warnings and refusals."""

from __future__ import annotations

import inspect
import math
import numbers
import warnings
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from outvote.blocks.choose import plan_blocks
from outvote.blocks.plan import BlockPlan
from outvote.contamination import Contamination
from outvote.learning.descent import Descended, Descent, Settings
from outvote.learning.divergence import DivergenceError
from outvote.learning.epoch_blocks import narrow
from outvote.learning.losses import Loss
from outvote.learning.n_blocks import MOST_PAIRED, blocks_for, corrupt_in_share
from outvote.learning.outlier_scores import mean_losses, most_copies, outlier_scores, partners_for
from outvote.learning.parameters import PRESETS
from outvote.learning.problem import Problem
from outvote.learning.scaling import ScaledRows, robust_scaling
from outvote.learning.steps import Steps
from outvote.learning.voting import Cell, middle_blocks

Array = NDArray[Any]
T = TypeVar("T")
#: A fit under way: it asks for descents, is sent what they found, and can then be made together with others.
Fitting = Generator[Descent, Descended, T]

#: Rows in a block of the refit, in which all blocks count.
_MOST_POLISHED = 64
#: A row repeated more often than this, and than contamination allows, is worth a warning.
_FEW_COPIES = 4
#: Above this share of corrupt rows the parts of the outlier scores have been seen to turn round.
_INVERTED = 0.3


class RobustnessWarning(UserWarning):
    """The fit may be less robust than it looks.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, outvote as ov
    >>> x = np.random.default_rng(0).normal(size=(40, 2))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = ov.RobustRanker(contamination=0.2, random_state=0, max_iter=20).fit(x, x[:, 0])
    >>> print(caught[0].category.__name__, "-", str(caught[0].message)[:20])
    RobustnessWarning - 17 blocks of 2 rows:
    """


class RobustLearner(BaseEstimator):  # type: ignore[misc]
    """The parameters that all learners share, and the fit.

    Examples
    --------
    >>> import outvote as ov
    >>> issubclass(ov.RobustRanker, RobustLearner)
    True
    >>> sorted(ov.RobustRanker().get_params())[:4]
    ['algorithm', 'alpha', 'average', 'callbacks']
    """

    _degree: ClassVar[int] = 1
    #: What "auto" stands for in this learner, where outvote's own choice is another.
    _presets: ClassVar[dict[str, Any]] = {}

    #: A fit of the learner's own kind: it checks the input, learns from it and sets what is public.
    _fitting: Callable[..., Fitting[None]]

    def __init__(
        self,
        *,
        contamination: Any = 0.05,
        n_blocks: Any = "auto",
        loss: Any = "auto",
        algorithm: str = "robust",
        alpha: float = 0.0,
        max_iter: int = 300,
        step_rule: str = "auto",
        step_size: Any = "auto",
        schedule: str = "auto",
        momentum: float = 0.0,
        middle: Any = "auto",
        average: Any = "auto",
        scaling: Any = "auto",
        init: Any = "auto",
        polish: Any = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 20,
        tol: float = 1e-4,
        warm_start: bool = False,
        callbacks: Any = None,
        verbose: int = 0,
        random_state: Any = None,
        device: Any = None,
    ):
        self.contamination = contamination
        self.n_blocks = n_blocks
        self.loss = loss
        self.algorithm = algorithm
        self.alpha = alpha
        self.max_iter = max_iter
        self.step_rule = step_rule
        self.step_size = step_size
        self.schedule = schedule
        self.momentum = momentum
        self.middle = middle
        self.average = average
        self.scaling = scaling
        self.init = init
        self.polish = polish
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state
        self.device = device

    # --- parameters --------------------------------------------------------------------------------------

    def _setting(self, name: str) -> Any:
        if self.algorithm not in PRESETS:
            raise ValueError(f"algorithm={self.algorithm!r} is neither 'robust' nor 'paper'")
        value = getattr(self, name)
        if not (isinstance(value, str) and value == "auto"):
            return value
        own = self._presets if self.algorithm == "robust" else {}
        return own.get(name, PRESETS[self.algorithm][name])

    def _settings(self) -> Settings:
        """Read the parameters of the descent, or refuse them."""
        for name in ("max_iter", "n_iter_no_change"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
                raise ValueError(f"{name}={value!r} must be an integer of at least 1")
        for name in ("alpha", "tol"):
            value = getattr(self, name)
            if not isinstance(value, numbers.Real) or not 0 <= float(value) < math.inf:
                raise ValueError(f"{name}={value!r} must be a finite number of at least 0")
        if not 0 < self.validation_fraction < 1:
            raise ValueError(f"validation_fraction={self.validation_fraction!r} must lie strictly between 0 and 1")
        middle = self._setting("middle")
        if middle is not None and not 0 <= middle <= 1:
            raise ValueError(f"middle={middle!r} must be 'auto' or a share in [0, 1]")
        return Settings(
            Steps(self._setting("step_rule"), self._setting("step_size"), self._setting("schedule"), self.momentum),
            n_epochs=int(self.max_iter),
            alpha=float(self.alpha),
            average=bool(self._setting("average")) and not self.early_stopping,
            patience=int(self.n_iter_no_change) if self.early_stopping else None,
            tol=float(self.tol),
        )

    # --- blocks ------------------------------------------------------------------------------------------

    def _plan(self, n_rows: int, n_corrupt: int, contamination: Any = None) -> BlockPlan:
        """Choose the number of blocks for one sample, or refuse the contamination and name the largest that works."""
        degree, most = self._degree, n_rows // self._degree
        asked = n_corrupt if contamination is None else contamination
        if not (isinstance(self.n_blocks, str) and self.n_blocks == "auto"):
            k = _given_blocks(self.n_blocks, most, n_rows, degree)
            return BlockPlan(n_rows, k, n_corrupt, degree, "drop", "given", "The number of blocks was given.")
        if self.algorithm == "paper":
            plan = plan_blocks(n_rows, asked, degree=degree, method="harmonic")
            assert isinstance(plan, BlockPlan)
            return plan
        fewest = 2 * n_corrupt + 1
        if fewest > most:
            plan_blocks(n_rows, asked, degree=degree)  # refuses, and says what works
        k = blocks_for(n_rows, n_corrupt, degree)
        reason = "2·n_corrupt + 1 blocks: the largest blocks that corrupt rows cannot outvote."
        if k > fewest:
            reason = f"Blocks of at most {MOST_PAIRED} rows: pairs of larger ones cost more than they tell."
        return BlockPlan(n_rows, k, n_corrupt, degree, "drop", "learning", reason)

    def _cells(self, rows: Array, targets: Array, n_all: int, groups: Array | None) -> tuple[list[Cell], Any]:
        """Return the cells in which blocks vote, and the plan."""
        plan = self._plan(len(rows), *self._corrupt_among(len(rows), n_all))
        return [self._cell((rows,), plan.n_blocks, plan.n_corrupt, groups=groups)], plan

    def _corrupt_among(self, n_rows: int, n_all: int) -> tuple[int, Any]:
        """Return how many of some rows drawn from all may be corrupt, and what the user said."""
        contamination = Contamination.of(self.contamination)
        if n_rows == n_all:
            return contamination.count(n_all), contamination
        count = corrupt_in_share(contamination.count(n_all), n_rows, n_all, self._degree)
        return count, count

    def _cell(self, samples: tuple[Array, ...], n_blocks: int, n_corrupt: int, **options: Any) -> Cell:
        n_chosen = middle_blocks(n_blocks, n_corrupt, self._setting("middle"))
        return Cell(samples, n_blocks, n_chosen, clipped=self.algorithm == "robust" and n_corrupt > 0, **options)

    # --- the fit -----------------------------------------------------------------------------------------

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1, size=4))

    def _scaled(self, x: Array, intercept: bool, centred: bool) -> ScaledRows:
        centre, scale, place = np.zeros(x.shape[1]), np.ones(x.shape[1]), self._place
        if self._setting("scaling"):
            n_corrupt = max(Contamination.of(self.contamination).counts(self._sample_sizes(len(x))))
            centre, scale = place.robust_scaling(x, min(n_corrupt, (len(x) - 1) // 2))
            centre = centre if centred else np.zeros_like(centre)
        return cast(ScaledRows, place.rows(x, centre, scale, intercept))

    @property
    def _place(self) -> Any:
        """What puts rows, problems and descents where they belong."""
        if self.device is None:
            return _Host
        from outvote.torch.device.descent import OnDevice

        return OnDevice(self.device)

    def _sample_sizes(self, n_rows: int) -> tuple[int, ...]:
        return (n_rows,)

    def _start(self, loss: Loss, design: ScaledRows, n_scores: int, rng: np.random.Generator) -> Array:
        init = self._setting("init")
        zero = loss.start(design.n_columns, n_scores)
        if isinstance(init, str):
            if init == "zero":
                return zero
            if init == "normal":
                drawn = 0.1 * rng.standard_normal(zero.shape)
                if design.intercept:
                    drawn[-1] = 0.0
                return zero if zero.any() else drawn
            raise ValueError(f"init={init!r} is neither 'auto', 'zero', 'normal' nor an array of coefficients")
        given = np.asarray(init, dtype=np.float64)
        return self._theta_of(design, given.reshape(self._user_shape(zero, design)), 0.0)

    def _user_shape(self, zero: Array, design: ScaledRows) -> tuple[int, ...]:
        return (zero.shape[0] - design.intercept, *zero.shape[1:])

    def _theta_of(self, design: ScaledRows, coefficients: Array, intercept: Any) -> Array:
        return design.from_user(coefficients, intercept)

    def _last_theta(self, design: ScaledRows) -> Array:
        """Return the parameter of the last fit, for a warm start."""
        return self._theta_of(design, *self._user_parameters)

    def _run(self, fitting: Fitting[T]) -> T:
        """Make the descents that a fit asks for, one after the other."""
        try:
            asked = next(fitting)
            while True:
                try:
                    found = asked.run()
                except DivergenceError as error:
                    asked = fitting.throw(error)
                else:
                    asked = fitting.send(found)
        except StopIteration as done:
            return cast(T, done.value)

    def _learning(
        self,
        x: Array,
        targets: Array,
        loss: Any,
        *,
        n_scores: int = 1,
        intercept: bool = False,
        centred: bool = True,
        groups: Array | None = None,
        rows: Array | None = None,
    ) -> Fitting[ScaledRows]:
        """Learn from some rows (all by default) and set the fitted attributes; the design is returned."""
        settings, rng = self._settings(), self._generator()
        design = self._scaled(x, intercept, centred)
        rows = narrow(np.arange(len(x)) if rows is None else rows)
        trained, held = rows, None
        if self.early_stopping:
            trained, held = self._split(rows, targets, rng)
        cells, plan = self._cells(trained, targets, len(rows), groups)
        self._warn(x, targets, plan)
        problem = self._place.problem(design, targets, loss, cells, _penalised(design, loss, n_scores))
        held_out = None
        if held is not None:
            held_out = replace(problem, cells=self._cells(held, targets, len(rows), groups)[0])
        zero = loss.start(design.n_columns, n_scores)
        warm = self.warm_start and hasattr(self, "_user_parameters")
        start = self._last_theta(design) if warm else self._start(loss, design, n_scores, rng)
        found = yield self._place.descent(
            problem,
            start,
            rng,
            settings,
            held_out=held_out,
            callbacks=self.callbacks or (),
            verbose=self.verbose,
            reference=zero,
        )
        polish = self._setting("polish")
        polish = self._degree == 2 if polish is None else polish  # it helps pairs, and costs points a little
        if polish and any(one.n_corrupt for one in _plans(plan)):
            theta = yield from self._polishing(problem, found, trained, plan, settings, rng)
            found = replace(found, theta=theta)
        self._record(problem, found, plan, trained, rng)
        self._fitted_scaling = design.centre, design.scale
        return design

    def _split(self, rows: Array, targets: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        n_held = max(self._degree, math.ceil(self.validation_fraction * len(rows)))
        if len(rows) - n_held < self._degree:
            raise ValueError(
                f"validation_fraction={self.validation_fraction!r} leaves {len(rows) - n_held} of {len(rows)} rows to "
                "learn from: n_samples is too small for early_stopping"
            )
        order = rng.permutation(rows)
        return order[n_held:], order[:n_held]

    def _polishing(
        self, problem: Problem, found: Descended, rows: Array, plan: Any, settings: Settings, rng: np.random.Generator
    ) -> Fitting[Array]:
        """Refit without the most suspect rows, in blocks that all count; keep what the vote does not find much worse.

        The vote is biased towards rows that are easily explained. The refit is not, but it trusts every row that is
        left: it is thrown away if it loses a quarter of what the descent had gained.
        """
        n_corrupt = sum(one.n_corrupt for one in _plans(plan))
        trusted = np.ones(len(found.counts), dtype=bool)
        suspicion = self._suspicion(problem, found, rows, plan, rng)[rows]
        trusted[rows[np.argsort(suspicion, kind="stable")[len(rows) - n_corrupt :]]] = False
        del suspicion
        cells = []
        for cell in problem.cells:
            samples = tuple(sample[trusted[sample]] for sample in cell.samples)
            degree = self._degree if len(samples) == 1 else 1
            n_blocks = 1 if self._degree == 1 else -(-max(map(len, samples)) // _MOST_POLISHED)
            n_blocks = min(n_blocks, min(map(len, samples)) // degree)
            if n_blocks < 1:
                return found.theta
            cells.append(replace(cell, samples=samples, n_blocks=n_blocks, n_chosen=n_blocks, clipped=False))
        shorter = replace(settings, n_epochs=max(1, settings.n_epochs // 2), patience=None, average=True)
        try:
            theta = (yield self._place.descent(replace(problem, cells=cells), found.theta, rng, shorter)).theta
        except DivergenceError:
            return found.theta
        zero = problem.loss.start(*_shape_of(found.theta))
        worst, before, after = (problem.median_risk(at, rng) for at in (zero, found.theta, theta))
        return theta if after <= before + max(0.0, worst - before) / 4 else found.theta

    def _suspicion(self, problem: Problem, found: Descended, rows: Array, plan: Any, rng: np.random.Generator) -> Array:
        problem.forget_blocks()
        losses = self._losses_of_rows(problem, found.theta, found.counts, rows, rng)
        return self._scores(problem, found, losses, rows, plan)

    def _scores(self, problem: Problem, found: Descended, losses: Array, rows: Array, plan: Any) -> Array:
        n_epochs, n_corrupt = len(found.history.train_risk), sum(one.n_corrupt for one in _plans(plan))
        return outlier_scores(
            found.counts, losses, self._far_out(cast(ScaledRows, problem.design)), rows, n_epochs, n_corrupt
        )

    def _far_out(self, design: ScaledRows) -> Array:
        """Return how far out the rows lie in robustly scaled columns: a fit can be blind in some directions."""
        if not self._setting("scaling") or not design.centre.any():
            n_corrupt = max(Contamination.of(self.contamination).counts(self._sample_sizes(len(design.x))))
            n_corrupt = min(n_corrupt, (len(design.x) - 1) // 2)
            place = self._place
            design = place.rows(design.x, *place.robust_scaling(design.x, n_corrupt))
        return design.distances()

    def _losses_of_rows(
        self, problem: Problem, theta: Array, counts: Array, rows: Array, rng: np.random.Generator
    ) -> Array:
        """Return the loss of each row; for pairs, its mean loss with rows that were chosen often."""
        loss: Any = problem.loss
        with np.errstate(over="ignore", invalid="ignore"):
            if loss.degree == 1:
                losses = loss.values(loss.scores(problem.design, theta), problem.targets)
            else:
                trusted = rows[counts[rows] >= np.median(counts[rows])]
                n_partners = min(partners_for(len(problem.targets)), len(trusted))
                partners = rng.choice(trusted, size=n_partners, replace=False)
                losses = self._place.mean_losses(problem, theta, partners)
        losses[np.isnan(losses)] = np.inf
        return losses

    def _record(self, problem: Problem, found: Descended, plan: Any, rows: Array, rng: np.random.Generator) -> None:
        problem.forget_blocks()
        plans = _plans(plan)
        self.plan_ = plan
        self.n_blocks_ = plans[0].n_blocks if not isinstance(plan, tuple) else tuple(one.n_blocks for one in plans)
        self.history_ = found.history.to_dict()
        self.n_iter_ = found.n_epochs
        self.selection_counts_ = found.counts
        self.row_losses_ = self._losses_of_rows(problem, found.theta, found.counts, rows, rng)
        self.outlier_scores_ = self._scores(problem, found, self.row_losses_, rows, plan)
        self._theta = found.theta

    # --- warnings ----------------------------------------------------------------------------------------

    def _warn(self, x: Array, targets: Array, plan: Any) -> None:
        """Say what may go wrong."""
        for one in _plans(plan):
            if one.n_corrupt and one.block_size <= 2:
                _warn(
                    f"{one.n_blocks} blocks of {one.block_size} row{'s' * (one.block_size > 1)}: a vote of such blocks "
                    "says little, and the descent often fails. Fewer blocks (a smaller contamination) or more rows help"
                )
            if not one.holds:
                _warn(
                    f"n_blocks={one.n_blocks} survives {one.survives} corrupt rows, but contamination allows "
                    f"{one.n_corrupt}: take more than {2 * one.n_corrupt} blocks. Outlier scores may be turned round"
                )
            elif one.n_corrupt >= _INVERTED * one.n_rows:
                _warn(
                    f"{one.n_corrupt} of {one.n_rows} rows may be corrupt: with so many, selection counts and losses "
                    "are known to turn round, good rows looking bad, and outlier scores say less"
                )
        n_corrupt = sum(one.n_corrupt for one in _plans(plan))
        copies, first = most_copies(x, targets)
        if n_corrupt and copies > max(n_corrupt, _FEW_COPIES) and 2 * copies <= len(x):
            _warn(
                f"row {first} comes {copies} times, more often than the {n_corrupt} corrupt rows that contamination "
                "allows: if these copies are corrupt they can capture the fit. Remove them, or raise contamination"
            )

    # --- a few data at a time ----------------------------------------------------------------------------

    def _learn_more(
        self,
        x: Array,
        targets: Array,
        loss: Any,
        n_steps: int,
        *,
        n_scores: int = 1,
        intercept: bool = False,
        centred: bool = True,
    ) -> ScaledRows:
        """Take some more steps on these rows alone, with steps that shrink over all calls; the design is returned.

        Columns are scaled as they were in the first call, or in the last fit.
        """
        if not hasattr(self, "_fitted_scaling"):
            design = self._scaled(x, intercept, centred)
            self._fitted_scaling = design.centre, design.scale
        design = cast(ScaledRows, self._place.rows(x, *self._fitted_scaling, intercept))
        settings = self._settings()
        steps = replace(settings.steps, schedule="inverse" if settings.steps.schedule == "cosine" else "constant")
        if not hasattr(self, "_rng"):
            self._rng = self._generator()
        rows = np.arange(len(targets))
        cells, plan = self._cells(rows, targets, len(rows), None)
        self._warn(x, targets, plan)
        problem = self._place.problem(design, targets, loss, cells, _penalised(design, loss, n_scores))
        zero = loss.start(design.n_columns, n_scores)
        first = getattr(self, "n_iter_", 0) if hasattr(self, "_theta") else 0
        start = self._theta if hasattr(self, "_theta") else self._start(loss, design, n_scores, self._rng)
        settings = replace(settings, steps=steps, n_epochs=n_steps, average=False, patience=None)
        found = self._place.descent(problem, start, self._rng, settings, first_epoch=first, reference=zero).run()
        self._record(problem, found, plan, rows, self._rng)
        return design

    # --- checks of input ---------------------------------------------------------------------------------

    def _read(self, x: Any) -> Array:
        check_is_fitted(self)
        return validate_data(self, x, reset=False, dtype=[np.float64, np.float32])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_blocks_")


class _Host:
    """Where a fit runs without a device; `outvote.torch.device.descent.OnDevice` has the same names."""

    robust_scaling = staticmethod(robust_scaling)
    rows = ScaledRows
    problem = Problem
    descent = Descent
    mean_losses = staticmethod(mean_losses)


def _warn(message: str) -> None:
    """Warn at the first line outside of outvote: a fit on its own and fits made together come from different depths."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("outvote."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, RobustnessWarning, stacklevel=level)


def _shape_of(theta: Array) -> tuple[int, int]:
    return theta.shape[0], theta.shape[1] if theta.ndim == 2 else 1


def _penalised(design: ScaledRows, loss: Any, n_scores: int) -> Any:
    if not design.intercept:
        return 1.0
    marks = np.ones_like(loss.start(design.n_columns, n_scores))
    marks[-1] = 0.0
    return marks


def _plans(plan: Any) -> tuple[BlockPlan, ...]:
    if isinstance(plan, BlockPlan):
        return (plan,)
    return plan if isinstance(plan, tuple) else plan.samples


def _given_blocks(n_blocks: Any, most: int, n_rows: int, degree: int) -> int:
    if isinstance(n_blocks, bool) or not isinstance(n_blocks, numbers.Integral) or int(n_blocks) < 1:
        raise ValueError(f"n_blocks={n_blocks!r} must be 'auto' or an integer of at least 1")
    if int(n_blocks) > most:
        raise ValueError(
            f"n_blocks={n_blocks} leaves fewer than {degree} rows for a block: with {n_rows} rows the most is {most}"
        )
    return int(n_blocks)
