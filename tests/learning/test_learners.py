"""All learners: scikit-learn's checks, fitted attributes, parameters, certificates and errors."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

import outvote as ov
from outvote.learning import DivergenceError, PairLoss, PointLoss, RobustnessWarning

LEARNERS = [ov.RobustClassifier, ov.RobustRegressor, ov.RobustRanker, ov.RobustMetricLearner, ov.RobustAUCClassifier]
LINEAR = [ov.RobustClassifier, ov.RobustRegressor, ov.RobustRanker]


@pytest.mark.filterwarnings("ignore::outvote.learning.RobustnessWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        *(one(random_state=0, max_iter=30) for one in LEARNERS),
        ov.RobustFit(DecisionTreeClassifier(random_state=0), random_state=0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_all_checks_of_scikit_learn_pass(estimator):
    check_estimator(estimator, on_skip=None)


def rows(n=300, d=4, bad=15, seed=0):
    """Return rows with a linear score, the first of them replaced by rows far out with opposite targets."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    y = x @ np.linspace(2, -1, d) + 0.5 * rng.normal(size=n)
    x[:bad], y[:bad] = -30 * np.linspace(2, -1, d) + rng.normal(size=(bad, d)), 30 + rng.normal(size=bad)
    return x, y


def fit(learner, x, y, **options):
    y = y if learner in (ov.RobustRegressor, ov.RobustRanker) else (y > 0).astype(int)
    return learner(**{"contamination": 0.05, "random_state": 0, **options}).fit(x, y), y


def quality(model, x, y):
    if hasattr(model, "score"):
        return model.score(x, y)
    return -np.log(model.certify(x, y, n_blocks=1, contamination=0).estimate)


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_fit_resists_corrupt_rows_and_scores_them_as_outliers(learner):
    x, y = rows()
    model, y = fit(learner, x, y, contamination=(0, 15) if learner is ov.RobustAUCClassifier else 15)
    if learner is ov.RobustMetricLearner:
        z = model.transform(x)
        scores = cross_val_score(KNeighborsClassifier(5), z[15:], y[15:])
        assert scores.mean() > 0.8
    else:
        assert quality(model, x[15:], y[15:]) > 0.85
    bad = np.arange(300) < 15
    assert roc_auc_score(bad, model.outlier_scores_) > 0.95
    assert set(model.history_) == {"train_risk", "selected_blocks", "held_out_risk", "step"}
    assert len(model.history_["train_risk"]) == len(model.history_["selected_blocks"]) == model.n_iter_ <= 300
    assert not model.support_[bad].any()
    assert model.support_.mean() > 0.94
    assert model.selection_counts_.shape == model.row_losses_.shape == (300,)
    assert model.n_blocks_ > 2 * 15
    assert "blocks" in model.plan_.explain()


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_same_seed_gives_the_same_fit(learner):
    x, y = rows()
    first, y = fit(learner, x, y, max_iter=30)
    again = clone(first).fit(x, y)
    name = "components_" if learner is ov.RobustMetricLearner else "coef_"
    assert np.array_equal(getattr(first, name), getattr(again, name))
    voted, other = (clone(first).set_params(finish=False, random_state=seed).fit(x, y) for seed in (0, 1))
    assert not np.array_equal(getattr(voted, name), getattr(other, name))
    loaded = pickle.loads(pickle.dumps(first))
    method = "transform" if learner is ov.RobustMetricLearner else "predict"
    assert np.array_equal(getattr(loaded, method)(x), getattr(first, method)(x))


@pytest.mark.parametrize("learner", LINEAR)
def test_the_fit_does_not_depend_on_the_units_of_the_columns(learner):
    x, y = rows()
    units, shift = np.array([1e-4, 1.0, 1e5, 10.0]), np.array([1e-3, 5.0, -1e6, 0.0])
    plain, y = fit(learner, x, y, max_iter=50)
    other, _ = fit(learner, x * units + shift, y, max_iter=50)
    assert np.ravel(other.coef_) * units == pytest.approx(np.ravel(plain.coef_), rel=1e-5)
    assert other.predict(x * units + shift) == pytest.approx(plain.predict(x), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("learner", LEARNERS)
def test_float32_rows_are_accepted(learner):
    x, y = rows()
    exact, y = fit(learner, x, y, max_iter=50)
    model = clone(exact).fit(x.astype(np.float32), y)
    name = "components_" if learner is ov.RobustMetricLearner else "coef_"
    assert np.abs(getattr(model, name)) == pytest.approx(np.abs(getattr(exact, name)), rel=0.02, abs=0.02)


# --- against plain estimators on clean data -------------------------------------------------------------------


def test_on_clean_data_the_score_is_within_two_percent_of_a_plain_fit():
    folds = KFold(5, shuffle=True, random_state=0)
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    for load, robust, plain in (
        (load_breast_cancer, ov.RobustClassifier, logistic),
        (load_iris, ov.RobustClassifier, logistic),
        (load_diabetes, ov.RobustRegressor, LinearRegression()),
    ):
        x, y = load(return_X_y=True)
        expected = cross_val_score(plain, x, y, cv=folds).mean()
        assert cross_val_score(robust(contamination=0.01, random_state=0), x, y, cv=folds).mean() > 0.98 * expected


# --- options ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("learner", "losses"),
    [
        (ov.RobustRegressor, ("squared", "absolute", "huber")),
        (ov.RobustRanker, ("logistic", "hinge", "product")),
        (ov.RobustAUCClassifier, ("logistic", "hinge", "product")),
    ],
)
def test_every_loss_of_numbers_and_of_pairs_fits(learner, losses):
    for loss in losses:
        x, y = rows()
        model, y = fit(learner, x, y, loss=loss, contamination=(0, 15) if learner is ov.RobustAUCClassifier else 15)
        assert quality(model, x[15:], y[15:]) > 0.85


@pytest.mark.parametrize(("loss", "blocks"), [("logistic", "class"), ("hinge", "class"), ("hinge", "all")])
def test_every_loss_of_the_classifier_fits(loss, blocks):
    x, y = load_iris(return_X_y=True)
    for labels in (np.array(["a", "b", "c"])[y], y == 1):
        model = ov.RobustClassifier(contamination=0.02, loss=loss, blocks=blocks, random_state=0).fit(x, labels)
        assert model.score(x, labels) > (0.93 if len(model.classes_) == 3 else 0.7)
        assert hasattr(model, "predict_proba") == (loss == "logistic")
        if loss == "logistic":
            chances = model.predict_proba(x)
            assert chances.sum(axis=1) == pytest.approx(1)
            assert np.array_equal(model.classes_[chances.argmax(axis=1)], model.predict(x))
            assert model.predict_log_proba(x) == pytest.approx(np.log(chances))
        if blocks == "class":
            assert len(model.n_blocks_) == len(model.classes_)


def test_blocks_of_each_class_keep_a_rare_class():
    rng = np.random.default_rng(0)
    y = (np.arange(600) < 60).astype(int)
    x = rng.normal(size=(600, 3)) + 2.5 * y[:, None]
    with pytest.warns(RobustnessWarning, match=r"class .*1.* has 60 of 600 rows.*blocks='class'"):
        ov.RobustClassifier(contamination=0.08, random_state=0).fit(x, y)
    model = ov.RobustClassifier(contamination=0.08, blocks="class", random_state=0).fit(x, y)
    assert np.mean(model.predict(x)[:60]) > 0.7


def test_fit_without_an_intercept():
    x, y = rows()
    model, _ = fit(ov.RobustClassifier, x + 3, y, fit_intercept=False)
    assert model.intercept_.tolist() == [0.0]
    assert model.decision_function(np.zeros((1, 4))) == pytest.approx([0.0])
    regressor, _ = fit(ov.RobustRegressor, x, y, fit_intercept=False)
    assert regressor.intercept_ == 0.0
    assert regressor.score(x[15:], y[15:]) > 0.9


def test_the_penalty_shrinks_the_coefficients():
    x, y = rows()
    norms = [np.linalg.norm(fit(ov.RobustClassifier, x, y, alpha=a)[0].coef_) for a in (0.0, 0.1, 10.0)]
    assert norms[0] > 2 * norms[1] > 4 * norms[2]


@pytest.mark.parametrize("learner", LEARNERS)
def test_early_stopping_and_warm_start(learner):
    x, y = rows()
    finished, y = fit(learner, x, y, max_iter=100)
    stopped, _ = fit(learner, x, y, early_stopping=True, n_iter_no_change=10, max_iter=200)
    assert len(stopped.history_["held_out_risk"]) == stopped.n_iter_ <= 200
    for model in (finished, stopped):
        if learner is not ov.RobustMetricLearner:
            assert quality(model, x[15:], y[15:]) > 0.8
    warm = clone(finished).set_params(warm_start=True, finish=False, step_size=1e-6, max_iter=1)
    warm.fit(x, y)
    name = "components_" if learner is ov.RobustMetricLearner else "coef_"
    before = np.array(getattr(warm, name))
    warm.fit(x, y)
    assert np.abs(getattr(warm, name)) == pytest.approx(np.abs(before), abs=1e-4)


def test_a_warm_start_of_three_classes_begins_at_the_last_fit():
    x, y = load_iris(return_X_y=True)
    model = ov.RobustClassifier(contamination=0.02, random_state=0, warm_start=True).fit(x, y)
    before = model.coef_.copy()
    assert model.set_params(step_size=1e-6, max_iter=1).fit(x, y).coef_ == pytest.approx(before, abs=1e-4)


def test_there_is_no_finish_if_all_rows_of_a_class_are_suspect():
    x, _ = rows(n=102, bad=0)
    x[:2], labels = 1e3, (np.arange(102) >= 2).astype(int)
    options = {"contamination": (0, 40), "n_blocks": 2, "max_iter": 20, "random_state": 0}
    with pytest.warns(RobustnessWarning):
        asked, plain = (ov.RobustAUCClassifier(finish=finish, **options).fit(x, labels) for finish in (True, False))
    assert asked.support_.all()
    assert asked.coef_ == pytest.approx(plain.coef_)


@pytest.mark.parametrize("learner", LINEAR)
def test_partial_fit(learner):
    x, y = rows(n=600, bad=0)
    y = y if learner is not ov.RobustClassifier else (y > 0).astype(int)
    model = learner(contamination=0.05, random_state=0)
    for low in range(0, 600, 100):
        for _ in range(3):
            model.partial_fit(x[low : low + 100], y[low : low + 100])
    assert model.score(x, y) > 0.85
    assert model.n_iter_ == 180
    other = 1000 * x + 5  # a fit in other units leaves its own scaling to what follows
    assert model.fit(other, y).partial_fit(other, y, n_steps=1).score(other, y) > 0.85


def test_partial_fit_remembers_its_classes():
    x, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    some = order[y[order] < 2]
    for blocks in ("class", "all"):
        model = ov.RobustClassifier(contamination=0.02, blocks=blocks, random_state=0)
        model.partial_fit(x[some], y[some], classes=[0, 1, 2])
        model.partial_fit(x[order], y[order], n_steps=300)
        assert model.score(x, y) > 0.9
    with pytest.raises(ValueError, match=r"y holds .*7.*not one of the classes"):
        model.partial_fit(x[:2], [0, 7])


def test_callbacks_are_called_and_a_given_start_is_used():
    x, y = rows()
    seen = []
    fit(ov.RobustRanker, x, y, callbacks=[lambda state: seen.append(state.risk)], max_iter=5)
    assert len(seen) == 5
    given, _ = fit(
        ov.RobustRanker, x, y, init=np.array([2.0, 1.0, 0.0, -1.0]), step_size=1e-9, max_iter=1, finish=False
    )
    assert given.coef_ == pytest.approx([2, 1, 0, -1], abs=1e-6)
    drawn, _ = fit(ov.RobustClassifier, x, y, init="normal", step_size=1e-9, max_iter=1, finish=False, scaling=False)
    assert 0.01 < np.linalg.norm(drawn.coef_) < 0.5
    assert drawn.intercept_ == pytest.approx([0.0], abs=1e-6)


def test_with_groups_only_pairs_inside_a_group_count():
    rng = np.random.default_rng(0)
    queries = np.repeat(np.arange(40), 10)
    x = rng.normal(size=(400, 3))
    y = x @ [1.0, 1.0, 0.0] + 100 * rng.normal(size=40)[queries]  # the level of a query is not in the columns
    grouped = ov.RobustRanker(contamination=0.02, random_state=0).fit(x, y, groups=queries)
    alone = ov.RobustRanker(contamination=0.02, random_state=0).fit(x, y)
    assert grouped.score(x, y, groups=queries) > 0.95 > alone.score(x, y, groups=queries)


def test_a_metric_learns_from_given_pairs():
    x, y = load_iris(return_X_y=True)
    i, j = np.random.default_rng(0).integers(150, size=(2, 800))
    alike = np.where(y[i] == y[j], 1, -1)
    alike[:40] *= -1
    learner = ov.RobustMetricLearner(contamination=0.05, random_state=0)
    learner.fit_pairs(np.stack([x[i], x[j]], axis=1), alike)
    near, far = learner.pair_distance([[x[0], x[1]], [x[0], x[149]]])
    assert near < 1 < far
    gap = x[0] - x[149]
    assert far**2 == pytest.approx(gap @ learner.mahalanobis_matrix() @ gap)


def test_a_metric_has_a_step_size_of_its_own_unless_it_is_the_papers():
    x, y = load_iris(return_X_y=True)
    for algorithm, size in (("robust", 0.3), ("paper", 0.1)):
        options = {"algorithm": algorithm, "contamination": 0.02, "max_iter": 3, "finish": False, "random_state": 0}
        one, two = (ov.RobustMetricLearner(step_size=asked, **options).fit(x, y) for asked in ("auto", size))
        assert one.mahalanobis_matrix() == pytest.approx(two.mahalanobis_matrix())


class Quantile(PointLoss):
    name = "quantile"
    lipschitz = 0.9

    def value(self, scores, targets):
        return np.maximum(0.9 * (targets - scores), 0.1 * (scores - targets))

    def slope(self, scores, targets):
        return np.where(targets > scores, -0.9, 0.1)


def test_a_loss_of_your_own():
    x, y = rows(bad=0)
    model = ov.RobustRegressor(loss=Quantile(), contamination=0.01, random_state=0).fit(x, y)
    assert np.mean(y < model.predict(x)) == pytest.approx(0.9, abs=0.05)
    with pytest.raises(ValueError, match="takes numbers, but 2 classes need signs"):
        ov.RobustClassifier(loss=Quantile()).fit(x, y > 0)
    with pytest.raises(ValueError, match="degree 1, but a loss of pairs"):
        ov.RobustRanker(loss=Quantile()).fit(x, y)
    assert PairLoss().degree == 2


def test_the_auc_classifier_takes_a_contamination_for_each_class():
    x, y = rows()
    labels = (y > 0).astype(int)
    model = ov.RobustAUCClassifier(contamination=(0, 15), random_state=0).fit(x, labels)
    assert model.n_blocks_ == 31
    assert model.plan_.n_corrupt == (0, 15)
    assert model.auc(x[15:], labels[15:]) > 0.95
    large = ov.RobustAUCClassifier(contamination=0, max_iter=1, random_state=0, finish=False)
    big = np.random.default_rng(0).normal(size=(2000, 2))
    assert large.fit(big, big[:, 0] > 0).n_blocks_ > 1


def test_the_auc_classifier_can_take_the_papers_number_of_blocks():
    x, y = rows(bad=0)
    options = {"algorithm": "paper", "loss": "logistic", "step_size": 0.5, "random_state": 0}
    model = ov.RobustAUCClassifier(contamination=(3, 4), **options).fit(x, y > 0)
    sizes = model.plan_.n_rows
    assert model.n_blocks_ == -(-4 * 7 * min(sizes) // (min(sizes) + 14))
    assert model.auc(x, y > 0) > 0.9


def test_blocks_of_pairs_have_at_most_256_rows():
    x = np.random.default_rng(0).normal(size=(3000, 2))
    model = ov.RobustRanker(contamination=0.001, max_iter=3, random_state=0).fit(x, x[:, 0])
    assert model.plan_.block_size <= 256
    assert "at most 256 rows" in model.plan_.reason


# --- certificates ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", LEARNERS)
def test_certify_bounds_the_clean_risk(learner):
    x, y = rows(n=900, bad=0)
    model, _ = fit(learner, x[:300], y[:300], max_iter=50)
    targets = y if learner in (ov.RobustRegressor, ov.RobustRanker) else (y > 0).astype(int)
    x, y = x[300:], targets[300:]
    found = model.certify(x, y, contamination=6, confidence=0.9, rng=0)
    assert found.certificate.target == "clean risk"
    assert found.interval.high > found.estimate
    if learner is not ov.RobustRegressor:
        assert found.certificate.provenance == "certified"
        assert found.interval.high < 1
        trained = model.certify(x, y, contamination=6, loss="training", rng=0)
        assert trained.certificate.provenance in ("conditional", "plug-in")  # of rows, of pairs
    else:
        absolute = model.certify(x, y, contamination=6, loss="absolute", rng=0)
        assert absolute.estimate < 1.2 * found.estimate**0.5
        with pytest.raises(ValueError, match="neither 'squared' nor 'absolute'"):
            model.certify(x, y, loss="zero-one")


# --- errors -------------------------------------------------------------------------------------


def test_wrong_parameters_are_refused_with_a_reason():
    x, y = rows(n=100, bad=0)
    for learner, options, message in (
        (ov.RobustRanker, {"contamination": 0.3}, r"largest contamination for pairs here is 24 rows \(0.24\)"),
        (ov.RobustMetricLearner, {"contamination": 0.3}, "largest contamination for pairs here is 24 rows"),
        (ov.RobustRanker, {"contamination": 0.2, "algorithm": "paper"}, "contamination for pairs here is 16 rows"),
        (ov.RobustAUCClassifier, {"contamination": 0.3}, "largest contamination"),
        (ov.RobustRanker, {"n_blocks": 60}, "n_blocks=60 leaves fewer than 2 rows"),
        (ov.RobustAUCClassifier, {"n_blocks": 90}, "n_blocks=90 leaves fewer than 1 row"),
        (ov.RobustRegressor, {"n_blocks": 0}, "n_blocks=0 must be 'auto' or an integer of at least 1"),
        (ov.RobustRegressor, {"contamination": 0.6}, r"contamination=0.6 must be a fraction below 0.5"),
        (ov.RobustRegressor, {"algorithm": "fast"}, "algorithm='fast' is neither"),
        (ov.RobustRegressor, {"max_iter": 0}, "max_iter=0 must be an integer of at least 1"),
        (ov.RobustRegressor, {"validation_fraction": 1.0}, "validation_fraction=1.0 must lie"),
        (ov.RobustRegressor, {"middle": 2.0}, r"middle=2.0 must be 'auto' or a share in \[0, 1\]"),
        (ov.RobustRegressor, {"init": "ones"}, "init='ones' is neither"),
        (ov.RobustRegressor, {"loss": "square"}, "did you mean 'squared'"),
        (ov.RobustClassifier, {"blocks": "rows"}, "blocks='rows' is neither"),
        (ov.RobustRegressor, {"step_rule": "adam"}, "step_rule='adam'"),
        (ov.RobustRanker, {"early_stopping": True, "validation_fraction": 0.99}, "leaves .* rows to learn from"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(learner, x, y, **options)


def test_targets_from_which_nothing_can_be_learnt_are_refused():
    x = np.random.default_rng(0).normal(size=(50, 2))
    messages = "only one class is present", *["y is constant"] * 2, *["one class only"] * 2
    for learner, message in zip(LEARNERS, messages, strict=True):
        with pytest.raises(ValueError, match=message):
            learner().fit(x, np.ones(50))
    with pytest.raises(ValueError, match="3 classes, but RobustAUCClassifier ranks one above another"):
        ov.RobustAUCClassifier().fit(x, np.arange(50) % 3)


def test_a_diverging_fit_raises():
    x, y = rows(bad=0)
    with pytest.raises(DivergenceError):
        ov.RobustRegressor(algorithm="paper", step_size=100.0, contamination=0.01, random_state=0).fit(x, y)


def test_rows_near_the_largest_float_do_not_overflow():
    x, y = rows()
    x[:15] *= 1e300
    y[:15] = 1e300
    for learner in LINEAR:
        model, targets = fit(learner, x, y)
        assert quality(model, x[15:], targets[15:]) > 0.85


def test_partial_fit_of_a_metric_and_of_an_auc_classifier():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size=400)
    x = rng.normal(size=(400, 3))
    x[:, 0] += 4 * y
    metric, ranked = (
        learner(contamination=0.02, random_state=0) for learner in (ov.RobustMetricLearner, ov.RobustAUCClassifier)
    )
    for low in range(0, 400, 100):
        part = np.s_[low : low + 100]
        metric.partial_fit(x[part], y[part], n_steps=30)
        ranked.partial_fit(x[part], y[part], classes=[0, 1], n_steps=30)
    matrix = metric.mahalanobis_matrix()
    assert matrix[0, 0] > 3 * np.abs(matrix[1:, 1:]).max()
    assert ranked.auc(x, y) > 0.99
    assert ranked.score(x, y) > 0.9
    with pytest.raises(ValueError, match="should be"):
        ranked.partial_fit(x, np.where(y == 1, 5, 0))
    with pytest.raises(ValueError, match="one class only"):
        metric.partial_fit(x, np.zeros(400))


def test_certify_refuses_losses_and_labels_that_it_does_not_know():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = (x[:, 0] > 0).astype(int)
    model = ov.RobustClassifier(contamination=2, random_state=0, max_iter=5).fit(x, y)
    with pytest.raises(ValueError, match="loss='log_loss' is neither 'zero-one' nor 'training'"):
        model.certify(x, y, loss="log_loss")
    with pytest.raises(ValueError, match=r"labels such as '\d', which the model does not know"):
        model.certify(x, y.astype(str))
    some = np.where(np.arange(60) < 3, 7, y)
    assert model.certify(x, some).estimate >= 3 / 60
    with pytest.raises(ValueError, match="labels such as 7"):
        model.certify(x, some, loss="training")


def test_learners_round_contamination_up_as_everything_does():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(39, 2))
    y = x[:, 0] + 0.1 * rng.normal(size=39)
    for n_rows in (39, 15):
        model = ov.RobustRegressor(contamination=0.05, random_state=0, max_iter=5).fit(x[:n_rows], y[:n_rows])
        assert model.plan_.n_corrupt == ov.mean(y[:n_rows], 0.05).plan.n_corrupt
    with pytest.warns(ov.learning.RobustnessWarning, match="contamination=0.05 allows for no corrupt row among 4"):
        ov.RobustRegressor(contamination=0.05, random_state=0, max_iter=5).fit(x[:4], y[:4])
