"""Tolerance by evidence: it is exact, names the rows that decide, and its sentences are true."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from command_line import run
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov
from outvote.estimate.compared import ordered_rows
from outvote.estimate.weigh import weigh
from outvote.votes import Terms
from outvote.votes.evidence.factors import factors_for

KNOWN = ov.FiniteVariance(1.0)


@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 10**6),
    effect=st.floats(0.0, 1.5),
    adversary=st.sampled_from(["oblivious", "adaptive"]),
    sign=st.sampled_from([">", "<"]),
)
def test_interval_excludes_the_claimed_value_up_to_the_tolerance(seed, effect, adversary, sign):
    x = np.random.default_rng(seed).normal(size=80) + effect
    if seed % 3 == 0:
        x[:4] = 50.0
    side = "greater" if sign == ">" else "less"
    rows = ov.tolerance(x, claim=f"mean {sign} 0.25", assume=KNOWN, adversary=adversary).rows
    for m in {0, 1, 2, 5, 9, 20} | {t for t in (rows, (rows or 0) + 1) if t is not None and t < 40}:
        try:
            interval = ov.mean(
                x, ov.Contamination(m, adversary), assume=KNOWN, vote="evidence", alternative=side
            ).interval
        except ValueError:
            continue  # with so few corrupt rows they contradict the sd
        excluded = interval.low > 0.25 if sign == ">" else interval.high < 0.25
        assert excluded == (rows is not None and rows >= m)


@pytest.mark.parametrize("seed", range(2))
def test_tolerance_against_every_deletion(seed):
    """With the rows that are left of any deletion the evidence at the bound still suffices, and no longer."""
    x = np.sort(np.random.default_rng(seed).normal(6.0, 0.5, size=10))
    bound, terms = 2.0, Terms(math.log(0.05), alternative="greater")
    rows = ov.tolerance(x, claim=f"mean > {bound}", assume=KNOWN).rows
    factors = factors_for(KNOWN, len(x), terms.price, adaptive=False)
    price = terms.price - math.log(0.9)

    def survives(t):
        products = [
            math.log(one.weight)
            + min(
                np.delete(one.logs(x - bound) - one.norm, gone).sum()
                for k in range(t + 1)
                for gone in map(list, itertools.combinations(range(len(x)), k))
            )
            for one in factors
        ]
        return np.logaddexp.reduce(products) >= price

    # No row lies left of the valley of any factor, so that evidence at the bound speaks for all smaller means.
    assert min(x) > bound
    assert rows == max(t for t in range(5) if survives(t))
    assert not survives(rows + 1) or rows == (len(x) - 1) // 2


def test_conclusion_falls_without_the_deciding_rows():
    rng = np.random.default_rng(1)
    x = rng.normal(0.5, size=400)
    found = ov.tolerance(x, claim="mean > 0.2", assume=KNOWN)
    assert len(found.deciding) == found.rows + 1
    gone = np.delete(x, list(found.deciding))
    assert ov.tolerance(gone, claim="mean > 0.2", assume=KNOWN).rows is None
    assert min(x[list(found.deciding)]) > np.median(x)
    a, b = rng.normal(size=300), rng.normal(1.0, size=200)
    both = ov.tolerance(a, b, assume=KNOWN)
    assert len(both.deciding) == both.rows + 1
    left = [np.delete(z, [i for s, i in both.deciding if s == which]) for which, z in enumerate((a, b))]
    assert (ov.tolerance(*left, assume=KNOWN, contamination=0).rows or 0) < both.rows / 3
    assert "The rows that decide: " in both.sentence(deciding=3)
    assert ov.tolerance(a, a + 0.01, assume=KNOWN).deciding == ()


def test_deciding_rows_are_positions_in_the_input():
    x = np.random.default_rng(0).normal(0.4, size=300)
    x[[5, 17]] = np.nan
    found = ov.tolerance(x, claim="mean > 0", assume=KNOWN, nan_policy="omit")
    whole = ov.tolerance(x[~np.isnan(x)], claim="mean > 0", assume=KNOWN)
    assert found.rows == whole.rows
    assert x[list(found.deciding)] == pytest.approx(x[~np.isnan(x)][list(whole.deciding)])
    assert not np.isnan(x[list(found.deciding)]).any()


def test_one_premise_serves_all_levels_and_is_printed():
    x = np.random.default_rng(0).exponential(size=3000)
    found = ov.tolerance(x, claim="mean > 0.7", contamination=0.01)
    assert found.premise == ov.mean(x, 0.01).certificate.premise
    assert found.largest_sd > ov.mean(x, 0.01).certificate.premise_sd
    text = str(found)
    assert f"(if {found.premise}; with 30 corrupt rows up to" in text
    assert found.to_dict()["largest_sd"] == pytest.approx(found.largest_sd)
    assert ov.tolerance(x, claim="mean > 0.7", assume=KNOWN).premise == ""


@pytest.mark.parametrize(("n", "bound"), [(400, -50.0), (400, 0.0), (9000, -0.5)])
def test_the_claim_stands_up_to_this_many_rows_and_this_sd_and_no_farther(n, bound):
    x = np.random.default_rng(3).normal(0.4, size=n)
    found = ov.tolerance(x, claim=f"mean > {bound}", contamination=0.01)
    m, sd = n // 100, found.largest_sd
    premise = ov.mean(x, m).certificate.premise_sd
    rows, known = ordered_rows(x, "x", None, "raise")
    weighed = weigh([rows], [known], (m,), Terms(math.log(0.05), alternative="greater"))
    assert weighed.clear_of(found.rows, bound, 1)
    assert found.rows == weighed.most or not weighed.clear_of(found.rows + 1, bound, 1)
    assert weighed.scaled_premise(sd / premise).clear_of(m, bound, 1)
    assert not weighed.scaled_premise(1.006 * sd / premise).clear_of(m, bound, 1)


def test_conclusion_below_the_contamination_says_so():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=150), rng.normal(0.6, size=150)
    found = ov.tolerance(a, b, assume=KNOWN, contamination=0.1)
    assert 0 <= found.rows < 30
    told = "Whether difference > 0 is not settled if 30 of the 300 rows may be corrupt; it stands if"
    assert str(found).startswith(told)


def test_a_contamination_brings_its_adversary():
    x = np.random.default_rng(0).exponential(size=2000)
    for claim in ("mean > 0.5", "median > 0.4"):
        found = ov.tolerance(x, claim=claim, contamination=ov.Contamination(0.01, "adaptive"))
        assert found.rows == ov.tolerance(x, claim=claim, adversary="adaptive").rows
        assert found.estimate.certificate.adversary == "adaptive"
    with pytest.raises(TypeError, match="tolerance varies the corrupt rows itself"):
        ov.tolerance(x, claim="mean > 0", contamination="auto")
    with pytest.raises(ValueError, match="or 'p99 < 300' for a quantile"):
        ov.tolerance(x, claim="q99 < 3")


def test_rows_reach_the_provable_number():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 10_000))
    x -= x.mean()
    for effect, least in ((0.1, 300), (0.2, 800)):
        assert ov.tolerance(x + effect, claim="mean > 0", assume=KNOWN).rows >= least
    assert ov.tolerance(x, y + 0.2, assume=KNOWN).rows >= 600


def test_the_command_and_the_functions_agree(tmp_path):
    rng = np.random.default_rng(0)
    a, b = rng.exponential(30, 200).round(2), rng.exponential(65, 250).round(2)
    path = tmp_path / "x.csv"
    path.write_text("k,v\n" + "".join(f"A,{v}\n" for v in a) + "".join(f"B,{v}\n" for v in b))
    options = [path, "--value", "v", "--by", "k", "--contamination", "0.01"]
    (found,) = json.loads(run("compare", *options, "--json").stdout)["comparisons"]
    gap, tolerance = ov.difference(a, b, 0.01), ov.tolerance(a, b, contamination=0.01)
    assert found["difference"]["low"] == pytest.approx(gap.interval.low)
    assert found["tolerance"] == tolerance.rows
    assert (gap.interval.low > 0) == (tolerance.rows >= gap.plan.withstands)
