"""Arguments at the ends of what floats can say, and of other kinds: a clear error, or a right answer."""

import math

import numpy as np
import pandas as pd
import pytest

import outvote as ov

X, Y = np.random.default_rng(0).normal(size=(2, 300))

ASKED = {
    "mean": lambda x, **asked: ov.mean(x, **asked),
    "median": lambda x, **asked: ov.mean(x, vote="median", rng=0, **asked),
    "hash": lambda x, **asked: ov.mean(x, partition="hash", rng=0, **asked),
    "difference": lambda x, **asked: ov.difference(x, x[::-1], **asked),
    "quantile": lambda x, **asked: ov.quantile(x, **asked),
    "risk": lambda x, **asked: ov.certify_risk(x, **asked),
    "tolerance": lambda x, **asked: ov.tolerance(x, claim="mean > 0", **asked).estimate,
}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("confidence", [1e-17, 5e-324, 10**400])
def test_confidences_that_say_nothing_are_refused(name, confidence):
    with pytest.raises(ValueError, match="confidence"):
        ASKED[name](X, confidence=confidence)


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("scale", [4e307, 1e300, 1e-300, 1e-320])
def test_rows_at_the_ends_of_floats_have_an_interval_around_the_estimate(name, scale):
    found = ASKED[name](X * scale, contamination=3)
    assert found.interval.low <= found.estimate <= found.interval.high
    assert math.isfinite(found.estimate)


def test_quantiles_beyond_all_floats_are_refused():
    for ask in (lambda: ov.quantile(X, 10**400), lambda: ov.quantile_difference(X, Y, 10**400)):
        with pytest.raises(ValueError, match="q is too large for a float"):
            ask()


def test_columns_of_the_same_name_are_refused():
    frame = pd.DataFrame(np.c_[X, Y], columns=["a", "a"])
    with pytest.raises(ValueError, match="x has two columns of the same name: rename one"):
        ov.mean(frame)


def test_ragged_losses_are_called_so():
    with pytest.raises(ValueError, match="losses is ragged"):
        ov.certify_risk([[1, 2], [3]])


def test_nan_is_of_the_argument_that_was_given():
    with pytest.raises(ValueError, match="x has NaN or infinite values in 1 of 301 rows"):
        ov.mean(np.r_[X, np.nan], partition="hash")


@pytest.mark.parametrize(("size", "sd"), [(1e308, 1e-3), (1e300, 1.0)])
@pytest.mark.parametrize("ask", [ov.mean, lambda x, *asked, **known: ov.difference(x, x, *asked, **known)])
def test_a_scale_that_is_nothing_beside_the_rows_is_refused(ask, size, sd):
    with pytest.raises(ValueError, match=r"assume.* the rows .* subtract a typical row"):
        ask(np.full(50, size), 1, assume=ov.FiniteVariance(sd))


def test_equal_rows_far_from_zero_keep_their_mean():
    found = ov.mean(np.full(50, 1e140), 1, assume=ov.FiniteVariance(1.0))
    assert found.interval.low <= 1e140 <= found.interval.high
    assert found.interval.high - found.interval.low < 1e128


def test_a_contradicted_assumption_is_named_as_it_was_declared():
    with pytest.raises(ValueError, match=r"sd=1e\+199"):
        ov.difference(X * 1e200, Y * 1e200, 1, assume=ov.FiniteVariance(1e199))


def test_a_premise_grows_in_few_steps_to_whatever_the_rows_ask_for():
    x = np.r_[np.full(40, -1e300), X * 1e-3]
    found = ov.mean(x, 2)
    assert found.interval.low < -1e298
    assert found.certificate.premise_sd > 1e298
    watched = ov.Monitor().update(np.r_[X * 1e-3, np.full(40, -1e300)]).result()
    assert watched.interval.low < -1e298


def test_rows_that_contradict_the_one_assumption_of_two_samples_are_refused():
    with pytest.raises(ValueError, match="contradict"):
        ov.difference(np.r_[X, X + 1e6], Y, contamination=0, assume=(ov.FiniteVariance(1e-3), None))


@pytest.mark.parametrize("claim", [2, True, b"x", ["difference > 0"]])
def test_a_claim_about_pairs_that_is_not_text_is_refused(claim):
    with pytest.raises(TypeError, match=r"claim=.* must read like"):
        ov.tolerance(X, Y, claim=claim, paired=True)


@pytest.mark.parametrize("wrong", [None, "yes", 1, np.array([1, 2])])
@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("relative", ov.difference),
        ("paired", ov.difference),
        ("paired", ov.tolerance),
        ("simultaneous", lambda x, y, **asked: ov.mean(x, **asked)),
        ("simultaneous", lambda x, y, **asked: ov.quantile(x, **asked)),
        ("simultaneous", ov.quantile_difference),
        ("simultaneous", lambda x, y, **asked: ov.u_statistic(x, y, kernel="auc", **asked)),
    ],
)
def test_what_is_neither_true_nor_false_is_refused(name, ask, wrong):
    with pytest.raises(TypeError, match=f"{name}=.* must be True or False"):
        ask(X, Y, **{name: wrong})


@pytest.mark.parametrize("alternative", ["less", "greater", "two-sided"])
def test_contradicted_scales_of_two_samples_are_refused_on_one_side_too(alternative):
    with pytest.raises(ValueError, match="the rows contradict assume"):
        ov.difference(X * 1e-8, Y * 50, 0.01, 0.5, assume=ov.FiniteKurtosis(5.0, sd=1e-8), alternative=alternative)
