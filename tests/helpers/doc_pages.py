"""Run the code of a page of the documentation, or a script of the gallery, and check its output."""

import contextlib
import io
import re
import runpy
import shlex

BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SECTION = re.compile(r"^(?=## )", re.MULTILINE)


def blocks_of(page):
    """Return the language and the text of every fence of a page."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def sections_of(page):
    """Return the text of each section of a page, that before the first heading first."""
    return SECTION.split(page.read_text(encoding="utf-8"))


def needs_spark(section):
    """Whether the code of a section names PySpark; tests/spark runs such sections."""
    return any(re.search(r"\bpyspark\b", code) for _, code in BLOCK.findall(section))


def check_page(page, *, spark=False):
    """Run the code of a page, compare what it prints with what the page shows, and return how often that was.

    Sections that need Spark are left out, or are the only ones that are run.
    """
    names: dict[str, object] = {}
    printed = ""
    checked = 0
    run = "".join(section for section in sections_of(page) if needs_spark(section) == spark)
    for language, text in BLOCK.findall(run):
        if language == "python":
            assert not printed, f"the page does not show {printed!r}"
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(text, page.name, "exec"), names)
            printed = output.getvalue()
        elif language == "console":
            command, shown = re.fullmatch(r"\$ outvote ([^\n]*)\n(.*)", text, re.DOTALL).groups()
            assert typed(command) == shown
            checked += 1
        elif language == "" and printed:
            assert text == printed
            printed, checked = "", checked + 1
    assert not printed, f"the page does not show {printed!r}"
    return checked


def typed(command):
    """Return what the command prints."""
    from typer.testing import CliRunner

    from outvote.cli.commands import app

    return CliRunner().invoke(app, shlex.split(command)).stdout


def draw(script):
    """Run a script of the gallery, which must draw something."""
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    try:
        runpy.run_path(str(script))
        assert plt.get_fignums()
    finally:
        plt.close("all")
