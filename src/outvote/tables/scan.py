"""The class `Scan`: count the rows, choose the blocks, let them vote and return a table, on any engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from outvote.blocks.partition import Rng
from outvote.blocks.plan import BlockPlan
from outvote.contamination import Adversary
from outvote.data.arguments import per_sample
from outvote.data.columns import refuse_all_text, refuse_text
from outvote.data.files import check_name
from outvote.data.missing import NanPolicy
from outvote.estimate.block_values import voters
from outvote.estimate.difference import subtract
from outvote.estimate.request import Allowed, Assumed, NBlocks, Request, per_column
from outvote.estimate.result import RobustEstimate
from outvote.estimate.scales import SpreadOfValues
from outvote.estimate.summary import BlockSummary, conclude_summary, vote_on_summary
from outvote.estimate.tolerance import tolerance
from outvote.estimate.tolerance_result import Tolerance
from outvote.estimate.u_statistic import kernel_assumptions
from outvote.estimate.voting import Part, conclude
from outvote.estimate.voting import vote as let_vote
from outvote.kernels import Kernel, kernel_of
from outvote.kernels.variance import VARIANCE
from outvote.tables.engine import ANSWER, Engine, Key, Query, Tally, samples_of
from outvote.tables.evidence import MEAN_ANSWER, mean_by_evidence, usable_columns
from outvote.tables.frames import EagerEngine
from outvote.tables.labels import check_one_name, column_names, sortable, two_labels
from outvote.tables.plans import check_found, completed, plan_for, plans_of, usable
from outvote.tables.quantiles import QUANTILE_ANSWER, quantile_request, quantile_table, rows_by_group
from outvote.votes import Alternative, Terms, VoteName

_HEADS = tuple(ANSWER)[1:]


class Scan:
    """Data in a table, in files or on a cluster, opened by `outvote.scan`.

    Rows are read when a method is called. A hash of the row id determines the block of a row, so that the same seed
    gives the same answer on every engine, however the rows are split.
    """

    def __init__(self, engine: Engine):
        self._engine = engine

    def __repr__(self) -> str:
        return f"Scan({self._engine})"

    def mean(
        self,
        column: str | Sequence[str],
        by: str | Sequence[str] | None = None,
        contamination: Allowed = 0.01,
        confidence: float = 0.95,
        assume: Any = None,
        rng: Rng = None,
        *,
        vote: str | None = None,
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
        contamination, confidence, assume, rng, n_blocks, nan_policy, alternative, simultaneous
            As for `outvote.mean`; NULL is NaN, and n_blocks="auto" means 1 000 001 blocks at most.
        vote : str, optional
            As for `outvote.mean`. By default a frame in memory goes by evidence, as "auto" there does, unless
            `n_blocks` is given; elsewhere blocks vote by their median, and "auto" is the vote with the smallest radius.

        Returns
        -------
        RobustEstimate, or a table of the kind the data came in
            With `by` a table, sorted by the keys. By evidence: the keys, estimate, low, high, n, corrupt (rows allowed
            for), provenance, premise_sd (the largest sd of clean rows that it holds for, if it was read off the rows),
            and a note that gives the reason if there is no answer. By blocks: the keys, estimate, low, high, radius,
            provenance, n, blocks, survives (how many corrupt rows the vote allows for) and a note. Several columns have
            one line each, with the name in `column`.
        """
        if self._by_evidence(vote, n_blocks):
            query = self._query(column, by, MEAN_ANSWER)
            request = Request.read(
                contamination, confidence, vote="auto", votes=VoteName, nan_policy=nan_policy, alternative=alternative,
                rng=rng,
            )  # fmt: skip
            assumed = per_column(assume, len(query.columns))
            values = usable_columns(self._engine.columns(query), nan_policy)  # type: ignore[attr-defined]
            if values is None:  # what is wrong is said as for other engines
                self._checked(query, request)
            one = isinstance(column, str)
            return mean_by_evidence(self._engine, query, values, request, assumed, one=one, simultaneous=simultaneous)
        vote = vote or "median"
        query = self._query(column, by)
        request = _request(contamination, confidence, vote, nan_policy, alternative, rng, n_blocks)
        assumed = per_column(assume, len(query.columns))
        terms = request.terms.shared(len(assumed) if simultaneous else 1)
        tallies, plans, summaries = self._summed(query, request, assumed, terms)
        one_column = isinstance(column, str)
        found: dict[Key, RobustEstimate | str] = {}
        for key, plan in plans.items():
            if isinstance(plan, str):
                found[key] = plan
                continue
            summary = completed(summaries[key], tallies[key], request)
            summary.shape = () if one_column else (len(query.columns),)
            summary.names = None if one_column else query.columns
            found[key] = conclude_summary(summary, request, plan, assumed, terms, self._hash_note().strip())
        if by is None:
            answer = found[()]
            assert isinstance(answer, RobustEstimate)
            return answer
        rows = {key: usable(tally, request) for key, tally in tallies.items()}
        return self._table(query, found, rows, None if one_column else query.columns)

    def difference(
        self,
        column: str,
        by: str,
        a: Any = None,
        b: Any = None,
        contamination: Allowed = 0.01,
        confidence: float = 0.95,
        assume: Any = None,
        rng: Rng = None,
        *,
        vote: str = "median",
        n_blocks: NBlocks = "auto",
        nan_policy: NanPolicy = "raise",
        alternative: Alternative = "two-sided",
        relative: bool = False,
    ) -> RobustEstimate:
        """Estimate mean(b) - mean(a) of a column, for two groups of rows given by another column.

        Parameters
        ----------
        column : str
            The column to average.
        by : str
            The column with the group of each row.
        a, b : optional
            Labels of the two groups; if there are only two groups, the smaller label is `a` by default.
        contamination, confidence, assume, rng, vote, n_blocks, nan_policy, alternative, relative
            As for `outvote.difference`.
        """
        check_one_name(column=column, by=by)
        query = self._query(column, by)
        request = _request(contamination, confidence, vote, nan_policy, alternative, rng, n_blocks, n_samples=2)
        known = [per_column(one, 1) for one in per_sample("assume", assume, 2)]
        terms = request.terms.shared(2)
        terms = replace(terms, alternative="two-sided") if relative else terms
        tallies = self._checked(query, request)
        labels = two_labels(tallies, by, a, b)
        sizes = [usable(tallies[label], request) for label in labels]
        for label, size in zip(labels, sizes, strict=True):
            if size == 0:
                raise ValueError(f"{by}={label!r} has no usable rows: at least one row is needed")
        request.allowed.counts(sizes)
        plans = [plan_for(request, size, one, terms, s) for s, (size, one) in enumerate(zip(sizes, known, strict=True))]
        blocks = {label: plan.n_blocks for label, plan in zip(labels, plans, strict=True)}
        found = self._engine.summaries(query, blocks, request.seed)
        voted, n_out = [], 0
        for label, plan, one in zip(labels, plans, known, strict=True):
            summary = completed(found[label], tallies[label], request)
            summary.shape = (1,)
            voted.append(vote_on_summary(summary, plan, one, terms))
            n_out += summary.n_omitted + summary.n_found_corrupt
        names = f"a is {by} = {labels[0]!r}, b is {by} = {labels[1]!r}."
        return subtract(request, voted, relative=relative, n_omitted=n_out, detail=names + self._hash_note())

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
        """Count the corrupt rows that a conclusion about a column survives, and name the rows that decide by their ids.

        Parameters
        ----------
        column : str
            The column to average; it is brought into memory.
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
        request = _request(contamination, confidence, "median", nan_policy, "two-sided", None, "auto", 1 + bool(by))
        tallies = self._checked(query, request)
        labels = ((),) if by is None else two_labels(tallies, by, a, b)
        rows, numbers = zip(*samples_of(self._engine, query, labels), strict=True)
        found = tolerance(
            *rows, claim=claim, confidence=confidence, assume=assume, contamination=contamination,
            adversary=adversary, nan_policy=nan_policy,
        )  # fmt: skip
        if by is None:
            return replace(found, deciding=tuple(int(numbers[0][i]) for i in found.deciding))
        return replace(found, deciding=tuple((s, int(numbers[s][i])) for s, i in found.deciding))

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
            The column; it is brought into memory.
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
        query = self._query(column, by, QUANTILE_ANSWER)
        settings = {
            "q": q, "contamination": contamination, "confidence": confidence, "nan_policy": nan_policy,
            "alternative": alternative, "simultaneous": simultaneous,
        }  # fmt: skip
        self._checked(query, quantile_request(settings), infinite=True)
        return quantile_table(self._engine, query, rows_by_group(self._engine, query), settings)

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
        request = _request(contamination, confidence, vote, nan_policy, alternative, rng, n_blocks)
        assumed = kernel_assumptions(assume, 1, named)
        terms = request.terms.about(assumed[0], named.degrees)
        tally = self._checked(query, request)[()]
        n_rows, vectors = usable(tally, request), not isinstance(column, str)
        named.check([np.broadcast_to(0.0, (n_rows, len(query.columns)) if vectors else (n_rows,))])
        plan = request.plan((n_rows,), terms)
        assert isinstance(plan, BlockPlan)
        check_found(tally, request, plan.n_corrupt, plan.n_rows)
        sizes, values = self._block_values(query, named, plan.n_blocks, request.seed, vectors=vectors)
        keep = sizes >= plan.degree
        plan = voters(plan, sizes, keep)
        sizes, values = sizes[keep], values[keep]
        centres, certificate = let_vote(plan, [sizes], [Part(values[None])], assumed, terms, SpreadOfValues())
        return conclude(
            request,
            centres,
            certificate,
            plan,
            values,
            [sizes],
            assumed=assumed,
            statistic=named.name,
            n_omitted=tally.n_missing + tally.n_infinite,
            detail=self._hash_note().strip(),
        )

    def _block_values(
        self, query: Query, kernel: Kernel, n_blocks: int, seed: int, *, vectors: bool
    ) -> tuple[Any, Any]:
        """Return the number of rows and the kernel's value of each block; the value is NaN if it has too few rows."""
        sizes, values = np.zeros(n_blocks, dtype=np.int64), np.full(n_blocks, np.nan)
        if kernel.moment_form is not None:
            summary = self._engine.summaries(query, {(): n_blocks}, seed)[()]
            sizes[:] = summary.counts
            return sizes, kernel.moment_form(sizes, summary.m2.reshape(-1))
        for _, block, rows in self._engine.blocks(query, {(): n_blocks}, seed):
            sizes[block] = len(rows)
            stack = rows if vectors else rows[:, 0]
            if len(rows) >= kernel.degrees[0]:
                values[block] = kernel.fit([stack]).aligned(stack[None])[0]
        return sizes, values

    def _by_evidence(self, vote: str | None, n_blocks: NBlocks) -> bool:
        """Return whether a mean goes by evidence: in memory, unless blocks are asked for."""
        here = isinstance(self._engine, EagerEngine)
        if vote == "evidence" and not here:
            raise ValueError(f"vote='evidence' needs a frame in memory, and this is a {self._engine}: leave vote out")
        return here and (vote == "evidence" or (vote in (None, "auto") and n_blocks == "auto"))

    # --- the steps ---------------------------------------------------------------------------------------

    def _query(
        self, column: str | Sequence[str], by: str | Sequence[str] | None, answer: Mapping[str, Any] = ANSWER
    ) -> Query:
        columns, keys = column_names(column, "column"), () if by is None else column_names(by, "by")
        there = self._engine.names()
        for argument, names in (("column", columns), ("by", keys)):
            for name in names:
                check_name(argument, name, there)
        clash = next((name for name in keys if name in answer), None)
        if clash is not None:
            raise ValueError(f"by={clash!r} is also the name of a column of the answer: rename it")
        return Query(columns, keys)

    def _summed(
        self, query: Query, request: Request, assumed: Assumed, terms: Terms
    ) -> tuple[dict[Key, Tally], dict[Key, BlockPlan | str], dict[Key, BlockSummary]]:
        """Count the rows, choose the blocks, and sum them up; the count is skipped if the number of rows is known."""
        n_rows = None if query.by else self._engine.n_rows()
        if n_rows:
            with suppress(ValueError):  # errors are raised after the count
                found = self._summed_as({(): Tally(n_rows, 0, 0)}, query, request, assumed, terms)
                if found[2][()].n_rows == n_rows:  # else some rows are not finite
                    return found
        return self._summed_as(self._checked(query, request), query, request, assumed, terms)

    def _summed_as(
        self, tallies: dict[Key, Tally], query: Query, request: Request, assumed: Assumed, terms: Terms
    ) -> tuple[dict[Key, Tally], dict[Key, BlockPlan | str], dict[Key, BlockSummary]]:
        plans = plans_of(tallies, request, assumed, terms, must=not query.by)
        blocks = {key: plan.n_blocks for key, plan in plans.items() if isinstance(plan, BlockPlan)}
        return tallies, plans, self._engine.summaries(query, blocks, request.seed) if blocks else {}

    def _checked(self, query: Query, request: Request, *, infinite: bool = False) -> dict[Key, Tally]:
        """Count the rows, and apply the NaN policy to the counts; infinite rows may be values."""
        tallies = self._engine.tally(query)
        if not query.by and not tallies:
            tallies = {(): Tally(0, 0, 0)}
        total = sum(tallies.values(), start=Tally(0, 0, 0))
        total = replace(total, n_infinite=0) if infinite else total
        which = ", ".join(map(repr, query.columns))
        if total.example is not None:
            file, row, text = total.example
            if total.n_unreadable == total.n_rows:
                refuse_all_text(query.columns[0], text, str(self._engine))
            if request.nan_policy != "corrupt":
                refuse_text(", ".join(query.columns), file, row, text, total.n_unreadable)
        bad = total.n_missing + total.n_infinite
        if request.nan_policy == "raise" and bad:
            raise ValueError(
                f"column {which} has NULL, NaN or infinite values in {bad} of {total.n_rows} rows: "
                "nan_policy='corrupt' counts such rows as corrupt, nan_policy='omit' leaves out rows with NULL or NaN"
            )
        if request.nan_policy == "omit" and total.n_infinite:
            raise ValueError(
                f"column {which} has infinite values, which are not missing, in {total.n_infinite} of {total.n_rows} "
                "rows: nan_policy='corrupt' counts such rows as corrupt"
            )
        if not query.by and usable(tallies[()], request) == 0:
            raise ValueError(f"column {which} has no usable rows: at least one row is needed")
        return tallies

    def _hash_note(self) -> str:
        return "" if self._engine.hashed == "portable" else f" The blocks are those of the {self._engine.hashed} hash."

    def _table(
        self,
        query: Query,
        found: Mapping[Key, RobustEstimate | str],
        rows: Mapping[Key, int],
        columns: tuple[str, ...] | None,
    ) -> Any:
        lines: list[tuple[Any, ...]] = []
        for key in sorted(found, key=sortable):
            labels = key if isinstance(key, tuple) and len(query.by) > 1 else (key,)
            for j, name in enumerate(columns or (None,)):
                lines.append((*labels, *(() if name is None else (name,)), *_line(found[key], rows[key], j)))
        heads = [*query.by, *(() if columns is None else ("column",)), *_HEADS]
        return self._engine.frame({head: [line[i] for line in lines] for i, head in enumerate(heads)})


def _line(found: RobustEstimate | str, n_rows: int, j: int) -> tuple[Any, ...]:
    """Return the cells for one column of one group, in the order of the heads."""
    if isinstance(found, str):
        return (None, None, None, None, "none", n_rows, 0, 0, found)
    numbers = (float(np.ravel(v)[j]) for v in np.broadcast_arrays(found.estimate, *found.interval, found.radius))
    note = found.certificate.note if found.certificate.provenance == "none" else ""
    plan = found.plan
    assert isinstance(plan, BlockPlan)
    return (*numbers, found.certificate.provenance, plan.n_rows, plan.n_blocks, plan.withstands, note)


def _request(
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
        raise ValueError("contamination='auto' needs the rows in memory: use outvote.mean, or give a fraction or count")
    return Request.read(
        contamination, confidence, vote=vote, n_blocks=n_blocks, n_samples=n_samples, partition="hash",
        nan_policy=nan_policy, alternative=alternative, rng=rng,
    )  # fmt: skip
