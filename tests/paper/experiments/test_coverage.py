"""The coverage experiment: laws, attacks, the list of certificates, and verdicts."""

from __future__ import annotations

import inspect
import math
from typing import get_args

import numpy as np
import pytest
from experiment_runs import changed, quick, verdict
from scipy import stats

import outvote as ov
from outvote import paper, tables
from outvote.assumptions.assumption import Assumption
from outvote.blocks.partition import draw
from outvote.contamination import Adversary
from outvote.paper.experiments import coverage
from outvote.paper.experiments.coverage_cases import (
    CASES,
    LAWS,
    LOSSES,
    ROWS_TO_CLASSIFY,
    THRESHOLDS,
    losses_at,
    risk_at,
)
from outvote.paper.experiments.coverage_trials import TRIALS
from outvote.votes import VoteName


def case_of(certificate, law, **where):
    (number,) = [
        number
        for number, case in enumerate(CASES)
        if (case.certificate, case.law) == (certificate, law)
        and all(getattr(case, name) == value for name, value in where.items())
    ]
    return number


def tried(certificate, law, delta=0.1, runs=300, **where):
    """Return the record of the attacked rows, or of the clean ones where there is no attack."""
    return coverage.measure(np.random.default_rng(3), case=case_of(certificate, law, **where), delta=delta, runs=runs)[
        -1
    ]


@pytest.mark.parametrize("law", LAWS)
def test_laws_have_mean_zero_and_sd_one(law):
    heavy = {
        "Student, 2.5 degrees": stats.t(2.5, scale=1 / math.sqrt(5)),
        "Pareto, index 2.5": stats.pareto(2.5),
        "lognormal, σ = 2": stats.lognorm(2.0),
    }
    rows = LAWS[law](np.random.default_rng(0), (40_000, 1)).ravel()
    if law in heavy:  # too heavy for a sample's variance: compare the quantiles instead
        exact, share = heavy[law], np.array([0.1, 0.5, 0.9, 0.99])
        expected = (exact.ppf(share) - exact.mean()) / exact.std()
        np.testing.assert_allclose(np.quantile(rows, share), expected, rtol=0.06, atol=0.02)
    else:
        assert rows.mean() == pytest.approx(0, abs=0.02)
        assert rows.std() == pytest.approx(1, rel=0.02)


def attacked(case, clean, n_blocks, place, **changes):
    """Attack samples in blocks; return the rows that changed, by block, and where there are outliers."""
    case = coverage.replace(case, **{"n": len(clean[0]), "outliers": 3, **changes})
    parts = [draw("random", case.n, n_blocks, 0, stream=s) for s in range(len(clean))]
    before = [rows.copy() for rows in clean]
    found = coverage.attack(np.random.default_rng(1), clean, parts, case, place)
    for rows, old in zip(clean, before, strict=True):
        np.testing.assert_array_equal(rows, old)
    hits = [rows == value for rows, value in zip(found, place, strict=True)]
    for rows, old, hit in zip(found, before, hits, strict=True):
        np.testing.assert_array_equal(rows[~hit], old[~hit])
    return [np.array([hit[block].sum(axis=0) for block in part]) for hit, part in zip(hits, parts, strict=True)], parts


def check_hits(hit, worth=None):
    """One outlier in each of three blocks of every run: the first ones, or those worth least."""
    assert hit.max() == 1
    assert (hit.sum(axis=0) == 3).all()
    if worth is not None:
        assert (np.take_along_axis(hit, np.argsort(worth, axis=0)[:3], axis=0) == 1).all()


@pytest.mark.parametrize("place", [1e6, -1e6])
def test_attacks_on_a_mean_hit_the_expected_blocks(place):
    clean = np.random.default_rng(0).normal(size=(60, 4))
    for adversary in ("oblivious", "adaptive"):
        case = CASES[case_of("median, finite variance", "normal", adversary=adversary)]
        (hit,), (part,) = attacked(case, [clean], 12, (place,))
        means = np.array([clean[block].mean(axis=0) for block in part])
        check_hits(hit, np.sign(place) * means if adversary == "adaptive" else None)
        assert adversary == "adaptive" or (hit[:3] == 1).all()


@pytest.mark.parametrize("kernel", ["variance", "gini"])
def test_adaptive_attacks_on_pairs_hit_the_lowest_blocks(kernel):
    clean = np.random.default_rng(0).normal(size=(60, 4))
    name = {"variance": "variance, median, finite variance", "gini": "Gini, median, finite variance"}[kernel]
    case = CASES[case_of(name, "normal", adversary="adaptive")]
    (hit,), (part,) = attacked(case, [clean], 12, (1e3,))
    values = [
        [ov.u_statistic(rows, kernel=kernel, n_blocks=1, contamination=0).estimate for rows in clean[block].T]
        for block in part
    ]
    check_hits(hit, np.array(values))


@pytest.mark.parametrize("place", [(10.0, -10.0), (-10.0, 10.0)])
def test_adaptive_attacks_on_two_samples_hit_the_expected_blocks(place):
    rng = np.random.default_rng(0)
    clean = [rng.normal(size=(60, 4)), rng.normal(1.0, size=(60, 4))]
    full = CASES[case_of("Mann-Whitney, full grid", "normal", adversary="adaptive")]
    hits, parts = attacked(full, clean, 12, place)
    for rows, hit, part, value in zip(clean, hits, parts, place, strict=True):
        check_hits(hit, np.sign(value) * np.array([rows[block].mean(axis=0) for block in part]))
    diagonal = CASES[case_of("Mann-Whitney, diagonal, median", "normal", adversary="adaptive")]
    hits, parts = attacked(diagonal, clean, 12, place)
    wins = np.array([(clean[0][x][:, None] <= clean[1][y]).mean(axis=(0, 1)) for x, y in zip(*parts, strict=True)])
    assert (hits[0] + hits[1]).max() == 1  # never two in the same pair of blocks
    both = np.argsort(np.sign(place[1]) * wins, axis=0)[:6]
    assert (np.take_along_axis(hits[0] + hits[1], both, axis=0) == 1).all()


def test_huber_attack_hits_rows_at_random():
    case = CASES[case_of("Huber's model", "normal")]
    clean = np.random.default_rng(0).normal(size=(505, 200))
    (hit,), _ = attacked(case, [clean], 101, (1e6,), outliers=case.outliers)
    assert hit.sum(axis=0).mean() == pytest.approx(case.outliers, abs=0.6)
    assert hit.sum(axis=0).std() == pytest.approx(math.sqrt(case.outliers), rel=0.2)


def test_rows_to_classify_have_known_risks():
    rows = LOSSES[ROWS_TO_CLASSIFY](np.random.default_rng(0), (10_000, 1))[:, 0]
    np.testing.assert_allclose(losses_at(rows).mean(axis=0), risk_at(THRESHOLDS), atol=0.02)
    for place, loss in ((1e-9, 1.0), (-1e-9, 0.0)):
        assert (losses_at(np.array([place]))[0, 1:-1] == loss).all()


def test_two_point_laws_are_missed_as_often_as_allowed():
    for adversary in ("oblivious", "adaptive"):
        record = tried("median, finite variance", "two points", runs=2000, adversary=adversary)
        assert record["misses"] / record["runs"] == pytest.approx(0.1, abs=0.02)
    broken = tried("median, finite variance, broken on purpose", "two points", runs=1000)
    assert (broken["adversary"], broken["attack"]) == ("oblivious", "adaptive")
    assert broken["lowest miss rate"] > 0.3


def test_plug_in_scale_fails_on_heavy_tails():
    record = tried("median, scale from the rows", "lognormal, σ = 2")
    assert record["provenance"] == "plug-in"
    assert record["lowest miss rate"] > 0.1
    assert record["share used"] > 1
    assert tried("median, scale from the rows", "normal")["misses"] == 0


def test_radii_equal_those_of_the_library():
    known = tried("median, finite variance", "normal", adversary="adaptive", delta=0.01, runs=20)
    plan = ov.plan_blocks(500, ov.Contamination(10, "adaptive"), delta=0.01, assume=ov.FiniteVariance(1.0))
    expected = ov.certificate.radius(
        n_blocks=plan.n_blocks,
        n_corrupt=10,
        block_size=plan.block_size,
        delta=0.01,
        assume=ov.FiniteVariance(1.0),
        adversary="adaptive",
    )
    assert known["mean radius"] == pytest.approx(expected)
    assert (known["provenance"], known["delta"]) == ("certified", 0.01)


def test_bounds_of_the_paper_are_tried_in_their_range():
    few = tried("paper: mom, claim 1", "Student, 2.5 degrees", outliers=2, runs=20)
    assert (few["delta asked"], few["delta"], few["provenance"]) == (0.1, pytest.approx(0.1), "paper, certified")
    bound = paper.bound("mom", 1, n=500, n_outliers=2, delta=0.1)
    assert few["mean radius"] == pytest.approx(bound.radius)
    more = tried("paper: mom, claim 1", "Student, 2.5 degrees", outliers=10, runs=20)
    assert more["delta"] == pytest.approx(
        math.exp(paper.bound("mom", 1, n=500, n_outliers=10, delta=0.1).log_delta_range[1])
    )
    assert more["delta"] < 1e-3
    mean = tried("paper: mom, claim 3", "normal", runs=20)
    assert (mean["delta"], mean["coverage"], mean["misses"]) == (None, None, None)
    assert mean["mean absolute error"] < mean["mean radius"]


def test_miss_rates_have_clopper_pearson_intervals():
    none = tried("median, scale from the rows", "normal")
    assert (none["misses"], none["lowest miss rate"]) == (0, 0.0)
    assert none["highest miss rate"] == pytest.approx(1 - 0.005 ** (1 / none["runs"]))
    some = tried("median, finite variance, broken on purpose", "two points")
    assert 0 < some["misses"] < some["runs"]
    low, high = some["lowest miss rate"], some["highest miss rate"]
    assert stats.binom.sf(some["misses"] - 1, some["runs"], low) == pytest.approx(0.005, rel=1e-6)
    assert stats.binom.cdf(some["misses"], some["runs"], high) == pytest.approx(0.005, rel=1e-6)


def test_every_statement_of_the_paper_is_tried_or_listed():
    tried_ones = {case.stated["statement"] for case in CASES if case.stated is not None}
    with pytest.raises(ValueError, match="must be one of") as caught:
        paper.bound("none", n=1, n_outliers=0, delta=0.1)
    offered = set(str(caught.value).split("must be one of ")[1].replace("'", "").split(", "))
    assert tried_ones | set(coverage.UNTESTED) == offered


#: Public functions that hand on the certificate of another, or that give none.
HANDED_ON = {
    "GroupedBlockSummary.results": "BlockSummary.result",
    "Monitor.result": None,  # tried at every look by tests/theory/test_monitor.py
    "Scan.difference": "difference",
    "quantile_difference": "quantile",
    "Scan.u_statistic": "u_statistic",
    "Scan.variance": "u_statistic",
    "RobustAUCClassifier.certify": "certify_risk",
    "RobustClassifier.certify": "certify_risk",
    "RobustFit.certify": "certify_risk",
    "RobustMetricLearner.certify": "certify_risk",
    "RobustRanker.certify": "certify_risk",
    "RobustRegressor.certify": "certify_risk",
    "RobustScorer.estimate": "mean",
    "certificate.log_failure": None,
    "metrics.robust_accuracy": "mean",
    "metrics.robust_auc": "u_statistic",
    "metrics.robust_concordance": "u_statistic",
    "metrics.robust_log_loss": "mean",
    "metrics.robust_mean_absolute_error": "mean",
    "metrics.robust_mean_squared_error": "mean",
}


def giving_certificates():
    """Name the public functions and methods that return an estimate with its certificate, or are radii themselves."""
    places = {"": ov, "metrics.": ov.metrics, "certificate.": ov.certificate, "tables.": tables}
    for prefix, place in places.items():
        names = getattr(place, "__all__", [name for name in vars(place) if name.startswith("robust_")])
        for name, value in ((name, getattr(place, name)) for name in names):
            if inspect.isclass(value):
                for method, function in inspect.getmembers(value, inspect.isfunction):
                    if not method.startswith("_") and returns_estimates(function):
                        yield f"{name}.{method}"
            elif inspect.isfunction(value) and (prefix == "certificate." or returns_estimates(value)):
                yield f"{prefix}{name}"


def returns_estimates(function):
    return "RobustEstimate" in str(inspect.signature(function).return_annotation)


def test_every_function_that_gives_a_certificate_is_tried():
    tried_ones = {case.function.split("(")[0] for case in CASES}
    assert {case.function for case in CASES} == set(TRIALS)
    given = set(giving_certificates()) - {"BlockSummary.concluded"}  # what `result` ends with
    assert given >= {"mean", "u_statistic", "difference", "certify_risk", "BlockSummary.result", "metrics.robust_auc"}
    assert given - tried_ones == set(HANDED_ON)
    assert {other for other in HANDED_ON.values() if other} <= tried_ones


def test_every_vote_assumption_and_adversary_is_tried():
    # Bounds of ratios have no public name; tests/theory/test_coverage_ratio.py tries them.
    known = {kind.__name__ for kind in Assumption.__subclasses__()} & set(ov.__all__)
    tried_ones = {type(case.assume).__name__ for case in CASES if case.stated is None}
    assert tried_ones == {*known, "NoneType"}
    for vote in ("median", "soft", "clipped", "evidence"):
        taken = tried_ones if vote == "evidence" else tried_ones - {"Symmetric"}
        assert {type(case.assume).__name__ for case in CASES if case.vote == vote} == taken
    for vote in get_args(VoteName):
        assert {case.adversary for case in CASES if case.vote == vote} >= set(get_args(Adversary))
    for kernel in ("variance", "gini", "mann-whitney"):
        ours = [case for case in CASES if case.kernel == kernel and case.function == "u_statistic" and not case.stated]
        assert {case.adversary for case in ours} == set(get_args(Adversary))
    grids = {case.options.get("grid", "full") for case in CASES if case.samples > 1}
    assert grids == {"full", "diagonal"}


def test_every_option_of_a_certificate_is_tried():
    tried_ones = {(case.function, *item) for case in CASES for item in dict(case.options).items()}
    of_mean = {("mean", "alternative", "less"), ("mean", "alternative", "greater"), ("mean", "remainder", "spread")}
    of_all = {(name, "contamination", "auto") for name in ("mean", "u_statistic", "difference")}
    others = {("mean", "simultaneous"), ("difference", "paired"), ("difference", "relative")}
    assert tried_ones >= of_mean | of_all | {(*one, True) for one in others} | {("certify_risk(vc_dim)", "vc_dim", 1)}


def test_every_certificate_is_tried_on_clean_and_attacked_rows():
    table = quick("coverage").tables["coverage"]
    tried_on = {}
    for row in table:
        tried_on.setdefault((row["certificate"], row["law"], row["adversary"], row["outliers"]), set()).add(
            row["attack"]
        )
    for (name, _, adversary, outliers), attacks in tried_on.items():
        broken = "broken on purpose" in name
        assert attacks == ({"adaptive"} if broken else {"none", adversary} if outliers else {"none"}), name


@pytest.mark.parametrize(
    ("certificate", "law", "where"),
    [
        ("Huber's model", "Student, 2.5 degrees", {}),
        ("contamination left open, levels", "Student, 2.5 degrees", {"adversary": "oblivious"}),
        ("risk of the best of five", "0-1 loss", {"adversary": "adaptive"}),
        ("risk of the best of a class", "rows to classify", {"adversary": "adaptive"}),
        ("risks of a class", "rows to classify", {"adversary": "oblivious"}),
        ("Mann-Whitney, diagonal, clipped", "normal", {"adversary": "adaptive"}),
    ],
)
def test_radius_far_too_small_is_caught(monkeypatch, certificate, law, where):
    number = case_of(certificate, law, **where)
    trial = coverage.TRIALS[CASES[number].function]

    def shrunk(*asked):
        found = trial(*asked)
        return found._replace(reach=found.reach / 30)

    assert all(record["misses"] <= 3 for record in both_of(number))
    monkeypatch.setitem(coverage.TRIALS, CASES[number].function, shrunk)
    assert any(record["lowest miss rate"] > 0.1 for record in both_of(number))


def both_of(number, runs=30):
    return coverage.measure(np.random.default_rng(3), case=number, delta=0.1, runs=runs)


def test_coverage_verdicts_follow_the_tables():
    outcome = quick("coverage")
    assert verdict("coverage", "every certified radius") == "holds"
    assert verdict("coverage", "a plug-in radius") == "holds in part"
    assert verdict("coverage", "every bound of the paper") == "holds"
    assert verdict("coverage", "the paper's bounds on an expected") == "holds"
    assert verdict("coverage", "the paper's bounds cover") == "does not hold"
    assert verdict("coverage", "the paper's bounds for learning") == "does not hold"
    bad = {"misses": 20, "lowest miss rate": 0.7}
    missed = changed(outcome, "coverage", lambda row: bad, certificate="soft, finite variance")
    assert verdict("coverage", "every certified radius", missed) == "holds in part"
    missed = changed(outcome, "coverage", lambda row: bad, certificate="paper: mou2, claim 1")
    assert verdict("coverage", "every bound of the paper", missed) == "holds in part"
    far = changed(outcome, "coverage", lambda row: {"mean absolute error": 1e9}, certificate="paper: mom, claim 3")
    assert verdict("coverage", "the paper's bounds on an expected", far) == "does not hold"
