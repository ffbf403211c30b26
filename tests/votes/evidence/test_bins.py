"""Bins of rows against the rows themselves."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outvote import Bounded, FiniteKurtosis, FiniteVariance, SubGaussian
from outvote._numba import numpy_only
from outvote.votes import Terms
from outvote.votes.evidence import (
    BinnedRows,
    Grid,
    SortedRows,
    declared_interval,
    pilot_of,
    premise_interval,
)
from outvote.votes.evidence.bins import Bins, least_sum_of_kinds, two_kinds
from outvote.votes.evidence.factors import KurtosisFactor, SubGaussianFactor, VarianceFactor

FACTORS = [
    VarianceFactor(0.3, 1.5), VarianceFactor(0.9, 0.5, sd=0.7), VarianceFactor(0.02, 60.0),
    KurtosisFactor(0.4, 1.2, fourth_moment=3.0), SubGaussianFactor(0.3, 1.1),
]  # fmt: skip
numbers = st.lists(st.floats(-30, 30) | st.sampled_from([0.0, 1e12, -1e12]), min_size=9, max_size=40).map(np.array)


def binned(x, m=0, *, number=1024, adaptive=False, grid=None):
    grid = grid or Grid.of(pilot_of(x), number)
    return BinnedRows(grid.bins(grid.tallies(x)), m, adaptive=adaptive)


@settings(max_examples=100, deadline=None)
@given(x=numbers, exponent=st.integers(-60, 60), number=st.sampled_from([1024, 4096, 1 << 20]))
def test_each_row_is_in_its_bin_and_sums_are_those_of_the_rows(x, exponent, number):
    x = x * 2.0**exponent
    grid = Grid.of(pilot_of(x), number)
    tallies = grid.tallies(x)
    bins = grid.bins(tallies)
    assert tallies.counts.sum() == len(x) == bins.n_rows
    assert (bins.low[1:] >= bins.high[:-1]).all()
    for count, mean, squares, low, high in zip(*bins.arrays, strict=True):
        off = 1e-15 * (grid.unit + abs(grid.centre) + min(abs(low), abs(high)))  # 1 + |y| is rounded
        own = x[(x >= low - off) & (x <= high + off)]
        exactly = x[(x >= low) & (x < high)] if high > grid.centre else x[(x > low) & (x <= high)]
        assert len(own) >= count
        if len(own) != len(exactly) or len(own) != count:
            continue  # a row at the edge
        if math.isinf(squares):
            assert mean in (low, high)
            continue
        width = high - low
        assert mean == pytest.approx(own.mean(), abs=1e-9 * width + 1e-15 * abs(mean))
        exact = np.square(own - own.mean()).sum()
        assert exact <= squares * (1 + 1e-9) + 1e-12 * count * width**2 + 1e-14 * count * mean**2
        assert squares <= exact + count * width**2 / 60


@settings(max_examples=50, deadline=None)
@given(x=numbers, cut=st.integers(0, 40), order=st.randoms())
def test_tallies_do_not_depend_on_chunks_order_or_numba(x, cut, order):
    grid = Grid.of(pilot_of(x))
    whole = grid.tallies(x)
    mixed = x.copy()
    order.shuffle(mixed)
    first = grid.tallies(mixed[:cut])
    first.add(grid.tallies(mixed[cut:]))
    for one, other in zip(whole, first, strict=True):
        assert np.array_equal(one, other)


def test_numba_and_numpy_give_the_same_whole_numbers():
    from outvote._numba import functions

    rng = np.random.default_rng(0)
    x = np.r_[
        rng.standard_cauchy(70_000), 0.0, -0.0, np.inf, -np.inf, np.nan, 1e308, -1e308, 5e-324, rng.normal(size=77)
    ]
    for grid in (Grid.of(pilot_of(x)), Grid(1e-300, 2.0**-900), Grid(0.0, 2.0**700, 1 << 20), Grid(-1e308, 1.0, 1024)):
        with numpy_only():
            plain = grid.tallies(x)
        found = np.zeros((3, 2, grid.number), dtype=np.int64)
        bits, both = grid.per_doubling.bit_length() - 1, np.stack([x, -x], axis=1)
        functions.count_columns(both, np.full(2, grid.centre), np.full(2, grid.unit), bits, *found)
        alone = np.zeros((3, grid.number), dtype=np.int64)
        functions.count_in_bins(x, grid.centre, grid.unit, bits, *alone)
        for one, other, third in zip(plain, found[:, 0], alone, strict=True):
            assert np.array_equal(one, other)
            assert np.array_equal(one, third)


@pytest.mark.parametrize("factor", FACTORS)
@settings(max_examples=80, deadline=None)
@given(
    x=numbers,
    m=st.integers(0, 6),
    low=st.floats(-40, 40),
    width=st.floats(0, 20),
    number=st.sampled_from([1024, 65536]),
)
def test_evidence_of_bins_is_at_most_that_of_the_rows(factor, x, m, low, width, number):
    high = low + width
    rows, bins = SortedRows(np.sort(x), m), binned(x, m, number=number)
    for one, other in ((rows, bins), (rows.mirrored, bins.mirrored), (rows.scaled(3.0), bins.scaled(3.0))):
        for bottom in (low, -math.inf):
            exact = one.log_evidence([factor], bottom, high)
            found = other.log_evidence([factor], bottom, high)
            assert found <= exact + 1e-7 * (1 + abs(exact))
            if number > 1024 and np.abs(x).max() < 31 and Grid.of(x).unit > 0.1:
                assert found >= exact - 0.05 * (1 + abs(exact))


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(1, 3), st.floats(-3, 3), st.floats(0, 2), st.floats(0, 1)), min_size=1, max_size=4
    ),
    m=st.integers(0, 6),
)
def test_dropping_rows_of_bins_is_the_worst_of_all_ways_to_drop_them(rows, m):
    count, least, gap, share = (np.array(one, dtype=float) for one in zip(*rows, strict=True))
    most, totals = least + gap, count * (least + share * gap)
    found = float(least_sum_of_kinds(*two_kinds(totals, least, most, count), m))
    ways = itertools.product(*(range(int(c) + 1) for c in count))
    exact = min(
        sum(max(t - d * h, (c - d) * low) for t, d, h, c, low in zip(totals, way, most, count, least, strict=True))
        for way in ways if sum(way) <= m
    )  # fmt: skip
    assert found <= exact + 1e-9
    # Fractions of rows may be dropped: never more than one row's worth below.
    assert found >= exact - gap.max() - 1e-9


@pytest.mark.parametrize("law", ["normal", "pareto", "lattice", "gross", "far", "offset", "sorted pilot"])
@pytest.mark.parametrize("assume", [FiniteVariance(1.0), None, FiniteKurtosis(9.0, 1.0), SubGaussian(1.0)])
def test_intervals_of_many_rows_are_those_without_bins(law, assume):
    if isinstance(assume, SubGaussian) and law in ("pareto", "far"):
        pytest.skip("rows that are nothing like it")
    rng, n, m = np.random.default_rng(0), 60_000, 300
    x = {
        "normal": lambda: rng.normal(size=n),
        "pareto": lambda: rng.pareto(2.5, size=n) / 1.5,
        "lattice": lambda: rng.poisson(0.05, size=n) / math.sqrt(0.05),
        "far": lambda: np.r_[rng.normal(size=n - 3000), 10 ** rng.uniform(2, 6, size=3000)],
        "gross": lambda: np.r_[rng.normal(size=n - m), rng.choice([-1e9, 1e9, 6.0], size=m)],
        "offset": lambda: rng.normal(1e8, 1.0, size=n),
        "sorted pilot": lambda: np.sort(rng.normal(size=n)),
    }[law]()
    grid = Grid.of(x[:500]) if law == "sorted pilot" else None
    terms = Terms(math.log(0.05))

    def interval(rows):
        if assume is None:
            return premise_interval(rows, 2.0 if law != "far" else 10.0, terms)
        return declared_interval(rows, assume, terms)

    exact, found = interval(SortedRows(np.sort(x), m)), interval(binned(x, m, number=4096, grid=grid))
    if exact.empty:
        assert found.empty
        return
    width = exact.high - exact.low
    assert found.low <= exact.low + 1e-3 * width  # these rows are gathered, too
    assert found.high >= exact.high - 1e-3 * width
    assert found.high - found.low - width < 0.02 * width


@pytest.mark.parametrize("m", [0, 20, 24_000, 29_990, 29_999])
def test_every_row_is_counted_once(m):
    x = np.random.default_rng(0).normal(size=60_000)
    factor = VarianceFactor(0.01, 100.0)
    y = np.sort(factor.logs(x + 2.0) - factor.norm)
    exact = y[: len(x) - m].sum() + np.minimum(y[len(x) - m :], 0.0).sum()
    assert binned(x, m, number=4096).log_evidence([factor], -2.0, -2.0) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("law", ["fair coin", "one in fifty", "bell", "uniform"])
@pytest.mark.parametrize("adaptive", [False, True])
def test_bounded_rows_in_bins_lose_next_to_nothing(law, adaptive):
    rng, n = np.random.default_rng(0), 60_000
    x = {
        "fair coin": lambda: (rng.random(n) < 0.5).astype(float),
        "one in fifty": lambda: (rng.random(n) < 0.02).astype(float),
        "bell": lambda: rng.beta(20, 20, n),
        "uniform": lambda: rng.random(n),
    }[law]()
    terms = Terms(math.log(0.05), "adaptive" if adaptive else "oblivious")
    exact, found = (
        declared_interval(rows, Bounded(0.0, 1.0), terms)
        for rows in (SortedRows(np.sort(x), 300, adaptive=adaptive), binned(x, 300, number=4096, adaptive=adaptive))
    )
    assert found.low <= exact.low + 1e-9
    assert found.high >= exact.high - 1e-9
    assert found.high - found.low <= 1.01 * (exact.high - exact.low)


def test_what_bins_do_not_keep_is_refused():
    rows = binned(np.arange(20.0))
    with pytest.raises(ValueError, match="needs the rows themselves"):
        rows.values  # noqa: B018


@settings(max_examples=60, deadline=None)
@given(x=numbers, m=st.integers(0, 4))
def test_centre_and_spread_are_about_those_of_the_rows(x, m):
    x = x[np.abs(x) < 31]
    if len(x) < 9:
        return
    rows, bins = SortedRows(np.sort(x), m), binned(x, m, number=1 << 20)
    assert bins.n_values == rows.n_values
    assert bins.smallest <= rows.smallest
    assert bins.largest_kept <= rows.largest_kept + 1e-12
    assert bins.central_sd() <= np.ptp(x)


def test_bins_are_ascending_in_any_shape():
    bins = Bins(*(np.arange(6.0).reshape(2, 3) for _ in range(5)))
    assert bins.mirrored.mean.tolist() == [[-2, -1, 0], [-5, -4, -3]]
    assert bins.part(0).ranks.tolist() == [0.0, 1.0, 3.0]


@settings(max_examples=150, deadline=None)
@given(
    x=st.lists(st.floats(-30, 30) | st.sampled_from([0.0, 2.0, 14.0, 1e-3]), min_size=9, max_size=40).map(np.array),
    m=st.integers(0, 8), end=st.floats(-5, 5), unit=st.floats(0.2, 9), exponent=st.integers(-3, 50),
)  # fmt: skip
def test_spread_of_bins_is_at_most_that_of_the_rows(x, m, end, unit, exponent):
    grid = Grid(0.0, 2.0**exponent)
    exact = SortedRows(np.sort(x), m).log_spread_above(end, unit)
    found = binned(x, m, grid=grid).log_spread_above(end, unit)
    assert found <= exact + 1e-7 * (1 + abs(exact))


@pytest.mark.parametrize("size", [1e12, 1e15])
def test_rows_far_from_zero_are_rounded_and_that_is_paid_for(size):
    x = size + np.random.default_rng(0).normal(size=2000) * size * 2.0**-40
    factor = VarianceFactor(0.05 / (size * 2.0**-40), 20.0 * size * 2.0**-40, sd=size * 2.0**-40)
    rows, bins = SortedRows(np.sort(x), 20), binned(x, 20, number=4096)
    for at in (size * (1 - 2.0**-41), size):
        exact = rows.log_evidence([factor], at, at)
        assert bins.log_evidence([factor], at, at) <= exact + 1e-9 * abs(exact)
