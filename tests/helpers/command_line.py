"""Run the command line as a user does."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from outvote.cli import commands as cli

MEAN = ("--value", "revenue", "--nan", "corrupt")


def run(*arguments, **options):
    """Run a command in this process, as `main` does: result.exit_code, .stdout, .stderr."""
    result = CliRunner().invoke(cli.app, [str(one) for one in arguments], **options)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def outvote_command(*arguments, **options):
    command = [sys.executable, "-m", "outvote", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, **{"text": True, **options})


def mistake(capsys, *arguments):
    """Run `main`, which must refuse: exit code 2, nothing on stdout, one line on stderr."""
    with pytest.raises(SystemExit) as stopped:
        cli.main([str(one) for one in arguments])
    printed = capsys.readouterr()
    assert stopped.value.code == 2
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err.removeprefix("outvote: ").rstrip("\n")
