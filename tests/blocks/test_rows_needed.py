"""The number of rows that a radius takes."""

import math

import numpy as np
import pytest

import outvote as ov
from outvote.certificate import radius as certified_radius

KNOWN = ov.FiniteVariance(2.0)


@pytest.mark.parametrize(
    "options",
    [
        {"radius": 0.1, "contamination": 5, "assume": ov.FiniteVariance(1.0)},
        {"radius": 0.05, "contamination": 0.001, "assume": ov.Bounded(0, 1)},
        {"radius": 0.3, "contamination": 2, "assume": ov.FiniteVariance(1.0), "degree": 2},
        {"radius": 0.3, "contamination": 3, "assume": ov.SubGaussian(1.0), "alternative": "less"},
    ],
    ids=["count", "share", "pairs", "one-sided"],
)
def test_rows_needed_reach_the_radius_and_3_percent_fewer_do_not(options):
    degree = options.get("degree", 1)

    def best(rows):
        plan = ov.plan_blocks(rows, options["contamination"], assume=options["assume"], degree=degree)
        return certified_radius(
            n_blocks=plan.n_blocks,
            n_corrupt=plan.n_corrupt,
            block_size=plan.block_size,
            confidence=0.95,
            assume=options["assume"],
            degrees=(degree,),
            alternative=options.get("alternative", "two-sided"),
        )

    n = ov.rows_needed(**options, vote="median")
    assert best(n) <= options["radius"] * 1.002
    assert best(math.floor(0.97 * n)) > options["radius"]


def test_soft_vote_needs_fewer_rows():
    assert ov.rows_needed(0.3, 5, assume=KNOWN, vote="soft") < 0.5 * ov.rows_needed(0.3, 5, assume=KNOWN, vote="median")


def test_rows_needed_for_evidence_reach_the_promised_radius():
    def promised(rows):
        return certified_radius(n_rows=rows, n_corrupt=5, confidence=0.95, assume=KNOWN, vote="evidence")

    n = ov.rows_needed(0.3, 5, assume=KNOWN)
    assert n == ov.rows_needed(0.3, 5, assume=KNOWN, vote="evidence")
    assert promised(n) <= 0.3 < promised(math.floor(0.97 * n))
    x = 2.0 * np.random.default_rng(0).choice([-1.0, 1.0], size=n)
    found = ov.mean(x, 5, assume=KNOWN)
    assert (found.interval.high - found.interval.low) / 2 <= 0.3
    assert promised(n) == certified_radius(
        n_blocks=n, block_size=1, n_corrupt=5, confidence=0.95, assume=KNOWN, vote="evidence"
    )


def test_evidence_is_planned_for_two_sided_means_only():
    for options in ({"degree": 2}, {"alternative": "less"}):
        with pytest.raises(ValueError, match="two-sided intervals of means"):
            ov.rows_needed(0.3, 5, assume=KNOWN, vote="evidence", **options)
        assert ov.rows_needed(0.5, 5, assume=KNOWN, **options) > 10


def test_unreachable_radius_raises():
    with pytest.raises(
        ValueError, match=r"radius=0.2 cannot be guaranteed beforehand: with contamination=0.05 .* stays above 0.6"
    ):
        ov.rows_needed(0.2, 0.05, assume=ov.FiniteVariance(1.0), vote="median")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"radius": -1}, ValueError, "radius=-1 must be a positive number"),
        ({"assume": None}, TypeError, "assume=None must name a scale"),
        ({"contamination": (0.01, 0.02)}, TypeError, "rows_needed is about one sample"),
        ({"degree": 0}, ValueError, "degree=0 must be at least 1"),
        ({"alternative": "x"}, ValueError, "alternative='x' must be one of"),
    ],
)
def test_invalid_arguments_raise(arguments, error, message):
    with pytest.raises(error, match=message):
        ov.rows_needed(**{"radius": 0.1, "contamination": 1, "assume": KNOWN, **arguments})
