"""How many corrupt rows it takes to overturn a conclusion."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.assumptions import Assumption, Bounded, one_assumption
from outvote.blocks.partition import Rng, seed_of
from outvote.blocks.plan import RowPlan
from outvote.contamination import Adversary, Contamination
from outvote.data.arguments import check_choice, log_delta_of, per_sample
from outvote.data.missing import ContradictionError, MoreCorruptRows
from outvote.data.rows import read_rows
from outvote.data.text import count, rounded, spaced, with_radius
from outvote.estimate.curve import Side, curve
from outvote.estimate.difference import difference, difference_by_evidence
from outvote.estimate.evidence import OrderedTable, mean_by_evidence
from outvote.estimate.mean import vote_of_blocks
from outvote.estimate.ordered import Ordered, implied, order_columns
from outvote.estimate.quantile_claim import QuantileClaim, weigh_quantile_claim
from outvote.estimate.request import Allowed, Request
from outvote.estimate.result import RobustEstimate
from outvote.estimate.weigh import weigh
from outvote.votes import Terms, VoteName

_CLAIM = re.compile(r"\s*(mean|difference)\s*(<=|>=|<|>)\s*([-+0-9.eE]+)\s*")


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
    deciding : tuple
        The positions in the input of the rows that speak most for the conclusion, strongest first: it rests on them.
        For two samples pairs of the sample (0 or 1) and the position. Of a quantile the rows on the claim's side
        nearest the bound. Empty if the conclusion does not stand.
    premise : str
        What must be true of the clean rows, in words, if an sd was read off them.
    largest_sd : float or tuple of float
        The largest sd of clean rows, of each sample, at which the conclusion stands with as many corrupt rows as were
        assumed; NaN if sds were declared, or it does not stand with so many.
    """

    rows: int | None
    n_rows: int
    claim: str
    confidence: float
    estimate: RobustEstimate
    deciding: tuple[Any, ...] = ()
    premise: str = ""
    largest_sd: float | tuple[float, ...] = math.nan

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
            "sentence": str(self),
            "deciding": [list(one) if isinstance(one, tuple) else one for one in self.deciding],
            "premise": self.premise or None,
            "largest_sd": largest if len(largest) > 1 else largest[0],
            "estimate": self.estimate.to_dict(),
        }

    def sentence(self, deciding: int = 0) -> str:
        """Say what stands, and until when; list so many of the deciding rows."""
        value, grounds = float(self.estimate.estimate), self._grounds()
        found = f"{self.claim}: it is {self._size(value)}"
        if self.claim in ("difference > 0", "difference < 0"):
            winner, loser = ("B", "A") if self.claim == "difference > 0" else ("A", "B")
            found = f"{winner} beats {loser} by {self._size(value if winner == 'B' else -value)}"
        total = spaced(self.n_rows)
        if self.rows is None:
            return f"These {total} rows do not settle whether {self.claim}, even if none is corrupt{grounds}."
        text = f"{found}; this stands unless more than {spaced(self.rows)} of the {total} rows are corrupt{grounds}."
        if self.rows < self._assumed:
            text = (
                f"Whether {self.claim} is not settled if {spaced(self._assumed)} of the {total} rows may be corrupt; "
                f"it stands if no more than {spaced(self.rows)} are{grounds}."
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

    def _size(self, value: float) -> str:
        if self.estimate.plan.vote != "order":
            return with_radius(value, float(self.estimate.radius))
        low, high = (float(end) for end in self.estimate.interval)
        half = (high - low) / 2
        known = [
            f"{word} {rounded(end, half)}"
            for end, word in ((low, "at least"), (high, "at most"))
            if abs(end) < math.inf
        ]
        ends = f"{rounded(low, half)} to {rounded(high, half)}" if len(known) == 2 else "".join(known)
        return f"{rounded(value, half)} ({ends})" if ends else rounded(value, None)

    def _grounds(self) -> str:
        grounds = "" if self.estimate.certificate.adversary == "oblivious" else ", even by someone who saw the others"
        if not self.premise:
            return grounds + (" (plug-in)" if self.estimate.certificate.provenance == "plug-in" else "")
        largest = [f"{sd:.3g}" for sd in np.atleast_1d(self.largest_sd).tolist() if math.isfinite(sd)]
        until = f"; with {count(self._assumed, 'corrupt row')} up to {' and '.join(largest)}" if largest else ""
        return f"{grounds} (if {self.premise}{until})"

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return self.sentence()


def _named_row(row: int | tuple[int, int]) -> str:
    return f"{'AB'[row[0]]}[{row[1]}]" if isinstance(row, tuple) else str(row)


def tolerance(
    *samples: ArrayLike,
    claim: str | None = None,
    confidence: float = 0.95,
    assume: Any = None,
    vote: str = "auto",
    paired: bool = False,
    adversary: Adversary = "oblivious",
    contamination: Allowed = 0.01,
    rng: Rng = None,
    **options: Any,
) -> Tolerance:
    """Count the corrupt rows that a conclusion survives.

    Parameters
    ----------
    *samples : array-like
        One sample and a `claim` about its mean or a quantile, or two samples a and b, whose means are compared.
    claim : str, optional
        ``"mean > 0"``, ``"mean < 12.5"``; ``"p99 < 300"``, ``"median > 3"``, which need no `assume`; for two samples
        ``"difference > 0"`` (mean(b) - mean(a)). Without one, for two samples, the conclusion is the sign of the
        difference, and the intervals are two-sided.
    confidence : float
        Confidence (1 - δ) of the sentence.
    assume, vote
        As for `mean`.
    paired : bool
        Whether row i of a belongs to row i of b; then rows are pairs.
    adversary : {"oblivious", "adaptive"}
        Whether the corrupt positions are independent of the clean values, or were chosen after seeing them.
    contamination : float, int or Contamination
        How many rows may be corrupt in the estimate that is shown. Where nothing is declared, an sd is read off the
        rows for this number, and serves for all.
    rng : int, Generator or None
        Seed of votes of blocks.
    **options
        As for `mean`: nan_policy; partition and remainder for votes of blocks.

    Returns
    -------
    Tolerance
        ``print`` it for the sentence.

    Notes
    -----
    The conclusion must stand at *every* level up to the one reported; for two samples level t allows t corrupt rows in
    both together, wherever they are. That makes the sentence valid without splitting δ between the levels: if it is
    false, t* ≤ `rows` rows are corrupt and the conclusion is wrong; but then the conclusion stood at level t*, where
    its interval misses the truth with probability δ at most. Intervals by evidence are nested, so the number is exact;
    with votes of blocks levels beyond 64 share the interval of the next one in a grid that grows by 2 %.

    Peak memory: O(n), about five times the samples.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(10.0, size=4000), rng.normal(11.8, size=6000)
    >>> print(ov.tolerance(a, b, assume=ov.FiniteVariance(1.0)))
    B beats A by 1.84 ± 0.12; this stands unless more than 1 999 of the 10 000 rows are corrupt.
    >>> print(ov.tolerance(rng.exponential(50, size=10_000), claim="p99 < 260"))
    p99 < 260: it is 223 (188 to 234); this stands unless more than 3 455 of the 10 000 rows are corrupt.
    """
    names = ("x",) if len(samples) == 1 else tuple(f"sample {s + 1}" for s in range(len(samples)))
    rows = [read_rows(sample, name, booleans=True) for sample, name in zip(samples, names, strict=True)]
    for sample, name in zip(rows, names, strict=True):
        if sample.ndim != 1:
            raise ValueError(f"{name} has shape {sample.shape}: tolerance takes one column at a time")
    for fixed in ("alternative", "axis", "simultaneous", "relative", "function"):
        if fixed in options:
            raise TypeError(f"{fixed}={options[fixed]!r} does not go with tolerance: state the conclusion as a claim")
    for name in options:
        if name not in ("nan_policy", "n_blocks", "partition", "remainder"):
            raise TypeError(f"tolerance has no argument {name!r}: see help(outvote.tolerance)")
    adversary = _adversary(adversary, contamination)
    about_quantile = QuantileClaim.read(claim)
    if about_quantile is not None:
        if paired or len(rows) != 1 or assume is not None or vote not in ("auto", "evidence"):
            raise ValueError(
                f"claim={claim!r} is about a quantile of one sample: leave out paired, assume and vote; compare two "
                "samples by claim='difference > 0' or by outvote.quantile_difference"
            )
        return _of_quantile(about_quantile, rows[0], confidence, adversary, contamination, options)
    if paired:
        if len(rows) != 2 or len(rows[0]) != len(rows[1]):
            raise ValueError("paired=True needs two samples with as many rows")
        if assume is None and rows[0].dtype == rows[1].dtype == bool:
            assume = Bounded(-1.0, 1.0)
        rows = [np.subtract(rows[1], rows[0], dtype=np.float64)]
        claim = claim.replace("difference", "mean") if claim else None
    sign, bound, text = _read_claim(claim, paired, len(rows))
    terms = Terms(
        log_delta_of(confidence), adversary, "two-sided" if sign is None else "greater" if sign > 0 else "less"
    )
    request = Request.read(contamination, confidence, vote=vote, votes=VoteName, n_samples=len(rows), **options)
    if request.evidence:
        declared = map(implied, rows, per_sample("assume", assume, len(rows)))
        known = [None if one is None else one_assumption(one) for one in declared]
        return _by_evidence(rows, known, request, terms, sign, bound, text, paired=paired)
    vote = request.with_blocks().vote if request.by_blocks else vote
    settings = {"assume": assume, "vote": vote, "rng": seed_of(rng), **options}
    sides = sample_sides(rows, confidence, adversary, settings, sign=sign)
    found = curve(sides, bound=bound, shown=False)
    first = _fewest_corrupt(rows, [side.certain for side in sides], confidence, adversary, settings)
    if paired:
        first = replace(first, statistic="paired difference")
    if sign is None:
        sign = found.sign or (1 if float(first.estimate) >= bound else -1)
        text = text.replace("?", ">" if sign > 0 else "<")
    stands = found.stands if found.sign == sign else None
    return Tolerance(stands, found.n_rows, text, confidence, first)


def _adversary(adversary: Adversary, contamination: Any) -> Adversary:
    """Return who is allowed for: by the argument, or by the contamination that was given."""
    check_choice("adversary", adversary, Adversary)
    if isinstance(contamination, str):
        raise TypeError(
            f"contamination={contamination!r}: tolerance varies the corrupt rows itself: give a fraction or a count"
        )
    return (
        contamination.adversary if isinstance(contamination, Contamination) and adversary == "oblivious" else adversary
    )


def _of_quantile(
    claim: QuantileClaim,
    rows: NDArray[Any],
    confidence: float,
    adversary: Adversary,
    contamination: Allowed,
    options: dict[str, Any],
) -> Tolerance:
    """Count the rows of a claim about a quantile, which needs no premise."""
    request = Request.read(contamination, confidence, vote="auto", votes=VoteName, **options)
    terms = Terms(log_delta_of(confidence), adversary, "less" if claim.relation.startswith("<") else "greater")
    found, deciding, estimate = weigh_quantile_claim(claim, rows, request, terms)
    return Tolerance(
        found,
        len(rows) - estimate.n_omitted * (request.nan_policy == "omit"),
        claim.text,
        confidence,
        estimate,
        tuple(deciding),
    )


def _by_evidence(
    rows: Sequence[NDArray[Any]],
    assumed: Sequence[Assumption | None],
    request: Request,
    terms: Terms,
    sign: int | None,
    bound: float,
    text: str,
    *,
    paired: bool,
) -> Tolerance:
    """Count the rows by evidence, which is nested in their number."""
    allowed = Contamination(request.allowed.amount, terms.adversary)
    names = ("x",) if len(rows) == 1 else ("sample 1", "sample 2")
    parts = zip(rows, names, assumed, strict=True)
    ordered = [order_columns(x, name, [assume], request.nan_policy)[0] for x, name, assume in parts]
    weighed = weigh(ordered, assumed, allowed, terms)
    assumed_rows = max(sum(weighed.counts), weighed.certain)
    likely = 1 if weighed.plain >= bound else -1
    stands = {one: weighed.stands(bound, one, weighed.certain) for one in ((sign,) if sign else (likely, -likely))}
    sign = max(stands, key=lambda one: (stands[one] is not None, stands[one] or 0))
    rows_found = stands[sign]
    estimate = _shown(ordered, assumed, request, terms, paired=paired)
    deciding: list[Any] = []
    largest: float | tuple[float, ...] = math.nan
    if rows_found is not None:
        deciding = weighed.deciding(bound, sign, rows_found + 1)
        if weighed.conditional and rows_found >= assumed_rows:
            sds = weighed.largest_premise(bound, sign, assumed_rows)
            largest = sds[0] if len(sds) == 1 else sds
    return Tolerance(
        rows_found,
        weighed.n_rows,
        text.replace("?", ">" if sign > 0 else "<"),
        math.exp(math.log1p(-math.exp(terms.log_delta))),
        estimate,
        tuple(deciding if len(rows) == 2 else (position for _, position in deciding)),
        weighed.premise(),
        largest,
    )


def _shown(
    ordered: Sequence[Ordered], assumed: Sequence[Assumption | None], request: Request, terms: Terms, *, paired: bool
) -> RobustEstimate:
    """Estimate for the contamination that was assumed, or for as many rows as the rows themselves ask for."""
    two_sided, n_rows = terms.two_sided, [len(one.column) for one in ordered]
    least = max(Contamination(request.allowed.amount).counts(n_rows))
    allowed = Contamination(request.allowed.amount, terms.adversary)
    while True:
        asked = replace(request, terms=two_sided, contamination=allowed)
        try:
            if len(ordered) == 1:
                found = mean_by_evidence(OrderedTable.of(ordered[0], assumed[0]), asked, two_sided)
                return replace(found, statistic="paired difference") if paired else found
            return difference_by_evidence(ordered, assumed, asked, relative=False, counted=None)
        except MoreCorruptRows as more:
            least = max(more.count, least + 1)
        except ContradictionError:  # with so few corrupt rows nothing fits
            most = (min(n_rows) - 1) // 2
            if least >= most:
                raise
            least = min(2 * least + 1, most)
        allowed = Contamination(least, terms.adversary)


def sample_sides(
    rows: Sequence[NDArray[Any]],
    confidence: float,
    adversary: Adversary,
    settings: dict[str, Any],
    *,
    sign: int | None = None,
    parts: int | None = None,
    assumed: Sequence[int] | None = None,
    guarded: bool = False,
) -> list[Side]:
    """Prepare the intervals of one sample, or of a and b, for every number of corrupt rows.

    They hold together with the confidence, or with others, `parts` in all. `sign` says which side of the mean, or of
    mean(b) - mean(a), is claimed; None asks for both. Entries of `settings` that are pairs go to a and to b.
    """
    share = -math.expm1(log_delta_of(confidence) - math.log(parts or len(rows)))
    sides = []
    for s, sample in enumerate(rows):
        own = {
            name: value[s] if len(rows) == 2 and isinstance(value, (tuple, list)) and len(value) == 2 else value
            for name, value in settings.items()
        }
        claimed = None if sign is None else sign if s == len(rows) - 1 else -sign
        own["alternative"] = {None: "two-sided", 1: "greater", -1: "less"}[claimed]
        run = partial(_mean_at, sample, share, adversary, own)
        sides.append(Side(len(sample), assumed[s] if assumed else 0, run, guarded))
    return sides


def _mean_at(
    sample: NDArray[Any], confidence: float, adversary: Adversary, settings: dict[str, Any], count: int
) -> RobustEstimate:
    return vote_of_blocks(sample, Contamination(count, adversary), confidence, **settings)


def _fewest_corrupt(
    rows: Sequence[NDArray[Any]], certain: Sequence[int], confidence: float, adversary: Adversary, settings: Any
) -> RobustEstimate:
    """Estimate with as few corrupt rows as there are for certain: none, or those that are found to be."""
    count = max(certain)
    if len(rows) == 1:
        return _mean_at(rows[0], confidence, adversary, settings, count)
    return difference(rows[0], rows[1], Contamination(count, adversary), confidence, **settings)


def _read_claim(claim: str | None, paired: bool, n_samples: int) -> tuple[int | None, float, str]:
    """Return the direction (None if open), the number to compare with, and the claim in words."""
    subject = "difference" if paired or n_samples == 2 else "mean"
    if n_samples not in (1, 2):
        raise TypeError(f"tolerance takes one sample or two, not {n_samples}")
    if claim is None:
        if n_samples == 1 and not paired:
            raise TypeError("tolerance of one sample needs a claim, claim='mean > 0' for instance")
        return None, 0.0, f"{subject} ? 0"
    match = _CLAIM.fullmatch(claim) if isinstance(claim, str) else None
    if not match or (match[1] == "difference" and n_samples == 1) or (match[1] == "mean" and n_samples == 2):
        other = "" if n_samples == 2 else ", or 'p99 < 300' for a quantile"
        raise ValueError(f"claim={claim!r} must read like '{subject} > 0' or '{subject} < 12.5'{other}")
    try:
        bound = float(match[3])
    except ValueError:
        bound = math.nan
    if not math.isfinite(bound):
        raise ValueError(f"claim={claim!r} compares with {match[3]!r}, which is not a finite number")
    return (1 if match[2].startswith(">") else -1), bound, f"{subject} {match[2]} {match[3]}"
