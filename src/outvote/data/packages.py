"""The command that installs packages which are missing."""

from __future__ import annotations

import shlex


def install_command(*packages: str) -> str:
    """Return what to type to get packages: by their own names, since outvote, with its extras, is on no index.

    Examples
    --------
    >>> install_command("dask[dataframe]", "distributed")
    "pip install 'dask[dataframe]' distributed"
    """
    return shlex.join(("pip", "install", *packages))
