"""Add up the rows of each user: users, and not their rows, are what was randomised."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from outvote.contamination import Contamination
from outvote.data.columns import taken_once
from outvote.data.files import check_name
from outvote.tables.engine import Engine, Query
from outvote.tables.frames import EagerEngine, numbers_of

#: The column with the number of the user, where that is needed.
_NUMBER = "__outvote_user__"


class Users(NamedTuple):
    """A table with a row for each user, and the name of its column with the user's number."""

    engine: EagerEngine
    number: str


def added_up(
    engine: Engine, query: Query, unit: str, once: str | None = None, allowed: Contamination | None = None
) -> Users:
    """Return a table with a row for each user in each group: the sums of their rows.

    A user with NaN in one row has NaN. The column `once` is taken once, as `taken_once` says.
    """
    import narwhals as nw

    check_name("unit", unit, engine.names())
    if unit in query.by or unit in query.columns:
        raise ValueError(f"unit={unit!r} is also a column that is compared, or a key: name the column of the users")
    sums = engine.sums(query, unit)
    columns = {name: sums[f"k{j}"] for j, name in enumerate(query.by)}
    bad = numbers_of(sums["bad"]) > 0
    for j, name in enumerate(query.columns):
        values = numbers_of(sums[f"v{j}"])
        if name == once:
            least, most = (numbers_of(sums[f"{end}{j}"]) for end in ("low", "high"))
            sizes = sums.group_by([f"k{i}" for i in range(len(query.by))]).agg(nw.len())["len"].to_list()
            corrupt = 0 if allowed is None else sum(max(allowed.counts((n, n))) for n in sizes)
            values = taken_once(name, least, most, corrupt)
        columns[name] = nw.new_series(name, np.where(bad, np.nan, values), nw.Float64(), backend=sums.implementation)
    number = _NUMBER
    while number in columns:  # a column of the user's has that name
        number += "_"
    users = sums["u"].to_numpy()
    if users.dtype.kind not in "iufb":
        users = np.array([str(one) for one in sums["u"].to_list()])
    codes = np.unique(users, return_inverse=True)[1]
    columns[number] = nw.new_series(number, codes.astype(np.float64), nw.Float64(), backend=sums.implementation)
    frame: Any = nw.from_dict(columns, backend=sums.implementation)
    # In the order of the users: an engine gives them in any, and which rows are held out goes by their order.
    return Users(EagerEngine(frame.sort(number), None), number)
