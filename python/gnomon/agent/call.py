"""A checked call, and the effect that starts its tool once its claim is won."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from .effects import NotStarted, Raised, Returned, Run, Running, ToolContext
from .identity import check_name
from .records import Operation, OperationRequest
from .registry import Entry
from .slots import Slot

if TYPE_CHECKING:
    from .core import RuntimeCore
    from .dispatch import Timeout


def seconds_of(what: str, value: Any) -> float | None:
    """A number of seconds that a caller gave, or None; TypeError or ValueError for others."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
        raise TypeError(f"{what} must be a number of seconds or None, got {type(value).__name__}")
    if value is not None and value != value:
        raise ValueError(f"{what} must be a number of seconds, got nan")
    return value


class Prepared(NamedTuple):
    """A call that passed all checks which need no ledger."""

    entry: Entry
    request: OperationRequest
    arguments: dict[str, Any]
    canonical: bytes
    injected: dict[str, Any]
    approval_digest: str | None
    resource: str | None

    @property
    def whole(self) -> dict[str, Any]:
        """All arguments, the server's own included: where the secrets of the call stand."""
        return {**self.arguments, **self.injected} if self.injected else self.arguments

    def fresh_arguments(self) -> dict[str, Any]:
        """What the tool gets: what it does to its arguments is no part of the request."""
        if any(type(value) in (dict, list) for value in self.arguments.values()):
            return {**json.loads(self.canonical), **self.injected}
        return {**self.arguments, **self.injected}


def run_effect(
    core: RuntimeCore,
    prepared: Prepared,
    row: Operation,
    running: Running,
    slot: Slot,
    patience: Timeout = None,
) -> Run:
    """The effect that starts the tool of this won attempt.

    The shorter of the tool's timeout and the caller's ``patience`` holds; nothing is to be
    started where that is not more than 0.
    """
    tool = prepared.entry.tool
    timeout_ms = tool.limits.timeout_ms
    own = None if timeout_ms is None else timeout_ms / 1000
    timeout = own
    if patience is not None:
        left = seconds_of("timeout", patience() if callable(patience) else patience)
        timeout = min((limit for limit in (own, left) if limit is not None), default=None)
    if timeout is not None:
        timeout = min(timeout, threading.TIMEOUT_MAX)  # infinite is longer than a lock can wait

    def late(ran: Returned | Raised | NotStarted) -> None:
        _settle_late(core, prepared, row, running, ran)

    arguments = prepared.fresh_arguments()
    if prepared.entry.context_names:
        context = _context(core, prepared, row, running, timeout)
        arguments.update(dict.fromkeys(prepared.entry.context_names, context))
    return Run(tool, arguments, timeout, slot, running, late)


def _context(
    core: RuntimeCore, prepared: Prepared, row: Operation, running: Running, timeout: float | None
) -> ToolContext:
    store, operation_id, entry = core.store, row.operation_id, prepared.entry

    def note_ref(remote_ref: str) -> bool:
        reference = check_name("remote_ref", remote_ref)
        if entry.hides_results:
            reference = entry.redactor.for_call(prepared.whole).text(reference)
        return store.set_remote_ref(operation_id, row.owner, row.attempt, reference)

    return ToolContext(
        operation_id,
        row.request.principal,
        row.request.tenant,
        row.attempt,
        None if timeout is None else row.updated_at + timeout,  # updated by the claim, just now
        operation_id,
        running.cancel,
        note_ref,
    )


def _settle_late(
    core: RuntimeCore,
    prepared: Prepared,
    row: Operation,
    running: Running,
    ran: Returned | Raised | NotStarted,
) -> None:
    running.acting = False
    try:
        outcome = prepared.entry.outcome(ran, row.operation_id, prepared.whole)
        core.observer.emit(
            "operation.late_result",
            operation_id=row.operation_id,
            tool=row.request.tool,
            status=outcome.status.value,
        )
        core.attempts.settle(row, outcome.settlement)
    finally:
        core.attempts.finish(running)
