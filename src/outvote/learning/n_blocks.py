"""How many blocks a descent takes."""

from __future__ import annotations

import math

#: Pairs grow with the square of a block: beyond this many rows more blocks cost less and lose nothing.
MOST_PAIRED = 256


def blocks_for(n_rows: int, n_corrupt: int, degree: int) -> int:
    """Return 2·n_corrupt + 1, the fewest that corrupt rows cannot outvote; for pairs, blocks of at most 256 rows.

    Examples
    --------
    >>> blocks_for(1000, 10, degree=1), blocks_for(100_000, 10, degree=2)
    (21, 391)
    """
    fewest = 2 * n_corrupt + 1
    if degree == 1 or n_rows // fewest <= MOST_PAIRED:
        return fewest
    enough = -(-n_rows // MOST_PAIRED)
    return enough + 1 - enough % 2


def corrupt_in_share(count: int, n_rows: int, n_all: int, degree: int) -> int:
    """Return how many of some rows, drawn at random from all, may be corrupt: two standard deviations above the mean.

    Examples
    --------
    >>> corrupt_in_share(20, 80, 100, 1), corrupt_in_share(20, 10, 100, 2)
    (20, 2)
    """
    share = n_rows / n_all
    likely = math.ceil(count * share + 2 * math.sqrt(count * share * (1 - share)))
    return max(0, min(count, likely, (n_rows // degree - 1) // 2))
