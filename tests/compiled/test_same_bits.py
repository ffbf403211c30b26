"""Answers are the same to the last bit: with numba or without, of rows alone or together with others."""

from __future__ import annotations

import math

import numpy as np
import pytest

import outvote as ov
from outvote import _numba

pytest.importorskip("numba")

pytestmark = pytest.mark.skipif(_numba._DISABLED, reason="numba is disabled, so there is nothing to compare")


@pytest.fixture(autouse=True)
def _loaded():
    assert _numba.compiled(math.inf) is not None


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
