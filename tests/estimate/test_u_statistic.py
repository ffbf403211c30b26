"""The median of U-statistics of blocks: one sample or several, on the full grid or its diagonal."""

from __future__ import annotations

import itertools
import math

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import outvote as ov
from outvote.blocks.partition import draw
from outvote.certificate import Certificate

KINDS = st.sampled_from(["random", "uniform", "hash", "contiguous"])
REMAINDERS = st.sampled_from(["drop", "spread"])
#: The shape of one row.
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


@pytest.mark.parametrize("name", ONE_SAMPLE)
@settings(max_examples=6)
@given(kind=KINDS, remainder=REMAINDERS, n=st.integers(60, 85))
def test_estimate_is_the_median_of_the_block_statistics(name, kind, remainder, n):
    z = normal((n, *ONE_SAMPLE[name]))
    result = ov.u_statistic(z, kernel=name, contamination=2, n_blocks=9, partition=kind, remainder=remainder, rng=4)
    dealt = [rows for rows in draw(kind, n, 9, 4, remainder=remainder) if len(rows) >= 2]
    expected = [definition(name, z[rows]) for rows in dealt]
    np.testing.assert_allclose(result.block_values, expected, rtol=1e-10, atol=1e-14)
    assert result.estimate == pytest.approx(np.median(expected), rel=1e-10)
    assert result.statistic == name
    assert result.block_sizes.tolist() == [len(rows) for rows in dealt]
    assert isinstance(result.certificate, Certificate)


def test_one_block_gives_the_plain_statistic():
    def plain(*samples, kernel):
        return ov.u_statistic(*samples, kernel=kernel, contamination=0, n_blocks=1).estimate

    x, y, pairs = normal(80), normal(70, seed=1), normal((60, 2))
    assert plain(x, kernel="variance") == pytest.approx(x.var(ddof=1))
    assert plain(pairs, kernel="covariance") == pytest.approx(np.cov(pairs.T)[0, 1])
    assert plain(pairs, kernel="kendall") == pytest.approx(stats.kendalltau(*pairs.T).statistic)
    assert plain(x, y, kernel="auc") == pytest.approx(stats.mannwhitneyu(y, x).statistic / 5600)


def test_kernels_of_degree_one_and_three():
    z = normal(100)
    result = ov.u_statistic(z, kernel=ov.Kernel(lambda a: a, 1, name="row"), contamination=3, rng=0, vote="median")
    assert result.estimate == pytest.approx(ov.mean(z, contamination=3, rng=0, vote="median").estimate)
    assert result.statistic == "row"
    largest = ov.Kernel(lambda a, b, c: max(a, b, c), 3)
    result = ov.u_statistic(z[:40], kernel=largest, contamination=1, n_blocks=5, rng=0)
    expected = [np.mean([max(t) for t in itertools.combinations(z[rows], 3)]) for rows in draw("random", 40, 5, 0)]
    np.testing.assert_allclose(result.block_values, expected)


def test_blocks_of_one_tuple():
    z = normal(20)
    result = ov.u_statistic(z, kernel="variance", contamination=3, n_blocks=10, rng=0)
    expected = sorted((z[a] - z[b]) ** 2 / 2 for a, b in draw("random", 20, 10, 0))
    assert sorted(result.block_values) == pytest.approx(expected)


def test_long_alternating_rows_are_permuted():
    # Rows that take turns between 0 and 1: rows of one group never meet under a rotation.
    z = np.arange(2**20, dtype=np.float64) % 2
    result = ov.u_statistic(z, kernel="variance", contamination=10, n_blocks=101, rng=0)
    dealt = draw("random", len(z), 101, 0)
    for k in (0, 100):
        assert result.block_values[k] == pytest.approx(z[dealt[k]].var(ddof=1))


def test_hash_blocks_smaller_than_a_tuple_do_not_vote():
    result = ov.u_statistic(normal(60), kernel="variance", contamination=1, n_blocks=28, partition="hash", rng=0)
    sizes = draw("hash", 60, 28, 0).sizes
    small = int((sizes < 2).sum())
    assert small > 0
    assert result.plan.n_blocks == len(result.block_values) == 28 - small
    assert f"The hash left {small} blocks with fewer than 2 rows" in result.explain()
    assert result.plan.n_left_out == 60 - result.block_sizes.sum()

    def both(seed):
        return [draw("hash", 4, 2, seed, stream=s).sizes for s in range(2)]

    seed = next(seed for seed in range(2000) if np.minimum(*both(seed)).max() < 2)
    asked = {"contamination": 0, "n_blocks": 2, "grid": "diagonal", "partition": "hash", "rng": seed}
    with pytest.raises(ValueError, match="partition='hash' left no block of 2 with 2 rows or more: use fewer blocks"):
        ov.u_statistic(normal(4), normal(4), kernel="energy", **asked)


def test_seeds_and_generators_repeat_an_estimate():
    def ask(rng=None):
        return ov.u_statistic(normal(300), kernel="gini", contamination=3, vote="median", rng=rng)

    first = ask()
    np.testing.assert_array_equal(first.block_values, ask(first.seed).block_values)
    assert ask(np.random.default_rng(2)).estimate == ask(np.random.default_rng(2)).estimate


@pytest.mark.parametrize("dtype", ["i1", "i8", "?", "f4", "f2"])
def test_numbers_of_any_type_are_computed_in_float64(dtype):
    z = np.random.default_rng(0).integers(0, 100, size=80).astype(dtype)
    for samples, kernel in (((z,), "variance"), ((z,), "gini"), ((z, normal(50)), "energy"), ((z, normal(50)), "auc")):
        wide = (z.astype(np.float64), *samples[1:])
        found, expected = (ov.u_statistic(*one, kernel=kernel, contamination=2, rng=0) for one in (samples, wide))
        assert found.estimate == pytest.approx(expected.estimate, rel=1e-12)
        assert found.interval == pytest.approx(expected.interval, rel=1e-9)


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


def test_infinite_medians_raise_and_short_floats_do_not_overflow():
    z = np.where(np.arange(20) % 2, 1.7e308, -1.7e308)
    with pytest.raises(ValueError, match="the median block value is too large for a float"):
        ov.u_statistic(z, kernel="variance", contamination=0, n_blocks=2, partition="contiguous")
    x = np.repeat(np.array([3e38, -3e38], dtype=np.float32), 50)
    for kernel in ("gini", "variance"):
        found, expected = (ov.u_statistic(one, kernel=kernel, contamination=1) for one in (x, x.astype(float)))
        assert found.estimate == pytest.approx(expected.estimate)
        assert expected.estimate < 1e80


# --- several samples ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TWO_SAMPLES)
@settings(max_examples=8)
@given(kind=KINDS, remainder=REMAINDERS, grid=st.sampled_from(["full", "diagonal"]), n=st.integers(24, 34))
def test_combinations_of_blocks(name, kind, remainder, grid, n):
    """All of them on the full grid, those of equal number on the diagonal."""
    x, y = normal((n, *TWO_SAMPLES[name])), normal((23, *TWO_SAMPLES[name]), seed=1) + 0.3
    n_blocks = (5, 4) if grid == "full" else (5, 5)
    asked = {"kernel": name, "n_blocks": n_blocks, "grid": grid, "partition": kind, "remainder": remainder, "rng": 6}
    result = ov.u_statistic(x, y, contamination=(1, 0) if grid == "full" else 1, **asked)
    parts = [
        draw(kind, m, k, 6, stream=s, remainder=remainder)
        for s, (m, k) in enumerate([(n, n_blocks[0]), (23, n_blocks[1])])
    ]
    degree = ov.kernels.KERNELS[name].degrees[0]
    if grid == "full":
        rows = [[block for block in part if len(block) >= degree] for part in parts]
        expected = np.array([[definition(name, x[a], y[b]) for b in rows[1]] for a in rows[0]])
        assert result.plan.n_blocks == expected.shape
    else:
        together = [(a, b) for a, b in zip(*parts, strict=True) if min(len(a), len(b)) >= degree]
        expected, rows = np.array([definition(name, x[a], y[b]) for a, b in together]), zip(*together, strict=True)
        assert result.plan.n_blocks == (len(expected),) * 2
    np.testing.assert_allclose(result.block_values, expected, rtol=1e-10, atol=1e-13)
    assert result.estimate == pytest.approx(np.median(expected), rel=1e-10)
    assert [sizes.tolist() for sizes in result.block_sizes] == [[len(b) for b in some] for some in rows]


def test_diagonal_drops_a_small_block_from_both_samples():
    asked = {"kernel": "energy", "contamination": 0, "n_blocks": 10, "grid": "diagonal", "partition": "hash", "rng": 1}
    result = ov.u_statistic(normal(40), normal(25, seed=1), **asked)
    sizes = np.stack([draw("hash", n, 10, 1, stream=s).sizes for s, n in enumerate((40, 25))])
    voting = (sizes >= 2).all(axis=0)
    assert not voting.all()
    np.testing.assert_array_equal(result.block_sizes, sizes[:, voting])
    assert result.block_values.shape == (voting.sum(),)


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
    parts = [draw("random", len(z), k, 0, stream=s) for s, (z, k) in enumerate(zip(samples, (3, 2, 4), strict=True))]
    for place in np.ndindex(3, 2, 4):
        a, b, c = (z[part[k]] for z, part, k in zip(samples, parts, place, strict=True))
        expected = np.mean([u < v < w for u in a for v in b for w in c])
        assert grid.block_values[place] == pytest.approx(expected)
    diagonal = ov.u_statistic(*samples, kernel=kernel, contamination=0, n_blocks=4, grid="diagonal", rng=0)
    assert (grid.block_values.shape, diagonal.block_values.shape) == ((3, 2, 4), (4,))


# --- NaN, sides and jobs --------------------------------------------------------------------------------


def test_nan_policies_apply_per_sample():
    def ask(x, y, contamination=(3, 2), nan_policy="raise"):
        return ov.u_statistic(
            x, y, kernel="auc", contamination=contamination, nan_policy=nan_policy, rng=0, vote="median"
        )

    x, y = normal(60), normal(50, seed=1)
    holed_x, holed_y = np.insert(x, [3, 9], np.nan), np.insert(y, 7, np.nan)
    omitted = ask(holed_x, holed_y, nan_policy="omit")
    assert (omitted.estimate, omitted.n_omitted) == (pytest.approx(ask(x, y).estimate), 3)
    corrupt = ask(holed_x, holed_y, nan_policy="corrupt")
    filled_x, filled_y = np.insert(x, [3, 9], np.median(x)), np.insert(y, 7, np.median(y))
    assert corrupt.estimate == pytest.approx(ask(filled_x, filled_y).estimate)
    assert corrupt.plan.n_corrupt == (3, 2)
    with pytest.raises(ValueError, match=r"sample 2 has NaN .* in 1 rows, more than the 0 corrupt rows"):
        ask(holed_x, holed_y, (3, 0), "corrupt")


@pytest.mark.parametrize(
    ("kernel", "grid", "n_samples"),
    [
        ("gini", "full", 1),
        ("auc", "diagonal", 2),
        (ov.Kernel(lambda x, y: x * y, (1, 1)), "full", 2),
        (ov.Kernel(lambda x, y: abs(x - y), (2,)), "full", 1),
    ],
)
def test_jobs_change_nothing(kernel, grid, n_samples):
    samples = np.random.default_rng(0).normal(size=(n_samples, 103))
    options = {"kernel": kernel, "grid": grid, "contamination": 2, "n_blocks": 9, "rng": 0, "remainder": "spread"}
    expected = ov.u_statistic(*samples, **options).block_values
    with joblib.parallel_config("threading"):
        for n_jobs in (2, -1, 7):
            found = ov.u_statistic(*samples, n_jobs=n_jobs, **options).block_values
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_jobs_follow_the_joblib_context():
    x, used = np.random.default_rng(0).normal(size=60), []
    options = {"kernel": ov.Kernel(lambda x, y: abs(x - y), (2,), vectorized=False), "n_blocks": 3, "rng": 0}
    alone = ov.u_statistic(x, **options)

    class Watching(joblib._parallel_backends.ThreadingBackend):
        def configure(self, n_jobs=1, **kwargs):
            used.append(n_jobs)
            return super().configure(n_jobs=n_jobs, **kwargs)

    joblib.register_parallel_backend("watching", Watching)
    with joblib.parallel_config("watching", n_jobs=3):
        assert ov.u_statistic(x, **options).block_values == pytest.approx(alone.block_values)
    assert used == [3]
    for n_jobs in (0, 1.5, "2", True):
        with pytest.raises(ValueError, match="n_jobs="):
            ov.u_statistic(x, n_jobs=n_jobs, **options)
