"""Functions of a user, and their averages over all tuples."""

from __future__ import annotations

import itertools
import math

DEGREES = [(1,), (2,), (3,), (4,), (1, 1), (2, 1), (1, 1, 1), (2, 2), (1, 2)]


def symmetric(*degrees):
    """Return a function that is symmetric within each sample, but not between them."""

    def function(*slots):
        value, first = 1.0, 0
        for number, degree in enumerate(degrees):
            value = value * (1.0 + number + sum(slots[first : first + degree])) + abs(slots[first] - number) * (
                degree == 1
            )
            first += degree
        return value

    return function


def average_over_tuples(function, degrees, blocks):
    subsets = [itertools.combinations(block, degree) for block, degree in zip(blocks, degrees, strict=True)]
    values = [function(*itertools.chain(*rows)) for rows in itertools.product(*subsets)]
    return math.fsum(map(float, values)) / len(values)


def evaluate(kernel, *samples):
    """Return the U-statistic of whole samples."""
    return kernel.fit(samples).aligned(*(sample[None] for sample in samples))[0]
