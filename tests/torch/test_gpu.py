"""Triton kernels, recorded epochs and estimates on a CUDA device; skipped without one."""

import numpy as np
import pytest
import torch

import outvote as ov
from outvote.learning import Settings
from outvote.learning.losses import MetricHinge, PairHinge, PairLogistic, ProductHinge
from outvote.learning.voting import Cell
from outvote.torch import MedianBlockLoss, block_means, median_block_loss
from outvote.torch.device import between, bins, fused
from outvote.torch.device.descent import DeviceProblem, Epochs, _part
from outvote.torch.device.graphs import Recorder
from outvote.torch.device.rows import DeviceRows
from outvote.votes.evidence import Grid, pilot_of, tallies_of_columns

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

LOSSES = [PairLogistic(), PairHinge(), ProductHinge(), MetricHinge()]


def rows(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype).cuda()


def problem(loss, n_rows, columns, size, chosen=3):
    x = rows(n_rows, columns).cpu().numpy()
    y = x[:, 0] + x[:, -1]
    targets = np.digitize(y, [-0.5, 0.5]) if loss.name == "metric" else np.round(y, 1).astype(float)
    placed = DeviceRows(x, np.zeros(columns), np.ones(columns), "cuda")
    return DeviceProblem(placed, targets, loss, [Cell((np.arange(n_rows),), n_rows // size, chosen, clipped=True)])


def theta_of(loss, columns):
    theta = rows(columns, columns, seed=1) / columns if loss.name == "metric" else rows(columns, seed=1)
    return theta @ theta.T if loss.name == "metric" else theta


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize(("size", "columns"), [(2, 3), (5, 300), (25, 40), (33, 3), (100, 300)])
def test_kernels_equal_plain_torch(loss, size, columns):
    posed = problem(loss, 4000, columns, size)
    plain, quick = (_part(posed, np.random.default_rng(0), use_fused).form for use_fused in (False, True))
    assert fused.available(plain.x)
    theta = theta_of(loss, columns)
    blocks = torch.randperm(4000, device="cuda")[: 4000 // size * size].view(size, -1)
    scores = plain.scores(theta)
    torch.testing.assert_close(quick.risks(scores, blocks), plain.risks(scores, blocks), rtol=1e-4, atol=1e-5)
    for clipped in (False, True):
        one, two = (form.gradient(scores, blocks[:, :21], clipped) for form in (quick, plain))
        assert float((one - two).norm()) <= 1e-4 * float(two.norm()) + 1e-6


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_recorded_epochs_equal_launched_ones(loss):
    ends = []
    for recorded in (False, True):
        part = _part(problem(loss, 3000, 12, 5), np.random.default_rng(0))
        recorder = Recorder(part.dealt.generator) if recorded else None
        epochs = Epochs(part, torch.as_tensor(loss.start(12, 1)).float().cuda(), Settings(n_epochs=60), 0, recorder)
        with torch.no_grad():
            for epoch in range(60):
                epochs.run(epoch)
        ends.append(epochs)
        if recorded:
            assert epochs._replays
            assert None not in epochs._replays.values()
    launched, replayed = ends
    assert torch.equal(launched.selected, replayed.selected)
    torch.testing.assert_close(replayed.theta, launched.theta, rtol=1e-5, atol=1e-6)


def test_failed_recording_leaves_the_generators_usable():
    generator = torch.Generator(device="cuda").manual_seed(0)
    values = torch.zeros(3, device="cuda")

    def waits():
        values.add_(torch.rand(3, device="cuda", generator=generator))
        values.sum().item()

    with pytest.raises(RuntimeError):
        Recorder(generator)(waits)
    torch.rand(3, device="cuda", generator=generator)
    torch.rand(3, device="cuda")
    assert torch.isfinite(rows(5) + 1).all()


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_epochs_do_not_wait_for_the_device(loss):
    part = _part(problem(loss, 3000, 12, 5), np.random.default_rng(0))
    start = torch.as_tensor(loss.start(12, 1)).float().cuda()
    epochs = Epochs(part, start, Settings(n_epochs=60), 0, Recorder(part.dealt.generator))
    with torch.no_grad():
        for epoch in range(30):
            epochs.run(epoch)
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            for epoch in range(30, 60):
                epochs.run(epoch)
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_learners_resist_outliers_and_score_them():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 8)).astype(np.float32)
    y = x @ np.arange(8.0) + rng.normal(size=3000)
    x[:60], y[:60] = 50.0, -500.0
    ranker = ov.RobustRanker(contamination=60, device="cuda", random_state=0).fit(x, y)
    again = ov.RobustRanker(contamination=60, device="cuda", random_state=0).fit(x, y)
    np.testing.assert_array_equal(ranker.coef_, again.coef_)
    assert ranker.score(x[60:], y[60:]) > 0.93
    assert ranker.outlier_scores_[:60].min() > np.median(ranker.outlier_scores_[60:])
    labels = np.digitize(x[:, 0], [-0.5, 0.5])
    metric = ov.RobustMetricLearner(contamination=60, device="cuda", random_state=0).fit(x, labels)
    found = metric.mahalanobis_matrix()
    assert np.linalg.eigvalsh(found).min() > -1e-6
    assert found[0, 0] > 3 * np.diag(found)[1:].max()


def test_sums_of_a_strided_tensor():
    x = rows(2, 300_000)
    generator = torch.Generator(device="cuda")
    one = block_means(x.t()[:, 1], 101, generator=generator.manual_seed(3))
    two = block_means(x[1].clone(), 101, generator=generator.manual_seed(3))
    torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("options", [{}, {"n_blocks": 100}, {"partition": "contiguous"}, {"nan_policy": "omit"}])
def test_means_equal_numpy(options):
    x = rows(1000, dtype=torch.float64)
    if "nan_policy" in options:
        x[5] = torch.nan
    found, expected = ov.mean(x, 5, rng=0, **options), ov.mean(x.cpu().numpy(), 5, rng=0, **options)
    assert found.estimate == pytest.approx(expected.estimate, rel=1e-12)
    assert found.radius == pytest.approx(expected.radius, rel=1e-12)
    assert found.block_values.is_cuda
    np.testing.assert_allclose(found.block_values.cpu(), expected.block_values, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kernel", ["variance", "gini", "wilcoxon"])
def test_kernels_of_one_sample_equal_numpy(kernel):
    x = rows(900, dtype=torch.float64).round(decimals=1)
    found, expected = (ov.u_statistic(z, kernel=kernel, contamination=5, rng=0) for z in (x, x.cpu().numpy()))
    np.testing.assert_allclose(found.block_values.cpu(), expected.block_values, rtol=1e-12, atol=1e-14)
    assert found.estimate == pytest.approx(expected.estimate, rel=1e-12)


@pytest.mark.parametrize("kernel", ["mann-whitney", "auc", "energy", "mmd"])
@pytest.mark.parametrize("grid", ["full", "diagonal"])
def test_kernels_of_two_samples_equal_numpy(kernel, grid):
    x, y = (rows(n, seed=n, dtype=torch.float64).round(decimals=1) for n in (500, 400))
    options = {"kernel": kernel, "grid": grid, "contamination": 3, "rng": 0}
    found, expected = ov.u_statistic(x, y, **options), ov.u_statistic(x.cpu().numpy(), y.cpu().numpy(), **options)
    np.testing.assert_allclose(found.block_values.cpu(), expected.block_values, rtol=1e-11, atol=1e-12)
    assert found.estimate == pytest.approx(expected.estimate, rel=1e-11)


@pytest.mark.parametrize("kernel", ["variance", "mann-whitney", "auc"])
@pytest.mark.parametrize("grid", ["full", "diagonal"])
def test_columns_equal_numpy(kernel, grid):
    samples = [
        rows(400, 3, seed=seed, dtype=torch.float64).round(decimals=1) for seed in range(1 + (kernel != "variance"))
    ]
    options = {"kernel": kernel, "grid": grid, "axis": 0, "contamination": 3, "rng": 0}
    found, expected = (ov.u_statistic(*taken, **options) for taken in (samples, [z.cpu().numpy() for z in samples]))
    assert found.estimate.is_cuda
    np.testing.assert_allclose(found.estimate.cpu(), expected.estimate, rtol=1e-12)
    np.testing.assert_allclose(found.block_values.cpu(), expected.block_values, rtol=1e-11, atol=1e-12)


def test_estimate_of_a_long_tensor_on_the_device():
    x = rows(2**21, dtype=torch.float64)
    x[:50] = 1e9
    for n_blocks in (1000, 1001):
        found = ov.mean(x, 50, n_blocks=n_blocks, rng=0)
        assert found.estimate == pytest.approx(np.median(found.block_values.cpu()), rel=1e-14)
        assert abs(found.estimate) < 0.01
    x[7] = torch.nan
    with pytest.raises(ValueError, match="the first is row 7"):
        ov.mean(x, 50)


KINDS = ["normal", "outliers", "constant", "heavy", "tiny", "huge", "far off", "zeros"]


def of_kind(kind, n, dtype):
    x = rows(n, dtype=dtype)
    made = {
        "normal": lambda: x,
        "outliers": lambda: torch.where(rows(n, seed=1) > 2, 1e9, x),
        "constant": lambda: torch.full_like(x, 3.7),
        "heavy": lambda: (4 * x).exp(),
        "tiny": lambda: x * 1e-38,
        "huge": lambda: x * (1e37 if dtype == torch.float32 else 1e300),
        "far off": lambda: x + 1e6,
        "zeros": lambda: x.sign() * 0,
    }
    return made[kind]()


def check_tallies(table):
    host = table.cpu().numpy().astype(np.float64)
    grids = [Grid.of(pilot_of(host[:, j])) for j in range(host.shape[1])]
    assert bins._function(table, grids[0].number) is not None
    found, expected = bins.tallies_of_tensor(table, grids), tallies_of_columns(host, grids)
    for one, two in zip(found, expected, strict=True):
        for a, b in zip(one, two, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("kind", "n"), [("normal", 1), ("outliers", 3_000_017), *((kind, 9001) for kind in KINDS)])
def test_tallies_equal_numpy(kind, n, dtype):
    x = of_kind(kind, n + 3, dtype)
    for start in range(3):  # at any multiple of four bytes
        check_tallies(x[start : start + n, None])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tallies_of_columns_equal_numpy(dtype):
    x = rows(100_003, 7, dtype=dtype) * torch.logspace(-5, 5, 7, device="cuda").to(dtype)
    for table in (x, x.t().contiguous().t(), x[:, ::2], x[::3], x[:, :1].expand(-1, 3), x[:1].expand(50_000, -1)):
        check_tallies(table)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("columns", [16, 33, 100])
def test_tallies_of_wide_tables_equal_numpy(dtype, columns, monkeypatch):
    monkeypatch.setattr(bins, "_TURNED", 900_000)
    x = rows(20_011, columns + 1, dtype=dtype) * torch.logspace(-5, 5, columns + 1, device="cuda").to(dtype)
    for table in (x, x[:, 1:], x[::2], x.t().contiguous().t()):
        check_tallies(table)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("centre", [0.0, 1000.0])
def test_counters_do_not_overflow(dtype, centre):
    x = torch.full((2 * 10**8, 1), 0.99999, dtype=dtype, device="cuda")
    grid = Grid(centre, 1.0)
    (found,), one = bins.tallies_of_tensor(x, [grid]), grid.tallies(np.array([float(x[0, 0])]))
    for a, b in zip(found, one, strict=True):
        np.testing.assert_array_equal(a, b * len(x))


def test_rows_that_are_not_finite_are_in_the_last_bins():
    x = torch.tensor([[0.0], [torch.nan], [-torch.nan], [torch.inf], [-torch.inf]], device="cuda")
    (found,) = bins.tallies_of_tensor(x.repeat(10**4, 1), [Grid(0.0, 1.0)])
    assert found.counts.sum() == 5 * 10**4
    assert found.counts[0] + found.counts[-1] == 4 * 10**4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 5000, 3_000_017])
def test_rows_between_equal_plain_torch(dtype, n):
    x = rows(2 * n, dtype=dtype)
    assert between._function(x) is not None
    for z in (x, x[1:], x[::2]):
        for low, high, room in ((-0.5, 0.5, n), (0.1, 0.1001, 0), (-torch.inf, torch.inf, 7), (2.0, 1.0, 3)):
            below, found = between.rows_between(z, low, high, room)
            expected = z[(z >= low) & (z <= high)]
            assert below == int((z < low).sum())
            assert torch.equal(found.sort()[0], expected.sort()[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("options", [{}, {"contamination": "auto"}, {"assume": ov.FiniteVariance(2.0)}])
def test_answers_by_evidence_equal_numpy(dtype, options):
    a, b = (rows(10**6, seed=seed, dtype=dtype) + seed for seed in (1, 2))
    a[:900] = 1e9
    host = [a.cpu().numpy(), b.cpu().numpy()]
    pairs = [
        (ov.mean(a, **options), ov.mean(host[0], **options)),
        (ov.difference(a, b, **options), ov.difference(*host, **options)),
    ]
    if not options:
        pairs += [(ov.quantile(a, q), ov.quantile(host[0], q)) for q in (0.5, 0.9, 0.9999)]
        one, two = ov.tolerance(a, claim="mean > 0"), ov.tolerance(host[0], claim="mean > 0")
        assert str(one) == str(two)
        assert one.deciding == two.deciding
    for found, expected in pairs:
        assert found.estimate == pytest.approx(expected.estimate, rel=1e-12)
        assert found.interval == pytest.approx(expected.interval, rel=1e-12)
        assert str(found) == str(expected)


@pytest.mark.parametrize("policy", ["raise", "omit", "corrupt"])
def test_nan_policies_by_evidence_equal_numpy(policy):
    x = rows(10**5, 2, dtype=torch.float64)
    x[[7, 99]] = torch.nan
    host = x.cpu().numpy()
    if policy == "raise":
        with pytest.raises(ValueError, match=r"in 2 of 100000 rows \(the first is row 7\)"):
            ov.mean(x)
        return
    found, expected = (ov.mean(z, nan_policy=policy) for z in (x, host))
    assert found.estimate.is_cuda
    np.testing.assert_allclose(found.estimate.cpu(), expected.estimate, rtol=1e-12)
    assert str(found) == str(expected)


def test_garbage_in_other_rows_does_not_reach_the_gradient():
    x, y = rows(400, 6), rows(400, seed=2)
    x[:8] = torch.nan
    weights = torch.zeros(6, device="cuda", requires_grad=True)
    generator = torch.Generator(device="cuda").manual_seed(0)
    loss = median_block_loss(
        lambda a, b: (a @ weights - b) ** 2, x, y, contamination=8, blocks=0.25, generator=generator
    )
    loss.backward()
    assert torch.isfinite(weights.grad).all()


def test_modules_count_selections_under_autocast():
    criterion = MedianBlockLoss(
        contamination=8, n_examples=400, generator=torch.Generator(device="cuda").manual_seed(0)
    ).cuda()
    x, ids = rows(400, 6), torch.arange(400, device="cuda")
    x[:8] = 1e4
    for _ in range(50):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            losses = torch.nn.functional.linear(x, torch.ones(1, 6, device="cuda"))[:, 0] ** 2
            assert torch.isfinite(criterion(losses.float(), ids=ids))
    scores = criterion.outlier_scores()
    assert scores.is_cuda
    assert scores[:8].min() > scores[8:].median()
