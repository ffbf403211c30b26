"""The command line: ``outvote mean``, ``quantile``, ``compare``, ``report``, ``monitor``, ``plan`` and others.

Exit codes: 0, success; 1, an answer in which something has no interval or failed; 2, wrong usage or unreadable data.
All modules but typer are imported by the command that needs them, so that ``outvote --help`` is quick.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

try:
    import typer
except ModuleNotFoundError:  # pragma: no cover - tested in an environment without it
    sys.exit("the command line needs typer and rich: pip install 'outvote[cli]'")

from outvote.cli.arguments import (
    OUTPUT,
    AsCsv,
    AsJson,
    Bounds,
    Coefficient,
    Column,
    Confidence,
    Corrupt,
    Covariate,
    Keys,
    Kind,
    Kurtosis,
    MeanVote,
    MeanVoting,
    Missing,
    Nan,
    Paths,
    Ratio,
    Scale,
    Sd,
    Seed,
    Segments,
    Simultaneous,
    Unit,
    Vote,
    Voting,
    ZeroOne,
)

app = typer.Typer(
    help="Means, U-statistics and learners that stay right when part of the data is corrupt.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        import outvote

        typer.echo(f"outvote {outvote.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None: ...


@app.command()
def mean(
    files: Paths,
    value: Column,
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
        bool, typer.Option("--sensitivity", help="Also show how the answer depends on the number of corrupt rows.")
    ] = False,
    kind: Kind = None,
    json: AsJson = False,
    csv: AsCsv = False,
) -> None:
    """Estimate a mean, plain and robust, with an interval.

    plain: the average of all rows that are numbers. low, high: the interval,
    for as many corrupt rows as --contamination allows. provenance: certified,
    or "if sd ≤ 2", for good rows with at most this standard deviation, which
    is read off the rows if nothing is known of them. survives: how many corrupt
    rows the interval allows for, or the good blocks outvote.
    """
    from outvote.cli import printing
    from outvote.cli.mean import means, means_by_id
    from outvote.cli.options import read_options
    from outvote.data.columns import read_columns
    from outvote.data.files import Files

    form = _form(json, csv)
    asked = read_options(contamination, confidence, sd, bounds, kurtosis, scale, vote, nan, seed, proportion)
    if row_id is not None and sensitivity:
        raise ValueError("--row-id leaves the rows in their files, --sensitivity needs them in memory: use one")
    if row_id is not None and asked.contamination == "auto":
        raise ValueError("--row-id leaves the rows in their files, --contamination auto needs them in memory: use one")
    with Files(files, kind) as source, printing.working(f"reading {source}") as progress:
        if row_id is not None:
            answer = means_by_id(source, value, _once(by), row_id, asked)
        else:
            columns = read_columns(source, value, _once(by))
            answer = means(columns, asked, str(source), levels=sensitivity, progress=progress)
    raise typer.Exit(printing.show(answer, form))


@app.command()
def quantile(
    files: Paths,
    value: Column,
    by: Keys = None,
    q: Annotated[
        str, typer.Option("--q", metavar="SHARE[,SHARE…]", help="Which quantiles, 0.5,0.95 for instance.")
    ] = "0.5",
    contamination: Corrupt = "0.01",
    confidence: Confidence = 0.95,
    nan: Missing = Nan.refuse,
    kind: Kind = None,
    json: AsJson = False,
    csv: AsCsv = False,
) -> None:
    """Estimate quantiles with intervals that hold for any distribution of the good rows.

    low, high: rows between which the quantile of the good rows lies, for as
    many corrupt rows as --contamination allows; a dash where there are too few.
    """
    from outvote.cli import printing
    from outvote.cli.options import quantiles_of, read_options
    from outvote.cli.quantile import quantiles
    from outvote.data.columns import read_columns
    from outvote.data.files import Files

    form, shares = _form(json, csv), quantiles_of(q)
    asked = read_options(contamination, confidence, None, None, None, None, Vote.auto, nan, 0)
    with Files(files, kind) as source, printing.working(f"reading {source}") as progress:
        columns = read_columns(source, value, _once(by))
        answer = quantiles(columns, shares, asked, str(source), progress=progress)
    raise typer.Exit(printing.show(answer, form))


@app.command()
def compare(
    files: Paths,
    value: Column,
    by: Annotated[str, typer.Option("--by", metavar="COLUMN", help="The column with the variant of each row.")],
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="LABEL", help="Compare with this variant; the first by default.")
    ] = None,
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
    json: AsJson = False,
    csv: AsCsv = False,
) -> None:
    """Compare variants with a baseline, and count how many corrupt rows it takes to overturn the conclusion."""
    from outvote.cli import printing
    from outvote.cli.compare import compare as compare_variants
    from outvote.cli.options import distinct_columns, read_options, with_metric
    from outvote.data.columns import read_columns
    from outvote.data.files import Files

    form = _form(json, csv)
    asked = read_options(contamination, confidence, sd, bounds, kurtosis, scale, vote, nan, seed, proportion)
    asked = with_metric(asked, ratio, covariate, coefficient, unit, simultaneous)
    keys = distinct_columns(value, by, segment, asked)
    with Files(files, kind) as source, printing.working(f"reading {source}") as progress:
        columns = read_columns(source, value, keys, more=asked.more, unit=unit)
        answer = compare_variants(columns, asked, str(source), baseline=baseline, progress=progress)
    raise typer.Exit(printing.show(answer, form))


@app.command()
def report(
    context: typer.Context,
    files: Paths,
    value: Column,
    by: Annotated[
        str | None, typer.Option("--by", metavar="COLUMN", help="The column with the variants; without it, one mean.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the page.")] = Path("report.html"),
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="LABEL", help="Compare with this variant; the first by default.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="Without --by: compare the mean with this number; 0 by default.")
    ] = None,
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
) -> None:
    """Write a page with the answer, how many corrupt rows overturn it, and how it was computed.

    The page is one HTML file that needs no network. The answer is also printed.
    """
    from outvote.cli import printing
    from outvote.cli.options import distinct_columns, read_options, with_metric
    from outvote.cli.report import write_report
    from outvote.data.columns import read_columns
    from outvote.data.files import Files

    asked = read_options(contamination, confidence, sd, bounds, kurtosis, scale, vote, nan, seed, proportion)
    asked = with_metric(asked, ratio, covariate, coefficient, unit, simultaneous)
    keys = distinct_columns(value, by, segment, asked)
    with Files(files, kind) as source, printing.working(f"reading {source}") as progress:
        written = write_report(
            output,
            read_columns(source, value, keys, more=asked.more, unit=unit),
            asked,
            str(source),
            inputs=source.paths,
            command=_typed(context),
            baseline=baseline,
            threshold=threshold,
            progress=progress,
        )
    printing.write("".join(f"{printing.clean(sentence, None)}\n" for sentence in written.sentences))
    printing.message(f"written to {written.path}")
    raise typer.Exit(0 if written.complete else 1)


@app.command()
def monitor(
    files: Paths,
    value: Column,
    time: Annotated[str, typer.Option("--time", metavar="COLUMN", help="The column with the time of each row.")],
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="COLUMN", help="The column with the two variants; without it, one mean."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="LABEL", help="Compare with this variant; the first by default.")
    ] = None,
    claim: Annotated[
        str | None,
        typer.Option("--claim", help="What is to be decided: 'mean > 3', 'difference > 0' or 'lift > 2 %'."),
    ] = None,
    looks: Annotated[int, typer.Option("--looks", min=1, help="How often to look.")] = 20,
    plan: Annotated[
        int | None,
        typer.Option("--plan", min=2, help="How many rows of each variant were planned; those of the file by default."),
    ] = None,
    figure: Annotated[Path | None, typer.Option("--figure", rich_help_panel=OUTPUT, help="File for a picture.")] = None,
    contamination: Corrupt = "0.01",
    confidence: Confidence = 0.95,
    sd: Sd = None,
    bounds: Bounds = None,
    proportion: ZeroOne = False,
    kurtosis: Kurtosis = None,
    scale: Scale = None,
    nan: Missing = Nan.refuse,
    kind: Kind = None,
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
    from outvote.data.files import Files

    form = _form(json, csv)
    asked = read_options(contamination, confidence, sd, bounds, kurtosis, scale, Vote.auto, nan, 0, proportion)
    if asked.contamination == "auto":
        raise ValueError("--contamination auto needs all rows at once: a monitor takes a share (0.01) or a number (50)")
    if len({value, time, by}) < 3:
        raise ValueError("--value, --time and --by must be different columns")
    with Files(files, kind) as source, printing.working(f"reading {source}") as progress:
        columns = read_columns(source, value, (time,) if by is None else (time, by))
        answer = watch(
            columns, asked, str(source), claim=claim, baseline=baseline, n_looks=looks, n_plan=plan, figure=figure,
            progress=progress,
        )  # fmt: skip
    raise typer.Exit(printing.show(answer, form))


@app.command()
def plan(
    rows: Annotated[int, typer.Option("--rows", min=1, help="How many rows there will be.")],
    contamination: Corrupt = "0.01",
    confidence: Confidence = 0.95,
    sd: Sd = None,
    bounds: Bounds = None,
    kurtosis: Kurtosis = None,
    scale: Scale = None,
    vote: Voting = Vote.auto,
    json: AsJson = False,
    csv: AsCsv = False,
) -> None:
    """Compute the radius of a mean before there are rows, and what would make it smaller."""
    from outvote.cli import printing
    from outvote.cli.options import read_options
    from outvote.cli.plan import plan as plan_rows

    form = _form(json, csv)
    asked = read_options(contamination, confidence, sd, bounds, kurtosis, scale, vote, Nan.refuse, 0)
    raise typer.Exit(printing.show(plan_rows(rows, asked), form))


@app.command()
def suspects(
    files: Paths,
    value: Column,
    by: Keys = None,
    top: Annotated[int, typer.Option("--top", min=1, help="How many rows to list.")] = 20,
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="Number of random partitions.")] = 200,
    contamination: Corrupt = "0.01",
    seed: Seed = 0,
    kind: Kind = None,
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
    from outvote.data.files import Files

    form = _form(json, csv)
    asked = read_options(contamination, 0.95, None, None, None, None, Vote.median, Nan.corrupt, seed)
    with Files(files, kind) as source, printing.working(f"reading {source}") as progress:
        columns = read_columns(source, value, _once(by))
        answer = rank_suspects(columns, asked, str(source), top=top, partitions=partitions, progress=progress)
    raise typer.Exit(printing.show(answer, form))


@app.command()
def demo(
    figure: Annotated[Path, typer.Option("--figure", help="File for the figure.")] = Path("demo.png"),
) -> None:
    """Corrupt a data set, and see which estimates stay near the truth."""
    from outvote.cli.demo import main as run

    run(["--figure", str(figure)])


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[EXPERIMENT]...", help="Experiments to run; all by default.")
    ] = None,
    runs: Annotated[int | None, typer.Option(min=2, help="Repetitions; the paper's number by default.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
    jobs: Annotated[int, typer.Option(help="Processes; -1 for one per core. Results do not depend on it.")] = 1,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for figures, numbers, pages.")] = Path("out"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer runs and settings: under a minute.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run finished experiments again.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the experiments and stop.")] = False,
) -> None:
    """Reproduce every figure, table and experiment of the paper, with a verdict on each claim.

    Each experiment writes a figure (PNG, SVG), its numbers (CSV, JSON) and a verdict; index.html and report.md are
    written at the end. If you interrupt the command, finished experiments are kept, and the next call continues.
    """
    from outvote.paper.experiments import command

    if list_:
        command.show_list()
        return
    raise typer.Exit(
        command.reproduce(names or None, runs=runs, seed=seed, jobs=jobs, folder=output, quick=quick, fresh=fresh)
    )


def _form(json: bool, csv: bool) -> str:
    if json and csv:
        raise ValueError("--json and --csv do not go together: use one")
    return "json" if json else "csv" if csv else "table"


def _typed(context: typer.Context) -> str:
    """Return the command with the given options, quoted for a shell."""
    import shlex

    options, files = [], []
    for parameter in context.command.params:
        name, given = str(parameter.name), context.params.get(str(parameter.name))
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        words = [str(one) for one in (given if isinstance(given, (list, tuple)) else [given])]
        if parameter.param_type_name == "argument":
            files = words
        else:
            options += [parameter.opts[0], *(words if given is not True else [])]
    dashed = any(file.startswith("-") and file != "-" for file in files)
    words = [*options, "--", *files] if dashed else [*files, *options]
    return shlex.join(["outvote", str(context.info_name), *words])


def _once(by: list[str] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(by or ()))


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
        from outvote.cli.answer import in_options

        typer.echo(f"outvote: {in_options(str(error) or type(error).__name__)}", err=True)
        sys.exit(2)
