"""Print the oldest version of every dependency that pyproject.toml allows, as constraints for pip.

Spark and torch are left out: they are large, and have tests of their own.
"""

import re
import tomllib
from itertools import chain
from pathlib import Path

_TOLD = re.compile(r"([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+)")


def floors(told: dict) -> dict[str, str]:
    """Return the oldest version of each package, from what pyproject.toml says."""
    project, frames = told["project"], told["dependency-groups"]["frames"]
    extras = [texts for name, texts in project["optional-dependencies"].items() if name not in ("spark", "torch")]
    found: dict[str, str] = {}
    for text in [*project["dependencies"], *chain(*extras), *frames]:
        if text.startswith("outvote["):
            continue
        match = _TOLD.fullmatch(text)
        if match is None:
            raise SystemExit(f"{text!r} in pyproject.toml must be a name and the oldest version, such as 'numpy>=2.0'")
        name, oldest = match.groups()
        if found.setdefault(name, oldest) != oldest:
            raise SystemExit(f"pyproject.toml has two oldest versions of {name}: {found[name]} and {oldest}")
    return found


if __name__ == "__main__":
    told = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
    print("".join(f"{name}=={oldest}\n" for name, oldest in floors(told).items()), end="")
