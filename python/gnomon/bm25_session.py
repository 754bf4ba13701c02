"""An index directory that stays open: the writer's lock, the generation, and who may do what."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ._directory_writer import LOCK
from ._lock import Lock
from .storage import Directory, DirectoryWriter


class Session:
    """A path, the generation that was read from it, and for a writer the lock.

    The lock is held from opening to :meth:`close`. It is the process's own: a forked child does not
    inherit it and cannot write. `sync` is as for `DirectoryWriter`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        writing: bool,
        sync: Callable[[Path], None] | None = None,
    ):
        self.path = Path(os.path.realpath(os.fspath(path)))
        self.writing = writing
        self._sync = sync
        self._pid = os.getpid()
        self._lock: Lock | None = None
        if writing:
            Directory.open(self.path)  # before the lock file: leave what is no index untouched
            self._lock = Lock(self.path / LOCK, self.path)
        try:
            self.directory: Directory | None = Directory.open(self.path)
            if writing and self.directory.parts() != ["bm25"]:
                raise ValueError(
                    f"{self.path} holds more than a BM25 index (parts: "
                    f"{', '.join(self.directory.parts())}); make it anew as a whole"
                )
        except BaseException:
            self.close()
            raise
        self.generation = self.directory.generation

    @classmethod
    def of(cls, directory: Directory) -> Session:
        """A reader's session of a directory that is open already."""
        session = cls.__new__(cls)
        session.path = directory.path
        session.writing = False
        session._sync = None
        session._pid = os.getpid()
        session._lock = None
        session.directory = None
        session.generation = directory.generation
        return session

    def opened(self) -> Directory:
        """The directory as it was opened; held until the first call only."""
        directory, self.directory = self.directory, None
        assert directory is not None
        return directory

    def require_writing(self) -> None:
        """Raises ValueError unless this process may write."""
        if not self.writing:
            raise ValueError(
                f"this index was opened for reading; use BM25Index.open({str(self.path)!r}, "
                "mode='w') to change it"
            )
        if self._lock is None:
            raise ValueError("this index was closed; open it again to change it")
        if os.getpid() != self._pid:
            raise ValueError("the index was opened for writing by the parent process; open it here")

    def reopen(self) -> Directory | None:
        """The newest state, or None when it is the one that is known."""
        directory = Directory.open(self.path)
        return None if directory.generation == self.generation else directory

    def writer(self) -> DirectoryWriter:
        """A writer of the next generation, under the lock that is held."""
        return DirectoryWriter(self.path, lock=self._lock, sync=self._sync)

    def committed(self) -> Directory:
        """What was written just now."""
        directory = Directory.open(self.path)
        self.generation = directory.generation
        return directory

    def close(self) -> None:
        """Releases the lock."""
        lock, self._lock = self._lock, None
        if lock is not None and os.getpid() == self._pid:
            lock.release()

    def __del__(self) -> None:
        self.close()
