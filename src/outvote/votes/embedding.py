"""How far apart two clean samples are, as mean embeddings, when some of the rows are corrupt.

A row x stands for a vector φ(x) with ⟨φ(x), φ(y)⟩ = k(x, y), 0 ≤ k ≤ 1 = k(x, x). The distance between two
distributions is that of their mean vectors, 0 to √2. Proofs are in docs/certificates.md, §15.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.intp]

#: The largest distance there can be between two rows, or two distributions: ‖φ(x) - φ(y)‖² = 2 - 2k(x, y).
LARGEST = math.sqrt(2.0)


@dataclass(frozen=True, eq=False)
class _Side:
    """One sample's part in the distance; entry m of every array is for m corrupt rows among its n, m < n.

    Attributes
    ----------
    low, high : ndarray
        The least and the largest mean, over the clean rows, of the distance times the witness.
    moved : ndarray
        The most by which corrupt rows moved the sample's mean vector.
    noise : ndarray
        One over the number of independent clean rows.
    """

    low: Floats
    high: Floats
    moved: Floats
    noise: Floats

    @classmethod
    def of(cls, own: Floats, slopes: Floats, distance: float, *, adaptive: bool) -> _Side:
        """Prepare a sample from the mean of k(x_i, ·) over it and from distance·witness(x_i), for all its rows."""
        n, m = len(own), np.arange(len(own))
        rising = np.sort(slopes)
        if adaptive:  # the rows that were replaced may have stood anywhere in the unit ball
            reach = LARGEST * distance
            fall = np.clip(rising[::-1] + distance, 0.0, reach)
            rise = np.clip(distance - rising, 0.0, reach)
            mean = float(slopes.mean())
            return cls(mean - _sums(fall) / n, mean + _sums(rise) / n, LARGEST * m / n, np.full(n, 1 / n))
        kept = n - m
        low, high = np.cumsum(rising)[::-1] / kept, np.cumsum(rising[::-1])[::-1] / kept
        # ‖mean of m rows - mean of all‖² is at most 1 + ‖mean of all‖² minus twice the mean of the m least of `own`.
        square = m * (1 + float(own.mean())) - 2 * _sums(np.sort(own))
        moved = np.minimum(LARGEST * m / n, np.sqrt(np.maximum(m * square, 0.0)) / kept)
        return cls(low, high, moved, 1 / kept)


def _sums(values: Floats) -> Floats:
    """Return the sums of the first 0, 1, …, n - 1 of n values."""
    sums: Floats = np.concatenate([[0.0], np.cumsum(values[:-1])])
    return sums


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Two samples as mean vectors: their distance, and the clean distributions' for any number of corrupt rows.

    Attributes
    ----------
    distance : float
        Between the mean vectors of all rows: the V-statistic.
    sides : tuple
        What each sample contributes.
    n_rows : tuple of int
        Rows in each sample.

    Examples
    --------
    >>> alone = np.ones(200), np.zeros(200)  # all rows equal, and far from the other sample's
    >>> both = Embeddings.of(alone, alone, adaptive=False)
    >>> round(both.distance, 3), [round(end, 3) for end in both.ends((4, 4), math.log(0.05))]
    (1.414, [1.216, 1.414])
    >>> both.tolerance(math.log(0.05))
    196
    """

    distance: float
    sides: tuple[_Side, _Side]
    n_rows: tuple[int, int]

    @classmethod
    def of(cls, a: tuple[Floats, Floats], b: tuple[Floats, Floats], *, adaptive: bool) -> Embeddings:
        """Prepare both samples, from the means of k(x_i, ·) over their own rows and over those of the other."""
        (own_a, other_a), (own_b, other_b) = a, b
        square = float(own_a.mean()) + float(own_b.mean()) - float(other_a.mean()) - float(other_b.mean())
        distance = math.sqrt(min(max(square, 0.0), 2.0))
        sides = tuple(_Side.of(own, own - other, distance, adaptive=adaptive) for own, other in (a, b))
        return cls(distance, (sides[0], sides[1]), (len(own_a), len(own_b)))

    def ends(
        self, corrupt: Sequence[int], log_delta: float, *, together: bool = False, found: tuple[int, int] = (0, 0)
    ) -> tuple[float, float]:
        """Return an interval for the distance of the clean distributions, if so many rows of each sample are corrupt.

        With `together` any rows may be, as many in both samples, `found` of each for certain. With D the distance
        between the clean rows' means and s² = 1/N_a + 1/N_b, the ends are max(min(l(δ), s√log(2/δ)), l(δ/2)) and
        D + s√log(2/δ), where l(δ)² = (D - s√log(1/δ))² - s²; D is not known, but how far it can be from that of all
        rows is.
        """
        in_a, in_b = corrupt
        splits = self._splits(in_a + in_b, found) if together else (np.array([in_a]), np.array([in_b]))
        if splits is None:
            return 0.0, LARGEST
        low, high, noise = self._clean(*splits)
        wide = noise * math.sqrt(math.log(2) - log_delta)
        least = np.maximum(
            np.minimum(_beyond_noise(low - noise * math.sqrt(-log_delta), noise), wide),
            _beyond_noise(low - wide, noise),
        )
        return float(least.min()), min(float((high + wide).max()), LARGEST)

    def tolerance(self, log_delta: float, found: tuple[int, int] = (0, 0)) -> int | None:
        """Return the most corrupt rows, in both samples together, with which the distributions are shown to differ.

        `found` rows of each are corrupt for certain. None if they are not shown to differ with these alone.
        """
        least, most = sum(found), sum(self.n_rows)
        if not self._differ(least, log_delta, found):
            return None
        while most - least > 1:  # it is shown for `least`, not for `most`; more corrupt rows never show more
            middle = (least + most) // 2
            least, most = (middle, most) if self._differ(middle, log_delta, found) else (least, middle)
        return least

    def _differ(self, total: int, log_delta: float, found: tuple[int, int]) -> bool:
        splits = self._splits(total, found)
        if splits is None:
            return False
        low, _, noise = self._clean(*splits)
        return bool((low > noise * (1 + math.sqrt(-log_delta))).all())

    def _splits(self, total: int, found: tuple[int, int]) -> tuple[Counts, Counts] | None:
        """Return every way to split the corrupt rows between the samples; None if one leaves a sample no clean row."""
        if total - found[1] >= self.n_rows[0] or total - found[0] >= self.n_rows[1]:
            return None
        in_a = np.arange(found[0], total - found[1] + 1)
        return in_a, total - in_a

    def _clean(self, in_a: Counts, in_b: Counts) -> tuple[Floats, Floats, Floats]:
        """Return the least and largest distance of the clean rows' means, and s, for each split."""
        (a, b), distance = self.sides, self.distance
        noise = np.sqrt(a.noise[in_a] + b.noise[in_b])
        moved = a.moved[in_a] + b.moved[in_b]
        if distance == 0:
            return np.zeros(len(in_a)), moved, noise
        low = (a.low[in_a] + b.low[in_b]) / distance
        square = 2 * (a.high[in_a] + b.high[in_b]) - distance**2 + moved**2
        high = np.maximum(np.minimum(np.sqrt(np.maximum(square, 0.0)), distance + moved), distance)
        return np.maximum(low, 0.0), high, noise


def _beyond_noise(distance: Floats, noise: Floats) -> Floats:
    """Return √(d² - s²), 0 where d ≤ s."""
    beyond: Floats = np.sqrt(np.maximum(distance - noise, 0.0) * (distance + noise).clip(min=0.0))
    return beyond
