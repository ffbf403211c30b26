"""Coverage of intervals from rows counted in bins; corrupt rows are among those that choose the bins, too."""

from __future__ import annotations

import numpy as np
import pytest
from chance import assert_covers
from simulate import LAWS, generator, runs, two_point

import outvote as ov
from outvote.data.missing import ContradictionError
from outvote.estimate.premise import UnknownScale

N = {"rows": 8192, "summary": 1024}  # from 8192 rows on an array is counted, too
SAMPLERS = {
    "normal": LAWS["gaussian"],
    "pareto": LAWS["pareto"],
    "exponential": lambda rng, shape: rng.exponential(size=shape) - 1,
    "rare": two_point(49.0),
}
PLACES = (-1e9, -3.0, 0.5, 3.0, 1e9)


def summary(x):
    return ov.RowSummary(bins=1024).update(x[:300]).update(x[300:])


@pytest.mark.parametrize("way", N)
@pytest.mark.parametrize("law", SAMPLERS)
def test_means_and_differences_cover(law, way):
    rng, missed, n = generator("bins", law, way), [], N[way]
    for place in PLACES * runs(1):
        x, y = SAMPLERS[law](rng, (2, n))
        m = n // 100
        x[:m], y[-m:] = place, -place
        a, b = (x, y) if way == "rows" else (summary(x), summary(y))
        for assume in (ov.FiniteVariance(1.0), None):
            for call in (lambda k: ov.mean(a, m, assume=k), lambda k: ov.difference(a, b, (m, m), assume=k)):  # noqa: B023
                try:
                    found = call(assume)
                except ContradictionError:
                    missed.append(True)
                except UnknownScale:  # nothing is promised of rows that hardly differ
                    assert (law, assume) == ("rare", None)
                else:
                    # What is read off the rows may be too small: then nothing is promised, either.
                    if assume is not None or np.min(found.certificate.premise_sd) >= 1:
                        missed.append(not found.interval.low <= 0 <= found.interval.high)
    assert len(missed) >= 10
    assert_covers(missed, 0.05)


@pytest.mark.parametrize("law", SAMPLERS)
def test_quantiles_of_a_summary_cover(law):
    rng, missed, n = generator("bins", law, "quantiles"), [], N["summary"]
    truth = np.quantile(SAMPLERS[law](rng, 10**5), (0.1, 0.5, 0.95))
    for place in PLACES * runs(4):
        x = SAMPLERS[law](rng, n)
        x[: n // 100] = place
        for q, value in zip((0.1, 0.5, 0.95), truth, strict=True):
            low, high = ov.quantile(summary(x), q, n // 100).interval
            off = 5e-3 * (1 + abs(value))  # the truth is simulated
            missed.append(not low - off <= value <= high + off)
    assert_covers(missed, 0.05)
