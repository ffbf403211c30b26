"""How an estimate depends on the number of corrupt rows assumed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.blocks.partition import Rng
from outvote.certificate.document import PROVENANCES
from outvote.contamination import Adversary, Contamination
from outvote.data.arguments import check_choice, is_whole
from outvote.data.loading import one_at_a_time
from outvote.data.rows import Rows, read_rows
from outvote.data.text import html_table, listed
from outvote.estimate.difference import difference_of
from outvote.estimate.levels import Brief, estimate_levels, level_counts
from outvote.estimate.mean import mean_of, mean_of_summary
from outvote.estimate.request import Request, largest_contamination, per_column
from outvote.estimate.result import RobustEstimate
from outvote.estimate.screened import implied
from outvote.estimate.summary import RowSummary
from outvote.votes import VoteName

if TYPE_CHECKING:
    from outvote.plotting import SensitivityDisplay


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
        The weakest provenance among the intervals; "none" if there are none.
    n_rows : int or tuple of int
        Rows of the sample, or of each.
    statistic : str
        What was estimated.
    plain : float
        The plain estimate, which trusts every row.
    premise_sd : ndarray
        The largest sd of clean rows for which each interval holds, where it was read off the rows; else NaN. Of two
        samples, one column for each.
    left_out : tuple of int
        Numbers of corrupt rows that were asked for, and that the rows themselves contradict.
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
    premise_sd: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    left_out: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return columns of plain numbers; what is infinite becomes None."""
        columns = {name: values.tolist() for name, values in self._columns.items()}
        return {name: [value if math.isfinite(value) else None for value in values] for name, values in columns.items()}

    def plot(self, ax: Any = None, *, threshold: float | None = None) -> SensitivityDisplay:
        """Draw estimate and interval against the number of corrupt rows; `threshold` is a line to compare with."""
        with one_at_a_time():
            from outvote.plotting import SensitivityDisplay

        return SensitivityDisplay.from_sensitivity(self, threshold=threshold).plot(ax=ax)

    @property
    def _columns(self) -> dict[str, NDArray[Any]]:
        found = {name: getattr(self, name) for name in ("n_corrupt", "estimate", "low", "high", "radius")}
        if not np.isfinite(self.premise_sd).any():
            return found
        if self.premise_sd.ndim == 1:
            return found | {"premise_sd": self.premise_sd}
        return found | {f"premise_sd_{name}": self.premise_sd[:, j] for j, name in enumerate("ab")}

    def _shown(self) -> tuple[str, dict[str, NDArray[Any]]]:
        """Return where the intervals come from, in words, and the columns under their heads."""
        names = {"n_corrupt": "corrupt rows", "premise_sd": "if sd ≤", "premise_sd_a": "if sd(a) ≤"}
        names["premise_sd_b"] = "and sd(b) ≤"
        columns = {names.get(name, name): values for name, values in self._columns.items() if name != "radius"}
        without = self.n_corrupt[np.isinf(self.low) & np.isinf(self.high)].tolist()
        notes = [f"no interval at {listed(without)} corrupt rows"] if 0 < len(without) < len(self.low) else []
        notes += [f"the rows contradict {listed(self.left_out)} corrupt rows"] if self.left_out else []
        return self.provenance + (f" ({'; '.join(notes)})" if notes else ""), columns

    def __str__(self) -> str:
        remarks, columns = self._shown()
        lines = [f"{self.statistic}, {remarks}", " ".join(f"{head:>12}" for head in columns)]
        rows = zip(*columns.values(), strict=True)
        lines += [" ".join([f"{row[0]:>12}", *(f"{value:>12.5g}" for value in row[1:])]) for row in rows]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Render as a small table in notebooks."""
        remarks, columns = self._shown()
        rows = zip(*(values.tolist() for values in columns.values()), strict=True)
        return html_table(self.statistic, remarks, list(columns), rows)


def sensitivity(
    *samples: ArrayLike | RowSummary,
    levels: Sequence[int] | None = None,
    max_contamination: float = 0.25,
    adversary: Adversary = "oblivious",
    rng: Rng = None,
    **options: Any,
) -> Sensitivity:
    """Estimate for a range of numbers of corrupt rows.

    Parameters
    ----------
    *samples : array-like or RowSummary
        One sample, for its mean, or two, for mean(b) - mean(a).
    levels : sequence of int, optional
        Corrupt rows to assume, in each sample; by default 0, 1, 2, 4, … up to `max_contamination`.
    max_contamination : float
        The largest share of rows to assume corrupt.
    adversary : {"oblivious", "adaptive"}
        Whether it depends on their true values which rows are corrupt: as for `Contamination`.
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
    if len(samples) not in (1, 2):
        raise TypeError(f"sensitivity takes one sample or two, not {len(samples)}")
    check_choice("adversary", adversary, Adversary)
    names = ("x",) if len(samples) == 1 else ("a", "b")
    rows: list[Any] = [
        one if isinstance(one, RowSummary) else read_rows(one, name, booleans=True)
        for one, name in zip(samples, names, strict=True)
    ]
    for sample, name in zip(rows, names, strict=True):
        if not isinstance(sample, RowSummary) and sample.ndim != 1 + bool(options.get("ratio")):
            raise ValueError(f"{name} has shape {sample.shape}: sensitivity takes one column at a time")
    for fixed in ("contamination", "axis", "simultaneous"):
        if fixed in options:
            raise TypeError(f"{fixed}={options[fixed]!r} does not go with sensitivity, which varies the contamination")
    n_rows = tuple(one.n_rows if isinstance(one, RowSummary) else len(one) for one in rows)
    most = largest_contamination(max_contamination).count(min(n_rows))
    wanted = level_counts(most) if levels is None else _counts(levels)
    request, run = _prepared(rows, adversary, rng, options)
    found, contradiction = estimate_levels(request, wanted, request.terms.log_delta, run)
    if not found and contradiction is not None:
        raise contradiction
    if not found:
        raise ValueError(f"levels={wanted!r}: more rows than that are corrupt for certain")
    results = list(found.values())
    estimates, lows, highs, radii, sds, provenances, _, _ = zip(*results, strict=True)
    return Sensitivity(
        n_corrupt=np.array(list(found)),
        estimate=np.array(estimates),
        low=np.array(lows),
        high=np.array(highs),
        radius=np.array(radii),
        provenance=max((one for one in provenances if one != "none"), key=PROVENANCES.index, default="none"),
        n_rows=n_rows[0] if len(n_rows) == 1 else n_rows,
        statistic=results[0].statistic,
        plain=_plain(results[0], rows),
        premise_sd=_table_of(sds),
        left_out=tuple(level for level in wanted if level not in found),
    )


def _table_of(sds: Sequence[tuple[float, ...]]) -> NDArray[np.float64]:
    """Return one line for each level and one column for each sample; NaN where a level has no interval."""
    n_samples = max(map(len, sds))
    table = np.array([one if len(one) == n_samples else (math.nan,) * n_samples for one in sds])
    return table[:, 0] if n_samples == 1 else table


def _plain(result: Brief, rows: Sequence[Any]) -> float:
    """Return the plain estimate: that of a result, or worked out where blocks voted."""
    if result.plain is not None and math.isfinite(result.plain):
        return result.plain
    plains = [float(np.nanmean(sample, dtype=np.float64)) for sample in rows]
    return plains[0] if len(plains) == 1 else plains[1] - plains[0]


def _prepared(
    rows: Sequence[Any], adversary: Adversary, rng: Rng, options: dict[str, Any]
) -> tuple[Request, Callable[[Request], RobustEstimate]]:
    """Read the options of `mean`, or of `difference`, and put the rows in order once."""
    of_request = ("confidence", "vote", "n_blocks", "partition", "remainder", "nan_policy", "alternative")
    metric = ("ratio", "covariate", "coefficient")
    others = ("assume",) if len(rows) == 1 else ("assume", "function", "paired", "relative", "counted", *metric)
    for name in options:
        if name not in of_request + others:
            raise TypeError(f"sensitivity has no argument {name!r}: it takes {', '.join(of_request + others)}")
    asked = {name: options[name] for name in of_request if name in options}
    known = {name: options[name] for name in others if name in options}
    n_samples = 1 if known.get("paired") else len(rows)
    request = Request.read(
        Contamination(0, adversary), **{"confidence": 0.95, "vote": "auto", **asked}, votes=VoteName, rng=rng,
        n_samples=n_samples,
    )  # fmt: skip
    if len(rows) == 1:
        assume = known.get("assume")
        if isinstance(rows[0], RowSummary):
            return request, mean_of_summary(rows[0], assume, request)
        assumed = per_column(implied(rows[0], assume) if request.evidence else assume, 1)
        return request, mean_of(Rows(rows[0], None), assumed, request)
    if request.evidence and n_samples == 2:
        known.setdefault("counted", "each")
    return request, difference_of(rows[0], rows[1], request, **known)[1]


def _counts(levels: Any) -> list[int]:
    if isinstance(levels, str) or not isinstance(levels, (Sequence, np.ndarray)) or not len(levels):
        raise TypeError(f"levels={levels!r} must be a sequence of numbers of corrupt rows, [0, 10, 100] for instance")
    for level in levels:
        if not is_whole(level) or level < 0:
            raise TypeError(f"levels={levels!r} holds {level!r}: a number of corrupt rows is an integer of at least 0")
    return [int(level) for level in levels]
