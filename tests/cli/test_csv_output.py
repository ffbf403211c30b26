"""CSV that the command writes can be read."""

import csv
import io

from command_line import run


def test_csv_quotes_every_end_of_a_line(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b'k,v\n"a\rb",1\n"a\nb",2\n"a\r\nb",3\nplain,4\n')
    text = run("mean", path, "--value", "v", "--by", "k", "--csv").stdout_bytes.decode()
    lines = list(csv.reader(io.StringIO(text, newline="")))
    assert sorted(line[0] for line in lines[1:]) == ["a\nb", "a\r\nb", "a\rb", "plain"]
    assert len({len(line) for line in lines}) == 1
