"""False alarms of monitors over all looks, with corrupt rows where they hurt most.

Rows of 0 and 1: the probability that a monitor *ever* rules out the truth is added up exactly, look after look. Others:
simulated, once from the definition at every row, once with monitors.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from chance import assert_covers
from monitor_alarms import DELTA, PRICE, chance_of_an_alarm, pattern, thresholds
from simulate import LAWS, LONG, generator, runs

import outvote as ov
from outvote.votes.evidence.factors import factors_for
from outvote.votes.evidence.running import running_stakes, size_weights

N = 10_000 if LONG else 800


class TestRatesExactly:
    @pytest.mark.parametrize("p", [0.01, 0.03, 0.3, 0.5])
    @pytest.mark.parametrize("corrupt", ["first", "last", "bursts"])
    def test_the_truth_is_ever_ruled_out_with_probability_delta_at_most(self, p, corrupt):
        for value in (0, 1):
            alarm, never = chance_of_an_alarm(p, corrupt, value, N // 2, N)
            assert alarm <= DELTA
            assert abs(1 - alarm - never) < 1e-9

    def test_monitors_rule_out_what_the_definition_does(self):
        p, n_plan = 0.3, 600
        ones = thresholds(p, 1, n_plan, 900)
        zeros = thresholds(p, -1, n_plan, 900)
        for n in (50, 300, 900):
            for k, out in ((ones[n - 1] - 1, False), (ones[n - 1], True)):
                found = ov.Monitor(ov.Proportion(), 0.01, n_plan=n_plan).update(np.arange(n) < k)
                assert (found.interval.low > p) is out
            k = n - int(zeros[n - 1])
            found = ov.Monitor(ov.Proportion(), 0.01, n_plan=n_plan).update(np.arange(n) < k)
            assert found.interval.high < p

    def test_without_dropping_rows_the_alarm_is_false_for_certain(self):
        x = np.r_[np.ones(12), np.zeros(988)]  # 1 % of bots
        assert ov.Monitor(ov.Proportion(), 0, n_plan=1000).update(x).interval.low > 0.001
        assert ov.Monitor(ov.Proportion(), 0.01, n_plan=1000).update(x).interval.low == 0


def ever(logs, weights):
    """Whether the weighted sum of products of factors ever reaches the price; logs are (runs, rows, factors)."""
    total = np.cumsum(logs, axis=1) + np.log(weights)
    return (np.logaddexp.reduce(total, axis=2) >= PRICE).any(axis=1)


class TestByDefinition:
    """All looks, every row one. Corrupt rows so far out that dropping them leaves the clean ones whole: the worst."""

    @pytest.mark.parametrize("law", [*LAWS, "rare"])
    def test_sd(self, law):
        rng, n = generator("monitor", law), N
        factors = [
            (one, one.weight * weight)
            for multiple, weight in zip(*size_weights(), strict=True)
            for one in factors_for(ov.FiniteVariance(1.0), n / 2 * multiple, PRICE, adaptive=False)
        ]
        wrong = []
        for _ in range(runs(12)):
            x = LAWS[law](rng, (4, n)) if law != "rare" else np.where(rng.random((4, n)) < 1e-3, 31.6, -0.0316)
            for side in (x, -x):
                logs = np.stack([one.logs(side) - one.norm for one, _ in factors], axis=2)
                wrong.append(ever(logs, [weight for _, weight in factors]))
        assert_covers(np.concatenate(wrong), DELTA / 2)

    @pytest.mark.parametrize("shape", [(1, 1), (0.1, 0.1), (1, 50)])
    def test_bounds(self, shape):
        rng, mean, wrong = generator("monitor", shape), shape[0] / sum(shape), []
        stakes = running_stakes(N / 2, PRICE)
        for _ in range(runs(12)):
            x = rng.beta(*shape, size=(4, N))
            for side, mu in ((x, mean), (1 - x, 1 - mean)):
                logs = np.stack([np.log1p(a * side) - np.log1p(a * mu) for _, a in stakes], axis=2)
                wrong.append(ever(logs, [weight for weight, _ in stakes]))
        assert_covers(np.concatenate(wrong), DELTA / 2)


CASES = {
    "sd": (lambda **o: ov.Monitor(ov.FiniteVariance(1.0), **o), lambda rng, n: rng.exponential(size=n), 1.0),
    "premise": (lambda **o: ov.Monitor(**o), lambda rng, n: rng.normal(2.0, size=n), 2.0),
    "bounds": (lambda **o: ov.Monitor(ov.Bounded(0, 1), **o), lambda rng, n: rng.beta(2, 6, size=n), 0.25),
    "rates": (lambda **o: ov.Monitor(ov.Proportion(), **o), lambda rng, n: (rng.random(n) < 0.1) * 1.0, 0.1),
}
#: What corrupt rows say: far out on either side, or just inside of what the interval leaves, where it hurts a little.
PLACES = {"sd": (1e6, -1e6, 4.0), "premise": (1e6, -1e6, 4.0), "bounds": (1.0, 0.0, 0.5), "rates": (1.0, 0.0, 1.0)}
LOOKS = np.unique(np.geomspace(100, 2000, 30 if LONG else 8).astype(int))


@pytest.mark.parametrize("case", CASES)
class TestMonitors:
    """With δ = 0.01, of which a few misses in a few runs are proof."""

    @staticmethod
    def rows(case, rng, corrupt, place):
        x, counts = CASES[case][1](rng, LOOKS[-1]), pattern(corrupt, LOOKS[-1])
        x[np.flatnonzero(np.diff(counts, prepend=0) > 0)] = place
        return x

    def test_one_arm(self, case):
        truth, missed = CASES[case][2], []
        for run, corrupt in enumerate(["first", "last", "bursts"] * runs(2)):
            x = self.rows(case, generator("one arm", case, run), corrupt, PLACES[case][run // 2 % 3])
            monitor, start, wrong = CASES[case][0](contamination=0.01, confidence=0.99, n_plan=1500), 0, False
            for n in LOOKS:
                low, high = monitor.update(x[start:n]).interval
                start, wrong = n, wrong or not low <= truth <= high
            missed.append(wrong)
        assert_covers(missed, 0.01)

    def test_two_arms(self, case):
        missed, decided = [], []
        for run, corrupt in enumerate(["first", "bursts"] * runs(2)):
            rng, place = generator("two arms", case, run), PLACES[case][run % 3]
            arms = {"A": self.rows(case, rng, corrupt, place), "B": self.rows(case, rng, corrupt, -place % 2)}
            monitor, start = CASES[case][0](contamination=0.01, confidence=0.99, n_plan=1500), 0
            wrong = False
            for n in LOOKS[1::3]:
                for arm, x in arms.items():
                    monitor.update(x[start:n], arm=arm)
                start = n
                low, high = monitor.interval
                wrong |= not low <= 0 <= high
            low, high = monitor.lift
            missed.append(wrong or not low <= 0 <= high)
            decided.append(monitor.decided is not None)
        assert_covers(missed, 0.02)
        assert_covers(decided, 0.01)


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
def test_rows_replaced_after_seeing_them_need_the_label(adversary):
    """Rows that speak least for a larger mean give way to ones that speak for it."""
    rng, alarms = generator("adaptive", adversary), []
    for _ in range(runs(6)):
        monitor = ov.Monitor(ov.FiniteVariance(1.0), ov.Contamination(0.05, adversary), n_plan=2000)
        alarm, replaced = False, 0
        for n in range(500, 3001, 500):
            x = rng.normal(size=500)
            count = math.ceil(0.05 * n) + 2 - replaced
            replaced += count
            x[np.argsort(x)[:count]] = 2.5
            alarm |= monitor.update(x).interval.low > 0
        alarms.append(alarm)
    if adversary == "adaptive":
        assert_covers(alarms, DELTA / 2)
    else:
        assert np.mean(alarms) > 0.5
