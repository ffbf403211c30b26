"""Quick runs of the paper's experiments, computed once, and verdicts on changed tables."""

from __future__ import annotations

import copy
import functools

from outvote.paper.experiments import estimation, get
from outvote.paper.experiments.running import run

RUNS = {"ruin-mean": 50, "ruin-median": 50, "ruin-variance": 30, "mann-whitney": 8, "rate": 20, "coverage": 4}


@functools.cache
def quick(name):
    """Return the outcome of a quick run."""
    return run(get(name), quick=True, runs=RUNS[name])


def verdict(name, start, tables=None):
    """Return the verdict on the claim that begins so, in the quick run or in other tables."""
    findings = quick(name).findings if tables is None else get(name).judge(tables)
    (found,) = [each for each in findings if each.claim.startswith(start)]
    return found.verdict


def changed(outcome, table, new, **where):
    """Return the tables of an outcome with some cells of one table replaced."""
    tables = copy.deepcopy(outcome.tables)
    rows = [row for row in tables[table] if all(row[key] == value for key, value in where.items())]
    assert rows
    for row in rows:
        row.update(new(row))
    return tables


def error(outcome, name, estimator, data, n):
    """Return the mean absolute error of an estimator at n rows."""
    return estimation.error_at(outcome.tables[name], estimator, data, n)
