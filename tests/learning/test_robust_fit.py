"""Any model on dirty rows."""

import pickle

import numpy as np
import pytest
from joblib import parallel_backend
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import outvote as ov
from outvote.learning import RobustnessWarning


def flipped(n=500, seed=0):
    """Return rows, their classes of which the first 40 are wrong, and the right ones."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    right = (x[:, 0] + x[:, 1] > 0).astype(int)
    return x, np.where(np.arange(n) < 40, 1 - right, right), right


@pytest.mark.parametrize(
    "model", [SVC(), LinearSVC(), DecisionTreeClassifier(min_samples_leaf=5), LogisticRegression()]
)
def test_wrong_labels_are_left_out(model):
    x, y, right = flipped()
    robust = ov.RobustFit(model, contamination=0.1, random_state=0).fit(x, y)
    assert robust.support_[:40].mean() < 0.4
    assert robust.support_[40:].mean() > 0.96
    assert roc_auc_score(np.arange(500) < 40, robust.outlier_scores_) > 0.9
    assert robust.score(x, right) >= clone(model).fit(x, y).score(x, right) - 0.005
    assert robust.certify(x[40:], y[40:], contamination=0.02).interval.high < 0.2


def test_rows_that_every_tree_contradicts_go_before_those_that_most_do():
    x, right = load_breast_cancer(return_X_y=True)
    y = np.where(np.arange(len(x)) % 14 == 0, 1 - right, right)
    robust = ov.RobustFit(DecisionTreeClassifier(random_state=0), contamination=0.08, random_state=0).fit(x, y)
    # Of a tree that is grown to the end the probabilities are 0 and 1: more rows are contradicted than may be left out.
    assert (~robust.support_).sum() == 46
    assert (~robust.support_[y != right]).sum() >= 26


def test_nothing_is_left_out_of_clean_rows_or_if_nothing_is_declared():
    x, _, right = flipped()
    noisy = np.where(np.random.default_rng(1).random(500) < 0.3, 1 - right, right)  # classes that overlap
    assert ov.RobustFit(LogisticRegression(), random_state=0).fit(x, noisy).support_.all()
    assert ov.RobustFit(LogisticRegression(), contamination=0).fit(x, right).support_.all()
    y = x @ [1.0, 2.0, 3.0] + np.random.default_rng(0).normal(size=500)
    assert ov.RobustFit(DecisionTreeRegressor(random_state=0), random_state=0).fit(x, y).support_.all()


def test_contradicted_rows_stay_if_they_are_few_or_if_the_models_err_too_often():
    x, _, right = flipped()
    few = np.where(np.arange(500) < 10, 1 - right, right)
    assert ov.RobustFit(LogisticRegression(), contamination=0.1, random_state=0).fit(x, few).support_.all()
    declared = ov.RobustFit(LogisticRegression(), contamination=0.02, random_state=0).fit(x, few)
    assert (~declared.support_[:10]).sum() >= 8
    noisy = np.where(np.random.default_rng(1).random(500) < 0.25, 1 - right, right)
    assert ov.RobustFit(LogisticRegression(), contamination=0.1, random_state=0).fit(x, noisy).support_.all()


def test_a_class_none_of_whose_rows_holds_up_is_kept_with_a_warning():
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(400, 3)), np.where(np.arange(400) < 20, "rare", "usual")
    x[:20] += 300
    with pytest.warns(RobustnessWarning, match="no row of class .*rare.* is trusted.*They are kept"):
        robust = ov.RobustFit(LogisticRegression(), contamination=0.1, random_state=0).fit(x, labels)
    assert robust.support_.all()
    assert robust.predict_proba(x).shape == (400, 2)
    assert robust.score(x, labels) == 1.0


def test_at_most_half_of_a_class_is_contradicted():
    x, y, _ = flipped()
    labels = np.where(np.arange(500) < 40, 2, y)  # a class of its own, without a pattern
    robust = ov.RobustFit(DecisionTreeClassifier(max_depth=4, random_state=0), random_state=0).fit(x, labels)
    assert robust.support_[:40].sum() >= 20
    assert robust.predict_proba(x).shape == (500, 3)


def test_wrong_numbers_and_rows_far_out_are_left_out():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(500, 2))
    y = np.sin(3 * x[:, 0]) + 0.1 * rng.normal(size=500)
    x[:10] *= 1e4
    y[10:40] += 20
    robust = ov.RobustFit(KNeighborsRegressor(), contamination=0.1, random_state=0).fit(x, y)
    assert not robust.support_[:40].any()
    assert robust.support_[40:].mean() > 0.97
    assert robust.score(x[40:], y[40:]) > 0.9
    bound = robust.certify(x[40:], y[40:], contamination=0.01, assume=ov.Bounded(0, 10))
    assert 0 < bound.estimate < bound.interval.high < 1.5


@pytest.mark.parametrize("boosting", [HistGradientBoostingClassifier, HistGradientBoostingRegressor])
def test_nan_and_infinities_are_passed_on_to_models_that_take_them(boosting):
    x, y, _ = flipped()
    x[::7, 1] = np.nan
    x[3, 2] = np.inf
    robust = ov.RobustFit(boosting(max_iter=10, random_state=0), random_state=0).fit(x, y.astype(float))
    assert robust.predict(x).shape == (500,)
    assert not robust.support_[3]
    assert robust.support_[42::7].mean() > 0.8  # NaN is not far out
    with pytest.raises(ValueError, match="NaN"):
        ov.RobustFit(Ridge(), random_state=0).fit(x, y)


def test_pipelines_frames_with_words_searches_pickles_and_jobs():
    pd = pytest.importorskip("pandas")
    x, y, _ = flipped()
    labels = np.array(["no", "yes"])[y]
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    with parallel_backend("threading"):
        robust = ov.RobustFit(pipeline, random_state=0, n_jobs=2).fit(x, labels)
    assert robust.classes_.tolist() == ["no", "yes"]
    again = pickle.loads(pickle.dumps(robust))
    assert again.predict_proba(x) == pytest.approx(robust.predict_proba(x))
    assert np.array_equal(clone(robust).set_params(n_jobs=None).fit(x, labels).support_, robust.support_)
    assert robust.predict_log_proba(x) == pytest.approx(np.log(robust.predict_proba(x)))
    assert robust.decision_function(x).shape == (500,)
    grid = {"estimator__logisticregression__C": [0.1, 1.0], "contamination": [0.05]}
    assert GridSearchCV(ov.RobustFit(pipeline, random_state=0), grid, cv=2).fit(x, y).best_score_ > 0.8
    frame = pd.DataFrame(x, columns=list("abc")).assign(word=np.where(x[:, 2] > 0, "up", "down"))
    frame["word"] = frame["word"].astype("category")
    boosted = HistGradientBoostingClassifier(max_iter=10, categorical_features="from_dtype")
    named = ov.RobustFit(boosted, random_state=0).fit(frame, y)
    assert named.feature_names_in_.tolist() == ["a", "b", "c", "word"]
    assert named.predict(frame).shape == (500,)
    twice = frame.set_axis(["a", "b", "c", "a"], axis=1)
    for call in (named.predict, named.predict_proba, lambda rows: named.score(rows, y)):
        with pytest.raises(ValueError, match=r"X has two columns .*'a'"):
            call(twice)


def test_it_is_what_its_model_is():
    classifier, regressor = ov.RobustFit(RandomForestClassifier()), ov.RobustFit(Ridge())
    assert is_classifier(classifier)
    assert not is_classifier(regressor)
    assert is_regressor(regressor)
    assert hasattr(classifier, "predict_proba")
    assert not hasattr(regressor, "predict_proba")


def test_weights_of_rows_reach_the_model_with_and_without_metadata_routing():
    x, y, _ = flipped()
    weights = np.where(np.arange(500) < 40, 0.0, 1.0)
    model = LogisticRegression()
    plain = ov.RobustFit(model, random_state=0).fit(x, y, sample_weight=weights)
    with config_context(enable_metadata_routing=True):
        routed = ov.RobustFit(model.set_fit_request(sample_weight=True), random_state=0)
        routed.fit(x, y, sample_weight=weights)
    assert np.array_equal(routed.estimator_.coef_, plain.estimator_.coef_)
    alone = LogisticRegression().fit(x[plain.support_], y[plain.support_], sample_weight=weights[plain.support_])
    assert plain.estimator_.coef_ == pytest.approx(alone.coef_)


def test_a_loss_of_your_own():
    x, y, _ = flipped()
    numbers = x[:, 0] + np.where(np.arange(500) < 30, 50.0, 0.1 * x[:, 1])
    robust = ov.RobustFit(Ridge(), loss=lambda true, found: (true - found) ** 2, random_state=0).fit(x, numbers)
    assert (~robust.support_).nonzero()[0].tolist() == list(range(30))
    with pytest.raises(ValueError, match="one number for each"):
        ov.RobustFit(Ridge(), loss=lambda true, found: 1.0).fit(x, numbers)
    by_label = ov.RobustFit(LogisticRegression(), loss=lambda true, found: (true != found) * 1.0, random_state=0)
    assert by_label.fit(x, y).support_.mean() >= 0.9


def test_bad_arguments_are_named():
    x, y, _ = flipped(50)
    for model, error, message in (
        (ov.RobustFit(StandardScaler()), TypeError, r"estimator=StandardScaler\(\) must be a classifier or regressor"),
        (ov.RobustFit(Ridge(), loss="log"), ValueError, "loss='log' is neither 'auto' nor a function"),
        (ov.RobustFit(Ridge(), contamination=0.7), ValueError, "contamination=0.7"),
    ):
        with pytest.raises(error, match=message):
            model.fit(x, y)
    with pytest.raises(ValueError, match="X has 50 rows, but y has 3"):
        ov.RobustFit(Ridge()).fit(x, y[:3])
