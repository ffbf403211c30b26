"""The experiments on constants, admissible outliers, block pictures and radii."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import outvote as ov
from outvote import paper
from outvote.certificate import radius
from outvote.paper.experiments import block_pictures, get, mappings, table_constants
from outvote.paper.experiments.base import column
from outvote.paper.experiments.running import run

NAMES = ("mappings", "table-constants", "admissible-outliers", "block-pictures", "radius")


@pytest.fixture(scope="module")
def outcomes():
    return {name: run(get(name), quick=True) for name in NAMES}


@pytest.fixture
def finding(outcomes):
    def find(name, start):
        (found,) = [each for each in outcomes[name].findings if each.claim.startswith(start)]
        return found

    return find


# --- mappings --------------------------------------------------------------------------------------------


def test_curves_equal_the_constants_of_the_paper(outcomes):
    for row in outcomes["mappings"].tables["mappings"][::37]:
        e, a = row["epsilon"], float(paper.MAPPINGS[row["mapping"]](row["epsilon"]))
        assert row["alpha"] == pytest.approx(a)
        assert row["beta"] == pytest.approx(2 * a / (a - 2 * e))
        assert row["gamma"] == pytest.approx(math.sqrt(a) * (a - e) / (a - 2 * e) ** 1.5)
        assert row["Gamma_Delta"] == pytest.approx(math.sqrt(a / (a - 2 * e)) * math.sqrt(a / e))
        assert row["range_size"] == pytest.approx(1000 * (1 - a) * (a - 2 * e) / (2 * a))


def test_findings_on_mappings_hold_but_for_two_formulas(outcomes):
    verdicts = {each.claim: each.verdict for each in outcomes["mappings"].findings}
    wrong = [claim for claim, verdict in verdicts.items() if verdict != "holds"]
    assert [claim[:2] for claim in wrong] == ["∂γ", "∂s"]


def test_verdict_on_mappings_follows_the_table(outcomes):
    tables = json.loads(json.dumps(outcomes["mappings"].tables))
    for row in tables["mappings"]:
        if row["mapping"] == "geometric":
            row["range_size"] /= 100
    findings = {each.claim: each.verdict for each in mappings.judge(tables)}
    assert findings["the geometric mapping has the longest range of confidences"] == "does not hold"


# --- table of constants ----------------------------------------------------------------------------------


def test_closed_forms_equal_the_definitions(outcomes, finding):
    cells = outcomes["table-constants"].tables["table-constants"]
    assert len(cells) == 24
    assert column(cells, "largest relative difference to the definition").max() < 1e-10
    assert finding("table-constants", "the closed forms").verdict == "holds"


def test_misprint_in_the_table_is_detected(monkeypatch):
    misprint = table_constants.PRINTED | {
        "harmonic": table_constants.PRINTED["harmonic"] | {"beta": lambda e: 4 / (1 - 1.99 * e)}
    }
    monkeypatch.setattr(table_constants, "PRINTED", misprint)
    findings = run(table_constants.EXPERIMENT).findings
    assert findings[0].verdict == "does not hold"


def test_universal_constants_have_known_values(outcomes):
    rows = {row["mapping"]: row for row in outcomes["table-constants"].tables["table-constants.universal"]}
    c = {name: row["largest scaled gamma"] for name, row in rows.items()}
    big = {name: row["largest scaled Gamma"] for name, row in rows.items()}
    assert c["arithmetic"] == pytest.approx(math.sqrt(2), rel=1e-5)
    assert c["geometric"] == pytest.approx(1.2 * 1.8**1.5 / 2, rel=1e-6)
    assert rows["geometric"]["epsilon, gamma"] == pytest.approx(0.32)
    assert c["harmonic"] == pytest.approx(3 / math.sqrt(2))
    assert c["polynomial"] == pytest.approx(3 * math.sqrt(5))
    assert big["polynomial"] == pytest.approx(math.sqrt(5))
    assert [big[name] for name in ("arithmetic", "geometric", "harmonic")] == pytest.approx(
        [math.sqrt(2)] * 3, rel=1e-5
    )


def test_limits_at_zero_contamination(outcomes, finding):
    rows = outcomes["table-constants"].tables["table-constants.at-zero"]
    assert column(rows, "closed form", constant="beta").tolist() == [2, 2, 4, 10]
    assert column(rows, "definition", constant="beta").tolist() == [2, None, None, None]
    found = finding("table-constants", "β, γ, Γ and η")
    assert found.verdict == "holds in part"
    assert "12 of 16" in found.measured


# --- admissible outliers ---------------------------------------------------------------------------------


def test_plans_end_at_the_admissible_regions(outcomes):
    pairs = outcomes["admissible-outliers"].tables["admissible-outliers.pairs"]
    assert {row["estimator"] for row in pairs} == {"MoM-MoM", "MoU2", "MoU2 diagonal"}
    for row in pairs:
        x, y = row["outliers x"] / row["rows"], row["outliers y"] / row["rows"]
        inside = {"MoM-MoM": max(x, y) < 0.5, "MoU2": (1 - x) * (1 - y) > 0.5, "MoU2 diagonal": x + y < 0.5}
        assert {row[key] for key in ("admitted", "majority", "planned", "survives")} == {inside[row["estimator"]]}
    for row in outcomes["admissible-outliers"].tables["admissible-outliers"]:
        assert 0 < row["admitted"] < row["pairs"]


def test_admissible_shares_of_several_samples(outcomes, finding):
    rows = outcomes["admissible-outliers"].tables["admissible-outliers.samples"]
    for row in rows:
        p, limit = row["samples"], 1 - 0.5 ** (1 / row["samples"])
        limit = limit if row["estimator"] == "MoU2" else 1 / (2 * p)
        assert limit - 1.1e-3 < row["largest share in each"] < limit
    assert finding("admissible-outliers", "for p samples").verdict == "holds in part"
    assert finding("admissible-outliers", "MoU2 has a stronger").verdict == "holds"


# --- block pictures --------------------------------------------------------------------------------------


def test_votes_in_the_picture_come_from_its_rows(outcomes):
    tables = outcomes["block-pictures"].tables
    for name, statistic in (("MoM", np.mean), ("MoU", lambda z: np.var(z, ddof=1))):
        for vote in tables["block-pictures.votes"]:
            if vote["picture"] == name:
                chosen = {"picture": name, "block": vote["block x"]}
                assert statistic(column(tables["block-pictures.rows"], "value", **chosen)) == pytest.approx(
                    vote["value"]
                )
                assert vote["hit"] == column(tables["block-pictures.rows"], "outlier", **chosen).any()


def test_grid_cells_are_differences_of_block_means(outcomes):
    tables = outcomes["block-pictures"].tables
    for name, count in (("MoU2", 49), ("MoU2 diagonal", 7)):
        votes = [vote for vote in tables["block-pictures.votes"] if vote["picture"] == name]
        assert len(votes) == count
        for vote in votes:
            x, y = (
                [
                    row
                    for row in tables["block-pictures.rows"]
                    if row["picture"] == name and row["sample"] == sample and row["block"] == vote[f"block {sample}"]
                ]
                for sample in "xy"
            )
            assert vote["value"] == pytest.approx(column(x, "value").mean() - column(y, "value").mean())
            assert vote["hit"] == (column(x, "outlier").any() or column(y, "outlier").any())
        assert sum(vote["median"] for vote in votes) == 1


def test_votes_hit_by_outliers_are_a_minority(outcomes, finding):
    for row in outcomes["block-pictures"].tables["block-pictures"]:
        assert 0 < row["hit votes in the picture"] <= row["most hit votes"] < row["votes"] / 2
        assert row["median within the clean votes"] == 1
    assert finding("block-pictures", "with more than twice").verdict == "holds"
    assert "gives as 19" in finding("block-pictures", "outliers hit").measured


def test_verdict_on_medians_follows_the_table(outcomes):
    tables = json.loads(json.dumps(outcomes["block-pictures"].tables))
    tables["block-pictures"][0]["median is a clean vote"] = 0.9
    assert block_pictures.judge(tables)[1].verdict == "holds in part"
    tables["block-pictures"][0]["median within the clean votes"] = 0.9
    assert block_pictures.judge(tables)[1].verdict == "does not hold"


# --- radius ----------------------------------------------------------------------------------------------


def test_radii_equal_those_of_the_library(outcomes):
    rows = outcomes["radius"].tables["radius"]
    row = min((row for row in rows if row["rows"] == 1000), key=lambda row: abs(row["corrupt"] - 50))
    known = ov.FiniteVariance(1.0)
    plan = ov.plan_blocks(1000, row["corrupt"], 0.99, known)
    expected = radius(
        n_blocks=plan.n_blocks, n_corrupt=row["corrupt"], block_size=plan.block_size, confidence=0.99, assume=known
    )
    assert row["median"] == pytest.approx(expected)
    assert row["limit"] == pytest.approx(math.sqrt(row["epsilon"] / (1 - 2 * row["epsilon"])))
    assert row["paper, at this confidence"] is None
    bounds = [
        paper.bound("mom", claim=1, n=1000, n_outliers=row["corrupt"], confidence=0.99, mapping=name, clamp=True).radius
        for name in paper.MAPPINGS
    ]
    assert row["paper"] <= min(bounds)


def test_radii_are_ordered(outcomes):
    rows = outcomes["radius"].tables["radius"]
    assert {row["rows"] for row in rows} == {1000, 10_000}
    for row in rows:
        assert row["limit"] < row["soft"] <= row["clipped"] < row["median"] < row["paper"]
