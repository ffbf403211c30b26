"""Functions compiled by numba, with one thread and no fast-math; :func:`outvote._numba.compiled` returns this module.

Each has a numpy form elsewhere that gives the same numbers. With ``NUMBA_DISABLE_JIT=1`` they run as plain Python.
"""

from outvote._numba.bins import count_columns, count_in_bins
from outvote._numba.kernels import (
    aligned_wins,
    concordance_by_rank,
    concordance_of_pairs,
    grid_wins,
    grids_of_wins,
    leading_bits,
    settle,
    sums_across,
    sums_within,
)
from outvote._numba.pairs import (
    hinge_pairs,
    hinge_pairs_of,
    hinge_slopes,
    logistic_pairs,
    logistic_pairs_of,
    logistic_slopes,
    metric_pairs,
    metric_pulls,
)
from outvote._numba.scores import (
    narrow_scores,
)
from outvote._numba.summaries import (
    add_moments,
    hash_numbers,
    rows_by_group,
)
from outvote._numba.votes import (
    histograms,
    soft_lanes,
)

__all__ = [
    "add_moments",
    "aligned_wins",
    "concordance_by_rank",
    "concordance_of_pairs",
    "count_columns",
    "count_in_bins",
    "grid_wins",
    "grids_of_wins",
    "hash_numbers",
    "hinge_pairs",
    "hinge_pairs_of",
    "hinge_slopes",
    "histograms",
    "leading_bits",
    "logistic_pairs",
    "logistic_pairs_of",
    "logistic_slopes",
    "metric_pairs",
    "metric_pulls",
    "narrow_scores",
    "rows_by_group",
    "settle",
    "soft_lanes",
    "sums_across",
    "sums_within",
]
