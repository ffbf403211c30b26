"""An executor that is killed changes nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import outvote

SCRIPT = Path(__file__).parents[1] / "helpers" / "spark_killed.py"


@pytest.mark.skipif(os.name == "nt", reason="executors are killed by a signal")
def test_answers_are_the_same_to_the_last_bit_when_executors_are_killed():
    where = {"PYTHONPATH": str(Path(outvote.__file__).parents[1])}
    run = subprocess.run([sys.executable, SCRIPT], env=os.environ | where, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert told["killed"] == 2
    assert told["failed"] >= 1  # tasks that were under way
    assert told["disturbed"] == told["undisturbed"]
    assert told["undisturbed"] == told["pandas"]
