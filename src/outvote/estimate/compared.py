"""Samples that are ready to be weighed, whatever they are compared by: means, ratios, means adjusted by a covariate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from outvote.assumptions import Assumption
from outvote.contamination import Contamination
from outvote.data.arguments import per_sample
from outvote.data.missing import NanPolicy
from outvote.data.rows import read_rows
from outvote.estimate.adjusted import adjusted
from outvote.estimate.ordered import Ordered
from outvote.estimate.ratios import ratio_assumptions, read_ratios
from outvote.estimate.request import Assumed, Request, per_column
from outvote.estimate.screened import implied, order_columns
from outvote.estimate.summary import RowSummary
from outvote.estimate.weigh import Weighed, weigh
from outvote.votes import Terms


@dataclass(frozen=True)
class Compared:
    """One sample, or two.

    Attributes
    ----------
    ordered : tuple of Ordered
        The rows of each sample.
    assumed : tuple of Assumption or None
        What is known of the clean ones.
    ratio : bool
        Whether ratios of means are asked for.
    sizes : tuple of int or None
        How many rows each sample has, if some of them were held out.
    baseline : Ordered or None
        The values of a, if they were adjusted.
    note : str
        What the comparison rests on.
    names : sequence of str
        What the samples are called.
    """

    ordered: tuple[Ordered, ...]
    assumed: Assumed
    ratio: bool = False
    sizes: tuple[int, ...] | None = None
    baseline: Ordered | None = None
    note: str = ""
    names: Sequence[str] = "ab"

    @property
    def statistic(self) -> str:
        """What a difference of the two is called."""
        if self.ratio:
            return "difference of ratios"
        return "difference" if self.baseline is None else "adjusted difference"

    @property
    def n_rows(self) -> list[int]:
        """How many rows each sample has."""
        return list(self.sizes or (one.n_rows for one in self.ordered))

    def weigh(
        self, contamination: Contamination, terms: Terms, *, relative: bool = False, together: bool | None = None
    ) -> Weighed:
        """Prepare the samples; as many rows may be corrupt as of all, even if some were held out.

        They are counted together unless there is a number for each sample, or `together` says so.
        """
        counts = contamination.counts(self.sizes or [one.n_rows for one in self.ordered])
        together = not isinstance(contamination.amount, tuple) if together is None else together
        options: Any = {"relative": relative, "together": together, "names": self.names}
        return replace(weigh(self.ordered, self.assumed, counts, terms, **options), sizes=self.sizes)

    def if_real(self, weighed: Weighed, *, together: bool) -> Weighed | None:
        """Return the samples as if the rows that are taken to be corrupt were real, and that many fewer corrupt.

        None if none is.
        """
        gross = [one.number if one else 0 for one in weighed.gross]
        if not sum(gross):
            return None
        counts = [max(m - g, one.n_found) for m, g, one in zip(weighed.counts, gross, self.ordered, strict=True)]
        if together and len(counts) == 2:
            left = max(sum(weighed.counts) - sum(gross), weighed.certain)
            counts[0] = max(min(counts[0], left - self.ordered[1].n_found), self.ordered[0].n_found)
            counts[1] = left - counts[0]
        options: Any = {"relative": weighed.relative, "together": together, "names": self.names, "screened": False}
        return replace(weigh(self.ordered, self.assumed, tuple(counts), weighed.terms, **options), sizes=self.sizes)


def read_compared(
    samples: Sequence[Any],
    request: Request,
    assume: Any,
    *,
    names: Sequence[str] = "ab",
    ratio: bool = False,
    covariate: Any = None,
    coefficient: Any = None,
) -> Compared:
    """Read one column, or a numerator and a denominator, of each sample; arguments as for `difference`."""
    check_metric(ratio=ratio, covariate=covariate, coefficient=coefficient)
    policy = request.nan_policy
    if (ratio or covariate is not None) and not request.evidence:
        what = "ratio=True" if ratio else "covariate"
        raise ValueError(f"{what} goes by evidence: leave out vote, n_blocks, partition and remainder")
    if ratio:
        known = ratio_assumptions(assume, len(samples))
        rows = [read_ratios(*one, policy) for one in zip(samples, names, known, strict=True)]
        return Compared(tuple(rows), known, ratio=True, names=names)
    each = per_sample("assume", assume, len(samples))
    if covariate is not None:
        known = per_column(each, 2)
        who = (request.contamination, request.terms.adversary)
        found = adjusted(samples, covariate, coefficient, known, *who, policy, names)
        sizes = found.sizes if coefficient is None else None
        return Compared(found.ordered, known, False, sizes, found.baseline, found.note, names)
    columns = [ordered_rows(*one, policy) for one in zip(samples, names, each, strict=True)]
    ordered, assumed = zip(*columns, strict=True)
    return Compared(ordered, assumed, names=names)


def check_metric(*, ratio: bool, covariate: Any, coefficient: Any) -> None:
    """Refuse what does not go together."""
    if ratio and covariate is not None:
        raise ValueError(
            "ratio and covariate do not go together: the mean of the covariate would have to be known. Leave one out"
        )
    if coefficient is not None and covariate is None:
        raise ValueError(f"coefficient={coefficient!r} is that of a covariate: give covariate=(before_a, before_b)")


def ordered_rows(
    x: ArrayLike | RowSummary, name: str, assume: Any, nan_policy: NanPolicy
) -> tuple[Ordered, Assumption | None]:
    """Return one column of rows, or of a summary, and what is known of it."""
    if isinstance(x, RowSummary):
        (known,) = per_column(assume, 1)
        return x.ordered(known), known
    rows = read_rows(x, name, booleans=True, stay=True)
    if rows.ndim != 1:
        raise ValueError(f"{name} has shape {tuple(rows.shape)}: it must be one column here")
    (known,) = per_column(implied(rows, assume, x), 1)
    return order_columns(rows, name, [known], nan_policy)[0], known
