"""Robust metrics: equal to the plain ones with one block, resistant to corrupt rows, usable as scorers."""

import pickle
from decimal import Decimal

import numpy as np
import pytest
from sklearn import metrics as plain
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC

from outvote import mean, metrics

RNG = np.random.default_rng(0)
Y = RNG.normal(size=600)
SCORE = Y + RNG.normal(size=600)
LABEL = (RNG.uniform(size=600) < 0.4).astype(int)
PROBA = np.clip(0.2 + 0.5 * LABEL + 0.1 * RNG.normal(size=600), 0.01, 0.99)
GUESS = (PROBA > 0.5).astype(int)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (lambda **o: metrics.robust_mean_squared_error(Y, SCORE, **o), plain.mean_squared_error(Y, SCORE)),
        (lambda **o: metrics.robust_mean_absolute_error(Y, SCORE, **o), plain.mean_absolute_error(Y, SCORE)),
        (lambda **o: metrics.robust_log_loss(LABEL, PROBA, **o), plain.log_loss(LABEL, PROBA)),
        (lambda **o: metrics.robust_accuracy(LABEL, GUESS, **o), plain.accuracy_score(LABEL, GUESS)),
        (lambda **o: metrics.robust_auc(LABEL, PROBA, **o), plain.roc_auc_score(LABEL, PROBA)),
    ],
)
def test_one_block_gives_the_plain_metric(found, expected):
    assert found(contamination=0, n_blocks=1, rng=0).estimate == pytest.approx(expected, rel=1e-12)


def test_concordance_is_half_of_one_plus_tau_and_ties_count_half():
    gaps = np.sign(Y[:, None] - Y) * np.sign(SCORE[:, None] - SCORE)
    tau = gaps[np.triu_indices(600, 1)].mean()
    options = {"contamination": 0, "n_blocks": 1, "rng": 0}
    assert metrics.robust_concordance(Y, SCORE, **options).estimate == pytest.approx((1 + tau) / 2, rel=1e-12)
    found = metrics.robust_concordance([1.0, 1.0, 2.0], [3.0, 4.0, 4.0], **options)
    assert found.estimate == pytest.approx((0.5 + 1 + 0.5) / 3)


@pytest.mark.parametrize("metric", [metrics.robust_mean_squared_error, metrics.robust_mean_absolute_error])
def test_corrupt_rows_move_an_error_by_less_than_its_radius(metric):
    wrong = Y.copy()
    wrong[:6] = 1e9
    clean = metric(Y, SCORE, contamination=6, rng=0)
    dirty = metric(wrong, SCORE, contamination=6, rng=0)
    assert abs(dirty.estimate - clean.estimate) < clean.radius < 10


def test_bounded_metrics_are_certified():
    for found in (
        metrics.robust_accuracy(LABEL, GUESS, contamination=5, rng=0),
        metrics.robust_auc(LABEL, PROBA, contamination=5, rng=0),
        metrics.robust_concordance(Y, SCORE, contamination=5, rng=0),
    ):
        assert found.certificate.provenance == "certified"
        assert 0 <= found.interval.low <= found.estimate <= found.interval.high <= 1
    assert metrics.robust_accuracy(LABEL, GUESS, assume=None, rng=0).certificate.provenance == "certified"  # boolean
    assert str(metrics.robust_accuracy(LABEL, GUESS, rng=0)).startswith("accuracy ")


def test_auc_counts_corrupt_labels_in_both_classes():
    flipped = LABEL.copy()
    flipped[:10] = 1 - flipped[:10]
    found = metrics.robust_auc(flipped, PROBA, contamination=10, rng=0)
    assert found.plan.n_corrupt == (10, 10)
    assert found.interval.low <= plain.roc_auc_score(LABEL, PROBA) <= found.interval.high
    by_class = metrics.robust_auc(LABEL, PROBA, contamination=(3, 2), grid="full", rng=0)
    assert by_class.plan.n_corrupt == (3, 2)


def test_log_loss_of_several_classes_equals_that_of_scikit_learn():
    true = np.array(["b", "a", "c", "a"] * 30)
    proba = RNG.dirichlet([1, 1, 1], size=120)
    options = {"contamination": 0, "n_blocks": 1, "rng": 0}
    assert metrics.robust_log_loss(true, proba, **options).estimate == pytest.approx(plain.log_loss(true, proba))
    fewer = metrics.robust_log_loss(true[true != "c"], proba[true != "c"], labels=["a", "b", "c"], **options)
    assert fewer.estimate == pytest.approx(
        plain.log_loss(true[true != "c"], proba[true != "c"], labels=["a", "b", "c"])
    )
    sure = np.eye(3)[[0] * 120]
    assert metrics.robust_log_loss(true, sure, **options).estimate < 40


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.robust_mean_squared_error([1.0, 2.0], [1.0]), "y_true has 2 rows"),
        (lambda: metrics.robust_mean_squared_error([[1.0, 2.0]], [[1.0, 2.0]]), "one number per row"),
        (lambda: metrics.robust_accuracy([1, 2], [1]), "y_true has 2 rows"),
        (lambda: metrics.robust_log_loss([0, 1, 1], [[0.5, 0.5]]), "y_proba has shape"),
        (lambda: metrics.robust_log_loss([0, 1, 2], np.full((3, 2), 0.5), labels=[0, 1]), "has the class"),
        (lambda: metrics.robust_log_loss([0, 1], [0.5, 1.5]), "probabilities"),
        (lambda: metrics.robust_auc([1, 1], [0.1, 0.2]), "has 1 class: the AUC needs two"),
        (lambda: metrics.robust_scorer("acuracy"), "did you mean 'accuracy'"),
        (lambda: metrics.robust_scorer("zzz"), "The names are"),
        (lambda: metrics.robust_scorer("accuracy", greater_is_better=True), "leave it out"),
        (lambda: metrics.robust_scorer("accuracy", use="radius"), "use='radius'"),
        (lambda: metrics.robust_scorer("accuracy", contamination=0.7), "contamination=0.7"),
        (lambda: metrics.SCORERS["f1"][0]([0, 1, 2], [0, 1, 2]), "take f1_macro"),
        (lambda: metrics.SCORERS["precision_macro"][0]([0, 1, 1], [0, 0, 0]), "no row counts for the precision"),
        (lambda: metrics.SCORERS["neg_mean_gamma_deviance"][0]([1.0, -2.0], [1.0, 1.0]), "y_true holds -2"),
        (lambda: metrics.SCORERS["neg_mean_poisson_deviance"][0]([1.0, 2.0], [1.0, 0.0]), "y_pred holds 0"),
        (lambda: metrics.SCORERS["neg_brier_score"][0]([0, 1], [[0.5, 0.5]]), "y_proba has shape"),
        (lambda: metrics.SCORERS["top_k_accuracy"][0]([5], [[0.5, 0.5]], labels=[0, 1]), "does not know"),
    ],
)
def test_invalid_arguments_raise(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_metric_is_a_name_or_a_function():
    with pytest.raises(TypeError, match="metric=3"):
        metrics.robust_scorer(3)


def corrupt_classes():
    x = RNG.normal(size=(400, 3))
    y = (x[:, 0] + 0.3 * RNG.normal(size=400) > 0).astype(int)
    y[:8] = 1 - y[:8]
    return x, y


@pytest.mark.parametrize(("name", "use"), [("accuracy", "bound"), ("roc_auc", "estimate"), ("neg_log_loss", "bound")])
def test_classification_scorers_in_cross_validation(name, use):
    x, y = corrupt_classes()
    scorer = metrics.robust_scorer(name, contamination=2, use=use, confidence=0.6)
    scores = cross_val_score(LogisticRegression(), x, y, scoring=scorer, cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()
    model = LogisticRegression().fit(x, y)
    found = scorer.estimate(model, x, y)
    expected = {"accuracy": found.interval.low, "roc_auc": found.estimate, "neg_log_loss": -found.interval.high}
    assert scorer(model, x, y) == expected[name]


def test_scorer_uses_decision_function_or_probabilities():
    x, y = corrupt_classes()
    scorer = metrics.robust_scorer("roc_auc", contamination=8)
    svm, logistic = SVC().fit(x, y), LogisticRegression().fit(x, y)
    assert scorer(svm, x, y) > 0.9
    del_decision = type("Only", (), {"predict_proba": logistic.predict_proba})()
    assert scorer(del_decision, x, y) == pytest.approx(scorer(logistic, x, y))


def test_regression_scorers_prefer_the_better_model():
    x = RNG.normal(size=(600, 2))
    y = x @ [1.0, -2.0] + 0.1 * RNG.normal(size=600)
    y[RNG.choice(600, size=6, replace=False)] = 1e5
    scorer = metrics.robust_scorer("neg_mean_absolute_error", contamination=6)
    fits = [Ridge(alpha, fit_intercept=False).fit(x[y < 100], y[y < 100]) for alpha in (1e-3, 1e5)]
    assert scorer(fits[0], x, y) > scorer(fits[1], x, y)
    search = GridSearchCV(Ridge(), {"alpha": [1e-3, 1e5]}, scoring=scorer, cv=3).fit(x, y)
    assert np.isfinite(search.best_score_)
    assert metrics.robust_scorer("concordance", contamination=6)(fits[0], x, y) > 0.9


def absolute_error(true, predicted):
    return np.abs(true - predicted)


def test_scorer_of_a_users_loss():
    x = RNG.normal(size=(300, 1))
    y = 3 * x[:, 0]
    y[:3] = -1e6
    model = LinearRegression().fit(x[3:], y[3:])
    loss = metrics.robust_scorer(absolute_error, contamination=3)
    assert -1e-6 < loss(model, x, y) <= 0
    gain = metrics.robust_scorer(lambda t, p: -np.abs(t - p), contamination=3, greater_is_better=True)
    assert gain(model, x, y) == pytest.approx(loss(model, x, y))
    assert pickle.loads(pickle.dumps(loss))(model, x, y) == loss(model, x, y)
    assert repr(loss) == "robust_scorer('absolute_error', contamination=3, use='estimate')"
    with pytest.raises(ValueError, match="one number for each"):
        metrics.robust_scorer(plain.mean_absolute_error, contamination=3)(model, x, y)


# --- every name of scikit-learn ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def judged():
    """Return models of two and of three classes and of positive numbers, with rows to judge them on."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 3))
    score = x[:, 0] + 0.5 * rng.normal(size=900)
    two, three, numbers = (score > 0).astype(int), np.digitize(score, [-0.5, 0.5]), np.exp(score / 2) + 0.1
    linear = Ridge().fit(x, numbers)
    positive = type("Positive", (), {"predict": lambda self, x: np.maximum(linear.predict(x), 0.05)})()
    return x, {
        "two": (LogisticRegression().fit(x, two), two),
        "three": (LogisticRegression().fit(x, three), three),
        "numbers": (positive, numbers),
    }


def test_every_scorer_of_scikit_learn_has_a_robust_form_or_a_reason():
    from outvote.metrics.scorer import REFUSED

    assert set(plain.get_scorer_names()) <= set(metrics.SCORERS) | set(REFUSED)  # older ones have fewer
    for name, (_, nearest) in REFUSED.items():
        assert nearest in metrics.SCORERS
        with pytest.raises(ValueError, match=rf"metric='{name}' has no robust form: it .* Take '{nearest}'"):
            metrics.robust_scorer(name)


@pytest.mark.parametrize("name", sorted(set(metrics.SCORERS) - {"concordance"}))
def test_without_corrupt_rows_a_scorer_is_near_the_plain_one(name, judged):
    x, models = judged
    kinds = ["numbers"] if metrics.SCORERS[name][0].__module__.endswith("numbers") else ["two", "three"]
    if name in ("neg_mean_squared_error", "neg_mean_absolute_error"):
        kinds = ["numbers"]
    if name in ("f1", "precision", "recall", "jaccard", "roc_auc"):
        kinds = ["two"]
    if name in ("roc_auc_ovr", "roc_auc_ovo", "top_k_accuracy"):
        kinds = ["three"]
    for kind in kinds:
        model, y = models[kind]
        if kind == "numbers":
            expected = -plain.get_scorer(name)._score_func(y, model.predict(x)) if name.startswith("neg") else (
                plain.get_scorer(name)._score_func(y, model.predict(x)))  # fmt: skip
        elif (name, kind) == ("neg_brier_score", "three"):  # which older ones do not have
            expected = -np.mean(np.sum((model.predict_proba(x) - np.eye(3)[y]) ** 2, axis=1))
        else:
            expected = plain.get_scorer(name)(model, x, y)
        scorer = metrics.robust_scorer(name, contamination=0)
        assert scorer(model, x, y) == pytest.approx(expected, abs=0.02, rel=0.15)
        found = scorer.estimate(model, x, y)
        assert found.interval.low <= found.estimate <= found.interval.high
        assert np.isfinite(metrics.robust_scorer(name, contamination=0.005, use="bound")(model, x, y))


@pytest.mark.parametrize(
    "name", ["f1", "precision", "recall_macro", "balanced_accuracy", "neg_brier_score", "f1_macro", "roc_auc_ovr"]
)
def test_bounded_scores_are_certified_and_hold_under_corrupt_rows(name, judged):
    x, models = judged
    model, y = models["two" if "_" not in name or name.startswith("neg") else "three"]
    scorer = metrics.robust_scorer(name, contamination=9)
    clean = plain.get_scorer(name)(model, x, y)
    wrong = y.copy()
    wrong[:9] = (y.max() - y[:9] + (y[:9] * 2 == y.max())) % (y.max() + 1)
    found = scorer.estimate(model, x, wrong)
    assert found.certificate.provenance == ("conditional" if name == "roc_auc_ovr" else "certified")
    sign = -1 if name.startswith("neg") else 1
    assert found.interval.low <= sign * clean <= found.interval.high
    assert found.certificate.confidence == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("hits", [True, False])
def test_shares_hold_when_rows_that_suit_are_moved_out_of_their_class(hits):
    """Whoever saw the rows gives another label to hits, or to misses: the class then has fewer rows than it had."""
    rng, missed = np.random.default_rng(0), 0
    for _ in range(150):
        true = rng.random(200) < 0.5
        predicted = np.where(rng.random(200) < 0.8, true, ~true)
        seen = true.copy()
        seen[np.flatnonzero(true & (predicted == hits))[:5]] = False
        found = metrics.SCORERS["recall"][0](seen.astype(int), predicted.astype(int), contamination=5, confidence=0.8)
        missed += not found.interval.low <= 0.8 <= found.interval.high
    assert missed <= 150 * 0.2


def test_a_target_that_may_be_constant_leaves_r2_unbounded_below():
    y = np.r_[np.zeros(300), np.ones(5)]
    found = metrics.SCORERS["r2"][0](y, y + 0.5, contamination=5)
    assert found.interval.low == -np.inf
    assert metrics.SCORERS["r2"][0](Y, Y, contamination=0).estimate == 1.0


def test_boolean_losses_of_a_user_are_a_proportion():
    X, y = np.arange(100.0)[:, None], np.arange(100) < 50
    model = LogisticRegression().fit(X, y)
    wrong = metrics.robust_scorer(lambda true, predicted: true != predicted, contamination=1)
    right = metrics.robust_scorer("accuracy", contamination=1)
    assert wrong(model, X, y) == pytest.approx(right(model, X, y) - 1)
    assert wrong.estimate(model, X, y).certificate.provenance == "certified"


def test_a_score_without_a_loss_is_not_negative_zero():
    X = np.arange(30.0)[:, None]
    perfect = LinearRegression().fit(X, X[:, 0] * 0)
    scorer = metrics.robust_scorer(lambda true, predicted: true != np.rint(predicted), contamination=0)
    score = scorer(perfect, X, X[:, 0] * 0)
    assert score == 0
    assert not np.signbit(score)


def test_text_and_numbers_are_not_compared():
    for labels in (np.array(["a", "b"] * 50), np.array(["a", "b"] * 50, dtype=object)):
        for metric in (metrics.robust_accuracy, *(metrics.SCORERS[name][0] for name in ("f1", "balanced_accuracy"))):
            with pytest.raises(ValueError, match="text and numbers are never equal"):
                metric(labels, np.arange(100) % 2)
        assert metrics.robust_accuracy(labels, labels.astype(str), contamination=1).estimate == 1


@pytest.mark.parametrize("name", ["neg_mean_squared_error", "neg_mean_absolute_error", "neg_mean_squared_log_error"])
def test_losses_are_not_negative(name):
    rng = np.random.default_rng(0)
    y = rng.exponential(size=60)
    found = metrics.SCORERS[name][0](y, y + 0.1 * rng.exponential(size=60) ** 3, contamination=6)
    plain = mean((rng.exponential(size=60) ** 3), contamination=6)
    assert plain.interval.low < 0
    assert found.interval.low == 0
    assert 0 <= found.estimate <= found.interval.high
    assert found.radius == max(found.estimate, found.interval.high - found.estimate)


# --- odd arguments ---

LABELS = np.array([0, 1] * 100)
GAPS = np.where(np.arange(200) == 3, np.nan, LABELS)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("name", "true", "predicted"),
    [
        ("neg_mean_squared_error", LABELS * 1e308, np.zeros(200)),
        ("neg_mean_absolute_error", LABELS * 1.5e308, -LABELS * 1.5e308),
        ("neg_mean_absolute_percentage_error", LABELS * 1e308, np.full(200, -1e308)),
        ("neg_mean_poisson_deviance", LABELS + 1.0, np.full(200, np.inf)),
        ("neg_mean_squared_error", LABELS, GAPS),
    ],
)
def test_losses_that_are_not_finite_are_told_by_target_and_prediction(name, true, predicted):
    with pytest.raises(ValueError, match=r"y_true or y_pred has NaN or infinite values, or their loss .* row [0-3]: "):
        metrics.SCORERS[name][0](true, predicted)


@pytest.mark.filterwarnings("error")
def test_a_loss_too_large_for_a_float_is_a_corrupt_row():
    wild = np.where(np.arange(600) == 3, 1e200, Y)
    found = metrics.robust_mean_squared_error(wild, SCORE, contamination=5, nan_policy="corrupt", rng=0)
    assert 0.5 < found.estimate < 1.5


@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "f1", "precision_macro", "roc_auc", "neg_log_loss"])
def test_every_row_has_one_label(name):
    predicted = np.full(200, 0.5) if name in ("roc_auc", "neg_log_loss") else LABELS
    for true, words in (
        (GAPS, r"y_true has no label in 1 of 200 rows \(the first is row 3\)"),
        (np.array(["a", None] * 100, dtype=object), "y_true has no label in 100 of 200 rows"),
        (None, "y_true=None is a single label"),
        ("abc", "y_true='abc' is a single label"),
        (np.ma.array(LABELS, mask=LABELS == 1), "y_true is a masked array"),
        (np.zeros((200, 2)), r"y_true has shape \(200, 2\)"),
        ([[1], [1, 2]], "y_true is ragged"),
        ([], "y_true is empty"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            metrics.SCORERS[name][0](true, predicted)


def test_labels_of_several_kinds_have_no_order():
    mixed = np.array(["a", 1] * 100, dtype=object)
    assert metrics.robust_accuracy(mixed, mixed).estimate == 1
    for name in ("f1", "roc_auc"):
        with pytest.raises(TypeError, match="labels of several kinds"):
            metrics.SCORERS[name][0](mixed, mixed if name == "f1" else np.zeros(200))


def test_missing_predictions_follow_the_nan_policy():
    with pytest.raises(ValueError, match=r"y_pred has no label in 1 of 200 rows \(the first is row 3\)"):
        metrics.robust_accuracy(LABELS, GAPS)
    corrupt = metrics.robust_accuracy(LABELS, GAPS, nan_policy="corrupt")
    omitted = metrics.robust_accuracy(LABELS, GAPS, nan_policy="omit")
    assert corrupt.estimate > 0.98
    assert omitted.interval == metrics.robust_accuracy(np.delete(LABELS, 3), np.delete(LABELS, 3)).interval


def test_classes_are_given_sorted():
    for labels in (5, [], [1, 0], [0, 0]):
        with pytest.raises(ValueError, match="must be the classes, sorted and each once"):
            metrics.robust_log_loss(LABELS, np.full(200, 0.5), labels=labels)


def test_a_missing_probability_is_no_hit():
    chances = np.full((200, 2), 0.5)
    chances[:3] = np.nan
    top = metrics.SCORERS["top_k_accuracy"][0]
    with pytest.raises(ValueError, match="NaN or infinite values in 3 of 200 rows"):
        top(LABELS, chances)
    with pytest.raises(ValueError, match="y_proba must hold probabilities between 0 and 1"):
        top(LABELS, chances + 1)


def test_options_of_scorers_are_checked_at_once():
    for options, words in (
        ({"zzz": 1}, r"robust_scorer\(\) has no argument 'zzz': it takes"),
        ({"confidnce": 0.9}, "did you mean confidence"),
        ({"rng": -1}, "rng=-1 is negative"),
        ({"confidence": "x"}, "confidence='x' must be a number"),
        ({"nan_policy": "x"}, "nan_policy='x' must be one of"),
        ({"metric": "top_k_accuracy", "k": 0}, "k=0 must be at least 1"),
        ({"metric": np.subtract, "greater_is_better": "x"}, "greater_is_better='x' must be True or False"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            metrics.robust_scorer(**{"metric": "accuracy", **options})
    for name in ("r2", "f1_macro", "neg_median_absolute_error"):  # a shared confidence is named as it was given
        with pytest.raises(ValueError, match="confidence=2 must lie strictly between 0 and 1"):
            metrics.SCORERS[name][0](LABELS, LABELS, confidence=2)


def test_decimals_that_signal_are_rows_without_a_label():
    with pytest.raises(ValueError, match="no label in 3 of 3 rows"):
        metrics.robust_accuracy([Decimal("sNaN")] * 3, [1, 0, 1])
