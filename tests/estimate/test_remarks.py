"""What the rows say against an sd that is read off them, and numbers of corrupt rows that do not fit them."""

import math

import numpy as np
import pytest

import outvote as ov


@pytest.fixture(scope="module")
def planted():
    """Two variants with the same distribution, in which 20 of 4 000 rows are planted."""
    rng = np.random.default_rng(3)
    rows, second = rng.gamma(4, 208, size=4000), rng.random(4000) < 0.5
    rows[rng.choice(4000, 20, replace=False)] = np.repeat([-1.0, 999999.0], 10)
    return rows[~second], rows[second]


@pytest.mark.parametrize("declared", [None, ov.FiniteVariance(417.0)])
def test_numbers_that_the_rows_contradict_settle_nothing(planted, declared):
    found = ov.tolerance(*planted, assume=declared, contamination=15)
    assert found.rows is None
    assert "does not fit these 4 000 rows if the clean rows' sd is at most" in str(found)
    assert "stands" not in str(found)


def test_one_sample_with_too_few_corrupt_rows_settles_nothing(planted):
    found = ov.tolerance(planted[0], claim="mean > 2000", assume=ov.FiniteVariance(417.0))
    assert found.rows is None
    assert found.misfit.startswith("At most ")


def test_that_no_row_is_corrupt_may_not_fit():
    rows = np.r_[np.zeros(50), 1e6]
    found = ov.tolerance(rows, claim="mean > 1", assume=ov.FiniteVariance(1.0))
    assert str(found).startswith("No corrupt row at all does not fit these 51 rows")
    assert "some of them must be corrupt" in str(found)


def test_a_claim_that_stands_still_does():
    rng = np.random.default_rng(0)
    a, b = rng.normal(10.0, size=400), rng.normal(11.8, size=600)
    found = ov.tolerance(a, b, assume=ov.FiniteVariance(1.0))
    assert found.rows is not None
    assert found.misfit == ""


def test_more_rows_look_corrupt_than_are_allowed_for(planted):
    found = ov.difference(*planted, contamination=2)
    assert found.certificate.provenance == "none"
    assert "look as if more than 2 rows were corrupt" in found.certificate.note
    assert "too few rows" not in found.certificate.note
    assert "allows for" not in str(found)
    alone = ov.mean(planted[0], 2)
    more = int(alone.remark.split("contamination=")[1].removesuffix("."))
    assert alone.remark in alone.explain()
    assert float(np.max(ov.mean(planted[0], more).certificate.premise_sd)) < 1000 < alone.certificate.premise_sd
    assert not ov.mean(planted[0], more).remark


@pytest.mark.parametrize("n_rows", [1000, 20_000])
def test_most_rows_are_equal(n_rows):
    rng = np.random.default_rng(1)
    rows = np.where(rng.random(n_rows) < 0.1, rng.gamma(2, 20, n_rows), 0.0)
    assert "% of the rows are 0: the sd read off the rows may be too small" in ov.mean(rows, 2).explain()
    assert "of the rows of a are 0" in ov.difference(rows, rows + (rows > 0), contamination=2).remark
    assert not ov.mean(rows, 2, assume=ov.Bounded(0, 500)).remark
    assert not ov.mean(rows + rng.random(n_rows), 2).remark
    summary = ov.RowSummary().update(rows)
    assert math.isfinite(ov.mean(summary, 2).estimate)


@pytest.mark.parametrize("scale", [1.0, 1e200])
def test_heavy_tails_and_extreme_sizes_get_no_remark(scale):
    rows = scale * np.random.default_rng(2).standard_t(2, size=3000)
    assert not ov.mean(rows, 30).remark


def test_ratios_and_very_few_rows_get_no_remark_on_equal_rows():
    rng = np.random.default_rng(4)
    rows = np.column_stack([np.ones(500), rng.gamma(2, size=500)])
    assert "% of the rows" not in ov.mean(rows, 2, ratio=True).remark
    assert not ov.mean([1.0, 2.0, 4.0], 0).remark
