"""The paper's mappings, constants and numbers of blocks, in exact arithmetic."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from outvote import paper
from outvote.paper import block_count, constants

NAMES = tuple(paper.MAPPINGS)
EPSILONS = np.linspace(0.001, 0.499, 83)


def generic(a, e):
    """The same from alpha alone, as the paper defines them."""
    g = a - 2 * e
    return (
        a,
        2 * a / g,
        np.sqrt(a) * (a - e) / g**1.5,
        np.sqrt(a / g),
        np.sqrt(a / e),
        (a - e) / a,
    )


def values(c):
    return tuple(getattr(c, k) for k in ("alpha", "beta", "gamma", "Gamma", "Delta", "eta"))


# --- constants ---


@pytest.mark.parametrize("name", NAMES)
def test_constants_match_the_definitions(name):
    """The mappings themselves are compared with exact numbers of blocks below."""
    c = constants(EPSILONS, name)
    np.testing.assert_allclose(values(c), generic(paper.MAPPINGS[name](EPSILONS), EPSILONS), rtol=1e-9)
    np.testing.assert_allclose(values(constants(EPSILONS, paper.MAPPINGS[name])), values(c), rtol=1e-9)
    s = len(EPSILONS) * (1 - c.alpha) * (c.alpha - 2 * EPSILONS) / (2 * c.alpha)
    np.testing.assert_allclose(paper.range_size(EPSILONS, len(EPSILONS), name), s, rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("arithmetic", (0.5, 2, 1, 1, math.inf, 1)),
        ("geometric", (0, 2, 1, 1, math.inf, 1)),
        ("harmonic", (0, 4, 3 / math.sqrt(2), math.sqrt(2), 2, 3 / 4)),
        ("polynomial", (0, 10, 3 * math.sqrt(5), math.sqrt(5), math.sqrt(5 / 2), 3 / 5)),
    ],
)
def test_constants_at_zero_contamination(name, limits):
    assert values(constants(0, name)) == pytest.approx(limits)
    near = values(constants(1e-14, name))
    assert near[1:4] == pytest.approx(limits[1:4], rel=1e-5)
    own = constants(0.0, paper.MAPPINGS[name])
    assert values(own)[1:4] == pytest.approx(limits[1:4], rel=1e-5)


def test_shapes_and_types_of_constants():
    c = constants(np.full((2, 3), 0.1))
    assert c.gamma.shape == (2, 3)
    assert isinstance(constants(Fraction(1, 10)).gamma, float)
    assert constants(Fraction(1, 10)).gamma == pytest.approx(c.gamma[0, 0])
    assert constants(0.2, lambda e: 0.9).alpha == 0.9
    assert paper.alpha("geometric", Fraction(1, 8)) == 0.5
    assert paper.alpha(np.sqrt, Fraction(1, 16)) == 0.25
    assert paper.alpha("polynomial", Fraction(1, 10)) == Fraction(6, 25)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: paper.alpha("harmonique", 0.1), "'harmonic'"),
        (lambda: paper.alpha(3, 0.1), "or a callable"),
        (lambda: constants(0.5), r"epsilon=0\.5 must lie in \[0, 0\.5\)"),
        (lambda: constants(math.nan), "epsilon=nan"),
        (lambda: constants([0.1, -0.1]), "epsilon=-0.1"),
        (lambda: constants(0.1, lambda e: 0.2), "strictly between"),
        (lambda: constants(0.1, lambda e: 1.0), "strictly between"),
        (lambda: constants(0.0, lambda e: -0.1), "strictly between"),
        (lambda: constants(0.0, lambda e: 2 * e * (1 + e)), "no limit below 1/2"),
        (lambda: constants(0.0, lambda e: e * (5 if e < 1e-10 else 3)), "no limit below 1/2"),
    ],
)
def test_invalid_mappings_raise(call, words):
    with pytest.raises(ValueError, match=words):
        call()


# --- numbers of blocks ---


def exact_count(name, n, bad):
    if bad == 0 and name != "arithmetic":
        return 1
    if name == "harmonic":
        return -(-4 * bad * n // (n + 2 * bad))
    if name == "arithmetic":
        return -(-(n + 2 * bad) // 2)
    if name == "geometric":
        return math.isqrt(2 * bad * n - 1) + 1
    return math.ceil(Fraction(bad, n) * (Fraction(5, 2) - Fraction(bad, n)) * n)


def test_block_counts_are_exact():
    wrong = 0
    for name in NAMES:
        for n in range(1, 200):
            for bad in range((n - 1) // 2 + 1):
                count = exact_count(name, n, bad)
                wrong += bad > 0 and math.ceil(paper.MAPPINGS[name](bad / n) * n) != count
                if n < 60 or (n + bad) % 23 == 0:
                    assert block_count(n, bad, mapping=name) == (count,), (name, n, bad)
                    assert 2 * bad < count <= n
    assert wrong > 200


def test_block_counts_of_user_mappings():
    assert block_count(132, 12, mapping=lambda e: 4 * e / (1 + 2 * e)) == (41,)
    assert block_count(132, 12, mapping=lambda e: 4 * float(e) / (1 + 2 * float(e))) == (41,)
    assert block_count(100, 0, mapping=lambda e: e + Fraction(1, 2)) == (50,)
    assert block_count(50, 0, mapping=lambda e: e / 2 + 0.001) == (1,)
    assert block_count(100, 2, mapping=lambda e: 2 * e**0.5, layout="full") == (29,)


@pytest.mark.parametrize("name", NAMES)
def test_block_counts_on_the_grid_are_the_smallest(name):
    for sizes, bad in [((100, 80), (5, 2)), ((30, 40, 50), (1, 2, 3)), ((97,), (9,)), ((50, 50), (0, 0))]:
        p = len(sizes)
        e = 1 - math.prod(1 - Fraction(k, n) for k, n in zip(bad, sizes, strict=True))
        for n, k in zip(sizes, block_count(sizes, bad, mapping=name, layout="full"), strict=True):

            def enough(k, n=n, e=e, p=p):
                if name == "geometric":
                    return k ** (2 * p) >= 2 * e * n ** (2 * p)
                return k**p >= paper.alpha(name, e) * n**p

            assert enough(k)
            assert k == 1 or not enough(k - 1)


def test_block_counts_on_the_diagonal_add_the_outliers():
    assert block_count((100, 120), (3, 4), layout="diagonal") == block_count(100, 7) * 2
    assert block_count([10**9] * 2, [10**6, 0], layout="diagonal") == (3992016,) * 2


def test_block_counts_of_claim_1():
    # n = 1000, 5 %, harmonic: only delta <= 1.7e-18 (errata 4).
    c = constants(0.05)
    low, high = -1000 / c.beta, -1000 * c.alpha / c.beta
    assert math.exp(high) == pytest.approx(1.7e-18, rel=0.02)
    for x in (low, high, (low + high) / 2, high * (1 - 1e-15)):
        (k,) = block_count(1000, 50, claim=1, log_delta=x)
        assert k == pytest.approx(math.ceil(-c.beta * x), abs=1)
        assert 182 <= k <= 1000
    assert block_count(1000, 50, claim=1, log_delta=high) == block_count(1000, 50)
    assert block_count(1000, 0, claim=1, log_delta=math.log(0.1), mapping="geometric") == (5,)
    assert block_count(1000, 0, claim=1, log_delta=-1e-9) == (1,)
    # The Hoeffding remark is the grid of one sample.
    assert block_count(1000, 10, claim=1, log_delta=-20.0, layout="full") == (
        math.ceil(4.5 * 20 * constants(0.01).eta / (2 * constants(0.01).eta - 1) ** 2),
    )
    kx, ky = block_count((1000, 900), (10, 5), claim=1, log_delta=-7.0, layout="full")
    e = 0.01 + 5 / 900 - 0.01 * 5 / 900
    eta, root = constants(e).eta, math.sqrt(constants(e).alpha)
    expected = [18 * eta**2 / ((1 - x / root) * (2 * eta - 1) ** 2) for x in (0.01, 5 / 900)]
    assert (kx, ky) == tuple(math.ceil(b * (math.log(2) + 7)) for b in expected)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: block_count(100, 0.05), r"int\(f \* n\)"),
        (lambda: block_count("100", 5), "n='100' must be whole"),
        (lambda: block_count(0, 0), "n=0 must be at least 1"),
        (lambda: block_count([], []), "at least 1"),
        (lambda: block_count(10, -1), "n_outliers=-1 must be at least 0"),
        (lambda: block_count((10, 10), 1), "1 counts for 2 samples"),
        (lambda: block_count((10, 10), (30, 30), layout="full"), "exceeds n"),
        (lambda: block_count(1000, 500), "at most 499 in all"),
        (lambda: block_count((100, 80), (20, 20), layout="diagonal"), "at most 39 in all"),
        (lambda: block_count((100, 100), (30, 30), layout="full"), "at most 29 in each sample"),
        (lambda: block_count((10, 10), (1, 1)), "use 'full' or 'diagonal'"),
        (lambda: block_count(10, 1, layout="grid"), "layout='grid' must be one of"),
        (lambda: block_count(10, 1, claim=3), "claim=3 must be 1 or 2"),
        (lambda: block_count(1000, 50, claim=1), "needs log_delta, between -225 and -40.91"),
        (
            lambda: block_count(1000, 50, claim=1, log_delta=math.log(0.05)),
            r"log_delta=-2\.99573 \(10\^-1\.30\).*\[2\.0e-98, 1\.7e-18\], log10 -97\.72 to -17\.77.*"
            r"log_delta=-40\.9091, or claim=2",
        ),
        (lambda: block_count(1000, 50, claim=1, log_delta=-300.0), "use log_delta=-225"),
        (lambda: paper.max_outliers((10, 10), 2), "degree=2 has 1 entries for 2 samples"),
        (lambda: paper.max_outliers(10, 2, layout="x"), "layout='x'"),
    ],
)
def test_invalid_arguments_of_block_count_raise(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_largest_contamination_for_pairs():
    n = 10**6
    assert paper.max_outliers(n, 2) == n // 6
    assert paper.max_outliers(n, 2, mapping="geometric") == n // 8
    assert paper.max_outliers(n, 2, mapping="polynomial") / n == pytest.approx(0.219, abs=5e-4)
    assert paper.max_outliers(n + 1, 2, mapping="arithmetic") is None
    assert paper.max_outliers(n, 2, mapping="arithmetic") == 0
    for name, n, d in itertools.product(NAMES, (7, 50, 131), (1, 2, 3)):
        fits = [k for k in range((n + 1) // 2) if n // block_count(n, k, mapping=name)[0] >= d]
        assert paper.max_outliers(n, d, mapping=name) == (max(fits) if fits else None)
    assert paper.max_outliers((100, 60), (1, 1), layout="diagonal") == 29


def test_block_count_of_the_iris_example():
    (k,) = block_count(132, 12)
    assert (k, 132 // k, 120 // k) == (41, 3, 2)


HUGE = 10**400


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: paper.block_count(HUGE, 5), r"n must be at most 2\*\*53"),
        (lambda: paper.block_count(100, 5, claim="a"), "claim='a' must be 1 or 2"),
        (lambda: paper.block_count(100, 5, claim=np.array([1, 2])), "claim=.* must be 1 or 2"),
        (lambda: paper.block_count(100, 5, claim=1, log_delta="a"), "log_delta='a' must be a number"),
        (lambda: paper.block_count(100, 5, claim=1, log_delta=-HUGE), "log_delta is too large"),
        (lambda: paper.block_count(100, 5, layout=np.array(["full", "x"])), "layout=.* must be one of"),
        (lambda: paper.max_outliers(HUGE), r"n must be at most 2\*\*53"),
        (lambda: paper.max_outliers(100, mapping="x"), "mapping='x' must be one of"),
        (lambda: paper.range_size(0.1, -1), "n=-1 must be at least 1"),
        (lambda: paper.range_size(0.1, "a"), "n='a' must be an integer"),
        (lambda: paper.range_size(0.1, HUGE), r"n must be at most 2\*\*53"),
        (lambda: paper.range_size("0.1", 100), "epsilon='0.1' must be a number"),
        (lambda: paper.constants([0.1, "0.2"]), "epsilon='0.2' must be a number"),
        (lambda: paper.constants(None), "epsilon=None must be a number"),
        (lambda: paper.alpha("harmonic", [[0.1], [0.1, 0.2]]), "epsilon=.* must be a number"),
        (lambda: paper.alpha("harmonic", HUGE), "epsilon is too large"),
        (lambda: paper.sigma2((10**9,), [1]), "zetas has 1 variances, but .* need 1000000000"),
        (lambda: paper.sigma2((1,) * 40, {}), "zetas has 0 variances"),
        (lambda: paper.sigma2(200, [1.0] * 200), "too large for a float"),
        (lambda: paper.sigma2(2, [1, HUGE]), r"zetas\[\(2,\)\] is too large"),
        (lambda: paper.sigma2(2, "ab"), "zetas='ab' must be a sequence of variances"),
        (lambda: paper.sigma2(2, None), "zetas=None must be a sequence of variances"),
        (lambda: paper.sigma2(2, [1, "b"]), r"zetas\[\(2,\)\]='b' must be a variance"),
        (lambda: paper.u_variance(10**9, 10**8, (0.5, 2.0)), "zetas has 2 variances"),
    ],
)
def test_odd_arguments_are_refused_in_words_that_name_them(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()


def test_numbers_of_any_kind_are_taken():
    expected = paper.constants(0.25)
    assert paper.constants(np.float32(0.25)) == paper.constants(Fraction(1, 4)) == expected
    assert paper.constants(np.array([0.25])).beta.tolist() == [expected.beta]
    assert paper.alpha(lambda e: np.array(0.6), 0.25) == 0.6
