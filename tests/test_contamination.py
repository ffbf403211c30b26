"""The number of rows that may be corrupt, in exact arithmetic, and the injection of outliers."""

import math
from fractions import Fraction

import numpy as np
import pytest

from outvote.contamination import Contamination, dirac, heavy_tail, label_flip, uniform_box

# --- counts ------------------------------------------------------------------------------------------------


def test_fractions_are_read_as_decimals():
    # 0.29 * 100 is 28.999999999999996 in binary.
    assert Contamination(0.29).count(100) == 29
    assert Contamination(np.float64(0.29)).count(100) == 29
    assert Contamination(np.float32(0.29)).count(100) == 29


def test_counts_of_two_digit_fractions_are_exact():
    for hundredths in range(0, 50, 3):
        allowed, exact = Contamination(hundredths / 100), Fraction(hundredths, 100)
        for n in range(1, 300):
            down, up = int(exact * n), math.ceil(exact * n)
            assert allowed.rounded_down((n,)) == (down,)
            assert allowed.count(n) == min(up, max(down, (n - 1) // 2))


def test_positive_share_of_few_rows_allows_for_one():
    assert [Contamination(0.01).count(n) for n in (1, 2, 3, 23, 100, 101)] == [0, 0, 1, 1, 1, 2]
    assert Contamination(0.0).count(23) == 0
    assert Contamination(0.49).count(3) == 1  # two of three would be a majority


def test_fraction_objects_and_counts():
    assert Contamination(Fraction(1, 3)).count(300) == 100
    assert Contamination(Fraction(1, 3)).count(299) == 100
    assert Contamination(7).count(15) == 7
    assert Contamination(np.int64(7)).count(1000) == 7
    assert Contamination(1e-300).count(10**6) == 1
    for kind in (np.int8, np.uint8, np.int64):
        assert type(Contamination(kind(100)).amount) is int
        assert Contamination((kind(100), np.float32(0.01))).amount == (100, 0.01)


def test_one_amount_for_all_samples_or_one_for_each():
    assert Contamination(0.1).counts((10, 20, 35)) == (1, 2, 4)
    assert Contamination((0.01, 5)).counts((1000, 200)) == (10, 5)
    assert Contamination([0.01, 5]).counts((1000, 200)) == (10, 5)
    assert Contamination.of([0.01, 5]) == Contamination((0.01, 5))


def test_of_returns_a_contamination_unchanged():
    adaptive = Contamination(3, adversary="adaptive")
    assert Contamination.of(adaptive) is adaptive
    assert Contamination.of(0.2) == Contamination(0.2)
    assert Contamination(0.2).adversary == "oblivious"


def test_largest_count_is_below_half_of_the_rows():
    for n in range(1, 30):
        most = max(m for m in range(n) if 2 * m < n)
        assert Contamination(most).count(n) == most
        with pytest.raises(ValueError, match=rf"among {n}, .* the largest count here is {most}$"):
            Contamination(most + 1).count(n)


@pytest.mark.parametrize(
    ("amount", "error", "message"),
    [
        (-1, ValueError, r"contamination=-1 is a negative count: the smallest is 0"),
        (-0.1, ValueError, r"contamination=-0.1 is negative: the smallest is 0"),
        (0.5, ValueError, r"contamination=0.5 must be a fraction below 0.5: the clean rows must be in the majority$"),
        (Fraction(1, 2), ValueError, r"must be a fraction below 0.5"),
        (Fraction(10**400), ValueError, r"must be a fraction below 0.5"),
        (5.0, ValueError, r"contamination=5.0 .*; write a number of rows as an int"),
        (float("nan"), ValueError, r"contamination=nan must be a fraction"),
        (True, TypeError, r"contamination=True must be a fraction .* a count"),
        (np.True_, TypeError, r"must be a fraction .* a count"),
        ("0.1", TypeError, r"contamination='0.1' must be a fraction"),
        (0.1j, TypeError, r"contamination=0.1j must be a fraction"),
        ((), ValueError, r"contamination=\(\) is empty"),
        ((0.1, -2), ValueError, r"contamination=-2 is a negative count"),
        ((0.1, "a"), TypeError, r"contamination='a' must be a fraction"),
    ],
)
def test_invalid_amounts_raise(amount, error, message):
    with pytest.raises(error, match=message):
        Contamination(amount)


def test_wrong_number_of_amounts_raises():
    with pytest.raises(ValueError, match=r"contamination=\(0.1, 0.2\) has 2 amounts, but there is 1 sample: give one"):
        Contamination((0.1, 0.2)).count(100)
    with pytest.raises(ValueError, match=r"has 2 amounts, but there are 3 samples"):
        Contamination((0.1, 0.2)).counts((10, 10, 10))


def test_unknown_adversary_raises():
    with pytest.raises(ValueError, match="adversary='kind' is neither 'oblivious' nor 'adaptive'"):
        Contamination(0.1, adversary="kind")


# --- growth law ---------------------------------------------------------------------------------------------


def growth_by_counting(constant: Fraction, exponent: Fraction, n: int) -> int:
    """The largest m with m^q ≤ C^{2q}·n^p, by trying one after the other."""
    p, q = exponent.numerator, exponent.denominator
    left, right = constant.denominator ** (2 * q), constant.numerator ** (2 * q) * n**p
    m = 0
    while (m + 1) ** q * left <= right:
        m += 1
    return m


@pytest.mark.parametrize(
    ("constant", "given", "exponent"),
    [
        (1, 0.5, Fraction(1, 2)),
        (1.1, 1 / 3, Fraction(1, 3)),
        (1.5, 0.35, Fraction(7, 20)),
        (1.5, 0, Fraction(0)),
        (3, Fraction(2, 3), Fraction(2, 3)),
    ],
)
def test_growth_law_is_exact(constant, given, exponent):
    allowed = Contamination.growth(constant, given)
    for n in (*range(1, 130), 256, 729, 1000, 4096, 6561):
        m = growth_by_counting(Fraction(str(constant)), exponent, n)
        if 2 * m < n:
            assert allowed.count(n) == m, n
        else:
            with pytest.raises(ValueError, match=f"among {n}, .* the largest count here is {(n - 1) // 2}"):
                allowed.count(n)


def test_growth_law_keeps_four_decimals_of_the_exponent():
    # (10^8)^0.3333 = 463.9 and (10^8)^(1/3) = 464.2
    assert Contamination.growth(exponent=0.3333).count(10**8) == 463
    assert Contamination.growth(exponent=1 / 3).count(10**8) == 464


def test_growth_law_keeps_the_adversary_and_refuses_large_constants():
    assert Contamination.growth(adversary="adaptive").adversary == "adaptive"
    assert Contamination.growth().counts((10_000, 400)) == (100, 20)
    with pytest.raises(ValueError, match="the largest count here is 499"):
        Contamination.growth(constant=1e12).count(1000)


def test_growth_out_of_range_raises():
    for constant in (0.5, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"constant={constant!r} must be a finite number of at least 1"):
            Contamination.growth(constant=constant)
    for exponent in (-0.1, 1, float("nan")):
        with pytest.raises(ValueError, match=rf"exponent={exponent!r} must lie in \[0, 1\)"):
            Contamination.growth(exponent=exponent)


# --- outliers -----------------------------------------------------------------------------------------------

RULES = {
    "number": 1e6,
    "dirac": dirac(-50.0),
    "box": uniform_box(100.0, 200.0),
    "heavy": heavy_tail(scale=30.0, index=1.5),
    "own": lambda rng, rows: rows + 100 + rng.normal(size=rows.shape),
}


@pytest.mark.parametrize("rule", RULES)
def test_inject_replaces_exactly_the_returned_rows_or_appends_them(rule):
    for shape in ((60,), (60, 3), (60, 2, 2)):
        clean = np.random.default_rng(1).normal(size=shape)
        before = clean.copy()
        data, rows = Contamination(0.2).inject(clean, RULES[rule], rng=5)
        assert data.shape == shape
        assert len(rows) == 12
        differs = (data != before).reshape(60, -1)
        assert np.flatnonzero(differs.any(axis=1)).tolist() == rows.tolist()
        assert differs[rows].all()
        data, rows = Contamination(7).inject(clean, RULES[rule], how="add", rng=5)
        assert data.shape == (67, *shape[1:])
        assert rows.tolist() == list(range(60, 67))
        assert np.array_equal(data[:60], before)
        assert not np.isin(data[60:], before).any()
        assert np.array_equal(clean, before)


@pytest.mark.parametrize("how", ["replace", "add"])
def test_same_seed_injects_the_same_outliers(how):
    clean = np.arange(100.0)

    def inject(seed):
        return Contamination(0.2).inject(clean, uniform_box(-9, -1), how=how, rng=seed)

    first, again, other = inject(3), inject(3), inject(4)
    assert np.array_equal(first.data, again.data)
    assert np.array_equal(first.rows, again.rows)
    assert not np.array_equal(first.data, other.data)
    generator = np.random.default_rng(3)
    assert np.array_equal(inject(generator).data, first.data)
    assert not np.array_equal(inject(generator).data, first.data)


def test_every_row_can_be_replaced():
    hit = {int(row) for seed in range(60) for row in Contamination(2).inject(np.zeros(8), 1.0, rng=seed).rows}
    assert hit == set(range(8))


def test_zero_contamination_changes_nothing():
    clean = np.arange(5.0)
    for how in ("replace", "add"):
        data, rows = Contamination(0).inject(clean, 9.0, how=how, rng=0)
        assert np.array_equal(data, clean)
        assert not np.shares_memory(data, clean)
        assert rows.size == 0


@pytest.mark.parametrize("how", ["replace", "add"])
def test_dtype_grows_to_hold_the_outliers(how):
    data, rows = Contamination(2).inject([1, 2, 3, 4, 5], 0.5, how=how, rng=0)
    assert data.dtype == np.float64
    assert data[rows].tolist() == [0.5, 0.5]
    wide, rows = Contamination(1).inject(np.zeros(4, dtype=np.uint8), 300, how=how, rng=0)
    assert wide[rows].tolist() == [300]
    flags, rows = Contamination(1).inject(np.ones(4, dtype=bool), -2.5, how=how, rng=0)
    assert flags[rows].tolist() == [-2.5]


def test_outliers_lie_where_their_rule_puts_them():
    clean = np.zeros((1000, 2))
    some = Contamination(400)
    data, rows = some.inject(clean, dirac([3.0, -4.0]), rng=0)
    assert np.unique(data[rows], axis=0).tolist() == [[3.0, -4.0]]
    data, rows = some.inject(clean, uniform_box([10, 100], [20, 200]), rng=0)
    low, high = data[rows].min(axis=0), data[rows].max(axis=0)
    assert 10 <= low[0] < 10.2 < 19.8 < high[0] <= 20
    assert 100 <= low[1] < 102 < 198 < high[1] <= 200
    data, rows = some.inject(clean, heavy_tail(scale=5.0, index=1.0), rng=0)
    sizes = np.abs(data[rows])
    assert sizes.min() >= 5
    # P(|outlier| > 50) = 1/10 for a Pareto tail of index 1 from 5 on: 80 of the 800 values, give or take 8.5.
    assert 50 < (sizes > 50).sum() < 110
    assert 340 < (data[rows] > 0).sum() < 460


def test_flipped_labels_are_other_labels_of_the_list():
    labels = np.random.default_rng(0).integers(3, size=300)
    data, rows = Contamination(100).inject(labels, label_flip([0, 1, 2]), rng=1)
    assert (data[rows] != labels[rows]).all()
    assert data.dtype.kind == "i"
    moves = {(int(a), int(b)) for a, b in zip(labels[rows], data[rows], strict=True)}
    assert moves == {(a, b) for a in range(3) for b in range(3) if a != b}


def test_labels_may_be_strings():
    words = np.array(["cat", "dog"] * 10)
    data, rows = Contamination(5).inject(words, label_flip(["cat", "dog"]), rng=1)
    assert (data[rows] != words[rows]).all()
    assert set(data) == {"cat", "dog"}


def test_flips_without_another_label_raise():
    with pytest.raises(ValueError, match=r"classes=\[1, 1\] leaves no other label"):
        label_flip([1, 1])
    for label in (2, -1, 7):
        with pytest.raises(ValueError, match=r"a row's label is not among classes=\[0, 1\]"):
            Contamination(4).inject(np.full(9, label), label_flip([0, 1]), rng=0)


def test_outliers_of_a_wrong_shape_raise():
    for rule in (lambda rng, rows: rows[:-1], lambda rng, rows: rows[:, :1], lambda rng, rows: 3.0):
        with pytest.raises(ValueError, match=r"outliers returned shape .* for 3 rows; expected \(3, 2\)"):
            Contamination(3).inject(np.zeros((10, 2)), rule, rng=0)
    for rule in (dirac([1.0, 2.0]), uniform_box([0.0, 1.0], [2.0, 2.0])):
        # Two outliers asked for: a vector of two would fit by accident.
        with pytest.raises(ValueError, match=r"an outlier of shape \(2,\) does not fit rows of shape \(\)"):
            Contamination(2).inject(np.zeros(10), rule, rng=0)
    with pytest.raises(ValueError, match="x is ragged: its rows have different lengths"):
        Contamination(1).inject([[1, 2], [3]], 5.0)
    with pytest.raises(ValueError, match="what outliers returned is ragged"):
        Contamination(2).inject(np.zeros((5, 2)), lambda rng, rows: [[1, 2], [3]])


def test_invalid_arguments_of_inject_raise():
    with pytest.raises(ValueError, match="x has no rows"):
        Contamination(0).inject([], 1.0)
    with pytest.raises(ValueError, match="x has no rows"):
        Contamination(0).inject(3.0, 1.0)
    with pytest.raises(ValueError, match="how='swap' is neither 'replace' nor 'add'"):
        Contamination(1).inject(np.zeros(5), 1.0, how="swap")
    with pytest.raises(TypeError, match="outliers='big' is neither a number nor a function"):
        Contamination(1).inject(np.zeros(5), "big")
    for amount in (3, 10**400):
        with pytest.raises(ValueError, match="the largest count here is 2"):
            Contamination(amount).inject(np.zeros(5), 1.0)
