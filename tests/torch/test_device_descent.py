"""The descent on a device: equal to the numpy descent, reproducible, and without waits inside an epoch."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import check_estimator
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

import outvote as ov
from outvote.learning import DivergenceError, PairLoss, Problem, Settings, Steps
from outvote.learning.epoch_blocks import EpochBlocks
from outvote.learning.losses import MetricHinge, PairHinge, PairLogistic, ProductHinge
from outvote.learning.losses.common import clip_weights
from outvote.learning.losses.distances import nearest_psd
from outvote.learning.scaling import ScaledRows, robust_scaling
from outvote.learning.voting import Cell
from outvote.torch.device import descent, fused, scaling
from outvote.torch.device import risks as forms
from outvote.torch.device import rows as placed

LOSSES = [PairLogistic(), PairHinge(), ProductHinge(), MetricHinge()]
CENTRES = [np.zeros(4), np.array([3.0, 2.0, 1.0, 0.5])]


def data(loss, n=203, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal([3.0, 2.0, 1.0, 0.5], size=(n, 4))
    y = (x @ [1.0, 2.0, 0.0, -1.0] + rng.normal(size=n)).round(1)  # with ties
    return x, np.digitize(y, [4.0, 8.0]) if isinstance(loss, MetricHinge) else y


def both(loss, cell, centre=CENTRES[1], dtype=np.float64, n=203):
    x, y = data(loss, n)
    x, scale = x.astype(dtype), np.array([1.0, 2.0, 0.5, 1.0])
    rows = placed.DeviceRows(x, centre, scale, "cpu")
    return Problem(ScaledRows(x, centre, scale), y, loss, [cell]), descent.DeviceProblem(rows, y, loss, [cell])


def theta_of(loss, rng):
    if not isinstance(loss, MetricHinge):
        return rng.normal(size=4)
    root = rng.normal(size=(4, 4)) / 4
    return root @ root.T


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize(("n_blocks", "clipped", "centre"), [(1, False, 1), (11, True, 0), (101, True, 1)])
def test_risks_choice_and_gradient_equal_numpy(loss, clipped, centre, n_blocks, monkeypatch):
    monkeypatch.setattr(forms, "_MOST_HELD", (1000, 1000))  # several strips, and several lots of blocks
    monkeypatch.setattr(forms, "_COLUMNS", 3)  # several products
    rng = np.random.default_rng(1)
    cell = Cell((np.arange(203),), n_blocks, max(1, n_blocks // 4), clipped=clipped)
    host, device = both(loss, cell, CENTRES[centre])
    theta = theta_of(loss, rng)
    (drawn,) = cell.draw(rng)
    blocks = drawn.rows()
    scores = loss.scores(host.design, theta)
    risks = cell.risks(loss, scores, host.targets, (drawn,))
    chosen = cell.choose(risks, rng)
    gradient = cell.gradient(loss, host.design, scores, host.targets, (blocks[:, chosen],))

    form = descent._part(device, rng).form
    dealt, images = torch.as_tensor(blocks), form.scores(torch.as_tensor(theta))
    assert form.risks(images, dealt).numpy() == pytest.approx(risks, rel=1e-10, abs=1e-10)
    found = form.gradient(images, dealt[:, torch.as_tensor(chosen)], clipped)
    assert found.numpy() == pytest.approx(gradient, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize(
    ("loss", "rule"),
    zip(LOSSES, ["normalised", "clipped", "polyak", "plain"], strict=True),
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_step_of_an_epoch_equals_numpy(loss, rule, monkeypatch):
    rng = np.random.default_rng(2)
    cell = Cell((np.arange(203),), 11, 3, clipped=True)
    host, device = both(loss, cell)
    theta = theta_of(loss, rng)
    steps = Steps(rule, 0.2, "constant", momentum=0.5)
    epochs = descent.Epochs(descent._part(device, rng), torch.as_tensor(theta), Settings(steps, 3, alpha=0.1))
    velocity = np.zeros_like(theta)
    for epoch in range(3):
        epochs.part.dealt.shuffle()
        blocks = epochs.part.dealt.deal()
        monkeypatch.setattr(epochs.part.dealt, "deal", lambda blocks=blocks: blocks)
        epochs.step()
        monkeypatch.undo()
        scores = loss.scores(host.design, theta)
        risks = cell.risks(loss, scores, host.targets, (EpochBlocks(blocks.numpy()),))
        chosen = np.argsort(risks, kind="stable")[4:7]
        gradient = cell.gradient(loss, host.design, scores, host.targets, (blocks.numpy()[:, chosen],))
        velocity = 0.5 * velocity + gradient + 0.1 * theta
        moved = loss.project(theta - steps.step(velocity, risks[chosen].mean(), 0.2))
        assert epochs.theta.numpy() == pytest.approx(moved, rel=1e-10, abs=1e-10)
        assert float(epochs.risks[epoch]) == pytest.approx(np.sort(risks)[5])
        assert float(epochs.moved[epoch]) == pytest.approx(np.linalg.norm(moved - theta))
        assert epochs.selected[epoch].tolist() == chosen.tolist()
        theta = moved
    assert int(epochs.counts.sum()) == 3 * 3 * 18


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_epochs_do_not_wait_for_the_device(loss):
    cell = Cell((np.arange(203),), 11, 5, clipped=True)
    with FakeTensorMode(allow_non_fake_inputs=True):  # its tensors have no numbers: whoever asks for one fails
        _, device = both(loss, cell)
        start = torch.as_tensor(loss.start(4, 1))
        epochs = descent.Epochs(descent._part(device, np.random.default_rng(0)), start, Settings(n_epochs=3))
        for epoch in range(3):
            epochs.run(epoch)
        with pytest.raises(DataDependentOutputException):
            float(epochs.risks[0])


class Recorded:
    """What a recorder is to do: give back what runs the job; or fail, as one does that runs out of memory."""

    def __init__(self, fails):
        self.fails, self.n_recorded, self.n_replayed = fails, 0, 0

    def __call__(self, job):
        self.n_recorded += 1
        if self.fails:
            raise RuntimeError("out of memory")

        def replay():
            self.n_replayed += 1
            job()

        return replay


@pytest.mark.parametrize("loss", [PairLogistic(), MetricHinge()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("fails", [False, True])
def test_replayed_epochs_and_failed_replays_give_the_same(loss, fails):
    found, kinds = [], 1 + isinstance(loss, MetricHinge)  # with and without a projection
    for recorded in (False, True):
        _, device = both(loss, Cell((np.arange(203),), 11, 5, clipped=True))
        part = descent._part(device, np.random.default_rng(0))
        recorder = Recorded(fails) if recorded else None
        epochs = descent.Epochs(part, torch.as_tensor(loss.start(4, 1)), Settings(n_epochs=20), recorder=recorder)
        for epoch in range(20):
            epochs.run(epoch)
        found.append(epochs)
    assert torch.equal(found[0].theta, found[1].theta)
    assert torch.equal(found[0].selected, found[1].selected)
    assert recorder.n_recorded == (1 if fails else kinds)
    assert recorder.n_replayed == (0 if fails else 20 - kinds)


@pytest.mark.parametrize(("n_rows", "n_blocks"), [(20, 1), (23, 5), (2**14 + 5, 1001)])
def test_blocks_are_balanced_disjoint_and_redrawn(n_rows, n_blocks):
    rows = torch.arange(100, 100 + n_rows)
    dealt = placed.Dealt(rows, n_blocks, torch.Generator().manual_seed(0))
    dealt.shuffle()
    first, second = dealt.deal(), dealt.deal()
    for blocks in (first, second):
        assert blocks.shape == (n_rows // n_blocks, n_blocks)
        assert len(blocks.unique()) == blocks.numel()
        assert torch.isin(blocks, rows).all()
    assert n_blocks == 1 or not torch.equal(first, second)


def test_two_rows_share_a_block_as_often_as_by_chance():
    dealt = placed.Dealt(torch.arange(12), 4, torch.Generator().manual_seed(0))
    met, n_deals = np.zeros((12, 12)), 4000
    for deal in range(n_deals):
        if deal % 2 == 0:
            dealt.shuffle()
        for block in dealt.deal().T.numpy():
            met[np.ix_(block, block)] += 1
    share = met[np.triu_indices(12, 1)] / n_deals
    assert share == pytest.approx(2 / 11, abs=5 * np.sqrt(2 / 11 * 9 / 11 / n_deals * 2))


def test_many_middle_blocks_are_thinned_evenly(monkeypatch):
    monkeypatch.setattr(descent, "_MOST_GRADIENTS", 4 * 5)
    cell = Cell((np.arange(203),), 50, 25)
    _, device = both(PairHinge(), cell)
    epochs = descent.Epochs(descent._part(device, np.random.default_rng(0)), torch.zeros(4).double(), Settings())
    epochs.run(0)
    epochs.run(1)
    assert epochs.n_taken == epochs.selected.shape[1] == 5
    assert int(epochs.counts.sum()) == 2 * 5 * 4
    places = epochs._places[:, None] + torch.arange(epochs._slack)
    assert places.reshape(-1).tolist() == list(range(12, 37))


@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_projection_equals_that_by_eigenvalues(size, seed, single, low_rank):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, max(1, size // 2) if low_rank else size))
    matrix = (root * rng.choice([-1.0, 1e-3, 1.0], size=root.shape[1])) @ root.T
    matrix = (matrix + matrix.T) / 2
    dtype, close = (torch.float32, 1e-5) if single else (torch.float64, 1e-12)
    found = forms.nearest_psd(torch.as_tensor(matrix, dtype=dtype)).numpy()
    values, vectors = np.linalg.eigh(matrix)
    expected = (vectors * values.clip(min=0)) @ vectors.T
    assert np.abs(found - expected).max() <= close * max(1.0, np.abs(values).max())
    assert np.abs(found - nearest_psd(matrix)).max() <= close * max(1.0, np.abs(values).max())


def test_projection_in_single_precision():
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.normal(size=(60, 60)))[0]
    values = 10.0 ** -np.arange(60) * (-1) ** np.arange(60)
    matrix = (vectors * values) @ vectors.T
    found = forms.nearest_psd(torch.as_tensor((matrix + matrix.T) / 2, dtype=torch.float32)).numpy()
    assert np.abs(found - (vectors * values.clip(min=0)) @ vectors.T).max() < 1e-6


@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, 5.0, np.inf, np.nan]), min_size=1, max_size=9))
def test_clip_weights_equal_numpy(norms):
    assert forms.clip_weights(torch.tensor(norms, dtype=torch.float64)).numpy() == pytest.approx(
        clip_weights(np.array(norms)), rel=1e-12
    )


@given(st.sampled_from(["normalised", "clipped", "polyak", "plain"]), st.sampled_from([0.0, 1e-3, 1.0, 50.0, np.inf]))
def test_steps_equal_numpy(rule, size):
    with np.errstate(invalid="ignore"):
        direction = np.array([0.6, -0.8]) * size
    expected = Steps(rule).step(direction, 0.01, 0.1)
    risk, length = torch.tensor([0.01, 0.1], dtype=torch.float64).split(1)
    assert descent.step_of(Steps(rule), torch.as_tensor(direction), lambda: risk, length).numpy() == pytest.approx(
        expected, rel=1e-12
    )


def test_scores_and_distances_equal_those_on_the_host():
    for dtype in (np.float64, np.float32):
        x = data(PairHinge())[0].astype(dtype)
        kept = x.copy()
        x.flags.writeable = False
        host, device = ScaledRows(x, CENTRES[0], CENTRES[1]), placed.DeviceRows(x, CENTRES[0], CENTRES[1], "cpu")
        weights = np.arange(4.0)
        assert device.scores(weights) == pytest.approx(host.scores(weights), rel=1e-5)
        assert device.distances() == pytest.approx(host.distances(), rel=1e-5)
        assert device.tensor.dtype == torch.as_tensor(kept).dtype
        assert np.array_equal(x, kept)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("centre", CENTRES, ids=["raw", "centred"])
def test_losses_of_rows_equal_numpy(loss, centre, monkeypatch):
    monkeypatch.setattr(forms, "_MOST_HELD", (300, 300))
    rng = np.random.default_rng(3)
    host, device = both(loss, Cell((np.arange(203),), 11, 3), centre)
    theta, partners = theta_of(loss, rng), rng.choice(203, size=20, replace=False)
    found = device.mean_losses(theta, partners)
    assert found == pytest.approx(host.mean_losses(theta, partners), rel=1e-10)
    assert device.mean_losses(theta, partners, np.array([3, 200])) == pytest.approx(found[[3, 200]])


@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=60, deadline=None)
def test_centres_and_scales_equal_numpy(n, seed, dtype):
    rng = np.random.default_rng(seed)
    columns = [rng.normal(size=n), rng.integers(3, size=n), (np.arange(n) == 0) * 1e3, np.full(n, 7.0)]
    columns.append(rng.standard_cauchy(size=n) * 1e5)
    x = np.column_stack(columns).astype(dtype)
    n_corrupt = int(rng.integers((n - 1) // 2 + 1))
    for most in (1, 3 * n, 2**20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scaling, "_SORTED", most)
            found = scaling.robust_scaling(torch.as_tensor(x), n_corrupt)
        for one, other in zip(found, robust_scaling(x, n_corrupt), strict=True):
            assert one == pytest.approx(other, rel=1e-12, abs=1e-12)


def spoiled(n=1200, seed=0):
    bad = n // 30
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2 * n, 5)) * [1, 10, 0.1, 1, 1] + 2
    y = x @ [1.0, 0.2, 5.0, 0.0, -1.0] + rng.normal(size=2 * n)
    clean = x[n:].copy(), y[n:].copy()
    x[:bad], y[:bad] = 200 + rng.random((bad, 5)), -200.0
    return x[:n], y[:n], *clean


@pytest.mark.parametrize("options", [{}, {"algorithm": "paper", "scaling": True}])
def test_ranker_reaches_the_test_loss_of_numpy(options):
    x, y, x_test, y_test = spoiled()
    host, device, single = (
        ov.RobustRanker(contamination=0.04, random_state=0, device=where, **options).fit(x.astype(dtype), y)
        for where, dtype in ((None, float), ("cpu", float), ("cpu", np.float32))
    )
    for other in (device, single):
        assert other.score(x_test, y_test) == pytest.approx(host.score(x_test, y_test), abs=0.005)
        assert isinstance(other.coef_, np.ndarray)
        assert other.coef_.dtype == np.float64
        assert other.n_iter_ == 300 == len(other.history_["train_risk"]) == len(other.history_["selected_blocks"])
        assert other.outlier_scores_[:40].min() > np.median(other.outlier_scores_[40:])
    assert device.score(x_test, y_test) > 0.85


def test_metric_reaches_the_test_loss_of_numpy():
    x, y, x_test, y_test = spoiled(600)
    learners = [
        ov.RobustMetricLearner(contamination=0.07, max_iter=150, random_state=0, device=where).fit(x, y > 10)
        for where in (None, "cpu")
    ]
    loss, codes = MetricHinge(), (y_test > 10).astype(int)
    host, device = (float(loss.risks(one.transform(x_test)[:, None], codes[:, None])[0]) for one in learners)
    assert device == pytest.approx(host, rel=0.02)
    assert device < 0.9
    assert np.linalg.eigvalsh(learners[1].mahalanobis_matrix())[0] > -1e-9


@pytest.mark.filterwarnings("ignore::outvote.learning.RobustnessWarning")
@pytest.mark.parametrize("learner", [ov.RobustRanker, ov.RobustMetricLearner])
def test_all_checks_of_scikit_learn_pass(learner):
    check_estimator(learner(random_state=0, max_iter=20, device="cpu"), on_skip=None)


@pytest.mark.parametrize(("options", "loss"), [({}, "product"), ({"algorithm": "paper"}, "logistic")])
def test_rows_are_moved_to_the_device_once_and_not_modified(options, loss, monkeypatch):
    sent, copied = [], placed.copied
    for module in (descent, placed):
        monkeypatch.setattr(module, "copied", lambda x, device: sent.append(x.shape) or copied(x, device))
    x, y, *_ = spoiled(300)
    y.flags.writeable = False
    kept = x.copy()
    ov.RobustRanker(contamination=0.04, max_iter=5, random_state=0, device="cpu", loss=loss, **options).fit(x, y)
    assert sent.count(x.shape) == 1 + len(options)  # unscaled rows go there again, to be scaled for the outlier scores
    assert np.array_equal(x, kept)


def test_same_seed_gives_the_same_fit():
    x, y, *_ = spoiled(300)
    fits = [
        ov.RobustRanker(contamination=0.1, max_iter=20, random_state=seed, device="cpu").fit(x, y) for seed in (3, 3, 4)
    ]
    assert np.array_equal(fits[0].coef_, fits[1].coef_)
    assert np.array_equal(fits[0].selection_counts_, fits[1].selection_counts_)
    assert not np.array_equal(fits[0].coef_, fits[2].coef_)


def test_early_stopping_callbacks_and_progress_bars(capsys):
    x, y, x_test, y_test = spoiled(600)
    seen = []
    options = {"contamination": 0.07, "early_stopping": True, "n_iter_no_change": 5, "finish": False, "verbose": 1}
    ranker = ov.RobustRanker(callbacks=[seen.append], random_state=0, device="cpu", **options).fit(x, y)
    assert ranker.n_iter_ == len(seen) == len(ranker.history_["held_out_risk"]) < 300
    assert seen[-1].theta.dtype == np.float64
    assert seen[-1].risk == pytest.approx(ranker.history_["train_risk"][-1])
    assert ranker.score(x_test, y_test) > 0.8
    assert capsys.readouterr().out
    stopped = ov.RobustRanker(finish=False, callbacks=[lambda state: state.epoch == 6], random_state=0, device="cpu")
    assert stopped.fit(x_test, y_test).n_iter_ == 7


def test_partial_fit_continues_on_the_device():
    x, y, x_test, y_test = spoiled(600)
    ranker = ov.RobustRanker(contamination=0.07, random_state=0, device="cpu")
    for _ in range(4):
        ranker.partial_fit(x, y, n_steps=20)
    assert ranker.n_iter_ == 80
    assert ranker.score(x_test, y_test) > 0.8


def test_rows_of_garbage_do_not_change_the_parameter():
    x, y, x_test, y_test = spoiled(600)
    x[:20] *= np.array([1e300, -1e300, 1e30, 1e150, 1.0])
    ranker = ov.RobustRanker(contamination=0.07, random_state=0, device="cpu").fit(x, y)
    assert np.isfinite(ranker.coef_).all()
    assert ranker.score(x_test, y_test) > 0.85


@pytest.mark.parametrize("watch", [False, True])
def test_diverging_fit_raises(watch):
    x, y, *_ = spoiled(300)
    options = {"step_rule": "plain", "step_size": 1e200, "contamination": 0.0, "random_state": 0, "max_iter": 9}
    callbacks = [lambda state: None] if watch else None
    with pytest.raises(DivergenceError, match=r"finite|median risk"):
        ov.RobustRanker(loss="hinge", callbacks=callbacks, device="cpu", **options).fit(x * 1e150, y)


def test_infinite_parameter_raises_at_the_end():
    cell = Cell((np.arange(203),), 11, 3)
    _, device = both(PairHinge(), cell)
    settings = Settings(Steps("plain", 1e308, "constant"), 4, alpha=1e10, average=False)
    with pytest.raises(DivergenceError, match=r"epoch [0-3]"):
        descent.DeviceDescent(device, np.ones(4), np.random.default_rng(0), settings).run()


class Mine(PairLoss):
    name = "mine"

    def value(self, s, t, y, z):
        return (s - t - y + z) ** 2

    def slope(self, s, t, y, z):
        return 2 * (s - t - y + z)


def test_unsupported_settings_raise():
    x, y, *_ = spoiled(300)
    with pytest.raises(ValueError, match=r"groups do not go with device='cpu'.*device=None"):
        ov.RobustRanker(device="cpu").fit(x, y, groups=np.arange(300) // 10)
    with pytest.raises(ValueError, match=r"loss='mine' does not run with device='cpu'.*'logistic', 'hinge' or"):
        ov.RobustRanker(device="cpu", loss=Mine()).fit(x, y)
    with pytest.raises(ValueError, match=r"two samples do not go with device='cpu'"):
        ov.RobustAUCClassifier(device="cpu").fit(x, y > 10)
    with pytest.raises(ValueError, match=r"does not run with device='cpu'.*learnt by `fit`"):
        ov.RobustMetricLearner(device="cpu").fit_pairs(x.reshape(150, 2, 5), np.tile([1, -1], 75))
    for device in ("gpu", "cuda:99", 1.5):
        with pytest.raises(ValueError, match=r"device=.* cannot be used .*'cpu' works everywhere"):
            ov.RobustRanker(device=device).fit(x, y)


def brute(values, blocks):
    """Sum over the ordered pairs of each block, and for each row over its partners."""
    rows = torch.zeros(blocks.shape, dtype=torch.float64)
    for i, j in itertools.permutations(range(len(blocks)), 2):
        rows[i] += values(blocks[i], blocks[j])
    return rows.sum(0), rows


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_fused_kernels_replace_the_plain_forms(loss, monkeypatch):
    """Stand-ins by brute force say what each kernel is to return."""
    cell = Cell((np.arange(203),), 11, 3, clipped=True)
    _, device = both(loss, cell)
    rng = np.random.default_rng(0)
    plain, quick = (descent._part(device, rng, use_fused=use).form for use in (False, True))
    theta = torch.as_tensor(theta_of(loss, rng))
    blocks = torch.as_tensor(cell.draw(rng)[0].rows())
    scores = plain.scores(theta)
    y = torch.as_tensor(device.targets)

    def cost(i, j):
        if loss.name == "metric":
            gap = plain.x[i] - plain.x[j]
            distance = (gap @ theta * gap).sum(1)
            return (1 + torch.where(y[i] == y[j], 1.0, -1.0) * (distance - 2)).clamp(min=0)
        return torch.as_tensor(loss.value(*(v.numpy() for v in (scores[i], scores[j], y[i], y[j]))))

    def slope(i, j):
        return torch.as_tensor(loss.slope(*(v.numpy() for v in (scores[i], scores[j], y[i], y[j]))))

    monkeypatch.setattr(fused, "pair_sums", lambda s, t, rows, name: brute(cost, rows)[0])
    monkeypatch.setattr(fused, "metric_sums", lambda x, images, t, rows: brute(cost, rows)[0])
    monkeypatch.setattr(fused, "pair_slopes", lambda s, t, rows, name: brute(slope, rows)[1])

    def pull(x, rows, slopes, clipped):
        pulled = (x[rows] * slopes[..., None]).sum(0)
        return pulled, pulled.norm(dim=1)

    monkeypatch.setattr(fused, "pull", pull)
    assert quick.risks(scores, blocks).numpy() == pytest.approx(plain.risks(scores, blocks).numpy(), rel=1e-10)
    found, expected = (form.gradient(scores, blocks, True).numpy() for form in (quick, plain))
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-12)
