"""Ctrl-C: long work stops within a moment, says so in the usual way, and leaves nothing half-written."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is sent as a signal")

START = """
import duckdb, numpy as np, pandas as pd, outvote as ov  # an import of DuckDB does not survive Ctrl-C
x = np.random.default_rng(0).normal(size=(40_000, 5))
frame = pd.DataFrame({"v": x[:, 0], "k": np.arange(len(x)) % 500})
frame.to_csv("rows.csv", index=False)
print("ready", flush=True)
while True:
    """
LONG = {
    "fit": "ov.RobustRegressor(max_iter=500, tol=0).fit(x, x[:, 0])",
    "means": "ov.mean(x)",
    "a scan of a file": "ov.scan('rows.csv').mean('v', by='k')",
    "U-statistics": "ov.u_statistic(x[:3000, 0], kernel='gini')",
}


def _started(command, folder, **options):
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment, **options
    )


def _told(running):
    """Send Ctrl-C to a process at work, and return what it printed.

    A query of DuckDB's may miss one if it comes while it begins or ends; then there is another one, as people do.
    """
    for _ in range(4):
        running.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return running.communicate(timeout=15)[1]
    running.kill()
    return running.communicate()[1]


@pytest.mark.parametrize("work", LONG)
def test_long_work_stops(work, tmp_path):
    running = _started([sys.executable, "-c", START + LONG[work]], tmp_path)
    assert running.stdout.readline() == "ready\n"
    time.sleep(0.5)
    told = _told(running)
    assert running.returncode == -signal.SIGINT
    assert told.splitlines()[-1].startswith("KeyboardInterrupt")
    assert set(os.listdir(tmp_path)) <= {"rows.csv"}


@pytest.mark.parametrize("words", [("mean",), ("report", "-o", "page.html")])
def test_commands_exit_with_130(words, tmp_path):
    command = [sys.executable, "-m", "outvote", words[0], "-", "--value", "v", *words[1:]]
    running = _started(command, tmp_path, stdin=subprocess.PIPE)
    time.sleep(2)  # until it waits for its input
    told = _told(running)
    assert running.returncode == 130, told
    assert "Traceback" not in told
    assert not os.listdir(tmp_path)
