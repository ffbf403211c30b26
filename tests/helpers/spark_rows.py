"""Rows for Spark and pandas, and comparisons of what the two answer."""

import datetime as dt
import math

import narwhals as nw
import numpy as np
import pandas as pd
import pytest

N_ROWS = 20_000


def rows(seed=0):
    """Two groups of so many rows that they are counted in bins, and one of fewer; keys of three types."""
    rng = np.random.default_rng(seed)
    n = N_ROWS
    x = rng.normal(3.0, 2.0, size=n)
    x[rng.choice(n, 20, replace=False)] = 1e6
    return pd.DataFrame(
        {
            "id": rng.permutation(n) * 7 + 3,
            "x": x,
            "y": rng.exponential(size=n),
            "ok": rng.random(n) < 0.3,
            "user": np.arange(n) // 3,
            "city": rng.choice(["Bonn", "Köln", "Ulm"], p=[0.45, 0.45, 0.1], size=n),
            "shop": np.where(rng.random(n) < 0.02, 7, -2),
            "day": np.where(rng.random(n) < 0.03, dt.date(2024, 2, 29), dt.date(2025, 1, 1)),
        }
    )


def lines(answer):
    """Return a table of answers as dicts; it is of pandas, or of Spark."""
    frame = nw.from_native(answer)
    found = (frame.collect() if isinstance(frame, nw.LazyFrame) else frame).rows(named=True)
    return [{name: None if _is_nan(one) else one for name, one in line.items()} for line in found]


def _is_nan(value):
    return isinstance(value, float) and math.isnan(value)


def same_ends(found, expected):
    """Check that two tables of answers, or two answers, agree to 10⁻⁹ of their widths."""
    if hasattr(expected, "interval"):
        assert (found.plan.n_rows, found.plan.n_corrupt) == (expected.plan.n_rows, expected.plan.n_corrupt)
        assert found.certificate.provenance == expected.certificate.provenance
        assert (found.n_omitted, found.names) == (expected.n_omitted, expected.names)
        ends = [np.stack([np.atleast_1d(one) for one in (each.estimate, *each.interval)]) for each in (found, expected)]
        assert (np.abs(ends[0] - ends[1]) <= 1e-9 * (ends[1][2] - ends[1][1])).all()
        return
    mine, right = lines(found), lines(expected)
    assert len(mine) == len(right) > 0
    for line, other in zip(mine, right, strict=True):
        assert list(line) == list(other)
        widths = {name: (other[f"{lift}high"] or 0.0) - (other[f"{lift}low"] or 0.0)
                  for lift, names in (("", ("estimate", "low", "high")), ("lift_", ("lift", "lift_low", "lift_high")))
                  for name in names if f"{lift}low" in other}  # fmt: skip
        for name, value in other.items():
            if name in widths and value is not None:
                assert line[name] == pytest.approx(value, abs=1e-9 * widths[name], rel=0), name
            elif name == "premise_sd" and value is not None:
                assert line[name] == pytest.approx(value, rel=1e-9)
            else:
                assert line[name] == value, name


def both(spark_frame, table, ask, row_id=None):
    """Ask the same question of Spark and of pandas, and return the answers."""
    import outvote as ov

    return ask(ov.scan(spark_frame, row_id=row_id)), ask(ov.scan(table, row_id=row_id))
