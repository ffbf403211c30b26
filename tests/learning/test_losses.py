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


@pytest.mark.parametrize("loss", POINTS, ids=name_of)
def test_point_slopes_are_the_derivatives_of_the_values(loss):
    scores, targets = draw(loss, (40, 5))
    for column in range(scores.shape[-1] if scores.ndim == 3 else 1):
        at = (..., column) if scores.ndim == 3 else ...
        step, moved = np.zeros(scores.shape), scores.astype(complex)
        moved[at] += 1e-30j
        by_complex_step = loss.value(moved, targets).imag / 1e-30
        assert loss.slope(scores, targets)[at] == pytest.approx(by_complex_step, abs=1e-12)
        step[at] = 1e-6
        by_difference = (loss.value(scores + step, targets) - loss.value(scores - step, targets)) / 2e-6
        assert loss.slope(scores, targets)[at] == pytest.approx(by_difference, abs=1e-5)
    assert np.all(loss.value(scores, targets) >= 0)


@pytest.mark.parametrize("loss", PAIRS, ids=name_of)
def test_pair_slopes_are_the_derivatives_of_the_values(loss):
    rng = np.random.default_rng(1)
    s, t, y, z = rng.normal(size=(4, 200))
    slope = loss.slope(s, t, y, z)
    assert slope == pytest.approx(loss.value(s + 1e-30j, t, y, z).imag / 1e-30, abs=1e-12)
    assert slope == pytest.approx((loss.value(s + 1e-6, t, y, z) - loss.value(s - 1e-6, t, y, z)) / 2e-6, abs=1e-5)
    assert loss.value(s, t, y, z) == pytest.approx(loss.value(t, s, z, y))  # the symmetry that gradients rely on
    assert loss.slope(s, t, y, y) == pytest.approx(0)  # ties have slope 0


@pytest.mark.parametrize("loss", [*POINTS, *PAIRS], ids=lambda loss: f"{loss.degree}-{loss.name}")
def test_no_slope_exceeds_the_lipschitz_constant(loss):
    scores, targets = draw(loss, (50, 4))
    if loss.degree == 2:
        slope = loss.slope(scores[0], scores[1], targets[0], targets[1])
    else:
        slope = loss.slope(scores, targets)
    if loss.lipschitz is not None:
        norm = np.sqrt((slope**2).sum(-1)) if scores.ndim == 3 else np.abs(slope)
        assert norm.max() <= loss.lipschitz + 1e-12


@pytest.mark.parametrize("loss", POINTS, ids=name_of)
def test_block_risks_of_single_rows(loss):
    scores, targets = draw(loss, (7, 4))
    assert loss.risks(scores, targets) == pytest.approx(
        [loss.value(scores[:, k], targets[:, k]).mean() for k in range(4)]
    )
    assert loss.slopes(scores, targets) == pytest.approx(loss.slope(scores, targets) / 7)


@pytest.mark.parametrize("loss", PAIRS, ids=name_of)
@pytest.mark.parametrize(("size", "n_blocks"), [(2, 9), (5, 4), (70, 2), (70, 9), (300, 1), (300, 2)])
@pytest.mark.parametrize("grouped", [False, True])
def test_block_risks_and_slopes_of_pairs(monkeypatch, loss, size, n_blocks, grouped):
    monkeypatch.setattr(pairs, "_CHUNK", 1000)  # several strips even here
    rng = np.random.default_rng(size)
    s, y = rng.normal(size=(2, size, n_blocks))
    g = rng.integers(3, size=(size, n_blocks)) if grouped else None
    risks = loss.risks(s, y, g)
    k = n_blocks - 1
    assert risks[k] == pytest.approx(brute(loss, s[:, k], y[:, k], None if g is None else g[:, k]), nan_ok=True)
    if size > 2 or not grouped:
        slopes = loss.slopes(s, y, g)
        for i in (0, size // 2, size - 1):
            step = np.zeros(s.shape)
            step[i] = 1e-6
            assert slopes[i] == pytest.approx(
                (loss.risks(s + step, y, g) - loss.risks(s - step, y, g)) / 2e-6, abs=1e-5
            )


def test_a_block_without_a_pair_inside_a_group_has_a_nan_risk():
    s = y = np.arange(4.0).reshape(2, 2)
    assert np.isnan(L.PairLogistic().risks(s, y, np.array([[0, 0], [1, 0]]))).tolist() == [True, False]


@pytest.mark.parametrize("loss", PAIRS, ids=name_of)
def test_pairs_across_two_samples(monkeypatch, loss):
    monkeypatch.setattr(pairs, "_CHUNK", 40)
    rng = np.random.default_rng(3)
    s, t = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    y, z = np.zeros((6, 3)), np.ones((4, 3))
    risks = loss.cross_risks(s, t, y, z)
    expected = [np.mean([[loss.value(a, b, 0.0, 1.0) for b in t[:, k]] for a in s[:, k]]) for k in range(3)]
    assert risks == pytest.approx(expected)
    step = np.zeros(s.shape)
    step[2] = 1e-6
    by_difference = (loss.cross_risks(s + step, t, y, z) - loss.cross_risks(s - step, t, y, z)) / 2e-6
    assert loss.cross_slopes(s, t, y, z)[2] == pytest.approx(by_difference, abs=1e-6)


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

    def risks(at):
        scores = loss.scores(design, at)
        return loss.risks(scores[blocks], targets[blocks])

    gradients = loss.gradients(design, blocks, loss.scores(design, theta)[blocks], targets[blocks])
    assert gradients.shape == (4, *shape)
    for place in np.ndindex(shape):
        step = np.zeros(shape)
        step[place] = 1e-6
        by_difference = (risks(theta + step) - risks(theta - step)) / 2e-6
        assert gradients[:, *place] == pytest.approx(by_difference, abs=2e-5)


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
        step = np.zeros(3)
        step[j] = 1e-6
        assert gradients[:, j] == pytest.approx((risks(theta + step) - risks(theta - step)) / 2e-6, abs=1e-6)


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
            step = np.zeros((3, 3))
            step[i, j] = step[j, i] = 1e-6
            by_difference = (risks(metric + step) - risks(metric - step)) / 2e-6
            assert (gradients * step[None] / 1e-6).sum(axis=(1, 2)) == pytest.approx(by_difference, abs=1e-5)


def test_the_projection_is_the_nearest_psd_matrix():
    rng = np.random.default_rng(9)
    half = rng.normal(size=(5, 5))
    matrix = half + half.T
    projected = L.MetricHinge().project(matrix)
    values = np.linalg.eigvalsh(projected)
    assert values.min() >= -1e-12
    kept = np.linalg.eigvalsh(matrix).clip(min=0)
    assert np.sort(values) == pytest.approx(np.sort(kept), abs=1e-12)
    assert L.MetricHinge().project(projected + np.eye(5)) == pytest.approx(projected + np.eye(5))
    image = distances.root(projected)
    assert image @ image.T == pytest.approx(projected, abs=1e-12)
    same = distances.nearest_psd(np.eye(2))
    assert same == pytest.approx(np.eye(2))


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
    for base, count in ((L.PointLoss(), 2), (L.PairLoss(), 4)):
        for method in (base.value, base.slope):
            with pytest.raises(NotImplementedError):
                method(*[np.zeros(1)] * count)
    for method in (L.Loss().risks, L.Loss().slopes):
        with pytest.raises(NotImplementedError):
            method(np.zeros((1, 1)), np.zeros((1, 1)))


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


@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize("n_blocks", [2, 9])
@pytest.mark.parametrize("held", [0, 2**21])
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


def test_roots_of_definite_and_of_singular_matrices():
    rng = np.random.default_rng(0)
    halves = [rng.normal(size=(5, rank)) for rank in (1, 3, 5)]
    for matrix in (*(half @ half.T for half in halves), np.eye(3), np.diag([1.0, 1.0, 1e-20])):
        root = distances.root(matrix)
        np.testing.assert_allclose(root @ root.T, matrix, atol=1e-10)
