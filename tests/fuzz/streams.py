"""Random monitors and summaries, and payloads that were tampered with."""

import json

import numpy as np
from tests.fuzz import hold
from tests.fuzz.fault import check
from tests.fuzz.values import WRONG, arguments, assumption, pick, rows

import outvote as ov


def monitor(rng):
    """A monitor, in pieces, sent and read again."""
    x = rows(rng)
    asked = arguments(rng, ("contamination", "confidence", "nan_policy", "claim"), wrong=0.1)
    watch = ov.Monitor(assumption(rng, x) if rng.random() < 0.5 else None, **asked)
    arms = ("a", "b") if rng.random() < 0.5 else ("",)
    for number, part in enumerate(np.array_split(x, 3)):
        watch.update(part, arm=arms[number % len(arms)])
    again = ov.Monitor.from_json(watch.to_json())
    check(again.n_rows == watch.n_rows, "rows were lost on the way")
    found = watch.result()
    hold.ordered(found)
    check(hold.same(found, again.result()), "another answer after sending")
    return found


def row_summary(rng):
    """Rows in bins: in whatever pieces, the same; near the mean of the rows themselves."""
    x = rows(rng)
    whole = ov.RowSummary().update(x)
    asked = arguments(rng, ("contamination", "confidence", "alternative"))
    parts = [ov.RowSummary(bins=whole.bins).update(part) for part in np.array_split(x, 3)] if whole.bins else []
    found = ov.mean(whole, **asked)
    hold.ordered(found)
    for form in ("json", "bytes", "arrow"):
        again = getattr(ov.RowSummary, f"from_{form}")(getattr(whole, f"to_{form}")())
        check(hold.same(found, ov.mean(again, **asked)), f"another answer after {form}")
    if parts:
        merged = parts[2].merge(parts[0]).merge(parts[1])
        check(hold.near(found, ov.mean(merged, **asked)), "another answer of the parts")
    return found


def block_summary(rng):
    """Rows in blocks: in whatever pieces, the answer of the hash."""
    x = rows(rng).astype(float)
    k = pick(rng, (1, 5, 11, 31))
    summary = ov.BlockSummary(k, seed=3)
    first = len(x) // 2
    summary.update(x[:first]).merge(ov.BlockSummary(k, seed=3).update(x[first:], ids=np.arange(first, len(x))))
    asked = arguments(rng, ("contamination", "confidence", "alternative"))
    found = summary.result(**asked)
    hold.ordered(found)
    for form in ("json", "bytes", "arrow"):
        again = getattr(ov.BlockSummary, f"from_{form}")(getattr(summary, f"to_{form}")())
        check(hold.same(found, again.result(**asked)), f"another answer after {form}")
    return found


def _tampered(rng, document):
    """Return a document with some fields replaced."""
    changed = dict(document)
    for _ in range(int(rng.integers(1, 3))):
        name = pick(rng, list(changed))
        value = changed[name]
        kind = rng.random()
        if kind < 0.2:
            changed.pop(name)
            if not changed:
                return {}
        elif kind < 0.5 and isinstance(value, list) and value:
            spoilt = list(value)
            spoilt[int(rng.integers(len(value)))] = pick(rng, (None, -1, 2**62, 10**30, "x", 1e308, [], 0))
            changed[name] = spoilt
        else:
            changed[name] = pick(rng, (None, -1, 0, 2**31, 10**9, 10**30, 1e308, "x", [], [10**9], {}, True, 5e-324))
    return changed


def payload(rng):
    """A document that was tampered with is refused, or gives an answer in little memory."""
    x = rng.normal(size=pick(rng, (3, 50, 9000)))
    kind = pick(rng, ("rows", "blocks", "groups", "monitor"))
    made = {
        "rows": lambda: ov.RowSummary().update(x),
        "blocks": lambda: ov.BlockSummary(5).update(x),
        "groups": lambda: ov.GroupedBlockSummary(5).update(x, ["a", "b", "c"] * (len(x) // 3) + ["a"] * (len(x) % 3)),
        "monitor": lambda: ov.Monitor(claim="mean > 0").update(x),
    }[kind]()
    text = made.to_json()
    if rng.random() < 0.7:
        text = json.dumps(_tampered(rng, json.loads(text)))
    else:
        where = int(rng.integers(len(text)))
        text = text[:where] + pick(rng, ("", "]", "9" * 50, "null", "\x00")) + text[where + int(rng.integers(9)) :]
    read = type(made).from_json(text)
    if kind == "groups":
        return read.results(0)
    found = ov.mean(read, 0) if kind == "rows" else read.result() if kind == "monitor" else read.result(0)
    low, high = np.asarray(found.interval.low), np.asarray(found.interval.high)
    check(not np.isnan(low).any() and not np.isnan(high).any(), f"NaN in {found.interval}")
    return found


def document(rng):
    """Anything at all instead of a document."""
    reader = pick(rng, (ov.RowSummary, ov.BlockSummary, ov.GroupedBlockSummary, ov.Monitor))
    given = pick(rng, (*WRONG, "[" * 5000, '{"format": 5}', "null", "[]", b"outvote-blocks\xff\xff\xff\x7f", bytes(40)))
    forms = ("json",) if reader is ov.Monitor else ("json", "bytes", "arrow")
    return getattr(reader, f"from_{pick(rng, forms)}")(given)


STREAMS = {monitor: 6, row_summary: 4, block_summary: 4, payload: 8, document: 2}
