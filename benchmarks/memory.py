"""Peak memory that each public function takes beyond its input, each in a process of its own.

Two figures: what Python and numpy allocated at most (tracemalloc; it does not see compiled code), and by how much the
process grew (its largest resident size before and after the call). A first call on the same rows loads and compiles.
``python -m benchmarks.memory NAME ROWS`` measures one case and prints it as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import outvote as ov

from .measure import load_compiled, power, without_paths
from .own_kernel import compiled_distance, distance

ROOT = Path(__file__).parents[1]
#: Makes glibc give freed memory back, so that what the first call freed is seen again when the second one takes it.
_GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


@dataclass(frozen=True)
class Case:
    """A call, the rows it gets (in a full and in a quick run), the columns of each sample, and the share to reach."""

    name: str
    call: Callable[..., Any]
    rows: tuple[int, int]
    columns: tuple[int, ...] = (1,)
    dtype: str = "float64"
    target: float | None = None

    def inputs(self, n_rows: int) -> list[Any]:
        """Standard normal rows, one array for each sample."""
        rng = np.random.default_rng(0)
        shapes = [(n_rows,) if width == 1 else (n_rows, width) for width in self.columns]
        return [rng.standard_normal(shape, dtype=np.dtype(self.dtype)) for shape in shapes]


def odd(n: int) -> int:
    """The largest odd number up to n."""
    return max(1, n - (n + 1) % 2)


def means() -> list[Case]:
    """`ov.mean` in its partitions, votes and layouts."""
    long, short = (10**7, 10**6), (10**6, 10**5)
    scale = ov.FiniteVariance(1.0)

    def blocks(x: Any, **options: Any) -> Any:
        return ov.mean(x, 10, n_blocks=min(1001, odd(len(x) // 25)), rng=0, **options)

    return [
        Case("mean, random", blocks, long),
        Case("mean, uniform", lambda x: blocks(x, partition="uniform"), long),
        Case("mean, hash", lambda x: blocks(x, partition="hash"), long),
        Case("mean, contiguous", lambda x: blocks(x, partition="contiguous"), long),
        Case("mean, 1 % corrupt", lambda x: ov.mean(x), (10**8, 10**7), target=0.02),
        Case("mean, float32", blocks, long, dtype="float32"),
        Case("mean, strided", lambda x: blocks(x[::2]), long),
        Case("mean, 100 columns", blocks, short, (100,)),
        Case("mean, soft vote", lambda x: ov.mean(x, 0.01, assume=scale, vote="soft", rng=0), long),
        Case("mean, clipped vote", lambda x: ov.mean(x, 0.01, assume=scale, vote="clipped", rng=0), long),
        Case("mean, NaN are missing", lambda x: blocks(x, nan_policy="omit"), long),
        Case('mean, contamination="auto"', lambda x: ov.mean(x, "auto", rng=0), short),
    ]


def statistics() -> list[Case]:
    """`ov.u_statistic`, each kernel on one sample, on the full grid and on the diagonal."""

    def one(kernel: Any) -> Callable[..., Any]:
        return lambda z: ov.u_statistic(z, kernel=kernel, contamination=10, n_blocks=odd(len(z) // 100), rng=0)

    def two(kernel: str, grid: Any) -> Callable[..., Any]:
        return lambda x, y: ov.u_statistic(
            x, y, kernel=kernel, contamination=10, n_blocks=odd(int(len(x) ** 0.5)), grid=grid, rng=0
        )

    rows, pairs = (10**6, 10**5), (10**4, 3000)
    found = [Case(f"u_statistic, {kernel}", one(kernel), rows) for kernel in ("variance", "gini", "wilcoxon")]
    found += [Case(f"u_statistic, {kernel}", one(kernel), rows, (2,)) for kernel in ("covariance", "kendall")]
    found += [
        Case(f"u_statistic, {kernel}, {grid}", two(kernel, grid), (10**5, 10**5) if ranks else pairs, (1, 1))
        for kernel, ranks in (("mann-whitney", True), ("auc", True), ("mmd", False), ("energy", False))
        for grid in ("full", "diagonal")
    ]
    return [
        *found,
        Case("u_statistic, own kernel, numpy", one(ov.Kernel(distance, degrees=2)), (10**5, 10**5)),
        Case(
            "u_statistic, own kernel, numba",
            lambda z: one(ov.Kernel(compiled_distance(), degrees=2))(z),
            (10**5, 10**5),
        ),
    ]


def others() -> list[Case]:
    """The rest of the public face."""
    rows, scale = (10**6, 10**5), ov.FiniteVariance(1.0)
    few = (20_000, 5000)
    return [
        Case("difference", lambda a, b: ov.difference(a, b, rng=0), rows, (1, 1)),
        Case("difference, paired", lambda a, b: ov.difference(a, b, paired=True, rng=0), rows, (1, 1)),
        Case("tolerance", lambda a, b: ov.tolerance(a, b, assume=scale, rng=0), few, (1, 1)),
        Case("sensitivity", lambda x: ov.sensitivity(x, rng=0), rows),
        Case("certify_risk", lambda x: ov.certify_risk(x, assume=scale, rng=0), rows),
        Case("Contamination.inject", lambda x: ov.Contamination(0.01).inject(x, 1e6, rng=0), rows),
        Case("plan_blocks", lambda: ov.plan_blocks(10**8, 0.01), (0, 0), ()),
        Case("rows_needed", lambda: ov.rows_needed(0.5, 0.01, assume=scale), (0, 0), ()),
        Case("paper.bound", lambda: ov.paper.bound("mom", claim=1, n=10**6, n_outliers=10**4, delta=0.05), (0, 0), ()),
    ]


def cases() -> list[Case]:
    """List the cases."""
    return [*means(), *statistics(), *others()]


def largest_resident(*, anew: bool = False) -> int:
    """The largest resident size of this process so far, in bytes; `anew` forgets the past where the system can.

    On Linux it is read from /proc: what getrusage says there includes the process that started this one.
    """
    try:
        if anew:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return 1024 * int(status.split("VmHWM:")[1].split()[0])
    except (OSError, IndexError):
        unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kibibytes elsewhere
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def peak(case: Case, n_rows: int) -> dict[str, Any]:
    """Measure one case, in this process."""
    load_compiled()
    inputs = case.inputs(n_rows)
    case.call(*inputs)
    before = largest_resident(anew=True)
    case.call(*inputs)
    grown = largest_resident() - before
    tracemalloc.start()
    case.call(*inputs)
    traced = tracemalloc.get_traced_memory()[1]
    n_bytes = sum(sample.nbytes for sample in inputs)
    share = max(traced, grown) / n_bytes if n_bytes else None
    return {
        "case": case.name,
        "n_rows": n_rows,
        "input_bytes": n_bytes,
        "traced_bytes": traced,
        "rss_bytes": grown,
        "share": share,
        "target": case.target,
        "met": None if case.target is None else bool(share is not None and share <= case.target),
    }


def in_a_process(case: Case, quick: bool) -> dict[str, Any]:
    """Measure one case in a new process."""
    n_rows = case.rows[quick]
    command = [sys.executable, "-m", "benchmarks.memory", case.name, str(n_rows)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | _GIVE_BACK, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"case": case.name, "n_rows": n_rows, "error": without_paths(last)}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def survey(
    some: list[Case],
    quick: bool,
    step: Callable[[str], None] = lambda name: None,
    found: list[dict[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """Measure the cases, two at a time: nothing here is timed. `found` is filled as it goes."""
    table = [] if found is None else found
    pool = ThreadPoolExecutor(2)
    try:
        for case, result in zip(some, pool.map(lambda case: in_a_process(case, quick), some), strict=True):
            table.append(result)
            step(f"memory of {case.name}, {power(case.rows[quick])} rows")
    finally:
        pool.shutdown(cancel_futures=True)
    return table


if __name__ == "__main__":
    chosen = next(case for case in cases() if case.name == sys.argv[1])
    print(json.dumps(peak(chosen, int(sys.argv[2]))))
