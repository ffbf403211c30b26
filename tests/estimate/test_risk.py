"""Upper bounds on the clean risk of one model, several models or a class."""

import math

import numpy as np
import pytest

import outvote as ov
from outvote.certificate import uniform_radius
from outvote.certificate.uniform import log_growth
from outvote.votes import p_star, threshold

UNIT = ov.Bounded(0, 1)


def losses(n=4000, risk=0.1, bad=200, seed=0):
    wrong = (np.random.default_rng(seed).random(n) < risk).astype(float)
    wrong[:bad] = 0.0  # an attacker makes the model look good
    return wrong


def test_bound_holds_and_is_not_trivial():
    highs = [ov.certify_risk(losses(seed=s), contamination=200, assume=UNIT, rng=s).interval.high for s in range(20)]
    assert np.mean(np.array(highs) >= 0.1) >= 0.95
    assert max(highs) < 0.35
    r = ov.certify_risk(losses(), contamination=200, assume=UNIT, rng=0)
    assert r.statistic == "risk"
    assert r.interval.low == 0.0
    assert r.certificate.target == "clean risk"


def test_several_models_share_delta():
    x = losses()
    one = ov.certify_risk(x, contamination=200, assume=UNIT, rng=0)
    chosen = ov.certify_risk(x, contamination=200, assume=UNIT, n_models=20, rng=0)
    assert chosen.radius > one.radius
    assert chosen.certificate.confidence == pytest.approx(0.95)
    table = ov.certify_risk(np.stack([x] * 20, axis=1), contamination=200, assume=UNIT, rng=0)
    assert table.radius == pytest.approx([chosen.radius] * 20)


def test_pair_losses():
    z = np.random.default_rng(0).normal(size=600)
    disagree = ov.Kernel(lambda a, b: (a - b > 1.0) | (b - a > 1.0), degrees=2, vectorized=True)
    r = ov.certify_risk(z, kernel=disagree, contamination=5, assume=UNIT, rng=0)
    assert r.interval.high > 0.4795  # P(|Z - Z'| > 1)
    x, y = z[:300], z[300:]
    two = ov.certify_risk(
        x, y, kernel=ov.Kernel(lambda a, b: a > b, degrees=(1, 1), vectorized=True), contamination=2, assume=UNIT, rng=0
    )
    assert two.interval.high > 0.5


def test_uniform_radius_is_the_smaller_of_two_bounds():
    assert math.exp(log_growth(3, 10)) == pytest.approx(sum(math.comb(10, i) for i in range(4)))
    assert math.exp(log_growth(9, 4)) == pytest.approx(16)
    blocks = {"n_blocks": 41, "n_corrupt": 5, "block_size": 5000, "confidence": 0.95}
    n, m = (float(v) for v in threshold(41, 5))
    p = float(p_star(math.log(0.05), n, m))
    for degree in (1, 2):
        h = 5000 // degree
        a = math.sqrt(2 * (math.log(2) + log_growth(4, h)) / h) + degree * math.sqrt(math.log(1 / p) / (2 * 5000))

        def short(t, h=h):
            used = 2 * math.exp(-h * t**2 / 2) + 4 / t * math.sqrt(2 * log_growth(4, n * h) / (n * h))
            return used + math.sqrt(math.log(20) / (2 * n)) > m / n

        found = uniform_radius(**blocks, vc_dim=4, degree=degree)
        assert found <= a * (1 + 1e-8)
        assert found == pytest.approx(a) or (short(0.999 * found) and not short(1.001 * found))
    assert uniform_radius(**blocks, vc_dim=4, bound=3.0) == pytest.approx(3 * uniform_radius(**blocks, vc_dim=4))
    assert uniform_radius(**blocks, vc_dim=40) > uniform_radius(**blocks, vc_dim=4)
    assert uniform_radius(**blocks, vc_dim=4, adversary="adaptive") > uniform_radius(**blocks, vc_dim=4)
    wide = {"n_blocks": 20_001, "n_corrupt": 50, "block_size": 200, "confidence": 0.95, "vc_dim": 2}
    assert uniform_radius(**wide) < 1.0
    assert uniform_radius(n_blocks=10, n_corrupt=5, block_size=50, vc_dim=2, confidence=0.9) == math.inf


def test_uniform_bound_holds_for_the_best_threshold():
    """The empirical best of all threshold rules on noise looks better than 1/2; its bound may not."""
    rng = np.random.default_rng(0)
    n = 50_000
    label = rng.random(n) < 0.5
    errors = np.concatenate([[label.sum()], label.sum() + np.cumsum(1 - 2 * label)])
    cut = int(np.argmin(errors))
    wrong = np.where(np.arange(n) < cut, ~label, label).astype(float)
    r = ov.certify_risk(rng.permutation(wrong), contamination=0, assume=UNIT, vc_dim=1, rng=0)
    assert r.interval.high >= 0.5
    assert r.interval.high < 0.6
    assert "whole class" in str(r.certificate)


def test_uniform_bound_of_pairs_with_given_blocks():
    z = np.random.default_rng(0).normal(size=4000)
    pair = ov.Kernel(lambda a, b: abs(a - b) > 1, degrees=2)
    r = ov.certify_risk(z, kernel=pair, contamination=0, assume=UNIT, vc_dim=1, n_blocks=5, rng=0)
    assert r.plan.n_blocks == 5
    assert r.radius == pytest.approx(
        uniform_radius(n_blocks=5, n_corrupt=0, block_size=800, vc_dim=1, degree=2, confidence=0.95)
    )


def test_invalid_arguments_raise():
    x, blocks = losses(), {"n_blocks": 41, "n_corrupt": 5, "block_size": 50, "confidence": 0.95}
    whole = "must be an integer of at least 1"
    for samples, options, error, message in (
        ((x,), {"n_models": 0}, ValueError, f"n_models=0 {whole}"),
        ((x,), {"n_models": 2.5}, ValueError, whole), ((x,), {"vc_dim": "3"}, ValueError, whole),
        ((x,), {"n_models": True}, ValueError, whole),
        ((x, x), {"assume": None}, TypeError, "takes one array of losses, not 2"),
        ((x,), {"vc_dim": 3, "assume": None}, TypeError, "needs a bounded loss"),
        ((x, x), {"vc_dim": 3}, TypeError, "takes one sample, not 2"),
        *(((x,), {"vc_dim": 2, **one}, ValueError, "a bound over a class is for the median")
          for one in ({"vote": "soft"}, {"n_models": 3})),
        ((x,), {"alternative": "less"}, TypeError, "takes no alternative"),
        ((x.reshape(-1, 2),), {"vc_dim": 2}, ValueError, "takes the losses of one model"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            ov.certify_risk(*samples, **{"assume": UNIT, **options})
    for wrong in (
        {"vc_dim": 0},
        {"vc_dim": 2, "bound": 0.0},
        {"vc_dim": 2, "degree": 60},
        {"vc_dim": 1, "n_blocks": 0},
    ):
        with pytest.raises(ValueError, match="must be"):
            uniform_radius(**blocks | wrong)
    auto, usual = (
        ov.certify_risk(x, contamination=0, vc_dim=2, assume=UNIT, rng=0, **o) for o in ({"n_blocks": "auto"}, {})
    )
    assert auto.radius == pytest.approx(usual.radius)
    assert ov.certify_risk(x - 0.5, kernel="wilcoxon", contamination=0, rng=0).statistic == "risk"
