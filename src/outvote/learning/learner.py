"""The base class of all learners: their shared parameters, and `fit`, `partial_fit` and `certify`."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from outvote.assumptions.assumption import Bounded, Proportion
from outvote.blocks.plan import BlockPlan
from outvote.contamination import Contamination
from outvote.data.arguments import check_flags, is_number, real, whole
from outvote.estimate.result import RobustEstimate
from outvote.estimate.risk import certify_risk
from outvote.kernels.kernel import Kernel
from outvote.learning.arrays import Array
from outvote.learning.checks import classes_in, generator_of, refuse_input, refuse_tiny
from outvote.learning.descent import Callback, Settings
from outvote.learning.fit import Ballots, Fit, Task
from outvote.learning.n_blocks import is_auto, plan_one_sample
from outvote.learning.parameters import PRESETS
from outvote.learning.robustness_warnings import warn_of_blocks, warn_of_copies, warn_of_too_few_rows
from outvote.learning.scaling import ScaledRows
from outvote.learning.steps import Steps
from outvote.learning.trust import trusted_by_loss, worst
from outvote.learning.voting import Cell, middle_blocks


class HeldOutRisk(NamedTuple):
    """The losses of rows held out, or rows with a kernel that gives the loss of pairs; `bounded` if within [0, 1]."""

    samples: tuple[Array, ...]
    kernel: Kernel | None = None
    bounded: bool = False


@dataclass(kw_only=True, eq=False, repr=False)
class RobustLearner(BaseEstimator):  # type: ignore[misc]
    """The base class of all learners: their shared parameters, and `fit`, `partial_fit` and `certify`.

    Examples
    --------
    >>> import outvote as ov
    >>> issubclass(ov.RobustRanker, RobustLearner)
    True
    >>> sorted(ov.RobustRanker().get_params())[:4]
    ['algorithm', 'alpha', 'average', 'callbacks']
    """

    contamination: Any = 0.05
    n_blocks: Any = "auto"
    loss: Any = "auto"
    algorithm: str = "robust"
    alpha: float = 0.0
    max_iter: int = 300
    step_rule: str = "auto"
    step_size: Any = "auto"
    schedule: str = "auto"
    momentum: float = 0.0
    middle: Any = "auto"
    average: Any = "auto"
    scaling: Any = "auto"
    init: Any = "auto"
    finish: Any = "auto"
    early_stopping: bool = False
    validation_fraction: float = 0.2
    n_iter_no_change: int = 20
    tol: float = 1e-4
    warm_start: bool = False
    callbacks: Any = None
    verbose: int = 0
    random_state: Any = None
    device: Any = None

    #: What "auto" stands for in this learner, where it differs from `PRESETS`.
    _presets: ClassVar[dict[str, Any]] = {}
    #: The losses that `certify` bounds.
    _certified: ClassVar[tuple[str, ...]] = ("zero-one", "training")

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows and their targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Targets: numbers, or classes.

        Returns
        -------
        RobustLearner
            Itself.
        """
        Fit.begin(self, X, y).run()
        return self

    def partial_fit(self, X: Any, y: Any, n_steps: int = 10) -> Self:
        """Take `n_steps` more steps on these rows alone; the columns keep the scaling of the first call."""
        return self._fit_further(self._task(X, y, reset=not self.__sklearn_is_fitted__()), n_steps)

    def certify(
        self,
        X: Any,
        y: Any,
        contamination: Any = None,
        confidence: float = 0.95,
        *,
        loss: str = "zero-one",
        **options: Any,
    ) -> RobustEstimate:
        """Bound the risk on clean rows from above, given rows that were not used for the fit and may be corrupt.

        Parameters
        ----------
        X, y : array-like
            Rows held out, and their targets.
        contamination : float, int or Contamination, optional
            How many of them may be corrupt; by default as for the fit.
        confidence : float
            Confidence of the bound.
        loss : {"zero-one", "training"}
            *zero-one* is the share of errors. Classifier: rows with a wrong label. Ranker: pairs in the wrong order,
            where a pair with tied scores counts half and one with tied targets nothing. AUC classifier: 1 - AUC.
            Metric: pairs that the threshold d² = 2 puts on the wrong side. *training* is the loss that was minimised;
            to certify it, state an `assume`.
        **options
            As for `outvote.certify_risk`.

        Returns
        -------
        RobustEstimate
            ``interval.high`` is the bound.
        """
        refuse_input(X, y)
        if not isinstance(loss, str) or loss not in self._certified:
            raise ValueError(f"loss={loss!r} is neither {' nor '.join(map(repr, self._certified))}")
        samples, kernel, bounded = self._held_out_risk(X, y, loss)
        if bounded:
            options.setdefault("assume", Proportion() if kernel is None else Bounded(0, 1))
        allowed = self.contamination if contamination is None else contamination
        return certify_risk(*samples, kernel=kernel, contamination=allowed, confidence=confidence, **options)

    # --- what each learner defines -----------------------------------------------------------------------

    #: Check X and y and return what is fitted; `reset=False` continues an earlier fit.
    _task: ClassVar[Callable[..., Task]]
    #: Return what `certify` bounds, given X, y and the name of a loss.
    _held_out_risk: ClassVar[Callable[..., HeldOutRisk]]
    #: Set the public parameters from `_theta`, given the design and the targets.
    _set_parameters: ClassVar[Callable[..., None]]

    def _user_parameters(self) -> tuple[Array, Any]:
        """Return the public parameters of the last fit: coefficients and intercept."""
        return self.coef_, self.intercept_

    def _theta_of(self, design: ScaledRows, coefficients: Array, intercept: Any) -> Array:
        """Return the parameter of the descent that has these public parameters."""
        return design.from_user(coefficients, intercept)

    def _cells(
        self, samples: tuple[Array, ...], counts: tuple[int, ...], contamination: Any, task: Task
    ) -> tuple[list[Cell], Any]:
        """Return the cells in which the blocks of the samples vote, and the plan of the blocks."""
        (rows,), (n_corrupt,) = samples, counts
        plan = self._plan(len(rows), n_corrupt, contamination, task.loss.degree)
        return [self._cell((rows,), plan.n_blocks, n_corrupt, groups=task.groups)], plan

    def _trusted(self, ballots: Ballots) -> Array:
        """Return the rows to finish on: all if hardly one is contradicted, else all but the most suspect.

        Losses far above the others contradict a row, and so do losses above that of no fit, if there are some of them.
        """
        n_corrupt, scores = ballots.n_corrupt, ballots.far_scores()
        contradicted = ~trusted_by_loss(ballots.losses, scores, n_corrupt)
        if not contradicted.any() and 4 * (ballots.losses > ballots.neutral_risk()).sum() < n_corrupt:
            return ~contradicted
        suspect = np.where(contradicted, np.inf, ballots.outlier_scores())
        return ~worst(suspect, np.ones(len(suspect), dtype=bool), n_corrupt)

    def _can_finish(self, fit: Fit) -> bool:
        """Return whether the trusted rows are enough for a fit."""
        samples = fit.task.samples(np.flatnonzero(fit.trusted))
        return all(len(rows) >= (fit.task.loss.degree if len(samples) == 1 else 1) for rows in samples)

    def _warn(self, task: Task, plans: tuple[BlockPlan, ...], n_corrupt: int) -> None:
        """Warn of what may make the fit less robust; `n_corrupt` of all rows may be corrupt."""
        warn_of_blocks(plans)
        if not n_corrupt:
            warn_of_too_few_rows(self.contamination, len(task.x))
        warn_of_copies(task.x, task.targets, n_corrupt)

    # --- what all learners share -------------------------------------------------------------------------

    def _setting(self, name: str) -> Any:
        """Return a parameter, or what "auto" stands for."""
        if not isinstance(self.algorithm, str) or self.algorithm not in PRESETS:
            raise ValueError(f"algorithm={self.algorithm!r} is neither 'robust' nor 'paper'")
        value = getattr(self, name)
        if not is_auto(value):
            return value
        own = self._presets if self.algorithm == "robust" else {}
        return own.get(name, PRESETS[self.algorithm][name])

    def _settings(self) -> Settings:
        """Check the parameters of the descent and return them."""
        for name in ("max_iter", "n_iter_no_change"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
                raise ValueError(f"{name}={value!r} must be an integer of at least 1")
        for name in ("alpha", "tol"):
            value = getattr(self, name)
            if not (is_number(value) and 0 <= real(name, value) < math.inf):
                raise ValueError(f"{name}={value!r} must be a finite number of at least 0")
        if not (is_number(self.validation_fraction) and 0 < self.validation_fraction < 1):
            raise ValueError(f"validation_fraction={self.validation_fraction!r} must lie strictly between 0 and 1")
        if not isinstance(self.verbose, (bool, np.bool_)):
            whole("verbose", self.verbose)
        middle = self._setting("middle")
        if middle is not None and not (is_number(middle) and 0 <= middle <= 1):
            raise ValueError(f"middle={middle!r} must be 'auto' or a share in [0, 1]")
        return Settings(
            Steps(self._setting("step_rule"), self._setting("step_size"), self._setting("schedule"), self.momentum),
            n_epochs=int(self.max_iter),
            alpha=float(self.alpha),
            average=bool(self._setting("average")) and not self.early_stopping,
            patience=int(self.n_iter_no_change) if self.early_stopping else None,
            tol=float(self.tol),
        )

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(generator_of(self.random_state).randint(2**31 - 1, size=4))

    def _corrupt_rows(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Return how many rows of each sample may be corrupt: rounded up, if blocks of three rows are left."""
        allowed = Contamination.of(self.contamination)
        down = allowed.rounded_down(sizes)
        if self.algorithm == "paper":
            return down
        up = allowed.counts(sizes)
        return up if 3 * (2 * sum(up) + 1) <= min(sizes) else down

    def _plan(self, n_rows: int, n_corrupt: int, contamination: Any, degree: int) -> BlockPlan:
        """Plan the blocks of one sample."""
        chosen = {"n_blocks": self.n_blocks, "algorithm": self.algorithm}
        return plan_one_sample(n_rows, n_corrupt, degree, contamination=contamination, **chosen)

    def _cell(self, samples: tuple[Array, ...], n_blocks: int, n_corrupt: int, **options: Any) -> Cell:
        n_chosen = middle_blocks(n_blocks, n_corrupt, self._setting("middle"))
        return Cell(samples, n_blocks, n_chosen, clipped=self.algorithm == "robust" and n_corrupt > 0, **options)

    def _start(self, fit: Fit) -> Array:
        """Return the first parameter of a descent."""
        init, zero, design = self._setting("init"), fit.zero, fit.design
        if isinstance(init, str):
            if init == "zero":
                return zero
            if init == "normal":
                drawn = 0.1 * fit.rng.standard_normal(zero.shape)
                if design.intercept:
                    drawn[-1] = 0.0
                return zero if zero.any() else drawn
            raise ValueError(f"init={init!r} is neither 'auto', 'zero', 'normal' nor an array of coefficients")
        shape = (zero.shape[0] - design.intercept, *zero.shape[1:])
        try:
            given = np.asarray(init, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            given = np.empty(0)
        if given.size != math.prod(shape) or not np.isfinite(given).all():
            raise ValueError(f"init={init!r} must be 'auto', 'zero', 'normal' or finite coefficients of shape {shape}")
        return self._theta_of(design, given.reshape(shape), 0.0)

    def _fit_further(self, task: Task, n_steps: int) -> Self:
        fit = Fit.further(self, task, whole("n_steps", n_steps, 1))
        with fit.computing():
            fit.finish(fit.descent.run())
        return self

    def _check_rows(self, X: Any, y: Any, reset: bool, **checks: Any) -> tuple[Array, Array]:
        self._check_flags()
        refuse_input(X, y)
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # of sums that are only looked at
                x, y = validate_data(self, X, y, reset=reset, dtype=[np.float64, np.float32], **checks)
        except OverflowError:
            raise ValueError("X or y holds an integer that is too large for a float") from None
        refuse_tiny(x)
        if y.dtype == object:
            classes_in(y)  # refuses labels that have no order
        return x, y

    def _check_flags(self) -> None:
        chosen = {name: getattr(self, name) for name in ("scaling", "average", "finish")}
        plain = {name: getattr(self, name, True) for name in ("fit_intercept", "early_stopping", "warm_start")}
        check_flags(**plain, **{name: value for name, value in chosen.items() if not is_auto(value)})

    def _watchers(self) -> tuple[Callback, ...]:
        """Return the callbacks, checked."""
        given = () if self.callbacks is None else self.callbacks
        if not np.iterable(given) or not all(map(callable, given)):
            hint = ": put it into a list" if callable(given) else ""
            raise TypeError(f"callbacks={given!r} must be a sequence of functions of an outvote.learning.State{hint}")
        return tuple(given)

    def _read(self, X: Any) -> Array:
        check_is_fitted(self)
        refuse_input(X)
        return validate_data(self, X, reset=False, dtype=[np.float64, np.float32])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_blocks_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
