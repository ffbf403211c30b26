"""Reference values of kernels, from all tuples, and rows to compute them on."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from fractions import Fraction

import numpy as np

RTOL = 1e-10
KINDS = ["normal", "tied", "float32"]
#: Block sizes on both sides of each change of method in `kendall`, and of the edge of a tile.
SIZES = [2, 3, 4, 7, 31, 47, 48, 49, 97, 128, 129, 255, 256, 257, 300]
#: 2**TINY is the smallest positive float.
TINY = -1074


def sample(kind, shape, seed=0):
    rng = np.random.default_rng([seed, *shape])
    if kind == "tied":
        return rng.integers(-2, 3, size=shape) / 4.0
    values = rng.standard_t(3, size=shape)
    return values.astype(np.float32) if kind == "float32" else values


def stack_for(kernel, kind, n_blocks, size):
    """A stack of blocks of numbers, or of pairs of numbers if the kernel takes two columns."""
    return sample(kind, (n_blocks, size, 2) if kernel.columns == 2 else (n_blocks, size))


def brute_force(kernel, *blocks):
    """Average the definition of a kernel over all tuples of one block of each sample, with an exact sum."""
    subsets = [
        list(itertools.combinations(range(len(block)), degree))
        for block, degree in zip(blocks, kernel.degrees, strict=True)
    ]
    numbers = np.meshgrid(*(np.arange(len(s)) for s in subsets), indexing="ij")
    slots = []
    for block, subset, number in zip(blocks, subsets, numbers, strict=True):
        chosen = np.asarray(subset)[number.ravel()]
        slots += [np.asarray(block, dtype=np.float64)[column] for column in chosen.T]
    values = np.asarray(kernel.function(*slots), dtype=np.float64)
    return math.fsum(values) / len(values)


def check_definition(kernel, size, kind):
    """Compare a kernel of pairs from one sample with its definition."""
    stack = stack_for(kernel, kind, 3, size)
    values = kernel.aligned(stack)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, [brute_force(kernel, block) for block in stack], rtol=RTOL, atol=1e-14)


def exact_covariance(z, w):
    a, b = ([Fraction(float(v)) for v in column] for column in (z, w))
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    return float(sum((u - mean_a) * (v - mean_b) for u, v in zip(a, b, strict=True)) / (len(a) - 1))


def exact_gini(z):
    pairs = itertools.combinations([Fraction(float(v)) for v in z], 2)
    return float(sum(abs(a - b) for a, b in pairs) / math.comb(len(z), 2))


def peak_of(call):
    """Return the most memory that a call takes, in bytes."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
