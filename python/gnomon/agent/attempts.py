"""The attempts of one runtime between their claim and their recorded outcome."""

from __future__ import annotations

import os
import threading
import uuid
from dataclasses import dataclass, field

from .effects import CancelFlag
from .errors import StoreClosed, StoreUnavailable
from .leases import LeaseKeeper
from .observe import Observer
from .operations import OperationStore
from .records import Operation, OperationStatus, Settlement, SettleResult


@dataclass(eq=False)
class Running:
    """An attempt that was won and whose end is not recorded yet."""

    operation_id: str
    attempt: int
    cancel: CancelFlag = field(default_factory=CancelFlag)
    acting: bool = True  # until its tool has ended, or will never begin
    abandoned: bool = False  # nobody waits for the tool any more


class Attempts:
    """Owns what this process has in flight: identity, leases, cancel signals, outcomes to record.

    A lease is extended only while its attempt runs here, also after the dispatch stopped waiting
    for the tool and after ``close``; an outcome that the ledger did not take is kept and offered
    again with each heartbeat, while its lease is left to run out.
    """

    def __init__(
        self, store: OperationStore, observer: Observer, lease_seconds: float, heartbeat: bool
    ) -> None:
        self._store = store
        self._observer = observer
        self._lease = lease_seconds
        self._beats = heartbeat
        self._lock = threading.Lock()
        self._keeper: LeaseKeeper | None = None
        self._closed = False
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._owner = uuid.uuid4().hex
        self._running: dict[tuple[str, int], Running] = {}
        self._unrecorded: dict[tuple[str, int], tuple[Operation, Settlement]] = {}
        self._keeper = None

    @property
    def owner(self) -> str:
        """Identity in the ledger: a random id, and another one in a forked child."""
        if self._pid != os.getpid():
            with self._lock:
                if self._pid != os.getpid():
                    self._renew()
        return self._owner

    def start(self, row: Operation) -> Running:
        """Note a won attempt, and see that its lease is extended while it runs."""
        running = Running(row.operation_id, row.attempt)
        self._running[row.operation_id, row.attempt] = running
        if self._keeper is None and self._beats:
            with self._lock:
                if self._keeper is None and not self._closed:
                    self._keeper = self._new_keeper()
        return running

    def _new_keeper(self) -> LeaseKeeper | None:
        try:
            return LeaseKeeper(self, "beat", self._lease / 3)
        except RuntimeError as error:  # no thread left: the lease may run out, the result counts
            self._observer.emit("lease.failed", error=type(error).__name__)
            return None

    def finish(self, running: Running) -> None:
        """Forget an attempt whose tool has ended and whose outcome was offered to the ledger."""
        running.acting = False
        self._running.pop((running.operation_id, running.attempt), None)

    def acts(self, operation_id: str) -> bool:
        """Whether a tool of this operation still runs in this process, waited for or not."""
        return self._pid == os.getpid() and any(
            running.acting
            for running in list(self._running.values())
            if running.operation_id == operation_id
        )

    def outlives(self, operation_id: str) -> bool:
        """Whether a tool of this operation runs here although nobody waits for it any more."""
        return self._pid == os.getpid() and any(
            running.acting and running.abandoned
            for running in list(self._running.values())
            if running.operation_id == operation_id
        )

    def signal_cancel(self, operation_id: str) -> None:
        """Tell the tool of this operation, if it runs here, that somebody asked to cancel."""
        for running in list(self._running.values()):
            if running.operation_id == operation_id:
                running.cancel.asked = True

    def settle(self, row: Operation, settlement: Settlement) -> SettleResult | None:
        """Record an outcome; None where the ledger is unreachable, and the outcome is then kept."""
        try:
            settled = self._store.settle(row.operation_id, row.owner, row.attempt, settlement)
        except BaseException as error:
            if isinstance(error, ValueError):  # refused for good, for example a forgotten id
                self._unrecorded.pop((row.operation_id, row.attempt), None)
                raise
            # Offered again with the next heartbeat: a settlement may be repeated without harm.
            self._unrecorded[row.operation_id, row.attempt] = (row, settlement)
            if isinstance(error, StoreUnavailable):
                return None
            raise
        event = "operation.settled"
        if not settled.applied and settlement.status is not OperationStatus.NEEDS_RECONCILE:
            event = "operation.late_conflict"
        self._observer.emit(
            event,
            operation_id=row.operation_id,
            tool=row.request.tool,
            status=settled.operation.status.value,
            attempt=row.attempt,
            reason=settlement.reason,
            error=settlement.error_class,
        )
        return settled

    def beat(self) -> bool:
        """One heartbeat of the lease thread; False once there is nothing to stay alive for."""
        open_store = self.heartbeat()
        return not self._closed or (open_store and bool(self._running))

    def heartbeat(self) -> bool:
        """Extend leases of running attempts, learn of cancellations, record what waits.

        False where the store was closed: nothing can be recorded in it any more.
        """
        if self._pid != os.getpid():
            return True
        running = list(self._running.values())
        try:
            if running:
                ids = list(dict.fromkeys(each.operation_id for each in running))
                asked = self._store.heartbeat(self._owner, ids, self._lease)
                for each in running:
                    if each.operation_id in asked:
                        each.cancel.asked = True
        except Exception as error:  # whatever it is, it must not end the thread that comes back
            self._observer.emit("lease.failed", error=type(error).__name__, running=len(running))
            return not isinstance(error, StoreClosed)
        for key, (row, settlement) in list(self._unrecorded.items()):
            try:
                if self.settle(row, settlement) is None:
                    return True
                self._unrecorded.pop(key, None)
            except Exception as error:  # one that the ledger refuses must not hold up the others
                self._observer.emit("lease.failed", error=type(error).__name__)
        return True

    def close(self) -> None:
        """End the lease thread after a last try to record what waits.

        While a tool still runs that nobody waits for, the thread goes on until that tool has ended:
        a lease that runs out would tell other processes that it cannot act any more.
        """
        with self._lock:
            self._closed = True
            keeper = self._keeper
            if not self._running:
                self._keeper = None
        if keeper is not None and not self._running:
            keeper.stop()
        if self._unrecorded:
            self.heartbeat()
