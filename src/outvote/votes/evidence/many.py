"""Intervals of many sets of rows at once, conditional on an sd for each: what `premise_interval` gives for one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from outvote import _numba
from outvote.votes.evidence.binned import BinnedRows
from outvote.votes.evidence.ends import APART, PRECISION, ROUGHLY
from outvote.votes.evidence.factors import Floats, variance_factors
from outvote.votes.evidence.interval import CELL, FROM_BELOW, EvidenceInterval, premise_interval
from outvote.votes.evidence.rows import SortedRows, rounding
from outvote.votes.evidence.stack import Stack, VarianceFactors
from outvote.votes.roots import falling_roots
from outvote.votes.terms import Terms

#: Steps downwards, each twice the last, and cells of scales, that are tried before a set is looked at by itself.
_MOST_STEPS, _MOST_CELLS = 30, 10
#: Seconds that numpy takes for one of many sets of rows.
_SECONDS = 5e-4
#: Numbers looked at together.
_AT_ONCE = 1 << 18


def premise_intervals(rows: Sequence[SortedRows], sds: Sequence[float], terms: Terms) -> list[EvidenceInterval]:
    """Return what `premise_interval` does for each set of rows, two-sided, and each sd, positive and finite."""
    one_by_one = _numba.compiled(_SECONDS * len(rows)) is not None or any(one.adaptive for one in rows)
    if one_by_one:
        return [premise_interval(one, sd, terms) for one, sd in zip(rows, sds, strict=True)]
    found: list[EvidenceInterval | None] = [None] * len(rows)
    for binned in (False, True):
        which = [i for i, one in enumerate(rows) if isinstance(one, BinnedRows) == binned and type(one) in _KNOWN]
        width = max((rows[i].n_values if not binned else len(rows[i].bins.count) for i in which), default=0)  # type: ignore[attr-defined]
        step = max(_AT_ONCE // max(width, 1), 1)
        for start in range(0, len(which), step):
            part = which[start : start + step]
            lows, highs = premise_ends(Stack.of([rows[i] for i in part]), np.array([sds[i] for i in part]), terms)
            for i, low, high in zip(part, lows.tolist(), highs.tolist(), strict=True):
                if low <= high:
                    found[i] = EvidenceInterval(low, high, low / 2 + high / 2, sds[i])
    return [premise_interval(rows[i], sds[i], terms) if one is None else one for i, one in enumerate(found)]


_KNOWN = (SortedRows, BinnedRows)


def premise_ends(stack: Stack, sds: Floats, terms: Terms) -> tuple[Floats, Floats]:
    """Return the ends of the intervals of all sets; NaN where a set should be looked at by itself."""
    ends = _lower_ends(stack.both, np.concatenate([sds, sds]), terms)
    return ends[: len(stack)], -ends[len(stack) :]


def _lower_ends(stack: Stack, sds: Floats, terms: Terms) -> Floats:
    """Return numbers below which every mean is ruled out for every scale up to the sds: `_cells_end` for each set."""
    price = terms.price - math.log(1 - FROM_BELOW)
    n_rows, kinds = np.unique(stack.n_rows, return_inverse=True)
    mains = [variance_factors(int(n), terms.price, adaptive=False)[0] for n in n_rows]
    rates, depths = (np.array([getattr(one, name) for one in mains])[kinds] for name in ("rate", "depth"))
    tops = np.ceil(np.log(sds) / math.log(CELL) + 1e-9)

    def cell(k: Floats) -> VarianceFactors:
        unit = np.exp2((k - 0.5) / 3)
        return VarianceFactors(rates / unit, depths * unit, np.minimum(np.exp2(k / 3), sds))

    factor = cell(tops)
    first = 2 * (price / stack.n_rows + factor.norm) / factor.rate
    stack.prepare(cell(tops - _MOST_CELLS), stack.middle + first)
    far = stack.n_below(stack.middle - first, factor.depth)  # as `lower_end` does
    paid = 1.1 * far * (factor.norm - factor.least) / (factor.rate * np.maximum(stack.n_values - far, 1))
    start = stack.middle - first - paid
    end, start, wrong = _search(stack, factor, price, first, start, stack.middle + first)
    wrong |= stack.n_values <= stack.droppable
    grid = np.ldexp(0.5, np.frexp(PRECISION * first)[1])
    gap = np.maximum(first, np.abs(stack.largest_kept) * APART)
    end = np.minimum(end, _down_to_grid(stack.largest_kept - gap, grid))
    bottoms, lost = _lowest_cells(stack, end, tops, -terms.log_delta - math.log(FROM_BELOW))
    wrong |= lost
    n_cells = int(np.max(np.where(wrong, 0, tops - bottoms), initial=0))
    if n_cells:
        below = tops - 1.0 - np.arange(n_cells)[:, None]
        passed = _ruled_out_below(stack, cell(below), price, end, start) | (below < bottoms)
        for k in np.flatnonzero(~(passed | wrong).all(axis=1)):  # in this cell the end is lower
            other = _search(stack, cell(below[k]), price, first, start, end)
            wrong |= ~passed[k] & (other[2] | (other[1] != start))
            end = np.where(passed[k] | wrong, end, np.minimum(end, other[0]))
    end[wrong] = np.nan
    return end


def _search(
    stack: Stack, factor: VarianceFactors, price: float, first: Floats, start: Floats, top: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return an end for each set, where the search began, and which sets should be looked at by themselves.

    All means up to the start are ruled out, with `top` they are not: it is an end itself where they are.
    """
    nothing, step, little = np.full(len(start), -math.inf), first.copy(), rounding(stack.n_rows)
    grid = np.ldexp(0.5, np.frexp(ROUGHLY * first)[1])
    start = _down_to_grid(start, grid)
    excess = stack.log_product(factor, nothing, start) - price
    for _ in range(_MOST_STEPS):
        short = excess < 0
        if not short.any():
            break
        start = np.where(short, _down_to_grid(start - step, grid), start)
        step = np.where(short, 2 * step, step)
        excess = stack.log_product(factor, nothing, start) - price
    wrong, end = ~(excess >= 0), start
    # Rows whose valley may be anywhere in between count with the least factor they can have.
    reach = np.maximum(stack.middle, start) + step  # as in `search_end`, so that sets alone have the same ends
    settled = stack.none_between(start - 2 * factor.depth, reach - factor.depth)
    done = np.zeros_like(settled)
    for precise in (settled, np.ones_like(settled)):
        low = end
        below = stack.log_product(factor, low, top) - price
        wrong |= ~(below < 0)
        tolerance = np.where(wrong, np.inf, np.where(precise, PRECISION, ROUGHLY) * first)

        def above_price(at: Floats, low: Floats = low, wrong: NDArray[np.bool_] = wrong) -> Floats:
            found = stack.log_product(factor, low, at) - price
            np.logical_or(wrong, ~(np.abs(found) > little), out=wrong)  # rounding may decide
            return found

        moved, excess = falling_roots(above_price, low, top, excess, below, tolerance)
        end, done = np.where(done, end, moved), settled | wrong  # sets do not depend on each other
        if done.all():
            break
    return end, start, wrong


def _down_to_grid(x: Floats, step: Floats) -> Floats:
    """Return the largest multiples of powers of two that are at most these numbers, as `down_to_grid` does."""
    with np.errstate(over="ignore"):
        return np.where(np.abs(x) < step * 2.0**53, np.floor(x / step) * step, x)


def _lowest_cells(stack: Stack, end: Floats, tops: Floats, price: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the lowest cells of scales that the spread of the rows above the ends does not rule out.

    Also return for which sets that was not found.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.log(np.maximum(stack.mean_square(end), 1e-300)) / (2 * math.log(CELL))
    guess = np.minimum(np.floor(size), tops - 1)
    below = np.array([-2.0, -1.0, 0.0, 1.0])[:, None]
    for _ in range(3):
        left = ~(stack.log_spread(end, np.exp2((guess + below) / 3)) >= price)
        lowest = np.where(left.any(axis=0), guess - 2 + np.argmax(left, axis=0), guess + 2)
        lost = left[0] | ~np.isfinite(guess)
        if not lost.any():
            break
        guess = np.where(lost, guess - 3, guess)
    return np.minimum(lowest, tops), lost


def _ruled_out_below(
    stack: Stack, factor: VarianceFactors, price: float, mean: Floats, start: Floats
) -> NDArray[np.bool_]:
    """Return for which sets, and cells, the evidence rules out a mean and all smaller ones."""
    everything = np.full_like(factor.rate, -math.inf)
    found = stack.log_product(factor, everything, mean) >= price
    if found.all():
        return found
    between = stack.log_product(factor, start, mean) >= price
    return found | (between & (stack.log_product(factor, everything, start) >= price))
