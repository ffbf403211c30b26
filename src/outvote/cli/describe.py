"""``outvote describe``: a robust summary of every column of numbers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from outvote.cli.answer import Asked, in_options
from outvote.data.columns import columns_of_numbers, read_numbers
from outvote.data.files import Files
from outvote.tables.describe import describe


@dataclass(frozen=True)
class Described:
    """The answer of ``outvote describe``: one line for each column, as `outvote.describe` has it."""

    asked: Asked
    source: str
    columns: list[dict[str, Any]]
    left_out: list[str]
    notes: list[str]

    @property
    def complete(self) -> bool:
        """Whether every column has an interval."""
        return all(line["low"] is not None for line in self.columns)


def describe_file(files: Files, asked: Asked) -> Described:
    """Describe the columns of which most cells are numbers; cells with other text count as missing."""
    import pyarrow as pa

    names = columns_of_numbers(files)
    left_out = [name for name in files.columns if name not in names]
    if not names:
        raise ValueError(f"{files} has no column of numbers: its columns are {', '.join(files.columns)}")
    table = pa.table(read_numbers(files, names))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        lines = describe(table, asked.contamination, asked.confidence).to_pylist()
    notes = [in_options(str(one.message)) for one in told]
    notes += [f"{line['column']}: {in_options(line['note'])}" for line in lines if line["note"]]
    return Described(asked, str(files), lines, left_out, notes)
