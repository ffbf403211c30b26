"""The descent of rankers and metrics on a device: `outvote.learning.descent` in torch, without waiting for the device.

An epoch reads and writes tensors only: it draws its blocks on the device, and no number comes back to the host before
the end, unless something asks for one every epoch (early stopping, callbacks, a progress bar).
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
from torch.nn.functional import embedding_bag

from outvote.learning.dealing import _PERMUTE_EVERY, _SMALL, Cell
from outvote.learning.descent import (
    _CHECKS,
    DEFAULTS,
    Callback,
    Descended,
    History,
    Problem,
    Settings,
    State,
    Steps,
    _check,
    _check_progress,
    _finite,
    _progress,
)
from outvote.learning.losses import MetricHinge, PairHinge, PairLogistic, ProductHinge
from outvote.learning.scaling import ScaledRows
from outvote.torch import fused
from outvote.torch.blocks import deal_blocks
from outvote.torch.scaling import robust_scaling

Array = NDArray[Any]

#: Numbers that the gradients of the chosen blocks may hold together, one gradient a block.
_MOST_GRADIENTS = 2**26
#: Numbers that a strip of pairs, or the rows of some blocks, may hold: on the host, and elsewhere.
_MOST_HELD = 2**22, 2**28
#: Epochs from one projection of a metric to the next.
_PROJECT_EVERY = 8
#: Columns of X·M formed at once, from the rows of M above their end.
_COLUMNS = 128
#: Below this share of the largest eigenvalue the sign of another is not sought.
_SMALLEST = {torch.float32: 1e-8, torch.float64: 1e-16}


def device_of(device: Any) -> torch.device:
    """Return the device that a name means, or say why there is none.

    Examples
    --------
    >>> device_of("cpu")
    device(type='cpu')
    """
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"device={device!r} cannot be used ({reason}): 'cpu' works everywhere, None is numpy"
        ) from error
    return found


def copied(x: Array, device: Any) -> Tensor:
    """Return a copy of an array on a device.

    Examples
    --------
    >>> copied(np.arange(3.0)[::-1], "cpu")
    tensor([2., 1., 0.], dtype=torch.float64)
    """
    source = np.ascontiguousarray(x)
    source = source if source.flags.writeable else source.copy()  # torch warns of arrays it may not write to
    return torch.from_numpy(source).to(device_of(device), copy=True)


class DeviceRows(ScaledRows):
    """Scaled rows that lie on a device, centred and scaled there once.

    Parameters
    ----------
    x, centre, scale : ndarray
        As for `ScaledRows`.
    device : str or torch.device
        Where they go.
    sent : Tensor, optional
        `x` on that device, where it lies there already: it is taken over and scaled.

    Examples
    --------
    >>> rows = DeviceRows(np.array([[1.0, 2.0], [3.0, 6.0]]), np.array([1.0, 2.0]), np.array([1.0, 2.0]), "cpu")
    >>> rows.tensor
    tensor([[0., 0.],
            [2., 2.]], dtype=torch.float64)
    """

    def __init__(self, x: Array, centre: Array, scale: Array, device: Any, sent: Tensor | None = None):
        super().__init__(x, centre, scale)
        self.device = device_of(device)
        self.tensor = copied(x, self.device) if sent is None else sent
        if centre.any():
            self.tensor.sub_(self._like(centre))
        if (scale != 1).any():
            self.tensor.div_(self._like(scale))

    def scores(self, weights: Array) -> Array:
        """Return rows @ weights, for all rows."""
        return (self.tensor @ self._like(weights)).cpu().numpy().astype(np.float64, copy=False)

    def distances(self) -> Array:
        """Return how far each row lies from the centre, in scales."""
        return torch.linalg.vector_norm(self.tensor, dim=1).cpu().numpy().astype(np.float64)

    def _like(self, values: Array) -> Tensor:
        return torch.as_tensor(values, dtype=self.tensor.dtype, device=self.device)


@dataclass(frozen=True)
class DeviceProblem(Problem):
    """A problem whose rows lie on a device; its risks are taken there."""

    def median_risk(self, theta: Array, rng: np.random.Generator) -> float:
        """Return the median of block risks, the median over a few deals: one may be unlucky."""
        part = _part(self, rng)
        return float(part.median_risk(part.rows._like(theta)).item())


class Dealt:
    """Rows dealt into blocks on a device: permuted now and then, turned in between.

    The permuted rows are cut into B stretches of K, one row of each for every block, and each stretch is turned by an
    offset of its own: any two rows of different stretches meet with chance 1/K, at the price of drawing B numbers
    instead of n.

    Examples
    --------
    >>> dealt = Dealt(torch.arange(7), 3, torch.Generator().manual_seed(0))
    >>> dealt.shuffle()
    >>> dealt.deal().shape
    torch.Size([2, 3])
    """

    def __init__(self, rows: Tensor, n_blocks: int, generator: torch.Generator):
        self.rows, self.n_blocks, self.generator = rows, n_blocks, generator
        self.size = len(rows) // n_blocks
        self.shuffle_every = 1 if len(rows) <= _SMALL else _PERMUTE_EVERY
        self._steps = torch.arange(n_blocks, device=rows.device)
        used = rows[: self.size * n_blocks].view(self.size, n_blocks)
        self._twice = used.repeat(1, 2)  # to turn without a remainder

    def shuffle(self) -> None:
        """Permute the rows anew."""
        dealt = deal_blocks(len(self.rows), self.n_blocks, device=self.rows.device, generator=self.generator)
        order = self.rows.index_select(0, dealt.view(-1)).view(self.size, self.n_blocks)
        torch.cat([order, order], dim=1, out=self._twice)

    def deal(self) -> Tensor:
        """Return row numbers, (B, K): column k is block k."""
        if self.n_blocks == 1:
            return self._twice[:, :1]
        offsets = torch.randint(self.n_blocks, (self.size, 1), device=self.rows.device, generator=self.generator)
        return self._twice.gather(1, self._steps + offsets)


class RankingPart:
    """Block risks and gradients of a linear score under a loss of pairs.

    Blocks are stacks of shape (B, K), rows of a block first, as in `outvote.learning.losses`.
    """

    projects = False

    def __init__(self, x: Tensor, targets: Tensor, loss: str, use_fused: bool):
        self.x, self.y, self.loss, self.use_fused = x, targets, loss, use_fused
        self._value, self._slope = _PAIR_FORMS[loss]

    def scores(self, theta: Tensor) -> Tensor:
        """Return the scores of all rows."""
        return self.x @ theta

    def risks(self, scores: Tensor, blocks: Tensor) -> Tensor:
        """Return the mean loss over the pairs of each block; NaN is as bad as can be."""
        size = len(blocks)
        if self.use_fused:
            total = fused.pair_sums(scores, self.y, blocks, self.loss)
        else:
            s, y = self._own(scores[blocks]), self.y[blocks]
            total = torch.zeros_like(s[0])
            for low, high in _strips(size, s):
                values = self._value(s[low:high, None], s[None], y[low:high, None], y[None])
                values.diagonal(low, 0, 1).zero_()
                total += values.sum((0, 1))
        risks = total / (size * (size - 1))
        return risks.nan_to_num(math.inf, math.inf, -math.inf)

    def slopes(self, scores: Tensor, blocks: Tensor) -> Tensor:
        """Return the derivative of each block's risk in the scores of its rows."""
        size = len(blocks)
        if self.use_fused:
            slopes = fused.pair_slopes(scores, self.y, blocks, self.loss)
        else:
            s, y = self._own(scores[blocks]), self.y[blocks]
            slopes = torch.empty_like(s)
            for low, high in _strips(size, s):
                values = self._slope(s[low:high, None], s[None], y[low:high, None], y[None])
                values.diagonal(low, 0, 1).zero_()
                slopes[low:high] = values.sum(1)
            if self.loss == "product":
                slopes = slopes * s * (1 - s)
        return slopes * (2 / (size * (size - 1)))

    def gradient(self, scores: Tensor, blocks: Tensor, clipped: bool) -> Tensor:
        """Return the mean gradient of some blocks; none pulls harder than the median of them if they are `clipped`."""
        slopes = self.slopes(scores, blocks)
        clipped = clipped and blocks.shape[1] >= 3
        if self.use_fused:
            gradients, norms = fused.pull(self.x, blocks, slopes, clipped)
        else:
            weights = slopes.t().contiguous()
            gradients = embedding_bag(blocks.t().contiguous(), self.x, per_sample_weights=weights, mode="sum")
            norms = torch.linalg.vector_norm(gradients, dim=1)
            gradients = torch.where((norms < math.inf)[:, None], gradients, 0.0) if clipped else gradients
        return clip_weights(norms) @ gradients if clipped else gradients.mean(0)

    def project(self, theta: Tensor) -> Tensor:
        """Return the nearest parameter that is allowed."""
        return theta

    def mean_losses(self, scores: Tensor, others: Tensor) -> Tensor:
        """Return the mean loss of each row with some others."""
        own = self._own(scores)
        step = max(1, _held(own) // max(1, len(others)))
        parts = [
            self._value(s[:, None], own[others], y[:, None], self.y[others]).mean(1)
            for s, y in zip(own.split(step), self.y.split(step), strict=True)
        ]
        return torch.cat(parts)

    def _own(self, scores: Tensor) -> Tensor:
        return scores.sigmoid() if self.loss == "product" else scores


class MetricPart:
    """Block risks and gradients of a Mahalanobis metric.

    The scores of the rows are X·U with U upper triangular and U + Uᵀ = 2M, so that a block's squared distances follow
    from the products of its rows with these: xᵀMy = (xᵀUy + yᵀUx)/2. That is half the work of X·M. M needs no root,
    and need not be positive semi-definite all the time.
    """

    projects = True

    def __init__(self, x: Tensor, classes: Tensor, centred: bool, use_fused: bool):
        self.x, self.y, self.centred, self.use_fused = x, classes, centred, use_fused

    def scores(self, theta: Tensor) -> Tensor:
        """Return X·U; what U has below its diagonal is not multiplied."""
        upper, scores, n_columns = theta.triu() + theta.t().triu(1), torch.empty_like(self.x), len(theta)
        ends = range(n_columns, 0, -_COLUMNS)
        for end, low in zip(ends, (*ends[1:], 0), strict=True):
            torch.mm(self.x[:, :end], upper[:end, low:end], out=scores[:, low:end])
        return scores

    def risks(self, scores: Tensor, blocks: Tensor) -> Tensor:
        """Return the mean loss over the pairs of each block; NaN is as bad as can be."""
        size, n_blocks = blocks.shape
        if self.use_fused:
            total = fused.metric_sums(self.x, scores, self.y, blocks)
        else:
            total = scores.new_empty(n_blocks)
            step = max(1, _held(self.x) // (size * max(size, self.x.shape[1])))
            for low in range(0, n_blocks, step):
                _, sign, distance = self._pairs(scores, blocks[:, low : low + step])
                # a row costs nothing with itself: 1 + (0 - 2) < 0
                total[low : low + step] = (1 + sign * (distance - 2)).clamp(min=0).sum((1, 2))
        risks = total / (size * (size - 1))
        return risks.nan_to_num(math.inf, math.inf, -math.inf)

    def gradient(self, scores: Tensor, blocks: Tensor, clipped: bool) -> Tensor:
        """Return the mean gradient of some blocks; none pulls harder than the median of them if they are `clipped`."""
        size, n_blocks = blocks.shape
        x, sign, distance = self._pairs(scores, blocks)
        weights = torch.where(1 + sign * (distance - 2) > 0, sign, 0.0)
        weights.diagonal(0, 1, 2).zero_()
        pulls = (torch.diag_embed(weights.sum(2)) - weights) * (2 / (size * (size - 1)))
        shares = x.new_full((n_blocks,), 1 / n_blocks)
        if clipped and n_blocks >= 3:
            turned = pulls @ (x @ x.mT)
            shares = clip_weights((turned * turned.mT).sum((1, 2)).clamp(min=0).sqrt())
        x = torch.where((shares > 0)[:, None, None], x, 0.0)
        total = x.flatten(0, 1).t() @ (shares[:, None, None] * (pulls @ x)).flatten(0, 1)
        return (total + total.t()) / 2

    def project(self, theta: Tensor) -> Tensor:
        """Return the nearest parameter that is allowed."""
        return nearest_psd(theta)

    def mean_losses(self, scores: Tensor, others: Tensor) -> Tensor:
        """Return the mean loss of each row with some others."""
        step = max(1, _held(scores) // max(self.x.shape[1], len(others)))
        x, p = self.x[others], scores[others]
        middle, image = x.mean(0), p.mean(0)
        x, p = x - middle, p - image
        square, parts = (x * p).sum(1), []
        for a, b, y in zip(self.x.split(step), scores.split(step), self.y.split(step), strict=True):
            a, b = a - middle, b - image
            distance = ((a * b).sum(1)[:, None] + square - a @ p.t() - b @ x.t()).clamp(min=0)
            sign = torch.where(y[:, None] == self.y[others], 1.0, -1.0)
            parts.append((1 + sign * (distance - 2)).clamp(min=0).mean(1))
        return torch.cat(parts)

    def _pairs(self, scores: Tensor, blocks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the rows of each block, +1 inside a class and -1 across, and squared distances: (K, B, ·)."""
        rows = blocks.t()
        x, p, classes = self.x[rows], scores[rows], self.y[rows]
        if not self.centred:  # far from 0 the products lose the digits that tell rows apart
            x, p = x - x.mean(1, keepdim=True), p - p.mean(1, keepdim=True)
        products = x @ p.mT
        own = products.diagonal(0, 1, 2)
        distance = (own[:, :, None] + own[:, None, :] - products - products.mT).clamp(min=0)
        distance.diagonal(0, 1, 2).zero_()
        return x, torch.where(classes[:, :, None] == classes[:, None, :], 1.0, -1.0).to(x.dtype), distance


class Recorder:  # pragma: no cover
    """Records what jobs launch on a CUDA device, to launch it again as one graph: that leaves no gaps.

    Parameters
    ----------
    generator : torch.Generator
        What the jobs draw from; every replay draws anew.
    """

    def __init__(self, generator: torch.Generator):
        self.generator, self.device = generator, generator.device
        # All graphs share their memory: they run one after another, and leave nothing there.
        self.pool, self.stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream(self.device)

    def __call__(self, job: Callable[[], None]) -> Callable[[], None]:
        """Record a job that has run before, and return what runs it; the host waits for the device once."""
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)
        recording = torch.cuda.graph(graph, self.pool, self.stream, capture_error_mode="thread_local")
        # A recording that fails gives back neither the stream nor the generators, of which torch's own is always one.
        with torch.cuda.device(self.device), torch.cuda.stream(torch.cuda.current_stream()):
            bound = self.generator, torch.cuda.default_generators[torch.cuda.current_device()]
            states = [each.clone_state() for each in bound]
            try:
                with recording:
                    job()
            except RuntimeError:
                for each, state in zip(bound, states, strict=True):
                    each.graphsafe_set_state(state)
                raise
        return cast(Callable[[], None], graph.replay)


class Epochs:
    """The epochs of one descent: parameter, history and counts, all of them on the device.

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
        `Recorder`, where steps are to be recorded and replayed.
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
        # Where the middle blocks are too many every so manieth is taken, from a random one on: any of them will do.
        self._places = low + torch.arange(self.n_taken, device=like.device) * n_chosen // self.n_taken
        self._slack = n_chosen // self.n_taken
        self.selected = torch.zeros((n_epochs, self.n_taken), dtype=torch.int32, device=like.device)
        self._ones = torch.ones(self.n_taken * part.dealt.size, dtype=torch.int32, device=like.device)
        self._recorder = recorder
        self._replays: dict[bool, Callable[[], None] | None] = {}

    def run(self, epoch: int) -> None:
        """Run one epoch, and what is due in some epochs only."""
        since, n_epochs = epoch - self.first, self.settings.n_epochs
        if since % self.part.dealt.shuffle_every == 0:
            self.part.dealt.shuffle()
        self._launch(self.part.form.projects and (since % _PROJECT_EVERY == 0 or since == n_epochs - 1))
        if self.settings.average and 2 * (since + 1) > n_epochs:
            self.total += self.theta
            self.n_averaged += 1

    def _launch(self, project: bool) -> None:
        """Step: launched the first time, which compiles and loads what it needs, recorded the second, then replayed."""
        if self._recorder is not None and project in self._replays and self._replays[project] is None:
            try:
                self._replays[project] = self._recorder(lambda: self.step(project))
            except RuntimeError:  # too little memory, say: a recording keeps its own
                self._recorder, self._replays = None, {}
        replay = self._replays.setdefault(project, None)
        if replay is None:
            self.step(project)
        else:
            replay()

    def step(self, project: bool = True) -> None:
        """Deal, vote, choose and step; nothing here waits for the device, and nothing depends on the host."""
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
        """Return how many blocks lie below the chosen ones, and how many are chosen."""
        n_chosen = min(max(1, self.n_chosen), self.dealt.n_blocks)
        return (self.dealt.n_blocks - n_chosen) // 2, n_chosen

    def median_risk(self, theta: Tensor) -> Tensor:
        """Return the median of block risks, the median over a few deals: one may be unlucky."""
        scores, each = self.form.scores(theta), []
        for check in range(_CHECKS):
            if check % self.dealt.shuffle_every == 0:
                self.dealt.shuffle()
            risks = self.form.risks(scores, self.dealt.deal())
            each.append(risks.sort().values[(len(risks) - 1) // 2])
        return torch.stack(each).median()


def descend(
    problem: Problem,
    start: Array,
    rng: np.random.Generator,
    settings: Settings = DEFAULTS,
    *,
    held_out: Problem | None = None,
    callbacks: Sequence[Callback] = (),
    verbose: int = 0,
    first_epoch: int = 0,
    reference: Array | None = None,
) -> Descended:
    """Minimise the median of block risks on the device of the rows; see `outvote.learning.descend`.

    `problem.design` is a `DeviceRows`. Without `held_out`, `callbacks` and `verbose` the host waits for the device
    at the end, and on CUDA once or twice at the beginning, where epochs are recorded; with one of them after every
    epoch. A descent that went astray is noticed then, not before. A metric is projected every eighth epoch and at the
    end.

    Examples
    --------
    >>> from outvote.learning.dealing import Cell
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(100, 2))
    >>> rows = DeviceRows(x, np.zeros(2), np.ones(2), "cpu")
    >>> problem = DeviceProblem(rows, x[:, 0], PairLogistic(), [Cell((np.arange(100),), 5, 1)])
    >>> found = descend(problem, np.zeros(2), rng, Settings(n_epochs=50))
    >>> bool(found.theta[0] > 5 * abs(found.theta[1]))
    True
    """
    part, last = _part(problem, rng), first_epoch + settings.n_epochs
    held = None if held_out is None else _part(held_out, rng)
    recorder = Recorder(part.dealt.generator) if part.rows.tensor.is_cuda else None
    epochs = Epochs(part, part.rows._like(start), settings, first_epoch, recorder)
    watched = held is not None or bool(callbacks) or bool(verbose)
    history, best, best_risk, best_epoch, epoch = History(), start, math.inf, first_epoch, first_epoch
    with torch.no_grad(), _progress(settings.n_epochs, verbose) as advance:
        for epoch in range(first_epoch, last):
            epochs.run(epoch)
            if not watched:
                continue
            theta, since = _to_host(epochs.theta), epoch - first_epoch
            risk, step = float(epochs.risks[since]), float(epochs.moved[since])
            _check(theta, risk, epoch)
            _finite(theta, epoch)
            judged = None
            if held is not None:
                judged = float(held.median_risk(epochs.theta))
                history.held_out_risk.append(judged)
                if judged < best_risk - settings.tol * abs(best_risk if math.isfinite(best_risk) else 1.0):
                    best, best_risk, best_epoch = theta, judged, epoch
            advance(risk)
            state = State(epoch, last, theta, risk, judged, step)
            stops = [callback(state) is True for callback in callbacks]  # every one is called
            if any(stops):
                break
            if held is not None and settings.patience and epoch - best_epoch >= settings.patience:
                break
    n_run = epoch + 1 - first_epoch
    history.train_risk = _to_host(epochs.risks[:n_run]).tolist()
    history.step = _to_host(epochs.moved[:n_run]).tolist()
    history.selected_blocks = list(epochs.selected[:n_run].cpu().numpy())
    theta = _to_host(epochs.theta)
    for since, (risk, step) in enumerate(zip(history.train_risk, history.step, strict=True)):
        _check(theta, risk, first_epoch + since)
        if not math.isfinite(step):
            _finite(np.array(step), first_epoch + since)
    if held is not None:
        theta = best
    elif epochs.n_averaged:
        theta = _to_host(epochs.total) / epochs.n_averaged
    theta = problem.loss.project(theta)
    _check_progress(problem, [start] if reference is None else [start, reference], theta, rng)
    return Descended(theta, history, epochs.counts.cpu().numpy(), epoch + 1)


class OnDevice:
    """What a learner's fit needs, on a device.

    Parameters
    ----------
    device : str or torch.device
        Where.

    Examples
    --------
    >>> OnDevice("cpu").robust_scaling(np.arange(5.0)[:, None], 0)[0]
    array([2.])
    """

    problem = DeviceProblem
    descend = staticmethod(descend)

    def __init__(self, device: Any):
        self.device = device_of(device)
        self._sent: tuple[Array, Tensor] | None = None

    def robust_scaling(self, x: Array, n_corrupt: int) -> tuple[Array, Array]:
        """Return a centre and a scale for each column; the rows stay on the device until `rows` asks for them."""
        self._sent = x, copied(x, self.device)
        return robust_scaling(self._sent[1], n_corrupt)

    def rows(self, x: Array, centre: Array, scale: Array, intercept: bool = False) -> DeviceRows:
        """Return the rows, centred and scaled; neither rankers nor metrics have an intercept."""
        sent = self._sent[1] if self._sent is not None and self._sent[0] is x else None
        self._sent = None
        return DeviceRows(x, centre, scale, self.device, sent)

    @staticmethod
    def mean_losses(problem: Problem, theta: Array, partners: Array) -> Array:
        """Return the mean loss of each row with some others."""
        form, rows = _form(problem, False), cast(DeviceRows, problem.design)
        others = torch.as_tensor(partners, device=rows.device)
        return _to_host(form.mean_losses(form.scores(rows._like(theta)), others))


def step_of(steps: Steps, direction: Tensor, risk: Callable[[], Tensor], length: Tensor) -> Tensor:
    """Return what is taken off the parameter: `Steps.step`, without looking at a number.

    The risk is taken only if the rule needs it.

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
    factor = torch.where(norm < math.inf, factor, 1.0)  # NaN is not less either
    return torch.where(norm == 0, 0.0, factor) * direction


def clip_weights(norms: Tensor) -> Tensor:
    """Return what each of several gradients counts for when none is to pull harder than the median of them.

    Examples
    --------
    >>> clip_weights(torch.tensor([1.0, 2.0, 8.0, torch.inf]))
    tensor([0.2500, 0.2500, 0.0625, 0.0000])
    """
    ordered = torch.where(norms > 0, norms, math.inf).sort().values
    count = (ordered < math.inf).sum()
    places = torch.stack([count - 1, count]).clamp(min=0) // 2
    middle = ordered.index_select(0, places).mean()
    most = torch.where(middle < math.inf, middle, 0.0)
    return (most / norms).clamp(max=1.0).nan_to_num(0.0) / len(norms)


def nearest_psd(matrix: Tensor) -> Tensor:
    """Return the nearest positive semi-definite matrix, (M + |M|)/2, by products alone.

    |M| = M·sign(M), and the sign comes from the Newton-Schulz iteration Y ← ρY·(3 - (ρY)²)/2, which takes every
    eigenvalue to ±1. Eigenvalues (`torch.linalg.eigh`) would make the host wait.

    Examples
    --------
    >>> nearest_psd(torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)).round(decimals=9)
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]], dtype=torch.float64)
    """
    length = torch.linalg.matrix_norm(matrix)
    sign = matrix / torch.where(length > 0, length, 1.0)
    for scale in _scales(_SMALLEST[matrix.dtype]):
        scaled = scale * sign
        sign = torch.addmm(scaled, scaled @ scaled, scaled, beta=1.5, alpha=-0.5)
        sign = (sign + sign.t()) / 2  # rounding must not bring in imaginary eigenvalues, which grow for ever
    found = (matrix + matrix @ sign) / 2
    return (found + found.t()) / 2


def _scales(smallest: float) -> list[float]:
    """Return factors ρ under which the iteration takes [smallest, 1] to 1.

    ρ² = 3/(1 + l + l²) makes the ends of [l, 1] meet. It is held back to l ≥ 0.1: the optimal one would throw the
    largest eigenvalues down to the smallest and lose their digits.
    """
    scales, low = [], smallest
    while low < 1 - 1e-9:
        held = max(low, 0.1)
        scales.append(math.sqrt(3 / (1 + held + held * held)))
        low = min(_iterated(scales[-1] * low), _iterated(scales[-1]))
    return [*scales, 1.0]


def _iterated(value: float) -> float:
    return value * (3 - value * value) / 2


def _part(problem: Problem, rng: np.random.Generator, use_fused: bool | None = None) -> Part:
    """Put a problem onto the device of its rows, or say what works there."""
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
    """Return targets as the loss compares them: where their order alone counts, ranks keep the digits."""
    values = copied(targets, rows.device)
    if kind is ProductHinge:
        return values.to(rows.tensor.dtype)
    return torch.searchsorted(values.sort().values, values, out_int32=True)


def _to_host(values: Tensor) -> Array:
    return values.cpu().numpy().astype(np.float64)


def _held(like: Tensor) -> int:
    return _MOST_HELD[like.device.type != "cpu"]


def _strips(size: int, stack: Tensor) -> list[tuple[int, int]]:
    """Cut the rows of blocks into strips whose pairs with all rows may be held at once."""
    step = max(1, _held(stack) // max(1, stack.numel()))
    return [(low, min(low + step, size)) for low in range(0, size, step)]


def _logistic(s: Tensor, t: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return -torch.nn.functional.logsigmoid((y - z).sign() * (s - t))


def _logistic_slope(s: Tensor, t: Tensor, y: Tensor, z: Tensor) -> Tensor:
    sign = (z - y).sign()
    return sign * (sign * (s - t)).sigmoid()


def _hinge(s: Tensor, t: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return (1 + (z - y).sign() * (s - t)).clamp(min=0)


def _hinge_slope(s: Tensor, t: Tensor, y: Tensor, z: Tensor) -> Tensor:
    sign = (z - y).sign()
    return torch.where(1 + sign * (s - t) > 0, sign, 0).to(s.dtype)


def _product(s: Tensor, t: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return (1 - (s - t) * (y - z)).clamp(min=0)


def _product_slope(s: Tensor, t: Tensor, y: Tensor, z: Tensor) -> Tensor:
    gap = z - y
    return gap * ((s - t) * gap > -1)


_NAMES: dict[type[Any], str] = {PairLogistic: "logistic", PairHinge: "hinge", ProductHinge: "product"}
_PairForm = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
#: What a pair costs, and how that moves with its first score (for "product": with its sigmoid).
_PAIR_FORMS: dict[str, tuple[_PairForm, _PairForm]] = {
    "logistic": (_logistic, _logistic_slope),
    "hinge": (_hinge, _hinge_slope),
    "product": (_product, _product_slope),
}
