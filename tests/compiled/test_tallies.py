"""Compiled tallies equal their numpy form.

With NUMBA_DISABLE_JIT=1 the same tests run every line of these modules as plain Python.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba_forms import using

from outvote.votes.evidence import Grid, pilot_of
from outvote.votes.evidence.grid import tallies_of_columns

numba = pytest.importorskip("numba")
compiled = pytest.importorskip("outvote._numba.functions")

#: As plain Python the functions compute with numpy's scalars, which warn.
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in scalar")


def twice(function):
    """Return what numpy gives, and what numba gives."""
    with using(None):
        plain = function()
    with using(compiled):
        return plain, function()


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
