"""The bins of votes/evidence/grid.py as expressions, for engines that count where the rows are.

Differences, sums, comparisons and products with powers of two, which every engine rounds alike: the whole numbers are
those that numpy finds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from outvote.votes.evidence import Grid

#: The largest distance from the centre, in units, of rows that are not in the last bins, and places in a bin.
_FARTHEST = _PLACES = 2.0**32


def binned(frame: Any, value: str, centre: Any, unit: Any, inverse: Any, name: Callable[[str], str]) -> Any:
    """Add to a narwhals frame the bin of each row, its place there and the square of that, as integers.

    Parameters
    ----------
    frame : narwhals frame
        With finite numbers in the column `value`.
    value : str
        That column.
    centre, unit, inverse : narwhals expression
        Of the bins that each row belongs to; the inverse of a unit, a power of two, is exact.
    name : callable
        Makes names of columns.
    """
    import narwhals as nw

    y, t, e, far = (name(one) for one in ("y", "t", "e", "far"))
    frame = frame.with_columns((nw.col(value) - centre).alias(y))
    frame = frame.with_columns(((nw.col(y).abs() + unit) * inverse).alias(t))
    frame = frame.with_columns((nw.col(t) >= _FARTHEST).alias(far), nw.col(t).clip(1.0, _FARTHEST).alias(t))
    # How often t can be halved, and what is left: comparisons and products take less time than a logarithm and a power.
    frame = frame.with_columns(nw.lit(0.0).alias(e))
    for power in (16, 8, 4, 2, 1):
        large = nw.col(t) >= 2.0**power
        frame = frame.with_columns(
            nw.when(large).then(nw.col(e) + float(power)).otherwise(nw.col(e)).alias(e),
            nw.when(large).then(nw.col(t) * 2.0**-power).otherwise(nw.col(t)).alias(t),
        )
    return _with_integers(frame, name)


def _with_integers(frame: Any, name: Callable[[str], str]) -> Any:
    import narwhals as nw

    y, t, e, far, place = (name(one) for one in ("y", "t", "e", "far", "place"))
    per_doubling, half = Grid(0.0, 1.0).per_doubling, Grid(0.0, 1.0).number // 2
    frame = frame.with_columns(((nw.col(t) - 1.0) * float(per_doubling)).alias(t))
    # The number of the bin, counted from the centre, in e; the place in it in t.
    frame = frame.with_columns(
        (nw.col(e) * float(per_doubling) + nw.col(t).floor()).alias(e), (nw.col(t) - nw.col(t).floor()).alias(t)
    )
    frame = frame.with_columns(
        nw.when(nw.col(far)).then(nw.lit(float(half - 1))).otherwise(nw.col(e)).alias(e),
        nw.when(nw.col(far)).then(nw.lit(_PLACES - 1)).otherwise((nw.col(t) * _PLACES).floor()).alias(place),
    )
    index = nw.when(nw.col(y) >= 0.0).then(nw.col(e) + float(half)).otherwise(float(half - 1) - nw.col(e))
    coarse = (nw.col(place) * 2.0**-24).floor()
    return frame.with_columns(
        index.cast(nw.Int64).alias(name("bin")),
        nw.col(place).cast(nw.Int64).alias(place),
        (coarse * coarse).cast(nw.Int64).alias(name("square")),
    )
