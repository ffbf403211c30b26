"""A robust summary of each numeric column of a table."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Proportion
from outvote.contamination import Contamination
from outvote.data.names import texts_of
from outvote.estimate.request import Allowed, Request
from outvote.estimate.suspects import rank
from outvote.tables.evidence import lines_of_groups
from outvote.tables.frames import is_boolean, narwhals_frame, numbers_of
from outvote.tables.gathered import Groups
from outvote.votes import VoteName

Floats = NDArray[np.float64]

#: What a line holds.
DESCRIBED: dict[str, type] = {
    "column": str, "n": int, "missing": int, "mean": float, "estimate": float, "low": float, "high": float,
    "premise_sd": float, "median": float, "p05": float, "p95": float, "suspects": int,
    "min": float, "max": float, "note": str,
}  # fmt: skip
#: Random partitions for the count of suspects, and the share of them above which a row counts.
_PARTITIONS, _SUSPECT = 20, 0.5


def describe(frame: Any, contamination: Allowed = 0.01, confidence: float = 0.95) -> Any:
    """Describe each numeric column: its mean, plain and robust with an interval, quantiles, and suspect rows.

    Parameters
    ----------
    frame : DataFrame or Series of pandas or polars, or pyarrow Table
        The rows. Columns of booleans are proportions; columns that hold something else than numbers are left out, and
        a warning names them. Names that are not text, such as 0 and 1, become text.
    contamination : float, int or Contamination
        How many rows of each column may be corrupt. Infinite values are corrupt for certain.
    confidence : float
        Confidence of each interval.

    Returns
    -------
    DataFrame or Table, of the kind that was given
        One line for each column: column, n (rows with a value), missing, mean (the plain one), estimate, low, high
        (the robust mean and its interval), premise_sd (the interval holds if the clean rows' standard deviation is
        at most this), median, p05, p95 (which have no interval: `quantile` gives one), suspects (rows that most
        random blocks are voted out for), min, max and note (which rows are taken to be corrupt, and what the mean is
        if they are real). Each interval holds for its own column, not all at once. A column without an answer has no
        numbers, and a warning says why.

    See Also
    --------
    suspects : List the suspect rows.

    Examples
    --------
    >>> import numpy as np, pandas as pd, outvote as ov
    >>> rent = np.random.default_rng(0).normal(10.0, size=5000)
    >>> rent[:3] = 1e6
    >>> found = ov.describe(pd.DataFrame({"rent": rent}))
    >>> found[["column", "n", "mean", "estimate", "low", "high", "suspects"]].round(2).to_dict("records")
    [{'column': 'rent', 'n': 5000, 'mean': 609.99, 'estimate': 10.0, 'low': 9.92, 'high': 10.07, 'suspects': 3}]
    """
    import narwhals as nw

    try:
        source: Any = nw.from_native(_text_named(frame), eager_only=True, allow_series=True)
    except TypeError:
        raise TypeError(
            f"frame is a {type(frame).__name__}: describe takes a pandas or polars DataFrame or a pyarrow Table in "
            "memory; collect() a lazy one, and take mean() for an array"
        ) from None
    source = source.to_frame() if isinstance(source, nw.Series) else source
    allowed = Contamination.of(contamination).of_sample(0, 1)
    columns, skipped = list[_Column](), []
    for name, kind in source.schema.items():
        if not (kind.is_numeric() or is_boolean(kind)):
            skipped.append(f"{name} ({kind})")
            continue
        values = numbers_of(source[name])
        columns.append(_Column(str(name), values[~np.isnan(values)], len(values), is_boolean(kind)))
    request = Request.read(contamination, confidence, vote="auto", votes=VoteName, nan_policy="corrupt")
    lines, failed = [], []
    for column, (robust, why) in zip(columns, _means(columns, request), strict=True):
        lines.append({"column": column.name, **_line(column, allowed), **robust})
        failed += [f"{column.name}: {why}"] if why else []
    for text, several in (("left out columns that are not numbers", skipped), ("found no interval", failed)):
        if several:
            warnings.warn(f"describe {text}: {'; '.join(several)}", UserWarning, stacklevel=2)
    table = {head: [line.get(head) for line in lines] for head in DESCRIBED}
    return narwhals_frame(table, {}, source.implementation, DESCRIBED).to_native()


def _text_named(frame: Any) -> Any:
    """Return a frame whose columns all have a name of their own, as text; anything else is returned as it is."""
    from narwhals import dependencies

    if dependencies.is_pandas_like_series(frame):
        frame = frame.to_frame()
    if dependencies.is_pandas_like_dataframe(frame):
        texts = texts_of(frame.columns, "frame")
        if texts != list(frame.columns):
            frame = frame.copy(deep=False)
            frame.columns = texts
    elif dependencies.is_pyarrow_table(frame):
        texts_of(frame.column_names, "frame")
    return frame


class _Column(NamedTuple):
    """A column: the values that are there, how many lines it has, and whether it holds booleans."""

    name: str
    values: Floats
    n_lines: int
    boolean: bool


def _means(columns: Sequence[_Column], request: Request) -> list[tuple[dict[str, Any], str]]:
    """Return the robust mean of each column, as part of its line, and why there is none or no interval."""
    found = list[tuple[dict[str, Any], str]]([({}, "it has no values")] * len(columns))
    for boolean in (False, True):
        which = [i for i, one in enumerate(columns) if len(one.values) and one.boolean == boolean]
        if not which:
            continue
        ends = np.concatenate([[0], np.cumsum([len(columns[i].values) for i in which])]).astype(np.int64)
        groups = Groups([(i,) for i in which], [np.concatenate([columns[i].values for i in which])], ends)
        assume = Proportion() if boolean else None
        lines = lines_of_groups(groups, ("",), request, (assume,), request.terms)
        for i, ((_, estimate, low, high, _, _, kind, sd, note),) in zip(which, lines, strict=True):
            if estimate is None:
                found[i] = {}, note
                continue
            line = {"estimate": estimate, "low": low, "high": high, "premise_sd": sd}
            found[i] = (line | {"note": ""}, note) if kind == "none" else (line | {"note": note}, "")
    return found


def _line(column: _Column, allowed: Contamination) -> dict[str, Any]:
    """Describe a column but for its robust mean."""
    there = column.values
    counts = {"n": len(there), "missing": column.n_lines - len(there)}
    if not len(there):
        return counts
    suspects, least, most = 0, float(there.min()), float(there.max())
    if not ((there == least) | (there == most)).all():  # neither of two values stands out
        scores = rank(there, [np.arange(len(there))], allowed, _PARTITIONS, 0).scores
        suspects = int((scores > _SUSPECT).sum())
    with np.errstate(over="ignore", invalid="ignore"):
        plain = float(there.mean())
    ranks = [-(-len(there) * percent // 100) - 1 for percent in (5, 50, 95)]  # those of `quantile`
    known = dict(zip(("p05", "median", "p95"), np.partition(there, ranks)[ranks].tolist(), strict=True))
    return counts | {"mean": plain, **known, "suspects": suspects, "min": least, "max": most}
