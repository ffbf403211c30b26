"""Random calls of the estimators."""

import copy
import math

import numpy as np
import pandas as pd
from tests.fuzz import hold
from tests.fuzz.fault import check
from tests.fuzz.values import WRONG_ROWS, arguments, assumption, contained, corrupted, numbers, pick, rows

import outvote as ov

MEAN = ("contamination", "confidence", "assume", "vote", "n_blocks", "partition", "nan_policy", "alternative",
        "remainder", "simultaneous", "max_contamination", "axis")  # fmt: skip
TWO = ("contamination", "confidence", "assume", "vote", "n_blocks", "partition", "nan_policy", "alternative",
       "remainder", "counted", "relative", "paired", "simultaneous")  # fmt: skip


def _given(rng, columns=0):
    """Return rows as numbers, and what a user hands over."""
    if rng.random() < 0.05:
        return None, pick(rng, WRONG_ROWS)
    x = rows(rng, columns)
    return x, contained(rng, x)


def _unmodified(call, *given):
    """Call twice: the answers are the same, and what was given is as it was."""
    before = copy.deepcopy(given)
    found = call()
    for one, was in zip(given, before, strict=True):
        if isinstance(one, (np.ndarray, pd.Series, pd.DataFrame, list)):
            check(np.array_equal(np.asarray(one), np.asarray(was), equal_nan=True), "the input was modified")
    return found


def mean(rng):
    """A mean, and the same of rows that were moved; more is promised at a price."""
    x, given = _given(rng, columns=pick(rng, (0, 0, 0, 2)))
    asked = {"rng": int(rng.integers(9)), **arguments(rng, MEAN, x)}
    found = _unmodified(lambda: ov.mean(given, **asked), given)
    hold.ordered(found)
    check(hold.same(found, ov.mean(given, **asked)), "another answer the second time")
    if x is None:
        return found
    hold.in_range(found, x)
    if x.ndim == 1 and x.dtype == np.float64 and asked.get("nan_policy", "raise") == "raise":
        _moved(rng, x, asked, found)
    return found


def _moved(rng, x, asked, found):
    known, size = asked.get("assume"), float(np.abs(x).max())
    if not 1e-100 < size < 1e100:
        return
    scale = float(2.0 ** rng.integers(-20, 20))
    if known is None or type(known) is not ov.Proportion:
        other = ov.mean(x * scale, **{**asked, "assume": None if known is None else known.scaled(scale)})
        hold.moved(found, other, scale, 0.0, size)
    spread = float(np.median(np.abs(x - np.median(x))))
    if (known is None or not isinstance(known, ov.Bounded)) and spread > 1e-6 * size:  # else no digits would be left
        shift = float(size * rng.integers(-3, 4))
        near = (x + shift) - shift  # so that nothing is lost on the way: rows as far from the middle stay so
        hold.moved(ov.mean(near, **asked), ov.mean(near + shift, **asked), 1.0, shift, 1e3 * size)


def promised(rng):
    """More confidence, or more corrupt rows, is not to be had for a shorter interval."""
    x = rng.normal(size=pick(rng, (30, 100, 400))) * 10.0 ** rng.integers(-3, 4)
    known = assumption(rng, x)
    known = None if isinstance(known, ov.Proportion) else known
    asked = {"assume": known, "vote": pick(rng, ("auto", "median", "soft", "clipped")), "rng": 0}
    first = ov.mean(x, 2, 0.9, **asked)
    hold.not_narrower(ov.mean(x, 2, 0.999, **asked), first, "confidence")
    if asked["vote"] == "auto":
        hold.not_narrower(ov.mean(x, 6, 0.9, **asked), first, "corrupt rows")
    far = x.copy()
    far[:2] = pick(rng, (1e9, -1e300, 1.7e308))
    try:
        other = ov.mean(far, 2, 0.9, **asked)
    except ValueError:  # what was declared rules the rows out
        return first
    near, spread = float(np.median(x)), float(np.std(x))
    check(abs(other.estimate - near) < 20 * spread, f"two rows moved {near} to {other.estimate}")
    return first


def columns(rng):
    """The means of many columns are those of each; some may be constant, and have assumptions of their own."""
    n, d = pick(rng, (3, 12, 40, 150)), pick(rng, (2, 8, 11))
    x = np.column_stack([corrupted(rng, numbers(rng, n).astype(float)) for _ in range(d)])
    asked = {"rng": 3, **arguments(rng, ("contamination", "confidence", "alternative"), wrong=0.02)}
    known = [assumption(rng, x[:, j]) for j in range(d)] if rng.random() < 0.4 else [None] * d
    one = [_answer(lambda j=j: ov.mean(x[:, j], assume=known[j], **asked)) for j in range(d)]
    found = _answer(lambda: ov.mean(x, assume=known if any(known) else None, **asked))
    if asked.get("contamination") == "auto":  # that is for one column
        return found
    if found is None:
        check(any(each is None for each in one), "refused together, and answered one by one")
        raise ValueError("contamination is too much")
    for j, each in enumerate(one):
        # A column of which no sd can be read is refused alone, and has no interval in a table.
        check(each is not None or math.isinf(found.high[j] - found.low[j]), "answered together, and refused one by one")
    hold.ordered(found)
    for name in ("low", "high"):
        many = getattr(found.interval, name)
        for j, each in enumerate(one):
            if each is None:
                continue
            end = getattr(each.interval, name)
            size = max(abs(each.interval.high - each.interval.low), abs(end)) if math.isfinite(end) else 0.0
            check(np.isclose(many[j], end, rtol=0, atol=1e-9 * min(size, 1e300)), f"{many[j]} together, {end} alone")
    return found


def _answer(call):
    try:
        return call()
    except ValueError:
        return None


def nested(rng):
    """Intervals by evidence are nested, to rounding: in the number of corrupt rows, and in the confidence.

    That is so where a scale is declared: more corrupt rows drop more factors, and more confidence asks for a higher
    price. Without one the premise, an sd, is read off other rows if others may be corrupt, and may be smaller.
    """
    x = pick(rng, (rng.normal, rng.exponential))(size=pick(rng, (30, 100, 400))) * 10.0 ** rng.integers(-3, 4)
    sd = float(np.std(x))
    far = max(float(np.abs(x).max()), sd)
    known = pick(rng, (ov.FiniteVariance(2 * sd), ov.SubGaussian(2 * sd), ov.FiniteKurtosis(9.0, sd=2 * sd),
                       ov.Bounded(-far, far), ov.Proportion(), ov.Symmetric()))  # fmt: skip
    x = (x > 0).astype(float) if isinstance(known, ov.Proportion) else x
    for asked in ([(m, 0.95) for m in (1, 2, 4, 7)], [(2, c) for c in (0.5, 0.9, 0.95, 0.999)]):
        last = None
        for count, confidence in asked:
            found = ov.mean(x, count, confidence, assume=known, vote="evidence")
            if last is not None and math.isfinite(hold.width(last)):
                slack, (low, high) = 1e-9 * hold.width(last), found.interval
                inside = low <= last.interval.low + slack and last.interval.high <= high + slack
                check(inside, f"{found.interval} at {count}, {confidence} does not hold {last.interval}")
            last = found
    return last


def difference(rng):
    """A difference of two samples."""
    (x, a), (y, b) = _given(rng), _given(rng)
    if rng.random() < 0.3 and x is not None:
        y = b = x[::-1]
    asked = {"rng": 1, **arguments(rng, TWO, x)}
    found = _unmodified(lambda: ov.difference(a, b, **asked), a, b)
    hold.ordered(found)
    check(hold.same(found, ov.difference(a, b, **asked)), "another answer the second time")
    if not (asked.get("relative") or asked.get("paired") or hold.has_bounds(found) or x is None or y is None):
        extent = float(np.abs(np.r_[hold.finite(x), hold.finite(y)]).max(initial=0.0))
        check(not abs(found.estimate) / 2 > extent * (1 + 1e-9), "beyond all differences of rows")
    return found


def quantile(rng):
    """Quantiles of one sample."""
    x, given = _given(rng, columns=pick(rng, (0, 0, 0, 2)))
    names = ("q", "contamination", "confidence", "nan_policy", "alternative", "simultaneous", "axis")
    asked = arguments(rng, names)
    found = _unmodified(lambda: ov.quantile(given, **asked), given)
    ends = np.ravel(np.asarray([found.interval.low, found.interval.high, found.estimate], dtype=float))
    known = np.r_[np.asarray([] if x is None else x, dtype=np.float64).ravel(), np.inf, -np.inf, np.nan]
    if x is not None and x.ndim == 1:
        check(np.isin(ends, known).all() or np.isnan(ends).any(), f"{ends} are no rows")
    hold.ordered(found)
    check(hold.same(found, ov.quantile(given, **asked)), "another answer the second time")
    return found


def quantile_difference(rng):
    """Quantiles of two samples, compared."""
    (_, a), (_, b) = _given(rng), _given(rng)
    names = ("q", "contamination", "confidence", "nan_policy", "alternative", "simultaneous", "counted")
    asked = arguments(rng, names)
    found = _unmodified(lambda: ov.quantile_difference(a, b, **asked), a, b)
    hold.ordered(found)
    return found


def u_statistic(rng):
    """A U-statistic of one or two samples."""
    kernel = pick(rng, ("variance", "gini", "wilcoxon", "auc", "mann-whitney", "kendall", "energy", "covariance"))
    columns = 2 if kernel in ("kendall", "covariance") else 0
    samples = [_given(rng, columns) for _ in range(2 if kernel in ("auc", "mann-whitney", "energy") else 1)]
    samples = [(x, g) if x is None or len(x) < 400 else (x[:400], x[:400]) for x, g in samples]
    names = ("contamination", "confidence", "assume", "vote", "n_blocks", "partition", "grid", "nan_policy",
             "alternative", "remainder")  # fmt: skip
    asked = {"rng": 2, **arguments(rng, names, samples[0][0])}
    given = [g for _, g in samples]
    found = _unmodified(lambda: ov.u_statistic(*given, kernel=kernel, **asked), *given)
    hold.ordered(found)
    check(hold.same(found, ov.u_statistic(*given, kernel=kernel, **asked)), "another answer the second time")
    if kernel in ("auc", "wilcoxon"):
        check(-1e-12 <= found.estimate <= 1 + 1e-12, f"{kernel} is {found.estimate}")
    return found


def tolerance(rng):
    """How many corrupt rows a conclusion survives; with so many it is still reached."""
    samples = [_given(rng)[1] for _ in range(pick(rng, (1, 1, 2)))]
    names = ("claim", "confidence", "assume", "adversary", "contamination", "paired")
    asked = {"claim": "mean > 0" if len(samples) == 1 else "difference > 0", **arguments(rng, names)}
    found = _unmodified(lambda: ov.tolerance(*samples, **asked), *samples)
    check(str(found), "no text")
    check(found.sentence(), "no sentence")
    list(found.deciding)
    return found


def sensitivity(rng):
    """An answer at many levels of contamination."""
    samples = [_given(rng)[1] for _ in range(pick(rng, (1, 1, 2)))]
    asked = arguments(rng, ("levels", "max_contamination", "adversary", "confidence", "assume"))
    found = _unmodified(lambda: ov.sensitivity(*samples, **asked), *samples)
    check(str(found), "no text")
    return found


def risk(rng):
    """A bound on a risk."""
    x, given = _given(rng)
    asked = arguments(rng, ("contamination", "confidence", "assume", "vote", "n_models", "vc_dim"), x)
    found = _unmodified(lambda: ov.certify_risk(given, **asked), given)
    check(not np.isnan(np.asarray(found.interval.high)).any(), "a bound of NaN")
    return found


def mmd(rng):
    """A distance of two distributions, which swapping the samples does not change."""
    (_, a), (_, b) = _given(rng), _given(rng)
    asked = arguments(rng, ("contamination", "confidence", "bandwidth", "nan_policy"))
    found = _unmodified(lambda: ov.mmd(a, b, **asked), a, b)
    hold.ordered(found)
    check(0 <= found.interval.low <= math.sqrt(2) + 1e-9, f"a distance of {found.interval}")
    other = ov.mmd(b, a, **asked) if not isinstance(asked.get("contamination"), tuple) else found
    check(np.isclose(found.estimate, other.estimate, rtol=1e-6, atol=1e-6), "another distance the other way")
    return found


def suspects(rng):
    """The rows that look corrupt."""
    x, given = _given(rng)
    asked = {"partitions": 20, **arguments(rng, ("contamination", "top", "partitions"))}
    found = _unmodified(lambda: ov.suspects(given, **asked), given)
    check(str(found) is not None, "no text")
    check(x is None or len(found) <= len(x), "more suspects than rows")
    return found


def plan(rng):
    """Plans without rows."""
    names = ("contamination", "confidence", "assume", "vote")
    asked = arguments(rng, names, wrong=0.15)
    if rng.random() < 0.5:
        return ov.plan_blocks(pick(rng, (1, 5, 100, 10**4, 10**7, (50, 80), -1, 10**30, "a")), **asked)
    known = asked.pop("assume", None) or ov.FiniteVariance(1.0)
    return ov.rows_needed(pick(rng, (0.1, 1.0, 0.01, -1, 0, "a", 1e-9, 10**400)), assume=known, **asked)


ESTIMATES = {
    mean: 22, promised: 5, difference: 12, quantile: 8, quantile_difference: 5, u_statistic: 10, tolerance: 7,
    sensitivity: 3, risk: 4, mmd: 3, suspects: 3, plan: 3,
}  # fmt: skip
#: Kinds that came later: only seeds from 100 on have them, so that calls of earlier seeds stay what they were.
LATER_ESTIMATES = {columns: 6, nested: 3}
