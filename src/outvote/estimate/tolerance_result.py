"""What `tolerance` returns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outvote.blocks.plan import RowPlan
from outvote.data.text import count, html_table, percent, short, spaced, spaced_count, with_interval
from outvote.estimate.result import RobustEstimate


@dataclass(frozen=True, repr=False)
class Tolerance:
    """How many corrupt rows a conclusion survives.

    Attributes
    ----------
    rows : int or None
        The conclusion stands for every number of corrupt rows up to this one, in all samples together; None if it
        does not stand even when no row is corrupt.
    n_rows : int
        Rows in all samples together.
    claim : str
        The conclusion.
    confidence : float
        With this probability the sentence is true, however many rows are corrupt.
    estimate : RobustEstimate
        The estimate for the contamination that was assumed; with votes of blocks, when no row is corrupt.
    deciding : sequence
        The positions in the input of the rows that contribute most to the evidence, strongest first; one more than
        `rows`. If all of them are right, it takes more corrupt rows elsewhere to overturn the conclusion; it is not
        thereby proved. They are looked for when this is first read, in the rows as they are then.
        For two samples pairs of the sample and the position, both from 0: (1, 7) is ``b[7]``. Of a quantile the rows on
        the claim's side nearest the bound. Empty if the conclusion does not stand.
    premise : str
        What must be true of the clean rows, in words, if an sd was read off them.
    largest_sd : float or tuple of float
        The largest sd of clean rows, of each sample, at which the conclusion stands with as many corrupt rows as were
        assumed; NaN if sds were declared, or it does not stand with so many.
    misfit : str
        If nothing stands: which numbers of corrupt rows are too small for these rows and their sd, in words. They say
        nothing of the claim.
    """

    rows: int | None
    n_rows: int
    claim: str
    confidence: float
    estimate: RobustEstimate
    deciding: Sequence[Any] = ()
    premise: str = ""
    largest_sd: float | tuple[float, ...] = math.nan
    misfit: str = ""

    @property
    def stands(self) -> bool:
        """Whether the conclusion stands when no row is corrupt."""
        return self.rows is not None

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings, ready for JSON."""
        largest = [sd if math.isfinite(sd) else None for sd in np.atleast_1d(self.largest_sd).tolist()]
        return {
            "rows": self.rows,
            "n_rows": self.n_rows,
            "claim": self.claim,
            "confidence": self.confidence,
            "sentence": self.sentence(),
            "deciding": [list(one) if isinstance(one, tuple) else one for one in self.deciding],
            "premise": self.premise or None,
            "largest_sd": largest if len(largest) > 1 else largest[0],
            "estimate": self.estimate.to_dict(),
        }

    def sentence(self, deciding: int = 0) -> str:
        """Say what stands, and until when; list so many of the deciding rows."""
        reasons = self._reasons()
        found = f"{self.claim}: it is {self._size()}"
        if self.claim in ("difference > 0", "difference < 0"):
            winner, loser = ("B", "A") if self.claim == "difference > 0" else ("A", "B")
            found = f"{winner} is larger than {loser} by {self._size(1 if winner == 'B' else -1)}"
        total = spaced(self.n_rows)
        if self.rows is None and self.misfit:
            allowed = spaced_count(self._assumed, "corrupt row")
            return f"{self.misfit} With {allowed} it is not settled whether {self.claim}."
        if self.rows is None:
            return f"These {total} rows do not settle whether {self.claim}, even if none is corrupt{reasons}."
        what = "that it is larger" if found.startswith(("A is", "B is")) else "the claim"
        text = f"{found}; {what} stands unless more than {spaced(self.rows)} of the {total} rows are corrupt{reasons}."
        if self.rows < self._assumed:
            text = (
                f"Whether {self.claim} is not settled if {spaced(self._assumed)} of the {total} rows may be corrupt; "
                f"it stands if no more than {spaced(self.rows)} are{reasons}."
            )
        if deciding and self.deciding:
            shown = ", ".join(map(_named_row, self.deciding[:deciding]))
            text += f" The rows that decide: {shown}{', …' if len(self.deciding) > deciding else ''}."
        return text

    @property
    def _assumed(self) -> int:
        """How many corrupt rows the estimate allows for."""
        plan = self.estimate.plan
        return plan.withstands if isinstance(plan, RowPlan) else 0

    def _size(self, sign: int = 1) -> str:
        """Write the estimate, or its negative, with its interval."""
        value, *ends = (sign * float(one) for one in (self.estimate.estimate, *self.estimate.interval))
        sure = f"{percent(self.confidence)}, allowing for {spaced_count(self._assumed, 'corrupt row')}"
        return with_interval(value, min(ends), max(ends), sure)

    def _reasons(self) -> str:
        reasons = "" if self.estimate.certificate.adversary == "oblivious" else ", even by someone who saw the others"
        if not self.premise:
            return reasons + (" (plug-in)" if self.estimate.certificate.provenance == "plug-in" else "")
        largest = [short(sd) for sd in np.atleast_1d(self.largest_sd).tolist() if math.isfinite(sd)]
        until = f"; with {count(self._assumed, 'corrupt row')} up to {' and '.join(largest)}" if largest else ""
        return f"{reasons} (if {self.premise}{until})"

    def explain(self) -> str:
        """Say in plain sentences what stands, until when, which rows decide, and how the estimate came about."""
        lines = [self.sentence(deciding=5)]
        if self.rows is not None:
            lines.append(
                f"The claim is proved, with {percent(self.confidence)} confidence, for every number of corrupt rows up "
                f"to {spaced(self.rows)}, wherever they are. The interval beside the estimate allows "
                f"for {spaced_count(self._assumed, 'corrupt row')}."
            )
        return "\n".join([*lines, self.estimate.explain()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Render as a small table in notebooks."""
        found, survived = self.estimate, "not settled" if self.rows is None else spaced(self.rows)
        numbers = [float(one) for one in (found.estimate, *found.interval)]
        heads = ("", "estimate", "low", "high", "corrupt rows it survives", "rows")
        return html_table(self.claim, str(self), heads, [[found.statistic, *numbers, survived, spaced(self.n_rows)]])

    def __str__(self) -> str:
        return " ".join([self.sentence(), *self.estimate.remarks])


def _named_row(row: int | tuple[int, int]) -> str:
    return f"{'AB'[row[0]]}[{row[1]}]" if isinstance(row, tuple) else str(row)
