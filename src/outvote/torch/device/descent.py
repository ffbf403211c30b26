"""The descent of rankers and metrics on a device: `outvote.learning.descent` in torch, without waiting for the device.

An epoch reads and writes tensors only: it draws its blocks on the device, and no number is copied to the host before
the end, unless early stopping, a callback or a progress bar needs one in every epoch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from outvote.learning.backend import Backend
from outvote.learning.descent import Descended, Descent, Settings, State, Watch
from outvote.learning.divergence import check_finite, check_risk
from outvote.learning.losses import MetricHinge, PairHinge, PairLogistic, ProductHinge
from outvote.learning.problem import N_DRAWS, Problem
from outvote.learning.progress import show_progress
from outvote.learning.steps import Steps
from outvote.learning.voting import Cell
from outvote.torch.device import fused
from outvote.torch.device.graphs import Recorder
from outvote.torch.device.risks import MetricPart, RankingPart
from outvote.torch.device.rows import Dealt, DeviceRows, copied, device_of, to_host
from outvote.torch.device.scaling import robust_scaling

Array = NDArray[Any]

#: The most numbers in the gradients of the chosen blocks, one gradient per block.
_MOST_GRADIENTS = 2**26
#: Epochs between two projections of a metric.
_PROJECT_EVERY = 8
_NAMES: dict[type[Any], str] = {PairLogistic: "logistic", PairHinge: "hinge", ProductHinge: "product"}


@dataclass(frozen=True)
class DeviceProblem(Problem):
    """A problem with rows on a device; its risks are computed there."""

    def median_risk(self, theta: Array, rng: np.random.Generator) -> float:
        """Return the median of block risks, and of these the median over a few partitions, since one may be unlucky."""
        part = _part(self, rng)
        return float(part.median_risk(part.rows.like(theta)).item())

    def mean_losses(self, theta: Array, partners: Array, rows: Array | None = None) -> Array:
        """Return the mean loss of some rows (all by default), each paired with all `partners`."""
        form, design = _form(self, False), cast(DeviceRows, self.design)
        others = torch.as_tensor(partners, device=design.device)
        losses = to_host(form.mean_losses(form.scores(design.like(theta)), others))
        return losses if rows is None else losses[rows]


class Epochs:
    """The epochs of one descent, with parameter, history and counts on the device.

    Parameters
    ----------
    part : Part
        Rows, loss and blocks.
    start : Tensor
        The first parameter.
    settings : Settings
        Steps, epochs, penalty, averaging.
    first_epoch : int
        Number of the first epoch.
    recorder : callable, optional
        A `Recorder`, if steps are captured and replayed.
    """

    def __init__(
        self,
        part: Part,
        start: Tensor,
        settings: Settings,
        first_epoch: int = 0,
        recorder: Callable[[Callable[[], None]], Callable[[], None]] | None = None,
    ):
        self.part, self.settings, self.first = part, settings, first_epoch
        n_epochs, last, like = settings.n_epochs, first_epoch + settings.n_epochs, start
        self.theta, self.velocity, self.total = start.clone(), torch.zeros_like(like), torch.zeros_like(like)
        self.counts = torch.zeros(len(part.form.y), dtype=torch.int32, device=like.device)
        lengths = [settings.steps.length(epoch, last) for epoch in range(first_epoch, last)]
        self.lengths = torch.tensor(lengths, dtype=like.dtype, device=like.device)
        self.risks, self.moved = torch.zeros_like(self.lengths), torch.zeros_like(self.lengths)
        self.n_averaged = 0
        self._at = torch.zeros(1, dtype=torch.int64, device=like.device)
        low, n_chosen = part.middle()
        most = max(1, _MOST_GRADIENTS // like.numel())
        self.n_taken = min(n_chosen, most)
        # If there are too many middle blocks, every s-th is taken, from a random one on.
        self._places = low + torch.arange(self.n_taken, device=like.device) * n_chosen // self.n_taken
        self._slack = n_chosen // self.n_taken
        self.selected = torch.zeros((n_epochs, self.n_taken), dtype=torch.int32, device=like.device)
        self._ones = torch.ones(self.n_taken * part.dealt.size, dtype=torch.int32, device=like.device)
        self._recorder = recorder
        self._replays: dict[bool, Callable[[], None] | None] = {}

    def run(self, epoch: int) -> None:
        """Run one epoch, with the shuffle, projection and averaging that some epochs need."""
        since, n_epochs = epoch - self.first, self.settings.n_epochs
        if since % self.part.dealt.shuffle_every == 0:
            self.part.dealt.shuffle()
        self._launch(self.part.form.projects and (since % _PROJECT_EVERY == 0 or since == n_epochs - 1))
        if self.settings.average and 2 * (since + 1) > n_epochs:
            self.total += self.theta
            self.n_averaged += 1

    def _launch(self, project: bool) -> None:
        """Run a step: directly the first time, which compiles kernels, captured the second time, replayed later."""
        if self._recorder is not None and project in self._replays and self._replays[project] is None:
            try:
                self._replays[project] = self._recorder(lambda: self.step(project))
            except RuntimeError:  # for example too little memory, since a graph keeps its own
                self._recorder, self._replays = None, {}
        replay = self._replays.setdefault(project, None)
        if replay is None:
            self.step(project)
        else:
            replay()

    def step(self, project: bool = True) -> None:
        """Draw blocks, compute risks, choose blocks and step, without waiting for the device or using host values."""
        form, settings = self.part.form, self.settings
        scores, blocks = form.scores(self.theta), self.part.dealt.deal()
        ordered, order = form.risks(scores, blocks).sort()
        places = self._places
        if self._slack > 1:
            generator = self.part.dealt.generator
            places = places + torch.randint(self._slack, (1,), device=places.device, generator=generator)
        chosen = order.index_select(0, places)
        rows = blocks if self.n_taken == len(order) else blocks.index_select(1, chosen)
        gradient = form.gradient(scores, rows, self.part.clipped)
        if settings.alpha:
            gradient = gradient + settings.alpha * self.theta
        torch.add(gradient, self.velocity, alpha=settings.steps.momentum, out=self.velocity)
        length = self.lengths.index_select(0, self._at)
        step = step_of(settings.steps, self.velocity, lambda: ordered.index_select(0, places).mean(), length)
        moved = self.theta - step
        moved = form.project(moved) if project else moved
        self.moved.index_copy_(0, self._at, torch.linalg.vector_norm(moved - self.theta).view(1))
        self.risks.index_copy_(0, self._at, ordered[(len(order) - 1) // 2].view(1))
        self.selected.index_copy_(0, self._at, chosen.to(torch.int32)[None])
        self.counts.index_add_(0, rows.reshape(-1), self._ones)
        self.theta.copy_(moved)
        self._at += 1


@dataclass(frozen=True)
class Part:
    """A problem on a device: its rows, its loss, and the blocks of its one cell."""

    rows: DeviceRows
    form: RankingPart | MetricPart
    dealt: Dealt
    n_chosen: int
    clipped: bool

    def middle(self) -> tuple[int, int]:
        """Return how many blocks have smaller risks than the chosen ones, and how many are chosen."""
        n_chosen = min(max(1, self.n_chosen), self.dealt.n_blocks)
        return (self.dealt.n_blocks - n_chosen) // 2, n_chosen

    def median_risk(self, theta: Tensor) -> Tensor:
        """Return the median of block risks, and of these the median over a few partitions, since one may be unlucky."""
        scores, each = self.form.scores(theta), []
        for check in range(N_DRAWS):
            if check % self.dealt.shuffle_every == 0:
                self.dealt.shuffle()
            risks = self.form.risks(scores, self.dealt.deal())
            each.append(risks.sort().values[(len(risks) - 1) // 2])
        return torch.stack(each).median()


@dataclass(frozen=True)
class DeviceDescent(Descent):
    """A descent on the device of its rows: `problem.design` is a `DeviceRows`.

    Without `held_out`, `callbacks` and `verbose` the host waits for the device at the end, and on CUDA once or twice at
    the beginning, when epochs are captured; with one of them it waits after every epoch. A divergence is noticed only
    when the host waits. A metric is projected in every eighth epoch and at the end.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(100, 2))
    >>> rows = DeviceRows(x, np.zeros(2), np.ones(2), "cpu")
    >>> problem = DeviceProblem(rows, x[:, 0], PairLogistic(), [Cell((np.arange(100),), 5, 1)])
    >>> found = DeviceDescent(problem, np.zeros(2), rng, Settings(n_epochs=50)).run()
    >>> bool(found.theta[0] > 5 * abs(found.theta[1]))
    True
    """

    def run(self) -> Descended:
        """Perform the descent."""
        part, first, last = _part(self.problem, self.rng), self.first_epoch, self.end_epoch
        held = None if self.held_out is None else _part(self.held_out, self.rng)
        recorder = Recorder(part.dealt.generator) if part.rows.tensor.is_cuda else None
        epochs = Epochs(part, part.rows.like(self.start), self.settings, first, recorder)
        epoch, watch = first, Watch(self)
        with torch.no_grad(), show_progress(self.settings.n_epochs, self.verbose) as advance:
            for epoch in range(first, last):
                epochs.run(epoch)
                if not (self.is_watched or self.verbose):
                    continue
                theta, since = to_host(epochs.theta), epoch - first
                risk, step = float(epochs.risks[since]), float(epochs.moved[since])
                check_risk(theta, risk, epoch)
                check_finite(theta, epoch)
                held_out_risk = None if held is None else float(held.median_risk(epochs.theta))
                advance(risk)
                if watch.stops(State(epoch, last, theta, risk, held_out_risk, step)):
                    break
        n_run = epoch + 1 - first
        watch.history.train_risk = to_host(epochs.risks[:n_run]).tolist()
        watch.history.step = to_host(epochs.moved[:n_run]).tolist()
        watch.history.selected_blocks = list(epochs.selected[:n_run].cpu().numpy())
        theta = to_host(epochs.theta)
        for since, (risk, step) in enumerate(zip(watch.history.train_risk, watch.history.step, strict=True)):
            check_risk(theta, risk, first + since)
            if not math.isfinite(step):
                check_finite(np.array(step), first + since)
        if held is not None:
            theta = watch.best
        elif epochs.n_averaged:
            theta = to_host(epochs.total) / epochs.n_averaged
        return self.ended(self.problem.loss.project(theta), watch, epochs.counts.cpu().numpy(), epoch + 1)


class OnDevice(Backend):
    """The parts of a fit on a device.

    Parameters
    ----------
    device : str or torch.device
        The device.

    Examples
    --------
    >>> OnDevice("cpu").robust_scaling(np.arange(5.0)[:, None], 0)[0]
    array([2.])
    """

    problem = DeviceProblem
    descent = DeviceDescent

    def __init__(self, device: Any):
        self.device = device_of(device)
        self._sent: tuple[Array, Tensor] | None = None

    def robust_scaling(self, x: Array, n_corrupt: int) -> tuple[Array, Array]:
        """Return a centre and a scale for each column; the rows are kept on the device for `rows`."""
        self._sent = x, copied(x, self.device)
        return robust_scaling(self._sent[1], n_corrupt)

    def rows(self, x: Array, centre: Array, scale: Array, intercept: bool = False) -> DeviceRows:
        """Return the rows, centred and scaled; neither rankers nor metrics have an intercept."""
        sent = self._sent[1] if self._sent is not None and self._sent[0] is x else None
        self._sent = None
        return DeviceRows(x, centre, scale, self.device, sent)


def step_of(steps: Steps, direction: Tensor, risk: Callable[[], Tensor], length: Tensor) -> Tensor:
    """Return the step to subtract from the parameter, as `Steps.step`, without copying numbers to the host.

    The risk is computed only if the rule needs it.

    Examples
    --------
    >>> step_of(Steps("clipped"), torch.tensor([3.0, 4.0]), lambda: torch.tensor(1.0), torch.tensor([0.5]))
    tensor([0.3000, 0.4000])
    """
    if steps.rule == "plain":
        return length * direction
    norm = torch.linalg.vector_norm(direction)
    if steps.rule == "clipped":
        factor = length * (1 / norm).clamp(max=1.0)
    elif steps.rule == "polyak":
        factor = torch.minimum(length, risk() / norm) / norm
    else:
        factor = length / norm
    factor = torch.where(norm < math.inf, factor, 1.0)  # the comparison is also false for NaN
    return torch.where(norm == 0, 0.0, factor) * direction


def _part(problem: Problem, rng: np.random.Generator, use_fused: bool | None = None) -> Part:
    """Return a problem on the device of its rows, or raise an error if it does not run there."""
    rows, cell = cast(DeviceRows, problem.design), _only(problem.cells, cast(DeviceRows, problem.design).device)
    use_fused = fused.available(rows.tensor) if use_fused is None else use_fused
    form = _form(problem, use_fused, len(cell.samples[0]) // cell.n_blocks)
    generator = torch.Generator(device=rows.device).manual_seed(int(rng.integers(2**63 - 1)))
    sample = torch.as_tensor(cell.samples[0], dtype=torch.int64, device=rows.device)
    return Part(rows, form, Dealt(sample, cell.n_blocks, generator), cell.n_chosen, cell.clipped)


def _form(problem: Problem, use_fused: bool, size: int = 0) -> RankingPart | MetricPart:
    rows, loss, kind = cast(DeviceRows, problem.design), problem.loss, type(problem.loss)
    if kind is MetricHinge:
        classes = torch.as_tensor(problem.targets, dtype=torch.int32, device=rows.device)
        centred = bool(rows.centre.any())
        return MetricPart(rows.tensor, classes, centred, use_fused and centred and size <= fused.MOST_SQUARED)
    if kind not in _NAMES:
        raise ValueError(
            f"loss={(loss.name or kind.__name__)!r} does not run with device={str(rows.device)!r}, where rankers take "
            "'logistic', 'hinge' or 'product', and metrics are learnt by `fit` with loss='auto': leave device=None for "
            "others"
        )
    use_fused = use_fused and size <= fused.MOST_PAIRED
    return RankingPart(rows.tensor, _comparable(problem.targets, kind, rows), _NAMES[kind], use_fused)


def _only(cells: Sequence[Cell], device: torch.device) -> Cell:
    if len(cells) != 1 or len(cells[0].samples) != 1 or cells[0].groups is not None:
        what = "groups" if len(cells) == 1 and len(cells[0].samples) == 1 else "two samples"
        raise ValueError(
            f"{what} do not go with device={str(device)!r}: RobustRanker without groups and RobustMetricLearner run "
            "there; leave device=None for others"
        )
    return cells[0]


def _comparable(targets: Array, kind: type[Any], rows: DeviceRows) -> Tensor:
    """Return targets in a form that the loss can compare: ranks, without rounding, if only their order matters."""
    values = copied(targets, rows.device)
    if kind is ProductHinge:
        return values.to(rows.tensor.dtype)
    return torch.searchsorted(values.sort().values, values, out_int32=True)
