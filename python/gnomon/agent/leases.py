"""Leases: how long other processes take the owner of a running operation for alive.

What a lease cannot do: a process that stands still (SIGSTOP, a paused machine, a C extension that
holds the interpreter) for longer than its lease while its tool is under way looks dead to the
others, and goes on with the tool when it wakes. If somebody resolved the operation as not executed
meanwhile, it may be started elsewhere, and both may act. No clock of ours closes that gap; an
``idempotency_key`` that the other side honours does, a tool with ``isolation="process"`` makes it
small (it is killed with its lease), and so does a lease longer than any pause to be expected.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable


def steady() -> float:
    """Seconds that only grow, also while the machine sleeps; the same in all its processes."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Lease:
    """Until when, by this process's own clock, nobody else takes its attempt for dead.

    Counted from before the ledger was asked, so it ends no later than the ledger's own. Once over
    it stays over: somebody may have looked meanwhile.
    """

    __slots__ = ("end",)

    def __init__(self, since: float, seconds: float) -> None:
        self.end = since + seconds

    def left(self) -> float:
        """Seconds left; 0 or less where it is over."""
        return self.end - steady()

    def extend(self, since: float, seconds: float) -> None:
        """The ledger was asked at ``since`` and gave this many seconds more."""
        if since < self.end:
            self.end = max(self.end, since + seconds)


class LeaseKeeper:
    """A daemon thread that calls ``beat`` of its target every ``interval`` seconds until it is
    stopped, or ``beat`` says False.

    It holds its target weakly: a runtime that nobody uses any more ends its thread.
    """

    def __init__(self, target: object, beat: str, interval: float) -> None:
        self._target = weakref.ref(target, lambda _: self._stop.set())
        self._beat = beat
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gnomon-lease", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            target = self._target()
            if target is None:
                return
            beat: Callable[[], object] = getattr(target, self._beat)
            if beat() is False:
                return
            del target, beat  # else this frame would keep the target alive until the next beat

    def stop(self) -> None:
        """End the thread; returns once it has ended, unless called from it."""
        self._stop.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
