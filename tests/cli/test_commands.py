"""The command line: output, exit codes, pipes and errors."""

import csv
import io
import json

import numpy as np
import pytest
from command_line import MEAN, mistake, run

import outvote
from outvote.cli import commands as cli

# --- mean ---------------------------------------------------------------------------------------------------


def test_table_shows_plain_and_robust_means(dirty):
    done = run("mean", dirty, *MEAN, "--by", "variant", "--contamination", "1%")
    assert done.exit_code == 0
    first, second = done.stderr.splitlines()
    assert "9 of the 25 rows that may be corrupt lie above" in first
    assert "are taken to be corrupt; if they are real, the mean is" in second
    title, heads, a, b = done.stdout.splitlines()
    assert title == "mean of revenue, 95 % intervals"
    assert heads.split() == ["variant", "rows", "plain", "robust", "low", "high", "holds", "survives"]
    label, *numbers = a.replace("2 ", "2", 1).split()
    assert label == "A"
    plain, robust, low, high = map(float, numbers[1:5])
    assert plain > 2 * high
    assert low < robust < high
    assert low < 30 < high
    assert numbers[5:7] == ["if", "sd"]
    assert b.startswith("B")


def test_json_has_the_documented_keys(dirty):
    done = run("mean", dirty, *MEAN, "--by", "variant", "--sd", 60, "--contamination", 25, "--json", "--sensitivity")
    found = json.loads(done.stdout)
    assert list(found) == [
        "outvote", "command", "contamination", "confidence", "assume", "vote", "nan", "seed", "source", "value", "by",
        "groups", "sensitivity", "caution", "complete",
    ]  # fmt: skip
    assert found["command"] == "mean"
    assert found["outvote"] == outvote.__version__
    assert found["contamination"] == 25
    assert found["assume"].startswith("FiniteVariance(sd=60.0")
    assert list(found["groups"][0]) == ["group", "n", "plain", "mean", "corrupt", "survives", "blocks", "vote"]
    assert list(found["groups"][0]["mean"]) == ["estimate", "low", "high", "radius", "provenance", "note", "premise_sd"]
    assert [line["group"] for line in found["groups"]] == [{"variant": "A"}, {"variant": "B"}]
    assert list(found["sensitivity"][0]) == ["group", "corrupt", "mean"]
    assert found["complete"] is True


def test_csv_has_the_documented_columns(dirty):
    done = run("mean", dirty, *MEAN, "--by", "variant", "--csv")
    lines = list(csv.DictReader(io.StringIO(done.stdout)))
    assert list(lines[0]) == [
        "variant", "n", "plain", "mean_estimate", "mean_low", "mean_high", "mean_radius", "mean_provenance",
        "mean_note", "mean_premise_sd", "corrupt", "survives", "blocks", "vote",
    ]  # fmt: skip
    assert [line["variant"] for line in lines] == ["A", "B"]
    levels = run("mean", dirty, *MEAN, "--csv", "--sensitivity").stdout.splitlines()
    assert levels[0].split(",")[:2] == ["corrupt", "mean_estimate"]
    assert len(levels) > 5


def test_row_id_makes_the_order_of_rows_irrelevant(dirty, tmp_path):
    head, *lines = dirty.read_text().splitlines(keepends=True)
    (tmp_path / "turned.csv").write_text(head + "".join(reversed(lines)))
    answers = [
        json.loads(run("mean", path, *MEAN, "--row-id", "id", "--json", "--by", "variant").stdout)["groups"]
        for path in (dirty, tmp_path / "turned.csv")
    ]
    for one, other in zip(*answers, strict=True):
        assert one["mean"]["estimate"] == pytest.approx(other["mean"]["estimate"], rel=1e-9)
    for option in ("--sensitivity", "--contamination=auto"):
        with pytest.raises(ValueError, match="--row-id leaves the rows in their files"):
            run("mean", dirty, *MEAN, "--row-id", "id", option)


def test_group_without_an_answer_gives_exit_code_1(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("v,k\n" + "".join(f"{i % 7},big\n" for i in range(200)) + "1,tiny\n2,\n")
    done = run("mean", path, "--value", "v", "--by", "k", "--contamination", 3)
    assert done.exit_code == 1
    assert "no answer" in done.stdout
    assert "(none)" in done.stdout
    assert done.stderr.startswith("outvote: tiny; (none): --contamination 3 means 3 corrupt rows among 1")
    single = run("mean", path, "--value", "v", "--by", "k", "--contamination", 0, "--json")
    assert single.exit_code == 1
    assert json.loads(single.stdout)["complete"] is False


# --- compare, plan, suspects --------------------------------------------------------------------------------


def test_compare_prints_table_and_tolerance(dirty):
    options = ("--value", "revenue", "--by", "variant", "--nan", "corrupt", "--sd", 60, "--contamination", 20)
    done = run("compare", dirty, *options)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("revenue: B (2 ")
    assert [line.split("  ")[0] for line in lines[2:5]] == [
        "difference of means",
        "relative lift",
        "probability of superiority",
    ]
    assert lines[-1].startswith("B is larger than A by ")
    assert " that it is larger stands unless more than " in lines[-1]
    found = json.loads(run("compare", dirty, *options, "--json", "--baseline", "B").stdout)
    (one,) = found["comparisons"]
    assert found["baseline"] == "B"
    assert one["other"] == "A"
    assert one["difference"]["high"] < 0
    assert one["superiority"]["high"] < 0.5
    assert one["tolerance"] > 4
    heads = run("compare", dirty, *options, "--vote", "median", "--csv").stdout.splitlines()[0].split(",")
    assert heads[:5] == ["other", "n_baseline", "n_other", "plain", "difference_estimate"]
    assert heads[-4:] == ["tolerance", "sentence", "settled", "note"]


def test_rows_without_a_variant_get_a_remark(tmp_path):
    path = tmp_path / "x.csv"
    rows = [f"{i % 11},{'ab'[i % 2]}\n" for i in range(400)]
    path.write_text("v,k\n" + "".join(rows) + "5,\n")
    done = run("compare", path, "--value", "v", "--by", "k")
    assert done.stderr == "outvote: 1 rows have no 'k' and are left out\n"


def test_plan_prints_its_explanation_and_options():
    done = run("plan", "--rows", 10000, "--contamination", ".02", "--confidence", ".99")
    assert done.exit_code == 0
    assert "10000 rows go into 909 blocks of 11." in done.stdout
    assert "radius, sd" in done.stdout
    assert "Half the radius cannot be guaranteed beforehand" in done.stdout
    scaled = run("plan", "--rows", 10000, "--contamination", 20, "--bounds", 0, 1, "--json")
    found = json.loads(scaled.stdout)
    assert found["assume"].startswith("Bounded(low=0.0, high=1.0")
    assert found["unit"] == ""
    assert found["rows_for_half"] > 10000
    assert list(found["options"][0]) == ["change", "rows", "corrupt", "blocks", "block_size", "vote", "radius"]
    lines = run("plan", "--rows", 100, "--sd", 2, "--csv").stdout.splitlines()
    assert lines[1].startswith("as asked,100,1,")
    assert "Half the radius needs" in run("plan", "--rows", 1000, "--contamination", 3, "--scale", 2).stdout


def test_suspects_lists_rows_of_the_file(dirty):
    done = run("suspects", dirty, "--value", "revenue", "--top", 21, "--csv")
    assert done.exit_code == 0
    assert done.stderr == "outvote: 3 rows have no value and are not listed\n"
    first, *others = csv.DictReader(io.StringIO(done.stdout))
    assert first == {"file": str(dirty), "row": "42", "value": "", "text": "12,50 EUR", "score": "1.0"}
    rows = dirty.read_text().splitlines()
    for one in others:
        assert float(rows[int(one["row"])].split(",")[-1]) == float(one["value"])
    assert sum(float(one["value"]) > 2000 for one in others) >= 17
    table = run("suspects", dirty, "--value", "revenue", "--by", "variant", "--top", 2).stdout.splitlines()
    assert table[1].split() == ["variant", "row", "revenue", "score"]
    assert table[2].split()[1] == "42"


def test_suspects_without_outliers_and_of_several_files(tmp_path):
    (tmp_path / "same.csv").write_text("v\n" + "3\n" * 50)
    assert run("suspects", tmp_path / "same.csv", "--value", "v").stdout == "no row of 50 stands out\n"
    empty = run("suspects", tmp_path / "same.csv", "--value", "v", "--csv").stdout
    assert empty == "file,row,value,text,score\n"
    for name in ("one", "two"):
        (tmp_path / f"{name}.csv").write_text("v\n" + "3\n4\n" * 50 + "1e9\n")
    several = run("suspects", tmp_path / "one.csv", tmp_path / "two.csv", "--value", "v", "--top", 2).stdout
    assert "one.csv" in several
    assert "two.csv" in several


# --- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--value", "revenu"], "--value 'revenu' is not a column: did you mean 'revenue'?"),
        (["--value", "revenue"], "'revenue' is not a number in row 42 of"),
        (["--value", "revenue", "--nan", "omit"], "take --nan corrupt, which counts such rows as corrupt"),
        ([*MEAN, "--by", "varient"], "--by 'varient' is not a column: did you mean 'variant'?"),
        ([*MEAN, "--contamination", "half"], "--contamination 'half' must be a share of the rows (0.01 or 1%)"),
        ([*MEAN, "--contamination", "2"], "allow at least 4"),
        ([*MEAN, "--confidence", "95"], "did you mean 0.95?"),
        ([*MEAN, "--sd", "1", "--scale", "2"], "--scale and --sd do not go together"),
        ([*MEAN, "--bounds", "1", "0"], "--bounds 1 0: the first must be smaller than the second"),
        ([*MEAN, "--json", "--csv"], "--json and --csv do not go together"),
        ([*MEAN, "--row-id", "variant"], "--row-id 'variant' is not a whole number in some rows"),
    ],
)
def test_invalid_options_print_one_line(capsys, dirty, arguments, told):
    assert told in mistake(capsys, "mean", dirty, *arguments)


def test_errors_name_options_not_arguments(capsys, tmp_path):
    (tmp_path / "x.csv").write_text("id,v\n1,1\n2,\n3,inf\n")
    told = mistake(capsys, "mean", tmp_path / "x.csv", "--value", "v", "--row-id", "id")
    assert "--nan corrupt counts such rows as corrupt" in told
    assert "nan_policy" not in told


#: Files that no command takes; and files with cells that are no numbers, which suspects lists.
UNUSABLE = [
    (b"", "x.csv is empty"),
    (b"k,v\na,\nb,NaN\n", "--value 'v' has no value in"),
    (b"k,v\na,red\nb,blue\n", "--value 'v' has no number, 'red' for instance, in"),
    (b"k;v\na;1,5\nb;2,5\n", "name a column of numbers (a comma: give --decimal ,"),
    ("k,v\nM\u00fcller,1\n".encode("latin-1"), "it is not text in UTF-8. Excel often writes cp1252: --encoding cp1252"),
    (b"k,v\n" + b"a,1\r\nb,2\n" * 20, r"its lines end in different ways, some with a carriage return: tr -d '\r' < "),
    (b"k,v\n" + b"a,1\rb,2\n" * 20, r"some with a carriage return: tr -s '\r' '\n' < "),
    (b"k,v\n" + b"a,1\n" * 20 + b"a,1,2,3\nb\n", "its first line names 'v', but the lines below do not fit it"),
]
ODD = [
    (b'k,v\na,1\nb,"1,234.5"\n', "'1,234.5'. Correct it (commas between thousands: remove them"),
    (b"k,v\na,1\nb,inf\n", "'v' is infinite in 1 of 2 rows (the first is row 2 of"),
]


@pytest.mark.parametrize(
    ("command", "content", "told"),
    [("mean", *case) for case in UNUSABLE + ODD]
    + [(command, *case) for command in ("suspects", "compare", "report") for case in UNUSABLE[1::3]],
)
def test_unusable_files_print_one_line_and_write_nothing(capsys, tmp_path, command, content, told):
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    by = ["--by", "k"] if command == "compare" else []
    page = ["-o", tmp_path / "x.html"] if command == "report" else []
    assert told in mistake(capsys, command, path, "--value", "v", *by, *page)
    assert [one.name for one in tmp_path.iterdir()] == ["x.csv"]


@pytest.mark.parametrize(
    "content",
    [
        b"k;v\r\na;1\r\nb;2\r\nc;4\r\n",
        b'k,note,v\na,"two\nlines, ""quoted""",1\nb,,2\nc,,4\n',
        b"# exported\n# by hand\nk,v\na,1\nb,2\nc,4\n",
    ],
    ids=["semicolons", "newlines in quotes", "comments"],
)
def test_unusual_csv_files_are_read(tmp_path, content):
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    (group,) = json.loads(run("mean", path, "--value", "v", "--json").stdout)["groups"]
    assert (group["n"], group["plain"]) == (3, pytest.approx(7 / 3))


def test_comparing_a_column_with_itself_raises(capsys, dirty):
    assert "are the same column" in mistake(capsys, "compare", dirty, *MEAN, "--by", "revenue")


def test_notes_name_options_not_arguments(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("k,v\n" + "a,5\nb,5\n" * 20)
    done = run("compare", path, "--value", "v", "--by", "k")
    assert done.exit_code == 1
    assert "assume" not in done.stderr
    assert "--bounds LOW HIGH, --sd SD, or --proportion for rows of 0 and 1" in done.stderr
    assert "The mean of the baseline may be 0" in done.stderr


def test_sentence_of_a_comparison_that_does_not_stand(tmp_path):
    path, low, high = tmp_path / "x.csv", "B", "A"
    rows = [f"{low},{i % 7}\n{high},{i % 7}\n" for i in range(60)]
    path.write_text("k,v\n" + "".join(rows) + f"{high},1e6\n" * 20)
    options = ("--value", "v", "--by", "k", "--json")
    (found,) = json.loads(run("compare", path, *options, "--contamination", 22).stdout)["comparisons"]
    assert found["sentence"].startswith("At most 19 corrupt rows does not fit these 140 rows if the clean rows' sd is")
    unsettled = "With 44 corrupt rows (--contamination 22) it is not settled whether B or A is larger."
    assert found["sentence"].endswith(unsettled)
    assert found["tolerance"] is None


def test_sentence_of_a_comparison_that_stands_for_fewer_rows(tmp_path):
    path, rng = tmp_path / "x.csv", np.random.default_rng(0)
    rows = [f"A,{a:.4f}\nB,{b:.4f}\n" for a, b in zip(rng.normal(size=500), rng.normal(0.6, size=500), strict=True)]
    path.write_text("k,v\n" + "".join(rows))
    options = ("--value", "v", "--by", "k", "--json", "--contamination", 60)
    (found,) = json.loads(run("compare", path, *options).stdout)["comparisons"]
    start = "With 120 corrupt rows (--contamination 60) it is not settled whether B or A is larger; if no more than "
    assert found["sentence"].startswith(start)
    assert " of the 1 000 rows were corrupt, B would be larger than A (if the clean rows' sd is" in found["sentence"]
    assert "another --contamination reads off another sd, --sd " in found["sentence"]


def test_rows_that_contradict_an_sd_are_told_once(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("k,v\n" + "".join(f"A,{i % 7}\nB,{i % 7}\n" for i in range(300)) + "B,1e6\n" * 9)
    options = ("--value", "v", "--by", "k", "--contamination", 2, "--sd", 3)
    done = run("compare", path, *options)
    assert done.exit_code == 1
    assert "the rows contradict" in done.stderr
    assert "larger" not in done.stdout
    with pytest.raises(ValueError, match="the rows contradict"):
        run("report", path, *options, "-o", tmp_path / "x.html")


def test_without_an_interval_a_table_has_no_number(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("k,v\n" + "".join(f"A,{i % 7}\nB,{i % 7}\n" for i in range(300)) + "A,1e6\nB,1e6\n" * 9)
    done = run("compare", path, "--value", "v", "--by", "k", "--contamination", 4)
    assert "look as if more than 4 rows were corrupt" in done.stderr
    assert "--contamination 9" in done.stderr
    path.write_text("k,v\n" + "A,5\nB,5\n" * 99)
    (line,) = [
        line for line in run("compare", path, "--value", "v", "--by", "k").stdout.splitlines()
        if line.startswith("difference of means")
    ]  # fmt: skip
    assert line.split()[4:] == ["–", "–", "–", "none"]


def test_of_a_proportion_other_values_are_told_and_not_averaged(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("k,v\n" + "".join(f"{'AB'[i % 2]},{int(i % 5 == 0)}\n" for i in range(1000)) + "A,70\nB,70\n")
    done = run("mean", path, "--value", "v", "--proportion", "--json")
    (line,) = json.loads(done.stdout)["groups"]
    assert line["plain"] == 0.2
    done = run("compare", path, "--value", "v", "--by", "k", "--proportion")
    assert "2 rows are neither 0 nor 1: counted as corrupt." in done.stderr


def test_comparison_starts_at_the_contamination(tmp_path):
    path = tmp_path / "x.csv"
    rows = [f"A,{10 + i % 3}\nB,{i % 3}\n" for i in range(200)]
    path.write_text("k,v\n" + "".join(rows) + "B,20000\n" * 12)
    options = ("--value", "v", "--by", "k", "--json", "--contamination", 16)
    (found,) = json.loads(run("compare", path, *options).stdout)["comparisons"]
    assert found["difference"]["high"] < 0
    assert found["tolerance"] > 32  # those allowed for in both
    assert found["sentence"].startswith("A is larger than B by ")


@pytest.mark.parametrize(
    ("options", "assume"),
    [
        (["--sd", 2, "--bounds", 0, 10], outvote.Bounded(0.0, 10.0, variance=4.0)),
        (["--sd", 2, "--kurtosis", 5], outvote.FiniteKurtosis(5.0, 2.0)),
        (["--scale", 2], outvote.SubGaussian(2.0)),
        ([], None),
    ],
)
def test_options_become_an_assumption(options, assume):
    found = json.loads(run("plan", "--rows", 1000, *options, "--json").stdout)["assume"]
    assert found == (None if assume is None else repr(assume))


@pytest.mark.parametrize(("text", "amount"), [("50", 50), ("1%", 0.01), ("1e-3", 0.001), ("auto", "auto")])
def test_contamination_is_a_count_a_share_or_auto(dirty, text, amount):
    found = json.loads(run("mean", dirty, *MEAN, "--contamination", text, "--json").stdout)["contamination"]
    assert (found, type(found)) == (amount, type(amount))


def test_internal_errors_keep_their_traceback(monkeypatch):
    def broken(*_, **__):
        return np.zeros(3).reshape(2, 2)  # raised by numpy, and nobody's wrong argument

    monkeypatch.setattr("outvote.cli.plan.plan", broken)
    with pytest.raises(ValueError, match="cannot reshape"):
        cli.main(["plan", "--rows", "10"])


def test_memory_error_prints_one_line(monkeypatch, capsys):
    def large(*_, **__):
        raise MemoryError

    monkeypatch.setattr("outvote.cli.plan.plan", large)
    assert mistake(capsys, "plan", "--rows", "10") == "MemoryError"


def test_csv_quotes_every_end_of_a_line(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b'k,v\n"a\rb",1\n"a\nb",2\n"a\r\nb",3\nplain,4\n')
    text = run("mean", path, "--value", "v", "--by", "k", "--csv").stdout_bytes.decode()
    lines = list(csv.reader(io.StringIO(text, newline="")))
    assert sorted(line[0] for line in lines[1:]) == ["a\nb", "a\r\nb", "a\rb", "plain"]
    assert len({len(line) for line in lines}) == 1
