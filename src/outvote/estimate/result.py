"""What an estimator returns: the answer, how far off it can be, and how it came about."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.blocks.plan import AnyPlan
from outvote.certificate import Certificate
from outvote.data.loading import one_at_a_time
from outvote.data.tensors import is_tensor, moved_to, to_host
from outvote.data.text import html_table, percent, rounded, with_radius
from outvote.votes.evidence.bins import Bins

if TYPE_CHECKING:
    from outvote.plotting import BlocksDisplay, RowsDisplay

Floats = NDArray[np.float64]
Number = float | Floats

#: Bars of a histogram of rows.
_BARS = 60
#: Intervals wider than this have no bars: the sums of their ends would overflow.
_WIDEST = float(np.finfo(np.float64).max) / 2
#: Pictures narrower than this, beside the numbers in them, are widened.
_NARROWEST = 1e-12
#: Shares of the rows whose quantiles say which bars are drawn.
_SHARES = (0.0, 0.02, 0.25, 0.75, 0.98, 1.0)
#: Intervals narrower than this, beside their ends, are widened by so much at either end.
_CLOSE, _ROUNDING = 2.0**-40, 2.0**-50
#: Rows that are counted for a picture if they are not in order anyway.
_COUNTED = 2**14


class Later(Sequence[Any]):
    """A tuple that is worked out when it is first looked at."""

    def __init__(self, find: Callable[[], Sequence[Any]]):
        self._find = find

    @cached_property
    def _found(self) -> tuple[Any, ...]:
        return tuple(self._find())

    def __getitem__(self, where: Any) -> Any:
        return self._found[where]

    def __len__(self) -> int:
        return len(self._found)

    def __eq__(self, other: object) -> bool:
        return self._found == (other._found if isinstance(other, Later) else other)

    def __hash__(self) -> int:
        return hash(self._found)

    def __repr__(self) -> str:
        return repr(self._found)

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._found,)


class Interval(NamedTuple):
    """Two ends; infinite where nothing bounds them."""

    low: Number
    high: Number


def beyond_rounding(low: Any, high: Any) -> tuple[Any, Any]:
    """Return ends a few floats farther apart where they are so close, beside their size, that rounding matters.

    Examples
    --------
    >>> low, high = beyond_rounding(np.array([1e17, 0.5]), np.array([1e17, 1.5]))
    >>> (high - low).tolist()
    [192.0, 1.0]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.maximum(np.abs(low), np.abs(high))
        more = np.where((high - low < _CLOSE * size) & (size < math.inf), _ROUNDING * size, 0.0)
        return low - more, high + more


class Histogram(NamedTuple):
    """Rows counted in bars of one width, and how many lie below and above them."""

    edges: Floats
    counts: NDArray[np.int64]
    below: int
    above: int

    @classmethod
    def of(cls, values: Floats, low: float, high: float) -> Histogram:
        """Count rows in ascending order; the bars cover the rows within three quartile ranges of the quartiles."""
        some = [float(values[round(share * (len(values) - 1))]) for share in _SHARES if len(values)]
        edges = _bars(some, low, high)
        places = np.searchsorted(values, edges)
        places[-1] = np.searchsorted(values, edges[-1], side="right")
        return cls(edges, np.diff(places).astype(np.int64), int(places[0]), len(values) - int(places[-1]))

    @classmethod
    def of_bins(cls, bins: Bins, low: float, high: float) -> Histogram:
        """Count rows that were counted in bins, spread evenly over each bin."""
        n = bins.n_rows
        some = [float(bins.mean[bins.at(round(share * (n - 1)))]) for share in _SHARES]
        first, last = some[0], some[-1]
        edges = _bars(some, low, high)
        ends = np.stack([bins.low, bins.high], axis=1).ravel()
        ranks = np.stack([bins.ranks - bins.count, bins.ranks], axis=1).ravel()
        places = np.rint(np.interp(edges, ends, ranks)).astype(np.int64)
        if edges[-1] >= last:
            places[-1] = n
        if edges[0] <= first:
            places[0] = 0
        return cls(edges, np.diff(places), int(places[0]), n - int(places[-1]))

    @classmethod
    def counted(cls, values: NDArray[Any], ends: Sequence[float]) -> Histogram:
        """Count rows in any order, of very many every k-th one k times: putting them in order takes longer."""
        stride = max(len(values) // _COUNTED, 1)
        found = cls.of(np.sort(values[::stride]).astype(np.float64), min(ends), max(ends))
        return found._replace(counts=found.counts * stride, below=found.below * stride, above=found.above * stride)

    @classmethod
    def of_counts(cls, n_zeros: int, n_ones: int) -> Histogram:
        """Count rows of 0 and 1."""
        counts = np.zeros(_BARS, dtype=np.int64)
        counts[0], counts[-1] = n_zeros, n_ones
        return cls(np.linspace(0.0, 1.0, _BARS + 1), counts, 0, 0)


def drawn_later(pictures: Sequence[Callable[[], Histogram]]) -> Sequence[Histogram]:
    """Return histograms that are drawn when they are first looked at."""
    return Later(lambda: [draw() for draw in pictures])


def _bars(quantiles: Sequence[float], low: float, high: float) -> Floats:
    """Return the ends of bars, given the quantiles at `_SHARES`; they cover the interval."""
    ends = [0.0, 1.0]
    if quantiles:
        smallest, outer_low, lower, upper, outer_high, largest = quantiles
        reach = 3 * (upper - lower)
        if not reach:  # most rows are equal
            lower, upper, reach = outer_low, outer_high, (outer_high - outer_low) or math.inf
        ends = [max(smallest, lower - reach), min(largest, upper + reach)]
    ends += [end for end in (low, high) if math.isfinite(end)]
    first, last = min(ends), max(ends)
    if not last - first < _WIDEST:
        first, last = -1.0, 1.0
    size = max(abs(first), abs(last))
    if last - first <= _NARROWEST * size:
        first, last = first - max(0.5, _NARROWEST * size), last + max(0.5, _NARROWEST * size)
    return np.linspace(first, last, _BARS + 1)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RobustEstimate:
    """A robust estimate, its interval, and what that rests on.

    Attributes
    ----------
    estimate : float or ndarray
        The answer.
    interval : Interval
        ``(low, high)``: what the certificate says of the truth. It need not be symmetric about the estimate.
    certificate : Certificate
        How far the estimate can be from the truth, with which confidence, and under which assumption or premise.
    plan : RowPlan, BlockPlan or GridPlan
        How many rows there are, how many may be corrupt, and the blocks, if there are any, with the reason for them.
    block_values : ndarray or tuple of ndarray
        One value for each block (or combination of blocks); one array for each sample where the
        samples voted separately. Several columns are on the last axes. Empty if there are no blocks, or where
        `u_statistic` had too many of them to keep. Tensors, on the same device, if the rows were tensors; then
        `estimate` and `interval` of several columns are tensors too.
    block_sizes : ndarray or tuple of ndarray
        Rows in each block.
    seed : int or None
        ``rng=seed`` puts the rows into the same blocks again; None if there are no blocks.
    statistic : str
        What was estimated.
    names : tuple of str or None
        Names of the columns, if the input had any.
    n_omitted : int
        Rows set aside by the NaN policy.
    partition : str or None
        How the rows were put into blocks.
    alternative : {"two-sided", "less", "greater"}
        Which ends of the interval are finite.
    detail : str
        Anything else worth knowing.
    remarks : tuple of str
        What else the rows say: which were taken to be corrupt because of where they lie, and what comes out if they
        are real; that most are equal, or that more look corrupt than are allowed for.
    if_real : RobustEstimate or None
        The other reading: the answer if all rows that were taken to be corrupt are real, and that many fewer of the
        others may be corrupt. None if no row was.
    suspects : sequence of int
        The positions of these rows, the farthest first; of two samples pairs of sample and position, of several
        columns one sequence for each.
    centres : tuple of float
        Where the samples voted separately: what each voted for.
    plain_mean : float, ndarray or None
        The mean of the rows, if there are no blocks to average.
    pictures : sequence of Histogram
        The rows of each column as a histogram, if there are no blocks to draw.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> x = np.random.default_rng(0).exponential(size=2000)
    >>> r = ov.mean(x, contamination=0.01)
    >>> print(r)
    mean 1.01, between 0.89 and 1.10 (95 % if the clean rows' sd is at most 1.36; allows for 20 corrupt rows)
    >>> low, high = r.interval
    >>> bool(low < r.estimate < high), f"{r:.1f}"
    (True, '1.0 ± 0.1')
    >>> r.plan.n_corrupt, r.certificate.provenance
    (20, 'conditional')
    """

    estimate: Number
    interval: Interval
    certificate: Certificate
    plan: AnyPlan
    block_values: Floats | tuple[Floats, ...]
    block_sizes: NDArray[np.intp] | tuple[NDArray[np.intp], ...]
    seed: int | None
    statistic: str
    names: tuple[str, ...] | None = None
    n_omitted: int = 0
    partition: str | None = "random"
    alternative: str = "two-sided"
    detail: str = ""
    remarks: tuple[str, ...] = ()
    if_real: RobustEstimate | None = None
    suspects: Sequence[Any] = ()
    centres: tuple[float, ...] = ()
    plain_mean: Number | None = None
    pictures: Sequence[Histogram] = ()

    @property
    def radius(self) -> Number:
        """How far the estimate can be from the truth: the larger side, where the interval is not symmetric."""
        return self.certificate.radius

    @property
    def low(self) -> Number:
        """The lower end of the interval."""
        return self.interval.low

    @property
    def high(self) -> Number:
        """The upper end of the interval."""
        return self.interval.high

    def __float__(self) -> float:
        """Return the estimate, if it is a single number."""
        if np.size(to_host(self.estimate)) != 1:
            raise TypeError(f"there are {np.size(to_host(self.estimate))} columns, not one number: take .estimate")
        return float(np.ravel(to_host(self.estimate))[0])

    @property
    def plain(self) -> Number | tuple[Number, ...]:
        """The plain mean, which trusts every row: of the rows, or of the block values where there are blocks."""
        if self.plain_mean is not None:
            return self.plain_mean
        if isinstance(self.block_values, tuple):
            return tuple(map(_average, map(to_host, self.block_values), self.block_sizes))
        values, shape = to_host(self.block_values), np.shape(to_host(self.estimate))
        if not values.size:
            raise ValueError(
                "the block values of these columns were not kept, so their average is not known: pass fewer columns, "
                "or grid='diagonal'"
            )
        sizes = self.block_sizes if isinstance(self.block_sizes, np.ndarray) else None
        return _average(values.reshape(-1, *shape), sizes)

    def explain(self) -> str:
        """Say in plain sentences what was found, how sure it is, and how it came about."""
        lines = [str(self), str(self.certificate)]
        lines += self.plan.explain().split("\n")
        if self.n_omitted:
            lines.append(f"{self.n_omitted} rows had NaN or infinite values.")
        lines += [text for text in (self.detail, *self.remarks) if text]
        if self.partition is not None:
            lines.append(f"The partition was drawn with partition={self.partition!r}, rng={self.seed}.")
        return "\n".join(lines)

    def plot(self, ax: Any = None, *, column: int | None = None) -> BlocksDisplay | RowsDisplay:
        """Draw the rows, or the block values where there are blocks, with the estimate and its interval.

        Of a difference both samples are drawn.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        column : int
            Which column, when several were estimated at once; by default each has a panel, or the first is drawn into
            `ax`. Of a difference by blocks: which sample alone.
        """
        with one_at_a_time():
            from outvote.plotting import BlocksDisplay, RowsDisplay
            from outvote.plotting.rows import plot_columns

        several = np.size(to_host(self.estimate)) > 1 and len(self.pictures) > 1
        if ax is None and column is None and self.partition is None and several:
            return plot_columns(self)
        both = column is None and isinstance(self.block_values, tuple)
        display = RowsDisplay if self.partition is None or both else BlocksDisplay
        return display.from_estimate(self, column=column or 0).plot(ax=ax)

    def to_dict(self, *, blocks: bool = False) -> dict[str, Any]:
        """Return plain numbers, strings and lists, ready for JSON; what is infinite becomes None.

        Parameters
        ----------
        blocks : bool
            Whether to add the values and sizes of the blocks.
        """
        certificate = self.certificate
        found = {
            "statistic": self.statistic,
            "names": self._names(),
            "estimate": _json(self.estimate),
            "low": _json(self.interval.low),
            "high": _json(self.interval.high),
            "radius": _json(self.radius),
            "provenance": certificate.provenance,
            "premise_sd": _json(certificate.premise_sd),
            "confidence": certificate.confidence,
            "alternative": self.alternative,
            "n_rows": _json(self.plan.n_rows),
            "n_blocks": _json(self.plan.n_blocks),
            "block_size": _json(self.plan.block_size),
            "n_corrupt": _json(self.plan.n_corrupt),
            "n_left_out": _json(self.plan.n_left_out),
            "n_omitted": self.n_omitted,
            "vote": self.plan.vote,
            "assumption": None if certificate.assumption is None else repr(certificate.assumption),
            "adversary": certificate.adversary,
            "levels": _json(certificate.levels) or None,
            "detail": self.detail,
            "remarks": " ".join(self.remarks),
            "if_real_estimate": None if self.if_real is None else _json(self.if_real.estimate),
            "if_real_low": None if self.if_real is None else _json(self.if_real.low),
            "if_real_high": None if self.if_real is None else _json(self.if_real.high),
            "partition": self.partition,
            "seed": self.seed,
        }
        if blocks:
            found |= {"block_values": _json(self.block_values), "block_sizes": _json(self.block_sizes)}
        return found

    def __str__(self) -> str:
        return " ".join([f"{self.statistic} {self._value()} ({self._sure()}){'.' * bool(self.remarks)}", *self.remarks])

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        """Write estimate and radius with a format for numbers: ``f"{r:.2f}"`` gives "1.02 ± 0.07"."""
        if not spec:
            return str(self)
        if not isinstance(self.estimate, float):
            raise TypeError(f"a format is for one number, but there are {np.size(self.estimate)} columns")
        radius = float(self.radius)
        return f"{self.estimate:{spec}} ± {radius:{spec}}" if math.isfinite(radius) else f"{self.estimate:{spec}}"

    def _names(self) -> str | list[str] | None:
        """Return the names of the columns; of a single number its name."""
        if not self.names:
            return None
        return self.names[0] if isinstance(self.estimate, float) and len(self.names) == 1 else list(self.names)

    def _value(self) -> str:
        """Write the estimate with its interval, or those of each column."""
        ends = [to_host(end) for end in self.interval]
        if isinstance(self.estimate, float):
            return self._one(self.estimate, *map(float, ends))
        values = to_host(self.estimate)
        if values.ndim > 1:
            with np.printoptions(precision=4, threshold=6, edgeitems=2):
                return " ".join(str(values).split())
        names = [f"{' '.join(name.split())} " for name in self.names or ()] or [""] * len(values)
        columns = zip(*(np.broadcast_to(one, values.shape).tolist() for one in (values, *ends)), strict=True)
        shown = [name + self._one(*one) for name, one in zip(names[:6], columns, strict=False)]
        return "; ".join(shown) + (f"; … ({len(values)} columns)" if len(values) > 6 else "")

    def _one(self, estimate: float, low: float, high: float) -> str:
        end = high if self.alternative == "less" else low
        if self.alternative != "two-sided" and math.isfinite(end):
            return f"{estimate:.4g}, at {'most' if self.alternative == 'less' else 'least'} {end:.4g}"
        if math.isfinite(low) != math.isfinite(high):
            end = low if math.isfinite(low) else high
            return f"{estimate:.4g}, at {'least' if math.isfinite(low) else 'most'} {end:.4g}"
        if math.isfinite(high - low) and abs((high - estimate) - (estimate - low)) > 0.02 * (high - low):
            numbers = (rounded(number, (high - low) / 2) for number in (estimate, low, high))
            return "{}, between {} and {}".format(*numbers)
        return with_radius(estimate, max(high - estimate, estimate - low))

    def _sure(self) -> str:
        """Say how sure the estimate is, and how many corrupt rows it withstands."""
        certificate = self.certificate
        confidence = percent(certificate.confidence) + " at every look" * certificate.at_every_look
        strength = self.plan.strength()
        if certificate.levels and self.plan.holds:
            strength = f"allows for up to {certificate.levels[-1][0]} corrupt rows, the number left open"
        if certificate.provenance == "conditional":
            return f"{confidence} if {certificate.premise}; {strength}"
        blocks = [] if self.partition is None else [str(self.plan)]
        if certificate.provenance == "none":
            return ", ".join(["no certificate", *blocks, *([] if self.plan.holds else [strength])])
        return ", ".join([f"{certificate.provenance} {confidence}", *blocks, strength])

    def _repr_html_(self) -> str:
        """Render as a small table in notebooks; whatever the data contain is escaped."""
        cells = np.broadcast_arrays(*(np.ravel(to_host(v)) for v in (self.estimate, *self.interval)))
        names = self.names or ("",) * len(cells[0])
        rows = [[name, *map(float, values)] for name, *values in zip(names, *cells, strict=False)]
        return html_table(self.statistic, self._sure(), ("", "estimate", "low", "high"), rows)


#: The fields of a result that has no blocks.
WITHOUT_BLOCKS: dict[str, Any] = {
    "block_values": np.empty(0),
    "block_sizes": np.empty(0, dtype=np.intp),
    "seed": None,
    "partition": None,
}


def placed_like(result: RobustEstimate, x: Any) -> RobustEstimate:
    """Return a result with its arrays where the tensor `x` is, if that is one; the radius stays a numpy array."""
    if not is_tensor(x):
        return result
    values: Any = result.block_values
    several = isinstance(values, tuple)
    return replace(
        result,
        estimate=moved_to(x, result.estimate),
        interval=Interval(*(moved_to(x, end) for end in result.interval)),
        block_values=tuple(moved_to(x, one) for one in values) if several else moved_to(x, values),
    )


def named(statistic: str, found: RobustEstimate) -> RobustEstimate:
    """Return the estimate under another name, also where its remarks speak of it."""
    remarks = tuple(text.replace(f"the {found.statistic} is", f"the {statistic} is") for text in found.remarks)
    if_real = None if found.if_real is None else named(statistic, found.if_real)
    return replace(found, statistic=statistic, remarks=remarks, if_real=if_real)


def shaped(values: Any, shape: tuple[int, ...]) -> Number:
    """Return a number for shape (), else an array of that shape."""
    flat = np.ravel(np.asarray(values, dtype=np.float64))
    if shape == ():
        return float(flat[0])
    return flat.reshape(shape) if flat.size == math.prod(shape) else np.full(shape, flat[0])


def _average(values: Floats, sizes: Any) -> Number:
    """Average over the blocks, weighted by their rows where there is one size for each; no overflow on the way."""
    weights = np.asarray(sizes) if sizes is not None and np.shape(sizes) == np.shape(values)[:1] else None
    weights = np.full(len(values), 1 / len(values)) if weights is None else weights / weights.sum()
    with np.errstate(over="ignore", invalid="ignore"):
        average = np.tensordot(weights, values, axes=1)
    return float(average) if np.ndim(average) == 0 else average


def _json(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_json(item) for item in value]
    if isinstance(value, np.ndarray) or is_tensor(value):
        return _json(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
