"""Tolerance of claims about quantiles: the exact number of rows, by trying each."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov

X = np.random.default_rng(0).exponential(50.0, 400)


def by_definition(x, q, relation, bound, adversary, confidence=0.95):
    """The largest number up to which the one-sided interval keeps the claim at each level."""
    side, end = ("less", "high") if relation[0] == "<" else ("greater", "low")
    keeps = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[relation]
    stands = None
    for count in range((len(x) - 1) // 2 + 1):
        found = ov.quantile(x, q, ov.Contamination(count, adversary), confidence, alternative=side)
        if not keeps(getattr(found.interval, end), bound):
            break
        stands = count
    return stands


@pytest.mark.parametrize(
    ("claim", "q", "relation", "bound"),
    [("p90 < 150", 0.9, "<", 150), ("median > 28", 0.5, ">", 28), ("p10 >= 1", 0.1, ">=", 1),
     ("p99 < 300", 0.99, "<", 300), ("median < 20", 0.5, "<", 20)],
)  # fmt: skip
def test_the_number_is_exact(claim, q, relation, bound):
    for adversary in ("oblivious", "adaptive"):
        assert ov.tolerance(X, claim=claim, adversary=adversary).rows == by_definition(X, q, relation, bound, adversary)


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 6), min_size=15, max_size=50), st.sampled_from(["<", "<=", ">", ">="]), st.integers(0, 6)
)
def test_the_number_is_exact_with_ties(x, relation, bound):
    x = np.array(x, dtype=float)
    expected = by_definition(x, 0.5, relation, bound, "oblivious")
    assert ov.tolerance(x, claim=f"median {relation} {bound}").rows == expected


def test_without_the_deciding_rows_the_claim_falls():
    found = ov.tolerance(X, claim="median > 28")
    assert len(found.deciding) == found.rows + 1
    assert (X[list(found.deciding)] > 28).all()
    assert sorted(found.deciding, key=lambda i: X[i]) == list(found.deciding)  # the nearest first
    for n_gone, stands in ((found.rows, True), (found.rows + 1, False)):
        left = np.delete(X, found.deciding[:n_gone])
        assert (ov.quantile(left, 0.5, 0, alternative="greater").interval.low > 28) == stands


def test_rows_with_nan_are_the_first_that_are_corrupt():
    holed = np.insert(X, [0, 7], math.nan)
    found = ov.tolerance(holed, claim="median > 28", nan_policy="corrupt", contamination=1)
    assert len(found.deciding) == found.rows + 1 - 2
    assert (holed[list(found.deciding)] > 28).all()
    assert found.estimate.plan.n_corrupt == 2
    assert found.n_rows == 402
    omitted = ov.tolerance(holed, claim="median > 28", nan_policy="omit")
    assert (omitted.rows, omitted.n_rows) == (ov.tolerance(X, claim="median > 28").rows, 400)


def test_the_sentence_says_what_stands():
    found = ov.tolerance(X, claim="p90 < 170")
    assert str(found).startswith(f"p90 < 170: it is {found.estimate.estimate:.0f} ± ")
    assert str(found).endswith(f"the claim stands unless more than {found.rows} of the 400 rows are corrupt.")
    assert (found.premise, found.stands) == ("", True)
    unsettled = ov.tolerance(X, claim="median < 20")
    assert (unsettled.rows, unsettled.deciding) == (None, ())
    assert str(unsettled) == "These 400 rows do not settle whether median < 20, even if none is corrupt."
    assert "(at least" in str(ov.tolerance(X, claim="p99.5 > 100"))
    assert found.to_dict()["rows"] == found.rows


def test_wrong_claims_are_named_and_what_does_not_go_with_a_quantile():
    for claim, message in (
        ("p100 < 3", "names p100, but quantiles lie between p0 and p100"),
        ("p99 < 1e", "compares with '1e', which is not a finite number"),
        ("p99 = 3", "must read like"),
    ):
        with pytest.raises(ValueError, match=message):
            ov.tolerance(X, claim=claim)
    for samples, options in (
        ((X, X), {"paired": True}), ((X,), {"assume": ov.FiniteVariance(1.0)}), ((X,), {"vote": "median"}),
        ((X, X), {}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="is about a quantile of one sample"):
            ov.tolerance(*samples, claim="median > 3", **options)
