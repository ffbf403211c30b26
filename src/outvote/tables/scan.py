"""The class `Scan`: the same questions to any engine, and the same answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from outvote.assumptions import Proportion
from outvote.blocks.partition import Rng, seed_of
from outvote.contamination import Adversary, Contamination
from outvote.data.missing import NanPolicy
from outvote.estimate.compared import check_metric
from outvote.estimate.difference import difference
from outvote.estimate.request import Allowed, NBlocks, Request, per_column
from outvote.estimate.result import RobustEstimate
from outvote.estimate.tolerance import tolerance
from outvote.estimate.tolerance_result import Tolerance
from outvote.estimate.u_statistic import kernel_assumptions
from outvote.kernels import kernel_of
from outvote.kernels.variance import VARIANCE
from outvote.tables.by_blocks import difference_by_blocks, mean_by_blocks, u_statistic_by_blocks
from outvote.tables.counted import counted
from outvote.tables.engine import ANSWER, Engine, Key, Query, Tally, samples_of
from outvote.tables.evidence import MEAN_ANSWER, Gathered, bins_for, gather, in_memory, mean_by_group, mean_of_all
from outvote.tables.gathered import FETCHED, MiscountedRowsError
from outvote.tables.labels import check_one_name, column_names, two_labels
from outvote.tables.plans import usable
from outvote.tables.quantiles import QUANTILE_ANSWER, quantile_of_all, quantile_request, quantiles_by_group
from outvote.tables.suspects import SUSPECTS, suspects_of
from outvote.tables.variants import Variants, compare_variants
from outvote.votes import Alternative, VoteName


class Scan:
    """Data in a table, in files or on a cluster, opened by `outvote.scan`.

    Rows are read when a method is called. Few rows are brought here as they are; of many, the engine counts in bins
    where they are, and only the counts are brought here. The bins are chosen by the same rows on every engine, so that
    all give the same answer, however the rows are split.
    """

    def __init__(self, engine: Engine):
        self._engine = engine

    def __repr__(self) -> str:
        return f"Scan({self._engine})"

    def mean(
        self,
        column: str | Sequence[str],
        by: str | Sequence[str] | None = None,
        contamination: Any = 0.01,
        confidence: float = 0.95,
        assume: Any = None,
        rng: Rng = None,
        *,
        vote: str = "auto",
        n_blocks: NBlocks = "auto",
        nan_policy: NanPolicy = "raise",
        alternative: Alternative = "two-sided",
        simultaneous: bool = False,
    ) -> Any:
        """Estimate the mean of a column, or of several.

        Parameters
        ----------
        column : str or sequence of str
            The columns to average. A row is used if it has a number in each of these columns.
        by : str or sequence of str, optional
            Keys: one answer for each group. `contamination` and `confidence` apply to each group.
        contamination, confidence, assume, nan_policy, alternative, simultaneous
            As for `outvote.mean`; NULL is NaN. Columns of booleans are proportions, as there.
        vote : str
            As for `outvote.mean`: "auto" goes by evidence unless `n_blocks` is given; "median", "soft" and "clipped"
            are votes of blocks, to which a hash of the row id assigns the rows.
        rng, n_blocks
            For votes of blocks, as for `outvote.mean`; n_blocks="auto" means 1 000 001 blocks at most.

        Returns
        -------
        RobustEstimate, or a table of the kind the data came in
            With `by` a table, sorted by the keys. By evidence: the keys, estimate, low, high, n, corrupt (rows allowed
            for), provenance, premise_sd (the largest sd of clean rows that it holds for, if it was read off the rows),
            and a note that gives the reason if there is no answer. By blocks: the keys, estimate, low, high, radius,
            provenance, n, blocks, survives (how many corrupt rows the vote allows for) and a note. Several columns have
            one line each, with the name in `column`.
        """
        one = isinstance(column, str)
        if not _by_evidence(vote, n_blocks):
            query = self._query(column, by)
            request = _block_request(contamination, confidence, vote, nan_policy, alternative, rng, n_blocks)
            assumed = per_column(assume, len(query.columns))
            return mean_by_blocks(self._engine, query, request, assumed, one=one, simultaneous=simultaneous)
        query = self._query(column, by, MEAN_ANSWER)
        request = Request.read(
            contamination, confidence, vote="auto", votes=VoteName, nan_policy=nan_policy, alternative=alternative,
            rng=rng,
        )  # fmt: skip
        known = per_column(assume, len(query.columns))
        assumed = tuple(self._known(*pair) for pair in zip(query.columns, known, strict=True))
        if by is not None:
            portions = self._portions(query, request, bins_for(assumed))
            return mean_by_group(self._engine, query, portions, request, assumed, one=one, simultaneous=simultaneous)
        found, n_omitted = self._gathered(query, request, bins_for(assumed))
        answer = mean_of_all(query, found, request, assumed, one=one, simultaneous=simultaneous)
        return replace(answer, n_omitted=max(answer.n_omitted, n_omitted))

    def proportion(
        self,
        column: str,
        by: str | Sequence[str] | None = None,
        contamination: Any = 0.01,
        confidence: float = 0.95,
        *,
        nan_policy: NanPolicy = "raise",
        alternative: Alternative = "two-sided",
    ) -> Any:
        """Estimate the share of ones in a column of 0 and 1, or of booleans: exact intervals, nothing else is assumed.

        Parameters
        ----------
        column : str
            A column of 0 and 1, or of booleans.
        by, contamination, confidence, nan_policy, alternative
            As for `mean`.

        Returns
        -------
        RobustEstimate, or a table of the kind the data came in
            As for `mean`.
        """
        check_one_name(column=column)
        return self.mean(
            column, by, contamination, confidence, Proportion(), nan_policy=nan_policy, alternative=alternative
        )

    def difference(
        self,
        value: str,
        by: str,
        a: Any = None,
        b: Any = None,
        contamination: Any = 0.01,
        confidence: float = 0.95,
        assume: Any = None,
        rng: Rng = None,
        *,
        baseline: Any = None,
        vote: str = "auto",
        n_blocks: NBlocks = "auto",
        nan_policy: NanPolicy = "raise",
        alternative: Alternative = "two-sided",
        relative: bool = False,
    ) -> RobustEstimate | Any:
        """Estimate mean(b) - mean(a) of a column, for groups of rows given by another column.

        Parameters
        ----------
        value : str
            The column to average.
        by : str
            The column with the group of each row.
        a, b : optional
            Labels of the two groups; if there are only two groups, the smaller label is `a` by default.
        baseline : optional
            Label of the group that the others are compared with, in a table; see `variants`.
        contamination, confidence, assume, rng, vote, n_blocks, nan_policy, alternative, relative
            As for `outvote.difference`; votes of blocks as for `mean`.

        Returns
        -------
        RobustEstimate, or a table of the kind the data came in
            With a baseline the table of `variants`.
        """
        check_one_name(value=value, by=by)
        if baseline is not None and (a is not None or b is not None):
            raise ValueError(f"baseline={baseline!r} is the group a: leave out a and b")
        if not _by_evidence(vote, n_blocks):
            query = self._query(value, by)
            request = _block_request(contamination, confidence, vote, nan_policy, alternative, rng, n_blocks, 2)
            labels = (baseline if a is None else a, b)
            return difference_by_blocks(self._engine, query, labels, request, assume, relative=relative)
        if baseline is not None:
            if relative or alternative != "two-sided":
                raise ValueError("baseline gives a table with lifts, whose intervals have two sides: leave out "
                                 "relative and alternative")  # fmt: skip
            return self.variants(value, by, baseline, contamination, confidence, assume, nan_policy=nan_policy)
        query = self._query(value, by)
        settings: dict[str, Any] = {
            "contamination": contamination, "confidence": confidence, "assume": self._known(value, assume),
            "alternative": alternative, "relative": relative, "nan_policy": nan_policy,
        }  # fmt: skip
        request = Request.read(
            contamination, confidence, vote="auto", votes=VoteName, nan_policy=nan_policy, n_samples=2
        )
        tallies = counted(self._engine, query, request, ids=self._engine.has_ids)
        first, second = two_labels(tallies, by, a, b)
        found = self._chosen(query, tallies, request, [first, second], settings["assume"])
        answer = difference(found[first], found[second], **settings)
        names = f"a is {by} = {first!r}, b is {by} = {second!r}."
        return replace(answer, detail=" ".join(filter(None, [names, answer.detail])))

    def variants(
        self,
        value: str,
        by: str,
        baseline: Any = None,
        contamination: Any = 0.01,
        confidence: float = 0.95,
        assume: Any = None,
        *,
        segments: str | Sequence[str] | None = None,
        unit: str | None = None,
        ratio: str | None = None,
        covariate: str | None = None,
        coefficient: Any = None,
        paired: str | None = None,
        simultaneous: bool = False,
        nan_policy: NanPolicy = "raise",
    ) -> Any:
        """Compare every other variant with a baseline; ``outvote.difference(frame, value=…, by=…)`` is this.

        Parameters
        ----------
        value, by : str
            The column to compare, and the column with the variant of each row.
        baseline : optional
            Label of the variant that the others are compared with; the smallest by default.
        contamination, confidence, assume, nan_policy
            As for `outvote.difference`. A number of corrupt rows is one of each variant, in each segment.
        segments : str or sequence of str, optional
            Columns: each combination of their values has lines of its own.
        unit : str, optional
            The column of the users, whose rows are added up first, those of `ratio` and `covariate`, too. A covariate
            that is the same in all rows of each user is taken once. A user with NaN in one row has NaN.
        ratio : str, optional
            The column of denominators: ratios of means are compared.
        covariate : str, optional
            The column of a covariate that the arms cannot have changed.
        coefficient : float or pair of array-like, optional
            Of the covariate, as for `outvote.difference`.
        paired : str, optional
            The column of users who are in several variants: their rows are added up in each, and paired.
        simultaneous : bool
            Whether `confidence` is for all lines at once: for all differences, and for all lifts.

        Returns
        -------
        A table of the kind the data came in
            The segments; variant; n and baseline_n, rows or users; estimate, low, high of the difference; lift,
            lift_low, lift_high; tolerance, how many corrupt rows in both the sign of the difference survives; settled,
            whether that is as many as `contamination` says; and a note: what the line rests on, or why it is empty.
        """
        check_one_name(value=value, by=by)
        request = Request.read(
            contamination, confidence, vote="auto", votes=VoteName, nan_policy=nan_policy, n_samples=2
        )
        asked = Variants.read(
            self._engine, value=value, by=by, baseline=baseline, segments=segments, unit=unit, ratio=ratio,
            covariate=covariate, coefficient=coefficient, paired=paired, assume=assume, simultaneous=simultaneous,
        )  # fmt: skip
        check_metric(ratio=ratio is not None, covariate=covariate, coefficient=coefficient)
        return compare_variants(self._engine, asked, request)

    def tolerance(
        self,
        column: str,
        by: str | None = None,
        a: Any = None,
        b: Any = None,
        claim: str | None = None,
        confidence: float = 0.95,
        assume: Any = None,
        contamination: Allowed = 0.01,
        *,
        adversary: Adversary = "oblivious",
        nan_policy: NanPolicy = "raise",
    ) -> Tolerance:
        """Count the corrupt rows that a conclusion about a column survives; name the rows that decide by their ids.

        Parameters
        ----------
        column : str
            The column to average. Up to a million rows are brought into memory; of more, the engine counts in bins, and
            no rows are named.
        by : str, optional
            The column with the group of each row, if two groups are compared.
        a, b : optional
            Labels of the two groups, as for `difference`.
        claim, confidence, assume, contamination, adversary, nan_policy
            As for `outvote.tolerance`.

        Returns
        -------
        Tolerance
            `deciding` has row ids: those of `row_id`, or the numbers of the rows, from 0 on.
        """
        check_one_name(column=column, **({} if by is None else {"by": by}))
        query = self._query(column, by)
        request = Request.read(
            contamination, confidence, vote="auto", votes=VoteName, nan_policy=nan_policy, n_samples=1 + bool(by)
        )
        settings: dict[str, Any] = {
            "claim": claim, "confidence": confidence, "assume": assume, "contamination": contamination,
            "adversary": adversary, "nan_policy": nan_policy,
        }  # fmt: skip
        tallies = counted(self._engine, query, request, ids=self._engine.has_ids)
        labels: tuple[Key, ...] = ((),) if by is None else two_labels(tallies, by, a, b)
        if not self._engine.in_memory and sum(tallies[one].n_rows for one in labels) > FETCHED:
            found = self._chosen(query, tallies, request, labels, assume)
            return tolerance(*(found[label] for label in labels), **settings)
        rows, numbers = zip(*samples_of(self._engine, query, labels), strict=True)
        answer = tolerance(*rows, **settings)
        if by is None:
            return replace(answer, deciding=tuple(int(numbers[0][i]) for i in answer.deciding))
        return replace(answer, deciding=tuple((s, int(numbers[s][i])) for s, i in answer.deciding))

    def suspects(
        self,
        value: str,
        by: str | Sequence[str] | None = None,
        contamination: Any = 0.01,
        top: int = 20,
        partitions: int = 200,
        rng: Rng = 0,
    ) -> Any:
        """List the rows of a column that look corrupt, as `outvote.suspects` does; the rows are brought here."""
        check_one_name(value=value)
        query = self._query(value, by, SUSPECTS)
        return suspects_of(self._engine, query, Contamination.of(contamination), top, partitions, seed_of(rng))

    def quantile(
        self,
        column: str,
        q: Any = 0.5,
        by: str | Sequence[str] | None = None,
        contamination: Any = 0.01,
        confidence: float = 0.95,
        *,
        nan_policy: NanPolicy = "raise",
        alternative: Alternative = "two-sided",
        simultaneous: bool = False,
    ) -> Any:
        """Estimate quantiles of a column; nothing is assumed of its clean rows.

        Parameters
        ----------
        column : str
            The column. Of more than a million rows that are not in memory, the engine counts in bins, and the ends are
            ends of bins.
        q : float or sequence of float
            Which quantiles, strictly between 0 and 1.
        by : str or sequence of str, optional
            Keys: one answer for each group. `contamination` and `confidence` apply to each group.
        contamination, confidence, nan_policy, alternative, simultaneous
            As for `outvote.quantile`: NULL is NaN, infinities are values.

        Returns
        -------
        RobustEstimate, or a table of the kind the data came in
            With `by` a table, sorted by the keys: the keys, q if there are several, estimate, low, high, n, corrupt
            (rows allowed for), provenance, and a note where there is no answer, or too few rows for an end.
        """
        check_one_name(column=column)
        query = replace(self._query(column, by, QUANTILE_ANSWER), infinite=True)
        settings = {
            "q": q, "contamination": contamination, "confidence": confidence, "nan_policy": nan_policy,
            "alternative": alternative, "simultaneous": simultaneous,
        }  # fmt: skip
        request = quantile_request(settings)
        if by is not None:
            return quantiles_by_group(self._engine, query, self._portions(query, request, [None]), settings)
        found, n_omitted = self._gathered(query, request, [None])
        answer = quantile_of_all(self._engine, query, found, settings)
        return replace(answer, n_omitted=max(answer.n_omitted, n_omitted))

    def variance(self, column: str, **options: Any) -> RobustEstimate:
        """Estimate the variance of a column; options as for `u_statistic`. The rows are not shuffled."""
        return self.u_statistic(column, kernel=VARIANCE, **options)

    def u_statistic(
        self,
        column: str | Sequence[str],
        kernel: Any,
        contamination: Allowed = 0.01,
        confidence: float = 0.95,
        assume: Any = None,
        rng: Rng = None,
        *,
        vote: str = "median",
        n_blocks: NBlocks = "auto",
        nan_policy: NanPolicy = "raise",
        alternative: Alternative = "two-sided",
    ) -> RobustEstimate:
        """Estimate a one-sample U-statistic; the rows are brought together one block at a time.

        Parameters
        ----------
        column : str or sequence of str
            The column of numbers, or the columns of the vectors, that the kernel takes.
        kernel : str or Kernel
            As for `outvote.u_statistic`.
        contamination, confidence, assume, rng, vote, n_blocks, nan_policy, alternative
            As for `outvote.u_statistic`.
        """
        query, named = self._query(column, None), kernel_of(kernel)
        if len(named.degrees) != 1:
            raise ValueError(f"kernel {named.name!r} takes {len(named.degrees)} samples, but a scan has one")
        request = _block_request(contamination, confidence, vote, nan_policy, alternative, rng, n_blocks)
        assumed = kernel_assumptions(assume, 1, named)
        vectors = not isinstance(column, str)
        return u_statistic_by_blocks(self._engine, query, named, request, assumed, vectors=vectors)

    # --- the steps ---------------------------------------------------------------------------------------

    def _query(
        self, column: str | Sequence[str], by: str | Sequence[str] | None, answer: Mapping[str, Any] = ANSWER
    ) -> Query:
        columns, keys = column_names(column, "column"), () if by is None else column_names(by, "by")
        self._engine.check_names({"column": columns, "by": keys})
        clash = next((name for name in keys if name in answer), None)
        if clash is not None:
            raise ValueError(f"by={clash!r} is also the name of a column of the answer: rename it")
        return Query(columns, keys)

    def _known(self, column: str, assume: Any) -> Any:
        """Return what is known of a column: what is declared; if nothing is, that booleans are 0 or 1."""
        return Proportion() if assume is None and self._engine.is_boolean(column) else assume

    def _gathered(self, query: Query, request: Request, fixed: Sequence[Any]) -> tuple[Gathered, int]:
        """Gather what evidence needs of all rows, and say how many were left out."""
        engine = self._engine
        if engine.in_memory and (found := in_memory(engine, query, request.nan_policy)) is not None:
            return found
        n_rows = engine.n_rows()
        if n_rows:  # all may be finite
            with suppress(MiscountedRowsError):
                (some,) = gather(engine, query, {(): Tally(n_rows, 0, 0)}, request, fixed)
                if all(len(rows) == n_rows and np.isfinite(rows).all() for rows in some.groups.rows):
                    return some, 0
        tallies = counted(engine, query, request, ids=engine.has_ids)
        (some,) = gather(engine, query, tallies, request, fixed)
        return some, sum(one.n_rows - usable(one, request) for one in tallies.values())

    def _portions(self, query: Query, request: Request, fixed: Sequence[Any]) -> Iterator[Gathered]:
        """Gather what evidence needs of each group, some at a time."""
        engine = self._engine
        if engine.in_memory and (found := in_memory(engine, query, request.nan_policy)) is not None:
            yield found[0]
            return
        yield from gather(engine, query, counted(engine, query, request, ids=engine.has_ids), request, fixed)

    def _chosen(
        self, query: Query, tallies: Mapping[Key, Tally], request: Request, labels: Sequence[Key], assume: Any
    ) -> dict[Key, Any]:
        """Return the rows of some groups, all of which must have some, or their summaries."""
        for label in labels:
            if usable(tallies[label], request) == 0:
                raise ValueError(f"{query.by[0]}={label!r} has no usable rows: at least one row is needed")
        known = assume if isinstance(assume, (tuple, list)) else [assume]
        fixed = bins_for((Proportion(),) if all(isinstance(one, Proportion) for one in known) else (None,))
        portions = gather(self._engine, query, tallies, request, fixed, labels)
        return {label: found.sample(label) for found in portions for label in found.labels}


def _by_evidence(vote: str, n_blocks: NBlocks) -> bool:
    """Return whether a question goes by evidence: if it is asked to, or nothing is said of votes and blocks."""
    if vote == "evidence" and n_blocks != "auto":
        raise ValueError("vote='evidence' has no blocks: leave out n_blocks")
    return vote in ("auto", "evidence") and n_blocks == "auto"


def _block_request(
    contamination: Any,
    confidence: float,
    vote: str,
    nan_policy: NanPolicy,
    alternative: Alternative,
    rng: Rng,
    n_blocks: NBlocks,
    n_samples: int = 1,
) -> Request:
    """Check the arguments that do not depend on the groups; per-group errors go into the note column."""
    if isinstance(contamination, str) and contamination == "auto":
        raise ValueError(
            "contamination='auto' goes by evidence: leave out vote and n_blocks, or give a fraction or count"
        )
    return Request.read(
        contamination, confidence, vote="median" if vote == "auto" else vote, n_blocks=n_blocks, n_samples=n_samples,
        partition="hash", nan_policy=nan_policy, alternative=alternative, rng=rng,
    )  # fmt: skip
