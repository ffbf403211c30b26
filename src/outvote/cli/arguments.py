"""The arguments and options of the commands, with their help."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class MeanVote(StrEnum):
    """How rows become one answer."""

    auto = "auto"
    evidence = "evidence"
    median = "median"
    soft = "soft"
    clipped = "clipped"


class Vote(StrEnum):
    """How the estimate is computed from the block values."""

    auto = "auto"
    median = "median"
    soft = "soft"
    clipped = "clipped"


class Nan(StrEnum):
    """How rows without a number are treated."""

    refuse = "raise"
    omit = "omit"
    corrupt = "corrupt"


class Format(StrEnum):
    """Kinds of files."""

    csv = "csv"
    tsv = "tsv"
    jsonl = "jsonl"
    parquet = "parquet"
    arrow = "arrow"
    excel = "excel"


_KNOWN = "Assumptions on the clean rows"
OUTPUT, _READING = "Output", "How the files are read"
Paths = Annotated[
    list[str],
    typer.Argument(metavar="FILE", help="CSV, TSV, Excel, JSON, Parquet or Arrow files, globs, or - for stdin."),
]
Column = Annotated[
    list[str] | None,
    typer.Option("--value", metavar="COLUMN", help="The column of numbers, required; mean and quantile take several."),
]
Keys = Annotated[
    list[str] | None, typer.Option("--by", metavar="COLUMN", help="One answer per value of this column; repeatable.")
]
Corrupt = Annotated[
    str,
    typer.Option(
        "--contamination",
        metavar="SHARE|ROWS|auto",
        help="How many rows may be corrupt: a share (0.01 or 1%), a number in each group (50), or auto if unknown.",
    ),
]
Confidence = Annotated[float, typer.Option(metavar="SHARE", help="Confidence of each interval.")]
Sd = Annotated[
    float | None,
    typer.Option(
        "--sd", metavar="NUMBER", rich_help_panel=_KNOWN, help="Their standard deviation is at most this number."
    ),
]
Bounds = Annotated[
    tuple[float, float] | None,
    typer.Option("--bounds", metavar="LOW HIGH", rich_help_panel=_KNOWN, help="They lie between these two numbers."),
]
ZeroOne = Annotated[
    bool,
    typer.Option(
        "--proportion", metavar="", rich_help_panel=_KNOWN, help="They are 0 or 1, or false and true, by definition."
    ),
]
Kurtosis = Annotated[
    float | None,
    typer.Option("--kurtosis", metavar="NUMBER", rich_help_panel=_KNOWN, help="Their kurtosis is at most this number."),
]
Scale = Annotated[
    float | None,
    typer.Option("--scale", metavar="NUMBER", rich_help_panel=_KNOWN, help="They are sub-Gaussian with this scale."),
]
Voting = Annotated[Vote, typer.Option("--vote", help="How the blocks vote; auto gives the smallest radius.")]
MeanVoting = Annotated[
    MeanVote,
    typer.Option("--vote", help="How rows become one answer; auto is evidence, the others are votes of blocks."),
]
Missing = Annotated[
    Nan,
    typer.Option("--nan", help="Rows without a number are an error, are left out, or count as corrupt."),
]
Seed = Annotated[int, typer.Option("--seed", metavar="NUMBER", min=0, help="The same seed gives the same numbers.")]
Kind = Annotated[
    Format | None,
    typer.Option(
        "--format", rich_help_panel=_READING, help="The kind of the files, if their names do not show it; stdin is CSV."
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option("--encoding", metavar="NAME", rich_help_panel=_READING, help="Of text that is not UTF-8: cp1252, ..."),
]
Decimal = Annotated[
    str,
    typer.Option("--decimal", metavar="SIGN", rich_help_panel=_READING, help="The decimal sign: a point or a comma."),
]
Sheet = Annotated[
    str | None,
    typer.Option(
        "--sheet", metavar="SHEET", rich_help_panel=_READING, help="Of an Excel file: name or number; else the first."
    ),
]
Baseline = Annotated[
    str | None, typer.Option("--baseline", metavar="LABEL", help="Compare with this variant; the first by default.")
]
Threshold = Annotated[
    float | None,
    typer.Option(
        "--threshold", metavar="NUMBER", help="Without --by: compare the mean with this number; 0 by default."
    ),
]
Claim = Annotated[
    str | None,
    typer.Option(
        "--claim", metavar="TEXT", help="What is to be decided: 'mean > 3', 'difference > 0' or 'lift > 2 %'."
    ),
]
Looks = Annotated[int, typer.Option("--looks", metavar="NUMBER", min=1, help="How often to look.")]
Planned = Annotated[
    int | None,
    typer.Option(
        "--plan",
        metavar="NUMBER",
        min=2,
        help="How many rows of each variant were planned; those of the file by default.",
    ),
]
Ratio = Annotated[
    str | None, typer.Option("--ratio", metavar="COLUMN", help="Compare the value per this column: ratios of means.")
]
Covariate = Annotated[
    str | None,
    typer.Option("--covariate", metavar="COLUMN", help="Adjust by what users did before the test (CUPED)."),
]
Coefficient = Annotated[
    float | None,
    typer.Option(
        "--coefficient",
        metavar="NUMBER",
        help="Of the covariate, fixed beforehand; else one row in ten is held out for it.",
    ),
]
Unit = Annotated[
    str | None, typer.Option("--unit", metavar="COLUMN", help="The column of users: their rows are added up first.")
]
Segments = Annotated[
    list[str] | None,
    typer.Option("--segment", metavar="COLUMN", help="Compare within each value of this column; repeatable."),
]
Simultaneous = Annotated[
    bool,
    typer.Option("--simultaneous", metavar="", help="All comparisons hold at once, each at a share of the confidence."),
]
AsJson = Annotated[bool, typer.Option("--json", metavar="", rich_help_panel=OUTPUT, help="Print one JSON object.")]
AsCsv = Annotated[bool, typer.Option("--csv", metavar="", rich_help_panel=OUTPUT, help="Print CSV.")]
