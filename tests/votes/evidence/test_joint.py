"""Evidence of two samples together: brute force, coverage, and the numbers to reach."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov
from outvote.votes import Terms
from outvote.votes.evidence import Pairs, Sample, SortedRows, difference_interval
from outvote.votes.evidence.joint import Joint, pairs_of_factors

TERMS = Terms(math.log(0.05))


def sample(x, m, sd=1.0, adaptive=False):
    rows = SortedRows(np.sort(np.asarray(x, dtype=float)), m, adaptive=adaptive)
    return Sample(rows, ov.FiniteVariance(sd), sd)


def brute_force(joint, a, b, u, value, dropped):
    """The evidence at one mean of a, with every way to drop so many of the rows of both."""
    products = []
    target = value * u if joint.ratio is not None else u + value
    for f, g in joint.pairs:
        logs = np.concatenate([f.logs(u - a) - f.norm, g.logs(b - target) - g.norm])
        least = min(
            np.delete(logs, list(gone)).sum()
            for k in range(dropped + 1)
            for gone in itertools.combinations(range(len(logs)), k)
        )
        products.append(math.log(f.weight) + least)
    return np.logaddexp.reduce(products)


@settings(deadline=None, max_examples=60)
@given(
    a=st.lists(st.floats(-30, 30), min_size=2, max_size=5),
    b=st.lists(st.floats(-30, 30), min_size=2, max_size=5),
    value=st.floats(-5, 5),
    dropped=st.integers(0, 2),
    relative=st.booleans(),
)
def test_least_evidence_is_below_brute_force_at_every_mean(a, b, value, dropped, relative):
    a, b = np.sort(a), np.sort(b)
    ratio = 1 + abs(value) if relative else 1.0
    pairs = pairs_of_factors((len(a), len(b)), (1.0, 2.0), 4.0, read=False, ratio=ratio)
    span = (1.0, 3.0) if relative else (-1.0, 1.0)
    rows = SortedRows(a, dropped).mirrored, SortedRows(b, dropped)
    joint = Joint(*rows, pairs, span, dropped, ratio=abs(value) if relative else None)
    exact = [brute_force(joint, a, b, u, value, dropped) for u in np.linspace(*span, 33)]
    least = joint.least(value, value)
    assert least <= min(exact) + 1e-9
    assert joint.least(-math.inf, value) <= least + 1e-9


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), shift=st.floats(-100, 100), scale=st.sampled_from([0.25, 1.0, 8.0]))
def test_interval_moves_with_the_rows(seed, shift, scale):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=60), rng.normal(0.5, size=90)
    one = difference_interval(sample(a, 1), sample(b, 1), TERMS, together=2)
    two = difference_interval(sample(scale * a, 1, scale), sample(scale * (b + shift), 1, scale), TERMS, together=2)
    assert two.low == pytest.approx(scale * (one.low + shift), abs=1e-6 * scale * (1 + abs(shift)))
    turned = difference_interval(sample(b, 1), sample(a, 1), TERMS, together=2)
    assert (turned.low, turned.high) == pytest.approx((-one.high, -one.low), abs=1e-9)


def test_intervals_grow_with_the_corrupt_rows():
    rng = np.random.default_rng(0)
    a, b = sample(rng.normal(size=300), 0), sample(rng.normal(size=400), 0)
    found = [difference_interval(a, b, TERMS, together=t) for t in (0, 1, 3, 10, 40)]
    widths = [one.high - one.low for one in found]
    assert all(one.low > two.low and one.high < two.high for one, two in itertools.pairwise(found)), widths


@settings(deadline=None, max_examples=80)
@given(
    seed=st.integers(0, 10**6), start=st.floats(-1, 0), width=st.floats(1e-4, 2), more=st.tuples(*[st.floats(0, 1)] * 2)
)
def test_a_smaller_span_leaves_at_least_as_much_evidence(seed, start, width, more):
    rng = np.random.default_rng(seed)
    n_a, n_b = rng.integers(5, 3000, size=2)
    a, b = np.sort(rng.normal(size=n_a)), np.sort(rng.normal(size=n_b))
    pairs = pairs_of_factors((n_a, n_b), (1.0, 1.0), 4.4, read=False)
    spans = (start, start + width), (start - more[0] * width, start + width * (1 + more[1]))
    one, two = (Joint(SortedRows(a, 2).mirrored, SortedRows(b, 2), pairs, span) for span in spans)
    for bottom in (-math.inf, -0.33):
        assert one.least(bottom, -0.33) >= two.least(bottom, -0.33) - 1e-9


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), relative=st.booleans(), unknown=st.booleans())
def test_intervals_are_nested_in_the_number_of_corrupt_rows(seed, relative, unknown):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(8.0, size=rng.integers(30, 200)), rng.normal(rng.choice([1.0, 8.0, 60.0]), size=150)
    a[0] = rng.choice([8.0, 1e6, -30.0])
    both = [sample(x, 0) for x in (a, b)]
    if unknown:
        both = [Sample(one.rows, None, 2.0, Pairs.of(x, 0)) for one, x in zip(both, (a, b), strict=True)]
    found = [difference_interval(*both, TERMS, together=t, relative=relative) for t in range(0, 14, 2)]
    found = [one for one in found if not one.empty]
    for one, two in itertools.pairwise(found):
        assert two.low <= one.low or two.low == pytest.approx(one.low, rel=1e-9)
        assert two.high >= one.high or two.high == pytest.approx(one.high, rel=1e-9)


@pytest.mark.parametrize("ratio", [10.0, 3.0, 1.0, 0.5, 0.1, 0.0, -0.3])
@pytest.mark.parametrize(("sd_a", "sd_b", "n_a", "n_b"), [(1.0, 1.0, 4000, 4000), (3.0, 1.0, 1000, 5000)])
def test_ratios_of_any_size_are_nearly_as_narrow_as_known_to_be_possible(ratio, sd_a, sd_b, n_a, n_b):
    rng = np.random.default_rng(0)
    a, b = rng.normal(10.0, sd_a, n_a), rng.normal(10 * ratio, sd_b, n_b)
    found = ov.difference(a, b, 0, assume=(ov.FiniteVariance(sd_a), ov.FiniteVariance(sd_b)), relative=True)
    ideal = math.sqrt(2 * math.log(40)) * math.hypot(ratio * sd_a / math.sqrt(n_a), sd_b / math.sqrt(n_b)) / 10
    assert found.interval.low <= ratio - 1 <= found.interval.high
    assert found.interval.high - found.interval.low <= 2 * 1.25 * ideal


def test_difference_is_narrower_than_two_intervals():
    rng = np.random.default_rng(0)
    for m, most in ((0, 0.72), (100, 0.9)):
        a, b = rng.normal(size=10_000), rng.normal(size=10_000)
        joint = ov.difference(a, b, m, assume=ov.FiniteVariance(1.0), counted="each").interval
        apart = [ov.mean(x, m, 0.975, ov.FiniteVariance(1.0), "evidence").interval for x in (a, b)]
        assert joint.high - joint.low <= most * sum(one.high - one.low for one in apart)


LAWS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n) - 1,
    "rare": lambda rng, n: ((rng.random(n) < 0.02) - 0.02) / math.sqrt(0.02 * 0.98),
}


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("n_a", "n_b", "scale"), [(40, 40, 1.0), (30, 400, 1.0), (60, 60, 20.0)])
@pytest.mark.parametrize("place", [-1e6, -6.0, 0.0, 4.0, 1e6])
def test_truth_is_covered_with_all_corrupt_rows_in_one_arm(law, n_a, n_b, scale, place):
    """Also if the true difference is far on the other side."""
    misses, runs, t = 0, 24, 3
    for seed in range(runs):
        rng = np.random.default_rng([seed, n_a, n_b])
        a, b = LAWS[law](rng, n_a), scale * LAWS[law](rng, n_b) - 6.0
        spoiled = (a, b)[seed % 2]
        spoiled[:t] = place
        found = difference_interval(sample(a, 0), sample(b, 0, scale), TERMS, together=t)
        misses += not found.low <= -6.0 <= found.high and not found.empty
    assert misses <= 0.05 * runs + 3 * math.sqrt(0.05 * 0.95 * runs)


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
def test_premise_of_both_samples_is_conditional_on_both(adversary):
    """If both sds are at most what was read off, the truth is missed with probability at most δ."""
    misses, runs = 0, 40
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        a, b = rng.normal(size=200), rng.exponential(2.0, size=300)
        b[:2] = 50.0
        r = ov.difference(a, b, ov.Contamination(2, adversary))
        held = bool(np.all(r.certificate.premise_sd >= [1.0, 2.0]))
        misses += held and not r.interval.low <= 2.0 <= r.interval.high
    assert misses <= 0.05 * runs + 3 * math.sqrt(0.05 * 0.95 * runs)


def test_relative_difference_of_negative_means():
    rng = np.random.default_rng(0)
    a, b = rng.normal(10.0, size=2000), rng.normal(11.0, size=2000)
    up = ov.difference(a, b, 5, assume=ov.FiniteVariance(1.0), relative=True)
    down = ov.difference(-a, -b, 5, assume=ov.FiniteVariance(1.0), relative=True)
    assert down.interval == pytest.approx(up.interval, abs=1e-9)
    assert up.interval.low < 0.1 < up.interval.high < 0.13
    odd = np.resize([5.0, -5.0], 2000)
    with pytest.raises(ValueError, match="the rows contradict assume=FiniteVariance"):
        ov.difference(a, 11 + odd, 5, assume=ov.FiniteVariance(1.0), relative=True)
    free = ov.difference(rng.normal(size=200), b, 5, assume=ov.FiniteVariance(1.0), relative=True)
    assert free.certificate.provenance == "none"
    assert "mean of a may be 0" in free.certificate.note


def test_star_class_sizes_are_settled():
    """Small against regular classes: 1733 and 2000 rows, means 491.5 and 483.3, sd 47."""
    rng = np.random.default_rng(0)
    regular, small = rng.normal(size=2000), rng.normal(size=1733)
    regular, small = (47 * (x - x.mean()) / x.std() + mean for x, mean in ((regular, 483.3), (small, 491.5)))
    for m in (0, 3):
        found = ov.difference(regular, small, m)
        assert found.interval.low > 0
        assert found.certificate.provenance == "conditional"
        assert "if the clean rows' sd is at most" in str(found)
    assert ov.tolerance(regular, small, contamination=3).rows >= 6


def test_contradicted_sds_raise_and_do_not_decide():
    rng = np.random.default_rng(0)
    a, b = rng.normal(100.0, size=1000), rng.normal(95.0, size=1000)
    a[:10] = 100 + 20 * np.resize([1.0, -1.0], 10)
    with pytest.raises(ValueError, match="the rows contradict assume=FiniteVariance"):
        ov.difference(a, b, 0, assume=ov.FiniteVariance(1.0))
    found = ov.tolerance(a, b, assume=ov.FiniteVariance(1.0), contamination=20)
    assert found.claim == "difference < 0"


def test_pairs_bound_the_scales_from_below():
    x = np.random.default_rng(0).normal(size=400)
    pairs = Pairs.of(x, 4)
    wide = Sample(SortedRows(np.sort(x), 4), None, 4.0, pairs)
    narrow = Sample(SortedRows(np.sort(x), 4), None, 1.5, pairs)
    one, two = (difference_interval(s, s, TERMS) for s in (narrow, wide))
    assert two.low < one.low < one.high < two.high
    far = Sample(SortedRows(np.sort(x), 4), None, 1e6, pairs)
    assert difference_interval(far, far, TERMS).low == -math.inf  # too many scales to try


def test_the_search_stops_when_nothing_is_ruled_out(monkeypatch):
    """The other scales have nothing to add; each took a hundred looks."""
    looks = []
    own = Joint.least
    monkeypatch.setattr(Joint, "least", lambda self, *span: looks.append(span) or own(self, *span))
    x = 1e15 + np.random.default_rng(0).normal(size=60)
    ov.difference(x[:30], x[30:33], contamination=1)
    assert len(looks) < 2000
