"""Ranks, quantiles and rates, as people type them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

import outvote as ov

from .measure import Row, normal, power


@lru_cache(maxsize=2)
def wrong(n_rows: int) -> Any:
    """Whether each of so many predictions is wrong; one in ten is."""
    return np.random.default_rng(0).random(n_rows) < 0.1


def wilcoxon_test() -> Any:
    """The rank test of scipy."""
    from scipy.stats import mannwhitneyu

    return mannwhitneyu


def rows(quick: bool) -> list[Row]:
    """Everything default; quick runs are on fewer rows."""
    n = 10**5 if quick else 10**6
    pairs = lambda: normal(n, 2)  # noqa: E731
    return [
        Row(f"AUC of {power(n)} and {power(n)}", "scipy's mannwhitneyu", 1.5,
            lambda: ov.u_statistic(*pairs().T, kernel="auc"), lambda: wilcoxon_test()(*pairs().T)),
        Row(f"Kendall's tau of {power(n)}", "one np.sort", 20.0,
            lambda: ov.u_statistic(pairs(), kernel="kendall"), lambda: np.sort(pairs()[:, 0])),
        Row(f"p95 of {power(n)}", "np.partition", 1.5,
            lambda: ov.quantile(normal(n), 0.95), lambda: np.partition(normal(n), int(0.95 * n))),
        Row(f"risk of {power(n)} errors", "np.mean", 3.0,
            lambda: ov.certify_risk(wrong(n)), lambda: np.mean(wrong(n))),
    ]  # fmt: skip
