"""The command line at a terminal, in a pipe, and with closed streams."""

import io
import os
import re
import subprocess
import sys

import pytest
from command_line import MEAN, mistake, outvote_command, run

from outvote.cli import commands as cli


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_terminal_shows_hints_and_progress(dirty, monkeypatch):
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with pytest.raises(SystemExit):
        cli.main(["mean", str(dirty), *MEAN])
    assert "\x1b[1m" in out.getvalue()  # the robust mean is bold
    assert "if sd ≤: the interval holds" in err.getvalue()
    assert "group 1 of 1" in err.getvalue()
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(SystemExit):
        cli.main(["suspects", str(dirty), "--value", "revenue", "--by", "variant", "--partitions", "20"])
    assert "a typical row has" in sys.stderr.getvalue()
    assert max(len(line) for line in re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()) <= 80
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(SystemExit):
        cli.main(
            ["compare", str(dirty), "--value", "revenue", "--by", "variant", "--nan", "corrupt", "--vote", "median"]
        )
    assert "plug-in" in sys.stderr.getvalue()


def test_no_color_prints_no_colours(dirty, monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    with pytest.raises(SystemExit):
        cli.main(["mean", str(dirty), *MEAN, "--by", "variant"])
    assert "mean of revenue" in out.getvalue()
    assert not re.search(r"\x1b\[[0-9;]*[349][0-9]", out.getvalue())


def test_markup_and_escapes_in_the_data_are_shown_as_text(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("[red]v[/red],k\n" + "1,[bold]a[/bold]\n2,\x1b[31mb\n3," + "c" * 60 + "\n")
    done = run("mean", path, "--value", "[red]v[/red]", "--by", "k", "--contamination", 0)
    assert "mean of [red]v[/red]" in done.stdout
    assert "[bold]a[/bold]" in done.stdout
    assert "�[31mb" in done.stdout
    assert "c" * 39 + "…" in done.stdout
    assert "\x1b" not in done.output


def test_pipe_closed_early_is_no_error(dirty):
    command = [sys.executable, "-m", "outvote", "suspects", str(dirty), "--value", "revenue", "--csv"]
    command += ["--top", "5000", "--partitions", "20"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout.readline() == b"file,row,value,text,score\n"
    running.stdout.close()
    told = running.stderr.read()
    running.stderr.close()
    assert running.wait(timeout=60) == 0
    assert told == b"outvote: 3 rows have no value and are not listed\n"


@pytest.mark.parametrize("options", [["mean", "FILE", *MEAN], ["--help"]], ids=lambda words: words[0])
def test_pipe_closed_from_the_start_is_no_error(dirty, options):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "outvote", *(str(dirty) if word == "FILE" else word for word in options)]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=60)
    os.close(writing)
    assert done.returncode == 0
    assert b"outvote: " not in done.stderr.replace(b"outvote: 20 of the 50 rows that may be corrupt lie above", b"", 1)


def test_standard_input(dirty):
    done = outvote_command("mean", "-", *MEAN, "--csv", input=dirty.read_bytes(), text=False)
    assert done.returncode == 0
    assert done.stderr.startswith(b"outvote: 20 of the 50 rows that may be corrupt lie above")
    assert done.stdout.splitlines()[1].startswith(b"5000,")


def test_exit_codes(dirty, tmp_path):
    wrong = outvote_command("mean", dirty, "--value", "nothing")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "Traceback" not in wrong.stderr
    usage = outvote_command("mean", dirty)
    assert usage.returncode == 2
    assert "--value" in usage.stderr
    (tmp_path / "x.csv").write_text("v\n1\n")
    single = outvote_command("mean", tmp_path / "x.csv", "--value", "v")
    assert single.returncode == 1
    assert single.stderr.startswith("outvote: ")


def test_assumptions_are_told_as_options(dirty, capsys):
    for given, told in (
        (("--bounds", 0, 50), "--bounds 0 50"),
        (("--sd", 1, "--contamination", 4), "the rows contradict --sd 1:"),
    ):
        said = mistake(capsys, "mean", dirty, *MEAN, *given)
        assert told in said
        assert "FiniteVariance" not in said
        assert "Bounded(" not in said


def _shell(line, *arguments, **options):
    """Run the command in a shell that closes or cuts what the command reads and writes."""
    words = [sys.executable, *map(str, arguments)]
    return subprocess.run(["sh", "-c", line, *words], capture_output=True, text=True, timeout=120, **options)


def test_closed_standard_output_is_named(dirty):
    done = _shell('"$0" -m outvote mean "$1" --value revenue --nan corrupt <&- >&-', dirty)
    assert done.returncode == 2
    assert done.stderr.startswith("outvote: there is an answer, but standard output is closed")
    assert done.stderr.count("\n") == 1


def test_closed_standard_input_is_named():
    done = _shell('"$0" -m outvote mean - --value revenue <&-')
    assert done.returncode == 2
    assert done.stderr == "outvote: - is standard input, which is closed: name a file, or send one in (< FILE)\n"


def test_with_everything_closed_nothing_is_written_elsewhere(dirty, tmp_path):
    done = _shell('"$0" -m outvote mean nothing.csv --value v <&- 2>&-; echo $?', cwd=tmp_path)
    assert done.stdout == "2\n"
    assert not list(tmp_path.iterdir())


def test_error_lines_hold_no_escape_sequences(capsys, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("v,\x1b[31mred\n1,2\n")
    for value in ("zz", "\x1b[31mred2"):
        assert "\x1b" not in mistake(capsys, "mean", path, "--value", value)
    odd = tmp_path / "\x1b[31m.csv"
    odd.write_bytes(b"v\n\xff\n")
    assert "\x1b" not in mistake(capsys, "mean", odd, "--value", "v")
