"""Votes of blocks: means."""

from __future__ import annotations

import numpy as np

import outvote as ov

from .measure import Job, Row, later, normal, power


def bare(n_rows: int, n_blocks: int) -> Job:
    """The least that a median of means on rows dealt at random takes: no checks, no plan, no certificate."""
    size = n_rows // n_blocks
    rng = np.random.default_rng(0)

    def run() -> float:
        x = normal(n_rows)
        dealt = x[rng.permutation(n_rows)[: n_blocks * size]].reshape(n_blocks, size)
        means = np.add.reduce(dealt, axis=1) / size
        return float(np.partition(means, n_blocks // 2)[n_blocks // 2])

    return run


def kernel(n_rows: int, n_blocks: int) -> Job:
    """The block means and the median that `ov.mean` computes, on rows that stay in place; its checks come on top."""
    from outvote.blocks.partition import draw
    from outvote.votes.median import median_of

    dealt = draw("contiguous", n_rows, n_blocks, seed=0)
    return lambda: median_of(dealt.sums(normal(n_rows)) / (n_rows // n_blocks))


def rows(quick: bool) -> list[Row]:
    """Long rows, short rows, tables."""
    n = 10**7 if quick else 10**8
    short, n_table = 10**4, 10**4 if quick else 10**5
    blocks = ov.plan_blocks(short, 0.01).n_blocks
    size = n // 25
    job = f"mean of {power(n)}"
    return [
        Row(f"{job}, n/25 blocks, contiguous", "np.mean", 2.5,
            lambda: ov.mean(normal(n), 0.01, n_blocks=size - (size % 2 == 0), partition="contiguous"),
            lambda: np.mean(normal(n))),
        Row(f"{job}, n/25 blocks, permuted", "np.mean", None,
            lambda: ov.mean(normal(n), 0.01, n_blocks=size - (size % 2 == 0)), lambda: np.mean(normal(n))),
        Row(f"mean of {power(n_table)} × 1000, axis 0", "A.mean(0)", 1.1,
            lambda: ov.mean(normal(n_table, 1000), 10, n_blocks=401), lambda: normal(n_table, 1000).mean(0)),
        Row(f"mean of {power(short)}, median of blocks, the whole call", "deal, add, median", 5.0,
            lambda: ov.mean(normal(short), vote="median"), bare(short, blocks)),
        Row(f"mean of {power(short)}, blocks and median alone", "np.mean", 2.0,
            later(lambda: kernel(short, blocks)), lambda: np.mean(normal(short))),
    ]  # fmt: skip
