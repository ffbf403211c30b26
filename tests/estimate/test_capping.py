"""A ratio whose sign capping at the 99th percentile turns around, and evidence does not."""

from __future__ import annotations

import math

import numpy as np
import pytest

import outvote as ov

TRUTH = 0.92 * (1 + 0.018 * 11) - 1.0


def users(rng, n, level, large):
    sessions = rng.poisson(3.0, size=n) + 1.0
    spent = level * rng.gamma(4.0, 0.25, size=n)
    spent[rng.random(n) < large] *= 12.0
    return np.column_stack([sessions, sessions * spent])


def delta_method(a, b):
    ratios = [x[:, 1].sum() / x[:, 0].sum() for x in (a, b)]
    parts = [np.var(x[:, 1] - r * x[:, 0]) / len(x) / x[:, 0].mean() ** 2 for x, r in zip((a, b), ratios, strict=True)]
    return ratios[1] - ratios[0], math.sqrt(sum(parts))


def test_capping_flips_the_sign_and_evidence_does_not():
    rng = np.random.default_rng(0)
    old, new = users(rng, 20_000, 1.0, 0.0), users(rng, 20_000, 0.92, 0.018)
    clean, error = delta_method(old, new)
    assert clean == pytest.approx(TRUTH, abs=4 * error)
    old[rng.choice(20_000, size=10, replace=False), 1] = rng.uniform(1_000, 4_000, size=10)
    most = np.quantile(np.concatenate([old[:, 1], new[:, 1]]), 0.99)
    capped, error = delta_method(*(np.column_stack([x[:, 0], np.minimum(x[:, 1], most)]) for x in (old, new)))
    assert capped < -3 * error  # sure of the wrong sign
    assert delta_method(old, new)[0] < 0
    found = ov.difference(old, new, contamination=10, ratio=True)
    assert 0 < found.interval.low < TRUTH < found.interval.high
