"""Spark counts in bins what numpy counts, to the last bit, for numbers that are hard to place."""

import numpy as np
import pandas as pd
import pytest

from outvote.tables.engine import Query
from outvote.tables.frames import frame_engine
from outvote.votes.evidence import Grid

GRIDS = [
    Grid(0.0, 1.0),
    Grid(-0.1, 2.0**-20),
    Grid(1e212, 2.0**700),
    Grid(-3e-290, 2.0**-900),
    Grid(1 / 3, 8.0),
]


def awkward(grid, rng):
    """Return rows on and next to the ends of bins, far from them and close to zero."""
    near, width, side = grid.edges(rng.integers(0, grid.number, size=300))
    ends = grid.centre + grid.unit * side * near
    middles = grid.centre + grid.unit * side * (near + width * rng.random(300))
    powers = grid.centre + grid.unit * np.exp2(np.arange(-60, 40))
    largest, smallest = np.finfo(float).max, 5e-324
    single = [0.0, -0.0, grid.centre, largest, -largest, 1e300, -1e-300, smallest, -smallest, np.finfo(float).tiny]
    rows = np.concatenate([ends, middles, powers, single, 10.0 ** rng.uniform(-320, 308, size=100)])
    with np.errstate(over="ignore", under="ignore"):
        both = [np.nextafter(rows, np.inf), np.nextafter(rows, -np.inf)]
        rows = np.concatenate([rows, *both, 2 * grid.centre - rows])
    return rows[np.isfinite(rows)]


@pytest.fixture(scope="module")
def counted(spark):
    """For each set of bins the rows, and what Spark counts of them; all in one go."""
    rng = np.random.default_rng(0)
    rows = [awkward(grid, rng) for grid in GRIDS]
    which = np.repeat(np.arange(len(GRIDS)), [len(one) for one in rows])
    frame = spark.createDataFrame(pd.DataFrame({"g": which, "x": np.concatenate(rows)})).cache()
    engine, labels = frame_engine(frame, None), list(range(len(GRIDS)))
    found = engine.row_summaries(Query(("x",), ("g",)), labels, [[grid] for grid in GRIDS])
    return rows, [summary for (summary,) in found], frame


@pytest.mark.parametrize("number", range(len(GRIDS)))
def test_tallies_equal_those_of_numpy(counted, number):
    rows, found, _ = counted
    expected = GRIDS[number].tallies(rows[number])
    for mine, right in zip(found[number]._tallies, expected, strict=True):
        np.testing.assert_array_equal(mine, right)
    assert np.count_nonzero(expected.counts) > 100


def test_one_set_of_bins_for_all_rows(counted):
    rows, _, frame = counted
    ((found,),) = frame_engine(frame, None).row_summaries(Query(("x",)), [()], [[GRIDS[0]]])
    for mine, right in zip(found._tallies, GRIDS[0].tallies(np.concatenate(rows)), strict=True):
        np.testing.assert_array_equal(mine, right)
