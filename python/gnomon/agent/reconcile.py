"""Looks up what became of open operations, by the read-only look-up that their tools declare."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import InvalidTransition, StillRunning, UnknownOperation
from .operations import all_operations
from .records import Operation, OperationStatus
from .retry import RetryPolicy

if TYPE_CHECKING:
    from .control import Control


@dataclass(frozen=True)
class OpenOperation:
    """What a tool's ``reconcile`` gets: enough to ask the other side, and nothing to act with.

    ``arguments`` is None where the ledger stores digests only.
    """

    operation_id: str
    tool: str
    tenant: str
    principal: str
    arguments: Mapping[str, Any] | None
    attempt: int
    remote_ref: str | None
    idempotency_key: str
    reason: str


@dataclass(frozen=True)
class Looked:
    """One look-up: what the tool answered ("unknown" where it could not say) and the row
    afterwards.
    """

    operation_id: str
    answer: str
    status: OperationStatus
    error: str = ""


class Reconciler:
    """Resolves operations in needs_reconcile by asking the other side; never starts a tool.

    A tool contract may name a function ``reconcile(operation: OpenOperation)`` that only reads. It
    returns ``{"status": "succeeded" | "failed" | "not_executed" | "unknown", ...}``; an optional
    "evidence" object goes to the audit record. Exceptions and other answers count as unknown.
    Without such a function, and after "unknown", an operation stays as it is for an operator.

    Parameters
    ----------
    runtime : ToolRuntime
        Or ``AsyncToolRuntime.core``. Look-ups are plain functions.
    retry : RetryPolicy
        For look-ups that raise; reading twice is harmless.
    sleep : callable, optional
        Replaced in tests.
    after : str
        The id behind which a ``run`` with a limit begins; the attribute ``after`` says where the
        next one does.
    """

    def __init__(
        self,
        runtime: Control,
        retry: RetryPolicy | None = None,
        sleep: Callable[[float], None] | None = None,
        after: str = "",
    ) -> None:
        self.after = after
        self._runtime = runtime
        self._retry = retry if retry is not None else RetryPolicy()
        self._sleep = sleep if sleep is not None else time.sleep

    def run(self, limit: int | None = None) -> list[Looked]:
        """One pass over the open operations, in order of their ids.

        With a limit, the next so many after ``after``, where the run before ended, and from the
        first again once the last was seen: operations that stay open do not keep later ones from
        being looked at. A program that makes a new Reconciler for each run keeps ``after`` itself.
        """
        if limit is not None and (type(limit) is not int or limit < 1):
            raise ValueError(f"limit must be None or an int >= 1, got {limit!r}")
        store, wanted = self._runtime.store, [OperationStatus.NEEDS_RECONCILE]
        if limit is None:
            rows = list(all_operations(store, statuses=wanted))
        else:
            rows = store.list_operations(statuses=wanted, after=self.after, limit=limit)
            self.after = rows[-1].operation_id if len(rows) == limit else ""
        return [looked for row in rows if (looked := self._look(row)) is not None]

    def recover(self) -> list[Operation]:
        """See ToolRuntime.recover: what dead owners left in flight becomes open here."""
        return self._runtime.recover()

    def resolve(
        self,
        operation_id: str,
        outcome: Mapping[str, Any] | str,
        evidence: Mapping[str, Any],
        actor: str,
        attempt: int | None = None,
    ) -> Operation:
        """See ToolRuntime.resolve: an operator's word where no look-up can say."""
        return self._runtime.resolve(operation_id, outcome, evidence, actor, attempt)

    def look(self, operation_id: str) -> Looked | None:
        """One operation; None where it is not open or its tool cannot look."""
        row = self._runtime.operation(operation_id)
        if row is None:
            raise UnknownOperation(operation_id)
        if row.status is not OperationStatus.NEEDS_RECONCILE:
            return None
        return self._look(row)

    def _look(self, row: Operation) -> Looked | None:
        tool = self._runtime.tools.get(row.request.tool)
        if tool is None or tool.reconcile is None:
            return None
        # A tool that may still act can act after the look: its "not executed" proves nothing, also
        # where the tool has ended by the time that we come to record it.
        may_act = row.may_run(self._runtime.store.now()) or self._runtime.attempts.acts(
            row.operation_id
        )
        answer, error = self._ask(tool.reconcile, row)
        status = answer.get("status")
        if not isinstance(status, str) or status not in ("succeeded", "failed", "not_executed"):
            return Looked(row.operation_id, "unknown", row.status, error)
        if status == "not_executed" and may_act:  # look again later
            return Looked(row.operation_id, status, row.status, StillRunning.__name__)
        evidence = answer.pop("evidence", {})
        try:
            row = self._runtime.reconcile(
                row.operation_id,
                answer,
                actor=f"reconcile:{row.request.tool}",
                evidence=evidence if isinstance(evidence, Mapping) else {"value": evidence},
                attempt=row.attempt,
            )
        except StillRunning as early:  # its owner gave a sign of life after all
            return Looked(row.operation_id, status, row.status, type(early).__name__)
        except InvalidTransition:  # somebody else resolved it meanwhile, or a late result came
            row = self._runtime.operation(row.operation_id) or row
        except ValueError as invalid:
            return Looked(row.operation_id, "unknown", row.status, type(invalid).__name__)
        return Looked(row.operation_id, status, row.status)

    def _ask(
        self, look: Callable[[OpenOperation], Any], row: Operation
    ) -> tuple[dict[str, Any], str]:
        arguments = row.request.arguments_json
        shown = OpenOperation(
            row.operation_id,
            row.request.tool,
            row.request.tenant,
            row.request.principal,
            None if arguments is None else json.loads(arguments),
            row.attempt,
            row.remote_ref,
            row.operation_id,
            row.reason,
        )
        error = ""
        for attempt in range(1, self._retry.attempts + 1):
            try:
                answer = look(shown)
            except Exception as failed:
                error = type(failed).__qualname__
                if attempt < self._retry.attempts:
                    self._sleep(self._retry.wait(attempt))
                continue
            return (dict(answer), "") if isinstance(answer, Mapping) else ({}, "no dict")
        return {}, error
