"""Coverage of intervals from rows counted in bins; corrupt rows are among those that choose the bins, too."""

from __future__ import annotations

import numpy as np
import pytest
from simulate import LAWS, LONG, assert_covers, generator, two_point

import outvote as ov
from outvote.data.missing import ContradictionError

N, M = 8192, 82
SAMPLERS = {
    "normal": LAWS["gaussian"],
    "student": LAWS["student-2.5"],
    "pareto": LAWS["pareto"],
    "exponential": lambda rng, shape: rng.exponential(size=shape) - 1,
    "rare": two_point(49.0),
}
PLACES = (-1e9, -3.0, 0.5, 3.0, 1e9)


def summary(x):
    return ov.RowSummary(bins=1024).update(x[:3000]).update(x[3000:])


@pytest.mark.parametrize("way", ["rows", "summary"])
@pytest.mark.parametrize("law", SAMPLERS)
def test_means_and_differences_cover(law, way):
    rng, missed = generator("bins", law, way), []
    for i in range(100 if LONG else 25):
        x, y = SAMPLERS[law](rng, (2, N))
        place = PLACES[i % len(PLACES)]
        x[:M], y[-M:] = place, -place
        a, b = (x, y) if way == "rows" else (summary(x), summary(y))
        for assume in (ov.FiniteVariance(1.0), None):
            try:
                found = [ov.mean(a, M, assume=assume), ov.difference(a, b, (M, M), assume=assume)]
            except ContradictionError:
                missed += [True, True]
                continue
            # What is read off the rows may be too small: then nothing is promised.
            held = [one for one in found if assume is not None or np.min(one.certificate.premise_sd) >= 1]
            missed += [not one.interval.low <= 0 <= one.interval.high for one in held]
    assert len(missed) >= 50
    assert_covers(np.array(missed, dtype=float), 0.5, 0.05)


@pytest.mark.parametrize("law", SAMPLERS)
def test_quantiles_of_a_summary_cover(law):
    rng = generator("bins", law, "quantiles")
    truth = {q: np.quantile(SAMPLERS[law](rng, 10**6), q) for q in (0.1, 0.5, 0.95)}
    missed = []
    for i in range(200 if LONG else 50):
        x = SAMPLERS[law](rng, N)
        x[:M] = PLACES[i % len(PLACES)]
        for q, value in truth.items():
            low, high = ov.quantile(summary(x), q, M).interval
            off = 1e-3 * (1 + abs(value))  # the truth is simulated
            missed.append(not low - off <= value <= high + off)
    assert_covers(np.array(missed, dtype=float), 0.5, 0.05)
