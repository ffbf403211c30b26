"""Rows of tensors are counted in bins on their device: the same whole numbers, and the same answers, as numpy's."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import outvote as ov
from outvote.data import tensors
from outvote.estimate.ordered import MANY_ROWS
from outvote.torch.device import bins, columns
from outvote.votes.evidence import Grid, pilot_of, tallies_of_columns

#: No tensor with more numbers than this comes to the host: tallies of two columns do.
MOST = 2 * 3 * 4096
N = 40_000


def samples():
    """Rows of all sorts, by name."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=N)
    mixed = np.where(rng.random(N) < 0.3, 1e9 * x, x)
    grid = Grid.of(pilot_of(x))
    near, _, side = grid.edges(np.arange(grid.number))
    edges = grid.centre + grid.unit * side * near
    beside = np.concatenate([edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)])
    return {
        "normal": x,
        "far off": x + 1e6,
        "mixed": mixed,
        "huge": x * 1e300,
        "tiny": x * 1e-300,
        "subnormal": np.round(x) * 5e-324,
        "zeros": np.where(x > 0, 0.0, -0.0),
        "constant": np.full(N, 3.7),
        "0 and 1": (x > 0.3).astype(float),
        "heavy": np.exp(4 * x),
        "edges": beside,
        "integers": np.round(3 * x),
    }


SAMPLES = samples()


def check_tallies(table, grids):
    host = table.numpy().astype(np.float64)
    with np.errstate(over="ignore"):
        expected = tallies_of_columns(host, grids)
    for one, two in zip(bins.tallies_of_tensor(table, grids), expected, strict=True):
        for a, b in zip(one, two, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_tallies_equal_numpy(dtype):
    for sample in SAMPLES.values():
        rows = torch.tensor(sample).to(dtype).double().numpy()
        rows = rows[np.isfinite(rows)]
        x = torch.tensor(rows).to(dtype)
        for grid in (Grid.of(pilot_of(rows)), Grid(-1.5, 2.0**-3), Grid(0.0, 2.0**-900), Grid(0.0, 1.0, 1024)):
            check_tallies(x[:, None], [grid])


@given(
    hnp.arrays(np.float64, st.integers(1, 50), elements=st.floats(allow_nan=False, allow_infinity=False)),
    st.floats(-1e300, 1e300),
    st.integers(-900, 700),
)
def test_tallies_of_any_rows_equal_numpy(x, centre, exponent):
    check_tallies(torch.tensor(x)[:, None], [Grid(centre, 2.0**exponent)])


def test_tallies_of_columns_equal_numpy(monkeypatch):
    monkeypatch.setattr(bins, "_AT_ONCE", 3000)
    table = torch.tensor(np.random.default_rng(1).normal(size=(9001, 4)) * [1, 1e5, 1e-5, 0])
    for one in (table, table.t().contiguous().t(), table[:, ::2], table[::3], table.float()):
        grids = [Grid.of(pilot_of(one[:, j].numpy())) for j in range(one.shape[1])]
        check_tallies(one, grids)


def test_rows_that_are_not_finite_are_in_the_last_bins():
    x = torch.tensor([[0.0], [torch.nan], [-torch.nan], [torch.inf], [-torch.inf]])
    (found,) = bins.tallies_of_tensor(x, [Grid(0.0, 1.0)])
    assert found.counts.sum() == 5
    assert found.counts[0] + found.counts[-1] == 4


@pytest.fixture
def device(monkeypatch):
    """Tensors are as on a device whose memory numpy cannot see, and long ones cannot be copied from there."""
    copy = torch.Tensor.cpu

    def few(tensor):
        assert tensor.numel() <= MOST, "a whole tensor was copied to the host"
        return copy(tensor)

    monkeypatch.setattr(tensors, "on_device", tensors.is_tensor)
    monkeypatch.setattr(torch.Tensor, "cpu", few)
    return monkeypatch


def dirty(seed=0, n=N):
    x = np.random.default_rng(seed).normal(1.0, 2.0, size=n)
    x[: n // 200] = 1e12
    return x


def check_same(found, expected):
    np.testing.assert_allclose(found.estimate, expected.estimate, rtol=1e-12, atol=1e-14)
    for one, two in zip(found.interval, expected.interval, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.plain_mean, expected.plain_mean, rtol=1e-9, atol=1e-5)
    assert str(found) == str(expected)
    assert found.n_omitted == expected.n_omitted
    assert found.detail == expected.detail
    assert found.plan == expected.plan


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_mean_equals_numpy_and_the_rows_stay(device, dtype):
    x = dirty().astype(dtype)
    for options in (
        {},
        {"alternative": "less"},
        {"assume": ov.FiniteVariance(2.0)},
        {"assume": ov.FiniteKurtosis(4.0, 2.0)},
        {"assume": ov.Bounded(-20, 20)},
        {"assume": ov.Bounded(-1e13, 1e13)},
    ):
        check_same(ov.mean(torch.tensor(x), **options), ov.mean(x, **options))


@pytest.mark.parametrize("scale", [1e-170, 1e150, 1e300])
def test_extreme_scales_equal_numpy(device, scale):
    x = np.random.default_rng(3).normal(size=N) * scale
    check_same(ov.mean(torch.tensor(x)), ov.mean(x))
    x[:] = np.abs(x)
    check_same(ov.difference(torch.tensor(x), torch.tensor(2 * x)), ov.difference(x, 2 * x))


def test_proportions_equal_numpy(device):
    for values, shares in (([0.0, 1.0], [0.7, 0.3]), ([0.0, 1.0, 7.0], [0.7, 0.298, 0.002])):
        x = np.random.default_rng(0).choice(values, size=N, p=shares)
        check_same(ov.mean(torch.tensor(x), assume=ov.Proportion()), ov.mean(x, assume=ov.Proportion()))
        check_same(ov.mean(torch.tensor(x)), ov.mean(x))


def test_proportions_with_too_many_odd_rows_raise_as_numpy(device):
    x = np.random.default_rng(0).choice([0.0, 1.0, 7.0], size=N)
    with pytest.raises(ValueError, match="7 for instance") as expected:
        ov.mean(x, assume=ov.Proportion())
    with pytest.raises(ValueError, match="7 for instance") as found:
        ov.mean(torch.tensor(x), assume=ov.Proportion())
    assert str(found.value) == str(expected.value)


def test_mean_of_columns_equals_numpy(device):
    device.setitem(globals(), "MOST", 20 * 3 * 4096)
    for n_columns in (2, 20):
        x = np.random.default_rng(0).normal(size=(MANY_ROWS, n_columns)) * np.arange(1, n_columns + 1)
        found = ov.mean(torch.tensor(x))
        assert isinstance(found.estimate, torch.Tensor)
        check_same(found, ov.mean(x))
    check_same(ov.mean(torch.tensor(x.T), axis=1), ov.mean(x.T, axis=1))
    check_same(ov.mean(torch.tensor(x[:9000]), axis=None), ov.mean(x[:9000], axis=None))


def answer(function, x, policy):
    """Return a result, or the message of an error."""
    try:
        return function(x, nan_policy=policy)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("policy", ["raise", "omit", "corrupt"])
@pytest.mark.parametrize(("gap", "shape"), [(np.nan, (N, 2)), (-np.inf, (N,))])
def test_nan_policies_equal_numpy(device, policy, gap, shape):
    x = np.random.default_rng(0).normal(size=shape)
    x[[7, 99, 2000]] = gap
    for function in (ov.mean, lambda rows, **options: ov.difference(rows, rows, **options), ov.quantile):
        expected, found = (answer(function, z, policy) for z in (x, torch.tensor(x)))
        if isinstance(expected, str):
            assert found == expected
        else:
            check_same(found, expected)


def test_nan_policy_of_bounded_rows_equals_numpy(device):
    x = dirty()
    x[500:510] = np.nan
    for policy in ("omit", "corrupt"):
        options = {"nan_policy": policy, "assume": ov.Bounded(-30, 30)}
        check_same(ov.mean(torch.tensor(x), **options), ov.mean(x, **options))


@pytest.mark.parametrize("options", [{}, {"relative": True}, {"counted": "each"}])
def test_difference_equals_numpy_and_the_rows_stay(device, options):
    a, b = dirty(), dirty(1) + 1
    expected = ov.difference(a, b, **options)
    check_same(ov.difference(torch.tensor(a), torch.tensor(b), **options), expected)
    check_same(ov.difference(torch.tensor(a), b, **options), expected)
    summary = ov.RowSummary().update(b)
    check_same(ov.difference(torch.tensor(a), summary, **options), ov.difference(a, summary, **options))


def test_difference_of_columns_equals_numpy(device):
    a, b = np.stack([dirty(), dirty(1)], axis=1), np.stack([dirty(2), dirty(3)], axis=1)
    check_same(ov.difference(torch.tensor(a), torch.tensor(b)), ov.difference(a, b))
    with pytest.raises(ValueError, match=r"a has shape \(40000, 2\) and b has shape \(40000,\)"):
        ov.difference(torch.tensor(a), torch.tensor(b[:, 0]))


@pytest.mark.parametrize("options", [{"claim": "mean > 0"}, {"claim": "mean < 3", "assume": ov.FiniteVariance(2.0)}])
def test_tolerance_equals_numpy_and_the_rows_stay(device, options):
    x = dirty()
    found, expected = ov.tolerance(torch.tensor(x), **options), ov.tolerance(x, **options)
    assert str(found) == str(expected)
    assert found.rows == expected.rows
    check_same(found.estimate, expected.estimate)


def test_tolerance_of_two_samples_equals_numpy(device):
    a, b = dirty(n=9000), dirty(1, n=9000) + 1
    assert str(ov.tolerance(torch.tensor(a), torch.tensor(b))) == str(ov.tolerance(a, b))


@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "edges"])
def test_quantile_equals_numpy_and_the_rows_stay(device, name):
    x = SAMPLES[name] + 0.0  # no -0.0, which equals 0.0
    with np.errstate(over="ignore"):
        short = x.astype(np.float32) + np.float32(0)
    for rows in (x, short):
        for q in (0.001, [0.25, 0.5, 0.999]):
            check_same(ov.quantile(torch.tensor(rows), q), ov.quantile(rows, q))


def test_quantile_of_columns_equals_numpy(device):
    x = np.stack([dirty(), dirty(1)], axis=1)
    x[5:300, 0] = np.inf
    for options in ({}, {"simultaneous": True}, {"contamination": "auto"}):
        if options.get("contamination") != "auto":
            check_same(ov.quantile(torch.tensor(x), [0.1, 0.9], **options), ov.quantile(x, [0.1, 0.9], **options))
        check_same(ov.quantile(torch.tensor(x[:, 1]), 0.9, **options), ov.quantile(x[:, 1], 0.9, **options))


def test_bins_that_do_not_hold_a_row_do_not_matter(device):
    """Rows are put in order if those that were selected by their bins are others than they should be."""
    device.setattr(columns, "_ROUNDING", -0.9)
    x = dirty()
    check_same(ov.quantile(torch.tensor(x), 0.3), ov.quantile(x, 0.3))


@pytest.fixture
def copies(monkeypatch):
    """Tensors are as on a device, and may be copied from there."""
    monkeypatch.setattr(tensors, "on_device", tensors.is_tensor)


def test_what_needs_the_rows_copies_them(copies):
    x, y = dirty(n=9000), dirty(1, n=9000) + 1
    there, too = torch.tensor(x), torch.tensor(y)
    for options in (
        {"assume": ov.Symmetric()},
        {"assume": ov.FiniteKurtosis(4.0)},
        {"assume": ov.FiniteVariance(1e12), "contamination": 0},
    ):
        check_same(ov.mean(there, **options), ov.mean(x, **options))
    # Rows beyond the bins, of which fewer may be corrupt than there are.
    check_same(ov.mean(there, contamination="auto"), ov.mean(x, contamination="auto"))
    few = {"contamination": (0.01, 5)}
    check_same(ov.difference(there, too, **few), ov.difference(x, y, **few))
    sums = np.where(np.arange(N) % 3 == 0, 1.2e308, 1.5e308)  # that overflow
    check_same(ov.mean(torch.tensor(sums)), ov.mean(sums))
    assert ov.tolerance(there, claim="mean > 0.9").deciding == ov.tolerance(x, claim="mean > 0.9").deciding
    assert list(ov.tolerance(there, too).deciding) == list(ov.tolerance(x, y).deciding)
    assert str(ov.tolerance(there, claim="median > 0")) == str(ov.tolerance(x, claim="median > 0"))
    check_same(ov.difference(there, too, paired=True), ov.difference(x, y, paired=True))
    zeros = (x > 1).astype(float)
    options = {"claim": "mean > 0.4", "assume": ov.Proportion()}
    one, two = ov.tolerance(torch.tensor(zeros), **options), ov.tolerance(zeros, **options)
    assert str(one) == str(two)
    assert list(one.deciding) == list(two.deciding)
    voted = {"vote": "median", "rng": 0}
    assert str(ov.tolerance(there, claim="mean > 0", **voted)) == str(ov.tolerance(x, claim="mean > 0", **voted))


def test_deciding_rows_of_gaps_are_those_of_numpy(copies):
    x = dirty()
    x[[3, 2999]] = np.nan
    for policy in ("omit", "corrupt"):
        options = {"claim": "mean > 0.9", "nan_policy": policy}
        assert ov.tolerance(torch.tensor(x), **options).deciding == ov.tolerance(x, **options).deciding


@pytest.mark.parametrize("n_left", [10, MANY_ROWS - 1])
def test_few_rows_are_copied(copies, n_left):
    x = dirty()
    options = {"assume": ov.Bounded(-30, 30), "contamination": 0.4}
    check_same(ov.mean(torch.tensor(x[:500]), **options), ov.mean(x[:500], **options))
    x = x[-MANY_ROWS - 200 :]
    x[: MANY_ROWS + 200 - max(n_left, 6000)] = np.nan
    options = {"nan_policy": "omit", "contamination": 0.1}
    check_same(ov.mean(torch.tensor(x), **options), ov.mean(x, **options))
    check_same(ov.quantile(torch.tensor(x), **options), ov.quantile(x, **options))
    x = np.nan_to_num(x, nan=1e5)
    options = {"assume": ov.Bounded(-30, 30), "contamination": 0.4}
    check_same(ov.mean(torch.tensor(x), **options), ov.mean(x, **options))
