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


def blocks(result):
    plan = result.plan
    return {"n_blocks": plan.n_blocks, "n_corrupt": plan.n_corrupt, "block_size": plan.block_size}


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
@pytest.mark.parametrize(
    "assume",
    [
        KNOWN,
        ov.SubGaussian(2.0),
        ov.Bounded(-100, 100),
        ov.Bounded(-100, 100, variance=4.0),
        ov.FiniteKurtosis(3.0, 2.0),
    ],
)
def test_mean_has_the_certified_radius_of_its_blocks(assume, alternative, adversary):
    r = ov.mean(X, ov.Contamination(20, adversary), assume=assume, alternative=alternative, rng=0, vote="median")
    expected = certified_radius(
        **blocks(r), confidence=0.95, assume=assume, adversary=adversary, alternative=alternative
    )
    assert r.radius == pytest.approx(expected, rel=1e-12)
    assert r.certificate.provenance == "certified"
    assert r.certificate.assumption == assume
    assert r.certificate.adversary == adversary
    low = -math.inf if alternative == "less" else r.estimate - r.radius
    high = math.inf if alternative == "greater" else r.estimate + r.radius
    if isinstance(assume, ov.Bounded):
        low, high = max(low, -100.0), min(high, 100.0)
    assert r.interval == pytest.approx((low, high))


def test_mean_of_unequal_blocks_has_their_radius():
    for options in ({"remainder": "spread"}, {"partition": "hash"}):
        r = ov.mean(X, 20, assume=KNOWN, n_blocks=101, rng=0, **options)
        expected = certified_radius(
            n_blocks=len(r.block_sizes), n_corrupt=20, block_size=list(r.block_sizes), confidence=0.95, assume=KNOWN
        )
        assert r.radius == pytest.approx(expected, rel=1e-12)


def test_too_few_blocks_have_no_certificate():
    r = ov.mean(X, 20, assume=KNOWN, n_blocks=40, rng=0)
    assert r.radius == math.inf
    assert r.interval == (-math.inf, math.inf)
    assert r.certificate.provenance == "none"
    assert "More than 40 blocks are needed" in r.certificate.note
    assert "no certificate" in str(r)
    assert "no certificate" in r.explain()


def test_simultaneous_intervals_share_delta():
    table = np.stack([X, X + 1, X * 0.5], axis=1)
    one = ov.mean(table, 20, assume=KNOWN, n_blocks=101, rng=0)
    all_of_them = ov.mean(table, 20, assume=KNOWN, n_blocks=101, rng=0, simultaneous=True)
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
    r = ov.mean(X, 20, rng=0, vote="median")
    assert r.certificate.provenance == "plug-in"
    assert r.certificate.assumption is None
    assert "certified if assume= names" in r.certificate.note
    known = certified_radius(**blocks(r), confidence=0.95, assume=ov.FiniteVariance(1.0))
    assert r.radius / known == pytest.approx(2.0, rel=0.1)


def test_plug_in_scale_resists_corrupt_rows_and_follows_units():
    spoiled = X.copy()
    spoiled[:20] = 1e9
    clean, dirty = ov.mean(X, 20, rng=0, vote="median"), ov.mean(spoiled, 20, rng=0, vote="median")
    assert dirty.radius == pytest.approx(clean.radius, rel=0.15)
    assert ov.mean(spoiled * 1024.0, 20, rng=0, vote="median").radius == pytest.approx(1024 * dirty.radius)


def test_rows_without_spread_have_no_certificate():
    mostly_zero = np.zeros(1000)
    mostly_zero[:5] = 1.0
    r = ov.mean(mostly_zero, 10, rng=0, vote="median")
    assert r.radius == math.inf
    assert r.certificate.provenance == "none"
    assert "name one with assume=" in r.certificate.note
    for same in (np.full(1000, 7.0), np.array([7.0]), np.full(3, 7.0)):
        constant = ov.mean(same, 0, rng=0, vote="median")
        assert constant.estimate == 7.0
        assert constant.certificate.provenance == "none"


def test_known_kurtosis_gives_a_certified_radius():
    r = ov.mean(X, 20, assume=ov.FiniteKurtosis(3.0), rng=0, vote="median")
    assert r.certificate.provenance == "certified"
    known = ov.mean(X, 20, assume=ov.FiniteKurtosis(3.0, sd=2.0), rng=0, vote="median")
    assert known.radius < r.radius < 2 * known.radius
    assert ov.mean(X * 8, 20, assume=ov.FiniteKurtosis(3.0), rng=0, vote="median").radius == pytest.approx(8 * r.radius)
    table = np.stack([X, 2 * X], axis=1)
    both = ov.mean(table, 20, assume=ov.FiniteKurtosis(3.0), rng=0, vote="median").radius
    assert both[1] == pytest.approx(2 * both[0])


def test_known_kurtosis_with_few_rows_gives_no_radius():
    r = ov.mean(X[:30], 3, assume=ov.FiniteKurtosis(9.0), rng=0, vote="median")
    assert r.radius == math.inf
    assert r.certificate.provenance == "none"
    assert "no finite radius" in r.certificate.note
    assert ov.mean(X, 20, assume=ov.FiniteKurtosis(3.0), n_blocks=1999, rng=0).radius == math.inf


def test_bounded_kernels_need_no_assumption():
    r = ov.u_statistic(X, kernel="wilcoxon", contamination=20, rng=0)
    assert r.certificate.provenance == "certified"
    assert r.certificate.assumption == ov.Bounded(0.0, 1.0)
    assert 0.0 <= r.interval.low <= r.interval.high <= 1.0
    for grid in ("full", "diagonal"):
        r = ov.u_statistic(X, Y, kernel="auc", contamination=(20, 10), grid=grid, rng=0)
        expected = certified_radius(**blocks(r), confidence=0.95, assume=ov.Bounded(0, 1), degrees=(1, 1), grid=grid)
        assert r.radius == pytest.approx(expected)


def test_projection_variances_of_a_kernel_certify_it():
    gaussian_variance = ov.Kernel(
        lambda z, w: (z - w) ** 2 / 2, degrees=2, vectorized=True, zetas=(0.5 * 16, 2 * 16), name="variance of N(3, 4)"
    )
    r = ov.u_statistic(X, kernel=gaussian_variance, contamination=20, rng=0, vote="median")
    assert r.certificate.provenance == "certified"
    loose = ov.u_statistic(
        X, kernel="variance", contamination=20, assume=ov.FiniteVariance(32**0.5), rng=0, vote="median"
    )
    assert r.radius < loose.radius
    two = ov.Kernel(lambda x, y: y - x, degrees=(1, 1), vectorized=True, zetas={(1, 0): 4.0, (0, 1): 4.0, (1, 1): 8.0})
    assert ov.u_statistic(X, Y, kernel=two, grid="diagonal", rng=0).certificate.provenance == "certified"


def test_unbounded_kernels_have_plug_in_radii():
    r = ov.u_statistic(X, kernel="variance", contamination=20, rng=0, vote="median")
    assert r.certificate.provenance == "plug-in"
    unit = certified_radius(
        n_blocks=r.plan.n_blocks, n_corrupt=20, block_size=1, confidence=0.95, assume=ov.FiniteVariance(1.0)
    )
    spread = 1.482602218505602 * np.median(np.abs(r.block_values - np.median(r.block_values)))
    assert r.radius == pytest.approx(unit * spread)
    for grid in ("full", "diagonal"):
        assert ov.u_statistic(X[:300], Y[:300], kernel="energy", grid=grid, rng=0).certificate.provenance == "plug-in"


def test_difference_adds_two_radii_at_half_delta():
    r = ov.difference(X, Y, (20, 10), assume=KNOWN, rng=0, vote="median")
    parts = [
        certified_radius(n_blocks=k, n_corrupt=c, block_size=b, delta=0.025, assume=KNOWN)
        for k, c, b in zip(r.plan.n_blocks, r.plan.n_corrupt, r.plan.block_size, strict=True)
    ]
    assert r.radius == pytest.approx(sum(parts))
    assert r.certificate.confidence == pytest.approx(0.95)
    two_scales = ov.difference(X, Y * 10, (20, 10), assume=(KNOWN, ov.FiniteVariance(20.0)), rng=0, vote="median")
    assert two_scales.radius == pytest.approx(parts[0] + 10 * parts[1])
    with pytest.raises(ValueError, match=r"assume=.* has 3 entries for 2 samples"):
        ov.difference(X, Y, assume=(KNOWN,) * 3, vote="median")


def test_difference_has_the_weaker_provenance():
    assert ov.difference(X, Y, rng=0, vote="median").certificate.provenance == "plug-in"
    assert ov.difference(X, Y, assume=(KNOWN, None), rng=0, vote="median").certificate.provenance == "plug-in"
    assert ov.difference(X, Y, 20, assume=KNOWN, n_blocks=(101, 9), rng=0).certificate.provenance == "none"


def test_family_of_functions_splits_delta():
    family = [lambda x: x, np.abs, lambda x: x > 3]
    r = ov.difference(X, Y, 10, assume=KNOWN, function=family, n_blocks=(101, 101), rng=0)
    parts = [
        certified_radius(n_blocks=101, n_corrupt=10, block_size=b, delta=0.05 / 6, assume=KNOWN)
        for b in r.plan.block_size
    ]
    assert r.radius == pytest.approx(sum(parts))


def test_relative_difference_divides_intervals():
    a, b = 100 + X, 110 + X[::-1]
    r = ov.difference(a, b, 5, assume=KNOWN, relative=True, rng=0, vote="median")
    centre = [float(np.median(values)) for values in r.block_values]
    spread = [
        certified_radius(n_blocks=k, n_corrupt=5, block_size=s, delta=0.025, assume=KNOWN)
        for k, s in zip(r.plan.n_blocks, r.plan.block_size, strict=True)
    ]
    assert r.interval.high == pytest.approx((centre[1] + spread[1]) / (centre[0] - spread[0]) - 1)
    assert r.interval.low == pytest.approx((centre[1] - spread[1]) / (centre[0] + spread[0]) - 1)
    assert r.radius == pytest.approx(max(r.interval.high - r.estimate, r.estimate - r.interval.low))
    less = ov.difference(a, b, 5, assume=KNOWN, relative=True, alternative="less", rng=0, vote="median")
    more = ov.difference(a, b, 5, assume=KNOWN, relative=True, alternative="greater", rng=0, vote="median")
    assert less.interval.low == -math.inf
    assert less.interval.high <= r.interval.high
    assert more.interval.high == math.inf
    unbounded = ov.difference(X - 3, Y, 5, assume=KNOWN, relative=True, rng=0, vote="median")
    assert unbounded.interval == (-math.inf, math.inf)
    assert unbounded.certificate.provenance == "none"
    assert "may be 0" in unbounded.certificate.note


def test_rows_outside_the_bounds_count_as_corrupt():
    x = np.random.default_rng(2).uniform(size=1000)
    x[[3, 500]] = [7.0, -1.0]
    r = ov.mean(x, 10, assume=ov.Bounded(0, 1), rng=0, vote="median")
    assert (r.plan.n_rows, r.plan.n_corrupt) == (1000, 10)
    assert "2 rows of x lie outside the bounds" in r.explain()
    ordinary = x.copy()
    ordinary[[3, 500]] = np.median(np.delete(x, [3, 500]))
    assert r.estimate == ov.mean(ordinary, 10, assume=ov.Bounded(0, 1), rng=0, vote="median").estimate
    assert x[3] == 7.0
    with pytest.raises(ValueError, match=r"x has values outside the bounds .* in 2 rows, more than the 1 corrupt rows"):
        ov.mean(x, 1, assume=ov.Bounded(0, 1), vote="median")
    with pytest.raises(ValueError, match="a has values outside"):
        ov.difference(x, x, 1, assume=ov.Bounded(0, 1), vote="median")
    table = np.stack([x, 10 * x], axis=1)
    each = ov.mean(table, 10, assume=[ov.Bounded(0, 1), ov.FiniteVariance(3.0)], rng=0, vote="median")
    assert "2 rows of x" in each.explain()
    assert each.interval.high[0] <= 1.0 < each.interval.high[1]
    with pytest.raises(ValueError, match="assume has 1 entries for 2 columns"):
        ov.mean(table, 10, assume=[ov.Bounded(0, 1)], vote="median")


def test_nan_rows_counted_as_corrupt_stay_in_their_blocks():
    x = X.copy()
    x[:5] = np.nan
    kept = ov.mean(x, ov.Contamination(20, "adaptive"), nan_policy="corrupt", rng=0, vote="median")
    assert (kept.plan.n_rows, kept.plan.n_corrupt, kept.n_omitted) == (2000, 20, 5)
    assert ov.mean(x, 20, nan_policy="corrupt", rng=0, vote="median").plan.n_corrupt == 20
    gone = ov.mean(x, 0.01, nan_policy="omit", rng=0, vote="median")
    assert (gone.plan.n_rows, gone.plan.n_corrupt, gone.n_omitted) == (1995, 20, 5)
    assert np.isnan(x[:5]).all()


def test_invalid_assumptions_raise():
    for call in (
        lambda: ov.mean(X, assume=2.0),
        lambda: ov.u_statistic(X, kernel="gini", assume="sd"),
        lambda: ov.plan_blocks(100, contamination=3, assume=(0, 1)),
    ):
        with pytest.raises(TypeError, match=r"assume=.* must be None, FiniteVariance"):
            call()


def test_one_sided_relative_differences_and_families():
    a, b = 10 + X, 12 + X[::-1]
    for options in ({"relative": True}, {"function": [np.abs, lambda z: z]}):
        two = ov.difference(a, b, 5, assume=KNOWN, rng=0, **options, vote="median")
        less = ov.difference(a, b, 5, assume=KNOWN, alternative="less", rng=0, **options, vote="median")
        assert less.interval.high == pytest.approx(two.interval.high)
        assert less.certificate.radius == pytest.approx(two.certificate.radius)
    family = ov.difference(a, a, 5, assume=KNOWN, function=[np.abs], rng=0, vote="median")
    assert family.interval.low == 0.0
    with pytest.raises(ValueError, match="relative=True goes with one function"):
        ov.difference(a, b, relative=True, function=[np.abs], vote="median")


def test_kurtosis_without_sd_is_refused_for_u_statistics():
    with pytest.raises(ValueError, match="without sd is for means"):
        ov.u_statistic(X, kernel="gini", assume=ov.FiniteKurtosis(3.0))


def test_nan_rows_and_rows_outside_the_bounds_add_up():
    x = np.random.default_rng(0).random(500)
    x[:3], x[3:7] = np.nan, 9.0
    known = {"assume": ov.Bounded(0, 1), "nan_policy": "corrupt", "rng": 0}
    assert ov.mean(x, 7, **known, vote="median").plan.n_corrupt == 7
    with pytest.raises(ValueError, match="in 4 rows, more than the 3 corrupt rows"):
        ov.mean(x, 6, **known, vote="median")
    with pytest.raises(ValueError, match="in 4 rows, more than the 3 corrupt rows"):
        ov.difference(x, x, 6, **known, vote="median")


@pytest.mark.parametrize("exponent", [-165, -120, 120, 200, 298])
@pytest.mark.parametrize("vote", ["median", "soft", "clipped"])
def test_radii_follow_extreme_scales(exponent, vote):
    scale = 10.0**exponent
    for assume in (ov.FiniteVariance(2.0), ov.Bounded(-20, 20), ov.FiniteKurtosis(3.0, 2.0)):
        usual = ov.mean(X, 20, assume=assume, vote=vote, n_blocks=201, rng=0)
        r = ov.mean(X * scale, 20, assume=assume.scaled(scale), vote=vote, n_blocks=201, rng=0)
        assert r.radius == pytest.approx(usual.radius * scale, rel=1e-6)
        assert r.estimate == pytest.approx(usual.estimate * scale, rel=1e-6)


def test_str_of_one_sided_results():
    less = ov.mean(X, 20, assume=KNOWN, vote="soft", alternative="less", rng=0)
    assert "at most" in str(less)
    assert "±" not in str(less)
    assert "the truth is at most" in str(less.certificate)
    assert "above the estimate" in str(less.certificate)
    more = ov.mean(X, 20, assume=KNOWN, alternative="greater", rng=0)
    assert "at least" in str(more)
    assert "below the estimate" in more.explain()
    assert "at most" in str(ov.certify_risk(X > 3, contamination=20, assume=ov.Bounded(0, 1), rng=0))


def test_soft_vote_needs_a_scale_for_every_column():
    table = np.stack([X, X], axis=1)
    mixed = ov.mean(table, 20, assume=[KNOWN, ov.FiniteKurtosis(3.0)], vote="soft", rng=0)
    assert mixed.certificate.provenance == "plug-in"
    both = ov.mean(table, 20, assume=[KNOWN, KNOWN], vote="soft", rng=0)
    assert (both.plan.vote, both.certificate.provenance) == ("soft", "certified")
    assert ov.mean(X, 20, assume=KNOWN, vote="soft", partition="hash", rng=0).explain().count("Every row has") == 0


def test_plot_of_a_soft_vote_shows_no_median():
    import matplotlib.pyplot as plt

    for r in (
        ov.mean(X, 20, assume=KNOWN, vote="soft", rng=0),
        ov.difference(X, Y, 20, assume=KNOWN, vote="soft", rng=0),
    ):
        labels = [text.get_text() for text in r.plot(column=0).ax_.get_legend().get_texts()]
        assert any(label.startswith("soft vote") for label in labels)
        assert not any("median" in label for label in labels)
        plt.close("all")
    mixed = ov.difference(X[:20], Y, (8, 5), 0.99, assume=KNOWN, vote="auto", function=[np.sin, np.cos], rng=0)
    assert mixed.plan.vote == "mixed"
    assert "allows for 8 and 5" in str(mixed)
