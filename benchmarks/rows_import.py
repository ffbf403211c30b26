"""Starting up, each time in a new interpreter."""

from __future__ import annotations

import os
import subprocess
import sys

from .measure import Job, Row


def python(code: str) -> Job:
    """Run code in a new interpreter, which may keep the bytecode of this package as it does that of the others."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}

    def run() -> None:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])

    return run


def rows(quick: bool) -> list[Row]:
    """Import, and the first answer."""
    first = "import numpy as np, outvote as ov; ov.mean(np.arange(1e4))"
    return [
        Row("import outvote", "import numpy", 1.1, python("import outvote"), python("import numpy")),
        Row("import outvote and the first mean, of 1e4", "import numpy", 3.0, python(first), python("import numpy")),
        Row("import scipy.special, which the first mean does without", "import numpy", None,
            python("import scipy.special"), python("import numpy")),
    ]  # fmt: skip
