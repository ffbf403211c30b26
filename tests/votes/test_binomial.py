from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc, betaincinv, gammaln

import outvote as ov
from outvote.votes import binomial, log_binomial_tail, median_radius, p_star


@pytest.fixture
def unloaded(monkeypatch):
    """As in a process that has not loaded scipy.special yet."""
    monkeypatch.setattr(binomial, "sys", SimpleNamespace(modules={}))
    monkeypatch.setattr(binomial, "_n_terms", 0)
    monkeypatch.setattr(binomial, "_loaded", lambda: pytest.fail("scipy.special was asked for"))
    return monkeypatch


def tails(n_clean, log_delta):
    """N, and every m up to half of it or some of them, as the median asks for."""
    m = np.unique(np.linspace(1, (n_clean + 1) // 2, 40).astype(int)).astype(float)
    return np.full(m.shape, float(n_clean)), m, np.full(m.shape, log_delta)


@pytest.mark.parametrize("log_delta", [-1.4, math.log(0.05), -20.0, -199.0])
@pytest.mark.parametrize("n_clean", [1, 2, 3, 10, 333, 5000, 40_000])
def test_the_sum_is_the_beta_function_and_its_inverse(n_clean, log_delta, unloaded):
    n, m, log_d = tails(n_clean, log_delta)
    p = p_star(log_d, n, m)
    np.testing.assert_allclose(p, betaincinv(m, n - m + 1, math.exp(log_delta)), rtol=1e-10)
    np.testing.assert_allclose(log_binomial_tail(p, n, m), log_d, rtol=1e-9)  # radii are made larger by as much
    np.testing.assert_allclose(np.exp(log_binomial_tail(p / 2, n, m)), betainc(m, n - m + 1, p / 2), rtol=1e-9)
    np.testing.assert_allclose(binomial.log_choose(n, m), gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1))


@given(st.integers(1, 2000), st.data())
def test_the_sum_is_a_probability_that_grows(n, data):
    m = data.draw(st.integers(1, (n + 1) // 2))
    p = np.sort(data.draw(st.lists(st.floats(1e-9, m / (n + 1)), min_size=2, max_size=5)))
    log_first, beyond = binomial._terms(p, np.full(p.shape, float(n)), np.full(p.shape, float(m)))
    tail = np.exp(log_first) * (1 + beyond)
    assert np.all((tail >= 0) & (tail < 0.76))
    assert np.all(np.diff(tail) >= -1e-12 * tail[1:])
    np.testing.assert_allclose(tail, betainc(m, n - m + 1, p), rtol=1e-9, atol=1e-300)


def test_numbers_and_no_numbers(unloaded):
    assert float(p_star(math.log(0.05), 31, 11)) == pytest.approx(betaincinv(11, 21, 0.05), rel=1e-12)
    assert p_star(math.log(0.05), 31, 0) == 0
    assert p_star(np.full(0, -3.0), 31, 11).shape == (0,)
    assert log_binomial_tail(0.0, 31, 11) == -math.inf


def test_what_the_sum_cannot_do_is_left_to_scipy(monkeypatch):
    monkeypatch.setattr(binomial, "sys", SimpleNamespace(modules={}))
    for log_delta in (-0.1, -300.0):
        summed = p_star(log_delta, 31, 11)
        monkeypatch.undo()
        assert p_star(log_delta, 31, 11) == summed
        monkeypatch.setattr(binomial, "sys", SimpleNamespace(modules={}))
    assert float(np.exp(log_binomial_tail(0.5, 31, 11))) == betainc(11, 21, 0.5)


def test_scipy_is_loaded_once_it_pays(monkeypatch):
    asked = []
    monkeypatch.setattr(binomial, "sys", SimpleNamespace(modules={}))
    monkeypatch.setattr(binomial, "_n_terms", 0)
    monkeypatch.setattr(binomial, "_loaded", lambda: asked.append(1) or __import__("scipy.special").special)
    for _ in range(3):
        p_star(math.log(0.05), 1e6, 2e5)
    assert not asked
    p_star(math.log(0.05), np.full(1000, 1e6), 2e5)
    assert asked


def test_radii_are_the_same_before_and_after(unloaded):
    def found():
        return [
            median_radius(n_blocks, n_bad, 20, log_delta=math.log(0.05), assume=ov.FiniteVariance(1.0), **more)
            for n_blocks, n_bad in [(1, 0), (41, 10), (101, 20), (4001, 100)]
            for more in ({}, {"alternative": "less"}, {"adversary": "adaptive"})
        ]

    before = found()
    unloaded.undo()
    np.testing.assert_allclose(before, found(), rtol=1e-11)
