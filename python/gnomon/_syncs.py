"""Bringing many files to the disk beside other work: asked for at once, waited for once."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

# One commit of the file system's journal serves all that wait for it.
_THREADS = 4


class Syncs:
    """Files and directories on their way to the disk; a context manager, which ends its threads.

    >>> _ = Path("figures.txt").write_text("1 2 3")
    >>> with Syncs() as syncs:
    ...     syncs(Path("figures.txt"))
    ...     syncs.wait()
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS)
        self._waiting: list[Future[None]] = []

    def __call__(self, path: Path) -> None:
        """Begins with a file or the entries of a directory, which may get another name now."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._waiting.append(self._threads.submit(_sync, fd))
        except BaseException:
            os.close(fd)
            raise

    def wait(self) -> None:
        """Returns when all are on the disk. OSError when one could not be brought there."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.result()

    def __enter__(self) -> Syncs:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._threads.shutdown()


def _sync(fd: int) -> None:
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
