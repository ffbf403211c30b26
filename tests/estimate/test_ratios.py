"""Ratios of means: of one sample, and differences of two."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov
from outvote.data.missing import MoreCorruptRows
from outvote.estimate.ratios import read_ratios
from outvote.votes import Terms
from outvote.votes.evidence import SortedRows
from outvote.votes.evidence.interval import declared_ends

KNOWN = ov.FiniteVariance(2.0)


def users(rng, n, ratio=2.0, sd=2.0):
    """Rows (denominator, numerator) whose numerator - ratio·denominator has this sd."""
    sessions = rng.poisson(3.0, n) + 1.0
    return np.column_stack([sessions, ratio * sessions + rng.normal(0, sd, n)])


@settings(max_examples=6)
@given(seed=st.integers(0, 10**6), m=st.integers(2, 5), n=st.sampled_from([60, 150]))
def test_a_ratio_is_accepted_if_0_is_in_the_interval_of_the_gaps(seed, m, n):
    rows = users(np.random.default_rng(seed), n)
    rows[:2] = [[50.0, 1e4], [0.0, -30.0]]
    terms = Terms(math.log(0.05))
    found = declared_ends(read_ratios(rows, "x", KNOWN, "raise").rows(m, adaptive=False), KNOWN, terms)
    low, high, width = found.low, found.high, found.high - found.low

    def accepted(ratio):
        gaps = np.sort(rows[:, 1] - ratio * rows[:, 0])
        ends = declared_ends(SortedRows(gaps, m), KNOWN, terms)
        return ends.low <= 0 <= ends.high

    assert accepted(low + 3e-4 * width)  # both ends are found to 1e-4 or so, and those of the gaps, too
    assert accepted(high - 3e-4 * width)
    assert not accepted(low - 1e-3 * width)
    assert not accepted(high + 1e-3 * width)
    assert all(not accepted(end) for end in (low - width, low - 30 * width, high + width, high + 30 * width))


def test_ratio_of_one_sample_is_near_that_of_the_clean_rows():
    rng = np.random.default_rng(0)
    rows = users(rng, 4000)
    rows[:30], rows[30:40] = [1.0, 1e7], [1e6, 0.0]  # bots that buy for millions, bots with a million sessions
    found = ov.mean(rows, 40, ratio=True)
    assert found.statistic == "ratio of means"
    assert found.interval.low < 2.0 < found.interval.high
    assert found.interval.high - found.interval.low < 0.15
    assert found.plain == pytest.approx(rows[:, 1].sum() / rows[:, 0].sum())
    assert found.certificate.premise.startswith("the sd of numerator - ratio·denominator in clean rows is at most ")
    assert "ratio of means 2.0" in str(found)
    assert found.pictures[0].counts.sum() > 3000


@pytest.mark.parametrize("assume", [None, KNOWN, (ov.Bounded(0, 40), ov.Bounded(0, 90))])
def test_differences_of_ratios(assume):
    rng = np.random.default_rng(1)
    a, b = users(rng, 3000, 2.0, 1.0), users(rng, 3000, 2.4, 1.0)
    a, b = np.clip(a, 0, None), np.clip(b, 0, None)
    b[:24] = [1.0, 80.0]
    for relative, truth in ((False, 0.4), (True, 0.2)):
        found = ov.difference(a, b, 24, assume=assume, ratio=True, relative=relative)
        low, high = found.interval
        assert low < truth < high
        assert high - low < (0.55 if isinstance(assume, tuple) else 0.35) * (0.5 if relative else 1.0)
        assert found.statistic == ("relative " if relative else "") + "difference of ratios"
        assert found.certificate.provenance == ("conditional" if assume is None else "certified")
        assert found.plan.n_rows == (3000, 3000)


def test_one_table_of_denominators_and_numerators_is_enough_for_everything():
    rng = np.random.default_rng(2)
    a, b = users(rng, 1000, 2.0), users(rng, 1000, 2.4)
    frames = [pd.DataFrame(x, columns=["sessions", "revenue"]) for x in (a, b)]
    found = ov.difference(*frames, 5, ratio=True, assume=KNOWN)
    assert found.interval == pytest.approx(ov.difference(a, b, 5, ratio=True, assume=KNOWN).interval)
    tolerance = ov.tolerance(a, b, ratio=True, assume=KNOWN, contamination=5)
    assert tolerance.claim == "difference > 0"
    assert tolerance.rows > 10
    assert tolerance.estimate.interval == pytest.approx(found.interval)
    assert ov.difference(a, b, tolerance.rows // 2, ratio=True, assume=KNOWN).interval.low > 0
    assert not ov.difference(a, b, tolerance.rows // 2 + 1, ratio=True, assume=KNOWN).interval.low > 0
    assert len(set(tolerance.deciding)) == len(tolerance.deciding) == tolerance.rows + 1
    gaps = [x[:, 1] - 2.2 * x[:, 0] for x in (a, b)]
    strongest = [(1 if s else -1) * gaps[s][i] for s, i in tolerance.deciding[:10]]
    assert min(strongest) > 2.0  # far on the side of the claim
    one = ov.tolerance(a, ratio=True, claim="ratio > 1.8", assume=KNOWN)
    assert one.rows > 20
    assert ov.tolerance(a, ratio=True, claim="mean > 1.8", assume=KNOWN).rows == one.rows
    table = ov.sensitivity(a, b, ratio=True, levels=[0, 5, 20], assume=KNOWN)
    assert table.low[1] >= found.interval.low - 1e-9  # five in each, not ten wherever they are
    assert (np.diff(table.high - table.low) > 0).all()
    assert ov.difference(a, b, "auto", ratio=True, assume=KNOWN).certificate.levels


def test_rows_that_are_corrupt_for_certain():
    rng = np.random.default_rng(3)
    a, b = users(rng, 500), users(rng, 500)
    spoiled = b.copy()
    spoiled[:3], spoiled[3] = [-1.0, 7.0], [np.nan, 2.0]
    with pytest.raises(
        MoreCorruptRows, match="b has negative denominators, NaN or infinite values in 4 rows, more than"
    ):
        ov.difference(a, spoiled, 3, ratio=True, nan_policy="corrupt")
    with pytest.raises(ValueError, match="b has NaN or infinite values in 1 of 500 rows"):
        ov.difference(a, spoiled, 9, ratio=True)
    found = ov.difference(a, spoiled, 9, ratio=True, nan_policy="corrupt", assume=KNOWN)
    assert found.interval.low < 0 < found.interval.high
    left = ov.difference(a, spoiled, 9, ratio=True, nan_policy="omit", assume=KNOWN)
    assert left.plan.n_rows == (500, 499)
    inside = np.clip(a, 0, 30)
    outside = inside.copy()
    outside[:2] = [[31.0, 1.0], [1.0, 31.0]]
    bounds = (ov.Bounded(0, 30), ov.Bounded(0, 30))
    with pytest.raises(MoreCorruptRows, match="denominators in \\[0, 30\\] and numerators in \\[0, 30\\] in 2 rows"):
        ov.difference(inside, outside, 1, ratio=True, assume=bounds)
    assert math.isfinite(ov.difference(inside, outside, 2, ratio=True, assume=bounds).radius)


@pytest.mark.parametrize("size", [2.0**-660, 4.0, 2.0**660])
def test_numerators_of_any_size(size):
    rng = np.random.default_rng(4)
    a, b = users(rng, 300), users(rng, 300, 3.0)
    one = ov.difference(a, b, 3, ratio=True)
    scaled = [x * [1.0, size] for x in (a, b)]
    two = ov.difference(*scaled, 3, ratio=True)
    assert np.array(two.interval) / size == pytest.approx(np.array(one.interval), rel=1e-9)


def test_users_without_a_denominator_count_as_they_are():
    rows = np.r_[users(np.random.default_rng(5), 400), np.zeros((400, 2))]
    found = ov.mean(rows, 2, ratio=True, assume=KNOWN)
    assert found.interval.low < 2.0 < found.interval.high


def test_what_does_not_go_with_ratios_is_refused():
    rng = np.random.default_rng(6)
    a, b, flat = users(rng, 50), users(rng, 50), rng.normal(size=50)
    for options, told in (
        ({"assume": ov.Bounded(0, 1)}, r"Bounded.* does not go with ratio=True: say what is known of numerator"),
        ({"assume": ov.FiniteKurtosis(9.0)}, r"FiniteKurtosis.* does not go with ratio=True"),
        ({"assume": ov.Symmetric()}, r"Symmetric\(\) does not go with ratio=True"),
        ({"assume": (ov.Bounded(1, 9), ov.Bounded(0, 1))}, r"denominators of a ratio must begin at 0"),
        ({"assume": (KNOWN, KNOWN, KNOWN)}, "3 entries for 2 samples"),
        ({"vote": "median"}, "ratio=True goes by evidence"),
        ({"paired": True}, "ratio=True goes by evidence, without paired and function"),
        ({"covariate": ([1.0], [2.0])}, "ratio and covariate do not go together"),
        ({"unit": "user"}, r"unit='user' is for a table"),
    ):
        with pytest.raises(ValueError, match=told):
            ov.difference(a, b, ratio=True, **options)
    for call, told in (
        (
            lambda: ov.difference(flat, b, ratio=True),
            r"a has shape \(50,\): with ratio=True its rows are pairs \(den",
        ),
        (lambda: ov.difference(a, np.c_[b, flat], ratio=True), r"b has shape \(50, 3\)"),
        (lambda: ov.mean(a, ratio=True, n_blocks=5), "ratio=True goes by evidence, of rows"),
        (lambda: ov.tolerance(flat, claim="ratio > 1"), r"claim='ratio > 1' must read like 'mean > 0'"),
        (lambda: ov.tolerance(a, b, ratio=True, paired=True), "ratio and covariate go without paired"),
        (lambda: read_ratios(a, "x", None, "raise").values, "have no order"),
        (lambda: ov.mean(np.zeros((50, 2)), ratio=True), "x has no positive denominator"),
    ):
        with pytest.raises(ValueError, match=told):
            call()


def test_input_is_not_modified():
    rng = np.random.default_rng(8)
    a, b = users(rng, 100), users(rng, 100)
    a[0] = [-1.0, 2.0]
    copies = a.copy(), b.copy()
    ov.difference(a, b, 2, ratio=True)
    assert np.array_equal(a, copies[0])
    assert np.array_equal(b, copies[1])


FAR = {"a denominator": [1.7e308, 6.0], "a large denominator": [1e200, 6.0], "both": [1.7e308, -1.7e308]}


@pytest.mark.parametrize("place", FAR)
@pytest.mark.parametrize("n", [60, 9000])
def test_a_row_of_the_largest_floats_is_one_corrupt_row(place, n):
    rows = users(np.random.default_rng(3), n)
    plain = ov.mean(rows, 2, ratio=True, assume=KNOWN)
    rows[0] = FAR[place]
    found = ov.mean(rows, 2, ratio=True, assume=KNOWN)
    assert found.interval.low < 2.0 < found.interval.high
    assert found.radius < 1.2 * plain.radius
    assert math.isfinite(ov.mean(rows, 2, ratio=True).radius)


@pytest.mark.parametrize("size", [1e-310, 1e-160, 1e154])
def test_denominators_whose_squares_are_no_floats_are_refused(size):
    rows = users(np.random.default_rng(0), 60) * [size, 1.0]
    with pytest.raises(ValueError, match=r"x has denominators of about .*e[-+].*: divide the denominators, or both"):
        ov.mean(rows, ratio=True)


@pytest.mark.parametrize("place", ["a denominator", "a large denominator", "both"])
def test_a_row_of_the_largest_floats_is_one_corrupt_row_of_two_samples_too(place):
    a, b = users(np.random.default_rng(3), 60), users(np.random.default_rng(4), 60)
    a[0] = FAR[place]
    assert math.isfinite(ov.difference(a, b, 2, ratio=True).radius)
