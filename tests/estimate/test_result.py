"""Results as one line, as an explanation, as HTML and as JSON."""

from __future__ import annotations

import dataclasses
import html
import json
import math
import re

import numpy as np
import pandas as pd
import pytest

import outvote as ov
from outvote.certificate import Certificate
from outvote.estimate.result import Interval, percent, with_radius


def normal(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.fixture(scope="module")
def mean():
    return ov.mean(normal(400), contamination=4, n_blocks=27, rng=0)


@pytest.fixture(scope="module")
def table():
    return ov.mean(pd.DataFrame(normal((400, 2)), columns=["<b>price</b>", "size & weight"]), contamination=4, rng=0)


@pytest.fixture(scope="module")
def grid():
    return ov.u_statistic(normal(100), normal(80, seed=1), kernel="auc", contamination=(2, 1), vote="median", rng=0)


@pytest.fixture(scope="module")
def difference():
    return ov.difference(normal(200), normal(150, seed=1), contamination=(2, 1), vote="median", rng=0)


def certified(result, radius, provenance="certified", **changes):
    """The same result with another certificate."""
    certificate = dataclasses.replace(
        result.certificate, radius=radius, provenance=provenance, log_delta=math.log(0.05), note="", **changes
    )
    ends = Interval(result.estimate - radius, result.estimate + radius)
    return dataclasses.replace(result, certificate=certificate, interval=ends)


# --- one line ------------------------------------------------------------------------------------------


def test_repr_shows_a_finite_radius(mean):
    line = repr(certified(mean, 0.2137))
    assert re.match(rf"mean {mean.estimate:.2f} ± 0\.21 \(certified 95 %, 27 blocks of 14, survives 13", line)
    assert " ± " not in repr(certified(mean, math.inf))
    assert repr(mean) == str(mean)
    assert re.fullmatch(r"mean -?\d\S*( ± \S+)? \(.+, 27 blocks of 14, survives 13 corrupt rows\)", repr(mean))


def test_confidence_as_percentage():
    assert [percent(c) for c in (0.5, 0.95, 0.999, 1.0)] == ["50 %", "95 %", "99.9 %", "100 %"]
    assert "100 %" not in (percent(1 - 1e-9), percent(1 - 1e-12))


def test_repr_uses_the_singular():
    line = repr(ov.mean([1.0, 2.0, 3.0], contamination=1, n_blocks=3))
    assert "3 blocks of 1, survives 1 corrupt row)" in line
    assert "1 block of 3" in repr(ov.mean([1.0, 2.0, 3.0], contamination=0, n_blocks=1))


def test_repr_of_two_samples(grid, difference):
    ks, sizes = grid.plan.n_blocks, grid.plan.block_size
    assert f"{ks[0]} blocks of {sizes[0]} × {ks[1]} blocks of {sizes[1]}" in repr(grid)
    assert "allows for 2 and 1 corrupt rows" in repr(grid)
    ks = difference.plan.n_blocks
    assert re.match(rf"difference .*{ks[0]} blocks of \d+ and {ks[1]} blocks of \d+", repr(difference))
    for result in (grid, difference):
        assert "Sample 1: " in result.explain()
        assert "Sample 2: " in result.explain()


def test_repr_abbreviates_many_columns(table):
    assert re.fullmatch(r"mean <b>price</b> .+size & weight .+", repr(table))
    wide = pd.DataFrame(normal((100, 9)), columns=[f"c{i}" for i in range(9)])
    line = repr(ov.mean(wide, contamination=1, rng=0))
    assert ["… (9 columns)" in line, "c5 " in line, "c6 " in line] == [True, True, False]
    plain = repr(ov.mean(wide.to_numpy(), contamination=1, rng=0))
    assert plain.count(" ± ") == 6
    assert len(plain) < 250


def test_every_column_is_written_with_its_interval():
    x = np.random.default_rng(0).exponential(size=(3000, 2))
    assert str(ov.mean(x)).startswith("mean 1.011, between 0.903 and 1.086; 0.994, between 0.890 and 1.066 (95 % if")
    assert str(ov.mean(x, alternative="less")).startswith("mean 1.011, at most 1.08; 0.9939, at most 1.06 (")
    line = str(ov.quantile(x[:100, 0], [0.5, 0.99]))
    assert line.startswith("quantiles p50 ")
    assert re.search(r", between \S+ and \S+; p99 \S+, at least \S+ \(certified", line)
    table = ov.mean(normal((50, 2, 2)), contamination=1, rng=0)
    assert table.names is None
    assert "[[" in str(table)


# --- explanations -----------------------------------------------------------------------------------------


def test_explain_contains_answer_plan_and_seed(mean):
    text = mean.explain()
    assert text.startswith(str(mean))
    assert mean.plan.explain() in text
    assert text.endswith("The partition was drawn with partition='random', rng=0.")
    assert "set aside" not in text
    x = normal(100)
    x[[4, 5]] = np.nan
    assert "2 rows had NaN or infinite values." in ov.mean(x, contamination=3, nan_policy="omit").explain()


@pytest.mark.parametrize("provenance", ["certified", "plug-in", "as stated", "none"])
def test_explain_quotes_the_note_of_the_certificate(mean, provenance):
    with_note = dataclasses.replace(
        mean, certificate=dataclasses.replace(mean.certificate, provenance=provenance, radius=0.1, note="Mind the gap.")
    )
    assert "Mind the gap." in with_note.explain()
    without = dataclasses.replace(mean, certificate=dataclasses.replace(with_note.certificate, note=""))
    assert "Mind the gap." not in without.explain()
    if provenance != "none":
        assert f"({provenance} " in repr(without)


# --- fields -------------------------------------------------------------------------------------------------


def test_fields_are_consistent(mean, table, grid, difference):
    for result in (mean, table, grid, difference):
        assert isinstance(result, ov.RobustEstimate)
        assert isinstance(result.certificate, Certificate)
        assert result.radius is result.certificate.radius
        assert np.shape(result.interval.low) == np.shape(result.interval.high) == np.shape(result.estimate)
        assert result.interval == (result.interval.low, result.interval.high)
        assert result.seed == (None if result is table else 0)


def test_plain_is_the_average_of_the_rows():
    spread = ov.mean(normal(103), contamination=0, n_blocks=10, remainder="spread")
    assert spread.plain == pytest.approx(normal(103).mean())
    several = ov.mean(normal((100, 3)), contamination=0, n_blocks=10)
    np.testing.assert_allclose(several.plain, normal((100, 3)).mean(axis=0))
    a, b = normal(100), normal(60, seed=1)
    np.testing.assert_allclose(ov.difference(a, b, contamination=0, n_blocks=20).plain, (a.mean(), b.mean()))
    full = ov.u_statistic(a, b, kernel="auc", contamination=0, n_blocks=20)
    assert full.plain == pytest.approx(ov.u_statistic(a, b, kernel="auc", contamination=0, n_blocks=1).estimate)
    a[:2] = 1.7e308  # without a warning
    assert ov.mean(a, contamination=2, rng=0, vote="median").plain == pytest.approx(2 * (1.7e308 / 100), rel=0.2)
    assert ov.u_statistic(a, kernel="variance", contamination=2, rng=0, vote="median").plain == math.inf


# --- HTML ----------------------------------------------------------------------------------------------------


def test_html_is_a_table(mean, grid, difference):
    for result in (mean, grid, difference, ov.mean(normal((30, 2, 2)), contamination=1)):
        text = result._repr_html_()
        assert text.startswith("<table>")
        assert text.endswith("</table>")
        assert text.count("<tr>") == 1 + np.size(result.estimate)
        assert result.statistic in text


def test_html_of_tolerances_and_sensitivities():
    a, b = normal(100), normal(100, seed=1) + 1
    found = ov.tolerance(a, b, assume=ov.FiniteVariance(1.0))
    text = found._repr_html_()
    assert text.startswith("<table>")
    assert html.escape(str(found)) in text
    assert f"<td>{found.rows}</td>" in text
    assert f"<td>{found.estimate.interval.low:.6g}</td>" in text
    assert "<td>not settled</td>" in ov.tolerance(a, a, assume=ov.FiniteVariance(1.0))._repr_html_()
    levels = ov.sensitivity(a, levels=[0, 4])
    text = levels._repr_html_()
    assert text.count("<tr>") == 3
    assert "<th style='text-align:left'>4</th>" in text
    assert f"<td>{levels.premise_sd[1]:.6g}</td>" in text
    assert ov.quantile(a, [0.5, 0.9])._repr_html_().count("<tr>") == 3


# --- JSON ----------------------------------------------------------------------------------------------------


def strict(result):
    return json.loads(json.dumps(result.to_dict(blocks=True), allow_nan=False))


def test_to_dict_replaces_infinities_by_none(mean):
    data = strict(certified(mean, math.inf))
    assert (data["radius"], data["low"], data["high"]) == (None, None, None)
    x = normal(100)
    x[0] = 1.7e308
    data = strict(ov.u_statistic(x, kernel="variance", contamination=1, rng=0, vote="median"))
    assert data["block_values"].count(None) == 1


def test_to_dict_has_no_numpy_types():
    for x in (np.arange(30, dtype=np.int16), np.arange(30) % 2 == 0):
        data = strict(ov.mean(x, contamination=np.int64(1), n_blocks=np.int64(5), rng=np.int64(3)))
        assert (data["n_blocks"], data["seed"]) == (5, 3)
        json.dumps(ov.mean(x, contamination=0, nan_policy="omit", partition="hash").to_dict(), allow_nan=False)


def test_to_dict_is_a_row_of_a_frame():
    series = pd.Series(normal(300), name="rent")
    row = pd.DataFrame([ov.mean(series).to_dict()])
    assert len(row) == 1
    assert row["names"][0] == "rent"
    assert not any(isinstance(value, (list, dict)) for value in row.iloc[0])
    assert ov.mean(series.to_frame().assign(size=1.0)).to_dict()["names"] == ["rent", "size"]


def test_groups_of_pandas_print_their_intervals():
    frame = pd.DataFrame({"city": list("ab") * 200, "rent": normal(400) + 5})
    printed = str(frame.groupby("city").rent.apply(ov.mean))
    assert re.search(r"^a +mean \d+\.\d+ ± \d", printed, re.MULTILINE)


def test_html_of_many_columns_shows_the_first():
    found = ov.mean(np.random.default_rng(0).normal(size=(30, 500)))
    text = found._repr_html_()
    assert text.count("<tr>") == 1 + 200 + 1
    assert "the first 200 of 500 lines" in text
    assert "lines" not in ov.mean(np.ones((30, 200)))._repr_html_()


def test_estimates_are_rounded_to_their_radius():
    for estimate, radius, text in (
        (0.0129, 0.2137, "0.01 ± 0.21"), (1234.567, 12.3, "1235 ± 12"), (5.0, 123456.0, "5 ± 123456"),
        (3.14159, math.inf, "3.142"), (3.14159, math.nan, "3.142"), (3.14159, 0.0, "3.142"), (2e13, 5.0, "2e+13 ± 5"),
        (0.000123456, 0.0000321, "0.000123 ± 0.000032"), (1.5, 1e-15, "1.5 ± 1e-15"),
    ):  # fmt: skip
        assert with_radius(estimate, radius) == text
    for estimate, radius in ((5.0, 1e300), (1e300, 1e299), (0.0, 5e-324)):
        assert len(with_radius(estimate, radius)) < 30


def test_html_escapes_names(table):
    text = table._repr_html_()
    assert "<b>price</b>" not in text
    assert "&lt;b&gt;price&lt;/b&gt;" in text
    assert "size &amp; weight" in text
    assert text.count("<tr>") == 3
    for value in table.estimate:
        assert f"<td>{value:.6g}</td>" in text
    kernel = ov.Kernel(max, name="<script>alert(1)</script>")
    text = ov.u_statistic(normal(30), kernel=kernel, contamination=0)._repr_html_()
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_to_dict(mean, table, grid, difference):
    data = strict(mean)
    expected = {
        "statistic": "mean", "estimate": mean.estimate, "names": None, "n_rows": 400, "n_blocks": 27, "block_size": 14,
        "n_corrupt": 4, "n_left_out": 400 - 27 * 14, "n_omitted": 0, "seed": 0, "partition": "random",
        "alternative": "two-sided", "block_values": mean.block_values.tolist(), "block_sizes": [14] * 27,
        "provenance": mean.certificate.provenance, "low": mean.low, "high": mean.high, "radius": mean.radius,
    }  # fmt: skip
    assert {name: data[name] for name in expected} == expected
    assert 0 < data["confidence"] <= 1
    data = strict(table)
    assert (data["names"], data["estimate"]) == (["<b>price</b>", "size & weight"], table.estimate.tolist())
    assert len(data["low"]) == len(data["high"]) == 2
    data = strict(grid)
    assert (data["n_rows"], data["n_corrupt"]) == ([100, 80], [2, 1])
    assert np.shape(data["block_values"]) == grid.plan.n_blocks
    assert [len(v) for v in strict(difference)["block_values"]] == list(difference.plan.n_blocks)
