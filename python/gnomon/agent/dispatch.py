"""One dispatch, from the request to the recorded outcome, as a generator without input or output.

The order of the checks is the contract's: tool, risk, arguments, operation id, what the ledger has
under the id, approval, claim. The ledger is asked before a refusal only to give back a terminal
result of this very request, which stays readable after tools, risk limits and schemas have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from .call import Prepared, run_effect
from .effects import Do, Effect, Enter, NotStarted, Ran, Sleep
from .errors import ApprovalMismatch, OperationConflict, StillRunning
from .leases import steady
from .operations import crash_point
from .outcome import (
    Outcome,
    cancelled_outcome,
    interrupted_before_call,
    open_outcome,
    recorded_answer,
)
from .records import (
    Approval,
    Claim,
    ClaimReason,
    ClaimResult,
    Operation,
    OperationRequest,
    OperationStatus,
)
from .slots import Slot

if TYPE_CHECKING:
    from .core import RuntimeCore

_S = OperationStatus
_ASKING = frozenset({_S.AWAITING_APPROVAL, _S.EXPIRED})
#: Seconds that a caller waits for the tool at most, or a function that says how many are left.
Timeout = float | Callable[[], float | None] | None


class Call(NamedTuple):
    """The arguments of one dispatch, nothing checked yet."""

    name: Any
    arguments: Any
    operation_id: Any
    principal: str
    tenant: str
    business_scope: str = ""
    injected: Mapping[str, Any] | None = None
    wait: float = 0.0
    admit: Callable[[OperationRequest], None] | None = None
    timeout: Timeout = None


class Dispatched(NamedTuple):
    """A dispatch's answer and how it came about.

    Attributes
    ----------
    result : dict
        What ``dispatch`` returns.
    operation_id : str
    status : OperationStatus
        State of the operation when the answer was made.
    executed : bool
        Whether this dispatch started the tool; False for replays, refusals by state, and waiting.
    attempts : int
        Attempts of the operation so far, by all dispatches.
    approval_id : str or None
        The approval that the operation waits for or was started by.
    """

    result: dict[str, Any]
    operation_id: str
    status: OperationStatus
    executed: bool = False
    attempts: int = 0
    approval_id: str | None = None


Steps = Generator[Effect, Any, Dispatched]


class Dispatch:
    """The steps of one call on one runtime; a driver carries out what they yield."""

    def __init__(self, core: RuntimeCore, call: Call) -> None:
        self.core = core
        self.call = call
        self.executed = False
        self.prepared: Prepared

    def steps(self) -> Steps:
        """Yields effects, returns the answer."""
        core = self.core
        try:
            self.prepared = core.prepare(self.call)
        except (ValueError, PermissionError) as refusal:
            return (yield from self._terminal_or(refusal))
        request = self.prepared.request
        core.refuse_reentry(request.operation_id)
        row: Operation | None = yield Do(core.store.get, (request.operation_id,))
        if row is None:
            if self.prepared.approval_digest is not None:
                return (yield from self._ask_approval())
            return (yield from self._execute(core.claim(request)))
        if not row.same_request(request):
            raise self._conflict(row)
        if row.status in _ASKING:
            return (yield from self._ask_approval())
        if row.status is _S.APPROVED:
            shown = self.prepared.approval_digest or core.approval_digest(request)
            return (yield from self._execute(core.claim(request, approval_digest=shown)))
        if row.status is _S.NOT_EXECUTED and row.cancel_requested_at is None:
            if not (yield from self._still_approved(row)):
                return (yield from self._ask_approval())
            digest = self.prepared.approval_digest
            return (yield from self._execute(core.claim(request, digest, row.attempt)))
        return (yield from self._recorded(row))

    def _terminal_or(self, refusal: Exception) -> Steps:
        """The recorded terminal result of this very request, else the refusal."""
        core, call = self.core, self.call
        request = core.bare_request(call)
        if request is not None:
            row: Operation | None = yield Do(core.store.get, (request.operation_id,))
            if (
                row is not None
                and row.status.terminal
                and row.request.tool
                and row.same_request(request)
            ):
                return (yield from self._recorded(row))
        core.observer.emit(
            "operation.refused",
            tool=call.name,
            operation_id=core.shown_id(call),
            error=type(refusal).__name__,
        )
        raise refusal

    def _conflict(self, row: Operation) -> OperationConflict:
        self.core.observer.emit(
            "operation.conflict", operation_id=row.operation_id, tool=self.call.name
        )
        return OperationConflict(row.operation_id)

    def _recorded(self, row: Operation) -> Steps:
        """Answer from the ledger; with ``wait``, first wait for a running attempt to end."""
        pause, waited = 0.005, 0.0
        while row.status is _S.IN_FLIGHT and waited < self.call.wait:
            yield Sleep(min(pause, self.call.wait - waited))
            waited += pause
            pause = min(pause * 2, 0.1)
            row = (yield Do(self.core.store.get, (row.operation_id,))) or row
        self.core.observer.emit(
            "operation.replayed", operation_id=row.operation_id, status=row.status.value
        )
        now = (yield Do(self.core.store.now)) if row.status is _S.IN_FLIGHT else 0.0
        return self._answer(row, recorded_answer(row, now))

    def _answer(self, row: Operation, result: dict[str, Any]) -> Dispatched:
        return Dispatched(
            result, row.operation_id, row.status, self.executed, row.attempt, row.approval_id
        )

    def _ask_approval(self) -> Steps:
        core, request = self.core, self.prepared.request
        crash_point("before_approval_request")
        digest = self.prepared.approval_digest or core.approval_digest(request)
        row, approval = yield Do(
            core.store.request_approval, (request, core.new_approval(request, digest))
        )
        crash_point("after_approval_request")
        if approval is None:
            if not row.same_request(request):
                raise self._conflict(row)
            return (yield from self._recorded(row))
        core.observer.emit(
            "approval.requested", operation_id=row.operation_id, approval_id=row.approval_id
        )
        if row.status is _S.APPROVED:  # decided between our look and our request
            return (yield from self._execute(core.claim(request, approval_digest=digest)))
        return self._answer(row, recorded_answer(row))

    def _still_approved(self, row: Operation) -> Generator[Effect, Any, bool]:
        """Whether another attempt is within the delegated risk, or within the approval used."""
        if self.prepared.approval_digest is None:
            return True
        approval: Approval | None = yield Do(self.core.store.get_approval, (row.approval_id or "",))
        if approval is None or approval.request_digest != self.prepared.approval_digest:
            return False
        now: float = yield Do(self.core.store.now)
        return now < approval.expires_at

    def _execute(self, claim: Claim) -> Steps:
        """Claim, run and settle, again while an attempt proves not to have executed."""
        core, prepared = self.core, self.prepared
        if not claim.first and core.attempts.outlives(claim.request.operation_id):
            # Somebody said that our tool did not act, after a lease that we could not extend.
            raise StillRunning(
                claim.request.operation_id, "not_executed", core.attempts.owner, None
            )
        if self.call.admit is not None:
            self.call.admit(prepared.request)
        attempts = 0
        while True:
            slot: Slot = yield Enter(prepared.entry.tool, prepared.resource)
            try:
                crash_point("before_claim")
                asked_at = steady()
                won: ClaimResult = yield Do(core.store.claim, (claim,))
                if not won.won:
                    slot.release()  # waiting for somebody else's result takes no place
                    return (yield from self._lost(won))
                attempts += 1
                row, outcome = yield from self._attempt(won.operation, slot, asked_at)
            finally:
                slot.release()
            if outcome.error is not None:
                raise prepared.entry.scrubbed(outcome.error, prepared.whole)
            if row.status is not _S.NOT_EXECUTED or attempts >= core.retry.attempts:
                return self._answer(row, outcome.answer)
            wait = core.retry.wait(attempts, outcome.retry_after)
            core.observer.emit(
                "operation.retry", operation_id=row.operation_id, attempt=row.attempt, seconds=wait
            )
            yield Sleep(wait)
            claim = core.claim(
                prepared.request, prepared.approval_digest, retry_attempt=row.attempt
            )

    def _lost(self, lost: ClaimResult) -> Steps:
        row, request = lost.operation, self.prepared.request
        if not row.same_request(request):
            raise self._conflict(row)
        if lost.reason is ClaimReason.EXISTS:
            return (yield from self._recorded(row))
        answer: Dispatched = yield from self._ask_approval()
        if answer.status is not _S.AWAITING_APPROVAL:
            return answer  # somebody decided, cancelled or ran it since our claim
        if lost.reason is ClaimReason.APPROVAL_MISMATCH:
            raise ApprovalMismatch(row.operation_id, answer.approval_id or "")
        answer.result.setdefault("reason", "approval_expired")
        return answer

    def _attempt(
        self, row: Operation, slot: Slot, asked_at: float
    ) -> Generator[Effect, Any, tuple[Operation, Outcome]]:
        """One claim, asked for at ``asked_at`` and won, to its recorded outcome."""
        core, prepared = self.core, self.prepared
        running = core.attempts.start(row, asked_at)
        called = False
        try:
            try:
                crash_point("after_claim")
                core.observer.emit(
                    "operation.claimed",
                    operation_id=row.operation_id,
                    tool=row.request.tool,
                    attempt=row.attempt,
                )
                if running.cancel.asked:
                    outcome = cancelled_outcome(row.operation_id)
                else:
                    run = run_effect(core, prepared, row, running, slot, self.call.timeout)
                    crash_point("before_call")
                    ran: Ran = NotStarted(None)
                    if run.timeout is None or run.timeout > 0:
                        called = True
                        ran = yield run
                    self.executed = self.executed or not isinstance(ran, NotStarted)
                    if not running.abandoned:
                        running.acting = False
                    crash_point("after_return")
                    outcome = prepared.entry.outcome(ran, row.operation_id, prepared.whole)
            except GeneratorExit:
                raise
            except BaseException as error:
                if called:
                    outcome = open_outcome(row.operation_id, "interrupted", error)
                else:
                    outcome = interrupted_before_call(row.operation_id, error)
            settlement = outcome.settlement
            if running.abandoned:
                settlement = replace(settlement, running=True)
            settled = yield Do(core.attempts.settle, (row, settlement))
            crash_point("after_settle")
        finally:
            if not running.abandoned:
                core.attempts.finish(running)
        if settled is None:
            return row, core.not_recorded(row, outcome)
        if settled.applied and settled.operation.status is outcome.status:
            return settled.operation, outcome
        answer = recorded_answer(settled.operation)  # the ledger is the truth
        return settled.operation, Outcome(outcome.settlement, answer, outcome.error)
