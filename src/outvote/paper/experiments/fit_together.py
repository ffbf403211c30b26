"""Many fits at once: descents of the same shape go in step, one numpy call an epoch for all of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from outvote.learning.base import RobustLearner
from outvote.learning.dealing import DealerOfEach, in_the_middle
from outvote.learning.descent import (
    _MOST_GRADIENTS,
    Descended,
    Descent,
    DivergenceError,
    Problem,
    Runs,
    _count,
    _lower_medians,
    descend_in_step,
)
from outvote.learning.losses import Loss, MetricHinge, mean_of_each
from outvote.learning.scaling import ScaledRows

Array = NDArray[Any]
Outcome = Descended | DivergenceError

#: Numbers in the rows of the runs that go in step: more would leave the cache, and gain nothing.
_MOST_NUMBERS = 2**20
#: Losses whose scores and projections take a stack of parameters.
_STACKED = Loss.scores, Loss.project, MetricHinge.scores, MetricHinge.project


def fit_together(
    models: Iterable[RobustLearner], data: Iterable[Sequence[Any]], errors: Literal["raise", "return"] = "raise"
) -> list[Any]:
    """Fit many learners, each on rows of its own, much faster than one after the other where the rows are few.

    The result is that of ``model.fit(*rows)`` for each, to rounding: every learner draws from its own `random_state`,
    its callbacks see the same states, and one that goes astray leaves the others.

    Parameters
    ----------
    models : iterable of learner
        Any of outvote's, in any mixture. Those with the same settings (but for `random_state` and `callbacks`) on rows
        of the same shape go in step. The others are fitted one after the other, as are those with `verbose`, a
        `device`, groups, two samples, blocks of each class, rows in float32, or more than 16384 rows.
    data : iterable of tuple
        What `fit` of each takes: (X, y), or (X, y, groups).
    errors : {"raise", "return"}
        Once all are fitted, raise the first `DivergenceError`; or put each in the place of its learner.

    Returns
    -------
    list
        The learners, fitted, in their order.

    Raises
    ------
    DivergenceError
        With ``errors="raise"``, where a fit went astray; the others are fitted all the same.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> rng = np.random.default_rng(0)
    >>> data = [(x, x[:, 0]) for x in rng.normal(size=(20, 100, 2))]
    >>> models = [ov.RobustRanker(max_iter=50, random_state=seed) for seed in range(20)]
    >>> fitted = fit_together(models, data)
    >>> alone = ov.RobustRanker(max_iter=50, random_state=7).fit(*data[7])
    >>> np.allclose(fitted[7].coef_, alone.coef_)
    True
    """
    models, data = list(models), list(data)
    _refuse(models, data, errors)
    fits = [model._fitting(*rows) for model, rows in zip(models, data, strict=True)]
    found: list[Any] = list(models)
    asked = {at: next(fit) for at, fit in enumerate(fits)}
    while asked:
        answers = _answers([(models[at], descent) for at, descent in asked.items()])
        for at, answer in zip(list(asked), answers, strict=True):
            try:
                thrown = isinstance(answer, DivergenceError)
                asked[at] = fits[at].throw(answer) if thrown else fits[at].send(answer)  # type: ignore[arg-type]
            except StopIteration:
                del asked[at]
            except DivergenceError as error:
                del asked[at]
                found[at] = error
    if errors == "raise":
        for one in found:
            if isinstance(one, DivergenceError):
                raise one
    return found


def _refuse(models: list[Any], data: list[Any], errors: str) -> None:
    if errors not in ("raise", "return"):
        raise ValueError(f"errors={errors!r} is neither 'raise' nor 'return'")
    if len(models) != len(data):
        raise ValueError(f"there are {len(models)} models for {len(data)} data sets: give each model its own (X, y)")
    first: dict[int, int] = {}
    for at, (model, rows) in enumerate(zip(models, data, strict=True)):
        if not isinstance(model, RobustLearner):
            raise TypeError(f"models[{at}]={model!r} is not one of outvote's learners, such as RobustRanker")
        if first.setdefault(id(model), at) != at:
            raise ValueError(f"models[{at}] is models[{first[id(model)]}]: take sklearn.base.clone for each fit")
        if not isinstance(rows, tuple | list) or len(rows) not in (2, 3):
            raise TypeError(f"data[{at}] must be a tuple (X, y), or (X, y, groups), not {type(rows).__name__}")


def _answers(asked: list[tuple[RobustLearner, Descent]]) -> list[Outcome]:
    """Make the descents asked for, those of the same kind in step."""
    found: list[Outcome | None] = [None] * len(asked)
    kinds: dict[Hashable, list[int]] = {}
    for at, (_, descent) in enumerate(asked):
        kinds.setdefault(_kind(descent) or at, []).append(at)
    for places in kinds.values():
        rows = asked[places[0]][1].problem.design
        most = max(1, _MOST_NUMBERS // rows.x.size) if isinstance(rows, ScaledRows) else 1
        for low in range(0, len(places), most):
            some = places[low : low + most]
            if len(some) == 1:
                found[some[0]] = _alone(*asked[some[0]])
                continue
            descents = [asked[at][1] for at in some]
            for at, outcome in zip(some, descend_in_step(descents, Stacked(descents)), strict=True):
                found[at] = outcome
    return found  # type: ignore[return-value]


def _alone(model: RobustLearner, descent: Descent) -> Outcome:
    try:
        return model._descend(descent)
    except DivergenceError as error:
        return error


def _kind(descent: Descent) -> Hashable:
    """Return what descents have in common that can go in step; None for one that cannot."""
    problem, start = descent.problem, descent.start
    design, loss, cell = problem.design, problem.loss, problem.cells[0]
    if type(problem) is not Problem or type(design) is not ScaledRows or len(problem.cells) > 1 or descent.verbose:
        return None
    if len(cell.samples) > 1 or cell.groups is not None or not DealerOfEach.few(len(cell.samples[0])):
        return None
    if design.far or design.x.dtype != np.float64 or cell.n_chosen * start.size > _MOST_GRADIENTS:
        return None
    if type(loss).scores not in _STACKED or type(loss).project not in _STACKED:
        return None
    plain = not vars(loss).keys() - {"_last"}
    shape = design.x.shape, design.intercept, start.shape, problem.targets.dtype
    blocks = len(cell.samples[0]), cell.n_blocks, cell.n_chosen, cell.weight, cell.clipped
    return type(loss) if plain else id(loss), shape, blocks, descent.settings, descent.first_epoch


class StackedRows(ScaledRows):
    """The rows of several runs, scaled, one run under the other."""

    def __init__(self, designs: Sequence[ScaledRows]):
        self.each = np.stack([design.take(np.arange(len(design.x))) for design in designs])
        n_columns = self.each.shape[-1]
        super().__init__(self.each.reshape(-1, n_columns), np.zeros(n_columns), np.ones(n_columns))

    def scores(self, weights: Array) -> Array:
        """Return the scores of all rows, each under the weights of its run."""
        if weights.ndim == 2:
            return (self.each @ weights[..., None]).reshape(-1)
        return (self.each @ weights).reshape(len(self.x), -1)


class Stacked:
    """The problems of several runs as one: their rows under each other, their blocks side by side.

    Losses see one large problem, and the blocks of a run vote among themselves.
    """

    def __init__(self, descents: Sequence[Descent]):
        problems = [descent.problem for descent in descents]
        n_rows = len(problems[0].targets)
        self.descents, self.rngs = descents, [descent.rng for descent in descents]
        self.loss, self.cell, self.penalised = problems[0].loss, problems[0].cells[0], problems[0].penalised
        self.design = StackedRows([problem.design for problem in problems])  # type: ignore[misc]
        self.targets = np.concatenate([problem.targets for problem in problems])
        rows = [at * n_rows + problem.cells[0].samples[0].astype(np.intp) for at, problem in enumerate(problems)]
        self.dealer = DealerOfEach(np.stack(rows), self.cell.n_blocks)
        self._first = np.arange(len(problems))[:, None] * self.cell.n_blocks

    def only(self, places: Array) -> Runs:
        """Return some of the runs."""
        return Stacked([self.descents[at] for at in places])

    def project(self, theta: Array) -> Array:
        """Return the nearest parameters that are allowed."""
        return self.loss.project(theta)

    def epoch(self, theta: Array, counts: Array) -> tuple[list[float], list[float], Array, list[Array]]:
        """Do for every run what `Problem.epoch` does."""
        loss, cell, targets = self.loss, self.cell, self.targets
        scores = loss.scores(self.design, theta)
        deal = self.dealer.deal(self.rngs)
        risks = cell.risks(loss, scores, targets, (deal,)).reshape(len(theta), -1)
        chosen = in_the_middle(risks, self.rngs, cell.n_blocks, cell.n_chosen)
        whole = chosen.shape[1] == cell.n_blocks
        rows = deal.rows(None if whole else (self._first + chosen).reshape(-1))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            gradients = loss.gradients(self.design, rows, scores[rows], targets[rows])
            gradients = gradients.reshape(*chosen.shape, *theta.shape[1:])
            gradient = cell.weight * mean_of_each(gradients, cell.clipped)
        _count(rows, counts.reshape(-1))
        taken = np.take_along_axis(risks, chosen, axis=1)
        middle = taken[:, 0] if chosen.shape[1] == 1 else _lower_medians(risks)
        mean = cell.weight * (middle if chosen.shape[1] == 1 else taken.mean(axis=1))
        return (cell.weight * middle).tolist(), mean.tolist(), gradient, list(chosen.astype(np.int32))
