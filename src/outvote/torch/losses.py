"""Losses of the middle blocks of a batch, for training steps in which corrupt rows are outvoted.

Every call puts the rows of a batch into blocks at random, computes the mean loss of each block, and returns the mean
over the blocks in the middle, as one epoch of Algorithm 1 does with all rows.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from outvote.contamination import Contamination
from outvote.torch.blocks import choose_blocks, deal_blocks, plan_batch

PairLoss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""A function that returns the losses of pairs, (n,), from the outputs and targets of their first and second rows."""


def median_block_loss(
    losses: Tensor | Callable[..., Tensor],
    *tensors: Tensor,
    contamination: Any = None,
    n_blocks: int | None = None,
    blocks: Any = 0.25,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return the mean loss of the median block of a batch, or of the blocks in the middle.

    There are two forms:

    - ``median_block_loss(losses, …)`` takes the loss of each row. Rows that are not chosen get a gradient of 0. This
      helps against finite values only: the backward pass of your model still includes these rows, and 0·NaN = NaN.
    - ``median_block_loss(loss_fn, x, y, …)`` computes ``loss_fn(x, y)`` without gradient, chooses rows, and computes it
      again on the chosen rows alone. NaN, infinities and huge values in other rows never reach the gradient.

    Parameters
    ----------
    losses : Tensor or callable
        The loss of each row, (n,), or a function of `tensors` that returns it. Such a function must treat each row
        separately; batch normalisation in training mode does not.
    *tensors : Tensor
        The arguments of the function, rows first, all with the same number of rows.
    contamination : float, int or Contamination, optional
        How many rows of the batch may be corrupt: a fraction or a number of rows.
    n_blocks : int, optional
        Number of blocks (K), 2·n_corrupt + 1 by default; it is required without `contamination`. Rows that do not fit
        into blocks of equal size, chosen at random, are left out of this call.
    blocks : float or "median", default=0.25
        The share of blocks that is taken from the middle of the losses: fewer if corrupt blocks could be among them.
        "median" takes one block.
    generator : torch.Generator, optional
        Generator of the blocks, on the device of the losses.

    Returns
    -------
    Tensor
        The loss, a scalar. It is not finite only if fewer blocks have a finite loss than are chosen.

    See Also
    --------
    MedianBlockLoss : This loss as a module, which counts how often an example is chosen.

    Examples
    --------
    >>> import torch
    >>> losses = torch.full((20,), 1.0)
    >>> losses[:2] = 1e6
    >>> median_block_loss(losses, contamination=2, generator=torch.Generator().manual_seed(0))
    tensor(1.)
    >>> w = torch.zeros(3, requires_grad=True)
    >>> x, y = torch.ones(20, 3), torch.ones(20)
    >>> x[:2] = float("nan")
    >>> median_block_loss(lambda x, y: (x @ w - y).square(), x, y, contamination=2).backward()
    >>> w.grad
    tensor([-2., -2., -2.])
    """
    settings = {"contamination": contamination, "n_blocks": n_blocks, "blocks": blocks}
    loss, _, _ = _voted(losses, tensors, settings, generator)
    return loss


def median_block_pair_loss(
    outputs: Tensor | Callable[..., Tensor],
    targets: Tensor,
    pair_loss: PairLoss,
    *tensors: Tensor,
    contamination: Any = None,
    n_blocks: int | None = None,
    blocks: Any = 0.25,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return the mean loss of pairs inside the median block of a batch, or inside the blocks in the middle.

    Pairs are formed inside blocks only: n·(B - 1)/2 pairs for n rows in blocks of B, not n·(n - 1)/2. A corrupt row
    affects only its own block.

    Parameters
    ----------
    outputs : Tensor or callable
        The model's output for each row, rows first; or a function of `tensors` that returns it, such as a model.
        As in `median_block_loss`, a function is computed again on the chosen rows alone, so that NaN in
        other rows never reaches the gradient.
    targets : Tensor
        Targets, rows first.
    pair_loss : callable
        ``pair_loss(first, second, first_targets, second_targets)`` returns the losses of pairs, (n_pairs,), from the
        outputs of their rows, (n_pairs, …). Each pair occurs once; which of its rows is first is random.
    *tensors : Tensor
        The arguments of the function.
    contamination, n_blocks, blocks, generator
        As in `median_block_loss`. A block has at least two rows, and at most 256 unless `n_blocks` is given.

    Returns
    -------
    Tensor
        The loss, a scalar. It is not finite only if fewer blocks have a finite loss than are chosen.

    Examples
    --------
    >>> import torch
    >>> scores, targets = torch.arange(30.0), torch.arange(30.0)
    >>> targets[:2] = 1e9
    >>> def disorder(s, t, y, z):
    ...     return ((s - t) * (y - z) < 0).float()
    >>> median_block_pair_loss(scores, targets, disorder, contamination=2, generator=torch.Generator().manual_seed(0))
    tensor(0.)
    """
    settings = {"contamination": contamination, "n_blocks": n_blocks, "blocks": blocks}
    loss, _, _ = _voted_on_pairs(outputs, targets, pair_loss, tensors, settings, generator)
    return loss


def trusted_rows(losses: Tensor, contamination: Any, *, above: Any) -> Tensor:
    """Return the rows to trust after the vote has trained a model: all rows except those that contradict the model.

    The vote leaves out hard rows as well as wrong ones; plain epochs on the trusted rows let the model learn the hard
    rows. A row is not trusted if its loss is not finite, or if it is among the worst rows (as many as `contamination`
    allows) *and* its loss is larger than `above`. Few clean rows are left out.

    Parameters
    ----------
    losses : Tensor
        The loss of each row, (n,), under the model that the vote has trained.
    contamination : float, int or Contamination
        How many of these rows may be corrupt: a fraction or a number of rows. Losses that are not finite are the worst.
    above : float or "far"
        The smallest loss of a row that contradicts the model. For a cross entropy use log(n_classes), the loss of a
        guess. 0 leaves out as many rows as may be corrupt. "far" is for squared or absolute residuals: it is the median
        times the fourth power of upper quartile/median, both over rows outside the worst share, which is about four to
        five standard deviations of a normal residual. Do not use "far" for a cross entropy: if a network is sure of
        most rows, the quartiles are so far apart that almost no row is far.

    Returns
    -------
    Tensor
        A mask, (n,). Rows with the same loss as a trusted row are trusted. This function does not wait for the device;
        ``mask.nonzero()`` does.

    Examples
    --------
    >>> import math
    >>> import torch
    >>> losses = torch.tensor([0.1, 0.2, 0.1, 0.4, 0.3, 0.2, 0.9, 7.0, math.nan, 0.1])
    >>> (~trusted_rows(losses, 0.3, above=math.log(10))).nonzero().flatten()
    tensor([7, 8])
    >>> (~trusted_rows(losses, 0.3, above=0)).nonzero().flatten()
    tensor([6, 7, 8])
    """
    n_rows = _n_rows("losses", losses, ())
    _check_losses(losses, n_rows, "losses has")
    if not n_rows:
        raise ValueError("losses has no rows: give one loss for each row")
    far = isinstance(above, str) and above == "far"
    if not far and (isinstance(above, bool) or not isinstance(above, numbers.Real) or math.isnan(above)):
        raise ValueError(
            f"above={above!r} must be the loss of a contradicted row, such as math.log(n_classes), or 'far'"
        )
    values = _precise(losses.detach())
    finite = torch.isfinite(values)
    values = torch.where(finite, values, math.inf)
    kept = values.sort().values[: n_rows - Contamination.of(contamination).rounded_down((n_rows,))[0]]
    if far:
        from outvote.learning.trust import far_loss  # learners load scikit-learn, which the other losses do without

        limit = far_loss(kept, torch.where)
    else:
        limit = torch.full_like(kept[-1], float(above))
    return finite & (values <= torch.maximum(kept[-1], limit))


class _Counting(nn.Module):  # type: ignore[misc]
    """The settings of a vote, and how often each example was in a block and chosen."""

    dealt: Tensor
    chosen: Tensor

    def __init__(
        self,
        *,
        contamination: Any = None,
        n_blocks: int | None = None,
        blocks: Any = 0.25,
        generator: torch.Generator | None = None,
        n_examples: int | None = None,
    ) -> None:
        super().__init__()
        if contamination is not None:
            Contamination.of(contamination)  # raises an error if the amount is impossible
        elif n_blocks is None:
            raise TypeError(f"{type(self).__name__} needs contamination or n_blocks: contamination=0.1, for instance")
        if n_examples is not None and (not isinstance(n_examples, numbers.Integral) or n_examples < 1):
            raise ValueError(f"n_examples={n_examples!r} must be a number of examples: n_examples=len(dataset)")
        self.contamination, self.n_blocks, self.blocks = contamination, n_blocks, blocks
        self.generator, self.n_examples = generator, n_examples
        for name in ("dealt", "chosen"):
            self.register_buffer(name, torch.zeros(n_examples or 0, dtype=torch.int64))

    def extra_repr(self) -> str:
        names = ("contamination", "n_blocks", "blocks", "n_examples")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names if getattr(self, name) is not None)

    def reset_counts(self) -> None:
        """Set all counts to zero."""
        self.dealt.zero_()
        self.chosen.zero_()

    def outlier_scores(self) -> Tensor:
        """Return how much less often than others each example was chosen, in standard deviations.

        If all examples were chosen with the same probability p, an example in m blocks would be chosen m·p times, with
        a standard deviation of √(m·p·(1 - p)). Corrupt examples raise the risk of their blocks and are chosen less
        often; so are examples that are hard, or easy if most are not. An example that was in no block has score 0.
        """
        if not self.n_examples:
            raise ValueError(
                f"no examples were counted: make {type(self).__name__}(…, n_examples=len(dataset)), and give the ids "
                "of the rows with every batch, criterion(…, ids=ids)"
            )
        share = self.chosen.sum() / self.dealt.sum().clamp(min=1)
        spread = (self.dealt * share * (1 - share)).sqrt()
        return torch.where(spread > 0, (self.dealt * share - self.chosen) / spread.clamp(min=1e-12), 0.0)

    @property
    def _settings(self) -> dict[str, Any]:
        return {"contamination": self.contamination, "n_blocks": self.n_blocks, "blocks": self.blocks}

    def _count(self, ids: Tensor | None, n_rows: int, dealt: Tensor, rows: Tensor) -> None:
        if ids is None:
            return
        if self.n_examples is None:
            raise ValueError(f"ids need n_examples: {type(self).__name__}(…, n_examples=len(dataset))")
        if ids.shape != (n_rows,):
            raise ValueError(f"ids has shape {tuple(ids.shape)}: give one for each of the {n_rows} rows of the batch")
        if ids.dtype.is_floating_point or ids.dtype in (torch.bool, torch.complex64, torch.complex128):
            raise TypeError(f"ids has dtype {ids.dtype}: give the integers from 0 to n_examples - 1")
        ids = ids.to(rows.device, torch.int64)
        if not torch.compiler.is_compiling() and ids.device.type == "cpu" and n_rows:
            low, high = int(ids.min()), int(ids.max())  # on a GPU this would wait for the device
            if low < 0 or high >= self.n_examples:
                wrong = low if low < 0 else high
                raise ValueError(f"ids has {wrong}: ids must be 0 to n_examples - 1, which is {self.n_examples - 1}")
        for counts, which in ((self.dealt, dealt), (self.chosen, rows)):
            taken = ids[which.reshape(-1)].to(counts.device)
            counts.index_add_(0, taken, torch.ones_like(taken))


class MedianBlockLoss(_Counting):
    """`median_block_loss` as a module that counts how often each example is chosen.

    Parameters
    ----------
    contamination, n_blocks, blocks, generator
        As in `median_block_loss`.
    n_examples : int, optional
        Number of examples that are counted; their ids are 0 to n_examples - 1.

    Attributes
    ----------
    dealt, chosen : Tensor
        How often each example was in a block, and in a chosen block; buffers, saved in ``state_dict``. Rows in no block
        are not counted.

    Examples
    --------
    >>> import torch
    >>> criterion = MedianBlockLoss(contamination=0.1, n_examples=50, generator=torch.Generator().manual_seed(0))
    >>> losses = torch.ones(50)
    >>> losses[7] = 100.0
    >>> for _ in range(100):
    ...     loss = criterion(losses, ids=torch.arange(50))
    >>> loss, criterion.outlier_scores().argmax()
    (tensor(1.), tensor(7))
    """

    def forward(self, losses: Tensor | Callable[..., Tensor], *tensors: Tensor, ids: Tensor | None = None) -> Tensor:
        """Return the loss of the blocks in the middle, in either form of `median_block_loss`; count `ids` if given."""
        loss, dealt, rows = _voted(losses, tensors, self._settings, self.generator)
        self._count(ids, len(tensors[0]) if tensors else len(losses), dealt, rows)  # type: ignore[arg-type]
        return loss


class MedianBlockPairLoss(_Counting):
    """`median_block_pair_loss` as a module that counts how often each example is chosen.

    Parameters
    ----------
    pair_loss : callable
        ``pair_loss(first, second, first_targets, second_targets)``, the losses of pairs; a module is registered as
        usual.
    contamination, n_blocks, blocks, generator, n_examples
        As in `MedianBlockLoss`.

    Attributes
    ----------
    dealt, chosen : Tensor
        As in `MedianBlockLoss`.

    Examples
    --------
    >>> import torch
    >>> def contrast(a, b, y, z):
    ...     gap = (a - b).square().sum(1)
    ...     return torch.where(y == z, gap, torch.relu(1 - gap))
    >>> criterion = MedianBlockPairLoss(contrast, contamination=0.1)
    >>> embeddings, labels = torch.eye(2).repeat(20, 1), torch.arange(2).repeat(20)
    >>> criterion(embeddings, labels)
    tensor(0.)
    """

    def __init__(self, pair_loss: PairLoss, **settings: Any) -> None:
        super().__init__(**settings)
        self.pair_loss = pair_loss

    def forward(
        self,
        outputs: Tensor | Callable[..., Tensor],
        targets: Tensor,
        *tensors: Tensor,
        ids: Tensor | None = None,
    ) -> Tensor:
        """Return the loss of the blocks in the middle, in either form of `median_block_pair_loss`; count `ids`."""
        loss, dealt, rows = _voted_on_pairs(outputs, targets, self.pair_loss, tensors, self._settings, self.generator)
        self._count(ids, len(targets), dealt, rows)
        return loss


def _voted(
    losses: Tensor | Callable[..., Tensor],
    tensors: tuple[Tensor, ...],
    settings: dict[str, Any],
    generator: torch.Generator | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss, the rows of the blocks, (K, B), and the rows of the chosen blocks."""
    n_rows = _n_rows("losses", losses, tensors)
    values = _without_gradient(losses, tensors)
    _check_losses(values, n_rows, "loss_fn returned" if tensors else "losses has")
    plan = plan_batch(n_rows, **settings)
    dealt = deal_blocks(n_rows, plan.n_blocks, device=values.device, generator=generator)
    rows = dealt[choose_blocks(_precise(values)[dealt].mean(dim=1), plan.n_chosen)]
    return _on_rows(losses, tensors, rows.reshape(-1)).mean(), dealt, rows


def _voted_on_pairs(
    outputs: Tensor | Callable[..., Tensor],
    targets: Tensor,
    pair_loss: PairLoss,
    tensors: tuple[Tensor, ...],
    settings: dict[str, Any],
    generator: torch.Generator | None,
) -> tuple[Tensor, Tensor, Tensor]:
    n_rows = _n_rows("outputs", outputs, tensors)
    if targets.ndim == 0 or targets.shape[0] != n_rows:
        raise ValueError(f"targets has shape {tuple(targets.shape)}, but there are {n_rows} rows")
    values = _without_gradient(outputs, tensors)
    plan = plan_batch(n_rows, **settings, degree=2)
    dealt = deal_blocks(n_rows, plan.n_blocks, device=values.device, generator=generator)
    first, second = torch.triu_indices(plan.block_size, plan.block_size, 1, device=values.device)
    with torch.no_grad():
        risks = _pair_losses(pair_loss, values, targets, dealt[:, first], dealt[:, second])
        rows = dealt[choose_blocks(_precise(risks).mean(dim=1), plan.n_chosen)]
    taken = rows.reshape(-1)
    places = torch.arange(plan.n_chosen * plan.block_size, device=values.device).view(plan.n_chosen, -1)
    chosen, their_targets = _on_rows(outputs, tensors, taken), targets.index_select(0, taken)
    return _pair_losses(pair_loss, chosen, their_targets, places[:, first], places[:, second]).mean(), dealt, rows


def _pair_losses(pair_loss: PairLoss, outputs: Tensor, targets: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Return the losses of the pairs of every block, (K, pairs in a block)."""
    one, two = first.reshape(-1), second.reshape(-1)
    losses = pair_loss(
        outputs.index_select(0, one),
        outputs.index_select(0, two),
        targets.index_select(0, one),
        targets.index_select(0, two),
    )
    _check_losses(losses, one.shape[0], "pair_loss returned", "pair")
    return losses.view(first.shape)


def _without_gradient(values: Tensor | Callable[..., Tensor], tensors: tuple[Tensor, ...]) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach()
    with torch.no_grad():
        found = values(*tensors)
    if not isinstance(found, Tensor):
        raise TypeError(f"the function returned {type(found).__name__}, not a tensor with one entry for each row")
    # Autocast caches the weights that it has cast; those cast here have no gradient.
    torch.clear_autocast_cache()
    return found


def _on_rows(values: Tensor | Callable[..., Tensor], tensors: tuple[Tensor, ...], rows: Tensor) -> Tensor:
    if isinstance(values, Tensor):
        return values.index_select(0, rows)
    return values(*(tensor.index_select(0, rows.to(tensor.device)) for tensor in tensors))


def _n_rows(name: str, values: Tensor | Callable[..., Tensor], tensors: tuple[Tensor, ...]) -> int:
    if isinstance(values, Tensor):
        if tensors:
            raise TypeError(
                f"{name} is a tensor, which goes alone: pass one loss per row, "
                "criterion(F.cross_entropy(logits, y, reduction='none')), or a function, criterion(loss_fn, x, y)"
            )
        if values.ndim == 0:
            raise ValueError(f"{name} is a scalar: give one for each row, as a loss with reduction='none' does")
        tensors = (values,)
    elif not callable(values):
        raise TypeError(f"{name} is a {type(values).__name__}, neither a tensor nor a function")
    elif not tensors:
        raise TypeError(f"{name} is a function: give it tensors, rows first")
    sizes = [tensor.shape[0] if tensor.ndim else 0 for tensor in tensors]
    if min(sizes) != max(sizes):
        raise ValueError(f"the tensors have {sizes} rows: they must have equally many")
    return operator.index(sizes[0])  # under torch.compile: a constant


def _check_losses(losses: Tensor, n_rows: int, who: str, what: str = "row") -> None:
    if losses.shape != (n_rows,):
        raise ValueError(
            f"{who} shape {tuple(losses.shape)}: expected ({n_rows},), one loss for each {what} (reduction='none', and "
            "a mean over further dimensions)"
        )


def _precise(losses: Tensor) -> Tensor:
    """Return losses in at least float32; in half precision risks would tie, or their sum overflow."""
    return losses if losses.dtype == torch.float64 else losses.float()
