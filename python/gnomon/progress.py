"""Progress of long work: a bar on the terminal, or a function of the caller's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = bool | Callable[[int, "int | None"], None] | None


@contextmanager
def reporting(progress: Progress, total: int | None) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of documents done; `total` may be unknown.

    `progress` is True for a bar on standard error, a function of (done, total), or nothing.
    """
    if progress is None or progress is False:
        yield lambda done: None
    elif callable(progress):
        yield lambda done: progress(done, total)
    else:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = TextColumn("documents"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        with Bar(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("documents", total=total)
            yield lambda done: bar.update(task, completed=done)
