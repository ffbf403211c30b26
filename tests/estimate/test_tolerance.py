"""The number of corrupt rows that overturn a conclusion, against brute force and adversaries."""

import json
import math

import numpy as np
import pytest

import outvote as ov
from outvote.votes.evidence import kernel

KNOWN = ov.FiniteVariance(1.0)


def samples(n, m, gap, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=n), rng.normal(gap, size=m)


@pytest.mark.parametrize("vote", ["median", "soft"])
def test_one_sample_against_brute_force(vote):
    x = np.random.default_rng(1).normal(0.55, size=200)
    t = ov.tolerance(x, claim="mean > 0", assume=KNOWN, vote=vote, rng=5)

    def stands(count):
        return ov.mean(x, count, assume=KNOWN, vote=vote, alternative="greater", rng=5).interval.low > 0

    assert t.rows == next(count for count in range(60) if not stands(count)) - 1 > 0
    assert t.n_rows == 200


def test_claim_may_be_below_any_number():
    x = np.random.default_rng(1).normal(3.0, size=400)
    down = ov.tolerance(x, claim="mean < 3.5", assume=KNOWN, vote="soft", rng=0)
    up = ov.tolerance(-x, claim="mean > -3.5", assume=KNOWN, vote="soft", rng=0)
    assert down.rows == up.rows > 5
    assert str(down).startswith("mean < 3.5: it is 2.9")


@pytest.mark.parametrize(("gap", "missing", "seed"), [(0.7, 0, 0), (-0.7, 0, 0), (0.8, 10, 0), (0.8, 10, 1)])
def test_two_samples_against_brute_force(gap, missing, seed):
    a, b = samples(150, 200, gap, seed)
    a[:missing], b[: missing // 10] = np.nan, np.nan
    options = {"assume": KNOWN, "vote": "soft", "rng": 2, "nan_policy": "corrupt"}
    t = ov.tolerance(a, b, **options)

    def end(sample, count, side):
        if count < np.isnan(sample).sum():
            return math.inf  # there are more than that
        r = ov.mean(sample, count, 1 - 0.05 / 2, **options)
        return r.interval.low if side > 0 else -r.interval.high

    side = 1 if gap > 0 else -1
    lows = {(n, count): end(x, count, s) for n, x, s in (("a", a, -side), ("b", b, side)) for count in range(30)}
    expected = next(
        level for level in range(30) if any(lows["a", s] + lows["b", level - s] <= 0 for s in range(level + 1))
    )
    found = missing + missing // 10
    assert (t.rows if t.stands else None) == (expected - 1 if expected > found or not found else None)
    assert not t.stands or t.claim == ("difference > 0" if gap > 0 else "difference < 0")


def test_str_of_a_tolerance():
    a, b = samples(80, 120, 1.85)
    t = ov.tolerance(a, b, assume=KNOWN, rng=0)
    assert t.stands
    assert str(t).startswith(f"B is larger than A by {t.estimate.estimate:.1f}"[:-1])
    assert str(t).endswith("of the 200 rows are corrupt.")
    assert str(ov.tolerance(b, a, assume=KNOWN, rng=0)).startswith("A is larger than B by 1.")
    plug_in = ov.tolerance(a, b, vote="median", rng=0)
    assert str(plug_in).endswith("(plug-in).")
    conditional = ov.tolerance(a, b)
    assert "(if the clean rows' sd is at most " in str(conditional)
    assert plug_in.rows < conditional.rows <= t.rows
    a, b = samples(50, 50, 0.0)
    t = ov.tolerance(a, b, assume=KNOWN, rng=0)
    assert (t.rows, t.stands) == (None, False)
    assert "do not settle whether difference" in str(t)


def test_paired_rows():
    rng = np.random.default_rng(0)
    a = rng.normal(0, 10, size=500)
    b = a + rng.normal(0.8, 1.0, size=500)
    t = ov.tolerance(a, b, paired=True, assume=KNOWN, rng=0)
    assert t.rows > 20
    assert (t.n_rows, t.estimate.statistic) == (500, "paired difference")
    assert str(t).startswith("B is larger than A by 0.7")
    assert ov.tolerance(a, b, paired=True, claim="difference > 0.5", assume=KNOWN, rng=0).rows < t.rows
    with pytest.raises(ValueError, match="paired=True needs two samples with as many rows"):
        ov.tolerance(a, b[:-1], paired=True)


def test_claim_about_a_difference():
    a, b = samples(150, 150, 1.0)
    zero = ov.tolerance(a, b, claim="difference > 0", assume=(KNOWN, KNOWN), rng=0)
    half = ov.tolerance(a, b, claim="difference > 0.3", assume=KNOWN, rng=0)
    assert zero.rows > half.rows >= 0
    assert str(half).startswith("difference > 0.3: it is ")
    harsh = ov.tolerance(a, b, assume=KNOWN, adversary="adaptive", rng=0)
    assert harsh.rows < zero.rows
    assert str(harsh).endswith("even by someone who saw the others.")
    assert (repr(zero), harsh.to_dict()["rows"]) == (str(zero), harsh.rows)
    json.dumps(harsh.to_dict(), allow_nan=False)


def test_tolerance_may_be_the_largest_minority():
    t = ov.tolerance(np.full(11, 5.0), claim="mean > 0", assume=ov.FiniteVariance(1e-9), vote="median", rng=0)
    assert t.rows == 5


@pytest.mark.parametrize("vote", ["median", "soft"])
def test_false_claims_are_rarely_said_to_stand(vote):
    """The mean is 0, so "mean > 0" is false: it must not be said to survive the corrupt rows that are there."""
    wrong, runs = 0, 60
    for seed in range(runs):
        x = np.random.default_rng(seed).normal(size=200)
        bad = seed % 4 * 6
        x[:bad] = 2.0
        t = ov.tolerance(x, claim="mean > 0", confidence=0.9, assume=KNOWN, vote=vote, rng=seed)
        wrong += t.rows is not None and t.rows >= bad
    assert wrong <= 0.1 * runs + 3 * (runs * 0.09) ** 0.5


def test_rows_known_to_be_corrupt_are_the_lowest_level():
    rng = np.random.default_rng(0)
    a, b = rng.random(400), rng.random(400) * 0.5 + 0.5
    b[:7] = -5.0
    t = ov.tolerance(a, b, assume=ov.Bounded(0, 1), rng=0)
    assert t.rows > 20
    assert t.estimate.plan.n_corrupt == (7, 7)
    assert ov.tolerance(a, b, assume=ov.Bounded(0, 1), vote="median", rng=0).estimate.plan.n_corrupt == (7, 7)
    holes = np.where(np.arange(400) < 3, np.nan, b)
    one = ov.tolerance(holes, claim="mean > 0.5", assume=ov.Bounded(0, 1), nan_policy="corrupt", rng=0)
    assert one.rows > 20
    wide = ov.tolerance(holes, claim="mean > -5", assume=ov.Bounded(-10, 1), nan_policy="corrupt", rng=0)
    assert wide.rows >= 3
    assert 3 <= ov.tolerance(holes, claim="mean > 0.5", assume=ov.Bounded(-10, 1), nan_policy="corrupt").rows < 40


def test_a_row_at_the_end_of_floats_takes_few_looks(monkeypatch):
    """Scales far below the premise are ruled out at once, and not one by one, down to the smallest float."""
    looks = []
    own = kernel.log_products
    monkeypatch.setattr(kernel, "log_products", lambda *asked: looks.append(1) or own(*asked))
    x = np.random.default_rng(5).normal(size=40)
    x[7] = 1.7e308
    ov.tolerance(x, claim="mean > 0", adversary="adaptive", contamination=1)
    assert 0 < len(looks) < 5000


def test_invalid_claims_and_options_raise():
    a, b = samples(50, 50, 1.0)
    for asked, options, error, message in (
        ((a,), {}, TypeError, "needs a claim"),
        ((a, b, a), {}, TypeError, "one sample or two, not 3"),
        *(((a,), {"claim": claim}, ValueError, "claim=")
          for claim in ("mode > 0", "mean = 0", "mean > many", "difference > 0")),
        ((a, b), {"claim": "mean > 0"}, ValueError, "must read like 'difference > 0'"),
        ((a,), {"claim": "mean > 1e"}, ValueError, "compares with '1e', which is not a finite number"),
        *(((a, b), one, TypeError, "does not go with tolerance") for one in (
            {"alternative": "less"}, {"simultaneous": True}, {"relative": True})),
        ((a.reshape(-1, 2),), {"claim": "mean > 0"}, ValueError, "one column at a time"),
        ((a,), {"claim": 3}, TypeError, "claim=3 must read like"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            ov.tolerance(*asked, **options)
    a, b = samples(100, 100, 3.0)
    both = ov.tolerance(a, b, assume=KNOWN, n_blocks=(31, 31), vote="median", rng=0)
    assert both.rows == ov.tolerance(a, b, assume=KNOWN, n_blocks=31, vote="median", rng=0).rows > 0
