# ruff: noqa: N818  (these names say what happened; "Error" would add nothing)
"""Errors of the operation ledger and the tool runtime.

Their texts name operation ids, states and rules, never argument values: the stored arguments of an
operation may belong to another caller.
"""

from __future__ import annotations


class OperationConflict(ValueError):
    """An operation id was used again for another tool, other arguments or another principal.

    Attributes
    ----------
    operation_id : str
        The id that is taken. What is stored under it is not shown.
    """

    def __init__(self, operation_id: str) -> None:
        super().__init__("operation_id was reused for a different request")
        self.operation_id = operation_id


class InvalidTransition(ValueError):
    """The ledger refuses a change of state; nothing was changed.

    Attributes
    ----------
    operation_id : str
    status : str
        State the operation has.
    """

    def __init__(self, operation_id: str, status: str, wanted: str) -> None:
        super().__init__(
            f"operation {operation_id!r} is {status}, which cannot become {wanted}; "
            "read it with get() and decide again"
        )
        self.operation_id = operation_id
        self.status = status


class StillRunning(InvalidTransition):
    """The tool of an operation still runs, or its owner lives and has not said that it ended, so
    nobody can know yet that it did not act; nothing was changed.

    Attributes
    ----------
    owner : str
        The runtime that started the tool, by its id in the ledger.
    lease_until : float or None
        Until when the owner counts as alive unless it gives another sign of life, by the ledger's
        clock; None where the tool runs in this very process and its lease is over.
    """

    def __init__(
        self, operation_id: str, status: str, owner: str, lease_until: float | None
    ) -> None:
        super().__init__(operation_id, status, "not_executed")
        lease = "" if lease_until is None else f", whose lease ends at {lease_until:.3f}"
        self.args = (
            f"the tool of operation {operation_id!r} may still run under owner {owner!r}{lease}; "
            "not_executed can be said after the tool's end, or after its owner's",
        )
        self.owner = owner
        self.lease_until = lease_until


class UnknownOperation(ValueError):
    """No operation, or no approval, has this id in the ledger."""

    def __init__(self, identifier: str) -> None:
        super().__init__(
            f"the ledger has nothing under {identifier!r}; check the id and the ledger"
        )
        self.identifier = identifier


class InvalidToolResult(ValueError):
    """A tool ran and returned something that is no result; its operation needs reconciliation."""


class ReentrantDispatch(ValueError):
    """A tool dispatched the operation that it is itself the execution of."""


class ToolProcessError(Exception):
    """An isolated tool raised, or its process ended without a result; text: the tool's error."""


class NotExecuted(Exception):
    """Raised by a tool to prove that its external action was not started.

    Only raise it before the call that acts, or when the other side answered that it did nothing.
    It is the one outcome after which the runtime may start the tool again, under the same
    operation id.

    Parameters
    ----------
    message : str
        For people; redacted before it is logged or stored.
    retryable : bool
        Whether another attempt may succeed. False ends the operation as failed.
    retry_after : float or None
        Seconds that the other side asked to wait before the next attempt.

    Raises TypeError or ValueError for others: a program that says "yes" is wrong about its proof,
    and then its operation needs reconciliation.
    """

    def __init__(
        self, message: str = "", *, retryable: bool = True, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        if type(retryable) is not bool:
            raise TypeError(f"retryable must be True or False, got {type(retryable).__name__}")
        if retry_after is not None:
            if type(retry_after) not in (int, float):
                kind = type(retry_after).__name__
                raise TypeError(f"retry_after must be a number of seconds or None, got {kind}")
            if not 0 <= retry_after < float("inf"):
                raise ValueError(f"retry_after must be a finite time >= 0, got {retry_after!r}")
        self.retryable = retryable
        self.retry_after = retry_after


class ToolRefused(PermissionError):
    """The runtime refuses the call by policy; the tool was not started."""


class ApprovalError(ToolRefused):
    """An approval decision is not allowed: wrong approver, wrong tenant, decided or expired
    before.
    """


class ApprovalMismatch(ToolRefused):
    """What was approved is not what is asked for now; a new approval is needed.

    Attributes
    ----------
    operation_id : str
    approval_id : str
        The new approval that was requested in its place, or "" where none could be.
    """

    def __init__(self, operation_id: str, approval_id: str = "") -> None:
        super().__init__(
            f"the approval of operation {operation_id!r} was given for another request "
            f"(contract, policy or arguments changed); decide approval {approval_id!r} instead"
        )
        self.operation_id = operation_id
        self.approval_id = approval_id


class ConcurrencyLimit(RuntimeError):
    """Too many tools run at once; nothing was claimed and the same id may be dispatched again."""


class StoreUnavailable(RuntimeError):
    """The ledger cannot say whether a change was made. No tool is started after this error."""


class StoreClosed(StoreUnavailable):
    """The ledger, or the runtime on it, was closed."""
