"""Where corrupt rows come in a stream, and the exact probability that a monitor of rows of 0 and 1 ever errs."""

from __future__ import annotations

import math

import numpy as np

from outvote.votes.evidence.running import rate_stakes

DELTA = 0.05
PRICE = math.log(2 / DELTA)


def allowed(n):
    """How many of the first n rows may be corrupt, for a share of 1 %."""
    return -(-n // 100) + 2


def pattern(name, n):
    """How many of the first k rows are corrupt, for k = 1, ..., n: as many as the schedule allows, and when."""
    k = np.arange(1, n + 1)
    most = np.minimum(np.array([allowed(int(one)) for one in k]), k)
    if name == "never":
        return np.zeros(n, dtype=int)
    if name == "last":  # as late as possible: all of them at the end
        count = np.zeros(n, dtype=int)
        last = int(most[-1])
        count[n - last :] = np.arange(1, last + 1)
        return count
    if name == "bursts":  # nothing for a while, then all that is allowed at once
        count, there = [], 0
        for i in range(n):
            burst = (i // 150) % 2 == 1
            there = min(there + 1, int(most[i])) if burst else there
            count.append(there)
        return np.array(count)
    count, there = [], 0  # as early as possible
    for i in range(n):
        there = min(there + 1, int(most[i]))
        count.append(there)
    return np.array(count)


def thresholds(p, sign, n_plan, n_looks, adaptive=False):
    """For each n the fewest ones (sign 1), or zeros, that rule p out: from the definition of the evidence."""
    stakes, weights = rate_stakes(n_plan, PRICE)
    mu = p if sign > 0 else 1 - p
    rates = np.minimum(stakes / math.sqrt(mu * (1 - mu)), 0.95 / mu)
    up, down = np.log1p(rates * (1 - mu)), np.log1p(-rates * mu)
    found, k = [], 0
    for n in range(1, n_looks + 1):
        m = allowed(n)

        def evidence(ones, n=n, m=m):
            zeros = n - ones + (m if adaptive else 0)
            return np.logaddexp.reduce(np.log(weights) + max(ones - m, 0) * up + zeros * down)

        while k <= n and evidence(k) < PRICE:
            k += 1
        found.append(k)
    return np.array(found)


def chance_of_an_alarm(p, corrupt, value, n_plan, n_looks):
    """The probability that rows of 0 and 1 ever rule out their own p, and that they never do.

    Corrupt rows say `value`.
    """
    ones, zeros = (thresholds(p, sign, n_plan, n_looks) for sign in (1, -1))
    counts = pattern(corrupt, n_looks)
    chance, alarm = np.array([1.0]), 0.0  # by the number of clean ones so far
    before = 0
    for n in range(1, n_looks + 1):
        bad = int(counts[n - 1])
        if bad == before:
            longer = np.zeros(len(chance) + 1)
            longer[:-1] += chance * (1 - p)
            longer[1:] += chance * p
            chance = longer
        before = bad
        clean = np.arange(len(chance))
        seen_ones = clean + (bad if value else 0)
        out = (seen_ones >= ones[n - 1]) | (n - seen_ones >= zeros[n - 1])
        alarm += chance[out].sum()
        chance = np.where(out, 0.0, chance)
    return alarm, chance.sum()
