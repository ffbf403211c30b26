"""What the rows say against an sd that is read off them, and numbers of corrupt rows that do not fit them."""

import math
import re

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


def test_numbers_that_the_rows_contradict_settle_nothing(planted):
    few = np.random.default_rng(3).gamma(4, 208, size=(2, 100))
    few[1, :8] = np.repeat([-1.0, 999999.0], 4)
    for samples, declared, contamination in ((planted, ov.FiniteVariance(417.0), 15), (few, None, 5)):
        found = ov.tolerance(*samples, assume=declared, contamination=contamination)
        assert found.rows is None
        assert re.search(r"does not fit these (4 000|200) rows if the clean rows' sd is at most", str(found))
        assert "stands" not in str(found)
    found = ov.tolerance(planted[0], claim="mean > 2000", assume=ov.FiniteVariance(417.0))
    assert found.rows is None
    assert found.misfit.startswith("At most ")
    found = ov.tolerance(np.r_[np.zeros(50), 1e6], claim="mean > 1", assume=ov.FiniteVariance(1.0))
    assert str(found).startswith("No corrupt row at all does not fit these 51 rows")
    assert "some of them must be corrupt" in str(found)


def test_more_rows_look_corrupt_than_are_allowed_for(planted):
    found = ov.difference(*planted, contamination=2)
    assert found.certificate.provenance == "none"
    assert "look as if more than 2 rows were corrupt" in found.certificate.note
    assert "too few rows" not in found.certificate.note
    assert "allows for" not in str(found)
    alone = ov.mean(planted[0], 2)
    (remark,) = [text for text in alone.remarks if "look as if" in text]
    more = int(remark.split("contamination=")[1].removesuffix("."))
    assert remark in alone.explain()
    assert float(np.max(ov.mean(planted[0], more).certificate.premise_sd)) < 1000 < alone.certificate.premise_sd
    assert not any("look as if" in text for text in ov.mean(planted[0], more).remarks)


@pytest.mark.parametrize("n_rows", [1000, 9000])
def test_most_rows_are_equal(n_rows):
    rng = np.random.default_rng(1)
    rows = np.where(rng.random(n_rows) < 0.1, rng.gamma(2, 20, n_rows), 0.0)
    assert "% of the rows are 0: the sd read off the rows may be too small" in ov.mean(rows, 2).explain()
    assert "of the rows of a are 0" in ov.difference(rows, rows + (rows > 0), contamination=2).remarks[0]
    assert not ov.mean(rows, 2, assume=ov.Bounded(0, 500)).remarks
    assert not ov.mean(rows + rng.random(n_rows), 2).remarks
    assert math.isfinite(ov.mean(ov.RowSummary().update(rows), 2).estimate)


def test_rows_that_are_neither_0_nor_1_are_mentioned():
    rows = np.r_[np.arange(500) % 10 == 0, 7.0, 8.0]
    assert ov.mean(rows, 5, assume=ov.Proportion()).remarks == ("2 rows are neither 0 nor 1: counted as corrupt.",)
    both = ov.difference(rows, rows[:501], contamination=5, assume=ov.Proportion())
    assert both.remarks == ("3 rows are neither 0 nor 1: counted as corrupt.",)
    assert not ov.difference(rows[:500], rows[:400], contamination=5, assume=ov.Proportion()).remarks


def test_a_monitor_doubts_an_sd_of_its_first_rows():
    rng = np.random.default_rng(5)
    grown = ov.Monitor(contamination=0.001, n_plan=6000)
    grown.update(rng.normal(size=1000)).update(2.2 * rng.normal(size=5000))
    assert "chose an sd of" in grown.result().explain()
    revenue = ov.Monitor(contamination=0.001, n_plan=20_000)
    revenue.update(np.where(rng.random(20_000) < 0.2, rng.gamma(2, 20, 20_000), 0.0))
    assert "% of the rows are 0" in revenue.result().remarks[0]
    steady = ov.Monitor(contamination=0.001, n_plan=6000).update(rng.normal(size=6000))
    assert not steady.result().remarks
    rates = ov.Monitor(assume=ov.Proportion(), contamination=0.001).update(rng.random(500) < 0.1)
    assert not rates.result().remarks


def test_a_tolerance_explains_itself():
    rng = np.random.default_rng(0)
    found = ov.tolerance(rng.normal(10.0, size=100), rng.normal(11.8, size=150), assume=ov.FiniteVariance(1.0))
    assert found.rows > 0
    assert found.misfit == ""
    assert "B is larger than A by" in str(found)
    assert re.search(r"\(95 %, allowing for \d corrupt rows\); that it is larger stands unless more than", str(found))
    assert f"up to {found.rows}, wherever they are" in found.explain()
    assert "The rows that decide: " in found.explain()
    unsettled = ov.tolerance(rng.normal(size=40), rng.normal(size=40))
    assert "The claim is proved" not in unsettled.explain()


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
def test_explanations_name_the_adversary(adversary):
    allowed = ov.Contamination(3, adversary)
    told = ov.mean(np.random.default_rng(0).normal(size=300), allowed).explain()
    assert ("use adversary='adaptive'" in told) == (adversary == "oblivious")
    assert ("costs width" in told) == (adversary == "adaptive")
    assert "Clopper and Pearson" in ov.mean(np.arange(300) % 9 == 0, allowed).explain()


def test_an_open_contamination_is_explained_by_the_level_of_its_interval():
    found = ov.mean(np.random.default_rng(0).normal(size=300), "auto", max_contamination=0.1)
    assert found.plan.n_corrupt == 30
    assert "the 30 rows that contribute most" in found.explain()


def test_a_monitor_says_when_it_decided():
    rng = np.random.default_rng(6)
    watched = ov.Monitor(assume=ov.FiniteVariance(1.0), contamination=0.001, claim="mean > 0")
    for _ in range(3):
        watched.update(rng.normal(1.0, size=1000))
        assert watched.decided
    assert str(watched).endswith("mean > 0: true; decided after 1 000 of 3 000 rows")


def test_ordinary_rows_get_no_remark():
    rng = np.random.default_rng(4)
    for scale in (1.0, 1e200):  # heavy tails and extreme sizes
        rows = scale * rng.standard_t(2, size=3000)
        assert not any("look as if" in text for text in ov.mean(rows, 30).remarks)
    assert "% of the rows" not in str(ov.mean(np.column_stack([np.ones(500), rng.gamma(2, size=500)]), 2, ratio=True))
    assert not ov.mean([1.0, 2.0, 4.0], 0).remarks
