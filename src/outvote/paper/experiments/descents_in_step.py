"""Perform descents of the same shape in step, with the same numpy calls for all of them in every epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote import _numba
from outvote.learning.descent import Descended, Descent, State, Watch
from outvote.learning.divergence import DivergenceError, check_finite, check_risk
from outvote.learning.epoch_blocks import EpochBlocks, narrow
from outvote.learning.losses.common import clip_weights, square_norm
from outvote.learning.problem import count_rows, lower_median
from outvote.learning.scaling import ScaledRows

Array = NDArray[Any]
Outcome = Descended | DivergenceError


def descend_in_step(descents: Sequence[Descent]) -> list[Outcome]:
    """Perform descents of the same shape and settings epoch by epoch; one that diverges does not stop the others.

    The first axis of parameters, counts, risks and gradients runs over the descents.
    """
    settings, first, last = descents[0].settings, descents[0].first_epoch, descents[0].end_epoch
    steps, every = settings.steps, [_Run(descent) for descent in descents]
    going, stacked = every, StackedProblems(descents)
    theta = np.stack([descent.start for descent in descents])
    velocity, total, n_averaged = np.zeros_like(theta), np.zeros_like(theta), 0
    counts: Array = np.zeros((len(descents), len(descents[0].problem.targets)), dtype=np.int32)
    with np.errstate(over="ignore", invalid="ignore"), _numba.one_thread():
        for epoch in range(first, last):
            risk, chosen_risk, gradient, selected = stacked.epoch(theta, counts)
            if settings.alpha:
                gradient = gradient + settings.alpha * stacked.penalised * theta
            velocity = steps.momentum * velocity + gradient
            length = steps.length(epoch, last)
            factors = [steps.factor(*each, length) for each in zip(_norms(velocity), chosen_risk, strict=True)]
            moved = theta - np.array(factors).reshape(-1, *[1] * (theta.ndim - 1)) * velocity
            if not (np.isfinite(moved).all() and all(map(math.isfinite, risk))):
                for at, run in enumerate(going):
                    if run.diverges(theta[at], risk[at], moved[at], epoch):
                        moved[at] = theta[at]
            moved = stacked.loss.project(moved)
            lengths, theta = _norms(moved - theta), moved
            if descents[0].is_averaged(epoch):
                total, n_averaged = total + theta, n_averaged + 1
            for at, run in enumerate(going):
                if run.error is not None:
                    continue
                run.note(State(epoch, last, theta[at], risk[at], None, lengths[at]), selected[at])
                if not run.is_going:
                    mean = stacked.loss.project(total[at] / n_averaged) if n_averaged else theta[at]
                    run.theta, run.counts, run.n_epochs = mean, counts[at], epoch + 1
            places = [at for at, run in enumerate(going) if run.is_going]
            if not places:
                break
            if len(places) < len(going):
                going, stacked = [going[at] for at in places], stacked.only(places)
                theta, velocity, total, counts = theta[places], velocity[places], total[places], counts[places]
    return [run.outcome() for run in every]


class _Run:
    """One descent among several: whether it is still going, and how it ended."""

    def __init__(self, descent: Descent):
        self.descent, self.watch = descent, Watch(descent)
        self.theta, self.n_epochs = descent.start, descent.first_epoch
        self.counts: Array = np.zeros(len(descent.problem.targets), dtype=np.int32)
        self.error: DivergenceError | None = None
        self.is_going = True

    def diverges(self, theta: Array, risk: float, moved: Array, epoch: int) -> bool:
        """Return whether the risk or the parameter is not finite, and keep the error."""
        try:
            check_risk(theta, risk, epoch)
            check_finite(moved, epoch)
        except DivergenceError as error:
            self.error, self.is_going = error, False
        return self.error is not None

    def note(self, state: State, selected: Array) -> None:
        """Add an epoch to the history; stop after the last, or if a callback or the held-out risk requires it."""
        descent = self.descent
        self.watch.history.append(state.risk, selected, state.step)
        if descent.held_out is not None:
            held_out_risk = descent.held_out.median_risk(state.theta, descent.rng)
            state = replace(state, held_out_risk=held_out_risk)
        stops = descent.is_watched and self.watch.stops(state)
        self.is_going = not stops and state.epoch + 1 < state.n_epochs

    def outcome(self) -> Outcome:
        """Return the result of the descent, or its error."""
        if self.error is not None:
            return self.error
        theta = self.theta if self.descent.held_out is None else self.watch.best
        try:
            return self.descent.ended(theta, self.watch, self.counts, self.n_epochs)
        except DivergenceError as error:
            return error


class StackedRows(ScaledRows):
    """The scaled rows of several descents, one below the other."""

    def __init__(self, designs: Sequence[ScaledRows]):
        self.each = np.stack([design.take(np.arange(len(design.x))) for design in designs])
        n_columns = self.each.shape[-1]
        super().__init__(self.each.reshape(-1, n_columns), np.zeros(n_columns), np.ones(n_columns))

    def scores(self, weights: Array) -> Array:
        """Return the scores of all rows, each under the weights of its descent."""
        if weights.ndim == 2:
            return (self.each @ weights[..., None]).reshape(-1)
        return (self.each @ weights).reshape(len(self.x), -1)


class StackedProblems:
    """The problems of several descents as one large problem: rows below each other, blocks side by side.

    The loss is computed for all rows at once; the blocks of each descent vote separately.
    """

    def __init__(self, descents: Sequence[Descent]):
        problems = [descent.problem for descent in descents]
        n_rows = len(problems[0].targets)
        self.descents, self.rngs = descents, [descent.rng for descent in descents]
        self.loss, self.cell, self.penalised = problems[0].loss, problems[0].cells[0], problems[0].penalised
        self.design = StackedRows([problem.design for problem in problems])
        self.targets = np.concatenate([problem.targets for problem in problems])
        rows = [at * n_rows + problem.cells[0].samples[0].astype(np.intp) for at, problem in enumerate(problems)]
        self.shuffler = ShufflerOfEach(np.stack(rows), self.cell.n_blocks)
        self._first = np.arange(len(problems))[:, None] * self.cell.n_blocks

    def only(self, places: Sequence[int]) -> StackedProblems:
        """Return the problems of some of the descents."""
        return StackedProblems([self.descents[at] for at in places])

    def epoch(self, theta: Array, counts: Array) -> tuple[list[float], list[float], Array, list[Array]]:
        """Return the values of `Problem.epoch` for every descent."""
        loss, cell, targets = self.loss, self.cell, self.targets
        scores = loss.scores(self.design, theta)
        drawn = self.shuffler.draw(self.rngs)
        risks = cell.risks(loss, scores, targets, (drawn,)).reshape(len(theta), -1)
        chosen = in_the_middle_of_each(risks, self.rngs, cell.n_chosen)
        whole = chosen.shape[1] == cell.n_blocks
        rows = drawn.rows(None if whole else (self._first + chosen).reshape(-1))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            gradients = loss.gradients(self.design, rows, scores[rows], targets[rows])
            gradients = gradients.reshape(*chosen.shape, *theta.shape[1:])
            gradient = cell.weight * _mean_of_each(gradients, cell.clipped)
        count_rows(rows, counts.reshape(-1))
        taken = np.take_along_axis(risks, chosen, axis=1)
        middle = taken[:, 0] if chosen.shape[1] == 1 else lower_median(risks)
        mean = cell.weight * (middle if chosen.shape[1] == 1 else taken.mean(axis=1))
        return (cell.weight * middle).tolist(), mean.tolist(), gradient, list(chosen.astype(np.int32))


class ShufflerOfEach:
    """Draws the blocks of several descents with their own generators, side by side in one table.

    Each descent gets the blocks that `outvote.learning.epoch_blocks.BlockShuffler` draws from few rows.

    Parameters
    ----------
    rows : ndarray of shape (n_descents, n_rows)
        Row numbers of each descent.
    n_blocks : int
        Number of blocks of each descent.

    Examples
    --------
    >>> from outvote.learning.epoch_blocks import BlockShuffler
    >>> rows = np.arange(12).reshape(2, 6)
    >>> both = ShufflerOfEach(rows, 3).draw([np.random.default_rng(seed) for seed in range(2)])
    >>> second = BlockShuffler(rows[1], 3).draw(np.random.default_rng(1))
    >>> both.order.shape, bool((both.order[:, 3:] == second.order).all())
    ((2, 6), True)
    """

    def __init__(self, rows: Array, n_blocks: int):
        self.rows, self.n_blocks, self.size = rows.astype(np.intp), n_blocks, rows.shape[1] // n_blocks
        self._whole = EpochBlocks(np.ascontiguousarray(narrow(rows).T))

    def draw(self, rngs: Sequence[np.random.Generator]) -> EpochBlocks:
        """Draw the blocks of every descent for the next epoch."""
        if self.n_blocks == 1:
            return self._whole
        order = self.rows.copy()
        for own, rng in zip(order, rngs, strict=True):
            rng.shuffle(own)
        blocks = order[:, : self.size * self.n_blocks].reshape(len(order), self.size, self.n_blocks)
        table = np.empty((self.size, len(order), self.n_blocks), dtype=self._whole.order.dtype)
        table[...] = blocks.transpose(1, 0, 2)
        return EpochBlocks(table.reshape(self.size, -1))


def in_the_middle_of_each(risks: Array, rngs: Sequence[np.random.Generator], n_chosen: int) -> Array:
    """Return the blocks that `outvote.learning.voting.in_the_middle` chooses in each descent.

    Parameters
    ----------
    risks : ndarray of shape (n_descents, n_blocks)
        The risks of the blocks of each descent.
    rngs : sequence of Generator
        One for each descent.
    n_chosen : int
        How many blocks are chosen.

    Examples
    --------
    >>> rngs = [np.random.default_rng(seed) for seed in range(2)]
    >>> in_the_middle_of_each(np.array([[5.0, 1.0, 3.0], [1.0, 2.0, 3.0]]), rngs, 1)
    array([[2],
           [1]])
    """
    n_descents, n_blocks = risks.shape
    n_chosen = max(1, n_chosen)
    if n_chosen >= n_blocks:
        return np.tile(np.arange(n_blocks), (n_descents, 1))
    low = (n_blocks - n_chosen) // 2
    starts = [int(rng.integers(n_blocks)) for rng in rngs]
    if n_chosen == 1:
        ordered = risks.copy()
        ordered.partition(low, axis=1)
        alone = risks == ordered[:, low, None]
        if np.count_nonzero(alone) == n_descents:
            return alone.nonzero()[1][:, None]
    halves = [half for own, start in zip(risks, starts, strict=True) for half in (own[start:], own[:start])]
    rotated = np.concatenate(halves).reshape(risks.shape)
    places = low if n_chosen == 1 else (low, low + n_chosen - 1)
    found = rotated.argpartition(places, axis=1)[:, low : low + n_chosen]
    return (found + np.array(starts)[:, None]) % n_blocks


def _mean_of_each(gradients: Array, clipped: bool) -> Array:
    """Return the mean gradient of each descent, as `outvote.learning.losses.common.mean_of` computes it."""
    n_descents, n_gradients, *shape = gradients.shape
    if n_gradients == 1:
        return gradients[:, 0]
    if not clipped or n_gradients < 3:
        return gradients.mean(axis=1)
    flat = gradients.reshape(n_descents, n_gradients, -1)
    norms = np.sqrt(square_norm(flat))
    weights = np.stack([clip_weights(own) for own in norms])
    return (weights[:, None] @ np.where(np.isfinite(norms)[..., None], flat, 0.0)).reshape(n_descents, *shape)


def _norms(stack: Array) -> list[float]:
    """Return the length of each array of a stack."""
    flat = stack.reshape(len(stack), -1)
    return np.sqrt(np.add.reduce(flat * flat, axis=1)).tolist()
