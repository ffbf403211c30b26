"""One comparison, and how it is measured: both sides in turns in one run, the best of several.

Absolute times say little on a shared machine; the ratio of the best of several interleaved runs does.
"""

from __future__ import annotations

import importlib
import math
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

Job = Callable[[], Any]

#: Turns at most.
_MOST = 400
#: Seconds in a turn that a fast job is called again and again: a single call of microseconds pays for what the other
#: side has left in the caches.
_BATCH = 5e-4
#: Seconds that each side of a row has in a turn, at least.
_TURN = 0.06


@dataclass(frozen=True)
class Row:
    """One comparison: a job, what it is measured against, and the figure to reach.

    The figure is ours / theirs, or milliseconds, or, for a row with `pairs` and no peer, nanoseconds a pair, or what
    `each` says. A row
    without a target is there for context. Jobs make their data when first called (`normal` and the like remember it),
    so that listing rows costs nothing; the first turn is only the best one if it really is.
    """

    job: str
    against: str
    target: float | None
    ours: Job
    theirs: Job | None = None
    pairs: int | None = None
    each: str = "pair"
    in_ms: bool = False

    def figure(self, ours: float, theirs: float | None) -> float:
        """The figure that is compared with the target."""
        if self.in_ms:
            return 1e3 * ours
        if self.pairs is not None:
            return 1e9 * ours / self.pairs
        return math.nan if theirs is None else ours / theirs


def timed(job: Job, calls: int = 1) -> float:
    """Seconds that one call takes, of several in a row."""
    start = time.perf_counter()
    for _ in range(calls):
        job()
    return (time.perf_counter() - start) / calls


def in_turns(
    jobs: list[Job],
    budget: float,
    between: Callable[[], None] = lambda: None,
    *,
    least: int = 4,
    patience: float = 20.0,
    turn_s: float = 0.0,
) -> tuple[list[list[float]], dict[int, str]]:
    """Call the jobs in turns, `least` times and until about `budget` seconds are spent.

    Returns the times of each job, and what the ones that raised have to say: they are called no more, and the others
    go on. The first turn loads, compiles and makes the data, so it does not count against the budget. A job that takes
    longer than `patience` is called once; one that takes less than `turn_s` is called again in the same turn until that
    time is over, so that it does not always follow on the other side's caches and threads.
    """
    times: list[list[float]] = [[] for _ in jobs]
    failed: dict[int, str] = {}
    started = math.nan
    for turn in range(_MOST):
        for number, (job, taken) in enumerate(zip(jobs, times, strict=True)):
            if number in failed or (taken and taken[0] > patience):
                continue
            ends = time.perf_counter() + turn_s
            try:
                taken.append(timed(job, math.ceil(_BATCH / min(taken)) if taken else 1))
                while time.perf_counter() < ends:
                    taken.append(timed(job, math.ceil(_BATCH / min(taken))))
            except Exception as error:  # the library is being worked on: one broken job must not cost the others
                failed[number] = without_paths(f"{type(error).__name__}: {error}")
        between()
        if turn == 0:
            started = time.perf_counter()
        if turn + 1 >= least and time.perf_counter() - started > budget:
            break
    return times, failed


def best_times(
    jobs: list[Job], budget: float, between: Callable[[], None] = lambda: None
) -> tuple[list[float], dict[int, str]]:
    """The best time of each of many jobs, infinite for one that raised, and what that one says.

    A job of more than three seconds is called once; the fast ones get more turns, among themselves.
    """
    times, failed = in_turns(jobs, budget, between, least=2, patience=3.0)
    best = [math.inf if number in failed else min(taken) for number, taken in enumerate(times)]
    fast = [number for number, seconds in enumerate(best) if seconds < budget / 4]
    more, _ = in_turns([jobs[number] for number in fast], budget, between)
    for number, taken in zip(fast, more, strict=True):
        best[number] = min([best[number], *taken])
    return best, failed


def without_paths(message: str) -> str:
    """Leave of each absolute path in a message only the file's name: results may be published."""
    return re.sub(r"(?<![^\s'\"(])(?:/[^\s/'\"()]+)+/([^\s/'\"()]+)", r"\1", message)


def measure(row: Row, budget: float, between: Callable[[], None] = lambda: None, *, least: int = 4) -> dict[str, Any]:
    """Measure a row: what goes into the table and into the JSON. A row that raises says so instead."""
    found: dict[str, Any] = {"job": row.job, "against": row.against, "target": row.target}
    found["unit"] = "ms" if row.in_ms else "ratio" if row.pairs is None else f"ns a {row.each}"
    # The peer goes first: it is the one that makes the data, and never the one that is called only once.
    jobs = [row.ours] if row.theirs is None else [row.theirs, row.ours]
    times, failed = in_turns(jobs, budget, between, least=least, turn_s=_TURN)
    if failed:
        return {**found, "error": "; ".join(failed.values())}
    ours, theirs = min(times[-1]), min(times[0]) if row.theirs else None
    figure = row.figure(ours, theirs)
    return {
        **found,
        "ours_s": ours,
        "ours_median_s": statistics.median(times[-1]),
        "theirs_s": theirs,
        "theirs_median_s": statistics.median(times[0]) if row.theirs else None,
        "figure": figure,
        "met": None if row.target is None else figure <= row.target,
        "calls": len(times[-1]),
    }


def later(make: Callable[[], Job]) -> Job:
    """A job that is put together when first called."""
    made: list[Job] = []

    def run() -> Any:
        if not made:
            made.append(make())
        return made[0]()

    return run


@lru_cache(maxsize=4)
def normal(*shape: int, seed: int = 0, dtype: str = "float64") -> Any:
    """Standard normal rows, made once; the arrays used last are kept."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.dtype(dtype))


def forget() -> None:
    """Let go of the data."""
    normal.cache_clear()


def power(n: int) -> str:
    """Write 100000000 as 1e8, and what is no power of ten as it is."""
    text = str(n)
    return f"{text[0]}e{len(text) - 1}" if n >= 1000 and set(text[1:]) == {"0"} else text


def load_compiled() -> bool:
    """Load the compiled forms, if there are any: rows should not depend on which one ran first."""
    try:
        _numba: Any = importlib.import_module("outvote._numba")
        return _numba.compiled(math.inf) is not None
    except (ImportError, AttributeError):
        return False
