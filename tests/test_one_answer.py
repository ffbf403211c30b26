"""Two ways to ask the same question give the same answer."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import outvote as ov
from outvote.cli.commands import app


def run(*arguments):
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(
    ("n_rows", "effect", "options"),
    [(400, 0.6, ["--sd", "1"]), (300, 0.9, []), (200, 0.9, ["--seed", "3", "--contamination", "3"])],
)
def test_compare_and_report_count_the_same_rows(tmp_path, n_rows, effect, options):
    rng = np.random.default_rng(n_rows)
    values = np.r_[rng.normal(9, size=n_rows), rng.normal(9 + effect, size=n_rows)].round(6)
    path = tmp_path / "x.csv"
    pd.DataFrame({"k": np.repeat(["A", "B"], n_rows), "v": values}).to_csv(path, index=False)
    asked = (path, "--value", "v", "--by", "k", *options)
    (compared,) = json.loads(run("compare", *asked, "--json"))["comparisons"]
    assert compared["tolerance"] > 0
    words = run("report", *asked, "-o", tmp_path / "r.html").replace("\u00a0", " ")
    counted = f"{compared['tolerance']:,}".replace(",", " ")
    assert f"more than {counted} corrupt rows" in words or f"at most {counted} rows" in words


def test_every_level_is_computed_once(tmp_path, monkeypatch):
    from outvote.estimate import tolerance

    seen = []
    monkeypatch.setattr(tolerance, "_mean_at", counted(tolerance._mean_at, seen))
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"k": np.repeat(list("ABC"), 300), "v": rng.normal(size=900) + np.repeat([0, 1, 2], 300)})
    frame.to_csv(tmp_path / "x.csv", index=False)
    asked = ("--value", "v", "--by", "k", "--sd", "1", "--vote", "soft")
    run("report", tmp_path / "x.csv", *asked, "-o", tmp_path / "r.html")
    assert seen
    assert len(seen) == len(set(seen))


def counted(function, seen):
    def call(sample, share, adversary, own, count):
        seen.append((sample.tobytes(), count))
        return function(sample, share, adversary, own, count)

    return call


CELLS = ["1.5", "n/a", "2.5", "NA", "", " 4 ", "true", "false", "1e3"]


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_the_command_and_scan_read_the_same_cells(tmp_path, kind):
    path = tmp_path / f"x.{kind}"
    rows = [{"v": cell, "k": "ab"[i % 2]} for i, cell in enumerate(CELLS * 20)]
    mark = {"csv": ",", "tsv": "\t"}.get(kind)
    lines = (
        [json.dumps(row) for row in rows] if mark is None else [f"v{mark}k", *(mark.join(row.values()) for row in rows)]
    )
    path.write_text("\n".join(lines) + "\n")
    options = {"contamination": 2, "nan_policy": "omit", "rng": 0}
    values = np.array([1.5, np.nan, 2.5, np.nan, np.nan, 4.0, 1.0, 0.0, 1000.0] * 20)
    found = ov.scan(path).mean("v", **options)
    assert found.estimate == pytest.approx(ov.mean(values, **options).estimate)
    whole = json.loads(run("mean", path, "--value", "v", "--nan", "omit", "--contamination", 2, "--json"))["groups"][0]
    assert whole["n"] == found.plan.n_rows == 120
    assert whole["plain"] == pytest.approx(np.nanmean(values))
    answer = ov.scan(path).mean("v", by="k", **options)
    groups = json.loads(run("mean", path, "--value", "v", "--by", "k", "--nan", "omit", "--contamination", 2, "--json"))
    assert answer["k"].tolist() == [line["group"]["k"] for line in groups["groups"]] == ["a", "b"]
    assert answer["n"].tolist() == [line["n"] for line in groups["groups"]]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_the_command_and_scan_refuse_the_same_cell(tmp_path, kind):
    path, cells = tmp_path / f"x.{kind}", ["1", "2", "twelve", "3"]
    path.write_text("v\n" + "\n".join(cells) if kind == "csv" else "".join(f'{{"v": "{c}"}}\n' for c in cells))
    with pytest.raises(ValueError, match=r"'v' is not a number in row 3 of .*: 'twelve'"):
        ov.scan(path).mean("v", contamination=1)
    result = CliRunner().invoke(app, ["mean", str(path), "--value", "v"])
    assert "'v' is not a number in row 3 of" in str(result.exception)


def test_the_command_and_scan_read_the_same_formats(tmp_path):
    frame = pd.DataFrame({"v": np.random.default_rng(0).normal(size=200)})
    for kind in ("csv", "tsv", "txt", "jsonl", "ndjson", "parquet", "pq", "arrow", "feather"):
        path = tmp_path / f"x.{kind}"
        if kind in ("csv", "tsv", "txt"):
            frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
        elif kind in ("jsonl", "ndjson"):
            frame.to_json(path, orient="records", lines=True, double_precision=15)
        else:
            (frame.to_parquet if kind in ("parquet", "pq") else frame.to_feather)(path)
        plain = json.loads(run("mean", path, "--value", "v", "--json"))["groups"][0]["plain"]
        assert plain == pytest.approx(frame["v"].mean()), kind
        assert ov.scan(path).mean("v", rng=0).plain == pytest.approx(frame["v"].mean()), kind


ASKED = {
    "means": ({}, []),
    "a ratio by user": ({"ratio": "sessions", "unit": "user"}, ["--ratio", "sessions", "--unit", "user"]),
    "adjusted": ({"covariate": "before"}, ["--covariate", "before"]),
    "adjusted by a given coefficient": (
        {"covariate": "before", "coefficient": 0.5, "unit": "user"},
        ["--covariate", "before", "--coefficient", "0.5", "--unit", "user"],
    ),
}


@pytest.mark.parametrize("question", ASKED)
def test_every_way_to_ask_gives_one_verdict(tmp_path, question):
    """A table in Python, the command, the report, and the functions for arrays."""
    rng = np.random.default_rng(1)
    user = rng.integers(0, 500, 900)
    arm, before = rng.choice(["old", "new"], 500), rng.gamma(2.0, 10.0, 500).round(3)
    frame = pd.DataFrame(
        {"user": user, "arm": arm[user], "sessions": rng.poisson(2.0, 900) + 1.0, "before": before[user]}
    )
    gain = np.where(frame["arm"] == "new", 9.0, 6.0)
    frame["spent"] = (gain * frame["sessions"] + 0.5 * frame["before"] + rng.normal(0, 4, 900)).round(3)
    frame.loc[:3, "spent"] = 1e5
    options, words = ASKED[question]
    known = {"contamination": 6, "assume": ov.FiniteVariance(40.0)}
    (line,) = ov.difference(frame, value="spent", by="arm", baseline="old", **known, **options).itertuples()
    path = tmp_path / "x.csv"
    frame.to_csv(path, index=False)
    asked = (path, "--value", "spent", "--by", "arm", "--baseline", "old", "--contamination", 6, "--sd", 40, *words)
    (found,) = json.loads(run("compare", *asked, "--json"))["comparisons"]
    gap, lift = found["difference"], found["lift"]
    assert (gap["estimate"], gap["low"], gap["high"]) == pytest.approx((line.estimate, line.low, line.high), rel=1e-6)
    assert (lift["low"], lift["high"]) == pytest.approx((line.lift_low, line.lift_high), rel=1e-6)
    assert (found["tolerance"], found["settled"]) == (line.tolerance, line.settled)
    assert (found["n_other"], found["n_baseline"]) == (line.n, line.baseline_n)
    said = run("report", *asked, "-o", tmp_path / "r.html").replace("\u00a0", " ")
    page = (tmp_path / "r.html").read_text("utf-8")
    assert f"{line.tolerance:,}".replace(",", " ") in said
    assert ('<th scope="row">new</th><td>not settled</td>' in page) == (not line.settled)
    sums = frame.groupby(["arm", "user"], as_index=False).agg({"sessions": "sum", "spent": "sum", "before": "first"})
    rows = sums if "unit" in options else frame
    pair = [rows[rows["arm"] == one] for one in ("old", "new")]
    metric = {}
    if "ratio" in options:
        samples, metric = [one[["sessions", "spent"]].to_numpy() for one in pair], {"ratio": True}
    else:
        samples = [one["spent"].to_numpy() for one in pair]
    if "covariate" in options:
        metric = {"covariate": [one["before"].to_numpy() for one in pair], "coefficient": options.get("coefficient")}
    difference = ov.difference(*samples, **known, **metric)
    assert tuple(difference.interval) == pytest.approx((line.low, line.high), rel=1e-6)
    tolerance = ov.tolerance(*samples, **known, **metric)
    assert tolerance.rows == line.tolerance
    assert tuple(tolerance.estimate.interval) == pytest.approx((line.low, line.high), rel=1e-6)
    assert line.settled == (tolerance.rows >= 12) == (difference.interval.low > 0)
