"""Assumptions that every radius is tried with."""

from outvote.assumptions import Bounded, FiniteKurtosis, FiniteVariance, SubGaussian

UNIT = FiniteVariance(1.0)
ASSUMPTIONS = [
    UNIT,
    SubGaussian(1.0),
    Bounded(0, 1),
    Bounded(0, 1, variance=0.01),
    FiniteKurtosis(3.0, sd=1.0),
    FiniteKurtosis(20.0, sd=1.0),
]
