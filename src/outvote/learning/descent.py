"""Gradient descent on the median of the block risks: Algorithm 1 of the paper, with variants.

Every epoch draws blocks, computes their risks, steps along the gradient of the blocks in the middle, and projects.
Losses of single rows, of pairs and of pairs across two samples differ in their `Problem` only. With one block this is
plain gradient descent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from outvote import _numba
from outvote.learning.arrays import Array
from outvote.learning.divergence import check_finite, check_progress, check_risk
from outvote.learning.problem import Problem
from outvote.learning.progress import show_progress
from outvote.learning.steps import Steps, norm

#: Products of rows with this many columns, and with this many multiplications, may use all threads of numpy. Smaller
#: ones are slower on several threads.
_WIDE, _LARGE = 100, 2**24
#: Risks that fall by less than this share of the first risk in a window have stopped falling.
_PROGRESS = 0.01


@dataclass(frozen=True)
class Settings:
    """The settings of a descent.

    Attributes
    ----------
    steps : Steps
        How far each epoch moves the parameter.
    n_epochs : int
        Number of epochs.
    alpha : float
        L2 penalty, alpha/2·‖w‖².
    average : bool
        Return the mean of the last half of the path.
    patience : int, optional
        With rows held out: stop after this many epochs without progress there.
    tol : float
        What counts as progress, relative to the risk.
    window : int, optional
        End when the median risk of so many epochs is hardly below that of as many before: as many more epochs follow,
        with steps that shrink to 0, and the mean of the last half of these is returned.

    Examples
    --------
    >>> Settings(n_epochs=50, alpha=0.1).steps.rule
    'normalised'
    """

    steps: Steps = field(default_factory=Steps)
    n_epochs: int = 300
    alpha: float = 0.0
    average: bool = True
    patience: int | None = None
    tol: float = 1e-4
    window: int | None = None


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


Callback = Callable[[State], Any]


@dataclass
class History:
    """One entry for each epoch: the median block's risk before the step, the chosen blocks, the risk held out."""

    train_risk: list[float] = field(default_factory=list)
    selected_blocks: list[Array] = field(default_factory=list)
    held_out_risk: list[float] = field(default_factory=list)
    step: list[float] = field(default_factory=list)

    def append(self, risk: float, selected: Array, step: float) -> None:
        """Add an epoch."""
        self.train_risk.append(risk)
        self.selected_blocks.append(selected)
        self.step.append(step)

    def to_dict(self) -> dict[str, Any]:
        """Return arrays by name; the selected blocks stay a list, one array for each epoch."""
        return {
            "train_risk": np.array(self.train_risk),
            "selected_blocks": list(self.selected_blocks),
            "held_out_risk": np.array(self.held_out_risk),
            "step": np.array(self.step),
        }


@dataclass(frozen=True)
class Descended:
    """The result of a descent: the parameter, the history, and how often each row sat in a chosen block."""

    theta: Array
    history: History
    counts: Array
    n_epochs: int


@dataclass(frozen=True)
class Descent:
    """Everything a descent needs; `run` performs it. The fields are the parameters of `descend`."""

    problem: Problem
    start: Array
    rng: np.random.Generator
    settings: Settings = DEFAULTS
    held_out: Problem | None = None
    callbacks: Sequence[Callback] = ()
    verbose: int = 0
    first_epoch: int = 0
    reference: Array | None = None

    @property
    def end_epoch(self) -> int:
        """One more than the number of the last epoch."""
        return self.first_epoch + self.settings.n_epochs

    def run(self) -> Descended:
        """Perform the descent."""
        problem, settings, steps = self.problem, self.settings, self.settings.steps
        theta, n_done, watch, ending = self.start.copy(), self.first_epoch, Watch(self), Ending(self)
        velocity, total, n_averaged = np.zeros_like(theta), np.zeros_like(theta), 0
        counts = np.zeros(len(problem.targets), dtype=np.int32)
        large = len(theta) >= _WIDE and len(problem.targets) * theta.size >= _LARGE
        threads, quiet = nullcontext() if large else _numba.one_thread(), np.errstate(over="ignore", invalid="ignore")
        with show_progress(settings.n_epochs, self.verbose) as advance, quiet, threads:
            for epoch in range(self.first_epoch, self.end_epoch):
                risk, chosen_risk, gradient, selected = problem.epoch(theta, self.rng, counts)
                if settings.alpha:
                    gradient = gradient + settings.alpha * problem.penalised * theta
                velocity = steps.momentum * velocity + gradient
                moved = theta - steps.step(velocity, chosen_risk, ending.length(epoch))
                check_risk(theta, risk, epoch)
                check_finite(moved, epoch)
                moved = problem.loss.project(moved)
                step, theta, n_done = norm(moved - theta), moved, epoch + 1
                if ending.is_averaged(epoch):
                    total, n_averaged = total + theta, n_averaged + 1
                watch.history.append(risk, selected, step)
                advance(risk)
                if ending.begins(epoch, watch.history.train_risk):
                    total, n_averaged = np.zeros_like(theta), 0
                if ending.is_over(epoch):
                    break
                if self.is_watched:
                    held_out_risk = None if self.held_out is None else self.held_out.median_risk(theta.copy(), self.rng)
                    if watch.stops(State(epoch, self.end_epoch, theta.copy(), risk, held_out_risk, step)):
                        break
        if self.held_out is not None:
            theta = watch.best
        else:
            theta = problem.loss.project(total / n_averaged) if n_averaged else theta.copy()
        return self.ended(theta, watch, counts, n_done)

    @property
    def is_watched(self) -> bool:
        """Whether anything looks at the descent after each epoch."""
        return bool(self.callbacks) or self.held_out is not None

    def is_averaged(self, epoch: int) -> bool:
        """Return whether the parameter after this epoch enters the mean of the last half of the path."""
        return self.settings.average and 2 * (epoch + 1 - self.first_epoch) > self.settings.n_epochs

    def ended(self, theta: Array, watch: Watch, counts: Array, n_epochs: int) -> Descended:
        """Return the result, or raise if the end is far worse than the start."""
        starts = [self.start] if self.reference is None else [self.start, self.reference]
        before = max(self.problem.median_risk(start, self.rng) for start in starts)
        check_progress(before, self.problem.median_risk(theta, self.rng), theta)
        return Descended(theta, watch.history, counts, n_epochs)


class Ending:
    """When a descent ends, and how its steps shrink: at the last epoch, or after the risks have stopped falling."""

    def __init__(self, descent: Descent):
        self.descent, self.turn = descent, math.inf

    def begins(self, epoch: int, risks: Sequence[float]) -> bool:
        """Return whether the end begins after this epoch, since the risks have stopped falling."""
        window = self.descent.settings.window
        if window is None or math.isfinite(self.turn) or len(risks) < 2 * window or len(risks) % (window // 2):
            return False
        if sum(risks[-window:]) < sum(risks[-2 * window : -window]) - _PROGRESS * window * abs(risks[0]):
            return False
        self.turn = epoch + 1
        return True

    def length(self, epoch: int) -> float:
        """Return the length of the step of an epoch."""
        length = self.descent.settings.steps.length(epoch, self.descent.end_epoch)
        if not math.isfinite(self.turn):
            return length
        return length * (1 + math.cos(math.pi * (epoch - self.turn) / (self.descent.settings.window or 1))) / 2

    def is_averaged(self, epoch: int) -> bool:
        """Return whether the parameter after this epoch enters the mean."""
        if not math.isfinite(self.turn):
            return self.descent.is_averaged(epoch)
        return self.descent.settings.average and 2 * (epoch + 1 - self.turn) > (self.descent.settings.window or 1)

    def is_over(self, epoch: int) -> bool:
        """Return whether this epoch is the last."""
        return epoch + 1 - self.turn >= (self.descent.settings.window or 1)


class Watch:
    """Follows a descent after each epoch: keeps the best parameter on the rows held out, and says when to stop."""

    def __init__(self, descent: Descent):
        self.descent, self.history = descent, History()
        self.best, self.best_risk, self.best_epoch = descent.start, math.inf, descent.first_epoch

    def stops(self, state: State) -> bool:
        """Return whether a callback stops the descent, or there was no progress on the rows held out for too long."""
        settings, held_out_risk = self.descent.settings, state.held_out_risk
        if held_out_risk is not None:
            self.history.held_out_risk.append(held_out_risk)
            least = settings.tol * abs(self.best_risk if math.isfinite(self.best_risk) else 1.0)
            if held_out_risk < self.best_risk - least:
                self.best, self.best_risk, self.best_epoch = state.theta, held_out_risk, state.epoch
        asked = [callback(state) is True for callback in self.descent.callbacks]  # every one is called
        patience = None if held_out_risk is None else settings.patience
        return any(asked) or bool(patience and state.epoch - self.best_epoch >= patience)


def descend(
    problem: Problem, start: Array, rng: np.random.Generator, settings: Settings = DEFAULTS, **options: Any
) -> Descended:
    """Minimise the median of the block risks.

    Parameters
    ----------
    problem : Problem
        What is minimised.
    start : ndarray
        The first parameter.
    rng : Generator
        Draws the blocks and breaks ties.
    settings : Settings
        Steps, epochs, penalty, averaging, patience.
    held_out : Problem, optional
        Rows on which the descent is judged. It returns the best parameter there, and with a `patience` it stops when
        the median risk there has not gone down for that many epochs.
    callbacks : sequence of callable
        Called with a `State` after each epoch; one that returns True stops the descent.
    verbose : int
        1 shows a progress bar.
    first_epoch : int
        Number of the first epoch, where this descent continues another.
    reference : ndarray, optional
        A neutral parameter, such as 0: the fit must not be far worse than it, nor than the start.

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
    >>> from outvote.learning.losses import Squared
    >>> from outvote.learning.scaling import ScaledRows
    >>> from outvote.learning.voting import Cell
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = x @ [2.0, 1.0]
    >>> y[:10] = 1e6
    >>> cells = [Cell(samples=(np.arange(200),), n_blocks=21, n_chosen=5)]
    >>> problem = Problem(ScaledRows(x, centre=np.zeros(2), scale=np.ones(2)), y, Squared(), cells)
    >>> found = descend(problem, np.zeros(2), np.random.default_rng(0))
    >>> found.theta.round(1), found.n_epochs
    (array([2., 1.]), 300)
    """
    return Descent(problem, start, rng, settings, **options).run()
