"""What the learners share: parameters, the number of blocks, the fit itself, outlier scores, warnings and refusals."""

from __future__ import annotations

import math
import numbers
import warnings
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from outvote.blocks import plan_blocks
from outvote.contamination import Contamination
from outvote.learning.dealing import Cell, middle_blocks, narrow
from outvote.learning.descent import Descended, DivergenceError, Problem, Settings, Steps, descend
from outvote.learning.losses import Loss
from outvote.learning.scaling import ScaledRows, robust_scaling
from outvote.plans import BlockPlan

Array = NDArray[Any]

#: Pairs grow with the square of a block: beyond this many rows more blocks cost less and lose nothing.
_MOST_PAIRED = 256
#: Rows in a block of the refit, in which all blocks count.
_MOST_POLISHED = 64
#: Rows against which the loss of a pair's row is taken: at least, at most, and pairs in all.
_PARTNERS = 32, 256, 2**24
#: Rows whose scores are put together at once.
_AT_ONCE = 2**16
#: A row repeated more often than this, and than contamination allows, is worth a warning.
_FEW_COPIES = 4
#: Above this share of corrupt rows the parts of the outlier scores have been seen to turn round.
_INVERTED = 0.3

PRESETS: dict[str, dict[str, Any]] = {
    "robust": {
        "step_rule": "normalised",
        "step_size": 0.1,
        "schedule": "cosine",
        "middle": None,
        "average": True,
        "scaling": True,
        "init": "zero",
        "polish": None,
    },
    "paper": {
        "step_rule": "plain",
        "step_size": 0.1,
        "schedule": "constant",
        "middle": 0.0,
        "average": False,
        "scaling": False,
        "init": "normal",
        "polish": False,
    },
}
"""What "auto" stands for: outvote's own choice, made for not failing, and Algorithm 1 of the paper."""

COMMON_PARAMETERS = """contamination : float, int or Contamination, default=0.05
        How many of the rows may be corrupt: a fraction or a count. Too low is dangerous, too high costs a little.
    n_blocks : "auto" or int, default="auto"
        Blocks (K): 2·n_corrupt + 1, or the harmonic rule under ``algorithm="paper"``; 1 is plain gradient descent.
    algorithm : {"robust", "paper"}, default="robust"
        What "auto" means below. *robust*: middle quarter of the blocks, scaled columns, normalised steps, averaging.
        *paper*: Algorithm 1 as it stands (median block, plain steps, start at 0.1·N(0, I), columns as they come).
    alpha : float, default=0.0
        L2 penalty, alpha/2·‖w‖², on scaled columns; never on an intercept.
    max_iter : int, default=300
        Epochs.
    step_rule : {"auto", "normalised", "clipped", "polyak", "plain"}
        See `outvote.learning.Steps`.
    step_size : "auto" or float
        Length of the first step (0.1; 0.3 for a metric), or factor of the gradient where the rule is plain (0.1).
    schedule : {"auto", "constant", "cosine", "inverse"}
        How it shrinks; *inverse* satisfies the conditions of Theorem 2.
    momentum : float, default=0.0
        Share of the last direction that is kept.
    middle : "auto" or float
        Share of the blocks, in the middle of the risks, whose gradient is taken; 0 is the median block alone. It is
        narrowed by itself where corrupt blocks could reach into it.
    average : "auto" or bool
        Return the mean of the last half of the path.
    scaling : "auto" or bool
        Centre and scale the columns, robustly, inside. Coefficients are in the units of the columns as they came.
    init : {"auto", "zero", "normal"} or ndarray
        Start: no knowledge, 0.1·N(0, I), or coefficients given.
    polish : "auto" or bool
        Refit without the most suspect rows, as many as may be corrupt, and keep the refit unless the vote of the blocks
        finds it much worse. By default pairs are refitted, single rows are not.
    early_stopping : bool, default=False
        Stop when the median risk on rows held out stops falling, and keep the best parameter.
    validation_fraction : float, default=0.2
        Share of the rows held out for that.
    n_iter_no_change : int, default=20
        Epochs without progress after which to stop.
    tol : float, default=1e-4
        What counts as progress, relative to the risk.
    warm_start : bool, default=False
        Start from the last fit.
    callbacks : sequence of callable, optional
        Called with an `outvote.learning.State` after each epoch; one that returns True stops.
    verbose : int, default=0
        1 shows a progress bar.
    random_state : int, RandomState or None
        Seed."""

DEVICE_PARAMETER = """device : str or torch.device, optional
        Where the descent runs: "cuda", say, or "cpu" (torch on the processor), which need the extra `torch`. None is
        numpy. Rows go there once and keep their dtype; what is learnt comes back as numpy. The host waits at the end,
        and after every epoch with `early_stopping`, `callbacks` or `verbose`."""

COMMON_ATTRIBUTES = """n_blocks_ : int or tuple of int
        Blocks, of each class where the classes are dealt separately.
    plan_ : BlockPlan, GridPlan or tuple of BlockPlan
        The same, with the reason: ``print(plan_.explain())``.
    history_ : dict
        One entry an epoch: ``train_risk`` (of the median block), ``selected_blocks``, ``held_out_risk``, ``step``.
    selection_counts_ : ndarray
        How often each row sat in a chosen block; few is suspect.
    row_losses_ : ndarray
        Loss of each row under the fit; for pairs, its mean loss with rows that were chosen often.
    outlier_scores_ : ndarray
        In standard deviations, high is suspect: a third of how seldom the row was chosen, or its loss and how far out
        it lies in its columns together, if that is more. They turn round where the fit is captured.
    n_iter_ : int
        Epochs run.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn."""


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


def documented(cls: type[Any]) -> type[Any]:
    """Write the common parameters and attributes into a learner's docstring."""
    if cls.__doc__:
        for name, text in (
            ("{parameters}", COMMON_PARAMETERS),
            ("{device}", DEVICE_PARAMETER),
            ("{attributes}", COMMON_ATTRIBUTES),
        ):
            cls.__doc__ = cls.__doc__.replace(name, text)
    return cls


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
        k, reason = fewest, "2·n_corrupt + 1 blocks: the largest blocks that corrupt rows cannot outvote."
        if degree == 2 and n_rows // k > _MOST_PAIRED:
            k = _odd(-(-n_rows // _MOST_PAIRED))
            reason = f"Blocks of at most {_MOST_PAIRED} rows: pairs of larger ones cost more than they tell."
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
        from outvote.torch.descent import OnDevice

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

    def _learn(
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
    ) -> ScaledRows:
        """Run the descent on some rows (all by default) and set the fitted attributes; the design is returned."""
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
        found = self._place.descend(
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
            found = replace(found, theta=self._polished(problem, found, trained, plan, settings, rng))
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

    def _polished(
        self, problem: Problem, found: Descended, rows: Array, plan: Any, settings: Settings, rng: np.random.Generator
    ) -> Array:
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
            theta = self._place.descend(replace(problem, cells=cells), found.theta, rng, shorter).theta
        except DivergenceError:
            return found.theta
        zero = problem.loss.start(*_shape_of(found.theta))
        worst, before, after = (problem.median_risk(at, rng) for at in (zero, found.theta, theta))
        return theta if after <= before + max(0.0, worst - before) / 4 else found.theta

    def _suspicion(self, problem: Problem, found: Descended, rows: Array, plan: Any, rng: np.random.Generator) -> Array:
        _forget(problem)
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
        _forget(problem)
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
        found = self._place.descend(problem, start, self._rng, settings, first_epoch=first, reference=zero)
        self._record(problem, found, plan, rows, self._rng)
        return design

    # --- checks of input ---------------------------------------------------------------------------------

    def _read(self, x: Any) -> Array:
        check_is_fitted(self)
        return validate_data(self, x, reset=False, dtype=[np.float64, np.float32])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_blocks_")


def corrupt_in_share(count: int, n_rows: int, n_all: int, degree: int) -> int:
    """Return how many of some rows, drawn at random from all, may be corrupt: two standard deviations above the mean.

    Examples
    --------
    >>> corrupt_in_share(20, 80, 100, 1), corrupt_in_share(20, 10, 100, 2)
    (20, 2)
    """
    share = n_rows / n_all
    likely = math.ceil(count * share + 2 * math.sqrt(count * share * (1 - share)))
    return max(0, min(count, likely, (n_rows // degree - 1) // 2))


def partners_for(n_rows: int) -> int:
    """Return against how many rows the loss of a pair's row is taken: the fewer, the more rows there are."""
    fewest, most, in_all = _PARTNERS
    return min(max(fewest, in_all // n_rows), most)


def mean_losses(problem: Problem, theta: Array, partners: Array) -> Array:
    """Return the mean loss of each row with some others."""
    loss: Any = problem.loss
    scores, targets = loss.scores(problem.design, theta), problem.targets
    losses = np.empty(len(scores))
    strip = max(1, 2**16 // max(1, scores[partners].size))
    for low in range(0, len(scores), strip):
        i = np.s_[low : low + strip]
        values = loss.value(scores[i, None], scores[None, partners], targets[i, None], targets[None, partners])
        losses[i] = values.mean(axis=1)
    return losses


def outlier_scores(
    counts: Array, losses: Array, distances: Array, rows: Array, n_epochs: int, n_corrupt: int = 0
) -> Array:
    """Return, for each row, the larger of two suspicions in standard deviations, taken without the largest values.

    A row that sits in chosen blocks less often than others spoils its blocks; this counts a third. A row with a large
    loss is not explained by the fit, and one far out in its columns may be a wrong unit: these two add up. Each is
    blind where others see.
    """
    chosen = counts[rows]
    share, usual = chosen.mean() / max(n_epochs, 1), np.median(chosen, overwrite_input=True)
    del chosen
    spread = math.sqrt(max(n_epochs * share * (1 - share), 1.0))
    scores = np.zeros(len(counts))
    for values in (losses, distances):
        middle, scale = _middle_and_spread(values, max(1, len(values) - n_corrupt))
        for low in range(0, len(values), _AT_ONCE):
            part = np.s_[low : low + _AT_ONCE]
            scores[part] += np.maximum((values[part] - middle) / scale, 0.0)
    for low in range(0, len(rows), _AT_ONCE):
        some = rows[low : low + _AT_ONCE]
        seldom = (usual - counts[some]) / (3 * spread)  # by chance alone some are chosen seldom
        scores[some] = np.maximum(scores[some], seldom)
    return scores


def _middle_and_spread(values: Array, n_kept: int) -> tuple[float, float]:
    """Return the median of the finite values, and the standard deviation of the smallest ones."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return -math.inf, 1.0
    middle = float(np.median(finite, overwrite_input=True))
    finite.sort()
    kept = finite[:n_kept]
    kept -= kept.mean()
    return middle, math.sqrt(float(kept @ kept) / len(kept)) or 1.0


def most_copies(x: Array, targets: Array) -> tuple[int, int]:
    """Return how often the most frequent row (with its target) comes, and where it comes first."""
    weights = np.random.default_rng(0).standard_normal(x.shape[1] + 1)
    with np.errstate(over="ignore", invalid="ignore"):
        keys = (x @ weights[:-1].astype(x.dtype)).astype(np.float64, copy=False)
        keys += weights[-1] * targets
    ordered = np.sort(keys)
    again = np.flatnonzero(ordered[1:] == ordered[:-1])
    if not len(again):
        return 1, 0
    starts = np.flatnonzero(np.diff(again, prepend=-2) != 1)
    longest = int(np.argmax(np.diff(starts, append=len(again))))
    run = np.flatnonzero(keys == ordered[again[starts[longest]]])
    alike = (x[run] == x[run[0]]).all(axis=1) & (targets[run] == targets[run[0]])
    return int(alike.sum()), int(run[0])


class _Host:
    """Where a fit runs without a device; `outvote.torch.descent.OnDevice` has the same names."""

    robust_scaling = staticmethod(robust_scaling)
    rows = ScaledRows
    problem = Problem
    descend = staticmethod(descend)
    mean_losses = staticmethod(mean_losses)


def _forget(problem: Problem) -> None:
    """Let go of deals before the scores of all rows are taken."""
    for cell in problem.cells:
        cell.forget()


def _warn(message: str) -> None:
    warnings.warn(message, RobustnessWarning, stacklevel=6)


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


def _odd(k: int) -> int:
    return k + 1 - k % 2
