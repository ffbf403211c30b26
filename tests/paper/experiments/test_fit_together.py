"""Learners fitted together equal those fitted one by one, and a diverging one does not stop the others."""

import numpy as np
import pytest
from sklearn.base import clone

import outvote as ov
from outvote.learning import DivergenceError, PairLoss
from outvote.paper.experiments import fit_together as together
from outvote.paper.experiments.fit_together import fit_together

N_RUNS = 5

pytestmark = pytest.mark.filterwarnings("ignore::outvote.learning.RobustnessWarning")


def ranked(seed, n=60, d=3, shift=0.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * [1.0, 3.0, 0.5] + shift
    y = np.round(x @ [1.0, 0.5, -1.0] + rng.normal(size=n), 1)
    x[:3], y[:3] = 30.0, -30.0
    return x, y


def classed(seed, n=60):
    x, y = ranked(seed, n)
    return x, (y > np.median(y)).astype(int) + (y > np.quantile(y, 0.8))


def alike(model, **options):
    return [clone(model).set_params(random_state=seed, **options) for seed in range(N_RUNS)]


def compare(models, data, rtol=1e-9):
    """Fit copies one by one, then the models together, and compare all fitted attributes."""
    alone = [clone(model).fit(*rows) for model, rows in zip(models, data, strict=True)]
    before = [[np.copy(one) for one in rows] for rows in data]
    for found, expected in zip(fit_together(models, data), alone, strict=True):
        same(found, expected, rtol)
    for rows, kept in zip(data, before, strict=True):
        assert all(np.array_equal(one, old) for one, old in zip(rows, kept, strict=True))


def parameters(model):
    if isinstance(model, ov.RobustMetricLearner):
        return [model.mahalanobis_matrix()]
    return [model.coef_, model.intercept_]


def same(found, expected, rtol=1e-9):
    for values, right in zip(parameters(found), parameters(expected), strict=True):
        np.testing.assert_allclose(values, right, rtol=rtol, atol=rtol * max(1.0, np.abs(right).max()))
    for name in ("train_risk", "step", "held_out_risk"):
        np.testing.assert_allclose(found.history_[name], expected.history_[name], rtol=rtol, atol=rtol)
    for chosen, right in zip(found.history_["selected_blocks"], expected.history_["selected_blocks"], strict=True):
        np.testing.assert_array_equal(chosen, right)
    np.testing.assert_array_equal(found.selection_counts_, expected.selection_counts_)
    np.testing.assert_allclose(found.outlier_scores_, expected.outlier_scores_, rtol=1e-6, atol=1e-6)
    assert found.n_iter_ == expected.n_iter_


@pytest.fixture
def in_step(monkeypatch):
    """The number of descents in step, each time that there were some."""
    counts = []
    step = together.descend_in_step

    def counted(descents):
        counts.append(len(descents))
        return step(descents)

    monkeypatch.setattr(together, "descend_in_step", counted)
    return counts


# --- equality with single fits -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"algorithm": "paper"},
        {"algorithm": "paper", "contamination": 0, "n_blocks": 1, "middle": 1.0, "loss": "hinge"},
        {"loss": "product"},
        {"n_blocks": 9, "middle": 0.5, "finish": False, "loss": "hinge"},
        {"algorithm": "paper", "middle": 0.3, "scaling": True, "average": True, "loss": "logistic"},
        {"step_rule": "normalised", "schedule": "constant", "momentum": 0.5, "finish": False},
        {"step_rule": "clipped", "schedule": "cosine", "alpha": 0.1, "finish": False},
        {"step_rule": "polyak", "schedule": "inverse", "momentum": 0.5, "alpha": 0.1, "finish": False},
        {"step_rule": "plain", "schedule": "cosine", "contamination": 0},
    ],
)
def test_rankers_equal_those_fitted_one_by_one(options, in_step):
    models = alike(ov.RobustRanker(**{"max_iter": 15, "step_size": 0.03, **options}))
    compare(models, [ranked(seed) for seed in range(N_RUNS)])
    assert set(in_step) == {N_RUNS}


@pytest.mark.parametrize(
    "options",
    [
        {"algorithm": "paper"},
        {"init": np.diag([1.0, 2.0, 3.0]), "contamination": 0.1},
        {"algorithm": "paper", "step_size": 0.5, "scaling": True},
    ],
)
def test_metrics_equal_those_fitted_one_by_one(options, in_step):
    models = alike(ov.RobustMetricLearner(**{"max_iter": 15, "step_size": 0.01, **options}))
    compare(models, [classed(seed) for seed in range(N_RUNS)])
    assert set(in_step) == {N_RUNS}


@pytest.mark.parametrize(
    ("model", "make"),
    [
        (ov.RobustRegressor(max_iter=10), ranked),
        (ov.RobustRegressor(max_iter=10, fit_intercept=False, loss="squared", alpha=0.1, finish=True), ranked),
        (ov.RobustClassifier(max_iter=10, alpha=0.1), classed),
        (ov.RobustRanker(max_iter=10, early_stopping=True, n_iter_no_change=3), ranked),
        (ov.RobustMetricLearner(max_iter=10, early_stopping=True, n_iter_no_change=3), classed),
    ],
)
def test_other_learners_and_early_stopping_are_fitted_in_step(model, make, in_step):
    compare(alike(model), [make(seed) for seed in range(N_RUNS)])
    assert in_step[0] == N_RUNS


class Gap(PairLoss):
    """A loss with a setting, and a projection of its own."""

    def __init__(self, width):
        self.width = width

    def value(self, s, t, y, z):
        return (self.width * (s - t) - (y - z)) ** 2

    def slope(self, s, t, y, z):
        return 2 * self.width * (self.width * (s - t) - (y - z))


class Bounded(Gap):
    def project(self, theta):
        return theta.clip(-0.5, 0.5) if theta.ndim == 1 else pytest.fail("it got a stack of parameters")


def test_user_losses(in_step):
    data = [ranked(seed) for seed in range(N_RUNS)]
    compare(alike(ov.RobustRanker(loss=Gap(0.5), max_iter=10, finish=False)), data)
    assert in_step == []  # clone copies the loss, and copies with settings need not be alike
    loss = Gap(0.5)
    models = [ov.RobustRanker(loss=loss, max_iter=10, finish=False, random_state=seed) for seed in range(N_RUNS)]
    compare(models, data)
    assert in_step == [N_RUNS]
    bounded = Bounded(0.5)
    compare([ov.RobustRanker(loss=bounded, max_iter=10, random_state=seed) for seed in range(N_RUNS)], data)
    assert in_step == [N_RUNS]


@pytest.mark.parametrize(
    ("model", "make"),
    [
        (ov.RobustAUCClassifier(max_iter=10), lambda seed: (ranked(seed)[0], ranked(seed)[1] > 0)),
        (ov.RobustClassifier(max_iter=10, blocks="class"), lambda seed: classed(seed, 90)),
        (ov.RobustRanker(max_iter=10), lambda seed: (*ranked(seed), np.arange(60) // 10)),
        (ov.RobustRanker(max_iter=10), lambda seed: (ranked(seed)[0].astype(np.float32), ranked(seed)[1])),
        (ov.RobustRanker(max_iter=10, finish=False), lambda seed: ranked(seed, shift=1e9)),
    ],
    ids=["two samples", "cells", "groups", "float32", "far from 0"],
)
def test_other_settings_are_fitted_one_by_one(model, make, in_step):
    compare(alike(model), [make(seed) for seed in range(N_RUNS)], rtol=1e-12)
    assert in_step == []


def test_list_of_different_learners(in_step):
    models = [*alike(ov.RobustRanker(max_iter=10)), *alike(ov.RobustMetricLearner(max_iter=10))]
    models += [*alike(ov.RobustRanker(max_iter=11)), ov.RobustRegressor(max_iter=10, random_state=0)]
    data = [(ranked if "Metric" not in type(model).__name__ else classed)(at) for at, model in enumerate(models)]
    data[2] = ranked(2, n=61)
    order = np.random.default_rng(0).permutation(len(models))
    fitted = fit_together([models[at] for at in order], (data[at] for at in order))
    assert all(found is models[at] for found, at in zip(fitted, order, strict=True))
    assert sorted(in_step[:3]) == [4, 5, 5]
    for model, rows in zip(models, data, strict=True):
        same(model, clone(model).fit(*rows))


def test_number_of_fits_in_step_is_limited_by_memory(monkeypatch, in_step):
    monkeypatch.setattr(together, "_MOST_NUMBERS", 2 * 60 * 3 + 10)
    compare(alike(ov.RobustRanker(max_iter=10, finish=False)), [ranked(seed) for seed in range(N_RUNS)])
    assert in_step == [2, 2]


def test_warm_start_continues_each_fit():
    data = [ranked(seed) for seed in range(N_RUNS)]
    models, alone = (alike(ov.RobustRanker(max_iter=10, warm_start=True)) for _ in range(2))
    for _ in range(2):
        fit_together(models, data)
        for model, rows in zip(alone, data, strict=True):
            model.fit(*rows)
    for found, expected in zip(models, alone, strict=True):
        same(found, expected)


def test_shared_random_state_is_used_in_order():
    data = [ranked(seed) for seed in range(N_RUNS)]
    models, alone = (
        [ov.RobustRanker(max_iter=10, random_state=shared) for _ in data]
        for shared in (np.random.RandomState(3), np.random.RandomState(3))
    )
    fit_together(models, data)
    for found, expected, rows in zip(models, alone, data, strict=True):
        same(found, expected.fit(*rows))


# --- callbacks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "make"), [(ov.RobustRanker, ranked), (ov.RobustMetricLearner, classed)])
def test_callbacks_apply_to_their_own_fit(model, make):
    def fitted(fit):
        seen = [[] for _ in range(N_RUNS)]

        def watch(run):
            return lambda state: seen[run].append(state) or (run == 2 and state.epoch == 4)

        models = [model(max_iter=12, finish=False, random_state=run, callbacks=[watch(run)]) for run in range(N_RUNS)]
        fit(models, [make(run) for run in range(N_RUNS)])
        return models, seen

    models, seen = fitted(fit_together)
    alone, expected = fitted(lambda models, data: [one.fit(*rows) for one, rows in zip(models, data, strict=True)])
    assert [one.n_iter_ for one in models] == [12, 12, 5, 12, 12]
    for found, right in zip(models, alone, strict=True):
        same(found, right)
    for own, right in zip(seen, expected, strict=True):
        for state, other in zip(own, right, strict=True):
            assert (state.epoch, state.n_epochs, state.held_out_risk) == (other.epoch, 12, None)
            assert (state.risk, state.step) == pytest.approx((other.risk, other.step))
            np.testing.assert_allclose(state.theta, other.theta, rtol=1e-9, atol=1e-12)


# --- fits that diverge -------------------------------------------------------------------------------------


def diverging():
    """Return fits of which one diverges at once, and one some epochs later."""
    data = [ranked(seed) for seed in range(N_RUNS)]
    data[1] = data[1][0] * 1e200, data[1][1]
    data[3] = data[3][0] * 300, data[3][1]
    model = ov.RobustRegressor(algorithm="paper", loss="squared", step_size=0.02, max_iter=60)
    return alike(model), data


def outcomes(models, data):
    found = []
    for model, rows in zip(models, data, strict=True):
        try:
            found.append(model.fit(*rows))
        except DivergenceError as error:
            found.append(error)
    return found


def test_diverging_fit_does_not_stop_the_others():
    models, data = diverging()
    expected = outcomes([clone(model) for model in models], data)
    found = fit_together(models, data, errors="return")
    lost = [at for at, one in enumerate(found) if isinstance(one, DivergenceError)]
    assert lost == [1, 3]
    for at, (one, right) in enumerate(zip(found, expected, strict=True)):
        if at in lost:
            assert str(one) == str(right)
            assert not hasattr(models[at], "coef_")
        else:
            assert one is models[at]
            same(one, right)


def test_divergence_error_holds_the_parameter():
    # The third step is too long for one of them: it ends finite, but far worse than it began.
    data = [ranked(seed) for seed in range(N_RUNS)]
    data[3] = data[3][0] * 8, data[3][1]
    models = alike(ov.RobustRegressor(algorithm="paper", loss="squared", step_size=0.02, max_iter=8))
    right = outcomes([clone(model) for model in models], data)
    found = fit_together(models, data, errors="return")
    assert [type(one) for one in found] == [type(one) for one in right]
    assert isinstance(found[3], DivergenceError)
    np.testing.assert_allclose(found[3].theta, right[3].theta, rtol=1e-9)


def test_first_error_is_raised_after_all_fits():
    models, data = diverging()
    expected = outcomes([clone(model) for model in models], data)
    with pytest.raises(DivergenceError) as caught:
        fit_together(models, data)
    assert str(caught.value) == str(expected[1])
    for at in (0, 2, 4):
        same(models[at], expected[at])


def test_diverging_refit_is_ignored(monkeypatch):
    step, calls = together.descend_in_step, []

    def failing(descents):
        calls.append(step(descents))
        if len(calls) == 2:
            calls[1][1] = DivergenceError("on purpose")
        return calls[-1]

    monkeypatch.setattr(together, "descend_in_step", failing)
    model, data = ov.RobustMetricLearner(max_iter=10), [classed(seed) for seed in range(N_RUNS)]
    found = fit_together(alike(model), data)
    assert len(calls) == 2
    for at, (one, finished, rough) in enumerate(zip(found, alike(model), alike(model, finish=False), strict=True)):
        expected = (rough if at == 1 else finished).fit(*data[at])
        same_metric = {"rtol": 1e-6, "atol": 1e-9}
        np.testing.assert_allclose(one.mahalanobis_matrix(), expected.mahalanobis_matrix(), **same_metric)
        other = finished.fit(*data[at]).mahalanobis_matrix()
        assert at != 1 or not np.allclose(one.mahalanobis_matrix(), other, rtol=1e-3)


# --- arguments -----------------------------------------------------------------------------------------------


def test_invalid_arguments_raise():
    model, rows = ov.RobustRanker(max_iter=2), ranked(0)
    with pytest.raises(ValueError, match="errors='ignore' is neither 'raise' nor 'return'"):
        fit_together([model], [rows], errors="ignore")
    assert fit_together([], []) == []
    with pytest.raises(ValueError, match="1 models for 2 data sets"):
        fit_together([model], [rows, rows])
    with pytest.raises(ValueError, match=r"models\[1\] is models\[0\]"):
        fit_together([model, model], [rows, rows])
    with pytest.raises(TypeError, match=r"models\[0\]='ranker' is not one of outvote's learners"):
        fit_together(["ranker"], [rows])
    with pytest.raises(TypeError, match=r"data\[0\] must be a tuple"):
        fit_together([model], [rows[0]])
    with pytest.raises(ValueError, match="max_iter=0"):
        fit_together([ov.RobustRanker(max_iter=0)], [rows])
