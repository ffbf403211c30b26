"""The calls people make: everything default, 1 % contamination."""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

import outvote as ov
from outvote._numba import numpy_only

from .measure import Job, Row, normal, power
from .rows_import import python


@lru_cache(maxsize=2)
def frame(n_rows: int, n_groups: int) -> Any:
    """Rows in groups, as a pandas frame."""
    import pandas as pd

    rng = np.random.default_rng(0)
    return pd.DataFrame({"group": rng.integers(0, n_groups, size=n_rows), "value": normal(n_rows)})


@lru_cache(maxsize=1)
def orders(n_rows: int) -> Path:
    """A CSV of orders in three variants, of which 2 in 1000 are in the wrong unit."""
    rng = np.random.default_rng(0)
    variant = rng.choice(list("ABC"), size=n_rows)
    revenue = rng.exponential(np.select([variant == "A", variant == "B"], [30.0, 31.0], 36.0))
    revenue[rng.choice(n_rows, n_rows // 500, replace=False)] *= 1000
    path = Path(mkdtemp(prefix="outvote-bench-")) / "orders.csv"
    with path.open("w", encoding="utf-8") as file:
        file.write("variant,revenue\n")
        file.writelines(f"{v},{r:.2f}\n" for v, r in zip(variant.tolist(), revenue.tolist(), strict=True))
    return path


def report(n_rows: int) -> Job:
    """Write a report of these orders, in a process of its own."""

    def run() -> None:
        path = orders(n_rows)
        options = ["--value", "revenue", "--by", "variant", "--output", str(path.with_suffix(".html"))]
        subprocess.run(
            [sys.executable, "-m", "outvote", "report", str(path), *options], check=True, capture_output=True
        )

    return run


def plain(n_rows: int) -> Any:
    """Take the mean without numba."""
    with numpy_only():
        return ov.mean(normal(n_rows))


@lru_cache(maxsize=1)
def watched() -> ov.Monitor:
    """A monitor that has rows already."""
    return ov.Monitor(n_plan=10**6).update(normal(10**6))


@lru_cache(maxsize=1)
def arms() -> ov.Monitor:
    """One with two arms."""
    return ov.Monitor(n_plan=10**6).update(normal(10**6), arm="A").update(normal(10**6, seed=1), arm="B")


def look() -> Any:
    """Add a row, so that the interval is worked out again."""
    return arms().update([0.0], arm="A").interval


def rows(quick: bool) -> list[Row]:
    """Means of long and short rows, the first call, tolerance and its sisters, groups, columns, a report."""
    n, million = 10**7 if quick else 10**8, 10**6
    first = "import numpy as np, outvote as ov; ov.mean(np.arange(1e6))"
    found = [
        Row(f"np.mean of {power(n)}", "", None, lambda: np.mean(normal(n)), pairs=n, each="row"),
        Row(f"ov.mean(x), {power(n)}", "", 2.0, lambda: ov.mean(normal(n)), pairs=n, each="row"),
        Row(f"ov.mean(x), {power(n)}", "np.mean", 4.0, lambda: ov.mean(normal(n)), lambda: np.mean(normal(n))),
    ]
    found += [
        Row(f"ov.mean(x), {power(size)}", "np.mean", target,
            lambda size=size: ov.mean(normal(size)), lambda size=size: np.mean(normal(size)))
        for size, target in ((10**7, 5.0), (million, 12.0))
        if size != n
    ]  # fmt: skip
    found += [
        Row("ov.mean(x), 1e7, without numba", "np.mean", 25.0, lambda: plain(10**7), lambda: np.mean(normal(10**7))),
        Row("ov.mean(x), 1e4", "", 2.0, lambda: ov.mean(normal(10**4)), in_ms=True),
        Row("ov.mean(x), 1e3", "", 1.0, lambda: ov.mean(normal(1000)), in_ms=True),
        Row("ov.mean(x), 1e4, without numba", "", None, lambda: plain(10**4), in_ms=True),
        Row("ov.mean(x), 1e3, without numba", "", None, lambda: plain(1000), in_ms=True),
        Row("the first call in a new process, 1e6", "import numpy", 4.0, python(first), python("import numpy")),
        Row('ov.tolerance(x, claim="mean > -1"), 1e6', "ov.mean", 3.0,
            lambda: ov.tolerance(normal(million), claim="mean > -1"), lambda: ov.mean(normal(million))),
        Row("ov.sensitivity(x), 20 levels, 1e6", "ov.mean", 3.0,
            lambda: ov.sensitivity(normal(million)), lambda: ov.mean(normal(million))),
        Row('ov.mean(x, contamination="auto"), 1e6', "ov.mean", 3.0,
            lambda: ov.mean(normal(million), contamination="auto"), lambda: ov.mean(normal(million))),
        Row("ov.difference(a, b), 2 × 1e6", "ov.mean of both", 4.0,
            lambda: ov.difference(normal(million), normal(million, seed=1)),
            lambda: (ov.mean(normal(million)), ov.mean(normal(million, seed=1)))),
    ]  # fmt: skip
    found += [
        Row("monitor.update(x), 1e6", "np.mean", 10.0, lambda: watched().update(normal(million)),
            lambda: np.mean(normal(million))),
        Row("monitor.interval after a batch, 1e6 in two arms", "", None, look, in_ms=True),
    ]  # fmt: skip
    found += [
        Row(f"ov.scan(frame).mean(by=), 1e6 in {power(groups)} groups", "groupby.mean", target,
            lambda groups=groups: ov.scan(frame(million, groups)).mean("value", by="group"),
            lambda groups=groups: frame(million, groups).groupby("group")["value"].mean())
        for groups, target in ((100, 10.0), (10_000, 20.0))
    ]  # fmt: skip
    return [
        *found,
        Row("ov.mean(A), 1e5 × 50", "A.mean(0)", 15.0,
            lambda: ov.mean(normal(10**5, 50)), lambda: normal(10**5, 50).mean(0)),
        Row(f"outvote report, {power(million // 10 if quick else million)} rows, three variants", "", 5000.0,
            report(million // 10 if quick else million), in_ms=True),
    ]  # fmt: skip
