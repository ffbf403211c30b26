"""Averages of two rows by selection, and the signed rank, against their definitions."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outvote.votes.evidence import walsh
from outvote.votes.evidence.symmetric import signed_rank, symmetric_rule
from outvote.votes.evidence.walsh import walsh_average

rows = st.lists(
    st.floats(-1e300, 1e300) | st.sampled_from([0.1, 0.2, 0.3, 1.0, 1e16, 1e-12]) | st.integers(-3, 3).map(float),
    min_size=1,
    max_size=70,
)


def all_averages(values):
    first, second = np.triu_indices(len(values))
    return np.sort((values[first] + values[second]) / 2)


@given(rows, st.floats(0, 1))
def test_the_average_of_a_rank_is_that_among_all_pairs(x, share):
    values = np.sort(np.array(x))
    every = all_averages(values)
    rank = 1 + int(share * (len(every) - 1))
    with pytest.MonkeyPatch.context() as small:  # so that rounds of cutting happen on so few rows
        small.setattr(walsh, "_SAMPLED", 16)
        small.setattr(walsh, "_FEW", 0)
        assert walsh_average(values, rank) == every[rank - 1]
    assert walsh_average(values, rank) == every[rank - 1]


@pytest.mark.parametrize("law", ["standard_normal", "standard_cauchy"])
def test_many_rows(law):
    values = np.sort(getattr(np.random.default_rng(0), law)(1500))
    every = all_averages(values)
    for rank in (1, 17, len(every) // 3, len(every) // 2, len(every)):
        assert walsh_average(values, rank) == every[rank - 1]


@pytest.mark.parametrize("value", [5e-324, -5e-324, 1e-310, 1.7e308, -1.7e308])
def test_averages_of_the_smallest_and_largest_floats(value):
    assert walsh_average(np.full(40, value), 7) == value


def test_a_rank_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="rank=7 must lie between 1 and 6"):
        walsh_average(np.arange(3.0), 7)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 12])
@pytest.mark.parametrize("alpha", [0.3, 0.1, 0.025, 0.003])
def test_the_signed_rank_is_that_of_all_signs(n, alpha):
    sums = np.array([np.dot(signs, np.arange(1, n + 1)) for signs in itertools.product((0, 1), repeat=n)])
    fits = [r for r in range(1, n * (n + 1) // 2 + 1) if (sums <= r - 1).mean() <= alpha]
    assert signed_rank(n, math.log(alpha)) == max(fits, default=0)


@pytest.mark.parametrize("n", [257, 400, 511])
@pytest.mark.parametrize("alpha", [0.4, 0.05, 1e-3, 1e-8, 1e-12])
def test_beyond_it_is_safe_and_nearly_exact(n, alpha):
    chance = np.array([1.0])
    for rank in range(1, n + 1):
        chance = (np.r_[chance, np.zeros(rank)] + np.r_[np.zeros(rank), chance]) / 2
    exact = int(np.searchsorted(np.cumsum(chance), alpha, side="right"))
    sd = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    found = signed_rank(n, math.log(alpha))
    assert exact - (0.1 if alpha > 1e-10 else 0.7) * sd <= found <= exact


def test_the_rule_depends_on_numbers_alone():
    assert symmetric_rule(10_000, 100, math.log(0.025)).vote == "order"
    assert symmetric_rule(10_000, 5, math.log(0.025)).vote == "signed rank"
    assert symmetric_rule(4, 1, math.log(0.025)).rank == 0
    assert symmetric_rule(10_000, 50, math.log(0.025), adaptive=True).vote == "order"
