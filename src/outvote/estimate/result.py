"""What an estimator returns: the answer, how far off it can be, and how it came about."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.blocks.plan import Plan
from outvote.certificate import Certificate
from outvote.data.tensors import is_tensor, moved_to, to_host
from outvote.data.text import percent, with_radius

if TYPE_CHECKING:
    from outvote.plotting import BlocksDisplay

Number = float | NDArray[np.float64]


class Interval(NamedTuple):
    """Two ends; infinite where nothing bounds them."""

    low: Number
    high: Number


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RobustEstimate:
    """A robust estimate that can account for itself.

    Attributes
    ----------
    estimate : float or ndarray
        The answer: what the block values voted for, by their median unless another vote was asked for.
    interval : Interval
        ``(low, high)``, what the certificate makes of it.
    certificate : Certificate
        How far the estimate can be from the truth, and on what grounds.
    plan : BlockPlan or GridPlan
        The blocks, and why there are that many.
    block_values : ndarray or tuple of ndarray
        One value for each block (or combination of blocks); one array for each sample where the
        samples voted separately. Several columns are on the last axes. Empty where `u_statistic` had too many of them
        to keep. Tensors, on the same device, if the rows were tensors; then `estimate` and `interval` of several
        columns are tensors too.
    block_sizes : ndarray or tuple of ndarray
        Rows in each block.
    seed : int
        ``rng=seed`` deals the same blocks again.
    statistic : str
        What was estimated.
    names : tuple of str or None
        Names of the columns, if the input had any.
    n_omitted : int
        Rows set aside by the NaN policy.
    partition : str
        How the rows were dealt.
    alternative : {"two-sided", "less", "greater"}
        Which ends of the interval are finite.
    detail : str
        Anything else worth knowing.
    centres : tuple of float
        Where the samples voted separately: what each voted for.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> x = np.random.default_rng(0).exponential(size=2000)
    >>> r = ov.mean(x, contamination=0.01, rng=0)
    >>> print(r)
    mean 1.00 ± 0.32 (plug-in 95 %, 95 blocks of 21, survives 47 corrupt rows)
    >>> low, high = r.interval
    >>> bool(low < r.estimate < high)
    True
    >>> r.plan.n_blocks, r.certificate.provenance
    (95, 'plug-in')
    """

    estimate: Number
    interval: Interval
    certificate: Certificate
    plan: Plan
    block_values: NDArray[np.float64] | tuple[NDArray[np.float64], ...]
    block_sizes: NDArray[np.intp] | tuple[NDArray[np.intp], ...]
    seed: int
    statistic: str
    names: tuple[str, ...] | None = None
    n_omitted: int = 0
    partition: str = "random"
    alternative: str = "two-sided"
    detail: str = ""
    centres: tuple[float, ...] = ()

    @property
    def radius(self) -> Number:
        """How far the estimate can be from the truth."""
        return self.certificate.radius

    @property
    def plain(self) -> Number | tuple[Number, ...]:
        """The average of the block values: for a mean, the plain mean of the rows in blocks."""
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
        """Say in plain sentences what was found, how sure it is, and how the blocks were chosen."""
        lines = [str(self), str(self.certificate)]
        lines += self.plan.explain().split("\n")
        if self.n_omitted:
            lines.append(f"{self.n_omitted} rows had NaN or infinite values.")
        if self.detail:
            lines.append(self.detail)
        lines.append(f"The partition was drawn with partition={self.partition!r}, rng={self.seed}.")
        return "\n".join(lines)

    def plot(self, ax: Any = None, *, column: int = 0) -> BlocksDisplay:
        """Draw the block values, their median, the plain average, and what corrupt blocks could do.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        column : int
            Which column, when several were estimated at once.
        """
        from outvote.plotting import BlocksDisplay

        return BlocksDisplay.from_estimate(self, column=column).plot(ax=ax)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists, ready for JSON; what is infinite becomes None."""
        return {
            "statistic": self.statistic,
            "names": list(self.names) if self.names else None,
            "estimate": _json(self.estimate),
            "low": _json(self.interval.low),
            "high": _json(self.interval.high),
            "radius": _json(self.radius),
            "provenance": self.certificate.provenance,
            "confidence": self.certificate.confidence,
            "alternative": self.alternative,
            "n_rows": _json(self.plan.n_rows),
            "n_blocks": _json(self.plan.n_blocks),
            "block_size": _json(self.plan.block_size),
            "n_corrupt": _json(self.plan.n_corrupt),
            "n_left_out": _json(self.plan.n_left_out),
            "n_omitted": self.n_omitted,
            "vote": self.plan.vote,
            "assumption": None if self.certificate.assumption is None else repr(self.certificate.assumption),
            "adversary": self.certificate.adversary,
            "levels": _json(self.certificate.levels),
            "detail": self.detail,
            "partition": self.partition,
            "seed": self.seed,
            "block_values": _json(self.block_values),
            "block_sizes": _json(self.block_sizes),
        }

    def __str__(self) -> str:
        return f"{self.statistic} {self._value()} ({', '.join(self._remarks())})"

    __repr__ = __str__

    def _value(self) -> str:
        if not isinstance(self.estimate, float):
            return _table_line(to_host(self.estimate), self.names)
        end = self.interval.high if self.alternative == "less" else self.interval.low
        if self.alternative != "two-sided" and math.isfinite(float(end)):
            return f"{self.estimate:.4g}, at {'most' if self.alternative == 'less' else 'least'} {float(end):.4g}"
        return with_radius(self.estimate, self.radius if isinstance(self.radius, float) else math.inf)

    def _remarks(self) -> list[str]:
        certificate = self.certificate
        if certificate.provenance == "none":
            remarks = ["no certificate"]
        else:
            remarks = [f"{certificate.provenance} {percent(certificate.confidence)}"]
        remarks.append(str(self.plan))
        if certificate.levels and self.plan.holds:
            remarks.append(f"allows for up to {certificate.levels[-1][0]} corrupt rows, the number left open")
        else:
            remarks.append(self.plan.strength())
        return remarks

    def _repr_html_(self) -> str:
        """Render as a small table in notebooks; whatever the data contain is escaped."""
        cells = np.broadcast_arrays(*(np.ravel(to_host(v)) for v in (self.estimate, *self.interval)))
        names = self.names or ("",) * len(cells[0])
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            + "".join(f"<td>{float(value):.6g}</td>" for value in values)
            + "</tr>"
            for name, *values in zip(names, *cells, strict=False)
        )
        remarks = html.escape(", ".join(self._remarks()))
        return (
            f"<table><caption style='text-align:left'><b>{html.escape(self.statistic)}</b>: {remarks}</caption>"
            f"<thead><tr><th></th><th>estimate</th><th>low</th><th>high</th></tr></thead><tbody>{rows}</tbody></table>"
        )


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


def _table_line(values: NDArray[np.float64], names: tuple[str, ...] | None) -> str:
    if names and values.ndim == 1:
        shown = [f"{' '.join(name.split())} {value:.4g}" for name, value in zip(names, values, strict=True)]
        return ", ".join(shown[:6]) + (f", … ({len(shown)} columns)" if len(shown) > 6 else "")
    with np.printoptions(precision=4, threshold=6, edgeitems=2):
        return " ".join(str(values).split())


def _average(values: NDArray[np.float64], sizes: Any) -> Number:
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
