"""Ranks of the rows that bound a quantile, against binomial tails from scipy."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from outvote.votes import Terms
from outvote.votes.evidence import lower_rank, lower_ranks, quantile_ranks, rows_to_bound

shares = st.sampled_from([Fraction(one) for one in ("0.5", "0.01", "0.99", "0.3", "0.999", "0.0001")])


@given(st.integers(0, 3000), shares, st.sampled_from([0.9, 0.5, 0.49, 0.05, 0.025, 1e-3, 1e-12, 1e-200]))
def test_a_rank_is_the_largest_that_fits(n, share, alpha):
    rank = lower_rank(n, 0, share, math.log(alpha))
    tails = stats.binom.cdf([rank - 1, rank], n, float(share))
    assert 0 <= rank <= n
    assert rank == 0 or tails[0] <= alpha * (1 + 1e-9)
    assert rank == n or tails[1] > alpha * (1 - 1e-9)


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("share", ["0.5", "0.05", "0.97"])
def test_many_ranks_at_once_are_those_one_by_one(share, adaptive):
    counts, q, log_alpha = np.arange(130), Fraction(share), math.log(0.025)
    each = [lower_rank(120, min(int(m), 120), q, log_alpha, adaptive=adaptive) for m in counts]
    assert lower_ranks(120, counts, q, log_alpha, adaptive=adaptive).tolist() == each


@given(st.integers(1, 400), shares, st.integers(0, 30), st.booleans())
def test_ranks_fall_with_the_corrupt_rows(n, share, m, adaptive):
    m = min(m, n - 1)
    ranks = [lower_rank(n, count, share, math.log(0.05), adaptive=adaptive) for count in (m, m + 1)]
    assert ranks[0] >= ranks[1]
    if not adaptive:
        assert ranks[0] <= ranks[1] + 1


def test_bands_share_nothing_between_quantiles():
    terms = Terms(math.log(0.05))
    few, many = [Fraction(1, 2)], [Fraction(i, 200) for i in range(20, 180)]
    assert quantile_ranks(1000, 5, few, terms, together=True) == quantile_ranks(1000, 5, few, terms)
    band = quantile_ranks(1000, 5, many, terms, together=True)
    reach = math.sqrt(995 * math.log(2 / 0.05) / 2)
    assert [one.low for one in band] == [math.ceil(float(q * 995) - reach) for q in many]
    assert sum(one.low for one in band) > sum(one.low for one in quantile_ranks(1000, 5, many, terms.shared(len(many))))


@pytest.mark.parametrize(("share", "alpha"), [("0.01", 0.025), ("0.5", 0.05), ("0.2", 1e-6)])
def test_so_many_rows_bound_and_one_fewer_do_not(share, alpha):
    q, log_alpha = Fraction(share), math.log(alpha)
    for adaptive in (False, True):
        needed = rows_to_bound(lambda n: min(3, n), q, log_alpha, adaptive=adaptive)
        assert lower_rank(needed, 3, q, log_alpha, adaptive=adaptive) == 1
        assert lower_rank(needed - 1, 3, q, log_alpha, adaptive=adaptive) == 0
    assert rows_to_bound(lambda n: n // 20, Fraction(1, 100), log_alpha, adaptive=True) is None
