# ruff: noqa: RUF009  (the calls give dataclass fields, not values)
"""Typed events of a task: what is persisted, and all that `reduce_task` and `replay` need.

One class per type; `to_dict`/`to_json` and `event_from_dict`/`event_from_json` are inverse. Values
are checked and deep-frozen when the event is made, so an event never changes after that.

>>> event_from_json(ToolRequested(operation_id="op1").to_json()).operation_id
'op1'
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

from .event_fields import (
    a_count,
    a_flag,
    a_number,
    a_text,
    an_id,
    an_object,
    items,
    one_of,
    optional,
    required,
)
from .frozen import EventError, FrozenDict, FrozenList
from .jsontext import loads_strict
from .terminal import TERMINAL_REASONS


@dataclass(frozen=True, kw_only=True)
class Event:
    """Base of all events. ``event_id`` makes a second delivery harmless; ``at`` is epoch seconds.

    EventError, naming the field, where a value breaks its rule.
    """

    type: ClassVar[str] = ""
    event_id: str | None = optional(an_id)
    at: float | None = optional(a_number)

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if value is None and item.default is None:
                continue
            path = f"{self.type}.{item.name}"
            object.__setattr__(self, item.name, item.metadata["check"](value, path))

    def to_dict(self) -> dict[str, Any]:
        """The event as a plain dict with "type"; fields that hold their default are left out."""
        found: dict[str, Any] = {"type": self.type}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.default is MISSING or value != item.default:
                found[item.name] = value
        return found

    def to_json(self) -> str:
        """The event as one line of ASCII JSON with sorted keys."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True, kw_only=True)
class TaskStarted(Event):
    """First event of a log: the limits of the run, and which tools and scopes it may use."""

    type: ClassVar[str] = "task_started"
    task_id: str = optional(a_text, "")
    limits: FrozenDict | None = optional(an_object)
    tools: FrozenList | None = optional(items)
    scopes: FrozenList | None = optional(items)
    max_risk: int | None = optional(a_count)


@dataclass(frozen=True, kw_only=True)
class ModelRequested(Event):
    """The policy is about to be asked; ``reserved`` is charged if no ``model_called`` follows."""

    type: ClassVar[str] = "model_requested"
    reserved: FrozenDict | None = optional(an_object)


@dataclass(frozen=True, kw_only=True)
class ModelCalled(Event):
    """The policy was asked, and what that used."""

    type: ClassVar[str] = "model_called"
    usage: FrozenDict | None = optional(an_object)


@dataclass(frozen=True, kw_only=True)
class ActionRejected(Event):
    """The policy proposed something that cannot be a tool call; nothing was requested."""

    type: ClassVar[str] = "action_rejected"
    reason: str = required(a_text)
    problems: FrozenList | None = optional(items)


@dataclass(frozen=True, kw_only=True)
class ToolEvent(Event):
    """Base of the events about one operation."""

    operation_id: str = required(an_id)


@dataclass(frozen=True, kw_only=True)
class ToolRequested(ToolEvent):
    """An operation is about to be dispatched. ``charged``: what a claim costs the budget."""

    type: ClassVar[str] = "tool_requested"
    tool: str = optional(a_text, "")
    arguments: FrozenDict | None = optional(an_object)
    effect: str = optional(a_text, "")
    risk: int = optional(a_count, 0)
    charged: FrozenDict | None = optional(an_object)


@dataclass(frozen=True, kw_only=True)
class ToolOutcome(ToolEvent):
    """Base of the answers of a dispatch. ``replayed``: recorded earlier, nothing was started."""

    usage: FrozenDict | None = optional(an_object)
    approval_id: str = optional(a_text, "")
    replayed: bool = optional(a_flag, False)


@dataclass(frozen=True, kw_only=True)
class ToolSucceeded(ToolOutcome):
    """The tool did it; ``evidence`` is what it showed."""

    type: ClassVar[str] = "tool_succeeded"
    evidence: FrozenList = required(items)
    result: FrozenDict | None = optional(an_object)


@dataclass(frozen=True, kw_only=True)
class ToolFailed(ToolOutcome):
    """The tool says that it failed: terminal for the operation, not for the task."""

    type: ClassVar[str] = "tool_failed"
    result: FrozenDict | None = optional(an_object)


@dataclass(frozen=True, kw_only=True)
class ToolNotExecuted(ToolEvent):
    """The runtime knows that nothing was started: refused, invalid arguments, proved by the tool.

    ``error`` is a word ("refused", "invalid_arguments", …), ``problems`` are for the model.
    """

    type: ClassVar[str] = "tool_not_executed"
    error: str = optional(a_text, "")
    problems: FrozenList | None = optional(items)


@dataclass(frozen=True, kw_only=True)
class ToolNeedsReconcile(ToolOutcome):
    """Nobody knows whether the tool acted: timeout, exception, crash, unknown, no valid result."""

    type: ClassVar[str] = "tool_needs_reconcile"
    reason: str = optional(a_text, "")


@dataclass(frozen=True, kw_only=True)
class ToolReconciled(ToolEvent):
    """The true outcome became known: the only way on from ``tool_needs_reconcile``."""

    type: ClassVar[str] = "tool_reconciled"
    outcome: str = required(one_of("succeeded", "failed", "not_executed"))
    evidence: FrozenList | None = optional(items)
    result: FrozenDict | None = optional(an_object)
    actor: str = optional(a_text, "")


@dataclass(frozen=True, kw_only=True)
class ToolCancelled(ToolEvent):
    """The operation was cancelled before it was started."""

    type: ClassVar[str] = "tool_cancelled"


@dataclass(frozen=True, kw_only=True)
class ApprovalRequested(ToolEvent):
    """A person must decide first."""

    type: ClassVar[str] = "approval_requested"
    approval_id: str = optional(a_text, "")
    expires_at: float | None = optional(a_number)


@dataclass(frozen=True, kw_only=True)
class ApprovalGranted(ToolEvent):
    """The operation may be dispatched, once."""

    type: ClassVar[str] = "approval_granted"
    approval_id: str = optional(a_text, "")
    actor: str = optional(a_text, "")


@dataclass(frozen=True, kw_only=True)
class ApprovalDenied(ToolEvent):
    """The operation will never run."""

    type: ClassVar[str] = "approval_denied"
    approval_id: str = optional(a_text, "")
    actor: str = optional(a_text, "")


@dataclass(frozen=True, kw_only=True)
class ApprovalExpired(ToolEvent):
    """Nobody decided in time."""

    type: ClassVar[str] = "approval_expired"
    approval_id: str = optional(a_text, "")


@dataclass(frozen=True, kw_only=True)
class GoalVerified(Event):
    """The task's own check says that the goal is reached."""

    type: ClassVar[str] = "goal_verified"


@dataclass(frozen=True, kw_only=True)
class Answered(Event):
    """The policy ended the task with an answer; ``reason`` is one of the terminal reasons."""

    type: ClassVar[str] = "answered"
    answer: str = optional(a_text, "")
    citations: FrozenList | None = optional(items)
    reason: str = optional(one_of(*sorted(TERMINAL_REASONS)), "answered")


@dataclass(frozen=True, kw_only=True)
class BudgetExhausted(Event):
    """A limit would be passed; ``dimension`` is the first one."""

    type: ClassVar[str] = "budget_exhausted"
    dimension: str = required(an_id)
    limit: int | float = optional(a_number, 0)
    used: int | float = optional(a_number, 0)
    requested: int | float = optional(a_number, 0)


@dataclass(frozen=True, kw_only=True)
class TaskFailed(Event):
    """The task ends without its goal; ``reason`` is one of the terminal reasons."""

    type: ClassVar[str] = "task_failed"
    reason: str = required(one_of(*sorted(TERMINAL_REASONS)))
    error: str = optional(a_text, "")


@dataclass(frozen=True, kw_only=True)
class Cancelled(Event):
    """Somebody stopped the task."""

    type: ClassVar[str] = "cancelled"
    actor: str = optional(a_text, "")


EVENT_CLASSES: Mapping[str, type[Event]] = {
    cls.type: cls
    for cls in (
        *(TaskStarted, ModelRequested, ModelCalled, ActionRejected, ToolRequested),
        *(ToolSucceeded, ToolFailed, ToolNotExecuted, ToolNeedsReconcile),
        *(ToolReconciled, ToolCancelled),
        *(ApprovalRequested, ApprovalGranted, ApprovalDenied, ApprovalExpired),
        *(GoalVerified, Answered, BudgetExhausted, TaskFailed, Cancelled),
    )
}


def event_from_dict(raw: Mapping[str, Any], *, extra: bool = False) -> Event:
    """The typed event of a dict; EventError for an unknown type, a missing or an unknown field.

    With ``extra`` unknown fields are left out instead.
    """
    if not isinstance(raw, Mapping):
        raise EventError(f"an event is an object, got {type(raw).__name__}")
    kind = raw.get("type")
    cls = EVENT_CLASSES.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise EventError(f"unknown event: {kind}")
    known = {item.name: item for item in fields(cls)}
    if not extra and (unknown := sorted(map(str, raw.keys() - known.keys() - {"type"}))):
        raise EventError(f"{kind} has no field {', '.join(unknown)}")
    missing = [name for name, item in known.items() if item.default is MISSING and name not in raw]
    if missing:
        raise EventError(f"{kind} lacks {', '.join(missing)}")
    return cls(**{name: raw[name] for name in known if name in raw})


def event_from_json(text: str | bytes) -> Event:
    """The typed event of one JSON text; ValueError where it is no strict JSON or no event."""
    return event_from_dict(loads_strict(text))
