"""A lock file that a killed process cannot leave locked, and that leaves nothing behind."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path


class Lock:
    """Holds ``flock`` on the file `path` until :meth:`release`, which deletes the file.

    ``BlockingIOError`` naming `target` when another writer holds it; it does not wait.
    """

    def __init__(self, path: Path, target: Path) -> None:
        self._path = path
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
        with suppress(OSError):  # a full disk: the number only serves the message above
            os.ftruncate(fd, 0)
            os.write(fd, f"{os.getpid()}\n".encode("ascii"))

    def release(self) -> None:
        """Delete the file, then unlock it: in the other order it could be another writer's."""
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        os.close(self._fd)
