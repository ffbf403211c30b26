"""U-statistics of many columns in one call equal one call per column."""

from __future__ import annotations

import math

import matplotlib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov
from outvote.blocks.partition import draw
from outvote.estimate import block_values, u_statistic

matplotlib.use("Agg")

KINDS = ["random", "uniform", "hash", "contiguous"]
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def rows(*shape, seed=0):
    """Rows with ties."""
    return np.round(np.random.default_rng(seed).normal(size=shape), 1)


def sizes_of(result):
    return result.block_sizes if isinstance(result.block_sizes, tuple) else (result.block_sizes,)


def check_columns(*samples, axis=0, **options):
    """One call for all columns gives what one call for each gives."""
    before = [np.array(sample) for sample in samples]
    found = ov.u_statistic(*samples, axis=axis, rng=3, **options)
    assume = options.pop("assume", None)
    d = np.size(found.estimate)
    columns = [np.moveaxis(np.asarray(sample), axis, 0).reshape(np.shape(sample)[axis], -1) for sample in samples]
    assert d == columns[0].shape[1]
    values = np.asarray(found.block_values).reshape(-1, d)
    for j in range(d):
        known = assume[j] if isinstance(assume, list) else assume
        one = ov.u_statistic(*(x[:, j] for x in columns), rng=3, assume=known, **options)
        for many, alone in zip(
            (found.estimate, found.radius, *found.interval), (one.estimate, one.radius, *one.interval), strict=True
        ):
            np.testing.assert_allclose(np.reshape(many, -1)[j], alone, **CLOSE)
        if len(values):
            np.testing.assert_allclose(values[:, j], one.block_values.reshape(-1), **CLOSE)
            np.testing.assert_allclose(np.ravel(found.plain)[j], one.plain, **CLOSE)
        assert found.plan.explain() == one.plan.explain()
        if one.certificate.provenance != "none":  # a column without an interval does not speak for the others
            assert found.certificate.provenance == one.certificate.provenance
        assert found.certificate.log_delta == one.certificate.log_delta
        assert found.n_omitted == one.n_omitted
        for size, expected in zip(*(sizes_of(result) for result in (found, one)), strict=True):
            np.testing.assert_array_equal(size, expected)
    for sample, copy in zip(samples, before, strict=True):
        np.testing.assert_array_equal(sample, copy)
    return found


@settings(max_examples=30)
@given(
    n_rows=st.tuples(st.integers(12, 40), st.integers(12, 40)),
    n_columns=st.integers(1, 4),
    n_blocks=st.integers(1, 6),
    name=st.sampled_from(["variance", "gini", "wilcoxon", "mann-whitney", "auc", "mmd", "energy"]),
    grid=st.sampled_from(["full", "diagonal"]),
    remainder=st.sampled_from(["drop", "spread"]),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**32),
)
def test_one_call_equals_one_call_per_column(n_rows, n_columns, n_blocks, name, grid, remainder, kind, seed):
    kernel = ov.kernels.KERNELS[name]
    samples = [rows(n, n_columns, seed=seed + s) for s, n in enumerate(n_rows[: len(kernel.degrees)])]
    found = check_columns(
        *samples, kernel=name, contamination=0, n_blocks=n_blocks, grid=grid, remainder=remainder, partition=kind
    )
    assert found.statistic == name
    assert found.block_values.ndim == (3 if len(samples) == 2 and grid == "full" else 2)


def test_full_grid_against_brute_force_with_and_without_block_values(monkeypatch):
    x, y = rows(30, 2), rows(24, 2, seed=1)
    asked = {"kernel": "auc", "contamination": 1, "n_blocks": (5, 4), "axis": 0, "rng": 0}
    found = ov.u_statistic(x, y, **asked)
    monkeypatch.setattr(u_statistic, "_KEPT", 0)
    bare = ov.u_statistic(x, y, **asked)
    for j in range(2):
        expected = [
            np.mean([(a < b) + (a == b) / 2 for a in x[rows_x, j] for b in y[rows_y, j]])
            for rows_x in draw("random", 30, 5, 0)
            for rows_y in draw("random", 24, 4, 0, stream=1)
        ]
        np.testing.assert_allclose(found.block_values[..., j].ravel(), expected, rtol=1e-12)
        assert found.estimate[j] == pytest.approx(np.median(expected), rel=1e-12)
        assert bare.estimate[j] == pytest.approx(np.median(expected), rel=1e-12)
    assert bare.block_values.shape == (0, 0, 2)
    assert "too many combinations of blocks" in bare.explain()
    assert bare.to_dict(blocks=True)["block_values"] == []
    with pytest.raises(ValueError, match=r"were not kept.*grid='diagonal'"):
        _ = bare.plain
    with pytest.raises(ValueError, match="were not kept"):
        bare.plot(column=1)
    diagonal = ov.u_statistic(x, y, **asked | {"n_blocks": 5, "grid": "diagonal"})
    assert diagonal.block_values.shape == (5, 2)  # which are few enough to keep


@pytest.mark.parametrize(
    ("function", "n_samples"),
    [
        (ov.Kernel(lambda a, b: max(a, b), 2, name="larger"), 1),
        (ov.Kernel(lambda a, b: np.abs(a - b) ** 0.5, 2), 1),
        (ov.Kernel(lambda a, b, c: np.maximum(np.maximum(a, b), c), 3, vectorized=True), 1),
        (ov.Kernel(lambda a, b, c: float(a + b < 2 * c), (2, 1)), 2),
    ],
    ids=["rows", "arrays", "triples", "two samples"],
)
def test_user_kernels(function, n_samples):
    check_columns(rows(60, 3), *[rows(20, 3, seed=1)][: n_samples - 1], kernel=function, contamination=1, n_blocks=5)


def test_numba_kernels():
    numba = pytest.importorskip("numba")
    check_columns(rows(60, 3), kernel=ov.Kernel(numba.njit(lambda a, b: abs(a - b)), 2), contamination=1, n_blocks=5)


def test_kernel_checks_do_not_mix_columns():
    """The logarithm of a product is NaN where rows of a positive and of a negative column meet."""
    z = 1 + np.abs(rows(60, 12))
    z[:, 1::2] *= -1
    check_columns(z, kernel=ov.Kernel(lambda a, b: np.log(a * b), 2), contamination=1, n_blocks=5)


@pytest.mark.parametrize(
    ("vote", "assume"),
    [
        ("soft", ov.FiniteVariance(2.0)),
        ("auto", ov.SubGaussian(2.0)),
        ("clipped", None),
        ("median", [ov.FiniteVariance(2.0), ov.FiniteVariance(3.0), ov.FiniteVariance(1.0)]),
    ],
)
def test_votes_and_assumptions(vote, assume):
    check_columns(rows(300, 3), kernel="variance", contamination=3, vote=vote, assume=assume)


def test_one_assumption_per_column():
    known, asked = [ov.FiniteVariance(1.0), None, ov.Bounded(0.0, 30.0)], {"contamination": 3, "n_blocks": 21, "rng": 0}
    found = ov.u_statistic(rows(300, 3), kernel="variance", assume=known, axis=0, **asked)
    for j, assume in enumerate(known):
        one = ov.u_statistic(rows(300, 3)[:, j], kernel="variance", assume=assume, **asked)
        assert [found.radius[j], *(end[j] for end in found.interval)] == pytest.approx([one.radius, *one.interval])
    assert found.certificate.provenance == "plug-in"
    assert found.certificate.assumption == tuple(known)


def test_one_sided_and_simultaneous_intervals():
    for alternative in ("less", "greater"):
        check_columns(rows(200, 2), kernel="gini", contamination=2, alternative=alternative)
    x, asked = rows(400, 5), {"contamination": 3, "axis": 0, "rng": 0}
    found = ov.u_statistic(x, kernel="wilcoxon", simultaneous=True, confidence=0.9, n_blocks=41, **asked)
    each = ov.u_statistic(x, kernel="wilcoxon", confidence=0.98, n_blocks=41, **asked)
    np.testing.assert_allclose(found.radius, each.radius, rtol=1e-12)
    assert found.certificate.confidence == pytest.approx(0.9)


@pytest.mark.parametrize("axis", [1, -1])
def test_axes(axis):
    found = check_columns(rows(20, 8, 7), axis=axis, kernel="gini", contamination=1, n_blocks=3)
    assert found.estimate.shape == tuple(np.delete([20, 8, 7], axis))
    assert found.block_values.shape == (3, *found.estimate.shape)
    check_columns(rows(3, 40), rows(3, 50, seed=1), axis=-1, kernel="auc", contamination=1, n_blocks=5)


def test_one_column_gives_a_scalar():
    z = rows(80)
    found, one = (ov.u_statistic(z, kernel="gini", contamination=1, rng=0, **axis) for axis in ({"axis": 0}, {}))
    assert isinstance(found.estimate, float)
    assert found.to_dict() == one.to_dict()


@pytest.mark.parametrize("policy", ["omit", "corrupt"])
def test_nan_policies_drop_whole_rows(policy):
    x, y = rows(70, 3), rows(60, 3, seed=1)
    x[[3, 17]], y[5] = np.nan, np.nan
    options = {"contamination": 3, "n_blocks": 9, "nan_policy": policy, "partition": "hash"}
    whole = check_columns(x, kernel="variance", **options)
    check_columns(x, y, kernel="auc", **options)
    x[3, 1:] = 0.5
    part = ov.u_statistic(x, kernel="variance", axis=0, rng=3, **options)
    np.testing.assert_allclose(part.estimate, whole.estimate)
    assert part.n_omitted == 2
    with pytest.raises(ValueError, match=r"x has NaN or infinite values in 2 of 70 rows \(the first is row 3\)"):
        ov.u_statistic(x, kernel="gini", axis=0)


def test_columns_of_very_different_scales():
    z = rows(60, 5) * [1e-300, 1.0, 1e160, 1e300, 0.0] / 1e10
    found = ov.u_statistic(z, kernel="gini", contamination=1, n_blocks=5, axis=0, rng=3)
    for j in range(5):
        one = ov.u_statistic(z[:, j], kernel="gini", contamination=1, n_blocks=5, rng=3)
        assert (found.estimate[j], found.radius[j]) == pytest.approx((one.estimate, one.radius), rel=1e-9, abs=0)
    assert math.isinf(found.radius[4])  # equal rows say nothing of a scale


def test_chunks_of_columns_change_nothing(monkeypatch):
    z, asked = rows(40, 7), {"kernel": "gini", "contamination": 1, "n_blocks": 5, "axis": 0, "rng": 0}
    expected = ov.u_statistic(z, **asked)
    for at_once in (1, 80, 120):
        monkeypatch.setattr(block_values, "_AT_ONCE", at_once)
        np.testing.assert_allclose(ov.u_statistic(z, **asked).block_values, expected.block_values, rtol=1e-12)


def test_jobs_change_nothing(monkeypatch):
    for options, samples in (({"kernel": "gini"}, 1), ({"kernel": "auc", "grid": "full"}, 2)):
        asked = {"contamination": 1, "n_blocks": 7, "axis": 0, "rng": 0, **options}
        given = [rows(60, 3, seed=s) for s in range(samples)]
        expected = ov.u_statistic(*given, **asked)
        with monkeypatch.context() as patch:
            patch.setattr(u_statistic, "_KEPT", 0)
            found = ov.u_statistic(*given, n_jobs=2, **asked)
        np.testing.assert_allclose(found.estimate, expected.estimate, rtol=1e-12)


def test_column_names_are_kept():
    frame = pd.DataFrame(rows(80, 2), columns=["a", "b"])
    found = ov.u_statistic(frame, kernel="gini", contamination=1, axis=0, rng=0)
    assert found.names == ("a", "b")
    assert str(found).startswith("gini a ")
    assert "<th style='text-align:left'>b</th>" in found._repr_html_()
    both = ov.u_statistic(frame, frame.to_numpy(), kernel="auc", contamination=1, axis=0, rng=0)
    assert both.names == ("a", "b")
    assert ov.u_statistic(frame, kernel="gini", contamination=0, n_blocks=1, axis=1, rng=0).names is None


@pytest.mark.parametrize("grid", ["full", "diagonal"])
def test_plot_shows_one_column(grid):
    x, y = rows(60, 2), rows(60, 2, seed=1)
    asked = {"kernel": "auc", "contamination": 1, "n_blocks": 7, "grid": grid, "rng": 0}
    one = ov.u_statistic(x[:, 1], y[:, 1], **asked).plot()
    found = ov.u_statistic(x, y, axis=0, **asked).plot(column=1)
    np.testing.assert_allclose(found.block_values, one.block_values)
    assert (found.estimate, found.plain) == pytest.approx((one.estimate, one.plain))
    assert (found.n_corrupt, found.title) == (one.n_corrupt, one.title)


def test_errors_of_vector_kernels_get_a_note():
    kernel = ov.Kernel(lambda z, w: z[0] * w[0], 2, name="first")
    with pytest.raises((IndexError, TypeError)) as caught:
        ov.u_statistic(rows(40, 4), kernel=kernel, axis=0, vote="median")
    assert "kernel 'first' is given numbers, not vectors" in caught.value.__notes__[0]


def test_invalid_arguments_raise():
    x = rows(40, 3)
    turned = [pd.DataFrame(x[:, :2], columns=list(names)) for names in ("ab", "ba")]
    for samples, options, error, message in (
        ((x,), {"axis": 2}, ValueError, "axis=2 does not exist: x has 2 dimensions"),
        ((x,), {"axis": "0"}, TypeError, "axis='0' must be an integer, or None for a sample of vectors"),
        ((x, x[:, :2]), {}, ValueError, r"axis=0 pairs column with column, .* columns of shape \(3,\) and \(2,\)"),
        ((x, x[:, 0]), {}, ValueError, r"columns of shape \(3,\) and \(\)"),
        (turned, {}, ValueError, r"named \['a', 'b'\] and \['b', 'a'\]: put them in one order"),
        ((x[:, :0],), {}, ValueError, r"x has shape \(40, 0\): there are no columns to estimate"),
        ((x[:0],), {}, ValueError, "x is empty"),
        ((x,), {"assume": [None, None]}, ValueError, "assume has 2 entries for 3 columns"),
        ((x,), {"kernel": "auc"}, ValueError, "takes 2 samples"),
        ((x,), {"contamination": "auto"}, ValueError, "contamination='auto' estimates one column at a time"),
        (
            (x,),
            {"kernel": "kendall"},
            ValueError,
            r"axis=0 .* 'kendall' takes rows of 2 numbers: leave axis out",
        ),
    ):
        with pytest.raises(error, match=message):
            ov.u_statistic(*samples, **{"kernel": "auc" if len(samples) == 2 else "gini", "axis": 0, **options})


def test_means_of_many_columns_answer_as_single_ones():
    rng = np.random.default_rng(1)
    x = rng.standard_t(1.2, size=(150, 9)) * 10.0 ** rng.integers(-3, 4, size=9)
    x[:, [0, 7]] = 1.0, -2.5
    for contamination in (0, 0.1):
        found, alone = ov.mean(x, contamination), [ov.mean(column, contamination) for column in x.T]
        for j, one in enumerate(alone):
            many = [found.estimate[j], *(end[j] for end in found.interval)]
            assert many == pytest.approx([one.estimate, *one.interval], rel=1e-9, abs=1e-9)
