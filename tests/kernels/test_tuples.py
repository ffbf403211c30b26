"""Tuples of rows: their enumeration, and averages over them in bounded memory."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from kernel_definitions import peak_of
from kernel_functions import DEGREES, average_over_tuples, evaluate, symmetric

from outvote.kernels import KERNELS, Kernel, tuple_chunks


@pytest.mark.parametrize("degrees", DEGREES)
def test_a_kernel_is_averaged_over_all_tuples(degrees):
    rng = np.random.default_rng(0)
    samples = [rng.normal(size=n) for n, _ in zip((7, 6, 5), degrees, strict=False)]
    function = symmetric(*degrees)
    expected = average_over_tuples(function, degrees, samples)
    for vectorized in (None, True, False):
        found = evaluate(Kernel(function, degrees, vectorized=vectorized), *samples)
        assert found == pytest.approx(expected, rel=1e-12)


def test_any_chunk_size_gives_the_same_average(monkeypatch):
    z = np.random.default_rng(3).normal(size=(9, 8))
    kernel = Kernel(lambda a, b: np.abs(a - b), vectorized=True)
    whole = kernel.aligned(z)
    for chunk in (1, 5, 28, 60):  # a block has 28 pairs
        monkeypatch.setattr("outvote.kernels.tuples._CHUNK", chunk)
        np.testing.assert_allclose(kernel.aligned(z), whole, rtol=1e-13)
    np.testing.assert_allclose(whole, KERNELS["gini"].aligned(z), rtol=1e-13)


@pytest.mark.parametrize(("degrees", "columns"), [((2,), (2,)), ((1, 1), ()), ((1, 1), (2,)), ((3,), ())])
def test_chunks_cover_all_tuples(monkeypatch, degrees, columns):
    monkeypatch.setattr("outvote.kernels.tuples._CHUNK", 26)
    samples = [np.random.default_rng(s).normal(size=(13 + s, *columns)) for s in range(len(degrees))]

    def function(*slots):
        assert len(slots[0]) <= 26
        products = np.prod(np.stack(slots), axis=0)
        return products.reshape(len(products), -1).sum(axis=1)

    kernel = Kernel(function, degrees, vectorized=True)
    expected = average_over_tuples(lambda *rows: float(np.prod(np.stack(rows), axis=0).sum()), degrees, samples)
    assert kernel.aligned(*(sample[None] for sample in samples))[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("sizes", "degrees"),
    [((6,), (1,)), ((6,), (2,)), ((7,), (3,)), ((5,), (5,)), ((5, 4), (2, 1)), ((2, 3, 4), (1, 1, 1)),
     ((4, 2, 5), (3, 1, 2))],
)  # fmt: skip
@pytest.mark.parametrize("chunk", [1, 7, 65_536])
def test_each_unordered_tuple_comes_once(sizes, degrees, chunk):
    found = Counter()
    owners = [s for s, degree in enumerate(degrees) for _ in range(degree)]
    for slots in tuple_chunks(sizes, degrees, chunk):
        assert [s for s, _ in slots] == owners
        assert {len(rows) for _, rows in slots} == {len(slots[0][1])}
        assert len(slots[0][1]) <= chunk
        for tuples in zip(*(rows.tolist() for _, rows in slots), strict=True):
            split = iter(tuples)
            found[tuple(tuple(sorted(itertools.islice(split, degree))) for degree in degrees)] += 1
    subsets = [itertools.combinations(range(size), degree) for size, degree in zip(sizes, degrees, strict=True)]
    assert found == Counter(itertools.product(*subsets))


def test_tuples_of_nearly_all_rows_have_huge_binomials():
    size = 70
    (slots,) = tuple_chunks((size,), (size - 1,))
    rows = np.stack([r for _, r in slots])
    assert rows.shape == (size - 1, size)
    missing = {int(size * (size - 1) / 2 - column.sum()) for column in rows.T}
    assert missing == set(range(size))


def test_too_many_tuples_are_refused():
    with pytest.raises(ValueError, match=r"\(200,\) rows hold .* tuples: use more and smaller blocks"):
        next(tuple_chunks((200,), (30,)))


def test_pairs_of_a_large_block_take_the_memory_of_one_chunk():
    z = np.random.default_rng(12).normal(size=5000)
    kernel = Kernel(lambda a, b: np.abs(a - b), vectorized=True)
    found = []
    assert peak_of(lambda: found.append(evaluate(kernel, z))) < 5000 * 5000 * 8 / 20
    assert found[0] == pytest.approx(KERNELS["gini"].aligned(z[None])[0], rel=1e-12)


@pytest.mark.parametrize("vectorized", [None, False])
def test_a_block_whose_values_overflow_is_infinite(vectorized):
    z = np.random.default_rng(14).normal(size=(4, 6))
    clean = z.copy()
    z[1, :2] = 1.7e308, -1.7e308
    kernel = Kernel(lambda a, b: a * b, vectorized=vectorized).fit([clean.reshape(-1)])
    values = kernel.aligned(z)
    np.testing.assert_allclose(values[[0, 2, 3]], kernel.aligned(clean)[[0, 2, 3]], rtol=1e-13)
    assert np.isinf(values[1])  # the sum has infinite terms of both signs


def test_an_average_may_be_finite_where_the_sum_overflows():
    z = np.array([[1.6e308, 1.7e308, 1.65e308], [1.0, 2.0, 3.0]])
    kernel = Kernel(max).fit([z.reshape(-1)])
    np.testing.assert_allclose(kernel.aligned(z), [(1.7e308 / 3 + 1.7e308 / 3 + 1.65e308 / 3), 8 / 3], rtol=1e-12)


def test_subnormal_values_keep_their_digits():
    z = np.arange(1.0, 6.0) * 1e-320
    assert evaluate(Kernel(max), z) == pytest.approx(4e-320, rel=1e-3)
