"""A robust summary of each numeric column of a table."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.contamination import Contamination
from outvote.data.arguments import log_delta_of
from outvote.data.names import texts_of
from outvote.estimate.mean import mean
from outvote.estimate.quantile import quantile
from outvote.estimate.request import Allowed
from outvote.estimate.suspects import rank
from outvote.tables.frames import is_boolean, narwhals_frame, numbers_of

Floats = NDArray[np.float64]

#: What a line holds.
DESCRIBED: dict[str, type] = {
    "column": str, "n": int, "missing": int, "mean": float, "estimate": float, "low": float, "high": float,
    "premise_sd": float, "median": float, "p05": float, "p95": float, "suspects": int,
    "min": float, "max": float, "note": str,
}  # fmt: skip
#: Random partitions for the count of suspects, and the share of them above which a row counts.
_PARTITIONS, _SUSPECT = 40, 0.5


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
    log_delta_of(confidence)  # refuses a wrong one, which is not for each column to say
    lines, skipped, failed = [], [], []
    for name, kind in source.schema.items():
        if not (kind.is_numeric() or is_boolean(kind)):
            skipped.append(f"{name} ({kind})")
            continue
        line, why = _line(numbers_of(source[name]), allowed, confidence, boolean=is_boolean(kind))
        lines.append({"column": str(name), **line})
        failed += [f"{name}: {why}"] if why else []
    for text, several in (("left out columns that are not numbers", skipped), ("found no interval", failed)):
        if several:
            warnings.warn(f"describe {text}: {'; '.join(several)}", UserWarning, stacklevel=2)
    columns = {head: [line.get(head) for line in lines] for head in DESCRIBED}
    return narwhals_frame(columns, {}, source.implementation, DESCRIBED).to_native()


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


def _line(values: Floats, allowed: Contamination, confidence: float, *, boolean: bool) -> tuple[dict[str, Any], str]:
    """Describe a column, and say why it has no interval, if it has none."""
    there = values[~np.isnan(values)]
    counts = {"n": len(there), "missing": len(values) - len(there)}
    if not len(there):
        return counts, "it has no values"
    suspects = 0  # neither of two values stands out
    if not ((there == there.min()) | (there == there.max())).all():
        scores = rank(there, [np.arange(len(there))], allowed, _PARTITIONS, 0).scores
        suspects = int((scores > _SUSPECT).sum())
    with np.errstate(over="ignore", invalid="ignore"):
        plain = float(there.mean())
    quantiles = np.asarray(quantile(there, [0.05, 0.5, 0.95], 0).estimate).tolist()
    known = dict(zip(("p05", "median", "p95"), quantiles, strict=True))
    ends = {"min": float(there.min()), "max": float(there.max())}
    line = counts | {"mean": plain, **known, "suspects": suspects, **ends}
    try:
        found = mean(there.astype(bool) if boolean else there, allowed, confidence, nan_policy="corrupt")
    except ValueError as error:
        return line, str(error)
    low, high = (float(end) for end in found.interval)
    sd = float(np.max(found.certificate.premise_sd))
    line |= {"estimate": float(found.estimate), "low": low, "high": high, "premise_sd": sd if sd == sd else None}
    line |= {"note": " ".join(found.remarks)}
    return line, "" if math.isfinite(high - low) else found.certificate.note
