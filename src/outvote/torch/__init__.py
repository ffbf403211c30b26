"""Losses for any torch model that stay right when part of each batch is corrupt; they need the extra `torch`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from outvote.data.packages import install_command

try:
    from torch import Tensor as _Tensor  # noqa: F401
except ImportError as error:
    needed = install_command("torch", "array-api-compat")
    raise ImportError(f"outvote.torch needs torch: {needed}") from error

if TYPE_CHECKING:
    from outvote.torch.blocks import BatchPlan, choose_blocks, deal_blocks, plan_batch
    from outvote.torch.device.deals import block_means
    from outvote.torch.losses import (
        MedianBlockLoss,
        MedianBlockPairLoss,
        median_block_loss,
        median_block_pair_loss,
        trusted_rows,
    )

# A name loads its module when it is first used: an estimate of a tensor needs no loss, and no learner.
_HOMES = {
    "BatchPlan": "blocks",
    "MedianBlockLoss": "losses",
    "MedianBlockPairLoss": "losses",
    "block_means": "device.deals",
    "choose_blocks": "blocks",
    "deal_blocks": "blocks",
    "median_block_loss": "losses",
    "median_block_pair_loss": "losses",
    "plan_batch": "blocks",
    "trusted_rows": "losses",
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'outvote.torch' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"outvote.torch.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
