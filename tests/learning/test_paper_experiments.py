"""The paper's ranking and metric learning experiments, in short; OUTVOTE_THEORY=long runs all fifty seeds."""

import os

import numpy as np
import protocol
import pytest
from sklearn.metrics import roc_auc_score

import outvote as ov
from outvote.learning import DivergenceError
from outvote.learning.losses import PairLogistic

LONG = os.environ.get("OUTVOTE_THEORY") == "long"


def seeds(few: int) -> range:
    """All fifty runs, or a few of them."""
    return range(50 if LONG else few)


def logistic_loss(model, test) -> float:
    x, y = test
    return float(PairLogistic().risks(model.predict(x)[:, None], y[:, None])[0])


@pytest.mark.parametrize(("name", "published"), [("boston", 0.36), ("wine", 0.74)])
def test_algorithm_1_gives_the_published_losses(name, published):
    sane, dirty = [], []
    epochs = None if LONG or name == "wine" else 500
    for seed in seeds(4):
        run = protocol.ranking(name, seed)
        sane.append(protocol.ranking_loss(protocol.paper(name, seed, epochs).fit(*run.sane), run.test))
        model = protocol.paper(name, seed, epochs).fit(*run.dirty)
        dirty.append(protocol.ranking_loss(model, run.test))
        assert roc_auc_score(run.bad, model.outlier_scores_) > 0.97
    assert np.mean(sane) == pytest.approx(published, abs=0.04)
    assert np.mean(dirty) == pytest.approx(published, abs=0.04)


@pytest.mark.parametrize(("name", "published"), [("boston", 0.35), ("wine", 0.73)])
def test_plain_descent_is_as_published_on_sane_rows_and_clearly_worse_on_the_others(name, published):
    _, _, _, step, epochs = protocol.PAPER[name]
    sane, dirty = [], []
    for seed in seeds(2):
        run = protocol.ranking(name, seed)
        plain = protocol.plain(step, epochs // 4, seed, 1 if name == "boston" else 5)
        sane.append(protocol.ranking_loss(plain.fit(*run.sane), run.test))
        try:
            dirty.append(protocol.ranking_loss(plain.fit(*run.dirty), run.test))
        except DivergenceError:
            dirty.append(np.inf)
    assert np.mean(sane) == pytest.approx(published, abs=0.04)
    # Contaminated runs depend on the start: some end near .9, some are turned round, and some are refused as no fit.
    assert np.median(dirty) > 1.15 * np.mean(sane)


@pytest.mark.parametrize(("name", "near"), [("boston", 0.02), ("wine", 0.03)])
def test_the_default_does_not_fail(name, near):
    """At the paper's contamination and at 10 %, from 0 and in raw columns: a failure is 1.5 times the clean median."""
    clean, found, spread = [], {"paper": [], "raw": [], "tenth": []}, []
    for seed in seeds(2 if name == "boston" else 1):
        run, tenth = protocol.ranking(name, seed), protocol.ranking(name, seed, share=0.1)
        rng = np.random.default_rng(seed)
        units = 10.0 ** rng.uniform(-3, 3, size=run.sane[0].shape[1])
        shift = 3 * units * rng.normal(size=len(units))
        clean.append(logistic_loss(ov.RobustRanker(contamination=0, random_state=seed).fit(*run.sane), run.test))
        for setting, spoiled in (("paper", run), ("raw", run), ("tenth", tenth)):
            (x, y), (x_test, y_test) = spoiled.dirty, spoiled.test
            if setting == "raw":
                x, x_test = x * units + shift, x_test * units + shift
            model = ov.RobustRanker(contamination=int(spoiled.bad.sum()), random_state=seed).fit(x, y)
            found[setting].append(logistic_loss(model, (x_test, y_test)))
            spread.append(roc_auc_score(spoiled.bad, model.outlier_scores_))
    for losses in found.values():
        assert np.max(losses) < 1.5 * np.median(clean)
    assert np.mean(found["tenth"]) < np.mean(clean) + near
    assert np.min(spread) > 0.97


def test_metric_learning_on_iris():
    losses, areas = {}, []
    paper = {"algorithm": "paper", "contamination": 0, "init": np.eye(4), "step_size": 0.03}
    for seed in seeds(2):
        sane, dirty, test, bad = protocol.iris(seed)
        models = {
            "GD sane": (sane, {**paper, "n_blocks": 1, "max_iter": 1000 if LONG else 150}),
            "GD dirty": (dirty, {**paper, "n_blocks": 1, "max_iter": 1000 if LONG else 150}),
            "MoU sane": (sane, {**paper, "n_blocks": 40, "middle": 0.0, "max_iter": 1000 if LONG else 500}),
            "MoU dirty": (dirty, {**paper, "n_blocks": 40, "middle": 0.0, "max_iter": 1000 if LONG else 500}),
            "default": (dirty, {"contamination": 12}),
        }
        for name, (data, options) in models.items():
            model = ov.RobustMetricLearner(random_state=seed, **options).fit(*data)
            losses.setdefault(name, []).append(protocol.metric_loss(model, test))
        areas.append(roc_auc_score(bad, model.outlier_scores_))
    assert np.mean(areas) > (0.97 if LONG else 0.95)
    means = {name: np.mean(values) for name, values in losses.items()}
    # Thirty test rows: one run differs from the next by .09, so that a few runs say little about the mean.
    near = 0.04 if LONG else 0.15
    assert means["GD sane"] == pytest.approx(0.200, abs=near)
    assert means["MoU sane"] == pytest.approx(0.259, abs=near)
    assert means["MoU dirty"] == pytest.approx(0.240, abs=near)
    assert means["GD dirty"] > 1.2 * max(means["GD sane"], means["MoU dirty"])
    assert means["default"] < 1.5 * means["GD sane"]
