"""Fit many learners at once: learners with the same settings descend in step."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Literal

import numpy as np

from outvote.learning import DivergenceError, Problem, RobustLearner
from outvote.learning.descent import Descent
from outvote.learning.epoch_blocks import FEW_ROWS
from outvote.learning.fit import Fit
from outvote.learning.losses import Loss, MetricHinge
from outvote.learning.problem import MOST_GRADIENTS
from outvote.learning.scaling import ScaledRows
from outvote.paper.experiments.descents_in_step import Outcome, descend_in_step

#: The most numbers in the rows of descents in step. More would not fit into the cache, and gain nothing.
_MOST_NUMBERS = 2**20
#: The methods of losses that take a stack of parameters.
_STACKED = Loss.scores, Loss.project, MetricHinge.scores, MetricHinge.project


def fit_together(
    models: Iterable[RobustLearner], data: Iterable[Sequence[Any]], errors: Literal["raise", "return"] = "raise"
) -> list[Any]:
    """Fit many learners, each to its own rows; if there are few rows this is much faster than one after the other.

    The result is that of ``model.fit(*rows)`` for each learner, up to rounding: every learner draws from its own
    `random_state`, its callbacks see the same states, and a learner that diverges does not stop the others.

    Parameters
    ----------
    models : iterable of learner
        Any of outvote's learners, in any mixture. Learners with the same settings (except `random_state` and
        `callbacks`) and rows of the same shape are fitted in step. The others are fitted one after the other, as are
        learners with `verbose`, a `device`, groups, two samples, blocks of each class, float32 or more than 16384 rows.
    data : iterable of tuple
        The arguments of `fit` for each learner: (X, y), or (X, y, groups).
    errors : {"raise", "return"}
        After all fits, raise the first `DivergenceError`, or return each error in the place of its learner.

    Returns
    -------
    list
        The fitted learners, in their order.

    Raises
    ------
    DivergenceError
        With ``errors="raise"``, if a fit diverged; the other learners are fitted nevertheless.

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
    _check(models, data, errors)
    fits = [Fit.begin(model, *rows) for model, rows in zip(models, data, strict=True)]
    outcomes = _descend([fit.descent for fit in fits])
    found = {at: outcome for at, outcome in enumerate(outcomes) if not isinstance(outcome, DivergenceError)}
    asked = {at: fits[at].refit(first) for at, first in found.items()}
    refits = {at: descent for at, descent in asked.items() if descent is not None}
    refitted = dict(zip(refits, _descend(list(refits.values())), strict=True))
    for at, first in found.items():
        second = refitted.get(at)
        fits[at].finish(first, None if isinstance(second, DivergenceError) else second)
    if errors == "raise":
        for outcome in outcomes:
            if isinstance(outcome, DivergenceError):
                raise outcome
    return [model if at in found else outcomes[at] for at, model in enumerate(models)]


def _check(models: list[Any], data: list[Any], errors: str) -> None:
    if errors not in ("raise", "return"):
        raise ValueError(f"errors={errors!r} is neither 'raise' nor 'return'")
    if len(models) != len(data):
        raise ValueError(f"there are {len(models)} models for {len(data)} data sets: give each model its own (X, y)")
    first: dict[int, int] = {}
    for at, (model, rows) in enumerate(zip(models, data, strict=True)):
        if not isinstance(model, RobustLearner):
            raise TypeError(f"models[{at}]={model!r} is not one of outvote's learners, such as RobustRanker")
        if first.setdefault(id(model), at) != at:
            raise ValueError(f"models[{at}] is models[{first[id(model)]}]: use sklearn.base.clone for each fit")
        if not isinstance(rows, tuple | list) or len(rows) not in (2, 3):
            raise TypeError(f"data[{at}] must be a tuple (X, y), or (X, y, groups), not {type(rows).__name__}")


def _descend(descents: list[Descent]) -> list[Outcome]:
    """Perform the descents, and in step those of the same kind."""
    outcomes: dict[int, Outcome] = {}
    kinds: dict[Hashable, list[int]] = {}
    for at, descent in enumerate(descents):
        kinds.setdefault(_kind(descent) or at, []).append(at)
    for places in kinds.values():
        rows = descents[places[0]].problem.design
        most = max(1, _MOST_NUMBERS // rows.x.size) if isinstance(rows, ScaledRows) else 1
        for low in range(0, len(places), most):
            some = places[low : low + most]
            together = [descents[at] for at in some]
            made = descend_in_step(together) if len(some) > 1 else [_descend_alone(*together)]
            outcomes.update(zip(some, made, strict=True))
    return [outcomes[at] for at in range(len(descents))]


def _descend_alone(descent: Descent) -> Outcome:
    try:
        return descent.run()
    except DivergenceError as error:
        return error


def _kind(descent: Descent) -> Hashable:
    """Return a key that descents in step must have in common, or None for a descent that must be performed alone."""
    problem, start = descent.problem, descent.start
    design, loss, cell = problem.design, problem.loss, problem.cells[0]
    if type(problem) is not Problem or type(design) is not ScaledRows or len(problem.cells) > 1 or descent.verbose:
        return None
    if (descent.settings.window or math.inf) * 2 <= descent.settings.n_epochs:  # each may end at an epoch of its own
        return None
    if len(cell.samples) > 1 or cell.groups is not None or len(cell.samples[0]) > FEW_ROWS:
        return None
    if design.far or design.x.dtype != np.float64 or cell.n_chosen * start.size > MOST_GRADIENTS:
        return None
    if type(loss).scores not in _STACKED or type(loss).project not in _STACKED:
        return None
    plain = not vars(loss).keys() - {"_last"}
    shape = design.x.shape, design.intercept, start.shape, problem.targets.dtype
    blocks = len(cell.samples[0]), cell.n_blocks, cell.n_chosen, cell.weight, cell.clipped
    return type(loss) if plain else id(loss), shape, blocks, descent.settings, descent.first_epoch
