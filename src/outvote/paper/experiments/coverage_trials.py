"""The trials of the coverage experiment: the functions called, the errors measured, and the attacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from outvote import certificate
from outvote.blocks.partition import Partition, draw
from outvote.blocks.plan import BlockPlan, GridPlan, RowPlan
from outvote.estimate.difference import difference
from outvote.estimate.mean import mean
from outvote.estimate.mmd import mmd
from outvote.estimate.quantile import quantile
from outvote.estimate.result import RobustEstimate
from outvote.estimate.risk import certify_risk
from outvote.estimate.summary import BlockSummary
from outvote.estimate.u_statistic import u_statistic
from outvote.paper.experiments.coverage_cases import THRESHOLDS, Case, losses_at, risk_at
from outvote.paper.experiments.estimation import Array

Options = Mapping[str, Any]


class Tried(NamedTuple):
    """The error and the radius that the certificate allows in each run, and one of the results."""

    error: Array
    reach: Array
    result: RobustEstimate


Trial = Callable[[Case, Sequence[Array], Options], Tried]


def _runs(case: Case, samples: Sequence[Array]) -> Iterator[list[Array]]:
    """Yield the samples of each run, with as many columns as the case has."""
    for low in range(0, samples[0].shape[1], case.columns):
        some = low if case.columns == 1 else slice(low, low + case.columns)
        yield [sample[:, some] for sample in samples]


def _by_interval(truth: Any, results: Sequence[RobustEstimate], *, table: bool = False) -> Tried:
    """Compare the truth with the end of the interval on its side; with `table`, one result has all runs as columns."""
    estimate = np.array([one.estimate for one in results], dtype=float)
    low, high = (np.array([one.interval[end] for one in results], dtype=float) for end in (0, 1))
    truth = np.asarray(truth, dtype=float)
    reach = np.where(truth >= estimate, high - estimate, estimate - low)
    # Nothing is promised where the sd read off the rows is below that of the clean rows, 1.
    premise = np.array([np.broadcast_to(one.certificate.premise_sd, np.shape(one.estimate)) for one in results])
    reach = np.where(premise < 1, math.inf, reach)
    error = np.abs(estimate - truth)
    if table:
        return Tried(error[0], reach[0], results[0])
    if error.ndim == 2:  # all columns must hold: take the column that is nearest to a miss
        worst = np.arange(len(error)), np.argmax(error / reach, axis=1)
        error, reach = error[worst], reach[worst]
    return Tried(error, reach, results[0])


# --- estimates --------------------------------------------------------------------------------------------


def _mean(case: Case, samples: Sequence[Array], options: Options) -> Tried:
    if options["contamination"] != "auto" and case.columns == 1:
        return _by_interval(case.truth, [mean(samples[0], **options)], table=True)
    results = [mean(x, **options) for (x,) in _runs(case, samples)]
    return _by_levels(case, results) if case.reading == "levels" else _by_interval(case.truth, results)


def _by_levels(case: Case, results: Sequence[RobustEstimate]) -> Tried:
    """Take the radius of the first level that allows for the corrupt rows, if their number is left open."""
    error = [abs(float(one.estimate) - case.truth) for one in results]
    reach = [next(t for level, t in one.certificate.levels or () if level >= case.outliers) for one in results]
    return Tried(np.array(error), np.array(reach), results[0])


def _u_statistic(case: Case, samples: Sequence[Array], options: Options) -> Tried:
    options = {"vote": "median", **options}
    results = [u_statistic(*rows, kernel=case.kernel or "", **options) for rows in _runs(case, samples)]
    return _by_interval(case.truth, results)


def _quantile(case: Case, samples: Sequence[Array], options: Options) -> Tried:
    asked = {name: options[name] for name in ("contamination", "confidence")}
    return _by_interval(case.truth, [quantile(x, **asked) for (x,) in _runs(case, samples)])


def _mmd(case: Case, samples: Sequence[Array], options: Options) -> Tried:
    asked = {name: options[name] for name in ("contamination", "confidence", "bandwidth")}
    return _by_interval(case.truth, [mmd(a, b, **asked) for a, b in _runs(case, samples)])


def _difference(case: Case, samples: Sequence[Array], options: Options) -> Tried:
    return _by_interval(case.truth, [difference(a, b, **options) for a, b in _runs(case, samples)])


def _summary(case: Case, samples: Sequence[Array], options: Options) -> Tried:
    summary = BlockSummary(options["n_blocks"], options["rng"]).update(samples[0])
    asked = {name: options[name] for name in ("contamination", "confidence", "assume", "vote")}
    return _by_interval(case.truth, [summary.result(**asked)], table=True)


def _risk(case: Case, samples: Sequence[Array], options: Options) -> Tried:
    """Certify the risk of one model, or of the model with the smallest estimate among several."""
    results = [certify_risk(rows, kernel=case.kernel, **options) for (rows,) in _runs(case, samples)]
    if case.columns == 1:
        return _by_interval(case.truth, results)
    estimate, high = (
        np.array(of, dtype=float) for of in zip(*((r.estimate, r.interval.high) for r in results), strict=True)
    )
    best = np.arange(len(results)), np.argmin(estimate, axis=1)
    estimate, high = estimate[best], high[best]
    reach = np.where(case.truth >= estimate, high - estimate, math.inf)
    return Tried(np.abs(estimate - case.truth), reach, results[0])


def _risk_of_the_best_threshold(case: Case, samples: Sequence[Array], options: Options) -> Tried:
    """Choose the threshold with the smallest median of block risks, and certify its risk on the same rows."""
    asked = {name: value for name, value in options.items() if name != "vc_dim"}
    results, truth = [], []
    for (rows,) in _runs(case, samples):
        losses = losses_at(rows)
        best = int(np.argmin(mean(losses, **asked).estimate))
        results.append(certify_risk(losses[:, best], **options))
        truth.append(risk_at(THRESHOLDS[best]))
    return _by_interval(np.array(truth), results)


# --- radii of given blocks --------------------------------------------------------------------------------


def _given(case: Case, options: Options, plan: BlockPlan, *names: str) -> dict[str, Any]:
    """Return the arguments that describe the blocks, and those with the given names."""
    known = {
        "delta": 1 - options["confidence"],
        "assume": case.assume,
        "adversary": case.adversary,
        "kurtosis": getattr(case.assume, "kurtosis", None),
    }
    blocks = {"n_blocks": plan.n_blocks, "n_corrupt": case.outliers, "block_size": int(plan.size_range[0])}
    return {**blocks, **{name: known[name] for name in names}}


def _medians(samples: Sequence[Array], options: Options) -> tuple[RobustEstimate, BlockPlan, Array]:
    result = mean(samples[0], **options)
    assert isinstance(result.plan, BlockPlan)
    return result, result.plan, np.asarray(result.estimate)


def _huber(case: Case, samples: Sequence[Array], options: Options) -> Tried:
    result, plan, medians = _medians(samples, options)
    given = _given(case, options, plan, "delta", "assume")
    del given["n_corrupt"]
    reach = certificate.radius(huber_rate=case.outliers / case.n, **given)
    return Tried(np.abs(medians), np.full(medians.shape, reach), result)


def _expected_error(case: Case, samples: Sequence[Array], options: Options) -> Tried:
    result, plan, medians = _medians(samples, options)
    reach = certificate.expected_error(**_given(case, options, plan, "assume", "adversary"))
    return Tried(np.abs(medians), np.full(medians.shape, reach), result)


def _mean_squared_error(case: Case, samples: Sequence[Array], options: Options) -> Tried:
    result, plan, medians = _medians(samples, options)
    reach = certificate.mean_squared_error(**_given(case, options, plan, "assume", "adversary"))
    return Tried(medians**2, np.full(medians.shape, reach), result)


def _block_variances(samples: Sequence[Array], options: Options, plan: BlockPlan) -> Array:
    parts = plan.partition(options["rng"], options["partition"])
    return np.median([samples[0][block].var(axis=0, ddof=1) for block in parts], axis=0)


def _sigma_upper(case: Case, samples: Sequence[Array], options: Options) -> Tried:
    """Compare the sd of the clean rows, taken as the error, with the bound on it."""
    result, plan, _ = _medians(samples, options)
    given = _given(case, options, plan, "delta", "kurtosis", "adversary")
    reach = certificate.sigma_upper(_block_variances(samples, options, plan), **given)
    return Tried(np.full(reach.shape, case.truth), reach, result)


def _sigma_free_radius(case: Case, samples: Sequence[Array], options: Options) -> Tried:
    result, plan, medians = _medians(samples, options)
    given = _given(case, options, plan, "delta", "kurtosis", "adversary")
    reach = certificate.sigma_free_radius(_block_variances(samples, options, plan), **given)
    return Tried(np.abs(medians), reach, result)


def _sigma_bounds(case: Case, samples: Sequence[Array], options: Options) -> Tried:
    """Compare the sd of the clean rows, 1, with both bounds, on a logarithmic scale."""
    asked = {name: options[name] for name in ("contamination", "confidence")}
    kurtosis = getattr(case.assume, "kurtosis", None)
    found = [certificate.sigma_bounds(rows, kurtosis=kurtosis, **asked) for (rows,) in _runs(case, samples)]
    low, high = np.log(found).T
    middle = (low + high) / 2
    return Tried(np.abs(middle), high - middle, mean(samples[0], **options))


def _order_statistics(case: Case, samples: Sequence[Array], options: Options) -> Tried:
    """Compare the distance from the truth to the middle of the interval with half its length."""
    result, plan, _ = _medians(samples, options)
    given = _given(case, options, plan, "delta", "adversary")
    del given["n_blocks"], given["block_size"]
    values = np.asarray(result.block_values).reshape(plan.n_blocks, -1)
    found = [certificate.order_statistic_interval(one, **given) for one in values.T]
    low, high = np.array([(one.low, one.high) for one in found]).T
    return Tried(np.abs((low + high) / 2 - case.truth), (high - low) / 2, result)


def _uniform_radius(case: Case, samples: Sequence[Array], options: Options) -> Tried:
    """Compare the largest error over all thresholds with the radius."""
    results = [mean(losses_at(rows), **options) for (rows,) in _runs(case, samples)]
    error = np.abs(np.stack([np.asarray(one.estimate) for one in results]) - risk_at(THRESHOLDS)).max(axis=1)
    plan = results[0].plan
    assert isinstance(plan, BlockPlan)
    reach = certificate.uniform_radius(vc_dim=1, degree=1, **_given(case, options, plan, "delta", "adversary"))
    return Tried(error, np.full(len(error), reach), results[0])


#: Trials by the public name of the function that returns the certificate.
TRIALS: dict[str, Trial] = {
    "mean": _mean,
    "u_statistic": _u_statistic,
    "quantile": _quantile,
    "mmd": _mmd,
    "difference": _difference,
    "certify_risk": _risk,
    "certify_risk(vc_dim)": _risk_of_the_best_threshold,
    "BlockSummary.result": _summary,
    "certificate.radius(huber_rate)": _huber,
    "certificate.expected_error": _expected_error,
    "certificate.mean_squared_error": _mean_squared_error,
    "certificate.sigma_upper": _sigma_upper,
    "certificate.sigma_bounds": _sigma_bounds,
    "certificate.sigma_free_radius": _sigma_free_radius,
    "certificate.order_statistic_interval": _order_statistics,
    "certificate.uniform_radius": _uniform_radius,
}


# --- attacks ----------------------------------------------------------------------------------------------


def parts_of(result: RobustEstimate, kind: Any) -> tuple[Partition, ...]:
    """Return the blocks of each sample from which a result was computed; evidence has rows instead."""
    if isinstance(result.plan, GridPlan):
        return result.plan.partition(result.seed, kind)
    if isinstance(result.plan, RowPlan):
        sizes = result.plan.n_rows if isinstance(result.plan.n_rows, tuple) else (result.plan.n_rows,)
        return tuple(draw("contiguous", n, n, seed=0) for n in sizes)
    return (result.plan.partition(result.seed, kind),)


def attack(
    rng: np.random.Generator, clean: Sequence[Array], parts: Sequence[Partition], case: Case, place: Sequence[float]
) -> list[Array]:
    """Return copies of the samples with outliers at `place`.

    Oblivious: one outlier goes into each of the first blocks, into different blocks in each sample. Adaptive: the
    outliers go into the blocks whose values lie farthest on the other side in that run. Huber: rows are hit by chance.
    """
    kind, samples = case.attack or case.adversary, [rows.copy() for rows in clean]
    if kind == "huber":
        for rows, value in zip(samples, place, strict=True):
            rows[rng.random(rows.shape) < case.outliers / case.n] = value
        return samples
    each = np.arange(case.outliers)
    together = len(parts) > 1 and case.options.get("grid") == "diagonal"
    # Paired rows are one sample; its outliers go into the second row of a pair.
    shared = list(zip(samples, place, strict=True))[-len(parts) :]
    for s, ((rows, value), part) in enumerate(zip(shared, parts, strict=True)):
        firsts = np.array([block[0] for block in part])
        if kind == "oblivious":
            rows[firsts[s * case.outliers + each]] = value
            continue
        if together:
            order = np.argsort(math.copysign(1.0, place[-1]) * _wins(clean, parts), axis=0)[s * case.outliers + each]
        else:
            worth = np.array([_VALUES[case.kernel](clean[s][block]) for block in part])
            order = np.argsort(math.copysign(1.0, value - case.centre) * worth, axis=0)[each]
        rows[firsts[order], np.arange(rows.shape[1])] = value
    return samples


def _wins(clean: Sequence[Array], parts: Sequence[Partition]) -> Array:
    """Return the share of pairs with X ≤ Y in the k-th blocks, for every k and run."""
    pairs = zip(*parts, strict=True)
    return np.array([(clean[0][x][:, None] <= clean[1][y][None]).mean(axis=(0, 1)) for x, y in pairs])


def _gini(rows: Array) -> Array:
    size = len(rows)
    weights = 2 * np.arange(size) - size + 1
    return np.asarray(2 * weights @ np.sort(rows, axis=0) / (size * (size - 1)))


#: Functions that return the value of a block in all runs, by the name of the kernel.
_VALUES: dict[str | None, Callable[[Array], Array]] = {
    None: lambda rows: rows.mean(axis=0),
    "mann-whitney": lambda rows: rows.mean(axis=0),
    "variance": lambda rows: rows.var(axis=0, ddof=1) if len(rows) > 1 else rows[0] ** 2,
    "gini": _gini,
    "thresholds": lambda rows: losses_at(rows).mean(axis=(0, -1)),
}
