"""The search for the number of blocks with the smallest radius, against brute force."""

from __future__ import annotations

import math

import hypothesis
import numpy as np
import pytest
from assumptions import ASSUMPTIONS, UNIT
from hypothesis import given, settings
from hypothesis import strategies as st

from outvote import votes
from outvote.assumptions.assumption import Bounded, FiniteKurtosis
from outvote.votes import (
    best_n_blocks,
    grid_radius,
    huber_radius,
    log_binomial_tail,
    median_radius,
    sigma_free_factor,
    threshold,
)


@settings(max_examples=60)
@given(
    n=st.integers(1, 5000),
    share=st.floats(0, 0.499),
    log_delta=st.floats(-300, -0.1),
    degree=st.integers(1, 3),
    assume=st.sampled_from(ASSUMPTIONS),
    adversary=st.sampled_from(["oblivious", "adaptive"]),
    alternative=st.sampled_from(["two-sided", "less"]),
)
def test_search_matches_brute_force(n, share, log_delta, degree, assume, adversary, alternative):
    hypothesis.assume(n >= degree)
    most = n // degree
    n_bad = min(int(share * most), (most - 1) // 2)
    kwargs = {
        "log_delta": log_delta,
        "assume": assume,
        "degrees": (degree,),
        "adversary": adversary,
        "alternative": alternative,
    }
    every = np.arange(2 * n_bad + 1, most + 1, 2.0)
    radii = median_radius(every, n_bad, n // every, **kwargs)
    (k,) = best_n_blocks([n], [n_bad], **kwargs)
    assert k % 2 == 1
    assert float(median_radius(k, n_bad, n // k, **kwargs)) <= radii.min() * 1.001


@pytest.mark.parametrize("n", [20_000, 200_000])
@pytest.mark.parametrize("n_bad", [0, 7, 100, 2000])
@pytest.mark.parametrize("assume", ASSUMPTIONS, ids=repr)
def test_search_matches_brute_force_for_many_rows(n, n_bad, assume):
    every = np.arange(2 * n_bad + 1, min(n, 2 * n_bad + 12_001), 2.0)
    for log_delta in (math.log(0.05), math.log(1e-8)):
        radii = median_radius(every, n_bad, n // every, log_delta=log_delta, assume=assume)
        (k,) = best_n_blocks([n], [n_bad], log_delta=log_delta, assume=assume)
        best = median_radius(k, n_bad, n // k, log_delta=log_delta, assume=assume)
        assert float(best) <= radii.min() * 1.001


@pytest.mark.parametrize(("n_rows", "n_bad"), [((60, 90), (2, 5)), ((300, 40), (20, 0)), ((7, 9), (0, 0))])
@pytest.mark.parametrize("assume", [UNIT, Bounded(0, 1), FiniteKurtosis(9.0, sd=1.0)], ids=repr)
@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
def test_grid_search_matches_brute_force(n_rows, n_bad, assume, adversary):
    kwargs = {"log_delta": math.log(0.05), "assume": assume, "degrees": (1, 1), "adversary": adversary}
    mesh = np.meshgrid(*(np.arange(1.0, n + 1, 2) for n in n_rows), indexing="ij")
    radii = grid_radius(mesh, n_bad, tuple(n // k for n, k in zip(n_rows, mesh, strict=True)), **kwargs)
    ks = best_n_blocks(n_rows, n_bad, layout="full", **kwargs)
    sizes = tuple(n // k for n, k in zip(n_rows, ks, strict=True))
    assert all(k % 2 for k in ks)
    assert float(grid_radius(ks, n_bad, sizes, **kwargs)) <= radii.min() * 1.001


@settings(max_examples=40)
@given(
    n_rows=st.tuples(st.integers(2, 60), st.integers(2, 60)),
    shares=st.tuples(st.floats(0, 0.2), st.floats(0, 0.2)),
    log_delta=st.floats(-150, -0.3),
    degrees=st.sampled_from([(1, 1), (2, 1), (2, 2)]),
    assume=st.sampled_from([UNIT, Bounded(0, 1), Bounded(0, 1, variance=0.01), FiniteKurtosis(9.0, sd=1.0)]),
    alternative=st.sampled_from(["two-sided", "less"]),
)
def test_grid_search_tries_every_small_grid(n_rows, shares, log_delta, degrees, assume, alternative):
    most = [n // d for n, d in zip(n_rows, degrees, strict=True)]
    n_bad = [int(share * k) for share, k in zip(shares, most, strict=True)]
    kwargs = {"log_delta": log_delta, "assume": assume, "degrees": degrees, "alternative": alternative}
    mesh = np.meshgrid(*(np.arange(1.0, k + 1, 2) for k in most), indexing="ij")
    radii = grid_radius(mesh, n_bad, tuple(n // k for n, k in zip(n_rows, mesh, strict=True)), **kwargs)
    if not np.isfinite(radii).any():  # no clean majority of cells, or no room for one
        with pytest.raises(ValueError, match="n_corrupt"):
            best_n_blocks(n_rows, n_bad, layout="full", **kwargs)
        return
    ks = best_n_blocks(n_rows, n_bad, layout="full", **kwargs)
    sizes = tuple(n // k for n, k in zip(n_rows, ks, strict=True))
    assert float(grid_radius(ks, n_bad, sizes, **kwargs)) <= radii.min() * 1.005


def test_diagonal_search_matches_brute_force():
    n_rows, n_bad = (120, 500), (3, 8)
    kwargs = {"log_delta": math.log(0.05), "assume": UNIT, "degrees": (1, 2)}
    every = np.arange(23.0, 121, 2)
    radii = median_radius(every, 11, tuple(n // every for n in n_rows), **kwargs)
    ks = best_n_blocks(n_rows, n_bad, layout="diagonal", **kwargs)
    assert ks[0] == ks[1]
    best = median_radius(ks[0], 11, tuple(n // ks[0] for n in n_rows), **kwargs)
    assert float(best) <= radii.min() * 1.001


def test_search_of_three_samples():
    ks = best_n_blocks(
        (60, 80, 100), (1, 1, 1), layout="full", degrees=(1, 1, 1), log_delta=math.log(0.05), assume=UNIT
    )
    assert len(ks) == 3
    assert all(k % 2 for k in ks)


def test_sigma_free_search_matches_brute_force():
    n, n_bad = 3000, 10
    every = np.arange(21.0, n // 2, 2)
    factors, shares = sigma_free_factor(every, n_bad, n // every, log_delta=math.log(0.05), kurtosis=3.0)
    (k,) = best_n_blocks([n], [n_bad], log_delta=math.log(0.05), assume=FiniteKurtosis(3.0))
    factor, _ = sigma_free_factor(k, n_bad, n // k, log_delta=math.log(0.05), kurtosis=3.0)
    assert float(factor) <= factors.min() * 1.001
    assert set(np.unique(shares)) <= set(votes.scale.VARIANCE_SHARES)


def test_search_tries_at_most_150_candidates(monkeypatch):
    tried = []

    def counting(n_blocks, *args, **kwargs):
        tried.append(np.size(n_blocks))
        return median_radius(n_blocks, *args, **kwargs)

    monkeypatch.setattr(votes.search, "median_radius", counting)
    for n_rows in (10**6, 10**9):
        for n_bad in (0, n_rows // 1000, n_rows // 3):
            tried.clear()
            best_n_blocks([n_rows], [n_bad], log_delta=math.log(0.01), assume=UNIT)
            assert sum(tried) <= 150


@pytest.mark.parametrize("n_bad", [0, 1000, 10**8, 499_999_000])
def test_search_of_a_billion_rows_and_tiny_delta(n_bad):
    n, log_delta = 10**9, math.log(1e-300)
    (k,) = best_n_blocks([n], [n_bad], log_delta=log_delta, assume=UNIT)
    r = float(median_radius(k, n_bad, n // k, log_delta=log_delta, assume=UNIT))
    assert math.isfinite(r)
    n_clean, n_needed = threshold(k, n_bad)
    one_sided = 1 / (1 + r**2 * (n // k))
    # One side fails with probability δ at most; the other adds at most as much.
    assert float(log_binomial_tail(one_sided, n_clean, n_needed)) <= log_delta * (1 - 1e-9)
    assert float(log_binomial_tail(one_sided, n_clean, n_needed)) >= log_delta * (1 + 1e-2)


@settings(max_examples=50)
@given(n=st.integers(3, 10**6), count=st.integers(0, 50), log_delta=st.floats(-50, -0.1))
def test_more_rows_do_not_increase_the_best_radius(n, count, log_delta):
    hypothesis.assume(2 * count + 1 <= n)

    def best(rows):
        (k,) = best_n_blocks([rows], [count], log_delta=log_delta, assume=UNIT)
        return float(median_radius(k, count, rows // k, log_delta=log_delta, assume=UNIT))

    assert best(2 * n) <= best(n) * 1.001


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: best_n_blocks([10], [5], log_delta=-3.0, assume=UNIT),
            r"n_corrupt=\(5,\) asks for 11 blocks.*at most 10 blocks.*the largest n_corrupt here is 4",
        ),
        (lambda: best_n_blocks([1], [0], degrees=(2,), log_delta=-3.0, assume=UNIT), r"largest n_corrupt here is 0"),
        (
            lambda: best_n_blocks((20, 20), (5, 5), degrees=(1, 1), layout="diagonal", log_delta=-3.0, assume=UNIT),
            r"asks for 21 blocks",
        ),
        (
            lambda: best_n_blocks((20, 20), (7, 7), degrees=(1, 1), layout="full", log_delta=-3.0, assume=UNIT),
            r"can corrupt half the cells",
        ),
        (
            lambda: huber_radius(11, 5, huber_rates=[0.1], log_delta=-3.0, assume=UNIT, adversary="adaptive"),
            r"in Huber's model",
        ),
        (lambda: best_n_blocks([20], [9], log_delta=-3.0, assume=FiniteKurtosis(3.0)), r"no number of blocks"),
        (
            lambda: best_n_blocks([20], [1], degrees=(2,), log_delta=-3.0, assume=FiniteKurtosis(3.0)),
            r"works for means only",
        ),
    ],
)
def test_impossible_searches_raise(call, message):
    with pytest.raises(ValueError, match=message):
        call()
