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
    "a scan of a frame": "ov.scan(frame).mean('v', by='k')",
    "a scan of a file": "ov.scan('rows.csv').mean('v', by='k')",
    "a monitor": "ov.Monitor(claim='mean > 0').update(x[:, 0]).result()",
    "U-statistics": "ov.u_statistic(x[:3000, 0], kernel='gini')",
}


def _interrupted(command, folder, **options):
    """Start a command, wait until it says that it is at work, send Ctrl-C, and return it with what it printed.

    A query of DuckDB's may miss one if it comes while it begins or ends; then there is another one, as people do.
    """
    environment = {**os.environ, "TMPDIR": str(folder)}
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment, **options
    )
    if "stdin" not in options:
        assert running.stdout.readline() == "ready\n"
    time.sleep(1.5)
    for _ in range(4):
        running.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return running, running.communicate(timeout=15)[1]
    running.kill()
    return running, running.communicate()[1]


@pytest.mark.parametrize("work", LONG)
def test_long_work_stops(work, tmp_path):
    running, told = _interrupted([sys.executable, "-c", START + LONG[work]], tmp_path)
    assert running.returncode == -signal.SIGINT
    assert told.splitlines()[-1].startswith("KeyboardInterrupt")
    assert set(os.listdir(tmp_path)) <= {"rows.csv"}


@pytest.mark.parametrize("words", [("mean",), ("monitor", "--time", "t"), ("report", "-o", "page.html")])
def test_commands_exit_with_130(words, tmp_path):
    command = [sys.executable, "-m", "outvote", words[0], "-", "--value", "v", *words[1:]]
    running, told = _interrupted(command, tmp_path, stdin=subprocess.PIPE)
    assert running.returncode == 130, told
    assert "Traceback" not in told
    assert not os.listdir(tmp_path)
