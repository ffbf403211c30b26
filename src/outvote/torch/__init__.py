"""Losses for any torch model that stay right when part of each batch is corrupt; they need the extra `torch`."""

from __future__ import annotations

try:
    from torch import Tensor as _Tensor  # noqa: F401
except ImportError as error:
    raise ImportError('outvote.torch needs torch: pip install "outvote[torch]"') from error

from outvote.torch.blocks import BatchPlan, choose_blocks, deal_blocks, plan_batch
from outvote.torch.device.deals import block_means
from outvote.torch.losses import (
    MedianBlockLoss,
    MedianBlockPairLoss,
    median_block_loss,
    median_block_pair_loss,
    trusted_rows,
)

__all__ = [
    "BatchPlan",
    "MedianBlockLoss",
    "MedianBlockPairLoss",
    "block_means",
    "choose_blocks",
    "deal_blocks",
    "median_block_loss",
    "median_block_pair_loss",
    "plan_batch",
    "trusted_rows",
]
