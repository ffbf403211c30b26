"""Tails, excesses and variances that each assumption promises, against exact laws."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import outvote as ov
from outvote.assumptions.assumption import Bounded, FiniteKurtosis, FiniteVariance, SubGaussian

ASSUMPTIONS = [
    FiniteVariance(1.3),
    SubGaussian(0.7),
    Bounded(-1, 2),
    Bounded(0, 1, variance=0.01),
    FiniteKurtosis(4.0, sd=2.0),
]
P = np.geomspace(1e-12, 0.99, 60)


@pytest.mark.parametrize("assume", ASSUMPTIONS, ids=repr)
def test_tails_are_at_most_those_of_finite_variance_and_can_be_inverted(assume):
    for size, degrees in ((1, (1,)), (50, (2,)), ((7, 40), (2, 3))):
        tail = assume.tail(size, degrees)
        assert np.all(tail.one(P) <= tail.sd * np.sqrt(1 / P - 1) * (1 + 1e-12))
        assert np.all(tail.two(P) <= tail.sd / np.sqrt(P) * (1 + 1e-12))
        assert np.all(np.diff(tail.one(P)) <= 0)
        assert np.all(tail.one(P) <= tail.two(P))
        assert tail.variance_only == isinstance(assume, FiniteVariance)
    for size in (3, 400):
        tail, p = assume.tail(size), P[P < 0.4]
        assert tail.tail_probability(tail.one(p)) == pytest.approx(p, rel=1e-6)
        assert tail.tail_probability(tail.two(p), sides=2) == pytest.approx(p, rel=1e-6)
        assert np.all(tail.tail_probability([0.0, 1e-9], sides=2) == 1)
        assert np.all(tail.tail_probability(0.0) <= 1)
    for factor in (-1e3, -0.1, 7.0, 1e120, -1e-120):
        assert assume.scaled(factor).tail(20).two(P) == pytest.approx(abs(factor) * assume.tail(20).two(P), rel=1e-9)


def test_probabilities_broadcast_against_block_sizes():
    tail = FiniteKurtosis(3.0, sd=1.0).tail(np.array([10, 100, 1000]))
    assert tail.one(np.array([[0.1], [0.01]])).shape == (2, 3)
    assert tail.one(0.0).tolist() == [math.inf] * 3
    assert tail.one(1.0).tolist() == [0.0] * 3


def test_tails_have_known_values():
    assert float(FiniteVariance(3.0).tail(9).one(0.1)) == pytest.approx(3.0)
    assert float(SubGaussian(2.0).tail(100).one(1e-6)) == pytest.approx(0.2 * math.sqrt(2 * math.log(1e6)))
    assert float(Bounded(0, 3).tail(100).two(1e-6)) == pytest.approx(3 * math.sqrt(math.log(2e6) / 200))
    assert float(Bounded(0, 3).tail(101, (2,)).one(1e-6)) == pytest.approx(3 * math.sqrt(math.log(1e6) / 100))
    log_term, n = math.log(1e6), 400
    c = log_term / (3 * n)
    bernstein = c + math.sqrt(c**2 + 2 * 0.001 * log_term / n)
    assert float(Bounded(0, 1, variance=0.001).tail(n).one(1e-6)) == pytest.approx(bernstein)
    near_normal = stats.norm.isf(0.2 - 0.4748 * math.sqrt(3 / 1000)) / math.sqrt(1000)
    assert float(FiniteKurtosis(3.0, sd=1.0).tail(1000).one(0.2)) == pytest.approx(near_normal)
    fourth = ((5 + 3 * 49) / 50**3 / 1e-8) ** 0.25
    assert float(FiniteKurtosis(5.0, sd=1.0).tail(50).two(1e-8)) == pytest.approx(fourth)


def true_of_bernoulli(sd):
    """Return assumptions that hold for Bernoulli rows of this sd."""
    return (
        FiniteVariance(sd),
        SubGaussian(0.5),
        Bounded(0, 1),
        Bounded(0, 1, variance=sd**2),
        FiniteKurtosis(1 / sd**2 - 3, sd=sd),
    )


def binomial_blocks():
    """Means of Bernoulli rows, and assumptions that hold for them."""
    for q, size in itertools.product([0.02, 0.3, 0.5], [1, 5, 300]):
        for assume in true_of_bernoulli(math.sqrt(q * (1 - q))):
            yield q, size, assume


def test_tails_bound_exact_binomial_blocks():
    for q, size, assume in binomial_blocks():
        law, tail = stats.binom(size, q), assume.tail(size)
        deviation = np.arange(size + 1) / size - q
        t = deviation[deviation > 0] * (1 - 1e-9)
        at_least = law.sf(np.flatnonzero(deviation > 0) - 1)
        assert np.all(at_least <= tail.tail_probability(t) * (1 + 1e-9)), (q, size, assume)
        both = at_least + law.cdf(np.floor((q - t) * size))
        assert np.all(both <= tail.tail_probability(t, sides=2) * (1 + 1e-9)), (q, size, assume)


def test_kurtosis_tail_is_near_normal_for_large_blocks():
    tail = FiniteKurtosis(3.0, sd=1.0).tail(10**8)
    assert float(tail.one(0.05)) == pytest.approx(1.6449e-4, rel=1e-3)


EXCESS_AT = np.concatenate([-np.geomspace(5, 0.01, 12), [0.0], np.geomspace(0.01, 8, 40)])


def exact_excess(values, weights, u):
    """E(X - u)₊ and E(-X - u)₊ for a law on a few values, whichever is larger."""
    x = np.asarray(values) - np.dot(values, weights)
    return max(np.dot(np.maximum(x - u, 0), weights), np.dot(np.maximum(-x - u, 0), weights))


def test_excess_of_two_point_laws_attains_the_finite_variance_bound():
    for u in EXCESS_AT:
        high = u + math.hypot(u, 1.0)  # the law for which the bound is an equality
        p = 1 / (1 + high**2)
        exact = exact_excess([high, -1 / high], [p, 1 - p], u)
        assert float(FiniteVariance(1.0).tail(1).excess(u)) == pytest.approx(exact, rel=1e-9)
    for ratio in np.geomspace(0.01, 100, 41):
        p = 1 / (1 + ratio**2)
        for assume in (FiniteVariance(1.0), FiniteKurtosis(ratio**2 + ratio**-2 - 1, sd=1.0)):
            bounds = assume.tail(1).excess(EXCESS_AT)
            exact = [exact_excess([ratio, -1 / ratio], [p, 1 - p], u) for u in EXCESS_AT]
            assert np.all(exact <= bounds * (1 + 1e-9) + 1e-12), (ratio, assume)


def test_excess_of_bounded_values_attains_the_bound():
    for u in np.linspace(0, 1, 21):
        above = (1 + u) / 2
        exact = exact_excess([0.0, 1.0], [above, 1 - above], u)
        assert float(Bounded(0, 1).tail(1).excess(u)) <= exact * (1 + 1e-12) + 1e-15
        assert exact <= float(Bounded(0, 1).tail(1).excess(u)) * (1 + 1e-12)
    assert np.all(Bounded(0, 1).tail([1, 9]).excess([[1.0], [7.0]]) == 0)


def test_excess_bounds_normal_laws():
    u = EXCESS_AT
    normal = stats.norm.pdf(u) - u * stats.norm.sf(u)
    for assume in (SubGaussian(1.0), FiniteVariance(1.0), FiniteKurtosis(3.0, sd=1.0)):
        for size in (1, 7):
            assert np.all(normal <= assume.tail(size).excess(u / math.sqrt(size)) * math.sqrt(size) * (1 + 1e-12))
    positive = u[u >= 0]
    integral = math.sqrt(2 * math.pi) * stats.norm.sf(positive)
    assert np.all(SubGaussian(1.0).tail(1).excess(positive) <= 0.49 * integral)


def test_excess_bounds_uniform_laws():
    u = EXCESS_AT
    uniform = np.where(u > 1, 0.0, np.where(u < -1, -u, (1 - u) ** 2 / 4))
    sd = 1 / math.sqrt(3)
    for assume in (Bounded(-1, 1), Bounded(-1, 1, variance=1 / 3), SubGaussian(sd), FiniteKurtosis(1.8, sd=sd)):
        assert np.all(uniform <= assume.tail(1).excess(u) * (1 + 1e-12)), assume


def test_excess_bounds_exact_binomial_blocks():
    for q, size, assume in binomial_blocks():
        means, weights = np.arange(size + 1) / size, stats.binom.pmf(np.arange(size + 1), size, q)
        at = EXCESS_AT * math.sqrt(q * (1 - q) / size)
        exact = np.array([exact_excess(means, weights, u) for u in at])
        assert np.all(exact <= assume.tail(size).excess(at) * (1 + 1e-9) + 1e-14), (q, size, assume)


@pytest.mark.parametrize("assume", ASSUMPTIONS, ids=repr)
def test_excess_is_monotone_and_broadcasts(assume):
    tail = assume.tail(np.array([1, 10, 100]))
    u = np.linspace(-4, 4, 401)[:, None]
    bound = tail.excess(u)
    assert bound.shape == (401, 3)
    assert np.all(np.diff(bound, axis=0) <= 1e-15)
    assert np.all(np.diff(bound + u, axis=0) >= -1e-12)
    assert np.all(np.diff(bound, axis=1) <= 1e-15)
    assert bound[:, 1] == pytest.approx(assume.tail(10).excess(u[:, 0]))
    assert float(tail.excess(1e300).max()) <= 1e-300


def exact_variance(values: np.ndarray, size: int, degree: int, kernel) -> float:
    """Variance of a U-statistic over every sample of `size` rows, drawn from a few equally likely values."""
    draws = np.array(list(itertools.product(values, repeat=size)))
    tuples = list(itertools.combinations(range(size), degree))
    return float(np.var(np.mean([kernel(*draws[:, list(t)].T) for t in tuples], axis=0)))


def test_variance_of_pairs_and_triples_is_exact():
    values = np.array([0.0, 1.0, 5.0])

    def half_square(a, b):
        return (a - b) ** 2 / 2

    def mixed(a, b, c):
        return a * b * c + a + b + c

    pairs = half_square(values[:, None], values)
    cube = mixed(values[:, None, None], values[:, None], values)
    cases = [
        (half_square, (np.var(pairs.mean(axis=1)), np.var(pairs)), (2, 3, 5)),
        (mixed, (np.var(cube.mean(axis=(1, 2))), np.var(cube.mean(axis=2)), np.var(cube)), (3, 5)),
    ]
    for kernel, zetas, sizes in cases:
        degree, sd = len(zetas), math.sqrt(zetas[-1])
        for size in sizes:
            truth = exact_variance(values, size, degree, kernel)
            assert float(FiniteVariance(sd, zetas=zetas).tail(size, (degree,)).sd) ** 2 == pytest.approx(truth)
            assert truth <= float(FiniteVariance(sd).tail(size, (degree,)).sd) ** 2 * (1 + 1e-12)


def test_variance_of_two_samples_is_exact():
    x, y = np.array([0.0, 1.0, 4.0]), np.array([-1.0, 3.0])
    table = (1 + x)[:, None] * y[None, :]
    zetas = {(1, 0): np.var(table.mean(axis=1)), (0, 1): np.var(table.mean(axis=0)), (1, 1): np.var(table)}
    sizes = (3, 4)
    means = [
        (1 + np.mean(a)) * np.mean(b)
        for a in itertools.product(x, repeat=sizes[0])
        for b in itertools.product(y, repeat=sizes[1])
    ]
    assume = FiniteVariance(math.sqrt(zetas[1, 1]), zetas=zetas)
    assert float(assume.tail(sizes, (1, 1)).sd) ** 2 == pytest.approx(np.var(means))
    assert np.var(means) <= zetas[1, 1] / 3
    doubled = assume.scaled(2.0)
    assert float(doubled.tail(sizes, (1, 1)).sd) == pytest.approx(2 * float(assume.tail(sizes, (1, 1)).sd))
    assert hash(assume) != hash(doubled)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FiniteVariance(0.0), r"sd=0.0 must be positive and finite"),
        (lambda: FiniteVariance(-1), r"sd=-1"),
        (lambda: FiniteVariance(math.inf), r"sd=inf"),
        (lambda: FiniteVariance(math.nan), r"sd=nan"),
        (lambda: FiniteVariance(1.0, zetas=()), r"zetas=\(\)"),
        (lambda: FiniteVariance(1.0, zetas=(-1.0, 1.0)), r"zetas=.*non-negative"),
        (lambda: FiniteVariance(1.0, zetas=(0.0, 0.0)), r"not all zero"),
        (lambda: FiniteVariance(1.0, zetas=(1.0, 4.0)), r"sd=2.0 is the smallest that works"),
        (lambda: FiniteVariance(1.0).scaled(0.0), r"factor=0.0"),
        (lambda: SubGaussian(0.0), r"scale=0.0"),
        (lambda: Bounded(1, 1), r"low=1.0, high=1.0"),
        (lambda: Bounded(0, math.inf), r"finite"),
        (lambda: Bounded(0, 1, variance=0.26), r"variance=0.26 is impossible in \[0.0, 1.0\].*0.25"),
        (lambda: Bounded(0, 1, variance=0.0), r"variance=0.0"),
        (lambda: FiniteKurtosis(0.5), r"kurtosis=0.5 is impossible"),
        (lambda: FiniteKurtosis(3.0, sd=0.0), r"sd=0.0"),
        (lambda: FiniteKurtosis(3.0).tail(10), r"has no sd"),
        (lambda: FiniteVariance(1.0).tail(1, (2,)), r"block_size=1 is too small.*at least 2 rows"),
        (lambda: FiniteVariance(1.0).tail(5, (0,)), r"degrees=\(0,\)"),
        (lambda: FiniteVariance(1.0).tail(5, (1, 1)), r"give a tuple of 2 sizes"),
        (lambda: FiniteVariance(1.0).tail([]), r"block_size=\[\]"),
        (lambda: FiniteVariance(1.0, zetas=(1.0,)).tail(5, (2,)), r"do not fit degrees=\(2,\)"),
        (lambda: FiniteVariance(1.0, zetas={(1, 1): 1.0}).tail((5, 5), (1, 1)), r"one ζ for each"),
    ],
)
def test_impossible_assumptions_raise(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_non_numeric_parameters_raise():
    for value in ("1", True, None, [1.0], 1j):
        with pytest.raises(TypeError, match="sd="):
            FiniteVariance(value)
        with pytest.raises(TypeError, match="low="):
            Bounded(value, 0)


def test_descriptions():
    assert FiniteVariance(1.0).describe() == "sd ≤ 1"
    assert SubGaussian(2.0).describe() == "sub-Gaussian scale ≤ 2"
    assert Bounded(0, 1).describe() == "values in [0, 1]"
    assert Bounded(0, 1, variance=0.1).describe() == "values in [0, 1] and variance ≤ 0.1"
    assert FiniteKurtosis(3.0).describe() == "kurtosis ≤ 3"
    assert FiniteKurtosis(3.0, sd=2.0).describe() == "kurtosis ≤ 3 and sd ≤ 2"
    assert FiniteKurtosis(3.0).scaled(2.0) == FiniteKurtosis(3.0)
    assert Bounded(0, 2, variance=1.0).scaled(-2.0) == Bounded(-4, 0, variance=4.0)


def test_numbers_of_every_kind_become_floats():
    for kind in (np.int8, np.uint8, np.float16, np.float32, Fraction):
        assert Bounded(kind(0), kind(100), variance=kind(3)) == Bounded(0, 100, variance=3)
        assert all(type(value) is float for value in vars(Bounded(kind(0), kind(100), kind(3))).values())
        assert type(FiniteVariance(kind(3)).sd) is float


def test_bounds_of_small_integers_do_not_overflow():
    rows = np.arange(-100, 101).astype(np.int8)
    known = ov.Bounded(rows.min(), rows.max())
    assert known.width == 200
    found = ov.mean(rows, assume=known).interval
    assert found == ov.mean(rows, assume=ov.Bounded(-100, 100)).interval
    assert found.low < 0 < found.high


def test_scales_at_the_ends_of_floats_and_zetas_of_another_kind_are_refused():
    for make in (
        lambda: Bounded(0, 10**400),
        lambda: FiniteVariance(10**400),
        lambda: Bounded(-1.7e308, 1.7e308),
        lambda: FiniteKurtosis(10**400),
        lambda: FiniteKurtosis(3.0, sd=1e308),
        lambda: FiniteVariance(5e-324),
        lambda: SubGaussian(1e301),
        lambda: Bounded(0, 1e-310),
    ):
        with pytest.raises(ValueError, match=r"too large for a float|must lie between 1e-300 and 1e\+300"):
            make()
    for zetas in (5, "ab", {1: 2.0}, {("a",): 1.0}, (None,)):
        with pytest.raises(TypeError, match="zetas"):
            FiniteVariance(2.0, zetas=zetas)


def test_squares_of_large_scales_do_not_overflow():
    assert FiniteVariance(1e150, zetas=(1.0, 2.0)).zetas == (1.0, 2.0)
    assert Bounded(0, 1e150, variance=1.0).variance == 1.0
    with pytest.raises(TypeError, match="block_size='ten' must be numbers of rows"):
        FiniteVariance(1.0).tail("ten")
