"""The commands compute what the library computes."""

import numpy as np
import pytest

import outvote as ov
from outvote.cli.answer import Asked, Value
from outvote.cli.compare import compare
from outvote.cli.mean import means, means_by_id
from outvote.cli.plan import plan
from outvote.cli.suspects import suspects
from outvote.data.columns import Columns, Unreadable
from outvote.data.files import Files
from outvote.estimate.suspects import score_rows

RNG = np.random.default_rng(0)
A, B = RNG.exponential(30.0, 800), RNG.exponential(60.0, 1000)


def columns(values, labels=None, unreadable=()):
    """Columns as they are read from a file; a label for each row, or none."""
    values = np.asarray(values, dtype=float)
    known = [()] if labels is None else [(label,) for label in dict.fromkeys(labels)]
    codes = [0] * len(values) if labels is None else [known.index((label,)) for label in labels]
    cells = [Unreadable(row, text) for row, text in unreadable]
    keys = () if labels is None else ("k",)
    return Columns("v", values, cells, len(cells), keys, known, np.array(codes), [("f.csv", len(values))])


BOTH = columns(np.r_[A, B], ["A"] * 800 + ["B"] * 1000)


def test_means_equal_those_of_the_library():
    asked = Asked(contamination=8, assume=ov.FiniteVariance(60.0), seed=3)
    found = means(BOTH, asked, "f.csv")
    for line, rows in zip(found.groups, (A, B), strict=True):
        same = ov.mean(rows, 8, assume=ov.FiniteVariance(60.0), vote="auto", rng=3)
        assert line.mean == Value.of(same)
        assert line.plain == pytest.approx(rows.mean())
        assert (line.n, line.corrupt, line.survives, line.vote) == (len(rows), 8, 8, same.plan.vote)
        assert line.mean.provenance == "certified"
    assert found.complete


def test_unknown_contamination_allows_for_the_largest_level():
    (line,) = means(columns(A), Asked(contamination="auto"), "f").groups
    assert line.corrupt == line.survives == 80


def test_small_groups_get_a_note():
    found = means(columns([1.0] + [5.0] * 5 + A.tolist(), ["x"] + ["y"] * 5 + ["z"] * 800), Asked(contamination=3), "f")
    assert [line.mean.estimate is None for line in found.groups] == [True, True, False]
    assert "corrupt rows among 1" in found.groups[0].mean.note
    assert found.groups[1].plain == 5.0
    assert not found.complete
    with pytest.raises(ValueError, match="3 corrupt rows among 1"):
        means(columns([1.0]), Asked(contamination=3), "f")


def test_sensitivity_has_the_levels_of_each_group():
    found = means(BOTH, Asked(), "f", levels=True)
    levels = [level.corrupt for level in found.sensitivity if level.group == ("A",)]
    assert levels == ov.sensitivity(A, rng=0).n_corrupt.tolist()
    assert {level.group for level in found.sensitivity} == {("A",), ("B",)}


def test_means_by_row_id_do_not_depend_on_the_order_of_rows(tmp_path):
    path, frame = tmp_path / "x.csv", np.random.default_rng(1).permutation(800)
    ids = np.arange(800)
    lines = [f"{ids[i]},{'x' if i % 2 else 'y'},{float(A[i])!r}" for i in frame]
    path.write_text("id,k,v\n" + "\n".join(lines) + "\n")
    asked = Asked(contamination=5, seed=7)
    with Files([str(path)]) as source:
        (whole,) = means_by_id(source, "v", (), "id", asked).groups
        groups = means_by_id(source, "v", ("k",), "id", asked).groups
        known = means_by_id(source, "v", ("k",), "id", Asked(contamination=5, assume=ov.FiniteVariance(30.0))).groups
        small = means_by_id(source, "v", ("k",), "id", Asked(contamination=300))
        (blocks,) = means_by_id(source, "v", (), "id", Asked(contamination=5, seed=7, vote="median")).groups
        voted = means_by_id(source, "v", ("k",), "id", Asked(contamination=5, seed=7, vote="median")).groups
    same = ov.mean(A, 5)
    assert (whole.mean.estimate, whole.mean.low) == pytest.approx((same.estimate, same.interval.low), rel=1e-9)
    assert whole.plain == pytest.approx(A.mean())
    assert [line.group for line in groups] == [("x",), ("y",)]
    assert groups[0].plain == pytest.approx(A[1::2].mean())
    one = ov.mean(A[1::2], 5)
    assert groups[0].mean.premise_sd == pytest.approx(one.certificate.premise_sd)
    assert groups[0].mean.radius == pytest.approx(one.radius, rel=1e-6)
    assert (groups[0].blocks, groups[0].survives, groups[0].vote) == (None, 5, "evidence")
    assert known[0].survives == known[0].corrupt == 5
    assert [line.blocks for line in small.groups] == [None, None]
    assert not small.complete
    by_hash = ov.mean(A, 5, vote="median", partition="hash", rng=7)
    assert blocks.mean.estimate == pytest.approx(by_hash.estimate, rel=1e-9)
    assert voted[0].survives == (voted[0].blocks - 1) // 2


def test_comparison_equals_that_of_the_library():
    asked = Asked(contamination=5, assume=ov.FiniteVariance(60.0), seed=2)
    found = compare(BOTH, asked, "f")
    (one,) = found.comparisons
    options = {"contamination": 5, "vote": "auto", "rng": 2}
    known = {**options, "assume": ov.FiniteVariance(60.0)}
    assert found.baseline == "A"
    assert one.difference == Value.of(ov.difference(A, B, **known))
    assert one.lift == Value.of(ov.difference(A, B, relative=True, **known))
    assert one.superiority == Value.of(ov.u_statistic(A, B, kernel="auc", **options))
    assert one.superiority.low < 2 / 3 < one.superiority.high  # P(B > A) of two exponential laws
    assert one.superiority.provenance == "certified"
    stands = ov.tolerance(A, B, assume=ov.FiniteVariance(60.0), rng=2)
    assert one.tolerance == stands.rows > 0
    assert one.sentence.endswith(str(stands).partition(";")[2])
    assert one.plain == pytest.approx(B.mean() - A.mean())
    (by_blocks,) = compare(BOTH, Asked(contamination=0, assume=ov.FiniteVariance(60.0), vote="median"), "f").comparisons
    assert by_blocks.difference.low > 0
    assert by_blocks.settled


def test_sentence_names_the_variants():
    rows = columns(np.r_[B, A, A], ["old"] * 1000 + ["new"] * 800 + ["odd"] * 800)
    found = compare(rows, Asked(contamination=5), "f", baseline="old")
    assert [one.other for one in found.comparisons] == ["new", "odd"]
    assert found.comparisons[0].sentence.startswith("old is larger than new by ")
    unsettled = compare(rows, Asked(contamination=5), "f", baseline="new").comparisons[1]
    assert unsettled.tolerance is None
    start = (
        "These 1 600 rows do not settle whether odd or new is larger, even if none is corrupt (if the clean rows' sd"
    )
    assert unsettled.sentence.startswith(start)


def test_comparison_counts_rows_known_to_be_corrupt():
    # Wrong units make a difference of a few rows look certain; rows without a number say that some are corrupt.
    spoiled = [A.copy(), A[::-1].copy()]
    spoiled[0][:2], spoiled[1][:1] = np.nan, np.nan
    spoiled[1][10:16] = 1e5
    found = compare(columns(np.r_[tuple(spoiled)], ["A"] * 800 + ["B"] * 800), Asked(nan="corrupt"), "f")
    (one,) = found.comparisons
    assert one.tolerance is None
    assert one.sentence.startswith("At most 8 corrupt rows does not fit these 1 600 rows")
    assert "it is not settled whether B or A is larger" in one.sentence


def test_rows_without_a_variant_are_counted():
    labels = ["A"] * 800 + ["B"] * 1000 + [None] * 3
    assert compare(columns(np.r_[A, B, [1, 2, 3]], labels), Asked(assume=ov.FiniteVariance(60.0)), "f").left_out == 3
    with pytest.raises(ValueError, match="--by k has the one value 'A', but a comparison needs two"):
        compare(columns(A, ["A"] * 800), Asked(), "f")
    with pytest.raises(ValueError, match="--baseline 'a' is not a value of 'k': its values are 'A', 'B'"):
        compare(BOTH, Asked(), "f", baseline="a")


def test_plan_without_a_scale_is_in_standard_deviations():
    found = plan(10_000, Asked(contamination=0.02, confidence=0.99))
    same = ov.plan_blocks(10_000, 0.02, 0.99)
    radius = ov.certificate.radius(
        n_blocks=same.n_blocks, n_corrupt=200, block_size=same.block_size, confidence=0.99, assume=ov.FiniteVariance(1)
    )
    assert found.unit == "sd"
    assert (found.plan.blocks, found.plan.corrupt, found.plan.vote) == (same.n_blocks, 200, "median")
    assert found.plan.radius == pytest.approx(radius)
    options = {option.change: option for option in found.options}
    assert options["10 × the rows"].rows == 100_000
    assert options["known: the sd"].radius < found.plan.radius / 2
    assert options["none corrupt"].radius < options["half the corrupt"].radius < found.plan.radius
    assert found.rows_for_half is None
    assert "0.02" in found.half_note


def test_rows_for_half_the_radius():
    asked = Asked(contamination=20, assume=ov.FiniteVariance(30.0))
    found = plan(10_000, asked)
    assert found.unit == ""
    assert found.rows_for_half is not None
    assert plan(found.rows_for_half, asked).plan.radius <= found.plan.radius / 2 * 1.001
    assert {option.change for option in found.options} >= {"median vote", "known: sub-Gaussian"}
    assert found.plan.radius == min(
        o.radius for o in (found.plan, *found.options) if "vote" in o.change or o is found.plan
    )


@pytest.mark.parametrize(
    ("assume", "other"),
    [
        (ov.Bounded(0, 1), "known: sd ≤ 0.25 too"),
        (ov.Bounded(0, 1, variance=0.01), "known: sd ≤ 0.1 alone"),
        (ov.FiniteKurtosis(9.0, 2.0), "known: the sd alone"),
        (ov.FiniteKurtosis(9.0), "known: the sd"),
    ],
)
def test_plan_lists_other_assumptions(assume, other):
    assert other in [option.change for option in plan(1000, Asked(contamination=5, assume=assume)).options]


@pytest.mark.parametrize(("low", "high"), [(-1e299, 1e299), (0.0, 1e-170)])
def test_plan_leaves_out_assumptions_that_no_float_holds(low, high):
    found = plan(1000, Asked(contamination=5, assume=ov.Bounded(low, high)))
    assert found.plan.radius is not None
    assert not [option for option in found.options if option.change.endswith("too")]


def test_plan_refuses_unknown_contamination():
    with pytest.raises(ValueError, match="--contamination auto"):
        plan(100, Asked(contamination="auto"))


def test_suspect_scores_against_brute_force():
    """The turned columns give blocks of one row of each column: count them again, one by one."""
    x, size, seed = np.r_[np.random.default_rng(3).normal(size=18), 9.0, -8.0], 3, 5
    scores, distances = score_rows(x, size, 40, seed)
    rng, out, dealt = np.random.default_rng([11, seed]), np.zeros(20), np.zeros(20)
    for _ in range(2):
        rows = rng.permutation(20)[:18].reshape(3, 6)
        for _ in range(20):
            turns = rng.integers(6, size=3)
            blocks = [[rows[j, (k - turns[j]) % 6] for j in range(3)] for k in range(6)]
            assert sorted(row for block in blocks for row in block) == sorted(rows.ravel().tolist())
            block_means = np.array([x[block].mean() for block in blocks])
            off = np.abs(block_means - np.median(block_means))
            for k, block in enumerate(blocks):
                dealt[block] += 1
                out[block] += off[k] > 3 * 1.4826 * np.median(off)
    np.testing.assert_allclose(scores, out / dealt)
    np.testing.assert_allclose(distances, np.abs(x - np.median(x)))


def test_planted_outliers_are_the_top_suspects():
    x = np.random.default_rng(4).normal(10.0, 1.0, size=5000)
    planted = [5, 77, 4000, 4999]
    x[planted] = [100.0, -80.0, 1e308, -1e308]
    found = suspects(columns(x), Asked(), "f", top=4)
    assert sorted(one.row - 1 for one in found.suspects) == planted
    assert all(one.score == 1.0 for one in found.suspects)
    assert found.typical < 0.1


def test_suspects_are_judged_within_their_group():
    labels = ["small"] * 300 + ["large"] * 300
    x = np.r_[np.random.default_rng(5).normal(0, 1, 300), np.random.default_rng(6).normal(1000, 1, 300)]
    x[7] = 1000.0  # ordinary in the other group
    (first,) = suspects(columns(x, labels), Asked(), "f", top=1).suspects
    assert (first.row, first.group, first.score) == (8, ("small",), 1.0)


def test_unreadable_cells_are_the_top_suspects():
    x = np.r_[np.random.default_rng(7).normal(size=200), np.nan, np.nan, np.inf, 50.0]
    found = suspects(columns(x, unreadable=[(201, "oops")]), Asked(), "f", top=3)
    assert [(one.row, one.text, one.value) for one in found.suspects] == [
        (202, "oops", None),
        (203, "inf", None),
        (204, "", 50.0),
    ]
    assert found.missing == 1


@pytest.mark.parametrize("values", [[1.0], [3.0] * 50, [np.nan] * 4])
def test_no_suspects_among_ordinary_rows(values):
    assert suspects(columns(values), Asked(), "f").suspects == []
