"""How many blocks a learner takes, and the largest contamination that an error names."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outvote.contamination import Contamination
from outvote.learning.n_blocks import blocks_for, corrupt_in_part, plan_one_sample, plan_two_samples

AUTO = {"n_blocks": "auto", "algorithm": "robust"}


@given(st.integers(2, 2000), st.integers(0, 1000), st.sampled_from([1, 2]))
def test_the_blocks_outvote_the_corrupt_rows_or_the_error_names_a_contamination_that_works(n_rows, n_corrupt, degree):
    try:
        plan = plan_one_sample(n_rows, n_corrupt, degree, contamination=n_corrupt, **AUTO)
    except ValueError as error:
        largest = int(re.search(r"is (\d+) rows", str(error)).group(1))
        assert largest < n_corrupt
        plan = plan_one_sample(n_rows, largest, degree, contamination=largest, **AUTO)
        with pytest.raises(ValueError, match="largest contamination"):
            plan_one_sample(n_rows, largest + 1, degree, contamination=largest + 1, **AUTO)
    assert plan.holds
    assert plan.block_size >= degree


@given(st.tuples(st.integers(1, 600), st.integers(1, 600)), st.tuples(st.integers(0, 200), st.integers(0, 200)))
def test_two_samples_share_their_number_of_blocks(sizes, counts):
    try:
        plan = plan_two_samples(sizes, counts, **AUTO)
    except ValueError as error:
        largest = int(re.search(r"is (\d+) rows .* in each sample", str(error)).group(1))
        assert largest < max(counts)
        plan = plan_two_samples(sizes, (largest, largest), **AUTO)
        with pytest.raises(ValueError, match="largest contamination"):
            plan_two_samples(sizes, (largest + 1, largest + 1), **AUTO)
    assert plan.holds
    assert len(set(plan.n_blocks)) == 1
    assert min(plan.block_size) >= 1


def test_the_error_quotes_the_contamination_as_given():
    for given_as in (0.3, Contamination(0.3)):
        with pytest.raises(ValueError, match=r"contamination=0.3 asks for 61 blocks of at least 2 rows, .* 100 rows"):
            plan_one_sample(100, 30, 2, contamination=given_as, **AUTO)


def test_corrupt_rows_in_a_random_part():
    assert corrupt_in_part(0, 10, 100, 1) == 0
    assert corrupt_in_part(20, 100, 100, 1) == 20
    assert corrupt_in_part(20, 50, 100, 1) == 15  # 10 on average, and 2·√5 more, rounded up
    assert corrupt_in_part(20, 10, 100, 1) == 4  # no more than a vote of single rows can tolerate


def test_single_rows_take_no_more_blocks_than_they_need():
    assert blocks_for(10**6, 5, degree=1) == 11
    assert blocks_for(10**6, 5, degree=2) == 3907
