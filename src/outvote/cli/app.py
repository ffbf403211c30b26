"""The application that the commands belong to, and what they share."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

Run = TypeVar("Run", bound=Callable[..., Any])


class Command(TyperCommand):
    """A command whose help shows no type for --help, nor for files, whose name says enough."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        parameters: list[Any] = list(self.params)
        for parameter in parameters:
            if parameter.param_type_name == "argument":
                parameter.display_type_rich = lambda ctx: None

    def get_help_option(self, ctx: Any) -> Any:
        """Return --help."""
        return _untyped(super().get_help_option(ctx))


class Commands(TyperGroup):
    """A group of commands whose help shows no type for --help."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return --help."""
        return _untyped(super().get_help_option(ctx))


def _untyped(option: Any) -> Any:
    if option is not None:
        option.metavar = ""
    return option


app = typer.Typer(
    cls=Commands,
    help="Means, differences and quantiles that stay right when some rows of the data are wrong.",
    epilog="Start with: outvote mean orders.csv --value revenue",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def command(*examples: str) -> Callable[[Run], Run]:
    """Return what registers a command, with examples at the end of its help."""
    return app.command(cls=Command, epilog="\n\n".join(["Examples:", *examples]))


def _version(asked: bool) -> None:
    if asked:
        import outvote

        typer.echo(f"outvote {outvote.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Print the version and stop."),
    ] = False,
) -> None: ...


@contextmanager
def opened(
    files: Sequence[str],
    value: Sequence[str] | None,
    kind: str | None,
    encoding: str | None,
    decimal: str,
    sheet: str | None,
) -> Iterator[tuple[Any, Any]]:
    """Open files, and show progress on a terminal meanwhile; without a column of numbers say which there are."""
    from outvote.cli import printing
    from outvote.data.files import Files
    from outvote.data.text import listed

    source = Files(files, kind, encoding=encoding, decimal=decimal, sheet=sheet)
    with warnings.catch_warnings(), source, printing.working(f"reading {source}") as progress:
        warnings.showwarning = lambda message, *_: printing.message(f"note: {message}")
        if not value:
            raise ValueError(f"--value is missing: the columns of {source} are {listed(source.columns)}")
        yield source, progress


def one(value: Sequence[str] | None) -> str:
    """Return the only column of numbers."""
    assert value
    if len(value) > 1:
        raise ValueError(f"--value is given {len(value)} times ({', '.join(value)}): this command takes one column")
    return value[0]


def form_of(json: bool, csv: bool) -> str:
    """Return how the answer is printed."""
    if json and csv:
        raise ValueError("--json and --csv do not go together: use one")
    return "json" if json else "csv" if csv else "table"


def typed(context: typer.Context) -> str:
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
        elif getattr(parameter, "multiple", False):
            options += [word for one in words for word in (parameter.opts[0], one)]
        else:
            options += [parameter.opts[0], *(words if given is not True else [])]
    dashed = any(file.startswith("-") and file != "-" for file in files)
    words = [*options, "--", *files] if dashed else [*files, *options]
    return shlex.join(["outvote", str(context.info_name), *words])


def once(by: list[str] | None) -> tuple[str, ...]:
    """Return names, each once."""
    return tuple(dict.fromkeys(by or ()))
