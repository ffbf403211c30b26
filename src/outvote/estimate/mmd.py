"""Do two samples come from the same distribution? The maximum mean discrepancy, and what corrupt rows can do to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.blocks.plan import RowPlan
from outvote.certificate import Certificate
from outvote.contamination import Contamination
from outvote.data.missing import NanPolicy
from outvote.data.rows import read_rows
from outvote.data.tensors import median
from outvote.data.text import rounded, spaced
from outvote.estimate.request import Allowed, Request
from outvote.estimate.result import Interval, RobustEstimate
from outvote.kernels.distances import checked_bandwidth, similarities
from outvote.votes.embedding import Embeddings

_REASON = (
    "The distance is that of all rows' mean embeddings. Its ends are those of the clean rows' for the worst choice of "
    "corrupt ones, and leave room for chance."
)
_CHOSEN = (
    "The bandwidth {} is the power of two nearest to the typical distance between rows; the interval holds for all "
    "powers of two at once, so the choice costs no confidence."
)
#: The smallest and the largest exponent of a bandwidth: the square of neither over- nor underflows.
_EXPONENTS = (-500, 500)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Comparison(RobustEstimate):
    """A distance between the distributions of two samples, and whether it shows that they differ.

    It is a `RobustEstimate`, with three attributes more.

    Attributes
    ----------
    bandwidth : float
        Width of the Gaussian kernel.
    differ : bool
        Whether the distributions of clean rows are shown to differ: whether the lower end of `interval` is above 0.
    tolerance : int or None
        They are shown to differ for every number of corrupt rows up to this one, in both samples together, wherever
        they are; None if not even when no row is corrupt but those that are for certain.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> rng = np.random.default_rng(0)
    >>> r = ov.mmd(rng.normal(size=500), rng.normal(size=500), bandwidth=1.0)
    >>> r.differ, r.tolerance
    (False, None)
    >>> print(r)  # doctest: +NORMALIZE_WHITESPACE
    The two samples are not shown to differ: MMD 0.042, at most 0.185 (certified 95 %, allows for 10 corrupt rows in
    both together).
    """

    bandwidth: float
    differ: bool
    tolerance: int | None

    def to_dict(self, *, blocks: bool = False) -> dict[str, Any]:
        """Return plain numbers, strings and lists, ready for JSON."""
        more = {"bandwidth": self.bandwidth, "differ": self.differ, "tolerance": self.tolerance, "sentence": str(self)}
        return super().to_dict(blocks=blocks) | more

    def plot(self, ax: Any = None, *, column: int | None = None) -> Any:
        """Refuse: no picture of rows shows this distance."""
        raise ValueError("an MMD has no picture of its own: plot both samples, and print the result")

    def __str__(self) -> str:
        """Say whether the samples differ, by how much, and until when that stands."""
        low, high = float(self.interval.low), float(self.interval.high)
        size, total = (high - low) / 2, spaced(int(np.sum(self.plan.n_rows)))
        value, remarks = f"MMD {rounded(float(self.estimate), size)}", self._sure()
        seen = "" if self.certificate.adversary == "oblivious" else ", even by someone who saw the others"
        allowed = self.tolerance
        if self.differ:
            text = f"The two samples differ: {value}, at least {rounded(low, size)} ({remarks})"
            if allowed is not None and allowed < np.sum(self.plan.n_corrupt):  # these were the better of the splits
                return f"{text}; wherever they are, this stands up to {spaced(allowed)} of the {total} rows{seen}."
            return f"{text}; this stands unless more than {spaced(allowed)} of the {total} rows are corrupt{seen}."
        text = f"The two samples are not shown to differ: {value}, at most {rounded(high, size)} ({remarks})"
        if allowed is None:
            return f"{text}."
        return f"{text}; they are if no more than {spaced(allowed)} of the {total} rows are corrupt{seen}."

    __repr__ = __str__


def mmd(
    a: ArrayLike,
    b: ArrayLike,
    contamination: Allowed = 0.01,
    confidence: float = 0.95,
    *,
    bandwidth: float | None = None,
    nan_policy: NanPolicy = "raise",
) -> Comparison:
    """Estimate how far apart the distributions of two samples' clean rows are, and decide whether they differ.

    The maximum mean discrepancy (MMD, not squared) with the Gaussian kernel exp(-‖u-v‖²/(2·bandwidth²)): 0 if the
    distributions are equal, and at most √2, which it comes near only if the samples are far apart and the rows of
    each lie within much less than a bandwidth. It sees any difference (in mean, spread, shape), needs no
    assumption on the clean rows other than that they are independent, and no blocks.

    Parameters
    ----------
    a, b : array-like
        The two samples: numbers (1-D) or vectors (2-D, one a row, as many columns each). They are not modified. Put
        columns of different units on one scale first, by numbers that do not come from these rows.
    contamination : float, int, tuple or Contamination
        How many rows may be corrupt, of each sample; they may be anywhere in both, as many together. As a tuple: one
        for a and one for b.
    confidence : float
        With this probability the interval and the decision are right.
    bandwidth : float, optional
        Width of the kernel: differences on this scale are seen best. Fix it before you look at the rows. By default
        it is read off them, as a power of two 2^j near the typical distance between rows. That is paid for, since
        the interval holds for all j at once: 2^j has (2/3)/((|j|+1)(|j|+2)) of δ. Chance then costs a seventh more if
        distances are near 1, and two fifths more if they are near 10 or 0.1. Both ways are certified.
    nan_policy : {"raise", "omit", "corrupt"}
        As for `mean`.

    Returns
    -------
    Comparison
        A `RobustEstimate` with `differ`, `tolerance` and `bandwidth`. The estimate is that of all rows, pairs of a
        row with itself included (the V-statistic), which is above 0 even for equal distributions.

    Notes
    -----
    Corrupt rows cost no more than √2 times their share, and mostly much less: the rows say how much their worst
    choice could have moved the distance. Chance costs √(1/N_a + 1/N_b)·√log(2/δ), and they are shown to differ
    from 1 + √log(1/δ) times that root on, N the clean rows (docs/certificates.md, §15).

    Time: O((n_a + n_b)²·columns), a second or two for 10 000 rows in each sample. Memory: O(n), and tiles of a few
    megabytes.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(size=1500), rng.normal(scale=2.0, size=1500)  # equal means
    >>> a[:15] = 50.0
    >>> print(ov.mmd(a, b, bandwidth=1.0))  # doctest: +NORMALIZE_WHITESPACE
    The two samples differ: MMD 0.324, at least 0.238 (certified 95 %, allows for 30 corrupt rows in both together);
    this stands unless more than 438 of the 3 000 rows are corrupt.
    """
    allowed = Contamination.of(contamination)
    request = Request.read(allowed, confidence, n_samples=2, nan_policy=nan_policy)
    given = None if bandwidth is None else checked_bandwidth(bandwidth)
    pair = [read_rows(sample, name).astype(np.float64, copy=False) for sample, name in ((a, "a"), (b, "b"))]
    if pair[0].shape[1:] != pair[1].shape[1:]:
        raise ValueError(f"a has shape {pair[0].shape} and b has shape {pair[1].shape}: they need the same columns")
    screened = request.screen(pair, "ab")
    width, log_share = (given, 0.0) if given is not None else _chosen_bandwidth(np.concatenate(screened.rows))
    log_delta = request.terms.log_delta + log_share
    x, y = screened.rows
    (across_x, across_y), adaptive = similarities(x, y, width), allowed.adversary == "adaptive"
    within = similarities(x, x, width)[0], similarities(y, y, width)[0]
    both = Embeddings.of((within[0], across_x), (within[1], across_y), adaptive=adaptive)
    found = request.found_corrupt(screened.bad[0]), request.found_corrupt(screened.bad[1])
    together = not isinstance(allowed.amount, tuple)
    low, high = both.ends(screened.counts, log_delta, together=together, found=found)
    return Comparison(
        estimate=both.distance,
        interval=Interval(low, high),
        certificate=Certificate(
            radius=max(both.distance - low, high - both.distance),
            provenance="certified",
            log_delta=request.terms.log_delta,
            requested_log_delta=request.terms.log_delta,
            adversary=allowed.adversary,
            statement="bounded differences of the distance between mean embeddings, and its worst deletion of rows",
            target="MMD",
        ),
        plan=RowPlan((len(x), len(y)), screened.counts, vote="complete", reason=_REASON, together=together),
        block_values=(np.empty(0), np.empty(0)),
        block_sizes=(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)),
        seed=None,
        partition=None,
        statistic="mmd",
        n_omitted=sum(screened.bad),
        detail="" if given is not None else _CHOSEN.format(f"{width:.6g}"),
        plain_mean=both.distance,
        bandwidth=width,
        differ=low > 0,
        tolerance=both.tolerance(log_delta, found),
    )


def _chosen_bandwidth(rows: NDArray[Any]) -> tuple[float, float]:
    """Return a power of two near the typical distance between rows, and the logarithm of its share of δ.

    The shares (2/3)/((|j|+1)(|j|+2)) of all integers j add up to 1.
    """
    table = rows.reshape(len(rows), -1).astype(np.float64)
    with np.errstate(over="ignore"):
        far = np.hypot.reduce(table - median(table), axis=1)  # squares would overflow
    typical = float(median(far)) or (float(median(far[far > 0])) if far.any() else 0.0)
    # Two rows are about half as far again from each other as from the centre.
    exponent = math.log2(1.5) + math.log2(typical) if typical > 0 else 0.0
    nearest = round(min(max(exponent, _EXPONENTS[0]), _EXPONENTS[1]))
    size = abs(nearest)
    return 2.0**nearest, math.log(2 / 3) - math.log((size + 1) * (size + 2))
