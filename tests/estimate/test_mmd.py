"""The maximum mean discrepancy as a distance: the V-statistic, what it is invariant to, and what it says."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov
from outvote.contamination import Contamination
from outvote.estimate.mmd import _chosen_bandwidth


def v_statistic(a, b, width):
    """The distance by its definition, pair by pair."""

    def mean(x, y):
        pairs = [math.exp(-np.sum((np.atleast_1d(u) - np.atleast_1d(v)) ** 2) / (2 * width**2)) for u in x for v in y]
        return sum(pairs) / len(pairs)

    return math.sqrt(max(mean(a, a) + mean(b, b) - 2 * mean(a, b), 0.0))


@pytest.mark.parametrize(("shape_a", "shape_b"), [((40,), (30,)), ((20, 3), (35, 3)), ((1,), (2,))])
def test_estimate_is_the_v_statistic(shape_a, shape_b):
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=shape_a), rng.normal(0.7, size=shape_b)
    for width in (0.3, 5.0):
        r = ov.mmd(a, b, 0, bandwidth=width)
        assert r.estimate == pytest.approx(v_statistic(a, b, width), abs=1e-12)
        assert 0 <= r.interval.low <= r.estimate <= r.interval.high <= math.sqrt(2)


def test_tiles_are_those_of_all_pairs():
    def mean(x, y):
        return np.exp(-0.5 * np.square(x[:, None] - y[None]).sum(axis=2)).mean()

    rng = np.random.default_rng(2)
    for n_a, n_b in ((256, 257), (513, 255)):
        a, b = rng.normal(size=(n_a, 2)), rng.normal(0.5, size=(n_b, 2))
        expected = math.sqrt(mean(a, a) + mean(b, b) - 2 * mean(a, b))
        assert ov.mmd(a, b, bandwidth=1.0).estimate == pytest.approx(expected, rel=1e-12)


rows = st.lists(st.integers(-8, 8).map(float), min_size=3, max_size=25)


def test_more_corrupt_rows_or_confidence_widen_the_interval():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=300), rng.normal(1.0, size=200)
    found = [ov.mmd(a, b, m, bandwidth=1.0) for m in (0, 1, 5, 20)]
    found.append(ov.mmd(a, b, 20, 0.99, bandwidth=1.0))
    found.append(ov.mmd(a, b, Contamination(20, "adaptive"), 0.99, bandwidth=1.0))
    for narrow, wide in itertools.pairwise(found):
        assert wide.interval.low <= narrow.interval.low
        assert narrow.interval.high <= wide.interval.high
    assert len({r.tolerance for r in found[:4]}) == 1  # it does not depend on what was assumed
    each, together = (ov.mmd(a, b, c, bandwidth=1.0).interval for c in ((3, 2), Contamination(0.01)))
    assert together.low <= each.low
    assert each.high <= together.high


def test_decision_tolerance_and_interval_agree():
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=400), rng.normal(0.8, size=400)
    r = ov.mmd(a, b, 0, bandwidth=1.0)
    assert r.differ
    for adversary in ("oblivious", "adaptive"):
        stands = ov.mmd(a, b, Contamination(0, adversary), bandwidth=1.0).tolerance
        at, beyond = (ov.mmd(a, b, Contamination(m, adversary), bandwidth=1.0) for m in (stands // 2, stands // 2 + 1))
        assert at.differ
        assert at.interval.low > 0
        assert not beyond.differ
        assert beyond.interval.low == 0


def test_far_rows_hardly_move_it():
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=1000), rng.normal(size=1000)
    before = ov.mmd(a, b, 20, bandwidth=1.0)
    a[:20] = 1e300
    after = ov.mmd(a, b, 20, bandwidth=1.0)
    assert not after.differ
    assert abs(after.estimate - before.estimate) < math.sqrt(2) * 0.02


def test_bandwidth_by_default_is_a_power_of_two_whose_shares_add_up():
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=300), rng.normal(size=300)
    for unit in (1e-3, 1.0, 1e6):
        r = ov.mmd(a * unit, b * unit)
        assert math.log2(r.bandwidth) == round(math.log2(r.bandwidth))
        assert 0.4 * unit < r.bandwidth < 2.5 * unit
        assert "power of two" in r.explain()
    shares = []
    for j in range(-400, 401):
        width, log_share = _chosen_bandwidth(np.array([0.0, 2.0**j, 0.0, 2.0**j]) * 1.3)
        assert width == 2.0**j
        shares.append(math.exp(log_share))
    assert 0.99 < sum(shares) <= 1
    assert ov.mmd(np.zeros(30), np.zeros(30)).bandwidth == 1.0
    mostly = np.r_[np.zeros(50), 6.0]
    assert ov.mmd(mostly, mostly, 0).bandwidth == 8.0  # the rows that differ from the centre
    a[:100] = 1e300  # corrupt rows do not decide
    assert ov.mmd(a, b, 0.4).bandwidth <= 4.0
    assert ov.mmd(a, b).interval.high > ov.mmd(a, b, bandwidth=1.0).interval.high


def test_extreme_rows_do_no_harm():
    for a in ([1e308, -1e308, 0.0, 1.0], [1e-320, 0.0, 2e-320, 0.0], [7.0, 7.0, 7.0, 7.0]):
        for bandwidth in (None, 1e-300, 1e300):
            r = ov.mmd(a, [3.0, 4.0, 5.0], 0, bandwidth=bandwidth)
            assert 0 <= r.interval.low <= r.estimate <= r.interval.high <= math.sqrt(2)


def test_nan_policies():
    rng = np.random.default_rng(7)
    a, b = rng.normal(size=(200, 2)), rng.normal(2.0, size=(200, 2))
    clean = ov.mmd(a[3:], b, (2, 2), bandwidth=1.0)
    a[:3, 0] = np.nan
    with pytest.raises(ValueError, match="a has NaN or infinite values in 3 of 200 rows"):
        ov.mmd(a, b, bandwidth=1.0)
    omitted = ov.mmd(a, b, (2, 2), bandwidth=1.0, nan_policy="omit")
    assert (omitted.estimate, omitted.n_omitted) == (clean.estimate, 3)
    with pytest.raises(ValueError, match="more than the 2 corrupt rows"):
        ov.mmd(a, b, 2, bandwidth=1.0, nan_policy="corrupt")
    counted = ov.mmd(a, b, 3, bandwidth=1.0, nan_policy="corrupt")
    assert counted.differ
    assert counted.n_omitted == 3
    assert counted.tolerance >= 6


def test_bad_arguments_raise():
    x = np.linspace(0, 1, 20)
    for call, error, message in (
        (lambda: ov.mmd(x, x.reshape(10, 2)), ValueError, r"a has shape \(20,\) and b has shape \(10, 2\): they need"),
        *((lambda one=one: ov.mmd(x, x, bandwidth=one), ValueError, r"bandwidth=.* must be a positive number")
          for one in (0, -1.0, math.nan, math.inf, "wide", True)),
        (lambda: ov.mmd(x, x, "auto"), TypeError, "contamination='auto' must be a fraction"),
        (lambda: ov.mmd(x, []), ValueError, "b is empty"),
        (lambda: ov.mmd(x, x, 10), ValueError, "the largest count here is 9"),
        (lambda: ov.mmd(x, x).plot(), ValueError, "no picture of its own"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            call()


def test_result_is_an_estimate_that_says_what_it_found():
    rng = np.random.default_rng(8)
    a, b = rng.normal(size=500), rng.normal(1.0, size=500)
    r = ov.mmd(a, b, bandwidth=1.0)
    assert isinstance(r, ov.RobustEstimate)
    assert (r.statistic, r.plan.vote, r.certificate.provenance) == ("mmd", "complete", "certified")
    assert str(r).startswith("The two samples differ: MMD 0.39, at least 0.25 (certified 95 %, allows for 10")
    assert f"unless more than {r.tolerance} of the 1 000 rows are corrupt." in str(r)
    assert r.plain == r.estimate
    told = json.loads(json.dumps(r.to_dict()))
    assert (told["differ"], told["tolerance"], told["bandwidth"]) == (True, r.tolerance, 1.0)
    seen = ov.mmd(a, b, Contamination(5, "adaptive"), bandwidth=1.0)
    assert str(seen).endswith("are corrupt, even by someone who saw the others.")
    assert "not shown to differ" in str(ov.mmd(a, b, 200, bandwidth=1.0))
    assert f"they are if no more than {r.tolerance} of the 1 000" in str(ov.mmd(a, b, 200, bandwidth=1.0))
    few, many = rng.normal(size=60), rng.normal(2.0, size=2000)
    lopsided = ov.mmd(few, many, (0, 600), bandwidth=1.0)
    assert lopsided.differ
    assert lopsided.tolerance < 600
    assert f"wherever they are, this stands up to {lopsided.tolerance} of the 2 060 rows." in str(lopsided)


@settings(max_examples=30)
@given(rows, rows, st.sampled_from([None, 0.5, 3.0]), st.integers(-1000, 1000), st.randoms(),
       st.sampled_from(["oblivious", "adaptive"]), st.sampled_from([2.0**-7, 1024.0]))  # fmt: skip
def test_what_changes_nothing(a, b, bandwidth, offset, random, adversary, unit):
    """Swapped samples, rows that are moved, mirrored and in another order, and another unit."""
    allowed = Contamination(1, adversary)
    one, a, b = ov.mmd(a, b, allowed, bandwidth=bandwidth), np.array(a), np.array(b)
    moved = offset - a
    random.shuffle(moved)
    wide = None if bandwidth is None else bandwidth * unit
    for pair, scale in (((b, a), 1), ((moved, offset - b), 1), ((a * unit, b * unit), unit)):
        other = ov.mmd(*pair, allowed, bandwidth=bandwidth if scale == 1 else wide)
        if bandwidth or scale == 1:
            assert (one.bandwidth * scale, one.differ, one.tolerance) == (
                other.bandwidth,
                other.differ,
                other.tolerance,
            )
            assert (one.estimate, *one.interval) == pytest.approx((other.estimate, *other.interval), abs=1e-6)
