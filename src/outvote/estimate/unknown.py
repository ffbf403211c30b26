"""When the number of corrupt rows is unknown: levels, what they agree on, and how the answer depends on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.blocks.choose import log_delta_of
from outvote.blocks.partition import Rng, seed_of
from outvote.contamination import Adversary, Contamination
from outvote.data.rows import MoreCorruptRows, read_rows
from outvote.estimate.result import Interval, RobustEstimate

if TYPE_CHECKING:
    from outvote.plotting import SensitivityDisplay


def level_counts(most: int, *, exact_up_to: int = 0, growth: float = 2.0) -> list[int]:
    """Return numbers of corrupt rows from 0 to `most`: each one up to `exact_up_to`, then in geometric steps."""
    levels = list(range(min(most, exact_up_to) + 1))
    while levels[-1] < most:
        levels.append(min(most, max(levels[-1] + 1, math.floor(levels[-1] * growth))))
    return levels


def leave_open(
    contamination: str,
    run: Callable[[Contamination, float], RobustEstimate],
    n_rows: Sequence[int],
    max_contamination: float | Contamination,
    confidence: float,
    alternative: str,
) -> RobustEstimate:
    """Estimate without knowing how many rows are corrupt, by what levels up to a largest one agree on.

    Each level j (0, 1, 2, 4, … corrupt rows) gives an interval I_j at δ/J. The smallest j for which I_j, …, I_J have
    a point in common is taken, and its estimate moved into that intersection. If j* is the first level that allows
    for the corrupt rows there are, all intervals from j* on hold with probability 1 - δ, so they have the truth in
    common, j ≤ j*, and the answer, which lies in I_{j*} as the truth does, is within 2·t_{j*} of it.
    """
    if contamination != "auto":
        raise TypeError(
            f"contamination={contamination!r} must be a fraction (float in [0, 0.5)), a count (int), a tuple of these, "
            "or 'auto'"
        )
    if alternative != "two-sided":
        raise ValueError(f"alternative={alternative!r} does not go with contamination='auto', which is two-sided")
    most, adversary = most_corrupt(max_contamination, min(n_rows))
    levels = level_counts(most)
    share = -math.expm1(log_delta_of(confidence) - math.log(len(levels)))
    results = []
    for level in list(levels):
        try:
            results.append(run(Contamination(level, adversary), share))
        except MoreCorruptRows:
            levels.remove(level)  # the rows themselves say that there are more; δ is shared as before
    if not levels:
        raise ValueError(f"max_contamination={max_contamination!r}: more rows than that are corrupt for certain")
    if np.ndim(results[0].estimate):
        raise ValueError("contamination='auto' estimates one column at a time: pass a single one")
    low, high, chosen = -math.inf, math.inf, len(results) - 1
    for j in reversed(range(len(results))):
        lower, upper = max(low, float(results[j].interval.low)), min(high, float(results[j].interval.high))
        if lower > upper:
            break
        low, high, chosen = lower, upper, j
    found, widest = results[chosen], results[-1]
    estimate = min(max(float(found.estimate), low), high)
    radius = max(estimate - float(widest.interval.low), float(widest.interval.high) - estimate)
    table = tuple((level, 2 * float(one.radius)) for level, one in zip(levels, results, strict=True))
    log_delta = log_delta_of(confidence)
    certificate = replace(
        widest.certificate,
        radius=radius,
        log_delta=log_delta,
        requested_log_delta=log_delta,
        levels=table,
        statement="agreement of levels",
    )
    return replace(
        found,
        estimate=estimate,
        interval=Interval(*widest.interval),
        certificate=certificate,
        detail=(
            f"The number of corrupt rows was left open, up to {most}: intervals for {levels[chosen]} and more agree. "
            "certificate.levels says how far off the estimate can be for each number of corrupt rows; "
            f"the interval holds for all {most}."
        ),
    )


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity:
    """An estimate and its interval against the number of corrupt rows assumed.

    Attributes
    ----------
    n_corrupt : ndarray of int
        Corrupt rows assumed, in each sample.
    estimate, low, high, radius : ndarray
        What comes out.
    provenance : str
        The weakest grounds among the radii.
    n_rows : int or tuple of int
        Rows of the sample, or of each.
    statistic : str
        What was estimated.
    plain : float
        The plain estimate, which trusts every row.
    """

    n_corrupt: NDArray[np.int64]
    estimate: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    radius: NDArray[np.float64]
    provenance: str
    n_rows: int | tuple[int, ...]
    statistic: str
    plain: float

    def to_dict(self) -> dict[str, Any]:
        """Return columns of plain numbers; what is infinite becomes None."""
        columns = {name: getattr(self, name).tolist() for name in ("n_corrupt", "estimate", "low", "high", "radius")}
        return {name: [value if math.isfinite(value) else None for value in values] for name, values in columns.items()}

    def plot(self, ax: Any = None, *, threshold: float | None = None) -> SensitivityDisplay:
        """Draw estimate and interval against the number of corrupt rows; `threshold` is a line to compare with."""
        from outvote.plotting import SensitivityDisplay

        return SensitivityDisplay.from_sensitivity(self, threshold=threshold).plot(ax=ax)

    def __str__(self) -> str:
        lines = [
            f"{self.statistic}, {self.provenance}",
            f"{'corrupt rows':>12} {'estimate':>12} {'low':>12} {'high':>12}",
        ]
        rows = zip(self.n_corrupt, self.estimate, self.low, self.high, strict=True)
        lines += [f"{c:>12} {e:>12.5g} {a:>12.5g} {b:>12.5g}" for c, e, a, b in rows]
        return "\n".join(lines)

    __repr__ = __str__


def sensitivity(
    *samples: ArrayLike,
    levels: Sequence[int] | None = None,
    max_contamination: float = 0.25,
    adversary: Adversary = "oblivious",
    rng: Rng = None,
    **options: Any,
) -> Sensitivity:
    """Estimate for a range of numbers of corrupt rows.

    Parameters
    ----------
    *samples : array-like
        One sample, for its mean, or two, for mean(b) - mean(a).
    levels : sequence of int, optional
        Corrupt rows to assume, in each sample; by default 0, 1, 2, 4, … up to `max_contamination`.
    max_contamination : float
        The largest share of rows to assume corrupt.
    adversary : {"oblivious", "adaptive"}
        Whether the corrupt positions are independent of the clean values.
    rng : int, Generator or None
        Seed.
    **options
        As for `mean`, or `difference`: confidence, assume, vote, …

    Returns
    -------
    Sensitivity
        A table; ``.plot()`` draws it.

    Notes
    -----
    Peak memory: that of `mean` (or of the estimator given) for one level after the other, O(n).

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> x = np.random.default_rng(0).normal(5.0, size=1000)
    >>> s = ov.sensitivity(x, levels=[0, 10], assume=ov.FiniteVariance(1.0), vote="soft", rng=0)
    >>> s.n_corrupt.tolist(), s.radius.round(2).tolist()
    ([0, 10], [0.09, 0.15])
    """
    from outvote.estimate.estimate import difference, mean

    if len(samples) not in (1, 2):
        raise TypeError(f"sensitivity takes one sample or two, not {len(samples)}")
    names = ("x",) if len(samples) == 1 else ("a", "b")
    rows = [read_rows(sample, name) for sample, name in zip(samples, names, strict=True)]
    run: Callable[..., RobustEstimate] = mean if len(rows) == 1 else difference
    for sample, name in zip(rows, names, strict=True):
        if sample.ndim != 1:
            raise ValueError(f"{name} has shape {sample.shape}: sensitivity takes one column at a time")
    for fixed in ("contamination", "axis", "simultaneous"):
        if fixed in options:
            raise TypeError(f"{fixed}={options[fixed]!r} does not go with sensitivity, which varies the contamination")
    n_rows = tuple(map(len, rows))
    most, _ = most_corrupt(max_contamination, min(n_rows))
    wanted = level_counts(most) if levels is None else _counts(levels)
    seed, found = seed_of(rng), {}
    for level in wanted:
        try:
            found[level] = run(*rows, contamination=Contamination(level, adversary), rng=seed, **options)
        except MoreCorruptRows:
            continue  # the rows themselves say that there are more
    if not found:
        raise ValueError(f"levels={wanted!r}: more rows than that are corrupt for certain")
    results = list(found.values())
    kinds = ("certified", "plug-in", "none")
    plains = [float(np.nanmean(sample, dtype=np.float64)) for sample in rows]
    return Sensitivity(
        n_corrupt=np.array(list(found)),
        estimate=np.array([float(r.estimate) for r in results]),
        low=np.array([float(r.interval.low) for r in results]),
        high=np.array([float(r.interval.high) for r in results]),
        radius=np.array([float(r.radius) for r in results]),
        provenance=max((r.certificate.provenance for r in results), key=kinds.index),
        n_rows=n_rows[0] if len(n_rows) == 1 else n_rows,
        statistic=results[0].statistic,
        plain=plains[0] if len(plains) == 1 else plains[1] - plains[0],
    )


def most_corrupt(max_contamination: float | Contamination, n_rows: int) -> tuple[int, Adversary]:
    """Return the largest number of corrupt rows to allow for, and who placed them."""
    if isinstance(max_contamination, Contamination):
        return max_contamination.count(n_rows), max_contamination.adversary
    if isinstance(max_contamination, (bool, str)) or not isinstance(max_contamination, (float, Fraction)):
        raise TypeError(f"max_contamination={max_contamination!r} must be a fraction in [0, 0.5), or a Contamination")
    if not 0 <= max_contamination < 0.5:
        raise ValueError(f"max_contamination={max_contamination!r} must be a fraction in [0, 0.5)")
    return Contamination(max_contamination).count(n_rows), "oblivious"


def _counts(levels: Any) -> list[int]:
    if isinstance(levels, str) or not isinstance(levels, (Sequence, np.ndarray)) or not len(levels):
        raise TypeError(f"levels={levels!r} must be a sequence of numbers of corrupt rows, [0, 10, 100] for instance")
    for level in levels:
        if isinstance(level, bool) or not isinstance(level, (int, np.integer)) or level < 0:
            raise TypeError(f"levels={levels!r} holds {level!r}: a number of corrupt rows is an integer of at least 0")
    return [int(level) for level in levels]
