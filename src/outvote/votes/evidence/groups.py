"""Premises and intervals of many groups of rows at once."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from outvote import _numba
from outvote.votes.evidence.ends import PRECISIONS
from outvote.votes.evidence.factors import Floats, variance_factors
from outvote.votes.evidence.interval import FROM_BELOW
from outvote.votes.evidence.many import premise_ends
from outvote.votes.evidence.rows import rounding
from outvote.votes.evidence.scale import STAKES, central_sd, premise_factor
from outvote.votes.evidence.stack import Stack
from outvote.votes.terms import Terms

Integers = NDArray[np.int64]

#: Seconds that numpy takes for a group, and for each of its rows.
_SECONDS, _SECONDS_A_ROW = 2e-5, 5e-7
#: Numbers looked at together.
_AT_ONCE = 1 << 16
#: From so many rows on numpy sorts a group faster than a compiled function does.
_SORTED = 64


def premises_of_groups(values: Floats, starts: Integers, n_corrupt: Integers, terms: Terms, threads: int = 1) -> Floats:
    """Return an sd read off each group of rows, and both ends of the interval that it is the premise of.

    Parameters
    ----------
    values : ndarray
        The rows of all groups, those of one together. They are reordered within the groups.
    starts : ndarray of int
        Where each group begins, and where the last ends.
    n_corrupt : ndarray of int
        How many rows of each may be corrupt.
    terms : Terms
        Confidence; two-sided, and not adaptive.
    threads : int
        How many groups are looked at at a time, if the function is compiled.

    Returns
    -------
    ndarray of shape (groups, 3)
        sd, low and high of each; NaN for what must be looked at by itself: it has too few rows, its rows are equal or
        extreme, or contradict the sd.
    """
    sizes = np.diff(starts)
    shares = np.divide(n_corrupt, sizes, out=np.zeros(len(sizes)), where=sizes > 0)
    multiples = np.array([premise_factor(share) for share in shares.tolist()])
    found = np.full((len(sizes), 3), math.nan)
    functions = _numba.compiled(len(sizes) * _SECONDS + len(values) * _SECONDS_A_ROW)
    if functions is not None:
        kinds, which = np.unique(sizes, return_inverse=True)
        mains = [variance_factors(max(int(n), 1), terms.price, adaptive=False)[0] for n in kinds]
        rates, depths = (np.array([getattr(one, name) for one in mains])[which] for name in ("rate", "depth"))
        prices = (terms.price - math.log(1 - FROM_BELOW), -terms.log_delta - math.log(FROM_BELOW))
        cuts = np.linspace(0, len(sizes), threads + 1).astype(int)

        def work(first: int, last: int) -> None:
            some = slice(first, last)
            for g in first + np.flatnonzero(sizes[some] >= _SORTED):
                values[starts[g] : starts[g + 1]].sort()
            functions.ends_of_groups(
                values, starts[first : last + 1], n_corrupt[some], multiples[some], rates[some], depths[some], prices,
                PRECISIONS, STAKES, _SORTED, (rounding(1) - rounding(0), rounding(0)), found[some],
            )  # fmt: skip

        if threads == 1:
            work(0, len(sizes))
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(work, cuts[:-1], cuts[1:]))
    else:
        order, place = np.argsort(sizes, kind="stable"), 0
        while place < len(order):  # groups of about the same size, so that little is empty
            step = max(_AT_ONCE // max(int(sizes[order[place]]), 1), 1)
            part = order[place : place + step]
            part = part[sizes[part] <= 2 * max(int(sizes[part[0]]), 1)]
            place += len(part)
            usable = part[sizes[part] > 2 * n_corrupt[part]]
            if len(usable):
                found[usable] = _by_numpy(values, starts, sizes, n_corrupt, multiples, usable, terms)
    wrong = ~(found[:, 1] <= found[:, 2])
    found[wrong, 1:] = math.nan
    return found


def _by_numpy(
    values: Floats,
    starts: Integers,
    sizes: Integers,
    n_corrupt: Integers,
    multiples: Floats,
    part: Integers,
    terms: Terms,
) -> Floats:
    """Do this for some groups of about the same size."""
    width = int(sizes[part].max())
    there = np.arange(width) < sizes[part][:, None]
    table = np.where(there, values[np.where(there, starts[part][:, None] + np.arange(width), 0)], np.inf)
    table.sort(axis=1)
    table[~there] = 0.0
    sds = multiples[part] * _central_sds(table, sizes[part], n_corrupt[part])
    usable = (sds > 1e-100) & (sds < 1e100)
    found = np.full((len(part), 3), math.nan)
    found[:, 0] = sds
    if usable.any():
        stack = Stack.of_rows(table[usable], sizes[part][usable], n_corrupt[part][usable])
        found[usable, 1:] = np.stack(premise_ends(stack, sds[usable], terms), axis=1)
    return found


def _central_sds(table: Floats, sizes: Integers, dropped: Integers) -> Floats:
    """Return the sd of the rows nearest the median of each line, without the farthest ones."""
    triples = zip(table, sizes.tolist(), dropped.tolist(), strict=True)
    return np.array([central_sd(line[:size], k) for line, size, k in triples])
