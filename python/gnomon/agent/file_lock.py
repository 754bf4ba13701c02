"""A file lock that is fair enough, and the question whether a file lies on a network.

SQLite's own waiting is unfair: a writer that has waited long sleeps longer between its looks, so
newcomers overtake it, and with eight writers some wait for seconds. Here whoever has waited longer
looks more often.
"""

from __future__ import annotations

import os
import random
import sys
import time
from types import TracebackType

if sys.platform != "win32":
    import fcntl

#: Seconds between two looks at the lock: of a newcomer, and of one that has waited SOON seconds.
_PATIENT, _EAGER, _SOON = 0.003, 0.0004, 0.05

#: File systems on which another machine may write the same file; SQLite's WAL needs one machine.
NETWORK_FILE_SYSTEMS = frozenset(
    {
        *("afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.s3fs"),
        *("fuse.sshfs", "gfs2", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb3", "smbfs"),
    }
)


class FileLock:
    """An exclusive ``flock`` that a killed process cannot leave behind; for one thread at a time.

    The file stays: deleting a lock file would let two holders in.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def acquire(self, timeout: float) -> bool:
        """Take the lock; False where another holds it for all of `timeout` seconds."""
        if sys.platform == "win32":
            return True  # BEGIN IMMEDIATE alone is right as well, only less fair
        start = time.monotonic()
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                pass
            waited = time.monotonic() - start
            if waited >= timeout:
                return False
            share = min(waited / _SOON, 1.0)
            pause = _PATIENT + (_EAGER - _PATIENT) * share
            time.sleep(pause * random.uniform(0.5, 1.5))

    def release(self) -> None:
        """Give the lock back."""
        if sys.platform != "win32":
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file, which gives the lock back as well."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> FileLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def network_file_system(path: str, table: str = "/proc/self/mountinfo") -> str | None:
    """Name of the network file system that holds `path`; None where it is local or unknown.

    Unknown is every system without Linux's table of mounts.
    """
    try:
        device = os.stat(path).st_dev
        with open(table, encoding="utf-8", errors="surrogateescape") as lines:
            mounts = [line.split() for line in lines]
    except OSError:
        return None
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for fields in mounts:
        if fields[2] == wanted:
            kind = fields[fields.index("-") + 1]
            if kind in NETWORK_FILE_SYSTEMS:
                return kind
    return None
