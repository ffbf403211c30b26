"""Running experiments: seeds, progress, files, resuming, and the command."""

import csv
import importlib.metadata
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from outvote import _numba
from outvote.cli.commands import app, main
from outvote.paper.experiments import NAMES, Experiment, Finding, Piece, get
from outvote.paper.experiments.base import Outcome
from outvote.paper.experiments.running import load, parameters_of, resumable, run, save


def test_every_name_gives_its_experiment():
    for name in NAMES:
        experiment = get(name)
        assert experiment.name == name
        assert experiment.runs >= experiment.quick_runs >= 1
        assert experiment.beyond == (NAMES.index(name) >= NAMES.index("coverage"))


def test_unknown_name_raises_with_the_nearest():
    with pytest.raises(ValueError, match="no experiment is called 'ruin-meen': did you mean 'ruin-mean'"):
        get("ruin-meen")
    with pytest.raises(ValueError, match="the names are block-pictures, mappings"):
        get("xyz")


def test_quick_runs_do_not_use_compiled_forms():
    """Even where compiled forms are loaded already: their last digits would tell."""
    assert _numba.compiled(math.inf) is not None
    seen = []
    watched = replace(
        get("ruin-mean"),
        measure=lambda rng, **settings: (
            seen.append(_numba.compiled(math.inf)) or get("ruin-mean").measure(rng, **settings)
        ),
    )
    for quick in (True, False):
        run(watched, runs=2, quick=quick)
        assert all((found is None) == quick for found in seen)
        seen.clear()


def test_results_depend_on_the_seed():
    experiment = get("ruin-mean")
    one, again, other = (run(experiment, runs=6, quick=True, seed=seed).tables for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_progress_runs_from_zero_to_the_total():
    seen = []
    run(get("ruin-mean"), runs=2, quick=True, progress=lambda done, total: seen.append((done, total)))
    assert seen[0][0] == 0
    assert seen[-1][0] == pytest.approx(seen[-1][1])
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def measure(rng, *, low):
    return [{"value": low + float(rng.uniform()), "missing": np.float64("nan"), "n": np.int64(3)}]


def measure_streams(rngs, *, lows):
    return [record for rng, low in zip(rngs, lows, strict=True) for record in measure(rng, low=low)]


def test_piece_of_many_streams_equals_many_pieces(small):
    def pieces(size):
        return [Piece({"lows": lows}, streams=len(lows)) for lows in ([0.0, 1.0, 2.0], [3.0, 4.0])]

    bundled = replace(small, pieces=pieces, measure=measure_streams)
    values = [[row["value"] for row in run(one).tables["small"]] for one in (small, bundled)]
    assert len(values[0]) == 5
    assert values[0] == values[1]


@pytest.fixture
def small():
    """An experiment with two tables, one of them empty, and numbers that JSON does not know."""

    def draw(tables):
        from outvote.plotting.base import new_axes

        ax = new_axes()
        ax.plot([row["value"] for row in tables["small"]])
        return ax.figure

    return Experiment(
        name="small",
        title="Small",
        where="beyond the paper",
        runs=5,
        quick_runs=2,
        pieces=lambda size: [Piece({"low": float(i)}) for i in range(size.runs)],
        measure=measure,
        tabulate=lambda records: {"small": records, "small.empty": []},
        draw=draw,
        judge=lambda tables: [Finding("it rises", "holds", f"{len(tables['small'])} values", "")],
    )


def test_saved_outcome_can_be_loaded(small, tmp_path):
    outcome = run(small)
    files = save(outcome, small, tmp_path / "new")
    assert sorted(path.name for path in files) == sorted(os.listdir(tmp_path / "new"))
    assert {path.name for path in files} == {"small.png", "small.svg", "small.csv", "small.empty.csv", "small.json"}
    document = json.loads((tmp_path / "new" / "small.json").read_text())
    assert document["parameters"] == {"runs": 5, "seed": 0, "quick": False}
    assert document["versions"]["numpy"] == np.__version__
    assert document["verdict"] == "holds"
    assert document["paragraph"] == "Claim: it rises. Measured: 5 values. It holds."
    with (tmp_path / "new" / "small.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [float(line["value"]) for line in lines] == [row["value"] for row in outcome.tables["small"]]
    again = load(small, tmp_path / "new")
    assert [row["value"] for row in again.tables["small"]] == [row["value"] for row in outcome.tables["small"]]
    assert again.tables["small"][0]["missing"] is None
    assert again.findings == outcome.findings


def test_svg_figures_are_reproducible(small, tmp_path):
    for folder in ("one", "two"):
        save(run(small), small, tmp_path / folder)
    assert (tmp_path / "one" / "small.svg").read_bytes() == (tmp_path / "two" / "small.svg").read_bytes()


def test_incomplete_outcome_is_not_loaded(small, tmp_path):
    assert load(small, tmp_path) is None
    save(run(small), small, tmp_path)
    (tmp_path / "small.png").unlink()
    assert load(small, tmp_path) is None
    save(run(small), small, tmp_path)
    (tmp_path / "small.json").write_text('{"experiment": "sma')
    assert load(small, tmp_path) is None
    (tmp_path / "small.json").write_text('{"experiment": "small"}')
    assert load(small, tmp_path) is None


def test_only_an_outcome_of_the_same_parameters_is_resumed(small):
    outcome, asked = run(small, quick=True), parameters_of(small, runs=None, seed=0, quick=True)
    assert resumable(outcome, asked)
    assert not resumable(None, asked)
    for other in ({"runs": 3, "seed": 0, "quick": True}, {"runs": None, "seed": 1, "quick": True}):
        assert not resumable(outcome, parameters_of(small, **other))
    older = Outcome(**{**vars(outcome), "versions": {**outcome.versions, "outvote": "0.0.1"}})
    assert not resumable(older, asked)


def test_experiments_without_randomness_take_one_run():
    for name in ("mappings", "table-constants", "radius"):
        assert parameters_of(get(name), runs=50, seed=0, quick=False)["runs"] == 1


def test_verdict_of_several_findings():
    for given, together in (("h", "holds"), ("hd", "holds in part"), ("d", "does not hold")):
        findings = [Finding("c", {"h": "holds", "d": "does not hold"}[one], "m") for one in given]
        assert Outcome("e", "t", "w", {}, {}, findings).verdict == together


def refused(capsys, *arguments):
    """Return what one line on stderr says of a user's mistake."""
    with pytest.raises(SystemExit) as stopped:
        main([str(one) for one in arguments])
    printed = capsys.readouterr()
    assert (stopped.value.code, printed.out) == (2, "")
    return printed.err


def test_mistakes_print_one_line(capsys, tmp_path):
    unknown = "outvote: no experiment is called 'ruin-meen': did you mean 'ruin-mean'?\n"
    assert refused(capsys, "reproduce", "ruin-meen", "-o", tmp_path) == unknown
    for jobs in (0, 10**8):
        said = f"outvote: --jobs {jobs} must be a number of jobs from 1 to 10000, or -1 for all processors\n"
        assert refused(capsys, "reproduce", "ruin-mean", "--jobs", jobs, "-o", tmp_path / "out") == said
        assert not list(tmp_path.iterdir())


def test_version_and_list_of_experiments():
    command = [sys.executable, "-m", "outvote", "--version"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == f"outvote {importlib.metadata.version('outvote')}\n"
    listed = invoke(["reproduce", "--list"]).output
    assert all(name in listed for name in NAMES)


def test_missing_typer_prints_the_install_command():
    code = "import sys; sys.modules['typer'] = None; import outvote.cli.commands"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "the command line needs typer and rich: pip install typer rich\n"


def invoke(arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_finished_experiments_are_kept(tmp_path):
    asked = ["reproduce", "ruin-mean", "ruin-median", "--quick", "--runs", 3, "-o", tmp_path]
    first = invoke(asked)
    assert first.exit_code == 0, first.output
    for name in ("ruin-mean", "ruin-median"):
        for suffix in ("png", "svg", "csv", "json"):
            assert (tmp_path / f"{name}.{suffix}").stat().st_size > 100
    assert "ruin-mean" in (tmp_path / "index.html").read_text()
    assert "ruin-mean" in (tmp_path / "report.md").read_text()
    written = (tmp_path / "ruin-mean.json").read_bytes()
    second = invoke(asked)
    assert second.output.count("kept from before") == 2
    assert (tmp_path / "ruin-mean.json").read_bytes() == written
    (tmp_path / "ruin-mean.png").unlink()
    third = invoke(asked)
    assert third.output.count("kept from before") == 1
    fresh = invoke([*asked, "--fresh", "--seed", 1])
    assert "kept from before" not in fresh.output
    assert json.loads((tmp_path / "ruin-mean.json").read_text())["parameters"] == {"runs": 3, "seed": 1, "quick": True}


def test_missing_data_do_not_stop_other_experiments(tmp_path, monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    from outvote.paper.experiments import learning

    for cached in (value for value in vars(learning).values() if hasattr(value, "cache_clear")):
        cached.cache_clear()
    done = invoke(["reproduce", "ranking-table", "table-constants", "--quick", "-o", tmp_path])
    assert done.exit_code == 1
    assert "ranking-table" in done.output
    assert "pip install" in done.output
    assert (tmp_path / "table-constants.json").is_file()
    assert not (tmp_path / "ranking-table.json").exists()


def test_interrupt_keeps_finished_experiments(tmp_path):
    command = [sys.executable, "-m", "outvote", "reproduce", "table-constants", "ruin-mean", "--runs", "20000"]
    command += ["--jobs", "2", "-o", str(tmp_path)]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    for _ in range(600):
        if (tmp_path / "table-constants.json").exists() or running.poll() is not None:
            break
        time.sleep(0.1)
    time.sleep(0.5)
    os.killpg(running.pid, signal.SIGINT)
    printed, _ = running.communicate(timeout=60)
    assert running.returncode == 130, printed
    assert "1 of 2 experiments are finished and kept" in " ".join(printed.split())
    assert "Traceback" not in printed
    left = set(os.listdir(tmp_path))
    assert {"table-constants.json", "index.html", "report.md"} <= left
    assert not any(name.startswith((".", "ruin-mean")) for name in left)
    again = invoke(["reproduce", "table-constants", "-o", tmp_path])
    assert again.exit_code == 0
    assert "kept from before" in again.output
