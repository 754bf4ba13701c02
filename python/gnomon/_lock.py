"""A lock file that a killed process cannot leave locked, and that leaves nothing behind."""

from __future__ import annotations

import errno
import fcntl
import os
import weakref
from contextlib import suppress
from pathlib import Path

_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _forget() -> None:
    """A forked child lets go of the file, or the lock would outlive a killed parent."""
    for lock in list(_held):
        lock.forget()


os.register_at_fork(after_in_child=_forget)


class Lock:
    """Holds ``flock`` on the file `path` until :meth:`release`, which deletes the file.

    ``BlockingIOError`` naming `target` when another writer holds it; it does not wait.
    """

    def __init__(self, path: Path, target: Path) -> None:
        self._path = path
        self._fd = -1
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        while True:
            fd = os.open(path, flags, 0o666)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The file that we locked may have been deleted by its last holder meanwhile.
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False)):
                        break
                os.close(fd)
            except BlockingIOError as error:
                holder = os.read(fd, 32).decode("ascii", "replace").strip() or "unknown"
                os.close(fd)
                raise BlockingIOError(
                    errno.EWOULDBLOCK,
                    f"another writer (process {holder}) is at work on it; wait until it is done",
                    str(target),
                ) from error
            except BaseException:
                os.close(fd)
                raise
        self._fd = fd
        _held.add(self)
        with suppress(OSError):  # a full disk: the number only serves the message above
            os.ftruncate(fd, 0)
            os.write(fd, f"{os.getpid()}\n".encode("ascii"))

    def release(self) -> None:
        """Delete the file, then unlock it: in the other order it could be another writer's."""
        if self._fd < 0:  # the parent's
            return
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        self.forget()

    def forget(self) -> None:
        """Close the file without deleting it."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
