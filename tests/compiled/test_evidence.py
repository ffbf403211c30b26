"""Compiled evidence and bins equal their numpy forms to 1e-12.

With NUMBA_DISABLE_JIT=1 the same tests run every line of these modules as plain Python.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba_forms import using

from outvote.votes.evidence import (
    BinnedRows,
    Grid,
    SortedRows,
    pilot_of,
)
from outvote.votes.evidence.bins import least_sum_of_kinds
from outvote.votes.evidence.factors import VarianceFactor
from outvote.votes.evidence.grid import tallies_of_columns
from outvote.votes.evidence.joint import Joint, pairs_of_factors

numba = pytest.importorskip("numba")
compiled = pytest.importorskip("outvote._numba.functions")

#: As plain Python the functions compute with numpy's scalars, which warn.
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in scalar")
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


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("ratio", [None, 1.5])
@pytest.mark.parametrize(("a", "b"), [("normal", "skewed"), ("gross", "normal"), ("lattice", "far left")])
def test_evidence_of_two_samples_equals_numpy(a, b, ratio, adaptive):
    pairs = pairs_of_factors((400, 400), (1.0, 2.0), 4.4, read=False)
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
