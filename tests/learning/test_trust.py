"""Rows that the vote trusts, the finish on them, outlier scores, and warnings that a fit may be less robust."""

import re

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import outvote as ov
from outvote.learning import RobustnessWarning
from outvote.learning import fit as fit_module
from outvote.learning import outlier_scores as scores_module
from outvote.learning.fit import Fit
from outvote.learning.jury import Judge, Jury, trusted_by_chances
from outvote.learning.outlier_scores import outlier_scores
from outvote.learning.robustness_warnings import most_copies
from outvote.learning.trust import Screen, contradicted_losses, copies, trusted_by_loss, worst

LEARNERS = [ov.RobustClassifier, ov.RobustRegressor, ov.RobustRanker, ov.RobustMetricLearner, ov.RobustAUCClassifier]


def noisy_rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return x, x @ [2.0, -1.0, 0.5] + rng.normal(size=n)


def for_learner(learner, y):
    return y if learner in (ov.RobustRegressor, ov.RobustRanker) else (y > 0).astype(int)


def test_nothing_is_left_out_of_clean_rows_and_the_fit_is_the_plain_one():
    x, y = noisy_rows()
    labels = (y > 0).astype(int)
    robust = ov.RobustClassifier(contamination=0.1, random_state=0).fit(x, labels)
    plain = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, labels)
    assert robust.support_.all()
    assert robust.predict_proba(x) == pytest.approx(plain.predict_proba(x), abs=1e-3)
    robust = ov.RobustRegressor(contamination=0.1, random_state=0).fit(x, y)
    assert robust.support_.all()
    assert robust.coef_ == pytest.approx(LinearRegression().fit(x, y).coef_)


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_finish_never_ends_worse_by_the_vote_than_what_the_descent_found(learner, monkeypatch):
    voted_risk = Fit._voted_risk
    for seed in range(3):
        x, y = noisy_rows(seed=seed)
        y = for_learner(learner, y)
        x[:24], y[:24] = [-20 * x[:24] - 10, -3 * x[:24], x[:24]][seed], y.max() + y.min() - y[:24]
        risks = []
        with monkeypatch.context() as patched:
            patched.setattr(Fit, "_voted_risk", lambda *given, to=risks: to.append(voted_risk(*given)) or to[-1])
            under_way = Fit.begin(learner(contamination=0.08, random_state=seed), x, y)
            found = under_way.descent.run()
            refit = under_way.refit(found)
            under_way.finish(found, None if refit is None else refit.run())
        neutral, before, after = risks  # of the same blocks: no parameter, that of the descent, and the finish
        stands = not np.array_equal(under_way.learner._theta, found.theta)
        assert stands == (after <= before + max((neutral - before) / 4, before / 5))
        thetas = found.theta, under_way.learner._theta
        before, after = (under_way.problem.median_risk(theta, np.random.default_rng(9)) for theta in thetas)
        assert after <= before + 1.1 * max((neutral - before) / 4, before / 5)  # nor by other blocks


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_finish_that_the_vote_finds_worse_is_not_believed(learner, monkeypatch):
    x, y = noisy_rows()
    y = for_learner(learner, y)
    found = learner(contamination=0.05, finish=False, random_state=0).fit(x, y)
    monkeypatch.setattr(learner, "_trusted", lambda self, ballots: np.arange(300) < 290)
    monkeypatch.setattr(fit_module, "finished", lambda problem, start, *rest: -start)
    begun = Fit.begin(learner(contamination=0.05, random_state=0), x, y)
    voted = begun.descent.run()
    worse = None if learner is not ov.RobustMetricLearner else fit_module.replace(voted, theta=9 * voted.theta)
    begun.finish(voted, worse)
    assert np.array_equal(begun.learner._theta, voted.theta)
    assert begun.learner.support_.all()
    assert found.support_.all()


@pytest.mark.filterwarnings("ignore:.*blocks of 2 rows")
@pytest.mark.parametrize("learner", LEARNERS)
def test_of_many_rows_a_part_votes_and_all_are_judged(learner, monkeypatch):
    monkeypatch.setattr(fit_module, "_MOST_VOTING", 400)
    x, y = noisy_rows(n=2000)
    y = for_learner(learner, y)
    x[:60] *= 100
    model = learner(contamination=0.05, random_state=0, max_iter=60).fit(x, y)
    assert 0 < np.count_nonzero(model.selection_counts_) <= 600
    assert len(model.outlier_scores_) == len(model.row_losses_) == len(model.support_) == 2000
    assert not model.support_[:60].any()
    assert model.support_.mean() > 0.9
    again = learner(contamination=0.05, random_state=0, max_iter=60).fit(x, y)
    assert again._theta == pytest.approx(model._theta, rel=1e-9)


def test_blocks_of_each_class_vote_on_a_part_of_many_rows(monkeypatch):
    monkeypatch.setattr(fit_module, "_MOST_VOTING", 400)
    x, y = noisy_rows(n=2000)
    labels = np.digitize(y, [-1, 1])
    model = ov.RobustClassifier(contamination=0.05, blocks="class", random_state=0).fit(x, labels)
    plain = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, labels)
    assert model.score(x, labels) > plain.score(x, labels) - 0.01


@pytest.mark.filterwarnings("ignore:.*it can vanish")
def test_a_class_none_of_whose_rows_is_trusted_gives_a_warning_and_blocks_of_classes_keep_it():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    labels = (np.arange(400) < 20).astype(int)
    x[:20] += 300
    with pytest.warns(RobustnessWarning, match=r"no row of class .*1.* is trusted.*blocks='class' keeps it"):
        model = ov.RobustClassifier(contamination=0.1, random_state=0).fit(x, labels)
    assert model.support_.all()
    kept = ov.RobustClassifier(contamination=0.1, blocks="class", random_state=0).fit(x, labels)
    assert kept.score(x, labels) == 1.0
    assert kept.support_[:20].sum() >= 18  # contamination is a bound for each class


def test_rare_rows_far_out_come_back_if_the_others_agree():
    rng = np.random.default_rng(0)
    labels = (np.arange(500) < 25).astype(int)
    x = rng.normal(size=(500, 2)) + 5 * labels[:, None]
    with pytest.warns(RobustnessWarning, match="can vanish"):
        model = ov.RobustClassifier(contamination=0.1, random_state=0).fit(x, labels)
    assert model.support_[:25].mean() > 0.9
    assert model.predict(x)[:25].mean() > 0.9


@pytest.mark.parametrize(("loss", "fit_intercept"), [("hinge", True), ("logistic", False)])
def test_every_finish_of_a_classifier_minimises_its_loss(loss, fit_intercept):
    x, y = noisy_rows()
    labels = np.digitize(y, [-1, 1])
    for some in (labels, labels > 0):
        options = {"loss": loss, "fit_intercept": fit_intercept, "random_state": 0, "contamination": 0.0}
        finished, voted = (ov.RobustClassifier(finish=finish, **options).fit(x, some) for finish in (True, False))
        assert finished.row_losses_.mean() < voted.row_losses_.mean() + 0.01


def test_least_squares_shrinks_with_alpha_and_does_without_an_intercept():
    x, y = noisy_rows()
    norms = [np.linalg.norm(ov.RobustRegressor(alpha=a, random_state=0).fit(x, y).coef_) for a in (0.0, 0.2, 0.4)]
    assert norms[0] > norms[1] > norms[2]
    plain = LinearRegression(fit_intercept=False).fit(x, y)
    robust = ov.RobustRegressor(fit_intercept=False, random_state=0).fit(x, y)
    assert robust.coef_ == pytest.approx(plain.coef_)


def test_a_column_in_which_most_rows_are_alike_says_nothing():
    x = np.zeros((100, 2))
    x[:3, 0] = 50.0
    x[:, 1] = np.arange(100)
    screen = Screen.of(x, 10)
    assert screen.reach[0] == np.inf
    assert (screen.scores(x) < 1).all()
    x[5] = np.nan, np.nan
    x[6, 1] = np.inf
    scores = Screen.of(x, 10).scores(x)
    assert scores[5] == 0
    assert scores[6] == np.inf
    assert (Screen.of(np.full((9, 1), np.nan), 1).scores(np.ones((2, 1))) == 0).all()


def test_copies_are_seen_unless_copies_are_usual():
    x, y = noisy_rows(100)
    assert not copies(x, y).any()
    x[10:20], y[10:20] = x[10], y[10]
    assert copies(x, y).nonzero()[0].tolist() == list(range(11, 20))
    assert not copies(np.arange(100)[:, None] % 10.0, np.zeros(100)).any()
    assert not copies(np.zeros((10, 1)), np.zeros(10)).any()


def test_copies_are_seen_in_any_units_and_wherever_they_stand():
    for d, unit in ((1, 2.0**-1000), (2, 1e20), (30, 1.0), (200, 2.0**1000)):
        rng = np.random.default_rng(d)
        x, y = rng.normal(size=(100, d)) * unit, rng.normal(size=100)
        x[:, -1] *= 1e-3
        assert not copies(x, y).any()
        own = np.r_[3:60:7, 97:100]
        x[own], y[own] = x[3], y[3]
        if d > 1:
            x[own, 0] = np.nan
        assert copies(x, y).nonzero()[0].tolist() == own[1:].tolist()
        assert most_copies(np.nan_to_num(x), y) == (len(own), 3)


def test_a_far_value_does_not_hide_the_other_columns():
    x, y = noisy_rows(100)
    x[::9, 0] = 1e10
    assert not copies(x, y).any()


def test_losses_that_contradict_a_row():
    losses = np.r_[np.linspace(0.1, 1, 50), 90.0, np.nan]
    assert contradicted_losses(losses, 5).nonzero()[0].tolist() == [50, 51]
    assert contradicted_losses(losses, 1).nonzero()[0].tolist() == [51]
    assert contradicted_losses(np.r_[np.zeros(8), 1.0, 2.0], 2).nonzero()[0].tolist() == [8, 9]  # zeros have no scale
    scores = np.zeros(52)
    scores[[0, 1, 50]] = 2.0, 50.0, 2.0
    assert (~trusted_by_loss(losses, scores, 5)).nonzero()[0].tolist() == [1, 50, 51]
    assert worst(losses, losses > 0, -1).sum() == 0


@pytest.mark.parametrize(("n_wrong", "size", "n_left_out"), [(2, 9.0, 0), (4, 9.0, 4), (2, 40.0, 2), (0, 0.0, 0)])
def test_few_far_losses_are_trusted_unless_they_are_too_far(n_wrong, size, n_left_out):
    losses = np.abs(np.random.default_rng(0).normal(size=100))
    losses[:n_wrong] = size
    kept = trusted_by_loss(losses, np.zeros(100), 10)
    assert (~kept).sum() == (~kept[:n_wrong]).sum() == n_left_out


def test_copies_share_a_fold_and_a_judge_of_one_class_knows_no_other():
    x, y = noisy_rows(60)
    codes = (y > 0).astype(int)
    x[:12], codes[:12] = x[0], codes[0]
    jury = Jury(x, codes, np.zeros(60), np.array([30, 30, 6]), np.random.default_rng(0))
    assert len(np.unique(jury._kind[:12])) == 1
    assert len(np.unique(jury._kind)) == 49
    alone = Judge(x, codes, np.flatnonzero(codes == 1), 2)
    assert alone.probabilities(x[:2]).tolist() == [[0.0, 1.0]] * 2


def test_contradicted_rows_are_left_out_only_if_there_are_more_than_expected():
    codes = np.r_[np.zeros(50, dtype=int), np.ones(50, dtype=int)]
    sure = np.where(codes[:, None] == np.arange(2), 0.98, 0.02)
    far, scores, most = np.zeros(100, dtype=bool), np.zeros(100), np.array([25, 25, 10])
    assert trusted_by_chances(sure, codes, scores, far, most).all()
    flipped = sure.copy()
    flipped[:8] = flipped[:8, ::-1]
    assert (~trusted_by_chances(flipped, codes, scores, far, most)).nonzero()[0].tolist() == list(range(8))
    assert (~trusted_by_chances(flipped, codes, scores, far, np.array([3, 3, 10]))).sum() == 3
    few = sure.copy()
    few[:3] = few[:3, ::-1]
    assert trusted_by_chances(few, codes, scores, far, most).all()  # of ten rows that may be corrupt
    vague = np.where(codes[:, None] == np.arange(2), 0.92, 0.08)
    vague[:8] = vague[:8, ::-1]
    assert trusted_by_chances(vague, codes, scores, far, most).all()


# --- outlier scores ---------------------------------------------------------------------------------------------


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


# --- warnings ---------------------------------------------------------------------------------------------------


def test_fits_that_are_less_robust_than_they_look_warn_at_the_line_that_fits():
    x, y = noisy_rows(100)
    for model, message in (
        (ov.RobustRanker(contamination=20, max_iter=2), "blocks of 2 rows"),
        (ov.RobustRegressor(contamination=10, n_blocks=5, max_iter=2), "n_blocks=5 survives 2 .* allows 10"),
        (ov.RobustRegressor(contamination=0.35, max_iter=2), "known to be inverted"),
    ):
        with pytest.warns(RobustnessWarning) as caught:
            model.set_params(random_state=0).fit(x, y)
        assert any(re.search(message, str(one.message)) for one in caught)
        assert caught[0].filename == __file__


def test_many_copies_of_one_row_give_a_warning():
    x, y = noisy_rows(200)
    x[50:80], y[50:80] = x[50], y[50]
    with pytest.warns(RobustnessWarning, match="row 50 comes 30 times, more often than the 20 corrupt rows"):
        ov.RobustRegressor(contamination=20, max_iter=2, random_state=0).fit(x, y)
    assert most_copies(x, y) == (30, 50)
    assert most_copies(np.arange(6.0).reshape(3, 2), np.zeros(3))[0] == 1
