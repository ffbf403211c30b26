"""The median of U-statistics of blocks: one sample or several, on the full grid or its diagonal."""

from __future__ import annotations

import itertools
import math

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest

import outvote as ov
from outvote.blocks.partition import draw
from outvote.certificate import Certificate

KINDS = ["random", "uniform", "hash", "contiguous"]
ONE_SAMPLE = {"variance": (), "covariance": (2,), "gini": (), "wilcoxon": (), "kendall": (2,)}
TWO_SAMPLES = {"mann-whitney": (), "auc": (), "mmd": (3,), "energy": (3,)}


def normal(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def definition(name, *blocks):
    """Average the kernel's definition over all tuples."""
    kernel = ov.kernels.KERNELS[name]
    subsets = [itertools.combinations(block, d) for block, d in zip(blocks, kernel.degrees, strict=True)]
    slots = zip(*(itertools.chain(*rows) for rows in itertools.product(*subsets)), strict=True)
    return float(np.mean(kernel.function(*map(np.array, slots))))


# --- one sample -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("remainder", ["drop", "spread"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ONE_SAMPLE)
def test_estimate_is_the_median_of_the_block_statistics(name, kind, remainder):
    z = normal((85, *ONE_SAMPLE[name]))
    result = ov.u_statistic(z, kernel=name, contamination=2, n_blocks=9, partition=kind, remainder=remainder, rng=4)
    dealt = draw(kind, 85, 9, 4, remainder=remainder)
    expected = [definition(name, z[rows]) for rows in dealt if len(rows) >= 2]
    np.testing.assert_allclose(result.block_values, expected, rtol=1e-10, atol=1e-14)
    assert result.estimate == pytest.approx(np.median(expected), rel=1e-10)
    assert result.statistic == name
    assert result.block_sizes.tolist() == [len(rows) for rows in dealt if len(rows) >= 2]
    assert isinstance(result.certificate, Certificate)


@pytest.mark.parametrize("kind", KINDS)
def test_tuples_stay_within_one_block(kind):
    labels = draw(kind, 120, 10, seed=3).labels.astype(float)
    result = ov.u_statistic(labels, kernel="gini", contamination=0, n_blocks=10, partition=kind, rng=3)
    assert result.block_values.tolist() == [0.0] * 10


def test_one_block_gives_the_plain_statistic():
    z = normal(60)
    assert ov.u_statistic(z, kernel="variance", contamination=0, n_blocks=1).estimate == pytest.approx(z.var(ddof=1))
    pairs = normal((60, 2))
    found = ov.u_statistic(pairs, kernel="covariance", contamination=0, n_blocks=1).estimate
    assert found == pytest.approx(np.cov(pairs.T)[0, 1])


def test_kendall_and_auc_agree_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    pairs = normal((200, 2))
    found = ov.u_statistic(pairs, kernel="kendall", contamination=0, n_blocks=1).estimate
    assert found == pytest.approx(stats.kendalltau(*pairs.T).statistic)
    x, y = normal(80), normal(70, seed=1)
    u = stats.mannwhitneyu(y, x).statistic
    assert ov.u_statistic(x, y, kernel="auc", contamination=0, n_blocks=1).estimate == pytest.approx(u / 5600)


def test_kernel_of_degree_one_equals_the_mean():
    z = normal(100)
    result = ov.u_statistic(z, kernel=ov.Kernel(lambda a: a, 1, name="row"), contamination=3, rng=0, vote="median")
    assert result.estimate == pytest.approx(ov.mean(z, contamination=3, rng=0, vote="median").estimate)
    assert result.statistic == "row"


def test_kernel_of_degree_three():
    z = normal(40)
    result = ov.u_statistic(z, kernel=ov.Kernel(lambda a, b, c: max(a, b, c), 3), contamination=1, n_blocks=5, rng=0)
    expected = [np.mean([max(t) for t in itertools.combinations(z[rows], 3)]) for rows in draw("random", 40, 5, 0)]
    np.testing.assert_allclose(result.block_values, expected)


def test_blocks_of_one_tuple():
    z = normal(20)
    result = ov.u_statistic(z, kernel="variance", contamination=3, n_blocks=10, rng=0)
    assert sorted(result.block_values) == pytest.approx(
        sorted((z[a] - z[b]) ** 2 / 2 for a, b in draw("random", 20, 10, 0))
    )


def test_long_alternating_rows_are_permuted():
    # Rows that take turns between 0 and 1: rows of one group never meet under a rotation.
    z = np.arange(2**20, dtype=np.float64) % 2
    result = ov.u_statistic(z, kernel="variance", contamination=10, n_blocks=101, rng=0)
    dealt = draw("random", len(z), 101, 0)
    assert result.block_values[0] == pytest.approx(z[dealt[0]].var(ddof=1))
    assert result.block_values[-1] == pytest.approx(z[dealt[100]].var(ddof=1))


def test_hash_blocks_smaller_than_a_tuple_do_not_vote():
    z = normal(60)
    result = ov.u_statistic(z, kernel="variance", contamination=1, n_blocks=28, partition="hash", rng=0)
    sizes = draw("hash", 60, 28, 0).sizes
    small = int((sizes < 2).sum())
    assert small > 0
    assert result.plan.n_blocks == len(result.block_values) == 28 - small
    assert result.block_sizes.tolist() == sizes[sizes >= 2].tolist()
    assert f"The hash left {small} blocks with fewer than 2 rows" in result.explain()
    assert result.plan.n_left_out == 60 - result.block_sizes.sum()


def test_no_block_with_enough_rows_of_both_samples_raises():
    def sizes(seed):
        return [draw("hash", 4, 2, seed, stream=s).sizes for s in range(2)]

    seed = next(seed for seed in range(2000) if np.minimum(*sizes(seed)).max() < 2)
    with pytest.raises(ValueError, match="partition='hash' left no block of 2 with 2 rows or more: use fewer blocks"):
        ov.u_statistic(
            normal(4),
            normal(4),
            kernel="energy",
            contamination=0,
            n_blocks=2,
            grid="diagonal",
            partition="hash",
            rng=seed,
        )


def test_seed_of_the_result_reproduces_it():
    z = normal(300)
    first = ov.u_statistic(z, kernel="gini", contamination=3)
    again = ov.u_statistic(z, kernel="gini", contamination=3, rng=first.seed)
    np.testing.assert_array_equal(first.block_values, again.block_values)
    generator = ov.u_statistic(z, kernel="gini", contamination=3, rng=np.random.default_rng(2))
    assert (
        generator.estimate == ov.u_statistic(z, kernel="gini", contamination=3, rng=np.random.default_rng(2)).estimate
    )


@pytest.mark.parametrize(
    "spelling",
    [
        lambda z: z.tolist(),
        pd.Series,
        pl.Series,
        lambda z: np.repeat(z, 2)[::2],
        lambda z: z.astype(">f8"),
        lambda z: np.frombuffer(z.tobytes()),
    ],
)
def test_every_container_gives_the_same_estimate(spelling):
    z = normal(100)
    found = ov.u_statistic(spelling(z), kernel="gini", contamination=2, rng=0)
    assert found.estimate == ov.u_statistic(z, kernel="gini", contamination=2, rng=0).estimate


@pytest.mark.parametrize("spelling", [lambda z: z.tolist(), np.asfortranarray, pd.DataFrame, pl.DataFrame])
def test_every_table_gives_the_same_estimate(spelling):
    z = normal((100, 2))
    found = ov.u_statistic(spelling(z), kernel="kendall", contamination=2, rng=0)
    assert found.estimate == ov.u_statistic(z, kernel="kendall", contamination=2, rng=0).estimate


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8", "?", "f4", "f2"])
def test_numbers_of_any_type_are_computed_in_float64(dtype):
    z = np.random.default_rng(0).integers(0, 100, size=80).astype(dtype)
    wide = z.astype(np.float64)
    for name in ("variance", "gini", "wilcoxon"):
        found = ov.u_statistic(z, kernel=name, contamination=2, rng=0)
        assert found.estimate == ov.u_statistic(wide, kernel=name, contamination=2, rng=0).estimate


def test_input_is_not_modified():
    x, y = normal(50), normal(40, seed=1)
    before = x.copy(), y.copy()

    def meddling(a, b):
        a += b
        return a.copy()

    x.flags.writeable = y.flags.writeable = False
    ov.u_statistic(x, y, kernel="energy", contamination=1)
    ov.u_statistic(x, y, kernel=ov.Kernel(meddling, (1, 1), vectorized=True), contamination=1)
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(y, before[1])


@pytest.mark.parametrize("name", ["variance", "gini", "wilcoxon"])
def test_corrupt_rows_at_the_largest_float_affect_their_blocks_only(name):
    z = normal(200)
    clean = ov.u_statistic(z, kernel=name, contamination=5, rng=0, vote="median")
    spoiled = z.copy()
    spoiled[:3], spoiled[3:5] = 1.79e308, -1.79e308
    found = ov.u_statistic(spoiled, kernel=name, contamination=5, rng=0, vote="median")
    hit = np.unique(draw("random", 200, found.plan.n_blocks, 0).labels[:5])
    others = np.setdiff1d(np.arange(found.plan.n_blocks), hit)
    np.testing.assert_allclose(found.block_values[others], clean.block_values[others], rtol=1e-13)
    assert math.isfinite(found.estimate)


def test_infinite_median_raises():
    z = np.where(np.arange(20) % 2, 1.7e308, -1.7e308)
    with pytest.raises(ValueError, match="the median block value is too large for a float"):
        ov.u_statistic(z, kernel="variance", contamination=0, n_blocks=2, partition="contiguous")


# --- several samples ------------------------------------------------------------------------------------


@pytest.mark.parametrize("remainder", ["drop", "spread"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TWO_SAMPLES)
def test_full_grid_evaluates_every_combination_of_blocks(name, kind, remainder):
    x, y = normal((33, *TWO_SAMPLES[name])), normal((22, *TWO_SAMPLES[name]), seed=1) + 0.3
    result = ov.u_statistic(
        x, y, kernel=name, contamination=(1, 0), n_blocks=(5, 4), partition=kind, remainder=remainder, rng=6
    )
    parts = [draw(kind, n, k, 6, stream=s, remainder=remainder) for s, (n, k) in enumerate([(33, 5), (22, 4)])]
    degree = ov.kernels.KERNELS[name].degrees[0]
    rows = [[block for block in part if len(block) >= degree] for part in parts]
    expected = np.array([[definition(name, x[a], y[b]) for b in rows[1]] for a in rows[0]])
    np.testing.assert_allclose(result.block_values, expected, rtol=1e-10, atol=1e-13)
    assert result.estimate == pytest.approx(np.median(expected), rel=1e-10)
    assert result.plan.n_blocks == expected.shape
    assert [sizes.tolist() for sizes in result.block_sizes] == [[len(b) for b in some] for some in rows]


@pytest.mark.parametrize("remainder", ["drop", "spread"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TWO_SAMPLES)
def test_diagonal_evaluates_blocks_of_equal_number(name, kind, remainder):
    x, y = normal((33, *TWO_SAMPLES[name])), normal((23, *TWO_SAMPLES[name]), seed=1) + 0.3
    result = ov.u_statistic(
        x, y, kernel=name, contamination=1, n_blocks=5, grid="diagonal", partition=kind, remainder=remainder, rng=6
    )
    parts = [draw(kind, n, 5, 6, stream=s, remainder=remainder) for s, n in enumerate((33, 23))]
    degree = ov.kernels.KERNELS[name].degrees[0]
    together = [(a, b) for a, b in zip(*parts, strict=True) if min(len(a), len(b)) >= degree]
    expected = [definition(name, x[a], y[b]) for a, b in together]
    np.testing.assert_allclose(result.block_values, expected, rtol=1e-10, atol=1e-13)
    assert result.estimate == pytest.approx(np.median(expected), rel=1e-10)
    assert result.plan.n_blocks == (len(expected),) * 2


def test_diagonal_drops_a_small_block_from_both_samples():
    x, y = normal(40), normal(25, seed=1)
    result = ov.u_statistic(
        x, y, kernel="energy", contamination=0, n_blocks=10, grid="diagonal", partition="hash", rng=1
    )
    sizes = np.stack([draw("hash", n, 10, 1, stream=s).sizes for s, n in enumerate((40, 25))])
    voting = (sizes >= 2).all(axis=0)
    assert not voting.all()
    np.testing.assert_array_equal(result.block_sizes, sizes[:, voting])
    assert result.block_values.shape == (voting.sum(),)


def test_samples_are_partitioned_independently():
    x = np.arange(60.0)
    result = ov.u_statistic(x, x, kernel="mann-whitney", contamination=0, n_blocks=20, grid="diagonal", rng=0)
    assert (result.block_values != result.block_values[0]).any()


def test_contamination_per_sample():
    x, y = normal(500), normal(300, seed=1) + 1
    clean = ov.u_statistic(x, y, kernel="auc", contamination=0, n_blocks=1).estimate
    x[:10], y[:3] = 1e9, -1e9
    result = ov.u_statistic(x, y, kernel="auc", contamination=(0.02, 3), rng=0)
    assert result.plan.n_corrupt == (10, 3)
    assert result.plan.holds
    assert result.estimate == pytest.approx(clean, abs=0.08)
    arrays = ov.u_statistic(x, y, kernel="auc", contamination=np.array([2, 3]), n_blocks=np.array([11, 13]))
    assert (arrays.plan.n_blocks, arrays.plan.n_corrupt) == ((11, 13), (2, 3))


def test_three_samples():
    samples = [normal(12), normal(10, seed=1), normal(8, seed=2)]
    kernel = ov.Kernel(lambda a, b, c: (a < b) & (b < c), (1, 1, 1), name="ordered")
    grid = ov.u_statistic(*samples, kernel=kernel, contamination=0, n_blocks=(3, 2, 4), rng=0)
    assert grid.block_values.shape == (3, 2, 4)
    parts = [draw("random", len(z), k, 0, stream=s) for s, (z, k) in enumerate(zip(samples, (3, 2, 4), strict=True))]
    for place in np.ndindex(3, 2, 4):
        a, b, c = (z[part[k]] for z, part, k in zip(samples, parts, place, strict=True))
        expected = np.mean([u < v < w for u in a for v in b for w in c])
        assert grid.block_values[place] == pytest.approx(expected)
    diagonal = ov.u_statistic(*samples, kernel=kernel, contamination=0, n_blocks=4, grid="diagonal", rng=0)
    assert diagonal.block_values.shape == (4,)


def test_samples_of_different_precision():
    x, y = normal(60).astype(np.float32), normal(50, seed=1)
    for name in ("mann-whitney", "auc", "energy", "mmd"):
        found = ov.u_statistic(x, y, kernel=name, contamination=1, rng=0, vote="median")
        wide = ov.u_statistic(x.astype(np.float64), y, kernel=name, contamination=1, rng=0, vote="median")
        assert found.estimate == wide.estimate


# --- NaN ------------------------------------------------------------------------------------------------


def test_nan_policies_apply_per_sample():
    x, y = normal(60), normal(50, seed=1)
    holed_x, holed_y = np.insert(x, [3, 9], np.nan), np.insert(y, 7, np.nan)
    omitted = ov.u_statistic(
        holed_x, holed_y, kernel="auc", contamination=(3, 2), nan_policy="omit", rng=0, vote="median"
    )
    assert omitted.estimate == ov.u_statistic(x, y, kernel="auc", contamination=(3, 2), rng=0, vote="median").estimate
    assert omitted.n_omitted == 3
    corrupt = ov.u_statistic(
        holed_x, holed_y, kernel="auc", contamination=(3, 2), nan_policy="corrupt", rng=0, vote="median"
    )
    filled_x, filled_y = np.insert(x, [3, 9], np.median(x)), np.insert(y, 7, np.median(y))
    assert (
        corrupt.estimate
        == ov.u_statistic(filled_x, filled_y, kernel="auc", contamination=(3, 2), rng=0, vote="median").estimate
    )
    assert corrupt.plan.n_corrupt == (3, 2)
    with pytest.raises(ValueError, match=r"sample 2 has NaN .* in 1 rows, more than the 0 corrupt rows"):
        ov.u_statistic(holed_x, holed_y, kernel="auc", contamination=(3, 0), nan_policy="corrupt", vote="median")


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_interval_contains_the_estimate(alternative):
    result = ov.u_statistic(normal(400), kernel="variance", contamination=3, alternative=alternative, rng=0)
    assert result.alternative == alternative
    assert result.interval.low <= result.estimate <= result.interval.high


# --- jobs -------------------------------------------------------------------------------------------------


def product(x, y):
    return x * y


@pytest.mark.parametrize("n_jobs", [2, -1, 7])
@pytest.mark.parametrize(
    ("kernel", "grid", "n_samples"),
    [
        ("gini", "full", 1),
        ("auc", "full", 2),
        ("auc", "diagonal", 2),
        (ov.Kernel(product, (1, 1)), "full", 2),
        (ov.Kernel(lambda x, y: abs(x - y), (2,)), "full", 1),
    ],
)
def test_jobs_change_nothing(kernel, grid, n_samples, n_jobs):
    samples = np.random.default_rng(0).normal(size=(n_samples, 103))
    options = {"kernel": kernel, "grid": grid, "contamination": 2, "n_blocks": 9, "rng": 0, "remainder": "spread"}
    with joblib.parallel_config("threading"):
        found = ov.u_statistic(*samples, n_jobs=n_jobs, **options)
    np.testing.assert_allclose(found.block_values, ov.u_statistic(*samples, **options).block_values, rtol=1e-13)


def test_jobs_follow_the_joblib_context():
    x = np.random.default_rng(0).normal(size=60)
    options = {"kernel": ov.Kernel(lambda x, y: abs(x - y), (2,), vectorized=False), "n_blocks": 3, "rng": 0}
    alone = ov.u_statistic(x, **options)
    assert np.array_equal(ov.u_statistic(x, n_jobs=2, **options).block_values, alone.block_values)
    used = []

    class Watching(joblib._parallel_backends.ThreadingBackend):
        def configure(self, n_jobs=1, **kwargs):
            used.append(n_jobs)
            return super().configure(n_jobs=n_jobs, **kwargs)

    joblib.register_parallel_backend("watching", Watching)
    with joblib.parallel_config("watching", n_jobs=3):
        assert np.array_equal(ov.u_statistic(x, **options).block_values, alone.block_values)
    assert used == [3]


@pytest.mark.parametrize("n_jobs", [0, 1.5, "2", True])
def test_invalid_number_of_jobs_raises(n_jobs):
    with pytest.raises(ValueError, match="n_jobs="):
        ov.u_statistic(np.arange(50.0), kernel="gini", n_jobs=n_jobs, vote="median")


@pytest.mark.parametrize("kernel", ["gini", "variance"])
def test_short_floats_do_not_overflow(kernel):
    x = np.repeat(np.array([3e38, -3e38], dtype=np.float32), 50)
    found, expected = (ov.u_statistic(one, kernel=kernel, contamination=1) for one in (x, x.astype(float)))
    assert found.estimate == expected.estimate < 1e80
