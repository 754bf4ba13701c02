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

    The answer is Returned, Raised, NotStarted or TimedOut, never an exception thrown in. Where it
    says ``abandoned``, the driver calls ``late`` with Returned or Raised when the tool ends after
    all, and then releases ``slot``; in every other case the core releases it.
    """

    tool: Tool
    arguments: Mapping[str, Any]
    operation_id: str
    timeout: float | None
    slot: Slot
    late: Callable[[Returned | Raised], None]


class Returned(NamedTuple):
    """The tool returned a value, not yet looked at."""

    value: Any


class Raised(NamedTuple):
    """The tool ended by an exception, also by one that is not an Exception.

    ``abandoned``: the wait for the tool ended so, and the tool itself still runs, as in TimedOut.
    """

    error: BaseException
    abandoned: bool = False


class NotStarted(NamedTuple):
    """The call was given up before the tool was called: proof that nothing ran.

    ``error`` is what interrupted the driver; None where the lease was over before the call.
    """

    error: BaseException | None


class TimedOut(NamedTuple):
    """The deadline passed. ``abandoned``: the tool still runs and will be reported late."""

    abandoned: bool


Effect = Do | Enter | Sleep | Run
Ran = Returned | Raised | NotStarted | TimedOut
