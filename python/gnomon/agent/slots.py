"""Limits on how many tools run at once: per tool, overall, and one for each resource.

The same for threads and for tasks of an event loop.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass


class Slot:
    """A place among the running tools. ``release`` may be called from any thread, and only counts
    once.
    """

    __slots__ = ("_free",)

    def __init__(self, free: Callable[[], None] | None = None) -> None:
        self._free = free

    def release(self) -> None:
        """Give the place to the next in line."""
        free, self._free = self._free, None
        if free is not None:
            free()


@dataclass(eq=False)
class Waiter:
    """One caller in line. ``slot`` is set before ``notify`` is called."""

    tool: str
    limit: int | None
    resource: str | None
    notify: Callable[[], None]
    slot: Slot | None = None


class Slots:
    """Counts running tools; callers in line are served first come, first served where they fit.

    Parameters
    ----------
    overall : int or None
        Most tools that run at once; None for no limit.
    """

    def __init__(self, overall: int | None) -> None:
        self._overall = overall
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._total = 0
        self._resources: set[str] = set()
        self._line: deque[Waiter] = deque()

    def enter(self, tool: str, limit: int | None, resource: str | None = None) -> Slot | None:
        """A slot at once, or None where the limits do not allow one now."""
        if limit is None and self._overall is None and resource is None:
            return Slot()
        with self._lock:
            return self._take(tool, limit, resource)

    def wait(
        self,
        tool: str,
        limit: int | None,
        notify: Callable[[], None],
        resource: str | None = None,
    ) -> Waiter:
        """Stand in line. ``notify`` is called once, maybe from another thread, when the slot is
        there.
        """
        waiter = Waiter(tool, limit, resource, notify)
        with self._lock:
            waiter.slot = self._take(tool, limit, resource)
            if waiter.slot is None:
                self._line.append(waiter)
                return waiter
        notify()
        return waiter

    def leave_line(self, waiter: Waiter) -> Slot | None:
        """Stop waiting; the slot, if one was given in the meantime."""
        with self._lock:
            if waiter.slot is None:
                self._line.remove(waiter)
            return waiter.slot

    def _take(self, tool: str, limit: int | None, resource: str | None) -> Slot | None:
        if resource is not None and resource in self._resources:
            return None
        if self._overall is not None and self._total >= self._overall:
            return None
        if limit is not None and self._running[tool] >= limit:
            return None
        self._total += 1
        self._running[tool] += 1
        if resource is not None:
            self._resources.add(resource)
        return Slot(lambda: self._release(tool, resource))

    def _release(self, tool: str, resource: str | None) -> None:
        served = []
        with self._lock:
            self._total -= 1
            self._running[tool] -= 1
            if resource is not None:
                self._resources.discard(resource)
            for waiter in list(self._line):
                waiter.slot = self._take(waiter.tool, waiter.limit, waiter.resource)
                if waiter.slot is not None:
                    self._line.remove(waiter)
                    served.append(waiter)
        for waiter in served:
            waiter.notify()
