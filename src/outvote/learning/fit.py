"""One fit of a learner, step by step: scale the columns, plan the blocks, descend, refit, set the fitted attributes."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from outvote.learning.arrays import Array, Groups
from outvote.learning.backend import backend_of
from outvote.learning.descent import Descended, Descent, Settings
from outvote.learning.divergence import DivergenceError
from outvote.learning.epoch_blocks import narrow
from outvote.learning.n_blocks import corrupt_in_part, plans_of
from outvote.learning.outlier_scores import outlier_scores, row_losses
from outvote.learning.voting import Cell

if TYPE_CHECKING:
    from outvote.learning.learner import RobustLearner

#: Rows in a block of the refit, in which all blocks count.
_REFIT_BLOCK = 64


@dataclass(frozen=True)
class Task:
    """What a learner is fitted to: checked rows, targets and a loss."""

    x: Array
    targets: Array
    loss: Any
    #: Scores of each row.
    n_scores: int = 1
    intercept: bool = False
    #: Whether the columns may be centred.
    centred: bool = True
    groups: Groups = None
    #: The number of each row's sample, where corrupt rows are counted for each sample; None is one sample.
    sample_of: Array | None = None
    n_samples: int = 1
    #: Whether rows are held out from each sample separately.
    stratified: bool = False

    def samples(self, rows: Array) -> tuple[Array, ...]:
        """Return which of some rows belong to each sample."""
        if self.sample_of is None:
            return (rows,)
        own = self.sample_of[rows]
        return tuple(rows[own == number] for number in range(self.n_samples))


class Fit:
    """A fit under way.

    `descent` is performed first. Given its result, `refit` returns the descent to perform next, if there is one, and
    `finish` sets the fitted attributes of the learner. `run` does all of it.
    """

    descent: Descent

    def __init__(
        self,
        learner: RobustLearner,
        task: Task,
        settings: Settings,
        rng: np.random.Generator,
        scaling: tuple[Array, Array] | None = None,
    ):
        self.learner, self.task, self.settings, self.rng = learner, task, settings, rng
        self.backend = backend_of(learner.device)
        every = narrow(np.arange(len(task.x)))
        self.sizes = tuple(len(rows) for rows in task.samples(every))
        self.counts = learner._corrupt_rows(self.sizes)
        scaling = self._scaling() if scaling is None else scaling
        self.design = self.backend.rows(task.x, *scaling, task.intercept)
        self.rows, held = (every, None) if settings.patience is None else self._split(every)
        cells, self.plan = self._cells(self.rows)
        learner._warn(task, plans_of(self.plan), sum(self.counts))
        self.zero = task.loss.start(self.design.n_columns, task.n_scores)
        self.problem = self.backend.problem(self.design, task.targets, task.loss, cells, self._penalised())
        self.held_out = None if held is None else replace(self.problem, cells=self._cells(held)[0])

    @classmethod
    def begin(cls, learner: RobustLearner, X: Any, y: Any, groups: Any = None) -> Fit:
        """Begin what ``learner.fit(X, y)`` does, or ``learner.fit(X, y, groups)``."""
        return cls.of(learner, learner._task(X, y) if groups is None else learner._task(X, y, groups=groups))

    @classmethod
    def of(cls, learner: RobustLearner, task: Task) -> Fit:
        """Begin a fit of all rows of a task."""
        fit = cls(learner, task, learner._settings(), learner._generator())
        warm = learner.warm_start and learner.__sklearn_is_fitted__()
        fit.descent = fit._descent(
            learner._theta_of(fit.design, *learner._user_parameters()) if warm else learner._start(fit),
            held_out=fit.held_out,
            callbacks=learner.callbacks or (),
            verbose=learner.verbose,
        )
        return fit

    @classmethod
    def further(cls, learner: RobustLearner, task: Task, n_steps: int) -> Fit:
        """Begin some more steps on these rows alone, in the scaling of the last fit and with steps that shrink."""
        settings = learner._settings()
        steps = replace(settings.steps, schedule="inverse" if settings.steps.schedule == "cosine" else "constant")
        settings = replace(settings, steps=steps, n_epochs=n_steps, average=False, patience=None)
        if not hasattr(learner, "_rng"):
            learner._rng = learner._generator()
        fit = cls(learner, task, settings, learner._rng, getattr(learner, "_fitted_scaling", None))
        started = hasattr(learner, "_theta")
        fit.descent = fit._descent(
            learner._theta if started else learner._start(fit), first_epoch=learner.n_iter_ if started else 0
        )
        return fit

    def run(self) -> None:
        """Fit the learner."""
        found = self.descent.run()
        refit, refitted = self.refit(found), None
        if refit is not None:
            with suppress(DivergenceError):
                refitted = refit.run()
        self.finish(found, refitted)

    def refit(self, found: Descended) -> Descent | None:
        """Return the descent on all but the most suspect rows, in blocks that all count; None if there is no refit."""
        polish, degree = self.learner._setting("polish"), self.task.loss.degree
        polish = degree == 2 if polish is None else polish  # it helps pairs, and costs single rows a little
        if not (polish and self.n_corrupt):
            return None
        scores = self._outlier_scores(found, self._row_losses(found))[self.rows]
        trusted = np.ones(len(self.task.x), dtype=bool)
        trusted[self.rows[np.argsort(scores, kind="stable")[len(self.rows) - self.n_corrupt :]]] = False
        del scores
        cells = []
        for cell in self.problem.cells:
            samples = tuple(sample[trusted[sample]] for sample in cell.samples)
            n_blocks = 1 if degree == 1 else -(-max(map(len, samples)) // _REFIT_BLOCK)
            n_blocks = min(n_blocks, min(map(len, samples)) // (degree if len(samples) == 1 else 1))
            if n_blocks < 1:
                return None
            cells.append(replace(cell, samples=samples, n_blocks=n_blocks, n_chosen=n_blocks, clipped=False))
        shorter = replace(self.settings, n_epochs=max(1, self.settings.n_epochs // 2), patience=None, average=True)
        return self.backend.descent(replace(self.problem, cells=cells), found.theta, self.rng, shorter)

    def finish(self, found: Descended, refitted: Descended | None = None) -> None:
        """Set the fitted attributes, from the refit if the vote of the blocks accepts it."""
        if refitted is not None and self._is_accepted(found.theta, refitted.theta):
            found = replace(found, theta=refitted.theta)
        learner, plans = self.learner, plans_of(self.plan)
        learner.plan_ = self.plan
        learner.n_blocks_ = tuple(one.n_blocks for one in plans) if isinstance(self.plan, tuple) else plans[0].n_blocks
        learner.history_ = found.history.to_dict()
        learner.n_iter_ = found.n_epochs
        learner.selection_counts_ = found.counts
        learner.row_losses_ = self._row_losses(found)
        learner.outlier_scores_ = self._outlier_scores(found, learner.row_losses_)
        learner._theta = found.theta
        learner._fitted_scaling = self.design.centre, self.design.scale
        learner._set_parameters(self.design, self.task.targets)

    @property
    def n_corrupt(self) -> int:
        """How many of the fitted rows may be corrupt."""
        return sum(plan.n_corrupt for plan in plans_of(self.plan))

    def _descent(self, start: Array, **options: Any) -> Descent:
        return self.backend.descent(self.problem, start, self.rng, self.settings, reference=self.zero, **options)

    def _is_accepted(self, theta: Array, refitted: Array) -> bool:
        """Return whether the refit loses at most a quarter of what the descent gained.

        The vote of the blocks is biased towards rows that are easily explained. The refit is not, but it trusts every
        row that is left.
        """
        worst, before, after = (self.problem.median_risk(at, self.rng) for at in (self.zero, theta, refitted))
        return after <= before + max(0.0, worst - before) / 4

    def _scaling(self) -> tuple[Array, Array]:
        n_columns = self.task.x.shape[1]
        if not self.learner._setting("scaling"):
            return np.zeros(n_columns), np.ones(n_columns)
        centre, scale = self.backend.robust_scaling(self.task.x, self._n_trimmed)
        return centre if self.task.centred else np.zeros(n_columns), scale

    @property
    def _n_trimmed(self) -> int:
        """How many of the largest and smallest values of a column are trimmed."""
        return min(max(self.counts), (len(self.task.x) - 1) // 2)

    def _split(self, rows: Array) -> tuple[Array, Array]:
        """Return the rows to fit, and rows held out."""
        learner, degree, kept, held = self.learner, self.task.loss.degree, [], []
        for sample in self.task.samples(rows) if self.task.stratified else (rows,):
            n_held = max(degree, math.ceil(learner.validation_fraction * len(sample)))
            if len(sample) - n_held < degree:
                raise ValueError(
                    f"validation_fraction={learner.validation_fraction!r} leaves {len(sample) - n_held} of "
                    f"{len(sample)} rows to learn from: n_samples is too small for early_stopping"
                )
            order = self.rng.permutation(sample)
            kept.append(order[n_held:])
            held.append(order[:n_held])
        return np.concatenate(kept), np.concatenate(held)

    def _cells(self, rows: Array) -> tuple[list[Cell], Any]:
        """Return the cells in which the blocks of some rows vote, and the plan of the blocks."""
        samples, counts, asked = self.task.samples(rows), self.counts, self.learner.contamination
        if len(rows) < len(self.task.x):
            parts, wholes = [len(rows)] * len(samples), [len(self.task.x)] * len(samples)
            if self.task.stratified:
                parts, wholes = [len(sample) for sample in samples], list(self.sizes)
            degree, each = self.task.loss.degree, zip(counts, parts, wholes, strict=True)
            counts = tuple(corrupt_in_part(count, part, whole, degree) for count, part, whole in each)
            asked = counts if len(counts) > 1 else counts[0]
        return self.learner._cells(samples, counts, asked, self.task)

    def _penalised(self) -> Any:
        """Return 1 for each parameter that the L2 penalty applies to, and 0 for an intercept."""
        if not self.task.intercept:
            return 1.0
        marks = np.ones_like(self.zero)
        marks[-1] = 0.0
        return marks

    def _row_losses(self, found: Descended) -> Array:
        self.problem.forget_blocks()
        return row_losses(self.problem, found.theta, found.counts, self.rows, self.rng)

    def _outlier_scores(self, found: Descended, losses: Array) -> Array:
        n_epochs = len(found.history.train_risk)
        return outlier_scores(found.counts, losses, self._distances(), self.rows, n_epochs, self.n_corrupt)

    def _distances(self) -> Array:
        """Return how far out the rows lie in robustly scaled columns, where a fit may not see them."""
        design = self.design
        if not self.learner._setting("scaling") or not design.centre.any():
            x = self.task.x
            design = self.backend.rows(x, *self.backend.robust_scaling(x, self._n_trimmed))
        return design.distances()
