"""Measure the descents on a GPU against what its memory and its arithmetic allow: ``python -m benchmarks.gpu``.

Two ceilings are measured first: bytes read a second, and operations a second of a matrix product. Every row then says
how many bytes it must move and how many operations it must do, which of the two binds, the time that takes at the
ceiling, and how often that time it took. A row that fails shows its error; the others go on.

A new row is a function in `PARTS` that takes a `Bench` and yields `Measured`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

#: Rows in a block: the harmonic rule at 1 % of corrupt rows.
BLOCK = 25
#: Epochs timed together: as many as there are between two permutations, three times.
TOGETHER = 24
#: Products of matrices in a projection.
PROJECTION = 51
GB = 1e9


@dataclass
class Measured:
    """One row: what took how long, what it must move and do at least, and what it is compared with.

    `against` is the time that the target is a multiple of, the row's own floor if there is none.
    """

    name: str
    seconds: float
    bytes: float
    flops: float = 0.0
    target: float | None = None
    against: float | None = None
    note: str = ""


@dataclass
class Bench:
    """A device, the sizes, the ceilings once they are measured, and a clock."""

    device: torch.device
    quick: bool
    bandwidth: float = float("nan")
    rate: float = float("nan")
    seen: dict[str, float] = field(default_factory=dict)
    _kept: dict[str, Any] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Rows."""
        return 20_000 if self.quick else 1_000_000

    @property
    def n_columns(self) -> int:
        """Columns."""
        return 16 if self.quick else 784

    @property
    def x(self) -> torch.Tensor:
        """Rows, float32."""
        return self.keep("x", lambda: torch.randn(self.n_rows, self.n_columns, device=self.device))

    def keep(self, name: str, make: Callable[[], Any]) -> Any:
        """Make something when it is first asked for."""
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

    def time(self, job: Callable[[], Any], calls: int = 1, turns: int = 15) -> float:
        """Return the median over several turns of the seconds that a call takes, `calls` of them in a turn."""
        turns = 3 if self.quick else turns
        for _ in range(2):
            job()
        return statistics.median(self._turn(job, calls) for _ in range(turns))

    def _turn(self, job: Callable[[], Any], calls: int) -> float:
        if self.device.type != "cuda":
            start = time.perf_counter()
            for _ in range(calls):
                job()
            return (time.perf_counter() - start) / calls
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            job()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / calls

    def floor(self, row: Measured) -> float:
        """Return the time below which a row cannot go at the ceilings that were measured."""
        return max(row.bytes / self.bandwidth, row.flops / self.rate if row.flops else 0.0)


def reading(bench: Bench) -> Iterator[Measured]:
    """The ceiling of memory: read 4 GB once; and copy them."""
    values = torch.ones(10**6 if bench.quick else 10**9, device=bench.device)
    n_bytes = values.numel() * 4
    seconds = bench.time(values.sum, calls=4)
    bench.bandwidth = n_bytes / seconds
    yield Measured("read (sum of float32)", seconds, n_bytes, note="the ceiling for bytes")
    half = values[: values.numel() // 2]
    other = torch.empty_like(half)
    yield Measured("copy", bench.time(lambda: other.copy_(half), calls=4), n_bytes)


def products(bench: Bench) -> Iterator[Measured]:
    """The ceiling of arithmetic, without tf32: a large square product; then X @ w and X @ M."""
    side = 256 if bench.quick else 8192
    a = torch.randn(side, side, device=bench.device)
    flops = 2.0 * side**3
    seconds = bench.time(lambda: a @ a, turns=5)
    bench.rate = flops / seconds
    yield Measured(f"A @ A, {side} wide", seconds, 8.0 * side**2, flops, note="the ceiling for operations")
    x, (n, d) = bench.x, bench.x.shape
    w, m = torch.randn(d, device=bench.device), torch.randn(d, d, device=bench.device)
    bench.seen["X @ w"] = bench.time(lambda: x @ w, calls=4)
    yield Measured("X @ w", bench.seen["X @ w"], 4.0 * n * d, 2.0 * n * d)
    bench.seen["X @ M"] = bench.time(lambda: x @ m, turns=7)
    yield Measured("X @ M", bench.seen["X @ M"], 8.0 * n * d, 2.0 * n * d * d)


def problem_of(bench: Bench, loss: Any, n_chosen: int, clipped: bool) -> Any:
    """Pose a problem on rows that lie on the device already."""
    from outvote.learning.voting import Cell
    from outvote.torch.device.descent import DeviceProblem, DeviceRows

    n, d = bench.x.shape
    rows = DeviceRows(np.zeros((1, d), dtype=np.float32), np.ones(d), np.ones(d), bench.device)
    rows.tensor = bench.x
    y = bench.keep("y", lambda: (bench.x[:, 0] + bench.x[:, 1]).cpu().numpy().astype(np.float64))
    targets = (y > 0).astype(np.int64) if loss.name == "metric" else y
    return DeviceProblem(rows, targets, loss, [Cell((np.arange(n),), n // BLOCK, n_chosen, clipped=clipped)])


def epochs_of(bench: Bench, loss: Any, n_chosen: int, clipped: bool, use_fused: bool, replayed: bool = False) -> Any:
    """Make the epochs of a descent ready, `replayed` as a fit on a CUDA device has them."""
    from outvote.learning.descent import Settings
    from outvote.torch.device.descent import Epochs, Recorder, _part

    part = _part(problem_of(bench, loss, n_chosen, clipped), np.random.default_rng(0), use_fused)
    start = torch.as_tensor(loss.start(bench.n_columns, 1), dtype=bench.x.dtype, device=bench.device)
    recorder = Recorder(part.dealt.generator) if replayed else None
    return Epochs(part, start, Settings(n_epochs=10 * TOGETHER), recorder=recorder)


def several(epochs: Any) -> Callable[[], None]:
    """Run epochs as a descent does, with the permutations and projections that fall into them."""

    def job() -> None:
        epochs._at.zero_()
        for epoch in range(TOGETHER):
            epochs.run(epoch)

    return job


def variants(bench: Bench, loss: Any, n_chosen: int, clipped: bool) -> Iterator[tuple[str, float, Any]]:
    """Time an epoch in plain torch, with the Triton kernels, and as a fit runs it: replayed from graphs."""
    from outvote.torch.device import fused

    quick, cuda = fused.available(bench.x), bench.device.type == "cuda"
    ways = [("plain torch", False, False), ("kernels", True, False), ("as fitted", quick, True)]
    for name, use_fused, replayed in [ways[0], *ways[1 : 1 + quick], *ways[2 : 2 + cuda]]:
        try:
            epochs = epochs_of(bench, loss, n_chosen, clipped, use_fused, replayed)
            seconds = bench.time(several(epochs), turns=7) / TOGETHER
            if replayed and None in epochs._replays.values():
                name += ", NOT REPLAYED"
            yield name, seconds, epochs
        except Exception as error:  # the other ways go on
            yield f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:80]}", float("nan"), None


def ranking(bench: Bench, what: str, n_chosen: int, target: float) -> Iterator[Measured]:
    """An epoch of a ranker: read X once, then the rows of the chosen blocks again."""
    from outvote.learning.losses import PairLogistic

    n, d = bench.x.shape
    n_bytes = 4.0 * d * (n + n_chosen * BLOCK)
    flops = 2.0 * d * (n + n_chosen * BLOCK) + 10.0 * n * (BLOCK - 1) / 2
    once = 4.0 * n * d / bench.bandwidth
    for way, seconds, _ in variants(bench, PairLogistic(), n_chosen, n_chosen > 1):
        yield Measured(f"ranking epoch, {what} ({way})", seconds, n_bytes, flops, target, once, "of one read of X")


def ranking_median(bench: Bench) -> Iterator[Measured]:
    """The median block."""
    yield from ranking(bench, "median block", 1, 1.35)


def ranking_quarter(bench: Bench) -> Iterator[Measured]:
    """The middle quarter, its gradients cut to the median of their lengths."""
    yield from ranking(bench, "middle quarter", bench.n_rows // BLOCK // 4, 1.9)


def metric(bench: Bench) -> Iterator[Measured]:
    """An epoch of a metric: half of X @ M, the products of rows inside blocks, projected every eighth epoch.

    Half of it is enough, since M is symmetric (see `MetricPart`); the target is a multiple of the whole.
    """
    from outvote.learning.losses import MetricHinge

    n, d = bench.x.shape
    for way, seconds, epochs in variants(bench, MetricHinge(), n // BLOCK // 4, True):
        taken = 0 if epochs is None else epochs.n_taken * BLOCK
        n_bytes = 4.0 * d * (4 * n + 2 * taken)
        flops = 1.0 * n * d * (d + 1) + 2.0 * n * BLOCK * d + 2.0 * taken * d * d + 2.0 * PROJECTION * d**3 / 8
        note = f"of X @ M; {taken} rows in the gradient"
        yield Measured(f"metric epoch ({way})", seconds, n_bytes, flops, 1.3, bench.seen["X @ M"], note)


def pieces(bench: Bench) -> Iterator[Measured]:
    """What an epoch is made of, each alone: where the time goes."""
    from outvote.learning.losses import PairLogistic
    from outvote.torch.device import fused
    from outvote.torch.device.risks import nearest_psd

    n, d = bench.x.shape
    n_chosen = n // BLOCK // 4
    yield Measured("randperm", bench.time(lambda: torch.randperm(n, device=bench.device), calls=4), 8.0 * n)
    for use_fused in (False, True)[: 1 + fused.available(bench.x)]:
        way = "kernels" if use_fused else "plain torch"
        epochs = epochs_of(bench, PairLogistic(), n_chosen, True, use_fused)
        form, dealt = epochs.part.form, epochs.part.dealt
        dealt.shuffle()
        scores, blocks = form.scores(torch.randn_like(epochs.theta)), dealt.deal()
        rows = blocks[:, :n_chosen].contiguous()
        if not use_fused:
            yield Measured("deal by turning", bench.time(dealt.deal, calls=4), 16.0 * n)
        risks = form.risks(scores, blocks)
        seconds = bench.time(lambda form=form, scores=scores, blocks=blocks: form.risks(scores, blocks), calls=4)
        yield Measured(f"risks of pairs ({way})", seconds, 16.0 * n, 10.0 * n * (BLOCK - 1) / 2)
        if not use_fused:
            yield Measured(
                "sort of the risks", bench.time(lambda risks=risks: risks.sort(), calls=4), 24.0 * len(risks)
            )
        job = lambda form=form, scores=scores, rows=rows: form.gradient(scores, rows, True)  # noqa: E731
        taken = float(rows.numel())
        yield Measured(f"gradient, middle quarter ({way})", bench.time(job, calls=4), 4.0 * taken * d, 2.0 * taken * d)
    matrix = torch.randn(d, d, device=bench.device)
    seconds = bench.time(lambda: nearest_psd(matrix + matrix.t()), turns=5)
    yield Measured("projection", seconds, 12.0 * d * d, 2.0 * PROJECTION * d**3, note="every eighth epoch of a metric")


def means(bench: Bench) -> Iterator[Measured]:
    """Means of random balanced blocks: read the rows once; then the whole estimate, with its median and certificate."""
    import outvote as ov
    from outvote.torch import block_means

    n = 10**6 if bench.quick else 10**8
    x = torch.randn(n, device=bench.device)
    for n_blocks in (1001, n // 25):
        n_bytes = 4.0 * n + 8.0 * n_blocks
        seconds = bench.time(lambda n_blocks=n_blocks: block_means(x, n_blocks), calls=8)
        reached = n_bytes / seconds / bench.bandwidth
        yield Measured(
            f"block means of {n:.0e}, {n_blocks} blocks", seconds, n_bytes, 1.0 * n,
            note=f"{100 * reached:.0f} % of the bandwidth",
        )  # fmt: skip
    for n_blocks in (1001, n // 25):
        job = lambda n_blocks=n_blocks: ov.mean(x, 100, n_blocks=n_blocks, rng=0)  # noqa: E731
        yield Measured(f"ov.mean of {n:.0e}, {n_blocks} blocks", bench.time(job, turns=7), 4.0 * n)


def evidence(bench: Bench) -> Iterator[Measured]:
    """Answers by evidence: one read of the rows, and what their bins say, worked out on the host."""
    import outvote as ov

    n, text = (10**6, "1e6") if bench.quick else (10**9, "1e9")
    x = torch.randn(n, device=bench.device)
    jobs: dict[str, tuple[Callable[[], Any], float | None]] = {
        f"ov.mean(x), {text} float32": (lambda: ov.mean(x), 4.0),
        f"ov.quantile(x), {text} float32": (lambda: ov.quantile(x), None),
        f"ov.difference of two halves, {text} float32": (lambda: ov.difference(x[: n // 2], x[n // 2 :]), None),
    }
    for name, (job, target) in jobs.items():
        for _ in range(4):  # kernels and numba's functions are loaded
            job()
        yield Measured(name, bench.time(job), 4.0 * n, target=target, note="of one read of x")


def mann_whitney(bench: Bench) -> Iterator[Measured]:
    """Mann-Whitney on every two blocks, with and without ties: two tables by tile and block, and their product."""
    from outvote.torch.device.grids import TILE, count_wins

    n, n_blocks = (10**4, 10) if bench.quick else (10**7, 1000)
    for what in ("no ties", "ties"):
        x, y = (torch.randn(n_blocks, n // n_blocks, device=bench.device) for _ in range(2))
        if what == "ties":
            x, y = x.mul(100).round(), y.mul(100).round()
        tiles = 2.0 * n / TILE
        seconds = bench.time(lambda x=x, y=y: count_wins(x, y, ties=True), turns=5)
        yield Measured(
            f"Mann-Whitney, {n_blocks} x {n_blocks} blocks of {n // n_blocks}, {what}", seconds,
            tiles * 2 * n_blocks * 8 * 3 + 2 * n * 24, tiles * 2.0 * n_blocks**2, 1.0, 0.15, "of 0.15 s",
        )  # fmt: skip


def whole(bench: Bench) -> Iterator[Measured]:
    """A whole fit from host to host, beside the same in numpy."""
    import outvote as ov

    rng = np.random.default_rng(0)
    n, d = (2000, 8) if bench.quick else (100_000, 64)
    x = rng.normal(size=(n, d)).astype(np.float32)
    y = x @ np.arange(1.0, d + 1) / d + rng.normal(size=n)
    x[: n // 100], y[: n // 100] = 50 + rng.random((n // 100, d)), -50.0
    for device in (str(bench.device), None):
        ranker = ov.RobustRanker(contamination=0.01, max_iter=100, random_state=0, device=device)
        if device is not None:
            ranker.fit(x, y)  # kernels are compiled when they are first used
        start = time.perf_counter()
        ranker.fit(x, y)
        seconds, score = time.perf_counter() - start, ranker.score(x[n // 100 :], y[n // 100 :])
        yield Measured(
            f"RobustRanker.fit, {n} x {d}, device={device!r}", seconds, 4.0 * n * d, note=f"score {score:.4f}"
        )


def estimates(bench: Bench) -> Iterator[tuple[str, str]]:
    """Estimates on the device against numpy, by the same seed."""
    import outvote as ov

    rng = np.random.default_rng(2)
    x, y = np.round(rng.normal(size=20_000), 2), np.round(rng.normal(size=15_000), 2)
    jobs: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [("mean", (x,), {"vote": "median"})]
    jobs += [(name, (x,), {"kernel": name, "vote": "median"}) for name in ("variance", "gini", "wilcoxon")]
    jobs += [
        (f"{name}, {grid}", (x[:2000], y[:1500]), {"kernel": name, "grid": grid, "contamination": 5})
        for name in ("mann-whitney", "auc", "energy", "mmd")
        for grid in ("full", "diagonal")
    ]
    for name, samples, options in jobs:
        function = ov.mean if name == "mean" else ov.u_statistic
        one = function(*samples, rng=0, **options)
        two = function(*(torch.tensor(sample, device=bench.device) for sample in samples), rng=0, **options)
        off = float(np.max(np.abs(two.block_values.cpu().numpy() - one.block_values) / np.abs(one.block_values).max()))
        there = two.block_values.device.type == bench.device.type
        yield (
            f"numpy against {bench.device.type}, {name}",
            f"{off:.1e} {'ok' if off < 1e-12 and there else 'DIFFERENT'}",
        )
    there = [torch.tensor(one, device=bench.device) for one in (x, y)]
    answers: dict[str, Callable[[Any, Any], Any]] = {
        "mean": lambda a, _: ov.mean(a),
        "difference": ov.difference,
        "quantile": lambda a, _: ov.quantile(a, 0.9),
        "tolerance": lambda a, b: ov.tolerance(a + 1, b).estimate,
    }
    for name, answer in answers.items():
        ends = [(*one.interval, one.estimate) for one in (answer(x, y), answer(*there))]
        off = float(np.max(np.abs(np.subtract(*ends))))
        yield (
            f"numpy against {bench.device.type}, {name} by evidence",
            f"{off:.1e} {'ok' if off < 1e-12 else 'DIFFERENT'}",
        )


def checks(bench: Bench) -> Iterator[tuple[str, str]]:
    """What must hold on the device: the kernels give the numbers of plain torch, and an epoch waits for nothing."""
    from outvote.learning.losses import MetricHinge, PairHinge, PairLogistic, ProductHinge
    from outvote.torch.device import fused

    generator = np.random.default_rng(1)
    for loss in (PairLogistic(), PairHinge(), ProductHinge(), MetricHinge()):
        plain, *others = (
            epochs_of(bench, loss, 101, True, use) for use in (False, True)[: 1 + fused.available(bench.x)]
        )
        d = bench.n_columns
        theta = generator.normal(size=(d, d)) / d if loss.name == "metric" else generator.normal(size=d) / d**0.5
        theta = theta @ theta.T if loss.name == "metric" else theta
        theta = torch.as_tensor(theta, dtype=bench.x.dtype, device=bench.device)
        plain.part.dealt.shuffle()
        blocks, scores = plain.part.dealt.deal(), plain.part.form.scores(theta)
        for other in others:
            pairs = [
                [one.part.form.risks(scores, blocks) for one in (plain, other)],
                [one.part.form.gradient(scores, blocks[:, :101], True) for one in (plain, other)],
            ]
            off = max(float((a - b).norm() / a.norm()) for a, b in pairs)
            yield f"kernels against plain torch, {loss.name}", f"{off:.1e} {'ok' if off < 1e-5 else 'DIFFERENT'}"
        if bench.device.type != "cuda":
            continue
        launched, replayed = (epochs_of(bench, loss, 101, True, fused.available(bench.x), replay) for replay in (0, 1))
        for epochs in (launched, replayed):
            several(epochs)()
        off = float((launched.theta - replayed.theta).norm() / launched.theta.norm())
        recorded = None not in replayed._replays.values() and bool((launched.selected == replayed.selected).all())
        yield (
            f"replayed against launched, {loss.name}",
            f"{off:.1e} {'ok' if off < 1e-5 and recorded else 'DIFFERENT'}",
        )
        ways = {"plain torch": plain, "kernels": launched, "replayed": replayed}
        for way, epochs in ways.items():
            several(epochs)()
            torch.cuda.synchronize()
            torch.cuda.set_sync_debug_mode("error")
            try:
                several(epochs)()
                yield f"waits for the device, {loss.name}, {way}", "never: ok"
            except RuntimeError as error:
                yield f"waits for the device, {loss.name}, {way}", f"YES: {str(error).splitlines()[0][:90]}"
            finally:
                torch.cuda.set_sync_debug_mode("default")


#: In this order: the ceilings come first.
PARTS: list[Callable[[Bench], Iterator[Measured]]] = [
    reading,
    products,
    ranking_median,
    ranking_quarter,
    metric,
    means,
    evidence,
    mann_whitney,
    pieces,
    whole,
]


def described(bench: Bench, row: Measured) -> dict[str, Any]:
    """Return a row as it is written."""
    floor = bench.floor(row)
    ratio = row.seconds / (row.against or floor)
    met = None if row.target is None or bench.quick else ratio <= row.target
    return {**asdict(row), "floor": floor, "own_ratio": row.seconds / floor, "ratio": ratio, "met": met}


def line(row: dict[str, Any]) -> str:
    """Return a row as it is printed."""
    if "error" in row:
        return f"{row['name']:<58} {row['error']}"
    met = "" if row["met"] is None else "met" if row["met"] else "MISSED"
    target = "" if row["target"] is None else f"<= {row['target']:g}"
    gb, gflop, ms = row["bytes"] / GB, row["flops"] / 1e9, 1e3 * row["seconds"]
    return (
        f"{row['name']:<58} {ms:>9.3f} {gb:>8.3f} {gb / row['seconds']:>7.0f} {gflop:>9.1f} "
        f"{gflop / row['seconds'] / 1e3:>7.2f} {1e3 * row['floor']:>9.3f} {row['own_ratio']:>6.2f} "
        f"{row['ratio']:>6.2f} {target:>7} {met:>6}  {row['note']}"
    )


HEAD = (
    f"{'':<58} {'ms':>9} {'GB':>8} {'GB/s':>7} {'GFLOP':>9} {'TFLOP/s':>7} {'floor ms':>9} {'/floor':>6} "
    f"{'ratio':>6} {'target':>7} {'':>6}"
)


def measure(bench: Bench) -> dict[str, Any]:
    """Run every part, print as it goes, and return what was found."""
    rows: list[dict[str, Any]] = []
    print(HEAD)
    for part in PARTS:
        try:
            for row in part(bench):
                rows.append(described(bench, row))
                print(line(rows[-1]), flush=True)
        except Exception as error:  # the others go on
            rows.append({"name": part.__name__, "error": f"{type(error).__name__}: {error}"})
            print(line(rows[-1]), flush=True)
    checked: dict[str, str] = {}
    try:
        for name, result in itertools.chain(estimates(bench), checks(bench)):
            checked[name] = result
            print(f"{name:<58} {result}", flush=True)
    except Exception as error:
        checked["checks"] = f"{type(error).__name__}: {error}"
        print(f"{'checks':<58} {checked['checks']}", flush=True)
    return {
        "device": torch.cuda.get_device_name(bench.device) if bench.device.type == "cuda" else platform.processor(),
        "torch": torch.__version__,
        "quick": bench.quick,
        "bandwidth": bench.bandwidth,
        "rate": bench.rate,
        "rows": rows,
        "checks": checked,
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write gpu.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("out"), help="folder for gpu.json")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="few rows, to see that it runs")
    options = parser.parse_args(arguments)
    if torch.device(options.device).type == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no GPU here: --device cpu --quick shows that the script runs")
    torch.backends.cuda.matmul.allow_tf32 = False
    start = time.perf_counter()
    with torch.no_grad():
        found = measure(Bench(torch.device(options.device), options.quick))
    found["seconds"] = time.perf_counter() - start
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "gpu.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{found['seconds']:.0f} s, {path}")


if __name__ == "__main__":
    main()
