"""The r-th smallest average of two rows, without forming all pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

#: Pairs that are looked at, at least, to choose where to cut; one for eight rows if there are more.
_SAMPLED = 1024
#: Sums of two numbers up to this are finite.
_LARGE = 2.0**1000
#: So many pairs a row are few enough to be put in order.
_FEW = 4


def walsh_average(values: Floats, rank: int) -> float:
    """Return the r-th smallest of the averages of two rows, a row with itself included, of rows in ascending order.

    Each round draws some of the pairs that are left, cuts at two of their averages that most likely enclose the one
    sought, and counts on both sides: O(n log n) time, O(n) memory, and the same answer whatever was drawn.

    Examples
    --------
    >>> walsh_average(np.array([0.0, 1.0, 5.0]), 3), walsh_average(np.array([0.0, 1.0, 5.0]), 4)
    (1.0, 2.5)
    """
    # Halves of the smallest floats are 0, and sums of the largest are infinite.
    unit = 0.5 if max(abs(values[0]), abs(values[-1])) > _LARGE else 1.0
    return _sum_of_two(values * unit, rank) / (2 * unit)


def _sum_of_two(values: Floats, rank: int) -> float:
    """Return the r-th smallest sum of two rows."""
    pairs = _Pairs(values, np.arange(len(values)), np.full(len(values), len(values)))
    if not 1 <= rank <= pairs.total:
        raise ValueError(f"rank={rank} must lie between 1 and {pairs.total}, the number of pairs")
    generator, n_drawn = np.random.default_rng(0), max(_SAMPLED, len(values) // 8)
    while pairs.total > _FEW * len(values) + n_drawn:
        drawn = pairs.draw(generator, n_drawn)
        place, spread = rank / pairs.total * (n_drawn - 1), 1.5 * n_drawn**0.5  # three standard errors
        low, high = drawn[max(int(place - spread), 0)], drawn[min(int(place + spread), n_drawn - 1)]
        # Each cut is mostly on its own side, so that one count suffices.
        up_to = pairs.places(low, strict=False)
        n_up_to = int((up_to - pairs.first).sum())
        if rank <= n_up_to:
            below = pairs.places(low, strict=True)
            if rank > int((below - pairs.first).sum()):
                return float(low)
            pairs = _Pairs(pairs.values, pairs.first, below)
            continue
        pairs, rank = _Pairs(pairs.values, up_to, pairs.end), rank - n_up_to
        below = pairs.places(high, strict=True)
        n_below = int((below - pairs.first).sum())
        if rank <= n_below:
            pairs = _Pairs(pairs.values, pairs.first, below)
            continue
        up_to = pairs.places(high, strict=False)
        n_up_to = int((up_to - pairs.first).sum())
        if rank <= n_up_to:
            return float(high)
        pairs, rank = _Pairs(pairs.values, up_to, pairs.end), rank - n_up_to
    return float(np.partition(pairs.sums(), rank - 1)[rank - 1])


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs that are left: row i with the rows from `first[i]` to `end[i]`, in order; `values` of all rows."""

    values: Floats
    first: Places
    end: Places

    @property
    def total(self) -> int:
        return int((self.end - self.first).sum())

    def draw(self, generator: np.random.Generator, n_drawn: int) -> Floats:
        """Return the sums of some pairs, in ascending order."""
        ends = np.cumsum(self.end - self.first)
        chosen = np.sort(generator.integers(0, ends[-1], n_drawn))
        row = np.searchsorted(ends, chosen, side="right")
        other = self.end[row] - (ends[row] - chosen)
        return np.sort(self.values[row] + self.values[other])

    def sums(self) -> Floats:
        """Return the sums of all pairs."""
        lengths = self.end - self.first
        row = np.repeat(np.arange(len(lengths)), lengths)
        other = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + self.first[row]
        return self.values[row] + self.values[other]

    def places(self, cut: float, *, strict: bool) -> Places:
        """Return for each row the first of its pairs whose sum is not below the cut, or not at most the cut."""
        values, n = self.values, len(self.values)
        with np.errstate(over="ignore"):
            found = np.searchsorted(values, cut - values, side="left" if strict else "right")
        place = np.clip(found, self.first, self.end)

        def before(rows: Places, other: Places) -> NDArray[np.bool_]:
            both = values[rows] + values[other]
            return both < cut if strict else both <= cut

        # The difference was rounded otherwise than the sums: where that matters, search among these.
        rows = np.arange(n)
        wrong = (place < self.end) & before(rows, np.minimum(place, n - 1))
        wrong |= (place > self.first) & ~before(rows, place - 1)
        rows = np.flatnonzero(wrong)
        low, high = self.first[rows], self.end[rows]
        while (low < high).any():
            middle = (low + high) // 2
            open_ = low < high
            yes = open_ & before(rows, np.minimum(middle, n - 1))
            low, high = np.where(yes, middle + 1, low), np.where(open_ & ~yes, middle, high)
        place[rows] = low
        return place
