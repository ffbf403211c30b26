"""`outvote monitor`: a log replayed look by look."""

from __future__ import annotations

import json

import numpy as np
import pytest
from command_line import mistake, run

import outvote as ov


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("log") / "log.csv"
    lines = ["ts,variant,revenue,bought"]
    for i in range(6000):
        variant = "BA"[i % 2]
        revenue = 500 if i % 300 == 0 else rng.exponential(10 if variant == "A" else 14)
        lines.append(f"2026-03-{1 + i // 300:02d} 12:00,{variant},{revenue:.3f},{int(rng.random() < 0.2)}")
    rng.shuffle(lines[1:])
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_answer_is_that_of_a_monitor(log):
    out = run("monitor", log, "--value", "revenue", "--time", "ts", "--by", "variant", "--json", "--looks", "5")
    document = json.loads(out.stdout)
    assert document["command"] == "monitor"
    rows = [line.split(",") for line in log.read_text().splitlines()[1:]]
    monitor = ov.Monitor(n_plan=3000)
    for look in document["looks"]:
        monitor = ov.Monitor(n_plan=3000)
        for arm in "AB":
            x = [float(row[2]) for row in rows if row[1] == arm and row[0] <= look["time"]]
            monitor.update(x, arm=arm)
        assert look["n"] == monitor.n_rows
        assert look["value"]["low"] == pytest.approx(monitor.interval.low)
        assert look["decided"] == monitor.decided
    assert document["sentence"].startswith("difference > 0 is true: decided at 2026-03-")


def test_the_table_and_the_picture(log, tmp_path):
    figure = tmp_path / "looks.png"
    out = run(
        "monitor", log, "--value", "bought", "--proportion", "--time", "ts", "--claim", "mean > 0.1",
        "--looks", "3", "--figure", figure,
    )  # fmt: skip
    lines = out.stdout.splitlines()
    assert "hold at every look" in lines[0]
    assert lines[1].split() == ["ts", "rows", "mean", "low", "high", "decided"]
    assert [line.split()[-1] for line in lines[2:5]] == ["true"] * 3
    assert lines[5].startswith("mean > 0.1 is true: decided at 2026-03-")
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_without_a_claim_there_is_the_mean_alone(log):
    out = run("monitor", log, "--value", "revenue", "--time", "ts", "--looks", "1", "--csv")
    assert out.stdout.splitlines()[0].startswith("time,n,value_estimate")
    assert len(out.stdout.splitlines()) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--value", "revenue", "--time", "revenue"], "must be different columns"),
        (["--value", "revenue", "--time", "variant"], "neither a number nor a date"),
        (["--value", "revenue", "--time", "ts", "--by", "bought", "--baseline", "x"], "--baseline 'x'"),
        (["--value", "revenue", "--time", "ts", "--contamination", "auto"], "a share (0.01)"),
        (["--value", "revenue", "--time", "bought", "--by", "ts"], "a monitor compares two"),
    ],
)
def test_wrong_options_are_named(log, options, words, capsys):
    assert words in mistake(capsys, "monitor", log, *options)


def test_rows_without_a_time_are_refused(tmp_path, capsys):
    path = tmp_path / "log.csv"
    path.write_text("t,v\n1,2\n,3\n")
    assert "no value in 1 of 2 rows" in mistake(capsys, "monitor", path, "--value", "v", "--time", "t")


def test_an_arm_may_come_late(tmp_path):
    path = tmp_path / "log.csv"
    rows = [f"{t},{'A' if t < 60 else 'AB'[t % 2]},{t % 7}" for t in range(200)]
    path.write_text("t,g,v\n" + "\n".join(rows))
    out = run(
        "monitor", path, "--value", "v", "--time", "t", "--by", "g", "--bounds", "0", "6", "--looks", "4", "--json"
    )
    looks = json.loads(out.stdout)["looks"]
    assert looks[0]["value"]["low"] is None
    assert "only arm 'A'" in looks[0]["value"]["note"]
    assert looks[-1]["value"]["low"] is not None


def test_the_picture_does_not_replace_the_data(log, tmp_path, capsys):
    data = tmp_path / "rows.png"
    data.write_bytes(log.read_bytes())
    asked = ("monitor", data, "--format", "csv", "--value", "revenue", "--time", "ts", "--figure")
    link = tmp_path / "looks.png"
    link.symlink_to(data)
    for target, told in (
        (data, "is the file that is read"),
        (link, "is the file that is read"),
        ("-", "goes to a file"),
    ):
        with pytest.raises(ValueError, match=told):
            run(*asked, target)
    assert data.read_bytes() == log.read_bytes()
