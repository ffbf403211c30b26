"""Differences of quantiles: subtracted intervals, the widest over all ways to share out the corrupt rows."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov

RNG = np.random.default_rng(0)
A, B = RNG.exponential(1.0, 300), RNG.exponential(1.5, 500)
rows = st.lists(st.floats(-1e6, 1e6), min_size=20, max_size=40)


def subtracted(a, b, q, counts, adversary, confidence):
    """Two intervals at half of δ each, subtracted."""
    of_a, of_b = (
        ov.quantile(x, q, ov.Contamination(m, adversary), 1 - (1 - confidence) / 2).interval
        for x, m in zip((a, b), counts, strict=True)
    )
    return of_b.low - of_a.high, of_b.high - of_a.low


def test_one_side_has_all_of_delta():
    less = ov.quantile_difference(A, B, 0.5, 4, alternative="less").interval
    greater = ov.quantile_difference(A, B, 0.5, 4, alternative="greater").interval
    both = ov.quantile_difference(A, B, 0.5, 4, 0.9).interval
    assert (less.low, greater.high) == (-math.inf, math.inf)
    assert (greater.low, less.high) == both


def test_several_quantiles():
    found = ov.quantile_difference(A, B, [0.5, 0.9], 2)
    assert found.names == ("p50", "p90")
    for i, q in enumerate((0.5, 0.9)):
        assert (found.interval.low[i], found.interval.high[i]) == ov.quantile_difference(A, B, q, 2).interval
    together = ov.quantile_difference(A, B, [0.5, 0.9], 2, simultaneous=True).interval
    assert together.low.tolist() == ov.quantile_difference(A, B, [0.5, 0.9], 2, 0.975).interval.low.tolist()


@settings(max_examples=30)
@given(rows, rows)
def test_swapped_samples_have_the_mirrored_difference(a, b):
    there, back = ov.quantile_difference(a, b, 0.5, 1), ov.quantile_difference(b, a, 0.5, 1)
    assert back.interval == (-there.interval.high, -there.interval.low)
    assert there.interval.low <= there.estimate <= there.interval.high


def test_rows_found_to_be_corrupt_are_among_those_of_their_sample():
    holed = np.r_[A, np.nan, np.nan]
    found = ov.quantile_difference(holed, B, 0.5, 2, nan_policy="corrupt")
    splits = [(t, 4 - t) for t in range(2, 5)]
    ends = []
    for m_a, m_b in splits:
        of_a = ov.quantile(holed, 0.5, m_a, 0.975, "corrupt").interval
        of_b = ov.quantile(B, 0.5, m_b, 0.975).interval
        ends.append((of_b.low - of_a.high, of_b.high - of_a.low))
    assert found.interval == (min(low for low, _ in ends), max(high for _, high in ends))


def test_too_few_rows_and_bad_input():
    few = ov.quantile_difference([1.0, 2.0, 3.0], [2.0, 3.0, 4.0], 0.5, 0)
    assert few.certificate.provenance == "none"
    with pytest.raises(ValueError, match="a has shape"):
        ov.quantile_difference(A.reshape(-1, 2), B)
    with pytest.raises(ValueError, match="not a finite number"):
        ov.quantile_difference(np.full(50, np.inf), np.full(50, np.inf))
    with pytest.raises(ValueError, match="counted='both' must be one of 'together', 'each'"):
        ov.quantile_difference(A, B, counted="both")


def test_the_picture_names_the_medians():
    plt = pytest.importorskip("matplotlib.pyplot")
    display = ov.quantile_difference(A, B).plot()
    assert any("median of a" in str(line.get_label()) for line in display.ax_.lines)
    plt.close(display.figure_)


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
def test_intervals_are_subtracted_at_their_worst_split(adversary):
    for q in (0.2, 0.9):
        each = ov.quantile_difference(A, B, q, ov.Contamination((3, 5), adversary))
        assert each.interval == pytest.approx(subtracted(A, B, q, (3, 5), adversary, 0.95))
        assert each.centres == (ov.quantile(A, q).estimate, ov.quantile(B, q).estimate)
        assert each.estimate == each.centres[1] - each.centres[0]
        together = ov.quantile_difference(A, B, q, ov.Contamination(4, adversary))
        splits = [subtracted(A, B, q, (t, 8 - t), adversary, 0.95) for t in range(9)]
        assert together.interval == (min(low for low, _ in splits), max(high for _, high in splits))
        assert together.plan.strength() == "allows for 8 corrupt rows in both together"
