"""U-statistics without blocks."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import outvote as ov


def normal(n, shift=0.0, seed=0):
    return np.random.default_rng([seed, n]).normal(shift, size=n)


def test_auc_of_all_rows_with_its_interval():
    """Numbers worked out beforehand: ±.0201 for 4000 and 6000 rows of which 20 may be corrupt in each."""
    x, y = normal(4000), normal(6000, 1.0)
    found = ov.u_statistic(x, y, kernel="auc", contamination=20)
    assert found.estimate == pytest.approx((x[:, None] < y).mean())
    assert (found.interval.high - found.interval.low) / 2 <= 0.0201 * 1.05
    assert found.certificate.provenance == "certified"
    assert (found.plan.vote, found.plan.n_rows, found.plan.n_corrupt) == ("complete", (4000, 6000), (20, 20))
    assert (found.seed, found.partition, found.plan.n_blocks, found.block_values.size) == (None, None, None, 0)
    assert "without 20 of sample 1 and 20 of sample 2" in found.explain()
    json.dumps(found.to_dict(), allow_nan=False)
    for kernel, most in (("kendall", 0.051), ("wilcoxon", 0.0265)):
        rows = np.random.default_rng(0).normal(size=(10_000, 2) if kernel == "kendall" else 10_000)
        found = ov.u_statistic(rows, kernel=kernel)
        assert (found.interval.high - found.interval.low) / 2 <= 1.05 * most


def test_corrupt_rows_move_the_interval_no_farther_than_they_may():
    x, y = normal(500), normal(400, 1.0)
    x[:5], y[:4] = 1e300, -math.inf
    truth = 0.7602  # P(X < Y) for a shift of one sd
    found = ov.u_statistic(x, y, kernel="auc", contamination=(5, 4), nan_policy="corrupt")
    assert found.interval.low <= truth <= found.interval.high
    assert found.n_omitted == 4
    adaptive = ov.u_statistic(
        x, y, kernel="auc", contamination=ov.Contamination((5, 4), "adaptive"), nan_policy="corrupt"
    )
    assert adaptive.interval.low < found.interval.low
    assert adaptive.interval.high > found.interval.high


def test_one_sided_ends_and_confidence():
    z = normal(300, 0.2)
    both = ov.u_statistic(z, kernel="wilcoxon", contamination=3)
    low = ov.u_statistic(z, kernel="wilcoxon", contamination=3, alternative="greater")
    high = ov.u_statistic(z, kernel="wilcoxon", contamination=3, alternative="less")
    assert both.interval.low < low.interval.low < high.interval.high < both.interval.high
    assert (low.interval.high, high.interval.low) == (1.0, 0.0)


def test_columns_are_estimated_one_by_one():
    x = np.random.default_rng(0).normal([0.0, 0.3, 1.0], size=(200, 3))
    for kernel in ("wilcoxon", "variance"):
        found = ov.u_statistic(x, kernel=kernel, axis=0, contamination=2)
        for j in range(3):
            one = ov.u_statistic(x[:, j], kernel=kernel, contamination=2)
            assert (found.estimate[j], found.interval.low[j]) == pytest.approx((one.estimate, one.interval.low))
        wider = ov.u_statistic(x, kernel=kernel, axis=0, contamination=2, simultaneous=True)
        assert np.all(wider.interval.low < found.interval.low)


def test_own_kernels_with_bounds_are_complete_and_cut_off_at_them():
    near = ov.Kernel(lambda x, y: min(abs(x - y), 2.0), degrees=2, bounds=(0.0, 2.0))
    x = normal(150)
    found = ov.u_statistic(x, kernel=near, contamination=2)
    gaps = np.minimum(np.abs(x[:, None] - x), 2.0)[np.triu_indices(150, 1)]
    assert found.plan.vote == "complete"
    assert found.estimate == pytest.approx(gaps.mean())
    assert 0 <= found.interval.low <= found.estimate <= found.interval.high <= 2
    declared = ov.u_statistic(x, kernel="gini", contamination=2, assume=ov.Bounded(0.0, 8.0))
    assert declared.plan.vote == "complete"
    assert 0 <= declared.interval.low < declared.estimate < declared.interval.high <= 8


def test_kernels_without_bounds_go_by_evidence_of_disjoint_tuples():
    x = normal(4000)
    x[:20] = 1e6
    found = ov.u_statistic(x, kernel="variance", contamination=20)
    blocks = ov.u_statistic(x, kernel="variance", contamination=20, vote="median", rng=0)
    assert found.certificate.provenance == "conditional"
    assert found.certificate.premise.startswith("the sd of the kernel's values on clean rows is at most")
    assert found.interval.low <= 1.0 <= found.interval.high
    assert found.radius < blocks.radius / 2
    declared = ov.u_statistic(x, kernel="variance", contamination=20, assume=ov.FiniteVariance(math.sqrt(2.0)))
    assert declared.certificate.provenance == "certified"
    assert declared.interval.low <= 1.0 <= declared.interval.high
    assert "put into 2000 disjoint tuples" in found.explain()
    x[30] = math.nan
    spoiled = ov.u_statistic(x, kernel="variance", contamination=21, nan_policy="corrupt")
    assert spoiled.interval.low <= 1.0 <= spoiled.interval.high
    assert spoiled.n_omitted == 1


def test_blocks_are_taken_where_they_are_asked_for():
    x, y = normal(300), normal(200)
    for options in ({"n_blocks": 11}, {"grid": "diagonal"}, {"partition": "contiguous"}, {"vote": "median"}):
        assert ov.u_statistic(x, y, kernel="auc", contamination=2, rng=0, **options).partition is not None
    known = ov.u_statistic(x, kernel="gini", contamination=2, assume=ov.FiniteVariance(1.0, zetas=[0.2, 1.0]), rng=0)
    assert known.partition is not None


def test_what_does_not_go_together_raises():
    for options, message in (
        ({"kernel": "gini", "vote": "complete"}, "vote='complete' needs a kernel with bounds, and kernel 'gini' has"),
        ({"kernel": "wilcoxon", "vote": "complete", "n_blocks": 5}, "vote='complete' has no blocks"),
        ({"kernel": "wilcoxon", "vote": "evidence"}, "vote='evidence' is for kernels without bounds"),
        ({"kernel": "gini", "contamination": 60}, "at most 49 rows may be corrupt"),
    ):
        with pytest.raises(ValueError, match=message):
            ov.u_statistic(normal(200), **options)


def test_too_few_rows_leave_the_bounds():
    found = ov.u_statistic(normal(5), kernel="wilcoxon", contamination=2)
    assert found.interval == pytest.approx((0.0, 1.0), abs=0.2)
    assert ov.u_statistic(normal(3), normal(3), kernel="auc", contamination=1).interval.high > 0.99
    three = ov.Kernel(lambda x, y, z: (x + y + z > 0) * 1.0, degrees=3, bounds=(0, 1), vectorized=True)
    nothing = ov.u_statistic(normal(5), kernel=three, contamination=2)
    assert nothing.interval == (0.0, 1.0)
    assert "too few rows" in nothing.certificate.note


def test_false_bounds_are_refused():
    x = np.random.default_rng(0).exponential(size=500)
    with pytest.raises(ValueError, match=r"the rows contradict assume=Bounded\(low=0.0, high=0.5"):
        ov.u_statistic(x, kernel="gini", assume=ov.Bounded(0, 0.5))
    own = ov.Kernel(lambda a, b: abs(a - b), degrees=2, bounds=(0.0, 0.5))
    with pytest.raises(ValueError, match="leaves these bounds on"):
        ov.u_statistic(x, kernel=own)
    with pytest.raises(ValueError, match=r"high=1.7e\+308: their distance must lie between"):
        ov.u_statistic(x, kernel="gini", assume=ov.Bounded(-1.7e308, 1.7e308))
    with pytest.raises(ValueError, match="bounds of some columns and not of others"):
        ov.u_statistic(np.ones((9, 2)), kernel="gini", axis=0, assume=[ov.Bounded(0, 1), None])


def test_many_rows_that_are_corrupt_for_certain():
    x = np.random.default_rng(0).normal(size=100)
    x[:20] = math.nan
    found = ov.u_statistic(x, kernel="variance", contamination=20, nan_policy="corrupt")
    assert found.interval.low < 1 < found.interval.high
    known = ov.FiniteVariance(math.sqrt(2.0), zetas=(0.5, 2.0))
    by_pairs = ov.u_statistic(
        x, kernel="variance", contamination=20, nan_policy="corrupt", assume=known, vote="evidence"
    )
    assert by_pairs.certificate.provenance == "certified"
    with pytest.raises(ValueError, match="takes 2 rows at a time, but there are 1"):
        ov.u_statistic([1.0], kernel="gini", contamination=0)


@pytest.mark.parametrize("n_rows", [1, 2, 50])
def test_bounds_wider_than_those_of_the_kernel_change_nothing(n_rows):
    x = np.random.default_rng(n_rows).normal(1, size=n_rows)
    plain, declared = (
        ov.u_statistic(x, kernel="wilcoxon", contamination=0, assume=known) for known in (None, ov.Bounded(-10, 20))
    )
    assert declared.estimate == plain.estimate
    assert declared.interval == plain.interval
