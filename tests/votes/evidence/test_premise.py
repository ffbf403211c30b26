"""The premise: what is read off the rows, and the intervals that hold if the sd is no larger."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outvote.votes import Terms
from outvote.votes.evidence import BinnedRows, Grid, Read, SortedRows, believed_premises, pilot_of, premise_interval
from outvote.votes.evidence.factors import premise_factors
from outvote.votes.evidence.groups import premises_of_groups

TERMS = Terms(math.log(0.05))
CELL = 2 ** (1 / 3)


def rows_of(x, m, *, adaptive=False):
    return SortedRows(np.sort(np.asarray(x, dtype=float)), m, adaptive=adaptive)


def bins_of(x, m):
    grid = Grid.of(pilot_of(x))
    return BinnedRows(grid.bins(grid.tallies(x)), m)


# --- what is read off the rows ------------------------------------------------------------------------------


@settings(deadline=None, max_examples=200)
@given(
    x=st.lists(
        st.floats(-5, 5).map(lambda x: round(x, 9)) | st.sampled_from([0.0, 0.0, 40.0, -90.0, 1e6]),
        min_size=2,
        max_size=40,
    ),
    m=st.integers(0, 8),
)
def test_gross_rows_the_sd_and_the_point_are_those_of_the_recipe(x, m):
    x, n = np.sort(np.array(x)), len(x)
    m = min(m, (n - 1) // 2)
    away = np.sort(np.abs(x - np.median(x)))
    reach = away[n - m - 1]
    gross = [j for j in range(1, m + 1) if away[n - j] > reach * (20 * (m + 1) / j) ** 0.4]
    rest = np.sort(x[np.argsort(np.abs(x - np.median(x)), kind="stable")][: n - max(gross, default=0)])
    found = Read.of_rows(x[None], n, m)
    assert found.n_below[0] + found.n_above[0] == max(gross, default=0)
    assert found.sd[0] == pytest.approx((1.25 + 3 / math.sqrt(n)) * np.std(rest), rel=1e-9, abs=1e-9)
    moved = np.clip(rest, np.median(x) - 1.5 * reach, np.median(x) + 1.5 * reach)
    assert found.point[0] == pytest.approx(moved.mean(), rel=1e-9, abs=1e-9)
    assert found.n_other[0] == np.count_nonzero(x != np.median(x))
    if gross:
        assert (x <= found.lower[0]).sum() + (x >= found.upper[0]).sum() == max(gross)
    none = Read.of_rows(x[None], n, m, screened=False)
    assert none.n_below[0] + none.n_above[0] == 0
    assert none.sd[0] == pytest.approx((1.25 + 3 / math.sqrt(n)) * np.std(x), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1.0, 1e200, 1e306])
def test_rows_of_any_size_are_read(size):
    x = size * np.r_[np.linspace(-1, 1, 50), 30.0]
    found = Read.of_rows(np.sort(x)[None], 51, 2)
    assert found.sd[0] / size == pytest.approx((1.25 + 3 / math.sqrt(51)) * np.std(np.linspace(-1, 1, 50)), rel=0.02)
    assert found.n_above[0] == 1


@pytest.mark.parametrize("law", ["normal", "skewed", "heavy", "mostly zeros"])
def test_bins_are_read_like_their_rows(law):
    rng = np.random.default_rng(0)
    x = {
        "normal": rng.normal(size=20_000), "skewed": rng.lognormal(size=20_000), "heavy": rng.standard_t(2.5, 20_000),
        "mostly zeros": rng.exponential(size=20_000) * (rng.random(20_000) < 0.1),
    }[law]  # fmt: skip
    x[:150] *= 300
    exact, found = rows_of(x, 200).read(), bins_of(x, 200).read()
    assert found.sd == pytest.approx(exact.sd, rel=2e-3)
    assert found.point == pytest.approx(exact.point, abs=2e-3 * exact.sd[0])
    assert found.n_above == pytest.approx(exact.n_above, abs=3)
    inside = (x > found.lower) & (x < found.upper)
    assert np.count_nonzero(~inside) == found.n_below + found.n_above
    assert found.n_other == pytest.approx(exact.n_other, rel=0.02)


# --- the interval of a premise ------------------------------------------------------------------------------


def rows_of_many_kinds():
    rng = np.random.default_rng(3)
    yield "normal", rng.normal(size=200), 3
    yield "a large share", rng.normal(size=200), 40
    yield "two lumps", np.r_[np.zeros(30), np.full(20, 7.0)] + 0.01 * rng.normal(size=50), 8
    yield "lumps far apart", rng.choice([0.0, 7.0, 14.0, 100.0], 60) + 0.01 * rng.normal(size=60), 12
    yield "skewed", rng.lognormal(sigma=3, size=40), 2
    yield "few", rng.lognormal(sigma=3, size=5), 1
    yield "mostly zeros", rng.normal(size=200) * (rng.random(200) < 0.6), 20
    yield "heavy", rng.standard_t(0.7, size=100), 4
    yield "corrupt in between", np.r_[rng.normal(size=280), np.full(10, 9.0), np.full(10, -17.0)], 25
    yield "tied at the top", np.r_[np.zeros(20), np.ones(80)], 5


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("times", [0.7, 2.0])
@pytest.mark.parametrize(
    ("x", "m"), [one[1:] for one in rows_of_many_kinds()], ids=[one[0] for one in rows_of_many_kinds()]
)
def test_every_mean_below_is_ruled_out_for_every_scale_up_to_the_premise(x, m, times, adaptive):
    """Each cell of scales is ruled out by its own evidence, or by the spread of the rows."""
    rows, n = rows_of(x, m, adaptive=adaptive), len(x)
    sd = times * float(rows.read().sd[0]) / 1.5
    found = premise_interval(rows, sd, TERMS)
    price, of_spread = math.log(1 / 0.05 / 0.48), math.log(1 / 0.05 / 0.02)
    stake = min(max(math.sqrt(of_spread / n), 0.003), 0.3)
    top = math.ceil(math.log(sd) / math.log(CELL))
    factors = premise_factors(n, adaptive=adaptive)
    for side, end in ((rows.values, found.low), (-rows.values[::-1], -found.high)):
        if math.isinf(end) or abs(end) > 1e200:
            continue
        means = end - np.r_[1e-9 * sd, np.geomspace(1e-6, 1e4, 60) * sd]
        for k in range(top - 60, top + 1):
            squares = np.maximum(side - end, 0.0) ** 2 / CELL ** (2 * k)
            spread = kept(np.log1p(stake * (squares - 1)), m) + (m * math.log1p(-stake) if adaptive else 0.0)
            if k < top - 1 and spread >= of_spread - 1e-6:
                continue
            for mean in means:
                assert evidence(side, mean, factors, CELL ** (k - 0.5), min(CELL**k, sd), m, adaptive) >= price - 1e-6


def kept(logs, m):
    """Add up without the m largest, as far as they are positive."""
    logs = np.sort(logs)
    return logs[: len(logs) - m].sum() + np.minimum(logs[len(logs) - m :], 0.0).sum()


def evidence(x, mean, factors, unit, top, m, adaptive):
    found = []
    for one in factors:
        rate, depth = one.rate / unit, one.depth * unit
        y, norm = x - mean, math.log1p(rate * top * top / 2 / depth)
        logs = np.log1p(rate * (y + y * y / (2 * depth))) - norm
        paid = m * (math.log1p(-rate * depth / 2) - norm) if adaptive else 0.0
        found.append(math.log(one.weight) + kept(logs, m) + paid)
    return np.logaddexp.reduce(found)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), n=st.integers(5, 400), m=st.integers(0, 20), adaptive=st.booleans())
def test_intervals_are_nested_in_what_is_assumed(seed, n, m, adaptive):
    """In the confidence, in the sd, and in the number of corrupt rows at one sd; one end is one of two."""
    rng = np.random.default_rng(seed)
    x, m = rng.standard_t(3, size=n) * np.where(rng.random(n) < 0.03, 30, 1), min(m, (n - 1) // 3)
    rows = rows_of(x, m, adaptive=adaptive)
    sd = 1.3 * float(np.std(x))
    little = 1e-6 * sd

    def inside(one, two):
        return one.empty or (two.low <= one.low + little and one.high <= two.high + little)

    deltas = [premise_interval(rows, sd, Terms(math.log(delta))) for delta in (0.3, 0.1, 0.05, 0.01, 1e-9)]
    assert all(inside(*pair) for pair in itertools.pairwise(deltas))
    scales = [premise_interval(rows, sd * times, TERMS) for times in (0.5, 0.9, 1.0, 1.4, 9.0)]
    assert all(inside(*pair) for pair in itertools.pairwise(scales))
    levels = [premise_interval(rows.allowing(j), sd, TERMS) for j in (0, 1, 2, 5, m + 5)]
    assert all(inside(*pair) for pair in itertools.pairwise(levels))
    less, more = (premise_interval(rows, sd, Terms(math.log(0.025), alternative=side)) for side in ("less", "greater"))
    both = premise_interval(rows, sd, TERMS)
    if not both.empty:
        assert (more.low, less.high) == pytest.approx((both.low, both.high), abs=little)


def test_a_premise_is_doubled_while_the_rows_contradict_it():
    x = np.random.default_rng(0).normal(size=300)
    ((sd, found),) = believed_premises([rows_of(x, 3)], [0.01], TERMS)
    assert math.log2(sd / 0.01) == round(math.log2(sd / 0.01))
    assert found.low < found.high
    assert premise_interval(rows_of(x, 3), sd / 2, TERMS).empty


@pytest.mark.parametrize("law", ["normal", "skewed", "mostly zeros", "far"])
def test_bins_have_hardly_wider_intervals(law):
    rng = np.random.default_rng(1)
    x = {
        "normal": rng.normal(size=9000), "skewed": rng.exponential(size=9000),
        "mostly zeros": rng.exponential(size=9000) * (rng.random(9000) < 0.3),
        "far": np.r_[rng.normal(size=8920), rng.choice([12.0, -1e3, 1e6], 80)],
    }[law]  # fmt: skip
    exact, found = premise_interval(rows_of(x, 90), 1.4, TERMS), premise_interval(bins_of(x, 90), 1.4, TERMS)
    width = exact.high - exact.low
    assert exact.low - 1e-3 * width <= found.low <= exact.low + 1e-9
    assert exact.high - 1e-9 <= found.high <= exact.high + 1e-3 * width


def test_groups_have_the_intervals_that_each_has_alone():
    rng = np.random.default_rng(2)
    sizes = np.r_[rng.integers(3, 120, size=80), 2000, 1, 1]
    starts, m = np.r_[0, np.cumsum(sizes)], np.minimum(sizes // 30, (sizes - 1) // 2)
    values = rng.lognormal(size=starts[-1])
    values[rng.integers(0, starts[-1], 30)] *= 1000
    for threads in (1, 3):
        found = premises_of_groups(values, starts, m, TERMS, threads)
        for g in range(len(sizes) - 2):
            rows = rows_of(values[starts[g] : starts[g + 1]], m[g])
            ((sd, one),) = believed_premises([rows], [float(rows.read().sd[0])], TERMS)
            assert found.sd[g] == pytest.approx(sd, rel=1e-9)
            assert (found.low[g], found.high[g]) == pytest.approx((one.low, one.high), abs=1e-7 * (one.high - one.low))
        assert np.isnan(found.low[-2:]).all()
