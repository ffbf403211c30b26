"""Tolerance by evidence: it is exact, names the rows that decide, and its sentences are true."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov
from outvote.estimate.compared import ordered_rows
from outvote.estimate.weigh import weigh
from outvote.votes import Terms
from outvote.votes.evidence.factors import factors_for

KNOWN = ov.FiniteVariance(1.0)


@settings(deadline=None, max_examples=30)
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


@pytest.mark.parametrize("seed", range(4))
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


@pytest.mark.parametrize(("effect", "least"), [(0.1, 300), (0.2, 800)])
def test_rows_of_one_sample_reach_the_provable_number(effect, least):
    x = np.random.default_rng(0).normal(effect, size=10_000)
    x += effect - x.mean()
    assert ov.tolerance(x, claim="mean > 0", assume=KNOWN).rows >= least


def test_rows_of_two_samples_reach_the_provable_number():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=10_000), rng.normal(0.2, size=10_000)
    assert ov.tolerance(a, b, assume=KNOWN).rows >= 600


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


@pytest.mark.parametrize("bound", [-50.0, -0.5, 0.0])
@pytest.mark.parametrize("n", [400, 20_000])
def test_the_claim_stands_up_to_this_many_rows_and_this_sd_and_no_farther(n, bound):
    x = np.random.default_rng(3).normal(0.4, size=n)
    found = ov.tolerance(x, claim=f"mean > {bound}", contamination=0.01)
    m, sd = n // 100, found.largest_sd
    premise = ov.mean(x, m).certificate.premise_sd
    weighed = weigh(*_ordered(x), (m,), Terms(math.log(0.05), alternative="greater"))
    assert weighed.clear_of(found.rows, bound, 1)
    assert found.rows == weighed.most or not weighed.clear_of(found.rows + 1, bound, 1)
    assert weighed.scaled_premise(sd / premise).clear_of(m, bound, 1)
    assert not weighed.scaled_premise(1.006 * sd / premise).clear_of(m, bound, 1)


def _ordered(x):
    rows, known = ordered_rows(x, "x", None, "raise")
    return [rows], [known]


def test_conclusion_below_the_contamination_says_so():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=400), rng.normal(0.4, size=400)
    found = ov.tolerance(a, b, assume=KNOWN, contamination=0.1)
    assert 0 <= found.rows < 80
    assert str(found).startswith(
        "Whether difference > 0 is not settled if 80 of the 800 rows may be corrupt; it stands if"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("n_a", "n_b", "scale"), [(60, 60, 1.0), (40, 300, 1.0), (80, 80, 5.0)])
@pytest.mark.parametrize("effect", [0.0, -0.5, -6.0])
@pytest.mark.parametrize("place", [-30.0, 5.0, 1e6])
def test_false_claims_are_rare_for_every_number_of_corrupt_rows(n_a, n_b, scale, effect, place):
    """The claim b > a is false; t rows of one arm are corrupt, and it is wrong if it claims to stand for t or more."""
    runs, t, false = 40, 4, 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, n_a, n_b])
        a, b = rng.normal(size=n_a), rng.normal(effect, scale, size=n_b)
        (a, b)[seed % 2][:t] = place if seed % 2 else -place
        rows = ov.tolerance(a, b, claim="difference > 0", assume=(KNOWN, ov.FiniteVariance(scale))).rows
        false += rows is not None and rows >= t
    assert false <= 0.05 * runs + 3 * math.sqrt(0.05 * 0.95 * runs)


def test_compare_report_difference_and_tolerance_agree(tmp_path):
    import json

    from typer.testing import CliRunner

    from outvote.cli.commands import app

    rng = np.random.default_rng(0)
    a, b = rng.exponential(30, 900).round(2), rng.exponential(48, 1100).round(2)
    path = tmp_path / "x.csv"
    path.write_text("k,v\n" + "".join(f"A,{v}\n" for v in a) + "".join(f"B,{v}\n" for v in b))
    options = [str(path), "--value", "v", "--by", "k", "--contamination", "0.01"]
    (found,) = json.loads(CliRunner().invoke(app, ["compare", *options, "--json"]).stdout)["comparisons"]
    gap, tolerance = ov.difference(a, b, 0.01), ov.tolerance(a, b, contamination=0.01)
    assert found["difference"]["low"] == pytest.approx(gap.interval.low)
    assert found["tolerance"] == tolerance.rows
    report = CliRunner().invoke(app, ["report", *options, "-o", str(tmp_path / "r.html")]).stdout
    assert f"It takes more than {tolerance.rows} corrupt rows" in report
    assert (gap.interval.low > 0) == (tolerance.rows >= gap.plan.withstands)


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


def test_one_sided_estimates_lie_in_their_interval():
    for seed in range(60):
        x = np.random.default_rng(seed).exponential(size=30) ** 2
        for side in ("less", "greater"):
            found = ov.mean(x, 2, 0.9, ov.Symmetric(), alternative=side)
            assert found.interval.low <= found.estimate <= found.interval.high
            assert found.radius >= 0
