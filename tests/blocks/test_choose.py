"""The number of blocks: by certificates, the paper's mappings, a user's mapping, or given."""

import itertools
import math
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import outvote as ov
from outvote import Contamination, plan_blocks
from outvote.blocks.choose import make_plan
from outvote.blocks.plan import BlockPlan, GridPlan, majority
from outvote.data.arguments import whole_per_sample
from outvote.votes import Terms

MAPPINGS = ("harmonic", "geometric", "arithmetic", "polynomial")
quick = settings(derandomize=True)


def refusal(rows, contamination, **options):
    """Why a plan is refused, or nothing."""
    try:
        plan_blocks(rows, contamination, **options)
    except ValueError as error:
        return str(error)
    return ""


def ceil_root(n):
    return math.isqrt(n - 1) + 1 if n else 0


#: ⌈α(n_O/n)·n⌉ in integers.
EXACT = {
    "harmonic": lambda n, c: -(-4 * c * n // (n + 2 * c)),
    "geometric": lambda n, c: ceil_root(2 * c * n),
    "arithmetic": lambda n, c: -(-(n + 2 * c) // 2),
    "polynomial": lambda n, c: -(-c * (5 * n - 2 * c) // (2 * n)),
}


# --- the paper's mappings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", MAPPINGS)
def test_paper_mappings_use_exact_arithmetic(method):
    for n in (1, 2, 5, 20, 97, 400):
        for c in range((n + 1) // 2):
            plan = plan_blocks(n, c, method=method)
            assert plan.n_blocks == max(1, EXACT[method](n, c)), (n, c)
            assert plan.holds
            assert (plan.n_rows, plan.n_corrupt, plan.method) == (n, c, method)


def test_clean_samples_need_one_block_and_errors_name_the_tuples():
    for method, degree in (("harmonic", 1), ("geometric", 2), ("polynomial", 3)):
        assert plan_blocks(100, 0.0, method=method, degree=degree).n_blocks == 1
        assert plan_blocks((100, 90), 0, method=method, degree=degree).n_blocks == (1, 1)
    for degree, words in ((1, "single rows"), (2, "pairs"), (3, "triples"), (4, "tuples of 4")):
        assert f"largest contamination for {words} here is" in refusal((100, 100), 0.45, degree=degree)


@pytest.mark.parametrize(("method", "largest"), [("harmonic", 1 / 6), ("geometric", 1 / 8), ("polynomial", 0.2192)])
def test_error_names_the_largest_contamination_for_pairs(method, largest):
    n = 10_000
    assert plan_blocks(n, math.floor(largest * n), degree=2, method=method).block_size == 2
    with pytest.raises(ValueError, match="the largest contamination for pairs here is"):
        plan_blocks(n, math.floor(largest * n) + 2, degree=2, method=method)


def test_arithmetic_mapping_refuses_pairs():
    for c in (0, 1, 10):
        with pytest.raises(ValueError, match=r"but there are 101 rows: no contamination works for pairs here$"):
            plan_blocks(101, c, degree=2, method="arithmetic")


def test_claim_1_takes_beta_log_delta_blocks_in_its_range():
    # β(0.05) = 40/9 for the harmonic mapping; the claim covers δ from e^(-225) to e^(-40.9).
    for log_inverse in (41, 50, 100, 200):
        plan = plan_blocks(1000, 0.05, delta=math.exp(-log_inverse), method="harmonic", claim=1)
        assert plan.n_blocks == math.ceil(Fraction(40, 9) * log_inverse)
        assert "⌈β(ε)·log(1/δ)⌉" in plan.reason
    for delta in (0.05, 1e-17, 1e-99):
        with pytest.raises(ValueError, match="outside claim 1"):
            plan_blocks(1000, 0.05, delta=delta, method="harmonic", claim=1)


def test_claim_1_leaves_room_for_the_degree():
    # Without corrupt rows β = 4, and 4 · 120 blocks of two fit in; with 50 of them 40/9 · 120 do not.
    options = {"delta": math.exp(-120), "method": "harmonic", "claim": 1}
    asked = plan_blocks(1000, 50, **options).n_blocks
    assert asked > 500
    with pytest.raises(ValueError, match=rf"contamination=50 asks for {asked} blocks of at least 2 rows") as refused:
        plan_blocks(1000, 50, degree=2, **options)
    largest = int(re.search(r"here is (\d+) rows", str(refused.value))[1])
    assert 0 < largest < 50
    assert plan_blocks(1000, largest, degree=2, **options).block_size >= 2
    with pytest.raises(ValueError):
        plan_blocks(1000, largest + 1, degree=2, **options)


def test_claim_1_plans_several_samples():
    options = {"method": "harmonic", "claim": 1, "degree": 1}
    full = plan_blocks((3000, 2000), (10, 5), delta=1e-10, **options)
    assert isinstance(full, GridPlan)
    assert full.holds
    assert "⌈β_s·log(2/δ)⌉" in full.explain()
    diagonal = plan_blocks((3000, 2000), (10, 5), delta=1e-10, grid="diagonal", **options)
    assert len(set(diagonal.n_blocks)) == 1
    assert "⌈β(ε)·log(1/δ)⌉" in diagonal.explain()


def test_mapping_on_the_full_grid():
    # The least K with K² ≥ α(ε̃)·n², ε̃ = 1 - (1 - 5/100)(1 - 2/80).
    joint = 1 - Fraction(95, 100) * Fraction(78, 80)
    alpha = 4 * joint / (1 + 2 * joint)
    expected = tuple(next(k for k in range(n + 1) if k * k >= alpha * n * n) for n in (100, 80))
    plan = plan_blocks((100, 80), (5, 2), method="harmonic")
    assert plan.n_blocks == expected
    assert plan.holds
    assert f"⌈α(ε)^(1/p)·n⌉ blocks, here α({float(joint):.4g}) = {float(alpha):.4g}" in plan.explain()


def test_mapping_on_the_diagonal():
    # As for one sample with as many rows as the shortest and all the corrupt rows.
    plan = plan_blocks((100, 80), (5, 2), method="harmonic", grid="diagonal")
    assert plan.n_blocks == (EXACT["harmonic"](80, 7),) * 2
    assert plan.holds


@pytest.mark.parametrize("grid", ["full", "diagonal"])
@pytest.mark.parametrize("method", [*MAPPINGS, "certified"])
def test_plans_of_two_samples_keep_a_clean_majority(method, grid):
    planned = 0
    for rows in ((10, 10), (13, 30)):
        for counts in itertools.product(range(0, rows[0] // 2, 2), range(0, rows[1] // 2, 3)):
            refused = refusal(rows, counts, method=method, grid=grid)
            if refused:
                assert "contamination" in refused
                continue
            plan = plan_blocks(rows, counts, method=method, grid=grid)
            planned += 1
            assert plan.holds
            assert majority(plan.n_blocks, counts, grid)
            assert all(k <= n for k, n in zip(plan.n_blocks, rows, strict=True))
    assert planned >= 5


# --- user mappings ------------------------------------------------------------------------------------------


def test_callable_mapping_is_evaluated_exactly():
    # In floats 3 * 0.07 * 100 is above 21.
    assert plan_blocks(100, 7, method=lambda e: 3 * e).n_blocks == 21
    for n in (10, 66, 199):
        for c in range(1, n // 3):
            if 3 * c < n:
                assert plan_blocks(n, c, method=lambda e: 3 * e).n_blocks == 3 * c


def test_callable_mapping_may_return_floats_or_be_a_ufunc():
    assert plan_blocks(100, 2, method=lambda e: float(e) + 0.5).n_blocks == 52
    assert plan_blocks(100, 4, method=np.sqrt).n_blocks == 20
    assert plan_blocks(100, 4, method=np.sqrt).method == "sqrt"
    assert plan_blocks(100, 0, method=lambda e: 3 * e).n_blocks == 1
    assert plan_blocks(100, 0, method=lambda e: (1 + 2 * e) / 2).n_blocks == 50


@pytest.mark.parametrize("alpha", [lambda e: 2 * e, lambda e: e, lambda e: 1, lambda e: 1.5, lambda e: float("nan")])
def test_callable_mapping_out_of_range_raises(alpha):
    with pytest.raises(ValueError, match=r"must lie strictly between 2\*epsilon = 0.02 and 1"):
        plan_blocks(100, 1, method=alpha)


def test_callable_mapping_is_named_in_the_plan():
    class Steep:
        def __call__(self, epsilon):
            return 4 * epsilon

    def steep(epsilon):
        return 4 * epsilon

    assert plan_blocks(100, 5, method=Steep()).method == "callable"
    named = plan_blocks(100, 5, method=steep)
    assert named.method == "steep"
    assert named.reason == "The mapping steep takes ⌈α(ε)·n⌉ blocks, here α(0.05) = 0.2."


def test_unknown_methods_raise():
    with pytest.raises(ValueError, match=r"method='best' is not one of 'certified', .*'harmonic'.*, nor a callable α"):
        plan_blocks(100, 1, method="best")
    with pytest.raises(ValueError, match="method=3 is neither"):
        plan_blocks(100, 1, method=3)


# --- standard -----------------------------------------------------------------------------------------------


def test_standard_method_takes_log_delta_blocks():
    for confidence, n_blocks in ((0.5, 1), (0.6, 1), (0.95, 3), (0.99, 5), (0.999, 7)):
        plan = plan_blocks(100, 0, confidence, method="standard", degree=2)
        assert (plan.n_blocks, plan.method) == (n_blocks, "standard")
        assert "⌈log(1/δ)⌉ blocks are enough" in plan.explain()
        assert plan_blocks((100, 50), 0, confidence, method="standard").n_blocks == (n_blocks, n_blocks)


def test_standard_method_refuses_corrupt_rows_and_too_few_rows():
    with pytest.raises(ValueError, match=r"method='standard' is for clean samples, but contamination=0.02 allows 2 "):
        plan_blocks(100, 0.02, method="standard")
    with pytest.raises(ValueError, match=r"allows 0 and 1 corrupt rows: use 'certified' or 'harmonic'"):
        plan_blocks((100, 100), Contamination((0, 1)), method="standard")
    with pytest.raises(
        ValueError, match=r"= 47 blocks, but the rows allow 10: .* failure probability here is 4.54e-05"
    ):
        plan_blocks(20, 0, delta=1e-20, degree=2, method="standard")
    assert plan_blocks(20, 0, delta=4.541e-05, degree=2, method="standard").n_blocks == 10


# --- certified ----------------------------------------------------------------------------------------------


@quick
@given(st.integers(1, 3), st.integers(1, 2000), st.data())
def test_certified_plan_of_one_sample_is_odd_and_holds(degree, n, data):
    assume(n >= degree)
    most = (n // degree - 1) // 2
    c = data.draw(st.integers(0, max(most, 0)))
    delta = data.draw(st.sampled_from([0.3, 0.05, 1e-6, 1e-100]))
    # The odd numbers of blocks are those that waste none: c ≤ (K - 1)/2.
    plan = plan_blocks(n, c, delta=delta, degree=degree)
    assert isinstance(plan, BlockPlan)
    assert plan.n_blocks % 2 == 1
    assert plan.n_blocks > 2 * c
    assert plan.n_blocks <= n // degree
    assert plan.block_size >= degree
    assert plan.holds
    assert plan.method == "certified"


@quick
@given(
    st.sampled_from(["full", "diagonal"]),
    st.lists(st.tuples(st.integers(3, 400), st.integers(1, 3), st.floats(0, 0.3)), min_size=2, max_size=3),
)
def test_certified_plan_of_several_samples_is_odd_and_holds(grid, samples):
    rows, degrees, shares = zip(*samples, strict=True)
    counts = tuple(int(share * n) for share, n in zip(shares, rows, strict=True))
    refused = refusal(rows, counts, degree=degrees, grid=grid)
    if refused:
        assert "the largest contamination" in refused
        assert any(counts)
        return
    plan = plan_blocks(rows, counts, degree=degrees, grid=grid)
    assert isinstance(plan, GridPlan)
    assert plan.holds
    assert all(k % 2 == 1 for k in plan.n_blocks)
    assert all(b >= d for b, d in zip(plan.block_size, degrees, strict=True))
    if grid == "diagonal":
        assert len(set(plan.n_blocks)) == 1


def test_certified_blocks_grow_with_contamination_and_confidence():
    blocks = [plan_blocks(10_000, c).n_blocks for c in (0, 10, 100, 1000)]
    assert blocks == sorted(set(blocks))
    blocks = [plan_blocks(10_000, 10, delta=delta).n_blocks for delta in (0.2, 0.01, 1e-6)]
    assert blocks == sorted(set(blocks))


def test_long_sample_compensates_for_a_short_one():
    # At most 15 of the 29 blocks of the short sample are sure to be clean: hardly any of the other's may be hit.
    assert plan_blocks((2000, 30), (1, 14)).holds
    assert plan_blocks((30, 2000), (14, 1)).holds


# --- errors -------------------------------------------------------------------------------------------------


def test_error_names_the_largest_contamination():
    with pytest.raises(ValueError) as refused:
        plan_blocks(4000, contamination=0.3, degree=2)
    assert str(refused.value) == (
        "contamination=0.3 asks for 2401 blocks of at least 2 rows, but there are 4000 rows: "
        "the largest contamination for pairs here is 999 rows (0.2497)"
    )


def test_error_asks_for_blocks_that_would_have_been_enough():
    for rows, grid in (((100, 100), "full"), ((100, 60), "full"), ((90, 90, 90), "full"), ((100, 80), "diagonal")):
        for share in (0.3, 0.35, 0.4, 0.45):
            with pytest.raises(ValueError, match="asks for") as refused:
                plan_blocks(rows, share, grid=grid)
            asked = [int(k) for k in re.findall(r"(\d+) blocks?\b", str(refused.value))]
            assert any(k > n for k, n in zip(asked, (min(rows),) if grid == "diagonal" else rows, strict=True))
            # These would have been enough.
            counts = Contamination(share).counts(rows)
            assert majority(asked * len(rows) if grid == "diagonal" else asked, counts, grid)


def test_fraction_in_the_error_is_exact():
    # 71 / 1000 * 10000 is below 710 in floats.
    with pytest.raises(ValueError, match=r"for tuples of 4 here is 71 rows \(0.071\)$"):
        plan_blocks(1000, 0.2, degree=4, method="harmonic")


@quick
@given(
    n=st.integers(1, 300),
    degree=st.integers(1, 4),
    method=st.sampled_from([*MAPPINGS, "certified"]),
    share=st.floats(0.0, 0.499),
)
def test_largest_contamination_works_and_one_more_row_does_not(n, degree, method, share):
    assume(n >= degree)
    options = {"degree": degree, "method": method}
    count = min(int(share * n), (n - 1) // 2)
    refused = refusal(n, count, **options)
    if not refused:
        plan = plan_blocks(n, count, **options)
        assert plan.holds
        assert plan.block_size >= degree
        return
    found = re.search(r"here is (\d+) rows \(([\d.]+)\)$", refused)
    if found is None:
        assert "no contamination works" in refused
        assert refusal(n, 0, **options)
        return
    largest, fraction = int(found[1]), Fraction(found[2])
    assert largest < count
    assert not refusal(n, largest, **options)
    assert not refusal(n, float(fraction), **options)
    assert refusal(n, largest + 1, **options)
    # The fraction is rounded down to four decimals.
    assert fraction <= Fraction(largest, n) < fraction + Fraction(1, 10_000)


@quick
@given(
    rows=st.tuples(st.integers(4, 150), st.integers(4, 150)),
    degrees=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    method=st.sampled_from([*MAPPINGS, "certified"]),
    grid=st.sampled_from(["full", "diagonal"]),
)
def test_largest_contamination_of_two_samples_works_and_one_more_row_does_not(rows, degrees, method, grid):
    options = {"degree": degrees, "method": method, "grid": grid}
    count = (min(rows) - 1) // 4
    refused = refusal(rows, count, **options)
    if not refused:
        assert plan_blocks(rows, count, **options).holds
        return
    found = re.search(r"here is (\d+) rows \(([\d.]+)\) in each sample$", refused)
    if found:
        assert not refusal(rows, int(found[1]), **options)
        assert not refusal(rows, float(found[2]), **options)
        assert refusal(rows, int(found[1]) + 1, **options)
    else:
        assert "no contamination works" in refused
        assert refusal(rows, 0, **options)


# --- given numbers of blocks --------------------------------------------------------------------------------


def given_plan(rows, n_blocks, counts=None, degrees=None, **options):
    rows = (rows,) if isinstance(rows, int) else rows
    ks = whole_per_sample("n_blocks", n_blocks, len(rows))
    terms = Terms(-3.0, degrees=degrees or (1,) * len(rows))
    return make_plan(rows, Contamination(counts or (0,) * len(rows)), terms, n_blocks=ks, **options)


def test_given_number_of_blocks_is_used():
    for k in (1, 100, np.int64(7), (4,), [4]):
        plan = given_plan(100, k)
        assert (plan.n_blocks, type(plan.n_blocks), plan.method) == (np.ravel(k)[0], int, "given")
    assert given_plan((100, 50), 5).n_blocks == (5, 5)
    assert given_plan((100, 50), (5, 9)).n_blocks == (5, 9)
    assert given_plan(100, 50, degrees=(2,)).block_size == 2


def test_wrong_given_numbers_raise():
    with pytest.raises(TypeError, match=r"n_blocks=2.0 must be an integer, or a tuple with one for each sample"):
        given_plan(10, 2.0)
    with pytest.raises(ValueError, match="n_blocks='many' must be 'auto' or a number of blocks"):
        ov.mean(np.arange(10.0), n_blocks="many")
    with pytest.raises(ValueError, match=r"n_blocks=\(2, 3\) has 2 entries for 1 samples"):
        given_plan(10, (2, 3))
    with pytest.raises(ValueError, match=r"n_blocks=\(2, 3\): on the diagonal all samples have the same number"):
        given_plan((10, 10), (2, 3), grid="diagonal")
    with pytest.raises(ValueError, match=r"n_blocks=\(\) names no sample"):
        given_plan(10, ())


# --- other arguments ----------------------------------------------------------------------------------------


def test_remainder_spread_uses_every_row():
    plan = plan_blocks(100, 3, method="harmonic", remainder="spread")
    assert (plan.n_left_out, plan.size_range) == (0, (100 // plan.n_blocks, -(-100 // plan.n_blocks)))
    with pytest.raises(ValueError, match="remainder='keep'"):
        plan_blocks(100, 3, remainder="keep")


def test_contamination_may_be_a_share_a_count_or_one_per_sample():
    assert plan_blocks(100, 0.29, method="harmonic").n_corrupt == 29
    assert plan_blocks(100, Contamination(0.29), method="harmonic").n_corrupt == 29
    assert plan_blocks((100, 50), (0.1, 2), method="harmonic").n_corrupt == (10, 2)
    assert plan_blocks((100,), (0.1,), method="harmonic").n_corrupt == 10
    with pytest.raises(ValueError, match="the largest count here is 49"):
        plan_blocks(100, 50)
    with pytest.raises(ValueError, match="has 2 amounts, but there is 1 sample"):
        plan_blocks(100, (1, 2))
    with pytest.raises(ValueError, match=r"contamination=0.4 asks for"):
        plan_blocks(100, Contamination(0.4), degree=2)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_rows": 0}, ValueError, "n_rows=0 must be at least 1"),
        ({"n_rows": (10, 0)}, ValueError, r"n_rows=\(10, 0\) must be at least 1"),
        ({"n_rows": ()}, ValueError, r"n_rows=\(\) names no sample"),
        ({"n_rows": 10.0}, TypeError, "n_rows=10.0 must be an integer"),
        ({"n_rows": "10"}, TypeError, "n_rows='10' must be an integer"),
        ({"degree": 0}, ValueError, "degree=0 must be at least 1"),
        ({"degree": 1.5}, TypeError, "degree=1.5 must be an integer"),
        ({"degree": (1, 2)}, ValueError, r"degree=\(1, 2\) has 2 entries for 1 samples"),
        ({"degree": 101}, ValueError, "a kernel of degree 101 needs at least 101 rows, but the sample has 100"),
        (
            {"n_rows": (9, 2), "degree": (1, 3)},
            ValueError,
            "a kernel of degree 3 needs at least 3 rows, but sample 2 has 2",
        ),
        ({"vote": "loudest"}, ValueError, "vote='loudest'"),
        ({"vote": "soft", "method": "harmonic"}, ValueError, "method='harmonic' is about the median"),
        ({"grid": "separate"}, ValueError, "grid='separate' must be one of 'full', 'diagonal'"),
        ({"confidence": 99}, ValueError, r"confidence=99 must lie .*: did you mean 0.99\?"),
        ({"delta": 2.0}, ValueError, "delta=2.0 must lie strictly between 0 and 1"),
    ],
)
def test_invalid_arguments_raise(arguments, error, message):
    with pytest.raises(error, match=message):
        plan_blocks(**{"n_rows": 100, "contamination": 0, **arguments})


def test_claims_are_checked_for_every_method():
    for method in ("certified", "harmonic"):
        for claim in (0, 3, "1", [1], True, 2.0, np.array([1, 2])):
            with pytest.raises(ValueError, match=r"claim=.* is neither 1 nor 2"):
                plan_blocks(1000, method=method, claim=claim)


def test_a_plan_has_one_level():
    assert plan_blocks(1000, delta=0.1) == plan_blocks(1000, confidence=0.9)
    with pytest.raises(ValueError, match=r"give exactly one of confidence=0.9 and delta=0.05"):
        plan_blocks(1000, confidence=0.9, delta=0.05)
