"""Write files completely or not at all."""

from __future__ import annotations

import itertools
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

#: Characters of the ending of a name that a temporary name keeps, and what tells such names apart.
_ENDING = 10
_NUMBERS = itertools.count()


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which is renamed to `path` if no error occurs.

    A link is followed, and the permissions of a file that is there are kept. What is not a file (a pipe, a device) is
    written to once all is there.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "new" / "answer.txt"
    >>> with whole(target) as partial:
    ...     _ = partial.write_text("42")
    >>> target.read_text()
    '42'
    """
    target = Path(path)
    there = _status(target)
    if there is not None and stat.S_ISDIR(there.st_mode):
        raise IsADirectoryError(f"{str(target)!r} is a folder: give a file in it")
    if there is not None and (not stat.S_ISREG(there.st_mode) or target.is_relative_to("/dev")):
        with tempfile.TemporaryDirectory(prefix="outvote-") as folder:
            partial = Path(folder, f"partial{target.suffix}")
            yield partial
            with partial.open("rb") as source, target.open("wb") as stream:
                shutil.copyfileobj(source, stream)
        return
    if there is not None and not os.access(target, os.W_OK):
        raise PermissionError(f"{str(target)!r} may not be written to: change its permissions, or give another name")
    target = Path(os.path.realpath(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    # The name is short whatever that of the target is, and keeps the ending, which tells plots what to write.
    ending = target.suffix if len(target.suffix) <= _ENDING else ""
    partial = target.with_name(f".outvote-{os.getpid()}-{next(_NUMBERS)}{ending}")
    try:
        _create(partial, there)
        yield partial
        os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def check_output(option: str, path: str | os.PathLike[str], inputs: Sequence[str], example: str) -> Path:
    """Return the path of a file to write; refuse a folder, and the files that are read, before any work."""
    target = Path(path)
    if str(path) == "-":
        raise ValueError(f"{option} '-': it goes to a file, not to standard output: give a name, {example!r}")
    if target.is_dir():
        raise IsADirectoryError(f"{option} {str(path)!r} is a folder: give a file in it, {str(target / example)!r}")
    for file in inputs:
        if target.exists() and os.path.exists(file) and os.path.samefile(target, file):
            raise ValueError(f"{option} {str(path)!r} is the file that is read: give another name")
    return target


def _status(target: Path) -> os.stat_result | None:
    """Return what is known of a file, or of what a link leads to; None if there is none."""
    try:
        return target.stat()
    except FileNotFoundError:
        return None


def _create(partial: Path, like: os.stat_result | None) -> None:
    """Create an empty file, with the permissions of another if there is one: nobody else may look in meanwhile."""
    partial.unlink(missing_ok=True)
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if like is None else 0o600))
    if like is not None:
        partial.chmod(stat.S_IMODE(like.st_mode))


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write a text file in UTF-8, and return its path."""
    with whole(path) as partial:
        partial.write_text(text, encoding="utf-8")
    return Path(path)
