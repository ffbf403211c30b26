"""Invalid input raises errors that name the argument, its value and a remedy, in every estimator."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import outvote as ov

GOOD = np.linspace(-1.0, 1.0, 40)
#: What each calls the sample, and how it is asked.
CALLS = {
    "x": lambda x, **options: ov.mean(x, **options),
    "x of pairs": lambda x, **options: ov.u_statistic(x, kernel="variance", **options),
    "sample 2": lambda x, **options: ov.u_statistic(GOOD, x, kernel="auc", **options),
    "b": lambda x, **options: ov.difference(GOOD, x, **options),
}


def holed(*values):
    x = GOOD.copy()
    x[[7, *range(9, 8 + len(values))]] = values
    return x


NAN = np.full(40, np.nan)
FRAMES = [library.DataFrame({"price": [1.0, 2.0], "city": ["Paris", "Rome"]}) for library in (pd, pl)]
CITIES = [pd.Series(["Paris", "Rome"], name="city"), pl.Series("city", ["Paris", "Rome"])]
#: Rows, options, the error, and what it says, where NAME stands for the name of the sample.
ROWS = [
    *((x, {}, ValueError, "NAME is empty: at least one row") for x in ([], np.empty((0, 3)), pd.Series([], dtype=float),
                                                                      pl.Series([], dtype=pl.Float64))),
    (np.empty((3, 0)), {}, ValueError, r"NAME has shape \(3, 0\)"),
    *((holed(value, value), {}, ValueError, r"NAME has NaN or infinite values in 2 of 40 rows \(the first is row 7\)")
      for value in (np.nan, np.inf, -np.inf)),
    (holed(-np.inf, np.nan), {"nan_policy": "omit"}, ValueError,
     "NAME has infinite values, which are not missing, in 1 of 40 rows .*row 7"),
    (holed(np.nan, np.nan, np.nan), {"nan_policy": "corrupt", "contamination": 2}, ValueError,
     "NAME has NaN or infinite values in 3 rows, more than the 2 .*at least 3"),
    (NAN, {"nan_policy": "omit"}, ValueError, "NAME without its rows with NaN is empty"),
    (NAN, {"nan_policy": "corrupt", "contamination": 19}, ValueError, "more than the 19 corrupt rows"),
    (["1", "2"], {}, TypeError, "NAME holds strings, but real numbers are needed"),
    ([1 + 2j, 3.0], {}, TypeError, "NAME holds complex numbers, but real numbers are needed"),
    ([None, 1.0], {}, TypeError, "NAME holds object values, but real numbers are needed"),
    *((x, {}, TypeError, "NAME has a column 'city' of .* values, 'Paris' for instance") for x in FRAMES),
    *((x, {}, TypeError, "NAME has a column 'city' of .* values") for x in CITIES),
    (pl.LazyFrame({"price": [1.0, 2.0]}), {}, TypeError, "NAME is lazy: use outvote.scan"),
    (np.ma.masked_array(GOOD, mask=GOOD > 0), {}, TypeError, r"NAME is a masked array: pass NAME\.filled"),
    ([[1.0, 2.0], [3.0]], {}, ValueError, "NAME is ragged: its rows have different lengths"),
    *((x, {}, ValueError, "NAME=.* is a single number, but rows are needed") for x in (3.0, np.array(5), True)),
]  # fmt: skip
OPTIONS = [
    *(({"nan_policy": one}, ValueError, f"nan_policy={one!r} must be one of 'raise', 'omit', 'corrupt'")
      for one in ("drop", None, 0)),
    *(({"contamination": one}, ValueError, rf"contamination={one!r} (must be a fraction below 0\.5|is negative)")
      for one in (-0.1, 0.5, 1.0, float("nan"), float("inf"))),
    ({"contamination": -1}, ValueError, "contamination=-1 is a negative count"),
    *(({"contamination": one}, ValueError, rf"contamination={one} means {one} corrupt rows among 40, .*here is 19")
      for one in (20, 40, 1000)),
    *(({"contamination": one}, TypeError, "contamination=.* must be a fraction") for one in ("1", None, True, [None])),
    *(({"n_blocks": one}, ValueError, f"n_blocks={one} must be at least 1") for one in (0, -3)),
    *(({"n_blocks": one}, TypeError, "n_blocks=.* must be an integer") for one in (2.5, 3.0, True, None)),
    ({"n_blocks": "many"}, ValueError, "n_blocks='many' must be 'auto' or a number"),
    *(({"confidence": one}, (ValueError, TypeError), f"confidence={one!r} must")
      for one in (0, 1, -0.5, 1.5, float("nan"), "high", None, True)),
    ({"confidence": 95}, ValueError, r"confidence=95 must .*did you mean 0\.95\?"),
    *(({name: one}, ValueError, f"{name}='{one}'") for name, one in (
        ("partition", "shuffled"), ("remainder", "keep"), ("vote", "loudest"), ("alternative", "both"))),
    ({"rng": -1}, ValueError, "rng=-1 is negative"),
    *(({"rng": one}, TypeError, r"rng=.* must be an integer seed")
      for one in ("seed", 1.5, True, np.random.RandomState(0))),
]  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_wrong_rows_raise(name):
    for x, options, error, message in ROWS:
        with pytest.raises(error, match=message.replace("NAME", name.split(" of ")[0])):
            CALLS[name](x, **options)
    assert CALLS[name](holed(*NAN[:3]), nan_policy="corrupt", contamination=3).n_omitted == 3
    missing = "b is missing: difference takes two samples" if name == "b" else "holds object values"
    with pytest.raises(TypeError, match=missing):
        CALLS[name](None)
    if name != "x":
        with pytest.raises(ValueError, match=r"has shape \(2, 3, 4\): a sample is 1-D .* or 2-D"):
            CALLS[name](np.ones((2, 3, 4)))


@pytest.mark.parametrize("name", CALLS)
def test_wrong_options_raise(name):
    for options, error, message in OPTIONS:
        with pytest.raises(error, match=message):
            CALLS[name](GOOD, **({"contamination": 0} if "n_blocks" in options else {}) | options)


@pytest.mark.parametrize("name", CALLS)
def test_more_blocks_than_rows_or_pairs_raises(name):
    most = 20 if name == "x of pairs" else 40
    message = f"n_blocks={most + 1} leaves fewer than {40 // most} row.* for a block: with 40 rows the most is {most}"
    with pytest.raises(ValueError, match=message):
        CALLS[name](GOOD, contamination=0, n_blocks=most + 1)
    assert CALLS[name](GOOD, contamination=0, n_blocks=most).plan.n_blocks in (most, (most, most))


@pytest.mark.parametrize("name", CALLS)
def test_too_few_given_blocks_give_an_estimate_without_a_guarantee(name):
    for k in (1, 10):
        result = CALLS[name](GOOD, contamination=5, n_blocks=k)
        assert np.isfinite(result.estimate)
        assert not result.plan.holds
        assert result.radius == np.inf
        assert "corrupt rows could outvote the clean ones" in str(result)
        assert "nothing is guaranteed" in result.explain()


@pytest.mark.parametrize(("name", "expected"), zip(CALLS, (7.0, 0.0, 1.0, 7.0 - np.median(GOOD)), strict=True))
def test_equal_rows_have_an_estimate(name, expected):
    result = CALLS[name](np.full(40, 7.0), contamination=0, n_blocks=20 if name == "x of pairs" else 40)
    assert result.estimate == pytest.approx(expected)


def test_too_few_rows_for_the_degree_raise():
    triples = ov.Kernel(lambda a, b, c: a + b + c, 3)
    for samples, kernel, message in (
        (([1.0],), "gini", "degree 2 needs at least 2 rows, but the sample has 1"),
        ((GOOD, [1.0]), "energy", "degree 2 needs at least 2 rows, but sample 2 has 1"),
        (([1.0, 2.0],), triples, "degree 3 needs at least 3 rows, but the sample has 2"),
    ):
        with pytest.raises(ValueError, match=message):
            ov.u_statistic(*samples, kernel=kernel, contamination=0, vote="median")


def test_wrong_numbers_of_amounts_and_of_blocks_raise():
    def auc(**options):
        return ov.u_statistic(GOOD, GOOD, kernel="auc", **options)

    for call, message in (
        (lambda: ov.mean(GOOD, contamination=(1, 2)), r"contamination=\(1, 2\) has 2 amounts, but there is 1 sample"),
        (lambda: ov.difference(GOOD, GOOD, contamination=(1, 2, 3)), "has 3 amounts, but there are 2 samples"),
        (lambda: auc(contamination=(1, 2, 3)), "has 3 amounts, but there are 2 samples"),
        (lambda: ov.mean(GOOD, 0, n_blocks=(2, 3)), r"n_blocks=\(2, 3\) has 2 entries for 1 samples"),
        (lambda: ov.difference(GOOD, GOOD, 0, n_blocks=(3, 3, 3)), "has 3 entries for 2 samples"),
        (lambda: auc(contamination=0, n_blocks=(2, 3), grid="diagonal"), "on the diagonal all samples have the same"),
        (lambda: auc(grid="half"), r"grid='half' .*'full'.*'diagonal'"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(("n_samples", "where"), [(1, "for pairs here is "), (2, "here is ")])
def test_contamination_too_large_for_blocks_names_the_largest(n_samples, where):
    def ask(contamination):
        kernel = ("variance", "auc")[n_samples - 1]
        return ov.u_statistic(*[GOOD] * n_samples, kernel=kernel, contamination=contamination, vote="median")

    with pytest.raises(ValueError, match=r"contamination=15 asks for .*") as caught:
        ask(15)
    largest = int(str(caught.value).split(where)[1].split(" rows")[0])
    assert ask(largest).plan.holds
    with pytest.raises(ValueError, match=f"contamination={largest + 1} asks for"):
        ask(largest + 1)


def test_wrong_axes_weights_and_kernels_raise():
    for axis in (1, -2, 5):
        with pytest.raises(ValueError, match=f"axis={axis} does not exist: x has 1 dimension"):
            ov.mean(GOOD, axis=axis)
    for axis in ("rows", 0.0, True, (0, 1)):
        with pytest.raises(TypeError, match=r"axis=.* must be an integer, or None to flatten"):
            ov.mean(GOOD, axis=axis)
    with pytest.raises(TypeError, match="weights are not supported: one heavy row would decide its block"):
        ov.mean(GOOD, weights=np.ones(40))
    with pytest.raises(ValueError, match=r"kernel='varience' is unknown: did you mean 'variance'\?"):
        ov.u_statistic(GOOD, kernel="varience")
    with pytest.raises(TypeError, match=r"outvote\.Kernel\(function, degrees=\.\.\.\)"):
        ov.u_statistic(GOOD, kernel=lambda a, b: a * b)
    with pytest.raises(TypeError, match="kernel=None must be a name or an"):
        ov.u_statistic(GOOD, kernel=None)
