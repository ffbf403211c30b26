"""Premises and intervals of many groups of rows at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.votes.evidence.kernel import Atoms, Floats
from outvote.votes.evidence.premise import Premises, Read, unreadable
from outvote.votes.terms import Terms

Integers = NDArray[np.int64]

#: Numbers put in order together, and how large squares of rows may be: others are looked at by themselves.
_AT_ONCE, _EXTREME = 1 << 17, 1e100


class GroupPremises(NamedTuple):
    """What is read off groups of rows: an entry for each; NaN for those that must be looked at by themselves."""

    read: Read
    sd: Floats
    low: Floats
    high: Floats

    @property
    def estimate(self) -> Floats:
        """The points to report."""
        return np.clip(self.read.point, self.low, self.high)


def premises_of_groups(
    values: Floats, starts: Integers, n_corrupt: Integers, terms: Terms, threads: int = 1, *, screened: bool = True
) -> GroupPremises:
    """Return an sd read off each group of rows, and both ends of the interval that it is the premise of.

    Parameters
    ----------
    values : ndarray
        The rows of all groups, those of one together.
    starts : ndarray of int
        Where each group begins, and where the last ends.
    n_corrupt : ndarray of int
        How many rows of each may be corrupt.
    terms : Terms
        Confidence; two-sided, and not adaptive.
    threads : int
        How many groups are looked at at a time.
    screened : bool
        Whether rows that no ordinary tail explains are taken to be corrupt.

    Returns
    -------
    GroupPremises
        NaN for groups that have too few rows, or whose rows are equal or extreme.
    """
    sizes = np.diff(starts)
    found = np.full((len(Read._fields) + 3, len(sizes)), np.nan)
    order, place, parts = np.argsort(sizes, kind="stable"), 0, []
    while place < len(order):  # groups of about the same size, so that little is empty
        step = max(_AT_ONCE // max(int(sizes[order[place]]), 1), 1)
        part = order[place : place + step]
        part = part[sizes[part] <= 1.25 * max(int(sizes[part[0]]), 16)]
        place += len(part)
        usable = part[sizes[part] > 2 * n_corrupt[part]]
        parts += [usable] if len(usable) else []

    def work(part: NDArray[np.intp]) -> None:
        width = int(sizes[part].max())
        there = np.arange(width) < sizes[part][:, None]
        table = np.where(there, values[np.where(there, starts[part][:, None] + np.arange(width), 0)], np.inf)
        table.sort(axis=1)
        table[~there] = 0.0
        read = Read.of_rows(table, sizes[part], n_corrupt[part], screened=screened)
        found[: len(read), part] = read
        fine = (read.sd > 1 / _EXTREME) & (read.sd < _EXTREME) & ~unreadable(read, n_corrupt[part])
        if fine.any():
            some = part[fine]
            sets = Premises([Atoms.of_rows(table[fine], sizes[some], n_corrupt[some])], sizes[some], read.sd[fine])
            sds = sets.believed()
            found[-3, some], (found[-2, some], found[-1, some]) = sds, sets.interval(sds, terms.of_both)

    if threads == 1:
        for part in parts:
            work(part)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, parts))
    return GroupPremises(Read(*found[:-3]), *found[-3:])
