"""What the estimation experiments share: sizes, outliers, errors and slopes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from outvote import paper
from outvote.paper.experiments import (
    estimation,
    get,
)
from outvote.paper.experiments.base import Size
from outvote.paper.experiments.coverage_cases import (
    CASES,
)

NAMES = ("ruin-mean", "ruin-median", "ruin-variance", "mann-whitney", "rate", "coverage")


@pytest.mark.parametrize("name", NAMES)
def test_pieces_add_up_to_the_runs(name):
    experiment = get(name)
    found = {}
    for piece in experiment.pieces(Size(experiment.runs)):
        assert piece.cost > 0
        key = tuple(cell for name, cell in piece.settings.items() if name in ("n", "case", "delta"))
        found[key] = found.get(key, 0) + piece.settings["runs"]
        assert piece.settings.get("n", 0) * piece.settings["runs"] <= 2e6
    fewer = {"rate": {316_228: 94, 1_000_000: 30}}.get(name, {})
    times = {number: case.times for number, case in enumerate(CASES)} if name == "coverage" else {}
    assert found == {key: fewer.get(key[0], experiment.runs * times.get(key[0], 1)) for key in found}


def test_sizes_outliers_and_blocks_have_known_values():
    assert estimation.sizes(Size(1)) == [100, 178, 316, 562, 1000, 1778, 3162, 5623, 10_000]
    assert estimation.sizes(Size(1, quick=True)) == [100, 316, 1000]
    assert [estimation.n_outliers(n) for n in (100, 1000, 10_000)] == [10, 32, 100]
    assert [estimation.harmonic(n) for n in (100, 1000, 10_000)] == [34, 121, 393]
    assert estimation.harmonic(1000, 50) == paper.block_count(1000, 50)[0]


def test_spoil_replaces_other_rows_in_each_column():
    clean = np.random.default_rng(0).normal(size=(50, 30))
    before = clean.copy()
    spoiled = estimation.corrupt(np.random.default_rng(1), clean, 7.0, 6)
    np.testing.assert_array_equal(clean, before)
    hit = spoiled == 7.0
    assert (hit.sum(axis=0) == 6).all()
    np.testing.assert_array_equal(spoiled[~hit], clean[~hit])
    assert len({tuple(np.flatnonzero(each)) for each in hit.T}) == 30
    assert hit.any(axis=1).all()


@pytest.mark.parametrize("n", [100, 562, 3162, 31_623])
def test_trimmed_mean_removes_every_outlier(n):
    for count in range(1, n // 4, max(1, n // 300)):
        rows = np.zeros((n, 1))
        rows[:count] = 1e6
        assert estimation.trimmed_mean(rows, count) == 0
        rows[count] = 1e6
        assert estimation.trimmed_mean(rows, count) > 0


def test_errors_of_several_pieces_are_averaged():
    one = estimation.errors(100, 1.0, {("a", "clean"): [1.0, 2.0], ("a", "corrupted"): [4.0, 4.0]})
    two = estimation.errors(100, 1.0, {("a", "clean"): [-3.0], ("a", "corrupted"): [4.0]})
    clean, spoiled = estimation.average([*one, *two])
    assert (clean["mean absolute error"], clean["runs"], clean["outliers"]) == (pytest.approx(5 / 3), 3, 0)
    assert clean["standard error"] == pytest.approx(np.std([0, 1, 4], ddof=1) / math.sqrt(3))
    assert (spoiled["mean absolute error"], spoiled["standard error"], spoiled["outliers"]) == (3.0, 0.0, 10)
    assert estimation.average(one[:1])[0]["runs"] == 2
    (alone,) = estimation.average(estimation.errors(100, 0.0, {("a", "clean"): [1.0]}))
    assert alone["standard error"] is None


def test_slope_and_its_standard_error():
    table = [
        {"estimator": "a", "n": n, "mean absolute error": 3 * n**-0.4, "standard error": 0.1 * 3 * n**-0.4}
        for n in (10, 100, 1000)
    ]
    slope, spread = estimation.slope(table, estimator="a")
    assert slope == pytest.approx(-0.4)
    # logarithms with sd .1 at -1, 0, 1 decades: .1·√2/(2·log 10)
    assert spread == pytest.approx(0.1 * math.sqrt(2) / (2 * math.log(10)))
