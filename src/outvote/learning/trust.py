"""Which rows to trust after a vote: all but those that lie far out, and those that the others contradict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from outvote.learning.arrays import Array, slices
from outvote.learning.scaling import SMALLEST

#: A row is far out if a value, or the length of the row, is this many times what clean rows reach.
FAR = 3.2, 1.6
#: A row that is this many times as far out is left out whatever the others say of it.
TOO_FAR = 3.0
#: Contradicted rows are left out if they are at least this share of the rows that may be corrupt: hard rows are
#: contradicted as well, and few wrong rows that do not lie far out cost a plain fit little.
FEWEST = 1 / 3
#: A row must come this often to be looked at as copies, and this many times as often as any other row.
_FEWEST_COPIES, _TIMES = 5, 3
#: Rows by which the size of the numbers in a column is measured.
_SIZED = 1000
#: What the bits of a number that are rounded away amount to, as an integer.
_LAST_BITS = 1 << 10
#: How often residuals are judged and the worst of them left out.
_N_ROUNDS = 3
#: Numbers compared at once.
_AT_ONCE = 2**20


@dataclass(frozen=True)
class Screen:
    """How far out rows lie, measured by what all but the corrupt rows reach in each column, and in length.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> x[:3] = 1e3
    >>> (Screen.of(x, n_corrupt=10).scores(x) > 1).nonzero()[0]
    array([0, 1, 2])
    """

    centre: Array
    reach: Array
    longest: float

    @classmethod
    def of(cls, x: Array, n_corrupt: int) -> Screen:
        """Measure the columns; one in which most rows are alike says nothing. NaN lies in the middle."""
        last = max(0, len(x) - 1 - n_corrupt)
        before = max(0, last - n_corrupt)
        with np.errstate(all="ignore"):
            centre = np.where(np.isnan(x).all(axis=0), 0.0, np.nanmedian(np.where(np.isnan(x).all(axis=0), 0, x), 0))
            gaps = _gaps(x, centre)
            usual, reach = np.partition(gaps, (before, last), axis=0)[[before, last]]
            reach = np.where((usual == 0) | ~np.isfinite(reach), np.inf, reach)
            lengths = _lengths(gaps / reach)
        longest = float(np.partition(lengths, last)[last])
        return cls(centre, reach, longest if 0 < longest < np.inf else np.inf)

    def scores(self, x: Array) -> Array:
        """Return how far out each row lies; above 1 is far."""
        found, (widest, longest) = np.empty(len(x)), FAR
        for part in slices(len(x), _AT_ONCE // max(1, x.shape[1])):
            with np.errstate(all="ignore"):
                gaps = _gaps(x[part], self.centre) / self.reach
                gaps[np.isnan(gaps)] = 0.0
                far = np.maximum(gaps.max(axis=1) / widest, _lengths(gaps) / (longest * self.longest))
            found[part] = np.where(np.isnan(far), np.inf, far)
        return found


def _gaps(x: Array, centre: Array) -> Array:
    gaps = np.abs(x - centre)
    gaps[np.isnan(gaps)] = 0.0
    return gaps


def _lengths(gaps: Array) -> Array:
    return np.sqrt(np.einsum("ij,ij->i", gaps, gaps))


def worst(scores: Array, suspect: Array, most: int) -> Array:
    """Return which of the suspect rows have the highest scores, at most `most`.

    Examples
    --------
    >>> worst(np.array([3.0, 9.0, 5.0]), np.array([True, False, True]), 1)
    array([False, False,  True])
    """
    rows = np.flatnonzero(suspect)
    found = np.zeros(len(scores), dtype=bool)
    found[rows[np.argsort(-scores[rows], kind="stable")[: max(0, most)]]] = True
    return found


def copies(x: Array, targets: Array) -> Array:
    """Return which rows are copies of one that comes far more often than any other, all but the first of them.

    Examples
    --------
    >>> x = np.r_[np.arange(9.0), np.full(6, 4.0)][:, None]
    >>> copies(x, np.zeros(15)).nonzero()[0]
    array([ 9, 10, 11, 12, 13, 14])
    """
    keys = row_keys(x, targets)
    found, ordered = np.zeros(len(x), dtype=bool), np.sort(keys)
    if (ordered[1:] > ordered[:-1]).all():  # the rule, and a sort takes far less than finding the groups
        return found
    _, group, counts = np.unique(keys, return_inverse=True, return_counts=True)
    largest = int(counts.argmax())
    others = np.delete(counts, largest).max(initial=0)
    if others and counts[largest] >= max(_FEWEST_COPIES, _TIMES * others):
        found[np.flatnonzero(group == largest)[1:]] = True
    return found


def row_keys(x: Array, targets: Array) -> Array:
    """Return a number for each row with its target, the same for rows that are the same; others mostly differ."""
    weights, sizes = np.random.default_rng(0).standard_normal(x.shape[1] + 1), _sizes(x)
    keys = np.empty(len(x))
    with np.errstate(all="ignore"):
        own = weights[:-1] / sizes
        for part in slices(len(x), _AT_ONCE // max(1, x.shape[1])):
            keys[part] = x[part] @ own
        missing = np.flatnonzero(np.isnan(keys))
        keys[missing] = np.where(np.isnan(x[missing]), 0.5 * sizes, x[missing]) @ own
        keys += weights[-1] / _sizes(targets) * targets
    np.nan_to_num(keys, copy=False)
    # The last bits of a product may depend on where a row stands.
    return ((keys.view(np.int64) + _LAST_BITS // 2) & -_LAST_BITS).view(np.float64)


def _sizes(x: Array) -> Array:
    """Return how large the numbers of each column are: small ones must not be lost beside large ones."""
    few = np.abs(x[:: max(1, len(x) // _SIZED)])
    with np.errstate(all="ignore"):
        few = np.where(np.isfinite(few), few, 0.0)
        middle, largest = np.median(few, axis=0), few.max(axis=0)
    return np.where(middle >= SMALLEST, middle, np.where(largest >= SMALLEST, largest, 1.0))


def far_scores(x: Array, targets: Array, rows: Array, n_corrupt: int) -> Array:
    """Return how far out all rows lie by the measure of some; copies are infinitely far."""
    scores = Screen.of(x[rows], n_corrupt).scores(x)
    scores[copies(x, targets)] = np.inf
    return scores


def far_loss(kept: Any, where: Any = np.where) -> Any:
    """Return the loss beyond which a row is far: the median times the fourth power of upper quartile/median.

    For residuals and their squares: four to five standard deviations of a normal residual. If half of the losses are 0,
    they have no scale, and the limit is 0.

    Parameters
    ----------
    kept : ndarray or Tensor
        Sorted losses, without as many of the largest as may be corrupt.
    where : callable
        `numpy.where`, or that of the tensors.

    Examples
    --------
    >>> float(far_loss(np.array([1.0, 1.0, 2.0, 4.0])))
    32.0
    """
    middle, upper = kept[len(kept) // 2], kept[3 * len(kept) // 4]
    with np.errstate(all="ignore"):
        return where((middle > 0) & (upper < np.inf), middle * (upper / middle) ** 4, 0.0)


def contradicted_losses(losses: Array, n_corrupt: int, times: float = 1.0) -> Array:
    """Return which rows have losses far above all others (`times` as far), at most `n_corrupt` rows.

    Examples
    --------
    >>> contradicted_losses(np.array([1.0, 2.0, 1.0, 2.0, 1.5, 90.0, 3.0]), 2).nonzero()[0]
    array([5])
    """
    losses = np.where(np.isnan(losses), np.inf, losses)
    kept = np.sort(losses)[: len(losses) - n_corrupt]
    return worst(losses, losses > max(times * far_loss(kept), kept[-1]), n_corrupt)


def trusted_by_loss(losses: Array, scores: Array, n_corrupt: int) -> Array:
    """Return the rows to trust, given their losses and how far out they lie; at most `n_corrupt` are not trusted.

    A row far out is trusted if its loss does not contradict it, unless it is too far. Of the others, those with losses
    too far are left out, and those with far losses if there are enough of them.
    """
    wrong = contradicted_losses(losses, n_corrupt)
    far = worst(scores, scores > 1, n_corrupt)
    out = far & (wrong | (scores > TOO_FAR))
    rest = worst(losses, wrong & ~out, n_corrupt - int(out.sum()))
    if rest.sum() < FEWEST * n_corrupt:
        rest &= contradicted_losses(losses, n_corrupt, TOO_FAR)
    return ~out & ~rest


def trusted_numbers(x: Array, targets: Array, voted: Array, rows: Array, counts: tuple[int, int]) -> Array:
    """Return the rows of a regression to trust: residuals of least squares do not contradict them.

    Parameters
    ----------
    x, targets : ndarray
        All rows, and their targets.
    voted : ndarray
        The residuals of the voted model.
    rows : ndarray
        The rows that voted. They are judged in several rounds, from two starts: the voted model, and least squares on
        the rows that do not lie far out. The start that explains the rows better is taken. All rows are judged once.
    counts : tuple of int
        How many of all rows, and of those that voted, may be corrupt.
    """
    n_corrupt, n_voting = counts
    scores = far_scores(x, targets, rows, n_voting)
    own, own_targets, own_scores = x[rows], targets[rows], scores[rows]
    near = ~worst(own_scores, own_scores > 1, n_voting)
    found: list[tuple[float, Array]] = []
    plain = least_squares(own, own_targets, near)
    for gaps in (residuals(own, own_targets, plain), voted[rows]):
        for _ in range(_N_ROUNDS):
            kept = trusted_by_loss(gaps, own_scores, n_voting)
            weights = least_squares(own, own_targets, kept)
            gaps = residuals(own, own_targets, weights)
        found.append((float(np.square(np.sort(gaps)[: len(gaps) - n_voting]).sum()), weights))
    best = min(found, key=lambda one: one[0])[1]
    return trusted_by_loss(residuals(x, targets, best), scores, n_corrupt)


def least_squares(x: Array, targets: Array, kept: Array) -> Array:
    """Return the weights of the columns and an intercept that fit the kept rows best."""
    taken = x[kept].astype(np.float64)
    centre, scale = standardised(taken)
    found = np.linalg.lstsq((taken - centre) / scale, targets[kept] - targets[kept].mean(), rcond=None)[0] / scale
    return np.append(found, targets[kept].mean() - centre @ found)


def residuals(x: Array, targets: Array, weights: Array) -> Array:
    """Return |x·w + b - y|; what is not finite is infinite."""
    with np.errstate(all="ignore"):
        gaps = np.abs(x @ weights[:-1].astype(x.dtype) + weights[-1] - targets)
    return np.where(np.isnan(gaps), np.inf, gaps)


def standardised(x: Array, centred: bool = True) -> tuple[Array, Array]:
    """Return the mean and the standard deviation of each column, 1 where it is constant; 0 and root mean squares if
    the columns must not be centred.
    """
    with np.errstate(all="ignore"):
        centre, scale = _moments(x, centred)
        odd = ~(np.isfinite(scale) & (scale > 0))
        if odd.any():  # constant, or with squares that a float does not hold
            unit = np.maximum(np.abs(x[:, odd]).max(axis=0), np.finfo(np.float64).tiny)
            centre[odd], scale[odd] = (moment * unit for moment in _moments(x[:, odd] / unit, centred))
    usable = np.isfinite(scale) & (scale >= SMALLEST) & np.isfinite(centre)
    return np.where(usable, centre, 0.0), np.where(usable, scale, 1.0)


def _moments(x: Array, centred: bool) -> tuple[Array, Array]:
    if centred:
        return x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
    return np.zeros(x.shape[1]), np.sqrt(np.square(x, dtype=np.float64).mean(axis=0))
