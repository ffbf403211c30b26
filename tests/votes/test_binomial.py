"""Binomial tails and their inverse, summed term by term and by scipy."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import betainc, betaincinv, gammaln

from outvote.votes import binomial, log_binomial_tail, p_star


def without_scipy(patch):
    """Let the module do without scipy.special."""
    patch.setattr(binomial, "_loaded", lambda: pytest.fail("scipy.special was asked for"))


@pytest.fixture
def unloaded(monkeypatch):
    without_scipy(monkeypatch)
    return monkeypatch


def tails(n_clean, log_delta):
    """N, and every m up to half of it or some of them, as the median asks for."""
    m = np.unique(np.linspace(1, (n_clean + 1) // 2, 40).astype(int)).astype(float)
    return np.full(m.shape, float(n_clean)), m, np.full(m.shape, log_delta)


@pytest.mark.parametrize("log_delta", [-1.4, math.log(0.05), -20.0, -199.0])
@pytest.mark.parametrize("n_clean", [1, 2, 3, 10, 333, 5000, 40_000])
def test_summed_tails_and_their_inverse_equal_scipy(n_clean, log_delta, unloaded):
    unloaded.setattr(binomial, "_MOST_TERMS", 2**20)
    n, m, log_d = tails(n_clean, log_delta)
    p = p_star(log_d, n, m)
    np.testing.assert_allclose(p, betaincinv(m, n - m + 1, math.exp(log_delta)), rtol=1e-10)
    np.testing.assert_allclose(log_binomial_tail(p, n, m), log_d, rtol=1e-9)  # radii are made larger by as much
    np.testing.assert_allclose(np.exp(log_binomial_tail(p / 2, n, m)), betainc(m, n - m + 1, p / 2), rtol=1e-9)
    np.testing.assert_allclose(binomial.log_choose(n, m), gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1))


@given(st.integers(1, 2000), st.data())
def test_summed_tail_is_an_increasing_probability(n, data):
    m = data.draw(st.integers(1, (n + 1) // 2))
    p = np.sort(data.draw(st.lists(st.floats(1e-9, m / (n + 1)), min_size=2, max_size=5)))
    with pytest.MonkeyPatch.context() as patch:
        without_scipy(patch)
        tail = np.exp(log_binomial_tail(p, n, m))
    assert np.all((tail >= 0) & (tail < 0.76))
    assert np.all(np.diff(tail) >= -1e-12 * tail[1:])
    np.testing.assert_allclose(tail, betainc(m, n - m + 1, p), rtol=1e-9, atol=1e-300)


def test_scalars_and_empty_arrays(unloaded):
    assert float(p_star(math.log(0.05), 31, 11)) == pytest.approx(betaincinv(11, 21, 0.05), rel=1e-12)
    assert p_star(math.log(0.05), 31, 0) == 0
    assert p_star(np.full(0, -3.0), 31, 11).shape == (0,)
    assert log_binomial_tail(0.0, 31, 11) == -math.inf


def test_extreme_probabilities_are_left_to_scipy():
    for log_delta in (-0.1, -190.0):
        found = float(p_star(log_delta, 31, 11))
        assert found == pytest.approx(betaincinv(11, 21, math.exp(log_delta)), rel=1e-10)
    assert math.exp(log_binomial_tail(p_star(-300.0, 31, 11), 31, 11) + 300) == pytest.approx(1, rel=0.01)
    assert float(np.exp(log_binomial_tail(0.5, 31, 11))) == betainc(11, 21, 0.5)


def test_scipy_is_loaded_for_many_terms(monkeypatch):
    asked = []
    monkeypatch.setattr(binomial, "_loaded", lambda: asked.append(1) or __import__("scipy.special").special)
    for _ in range(99):  # what was asked before does not matter
        p_star(math.log(0.05), 1e5, 2e4)
    assert not asked
    p_star(math.log(0.05), np.full(1000, 1e6), 2e5)
    assert asked


RADII = """
import math, outvote as ov
from outvote.votes import median_radius
for n_blocks, n_bad in [(1, 0), (41, 10), (101, 20), (4001, 100)]:
    for more in ({}, {"alternative": "less"}, {"adversary": "adaptive"}):
        print(float(median_radius(n_blocks, n_bad, 20, log_delta=-3.0, assume=ov.FiniteVariance(1.0), **more)).hex())
print(ov.plan_blocks(10_000, 100, assume=ov.FiniteVariance(1.0)))
"""


def test_radii_have_the_same_bits_whatever_was_loaded_before():
    found = [
        subprocess.run([sys.executable, "-c", before + RADII], capture_output=True, text=True, check=True).stdout
        for before in ("", "import scipy.special, sklearn")
    ]
    assert found[0] == found[1]
    assert len(found[0].splitlines()) > 12


@given(
    n=st.integers(1, 3000),
    share=st.floats(0, 1),
    log_delta=st.floats(-180, -1e-3),
)
def test_p_star_inverts_the_binomial_tail(n, share, log_delta):
    m = max(1, math.ceil(share * n))
    p = float(p_star(log_delta, n, m))
    assert stats.binom.logsf(m - 1, n, p) == pytest.approx(log_delta, rel=1e-6, abs=1e-8)


@given(n=st.integers(1, 10**9), share=st.floats(0, 1), log_delta=st.floats(-5000, -150))
def test_p_star_of_tiny_delta(n, share, log_delta):
    """No reference works there: check against the first term of the tail, and that it decreases."""
    m = max(1, math.ceil(share * n))
    p, smaller = (float(p_star(ld, n, m)) for ld in (log_delta, log_delta - 1))
    assert 0 <= smaller <= p < 1
    if p > 1e-300 and n * share < 1e6:
        log_pmf = stats.binom.logpmf(m, n, p)
        assert log_pmf <= log_delta + 1e-5
        ratio = (n - m) * p / ((m + 1) * (1 - p))
        assert log_pmf - math.log1p(-ratio) >= log_delta - 1e-4 * (1 + abs(log_delta) * 1e-4)


def test_p_star_is_continuous_between_methods():
    for n, m in [(5, 2), (100, 1), (41, 21), (1000, 300), (10**6, 10**5), (10**9, 4 * 10**8)]:
        above, below = (float(p_star(binomial.DEEP + step, n, m)) for step in (1e-6, -1e-6))
        assert below <= above
        assert below == pytest.approx(above, rel=2e-3 / m + 1e-5)


def test_p_star_has_known_values():
    assert float(p_star(math.log(0.05), 1, 1)) == pytest.approx(0.05)
    assert float(p_star(math.log(1e-300), 5, 2)) == pytest.approx(math.sqrt(1e-300 / 10))
    assert float(p_star(math.log(1e-300), 10**9, 1)) == pytest.approx(1e-309, rel=1e-6)
    assert p_star(-1.0, [5, 5], [0, -3]).tolist() == [0.0, 0.0]
    assert p_star(math.log(0.01), [3, 30], [2, 15]).shape == (2,)
    assert p_star(np.array([-1.0, -300.0]), 30, 15)[1] < 1e-8


@pytest.mark.parametrize(("n", "m"), [(5, 2), (400, 100), (3000, 1500)])
def test_log_binomial_tail_equals_scipy(n, m):
    p = np.geomspace(1e-200, m / n, 50)
    ours = log_binomial_tail(p, n, m)
    first_term = stats.binom.logpmf(m, n, p)
    reference = np.where(first_term > -600, stats.binom.logsf(m - 1, n, p), first_term)
    assert ours == pytest.approx(reference, rel=1e-4, abs=1e-9)
    assert log_binomial_tail(0.0, n, m) == -np.inf
