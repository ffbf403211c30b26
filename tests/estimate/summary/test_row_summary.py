"""RowSummary: the same answers as from the rows, whatever the chunks; what it refuses; what it survives."""

import json
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov
from outvote.votes.evidence import Grid

LAWS = {
    "normal": lambda rng, n: rng.normal(3, 2, size=n),
    "pareto": lambda rng, n: rng.pareto(2.5, size=n),
    "revenue": lambda rng, n: np.where(rng.random(n) < 0.03, rng.exponential(50, size=n), 0.0),
    "integers": lambda rng, n: rng.poisson(4, size=n).astype(float),
    "offset": lambda rng, n: rng.normal(1e9, 1.0, size=n),
    "tiny": lambda rng, n: rng.normal(size=n) * 1e-200,
}


def drawn(law, n=30_000, seed=0, bad=100):
    rng = np.random.default_rng(seed)
    x = LAWS[law](rng, n)
    unit = 1e-200 if law == "tiny" else 1.0
    x[rng.choice(n, bad, replace=False)] = np.where(rng.random(bad) < 0.5, 1e12, -7e5) * unit
    return x


def summary(x, sizes=(1000, 9000), **options):
    found = ov.RowSummary(**options)
    for part in np.split(x, np.cumsum(sizes)):
        found.update(part)
    return found


@pytest.mark.parametrize("law", LAWS)
def test_means_are_at_most_one_percent_wider(law, monkeypatch):
    x = drawn(law)
    clean = LAWS[law](np.random.default_rng(1), 30_000)
    sd = 1.3 * (clean / clean.max()).std() * clean.max()
    # Few rows are put in order: the reference is exact.
    monkeypatch.setattr("outvote.estimate.ordered.MANY_ROWS", 10**9)
    for assume in (None, ov.FiniteVariance(sd), ov.Bounded(clean.min() - sd, clean.max() + sd)):
        exact, found = ov.mean(x, 0.01, assume=assume), ov.mean(summary(x), 0.01, assume=assume)
        width = exact.interval.high - exact.interval.low
        assert found.interval.high - found.interval.low <= 1.01 * width
        if assume:  # else the sd read off bins may be another
            assert found.interval.low <= exact.interval.low + 1e-6 * width
            assert found.interval.high >= exact.interval.high - 1e-6 * width
        assert found.certificate.provenance == exact.certificate.provenance
        if not isinstance(assume, ov.Bounded):
            assert found.plain_mean == pytest.approx(x.mean(), rel=1e-6)


@settings(max_examples=12)
@given(cuts=st.lists(st.integers(0, 9000), max_size=5), turned=st.booleans(), number=st.sampled_from([1024, 4096]))
def test_chunks_order_and_merging_change_nothing(cuts, turned, number):
    x = drawn("normal", 9000)
    grid = Grid.of(x[:500], number)
    whole = ov.RowSummary(bins=grid).update(x)
    parts = np.split(x, sorted(cuts))
    first, second = ov.RowSummary(bins=grid), ov.RowSummary(bins=grid)
    for i, part in enumerate(parts[::-1] if turned else parts):
        (first if i % 2 else second).update(part)
    merged = first.merge(second)
    merged._beyond = whole._beyond  # a sum of floats
    assert merged.n_rows == whole.n_rows == 9000
    assert merged.to_bytes() == whole.to_bytes()


def test_few_rows_are_kept_as_they_are():
    x = drawn("pareto", 4096)
    kept = summary(x, (10, 500))
    assert kept.bins is None
    assert repr(kept) == "RowSummary(4096 rows as they are)"
    assert ov.mean(kept).interval == pytest.approx(ov.mean(x).interval, rel=1e-11)
    assert ov.quantile(kept, 0.9).interval == ov.quantile(x, 0.9).interval
    more = kept.update([1.0])
    assert more.bins is not None
    assert repr(more) == "RowSummary(4097 rows in 4096 bins)"


def test_every_question_that_rows_answer():
    a, b = drawn("normal", 9000, bad=30), drawn("normal", 9000, seed=3, bad=30) + 1.0
    one, two = summary(a), summary(b)
    known = ov.FiniteVariance(2.1)
    options = {"contamination": 0.01, "assume": known}
    for relative in (False, True):
        exact, found = (ov.difference(*samples, **options, relative=relative) for samples in ((a, b), (one, two)))
        assert found.interval == pytest.approx(exact.interval, abs=0.01 * (exact.interval.high - exact.interval.low))
    assert ov.difference(a, two, **options).interval == pytest.approx(ov.difference(a, b, **options).interval, abs=1e-3)
    exact, found = (ov.tolerance(*samples, assume=known) for samples in ((a, b), (one, two)))
    assert 0.99 * exact.rows - 1 <= found.rows <= exact.rows * 1.0001 + 1
    assert found.deciding == ()
    exact, found = (ov.tolerance(rows, claim="mean > 2.5", assume=known).rows for rows in (a, one))
    assert found == pytest.approx(exact, rel=0.02)
    exact, found = (ov.sensitivity(rows, levels=[50, 300], assume=ov.FiniteVariance(3.0)) for rows in (a, one))
    assert found.low == pytest.approx(exact.low, abs=0.01)
    assert ov.sensitivity(one, two, levels=[60]).n_rows == (9000, 9000)
    assert ov.mean(one, "auto").interval == pytest.approx(ov.mean(a, "auto").interval, abs=0.05)
    assert one.result(assume=known).interval == pytest.approx(ov.mean(one, assume=known).interval, rel=1e-11)


def test_ends_of_quantiles_are_ends_of_bins_around_the_rows():
    x = drawn("normal")
    asked = [0.01, 0.25, 0.5, 0.75, 0.999]
    exact, found = ov.quantile(x, asked), ov.quantile(summary(x), asked)
    (low, high), (exact_low, exact_high) = found.interval, exact.interval
    assert ((low <= exact_low) & (high >= exact_high) & np.isfinite(low)).all()
    assert (low >= exact_low - 0.05 * np.abs(exact_low - 3) - 0.07).all()
    assert found.certificate.provenance == "certified"


def test_proportions_are_exact():
    rng = np.random.default_rng(0)
    z = rng.random(20_000) < 0.03
    kept = ov.RowSummary().update(z[:7000]).update(z[7000:].astype(np.int8))
    exact = ov.mean(z, 20)
    assert ov.mean(kept, 20, assume=ov.Proportion()).interval == exact.interval
    y = rng.random(20_000) < 0.035
    other = ov.RowSummary(bins=kept.bins).update(y)
    assert ov.difference(kept, other, 20, assume=ov.Proportion()).interval == ov.difference(z, y, 20).interval
    merged = ov.RowSummary.from_json(kept.to_json()).merge(other)
    assert ov.mean(merged, assume=ov.Proportion()).interval == ov.mean(np.r_[z, y]).interval
    odd = ov.RowSummary(bins=kept.bins).update(np.r_[z.astype(float), [-999.0] * 5])
    found = ov.mean(odd, 20, assume=ov.Proportion())
    assert found.interval == ov.mean(np.r_[z.astype(float), [-999.0] * 5], 20, assume=ov.Proportion()).interval
    with pytest.raises(ValueError, match="many different values"):
        ov.mean(summary(drawn("normal")), assume=ov.Proportion())


def test_rows_outside_of_bounds_are_corrupt_for_certain():
    x = drawn("normal", bad=50)
    found = ov.mean(summary(x), 60, assume=ov.Bounded(-20, 30))
    assert found.interval == pytest.approx(ov.mean(x, 60, assume=ov.Bounded(-20, 30)).interval, abs=1e-3)
    with pytest.raises(ValueError, match="more than the 10 corrupt rows"):
        ov.mean(summary(x), 10, assume=ov.Bounded(-20, 30))


@pytest.mark.parametrize("early", [True, False])
def test_missing_rows(early):
    x = drawn("normal", 9000)
    x[[5, 7000]] = [math.nan, math.inf]
    kept = summary(drawn("normal", 100 if early else 5000))
    before = kept.to_json()
    for policy, message in (("raise", "NaN or infinite values in 2 of 9000"), ("omit", "infinite")):
        with pytest.raises(ValueError, match=message):
            kept.update(x, nan_policy=policy)
        assert kept.to_json() == before
    kept.update(x, nan_policy="corrupt")
    assert (kept.n_found_corrupt, kept.n_rows) == (2, 9100 if early else 14_000)
    x[7000] = math.nan
    kept.update(x, nan_policy="omit")
    assert kept.n_omitted == 2
    assert ov.mean(kept, 2 + 200).certificate.provenance == "conditional"
    with pytest.raises(ValueError, match="more than the 1 corrupt row"):
        ov.mean(kept, 1)


@pytest.mark.parametrize("n", [0, 50, 6000])
def test_written_and_read_again(n):
    kept = ov.RowSummary().update(drawn("revenue", n, bad=min(n, 3))) if n else ov.RowSummary(bins=2048)
    for form in ("json", "bytes", "arrow"):
        again = getattr(ov.RowSummary, f"from_{form}")(getattr(kept, f"to_{form}")())
        assert again.to_bytes() == kept.to_bytes()
        assert again.bins == kept.bins
        if n:
            assert ov.mean(again).interval == pytest.approx(ov.mean(kept).interval, rel=1e-11)
            again.update([1.0, 2.0])
    assert pickle.loads(pickle.dumps(kept)).to_bytes() == kept.to_bytes()


def test_what_does_not_go_with_a_summary_is_refused():
    kept, other = summary(drawn("normal")), summary(drawn("pareto"))
    for call, message in (
        (lambda: ov.mean(kept, assume=ov.FiniteKurtosis(3.0)), "needs pairs of rows"),
        (lambda: ov.difference(kept, kept, assume=ov.FiniteKurtosis(3.0)), "needs pairs of rows"),
        (lambda: ov.mean(kept, assume=ov.Symmetric()), "needs the rows themselves"),
        (lambda: ov.mean(kept, vote="median"), "goes by evidence"),
        (lambda: ov.mean(kept, n_blocks=5), "goes by evidence"),
        (lambda: ov.tolerance(kept, claim="mean > 0", vote="soft"), "goes by evidence"),
        (lambda: ov.tolerance(kept, claim="p99 < 3"), "has no single rows"),
        (lambda: ov.tolerance(kept, kept, paired=True), "has no single rows"),
        (lambda: ov.difference(kept, other, paired=True), "has no single rows"),
        (lambda: ov.difference(kept, np.ones((5, 2))), "must be one column"),
        (lambda: kept.merge(other), "bins differ"),
        (lambda: ov.RowSummary(bins=1024).merge(kept), "bins differ"),
        (lambda: ov.mean(ov.RowSummary()), "no rows yet"),
        (lambda: ov.quantile(ov.RowSummary(), 0.5), "no rows yet"),
        (lambda: ov.RowSummary(bins=1000), "bins=1000 must be a power of two"),
        (lambda: ov.RowSummary(bins=2**21), "must be a power of two"),
        (lambda: ov.RowSummary(bins=Grid(0.0, 3.0)), "the unit a power of two"),
        (lambda: kept.update(np.ones((3, 2))), "one column at a time"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    for call, message in (
        (lambda: ov.RowSummary(bins="many"), "bins='many' must be a number of bins"),
        (lambda: kept.merge(3), "merged with another one, not with int"),
    ):
        with pytest.raises(TypeError, match=message):
            call()
    declared = ov.mean(kept, assume=ov.FiniteKurtosis(9.0, sd=3.0))
    assert declared.certificate.provenance == "certified"


def test_rows_first_of_which_two_fifths_are_garbage_choose_good_bins():
    x = drawn("normal", 60_000, bad=0)
    x[:1500] = 1e9
    found, right = ov.mean(summary(x), 2000), ov.mean(x, 2000)
    width = right.interval.high - right.interval.low
    assert found.interval.high - found.interval.low < 1.05 * width


@pytest.mark.parametrize("sign", [1, -1])
def test_bins_that_a_bound_cuts_do_not_let_corrupt_rows_move_the_mean(sign):
    x = np.full(100_000, 0.5)
    x[-1000:] = 8.0
    kept = ov.RowSummary(bins=Grid(0.0, 1024.0)).update(sign * x)
    low, high = ov.mean(kept, 0.01, assume=ov.Bounded(*sorted((0.0, sign)))).interval
    assert low <= sign * 0.5 <= high


def test_ends_of_quantiles_reach_as_far_as_rows_may():
    x = np.random.default_rng(0).normal(size=20_000)
    x[10_000:] = 1e305
    kept = ov.RowSummary().update(x[:10_000]).update(x[10_000:])
    assert ov.quantile(kept, 0.9).interval.high == math.inf
    mirrored = ov.RowSummary().update(-x[:10_000]).update(-x[10_000:])
    assert ov.quantile(mirrored, 0.1).interval.low == -math.inf
    v = float(np.nextafter(1 / 64, 0))
    edge = ov.RowSummary(bins=Grid(0.0, 1.0)).update(np.full(10_000, v))
    low, high = ov.quantile(edge, 0.5).interval
    assert low <= v <= high


def test_more_rows_than_sums_can_hold_are_refused():
    kept = ov.RowSummary(bins=Grid(0.0, 1.0)).update(np.full(100_000, 0.012))
    for _ in range(14):
        kept.merge(ov.RowSummary.from_bytes(kept.to_bytes()))
    assert kept.n_rows == 100_000 * 2**14
    low, high = ov.mean(kept, 0.001, assume=ov.FiniteVariance(1.0)).interval
    assert low < 0.012 < high
    again, before = ov.RowSummary.from_json(kept.to_json()), kept.to_bytes()
    with pytest.raises(ValueError, match="at most 2147483648 rows in a bin"):
        kept.merge(again)
    assert kept.to_bytes() == before


def test_tiny_rows_lose_nothing():
    x = np.random.default_rng(0).normal(size=9000)
    usual, tiny = (ov.mean(ov.RowSummary(bins=1024).update(unit * x), 90).interval for unit in (1.0, 2.0**-560))
    assert tiny.low * 2.0**560 == pytest.approx(usual.low, rel=1e-9)
    assert tiny.high * 2.0**560 == pytest.approx(usual.high, rel=1e-9)


def test_impossible_documents_are_refused():
    made = summary(drawn("normal", 6000))
    good, data, table = json.loads(made.to_json()), made.to_bytes(), made.to_arrow()
    count = good["count"]
    reads = [(ov.RowSummary.from_json, json.dumps(good | change)) for change in (
        {"format": "outvote.BlockSummary"}, {"version": 9}, {"number": 10**9}, {"number": 1000}, {"number": True},
        {"unit": 3.0}, {"unit": 0.0}, {"centre": "x"}, {"centre": float("inf")}, {"count": [*count[:-1], 0]},
        {"count": [*count[:-1], -1]}, {"count": [*count[:-1], 10**400]}, {"count": [*count[:-1], 2**62]},
        {"count": count[:-1]}, {"bin": [5] * len(count)}, {"bin": [*good["bin"][:-1], 4096]},
        {"place": [2**61] * len(count)}, {"square": [2**40] * len(count)}, {"square": [-1] * len(count)},
        {"n_found_corrupt": -1}, {"n_omitted": 1.5}, {"zeros_and_ones": [10**6, 0]}, {"zeros_and_ones": [1]},
        {"rows": [1.0, math.nan]}, {"centre": None}, {"bin": "x"},
    )]  # fmt: skip
    reads += [(ov.RowSummary.from_bytes, broken) for broken in (
        b"", b"x", data[:20], data[:-1], data[:-8], data + b"\0" * 8, b"outvote-rows" + b"\xff" * 8)]  # fmt: skip
    reads += [(ov.RowSummary.from_arrow, broken) for broken in (
        table.drop_columns(["count"]), table.replace_schema_metadata({}),
        table.set_column(1, "count", [[-1] * table.num_rows]), table.set_column(0, "bin", [[7] * table.num_rows]),
    )]  # fmt: skip
    for read, document in reads:
        with pytest.raises(ValueError, match="RowSummary"):
            read(document)


def test_rows_of_any_kind():
    x = drawn("integers", 9000)
    expected = ov.RowSummary().update(x).to_bytes()
    for same in (x.tolist(), pd.Series(x), np.stack([x, x], axis=1)[:, 0]):
        assert ov.RowSummary().update(same).to_bytes() == expected
    assert ov.RowSummary().update([]).n_rows == 0
