"""Evidence on ratios of means: brute force, cells against single rows, huge denominators."""

from __future__ import annotations

import itertools
import math
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov
from outvote.votes import Terms
from outvote.votes.evidence import Sample, SortedRows, difference_interval
from outvote.votes.evidence import ratio as module
from outvote.votes.evidence.factors import KurtosisFactor, SubGaussianFactor, VarianceFactor
from outvote.votes.evidence.interval import premise_interval
from outvote.votes.evidence.joint import Joint, pairs_of_factors
from outvote.votes.evidence.ratio import Cells, RatioRows

TERMS = Terms(math.log(0.05))
FACTORS = [
    VarianceFactor(0.3, 2.0, sd=1.5), VarianceFactor(0.05, 30.0, sd=1.5), VarianceFactor(1.2, 0.9, sd=1.5),
    KurtosisFactor(0.3, 2.0, fourth_moment=9.0), SubGaussianFactor(0.3, 2.0),
]  # fmt: skip

rows_of_users = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, 2.0, 3.0, 7.5, 400.0]), st.floats(-40, 40)), min_size=3, max_size=6
)


def ratio_rows(users, m=0, n_found=0, adaptive=False):
    den, num = np.array(users, dtype=float).T
    return RatioRows(Cells.of(num.copy(), den.copy()), m, n_found, adaptive=adaptive)


def sample(den, num, m, sd, assume=True):
    return Sample(RatioRows(Cells.of(num, den), m), ov.FiniteVariance(sd) if assume else None, sd)


def brute_product(factor, users, m, ratios, adaptive=False):
    """The least product over all ways to drop rows, each factor at its least over ratios."""
    den, num = np.array(users, dtype=float).T
    logs = np.min([factor.logs(num - ratio * den) - factor.norm for ratio in ratios], axis=0)
    least = min(
        np.delete(logs, list(gone)).sum() for k in range(m + 1) for gone in itertools.combinations(range(len(logs)), k)
    )
    return least + m * (factor.least - factor.norm) * adaptive


@settings(max_examples=150)
@given(
    users=rows_of_users, m=st.integers(0, 2), low=st.floats(-6, 6), width=st.sampled_from([0.0, 0.3, 4.0]),
    factor=st.sampled_from(FACTORS), adaptive=st.booleans(),
)  # fmt: skip
def test_products_equal_brute_force(users, m, low, width, factor, adaptive):
    found = ratio_rows(users, m, adaptive=adaptive).log_product(factor, low, low + width)
    exact = brute_product(factor, users, m, [low], adaptive)
    if width == 0:
        assert found == pytest.approx(exact, abs=1e-9)
        return
    dense = brute_product(factor, users, m, np.linspace(low, low + width, 2001), adaptive)
    assert found <= dense + 1e-9
    assert ratio_rows(users, m, adaptive=adaptive).log_product(factor, -math.inf, low) <= exact + 1e-9


@settings(max_examples=60)
@given(users=rows_of_users, end=st.floats(-6, 6), width=st.floats(0, 3), at=st.floats(0, 1))
def test_squares_are_at_most_those_about_the_true_ratio(users, end, width, at):
    den, num = np.array(users, dtype=float).T
    rows, truth = ratio_rows(users), end + at * width
    ((outside, times),) = rows.squares_outside(end, end + width, 1.0)
    assert times.sum() == len(den)
    assert np.all(outside <= np.sort(np.square(num - truth * den)) + 1e-9)
    ((above, _),) = rows.squares_above(end + width, 1.0)
    assert np.all(above <= np.sort(np.square(num - truth * den)) + 1e-9)


def many_users(rng, n, heavy=False):
    den = np.where(rng.random(n) < 0.1, 0.0, rng.lognormal(0.5, 1.5 if heavy else 0.4, n).round(2))
    return den, 2.0 * den + rng.standard_t(4, n) * np.sqrt(den + 0.2)


@pytest.fixture
def few_rows_in_cells(monkeypatch):
    monkeypatch.setattr(module, "_MANY_ROWS", 100)


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("factor", FACTORS, ids=lambda one: f"{type(one).__name__}-{one.depth}")
@pytest.mark.parametrize("m", [0, 30])
def test_cells_lose_little_and_never_gain(few_rows_in_cells, monkeypatch, heavy, factor, m):
    rng = np.random.default_rng(3)
    den, num = many_users(rng, 4000, heavy)
    num[:10], den[10:20] = 1e6, 1e7
    cells = Cells.of(num, den)
    monkeypatch.setattr(module, "_MANY_ROWS", 10**9)
    single = Cells.of(num, den)
    assert len(cells.count) < len(single.count)
    assert not cells.single
    assert cells.n_rows == 4000
    for low, high in [(2.0, 2.0), (1.9, 1.9), (2.1, 2.1), (1.95, 2.0), (-math.inf, 1.9), (0.0, math.inf)]:
        for turned in (False, True):
            one, two = (RatioRows(each, m) for each in (cells, single))
            ends = (low, high)
            if turned:
                one, two, ends = one.mirrored, two.mirrored, (-high, -low)
            lower, exact = (rows.log_product(factor, *ends) for rows in (one, two))
            assert lower <= exact + 1e-6
            if math.isfinite(high - low) and low == high and factor.depth > 10:
                assert lower >= exact - 0.05 * abs(exact) - 0.05


def test_cells_give_nearly_the_same_intervals(few_rows_in_cells, monkeypatch):
    rng = np.random.default_rng(4)
    a, b = many_users(rng, 6000), many_users(rng, 6000)
    found = [difference_interval(sample(*a, 60, 3.0), sample(*b, 60, 3.0), TERMS, together=120)]
    monkeypatch.setattr(module, "_MANY_ROWS", 10**9)
    found.append(difference_interval(sample(*a, 60, 3.0), sample(*b, 60, 3.0), TERMS, together=120))
    assert found[0].low <= found[1].low + 1e-9
    assert found[0].high >= found[1].high - 1e-9
    assert found[0].high - found[0].low <= 1.01 * (found[1].high - found[1].low)


def brute_joint(joint, a, b, u, value, dropped):
    products = []
    target = value * u if joint.ratio is not None else u + value
    for f, g in joint.pairs:
        logs = np.concatenate([f.logs(u * a[0] - a[1]) - f.norm, g.logs(b[1] - target * b[0]) - g.norm])
        least = min(
            np.delete(logs, list(gone)).sum()
            for k in range(dropped + 1)
            for gone in itertools.combinations(range(len(logs)), k)
        )
        products.append(math.log(f.weight) + least)
    return np.logaddexp.reduce(products)


@settings(max_examples=60)
@given(a=rows_of_users, b=rows_of_users, value=st.floats(-5, 5), dropped=st.integers(0, 2), relative=st.booleans())
def test_least_evidence_is_below_brute_force_at_every_ratio_of_a(a, b, value, dropped, relative):
    """Denominators of 400 among those near 1 are heavy: their rows turn around within a narrow range of ratios."""
    rows = [ratio_rows(users, dropped) for users in (a, b)]
    pairs = pairs_of_factors((len(a), len(b)), (1.0, 2.0), 4.0, read=False, ratio=1 + abs(value))
    span = (1.0, 1.5) if relative else (-0.3, 0.3)
    joint = Joint(rows[0].mirrored, rows[1], pairs, span, dropped, ratio=abs(value) if relative else None)
    columns = [np.array(users, dtype=float).T for users in (a, b)]
    exact = [brute_joint(joint, *columns, u, value, dropped) for u in np.linspace(*span, 101)]
    least = joint.least(value, value)
    assert least <= min(exact) + 1e-9
    assert joint.least(-math.inf, value) <= least + 1e-9


def test_some_denominators_are_heavy():
    cells = Cells.of(np.zeros(6), np.array([1.0, 1, 2, 1, 0, 400]))
    assert cells.heavy.tolist() == [False] * 5 + [True]
    assert cells.squared_slopes == 7.0


def test_denominators_of_one_give_the_mean():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=400), rng.normal(0.3, size=500)
    for m, relative in ((0, False), (8, False), (4, True)):
        shift = 5.0 * relative
        means = [Sample(SortedRows(np.sort(x + shift), m), ov.FiniteVariance(1.0), 1.0) for x in (a, b)]
        ratios = [sample(np.ones(len(x)), x + shift, m, 1.0) for x in (a, b)]
        one, two = (difference_interval(*pair, TERMS, together=m, relative=relative) for pair in (means, ratios))
        assert (two.low, two.high) == pytest.approx((one.low, one.high), abs=2e-3 * (one.high - one.low))


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), relative=st.booleans(), unknown=st.booleans(), cells=st.booleans())
def test_intervals_are_nested_in_the_number_of_corrupt_rows(seed, relative, unknown, cells):
    rng = np.random.default_rng(seed)
    a, b = many_users(rng, rng.integers(120, 300), heavy=True), many_users(rng, 250)
    a[0][0], a[1][1], a[0][2] = 1e6, rng.choice([1e6, -300.0]), 1e9
    before = module._MANY_ROWS
    module._MANY_ROWS = 100 if cells else 10**9
    try:
        both = [sample(*x, 0, 2.5, assume=not unknown) for x in (a, b)]
    finally:
        module._MANY_ROWS = before
    found = [difference_interval(*both, TERMS, together=t, relative=relative) for t in range(0, 18, 6)]
    found = [one for one in found if not one.empty]
    for one, two in itertools.pairwise(found):
        assert two.low <= one.low or two.low == pytest.approx(one.low, rel=1e-9)
        assert two.high >= one.high or two.high == pytest.approx(one.high, rel=1e-9)


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), shift=st.floats(-20, 20), scale=st.sampled_from([0.25, 1.0, 8.0]))
def test_intervals_move_with_the_rows(seed, shift, scale):
    rng = np.random.default_rng(seed)
    a, b = many_users(rng, 80), many_users(rng, 90)
    one = difference_interval(sample(*a, 1, 3.0), sample(*b, 1, 3.0), TERMS, together=2)
    moved = [(den, scale * (num + shift * den)) for den, num in (a, b)]
    two = difference_interval(*(sample(*x, 1, 3.0 * scale) for x in moved), TERMS, together=2)
    assert (two.low, two.high) == pytest.approx((scale * one.low, scale * one.high), abs=1e-4 * scale)
    turned = difference_interval(sample(*b, 1, 3.0), sample(*a, 1, 3.0), TERMS, together=2)
    assert (turned.low, turned.high) == pytest.approx((-one.high, -one.low), abs=1e-9)


@pytest.mark.parametrize("sd", [1.0, 1.7e308])
def test_ends_that_no_float_holds_are_rounded_outwards(sd):
    generator = np.random.default_rng(0)
    rows = RatioRows(Cells.of(generator.normal(size=60) * 1.7e307, 0.05 + generator.exponential(0.05, 60)), 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rows.largest_kept <= sys.float_info.max
        found = premise_interval(rows, sd, TERMS)
    assert not math.isnan(found.low)
    assert not math.isnan(found.high)
    if sd > 1:
        assert (found.low, found.high) == (-math.inf, math.inf)
