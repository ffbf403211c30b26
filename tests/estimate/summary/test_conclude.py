"""Results of block summaries equal those in memory."""

from __future__ import annotations

import math

import numpy as np
import pytest
from block_summaries import same_result

import outvote as ov
from outvote.blocks.hashing import hash_rows

pd = pytest.importorskip("pandas")


ASSUMED = {
    "none": None,
    "variance": ov.FiniteVariance(1.3),
    "subgaussian": ov.SubGaussian(1.2),
    "bounded": ov.Bounded(-6, 6),
    "kurtosis": ov.FiniteKurtosis(4.0),
    "kurtosis and sd": ov.FiniteKurtosis(4.0, 1.2),
}


@pytest.mark.parametrize("assume", ASSUMED.values(), ids=ASSUMED)
@pytest.mark.parametrize("vote", ["median", "soft", "clipped", "auto"])
def test_result_equals_the_mean_in_memory(form, vote, assume):
    x = np.clip(np.random.default_rng(5).normal(size=2000), -6, 6)
    summary = ov.BlockSummary(51, 9)
    for ids in np.split(np.arange(2000), [10, 700]):
        summary.merge(ov.BlockSummary(51, 9).update(x[ids], ids=ids))
    for alternative in ("two-sided", "less"):
        options = {"contamination": 5, "confidence": 0.9, "assume": assume, "vote": vote, "alternative": alternative}
        found = summary.result(**options)
        expected = ov.mean(x, n_blocks=51, partition="hash", rng=9, **options | {"vote": found.plan.vote})
        same_result(found, expected)
        assert math.isfinite(expected.radius) or vote == "clipped"


@pytest.mark.parametrize("simultaneous", [False, True])
def test_result_of_columns_equals_the_mean_in_memory(form, simultaneous):
    x = pd.DataFrame(np.random.default_rng(5).normal([0, 1e3, -5], size=(3000, 3)), columns=list("abc"))
    options = {"contamination": 0.002, "simultaneous": simultaneous, "assume": [None, ov.FiniteVariance(1), None]}
    expected = ov.mean(x, n_blocks=41, partition="hash", rng=1, axis=0, **options)
    same_result(ov.BlockSummary(41, 1).update(x).result(**options), expected)


@pytest.mark.parametrize("policy", ["omit", "corrupt"])
@pytest.mark.parametrize("columns", [None, 2])
def test_omitted_rows_keep_their_numbers_in_memory_too(policy, columns):
    x = np.random.default_rng(5).normal(size=(600, columns) if columns else 600)
    x[[0, 5, 77]] = math.nan
    if policy == "corrupt":
        x[400] = math.inf
    found = ov.mean(x, 0.05, n_blocks=71, partition="hash", rng=4, nan_policy=policy)
    good = np.isfinite(x.reshape(600, -1)).all(axis=1)
    blocks = hash_rows(np.arange(600), 4) % 71
    expected = np.array([x[good & (blocks == k)].mean(axis=0) for k in range(71)])
    np.testing.assert_allclose(found.block_values, expected, rtol=1e-12, atol=1e-14)
    assert found.plan.n_rows == (597 if policy == "omit" else 600)
    assert found.n_omitted == (3 if policy == "omit" else 4)
    same_result(ov.BlockSummary(71, 4).update(x, nan_policy=policy).result(0.05), found)


def test_more_corrupt_rows_than_allowed_raise():
    summary = ov.BlockSummary(5, 0).update([1.0, 2.0, math.nan, math.inf, 3.0], nan_policy="corrupt")
    with pytest.raises(ValueError, match="in 2 rows, more than the 1 corrupt rows that contamination allows among 5"):
        summary.result(contamination=1)
    assert summary.result(contamination=2).n_omitted == 2
