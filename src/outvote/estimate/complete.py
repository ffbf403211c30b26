"""U-statistics without blocks: complete ones for kernels with bounds, evidence of disjoint tuples for others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption, Bounded, FiniteVariance
from outvote.blocks.plan import RowPlan
from outvote.certificate import Certificate
from outvote.contamination import Contamination
from outvote.data.missing import ContradictionError, check_certain
from outvote.estimate.evidence import OrderedTable, mean_by_evidence
from outvote.estimate.ordered import MANY_ROWS, Ordered, counted_in_bins
from outvote.estimate.premise import UnknownScale
from outvote.estimate.request import Assumed, Request, distinct
from outvote.estimate.result import WITHOUT_BLOCKS, Interval, RobustEstimate, named, shaped
from outvote.estimate.screened import without_bad_rows
from outvote.kernels import Kernel
from outvote.kernels.deletions import extremes, matched_values
from outvote.kernels.tuples import ArrayFunction
from outvote.votes import Terms
from outvote.votes.complete import complete_interval
from outvote.votes.evidence import BinnedRows, SeveralRows, SortedRows
from outvote.votes.evidence.bins import Bins

_COMPLETE = (
    "The statistic was computed from all rows, and again without {rows}, whichever make it least, or largest; the "
    "interval leaves room for chance around these two."
)
_TUPLES = (
    "The rows were put into {tuples} disjoint tuples, in several ways that depend on their number alone. A value is "
    "ruled out only by evidence of the kernel's values that is left when the {corrupt} that speak most against it go, "
    "as many as corrupt rows can touch."
)
_FEW_ROWS = "There are too few rows, or too many may be corrupt, to say more than that it lies within its bounds."
#: Values too large for a float count as this.
_LARGEST = float(np.finfo(np.float64).max)
#: So many ways to put rows into disjoint tuples have their evidence averaged.
_MATCHINGS = 8


@dataclass(frozen=True)
class KernelRows:
    """Samples of a U-statistic, the NaN policy applied.

    Attributes
    ----------
    rows : list of ndarray
        The rows of each sample, those that are corrupt for certain among them.
    bad : list of ndarray or None
        Which rows are corrupt for certain.
    n_bad : int
        How many rows had NaN or infinite values.
    names : sequence of str
        What each sample is called in errors.
    shape : tuple of int
        Shape of the columns; () if rows are taken whole.
    kernel : Kernel
        The kernel.
    assumed : tuple of Assumption or None
        What is known of its values in each column.
    """

    rows: list[NDArray[Any]]
    bad: list[Any]
    n_bad: int
    names: Sequence[str]
    shape: tuple[int, ...]
    kernel: Kernel
    assumed: Assumed

    @classmethod
    def read(
        cls,
        samples: Sequence[NDArray[Any]],
        names: Sequence[str],
        shape: tuple[int, ...],
        kernel: Kernel,
        assumed: Assumed,
        request: Request,
    ) -> KernelRows:
        """Apply the NaN policy to each sample."""
        rows, bad, total = [], [], 0
        for sample, name in zip(samples, names, strict=True):
            read = without_bad_rows(sample.reshape(len(sample), -1), request.nan_policy, name)
            rows.append(read.table.reshape(len(read.table), *sample.shape[1:]))
            bad.append(read.bad)
            total += read.n_bad
        return cls(rows, bad, total, names, shape, kernel, assumed)

    def counts(self, request: Request) -> tuple[int, ...]:
        """Return how many rows of each sample may be corrupt; refuse fewer than there are for certain."""
        counts = request.allowed.counts([len(sample) for sample in self.rows])
        for sample, mark, count, name in zip(self.rows, self.bad, counts, self.names, strict=True):
            found = 0 if mark is None else int(mark.sum())
            check_certain(found, count, len(sample), f"{name} has NaN or infinite values")
        return counts

    def column(self, j: int) -> list[NDArray[Any]]:
        """Return a column of each sample; the samples themselves if rows are taken whole."""
        return [sample[:, j] for sample in self.rows] if self.shape else self.rows


def complete_u_statistic(samples: KernelRows, request: Request, terms: Terms) -> RobustEstimate:
    """Estimate by the statistic of all rows, for kernels with bounds."""
    kernel, assumed, shape = samples.kernel, samples.assumed, samples.shape
    counts, adaptive = samples.counts(request), terms.adversary == "adaptive"
    found = []
    for j, assume in enumerate(assumed):
        assert isinstance(assume, Bounded)
        known, rows = kernel, samples.column(j)
        if not math.isfinite(assume.width):
            raise ValueError(f"assume={assume!r} has bounds too far apart for a float: give narrower ones")
        refuse_false_bounds(kernel, assume, rows, samples.bad, sum(counts))
        if (assume.low, assume.high) != kernel.bounds:  # forms of the kernel know its own bounds only
            bounds = (assume.low, assume.high)
            known = replace(kernel, bounds=bounds, row_sums_form=None, deleted_form=None, rises=None)
        found.append(_of_column(known, rows, counts, samples.bad, terms, adaptive))
    values, lows, highs = np.array(found).T
    sides = {"less": [highs - values], "greater": [values - lows]}
    radius = np.max(sides.get(terms.alternative, [values - lows, highs - values]), axis=0)
    several, kinds = len(counts) > 1, distinct(assumed)
    ends = np.array([(one.low, one.high) for one in assumed if isinstance(one, Bounded)]).T
    certificate = Certificate(
        radius=shaped(radius, shape),
        provenance="certified",
        log_delta=request.terms.log_delta,
        requested_log_delta=request.terms.log_delta,
        assumption=kinds[0] if len(kinds) == 1 else assumed,
        adversary=terms.adversary,
        statement="complete U-statistic, at its least and largest over all deletions",
        note=_FEW_ROWS if np.all((lows <= ends[0]) & (highs >= ends[1])) else "",
        target=kernel.name,
        alternative=terms.alternative,
    )
    sizes = tuple(len(sample) for sample in samples.rows)
    gone = f"{counts[0]} of them"
    if several:
        gone = " and ".join(f"{count} of sample {number}" for number, count in enumerate(counts, 1))
    reason = _COMPLETE.format(rows=gone)
    return _written(
        shaped(values, shape), Interval(shaped(lows, shape), shaped(highs, shape)), certificate, kernel, terms,
        RowPlan(sizes if several else sizes[0], counts if several else counts[0], "complete", reason), samples.n_bad,
    )  # fmt: skip


def refuse_false_bounds(
    kernel: Kernel, assume: Bounded, rows: Sequence[NDArray[Any]], bad: Sequence[Any], n_corrupt: int
) -> None:
    """Raise an error if more disjoint tuples leave the bounds than corrupt rows can touch.

    The bounds that a kernel of ours has by itself need no look.
    """
    if kernel.aligned_form is not None and (assume.low, assume.high) == kernel.bounds:
        return
    ready = kernel.fit(rows)
    function = partial(_finite, ArrayFunction(ready.function, ready.name))
    values = next(matched_values(function, kernel.degrees, rows, bad, 1))
    slack = 1e-9 * assume.width + 2.0**-46 * max(abs(assume.low), abs(assume.high))
    outside = values[(values < assume.low - slack) | (values > assume.high + slack)]
    if len(outside) > n_corrupt:
        raise ContradictionError(
            f"the rows contradict assume={assume!r}: kernel {kernel.name!r} leaves these bounds on {len(outside)} of "
            f"{len(values)} disjoint tuples, {outside[0]:.4g} for instance, and {n_corrupt} corrupt rows touch no more "
            f"than {n_corrupt}: give wider bounds, or leave assume out"
        )


def _of_column(
    kernel: Kernel,
    rows: Sequence[NDArray[Any]],
    counts: Sequence[int],
    bad: Sequence[Any],
    terms: Terms,
    adaptive: bool,
) -> tuple[float, float, float]:
    """Return the statistic of all rows, moved into the interval, and the interval."""
    assert kernel.bounds is not None
    least, most = kernel.bounds
    found = extremes(kernel, rows, counts, bad)
    lowest, highest = ((end - least) / (most - least) for end in (found.low, found.high))
    n_terms = found.n_terms
    if adaptive:  # tuples that are touched may have had any value
        lowest, highest, n_terms = found.share * lowest, 1 - found.share * (1 - highest), found.n_whole
    ends = (0.0, 1.0)
    if found.n_terms and not math.isnan(lowest):
        ends = complete_interval(lowest, highest, n_terms, terms)
    lower, upper = (least + (most - least) * end for end in ends)
    value = found.value if math.isfinite(found.value) else (lower + upper) / 2
    return min(max(value, lower), upper), lower, upper


def u_statistic_by_evidence(samples: KernelRows, request: Request, terms: Terms) -> RobustEstimate:
    """Estimate by evidence of the kernel's values on disjoint tuples of rows."""
    kernel, shape = samples.kernel, samples.shape
    counts = samples.counts(request)
    n_tuples = min(len(rows) // d for rows, d in zip(samples.rows, kernel.degrees, strict=True))
    touched = sum(counts)
    if n_tuples < 1:
        raise ValueError(
            f"kernel {kernel.name!r} takes {' and '.join(map(str, kernel.degrees))} rows at a time, but there are "
            f"{' and '.join(str(len(rows)) for rows in samples.rows)}"
        )
    if 2 * touched >= n_tuples:
        raise ValueError(
            f"contamination={request.allowed.amount!r}: {touched} corrupt rows can touch as many of the {n_tuples} "
            f"disjoint tuples that kernel {kernel.name!r} takes, and fewer than half may be: at most "
            f"{max((n_tuples - 1) // 2, 0)} rows may be corrupt"
        )
    asked = replace(request, contamination=Contamination(touched, terms.adversary), vote="evidence")
    found, unknown = [], None
    for j, assume in enumerate(samples.assumed):
        rows = samples.column(j)
        ready = kernel.fit(rows)
        function = partial(_finite, ArrayFunction(ready.function, ready.name))
        values = list(matched_values(function, kernel.degrees, rows, samples.bad, _MATCHINGS))
        too_large = int((np.abs(values[0]) >= _LARGEST).sum())
        if too_large > touched:
            raise ValueError(
                f"kernel {kernel.name!r} is too large for a float on {too_large} of {n_tuples} disjoint tuples of "
                "rows: divide the rows by a power of ten first"
            )
        column = OrderedTuples(values[0], np.empty(0, dtype=np.intp), 0, n_tuples, tuple(values))
        known = replace(assume, zetas=None) if isinstance(assume, FiniteVariance) else assume  # those of tuples
        try:
            found.append(mean_by_evidence(OrderedTable.of([column], (known,)), asked, terms, of="tuple"))
        except UnknownScale as error:
            found.append(error.without_interval)
            unknown = UnknownScale(str(error).replace("rows", "disjoint tuples", 1), error.point)
    sizes = tuple(len(sample) for sample in samples.rows)
    several = len(counts) > 1
    reason = _TUPLES.format(tuples=n_tuples, corrupt=touched)
    more = found[0].plan.explain().split("\n")[1:]
    plan = RowPlan(
        sizes if several else sizes[0], counts if several else counts[0], found[0].plan.vote, "\n".join([reason, *more])
    )
    ends = [np.array([getattr(one.interval, end) for one in found], dtype=float) for end in ("low", "high")]
    certificate = _of_values(found, shape, kernel)
    remarks = [text for one in found for text in named(kernel.name, one).remarks]
    written = replace(
        _written(
            shaped([one.estimate for one in found], shape), Interval(*(shaped(end, shape) for end in ends)),
            certificate, kernel, terms, plan, samples.n_bad,
        ),
        plain_mean=shaped([one.plain_mean for one in found], shape),
        pictures=tuple(one.pictures[0] for one in found if one.pictures),
        remarks=tuple(remarks),
    )  # fmt: skip
    if unknown is not None and not shape:
        unknown.without_interval = written
        raise unknown
    return written


def _finite(function: ArrayFunction, *slots: NDArray[Any]) -> NDArray[np.float64]:
    values = function(slots).astype(np.float64)
    function.refuse_nan(values)
    return np.clip(values, -_LARGEST, _LARGEST)


def _of_values(found: Sequence[RobustEstimate], shape: tuple[int, ...], kernel: Kernel) -> Certificate:
    """Write the certificate of all columns; it speaks of the kernel's values."""
    certificates = [one.certificate for one in found]
    conditional = [one for one in certificates if one.premise]
    first = next((one for one in certificates if one.provenance != "none"), certificates[0])
    first = conditional[0] if conditional else first
    known: list[Assumption | None] = [one.assumption for one in certificates]
    return replace(
        first,
        radius=shaped([one.radius for one in certificates], shape),
        premise=first.premise.replace("the clean rows' sd", "the sd of the kernel's values on clean rows"),
        premise_sd=shaped([one.premise_sd for one in certificates], shape) if conditional else math.nan,
        assumption=known[0] if all(one == known[0] for one in known) else tuple(known),
        target=kernel.name,
        note=" ".join(dict.fromkeys(one.note for one in certificates if one.note)),
    )


@dataclass(frozen=True, eq=False)
class OrderedTuples(Ordered):
    """Values of a kernel on disjoint tuples, for several ways to put the rows into them.

    Attributes
    ----------
    n_tuples : int
        How many tuples there are, those with a row that is corrupt for certain among them.
    matchings : tuple of ndarray
        The values, for each way.
    """

    n_tuples: int = 0
    matchings: tuple[NDArray[np.float64], ...] = ()

    @property
    def n_rows(self) -> int:
        """How many tuples there are."""
        return self.n_tuples

    def rows(self, n_corrupt: int, *, adaptive: bool) -> SortedRows:
        """Return the values, of which so many may be corrupt."""
        members: list[SortedRows] = []
        for values, ready in zip(self.matchings, self._ready, strict=True):
            n_found = self.n_tuples - len(values)
            most = max(n_corrupt, n_found)
            if isinstance(ready, Bins):
                members.append(BinnedRows(ready, most, n_found, adaptive=adaptive))
            else:
                members.append(SortedRows(ready, most, n_found, adaptive=adaptive))
        return SeveralRows(members)

    @cached_property
    def _ready(self) -> list[Bins | NDArray[np.float64]]:
        """The values of each way in order, or counted in bins."""
        return [counted_in_bins(one) if len(one) >= MANY_ROWS else np.sort(one) for one in self.matchings]

    def scaled(self, factor: float) -> Ordered:
        """Return the values multiplied by a positive number."""
        with np.errstate(over="ignore"):  # values far out become infinite
            scaled = tuple(values * factor for values in self.matchings)
        return replace(self, column=scaled[0], matchings=scaled)


def _written(
    estimate: Any,
    interval: Interval,
    certificate: Certificate,
    kernel: Kernel,
    terms: Terms,
    plan: RowPlan,
    n_bad: int,
) -> RobustEstimate:
    return RobustEstimate(
        estimate=estimate,
        interval=interval,
        certificate=certificate,
        plan=plan,
        **WITHOUT_BLOCKS,
        statistic=kernel.name,
        n_omitted=n_bad,
        alternative=terms.alternative,
        plain_mean=estimate,
    )
