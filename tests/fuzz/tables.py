"""Random tables and files: every engine gives the same answer, or refuses."""

import os
import tempfile
import warnings
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from tests.fuzz.fault import REFUSALS, check
from tests.fuzz.values import arguments, assumption, corrupted, numbers, pick

import outvote as ov

HOSTILE = (
    "1,a\n", "2,b\n", "',4\n", "5,'\n", '"a\nb",4\n', "\n", "v,k\n", '"', "'", ",", ";", "\r", "\r\n", "\t", "NA", "é",
    "\x00", "1e400", "#", "\\", "nan,x\n", "v\n", "3\n", "-inf,a\n", "v,v\n", "\ufeff", "{", '{"v": 1}\n', "1" * 50,
)  # fmt: skip
LABELS = ("a", "b", "'", '"', "a,b", "a\nb", "a\rb", "#x", " ", "NA", "1", "é", "=1+1", "\x1b[31m", "x" * 50)
NAMES = ("v", "V", "^.*$", "a b", 'q"q', "select", "n", "v0", "k0", "id", "estimate", "é")


def _frame(rng):
    n = pick(rng, (1, 3, 10, 60, 200))
    value, key = (str(one) for one in rng.choice(NAMES, 2, replace=False))
    key = f"{key}2" if key.lower() == value.lower() else key  # DuckDB does not tell them apart
    labels = [pick(rng, LABELS) for _ in range(pick(rng, (1, 2, 4)))]
    data = corrupted(rng, numbers(rng, n).astype(float))
    return pd.DataFrame({value: data, key: [pick(rng, labels) for _ in range(n)]}), value, key


def _answer(call):
    """Return an answer as plain columns, or the kind of refusal."""
    try:
        found = call()
    except REFUSALS as error:
        return type(error).__name__
    if hasattr(found, "interval"):
        return [float(found.estimate), *map(float, found.interval)]
    found = found.collect() if hasattr(found, "collect") else found
    table = found.df() if hasattr(found, "df") else found.to_pandas() if hasattr(found, "to_pandas") else found
    return [table[name].tolist() for name in ("estimate", "low", "high")]


def _alike(one, two):
    if isinstance(one, str) or isinstance(two, str):
        return isinstance(one, str) and isinstance(two, str)
    return np.allclose(np.asarray(one, float), np.asarray(two, float), rtol=1e-9, atol=1e-300, equal_nan=True)


def engines(rng):
    """The same question to every engine that holds the same rows."""
    frame, value, key = _frame(rng)
    by = key if rng.random() < 0.5 else None
    asked = arguments(rng, ("contamination", "confidence", "nan_policy", "alternative"), wrong=0.03)
    asked["assume"] = assumption(rng, frame[value]) if rng.random() < 0.5 else None
    sources = {"pandas": frame, "polars": pl.from_pandas(frame), "arrow": pa.Table.from_pandas(frame)}
    sources |= {"lazy": sources["polars"].lazy(), "duckdb": duckdb.from_arrow(sources["arrow"])}
    with np.errstate(over="ignore"):
        exact = bool(np.abs(frame[value].replace([np.inf, -np.inf], np.nan)).max() < 1e300)
    found = {name: _answer(lambda s=source: ov.scan(s).mean(value, by, **asked)) for name, source in sources.items()}
    if exact:
        for name, one in found.items():
            check(_alike(one, found["pandas"]), f"{name} answers {one}, pandas {found['pandas']}")
    return found


def files(rng):
    """A file that was written answers as the frame does."""
    frame, value, _ = _frame(rng)
    frame = frame.dropna()
    if not len(frame):
        raise ValueError("no rows")
    with tempfile.TemporaryDirectory() as folder:
        kind = pick(rng, ("csv", "tsv", "parquet", "jsonl", "arrow"))
        path = Path(folder, f"rows.{kind}")
        if kind in ("csv", "tsv"):
            frame.to_csv(path, sep="," if kind == "csv" else "\t", index=False)
        elif kind == "parquet":
            frame.to_parquet(path)
        elif kind == "jsonl":
            frame.to_json(path, orient="records", lines=True, double_precision=15)
        else:
            with (
                pa.OSFile(str(path), "wb") as sink,
                pa.ipc.new_file(sink, (t := pa.Table.from_pandas(frame)).schema) as f,
            ):
                f.write_table(t)
        found = ov.scan(path).mean(value, contamination=0, assume=ov.FiniteVariance(1.0))
        expected = ov.mean(frame[value].to_numpy(), contamination=0, assume=ov.FiniteVariance(1.0))
        check(found.plan.n_rows == len(frame), f"{found.plan.n_rows} of {len(frame)} rows were read")
        check(np.isclose(found.estimate, expected.estimate, rtol=1e-6, atol=1e-9), "another mean of the file")
        return found


def hostile(rng):
    """A file of anything: refused, or every row of its text is there."""
    bits = HOSTILE if rng.random() < 0.4 else HOSTILE[:6]
    text = pick(rng, ("v,k\n1,a\n2,b\n3,a\n", "", "v\n1\n2\n", '{"v": 1}\n{"v": 2}\n'))
    text += "".join(pick(rng, bits) for _ in range(int(rng.integers(0, 30))))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"rows.{pick(rng, ('csv', 'csv', 'tsv', 'jsonl', 'parquet', 'arrow', 'csv.gz'))}")
        path.write_bytes(text.encode("utf-8", "surrogatepass") if rng.random() < 0.9 else os.urandom(60))
        try:
            return ov.scan(path).mean("v", contamination=0, nan_policy=pick(rng, ("raise", "omit", "corrupt")))
        except OSError as error:  # what cannot be unpacked, or is no Parquet file
            raise ValueError(str(error)) from None


def variants(rng):
    """Variants of a frame against a baseline, by user, as a ratio, adjusted: a line each, an interval in order."""
    n = pick(rng, (0, 2, 12, 60, 300))
    frame = pd.DataFrame({
        "v": corrupted(rng, numbers(rng, n).astype(float)), "w": rng.exponential(size=n) + 0.1,
        "before": rng.normal(size=n), "k": [pick(rng, LABELS[:3]) for _ in range(n)], "user": np.arange(n) // 2,
    })  # fmt: skip
    names = {"ratio": ("w", "v", "k"), "covariate": ("before", "w", "nothing"), "unit": ("user", "k", "nothing"),
             "baseline": ("a", "'", "nothing", None), "segments": ("user", "k", "nothing")}  # fmt: skip
    asked = {name: pick(rng, choices) for name, choices in names.items() if rng.random() < 0.25}
    asked |= arguments(rng, ("contamination", "confidence", "nan_policy", "simultaneous"))
    asked["assume"] = assumption(rng, frame["v"]) if rng.random() < 0.3 else None
    before = frame.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of variants without an answer
        found = ov.difference(frame, value="v", by="k", **asked)
        again = ov.difference(frame, value="v", by="k", **asked)
    pd.testing.assert_frame_equal(frame, before)
    check(found.equals(again), "another answer the second time")
    known = found.dropna(subset=["estimate", "low", "high"])
    check((known["low"] <= known["high"]).all(), "an interval upside down")
    size = known[["low", "high"]].abs().max(axis=1) * 1e-9 + 1e-300
    inside = (known["low"] - size <= known["estimate"]) & (known["estimate"] <= known["high"] + size)
    check(inside.all(), f"an estimate outside of its interval: {known[['estimate', 'low', 'high']].to_dict('records')}")
    return found


def described(rng):
    """A frame, described: every numeric column has a line, and quantiles are rows."""
    n = pick(rng, (0, 1, 4, 40, 200))
    names = [pick(rng, (*NAMES, 0, ("a", 1), "x" * 100)) for _ in range(3)]
    frame = pd.DataFrame(np.column_stack([corrupted(rng, numbers(rng, n).astype(float)) for _ in names]), columns=names)
    if rng.random() < 0.2:
        frame["text"] = "a"
    given = pick(rng, (frame, frame, frame.iloc[:, 0], frame.to_numpy()))
    asked = arguments(rng, ("contamination", "confidence"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of columns without an answer
        found = ov.describe(given, **asked)
    check(len(found) == (1 if given.ndim == 1 else 3), f"{len(found)} lines")
    known = found.dropna(subset=["estimate", "low", "high"])
    check((known["low"] <= known["high"]).all(), "an interval upside down")
    check(not (found["missing"] + found["n"] != n).any(), "rows are lost")
    return found


def questions(rng):
    """Other questions to an engine: quantiles, variants, tolerance, suspects, of a frame or a file alike."""
    frame, value, key = _frame(rng)
    frame = frame.dropna()
    asked = arguments(rng, ("contamination", "confidence"))
    kind = pick(rng, ("quantile", "suspects", "tolerance", "variance", "proportion", "difference"))
    if kind in ("tolerance", "suspects"):
        asked.pop("confidence", None)
    if kind == "variance":
        asked["rng"] = 0
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        path = Path(folder, "rows.parquet")
        frame.to_parquet(path)
        answers = []
        for source in (frame, path):
            try:
                scan = ov.scan(source)
                if kind == "difference":
                    found = scan.difference(value, key, *sorted(set(frame[key]))[:2], **asked)
                else:
                    found = getattr(scan, kind)(value, **asked)
                numbers = [float(found.estimate), *map(float, found.interval)] if kind == "variance" else None
                answers.append(numbers or str(found))
            except REFUSALS as error:
                answers.append(type(error).__name__)
        alike = answers[0] == answers[1] or (kind == "variance" and _alike(*answers))  # which are not summed alike
        check(alike, f"{answers[0]} of a frame, {answers[1]} of a file")
    return answers


TABLES = {engines: 5, files: 4, hostile: 8}
#: Of seeds from 1000 on.
LATER_TABLES = {variants: 4, described: 2, questions: 3}
