"""Eight threads call public functions at once, in a process that has loaded nothing yet."""

import subprocess
import sys

PROGRAM = """
import threading
import numpy as np, pandas as pd, outvote as ov
import outvote._numba as compiled
compiled._WORTH_SECONDS = 0.0  # every thread would load what is compiled
x, y = np.random.default_rng(0).normal(size=(2, 9000))
calls = [
    lambda: ov.mean(x, partition="hash", rng=0),
    lambda: ov.mean(x),
    lambda: ov.u_statistic(x, y, kernel="auc"),
    lambda: ov.difference(x, y),
    lambda: ov.quantile(x, [0.5, 0.9]),
    lambda: ov.tolerance(x + 1, claim="mean > 0"),
    lambda: ov.scan(pd.DataFrame({"v": x})).mean("v"),
    lambda: ov.suspects(x, partitions=20),
]
barrier, found = threading.Barrier(8), [set() for _ in calls]
def work(first):
    for k in range(8):
        call = (first * (k > 0) + k) % 8  # all begin with the same, then each goes its own way
        barrier.wait()
        try:
            found[call].add(str(calls[call]()))
        except Exception as error:
            found[call].add(f"call {call}: {error!r}")
threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for answers in found:
    assert len(answers) == 1 and "Error" not in str(answers), answers
"""


def test_eight_threads_get_the_same_answers():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
