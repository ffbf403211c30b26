"""The one descent: deal the rows, let every block vote with its risk, step on the blocks in the middle, project.

Algorithm 1 of the paper with its variants. Points, pairs and pairs across two samples differ in their loss and in
their cells only; K = 1 is plain gradient descent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from outvote import _numba
from outvote.learning.dealing import Cell
from outvote.learning.losses import Design, Loss

Array = NDArray[Any]
StepRule = Literal["normalised", "clipped", "polyak", "plain"]
Schedule = Literal["constant", "cosine", "inverse"]

#: Epochs after which an inverse schedule has halved its step.
_HALVED_AFTER = 50
#: A fit whose median risk is so many times that of the start has gone astray.
_ASTRAY = 2.0
#: Numbers that the gradients of the chosen blocks may hold together.
_MOST_GRADIENTS = 2**22
#: Products of rows this wide and a parameter, with so many multiplications, are left to as many threads as numpy takes;
#: others are slower on several.
_WIDE, _LARGE = 100, 2**24
#: Rows counted at once.
_COUNTED = 2**16
#: Deals over which that risk is taken.
_CHECKS = 5


class DivergenceError(ArithmeticError):
    """The descent left for infinity, or ended worse than it began: there is no fit.

    ``theta`` is where it ended, in the scaled columns, for those who study failures.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = ov.RobustRegressor(algorithm="paper", loss="squared", step_size=1e3, random_state=0)
    >>> try:
    ...     model.fit(x, x[:, 0])
    ... except ov.learning.DivergenceError as error:
    ...     print(str(error)[:22])
    the median risk is inf
    """

    theta: Array | None = None


@dataclass(frozen=True)
class Steps:
    """How far each epoch goes.

    Parameters
    ----------
    rule : {"normalised", "clipped", "polyak", "plain"}
        *normalised*: the step has length γ_t. *clipped*: γ_t·g, with the gradient cut to length 1. *polyak*:
        risk/‖g‖, at most γ_t. *plain*: γ_t·g, as in the paper, and unbounded.
    size : float
        γ_0.
    schedule : {"constant", "cosine", "inverse"}
        *cosine* goes to 0 at the last epoch. *inverse*: γ_t = γ_0/(1 + t/50), for which Σγ_t = ∞ and Σγ_t² < ∞, as
        Theorem 2 asks.
    momentum : float
        Share of the last direction that is kept, in [0, 1).

    Examples
    --------
    >>> steps = Steps(size=0.1, schedule="cosine")
    >>> [round(steps.length(epoch, 100), 3) for epoch in (0, 50, 100)]
    [0.1, 0.05, 0.0]
    """

    rule: StepRule = "normalised"
    size: float = 0.1
    schedule: Schedule = "cosine"
    momentum: float = 0.0

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("step_rule", self.rule, get_args(StepRule)),
            ("schedule", self.schedule, get_args(Schedule)),
        ):
            if value not in choices:
                raise ValueError(f"{name}={value!r} is not one of {', '.join(map(repr, choices))}")
        if not 0 < self.size < math.inf:
            raise ValueError(f"step_size={self.size!r} must be a positive number")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum={self.momentum!r} must lie in [0, 1)")

    def length(self, epoch: int, n_epochs: int) -> float:
        """Return γ_t."""
        if self.schedule == "cosine":
            return self.size * (1 + math.cos(math.pi * epoch / max(n_epochs, 1))) / 2
        if self.schedule == "inverse":
            return self.size / (1 + epoch / _HALVED_AFTER)
        return self.size

    def step(self, direction: Array, risk: float, length: float) -> Array:
        """Return what is taken off the parameter."""
        return self.step_of_each(direction[None], [risk], length)[0]

    def step_of_each(self, directions: Array, risks: Sequence[float], length: float) -> Array:
        """Return the same for several runs, which are the first axis."""
        if self.rule == "plain":
            return length * directions
        norms = _norms(directions).tolist()
        factors = [self._factor(norm, risk, length) for norm, risk in zip(norms, risks, strict=True)]
        return np.array(factors).reshape(-1, *[1] * (directions.ndim - 1)) * directions

    def _factor(self, norm: float, risk: float, length: float) -> float:
        if norm == 0 or not math.isfinite(norm):
            return 0.0 if norm == 0 else 1.0
        if self.rule == "clipped":
            return length * min(1.0, 1 / norm)
        if self.rule == "polyak":
            return min(length, risk / norm) / norm
        return length / norm


@dataclass(frozen=True)
class Settings:
    """What a descent is told besides its problem.

    Examples
    --------
    >>> Settings(n_epochs=50, alpha=0.1).steps.rule
    'normalised'
    """

    steps: Steps = Steps()
    n_epochs: int = 300
    alpha: float = 0.0
    average: bool = True
    patience: int | None = None
    tol: float = 1e-4


DEFAULTS = Settings()


@dataclass(frozen=True)
class State:
    """What a callback sees after each epoch; it stops the descent by returning True.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> def stop_early(state):
    ...     return state.epoch == 4
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> ov.RobustRegressor(callbacks=[stop_early], random_state=0).fit(x, x[:, 0]).n_iter_
    5
    """

    epoch: int
    n_epochs: int
    theta: Array
    risk: float
    held_out_risk: float | None
    step: float


@dataclass
class History:
    """One entry an epoch: the median block's risk before the step, the blocks chosen, the risk on rows held out."""

    train_risk: list[float] = field(default_factory=list)
    selected_blocks: list[Array] = field(default_factory=list)
    held_out_risk: list[float] = field(default_factory=list)
    step: list[float] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return arrays by name; the selected blocks stay a list, one array an epoch."""
        return {
            "train_risk": np.array(self.train_risk),
            "selected_blocks": list(self.selected_blocks),
            "held_out_risk": np.array(self.held_out_risk),
            "step": np.array(self.step),
        }


@dataclass(frozen=True)
class Problem:
    """Rows, targets, a loss, and the cells in which blocks vote.

    `penalised` marks the parameters that the L2 penalty touches (not the intercept).

    Examples
    --------
    >>> from outvote.learning.dealing import Cell
    >>> from outvote.learning.losses import Squared
    >>> from outvote.learning.scaling import ScaledRows
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> design = ScaledRows(x, centre=np.zeros(2), scale=np.ones(2))
    >>> cells = [Cell(samples=(np.arange(200),), n_blocks=21, n_chosen=5)]
    >>> problem = Problem(design, x @ [2.0, 1.0], Squared(), cells)
    >>> problem.median_risk(np.array([2.0, 1.0]), np.random.default_rng(0))
    0.0
    """

    design: Design
    targets: Array
    loss: Loss
    cells: Sequence[Cell]
    penalised: Any = 1.0

    def epoch(self, theta: Array, rng: np.random.Generator, counts: Array) -> tuple[float, float, Array, Array]:
        """Deal, vote and choose: the median risk, that of the chosen blocks, the gradient there, the blocks chosen."""
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self.loss.scores(self.design, theta)
        middle = mean = 0.0
        gradient: Any = 0.0
        selected = []
        for cell in self.cells:
            dealt = cell.deal(rng)
            risks = cell.risks(self.loss, scores, self.targets, dealt)
            chosen = cell.choose(risks, rng)
            if len(chosen) * theta.size > _MOST_GRADIENTS:  # any of them will do
                chosen = rng.choice(chosen, size=max(1, _MOST_GRADIENTS // theta.size), replace=False)
            rows = tuple(deal.rows(chosen if len(chosen) < cell.n_blocks else None) for deal in dealt)
            gradient = gradient + cell.weight * cell.gradient(self.loss, self.design, scores, self.targets, rows)
            alone = cell.n_chosen == 1 and cell.groups is None  # it is the median
            own = float(risks[chosen[0]])
            middle += cell.weight * (own if alone else _lower_median(risks))
            mean += cell.weight * (own if alone else float(risks[chosen].mean()))
            for taken in rows:
                _count(taken, counts)
            selected.append(chosen.astype(np.int32))
        return middle, mean, gradient, selected[0] if len(selected) == 1 else np.concatenate(selected)

    def median_risk(self, theta: Array, rng: np.random.Generator) -> float:
        """Return the median of block risks, the median over a few deals: one may be unlucky."""
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self.loss.scores(self.design, theta)
        each = [
            sum(
                cell.weight * _lower_median(cell.risks(self.loss, scores, self.targets, cell.deal(rng)))
                for cell in self.cells
            )
            for _ in range(_CHECKS)
        ]
        return float(np.median(each))


@dataclass(frozen=True)
class Descended:
    """Where a descent ended, and what it saw."""

    theta: Array
    history: History
    counts: Array
    n_epochs: int


Callback = Callable[[State], Any]


class Watch:
    """Looks at a descent after each epoch: keeps the best parameter on rows held out, and says when to stop."""

    def __init__(
        self, start: Array, settings: Settings, callbacks: Sequence[Callback], history: History, first_epoch: int
    ):
        self.settings, self.callbacks, self.history = settings, callbacks, history
        self.best, self.best_risk, self.best_epoch = start, math.inf, first_epoch

    def stops(self, state: State) -> bool:
        """Return whether a callback stops the descent, or patience is at its end."""
        settings, judged = self.settings, state.held_out_risk
        if judged is not None:
            self.history.held_out_risk.append(judged)
            if judged < self.best_risk - settings.tol * abs(self.best_risk if math.isfinite(self.best_risk) else 1.0):
                self.best, self.best_risk, self.best_epoch = state.theta, judged, state.epoch
        asked = [callback(state) is True for callback in self.callbacks]  # every one is called
        impatient = judged is not None and settings.patience and state.epoch - self.best_epoch >= settings.patience
        return any(asked) or bool(impatient)


def descend(
    problem: Problem,
    start: Array,
    rng: np.random.Generator,
    settings: Settings = DEFAULTS,
    *,
    held_out: Problem | None = None,
    callbacks: Sequence[Callback] = (),
    verbose: int = 0,
    first_epoch: int = 0,
    reference: Array | None = None,
) -> Descended:
    """Minimise the median of block risks.

    Parameters
    ----------
    problem : Problem
        What is minimised.
    start : ndarray
        The first parameter.
    rng : Generator
        Deals and breaks ties.
    settings : Settings
        Steps, epochs, penalty, averaging, patience.
    held_out : Problem, optional
        Rows on which the descent is judged: with a `patience` it stops when the median risk there has not gone down
        for so many epochs, and returns the best parameter.
    callbacks : sequence of callable
        Called with a `State` after each epoch; True stops.
    verbose : int
        1 shows a progress bar.
    first_epoch : int
        Number of the first epoch, where an earlier descent goes on.
    reference : ndarray, optional
        A parameter that knows nothing: the fit must not be far worse than it, nor than the start.

    Returns
    -------
    Descended
        Parameter, history, and how often each row sat in a chosen block.

    Raises
    ------
    DivergenceError
        When the parameter or the median risk is no longer finite, or the median risk at the end is more than twice
        that of the start.

    Examples
    --------
    >>> from outvote.learning.dealing import Cell
    >>> from outvote.learning.losses import Squared
    >>> from outvote.learning.scaling import ScaledRows
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = x @ [2.0, 1.0]
    >>> y[:10] = 1e6
    >>> cells = [Cell(samples=(np.arange(200),), n_blocks=21, n_chosen=5)]
    >>> problem = Problem(ScaledRows(x, centre=np.zeros(2), scale=np.ones(2)), y, Squared(), cells)
    >>> found = descend(problem, np.zeros(2), np.random.default_rng(0))
    >>> found.theta.round(1), found.n_epochs
    (array([2., 1.]), 300)
    """
    descent = Descent(problem, start, rng, settings, held_out, callbacks, verbose, first_epoch, reference)
    (found,) = descend_in_step([descent], _Alone(descent))
    if isinstance(found, DivergenceError):
        raise found
    return found


@dataclass(frozen=True)
class Descent:
    """A descent to be made: what `descend` is told."""

    problem: Problem
    start: Array
    rng: np.random.Generator
    settings: Settings = DEFAULTS
    held_out: Problem | None = None
    callbacks: Sequence[Callback] = ()
    verbose: int = 0
    first_epoch: int = 0
    reference: Array | None = None


class Runs(Protocol):
    """The problems of runs that descend in step: the first axis of parameters, counts, risks and gradients is runs."""

    penalised: Any

    def epoch(self, theta: Array, counts: Array) -> tuple[list[float], list[float], Array, list[Array]]:
        """Do for every run what `Problem.epoch` does."""

    def project(self, theta: Array) -> Array:
        """Return the nearest parameters that are allowed."""

    def only(self, places: Array) -> Runs:
        """Return some of the runs."""


class _Alone:
    """One problem as runs; the loss gets to see the very parameter that it has projected."""

    def __init__(self, descent: Descent):
        self.problem, self.rng, self.penalised = descent.problem, descent.rng, descent.problem.penalised
        self._own = self._shown = descent.start

    def epoch(self, theta: Array, counts: Array) -> tuple[list[float], list[float], Array, list[Array]]:
        own = self._own if theta is self._shown else theta[0]
        risk, chosen_risk, gradient, selected = self.problem.epoch(own, self.rng, counts[0])
        return [risk], [chosen_risk], gradient[None], [selected]

    def project(self, theta: Array) -> Array:
        self._own = self.problem.loss.project(theta[0])
        self._shown = self._own[None]
        return self._shown

    def only(self, places: Array) -> Runs:
        return self


class _Run:
    """What is one run's alone: its history, who watches it, and how it ends."""

    def __init__(self, descent: Descent):
        self.descent, self.history = descent, History()
        self.watch = Watch(descent.start, descent.settings, descent.callbacks, self.history, descent.first_epoch)
        self.watched = bool(descent.callbacks) or descent.held_out is not None
        self.error: DivergenceError | None = None
        self.leave(descent.start, np.zeros(len(descent.problem.targets), dtype=np.int32), descent.first_epoch)

    def stops(self, epoch: int, last: int, theta: Array, risk: float, step: float) -> bool:
        if not self.watched:
            return False
        held_out, rng = self.descent.held_out, self.descent.rng
        judged = None if held_out is None else held_out.median_risk(theta, rng)
        return self.watch.stops(State(epoch, last, theta, risk, judged, step))

    def leave(self, theta: Array, counts: Array, n_epochs: int) -> None:
        """Stop here: `theta` is the last parameter, or the mean of some."""
        self.theta, self.counts, self.n_epochs = theta, counts, n_epochs

    def outcome(self) -> Descended | DivergenceError:
        if self.error is not None:
            return self.error
        descent, theta = self.descent, self.theta
        if descent.held_out is not None:
            theta = self.watch.best
        try:
            starts = [descent.start] if descent.reference is None else [descent.start, descent.reference]
            _check_progress(descent.problem, starts, theta, descent.rng)
        except DivergenceError as error:
            return error
        return Descended(theta, self.history, self.counts, self.n_epochs)


def descend_in_step(descents: Sequence[Descent], runs: Runs) -> list[Descended | DivergenceError]:
    """Make some descents, all of the same shape and settings, epoch by epoch; one that goes astray leaves the others.

    `runs` are their problems.
    """
    settings, first = descents[0].settings, descents[0].first_epoch
    steps, last = settings.steps, first + settings.n_epochs
    every = going = [_Run(descent) for descent in descents]
    theta = np.stack([descent.start for descent in descents])
    velocity, total, n_averaged = np.zeros_like(theta), np.zeros_like(theta), 0
    counts: Array = np.zeros((len(descents), len(descents[0].problem.targets)), dtype=np.int32)
    ignored = np.errstate(over="ignore", invalid="ignore")
    large = theta.shape[1] >= _WIDE and len(descents[0].problem.targets) * theta[0].size >= _LARGE
    threads = nullcontext() if large else _numba.one_thread()
    with _progress(settings.n_epochs, descents[0].verbose) as advance, ignored, threads:
        for epoch in range(first, last):
            risk, chosen_risk, gradient, selected = runs.epoch(theta, counts)
            if settings.alpha:
                gradient = gradient + settings.alpha * runs.penalised * theta
            velocity = steps.momentum * velocity + gradient
            moved = theta - steps.step_of_each(velocity, chosen_risk, steps.length(epoch, last))
            stays = [True] * len(going)
            if not (np.isfinite(moved).all() and all(map(math.isfinite, risk))):
                for at, run in enumerate(going):
                    run.error = _astray(theta[at], risk[at], moved[at], epoch)
                    if run.error is not None:
                        moved[at], stays[at] = theta[at], False
            moved = runs.project(moved)
            lengths, theta = _norms(moved - theta), moved
            if settings.average and 2 * (epoch + 1 - first) > settings.n_epochs:
                total, n_averaged = total + theta, n_averaged + 1
            each = zip(going, risk, selected, lengths.tolist(), strict=True)
            for at, (run, own, blocks, step) in enumerate(each):
                if run.error is not None:
                    continue
                run.history.train_risk.append(own)
                run.history.selected_blocks.append(blocks)
                run.history.step.append(step)
                advance(own)
                stays[at] = not run.stops(epoch, last, theta[at], own, step) and epoch + 1 < last
                if not stays[at]:
                    mean = run.descent.problem.loss.project(total[at] / n_averaged) if n_averaged else theta[at]
                    run.leave(mean, counts[at], epoch + 1)
            if not all(stays):
                places = np.flatnonzero(stays)
                if not len(places):
                    break
                going, runs = [going[at] for at in places], runs.only(places)
                theta, velocity, total = theta[places], velocity[places], total[places]
                counts = counts[places]
    return [run.outcome() for run in every]


def _norms(stack: Array) -> Array:
    """Return the length of each array of a stack."""
    flat = stack.reshape(len(stack), -1)
    return np.sqrt(np.add.reduce(flat * flat, axis=1))


def _astray(theta: Array, risk: float, moved: Array, epoch: int) -> DivergenceError | None:
    try:
        _check(theta, risk, epoch)
        _finite(moved, epoch)
    except DivergenceError as error:
        return error
    return None


def _count(rows: Array, counts: Array) -> None:
    """Count each of some distinct rows once more, a part at a time: numpy writes down what it is to add up."""
    flat = rows.reshape(-1)
    for low in range(0, len(flat), _COUNTED):
        counts[flat[low : low + _COUNTED]] += 1


def _lower_median(risks: Array) -> float:
    return float(_lower_medians(risks))


def _lower_medians(risks: Array) -> Array:
    """Return the median along the last axis, the lower one where there are two."""
    place = (risks.shape[-1] - 1) // 2
    return np.asarray(np.partition(risks, place)[..., place])


def _finite(theta: Array, epoch: int) -> Array:
    if not np.isfinite(theta).all():
        raise DivergenceError(
            f"the parameter is no longer finite after epoch {epoch}: take a smaller step_size, or "
            "step_rule='normalised', whose steps are bounded"
        )
    return theta


def _check(theta: Array, risk: float, epoch: int) -> None:
    if not math.isfinite(risk):
        raise DivergenceError(
            f"the median risk is {risk} at epoch {epoch} (parameter of length {np.linalg.norm(theta):.3g}): more "
            "blocks are spoiled than the contamination allows, or the step_size is too large"
        )


def _check_progress(problem: Problem, starts: Sequence[Array], theta: Array, rng: np.random.Generator) -> None:
    before, after = max(problem.median_risk(start, rng) for start in starts), problem.median_risk(theta, rng)
    if not after <= _ASTRAY * before + 1e-9:
        error = DivergenceError(
            f"the median risk went from {before:.3g} to {after:.3g}: the descent was captured by corrupt rows or its "
            "steps were too large. Allow for more contamination, take a smaller step_size, or algorithm='robust'"
        )
        error.theta = theta
        raise error


@contextmanager
def _progress(n_epochs: int, verbose: int) -> Iterator[Callable[[float], None]]:
    """Yield a function to call after each epoch: it moves a bar (rich), or prints ten lines where rich is missing."""
    if not verbose:
        yield lambda risk: None
        return
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        yield _Lines(n_epochs)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as bar:
        task = bar.add_task("descent", total=n_epochs)
        yield lambda risk: bar.update(task, advance=1, description=f"median risk {risk:.4g}")


class _Lines:
    def __init__(self, n_epochs: int):
        self.n_epochs, self.done = n_epochs, 0

    def __call__(self, risk: float) -> None:
        self.done += 1
        if self.done % max(1, self.n_epochs // 10) == 0:
            print(f"epoch {self.done} of {self.n_epochs}: median risk {risk:.4g}")
