"""Up to how many corrupt rows a conclusion is proved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.assumptions import Bounded
from outvote.blocks.partition import Rng, seed_of
from outvote.contamination import Adversary, Contamination
from outvote.data.arguments import check_choice, check_flags, log_delta_of
from outvote.data.missing import ContradictionError, MoreCorruptRows
from outvote.data.rows import read_rows
from outvote.data.tensors import to_host
from outvote.estimate.claim import Claim
from outvote.estimate.compared import Compared, read_compared
from outvote.estimate.curve import Side, curve
from outvote.estimate.difference import difference
from outvote.estimate.difference_by_evidence import difference_by_evidence
from outvote.estimate.evidence import OrderedTable, mean_by_evidence
from outvote.estimate.mean import vote_of_blocks
from outvote.estimate.quantile_claim import QuantileClaim, weigh_quantile_claim
from outvote.estimate.request import Allowed, Request
from outvote.estimate.result import Later, RobustEstimate, named
from outvote.estimate.summary import RowSummary
from outvote.estimate.tolerance_result import Tolerance
from outvote.votes import Alternative, Terms, VoteName


def tolerance(
    *samples: ArrayLike | RowSummary,
    claim: str | None = None,
    confidence: float = 0.95,
    assume: Any = None,
    vote: str = "auto",
    paired: bool = False,
    adversary: Adversary = "oblivious",
    contamination: Allowed = 0.01,
    rng: Rng = None,
    ratio: bool = False,
    covariate: Any = None,
    coefficient: Any = None,
    **options: Any,
) -> Tolerance:
    """Say up to how many corrupt rows a conclusion is proved.

    The number is a lower bound: to overturn the conclusion takes at least one row more.

    Parameters
    ----------
    *samples : array-like or RowSummary
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
        Whether it depends on their true values which rows are corrupt: as for `Contamination`.
    contamination : float, int or Contamination
        How many rows may be corrupt in the estimate that is shown. Where nothing is declared, an sd is read off the
        rows for this number, and serves for all.
    rng : int, Generator or None
        Seed of votes of blocks.
    ratio, covariate, coefficient
        As for `difference`: rows are pairs (denominator, numerator), whose claim about one sample may read
        ``"ratio > 0.2"``; two samples are adjusted by a covariate.
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
    >>> print(ov.tolerance(a, b, assume=ov.FiniteVariance(1.0)))  # doctest: +NORMALIZE_WHITESPACE
    B is larger than A by 1.84 ± 0.12 (95 %, allowing for 100 corrupt rows); that it is larger stands unless more than
    1 999 of the 10 000 rows are corrupt.
    >>> waits = rng.exponential(50, size=10_000)
    >>> print(ov.tolerance(waits, claim="p99 < 260"))  # doctest: +NORMALIZE_WHITESPACE
    p99 < 260: it is 223 (188 to 234; 95 %, allowing for 100 corrupt rows); the claim stands unless more than 3 455 of
    the 10 000 rows are corrupt.
    """
    about_quantile = QuantileClaim.read(claim)
    _check_options(options)
    check_flags(paired=paired, ratio=ratio)
    adversary = _adversary(adversary, contamination)
    metric = {"ratio": ratio, "covariate": covariate, "coefficient": coefficient}
    adjusted = ratio or covariate is not None or coefficient is not None
    if adjusted and (paired or about_quantile is not None):
        raise ValueError("ratio and covariate go without paired, and with a claim about a mean or a difference")
    rows: list[Any] = list(samples) if adjusted else _read(samples, stay=not paired and about_quantile is None)
    summaries = any(isinstance(one, RowSummary) for one in rows)
    if summaries and (paired or about_quantile is not None):
        raise ValueError("a RowSummary has no single rows: leave out paired, and state a claim about the mean")
    if about_quantile is not None:
        if paired or len(rows) != 1 or assume is not None or vote not in ("auto", "evidence"):
            raise ValueError(
                f"claim={claim!r} is about a quantile of one sample: leave out paired, assume and vote; compare two "
                "samples by claim='difference > 0' or by outvote.quantile_difference"
            )
        return _of_quantile(about_quantile, rows[0], confidence, adversary, contamination, options)
    if paired:
        rows, assume = _gaps(rows, assume)
        claim = claim.replace("difference", "mean") if isinstance(claim, str) else claim
    sign, bound, text = _read_claim(claim, paired, len(rows), ratio=ratio)
    side: Alternative = "two-sided" if sign is None else "greater" if sign > 0 else "less"
    terms = Terms(log_delta_of(confidence), adversary, side)
    allowed = Contamination(Contamination.of(contamination).amount, adversary)
    request = Request.read(allowed, confidence, vote=vote, votes=VoteName, n_samples=len(rows), **options)
    if request.evidence or adjusted:
        compared = read_compared(rows, request, assume, names=_names(len(rows)), **metric)
        return _by_evidence(compared, request, terms, sign, bound, text, paired=paired)
    if summaries:
        raise ValueError("a RowSummary goes by evidence: leave out vote, n_blocks, partition and remainder")
    rows = [to_host(one) for one in rows]
    vote = request.with_blocks().vote if request.by_blocks else vote
    settings = {"assume": assume, "vote": vote, "rng": seed_of(rng), **options}
    sides = sample_sides(rows, confidence, adversary, settings, sign=sign)
    found = curve(sides, bound=bound, shown=False)
    first = _fewest_corrupt(rows, [side.certain for side in sides], confidence, adversary, settings)
    if paired:
        first = named("paired difference", first)
    if sign is None:
        sign = found.sign or (1 if float(first.estimate) >= bound else -1)
        text = text.replace("?", ">" if sign > 0 else "<")
    stands = found.stands if found.sign == sign else None
    return Tolerance(stands, found.n_rows, text, confidence, first)


def _gaps(rows: Sequence[Any], assume: Any) -> tuple[list[Any], Any]:
    """Return the differences of paired rows, and what is known of them."""
    if len(rows) != 2 or len(rows[0]) != len(rows[1]):
        raise ValueError("paired=True needs two samples with as many rows")
    if assume is None and rows[0].dtype == rows[1].dtype == bool:
        assume = Bounded(-1.0, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):  # of infinite rows
        return [np.subtract(rows[1], rows[0], dtype=np.float64)], assume


def _names(n_samples: int) -> tuple[str, ...]:
    """Return what the samples are called in messages."""
    return ("x",) if n_samples == 1 else tuple("ab"[:n_samples]) if n_samples == 2 else ("x",) * n_samples


def _read(samples: Sequence[Any], *, stay: bool) -> list[Any]:
    """Read each sample, one column; a summary stays what it is, and a tensor where it is if asked for."""
    rows: list[Any] = []
    for sample, name in zip(samples, _names(len(samples)), strict=True):
        rows.append(sample if isinstance(sample, RowSummary) else read_rows(sample, name, booleans=True, stay=stay))
        if not isinstance(sample, RowSummary) and rows[-1].ndim != 1:
            raise ValueError(f"{name} has shape {tuple(rows[-1].shape)}: tolerance takes one column at a time")
    return rows


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuse options that there are not."""
    for fixed in ("alternative", "axis", "simultaneous", "relative", "function"):
        if fixed in options:
            raise TypeError(f"{fixed}={options[fixed]!r} does not go with tolerance: state the conclusion as a claim")
    for name in options:
        if name not in ("nan_policy", "n_blocks", "partition", "remainder"):
            raise TypeError(f"tolerance has no argument {name!r}: see help(outvote.tolerance)")


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
    compared: Compared, request: Request, terms: Terms, sign: int | None, bound: float, text: str, *, paired: bool
) -> Tolerance:
    """Count the rows by evidence, which is nested in their number."""
    ordered = compared.ordered
    weighed = compared.weigh(request.allowed, terms)
    assumed_rows = max(sum(weighed.counts), weighed.certain)
    likely = 1 if weighed.plain >= bound else -1
    stands = {one: weighed.stands(bound, one, weighed.certain) for one in ((sign,) if sign else (likely, -likely))}
    sign = max(stands, key=lambda one: (stands[one] is not None, stands[one] or 0))
    rows_found = stands[sign]
    estimate = _shown(compared, request, terms, paired=paired)
    deciding: Sequence[Any] = ()
    largest: float | tuple[float, ...] = math.nan
    if rows_found is not None:
        if all(one.has_rows for one in ordered):
            find = partial(weighed.deciding, bound, sign, rows_found + 1)
            deciding = Later(find if len(ordered) == 2 else lambda: [position for _, position in find()])
        if weighed.conditional and rows_found >= assumed_rows:
            sds = weighed.largest_premise(bound, sign, assumed_rows)
            largest = sds[0] if len(sds) == 1 else sds
    return Tolerance(
        rows_found,
        weighed.n_rows,
        text.replace("?", ">" if sign > 0 else "<"),
        math.exp(math.log1p(-math.exp(terms.log_delta))),
        estimate,
        deciding,
        weighed.premise(),
        largest,
        weighed.misfit() if rows_found is None else "",
    )


def _shown(compared: Compared, request: Request, terms: Terms, *, paired: bool) -> RobustEstimate:
    """Estimate for the contamination that was assumed, or for as many rows as the rows themselves ask for."""
    two_sided, n_rows = terms.two_sided, compared.n_rows
    allowed = request.allowed
    least = max(allowed.counts(n_rows))
    while True:
        asked = replace(request, terms=two_sided, contamination=allowed)
        try:
            if len(n_rows) == 1:
                found = mean_by_evidence(OrderedTable.of(compared.ordered, compared.assumed), asked, two_sided)
                return named("paired difference", found) if paired else found
            return difference_by_evidence(compared, asked, relative=False, counted=None)
        except MoreCorruptRows as more:
            least = max(more.count, least + 1)
            if 2 * least >= min(n_rows):
                raise
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


def _read_claim(
    claim: str | None, paired: bool, n_samples: int, *, ratio: bool = False
) -> tuple[int | None, float, str]:
    """Return the direction (None if open), the number to compare with, and the claim in words."""
    subject = "difference" if paired or n_samples == 2 else "ratio" if ratio else "mean"
    if n_samples not in (1, 2):
        raise TypeError(f"tolerance takes one sample or two, not {n_samples}")
    if claim is None:
        if n_samples == 1 and not paired:
            raise TypeError("tolerance of one sample needs a claim, claim='mean > 0' for instance")
        return None, 0.0, f"{subject} ? 0"
    subjects = ["difference"] if n_samples == 2 else ["mean", "ratio"] if ratio else ["mean"]
    hint = "" if n_samples == 2 else ", or 'p99 < 300' for a quantile"
    found = Claim.read(claim, subjects, hint)
    return found.sign, found.bound, subject + found.text.removeprefix(found.subject)
