"""Warnings that a fit may be less robust than it looks."""

import numpy as np
import pytest

import outvote as ov
from outvote.learning import RobustnessWarning
from outvote.learning.robustness_warnings import most_copies


def rows(n):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 4))
    return x, x @ [2.0, 1.0, 0.0, -1.0] + 0.5 * rng.normal(size=n)


def test_blocks_of_two_rows_give_a_warning():
    x, y = rows(100)
    with pytest.warns(RobustnessWarning, match="blocks of 2 rows"):
        ov.RobustRanker(contamination=20, max_iter=2, random_state=0).fit(x, y)


def test_too_few_blocks_give_a_warning():
    x, y = rows(100)
    with pytest.warns(RobustnessWarning, match="n_blocks=5 survives 2 corrupt rows, but contamination allows 10"):
        ov.RobustRegressor(contamination=10, n_blocks=5, max_iter=2, random_state=0).fit(x, y)


def test_so_many_corrupt_rows_that_scores_are_inverted_give_a_warning():
    x, y = rows(100)
    with pytest.warns(RobustnessWarning) as caught:
        ov.RobustRegressor(contamination=0.35, max_iter=2, random_state=0).fit(x, y)
    assert any("known to be inverted" in str(one.message) for one in caught)


def test_many_copies_of_one_row_give_a_warning():
    x, y = rows(200)
    x[50:80], y[50:80] = x[50], y[50]
    with pytest.warns(RobustnessWarning, match="row 50 comes 30 times, more often than the 20 corrupt rows"):
        ov.RobustRegressor(contamination=20, max_iter=2, random_state=0).fit(x, y)
    assert most_copies(x, y) == (30, 50)
    assert most_copies(np.arange(6.0).reshape(3, 2), np.zeros(3))[0] == 1


def test_a_warning_points_at_the_line_that_fits():
    x, y = rows(100)
    with pytest.warns(RobustnessWarning) as caught:
        ov.RobustRanker(contamination=20, max_iter=2, random_state=0).fit(x, y)
    assert caught[0].filename == __file__
