"""A fair file lock, and the question whether a file lies on a network.

SQLite's own waiting is unfair: a writer that has waited long sleeps longer between its looks, so
newcomers overtake it, and with eight writers some wait for seconds. Here waiting is the kernel's,
in the order of arrival, and whoever comes next holds a place that nobody can overtake.
"""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType

if sys.platform != "win32":
    import fcntl

#: File systems on which another machine may write the same file; SQLite's WAL needs one machine.
NETWORK_FILE_SYSTEMS = frozenset(
    {
        *("afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.s3fs"),
        *("fuse.sshfs", "gfs2", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb3", "smbfs"),
    }
)


class FileLock:
    """An exclusive ``flock`` that a killed process cannot leave behind; for one thread at a time.

    Two files: who holds PATH-queue is next, who holds PATH-lock is at work. Giving the work back
    and asking again at once leads to the end of the queue, not past it. The files stay: deleting a
    lock file would let two holders in.
    """

    def __init__(self, path: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._fds: list[int] = []
        try:
            for end in ("queue", "lock"):
                self._fds.append(os.open(f"{path}-{end}", flags, 0o600))
        except OSError:
            self._close_files()
            raise
        self._state = threading.Lock()
        self._waiter: threading.Thread | None = None
        self._ask = threading.Semaphore(0)
        self._granted = threading.Event()
        self._pending = self._abandoned = self._closed = False

    def acquire(self, timeout: float) -> bool:
        """Take the lock; False where others hold it for all of `timeout` seconds."""
        if sys.platform == "win32":
            return True  # BEGIN IMMEDIATE alone is right as well, only less fair
        with self._state:
            if self._pending:
                self._abandoned = False  # an earlier wait that was given up goes on for us
            elif self._at_once():
                return True
            else:
                self._start_waiting()
        try:
            if self._granted.wait(timeout):
                return True
        except BaseException:
            self._give_up(release=True)
            raise
        return self._give_up(release=False)

    def _at_once(self) -> bool:
        queue, lock = self._fds
        try:
            fcntl.flock(queue, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False  # keeps its place in the queue for the wait that follows
        fcntl.flock(queue, fcntl.LOCK_UN)
        return True

    def _start_waiting(self) -> None:
        """A flock cannot be waited for with a limit, so a thread waits for it without one."""
        if self._waiter is None:
            waiter = threading.Thread(target=self._wait, name="gnomon-lock", daemon=True)
            try:
                waiter.start()
            except RuntimeError:  # no thread left: the place in the queue must not stay taken
                fcntl.flock(self._fds[0], fcntl.LOCK_UN)
                raise
            self._waiter = waiter
        self._pending = True
        self._granted.clear()
        self._ask.release()

    def _wait(self) -> None:
        queue, lock = self._fds
        while True:
            self._ask.acquire()
            if self._closed:
                return
            fcntl.flock(queue, fcntl.LOCK_EX)
            fcntl.flock(lock, fcntl.LOCK_EX)
            fcntl.flock(queue, fcntl.LOCK_UN)
            with self._state:
                self._pending = False
                if self._abandoned:
                    self._abandoned = False
                    fcntl.flock(lock, fcntl.LOCK_UN)
                else:
                    self._granted.set()
                if self._closed:
                    self._close_files()
                    return

    def _give_up(self, *, release: bool) -> bool:
        """Stop waiting. True where the lock came at the last moment and is kept."""
        with self._state:
            if not self._granted.is_set():
                self._abandoned = True
                return False
            if release:
                self.release()
            return True

    def release(self) -> None:
        """Give the lock back."""
        if sys.platform != "win32":
            fcntl.flock(self._fds[1], fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the files, which gives the lock back as well."""
        with self._state:
            if self._closed:
                return
            self._closed = True
            if self._pending:
                return  # the waiting thread closes them when its wait is over
        self._ask.release()
        if self._waiter is not None and self._waiter is not threading.current_thread():
            self._waiter.join()
        self._close_files()

    def _close_files(self) -> None:
        fds, self._fds = self._fds, []
        for fd in fds:
            os.close(fd)

    def drop_in_child(self) -> None:
        """Close a forked child's copies: with them it would hold its killed parent's lock."""
        self._closed = True
        self._close_files()

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
