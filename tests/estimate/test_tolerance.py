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


def brute_force(lower, most):
    """The largest t such that `lower(s)` > 0 for every s ≤ t, for one sample."""
    for t in range(most + 1):
        if not lower(t) > 0:
            return t - 1
    return most


@pytest.mark.parametrize("vote", ["median", "soft"])
def test_one_sample_against_brute_force(vote):
    x = np.random.default_rng(1).normal(0.45, size=400)
    t = ov.tolerance(x, claim="mean > 0", assume=KNOWN, vote=vote, rng=5)

    def lower(count):
        return ov.mean(x, count, assume=KNOWN, vote=vote, alternative="greater", rng=5).interval.low

    assert t.rows == brute_force(lower, 60)
    assert t.rows < 60
    assert t.n_rows == 400


def test_claim_may_be_below_any_number():
    x = np.random.default_rng(1).normal(3.0, size=400)
    down = ov.tolerance(x, claim="mean < 3.5", assume=KNOWN, vote="soft", rng=0)
    up = ov.tolerance(-x, claim="mean > -3.5", assume=KNOWN, vote="soft", rng=0)
    assert down.rows == up.rows > 5
    assert str(down).startswith("mean < 3.5: it is 2.9")


@pytest.mark.parametrize("gap", [0.7, -0.7])
def test_two_samples_against_brute_force(gap):
    a, b = samples(150, 200, gap)
    t = ov.tolerance(a, b, assume=KNOWN, vote="soft", rng=2)
    sign = 1 if gap > 0 else -1

    def end(sample, count, side):
        r = ov.mean(sample, count, 1 - 0.05 / 2, assume=KNOWN, vote="soft", rng=2)
        return r.interval.low if side > 0 else -r.interval.high

    lows = {
        (name, count): end(sample, count, side)
        for name, sample, side in (("a", a, -sign), ("b", b, sign))
        for count in range(40)
    }
    expected = next(
        level for level in range(40) if any(lows["a", s] + lows["b", level - s] <= 0 for s in range(level + 1))
    )
    assert t.rows == expected - 1
    assert t.claim == ("difference > 0" if gap > 0 else "difference < 0")


@pytest.mark.parametrize("seed", range(6))
def test_two_samples_with_nan_against_brute_force(seed):
    a, b = samples(150, 200, 0.8, seed)
    a[:10], b[:1] = np.nan, np.nan
    options = {"assume": KNOWN, "vote": "soft", "rng": 2, "nan_policy": "corrupt"}
    t = ov.tolerance(a, b, **options)

    def end(sample, count, side):
        if count < np.isnan(sample).sum():
            return math.inf  # there are more than that
        r = ov.mean(sample, count, 1 - 0.05 / 2, **options)
        return r.interval.low if side > 0 else -r.interval.high

    lows = {(n, count): end(sample, count, s) for n, sample, s in (("a", a, -1), ("b", b, 1)) for count in range(40)}
    expected = next(
        level for level in range(40) if any(lows["a", s] + lows["b", level - s] <= 0 for s in range(level + 1))
    )
    assert (t.rows if t.stands else None) == (expected - 1 if expected > 11 else None)


def test_str_of_a_tolerance():
    a, b = samples(400, 600, 1.85)
    t = ov.tolerance(a, b, assume=KNOWN, rng=0)
    assert t.stands
    assert str(t).startswith("B is larger than A by 1.8")
    assert str(t).endswith("of the 1 000 rows are corrupt.")
    swapped = ov.tolerance(b, a, assume=KNOWN, rng=0)
    assert str(swapped).startswith("A is larger than B by 1.8")
    plug_in = ov.tolerance(a, b, vote="median", rng=0)
    assert str(plug_in).endswith("(plug-in).")
    conditional = ov.tolerance(a, b)
    assert "(if the clean rows' sd is at most 1." in str(conditional)
    assert plug_in.rows < conditional.rows <= t.rows == 199


def test_unsettled_conclusion_has_no_tolerance():
    a, b = samples(50, 50, 0.0)
    t = ov.tolerance(a, b, assume=KNOWN, rng=0)
    assert t.rows is None
    assert not t.stands
    assert "do not settle whether difference" in str(t)


def test_paired_rows():
    rng = np.random.default_rng(0)
    a = rng.normal(0, 10, size=500)
    b = a + rng.normal(0.8, 1.0, size=500)
    t = ov.tolerance(a, b, paired=True, assume=KNOWN, rng=0)
    assert t.rows > 20
    assert t.n_rows == 500
    assert str(t).startswith("B is larger than A by 0.7")
    assert t.estimate.statistic == "paired difference"
    assert ov.tolerance(a, b, paired=True, claim="difference > 0.5", assume=KNOWN, rng=0).rows < t.rows
    with pytest.raises(ValueError, match="paired=True needs two samples with as many rows"):
        ov.tolerance(a, b[:-1], paired=True)


def test_claim_about_a_difference():
    a, b = samples(600, 600, 1.0)
    zero = ov.tolerance(a, b, claim="difference > 0", assume=(KNOWN, KNOWN), rng=0)
    half = ov.tolerance(a, b, claim="difference > 0.5", assume=KNOWN, rng=0)
    assert zero.rows > half.rows > 0
    assert str(half).startswith("difference > 0.5: it is 0.98")


def test_tolerance_may_be_the_largest_minority():
    t = ov.tolerance(np.full(11, 5.0), claim="mean > 0", assume=ov.FiniteVariance(1e-9), vote="median", rng=0)
    assert t.rows == 5


def test_invalid_claims_raise():
    a, b = samples(50, 50, 1.0)
    with pytest.raises(TypeError, match="needs a claim"):
        ov.tolerance(a)
    with pytest.raises(TypeError, match="one sample or two, not 3"):
        ov.tolerance(a, b, a)
    for claim in ("mode > 0", "mean = 0", "mean > many", "difference > 0"):
        with pytest.raises(ValueError, match="claim="):
            ov.tolerance(a, claim=claim)
    with pytest.raises(ValueError, match="must read like 'difference > 0'"):
        ov.tolerance(a, b, claim="mean > 0")
    with pytest.raises(ValueError, match=r"compares with '1e', which is not a finite number"):
        ov.tolerance(a, claim="mean > 1e")


@pytest.mark.parametrize("vote", ["median", "soft"])
def test_false_claims_are_rarely_said_to_stand(vote):
    """The mean is 0, so "mean > 0" is false: it must not be said to survive the corrupt rows that are there."""
    wrong = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=300)
        bad = seed % 4 * 8
        x[:bad] = 2.0
        t = ov.tolerance(x, claim="mean > 0", confidence=0.9, assume=KNOWN, vote=vote, rng=seed)
        wrong += t.rows is not None and t.rows >= bad
    assert wrong <= 0.1 * 120 + 3 * (120 * 0.09) ** 0.5


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


def test_adaptive_adversary_overturns_with_fewer_rows():
    a, b = samples(600, 600, 1.0)
    mild, harsh = (ov.tolerance(a, b, assume=KNOWN, adversary=who, rng=0) for who in ("oblivious", "adaptive"))
    assert harsh.rows < mild.rows
    assert str(harsh).endswith("even by someone who saw the others.")
    assert repr(mild) == str(mild)
    assert harsh.to_dict()["rows"] == harsh.rows
    json.dumps(harsh.to_dict(), allow_nan=False)


def test_options_per_sample_and_invalid_options():
    a, b = samples(400, 400, 3.0)
    both = ov.tolerance(a, b, assume=KNOWN, n_blocks=(51, 51), vote="median", rng=0)
    assert both.rows == ov.tolerance(a, b, assume=KNOWN, n_blocks=51, vote="median", rng=0).rows > 0
    for wrong in ({"alternative": "less"}, {"simultaneous": True}, {"relative": True}):
        with pytest.raises(TypeError, match="does not go with tolerance"):
            ov.tolerance(a, b, **wrong)
    with pytest.raises(ValueError, match="one column at a time"):
        ov.tolerance(a.reshape(-1, 2), claim="mean > 0")
    with pytest.raises(TypeError, match="claim=3 must read like"):
        ov.tolerance(a, claim=3)


def test_a_row_at_the_end_of_floats_takes_few_looks(monkeypatch):
    """Scales far below the premise are ruled out at once, and not one by one, down to the smallest float."""
    looks = []
    own = kernel.log_products
    monkeypatch.setattr(kernel, "log_products", lambda *asked: looks.append(1) or own(*asked))
    x = np.random.default_rng(5).normal(size=40)
    x[7] = 1.7e308
    ov.tolerance(x, claim="mean > 0", adversary="adaptive", contamination=1)
    assert 0 < len(looks) < 5000
