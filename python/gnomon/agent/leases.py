"""Extends the leases of running operations, so that other processes see that their owner lives."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable


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
