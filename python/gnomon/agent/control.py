"""The operator's side of a runtime: cancel, reconcile, recover, look."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .core import RuntimeCore
from .errors import InvalidTransition, StillRunning, ToolRefused
from .identity import check_name
from .jsonvalue import canonicalize, digest
from .operations import OperationStore, all_operations
from .records import (
    Operation,
    OperationEvent,
    OperationRequest,
    OperationStatus,
    Settlement,
)

_S = OperationStatus
_RESOLVED = {
    "succeeded": _S.SUCCEEDED,
    "failed": _S.FAILED,
    "not_executed": _S.NOT_EXECUTED,
}


class Control(RuntimeCore):
    """RuntimeCore with the methods that need no driver: each is one call of the ledger."""

    @property
    def operations(self) -> OperationsView:
        """The ledger as a read-only mapping of operation id to a dict; every look reads anew."""
        return OperationsView(self.store)

    def operation(self, operation_id: str) -> Operation | None:
        """The row under this id, or None."""
        return self.store.get(check_name("operation_id", operation_id))

    def events(self, operation_id: str) -> list[OperationEvent]:
        """The audit record of one operation."""
        return self.store.events(check_name("operation_id", operation_id))

    def recover(self) -> list[Operation]:
        """Mark operations in flight whose owner is dead as needs_reconcile, and return them.

        Dead means: its lease ran out, by the ledger's clock. Live owners are left alone, and
        nothing is ever started again.
        """
        found: list[Operation] = []
        while True:
            batch = self.store.recover(1000)
            for row in batch:
                self.observer.emit(
                    "operation.recovered", operation_id=row.operation_id, tool=row.request.tool
                )
            found += batch
            if len(batch) < 1000:
                return found

    def cancel(
        self,
        operation_id: str,
        *,
        principal: str | None = None,
        tenant: str | None = None,
        actor: str = "",
    ) -> dict[str, Any]:
        """Cancel what has not started; record the wish, and tell the tool, for what has.

        Returns ``{"operation_id", "status", "cancel_requested"}``: status "cancelled" means that
        nothing was and will be executed. For an operation in flight the status follows the effect
        when it is known: succeeded stays succeeded. An id that nobody used yet is cancelled in
        advance.

        Raises ToolRefused for another caller's operation.
        """
        request = OperationRequest(
            self.check_stored("operation_id", operation_id),
            self.check_stored(
                "tenant", self.settings.tenant if tenant is None else tenant, empty=True
            ),
            self.check_stored(
                "principal", self.settings.principal if principal is None else principal, empty=True
            ),
            "",
            "",
            "",
            None,
        )
        self.check_stored("actor", actor, empty=True)
        changed, row = self.store.request_cancel(request, actor or request.principal or "caller")
        if not row.same_caller(request):
            raise ToolRefused("the operation belongs to another caller")
        if row.status in (_S.IN_FLIGHT, _S.NEEDS_RECONCILE):
            self.attempts.signal_cancel(operation_id)
        if changed:
            self.observer.emit(
                "operation.cancel", operation_id=operation_id, status=row.status.value, actor=actor
            )
        return {
            "operation_id": operation_id,
            "status": row.status.value,
            "cancel_requested": row.cancel_requested_at is not None or row.status is _S.CANCELLED,
        }

    def reconcile(
        self,
        operation_id: str,
        outcome: Mapping[str, Any] | str,
        *,
        actor: str = "operator",
        evidence: Mapping[str, Any] | None = None,
        attempt: int | None = None,
    ) -> Operation:
        """``resolve`` in two words: an operator says it, and has no evidence to show."""
        return self.resolve(operation_id, outcome, evidence or {}, actor, attempt)

    def resolve(
        self,
        operation_id: str,
        outcome: Mapping[str, Any] | str,
        evidence: Mapping[str, Any],
        actor: str,
        attempt: int | None = None,
    ) -> Operation:
        """Record what really happened to an operation that needs reconciliation.

        Parameters
        ----------
        operation_id : str
        outcome : dict or str
            ``{"status": "succeeded" | "failed" | "not_executed", ...}``, which later dispatches
            answer, or the status alone. After "not_executed" the same id may be dispatched for
            another attempt.
        evidence : mapping
            What it is based on; JSON, kept in the audit record.
        actor : str
            Who says so, for the audit record.
        attempt : int, optional
            ``Operation.attempt`` of the row that was looked into; refused where another attempt
            has been made since. A look proves "not_executed" only if it began after that row
            needed reconciliation and its tool had ended.

        Raises
        ------
        ValueError
            UnknownOperation, InvalidTransition where the operation is in another state or attempt,
            StillRunning for "not_executed" while its tool runs on (in this process, or in another
            one that lives: its lease is not over), or an outcome that is none. Nothing is changed
            then.
        """
        check_name("operation_id", operation_id)
        self.check_stored("actor", actor)
        before = self.store.get(operation_id)
        if before is not None and isinstance(outcome, Mapping):
            outcome = self.registry.storable(before.request.tool, outcome)
        settlement = resolution(outcome, operation_id)
        known = canonicalize(dict(evidence)).value
        acts = before is not None and self.attempts.acts(operation_id)
        if before is not None and acts and settlement.status is _S.NOT_EXECUTED:
            raise StillRunning(operation_id, before.status.value, before.owner, before.lease_until)
        if before is not None:
            known = self._without_secrets(before.request, known)
        applied, row = self.store.resolve(operation_id, settlement, actor, known, attempt)
        if not applied:
            raise InvalidTransition(operation_id, row.status.value, settlement.status.value)
        self.observer.emit(
            "operation.reconciled",
            operation_id=operation_id,
            tool=row.request.tool,
            status=row.status.value,
            actor=actor,
        )
        return row

    def _without_secrets(self, request: OperationRequest, evidence: Any) -> Any:
        """Evidence as the audit record may show it: it may repeat the call's secrets."""
        stored = request.arguments_json
        arguments = None if stored is None else json.loads(stored)
        return self.registry.redactor_for(request.tool, arguments, evidence).value(evidence)

    def heartbeat(self) -> None:
        """Give a sign of life for running operations; the lease thread does it by itself."""
        self.attempts.heartbeat()

    def close(self) -> None:
        """Stop the lease thread and refuse further dispatches. The store stays open: it is yours.

        A tool that ran into its timeout and still runs keeps its lease as long as the store is
        open. Close the store after it, or an operator may resolve the operation as not executed.
        """
        self._closed = True
        self.attempts.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def resolution(outcome: Mapping[str, Any] | str, operation_id: str) -> Settlement:
    """The settlement that a reconciled outcome stands for, or ValueError."""
    result = {"status": outcome} if isinstance(outcome, str) else outcome
    if not isinstance(result, Mapping):
        raise ValueError(f"outcome must be a dict or a status, got {type(outcome).__name__}")
    status = result.get("status")
    if not isinstance(status, str) or status not in _RESOLVED:
        raise ValueError(
            f"an outcome's status must be one of {sorted(_RESOLVED)}; "
            "leave an operation whose outcome is still unknown as it is"
        )
    if _RESOLVED[status] is _S.NOT_EXECUTED:
        return Settlement(_S.NOT_EXECUTED, reason="reconciled")
    data = canonicalize(dict(result)).data
    return Settlement(_RESOLVED[status], data, digest(data), len(data), reason="reconciled")


class OperationsView(Mapping[str, "dict[str, Any]"]):
    """Operations as plain dicts: tool, arguments, status, and result where there is one."""

    def __init__(self, store: OperationStore) -> None:
        self._store = store

    def __repr__(self) -> str:
        return f"OperationsView({len(self)} operations)"

    def __getitem__(self, operation_id: str) -> dict[str, Any]:
        row = self._store.get(operation_id) if isinstance(operation_id, str) else None
        if row is None:
            raise KeyError(operation_id)
        arguments = row.request.arguments_json
        entry: dict[str, Any] = {
            "tool": row.request.tool,
            "arguments": None if arguments is None else json.loads(arguments),
            "status": row.status.value,
        }
        if row.result_json is not None:
            entry["result"] = json.loads(row.result_json)
        return entry

    def __iter__(self) -> Iterator[str]:
        return (row.operation_id for row in all_operations(self._store))

    def __len__(self) -> int:
        return sum(1 for _ in self)
