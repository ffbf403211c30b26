"""``outvote plan``: compute the radius of a mean before there are rows."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from outvote.assumptions import Assumption, Bounded, FiniteKurtosis, FiniteVariance, SubGaussian
from outvote.blocks.choose import plan_blocks
from outvote.blocks.plan import BlockPlan, GridPlan
from outvote.blocks.rows_needed import rows_needed
from outvote.certificate import radius as certified_radius
from outvote.cli.answer import Asked, finite, in_options


@dataclass(frozen=True)
class Option:
    """A plan: its change from the first plan, rows, corrupt rows, number and size of blocks, vote and radius."""

    change: str
    rows: int
    corrupt: int
    blocks: int
    block_size: int
    vote: str
    radius: float | None


@dataclass(frozen=True)
class Planned:
    """The answer of ``outvote plan``; radii are in standard deviations if no scale was given (`unit`)."""

    asked: Asked
    rows: int
    unit: str
    assumed: str
    plan: Option
    explanation: str
    options: list[Option]
    rows_for_half: int | None
    half_note: str

    @property
    def complete(self) -> bool:
        """Whether there is a radius."""
        return self.plan.radius is not None


def plan(rows: int, asked: Asked) -> Planned:
    """Choose the blocks before there are rows, and compare with more rows, other assumptions and other votes."""
    if isinstance(asked.contamination, str):
        raise ValueError("--contamination auto needs rows: give a plan a share or a number of corrupt rows")
    assume, unit = _with_scale(asked.assume)
    # Without a known scale the blocks vote by their median, as in `mean`.
    here = replace(asked, assume=assume, vote="median" if unit and asked.vote == "auto" else asked.vote)
    chosen, option = _option("as asked", rows, here)
    ways: list[tuple[str, int, Asked]] = [("2 × the rows", 2 * rows, here), ("10 × the rows", 10 * rows, here)]
    if option.corrupt > 1:
        amount = asked.contamination
        half = amount / 2 if isinstance(amount, float) else amount // 2
        ways.append(("half the corrupt", rows, replace(here, contamination=half)))
    if option.corrupt:
        ways.append(("none corrupt", rows, replace(here, contamination=0)))
    if unit:
        ways.append(("known: the sd", rows, replace(here, vote="auto")))
    else:
        votes = [name for name in ("median", "soft", "clipped") if name != option.vote]
        ways += [(f"{name} vote", rows, replace(here, vote=name)) for name in votes]
    here_known = replace(here, vote="auto") if unit else here
    ways += [(f"known: {text}", rows, replace(here_known, assume=other)) for text, other in _others(assume)]
    options = []
    for change, n_rows, other in ways:
        try:
            options.append(_option(change, n_rows, other)[1])
        except ValueError:
            continue  # there is no such plan
    rows_for_half, half_note = _half(option, here)
    return Planned(
        asked=asked,
        rows=rows,
        unit=unit,
        assumed="a finite sd" if asked.assume is None else asked.assume.describe(),
        plan=option,
        explanation=chosen.explain(),
        options=options,
        rows_for_half=rows_for_half,
        half_note=half_note,
    )


def _with_scale(assume: Assumption | None) -> tuple[Assumption, str]:
    if assume is None:
        return FiniteVariance(1.0), "sd"
    if isinstance(assume, FiniteKurtosis) and assume.sd is None:
        return replace(assume, sd=1.0), "sd"
    return assume, ""


def _option(change: str, rows: int, asked: Asked) -> tuple[BlockPlan, Option]:
    contamination: Any = asked.contamination
    found = plan_blocks(rows, contamination, asked.confidence, asked.assume, vote=asked.vote)
    assert not isinstance(found, GridPlan)
    assert asked.assume is not None
    reached = certified_radius(
        n_blocks=found.n_blocks,
        n_corrupt=found.n_corrupt,
        block_size=found.block_size,
        confidence=asked.confidence,
        assume=asked.assume,
        vote=found.vote,
    )
    option = Option(change, rows, found.n_corrupt, found.n_blocks, found.block_size, found.vote, finite(float(reached)))
    return found, option


def _others(assume: Assumption) -> list[tuple[str, Assumption]]:
    """Return other assumptions to compare with: stronger than a standard deviation, or the sd alone."""
    if isinstance(assume, FiniteVariance):
        sd = assume.sd
        return [
            ("kurtosis ≤ 9", FiniteKurtosis(9.0, sd)),
            ("sub-Gaussian", SubGaussian(sd)),
        ]
    if isinstance(assume, SubGaussian):
        return [("the sd alone", FiniteVariance(assume.scale))]
    if isinstance(assume, Bounded):
        sd = assume.width / 2 if assume.variance is None else math.sqrt(assume.variance)
        others: list[tuple[str, Assumption]] = []
        with suppress(ValueError):  # the standard deviation may be too small where the width is not
            others.append((f"sd ≤ {sd:.4g} alone", FiniteVariance(sd)))
        if assume.variance is None:
            quarter = assume.width / 4
            with suppress(ValueError, OverflowError):  # and its square too large, or nothing
                others.append((f"sd ≤ {quarter:.4g} too", replace(assume, variance=quarter**2)))
        return others
    if isinstance(assume, FiniteKurtosis) and assume.sd is not None:
        return [("the sd alone", FiniteVariance(assume.sd))]
    return []


def _half(option: Option, asked: Asked) -> tuple[int | None, str]:
    if option.radius is None:
        return None, "there is no radius to halve"
    contamination: Any = asked.contamination
    try:
        rows = rows_needed(option.radius / 2, contamination, asked.confidence, asked.assume, vote=asked.vote)
    except ValueError as error:
        return None, in_options(str(error).split(": ", 1)[-1])
    return rows, ""
