"""Outlier scores: what they are made of, and which rows they point at."""

import numpy as np
import pytest

from outvote.learning import outlier_scores as scores_module
from outvote.learning.outlier_scores import outlier_scores


def test_outlier_scores_are_the_larger_of_rarity_and_of_loss_plus_distance(monkeypatch):
    monkeypatch.setattr(scores_module, "_AT_ONCE", 7)  # several parts even here
    rng = np.random.default_rng(0)
    counts, losses, far = rng.integers(0, 90, size=50), rng.exponential(size=50), rng.exponential(size=50)
    losses[4], rows = np.inf, np.arange(40)
    share = counts[rows].mean() / 100
    unexplained = np.zeros(50)
    for values in (losses, far):
        finite = np.sort(values[np.isfinite(values)])
        unexplained += np.maximum((values - np.median(finite)) / finite[:47].std(), 0)
    rarity = np.full(50, -np.inf)
    rarity[rows] = (np.median(counts[rows]) - counts[rows]) / (3 * np.sqrt(100 * share * (1 - share)))
    given = counts.copy(), losses.copy(), far.copy()
    assert outlier_scores(counts, losses, far, rows, 100, 3) == pytest.approx(
        np.maximum(unexplained, rarity), rel=1e-12
    )
    assert all(np.array_equal(a, b) for a, b in zip(given, (counts, losses, far), strict=True))


def test_a_high_loss_a_large_distance_or_a_low_count_alone_gives_a_high_score():
    counts, losses, distances = np.full(100, 50), np.linspace(0, 1, 100), np.linspace(2, 1, 100)
    counts[3], losses[7], distances[11] = 0, 50.0, 50.0
    scores = outlier_scores(counts, losses, distances, np.arange(100), 200, 2)
    assert set(np.argsort(scores)[-3:]) == {3, 7, 11}
    everything_lost = outlier_scores(counts, np.full(100, np.inf), distances, np.arange(100), 200)
    assert np.isinf(everything_lost).all()
