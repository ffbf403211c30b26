"""Public functions in eight threads at once, and in processes that were forked or spawned."""

import subprocess
import sys

import pytest

CALLS = """
import numpy as np, pandas as pd, outvote as ov
from sklearn.linear_model import LinearRegression, LogisticRegression
x, y = np.random.default_rng(0).normal(size=(2, 9000))
X, few, many = np.c_[x, y][:200], x[:300], x[:300].reshape(30, 10)
frame = pd.DataFrame({"v": x, "k": ["a", "b", "c"] * 3000})
frame.to_csv("rows.csv", index=False)
def fitted(kind, target, **options):
    model = kind(max_iter=3, random_state=0, **options).fit(X, target)
    return repr((model.transform(X) if hasattr(model, "transform") else model.predict(X)).tolist())
def summed(kind):
    return kind.update(few).to_json()
classes = (X[:, 0] > 0).astype(int)
calls = [
    lambda: ov.mean(x, partition="hash", rng=0),
    lambda: ov.mean(x),
    lambda: ov.mean(many).interval,
    lambda: ov.mean(few, vote="soft", assume=ov.FiniteVariance(2.0)).interval,
    lambda: ov.u_statistic(x, y, kernel="auc"),
    lambda: ov.u_statistic(few, kernel="gini", vote="median", rng=0).interval,
    lambda: ov.difference(x, y),
    lambda: ov.quantile(x, [0.5, 0.9]).interval,
    lambda: ov.quantile_difference(x, y).interval,
    lambda: ov.tolerance(x + 1, claim="mean > 0"),
    lambda: ov.sensitivity(few),
    lambda: ov.certify_risk(np.abs(few)).interval,
    lambda: ov.mmd(few, y[:300]).interval,
    lambda: ov.suspects(x, partitions=20),
    lambda: ov.plan_blocks(10_000),
    lambda: ov.rows_needed(0.2, assume=ov.FiniteVariance(1.0)),
    lambda: ov.describe(frame).to_dict(),
    lambda: ov.scan(frame).mean("v"),
    lambda: ov.scan(frame).mean("v", by="k").to_dict(),
    lambda: ov.Monitor(claim="mean > 0").update(few).result().interval,
    lambda: summed(ov.RowSummary()),
    lambda: summed(ov.BlockSummary(5, seed=3)),
    lambda: ov.GroupedBlockSummary(5, seed=3).update(few, ["a", "b", "c"] * 100).to_json(),
    lambda: fitted(ov.RobustRegressor, X[:, 1]),
    lambda: fitted(ov.RobustClassifier, classes),
    lambda: fitted(ov.RobustRanker, X[:, 1]),
    lambda: fitted(ov.RobustMetricLearner, classes),
    lambda: fitted(ov.RobustAUCClassifier, classes),
    lambda: ov.RobustFit(LinearRegression(), random_state=0).fit(X, X[:, 1]).predict(X).tolist(),
    lambda: ov.difference(frame, value="v", by="k", baseline="a").to_dict(),
    lambda: ov.scan("rows.csv").mean("v", by="k").to_dict(),
    lambda: ov.scan("rows.csv").quantile("v", 0.9).interval,
    lambda: ov.metrics.robust_auc(classes, X[:, 1]).interval,
    lambda: ov.metrics.robust_accuracy(classes, classes[::-1]).interval,
    lambda: ov.metrics.robust_scorer("accuracy")(LogisticRegression(max_iter=5).fit(X, classes), X, classes),
    lambda: ov.certificate.radius(n_blocks=41, n_corrupt=5, block_size=9, confidence=0.95, assume=ov.SubGaussian(1.0)),
    lambda: ov.certificate.sigma_bounds(few),
    lambda: ov.paper.bound("mom", n=1000, n_outliers=10, delta=0.05).radius,
    lambda: ov.paper.constants(0.05),
    lambda: ov.Contamination(0.05).inject(few, 1e6, rng=0).data.sum(),
]
import outvote._numba as compiled
compiled._WORTH_SECONDS = 0.0  # what is compiled is loaded at once
"""
THREADS = """
import threading, warnings
warnings.simplefilter("ignore")
n = len(calls)
barrier, found = threading.Barrier(8), [set() for _ in calls]
def work(first):
    for k in range(n):
        call = (first * (k > 0) + k) % n  # all begin with the same, then each goes its own way
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
for call, answers in zip(calls, found):
    assert answers == {str(call())}, (answers, call())
"""
PROCESSES = """
import multiprocessing, os, sys, warnings
warnings.simplefilter("ignore")
some = [*calls[:16], *calls[-11:]]
def answers(_=None):
    return [str(call()) for call in some]
if __name__ == "__main__":
    here = answers()
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        there = pool.map_async(answers, [None]).get(timeout=300)[0]
    assert here == there, [pair for pair in zip(here, there) if pair[0] != pair[1]]
"""

#: Every thread has another first call, and modules are found slowly: each waits in the middle of loading others.
FIRST = """
import random, sys, time, threading, outvote as ov
class Slow:
    def find_spec(self, name, path=None, target=None):
        time.sleep(random.random() * 0.01 * name.startswith("outvote."))
sys.meta_path.insert(0, Slow())
names = ["mmd", "u_statistic", "mean", "certify_risk", "quantile", "metrics", "suspects", "tolerance"]
barrier, failed = threading.Barrier(8), []
def work(name):
    barrier.wait()
    try:
        getattr(ov, name)
    except Exception as error:
        failed.append(f"{name}: {error!r}")
threads = [threading.Thread(target=work, args=(name,)) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failed, failed
"""


def test_eight_threads_that_load_different_functions_do_not_wait_for_each_other():
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_eight_threads_get_the_answers_of_one(tmp_path):
    command = [sys.executable, "-c", CALLS + THREADS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("way", ["fork", "spawn"])
@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
def test_other_processes_get_the_same_answers(way, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(CALLS + PROCESSES)
    command = [sys.executable, str(program), way]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
