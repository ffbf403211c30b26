"""Compiled evidence, ends and bins equal their numpy forms to 1e-12.

With NUMBA_DISABLE_JIT=1 the same tests run every line of these modules as plain Python.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba_forms import using

from outvote.votes import Terms
from outvote.votes.evidence import (
    BinnedRows,
    Grid,
    SortedRows,
    pilot_of,
    premise_interval,
    premise_levels,
    premises_of_groups,
)
from outvote.votes.evidence.bins import least_sum_of_kinds
from outvote.votes.evidence.factors import VarianceFactor, variance_factors
from outvote.votes.evidence.grid import tallies_of_columns
from outvote.votes.evidence.joint import Joint, pairs_of_factors
from outvote.votes.evidence.scale import STAKES

numba = pytest.importorskip("numba")
compiled = pytest.importorskip("outvote._numba.functions")

#: As plain Python the functions compute with numpy's scalars, which warn.
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in scalar")
TERMS = Terms(math.log(0.05))
ROWS = {
    "normal": lambda rng: rng.normal(size=400),
    "skewed": lambda rng: rng.exponential(size=333),
    "gross": lambda rng: np.r_[rng.normal(size=390), rng.choice([-1e9, 1e9, -40.0, 12.0], size=10)],
    "far left": lambda rng: np.r_[rng.normal(size=380), np.full(20, -1e6)],
    "lattice": lambda rng: rng.poisson(0.3, size=400).astype(float),
    "extreme": lambda rng: np.r_[rng.normal(size=60), np.full(40, 1e200), np.full(30, -1e200)],
}


def rows_of(law, m, kind):
    x = ROWS[law](np.random.default_rng(0))
    if kind == "rows":
        return SortedRows(np.sort(x), m)
    grid = Grid.of(pilot_of(x))
    return BinnedRows(grid.bins(grid.tallies(x)), m)


def twice(function):
    """Return what numpy gives, and what numba gives."""
    with using(None):
        plain = function()
    with using(compiled):
        return plain, function()


@pytest.mark.parametrize("kind", ["rows", "bins"])
@pytest.mark.parametrize("m", [0, 3, 40, 150])
@pytest.mark.parametrize("law", ROWS)
def test_products_equal_numpy(law, m, kind):
    for factor in (VarianceFactor(0.1, 14.0), VarianceFactor(0.3, 4.0, sd=0.7), VarianceFactor(0.01, 150.0)):
        for low, high in ((-0.1, -0.1), (-math.inf, -0.3), (-0.5, -0.2), (-2000.0, -900.0), (3.0, 4.0)):
            rows = rows_of(law, m, kind)
            plain, fast = twice(lambda rows=rows, f=factor, a=low, b=high: rows.log_product(f, a, b))
            assert fast == pytest.approx(plain, rel=1e-11, abs=1e-9)
            parts = twice(lambda rows=rows, f=factor, a=low, b=high: rows.log_parts(f, a, b))
            sums = [part.total + part.least(m) for part in parts]
            assert sums[0] == pytest.approx(sums[1], rel=1e-11, abs=1e-9)
            for part, module in zip(parts, (None, compiled), strict=True):
                with using(module):
                    assert (part | part).total == 2 * part.total
                    assert part.least(m) <= part.least(0) + 1e-9


@pytest.mark.parametrize("kind", ["rows", "bins"])
@pytest.mark.parametrize("law", ROWS)
def test_spreads_equal_numpy(law, kind):
    for m, end, unit in ((0, 0.0, 1.0), (20, -0.5, 0.6), (20, 0.3, 2.0), (20, 0.0, 1e-40)):
        rows = rows_of(law, m, kind)
        plain, fast = twice(lambda rows=rows, end=end, unit=unit: rows.log_spread_above(end, unit))
        assert fast == pytest.approx(plain, rel=1e-11, abs=1e-9)


@pytest.mark.parametrize("law", ROWS)
def test_spreads_are_on_the_same_side_of_enough(law):
    for m, unit in ((0, 0.7), (20, 1.0), (20, 1.3), (150, 0.5)):
        rows, bins = rows_of(law, m, "rows"), rows_of(law, m, "bins")
        exact = [one.log_spread_above(0.1, unit) for one in (rows, bins)]
        most = max(len(rows.values) - m, int(np.searchsorted(rows.values, 0.1 + unit)))
        given = (bins._for_compiled[0], bins._without_largest)
        for enough in (-3.0, 0.5, 4.0, 40.0):
            fast = [
                compiled.spread_of_rows(rows.values[:most], 0.1, unit, STAKES, enough),
                compiled.spread_of_bins(*given, 0.1, unit, STAKES, enough),
            ]
            for one, other in zip(exact, fast, strict=True):
                if not math.isnan(other):
                    assert (one >= enough) == (other >= enough)


@pytest.mark.parametrize("kind", ["rows", "bins"])
@pytest.mark.parametrize(("m", "sd"), [(0, 1.5), (4, 2.0), (4, 0.3), (40, 2.5), (199, 2.0)])
@pytest.mark.parametrize("law", [law for law in ROWS if law != "extreme"])
def test_premise_intervals_equal_numpy(law, m, sd, kind):
    rows = rows_of(law, m, kind)
    plain, fast = twice(lambda: premise_interval(rows, sd, TERMS))
    assert fast.empty == plain.empty
    if plain.empty:
        return
    width = plain.high - plain.low
    width = 1.0 if not math.isfinite(width) else width
    assert (fast.low, fast.high) == pytest.approx((plain.low, plain.high), abs=1e-11 * width, rel=1e-11)


def test_ends_that_cannot_be_told_are_not():
    main = variance_factors(400, TERMS.price, adaptive=False)[0]
    with using(compiled):
        for rows in (
            SortedRows(np.zeros(0), 0), SortedRows(np.sort(np.random.default_rng(0).normal(size=50)), 4, adaptive=True),
            rows_of("normal", 400, "rows"),
        ):  # fmt: skip
            assert math.isnan(rows.compiled_end(main, 1.0, (3.7, 6.9), (1e-7, 1e-12)))
        assert math.isnan(rows_of("normal", 3, "rows").compiled_end(main, 1e200, (3.7, 6.9), (1e-7, 1e-12)))


@pytest.mark.parametrize("law", ["normal", "skewed", "lattice"])
def test_levels_at_once_equal_each_by_itself(law):
    rows, counts = rows_of(law, 5, "bins"), [0, 1, 5, 40, 120, 10**6]
    sds = [1.5, 1.2, 3.0, 2.0, 0.0, 1.0]  # no scale, and more corrupt rows than there are, cannot be told here
    with using(compiled):
        at_once = premise_levels(rows, counts, sds, TERMS)
    assert at_once[4:] == [None, None]
    for m, sd, found in zip(counts[:4], sds, at_once, strict=False):
        with using(None):
            one = premise_interval(rows.allowing(m), sd, TERMS)
        width = one.high - one.low
        assert (found.low, found.high) == pytest.approx((one.low, one.high), abs=1e-10 * abs(width))
        assert found.sd == sd
    with using(None):
        assert premise_levels(rows, counts, sds, TERMS) == [None] * 6


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("ratio", [None, 1.5])
@pytest.mark.parametrize(("a", "b"), [("normal", "skewed"), ("gross", "normal"), ("lattice", "far left")])
def test_evidence_of_two_samples_equals_numpy(a, b, ratio, adaptive):
    pairs = pairs_of_factors((400, 400), (1.0, 2.0), 4.4, main_only=False)
    for dropped in (0, 3, 40):
        sides = [rows_of(law, dropped, "bins") for law in (a, b)]
        sides = [BinnedRows(one.bins, dropped, adaptive=adaptive) for one in sides]
        for bottom, top in ((-0.3, -0.3), (-math.inf, 0.2), (-1.0, -0.2)):
            turned = -1 if ratio is None else 1
            given = (sides[0].mirrored if turned < 0 else sides[0], sides[1], pairs, (0.2, 0.5), dropped, turned, ratio)
            plain, fast = twice(lambda given=given, low=bottom, high=top: Joint(*given).least(low, high))
            assert fast == pytest.approx(plain, rel=1e-11, abs=1e-9)
            with using(compiled):
                at_once = Joint(*given)
                assert at_once.least(bottom, top) == fast
                if a == "normal":  # bins that reach far cost too much, and are looked at one by one
                    assert "_of_a" not in vars(at_once)


@pytest.mark.parametrize("equal", [False, True])
def test_least_sums_of_pieces_equal_numpy(equal):
    rng = np.random.default_rng(1)
    for _ in range(100):
        n = int(rng.integers(1, 30))
        values = rng.integers(1, 6, size=n) / 3 if equal else rng.exponential(size=n)
        values = np.where(rng.uniform(size=n) < 0.05, math.inf, values)
        weights = rng.integers(0, 5, size=n) * 0.7
        for dropped in (0.0, 1.3, 0.5 * weights.sum(), weights.sum(), weights.sum() + 2):
            fast = compiled.least_of_pieces(values, weights, dropped)
            assert fast == pytest.approx(float(least_sum_of_kinds(values, weights, dropped)), rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1])
def test_groups_equal_numpy(share):
    rng = np.random.default_rng(0)
    sizes = np.r_[rng.integers(1, 40, size=25), [0, 1, 2, 3, 150]]
    values = rng.normal(size=sizes.sum())
    values[:6] = 1e8
    starts = np.r_[0, np.cumsum(sizes)]
    values[starts[3] : starts[4]] = 7.0  # equal rows
    corrupt = np.ceil(share * sizes).astype(np.int64)
    plain, fast = twice(lambda: premises_of_groups(values.copy(), starts, corrupt, TERMS))
    assert np.array_equal(np.isnan(plain), np.isnan(fast))
    there = ~np.isnan(plain[:, 1])
    assert there.sum() >= 15
    width = (plain[there, 2] - plain[there, 1])[:, None]
    assert (np.abs(plain[there] - fast[there]) <= 1e-10 * width + 1e-12).all()


def test_groups_in_several_threads_equal_those_in_one():
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 60, size=50)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    values, corrupt = rng.exponential(size=starts[-1]), np.ceil(0.02 * sizes).astype(np.int64)
    with using(compiled):
        one, several = (premises_of_groups(values.copy(), starts, corrupt, TERMS, threads) for threads in (1, 3))
    assert np.array_equal(one, several, equal_nan=True)
    assert np.isfinite(one).all(axis=1).sum() > 30


def test_tallies_of_columns_equal_those_of_each():
    rng = np.random.default_rng(0)
    table = rng.standard_cauchy(size=(700, 3))
    table[3, 1] = math.inf
    grids = [Grid.of(pilot_of(table[:, j])) for j in range(3)]
    for given in (table, np.asfortranarray(table), table[::-1], table.astype(np.float32)):
        plain, fast = twice(lambda given=given: tallies_of_columns(given, grids))
        for one, other in zip(plain, fast, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    for kind in (np.float64, np.float32):
        one = np.ascontiguousarray(table[:, 0], dtype=kind)
        plain, fast = twice(lambda one=one: grids[0].tallies(one))
        assert all(np.array_equal(a, b) for a, b in zip(plain, fast, strict=True))
