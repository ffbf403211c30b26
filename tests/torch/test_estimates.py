"""Estimates of tensors equal those of numpy, on the tensors' own device."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import outvote as ov
from outvote.data import tensors as arrays
from outvote.kernels import KERNELS

SAMPLES = {"one": (1000,), "pairs": (400, 2), "two": (600, 450), "vectors": (120, 90)}


@pytest.fixture(params=["host", "device"])
def where(request, monkeypatch):
    """Compute on the processor as usual, and as on a device whose memory numpy cannot see."""
    if request.param == "device":
        monkeypatch.setattr(arrays, "on_device", arrays.is_tensor)
    return request.param


def rows(*shape, seed=0):
    return np.round(np.random.default_rng(seed).normal(size=shape), 2)


def check_same(function, *samples, tolerance=1e-12, **options):
    """The same answer from tensors as from arrays; the block values are tensors."""
    expected = function(*samples, rng=0, **options)
    tensors = [torch.tensor(sample) for sample in samples]
    before = [tensor.clone() for tensor in tensors]
    found = function(*tensors, rng=0, **options)
    for tensor, copy in zip(tensors, before, strict=True):
        assert torch.equal(tensor.nan_to_num(), copy.nan_to_num())
    assert isinstance(found.block_values, torch.Tensor)
    np.testing.assert_allclose(found.block_values, expected.block_values, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found.estimate, expected.estimate, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found.radius, expected.radius, rtol=tolerance)
    for one, two in zip(found.interval, expected.interval, strict=True):
        np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)
    assert str(found) == str(expected)
    assert found.to_dict().keys() == expected.to_dict().keys()
    assert found._repr_html_() == expected._repr_html_()
    np.testing.assert_allclose(np.asarray(found.plain), np.asarray(expected.plain), rtol=1e-9, atol=1e-12)
    return found


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"partition": "uniform", "remainder": "spread"},
        {"partition": "contiguous"},
        {"partition": "hash"},
        {"contamination": "auto"},
        {"n_blocks": 100, "contamination": 5},
        {"assume": ov.Bounded(-2, 2), "contamination": 0.2},
        {"assume": ov.FiniteKurtosis(4.0)},
        {"assume": ov.FiniteVariance(1.0), "vote": "soft"},
        {"assume": ov.FiniteVariance(1.0), "vote": "clipped"},
        {"alternative": "less"},
    ],
)
def test_mean_equals_numpy(where, options):
    check_same(ov.mean, rows(1000), **options)


def test_plug_in_scale_of_many_rows_equals_numpy(where):
    check_same(ov.mean, rows(20_000))


def test_mean_of_columns_equals_numpy(where):
    x = rows(300, 4)
    found = check_same(ov.mean, x)
    assert isinstance(found.estimate, torch.Tensor)
    assert found.estimate.shape == (4,)
    check_same(ov.mean, x, axis=1, contamination=0)
    check_same(ov.mean, x, axis=None, simultaneous=True)


@pytest.mark.parametrize(("policy", "shape"), [("omit", (500,)), ("corrupt", (500, 3))])
def test_nan_policies_equal_numpy(where, policy, shape):
    x = rows(*shape)
    x[[3, 77]] = np.nan
    check_same(ov.mean, x, nan_policy=policy, contamination=0.05)
    with pytest.raises(ValueError, match=r"NaN or infinite values in 2 of 500 rows \(the first is row 3\)"):
        ov.mean(torch.tensor(x))


def test_kernels_of_one_sample_equal_numpy(where):
    for kernel in ("variance", "gini", "wilcoxon"):
        for n_blocks in (24, 41):  # numpy's median of an even number of blocks
            check_same(ov.u_statistic, rows(600), kernel=kernel, n_blocks=n_blocks, contamination=5)
    for kernel in ("covariance", "kendall"):
        check_same(ov.u_statistic, rows(300, 2), kernel=kernel, contamination=5)


@pytest.mark.parametrize("kernel", ["mann-whitney", "auc", "energy", "mmd"])
def test_kernels_of_two_samples_equal_numpy(where, kernel):
    x, y = rows(300), rows(210, seed=1)
    for grid in ("full", "diagonal"):
        check_same(ov.u_statistic, x, y, kernel=kernel, grid=grid, contamination=3, remainder="spread")
        if kernel in ("energy", "mmd"):
            vectors = rows(90, 3), rows(70, 3, seed=1)
            check_same(ov.u_statistic, *vectors, kernel=kernel, grid=grid, contamination=2)


def test_given_bandwidth_equals_numpy(where):
    kernel = ov.kernels.gaussian_mmd(0.3)
    check_same(ov.u_statistic, rows(100), rows(80, seed=1), kernel=kernel, contamination=2, tolerance=1e-11)


@pytest.mark.parametrize("scale", [1e-170, 1e150])
def test_extreme_scales_equal_numpy(where, scale):
    check_same(ov.u_statistic, rows(200) * scale, kernel="variance", contamination=2)
    check_same(ov.u_statistic, rows(60) * scale, rows(50, seed=1) * scale, kernel="energy", contamination=1)


def test_overflowing_sums_equal_numpy(where):
    check_same(ov.mean, np.full(300, 1.5e308), contamination=2)


def test_dtypes_equal_numpy(where):
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.bool):
        x = torch.tensor(rows(400) * 4 if dtype != torch.bool else rows(400) > 0).to(dtype)
        expected = ov.mean(x.double().numpy(), rng=0)
        found = ov.mean(x, rng=0)
        assert found.block_values.dtype == torch.float64
        np.testing.assert_allclose(found.block_values, expected.block_values, rtol=1e-12, atol=1e-12)


def test_tensors_with_autograd_history_are_accepted(where):
    x = torch.tensor(rows(200), requires_grad=True)
    assert ov.mean(x * 2, rng=0).estimate == pytest.approx(ov.mean(2 * rows(200), rng=0).estimate)


def test_views_with_all_signs_changed_are_read():
    x = torch.complex(*torch.randn(2, 200, dtype=torch.float64)).conj().imag
    assert x.is_neg()
    for ask in (ov.mean, ov.quantile, lambda x: ov.mean(ov.RowSummary().update(x))):
        assert float(ask(x).estimate) == float(ask(x.resolve_neg()).estimate)


@pytest.mark.parametrize("ask", [ov.mean, ov.quantile, ov.certify_risk, ov.suspects, lambda x: ov.difference(x, x)])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tensors_without_numbers_or_shape_are_refused(ask):
    with pytest.raises(TypeError, match="'meta', which holds no numbers: pass one with its values"):
        ask(torch.empty(100, device="meta"))
    with pytest.raises(TypeError, match=r"holds a nested tensor of torch.float32, but dense real numbers are needed"):
        ask(torch.nested.nested_tensor([torch.ones(3), torch.ones(4)]))


def test_invalid_tensors_raise(where):
    with pytest.raises(TypeError, match="x holds complex numbers"):
        ov.mean(torch.ones(10, dtype=torch.complex64))
    with pytest.raises(TypeError, match="sparse"):
        ov.mean(torch.eye(5).to_sparse())
    with pytest.raises(ValueError, match="single number"):
        ov.mean(torch.tensor(3.0))
    with pytest.raises(ValueError, match="x is empty"):
        ov.mean(torch.empty(0))


def test_kernels_without_a_tensor_form_raise_on_a_device(monkeypatch):
    monkeypatch.setattr(arrays, "on_device", arrays.is_tensor)
    mine = ov.Kernel(lambda a, b: max(a, b), degrees=2)
    with pytest.raises(TypeError, match=r"has no form for tensors on cpu: pass x.cpu\(\), or one of 'variance'"):
        ov.u_statistic(torch.arange(50.0), kernel=mine, contamination=1, vote="median")
    with pytest.raises(TypeError, match="the samples are on cpu and the host"):
        ov.u_statistic(torch.arange(50.0), np.arange(50.0), kernel="auc", contamination=1, vote="median")


def root_of_range(*slots):
    """A symmetric function that no kernel of the library computes."""
    return np.ptp(slots, axis=0) ** 0.5


@pytest.mark.parametrize("name", ["variance", "mann-whitney"])
def test_user_kernel_may_have_the_name_of_a_library_kernel(name):
    own = ov.Kernel(root_of_range, KERNELS[name].degrees, name=name)
    samples = [rows(200 - 20 * s, seed=s) for s in range(len(own.degrees))]
    check_same(ov.u_statistic, *samples, kernel=own, n_blocks=20, partition="hash")


def test_user_kernel_without_a_tensor_form_raises_on_a_device(monkeypatch):
    monkeypatch.setattr(arrays, "on_device", arrays.is_tensor)
    for name in ("gini", "kendall", "auc"):
        own = replace(KERNELS[name], function=root_of_range, tensor_form=None, tensor_grid_form=None)
        samples = [torch.tensor(rows(200, 2) if own.columns == 2 else rows(200)) for _ in own.degrees]
        told = rf"kernel '{name}' has no form for tensors on cpu: pass x.cpu\(\), or one of"
        with pytest.raises(TypeError, match=told):
            ov.u_statistic(*samples, kernel=own, contamination=1, vote="median")


@pytest.mark.parametrize("name", ["kendall", "auc"])
def test_renamed_library_kernel_keeps_its_tensor_forms(where, name):
    renamed = replace(KERNELS[name], name="mine")
    shape = (2,) if renamed.columns == 2 else ()
    samples = [rows(200 - 20 * s, *shape, seed=s) for s in range(len(renamed.degrees))]
    for grid in ("full", "diagonal"):
        check_same(ov.u_statistic, *samples, kernel=renamed, grid=grid, contamination=2)


def test_user_kernel_with_its_own_tensor_form(where):
    squares = ov.Kernel(
        lambda a, b: (a - b) ** 2, degrees=2, vectorized=True, tensor_form=lambda z: 2 * torch.var(z, dim=1)
    )
    check_same(ov.u_statistic, rows(200), kernel=squares, contamination=2)
    products = ov.Kernel(
        lambda a, b: a * b, degrees=(1, 1), vectorized=True, tensor_form=lambda x, y: x.mean(1) * y.mean(1)
    )
    check_same(ov.u_statistic, rows(200), rows(150, seed=1), kernel=products, grid="diagonal", contamination=2)


def test_other_functions_move_tensors_to_the_host(monkeypatch):
    monkeypatch.setattr(arrays, "on_device", arrays.is_tensor)
    a, b = rows(100), rows(90, seed=1)
    expected = ov.difference(a, b, rng=0)
    found = ov.difference(torch.tensor(a), torch.tensor(b), rng=0)
    assert found.estimate == expected.estimate
    one, two = ov.tolerance(torch.tensor(a), torch.tensor(b) + 5, rng=0), ov.tolerance(a, b + 5, rng=0)
    assert str(one) == str(two)


def test_plot_of_a_tensor(where):
    pytest.importorskip("matplotlib").use("agg")
    ov.mean(torch.tensor(rows(300, 2)), rng=0).plot(column=1)


def test_long_tensor_is_partitioned_on_its_device(monkeypatch):
    monkeypatch.setattr(arrays, "on_device", arrays.is_tensor)
    x = torch.randn(2**20 + 99, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[:50] = 1e9
    one, two = (ov.mean(x, contamination=50, vote="median", rng=3) for _ in range(2))
    assert one.estimate == two.estimate
    assert abs(one.estimate) < 0.02
    assert ov.mean(x, contamination=50, vote="median", rng=4).estimate != one.estimate
    kurtosis = ov.mean(x, contamination=50, rng=3, assume=ov.FiniteKurtosis(4.0), n_blocks=501)
    assert kurtosis.certificate.provenance == "certified"
    x[7] = float("nan")
    with pytest.raises(ValueError, match="the first is row 7"):
        ov.mean(x, contamination=50)


@pytest.mark.parametrize(
    ("n_blocks", "remainder", "vote"), [(500, "spread", "median"), (501, "drop", "median"), (501, "spread", "soft")]
)
def test_estimate_of_a_long_tensor(monkeypatch, n_blocks, remainder, vote):
    """What its own blocks, brought to the host, say: estimate, radius and sizes."""
    monkeypatch.setattr(arrays, "on_device", arrays.is_tensor)
    n = 2**20 + 99
    x = torch.randn(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    options = {"contamination": 50, "n_blocks": n_blocks, "remainder": remainder, "vote": vote, "rng": 3}
    options["assume"] = ov.FiniteVariance(1.0)
    found, here = ov.mean(x, **options), ov.mean(x.numpy(), **options)
    values, sizes = found.block_values.numpy(), found.block_sizes
    assert sizes.sum() == (n if remainder == "spread" else n - n % n_blocks)
    assert np.ptp(sizes) == (1 if remainder == "spread" else 0)
    assert found.radius == here.radius
    assert values.std() * np.sqrt(sizes[0]) == pytest.approx(1, abs=0.15)
    if vote == "median":
        assert found.estimate == pytest.approx(np.median(values), rel=1e-14)
    assert abs(found.estimate - here.estimate) < 0.01


@pytest.mark.parametrize(("name", "kind"), [("variance", "random"), ("gini", "hash"), ("wilcoxon", "contiguous")])
def test_u_statistics_of_columns_equal_numpy(where, name, kind):
    found = check_same(ov.u_statistic, rows(300, 4), kernel=name, axis=0, partition=kind, vote="median")
    assert isinstance(found.estimate, torch.Tensor)
    assert found.estimate.shape == (4,)
    assert found.block_values.shape[1:] == (4,)


@pytest.mark.parametrize("name", ["mann-whitney", "auc", "mmd", "energy"])
def test_u_statistics_of_columns_of_two_samples_equal_numpy(where, name):
    options = {"kernel": name, "axis": -1, "n_blocks": 9, "remainder": "spread"}
    for grid in ("full", "diagonal"):
        check_same(ov.u_statistic, rows(3, 80), rows(3, 90, seed=1), grid=grid, **options)
