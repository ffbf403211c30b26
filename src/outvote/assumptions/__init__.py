"""What is known of the clean rows, and what follows for one block of them."""

from outvote.assumptions.assumption import (
    Assumption,
    BlockSize,
    Bounded,
    FiniteKurtosis,
    FiniteVariance,
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
    "SubGaussian",
    "Tail",
    "one_assumption",
]
