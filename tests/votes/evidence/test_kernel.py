"""The kernel against a dozen lines of plain Python: every way to drop rows, every mean, rows and bins."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outvote.votes.evidence import Grid
from outvote.votes.evidence.kernel import Atoms, Excess, Factors, ends, exponential, log_products, quartic

numbers = st.floats(-30, 30) | st.sampled_from([0.0, 1.0, 1.0, -7.5, 14.0, 1e6, -1e300])
rows_of = st.lists(numbers, min_size=1, max_size=7).map(lambda x: np.sort(np.array(x)))
#: λτ, τ, the scale, and what is known of the rows.
bets = st.one_of(
    st.tuples(st.floats(0.02, 1.9), st.floats(0.3, 20.0), st.floats(0.3, 3.0)),
    st.tuples(st.floats(0.4, 1.25), st.floats(0.3, 20.0), st.floats(0.3, 3.0), st.just("kurtosis")),
    st.tuples(st.floats(0.02, 0.95), st.floats(0.5, 6.0), st.floats(0.3, 3.0), st.just("sub-Gaussian")),
).map(lambda bet: (bet[0] / bet[1], *bet[1:]))


def log_factor(x, mean, rate, depth, sd, known="sd"):
    """The logarithm of 1 + λh(y), less that of what it is on average at most."""
    y = x - mean
    if known == "kurtosis":
        most = math.log1p(rate * sd / 4 / depth**3)
        if abs(y) > 1e70:
            return 4 * math.log(abs(y)) + math.log(rate / 4 / depth**3) - most
        return math.log1p(rate * (y + y**4 / 4 / depth**3)) - most
    if known == "sub-Gaussian":
        a = depth / sd**2
        most = math.log1p(rate * math.exp(-depth * depth / 2 / sd**2) / a)
        if -a * (y + depth) > 600:
            return math.log(rate / a) - a * (y + depth) - most
        return math.log1p(rate * (y + math.exp(-a * (y + depth)) / a)) - most
    if abs(y) > 1e150:
        return 2 * math.log(abs(y)) + math.log(rate / 2 / depth) - math.log1p(rate * sd * sd / 2 / depth)
    return math.log1p(rate * (y + y * y / (2 * depth))) - math.log1p(rate * sd * sd / 2 / depth)


def brute_force(x, mean, bet, k):
    """The least sum of logarithms that is left when up to k rows are dropped."""
    logs = [log_factor(one, mean, *bet) for one in x]
    ways = itertools.chain.from_iterable(itertools.combinations(logs, len(logs) - j) for j in range(min(k, len(x)) + 1))
    return min(math.fsum(way) for way in ways)


def product_of(atoms, bet, lo, hi, side=0):
    rate, depth, scale, known = (*bet, "sd")[:4]
    if known == "sd":
        factors = Factors.variance(*(np.full((1, 1, 2), one) for one in (rate, depth, scale, 1.0)))
    else:
        kind = {"kurtosis": Factors.kurtosis, "sub-Gaussian": Factors.sub_gaussian}[known]
        factors = kind(rate, depth, scale, 1.0).each(lambda one: np.tile(one, 2))
    lo, hi = (None if end is None else np.array([end, end]) for end in (lo, hi))
    return float(log_products(atoms, factors, lo if lo is None or lo[0] != hi[0] else hi, hi)[0, 0, side])


@settings(deadline=None, max_examples=300)
@given(x=rows_of, bet=bets, mean=st.floats(-20, 20), k=st.integers(0, 7))
def test_a_product_without_the_k_largest_is_that_of_all_ways_to_drop_rows(x, bet, mean, k):
    atoms = Atoms.of_rows(x[None], len(x), k)
    for side, sign in ((0, 1), (1, -1)):
        found, exact = (
            product_of(atoms, bet, sign * mean, sign * mean, side),
            brute_force(sign * x, sign * mean, bet, k),
        )
        if k >= len(x):
            assert found <= 1e-12
        elif exact < 500:
            assert found == pytest.approx(exact, rel=1e-9, abs=1e-9)
        else:  # rows so far out count as somewhat nearer
            assert 500 <= found <= exact


@settings(deadline=None, max_examples=200)
@given(x=rows_of, bet=bets, mean=st.floats(-20, 20), width=st.floats(0, 9), k=st.integers(0, 5))
def test_it_is_least_over_a_cell_of_means(x, bet, mean, width, k):
    atoms = Atoms.of_rows(x[None], len(x), k)
    found = product_of(atoms, bet, mean, mean + width)
    below = product_of(atoms, bet, None, mean + width)
    for one in np.linspace(mean, mean + width, 9):
        exact = brute_force(x, one, bet, k)
        assert found <= exact + 1e-9 * (1 + abs(exact))
    assert below <= found + 1e-9 * (1 + abs(found))


@settings(deadline=None, max_examples=200)
@given(
    x=rows_of, bet=bets, mean=st.floats(-20, 20), width=st.floats(0, 5), k=st.integers(0, 6), power=st.integers(-3, 9)
)
def test_bins_say_no_more_than_their_rows(x, bet, mean, width, k, power):
    grid = Grid(0.5, 2.0**power)
    bins = grid.bins(grid.tallies(x))
    atoms = Atoms.of_bins([bins], k)
    assert atoms.n.tolist() == [len(x)] * 2
    for lo in (mean, None):
        found = product_of(atoms, bet, lo, mean + width)
        for one in np.linspace(mean, mean + width, 5):
            exact = brute_force(x, one, bet, k)
            assert found <= exact + 1e-6 * (1 + abs(exact))


@pytest.mark.parametrize("adaptive", [False, True])
def test_everything_below_an_end_is_ruled_out_and_little_more(adaptive):
    rng = np.random.default_rng(0)
    for x, k in ((rng.normal(size=60), 3), (np.r_[np.full(3, 14.11), np.full(3, 7.06), np.zeros(30)], 4)):
        x, price = np.sort(x), math.log(40)
        rates, depths, weights = ((0.3, 0.2), (5.0, 1.5), (0.7, 0.3))
        parts = (np.array(one)[:, None, None] for one in (rates, depths, (1.0, 1.0), weights))
        factors = Factors.variance(*(np.broadcast_to(one, (2, 1, 2)) for one in parts))
        atoms = Atoms.of_rows(x[None], len(x), k, k if adaptive else 0)
        found, _ = ends(Excess([atoms], [factors], np.full(2, price)))
        for side, end in zip((x, -x[::-1]), found, strict=True):
            for gap in np.r_[-1e-3, 1e-9, np.geomspace(1e-4, 300, 40)]:
                logs = []
                for rate, depth, weight in zip(rates, depths, weights, strict=True):
                    paid = k * (math.log1p(-rate * depth / 2) - math.log1p(rate / 2 / depth)) if adaptive else 0.0
                    logs.append(math.log(weight) + brute(side, end - gap, (rate, depth, 1.0), k) + paid)
                found_there = np.logaddexp(*logs)
                assert found_there >= price if gap > 0 else found_there < price + 0.05


def brute(x, mean, bet, k):
    """The same as `brute_force`, by order: the k largest logarithms go as far as they are positive."""
    logs = sorted(log_factor(one, mean, *bet) for one in x)
    return math.fsum(logs[: len(logs) - k]) + math.fsum(min(one, 0.0) for one in logs[len(logs) - k :] if k)


def test_sets_do_not_depend_on_those_beside_them():
    rng = np.random.default_rng(1)
    lines = [np.sort(rng.standard_t(2, size=n)) for n in (5, 40, 40, 97, 200)]
    table = np.zeros((5, 200))
    for row, line in zip(table, lines, strict=True):
        row[: len(line)] = line

    def found(which):
        sizes = np.array([len(lines[i]) for i in which])
        atoms = Atoms.of_rows(table[which][:, : sizes.max()], sizes, sizes // 20)
        rate, depth = 1.4 / np.sqrt(np.tile(sizes, 2)), 0.6 * np.sqrt(np.tile(sizes, 2))
        factors = Factors.variance(*(np.broadcast_to(one, (1, 1, 2 * len(which))) for one in (rate, depth, 2.0, 1.0)))
        return ends(Excess([atoms], [factors], np.full(2 * len(which), 3.7)))[0].reshape(2, -1)

    together = found(list(range(5)))
    for i in range(5):
        np.testing.assert_allclose(found([i])[:, 0], together[:, i], rtol=1e-9)
    np.testing.assert_allclose(found([4, 2])[:, 1], together[:, 2], rtol=1e-9)


def test_rows_whose_place_is_not_known_rule_nothing_out_from_within():
    grid = Grid(0.0, 1.0)
    x = np.r_[np.arange(40.0), 1e300]
    atoms = Atoms.of_bins([grid.bins(grid.tallies(x))], 0)
    bet = (0.02, 20.0, 5.0)
    assert product_of(atoms, bet, 1e300, 1e300) == -math.inf
    assert product_of(atoms, bet, 0.0, 1.0) > 0  # it lies above for certain


def test_rows_beyond_the_first_bin_are_not_taken_to_be_at_its_end():
    """In the form that is constant left of the valley, too: there these rows may pay the least of all."""
    x = np.repeat([-1e12, 0.0], 50)
    grid = Grid(0.0, 1.0)
    bet = (1e-12, 5e11, 1e10)
    exact = product_of(Atoms.of_rows(x[None], 100, 0), bet, None, 0.0)
    assert product_of(Atoms.of_bins([grid.bins(grid.tallies(x))], 0), bet, None, 0.0) <= exact


@pytest.mark.parametrize(
    ("kind", "values"), [(quartic, (0.5, 1.8, 4.5, 12.0)), (exponential, (1e-5, 0.006, 0.1, 1.0, 20.0))]
)
def test_bounds_of_shapes_are_bounds(kind, values):
    s = np.linspace(-70, 80, 300_001)
    for c in values:
        shape = kind(c)
        logs = np.log1p(shape.q(s))
        second = shape.second(s, np.exp(-logs))
        first, third = np.gradient(logs, s), np.gradient(second, s)
        assert np.allclose(np.gradient(first, s)[2:-2], second[2:-2], atol=2e-3 * max(c, 1.0) ** 2)
        assert np.abs(first).max() <= shape.steep
        assert -shape.bend <= second.min()
        assert second.max() <= shape.peak
        assert np.abs(third).max() <= shape.third
        curved = s[second > 1e-12]
        assert shape.hollow[0] <= curved.min()
        assert curved.max() <= shape.hollow[1]
        assert (second[np.abs(s) <= 3 * shape.bend / shape.third] > 0).all()
        bend, of_third, peak = shape.right
        right = s >= 0
        assert -bend <= second[right].min()
        assert second[right].max() <= peak
        assert np.abs(third[s > 1e-3]).max() <= of_third
