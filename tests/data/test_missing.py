"""Rows with NaN or infinite values, by policy."""

import numpy as np
import pytest

import outvote as ov
from outvote.data.missing import screen

NAN, INF = float("nan"), float("inf")


COLUMN = np.array([1.0, NAN, 3.0, INF, 5.0, -INF, 7.0])
TABLE = np.array([[1.0, 2.0], [NAN, 4.0], [5.0, INF], [7.0, 8.0], [NAN, -INF]])


@pytest.mark.parametrize("policy", ["raise", "omit", "corrupt"])
@pytest.mark.parametrize("x", [np.ones((3, 2)), np.arange(3)])
def test_finite_rows_are_returned_unchanged(x, policy):
    kept, n_bad = screen(x, policy, 1, "x")
    assert kept is x
    assert n_bad == 0


@pytest.mark.parametrize(
    ("policy", "in_column", "in_table"),
    [
        (
            "raise",
            r"^x has NaN or infinite values in 3 of 7 rows \(the first is row 1\): nan_policy='corrupt' counts such "
            r"rows as corrupt, nan_policy='omit' leaves out rows with NaN$",
            r"in 3 of 5 rows \(the first is row 1\)",
        ),
        (
            "omit",
            r"^x has infinite values, which are not missing, in 2 of 7 rows \(the first is row 3\): "
            r"nan_policy='corrupt' counts such rows as corrupt$",
            r"in 1 of 5 rows \(the first is row 2\)",
        ),
    ],
)
def test_error_counts_bad_rows_and_names_the_first(policy, in_column, in_table):
    for rows, message in ((COLUMN, in_column), (TABLE, in_table)):
        with pytest.raises(ValueError, match=message):
            screen(rows, policy, 3, "x")


def test_policy_omit_drops_rows_with_nan():
    kept, n_bad = screen(np.array([1.0, NAN, 3.0, NAN]), "omit", 1, "x")
    assert kept.tolist() == [1.0, 3.0]
    assert n_bad == 2
    kept, n_bad = screen(TABLE[[0, 1, 3, 4]], "omit", 0, "x")
    assert kept.tolist() == [[1.0, 2.0], [7.0, 8.0]]
    assert n_bad == 2


def test_policy_omit_refuses_to_drop_every_row():
    with pytest.raises(ValueError, match="x without its rows with NaN is empty"):
        screen(np.full(3, NAN), "omit", 0, "x")


def test_policy_corrupt_replaces_bad_rows():
    kept, n_bad = screen(COLUMN, "corrupt", 3, "x")
    assert kept.tolist() == [1.0, 4.0, 3.0, 4.0, 5.0, 4.0, 7.0]
    assert n_bad == 3
    kept, n_bad = screen(TABLE, "corrupt", 4, "x")
    assert kept.tolist() == [[1.0, 2.0], [4.0, 5.0], [4.0, 5.0], [7.0, 8.0], [4.0, 5.0]]
    assert n_bad == 3


def test_policy_corrupt_refuses_more_bad_rows_than_allowed():
    with pytest.raises(
        ValueError,
        match=r"^x has NaN or infinite values in 3 rows, more than the 2 corrupt rows that contamination allows among "
        r"7: allow at least 3$",
    ):
        screen(COLUMN, "corrupt", 2, "x")


def test_policy_corrupt_refuses_half_of_the_rows():
    x = np.arange(10.0)
    x[:5] = np.nan
    with pytest.raises(ValueError, match="half of all rows or more, so no vote can help"):
        ov.mean(x, 1, nan_policy="corrupt")
