"""States and records of the operation ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple


class OperationStatus(str, Enum):
    """State of an operation. The value is what is stored and what a dispatch answers."""

    AWAITING_APPROVAL = "awaiting_approval"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    IN_FLIGHT = "in_flight"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    NOT_EXECUTED = "not_executed"
    NEEDS_RECONCILE = "needs_reconcile"
    CANCELLED = "cancelled"

    def __str__(self) -> str:
        return self.value

    @property
    def terminal(self) -> bool:
        """Whether the state never changes again."""
        return self in TERMINAL


_S = OperationStatus
TERMINAL = frozenset({_S.SUCCEEDED, _S.FAILED, _S.DENIED, _S.CANCELLED})

#: States that ``resolve`` may bring.
RESOLVED = frozenset({_S.SUCCEEDED, _S.FAILED, _S.NOT_EXECUTED})

#: States from which an approval may be asked for: nothing runs, and nothing was executed.
MAY_ASK = frozenset({_S.AWAITING_APPROVAL, _S.APPROVED, _S.EXPIRED, _S.NOT_EXECUTED})

#: Every change of state that a store may make; all others are refused. EXPIRED goes back to
#: AWAITING_APPROVAL by a new request only, and nothing was ever started under it.
TRANSITIONS: Mapping[OperationStatus | None, frozenset[OperationStatus]] = {
    None: frozenset({_S.AWAITING_APPROVAL, _S.IN_FLIGHT, _S.CANCELLED}),
    _S.AWAITING_APPROVAL: frozenset({_S.APPROVED, _S.DENIED, _S.EXPIRED, _S.CANCELLED}),
    _S.APPROVED: frozenset({_S.IN_FLIGHT, _S.EXPIRED, _S.CANCELLED, _S.AWAITING_APPROVAL}),
    _S.EXPIRED: frozenset({_S.AWAITING_APPROVAL, _S.CANCELLED}),
    _S.IN_FLIGHT: frozenset(
        {_S.SUCCEEDED, _S.FAILED, _S.NOT_EXECUTED, _S.NEEDS_RECONCILE, _S.CANCELLED}
    ),
    _S.NEEDS_RECONCILE: frozenset({_S.SUCCEEDED, _S.FAILED, _S.NOT_EXECUTED, _S.CANCELLED}),
    _S.NOT_EXECUTED: frozenset({_S.IN_FLIGHT, _S.FAILED, _S.CANCELLED, _S.AWAITING_APPROVAL}),
    _S.SUCCEEDED: frozenset(),
    _S.FAILED: frozenset(),
    _S.DENIED: frozenset(),
    _S.CANCELLED: frozenset(),
}

#: Types of ledger events, in ``OperationEvent.type``. Stable: programs may match on them.
EVENT_TYPES = frozenset(
    {
        "approval_requested",
        "approved",
        "denied",
        "expired",
        "superseded",
        "dispatched",
        "settled",
        "recovered",
        "reconciled",
        "cancel_requested",
        "cancelled",
        "late_result_conflict",
        "tool_ended",
        "purged",
    }
)


class ApprovalStatus(str, Enum):
    """State of one approval. PENDING and APPROVED are open; the rest never change."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"
    CONSUMED = "consumed"

    def __str__(self) -> str:
        return self.value


class ClaimReason(str, Enum):
    """Why a claim was won or lost."""

    CLAIMED = "claimed"
    EXISTS = "exists"
    APPROVAL_MISMATCH = "approval_mismatch"
    APPROVAL_EXPIRED = "approval_expired"


@dataclass(frozen=True)
class OperationRequest:
    """Who asks for what. These fields are fixed when the operation's row is made.

    ``args_digest`` is the SHA-256 (hex) of the canonical argument bytes; ``arguments_json`` holds
    the bytes themselves, or None where the runtime stores digests only.
    """

    operation_id: str
    tenant: str
    principal: str
    tool: str
    contract_digest: str
    args_digest: str
    arguments_json: bytes | None
    business_scope: str = ""
    effect: str = "write"
    risk: int = 0


@dataclass(frozen=True)
class Operation:
    """One row of the ledger. ``tool == ""`` marks an id cancelled before anybody asked for it.

    ``lease_until`` in IN_FLIGHT and NEEDS_RECONCILE is how long ``owner`` counts as alive unless it
    gives another sign of life; None in NEEDS_RECONCILE: the owner said that its tool has ended.
    """

    request: OperationRequest
    status: OperationStatus
    attempt: int = 0
    owner: str = ""
    lease_until: float | None = None
    approval_id: str | None = None
    cancel_requested_at: float | None = None
    remote_ref: str | None = None
    result_json: bytes | None = None
    result_digest: str = ""
    result_bytes: int = 0
    result_truncated: bool = False
    reason: str = ""
    error_class: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0
    settled_at: float | None = None

    def settles_as(self, status: OperationStatus) -> OperationStatus:
        """The state that an outcome brings: NOT_EXECUTED is CANCELLED where that was asked for."""
        if status is _S.NOT_EXECUTED and self.cancel_requested_at is not None:
            return _S.CANCELLED
        return status

    def may_run(self, now: float) -> bool:
        """Whether its owner lives at this time and has not said that its tool ended."""
        return self.lease_until is not None and self.lease_until >= now

    @property
    def operation_id(self) -> str:
        """The id that the row stands under."""
        return self.request.operation_id

    def same_caller(self, other: OperationRequest) -> bool:
        """Whether the row is of this tenant and principal."""
        mine = self.request
        return (mine.tenant, mine.principal) == (other.tenant, other.principal)

    def same_request(self, other: OperationRequest) -> bool:
        """Whether the row is of this tenant, principal, tool and arguments."""
        if not self.same_caller(other):
            return False
        mine = self.request
        return mine.tool == "" or (mine.tool, mine.args_digest) == (other.tool, other.args_digest)


@dataclass(frozen=True)
class OperationEvent:
    """One entry of an operation's audit record; ``seq`` counts 1, 2, … within the operation."""

    operation_id: str
    seq: int
    type: str
    at: float
    actor: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Approval:
    """One request for approval and its decision. ``request_digest`` is what was shown and
    decided.
    """

    approval_id: str
    operation_id: str
    tenant: str
    request_digest: str
    requested_by: str
    policy_version: str
    expires_at: float
    status: ApprovalStatus = ApprovalStatus.PENDING
    decided_by: str = ""
    decided_at: float | None = None
    consumed_at: float | None = None

    @property
    def open(self) -> bool:
        """Whether it is pending or approved, expired or not."""
        return self.status in (ApprovalStatus.PENDING, ApprovalStatus.APPROVED)

    def fits(self, request_digest: str, now: float) -> bool:
        """Whether it is open, not expired, and of this request."""
        return self.open and now < self.expires_at and self.request_digest == request_digest

    def why_used_up(self, request_digest: str, now: float) -> ClaimReason | None:
        """Why it does not allow one more attempt after one that did not execute; None: it does."""
        if self.request_digest != request_digest:
            return ClaimReason.APPROVAL_MISMATCH
        return None if now < self.expires_at else ClaimReason.APPROVAL_EXPIRED


@dataclass(frozen=True)
class NewApproval:
    """What ``request_approval`` asks the store to record; the store adds times and state."""

    approval_id: str
    request_digest: str
    requested_by: str
    policy_version: str
    ttl_seconds: float


@dataclass(frozen=True)
class Claim:
    """The wish to start one attempt.

    ``approval_digest`` not None: only from APPROVED, and only with an approval of this digest that
    is neither consumed nor expired. ``retry_attempt`` not None: only from NOT_EXECUTED with
    exactly this attempt number; with ``approval_digest``, only where the consumed approval of the
    row has this digest and is not over. Both None: only where the id has no row yet. ``durable``
    False allows a claim that a power cut may lose; the runtime asks for it for tools of effect
    "read" only.
    """

    request: OperationRequest
    owner: str
    lease_seconds: float
    approval_digest: str | None = None
    retry_attempt: int | None = None
    durable: bool = True

    @property
    def first(self) -> bool:
        """Whether it is for an id that has no row yet."""
        return self.approval_digest is None and self.retry_attempt is None


class ClaimResult(NamedTuple):
    """Answer of ``claim``: the row as it is after the transaction."""

    won: bool
    operation: Operation
    reason: ClaimReason


@dataclass(frozen=True)
class Settlement:
    """The outcome of one attempt: SUCCEEDED, FAILED, NOT_EXECUTED, NEEDS_RECONCILE or CANCELLED.

    ``result_json`` is canonical; ``result_digest`` and ``result_bytes`` are of the whole result,
    also where the stored one was cut (``result_truncated``). ``reason`` is a word of ours
    (timeout, exception, unknown, …), ``error_class`` the name of an exception class; neither holds
    text of the tool. ``running`` (with NEEDS_RECONCILE only): nobody waits for the tool any more,
    but it still runs, so the row keeps its lease.
    """

    status: OperationStatus
    result_json: bytes | None = None
    result_digest: str = ""
    result_bytes: int = 0
    result_truncated: bool = False
    reason: str = ""
    error_class: str = ""
    running: bool = False

    def __post_init__(self) -> None:
        if self.running and self.status is not _S.NEEDS_RECONCILE:
            raise ValueError(f"a tool that still runs has no outcome, so not {self.status.value!r}")


class SettleResult(NamedTuple):
    """Answer of ``settle`` and ``resolve``: whether the row changed, and the row."""

    applied: bool
    operation: Operation
