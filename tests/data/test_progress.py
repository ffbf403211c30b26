"""How far a long loop has come is shown on a terminal, after two seconds, and leaves nothing behind."""

import io
import itertools
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import outvote as ov
from outvote.data import progress
from outvote.data.progress import unwatched, watched
from outvote.votes.evidence import grid as counting
from outvote.votes.evidence import tallies_of_columns


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A terminal, and a clock that runs half a second whenever it is read."""
    clock = itertools.count()
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock) / 2)
    found = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=found, modules=sys.modules))
    return found


def taken(items):
    with watched(items, "working") as each:
        return list(each)


def test_nothing_is_shown_in_the_first_two_seconds(terminal):
    assert taken("abc") == ["a", "b", "c"]
    assert terminal.getvalue() == ""


def test_then_a_line_says_how_far_it_has_come_and_is_erased_in_the_end(terminal):
    assert taken(range(10)) == list(range(10))
    lines = terminal.getvalue().split("\r\x1b[K")
    assert lines[1] == "outvote: working, 30 %"
    assert lines[-1] == ""


def test_a_pipe_a_notebook_or_no_stream_at_all_show_nothing(monkeypatch, terminal):
    pipe = io.StringIO()
    for stream in (pipe, None):
        monkeypatch.setattr(progress.sys, "stderr", stream)
        assert taken(range(10)) == list(range(10))
    assert pipe.getvalue() == ""


def test_other_threads_and_processes_show_nothing(monkeypatch, terminal):
    thread = threading.Thread(target=taken, args=(range(10),))
    thread.start()
    thread.join()
    assert terminal.getvalue() == ""
    import multiprocessing.process as processes

    monkeypatch.setattr(processes.current_process(), "_name", "LokyProcess-1")
    assert taken(range(10)) == list(range(10))
    assert terminal.getvalue() == ""


def test_loops_inside_of_others_show_nothing(terminal):
    with unwatched():
        taken(range(10))
    assert terminal.getvalue() == ""
    with watched(range(2), "outside") as outside:
        for _ in outside:
            taken(range(10))
    assert "working" not in terminal.getvalue()


def test_an_interrupted_loop_leaves_nothing_behind(terminal):
    def interrupted():
        with watched(range(10), "working") as each:
            for i in each:
                if i == 5:
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted()
    assert caught.traceback
    assert "working" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
    terminal.truncate(0)
    taken(range(10))
    assert "working" in terminal.getvalue()


def test_rows_are_counted_in_parts_with_the_same_numbers(monkeypatch, terminal):
    table = np.random.default_rng(0).normal(size=(20_000, 3))
    grids = [counting.Grid.of(table[:1000, j]) for j in range(3)]
    whole = tallies_of_columns(table, grids)
    for name in ("_INTERRUPTIBLE", "_EXACT", "_AT_ONCE"):
        monkeypatch.setattr(counting, name, 999)
    parts = tallies_of_columns(table, grids)
    assert "outvote: counting rows, " in terminal.getvalue()
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_calls_show_it(monkeypatch, terminal):
    monkeypatch.setattr(counting, "_INTERRUPTIBLE", 1000)
    monkeypatch.setattr(counting, "_EXACT", 1000)
    x = np.random.default_rng(0).normal(size=20_000)
    silent = ov.mean(x)
    assert "counting rows" in terminal.getvalue()
    assert silent.estimate == ov.mean(x).estimate
    ov.sensitivity(x[:500], assume=ov.FiniteVariance(1.0), vote="median", rng=0)
    assert "numbers of corrupt rows" in terminal.getvalue()
