"""Assumptions on the clean rows, and the tail bounds that follow for one block."""

from outvote.assumptions.assumption import (
    SYMMETRIC_ONLY,
    Assumption,
    BlockSize,
    Bounded,
    FiniteKurtosis,
    FiniteVariance,
    Proportion,
    SubGaussian,
    Symmetric,
    one_assumption,
)
from outvote.assumptions.bounded_ratio import BoundedRatio
from outvote.assumptions.tails import Tail

__all__ = [
    "SYMMETRIC_ONLY",
    "Assumption",
    "BlockSize",
    "Bounded",
    "BoundedRatio",
    "FiniteKurtosis",
    "FiniteVariance",
    "Proportion",
    "SubGaussian",
    "Symmetric",
    "Tail",
    "one_assumption",
]
