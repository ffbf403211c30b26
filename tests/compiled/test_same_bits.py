"""Answers are the same to the last bit: with numba or without, of rows alone or together with others."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import outvote as ov
from outvote import _numba

pytest.importorskip("numba")

LAWS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "skewed": lambda rng, n: rng.exponential(size=n) * 1e-4,
    "heavy": lambda rng, n: rng.standard_cauchy(size=n) * 1e5,
    "rounded": lambda rng, n: np.round(rng.normal(size=n), 1),
    "mostly 0": lambda rng, n: rng.exponential(size=n) * (rng.random(n) < 0.3),
    "far from 0": lambda rng, n: rng.normal(size=n) + 2.0**30,
}
CALLS = {
    "mean": lambda x, y: ov.mean(x),
    "five percent": lambda x, y: ov.mean(x, 0.05),
    "one-sided": lambda x, y: ov.mean(x, alternative="less"),
    "adaptive": lambda x, y: ov.mean(x, ov.Contamination(2, "adaptive")),
    "declared": lambda x, y: ov.mean(x, assume=ov.FiniteVariance(2 * float(x.std()))),
    "sub-Gaussian": lambda x, y: ov.mean(x, assume=ov.SubGaussian(2 * float(x.std()))),
    "kurtosis": lambda x, y: ov.mean(x, assume=ov.FiniteKurtosis(9.0, sd=2 * float(x.std()))),
    "soft": lambda x, y: ov.mean(x, vote="soft", rng=0),
    "soft, rows": lambda x, y: ov.mean(
        x, 0, assume=ov.FiniteVariance(2 * float(x.std())), vote="soft", n_blocks=len(x)
    ),
    "levels": lambda x, y: ov.mean(x, "auto"),
    "columns": lambda x, y: ov.mean(np.column_stack([x[:300] + k for k in range(9)])),
    "summary": lambda x, y: ov.mean(ov.RowSummary().update(x)),
    "difference": lambda x, y: ov.difference(x, y),
    "difference, each": lambda x, y: ov.difference(x, y, counted="each"),
    "lift": lambda x, y: ov.difference(abs(x) + 1, abs(y) + 1, relative=True),
    "paired": lambda x, y: ov.difference(x[:400], y[:400], paired=True),
}


def numbers(found):
    return [np.asarray(one).tolist() for one in (found.estimate, *found.interval)]


def answer(call):
    """Return the numbers of an answer, or the words of a refusal, which have numbers in them."""
    try:
        found = call()
    except ValueError as error:
        return str(error)
    return numbers(found), str(found), np.asarray(found.to_dict()["premise_sd"]).tolist()


pytestmark = pytest.mark.skipif(_numba._DISABLED, reason="numba is disabled, so there is nothing to compare")


@pytest.fixture(autouse=True)
def _loaded():
    assert _numba.compiled(math.inf) is not None


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("call", CALLS)
def test_numba_does_not_change_a_bit(call, law):
    for n in (40, 700, 9000):
        rng = np.random.default_rng(n)
        x, y = LAWS[law](rng, n), LAWS[law](rng, n + 13)
        with _numba.numpy_only():
            plain = answer(lambda x=x, y=y: CALLS[call](x, y))
        assert answer(lambda x=x, y=y: CALLS[call](x, y)) == plain


@pytest.mark.parametrize("law", LAWS)
def test_groups_and_columns_are_what_they_are_alone(law):
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({"v": LAWS[law](rng, 3000), "k": rng.integers(0, 25, 3000)})
    found = ov.scan(frame).mean("v", by="k").sort_values("k")
    with _numba.numpy_only():
        plain = ov.scan(frame).mean("v", by="k").sort_values("k")
    pd.testing.assert_frame_equal(found, plain, check_exact=True)
    table = np.column_stack([frame.v[k : k + 400] for k in range(0, 2700, 300)])
    together = ov.mean(table)
    for k in range(25):
        alone = ov.mean(frame.v[frame.k == k].to_numpy())
        line = found.iloc[k]
        assert [line.estimate, line.low, line.high] == [alone.estimate, *alone.interval]
    for j, column in enumerate(table.T):
        alone = ov.mean(np.ascontiguousarray(column))
        assert [together.interval.low[j], together.interval.high[j]] == list(alone.interval)


def test_a_call_is_the_same_before_and_after_numba_is_loaded():
    """Numba is loaded in the middle of many calls; a process in which it never is has the same answers."""
    x = np.random.default_rng(3).standard_t(3, size=5000)
    with _numba.numpy_only():
        first = [numbers(ov.mean(x[:n])) for n in (50, 500, 5000)]
    assert [numbers(ov.mean(x[:n])) for n in (50, 500, 5000)] == first


@pytest.mark.parametrize(
    "learner", [ov.RobustRanker, ov.RobustAUCClassifier, ov.RobustRegressor, ov.RobustMetricLearner]
)
def test_small_fits_are_the_same_whatever_was_loaded(learner):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(150, 3))
    y = x[:, 0] + 0.3 * rng.normal(size=150)
    y = y if learner in (ov.RobustRanker, ov.RobustRegressor) else (y > 0).astype(int)

    def fitted():
        model = learner(random_state=0, max_iter=30).fit(x, y)
        return model.outlier_scores_.tolist(), model.row_losses_.tolist(), model._theta.tolist()

    with _numba.numpy_only():
        plain = fitted()
    assert fitted() == plain


def test_many_rows_load_numba_for_pairs():
    """So a fit has the same last digits, whether numba was loaded before or not."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2000, 2))
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        own = _numba.compiled
        patch.setattr("outvote._numba.compiled", lambda seconds: asked.append(seconds) or own(seconds))
        ov.RobustRanker(random_state=0, max_iter=2).fit(x, x[:, 0])
    assert asked[0] == math.inf


def test_e_values_are_the_same_with_and_without_numba():
    rng = np.random.default_rng(6)
    watch = ov.Monitor(claim="difference > 0").update(rng.normal(size=3000), arm="A")
    watch.update(rng.normal(0.1, size=3000), arm="B")
    with _numba.numpy_only():
        plain = watch.e_value()
    assert watch.e_value() == plain > 0
