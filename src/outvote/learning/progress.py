"""The progress of a descent on the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def show_progress(n_epochs: int, verbose: int) -> Iterator[Callable[[float], None]]:
    """Yield a function to call with the risk after each epoch: it moves a bar, or prints ten lines without rich."""
    if not verbose:
        yield lambda risk: None
        return
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        yield _PrintedLines(n_epochs)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as bar:
        task = bar.add_task("descent", total=n_epochs)
        yield lambda risk: bar.update(task, advance=1, description=f"median risk {risk:.4g}")


class _PrintedLines:
    def __init__(self, n_epochs: int):
        self.n_epochs, self.done = n_epochs, 0

    def __call__(self, risk: float) -> None:
        self.done += 1
        if self.done % max(1, self.n_epochs // 10) == 0:
            print(f"epoch {self.done} of {self.n_epochs}: median risk {risk:.4g}")
