"""Losses: slopes against complex steps and finite differences, block risks against brute force."""

import numpy as np
import pytest

from outvote.learning import losses as L
from outvote.learning.epoch_blocks import EpochBlocks
from outvote.learning.losses import common, distances, pairs, points
from outvote.learning.scaling import ScaledRows

POINTS = [L.Logistic(), L.Hinge(), L.Softmax(), L.MulticlassHinge(), L.Squared(), L.Absolute(), L.Huber(0.7)]
PAIRS = [L.PairLogistic(), L.PairHinge(), L.ProductHinge()]


def draw(loss, shape, seed=0):
    """Return scores and targets that suit a loss."""
    rng = np.random.default_rng(seed)
    if loss.targets == "classes":
        return rng.normal(size=(*shape, 3)), rng.integers(3, size=shape)
    scores = 2 * rng.normal(size=shape)
    return scores, rng.choice([-1.0, 1.0], size=shape) if loss.targets == "signs" else rng.normal(size=shape)


def name_of(loss):
    return loss.name


def brute(loss, s, y, g=None):
    """Return the mean loss over the pairs of one block, from the whole matrix of pairs."""
    values = loss.value(s[:, None], s[None], y[:, None], y[None])
    counted = np.tri(len(y), k=-1, dtype=bool) & (True if g is None else g[:, None] == g[None])
    return values[counted].mean() if counted.any() else np.nan


def by_difference(function, at, place):
    """Return the central difference of a function when one entry of an array is moved."""
    step = np.zeros(at.shape)
    step[place] = 1e-6
    return (function(at + step) - function(at - step)) / 2e-6


@pytest.mark.parametrize("loss", POINTS, ids=name_of)
def test_slopes_and_block_risks_of_single_rows(loss):
    scores, targets = draw(loss, (40, 5))
    slope = loss.slope(scores, targets)
    for at in [(..., c) for c in range(3)] if scores.ndim == 3 else [...]:
        moved = scores.astype(complex)
        moved[at] += 1e-30j
        assert slope[at] == pytest.approx(loss.value(moved, targets).imag / 1e-30, abs=1e-12)
        difference = by_difference(lambda s: loss.value(s, targets), scores, at)
        assert slope[at] == pytest.approx(difference, abs=1e-5)
    assert np.all(loss.value(scores, targets) >= 0)
    if loss.lipschitz is not None:
        norm = np.sqrt((slope**2).sum(-1)) if scores.ndim == 3 else np.abs(slope)
        assert 0.6 * loss.lipschitz < norm.max() <= loss.lipschitz + 1e-12
    assert loss.risks(scores, targets) == pytest.approx(loss.value(scores, targets).mean(axis=0))
    assert loss.slopes(scores, targets) == pytest.approx(slope / 40)


@pytest.mark.parametrize("loss", PAIRS, ids=name_of)
def test_slopes_of_pairs(loss):
    s, t, y, z = np.random.default_rng(1).normal(size=(4, 200))
    slope = loss.slope(s, t, y, z)
    assert slope == pytest.approx(loss.value(s + 1e-30j, t, y, z).imag / 1e-30, abs=1e-12)
    assert slope == pytest.approx((loss.value(s + 1e-6, t, y, z) - loss.value(s - 1e-6, t, y, z)) / 2e-6, abs=1e-5)
    assert loss.value(s, t, y, z) == pytest.approx(loss.value(t, s, z, y))  # the symmetry that gradients rely on
    assert loss.slope(s, t, y, y) == pytest.approx(0)  # ties have slope 0
    if loss.lipschitz is not None:
        assert 0.6 * loss.lipschitz < np.abs(slope).max() <= loss.lipschitz + 1e-12


@pytest.mark.parametrize("loss", PAIRS, ids=name_of)
@pytest.mark.parametrize(
    ("size", "n_blocks", "grouped"),
    [(2, 9, False), (2, 9, True), (5, 4, True), (70, 9, False), (70, 2, True), (300, 1, False), (300, 2, True)],
)
def test_block_risks_and_slopes_of_pairs(monkeypatch, loss, size, n_blocks, grouped):
    monkeypatch.setattr(pairs, "_CHUNK", 1000)  # several strips even here
    rng = np.random.default_rng(size)
    s, y = rng.normal(size=(2, size, n_blocks))
    g = rng.integers(3, size=(size, n_blocks)) if grouped else None
    k = n_blocks - 1
    expected = brute(loss, s[:, k], y[:, k], None if g is None else g[:, k])
    assert loss.risks(s, y, g)[k] == pytest.approx(expected, nan_ok=True)
    if size > 2 or not grouped:
        slopes = loss.slopes(s, y, g)
        for i in (0, size // 2, size - 1):
            assert slopes[i] == pytest.approx(by_difference(lambda at: loss.risks(at, y, g), s, i), abs=1e-5)


def test_a_block_without_a_pair_inside_a_group_has_a_nan_risk():
    s = y = np.arange(4.0).reshape(2, 2)
    assert np.isnan(L.PairLogistic().risks(s, y, np.array([[0, 0], [1, 0]]))).tolist() == [True, False]


@pytest.mark.parametrize("loss", PAIRS, ids=name_of)
def test_pairs_across_two_samples(monkeypatch, loss):
    monkeypatch.setattr(pairs, "_CHUNK", 40)
    rng = np.random.default_rng(3)
    s, t = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    y, z = np.zeros((6, 3)), np.ones((4, 3))
    expected = [np.mean([[loss.value(a, b, 0.0, 1.0) for b in t[:, k]] for a in s[:, k]]) for k in range(3)]
    assert loss.cross_risks(s, t, y, z) == pytest.approx(expected)
    difference = by_difference(lambda at: loss.cross_risks(at, t, y, z), s, 2)
    assert loss.cross_slopes(s, t, y, z)[2] == pytest.approx(difference, abs=1e-6)


def rows(n=24, d=3, intercept=False):
    rng = np.random.default_rng(5)
    x = 5 + rng.normal(size=(n, d)) * [1, 10, 0.1]
    return ScaledRows(x, x.mean(axis=0), x.std(axis=0), intercept)


@pytest.mark.parametrize("loss", [*POINTS, *PAIRS], ids=lambda loss: f"{loss.degree}-{loss.name}")
@pytest.mark.parametrize("intercept", [False, True])
def test_gradients_in_the_weights_match_finite_differences(loss, intercept):
    design = rows(intercept=intercept)
    _, targets = draw(loss, (24,))
    shape = (design.n_columns, 3) if loss.targets == "classes" else (design.n_columns,)
    theta = np.random.default_rng(6).normal(size=shape)
    blocks = np.random.default_rng(7).permutation(24).reshape(6, 4)
    gradients = loss.gradients(design, blocks, loss.scores(design, theta)[blocks], targets[blocks])
    assert gradients.shape == (4, *shape)
    for place in np.ndindex(shape):
        difference = by_difference(
            lambda at: loss.risks(loss.scores(design, at)[blocks], targets[blocks]), theta, place
        )
        assert gradients[:, *place] == pytest.approx(difference, abs=2e-5)


def test_gradients_across_two_samples_match_finite_differences():
    design, loss = rows(), L.PairLogistic()
    theta = np.random.default_rng(6).normal(size=3)
    first, second = np.arange(12).reshape(6, 2), np.arange(12, 24).reshape(6, 2)
    y, z = np.zeros((6, 2)), np.ones((6, 2))

    def risks(at):
        scores = design.scores(at)
        return loss.cross_risks(scores[first], scores[second], y, z)

    scores = design.scores(theta)
    gradients = loss.cross_gradients(design, (first, second), (scores[first], scores[second]), (y, z))
    for j in range(3):
        assert gradients[:, j] == pytest.approx(by_difference(risks, theta, j), abs=1e-6)


@pytest.mark.parametrize("loss", [L.MetricHinge(), L.DistanceHinge()], ids=["classes", "given pairs"])
def test_gradients_of_a_metric_match_finite_differences(monkeypatch, loss):
    monkeypatch.setattr(pairs, "_CHUNK", 50)
    design = rows()
    rng = np.random.default_rng(8)
    targets = rng.integers(2, size=24) if loss.degree == 2 else rng.choice([-1.0, 1.0], size=24)
    half = rng.normal(size=(3, 3))
    metric = half @ half.T + 0.1 * np.eye(3)
    blocks = rng.permutation(24).reshape(6, 4)

    def risks(at):
        return loss.risks(loss.scores(design, at)[blocks], targets[blocks])

    gradients = loss.gradients(design, blocks, loss.scores(design, metric)[blocks], targets[blocks])
    for i in range(3):
        for j in range(i + 1):
            places = ([i, j], [j, i])
            both = gradients[:, i, j] + gradients[:, j, i] * (i != j)
            assert both == pytest.approx(by_difference(risks, metric, places), abs=1e-5)


def test_the_projection_is_the_nearest_psd_matrix_and_roots_are_roots():
    rng = np.random.default_rng(9)
    half = rng.normal(size=(5, 5))
    projected = L.MetricHinge().project(half + half.T)
    kept = np.linalg.eigvalsh(half + half.T).clip(min=0)
    assert np.linalg.eigvalsh(projected) == pytest.approx(np.sort(kept), abs=1e-12)
    assert L.MetricHinge().project(projected + np.eye(5)) == pytest.approx(projected + np.eye(5))
    assert distances.nearest_psd(np.eye(2)) == pytest.approx(np.eye(2))
    low = [one @ one.T for one in (rng.normal(size=(5, 1)), rng.normal(size=(5, 3)))]
    for matrix in (projected, *low, half @ half.T, np.eye(3), np.diag([1.0, 1.0, 1e-20])):
        root = distances.root(matrix)
        np.testing.assert_allclose(root @ root.T, matrix, atol=1e-10)


def test_extreme_scores_do_not_overflow():
    big = np.array([[-1e4, 0.0, 1e4]])
    with np.errstate(over="raise", invalid="raise"):
        assert common.softplus(big)[0] == pytest.approx([0, np.log(2), 1e4])
        assert common.softmax(big)[0] == pytest.approx([0, 0, 1])
    assert common.sigmoid(big)[0] == pytest.approx([0, 0.5, 1])


def test_losses_are_found_by_name_and_checked():
    assert L.loss_of("hinge", L.PAIR_LOSSES, 2).name == "hinge"
    own = L.PairHinge()
    assert L.loss_of(own, L.PAIR_LOSSES, 2) is own
    with pytest.raises(ValueError, match="did you mean 'logistic'"):
        L.loss_of("logistics", L.PAIR_LOSSES, 2)
    with pytest.raises(ValueError, match="degree 2, but a loss of single rows"):
        L.loss_of(own, {}, 1)


@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize("loss", [L.PairLogistic(), L.Squared(), L.Softmax()], ids=lambda loss: loss.name)
def test_risks_and_gradient_from_all_rows_equal_those_from_the_blocks(monkeypatch, loss, clipped):
    for module, name in ((common, "_GATHERED"), (points, "_AT_ONCE")):
        monkeypatch.setattr(module, name, 10)  # several parts even here
    rng = np.random.default_rng(0)
    design = ScaledRows(rng.normal(size=(60, 3)), np.zeros(3), np.ones(3))
    scores = design.scores(rng.normal(size=(3, 4) if loss.name == "softmax" else 3))
    targets = rng.integers(0, 4, size=60)
    for n_blocks in (2, 9):
        blocks = EpochBlocks(rng.permutation(60)[: 6 * n_blocks].reshape(6, n_blocks), rng.integers(n_blocks, size=6))
        rows = blocks.rows()
        np.testing.assert_allclose(loss.risks_of(scores, targets, blocks), loss.risks(scores[rows], targets[rows]))
        expected = common.mean_of(loss.gradients(design, rows, scores[rows], targets[rows]), clipped)
        found = loss.gradient_of(design, rows, scores, targets, clipped=clipped)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("n_blocks", "clipped", "held"), [(9, True, 0), (9, True, 2**21), (9, False, 2**21), (2, True, 0)]
)
def test_the_mean_gradient_of_a_metric_equals_the_mean_over_its_blocks(monkeypatch, n_blocks, clipped, held):
    monkeypatch.setattr(distances, "_MOST_HELD", held)
    rng = np.random.default_rng(n_blocks)
    x = rng.normal(size=(60, 3))
    x[0] = 50.0
    rows, codes = rng.permutation(60)[: 6 * n_blocks].reshape(6, n_blocks), rng.integers(0, 3, size=60)
    design, loss = ScaledRows(x, np.zeros(3), np.ones(3)), L.MetricHinge()
    scores = loss.scores(design, np.eye(3) / 2)
    given = design, rows, scores[rows], codes[rows]
    expected = common.mean_of(loss.gradients(*given), clipped)
    found = loss.gradient_of(design, rows, scores, codes, clipped=clipped)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    assert np.linalg.norm(common.mean_of(loss.gradients(*given), True)) <= np.linalg.norm(
        common.mean_of(loss.gradients(*given), False)
    )


def test_a_metric_in_large_blocks_and_small_ones_has_the_same_risk(monkeypatch):
    rng = np.random.default_rng(0)
    scores, codes = rng.normal(size=(12, 4, 3)) + 1e3, rng.integers(0, 2, size=(12, 4))
    expected = L.MetricHinge().risks(scores, codes)
    monkeypatch.setattr(distances, "_SQUARED", 4)
    np.testing.assert_allclose(L.MetricHinge().risks(scores, codes), expected, rtol=1e-9)
