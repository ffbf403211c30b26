"""Invalid input raises errors that name the argument, its value and a remedy, in every estimator."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import outvote as ov

GOOD = np.linspace(-1.0, 1.0, 40)


def call_mean(x, **options):
    return ov.mean(x, **options)


def call_variance(x, **options):
    return ov.u_statistic(x, kernel="variance", **options)


def call_auc(x, **options):
    return ov.u_statistic(GOOD, x, kernel="auc", **options)


def call_difference(x, **options):
    return ov.difference(GOOD, x, **options)


#: Each with the name under which it knows the sample.
CALLS = [(call_mean, "x"), (call_variance, "x"), (call_auc, "sample 2"), (call_difference, "b")]
everywhere = pytest.mark.parametrize(("call", "name"), CALLS)


# --- the rows -----------------------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize(
    "x", [[], np.empty(0), np.empty((0, 3)), pd.Series([], dtype=float), pl.Series([], dtype=pl.Float64)]
)
def test_empty_samples_raise(call, name, x):
    with pytest.raises(ValueError, match=f"{name} is empty: at least one row"):
        call(x)


@everywhere
def test_rows_without_columns_raise(call, name):
    with pytest.raises(ValueError, match=rf"{name} has shape \(3, 0\)"):
        call(np.empty((3, 0)))


@everywhere
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinities_raise(call, name, value):
    x = GOOD.copy()
    x[[7, 9]] = value
    with pytest.raises(ValueError, match=rf"{name} has NaN or infinite values in 2 of 40 rows \(the first is row 7\)"):
        call(x)


@everywhere
def test_policy_omit_refuses_infinities(call, name):
    x = GOOD.copy()
    x[3], x[7] = np.nan, -np.inf
    with pytest.raises(
        ValueError, match=rf"{name} has infinite values, which are not missing, in 1 of 40 rows .*row 7"
    ):
        call(x, nan_policy="omit")


@everywhere
def test_more_nan_than_corrupt_rows_raises(call, name):
    x = GOOD.copy()
    x[:3] = np.nan
    with pytest.raises(ValueError, match=rf"{name} has NaN or infinite values in 3 rows, more than the 2 .*at least 3"):
        call(x, nan_policy="corrupt", contamination=2)
    assert call(x, nan_policy="corrupt", contamination=3).n_omitted == 3


@everywhere
def test_samples_of_nan_raise(call, name):
    with pytest.raises(ValueError, match=f"{name} without its rows with NaN is empty"):
        call(np.full(40, np.nan), nan_policy="omit")
    with pytest.raises(ValueError, match="more than the 19 corrupt rows"):
        call(np.full(40, np.nan), nan_policy="corrupt", contamination=19)


@everywhere
@pytest.mark.parametrize("nan_policy", ["drop", "propagate", None, 0])
def test_unknown_nan_policy_raises(call, name, nan_policy):
    with pytest.raises(ValueError, match=f"nan_policy={nan_policy!r} must be one of 'raise', 'omit', 'corrupt'"):
        call(GOOD, nan_policy=nan_policy)


@everywhere
@pytest.mark.parametrize(
    ("x", "found"),
    [
        (["1", "2"], "strings"),
        ([1 + 2j, 3.0], "complex numbers"),
        ([None, 1.0], "object values"),
    ],
)
def test_values_that_are_no_real_numbers_raise(call, name, x, found):
    with pytest.raises(TypeError, match=f"{name} holds {found}, but real numbers are needed"):
        call(x)


@everywhere
def test_none_raises(call, name):
    expected = (
        "b is missing: difference takes two samples" if call is call_difference else f"{name} holds object values"
    )
    with pytest.raises(TypeError, match=expected):
        call(None)


@everywhere
@pytest.mark.parametrize("library", [pd, pl])
def test_columns_of_text_raise(call, name, library):
    with pytest.raises(
        TypeError, match=f"{name} has a column 'city' of .* values, 'Paris' for instance, but real numbers are needed"
    ):
        call(library.DataFrame({"price": [1.0, 2.0], "city": ["Paris", "Rome"]}))
    with pytest.raises(TypeError, match=f"{name} has a column 'city' of .* values"):
        call(library.Series(name="city", **{"data" if library is pd else "values": ["Paris", "Rome"]}))


@everywhere
def test_lazy_frames_raise(call, name):
    with pytest.raises(TypeError, match=f"{name} is lazy: use outvote.scan"):
        call(pl.LazyFrame({"price": [1.0, 2.0]}))


@everywhere
def test_masked_arrays_raise(call, name):
    with pytest.raises(TypeError, match=rf"{name} is a masked array: pass {name}\.filled"):
        call(np.ma.masked_array(GOOD, mask=GOOD > 0))


@everywhere
def test_ragged_rows_raise(call, name):
    with pytest.raises(ValueError, match=f"{name} is ragged: its rows have different lengths"):
        call([[1.0, 2.0], [3.0]])


@everywhere
@pytest.mark.parametrize("x", [3.0, np.float64(2), np.array(5), True])
def test_single_numbers_raise(call, name, x):
    with pytest.raises(ValueError, match=f"{name}=.* is a single number, but rows are needed"):
        call(x)


@pytest.mark.parametrize(("call", "name"), CALLS[1:])
def test_three_dimensions_raise(call, name):
    with pytest.raises(ValueError, match=rf"{name} has shape \(2, 3, 4\): a sample is 1-D .* or 2-D"):
        call(np.ones((2, 3, 4)))


def test_too_few_rows_for_the_degree_raise():
    with pytest.raises(ValueError, match="degree 2 needs at least 2 rows, but the sample has 1"):
        ov.u_statistic([1.0], kernel="gini", contamination=0, vote="median")
    with pytest.raises(ValueError, match="degree 2 needs at least 2 rows, but sample 2 has 1"):
        ov.u_statistic(GOOD, [1.0], kernel="energy", contamination=0, vote="median")
    with pytest.raises(ValueError, match="degree 3 needs at least 3 rows, but the sample has 2"):
        ov.u_statistic([1.0, 2.0], kernel=ov.Kernel(lambda a, b, c: a + b + c, 3), contamination=0, vote="median")


# --- contamination --------------------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("amount", [-0.1, 0.5, 0.7, 1.0, float("nan"), float("inf")])
def test_contamination_out_of_range_raises(call, name, amount):
    with pytest.raises(ValueError, match=rf"contamination={amount!r} (must be a fraction below 0\.5|is negative)"):
        call(GOOD, contamination=amount)


@everywhere
def test_negative_contamination_raises(call, name):
    with pytest.raises(ValueError, match="contamination=-1 is a negative count"):
        call(GOOD, contamination=-1)


@everywhere
@pytest.mark.parametrize("count", [20, 21, 40, 1000])
def test_contamination_of_half_the_rows_raises(call, name, count):
    with pytest.raises(
        ValueError, match=rf"contamination={count} means {count} corrupt rows among 40, .*largest count here is 19"
    ):
        call(GOOD, contamination=count)


@everywhere
@pytest.mark.parametrize("amount", ["1", None, True, [None]])
def test_contamination_of_wrong_type_raises(call, name, amount):
    with pytest.raises(TypeError, match=r"contamination=.* must be a fraction"):
        call(GOOD, contamination=amount)


def test_wrong_number_of_contaminations_raises():
    with pytest.raises(ValueError, match=r"contamination=\(1, 2\) has 2 amounts, but there is 1 sample"):
        ov.mean(GOOD, contamination=(1, 2))
    with pytest.raises(ValueError, match=r"contamination=\(1, 2, 3\) has 3 amounts, but there are 2 samples"):
        ov.difference(GOOD, GOOD, contamination=(1, 2, 3))
    with pytest.raises(ValueError, match=r"contamination=\(1, 2, 3\) has 3 amounts, but there are 2 samples"):
        ov.u_statistic(GOOD, GOOD, kernel="auc", contamination=(1, 2, 3))


def test_contamination_too_large_for_pairs_raises():
    with pytest.raises(
        ValueError, match=r"contamination=0\.3 asks for .* blocks of at least 2 rows, but there are 40"
    ) as caught:
        ov.u_statistic(GOOD, kernel="variance", contamination=0.3, vote="median")
    largest = int(str(caught.value).split("for pairs here is ")[1].split(" rows")[0])
    assert ov.u_statistic(GOOD, kernel="variance", contamination=largest, vote="median").plan.holds
    with pytest.raises(ValueError, match=f"contamination={largest + 1} asks for"):
        ov.u_statistic(GOOD, kernel="variance", contamination=largest + 1, vote="median")


def test_contamination_too_large_for_two_samples_raises():
    with pytest.raises(ValueError, match=r"contamination=15 asks for .* in each sample") as caught:
        ov.u_statistic(GOOD, GOOD, kernel="auc", contamination=15, vote="median")
    largest = int(str(caught.value).split("here is ")[1].split(" rows")[0])
    assert ov.u_statistic(GOOD, GOOD, kernel="auc", contamination=largest, vote="median").plan.holds
    with pytest.raises(ValueError, match="asks for"):
        ov.u_statistic(GOOD, GOOD, kernel="auc", contamination=largest + 1, vote="median")


# --- blocks ------------------------------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("n_blocks", [0, -3])
def test_less_than_one_block_raises(call, name, n_blocks):
    with pytest.raises(ValueError, match=f"n_blocks={n_blocks} must be at least 1"):
        call(GOOD, contamination=0, n_blocks=n_blocks)


@everywhere
def test_more_blocks_than_rows_or_pairs_raises(call, name):
    most = 20 if call is call_variance else 40
    message = f"n_blocks={most + 1} leaves fewer than {40 // most} row.* for a block: with 40 rows the most is {most}"
    with pytest.raises(ValueError, match=message):
        call(GOOD, contamination=0, n_blocks=most + 1)
    assert call(GOOD, contamination=0, n_blocks=most).plan.n_blocks in (most, (most, most))


@everywhere
@pytest.mark.parametrize("n_blocks", [2.5, 3.0, True, None])
def test_number_of_blocks_of_wrong_type_raises(call, name, n_blocks):
    with pytest.raises(TypeError, match=r"n_blocks=.* must be an integer"):
        call(GOOD, contamination=0, n_blocks=n_blocks)


@everywhere
def test_unknown_word_for_the_number_of_blocks_raises(call, name):
    with pytest.raises(ValueError, match="n_blocks='many' must be 'auto' or a number"):
        call(GOOD, contamination=0, n_blocks="many")


def test_wrong_number_of_block_counts_raises():
    with pytest.raises(ValueError, match=r"n_blocks=\(2, 3\) has 2 entries for 1 samples"):
        ov.mean(GOOD, contamination=0, n_blocks=(2, 3))
    with pytest.raises(ValueError, match=r"n_blocks=\(2, 3\): on the diagonal all samples have the same number"):
        ov.u_statistic(GOOD, GOOD, kernel="auc", contamination=0, n_blocks=(2, 3), grid="diagonal")


@everywhere
@pytest.mark.parametrize("k", [1, 2, 10])
def test_too_few_given_blocks_give_an_estimate_without_a_guarantee(call, name, k):
    result = call(GOOD, contamination=5, n_blocks=k)
    assert np.isfinite(result.estimate)
    assert not result.plan.holds
    assert result.radius == np.inf
    assert "corrupt rows could outvote the clean ones" in str(result)
    assert "nothing is guaranteed" in result.explain()


# --- the other arguments --------------------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("confidence", [0, 1, -0.5, 1.5, float("nan"), "high", None, True])
def test_confidence_out_of_range_raises(call, name, confidence):
    with pytest.raises((ValueError, TypeError), match=f"confidence={confidence!r} must"):
        call(GOOD, confidence=confidence)


@everywhere
def test_confidence_in_percent_gets_a_hint(call, name):
    with pytest.raises(ValueError, match=r"confidence=95 must .*did you mean 0\.95\?"):
        call(GOOD, confidence=95)


@everywhere
@pytest.mark.parametrize(
    ("option", "value"),
    [("partition", "shuffled"), ("remainder", "keep"), ("vote", "loudest"), ("alternative", "both")],
)
def test_unknown_choices_raise(call, name, option, value):
    with pytest.raises(ValueError, match=f"{option}='{value}'"):
        call(GOOD, **{option: value})


def test_unknown_grid_raises():
    with pytest.raises(ValueError, match=r"grid='half' .*'full'.*'diagonal'"):
        ov.u_statistic(GOOD, GOOD, kernel="auc", grid="half")


@everywhere
def test_invalid_seeds_raise(call, name):
    with pytest.raises(ValueError, match="rng=-1 is negative"):
        call(GOOD, rng=-1)
    for rng in ("seed", 1.5, True, np.random.RandomState(0)):
        with pytest.raises(TypeError, match=r"rng=.* must be an integer seed"):
            call(GOOD, rng=rng)


@pytest.mark.parametrize("axis", [1, -2, 5])
def test_missing_axis_raises(axis):
    with pytest.raises(ValueError, match=f"axis={axis} does not exist: x has 1 dimension"):
        ov.mean(GOOD, axis=axis)


@pytest.mark.parametrize("axis", ["rows", 0.0, True, (0, 1)])
def test_axis_of_wrong_type_raises(axis):
    with pytest.raises(TypeError, match=r"axis=.* must be an integer, or None to flatten"):
        ov.mean(GOOD, axis=axis)


@pytest.mark.parametrize("weights", [np.ones(40), [1.0], 3])
def test_weights_raise(weights):
    with pytest.raises(TypeError, match="weights are not supported: one heavy row would decide its block"):
        ov.mean(GOOD, weights=weights)


def test_unknown_kernels_raise():
    with pytest.raises(ValueError, match=r"kernel='varience' is unknown: did you mean 'variance'\?"):
        ov.u_statistic(GOOD, kernel="varience")
    with pytest.raises(TypeError, match=r"outvote\.Kernel\(function, degrees=\.\.\.\)"):
        ov.u_statistic(GOOD, kernel=lambda a, b: a * b)
    with pytest.raises(TypeError, match="kernel=None must be a name or an"):
        ov.u_statistic(GOOD, kernel=None)


@everywhere
def test_equal_rows_have_an_estimate(call, name):
    expected = {call_mean: 7.0, call_variance: 0.0, call_auc: 1.0, call_difference: 7.0 - np.median(GOOD)}[call]
    result = call(np.full(40, 7.0), contamination=0, n_blocks=(40 if call is not call_variance else 20))
    assert result.estimate == pytest.approx(expected)
