"""Assumptions on the clean rows, and the tail bounds that follow for one block."""

from outvote.assumptions.assumption import (
    Assumption,
    BlockSize,
    Bounded,
    FiniteKurtosis,
    FiniteVariance,
    Proportion,
    SubGaussian,
    one_assumption,
)
from outvote.assumptions.tails import Tail

__all__ = [
    "Assumption",
    "BlockSize",
    "Bounded",
    "FiniteKurtosis",
    "FiniteVariance",
    "Proportion",
    "SubGaussian",
    "Tail",
    "one_assumption",
]
