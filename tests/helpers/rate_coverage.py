"""Exact miss probabilities of intervals for two proportions."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from outvote.votes import Terms
from outvote.votes.evidence.proportion import Tally
from outvote.votes.evidence.rates import rates_interval


def largest_miss(
    sizes,
    m,
    adversary,
    confidence,
    *,
    counted="each",
    relative=False,
    attacked_by=None,
    shares,
    alternative="two-sided",
):
    """Return the largest probability, over all pairs of shares, that someone can make the interval miss.

    Whoever does it sees everything, chooses how the corrupt rows are split (before, if oblivious) and what they say.
    """
    terms = Terms(math.log1p(-confidence), alternative=alternative)
    together = m if counted == "together" else None
    ends = np.empty((sizes[0] + 1, sizes[1] + 1, 2))
    for i, j in np.ndindex(ends.shape[:2]):
        pair = (Tally(n - k, k, m, adaptive=adversary == "adaptive") for n, k in zip(sizes, (i, j), strict=False))
        found = rates_interval(*pair, terms, together=together, relative=relative)
        ends[i, j] = found.low, found.high
    splits = [(m, m)] if together is None else [(t, m - t) for t in range(m + 1)]
    worst = 0.0
    for p in shares:
        for q in shares:
            if relative and p == 0:
                continue
            truth = q / p - 1 if relative else q - p
            wrong = (ends[..., 0] > truth + 1e-12) | (ends[..., 1] < truth - 1e-12)
            worst = max(worst, _chance(wrong, sizes, (p, q), splits, attacked_by or adversary))
    return worst


def _chance(wrong, sizes, shares, splits, adversary):
    """Return the probability of clean rows from which a wrong interval can be reached, for the worst split."""
    if adversary == "adaptive":  # the split may answer to the rows
        fooled = np.zeros_like(wrong)
        for split in splits:
            fooled |= _reach(wrong, sizes, split, split)
        return _weighed(fooled, sizes, shares)
    trials = [[n - t for n, t in zip(sizes, split, strict=False)] for split in splits]
    return max(
        _weighed(_reach(wrong, clean, (0, 0), split), clean, shares)
        for clean, split in zip(trials, splits, strict=False)
    )


def _reach(wrong, clean, down, up):
    """Return from which clean numbers of ones a wrong interval is so many ones away."""
    return np.array(
        [
            [
                wrong[max(i - down[0], 0) : i + up[0] + 1, max(j - down[1], 0) : j + up[1] + 1].any()
                for j in range(clean[1] + 1)
            ]
            for i in range(clean[0] + 1)
        ]
    )


def _weighed(fooled, clean, shares):
    first, second = (stats.binom.pmf(np.arange(n + 1), n, p) for n, p in zip(clean, shares, strict=False))
    return float(first @ fooled @ second)
