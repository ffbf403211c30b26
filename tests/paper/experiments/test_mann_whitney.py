"""The Mann-Whitney experiment."""

from __future__ import annotations

import math

import pytest
from experiment_runs import changed, error, quick, verdict
from scipy import stats

from outvote.paper.experiments import (
    estimation,
    mann_whitney,
)
from outvote.paper.experiments.coverage_cases import (
    WINS,
)


def test_block_counts_follow_the_paper():
    assert pytest.approx(stats.norm.cdf(math.sqrt(0.5))) == mann_whitney.TRUTH == WINS
    table = quick("mann-whitney").tables["mann-whitney.blocks"]
    papers = {row["n"]: (row["blocks"], row["block size"]) for row in table if row["estimator"] == mann_whitney.PAPER}
    for n, (blocks, size) in papers.items():
        share = estimation.n_outliers(n) / n
        both = 2 * share - share**2
        assert blocks == math.ceil(math.sqrt(4 * both / (1 + 2 * both)) * n)
        assert size == n // blocks
    assert [size for _, size in papers.values()] == [1, 1, 2]


def test_errors_have_known_values():
    outcome = quick("mann-whitney")
    for n in (100, 316):  # one row a block: the median of indicators is 1
        assert error(outcome, "mann-whitney", mann_whitney.PAPER, "clean", n) == pytest.approx(1 - WINS)
    n, share = 1000, 32 / 1000
    hit = 2 * share - share**2
    down = hit * WINS  # pairs that are hit count 0
    up = hit * (1 - WINS)  # they count 1
    assert error(outcome, "mann-whitney", "plain", "pulled down", n) == pytest.approx(down, abs=0.012)
    assert error(outcome, "mann-whitney", "plain", "pulled up", n) == pytest.approx(up, abs=0.012)
    assert error(outcome, "mann-whitney", "plain", "clean", n) < 0.02
    for name in mann_whitney.ROBUST:
        assert error(outcome, "mann-whitney", name, "pulled up", n) > error(
            outcome, "mann-whitney", "plain", "pulled up", n
        )


def test_verdicts_follow_the_table():
    outcome = quick("mann-whitney")
    ours = "MoU₂ has an advantage, if a smaller one, if outliers have pulled"
    assert verdict("mann-whitney", "the kernel is bounded") == "holds"
    assert verdict("mann-whitney", f"{ours} down") == "holds in part"
    assert verdict("mann-whitney", f"{ours} up") == "does not hold"
    assert verdict("mann-whitney", "the harmonic number") == "does not hold"
    poor = changed(outcome, "mann-whitney", lambda row: {"mean absolute error": 0.9}, estimator="plain")
    assert verdict("mann-whitney", f"{ours} up", poor) == "holds"
    assert verdict("mann-whitney", "the kernel is bounded", poor) == "does not hold"
    wide = changed(outcome, "mann-whitney.blocks", lambda row: {"block size": 5})
    assert verdict("mann-whitney", "the harmonic number", wide) == "holds"
