"""Compare block summaries and results, and compute the moments of blocks by exact sums."""

from __future__ import annotations

import math

import numpy as np

from outvote.blocks.hashing import hash_rows


def state(summary):
    """All there is to know of a summary."""
    return summary.to_bytes()


def two_pass(x, n_blocks, seed, ids=None):
    """Count, mean and M2 of each block, by exact sums."""
    blocks = hash_rows(np.arange(len(x)) if ids is None else ids, seed) % n_blocks
    found = []
    for k in range(n_blocks):
        rows = x[blocks == k].tolist()
        mean = math.fsum(rows) / len(rows) if rows else 0.0
        found.append((len(rows), mean, math.fsum((v - mean) ** 2 for v in rows)))
    return tuple(np.array(column) for column in zip(*found, strict=True))


def alike(found, expected, rtol=1e-12, atol=0.0):
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_allclose(found.means, expected.means, rtol=rtol, atol=atol)
    np.testing.assert_allclose(found.m2, expected.m2, rtol=1e3 * rtol, atol=atol)


def same_result(found, expected):
    for name in ("estimate", "radius", "interval", "block_values"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found.block_sizes, expected.block_sizes)
    assert found.plan == expected.plan
    assert found.certificate.provenance == expected.certificate.provenance
    assert (found.n_omitted, found.names, found.seed, str(found)) == (
        expected.n_omitted, expected.names, expected.seed, str(expected))  # fmt: skip
