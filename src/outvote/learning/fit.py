"""One fit of a learner, step by step: scale the columns, let blocks vote, finish on the rows that the vote trusts."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from outvote import _numba
from outvote.learning.arrays import Array, Groups
from outvote.learning.backend import backend_of
from outvote.learning.descent import Descended, Descent, Settings
from outvote.learning.divergence import DivergenceError, check_coefficients
from outvote.learning.epoch_blocks import narrow
from outvote.learning.finish import can_finish, finished
from outvote.learning.losses import PairLoss
from outvote.learning.n_blocks import corrupt_in_part, is_auto, plans_of
from outvote.learning.outlier_scores import outlier_scores, row_losses
from outvote.learning.problem import Problem
from outvote.learning.trust import far_scores
from outvote.learning.voting import Cell

if TYPE_CHECKING:
    from outvote.learning.learner import RobustLearner

#: Rows in a block of the refit, in which all blocks count.
_REFIT_BLOCK = 64
#: Rows that vote if a finish follows, and for each column: more would change little, and all are judged at the end.
_MOST_VOTING, _FOR_EACH_COLUMN = 2048, 16
#: From so many rows on losses of pairs take long enough for loading numba.
_COMPILED = 2000
#: Epochs over which the descent must make progress if a finish follows.
_WINDOW = 20


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

    def only(self, rows: Array) -> Task:
        """Return the task of some rows."""
        if len(rows) == len(self.x):
            return self
        own = None if self.sample_of is None else self.sample_of[rows]
        return replace(self, x=self.x[rows], targets=self.targets[rows], sample_of=own)


class Fit:
    """A fit under way.

    `descent` is performed first. Given its result, `refit` judges the rows and returns the descent to perform next, if
    there is one, and `finish` sets the fitted attributes of the learner. `run` does all of it.
    """

    descent: Descent

    def __init__(
        self,
        learner: RobustLearner,
        task: Task,
        settings: Settings,
        rng: np.random.Generator,
        scaling: tuple[Array, Array] | None = None,
        finishes: bool = False,
    ):
        self.learner, self.task, self.rng, self.finishes = learner, task, rng, finishes
        self.backend = backend_of(learner.device)
        every = narrow(np.arange(len(task.x)))
        self.sizes = tuple(len(rows) for rows in task.samples(every))
        self.counts = learner._corrupt_rows(self.sizes)
        #: The rows that vote.
        self.voting = self._sampled(every)
        own = task.only(self.voting)
        scaling = self._scaling(own) if scaling is None else scaling
        self.design = self.backend.rows(task.x, *scaling, task.intercept)
        rows, held = narrow(np.arange(len(own.x))), None
        if settings.patience is not None:
            rows, held = self._split(rows)
        self.rows = self.voting[rows]
        cells, self.plan = self._cells(own, rows)
        learner._warn(task, plans_of(self.plan), sum(self.counts))
        self.zero = task.loss.start(self.design.n_columns, task.n_scores)
        design = self.design if own is task else self.backend.rows(own.x, *scaling, task.intercept)
        self.problem = self.backend.problem(design, own.targets, task.loss, cells, self._penalised())
        self.held_out = None if held is None else replace(self.problem, cells=self._cells(own, held)[0])
        ends = finishes and settings.patience is None and can_finish(self.problem)
        self.settings = replace(settings, window=_WINDOW) if ends else settings
        self.trusted = np.ones(len(task.x), dtype=bool)

    @classmethod
    def begin(cls, learner: RobustLearner, X: Any, y: Any, groups: Any = None) -> Fit:
        """Begin what ``learner.fit(X, y)`` does, or ``learner.fit(X, y, groups)``."""
        return cls.of(learner, learner._task(X, y) if groups is None else learner._task(X, y, groups=groups))

    @classmethod
    def of(cls, learner: RobustLearner, task: Task) -> Fit:
        """Begin a fit of all rows of a task."""
        fit = cls(learner, task, learner._settings(), learner._generator(), finishes=bool(learner._setting("finish")))
        warm = learner.warm_start and learner.__sklearn_is_fitted__()
        fit.descent = fit._descent(
            learner._theta_of(fit.design, *learner._user_parameters()) if warm else learner._start(fit),
            held_out=fit.held_out,
            callbacks=learner._watchers(),
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
        with self.computing():
            found = self.descent.run()
            refit, refitted = self.refit(found), None
            if refit is not None:
                with suppress(DivergenceError):
                    refitted = refit.run()
            self.finish(found, refitted)

    def computing(self) -> AbstractContextManager[None]:
        """Use compiled functions for losses of pairs of many rows; what was loaded before does not matter."""
        pairs = isinstance(self.task.loss, PairLoss)
        return _numba.by_the_question(pairs and len(self.task.x) >= _COMPILED)

    def refit(self, found: Descended) -> Descent | None:
        """Judge the rows; return the descent on those trusted, in blocks that all count, if no solver is better."""
        if not self.finishes:
            return None
        if self.n_corrupt:
            losses = self._row_losses(found)
            self.trusted = self.learner._trusted(Ballots(self, found, losses))
        if can_finish(self.problem):
            return None
        cells, degree = [], self.task.loss.degree
        for cell in self.problem.cells:
            samples = tuple(sample[self.trusted[sample]] for sample in cell.samples)
            n_blocks = 1 if degree == 1 else -(-max(map(len, samples)) // _REFIT_BLOCK)
            n_blocks = min(n_blocks, min(map(len, samples)) // (degree if len(samples) == 1 else 1))
            if n_blocks < 1:
                return None
            cells.append(replace(cell, samples=samples, n_blocks=n_blocks, n_chosen=n_blocks, clipped=False))
        n_epochs = max(1, self.settings.n_epochs // 2)
        shorter = replace(self.settings, n_epochs=n_epochs, patience=None, window=None, average=True)
        return self.backend.descent(replace(self.problem, cells=cells), found.theta, self.rng, shorter)

    def finish(self, found: Descended, refitted: Descended | None = None) -> None:
        """Set the fitted attributes, from the finish if the vote of the blocks does not find it worse."""
        theta = None if refitted is None else refitted.theta
        if self.finishes and theta is None and can_finish(self.problem) and self.learner._can_finish(self):
            theta = finished(self.whole, found.theta, self.trusted, self.settings.alpha, self.rng)
        learner, plans = self.learner, plans_of(self.plan)
        learner.support_ = np.ones(len(self.task.x), dtype=bool)
        if theta is not None and self.is_accepted(found.theta, theta):
            found, learner.support_ = replace(found, theta=theta), self.trusted
        learner.plan_ = self.plan
        learner.n_blocks_ = tuple(one.n_blocks for one in plans) if isinstance(self.plan, tuple) else plans[0].n_blocks
        learner.history_ = found.history.to_dict()
        learner.n_iter_ = found.n_epochs
        learner.selection_counts_ = self._counts(found)
        learner.row_losses_ = self._row_losses(found)
        learner.outlier_scores_ = self._outlier_scores(found, learner.row_losses_)
        learner._theta = found.theta
        learner._fitted_scaling = self.design.centre, self.design.scale
        learner._set_parameters(self.design, self.task.targets)
        check_coefficients(learner)

    @property
    def n_corrupt(self) -> int:
        """How many of all rows may be corrupt."""
        return sum(self.counts)

    @property
    def whole(self) -> Problem:
        """The problem of all rows; its blocks are those of the vote, or of all rows if only some voted."""
        if len(self.voting) == len(self.task.x):
            return self.problem
        every = narrow(np.arange(len(self.task.x)))
        samples = self.task.samples(every) if len(self.problem.cells) > 1 or self.task.stratified else (every,)
        cells: list[Cell] = []
        for cell in self.problem.cells:
            own = samples[len(cells) : len(cells) + 1] if len(self.problem.cells) > 1 else samples
            cells.append(replace(cell, samples=own))
        return replace(self.problem, design=self.design, targets=self.task.targets, cells=cells)

    def is_accepted(self, theta: Array, finish: Array) -> bool:
        """Return whether the vote of the blocks lets a finish stand, rather than what the descent found.

        All are judged by the same blocks. The vote prefers rows that are easily explained, and most blocks have no
        others. A finish explains the hard rows as well, and loses a little in these blocks: it may lose a quarter of
        what the descent gained, or a fifth of its risk.
        """
        seed = int(self.rng.integers(2**31))
        worst, before, after = (self._voted_risk(at, seed) for at in (self.zero, theta, finish))
        return after <= before + max((worst - before) / 4, before / 5)

    def _voted_risk(self, theta: Array, seed: int) -> float:
        self.problem.forget_blocks()
        return self.problem.median_risk(theta, np.random.default_rng(seed))

    def _descent(self, start: Array, **options: Any) -> Descent:
        return self.backend.descent(self.problem, start, self.rng, self.settings, reference=self.zero, **options)

    def _sampled(self, rows: Array) -> Array:
        """Return the rows that vote: all, or a random part if there are many and a finish follows."""
        learner = self.learner
        given = not is_auto(learner.n_blocks) or learner.early_stopping or learner.device is not None
        most = max(_MOST_VOTING, _FOR_EACH_COLUMN * self.task.x.shape[1] * self.task.n_scores)
        if not self.finishes or given or self.task.groups is not None or len(rows) <= 2 * most:
            return rows
        samples = self.task.samples(rows) if self.task.sample_of is not None else (rows,)
        shares = [max(min(len(own), 64), most * len(own) // len(rows)) for own in samples]
        drawn = [self.rng.choice(own, size=size, replace=False) for own, size in zip(samples, shares, strict=True)]
        return np.sort(np.concatenate(drawn))

    def _scaling(self, own: Task) -> tuple[Array, Array]:
        n_columns = own.x.shape[1]
        if not self.learner._setting("scaling"):
            return np.zeros(n_columns), np.ones(n_columns)
        centre, scale = self.backend.robust_scaling(own.x, self._n_trimmed(own))
        return centre if own.centred else np.zeros(n_columns), scale

    def _n_trimmed(self, own: Task) -> int:
        """How many of the largest and smallest values of a column are trimmed."""
        n_corrupt = corrupt_in_part(max(self.counts), len(own.x), len(self.task.x), 1)
        return min(n_corrupt, (len(own.x) - 1) // 2)

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

    def _cells(self, own: Task, rows: Array) -> tuple[list[Cell], Any]:
        """Return the cells in which the blocks of some rows of a task vote, and the plan of the blocks."""
        samples, counts, asked = own.samples(rows), self.counts, self.learner.contamination
        if len(rows) < len(self.task.x):
            parts, wholes = [len(rows)] * len(samples), [len(self.task.x)] * len(samples)
            if self.task.stratified or (len(own.x) < len(self.task.x) and len(samples) > 1):
                parts, wholes = [len(sample) for sample in samples], list(self.sizes)
            degree, each = self.task.loss.degree, zip(counts, parts, wholes, strict=True)
            counts = tuple(corrupt_in_part(count, part, whole, degree) for count, part, whole in each)
            asked = counts if len(counts) > 1 else counts[0]
        return self.learner._cells(samples, counts, asked, own)

    def _penalised(self) -> Any:
        """Return 1 for each parameter that the L2 penalty applies to, and 0 for an intercept."""
        if not self.task.intercept:
            return 1.0
        marks = np.ones_like(self.zero)
        marks[-1] = 0.0
        return marks

    def _counts(self, found: Descended) -> Array:
        """Return how often each row sat in a chosen block."""
        if len(self.voting) == len(self.task.x):
            return found.counts
        counts = np.zeros(len(self.task.x), dtype=found.counts.dtype)
        counts[self.voting] = found.counts
        return counts

    def _row_losses(self, found: Descended) -> Array:
        self.problem.forget_blocks()
        return row_losses(self.whole, found.theta, self._counts(found), self.rows, self.rng)

    def _outlier_scores(self, found: Descended, losses: Array) -> Array:
        n_epochs, counts = len(found.history.train_risk), self._counts(found)
        return outlier_scores(counts, losses, self._distances(), self.rows, n_epochs, self.n_corrupt)

    def _distances(self) -> Array:
        """Return how far out the rows lie in robustly scaled columns, where a fit may not see them."""
        design = self.design
        if not self.learner._setting("scaling") or not design.centre.any():
            own = self.task.only(self.voting)
            design = self.backend.rows(self.task.x, *self.backend.robust_scaling(own.x, self._n_trimmed(own)))
        return design.distances()


@dataclass(frozen=True)
class Ballots:
    """What a learner judges its rows by: the fit under way, what the descent found, and the losses of all rows."""

    fit: Fit
    found: Descended
    losses: Array

    @property
    def n_corrupt(self) -> int:
        """How many of all rows may be corrupt."""
        return self.fit.n_corrupt

    @property
    def n_voting(self) -> int:
        """How many of the rows that voted may be corrupt."""
        return sum(plan.n_corrupt for plan in plans_of(self.fit.plan))

    def far_scores(self) -> Array:
        """Return how far out all rows lie; above 1 is far."""
        task = self.fit.task
        return far_scores(task.x, task.targets, self.fit.rows, self.n_voting)

    def neutral_risk(self) -> float:
        """Return the voted risk of the neutral parameter, which explains nothing."""
        return self.fit.problem.median_risk(self.fit.zero, self.fit.rng)

    def outlier_scores(self) -> Array:
        """Return how suspect all rows are."""
        return self.fit._outlier_scores(self.found, self.losses)
