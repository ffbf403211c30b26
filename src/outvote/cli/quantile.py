"""``outvote quantile``: estimate quantiles of each group; nothing is assumed of the clean rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from outvote.cli.answer import Asked, Progress, Value, each_column, in_options, side_by_side, silent
from outvote.data.columns import Columns, Label
from outvote.estimate.quantile import quantile
from outvote.estimate.shares import Shares


@dataclass(frozen=True)
class QuantileLine:
    """One quantile of one group: its rows, the quantile, and the corrupt rows that its interval allows for."""

    group: Label
    q: float
    name: str
    n: int
    quantile: Value
    corrupt: int | None


@dataclass(frozen=True)
class Quantiles:
    """The answer of ``outvote quantile``."""

    asked: Asked
    source: str
    value: str
    by: tuple[str, ...]
    groups: list[QuantileLine]

    @property
    def complete(self) -> bool:
        """Whether every quantile has an interval."""
        return all(line.quantile.bounded for line in self.groups)


def quantiles(
    columns: Columns, q: float | Sequence[float], asked: Asked, source: str, *, progress: Progress = silent
) -> Quantiles:
    """Estimate quantiles of each group, each with its own confidence.

    If there is only one group and it has no answer, an error is raised; among several groups the line gives the reason.
    """
    shares = Shares.read(q)
    asked.check(columns, infinite=True)
    lines: list[QuantileLine] = []
    groups = columns.groups()
    for number, group in enumerate(groups, 1):
        progress(f"group {number} of {len(groups)}")
        for share, name in zip(shares.each, shares.names, strict=True):
            line = QuantileLine(group.label, float(share), name, len(group.values), Value.missing(""), None)
            try:
                found = quantile(group.values, share, asked.contamination, asked.confidence, asked.nan)
            except ValueError as error:
                if len(groups) == 1:
                    raise
                lines.append(replace(line, quantile=Value.missing(error)))
                continue
            certificate, plan = found.certificate, found.plan
            value = replace(Value.of(found), note=in_options(certificate.note))
            corrupt = certificate.levels[-1][0] if certificate.levels else plan.n_corrupt
            assert isinstance(plan.n_rows, int)
            assert isinstance(corrupt, int)
            lines.append(replace(line, n=plan.n_rows, quantile=value, corrupt=corrupt))
    return Quantiles(asked, source, columns.name, columns.keys, lines)


def quantiles_of_each(
    columns: Columns, q: float | Sequence[float], asked: Asked, source: str, *, progress: Progress = silent
) -> Quantiles:
    """Estimate quantiles of each column of numbers."""
    found: Quantiles = side_by_side(
        [quantiles(one, q, asked, source, progress=progress) for one in each_column(columns)]
    )
    return found
