"""The command line: ``outvote mean``, ``quantile``, ``compare``, ``report``, ``monitor``, ``plan`` and others.

Exit codes: 0, success; 1, an answer in which something has no interval or failed; 2, wrong usage or unreadable data.
All modules but typer are imported by the command that needs them, so that ``outvote --help`` is quick.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from outvote.data.packages import install_command

try:
    import typer
except ModuleNotFoundError:  # pragma: no cover - tested in an environment without it
    sys.exit(f"the command line needs typer and rich: {install_command('typer', 'rich')}")

from outvote.cli import other_commands
from outvote.cli.app import app, command, form_of, once, one, opened, typed
from outvote.cli.arguments import (
    OUTPUT,
    AsCsv,
    AsJson,
    Baseline,
    Bounds,
    Claim,
    Coefficient,
    Column,
    Confidence,
    Corrupt,
    Covariate,
    Decimal,
    Encoding,
    Keys,
    Kind,
    Kurtosis,
    Looks,
    MeanVote,
    MeanVoting,
    Missing,
    Nan,
    Paths,
    Planned,
    Ratio,
    Scale,
    Sd,
    Seed,
    Segments,
    Sheet,
    Simultaneous,
    Threshold,
    Unit,
    Vote,
    Voting,
    ZeroOne,
)


@command(
    "outvote mean orders.csv --value revenue",
    "outvote mean orders.xlsx --value revenue --value cost --by country --contamination 0.5%",
)
def mean(
    files: Paths,
    value: Column = None,
    by: Keys = None,
    contamination: Corrupt = "0.01",
    confidence: Confidence = 0.95,
    sd: Sd = None,
    bounds: Bounds = None,
    proportion: ZeroOne = False,
    kurtosis: Kurtosis = None,
    scale: Scale = None,
    vote: MeanVoting = MeanVote.auto,
    row_id: Annotated[
        str | None,
        typer.Option(
            "--row-id",
            metavar="COLUMN",
            help="Distinct integers: the order of the rows does not matter then, and they stay in their files.",
        ),
    ] = None,
    nan: Missing = Nan.refuse,
    seed: Seed = 0,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity", metavar="", help="Also show how the answer depends on the number of corrupt rows."
        ),
    ] = False,
    kind: Kind = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    sheet: Sheet = None,
    json: AsJson = False,
    csv: AsCsv = False,
) -> None:
    """Estimate a mean, plain and robust, with an interval.

    plain: the average of all rows. robust: an estimate of the mean of the clean
    rows. low, high: their mean lies between these two, if no more rows are
    corrupt than --contamination says. holds: "certified" (proved), or "if sd ≤ 2"
    (proved if the standard deviation of the clean rows is at most this number,
    which was read off the rows). survives: how many corrupt rows the interval
    allows for. Below: the same if none, 0.1 % or 1 % of the rows are corrupt.
    """
    from outvote.cli import printing
    from outvote.cli.mean import means_by_id, means_of_each
    from outvote.cli.options import read_options
    from outvote.data.columns import read_columns

    form = form_of(json, csv)
    asked = read_options(contamination, confidence, sd, bounds, kurtosis, scale, vote, nan, seed, proportion)
    if row_id is not None and sensitivity:
        raise ValueError("--row-id leaves the rows in their files, --sensitivity needs them in memory: use one")
    if row_id is not None and asked.contamination == "auto":
        raise ValueError("--row-id leaves the rows in their files, --contamination auto needs them in memory: use one")
    with opened(files, value, kind, encoding, decimal, sheet) as (source, progress):
        if row_id is not None:
            answer = means_by_id(source, one(value), once(by), row_id, asked)
        else:
            first, *others = once(value)
            columns = read_columns(source, first, once(by), more=others)
            answer = means_of_each(columns, asked, str(source), levels=sensitivity, progress=progress)
    raise typer.Exit(printing.show(answer, form))


@command(
    "outvote quantile orders.csv --value wait --q 0.5,0.95",
    "outvote quantile logs/*.parquet --value wait --by server --q 0.99",
)
def quantile(
    files: Paths,
    value: Column = None,
    by: Keys = None,
    q: Annotated[
        str, typer.Option("--q", metavar="SHARE[,SHARE…]", help="Which quantiles, 0.5,0.95 for instance.")
    ] = "0.5",
    contamination: Corrupt = "0.01",
    confidence: Confidence = 0.95,
    nan: Missing = Nan.refuse,
    kind: Kind = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    sheet: Sheet = None,
    json: AsJson = False,
    csv: AsCsv = False,
) -> None:
    """Estimate quantiles with intervals that hold for any distribution of the clean rows.

    low, high: rows between which the quantile of the clean rows lies, for as
    many corrupt rows as --contamination allows; a dash where there are too few.
    """
    from outvote.cli import printing
    from outvote.cli.options import quantiles_of, read_options
    from outvote.cli.quantile import quantiles_of_each
    from outvote.data.columns import read_columns

    form, shares = form_of(json, csv), quantiles_of(q)
    asked = read_options(contamination, confidence, None, None, None, None, Vote.auto, nan, 0)
    with opened(files, value, kind, encoding, decimal, sheet) as (source, progress):
        first, *others = once(value)
        columns = read_columns(source, first, once(by), more=others)
        answer = quantiles_of_each(columns, shares, asked, str(source), progress=progress)
    raise typer.Exit(printing.show(answer, form))


@command(
    "outvote compare orders.csv --value revenue --by variant",
    "outvote compare orders.csv --value converted --by variant --baseline A --proportion",
)
def compare(
    files: Paths,
    by: Annotated[str, typer.Option("--by", metavar="COLUMN", help="The column with the variant of each row.")],
    value: Column = None,
    baseline: Baseline = None,
    ratio: Ratio = None,
    covariate: Covariate = None,
    coefficient: Coefficient = None,
    unit: Unit = None,
    segment: Segments = None,
    simultaneous: Simultaneous = False,
    contamination: Corrupt = "0.01",
    confidence: Confidence = 0.95,
    sd: Sd = None,
    bounds: Bounds = None,
    proportion: ZeroOne = False,
    kurtosis: Kurtosis = None,
    scale: Scale = None,
    vote: Voting = Vote.auto,
    nan: Missing = Nan.refuse,
    seed: Seed = 0,
    kind: Kind = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    sheet: Sheet = None,
    json: AsJson = False,
    csv: AsCsv = False,
) -> None:
    """Compare variants with a baseline, and count how many corrupt rows it takes to overturn the conclusion."""
    from outvote.cli import printing
    from outvote.cli.compare import compare as compare_variants
    from outvote.cli.options import distinct_columns, read_options, with_metric
    from outvote.data.columns import read_columns

    form = form_of(json, csv)
    asked = read_options(contamination, confidence, sd, bounds, kurtosis, scale, vote, nan, seed, proportion)
    asked = with_metric(asked, ratio, covariate, coefficient, unit, simultaneous)
    with opened(files, value, kind, encoding, decimal, sheet) as (source, progress):
        keys = distinct_columns(one(value), by, segment, asked)
        columns = read_columns(source, one(value), keys, more=asked.more, unit=unit)
        answer = compare_variants(columns, asked, str(source), baseline=baseline, progress=progress)
    raise typer.Exit(printing.show(answer, form))


@command(
    "outvote report orders.csv --value revenue --by variant",
    "outvote report orders.csv --value wait --threshold 30 -o waits.html",
)
def report(
    context: typer.Context,
    files: Paths,
    value: Column = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="COLUMN", help="The column with the variants; without it, one mean.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File for the page.")] = Path(
        "report.html"
    ),
    baseline: Baseline = None,
    threshold: Threshold = None,
    ratio: Ratio = None,
    covariate: Covariate = None,
    coefficient: Coefficient = None,
    unit: Unit = None,
    segment: Segments = None,
    simultaneous: Simultaneous = False,
    contamination: Corrupt = "0.01",
    confidence: Confidence = 0.95,
    sd: Sd = None,
    bounds: Bounds = None,
    proportion: ZeroOne = False,
    kurtosis: Kurtosis = None,
    scale: Scale = None,
    vote: Voting = Vote.auto,
    nan: Missing = Nan.refuse,
    seed: Seed = 0,
    kind: Kind = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    sheet: Sheet = None,
) -> None:
    """Write a page with the answer, how many corrupt rows overturn it, and how it was computed.

    The page is one HTML file that needs no network. The answer is also printed.
    """
    from outvote.cli import printing
    from outvote.cli.options import distinct_columns, read_options, with_metric
    from outvote.cli.report import write_report
    from outvote.data.columns import read_columns

    asked = read_options(contamination, confidence, sd, bounds, kurtosis, scale, vote, nan, seed, proportion)
    asked = with_metric(asked, ratio, covariate, coefficient, unit, simultaneous)
    with opened(files, value, kind, encoding, decimal, sheet) as (source, progress):
        keys = distinct_columns(one(value), by, segment, asked)
        written = write_report(
            output,
            read_columns(source, one(value), keys, more=asked.more, unit=unit),
            asked,
            str(source),
            inputs=source.given,
            command=typed(context),
            baseline=baseline,
            threshold=threshold,
            progress=progress,
        )
    printing.write("".join(f"{printing.clean(sentence, None)}\n" for sentence in written.sentences))
    printing.message(f"written to {written.path}")
    raise typer.Exit(0 if written.complete else 1)


@command(
    "outvote monitor orders.csv --value revenue --time day --by variant",
    "outvote monitor orders.csv --value revenue --time day --claim 'mean > 30'",
)
def monitor(
    files: Paths,
    time: Annotated[str, typer.Option("--time", metavar="COLUMN", help="The column with the time of each row.")],
    value: Column = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="COLUMN", help="The column with the two variants; without it, one mean."),
    ] = None,
    baseline: Baseline = None,
    claim: Claim = None,
    looks: Looks = 20,
    plan: Planned = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", metavar="FILE", rich_help_panel=OUTPUT, help="File for a picture.")
    ] = None,
    contamination: Corrupt = "0.01",
    confidence: Confidence = 0.95,
    sd: Sd = None,
    bounds: Bounds = None,
    proportion: ZeroOne = False,
    kurtosis: Kurtosis = None,
    scale: Scale = None,
    nan: Missing = Nan.refuse,
    kind: Kind = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    sheet: Sheet = None,
    json: AsJson = False,
    csv: AsCsv = False,
) -> None:
    """Replay a log in the order of its times, and show at each look what the rows so far decide.

    The intervals hold at all looks together, so one may stop at any of them.
    A share of corrupt rows ε allows for ε·n + 2 of the first n rows of a variant.
    """
    from outvote.cli import printing
    from outvote.cli.monitor import watch
    from outvote.cli.options import read_options
    from outvote.data.columns import read_columns
    from outvote.data.writing import check_output

    form = form_of(json, csv)
    asked = read_options(contamination, confidence, sd, bounds, kurtosis, scale, Vote.auto, nan, 0, proportion)
    if asked.contamination == "auto":
        raise ValueError("--contamination auto needs all rows at once: a monitor takes a share (0.01) or a number (50)")
    with opened(files, value, kind, encoding, decimal, sheet) as (source, progress):
        if len({one(value), time, by}) < 3:
            raise ValueError("--value, --time and --by must be different columns")
        if figure is not None:
            check_output("--figure", figure, source.given, "looks.png")
        columns = read_columns(source, one(value), (time,) if by is None else (time, by))
        answer = watch(
            columns, asked, str(source), claim=claim, baseline=baseline, n_looks=looks, n_plan=plan, figure=figure,
            progress=progress,
        )  # fmt: skip
    raise typer.Exit(printing.show(answer, form))


@command(
    "outvote describe orders.csv",
    "outvote describe orders.xlsx --sheet 2 --contamination 0.5% --csv",
)
def describe(
    files: Paths,
    contamination: Corrupt = "0.01",
    confidence: Confidence = 0.95,
    kind: Kind = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    sheet: Sheet = None,
    json: AsJson = False,
    csv: AsCsv = False,
) -> None:
    """Sum up every column of numbers: its mean, plain and robust, quantiles, and how many rows look suspect.

    Cells without a number are missing. Columns of which most cells are text are left out.
    """
    from outvote.cli import printing
    from outvote.cli.describe import describe_file
    from outvote.cli.options import read_options

    form = form_of(json, csv)
    asked = read_options(contamination, confidence, None, None, None, None, Vote.auto, Nan.omit, 0)
    if asked.contamination == "auto":
        raise ValueError("--contamination auto is for one mean at a time: give a share (0.01) or a number of rows (50)")
    with opened(files, ["every"], kind, encoding, decimal, sheet) as (source, _):
        answer = describe_file(source, asked)
    raise typer.Exit(printing.show(answer, form))


@command(
    "outvote suspects orders.csv --value revenue",
    "outvote suspects orders.csv --value revenue --by country --top 50",
)
def suspects(
    files: Paths,
    value: Column = None,
    by: Keys = None,
    top: Annotated[int, typer.Option("--top", metavar="NUMBER", min=1, help="How many rows to list.")] = 20,
    partitions: Annotated[
        int, typer.Option("--partitions", metavar="NUMBER", min=1, help="Number of random partitions.")
    ] = 200,
    contamination: Corrupt = "0.01",
    seed: Seed = 0,
    kind: Kind = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    sheet: Sheet = None,
    json: AsJson = False,
    csv: AsCsv = False,
) -> None:
    """List the rows that look corrupt, by how often their block is voted out over many random partitions.

    Cells that are not numbers come first. A high score is a reason to look at a row, not a proof.
    """
    from outvote.cli import printing
    from outvote.cli.options import read_options
    from outvote.cli.suspects import suspects as rank_suspects
    from outvote.data.columns import read_columns

    form = form_of(json, csv)
    asked = read_options(contamination, 0.95, None, None, None, None, Vote.median, Nan.corrupt, seed)
    with opened(files, value, kind, encoding, decimal, sheet) as (source, progress):
        columns = read_columns(source, one(value), once(by))
        answer = rank_suspects(columns, asked, str(source), top=top, partitions=partitions, progress=progress)
    raise typer.Exit(printing.show(answer, form))


other_commands.register()


def _is_mistake(error: BaseException) -> bool:
    """Return whether an error is the user's: an error that outvote raises, a missing file or a missing package."""
    if not isinstance(error, (ValueError, TypeError)):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__", "")).startswith("outvote")


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; a user's mistake is reported in one line on stderr, with exit code 2."""
    try:
        return app(arguments, prog_name="outvote")
    except SystemExit as stop:
        # typer treats a closed pipe as a failure.
        sys.exit(0 if isinstance(stop.__context__, BrokenPipeError) else stop.code)
    except (ValueError, TypeError, OSError, MemoryError, ModuleNotFoundError) as error:
        if not _is_mistake(error):
            raise
        from outvote.cli import printing
        from outvote.cli.answer import in_options

        printing.message(in_options(str(error) or type(error).__name__))
        sys.exit(2)
