"""The benchmark scripts: their lists, broken jobs, pages and figures; nothing is timed here."""

import importlib
import itertools
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def module(name):
    return importlib.import_module(f"benchmarks.{name}")


def results(**changes):
    row = {"job": "a | b", "against": "np.mean", "target": 2.0, "unit": "ratio", "ours_s": 3e-3, "theirs_s": 2e-3}
    row |= {"figure": 1.5, "met": True, "calls": 4}
    broken = {"job": "c", "against": "", "target": None, "unit": "ns a pair", "error": "ValueError: no"}
    case = {"case": "mean", "n_rows": 1000, "input_bytes": 8000, "traced_bytes": 9000, "rss_bytes": 0}
    case |= {"share": 1.125, "target": 0.02, "met": False}
    found = {"complete": True, "quick": False, "seconds": 90.0, "versions": {"numpy": "2.0"}, "cpus": 2, "load": 1.0}
    found |= {"rows": {"Means": [row, broken]}, "peers": [], "memory": [case], "growth": []}
    return found | changes


def test_names_are_unique_and_can_be_chosen_and_listed(capsys):
    run = module("run")
    for quick in (True, False):
        names = run.Suite(quick).names()
        assert len(set(names)) == len(names) > 80
    names = run.Suite(True, ["memory: TOLERANCE", "kendall of"]).names()
    assert [name.split(":")[0] for name in names] == ["Pairs within one sample"] * 2 + ["memory"]
    assert run.main(["--quick", "--list", "--only", "import outvote"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_broken_job_does_not_stop_the_others():
    measure = module("measure")
    times, failed = measure.in_turns([lambda: 1 / 0, lambda: 1], budget=-1.0, least=3)
    assert times[0] == []
    assert len(times[1]) == 3
    assert failed == {0: "ZeroDivisionError: division by zero"}
    assert "error" in measure.measure(measure.Row("job", "", None, lambda: 1 / 0), budget=0.0)
    times, _ = measure.in_turns([lambda: None], budget=0.0, patience=-1.0)  # a slow job is called once
    assert len(times[0]) == 1
    assert measure.without_paths("no 'x' from 'y' (/home/me/src/y.py)") == "no 'x' from 'y' (y.py)"
    assert measure.without_paths("a/b is 1/2, 3 / 4, a/b/c") == "a/b is 1/2, 3 / 4, a/b/c"


def test_page_is_written_between_its_markers(tmp_path):
    report = module("report")
    source, page = tmp_path / "bench.json", tmp_path / "page.md"
    report.write_json(source, results())
    page.write_text(f"above\n{report.BEGIN}\nold\n{report.END}\nbelow\n", encoding="utf-8")
    report.write_page(source, page)
    once = page.read_text(encoding="utf-8")
    assert once.startswith("above\n")
    assert once.endswith("below\n")
    assert "old" not in once
    assert "| a \\| b | np.mean | 3.00 ms | 2.00 ms | 1.50 | ≤ 2 | met |" in once
    assert "1 of 2 targets met, 1 failed to run" in once
    report.write_page(source, page)
    assert page.read_text(encoding="utf-8") == once
    assert report.busy(results()) == ""
    assert "load up to 5 on 2 cores" in report.markdown(results(load=5.0))


def test_interrupted_run_is_not_written_to_the_page(tmp_path):
    report = module("report")
    source, page = tmp_path / "bench.json", tmp_path / "page.md"
    with pytest.raises(SystemExit, match="make bench first"):
        report.write_page(source, page)
    source.write_text(json.dumps(results(complete=False)), encoding="utf-8")
    with pytest.raises(SystemExit, match="interrupted"):
        report.write_page(source, page)
    report.write_json(source, results())
    page.write_text("no markers", encoding="utf-8")
    with pytest.raises(SystemExit, match="once each"):
        report.write_page(source, page)
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert text.count(report.BEGIN) == text.count(report.END) == 1


def test_labels_of_the_figure_do_not_overlap():
    for heights in ([0.0, 0.0, 0.0], [0.1, 0.9], [1.0, 1.0], [0.5]):
        moved = module("figure").spread(heights)
        assert all(b - a > 0.05 for a, b in itertools.pairwise(moved))
        assert 0 <= min(moved) <= max(moved) <= 1


def test_figure_is_saved_as_png_and_svg(tmp_path):
    points = [{"n_rows": n, "ns_a_row": 1e5 / n} for n in (1000, 10_000)]
    curves = [{"method": "np.mean", "ours": False, "points": points}]
    curves += [{"method": "ov.mean, uniform", "ours": True, "points": []}]
    assert module("figure").draw(curves, tmp_path / "bench.json") == ["bench.png", "bench.svg"]
    assert {path.name for path in tmp_path.iterdir()} == {"bench.png", "bench.svg"}
