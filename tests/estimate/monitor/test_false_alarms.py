"""False alarms over all looks, briefly; `tests/theory/test_monitor.py` tries more at length."""

from __future__ import annotations

import numpy as np
import pytest
from monitor_alarms import DELTA, chance_of_an_alarm, pattern
from simulate import miss_rate_allowed

import outvote as ov


@pytest.mark.parametrize("corrupt", ["never", "first", "last", "bursts"])
@pytest.mark.parametrize(("p", "value"), [(0.03, 1), (0.5, 0)])
def test_rates_ever_rule_out_the_truth_with_probability_delta_at_most(p, corrupt, value):
    alarm, never = chance_of_an_alarm(p, corrupt, value, 300, 600)
    assert alarm <= DELTA
    assert abs(1 - alarm - never) < 1e-9


@pytest.mark.parametrize("assume", [None, ov.FiniteVariance(1.0), ov.Bounded(0, 12)])
def test_monitors_seldom_rule_out_the_truth(assume):
    rng, missed = np.random.default_rng(8), []
    bad = np.diff(pattern("first", 1200), prepend=0) > 0
    for i in range(20):
        x = rng.exponential(size=1200)
        x[bad] = (12.0, 0.0)[i % 2]
        monitor, start, wrong = ov.Monitor(assume, 0.01, n_plan=800), 0, False
        for n in (60, 100, 150, 250, 400, 600, 800, 1000, 1200):
            low, high = monitor.update(x[start:n]).interval
            start, wrong = n, wrong or not low <= 1 <= high
        missed.append(wrong)
    assert np.mean(missed) <= miss_rate_allowed(DELTA, len(missed))
