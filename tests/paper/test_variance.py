"""Variances of U-statistics, against enumeration."""

import itertools
import math
from fractions import Fraction

import pytest

from outvote import paper

LAW = {0: Fraction(1, 2), 1: Fraction(1, 3), 3: Fraction(1, 6)}


def kernel(*groups):
    """Symmetric within each sample, and neither additive nor multiplicative across them."""
    sums = [sum(g) + math.prod(x + 1 for x in g) for g in groups]
    return math.prod(s + i for i, s in enumerate(sums)) + max(sums)


def draws(count):
    for point in itertools.product(LAW, repeat=count):
        yield point, math.prod((LAW[x] for x in point), start=Fraction(1))


def split(flat, degrees):
    ends = list(itertools.accumulate(degrees))
    return [flat[e - d : e] for d, e in zip(degrees, ends, strict=True)]


def covariances(degrees):
    d = sum(degrees)
    theta = sum(w * kernel(*split(x, degrees)) for x, w in draws(d))
    zetas = {}
    for c in itertools.product(*(range(d + 1) for d in degrees)):
        total = Fraction(0)
        rest = [d - k for d, k in zip(degrees, c, strict=True)]
        for shared, w in draws(sum(c)):
            parts = split(shared, c)
            mean = sum(
                v * kernel(*(a + b for a, b in zip(parts, split(free, rest), strict=True)))
                for free, v in draws(sum(rest))
            )
            total += w * mean**2
        if any(c):
            zetas[c] = total - theta**2
    return theta, zetas


@pytest.mark.parametrize(
    ("sizes", "degrees"),
    [((4,), (2,)), ((2,), (2,)), ((5,), (3,)), ((2, 3), (1, 1)), ((3, 2), (2, 1)), ((2, 2, 2), (1, 1, 1))],
)
def test_variance_equals_enumeration(sizes, degrees):
    theta, zetas = covariances(degrees)
    variance = Fraction(0)
    for point, w in draws(sum(sizes)):
        tuples = itertools.product(
            *(itertools.combinations(s, d) for s, d in zip(split(point, sizes), degrees, strict=True))
        )
        at = [kernel(*t) for t in tuples]
        variance += w * (Fraction(sum(at), len(at)) - theta) ** 2
    assert paper.u_variance(sizes, degrees, zetas) == float(variance)
    if len(sizes) == 1:
        in_order = [zetas[c,] for c in range(1, degrees[0] + 1)]
        assert paper.u_variance(sizes[0], degrees[0], in_order) == float(variance)
        assert paper.sigma2(degrees, in_order) == paper.sigma2(degrees, zetas)
        assert paper.sigma2(degrees, dict(enumerate(in_order, 1))) == paper.sigma2(degrees, zetas)
    assert variance <= paper.sigma2(degrees, zetas) / min(sizes)


@pytest.mark.parametrize(
    "degrees", [(1,), (2,), (3,), (4,), (1, 1), (2, 1), (2, 2), (3, 2), (1, 1, 1), (2, 1, 1), (2, 2, 2)]
)
def test_sigma2_bounds_the_variance_of_every_zeta(degrees):
    keys = [c for c in itertools.product(*(range(d + 1) for d in degrees)) if any(c)]
    for c in keys:  # linear in zeta: unit vectors suffice
        unit = {k: float(k == c) for k in keys}
        top = paper.sigma2(degrees, unit)
        for sizes in itertools.product(*(range(d, d + (5 if len(degrees) < 3 else 3)) for d in degrees)):
            assert paper.u_variance(sizes, degrees, unit) <= top / min(sizes) * (1 + 1e-12)


def test_sigma2_equals_the_papers_formula():
    assert paper.sigma2(3, (1.0, 10.0, 100.0)) == 6 * (3 * 1 + 3 * 10 + 100)
    assert paper.sigma2((1, 1), {(1, 0): 1, (0, 1): 10, (1, 1): 100}) == 111


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: paper.u_variance((4, 4), (1, 1), (0.5, 1.0)), "map tuples of 2 counts"),
        (lambda: paper.u_variance(4, 2, (0.5,)), r"lacks \[\(2,\)\]"),
        (lambda: paper.sigma2((1, 1), {(1, 0): 1.0, (0, 1): 1.0, (1, 1): 1.0, (2, 0): 1.0}), r"not have \[\(2, 0\)\]"),
        (lambda: paper.sigma2(1, (-1.0,)), r"zetas\[\(1,\)\]=-1.0 must be a variance"),
        (lambda: paper.sigma2(1, (math.nan,)), "must be a variance"),
        (lambda: paper.u_variance(1, 2, (0.5, 1.0)), "sizes=1 must have one entry, at least the degree"),
        (lambda: paper.u_variance((3, 3), 2, (0.5, 1.0)), "one entry"),
    ],
)
def test_invalid_arguments_raise(call, words):
    with pytest.raises(ValueError, match=words):
        call()
