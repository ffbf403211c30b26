"""Properties of every sample: invariances, equivariances, and the breakdown point."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import outvote as ov
from outvote.blocks.partition import draw

laws = settings(deadline=None, max_examples=25, derandomize=True, database=None)

numbers = st.floats(-1e6, 1e6, allow_subnormal=False)
anything = st.floats(-1.7e308, 1.7e308)
seeds = st.integers(0, 2**32 - 1)
kinds = st.sampled_from(["random", "uniform", "hash", "contiguous"])
scales = st.floats(0.01, 100).flatmap(lambda a: st.sampled_from([a, -a]))
shifts = st.floats(-1e3, 1e3)


def samples(min_size=1, max_size=60, columns=()):
    sizes = st.integers(min_size, max_size)
    return sizes.flatmap(lambda n: hnp.arrays(np.float64, (n, *columns), elements=numbers))


@st.composite
def samples_and_blocks(draw_from, degree=1, columns=()):
    x = draw_from(samples(min_size=degree, columns=columns))
    return x, draw_from(st.integers(1, len(x) // degree))


def size_of(*arrays):
    """The rounding that numbers of this size may suffer."""
    return 1e-12 * (1.0 + max(float(np.max(np.abs(a))) for a in arrays))


# --- the mean -----------------------------------------------------------------------------------------


@laws
@given(samples_and_blocks(), kinds, seeds)
def test_one_block_gives_the_mean_and_n_blocks_the_median(case, kind, seed):
    x, _ = case
    options = {"contamination": 0, "partition": kind, "rng": seed}
    assert np.isclose(ov.mean(x, n_blocks=1, **options).estimate, x.mean(), atol=size_of(x))
    if kind != "hash":
        assert ov.mean(x, n_blocks=len(x), **options).estimate == np.median(x)


@laws
@given(samples_and_blocks(), kinds, seeds, scales, shifts)
def test_mean_is_shift_and_scale_equivariant(case, kind, seed, scale, shift):
    x, k = case
    plain = ov.mean(x, contamination=0, n_blocks=k, partition=kind, rng=seed).estimate
    moved = ov.mean(scale * x + shift, contamination=0, n_blocks=k, partition=kind, rng=seed).estimate
    assert np.isclose(moved, scale * plain + shift, rtol=1e-9, atol=size_of(scale * x, shift))


@laws
@given(samples_and_blocks(), kinds, seeds, st.data())
def test_mean_is_monotone_in_each_row(case, kind, seed, data):
    x, k = case
    row, step = data.draw(st.integers(0, len(x) - 1)), data.draw(st.floats(0, 1e6))
    raised = x.copy()
    raised[row] += step
    options = {"contamination": 0, "n_blocks": k, "partition": kind, "rng": seed}
    assert ov.mean(raised, **options).estimate >= ov.mean(x, **options).estimate


@laws
@given(samples_and_blocks(), st.data())
def test_permuting_whole_blocks_changes_nothing(case, data):
    x, k = case
    size = len(x) // k
    used = x[: k * size]
    order = np.array(data.draw(st.permutations(range(k))))
    permuted = used.reshape(k, size)[order].reshape(-1)
    first, second = (ov.mean(z, contamination=0, n_blocks=k, partition="contiguous") for z in (used, permuted))
    assert first.estimate == second.estimate
    np.testing.assert_array_equal(first.block_values[order], second.block_values)


@laws
@given(st.integers(1, 12), st.integers(1, 6), seeds, st.data())
def test_minority_of_corrupt_rows_keeps_the_mean_within_the_clean_blocks(half, size, seed, data):
    k = data.draw(st.sampled_from([2 * half - 1, 2 * half]))
    x = data.draw(hnp.arrays(np.float64, k * size, elements=numbers))
    n_bad = data.draw(st.integers(0, (k + 1) // 2 - 1))
    rows = data.draw(st.permutations(range(len(x))))[:n_bad]
    spoiled = x.copy()
    spoiled[rows] = data.draw(hnp.arrays(np.float64, n_bad, elements=anything))
    kind = data.draw(st.sampled_from(["random", "uniform", "contiguous"]))
    result = ov.mean(spoiled, contamination=0, n_blocks=k, partition=kind, rng=seed)
    hit = draw(kind, len(x), k, seed).labels[rows]
    clean = np.delete(result.block_values, np.unique(hit))
    assert clean.min() <= result.estimate <= clean.max()


@laws
@given(st.integers(1, 15), st.integers(1, 5), seeds, st.data())
def test_one_corrupt_row_in_half_of_the_blocks_breaks_the_mean(k, size, seed, data):
    x = data.draw(hnp.arrays(np.float64, k * size, elements=numbers))
    dealt = draw("random", len(x), k, seed)
    spoiled = x.copy()
    for block in range((k + 1) // 2):
        spoiled[dealt[block][0]] = 1e100
    assert ov.mean(spoiled, contamination=0, n_blocks=k, rng=seed).estimate > 1e90


@laws
@given(samples_and_blocks(), kinds, seeds)
def test_block_value_depends_on_its_own_rows(case, kind, seed):
    x, k = case
    before = ov.mean(x, contamination=0, n_blocks=k, partition=kind, rng=seed)
    dealt = draw(kind, len(x), k, seed)
    first = next(rows for rows in dealt if len(rows))
    others = np.setdiff1d(np.arange(len(x)), first)
    changed = x.copy()
    changed[others] = 7.0
    after = ov.mean(changed, contamination=0, n_blocks=k, partition=kind, rng=seed)
    assert after.block_values[0] == before.block_values[0]


@laws
@given(samples(columns=(2,)), kinds, st.one_of(seeds, st.none()))
def test_seed_of_the_result_reproduces_it(x, kind, seed):
    before = x.copy()
    first = ov.mean(x, contamination=0, partition=kind, rng=seed)
    again = ov.mean(x, contamination=0, partition=kind, rng=first.seed)
    np.testing.assert_array_equal(first.block_values, again.block_values)
    np.testing.assert_array_equal(first.estimate, again.estimate)
    np.testing.assert_array_equal(x, before)


@laws
@given(samples_and_blocks(), seeds)
def test_remainder_spread_uses_every_row(case, seed):
    x, k = case
    result = ov.mean(x, contamination=0, n_blocks=k, remainder="spread", rng=seed)
    assert result.block_sizes.sum() == len(x)
    assert result.block_sizes.max() - result.block_sizes.min() <= 1
    assert np.isclose((result.block_values * result.block_sizes).sum(), x.sum(), atol=len(x) * size_of(x))


# --- U-statistics ----------------------------------------------------------------------------------------


def statistic(z, kernel, k, seed, kind="random"):
    return ov.u_statistic(z, kernel=kernel, contamination=0, n_blocks=k, partition=kind, rng=seed).estimate


@laws
@given(samples_and_blocks(degree=2), kinds, seeds, scales, shifts)
def test_gini_and_variance_are_shift_invariant_and_scale_equivariant(case, kind, seed, scale, shift):
    z, k = case
    moved = scale * z + shift
    rounding = size_of(moved)
    for kernel, power in (("gini", 1), ("variance", 2)):
        expected = abs(scale) ** power * statistic(z, kernel, k, seed, kind)
        tolerance = rounding * (1.0 + float(np.abs(moved).max())) ** (power - 1)
        assert np.isclose(statistic(moved, kernel, k, seed, kind), expected, rtol=1e-9, atol=tolerance)
        assert expected >= 0


@laws
@given(samples_and_blocks(degree=2, columns=(2,)), seeds, scales, scales)
def test_covariance_is_bilinear_and_kendall_depends_on_ranks(case, seed, a, b):
    z, k = case
    scaled = z * np.array([a, b])
    expected = a * b * statistic(z, "covariance", k, seed)
    rounding = size_of(scaled) * (1.0 + float(np.abs(scaled).max()))
    assert np.isclose(statistic(scaled, "covariance", k, seed), expected, rtol=1e-9, atol=rounding)
    flipped = z * np.array([1.0, -1.0])
    assert statistic(flipped, "kendall", k, seed) == -statistic(z, "kendall", k, seed)
    ranks = np.stack([np.unique(column, return_inverse=True)[1] for column in z.T], axis=1)
    assert statistic(ranks, "kendall", k, seed) == statistic(z, "kendall", k, seed)


@laws
@given(samples_and_blocks(degree=2), seeds, st.integers(0, 6))
def test_wilcoxon_is_scale_invariant(case, seed, power):
    z, k = case
    assert statistic(z * 2.0**power, "wilcoxon", k, seed) == statistic(z, "wilcoxon", k, seed)


@laws
@given(samples_and_blocks(degree=2, columns=(2,)))
def test_order_of_rows_within_a_block_does_not_matter(case):
    z, k = case
    size = len(z) // k
    used = z[: k * size]
    turned = used.reshape(k, size, 2)[:, ::-1].reshape(-1, 2)
    largest = ov.Kernel(lambda a, b: np.maximum(a, b).sum(axis=-1))
    for kernel in ("variance", "gini", "wilcoxon", "covariance", "kendall", largest):
        columns = 0 if kernel in ("variance", "gini", "wilcoxon") else ...
        first, second = (statistic(x[:, columns], kernel, k, 0, "contiguous") for x in (used, turned))
        assert np.isclose(first, second, rtol=1e-9, atol=size_of(z) * (1.0 + float(np.abs(z).max())))


@laws
@given(samples(min_size=2, max_size=25), samples(min_size=2, max_size=25), seeds, shifts)
def test_two_sample_statistics_are_symmetric(x, y, seed, shift):
    options = {"contamination": 0, "partition": "contiguous"}

    def value(a, b, kernel, grid="full"):
        k = min(len(a), len(b)) // 2
        return ov.u_statistic(a, b, kernel=kernel, n_blocks=k, grid=grid, **options)

    for kernel in ("energy", "mmd"):
        forth, back = value(x, y, kernel), value(y, x, kernel)
        np.testing.assert_allclose(forth.block_values, back.block_values.T, rtol=1e-9, atol=1e3 * size_of(x, y))
    for grid in ("full", "diagonal"):
        forth, back = value(x, y, "auc", grid), value(y, x, "auc", grid)
        assert np.isclose(forth.estimate + back.estimate, 1.0)
        assert value(x, y, "mann-whitney", grid).estimate >= forth.estimate - 1e-12
    assert value(x, x + abs(shift), "mann-whitney").block_values.diagonal().min() > 0


# --- differences --------------------------------------------------------------------------------------------


@laws
@given(samples(), samples(), st.data())
def test_difference_is_antisymmetric(a, b, data):
    k = data.draw(st.integers(1, min(len(a), len(b))))
    options = {"contamination": 0, "n_blocks": k, "partition": "contiguous"}
    assert ov.difference(a, b, **options).estimate == -ov.difference(b, a, **options).estimate
    assert ov.difference(a, a, **options).estimate == 0


@laws
@given(samples(columns=(2,)), seeds, shifts, scales)
def test_paired_difference_is_antisymmetric_and_equivariant(pairs, seed, shift, scale):
    a, b = pairs.T
    options = {"contamination": 0, "paired": True, "rng": seed}
    plain = ov.difference(a, b, **options, vote="median").estimate
    assert plain == -ov.difference(b, a, **options, vote="median").estimate
    moved = ov.difference(scale * a, scale * b + shift, **options, vote="median").estimate
    assert np.isclose(moved, scale * plain + shift, rtol=1e-9, atol=size_of(scale * pairs, shift))


@laws
@given(samples(), samples(), seeds, st.floats(0.1, 10))
def test_family_is_the_largest_of_its_members(a, b, seed, width):
    family = [np.abs, lambda x: x, lambda x: np.minimum(np.abs(x), width)]
    options = {"contamination": 0, "n_blocks": min(len(a), len(b), 5), "rng": seed}
    whole = ov.difference(a, b, function=family, **options).estimate
    members = [abs(ov.difference(a, b, function=phi, **options).estimate) for phi in family]
    assert np.isclose(whole, max(members), rtol=1e-12, atol=size_of(a, b))
