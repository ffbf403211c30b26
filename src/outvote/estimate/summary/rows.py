"""The class `RowSummary`: rows counted in bins, for means, differences, tolerance and quantiles of data in chunks."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.assumptions import Assumption, Bounded, Proportion
from outvote.data.arguments import MOST, is_whole
from outvote.data.loading import one_at_a_time
from outvote.data.missing import NanPolicy, check_certain, screen
from outvote.data.rows import has_no_rows, read_rows
from outvote.estimate.ordered import Ordered, Summarised, Tallied
from outvote.estimate.screened import as_ordered
from outvote.estimate.summary.serialise import (
    VERSION,
    Refused,
    check_version,
    document_in,
    number_in,
    refusing,
    whole,
)
from outvote.votes.evidence import Grid, Tallies, pilot_of
from outvote.votes.evidence.grid import BINS, FEWEST_BINS, MOST_BINS, index_in

_MAGIC = b"outvote-rows"
#: Rows with no more different values than this may be rows of 0 and 1: these are counted.
FEW_VALUES = 16
#: Places in a bin are counted in 2⁻³²: the sum of so many is a 64-bit number.
_MOST_IN_A_BIN = 2**31


class RowSummary:
    """Rows counted in bins: what a robust mean, difference, tolerance or quantile needs of rows that are not kept.

    Give it to `outvote.mean`, `difference`, `tolerance`, `sensitivity` or `quantile` in place of the rows. Intervals
    from bins are never narrower than they may be; those of means are at most 2 % wider than from the rows, with 4096
    bins. Ends of quantiles are ends of bins. What needs the rows themselves is refused: `FiniteKurtosis` without an
    sd, `Symmetric`, votes of blocks.

    Parameters
    ----------
    bins : int, Grid or None
        How many bins, a power of two from 1024 on (default 4096), or the bins of another summary, its `bins`. Without
        these the first 4096 rows are kept as they are, and choose the bins when more come: narrow where most rows are,
        wider the farther out. Summaries that shall be merged need the same bins: give those of the first to the others.

    Attributes
    ----------
    bins : Grid or None
        The bins: centre, unit and number; None as long as the rows themselves are kept.
    n_rows : int
        Number of usable rows, including corrupt ones.
    n_found_corrupt, n_omitted : int
        Rows with NaN or infinite values that were counted as corrupt, or left out as missing.

    Notes
    -----
    All that is kept of rows are whole numbers, so that the same bins give the same result whatever the chunks and their
    order, to the last bit. 4096 bins take 96 KB, whatever the number of rows.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> x = np.random.default_rng(0).normal(size=100_000)
    >>> x[:900] = 1e9
    >>> first = ov.RowSummary().update(x[:30_000])
    >>> second = ov.RowSummary(bins=first.bins).update(x[30_000:])
    >>> print(ov.mean(first.merge(second), assume=ov.FiniteVariance(1.0)))
    mean -0.001 ± 0.012 (certified 95 %, allows for 1000 corrupt rows)
    """

    def __init__(self, bins: int | Grid | None = None):
        self._number, self.bins = _read_bins(bins)
        self._rows: NDArray[np.float64] | None = None if self.bins is not None else np.empty(0)
        self._tallies = None if self.bins is None else Tallies.empty(self._number)
        self._zeros_and_ones: tuple[int, int] | None = (0, 0)
        self._counted, self._beyond = 0, 0.0
        self.n_found_corrupt = self.n_omitted = 0

    def __repr__(self) -> str:
        how = "as they are" if self._rows is not None else f"in {self._number} bins"
        return f"RowSummary({self.n_rows} rows {how})"

    @property
    def n_rows(self) -> int:
        """Number of usable rows, including corrupt ones."""
        return self._counted + self.n_found_corrupt

    @property
    def bin_numbers(self) -> NDArray[np.int64]:
        """The numbers of bins that have rows."""
        return np.empty(0, dtype=np.int64) if self._tallies is None else np.flatnonzero(self._tallies.counts)

    def counts_in(self, bins: Sequence[int]) -> NDArray[np.int64]:
        """Return how many rows there are in some bins."""
        assert self._tallies is not None
        return self._tallies.counts[list(bins)]

    def update(self, rows: ArrayLike, *, nan_policy: NanPolicy = "raise") -> RowSummary:
        """Add rows, which are not kept if there are many; an error leaves the summary unchanged.

        Parameters
        ----------
        rows : array-like or Series
            Numbers, in any order.
        nan_policy : {"raise", "omit", "corrupt"}
            Whether rows with NaN are an error, missing, or corrupt (as are rows with infinite values).
        """
        if has_no_rows(rows):
            return self
        values = read_rows(rows, "rows", booleans=True)
        if values.ndim != 1:
            raise ValueError(f"rows has shape {values.shape}: a RowSummary takes one column at a time")
        values = values.astype(np.float64, copy=False)
        tallies = None if self.bins is None else self.bins.tallies(values)
        n_bad = 0
        if tallies is None or tallies.counts[0] or tallies.counts[-1]:  # some may be infinite
            finite = np.isfinite(values)
            if not finite.all():
                if nan_policy != "corrupt":
                    screen(values[:, None], nan_policy, 0, "rows")  # refuses NaN, or infinities under "omit"
                n_bad = len(values) - int(finite.sum())
                values = values[finite]
                tallies = None if self.bins is None else self.bins.tallies(values)
        if nan_policy == "corrupt":
            self.n_found_corrupt += n_bad
        else:
            self.n_omitted += n_bad
        self._add(values, tallies)
        return self

    def _check_room(self, tallies: Tallies) -> None:
        """Refuse more rows than whole numbers hold the sums of."""
        assert self._tallies is not None
        if int((self._tallies.counts + tallies.counts).max()) > _MOST_IN_A_BIN:
            raise ValueError(f"a RowSummary holds at most {_MOST_IN_A_BIN} rows in a bin: begin another one")

    def _add(self, values: NDArray[np.float64], tallies: Tallies | None) -> None:
        if tallies is not None:
            self._check_room(tallies)
        self._counted += len(values)
        if tallies is None:
            assert self._rows is not None
            self._rows = np.concatenate([self._rows, values])
            if len(self._rows) <= BINS:
                return
            values = self._rows
            tallies = self._begin_bins()
        assert self._tallies is not None
        self._tallies.add(tallies)
        self._count_zeros_and_ones(values, tallies)
        if tallies.counts[0] or tallies.counts[-1]:
            self._beyond += self._excess(values)

    def _begin_bins(self) -> Tallies:
        """Choose the bins by the first rows, and count those that were kept."""
        assert self._rows is not None
        values, self._rows = self._rows, None
        self.bins, self._tallies = Grid.of(pilot_of(values[:BINS]), self._number), Tallies.empty(self._number)
        return self.bins.tallies(values)

    def choose_bins(self) -> RowSummary:
        """Choose the bins now, by the rows there are, so that other summaries can have the same."""
        if self._rows is not None and len(self._rows):
            values = self._rows
            self._counted -= len(values)
            self._add(values, self._begin_bins())
        return self

    def _excess(self, values: NDArray[np.float64]) -> float:
        """Return by how much rows in the last bins lie beyond the ends that these are taken to be at."""
        assert self.bins is not None
        end = self.bins.farthest
        with np.errstate(over="ignore", invalid="ignore"):
            away = values - self.bins.centre
            return float(np.where(np.abs(away) >= end, away - np.copysign(end, away), 0.0).sum())

    def _count_zeros_and_ones(self, values: NDArray[np.float64], tallies: Tallies) -> None:
        """Count rows of 0 and 1 as long as there are few different values."""
        if self._zeros_and_ones is None or np.count_nonzero(tallies.counts) > FEW_VALUES:
            self._zeros_and_ones = None
            return
        zeros, ones = (int(np.count_nonzero(values == value)) for value in (0, 1))
        self._zeros_and_ones = self._zeros_and_ones[0] + zeros, self._zeros_and_ones[1] + ones

    @classmethod
    def of_bins(
        cls, bins: Grid, lines: NDArray[np.int64], beyond: float = 0.0, zeros_and_ones: tuple[int, int] | None = None
    ) -> Self:
        """Return the summary of rows that something else has counted in bins.

        Parameters
        ----------
        bins : Grid
            The bins.
        lines : ndarray of shape (4, n) of int
            Number, count, place and square of each bin that has rows, in ascending order.
        beyond : float
            The sum of how far rows of the last bins lie beyond the nearer ends of these.
        zeros_and_ones : tuple of int, optional
            How many rows are 0 and 1, if there are few different values.
        """
        summary = cls(bins)
        summary._beyond, summary._zeros_and_ones = beyond, zeros_and_ones if lines.shape[1] <= FEW_VALUES else None
        return summary._with_lines(lines)

    def merge(self, other: RowSummary) -> RowSummary:
        """Add the rows of another summary, which has the same bins or still keeps its rows."""
        if not isinstance(other, RowSummary):
            raise TypeError(f"a RowSummary is merged with another one, not with {type(other).__name__}")
        if self._rows is not None and other._rows is None:
            if self._number != other._number:
                raise ValueError(f"bins differ: {self._number} and {other._number} of them")
            kept, self.bins, self._rows = self._rows, other.bins, None
            self._tallies = Tallies.empty(self._number)
            assert self.bins is not None
            self._counted -= len(kept)
            self._add(kept, self.bins.tallies(kept))
        elif other._rows is None and self.bins != other.bins:
            raise ValueError(
                f"bins differ: {self.bins} and {other.bins}: give the bins of one summary to the others when they "
                "begin, RowSummary(bins=first.bins)"
            )
        if other._tallies is not None:
            self._check_room(other._tallies)
        self.n_found_corrupt += other.n_found_corrupt
        self.n_omitted += other.n_omitted
        if other._rows is not None:
            if len(other._rows):
                self._add(other._rows, None if self.bins is None else self.bins.tallies(other._rows))
            return self
        assert self._tallies is not None
        assert other._tallies is not None
        self._counted += other._counted
        self._beyond += other._beyond
        self._tallies.add(other._tallies)
        if self._zeros_and_ones is not None and other._zeros_and_ones is not None:
            mine, theirs = self._zeros_and_ones, other._zeros_and_ones
            self._zeros_and_ones = mine[0] + theirs[0], mine[1] + theirs[1]
        else:
            self._zeros_and_ones = None
        return self

    def result(self, contamination: Any = 0.01, confidence: float = 0.95, assume: Any = None, **options: Any) -> Any:
        """Estimate the mean: what `outvote.mean` does with a summary in place of the rows; parameters as there."""
        with one_at_a_time():
            from outvote.estimate.mean import mean

        return mean(self, contamination, confidence, assume, **options)

    def ordered(self, assume: Assumption | None) -> Ordered:
        """Return the rows for estimators, with what is declared of them."""
        if not self.n_rows:
            raise ValueError("the summary has no rows yet: update it first")
        found = self.n_found_corrupt
        if self._rows is not None:
            if found > len(self._rows):  # they cannot be outvoted, and may be more than there is room for
                check_certain(found, (self.n_rows - 1) // 2, self.n_rows, "there are NaN or infinite values")
            rows = np.concatenate([self._rows, np.full(found, np.nan)]) if found else self._rows
            return as_ordered(rows, np.isnan(rows) if found else None, assume, n_bad=found)
        if isinstance(assume, Proportion):
            if self._zeros_and_ones is None:
                raise ValueError(
                    "assume=Proportion() is for rows of 0 and 1, but those of the summary have many different values: "
                    "use Bounded(low, high), or summarise rows == value"
                )
            return Tallied(np.empty(0), None, found, tally=(*self._zeros_and_ones, self.n_rows))
        assert self.bins is not None
        assert self._tallies is not None
        bins, beyond = self.bins.bins(self._tallies), self._beyond
        source: tuple[Grid, Tallies] | None = (self.bins, self._tallies)
        if isinstance(assume, Bounded):
            # Rows outside are corrupt for certain; of a bin that a bound cuts, only that no row is beyond its ends.
            off = self.bins.rounding(bins)
            inside = (bins.high + off >= assume.low) & (bins.low - off <= assume.high)
            found += int(bins.count[~inside].sum())
            cut = (bins.low - off < assume.low) | (bins.high + off > assume.high)
            bins = replace(bins, squares=np.where(cut, np.inf, bins.squares)).part(inside)
            beyond, source = 0.0, None
        return Summarised(
            np.empty(0), None, self.n_found_corrupt, n_nan=found, counted=bins, n_all=self.n_rows, beyond=beyond,
            source=source,
        )  # fmt: skip

    # --- serialised ------------------------------------------------------------------------------------------

    def _header(self) -> dict[str, Any]:
        return {
            "format": "outvote.RowSummary",
            "version": VERSION,
            "number": self._number,
            "centre": None if self.bins is None else self.bins.centre,
            "unit": None if self.bins is None else self.bins.unit,
            "beyond": self._beyond if abs(self._beyond) < np.inf else None,
            "n_found_corrupt": self.n_found_corrupt,
            "n_omitted": self.n_omitted,
            "zeros_and_ones": None if self._zeros_and_ones is None else list(self._zeros_and_ones),
        }

    def _lines(self) -> NDArray[np.int64]:
        """Return the bins that have rows: their indices, counts, places and squares."""
        assert self._tallies is not None
        where = np.flatnonzero(self._tallies.counts)
        return np.stack([where, *(one[where] for one in self._tallies)])

    @classmethod
    def _begun(cls, header: Any) -> Self:
        """Return a summary with this header, without rows."""
        found = header.get("format") if isinstance(header, Mapping) else None
        if found != "outvote.RowSummary":
            raise Refused("this is not a RowSummary")
        check_version("RowSummary", header)
        number, centre, unit = whole(header["number"]), header["centre"], header["unit"]
        if centre is None and unit is not None:
            raise ValueError(f"unit is {unit!r}, but there is no centre")
        summary = cls(number if centre is None else Grid(number_in(centre), number_in(unit), number))
        summary.n_found_corrupt, summary.n_omitted = (
            whole(header[name], most=MOST) for name in ("n_found_corrupt", "n_omitted")
        )
        beyond = header["beyond"]
        summary._beyond = np.nan if beyond is None else number_in(beyond)
        known = header["zeros_and_ones"]
        if known is not None and not (isinstance(known, list) and len(known) == 2):
            raise ValueError(f"zeros_and_ones is {known!r}")
        summary._zeros_and_ones = None if known is None else (whole(known[0]), whole(known[1]))
        return summary

    def _checked(self) -> Self:
        """Return the summary of a document, if its header agrees with the rows."""
        known, beyond, total = self._zeros_and_ones, self._beyond, self.n_rows + self.n_omitted
        if self.bins is None or self._tallies is None:
            agrees = known == (0, 0) and beyond == 0
        else:
            counts, places, squares = self._tallies
            agrees = beyond == 0 or bool(counts[0] or counts[-1])
            agrees = agrees and bool((squares <= 255 * (places >> 24)).all())  # of the first 8 digits of a place
            if known is not None:
                zero, one = index_in(np.array([0.0, 1.0]), self.bins.centre, self.bins.unit, self._number)
                both = sum(known) if zero == one else 0
                agrees = agrees and known[0] <= counts[zero] and known[1] <= counts[one] and both <= counts[zero]
        if not agrees or total > MOST:
            raise ValueError("numbers contradict each other")
        return self

    def _with_rows(self, rows: Any) -> Self:
        if not isinstance(rows, (list, np.ndarray)):
            raise ValueError("rows are of another kind")
        values = np.array([number_in(row) for row in rows], dtype=np.float64) if isinstance(rows, list) else rows
        if values.dtype.kind != "f":
            raise ValueError("rows are of another kind")
        values = values.astype(np.float64)
        if self.bins is not None or values.ndim != 1 or len(values) > BINS or not np.isfinite(values).all():
            raise ValueError("rows are impossible")
        self._rows, self._counted = values, len(values)
        return self

    def _with_lines(self, lines: Any) -> Self:
        table = np.asarray(lines)
        if self.bins is None or table.ndim != 2 or len(table) != 4 or table.dtype.kind not in "iu":
            raise ValueError("bins are impossible")
        where, counts, places, squares = table.astype(np.int64)
        impossible = (
            len(where) > self._number
            or (np.diff(where) <= 0).any()
            or (len(where) and not 0 <= where[0] <= where[-1] < self._number)
            or (counts < 1).any()
            or (places < 0).any()
            or (squares < 0).any()
            or (counts > _MOST_IN_A_BIN).any()
            or (places > counts * (2**32 - 1)).any()
            or (squares > counts << 16).any()
        )
        total = int(counts.astype(object).sum()) if len(counts) else 0
        if impossible or total > MOST or (self._zeros_and_ones is not None and sum(self._zeros_and_ones) > total):
            raise ValueError("bins are impossible")
        self._tallies = Tallies.empty(self._number)
        for mine, theirs in zip(self._tallies, (counts, places, squares), strict=True):
            mine[where] = theirs
        self._counted = total
        return self

    def to_json(self) -> str:
        """Return the summary as JSON, without loss."""
        if self._rows is not None:
            return json.dumps({**self._header(), "rows": self._rows.tolist()})
        names = ("bin", "count", "place", "square")
        return json.dumps(self._header() | dict(zip(names, self._lines().tolist(), strict=True)))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the summary that `to_json` wrote."""
        with refusing("RowSummary"):
            document = document_in(text)
            summary = cls._begun(document)
            if "rows" in document:
                return summary._with_rows(document["rows"])._checked()
            lines = [[whole(value) for value in document[name]] for name in ("bin", "count", "place", "square")]
            if len({len(line) for line in lines}) > 1:
                raise ValueError("bins are impossible")
            return summary._with_lines(np.array(lines, dtype=np.int64).reshape(4, len(lines[0])))._checked()

    def to_bytes(self) -> bytes:
        """Return the summary as bytes: a header in JSON, then the numbers, little-endian."""
        header = json.dumps(self._header()).encode()
        body = self._lines().astype("<i8") if self._rows is None else self._rows.astype("<f8")
        return _MAGIC + struct.pack("<I", len(header)) + header + body.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the summary that `to_bytes` wrote."""
        start = len(_MAGIC) + 4
        with refusing("RowSummary"):
            if bytes(data[: len(_MAGIC)]) != _MAGIC:
                raise Refused("this is not a RowSummary")
            end = start + struct.unpack_from("<I", data, len(_MAGIC))[0] if len(data) >= start else start
            if len(data) < end or end == start:
                raise Refused(f"this RowSummary is cut short: {len(data)} bytes, not even its header")
            summary, body = cls._begun(document_in(bytes(data[start:end]))), data[end:]
            if len(body) % (8 if summary.bins is None else 32):
                raise Refused(f"this RowSummary is cut short: {len(body)} bytes of numbers")
            if summary.bins is None:
                return summary._with_rows(np.frombuffer(body, "<f8"))._checked()
            return summary._with_lines(np.frombuffer(body, "<i8").reshape(4, -1))._checked()

    def to_arrow(self) -> Any:
        """Return the summary as an Arrow table: one row for each bin, or row, the header in the schema's metadata."""
        import pyarrow as pa

        names = ("bin", "count", "place", "square")
        columns: dict[str, Any] = (
            {"row": self._rows} if self._rows is not None else dict(zip(names, self._lines(), strict=True))
        )
        return pa.table(columns).replace_schema_metadata({"outvote": json.dumps(self._header())})

    @classmethod
    def from_arrow(cls, table: Any) -> Self:
        """Return the summary that `to_arrow` wrote; the order of the bins does not matter."""
        with refusing("RowSummary"):
            summary = cls._begun(document_in((table.schema.metadata or {}).get(b"outvote", b"null")))
            if summary.bins is None:
                return summary._with_rows(table["row"].to_numpy())._checked()
            lines = [table[name].to_numpy() for name in ("bin", "count", "place", "square")]
            order = np.argsort(lines[0])
            return summary._with_lines(np.stack([line[order] for line in lines]))._checked()


def _read_bins(bins: Any) -> tuple[int, Grid | None]:
    """Return the number of bins, and the bins if they are given."""
    grid = None
    if isinstance(bins, Grid):
        grid, bins = bins, bins.number
        exponent = float(np.frexp(grid.unit)[0])
        if not np.isfinite(grid.centre) or not 0 < grid.unit < np.inf or exponent != 0.5:
            raise ValueError(f"bins={grid!r}: the centre must be a finite number, and the unit a power of two")
        grid = Grid(float(grid.centre), float(grid.unit), int(grid.number))
    if bins is None:
        return BINS, None
    if not is_whole(bins):
        raise TypeError(f"bins={bins!r} must be a number of bins, the bins of another summary, or None")
    number = int(bins)
    if not FEWEST_BINS <= number <= MOST_BINS or number & (number - 1):
        raise ValueError(f"bins={number} must be a power of two from {FEWEST_BINS} to {MOST_BINS}, {BINS} for instance")
    return number, grid
