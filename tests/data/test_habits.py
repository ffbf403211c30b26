"""What people try first, and what they are told."""

import sys
import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import outvote as ov

X = np.random.default_rng(0).normal(size=200)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: ov.mean(X, nan="omit"), r"mean\(\) has no argument 'nan': did you mean nan_policy\?"),
        (lambda: ov.mean(X, contaminaton=0.1), "did you mean contamination?"),
        (lambda: ov.quantile(X, 0.5, seed=1), "it takes x, q"),
        (lambda: ov.u_statistic(X, kernel="variance", seed=1), "did you mean rng?"),
        (lambda: ov.mean(pl.DataFrame({"v": X}), by="g"), r"outvote\.scan\(frame\)\.mean\('column', by='group'\)"),
        (lambda: ov.mean(pl.LazyFrame({"v": X})), r"x is lazy: use outvote\.scan\(frame\)\.mean\('column'\)"),
        (lambda: ov.mean(duckdb.sql("SELECT 1 AS v")), r"x is lazy: use outvote\.scan\(frame\)"),
        (lambda: ov.mean(X, assume=(0, 1)), r"did you mean outvote\.Bounded\(0, 1\)\?"),
        (lambda: ov.difference(X, X, assume=(0, 1)), r"bounds of 0 and 1 are Bounded\(0, 1\)"),
        (lambda: ov.mean(X, "one"), "contamination='one' must be a fraction below 0.5"),
        (lambda: float(ov.mean(np.c_[X, X])), "there are 2 columns, not one number"),
    ],
)
def test_mistakes_name_what_works(call, told):
    with pytest.raises(TypeError, match=told):
        call()


def test_errors_inside_of_a_call_are_left_alone():
    with pytest.raises(TypeError, match=r"^x holds strings"):
        ov.mean("file.csv")
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        ov.mean()


@pytest.mark.parametrize("library", [pd, pl])
def test_columns_of_text_show_a_value_and_the_way_to_numbers(library):
    text = library.DataFrame({"k": ["red", "blue"], "v": [1.0, 2.0]})
    with pytest.raises(TypeError, match=r"x has a column 'k' of .* values, 'red' for instance, but .*to_numeric"):
        ov.mean(text)
    with pytest.raises(TypeError, match=r"^x holds .* values, 'red' for instance"):
        ov.mean(library.Series(["red", "blue"]))


def test_percentages_are_fractions():
    for percent, share in (("1%", 0.01), ("0.5 %", 0.005), (" 12.5% ", 0.125)):
        assert ov.Contamination(percent) == ov.Contamination(share)
    assert ov.mean(X, "1%").interval == ov.mean(X, 0.01).interval
    assert ov.difference(X, X, ("1%", 5)).plan.n_corrupt == (2, 5)
    with pytest.raises(ValueError, match=r"must be a fraction below 0.5"):
        ov.mean(X, "60%")


def test_names_of_other_modules_and_misspelt_names(monkeypatch):
    with pytest.raises(AttributeError, match=r"it is outvote\.metrics\.robust_scorer"):
        _ = ov.robust_scorer
    with pytest.raises(AttributeError) as error:
        _ = ov.Robustclassifier
    assert (error.value.name, error.value.obj) == ("Robustclassifier", ov)  # the traceback says what is near
    for start, module in ov._ELSEWHERE.items():
        if module != "torch":
            assert any(name.startswith(start) for name in getattr(ov, module).__all__)
    with pytest.raises(AttributeError, match=r"'robust_f1'$"):
        _ = ov.robust_f1
    monkeypatch.setitem(sys.modules, "outvote.torch", None)  # as if torch were not installed
    with pytest.raises(AttributeError, match=r"it is outvote\.torch\.trusted_rows"):
        _ = ov.trusted_rows
    assert "annotations" not in dir(ov.metrics)


def test_row_ids_that_cannot_be_distinct_are_warned_of(tmp_path):
    frame = pl.DataFrame({"v": X, "user": np.arange(200) // 4, "id": np.arange(200)})
    frame.write_csv(tmp_path / "x.csv")
    for source in (frame, str(tmp_path / "x.csv")):
        with pytest.warns(UserWarning, match="row_id='user' has 200 rows, but only 50 integers from 0 to 49"):
            ov.scan(source, row_id="user").mean("v", contamination=1, vote="median", rng=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ov.scan(source, row_id="id").mean("v", contamination=1, vote="median", rng=0)
