"""The learning experiments of the paper: splits, outliers, test losses."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

import outvote as ov
from outvote.learning.losses import MetricHinge, ProductHinge


class Ranking(NamedTuple):
    """One run: sane rows, contaminated rows, test rows, and which contaminated rows are outliers."""

    sane: tuple[np.ndarray, np.ndarray]
    dirty: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    bad: np.ndarray


#: Share of outliers, λ, number of blocks, step, epochs.
PAPER = {"boston": (0.02, -500.0, 31, 0.1, 1000), "wine": (0.05, 50.0, 234, 1.0, 500)}


@cache
def load(name: str):
    """Standardised columns, raw targets."""
    data = {"boston": ov.datasets.load_boston, "wine": ov.datasets.load_red_wine}[name]()
    return (data.X - data.X.mean(0)) / data.X.std(0), data.y


def ranking(name: str, seed: int, share: float | None = None, columns: np.ndarray | None = None) -> Ranking:
    """Split, and add outliers uniform within half-width 1 of (-λ·w_sane, λ)."""
    x, y = load(name)
    share = PAPER[name][0] if share is None else share
    lam = PAPER[name][1]
    rng = np.random.default_rng([seed, 7])
    order = rng.permutation(len(x))
    cut = int(0.8 * len(x))
    train, test = order[:cut], order[cut:]
    w = sane_weights(name, seed)
    n_bad = round(share * cut)
    bad_x = -lam * w + rng.uniform(-1, 1, size=(n_bad, x.shape[1]))
    bad_y = lam + rng.uniform(-1, 1, size=n_bad)
    dirty = np.vstack([x[train], bad_x]), np.concatenate([y[train], bad_y])
    mark = np.arange(cut + n_bad) >= cut
    return Ranking((x[train], y[train]), dirty, (x[test], y[test]), mark)


@cache
def sane_weights(name: str, seed: int) -> np.ndarray:
    """Plain gradient descent on the sane rows, on a fifth of the epochs with the mean over blocks of pairs."""
    x, y = load(name)
    rng = np.random.default_rng([seed, 7])
    train = rng.permutation(len(x))[: int(0.8 * len(x))]
    _, _, _, step, epochs = PAPER[name]
    model = plain(step, epochs // 4, seed, n_blocks=1 if name == "boston" else 5)
    return model.fit(x[train], y[train]).coef_


def plain(step: float, epochs: int, seed: int, n_blocks: int = 1) -> ov.RobustRanker:
    """Gradient descent: one block, or the mean of all the pairs of a few blocks."""
    return ov.RobustRanker(
        algorithm="paper",
        loss="product",
        contamination=0,
        n_blocks=n_blocks,
        middle=1.0,
        step_size=step,
        max_iter=epochs,
        random_state=seed,
    )


def paper(name: str, seed: int, epochs: int | None = None) -> ov.RobustRanker:
    """Algorithm 1 with the paper's number of blocks."""
    _, _, n_blocks, step, all_epochs = PAPER[name]
    return ov.RobustRanker(
        algorithm="paper",
        loss="product",
        contamination=0,
        n_blocks=n_blocks,
        middle=0.0,
        step_size=step,
        max_iter=epochs or all_epochs,
        random_state=seed,
    )


def ranking_loss(model, test) -> float:
    """The mean of max(0, 1 - (σ(s) - σ(s'))(y - y')) over all pairs of the test rows."""
    x, y = test
    scores = model.predict(x)
    return float(ProductHinge().risks(scores[:, None], y[:, None])[0])


def iris(seed: int):
    """Sane rows, contaminated rows, test rows, outlier marks: 10 % uniform on [0, 5]⁴ with label 2."""
    data = ov.datasets.load_iris()
    x = (data.X - data.X.mean(0)) / data.X.std(0)
    rng = np.random.default_rng([seed, 8])
    order = rng.permutation(150)
    train, test = order[:120], order[120:]
    bad = rng.uniform(0, 5, size=(12, 4))
    dirty = np.vstack([x[train], bad]), np.concatenate([data.y[train], np.full(12, 2)])
    return (x[train], data.y[train]), dirty, (x[test], data.y[test]), np.arange(132) >= 120


def metric_loss(model, test) -> float:
    """The paper's metric objective over all pairs of the test rows."""
    x, y = test
    return float(MetricHinge().risks(model.transform(x)[:, None], y[:, None])[0])
