"""For tests of tools, stores and runtimes: effects counted, processes killed, stores broken.

An effect counted in a list of the process proves nothing about a process that died; a store that
never fails proves nothing about one that does. These four are what gnomon's own tests use.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from . import operations
from .errors import StoreUnavailable
from .operations import CRASH_POINTS, OperationStore
from .records import (
    Approval,
    Claim,
    ClaimResult,
    NewApproval,
    Operation,
    OperationEvent,
    OperationRequest,
    OperationStatus,
    Settlement,
    SettleResult,
)

__all__ = ["CRASH_POINTS", "EffectCounter", "FaultyStore", "SimClock", "kill_points"]

T = TypeVar("T")
Moment = Literal["before", "after"]


class SimClock:
    """A clock that stands still until the test moves it; give it to a store as ``clock``.

    >>> clock = SimClock(1000.0)
    >>> clock.advance(5)
    >>> clock()
    1005.0
    """

    def __init__(self, time: float = 1000.0) -> None:
        self.time = time

    def __call__(self) -> float:
        return self.time

    def advance(self, seconds: float) -> None:
        """Move the clock; a negative number moves it backwards, as a machine's clock may."""
        self.time += seconds


class EffectCounter:
    """Counts effects in a file: one line each, on the disk before ``add`` returns.

    It survives SIGKILL, and any number of threads and processes may share it.

    >>> import tempfile
    >>> effects = EffectCounter(os.path.join(tempfile.mkdtemp(), "effects"))
    >>> effects.add("op-1"); effects.add("op-1")
    >>> effects.count, effects.most()
    (2, 2)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def add(self, name: str = "") -> None:
        """Record one effect; ``name`` says whose, and holds no line break."""
        if "\n" in name:
            raise ValueError(f"name must be one line, got {name!r}")
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, f"{name}\n".encode())
            os.fsync(handle)
        finally:
            os.close(handle)

    def names(self) -> list[str]:
        """The effects so far, in the order in which they reached the file."""
        return self.path.read_text().splitlines() if self.path.exists() else []

    @property
    def count(self) -> int:
        """How many effects there were."""
        return len(self.names())

    def most(self) -> int:
        """How many effects the name with the most of them has: 1 is the promise."""
        return max(Counter(self.names()).values(), default=0)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def kill_points(
    *points: str, visit: int = 1, action: Callable[[], object] = _die
) -> Iterator[Mapping[str, int]]:
    """Kill this process with SIGKILL at the ``visit``-th visit of one of these points.

    The points of a dispatch are CRASH_POINTS, from "before_claim" to "after_decision"; a tool of
    the test may call ``operations.crash_point`` for the two inside it. Gives the visits counted so
    far, of every point. ``action`` may do something else instead: raise, or let a rival act. Only
    one at a time, for the whole process.

    Raises ValueError for a point that does not exist: it would never be reached.

    >>> def interrupt():
    ...     raise KeyboardInterrupt
    >>> with kill_points("after_claim", action=interrupt) as visits:
    ...     operations.crash_point("before_claim")
    >>> dict(visits)
    {'before_claim': 1}
    """
    unknown = sorted(set(points) - set(CRASH_POINTS))
    if unknown:
        raise ValueError(f"no such points: {unknown}; choose from {list(CRASH_POINTS)}")
    visits: Counter[str] = Counter()

    def hook(name: str) -> None:
        visits[name] += 1
        if name in points and visits[name] == visit:
            action()

    before = operations.crash_hook
    operations.crash_hook = hook
    try:
        yield visits
    finally:
        operations.crash_hook = before


class FaultyStore:
    """An OperationStore that loses answers, refuses changes or is slow where it is told to.

    Parameters
    ----------
    store : OperationStore
        What keeps the data; open it again elsewhere to see what really was committed.

    >>> from gnomon.agent import MemoryOperationStore
    >>> store = FaultyStore(MemoryOperationStore())
    >>> store.fail("get", times=1)
    >>> store.get("op-1")
    Traceback (most recent call last):
      ...
    gnomon.agent.errors.StoreUnavailable: get: made to fail before its change
    >>> store.get("op-1") is None
    True
    """

    def __init__(self, store: OperationStore) -> None:
        self.store = store
        self.blocking = store.blocking
        self.calls: Counter[str] = Counter()
        self._faults: dict[str, tuple[Moment, int | None, BaseException | None]] = {}
        self._slow: dict[str, float] = {}

    def fail(
        self,
        method: str,
        moment: Moment = "before",
        *,
        times: int | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Make the next ``times`` calls of a method fail; None: all until ``heal``.

        "before": nothing was changed (a full disk, a lost connection). "after": the change was made
        and its answer is lost (a commit that raised but was committed).
        """
        self._check(method)
        if moment not in ("before", "after"):
            raise ValueError(f'moment must be "before" or "after", got {moment!r}')
        self._faults[method] = (moment, times, error)

    def slow(self, method: str, seconds: float) -> None:
        """Make each call of a method wait first."""
        self._check(method)
        self._slow[method] = seconds

    def heal(self) -> None:
        """Take all faults back."""
        self._faults.clear()
        self._slow.clear()

    def _check(self, method: str) -> None:
        if method.startswith("_") or not hasattr(OperationStore, method):
            raise ValueError(f"an OperationStore has no method {method!r}")

    def _maybe(self, method: str, now: Moment) -> None:
        moment, times, error = self._faults.get(method, (None, None, None))
        if moment != now:
            return
        if times is not None:
            if times <= 1:
                del self._faults[method]
            else:
                self._faults[method] = (now, times - 1, error)
        raise error or StoreUnavailable(f"{method}: made to fail {now} its change")

    def _through(self, method: str, call: Callable[[], T]) -> T:
        self.calls[method] += 1
        time.sleep(self._slow.get(method, 0.0))
        self._maybe(method, "before")
        result = call()
        self._maybe(method, "after")
        return result

    # --- OperationStore, method by method ---------------------------------------------------------

    def now(self) -> float:
        """See OperationStore.now."""
        return self._through("now", self.store.now)

    def get(self, operation_id: str) -> Operation | None:
        """See OperationStore.get."""
        return self._through("get", lambda: self.store.get(operation_id))

    def claim(self, claim: Claim) -> ClaimResult:
        """See OperationStore.claim."""
        return self._through("claim", lambda: self.store.claim(claim))

    def settle(
        self, operation_id: str, owner: str, attempt: int, settlement: Settlement
    ) -> SettleResult:
        """See OperationStore.settle."""
        return self._through(
            "settle", lambda: self.store.settle(operation_id, owner, attempt, settlement)
        )

    def heartbeat(
        self, owner: str, operation_ids: Iterable[str], lease_seconds: float
    ) -> frozenset[str]:
        """See OperationStore.heartbeat."""
        return self._through(
            "heartbeat", lambda: self.store.heartbeat(owner, operation_ids, lease_seconds)
        )

    def recover(self, limit: int = 1000) -> list[Operation]:
        """See OperationStore.recover."""
        return self._through("recover", lambda: self.store.recover(limit))

    def resolve(
        self,
        operation_id: str,
        settlement: Settlement,
        actor: str,
        evidence: Mapping[str, Any],
        attempt: int | None = None,
    ) -> SettleResult:
        """See OperationStore.resolve."""
        return self._through(
            "resolve",
            lambda: self.store.resolve(operation_id, settlement, actor, evidence, attempt),
        )

    def request_cancel(self, request: OperationRequest, actor: str) -> SettleResult:
        """See OperationStore.request_cancel."""
        return self._through("request_cancel", lambda: self.store.request_cancel(request, actor))

    def request_approval(
        self, request: OperationRequest, approval: NewApproval
    ) -> tuple[Operation, Approval | None]:
        """See OperationStore.request_approval."""
        return self._through(
            "request_approval", lambda: self.store.request_approval(request, approval)
        )

    def get_approval(self, approval_id: str) -> Approval | None:
        """See OperationStore.get_approval."""
        return self._through("get_approval", lambda: self.store.get_approval(approval_id))

    def decide(self, approval_id: str, approve: bool, decided_by: str) -> tuple[bool, Approval]:
        """See OperationStore.decide."""
        return self._through("decide", lambda: self.store.decide(approval_id, approve, decided_by))

    def expire_approvals(self, limit: int = 1000) -> list[Operation]:
        """See OperationStore.expire_approvals."""
        return self._through("expire_approvals", lambda: self.store.expire_approvals(limit))

    def set_remote_ref(self, operation_id: str, owner: str, attempt: int, remote_ref: str) -> bool:
        """See OperationStore.set_remote_ref."""
        return self._through(
            "set_remote_ref",
            lambda: self.store.set_remote_ref(operation_id, owner, attempt, remote_ref),
        )

    def events(self, operation_id: str) -> list[OperationEvent]:
        """See OperationStore.events."""
        return self._through("events", lambda: self.store.events(operation_id))

    def list_operations(
        self,
        *,
        statuses: Iterable[OperationStatus] | None = None,
        tenant: str | None = None,
        after: str = "",
        limit: int = 1000,
    ) -> list[Operation]:
        """See OperationStore.list_operations."""
        return self._through(
            "list_operations",
            lambda: self.store.list_operations(
                statuses=statuses, tenant=tenant, after=after, limit=limit
            ),
        )

    def purge_results(self, settled_before: float) -> int:
        """See OperationStore.purge_results."""
        return self._through("purge_results", lambda: self.store.purge_results(settled_before))

    def forget(self, settled_before: float) -> int:
        """See OperationStore.forget."""
        return self._through("forget", lambda: self.store.forget(settled_before))

    def close(self) -> None:
        """See OperationStore.close."""
        self.store.close()
