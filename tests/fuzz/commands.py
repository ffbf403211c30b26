"""Random command lines: an exit code of 0, 1 or 2, and never a traceback."""

import csv
import io
import json
import tempfile
import warnings
from pathlib import Path

from tests.fuzz.fault import check
from tests.fuzz.values import pick
from typer.testing import CliRunner

VALUES = ("v", "w", "nothing", "0.01", "5", "-1", "0.95", "2", "nan", "inf", "1e400", "", "k", "a", "mean > 0", "auto",
          "\x1b[31mred", "x" * 300, "0,1", "-", "*")  # fmt: skip
OPTIONS = ("--by", "--contamination", "--confidence", "--sd", "--bounds", "--nan-policy", "--row-id", "--kurtosis",
           "--proportion", "--threshold", "--baseline", "--quantile", "--top", "--format", "--unit")  # fmt: skip


def command(rng):
    """A command with options, right or wrong."""
    from outvote.cli import commands

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.csv")
        n = pick(rng, (0, 3, 60))
        labels = ("a", "b", "\x1b[31m", "a\rb", '"')
        lines = [f'{rng.normal()!r},{rng.integers(5)},"{pick(rng, labels[:4])}"' for _ in range(n)]
        path.write_text("v,w,k\n" + "".join(f"{line}\n" for line in lines), newline="")
        name = pick(rng, ("mean", "mean", "compare", "quantile", "suspects", "report", "plan", "monitor"))
        line = [name, *([] if name == "plan" else [str(path), "--value", "v"])]
        line += ["--rows", "100"] if name == "plan" else ["-o", str(Path(folder, "page.html"))] * (name == "report")
        for _ in range(int(rng.integers(0, 4))):
            line += [pick(rng, OPTIONS), pick(rng, VALUES)]
        form = pick(rng, ("--json", "--csv", None, None)) if name != "report" else None
        line += [form] if form else []
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "row_id=.* has .* rows, but only")  # which is a note on a terminal
            found = CliRunner().invoke(commands.app, line)
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            raise found.exception
        check(found.exit_code in (0, 1, 2), f"exit code {found.exit_code}")
        check("Traceback" not in found.stderr and "\x1b[31m" not in found.stderr, "a traceback, or an escape sequence")
        text = found.stdout_bytes.decode()
        if form == "--json" and text:
            json.loads(text)
        if form == "--csv" and text:
            cells = [len(cells) for cells in csv.reader(io.StringIO(text, newline=""))]
            check(len(set(cells)) <= 1, "lines of different lengths")
        return found


COMMANDS = {command: 5}
