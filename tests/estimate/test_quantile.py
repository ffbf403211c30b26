"""Quantiles: which rows are their ends, names and shapes, NaN and infinities, too few rows, bad input."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import outvote as ov
from outvote.estimate.shares import rows_in_order

SKEWED = np.random.default_rng(0).exponential(size=2000)
samples = st.lists(st.floats(-1e300, 1e300) | st.sampled_from([0.0, 1.0, 2.0]), min_size=7, max_size=60)
shares = st.sampled_from([0.05, 0.25, 0.5, 0.75, 0.9])


def ranks_by_definition(n, m, q, alpha, adaptive):
    """The largest ranks whose binomial tails are at most alpha, one after the other."""
    n_trials, lost = (n, m) if adaptive else (n - m, 0)
    tails = [[stats.binom.cdf(r - 1 + lost, n_trials, share) for r in range(1, n_trials + 1)] for share in (q, 1 - q)]
    return [max((r for r, tail in enumerate(side, 1) if tail <= alpha), default=0) for side in tails]


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize(("n", "m", "q"), [(60, 0, 0.5), (200, 6, 0.9), (200, 3, 0.02), (7, 1, 0.5)])
def test_the_ends_are_the_rows_of_the_definition(n, m, q, adversary):
    x, allowed = np.random.default_rng(n).permutation(np.arange(1.0, n + 1)), ov.Contamination(m, adversary)

    def ends(alpha):
        low, high = ranks_by_definition(n, m, q, alpha, adversary == "adaptive")
        return low or -math.inf, n + 1 - high if high else math.inf

    assert ov.quantile(x, q, contamination=allowed).interval == ends(0.025)
    for side, expected in (("greater", (ends(0.05)[0], math.inf)), ("less", (-math.inf, ends(0.05)[1]))):
        assert ov.quantile(x, q, contamination=allowed, alternative=side).interval == expected


def test_the_estimate_is_the_sample_quantile():
    for n in (1, 2, 7, 8, 101):
        x = np.random.default_rng(n).normal(size=n)
        for q in (0.25, 0.5, 0.875):
            assert ov.quantile(x, q, contamination=0).estimate == np.quantile(x, q, method="inverted_cdf")
    # A share is the decimal as written: 0.07 * 100 is above 7 in floats.
    assert ov.quantile(np.arange(1.0, 101), 0.07, contamination=0).estimate == 7.0


def test_several_quantiles_and_columns():
    table = SKEWED.reshape(-1, 4)
    found = ov.quantile(table, [0.5, 0.9])
    assert found.estimate.shape == (2, 4)
    for (i, q), j in itertools.product(enumerate((0.5, 0.9)), range(4)):
        one = ov.quantile(table[:, j], q)
        assert [found.estimate[i, j], *(end[i, j] for end in found.interval)] == [one.estimate, *one.interval]
    assert ov.quantile(SKEWED, [0.5, 0.999]).names == ("p50", "p99.9")
    assert ov.quantile(SKEWED, 0.5).statistic == "median"
    assert ov.quantile(table.T, 0.5, axis=1).estimate.tolist() == ov.quantile(table, 0.5).estimate.tolist()
    assert ov.quantile(table, 0.5, axis=None).estimate == ov.quantile(SKEWED, 0.5).estimate
    frame = pd.DataFrame({"rent": SKEWED, "size": SKEWED + 1})
    assert ov.quantile(frame, 0.9).names == ("rent", "size")
    assert ov.quantile(frame, [0.5, 0.9]).names == ("p50 of rent", "p50 of size", "p90 of rent", "p90 of size")


def test_simultaneous_quantiles_take_the_narrower_of_two_bands():
    two, many = [0.5, 0.99], np.linspace(0.05, 0.95, 181)
    each = ov.quantile(SKEWED, two, confidence=0.975)
    assert ov.quantile(SKEWED, two, simultaneous=True).interval.low.tolist() == each.interval.low.tolist()
    # A band about the whole distribution function, whatever the number of quantiles.
    found = ov.quantile(np.arange(2000.0), many, contamination=0, simultaneous=True).interval
    width = math.sqrt(math.log(2 / 0.05) * 2000 / 2)
    assert found.low.tolist() == [math.ceil(round(2000 * q - width, 6)) - 1 for q in many]


def test_infinities_are_values_and_nan_is_not():
    x = np.r_[np.arange(40.0), np.inf, np.inf, -np.inf]
    for policy in ("raise", "omit", "corrupt"):
        assert ov.quantile(x, 0.5, contamination=1, nan_policy=policy).estimate == 20.0
    assert ov.quantile(np.r_[x, np.full(60, np.inf)], 0.9, contamination=1).estimate == math.inf
    holed = np.r_[x, np.nan, np.nan]
    with pytest.raises(ValueError, match=r"x has NaN in 2 of 45 rows \(the first is row 43\)"):
        ov.quantile(holed)
    omitted = ov.quantile(holed, contamination=3, nan_policy="omit")
    assert (omitted.plan.n_rows, omitted.n_omitted) == (43, 2)
    assert omitted.interval == ov.quantile(x, contamination=3).interval
    found = ov.quantile(holed, contamination=3, nan_policy="corrupt")
    low, high = ranks_by_definition(45, 3, 0.5, 0.025, adaptive=False)
    assert found.interval == (np.sort(x)[low - 1], np.sort(x)[43 - high])
    with pytest.raises(ValueError, match="x has NaN in 2 rows, more than the 1 corrupt rows"):
        ov.quantile(holed, contamination=1, nan_policy="corrupt")


def test_too_few_rows_leave_an_end_open_and_say_how_many_would_do():
    found = ov.quantile(SKEWED[:200], 0.99, contamination=2)
    assert found.interval.high == math.inf
    assert found.certificate.provenance == "certified"
    assert "at least" in str(found)
    assert "too few rows to bound p99 from above at this confidence: n ≥ 370 rows would" in found.explain()
    assert ov.quantile(SKEWED[:370], 0.99, contamination=2).interval.high < math.inf
    assert ov.quantile(SKEWED[:369], 0.99, contamination=2).interval.high == math.inf
    nothing = ov.quantile([1.0, 2.0, 3.0], 0.5, contamination=1)
    assert nothing.certificate.provenance == "none"
    assert nothing.interval == (-math.inf, math.inf)
    hopeless = ov.quantile(SKEWED[:200], 0.99, contamination=ov.Contamination(0.02, "adaptive"))
    assert "no number of rows would" in hopeless.certificate.note


def test_any_size_and_type_of_rows():
    x = np.random.default_rng(2).normal(size=300)
    for factor in (1e300, 1e-300):
        assert ov.quantile(x * factor, 0.5).interval == tuple(end * factor for end in ov.quantile(x, 0.5).interval)
    assert ov.quantile(np.arange(300), 0.5).interval == ov.quantile(np.arange(300.0), 0.5).interval
    assert ov.quantile(x > 0.8, 0.5).interval == (0.0, 0.0)
    assert ov.quantile(x.astype(np.float32), 0.5).estimate == np.float32(ov.quantile(x, 0.5).estimate)
    assert ov.quantile(np.zeros(100), 0.5).interval == (0.0, 0.0)


def test_the_number_of_corrupt_rows_may_be_left_open():
    found = ov.quantile(SKEWED, 0.9, contamination="auto", max_contamination=0.05)
    assert found.certificate.levels[-1][0] == 100
    assert found.interval.low <= ov.quantile(SKEWED, 0.9, contamination=100).interval.low


def test_the_result_plots_and_writes_itself():
    pytest.importorskip("matplotlib")
    import matplotlib.pyplot as plt

    found = ov.quantile(SKEWED, [0.5, 0.9])
    display = found.plot(column=1)
    assert display.ax_.get_title().startswith("quantile p90: ")
    plt.close(display.figure_)
    assert found.to_dict()["vote"] == "order"
    assert ov.quantile(SKEWED, 0.9, alternative="less").to_dict()["low"] is None


@given(st.lists(st.integers(0, 20), min_size=1, max_size=90), st.lists(st.integers(0, 10**6), min_size=1, max_size=30))
def test_rows_in_order_are_those_of_a_sort(x, places):
    places = [place % len(x) for place in places]
    assert rows_in_order(np.array(x, dtype=float), places) == {place: sorted(x)[place] for place in places}


@settings(max_examples=30)
@given(
    samples, shares, st.integers(0, 2), st.sampled_from(["oblivious", "adaptive"]), st.sampled_from([0.01, 0.6, 0.95])
)
def test_ends_move_with_the_rows_and_the_corrupt_ones(x, q, m, adversary, confidence):
    def ask(rows, q=q, m=m, **options):
        return ov.quantile(rows, q, ov.Contamination(m, adversary), confidence, **options)

    x = np.array(x)
    found, wider, back = ask(x), ask(x, m=m + 1), ask(-x, q=float(1 - Fraction(str(q))))
    assert ask(np.arctan(x)).interval == tuple(np.arctan(e) if math.isfinite(e) else e for e in found.interval)
    assert back.interval == (-found.interval.high, -found.interval.low)
    assert wider.interval.low <= found.interval.low <= found.estimate <= found.interval.high <= wider.interval.high
    for alternative in ("less", "greater"):
        one = ask(x, alternative=alternative)
        assert one.interval.low <= one.estimate <= one.interval.high


def test_wrong_shares_are_named():
    between = " must lie strictly between 0 and 1"
    for q, error, message in (
        (95, ValueError, rf"q=95{between}: did you mean 0.95\?"), (0.0, ValueError, rf"q=0.0{between}"),
        (1.0, ValueError, r"q=1.0 must lie"), (math.nan, ValueError, r"q=nan must lie"),
        ([0.5, 2.0], ValueError, rf"q=\[0.5, 2.0\]{between}"), ([], ValueError, r"q=\[\] is empty: name at least one"),
        ("0.5", TypeError, r"q='0.5' must be a number strictly"), (None, TypeError, r"q=None must be a number"),
        (True, TypeError, r"q=True must be a number"), ([[0.5]], TypeError, r"must be a number"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            ov.quantile(SKEWED, q)
