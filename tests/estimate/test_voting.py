"""The radius, interval and provenance of every estimator's certificate."""

import math

import numpy as np
import pytest

import outvote as ov
from outvote.certificate import radius as certified_radius

RNG = np.random.default_rng(5)
X = RNG.normal(3.0, 2.0, size=2000)
Y = RNG.normal(4.0, 2.0, size=1500)
KNOWN = ov.FiniteVariance(2.0)
BOUNDS = ov.Bounded(0, 1)


def median(*samples, **options):
    return (ov.mean if len(samples) == 1 else ov.difference)(*samples, **{"vote": "median", "rng": 0, **options})


def blocks(result):
    plan = result.plan
    return {"n_blocks": plan.n_blocks, "n_corrupt": plan.n_corrupt, "block_size": plan.block_size}


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
@pytest.mark.parametrize("assume", [KNOWN, ov.Bounded(-100, 100, variance=4.0), ov.FiniteKurtosis(3.0, 2.0)])
def test_mean_has_the_certified_radius_of_its_blocks(assume, alternative, adversary):
    r = median(X, contamination=ov.Contamination(20, adversary), assume=assume, alternative=alternative)
    options = {"confidence": 0.95, "assume": assume, "adversary": adversary, "alternative": alternative}
    assert r.radius == pytest.approx(certified_radius(**blocks(r), **options), rel=1e-12)
    assert r.certificate.provenance == "certified"
    assert (r.certificate.assumption, r.certificate.adversary) == (assume, adversary)
    low = -math.inf if alternative == "less" else r.estimate - r.radius
    high = math.inf if alternative == "greater" else r.estimate + r.radius
    if isinstance(assume, ov.Bounded):
        low, high = max(low, -100.0), min(high, 100.0)
    assert r.interval == pytest.approx((low, high))


def test_mean_of_unequal_blocks_has_their_radius():
    for options in ({"remainder": "spread"}, {"partition": "hash"}):
        r = ov.mean(X, 20, assume=KNOWN, n_blocks=101, rng=0, **options)
        sizes = list(r.block_sizes)
        expected = certified_radius(n_blocks=len(sizes), n_corrupt=20, block_size=sizes, confidence=0.95, assume=KNOWN)
        assert r.radius == pytest.approx(expected, rel=1e-12)


def test_too_few_blocks_have_no_certificate():
    r = ov.mean(X, 20, assume=KNOWN, n_blocks=40, rng=0)
    assert (r.radius, r.interval, r.certificate.provenance) == (math.inf, (-math.inf, math.inf), "none")
    assert "More than 40 blocks are needed" in r.certificate.note
    assert "no certificate" in str(r)
    assert "no certificate" in r.explain()


def test_simultaneous_intervals_share_delta():
    table = np.stack([X, X + 1, X * 0.5], axis=1)
    one, all_of_them = (ov.mean(table, 20, assume=KNOWN, n_blocks=101, rng=0, simultaneous=s) for s in (False, True))
    expected = certified_radius(n_blocks=101, n_corrupt=20, block_size=19, delta=0.05 / 3, assume=KNOWN)
    assert all_of_them.radius == pytest.approx([expected] * 3)
    assert np.all(all_of_them.radius > one.radius)
    assert all_of_them.certificate.confidence == pytest.approx(0.95)


def test_one_assumption_per_column():
    table = np.stack([X, X * 10], axis=1)
    r = ov.mean(table, 20, assume=[KNOWN, ov.FiniteVariance(20.0)], n_blocks=101, rng=0)
    assert r.radius[1] == pytest.approx(10 * r.radius[0])
    with pytest.raises(ValueError, match="assume has 3 entries for 2 columns"):
        ov.mean(table, 20, assume=[KNOWN] * 3, rng=0)


def test_unknown_scale_gives_a_plug_in_radius():
    clean = median(X, contamination=20)
    assert (clean.certificate.provenance, clean.certificate.assumption) == ("plug-in", None)
    assert "certified if assume= names" in clean.certificate.note
    known = certified_radius(**blocks(clean), confidence=0.95, assume=ov.FiniteVariance(1.0))
    assert clean.radius / known == pytest.approx(2.0, rel=0.1)
    spoiled = np.r_[np.full(20, 1e9), X[20:]]
    dirty = median(spoiled, contamination=20)
    assert dirty.radius == pytest.approx(clean.radius, rel=0.15)
    assert median(spoiled * 1024.0, contamination=20).radius == pytest.approx(1024 * dirty.radius)


def test_rows_without_spread_have_no_certificate():
    r = median((np.arange(1000) < 5).astype(float), contamination=10)
    assert (r.radius, r.certificate.provenance) == (math.inf, "none")
    assert "name one with assume=" in r.certificate.note
    for same in (np.full(1000, 7.0), np.array([7.0])):
        constant = median(same, contamination=0)
        assert (constant.estimate, constant.certificate.provenance) == (7.0, "none")


def test_known_kurtosis_gives_a_certified_radius():
    alone = ov.FiniteKurtosis(3.0)
    r = median(X, contamination=20, assume=alone)
    assert r.certificate.provenance == "certified"
    known = median(X, contamination=20, assume=ov.FiniteKurtosis(3.0, sd=2.0))
    assert known.radius < r.radius < 2 * known.radius
    assert median(X * 8, contamination=20, assume=alone).radius == pytest.approx(8 * r.radius)
    both = median(np.stack([X, 2 * X], axis=1), contamination=20, assume=alone).radius
    assert both[1] == pytest.approx(2 * both[0])
    few = median(X[:30], contamination=3, assume=ov.FiniteKurtosis(9.0))
    assert (few.radius, few.certificate.provenance) == (math.inf, "none")
    assert "no finite radius" in few.certificate.note
    assert ov.mean(X, 20, assume=alone, n_blocks=1999, rng=0).radius == math.inf
    with pytest.raises(ValueError, match="without sd is for means"):
        ov.u_statistic(X, kernel="gini", assume=alone)


def test_bounded_kernels_need_no_assumption():
    r = ov.u_statistic(X, kernel="wilcoxon", contamination=20, rng=0)
    assert (r.certificate.provenance, r.certificate.assumption) == ("certified", ov.Bounded(0.0, 1.0))
    assert 0.0 <= r.interval.low <= r.interval.high <= 1.0
    for grid in ("full", "diagonal"):
        r = ov.u_statistic(X, Y, kernel="auc", contamination=(20, 10), grid=grid, n_blocks=61, rng=0)
        expected = certified_radius(**blocks(r), confidence=0.95, assume=BOUNDS, degrees=(1, 1), grid=grid)
        assert r.radius == pytest.approx(expected)


def test_projection_variances_of_a_kernel_certify_it():
    own = ov.Kernel(lambda z, w: (z - w) ** 2 / 2, degrees=2, vectorized=True, zetas=(0.5 * 16, 2 * 16))
    r = ov.u_statistic(X, kernel=own, contamination=20, rng=0, vote="median")
    assert r.certificate.provenance == "certified"
    loose = {"kernel": "variance", "contamination": 20, "assume": ov.FiniteVariance(32**0.5), "vote": "median"}
    assert r.radius < ov.u_statistic(X, rng=0, **loose).radius
    two = ov.Kernel(lambda x, y: y - x, degrees=(1, 1), vectorized=True, zetas={(1, 0): 4.0, (0, 1): 4.0, (1, 1): 8.0})
    assert ov.u_statistic(X, Y, kernel=two, grid="diagonal", rng=0).certificate.provenance == "certified"


def test_unbounded_kernels_have_plug_in_radii():
    r = ov.u_statistic(X, kernel="variance", contamination=20, rng=0, vote="median")
    assert r.certificate.provenance == "plug-in"
    unit = certified_radius(**blocks(r) | {"block_size": 1}, confidence=0.95, assume=ov.FiniteVariance(1.0))
    spread = 1.482602218505602 * np.median(np.abs(r.block_values - np.median(r.block_values)))
    assert r.radius == pytest.approx(unit * spread)
    for grid in ("full", "diagonal"):
        assert ov.u_statistic(X[:300], Y[:300], kernel="energy", grid=grid, rng=0).certificate.provenance == "plug-in"


def test_difference_adds_two_radii_at_half_delta():
    r = median(X, Y, contamination=(20, 10), assume=KNOWN)
    parts = [
        certified_radius(n_blocks=k, n_corrupt=c, block_size=b, delta=0.025, assume=KNOWN)
        for k, c, b in zip(r.plan.n_blocks, r.plan.n_corrupt, r.plan.block_size, strict=True)
    ]
    assert r.radius == pytest.approx(sum(parts))
    assert r.certificate.confidence == pytest.approx(0.95)
    two_scales = median(X, Y * 10, contamination=(20, 10), assume=(KNOWN, ov.FiniteVariance(20.0)))
    assert two_scales.radius == pytest.approx(parts[0] + 10 * parts[1])
    with pytest.raises(ValueError, match=r"assume=.* has 3 entries for 2 samples"):
        median(X, Y, assume=(KNOWN,) * 3)
    for known in (None, (KNOWN, None)):  # the weaker provenance
        assert median(X, Y, assume=known).certificate.provenance == "plug-in"
    assert ov.difference(X, Y, 20, assume=KNOWN, n_blocks=(101, 9), rng=0).certificate.provenance == "none"
    family = ov.difference(X, Y, 10, assume=KNOWN, function=[np.sin, np.abs, lambda x: x > 3], n_blocks=101, rng=0)
    sizes, shared = family.plan.block_size, {"n_blocks": 101, "n_corrupt": 10, "delta": 0.05 / 6, "assume": KNOWN}
    assert family.radius == pytest.approx(sum(certified_radius(block_size=b, **shared) for b in sizes))


def test_relative_difference_divides_intervals():
    a, b = 100 + X, 110 + X[::-1]
    r = median(a, b, contamination=5, assume=KNOWN, relative=True)
    centre = [float(np.median(values)) for values in r.block_values]
    spread = [
        certified_radius(n_blocks=k, n_corrupt=5, block_size=s, delta=0.025, assume=KNOWN)
        for k, s in zip(r.plan.n_blocks, r.plan.block_size, strict=True)
    ]
    assert r.interval.high == pytest.approx((centre[1] + spread[1]) / (centre[0] - spread[0]) - 1)
    assert r.interval.low == pytest.approx((centre[1] - spread[1]) / (centre[0] + spread[0]) - 1)
    assert r.radius == pytest.approx(max(r.interval.high - r.estimate, r.estimate - r.interval.low))
    unbounded = median(X - 3, Y, contamination=5, assume=KNOWN, relative=True)
    assert (unbounded.interval, unbounded.certificate.provenance) == ((-math.inf, math.inf), "none")
    assert "may be 0" in unbounded.certificate.note


def test_one_sided_relative_differences_and_families():
    a, b = 10 + X, 12 + X[::-1]
    for options in ({"relative": True}, {"function": [np.abs, lambda z: z]}):
        two, less, more = (
            median(a, b, contamination=5, assume=KNOWN, alternative=side, **options)
            for side in ("two-sided", "less", "greater")
        )
        assert less.interval.high == pytest.approx(two.interval.high)
        assert less.certificate.radius == pytest.approx(two.certificate.radius)
        if "relative" in options:
            assert (less.interval.low, more.interval.high) == (-math.inf, math.inf)
    assert median(a, a, contamination=5, assume=KNOWN, function=[np.abs]).interval.low == 0.0
    with pytest.raises(ValueError, match="relative=True goes with one function"):
        median(a, b, relative=True, function=[np.abs])


def test_rows_outside_the_bounds_count_as_corrupt():
    x = np.random.default_rng(2).uniform(size=1000)
    x[[3, 500]] = [7.0, -1.0]
    r = median(x, contamination=10, assume=BOUNDS)
    assert (r.plan.n_rows, r.plan.n_corrupt) == (1000, 10)
    assert "2 rows of x lie outside the bounds" in r.explain()
    ordinary = x.copy()
    ordinary[[3, 500]] = np.median(np.delete(x, [3, 500]))
    assert r.estimate == pytest.approx(median(ordinary, contamination=10, assume=BOUNDS).estimate)
    assert x[3] == 7.0
    with pytest.raises(ValueError, match=r"x has values outside the bounds .* in 2 rows, more than the 1 corrupt rows"):
        median(x, contamination=1, assume=BOUNDS)
    with pytest.raises(ValueError, match="a has values outside"):
        median(x, x, contamination=1, assume=BOUNDS)
    each = median(np.stack([x, 10 * x], axis=1), contamination=10, assume=[BOUNDS, ov.FiniteVariance(3.0)])
    assert "2 rows of x" in each.explain()
    assert each.interval.high[0] <= 1.0 < each.interval.high[1]


def test_rows_that_are_corrupt_for_certain_stay_in_their_blocks_and_add_up():
    x = X.copy()
    x[:5] = np.nan
    for allowed in (20, ov.Contamination(20, "adaptive")):
        kept = median(x, contamination=allowed, nan_policy="corrupt")
        assert (kept.plan.n_rows, kept.plan.n_corrupt, kept.n_omitted) == (2000, 20, 5)
    gone = median(x, contamination=0.01, nan_policy="omit")
    assert (gone.plan.n_rows, gone.plan.n_corrupt, gone.n_omitted) == (1995, 20, 5)
    x = np.random.default_rng(0).random(500)
    x[:3], x[3:7] = np.nan, 9.0
    known = {"assume": BOUNDS, "nan_policy": "corrupt"}
    assert median(x, contamination=7, **known).plan.n_corrupt == 7
    for samples in ((x,), (x, x)):
        with pytest.raises(ValueError, match="in 4 rows, more than the 3 corrupt rows"):
            median(*samples, contamination=6, **known)


def test_invalid_assumptions_raise():
    for call in (
        lambda: ov.mean(X, assume=2.0),
        lambda: ov.u_statistic(X, kernel="gini", assume="sd"),
        lambda: ov.plan_blocks(100, contamination=3, assume=(0, 1)),
    ):
        with pytest.raises(TypeError, match=r"assume=.* must be None, FiniteVariance"):
            call()


@pytest.mark.parametrize("vote", ["median", "soft", "clipped"])
def test_radii_follow_extreme_scales(vote):
    for assume in (ov.FiniteVariance(2.0), ov.Bounded(-20, 20), ov.FiniteKurtosis(3.0, 2.0)):
        usual = ov.mean(X, 20, assume=assume, vote=vote, n_blocks=201, rng=0)
        for scale in (1e-165, 1e120, 1e298):
            r = ov.mean(X * scale, 20, assume=assume.scaled(scale), vote=vote, n_blocks=201, rng=0)
            assert (r.radius, r.estimate) == pytest.approx((usual.radius * scale, usual.estimate * scale), rel=1e-6)


def test_str_of_one_sided_results():
    less = ov.mean(X, 20, assume=KNOWN, vote="soft", alternative="less", rng=0)
    assert "at most" in str(less)
    assert "±" not in str(less)
    assert "the truth is at most" in str(less.certificate)
    assert "above the estimate" in str(less.certificate)
    more = ov.mean(X, 20, assume=KNOWN, alternative="greater", rng=0)
    assert "at least" in str(more)
    assert "below the estimate" in more.explain()
    assert "at most" in str(ov.certify_risk(X > 3, contamination=20, assume=BOUNDS, rng=0))


def test_soft_vote_needs_a_scale_for_every_column():
    table = np.stack([X, X], axis=1)
    mixed = ov.mean(table, 20, assume=[KNOWN, ov.FiniteKurtosis(3.0)], vote="soft", rng=0)
    assert mixed.certificate.provenance == "plug-in"
    both = ov.mean(table, 20, assume=[KNOWN, KNOWN], vote="soft", rng=0)
    assert (both.plan.vote, both.certificate.provenance) == ("soft", "certified")
    assert ov.mean(X, 20, assume=KNOWN, vote="soft", partition="hash", rng=0).explain().count("Every row has") == 0


def test_plot_of_a_soft_vote_shows_no_median():
    import matplotlib.pyplot as plt

    for samples in ((X,), (X, Y)):
        r = median(*samples, contamination=20, assume=KNOWN, vote="soft")
        labels = [text.get_text() for text in r.plot(column=0).ax_.get_legend().get_texts()]
        assert any(label.startswith("soft vote") for label in labels)
        assert not any("median" in label for label in labels)
        plt.close("all")
    mixed = ov.difference(X[:20], Y, (8, 5), 0.99, assume=KNOWN, vote="auto", function=[np.sin, np.cos], rng=0)
    assert mixed.plan.vote == "mixed"
    assert "allows for 8 and 5" in str(mixed)
