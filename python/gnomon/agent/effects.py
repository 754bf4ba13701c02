"""What the dispatch core asks its driver to do, and what the driver answers.

The core (``dispatch.py``) is a generator without input or output of its own: it yields these
values, the synchronous or the asynchronous driver carries them out and sends the answer back.
Every decision about claims, outcomes and retries is in the core, so it is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .contract import Tool
from .leases import Lease
from .slots import Slot


class Do(NamedTuple):
    """Call the ledger; the answer is what the call returns, or what it raises is thrown in."""

    call: Callable[..., Any]
    args: tuple[Any, ...] = ()


class Enter(NamedTuple):
    """Wait for a place among the running tools, and for the resource that the call acts on; the
    answer is a Slot or ConcurrencyLimit.
    """

    tool: Tool
    resource: str | None = None


class Sleep(NamedTuple):
    """Wait; a cancelled wait throws into the core."""

    seconds: float


class CancelFlag:
    """Set once, when somebody asks to cancel."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked = False


@dataclass(eq=False)
class Running:
    """An attempt that was won and whose end is not recorded yet."""

    operation_id: str
    attempt: int
    lease: Lease
    cancel: CancelFlag = field(default_factory=CancelFlag)
    acting: bool = True  # until its tool has ended, or will never begin
    abandoned: bool = False  # nobody waits for the tool any more, and it may still run


@dataclass(frozen=True)
class ToolContext:
    """What a running tool may know about its own call.

    A tool receives it as the argument ``context`` when its contract lists ``"context"`` as
    injected.

    Attributes
    ----------
    operation_id, principal, tenant : str
    attempt : int
        1, and more only after attempts that proved not to have executed.
    idempotency_key : str
        The same for all attempts of the operation: send it to the other side if that takes one.
    deadline : float or None
        Time, by the ledger's clock, at which the runtime stops waiting.
    """

    operation_id: str
    principal: str
    tenant: str
    attempt: int
    deadline: float | None
    idempotency_key: str
    _cancel: CancelFlag = field(repr=False)
    _note_ref: Callable[[str], bool] = field(repr=False)

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked to cancel. A tool that stops early says so by its result."""
        return self._cancel.asked

    def note_remote_ref(self, remote_ref: str) -> bool:
        """Store the other side's name for this call before it is answered, for reconciliation."""
        return self._note_ref(remote_ref)


class Run(NamedTuple):
    """Start the tool. This is the one effect that acts outside; it is yielded once per won claim.

    The answer is Returned, Raised, NotStarted or TimedOut, never an exception thrown in. A driver
    that stops waiting for a tool that may still run says so by ``leave``, in the same moment: what
    an interruption does to its answer afterwards changes nothing. When that tool ends after all, it
    calls ``late`` and releases the slot. Right before it calls the tool, the driver asks
    ``in_time``: a process that stood still must not begin what another may have begun meanwhile.
    """

    tool: Tool
    arguments: Mapping[str, Any]
    timeout: float | None
    slot: Slot
    running: Running
    late: Callable[[Returned | Raised | NotStarted], None]

    @property
    def operation_id(self) -> str:
        """The operation."""
        return self.running.operation_id

    def in_time(self) -> bool:
        """Whether the claim's lease still holds, by this process's clock."""
        return self.running.lease.left() > 0

    def leave(self) -> Slot:
        """Nobody waits for the tool any more; the slot, which it now keeps until it ends."""
        self.running.abandoned = True
        return self.slot.hand_over()


class Returned(NamedTuple):
    """The tool returned a value, not yet looked at."""

    value: Any


class Raised(NamedTuple):
    """The tool ended by an exception, also by one that is not an Exception.

    ``abandoned``: it is the wait for the tool that ended so, and the tool itself may still run.
    """

    error: BaseException
    abandoned: bool = False


class NotStarted(NamedTuple):
    """The call was given up before the tool was called: proof that nothing ran.

    ``error`` is what interrupted the driver; None where the lease was over before the call.
    """

    error: BaseException | None


@dataclass(frozen=True)
class TimedOut:
    """The time for the call is over; ``Running.abandoned`` says whether the tool still runs."""


Effect = Do | Enter | Sleep | Run
Ran = Returned | Raised | NotStarted | TimedOut
