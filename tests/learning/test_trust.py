"""Rows that the vote trusts, and the finish on them."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import outvote as ov
from outvote.learning import RobustnessWarning
from outvote.learning import fit as fit_module
from outvote.learning.fit import Fit
from outvote.learning.jury import Judge, Jury, trusted_by_chances
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
@pytest.mark.parametrize("seed", range(3))
def test_a_finish_never_ends_worse_by_the_vote_than_what_the_descent_found(learner, seed, monkeypatch):
    x, y = noisy_rows(seed=seed)
    y = for_learner(learner, y)
    x[:24], y[:24] = [-20 * x[:24] - 10, -3 * x[:24], x[:24]][seed], y.max() + y.min() - y[:24]
    risks = []
    voted_risk = Fit._voted_risk
    monkeypatch.setattr(Fit, "_voted_risk", lambda self, *given: risks.append(voted_risk(self, *given)) or risks[-1])
    under_way = Fit.begin(learner(contamination=0.08, random_state=seed), x, y)
    found = under_way.descent.run()
    refit = under_way.refit(found)
    under_way.finish(found, None if refit is None else refit.run())
    neutral, before, after = risks  # of the same blocks: no parameter, that of the descent, and the finish
    stands = not np.array_equal(under_way.learner._theta, found.theta)
    assert stands == (after <= before + max((neutral - before) / 4, before / 5))
    monkeypatch.undo()
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


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("fit_intercept", [True, False])
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


@pytest.mark.parametrize("unit", [2.0**-1000, 1e-20, 1.0, 1e20, 2.0**1000])
@pytest.mark.parametrize("d", [1, 2, 10, 30, 200])
def test_copies_are_seen_in_any_units_and_wherever_they_stand(d, unit):
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
