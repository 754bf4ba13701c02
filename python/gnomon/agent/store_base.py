"""What the two SQL ledgers share: every method of OperationStore over one open transaction."""

from __future__ import annotations

import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Literal, TypeVar

from . import store_approvals as approvals
from . import store_outcomes as outcomes
from . import store_rules as rules
from . import store_schema as schema
from . import store_sql as sql
from . import store_upkeep as upkeep
from .errors import StoreClosed, StoreUnavailable
from .records import (
    Approval,
    Claim,
    ClaimReason,
    ClaimResult,
    NewApproval,
    Operation,
    OperationEvent,
    OperationRequest,
    OperationStatus,
    Settlement,
    SettleResult,
)
from .store_sql import Parameters, Row, Transaction

T = TypeVar("T")
StoreArguments = Literal["full", "digest"]
Rows = Callable[[str, Parameters], list[Row]]


class CommitUnknown(StoreUnavailable):
    """COMMIT was sent and its answer is missing: the change may be made or not."""


class SqlOperationStore(ABC):
    """An OperationStore on a database; the two that inherit it bring transactions and a clock."""

    blocking = True

    def __init__(self, store_arguments: StoreArguments) -> None:
        if store_arguments not in ("full", "digest"):
            raise ValueError(f"store_arguments must be 'full' or 'digest', got {store_arguments!r}")
        self._digest_only = store_arguments == "digest"
        self._pid = os.getpid()
        self._open = True

    @property
    def digest_only(self) -> bool:
        """Whether arguments are kept as digests; a runtime then keeps secrets out of results."""
        return self._digest_only

    @abstractmethod
    def now(self) -> float:
        """The store's clock."""

    @abstractmethod
    def read(self, statement: str, parameters: Parameters) -> list[Row]:
        """Rows of one reading statement (in the marks of `store_sql`), from what is committed."""

    @abstractmethod
    def transaction(self, *, durable: bool = True) -> AbstractContextManager[Transaction]:
        """A writing transaction: commits at the end, rolls back on any exception.

        `durable` True returns only when a power cut cannot lose the commit any more.
        """

    def _check(self) -> None:
        """Raise where the ledger cannot be used: in a forked child, and after close."""
        if os.getpid() != self._pid:
            raise StoreUnavailable(
                "this ledger was opened before a fork; open it again in the child process"
            )
        if not self._open:
            raise StoreClosed("the ledger was closed; open a new one")

    @abstractmethod
    def _has_versions(self, rows: Rows) -> bool:
        """Whether the table of versions is there."""

    @abstractmethod
    def _prepare_versions(self, tx: Transaction) -> None:
        """Take the lock of migrations and make the table of versions."""

    def migrate(self, component: str, migrations: Sequence[Sequence[str]]) -> None:
        """Bring the tables of `component` up to the last of these migrations, under a lock.

        Migrations are statements in the marks of `store_sql`; entries may only be added to them.
        ValueError where the ledger has a newer version than these.
        """
        if self._version(self.read, component, migrations) == len(migrations):
            return
        with self.transaction() as tx:
            self._prepare_versions(tx)
            done = self._version(tx.rows, component, migrations)
            for version, statements in enumerate(migrations[done:], done + 1):
                for statement in statements:
                    tx.change(statement, {})
                row = {"component": component, "version": version, "applied_at": tx.now}
                tx.change(schema.SCHEMA_WRITE, row)

    def _version(self, rows: Rows, component: str, migrations: Sequence[Sequence[str]]) -> int:
        if not self._has_versions(rows):
            return 0
        done = rows(schema.SCHEMA_READ, {"component": component})[0][0] or 0
        if done > len(migrations):
            raise ValueError(
                f"the ledger has version {done} of {component!r}; this gnomon knows "
                f"{len(migrations)}. Install a newer gnomon"
            )
        return int(done)

    def _write(self, durable: bool, work: Callable[[Transaction], T]) -> T:
        with self.transaction(durable=durable) as tx:
            return work(tx)

    def _kept(self, request: OperationRequest) -> OperationRequest:
        """What of a request is stored; text that one of the databases cannot hold is refused."""
        for name, value in vars(request).items():
            if isinstance(value, str) and "\0" in value:
                raise ValueError(f"{name} holds a NUL character, which the ledger cannot store")
        if self._digest_only and request.arguments_json is not None:
            return replace(request, arguments_json=None)
        return request

    def get(self, operation_id: str) -> Operation | None:
        """See OperationStore.get."""
        found = self.read(sql.GET, {"operation_id": operation_id})
        return sql.operation_of(found[0]) if found else None

    def claim(self, claim: Claim) -> ClaimResult:
        """See OperationStore.claim."""
        kept = self._kept(claim.request)
        wish = claim if kept is claim.request else replace(claim, request=kept)
        token = uuid.uuid4().hex
        result: ClaimResult | None = None
        try:
            with self.transaction(durable=claim.durable) as tx:
                result = self._claim(tx, wish, token)
        except CommitUnknown:
            if result is not None and result.won:
                return self._claimed_after_all(result, token)
            raise
        return result

    def _claim(self, tx: Any, wish: Claim, token: str) -> ClaimResult:
        return rules.claim(tx, wish, token)

    def _claimed_after_all(self, result: ClaimResult, token: str) -> ClaimResult:
        """The row tells whose claim was committed.

        The token is of this call: two threads of one owner may have tried the same id, and then
        owner and attempt alone would make both of them the winner.
        """
        operation_id = result.operation.operation_id
        found = self.read(sql.CLAIM_TOKEN, {"operation_id": operation_id})
        if found and found[0][0] == token:
            return result
        row = self.get(operation_id)
        if row is not None and row.attempt >= result.operation.attempt:
            return ClaimResult(False, row, ClaimReason.EXISTS)
        raise StoreUnavailable(
            f"the commit of the claim of operation {operation_id!r} failed and the ledger does not "
            "have it; the tool was not started, dispatch the same id again"
        )

    def settle(
        self, operation_id: str, owner: str, attempt: int, settlement: Settlement
    ) -> SettleResult:
        """See OperationStore.settle. Not durable by itself: after a power cut that loses it, the
        operation is in flight again, and recovery makes it NEEDS_RECONCILE.
        """

        def work(tx: Transaction) -> SettleResult:
            return outcomes.settle(tx, operation_id, owner, attempt, settlement)

        try:
            return self._write(self._settle_durable, work)
        except CommitUnknown:
            # Settling again is safe: the same settlement is applied once.
            return self._write(self._settle_durable, work)

    _settle_durable = False

    def heartbeat(
        self, owner: str, operation_ids: Iterable[str], lease_seconds: float
    ) -> frozenset[str]:
        """See OperationStore.heartbeat."""
        ids = list(operation_ids)
        if not ids:
            return frozenset()
        return self._write(False, lambda tx: upkeep.heartbeat(tx, owner, ids, lease_seconds))

    def recover(self, limit: int = 1000) -> list[Operation]:
        """See OperationStore.recover."""
        return self._write(False, lambda tx: upkeep.recover(tx, limit))

    def resolve(
        self,
        operation_id: str,
        settlement: Settlement,
        actor: str,
        evidence: Mapping[str, Any],
        attempt: int | None = None,
    ) -> SettleResult:
        """See OperationStore.resolve."""
        return self._write(
            True,
            lambda tx: outcomes.resolve(tx, operation_id, settlement, actor, evidence, attempt),
        )

    def request_cancel(self, request: OperationRequest, actor: str) -> SettleResult:
        """See OperationStore.request_cancel."""
        kept = self._kept(request)
        return self._write(True, lambda tx: upkeep.request_cancel(tx, kept, actor))

    def request_approval(
        self, request: OperationRequest, approval: NewApproval
    ) -> tuple[Operation, Approval | None]:
        """See OperationStore.request_approval."""
        kept = self._kept(request)
        return self._write(True, lambda tx: approvals.request_approval(tx, kept, approval))

    def get_approval(self, approval_id: str) -> Approval | None:
        """See OperationStore.get_approval."""
        found = self.read(sql.APPROVAL_GET, {"approval_id": approval_id})
        return sql.approval_of(found[0]) if found else None

    def decide(self, approval_id: str, approve: bool, decided_by: str) -> tuple[bool, Approval]:
        """See OperationStore.decide."""
        return self._write(True, lambda tx: approvals.decide(tx, approval_id, approve, decided_by))

    def expire_approvals(self, limit: int = 1000) -> list[Operation]:
        """See OperationStore.expire_approvals."""
        return self._write(False, lambda tx: approvals.expire_approvals(tx, limit))

    def set_remote_ref(self, operation_id: str, owner: str, attempt: int, remote_ref: str) -> bool:
        """See OperationStore.set_remote_ref."""
        return self._write(
            True, lambda tx: upkeep.set_remote_ref(tx, operation_id, owner, attempt, remote_ref)
        )

    def events(self, operation_id: str) -> list[OperationEvent]:
        """See OperationStore.events."""
        return [sql.event_of(row) for row in self.read(sql.EVENTS, {"operation_id": operation_id})]

    def list_operations(
        self,
        *,
        statuses: Iterable[OperationStatus] | None = None,
        tenant: str | None = None,
        after: str = "",
        limit: int = 1000,
    ) -> list[Operation]:
        """See OperationStore.list_operations."""
        values = None if statuses is None else sorted({s.value for s in statuses})
        if values == []:
            return []
        statement = sql.list_statement(values, tenant is not None)
        found = self.read(statement, {"after": after, "limit": limit, "tenant": tenant})
        return [sql.operation_of(row) for row in found]

    def purge_results(self, settled_before: float) -> int:
        """See OperationStore.purge_results."""
        return self._write(True, lambda tx: upkeep.purge_results(tx, settled_before))

    def forget(self, settled_before: float) -> int:
        """See OperationStore.forget."""
        return self._write(True, lambda tx: upkeep.forget(tx, settled_before))

    @abstractmethod
    def close(self) -> None:
        """See OperationStore.close."""
