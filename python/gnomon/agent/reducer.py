"""The state of a task as a pure function of its events.

    planning | observing --tool_requested--> executing
    executing --tool_succeeded | tool_failed | tool_not_executed | tool_cancelled--> observing
    observing --goal_verified--> succeeded*            planning | observing --answered--> succeeded*
    executing --approval_requested--> awaiting_approval --approval_granted--> executing
    awaiting_approval --approval_denied | _expired | tool_cancelled--> observing
    executing --tool_needs_reconcile--> needs_reconcile --tool_reconciled--> observing
    any but terminal* --cancelled--> cancelled*        --task_failed | budget_exhausted--> failed*

Every pair of phase and event that is not in this picture raises EventError and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import events as ev
from .frozen import EventError, FrozenDict, FrozenList

State = dict[str, Any]

TERMINAL_PHASES = frozenset({"succeeded", "failed", "cancelled"})
_READY = frozenset({"planning", "observing"})
_EXECUTING = frozenset({"executing"})
_AWAITING = frozenset({"awaiting_approval"})
_PENDING = frozenset({"executing", "awaiting_approval", "needs_reconcile"})
_UNSETTLED = frozenset({"executing", "needs_reconcile"})  # an effect may be there or still come
_ALIVE = _READY | _PENDING
PHASES = _ALIVE | TERMINAL_PHASES


def _observe(state: State, event: Any, evidence: FrozenList | None = None) -> None:
    """The pending operation is over: back to where the policy may look at it."""
    if evidence:
        state["evidence"] = FrozenList((*state.get("evidence", ()), *evidence))
    elif evidence is not None:
        state.setdefault("evidence", FrozenList())
    state["phase"] = "observing"
    state["last_operation_id"] = state.pop("operation_id")
    state.pop("last_error", None)


def _unsuccessful(state: State, event: Any, error: str, **more: Any) -> None:
    _observe(state, event)
    state["last_error"] = FrozenDict({"operation_id": event.operation_id, "error": error, **more})


def _succeeded(state: State, event: ev.ToolSucceeded) -> None:
    _observe(state, event, event.evidence)


def _failed(state: State, event: ev.ToolFailed) -> None:
    _unsuccessful(state, event, "failed")


def _not_executed(state: State, event: ev.ToolNotExecuted) -> None:
    problems = {"problems": event.problems} if event.problems else {}
    _unsuccessful(state, event, event.error or "not_executed", **problems)


def _tool_cancelled(state: State, event: ev.ToolCancelled) -> None:
    _unsuccessful(state, event, "cancelled")


def _denied(state: State, event: ev.ApprovalDenied) -> None:
    _unsuccessful(state, event, "approval_denied")


def _expired(state: State, event: ev.ApprovalExpired) -> None:
    _unsuccessful(state, event, "approval_expired")


def _reconciled(state: State, event: ev.ToolReconciled) -> None:
    if event.outcome == "succeeded":
        _observe(state, event, event.evidence or FrozenList())
    else:
        _unsuccessful(state, event, event.outcome)
    state.pop("reconcile_reason", None)


def _started(state: State, event: ev.TaskStarted) -> None:
    if "last_operation_id" in state or "task_id" in state:
        raise EventError("a task starts once")
    state["task_id"] = event.task_id


def _ignored(state: State, event: ev.Event) -> None:
    """A record for the budget or the reader; it moves nothing."""


def _requested(state: State, event: ev.ToolRequested) -> None:
    state.update(phase="executing", operation_id=event.operation_id)


def _unknown(state: State, event: ev.ToolNeedsReconcile) -> None:
    state.update(phase="needs_reconcile", reconcile_reason=event.reason)


def _await(state: State, event: ev.ApprovalRequested) -> None:
    state.update(phase="awaiting_approval", approval_id=event.approval_id)


def _granted(state: State, event: ev.ApprovalGranted) -> None:
    state.update(phase="executing")


def _verified(state: State, event: ev.GoalVerified) -> None:
    state.update(phase="succeeded")


def _answered(state: State, event: ev.Answered) -> None:
    state.update(phase="succeeded", reason=event.reason, answer=event.answer)
    state["citations"] = event.citations or FrozenList()


def _end(state: State, phase: str) -> None:
    """End the task, and keep in view an operation whose effect may be there or still come."""
    if state["phase"] in _UNSETTLED and "operation_id" in state:
        state["unsettled"] = FrozenList([state["operation_id"]])
        if phase == "cancelled":
            state["cancel_requested"] = True
    state["phase"] = phase


def _exhausted(state: State, event: ev.BudgetExhausted) -> None:
    _end(state, "failed")
    state.update(reason="budget_exhausted", exhausted=event.dimension)


def _task_failed(state: State, event: ev.TaskFailed) -> None:
    _end(state, "failed")
    state.update(reason=event.reason, error=event.error)


def _cancelled(state: State, event: ev.Cancelled) -> None:
    _end(state, "cancelled")


_OUTSIDE = "tool result arrived outside execution"
_NO_REQUEST = "tool request is not allowed now"
_NO_APPROVAL = "approval event arrived outside its request"

#: Event type -> phases in which it may come, error text elsewhere, what it does.
TABLE: Mapping[str, tuple[frozenset[str], str, Callable[[State, Any], None]]] = {
    "task_started": (frozenset({"planning"}), "a task starts once", _started),
    "model_requested": (_READY, "the policy is not asked now", _ignored),
    "model_called": (_READY, "the policy is not asked now", _ignored),
    "action_rejected": (_READY, "the policy is not asked now", _ignored),
    "tool_requested": (_READY, _NO_REQUEST, _requested),
    "tool_succeeded": (_EXECUTING, _OUTSIDE, _succeeded),
    "tool_failed": (_EXECUTING, _OUTSIDE, _failed),
    "tool_not_executed": (_EXECUTING | _AWAITING, _OUTSIDE, _not_executed),
    "tool_cancelled": (_EXECUTING | _AWAITING, _OUTSIDE, _tool_cancelled),
    "tool_needs_reconcile": (_EXECUTING, _OUTSIDE, _unknown),
    "tool_reconciled": (
        frozenset({"needs_reconcile"}),
        "reconciliation without an unknown outcome",
        _reconciled,
    ),
    "approval_requested": (_EXECUTING, _NO_APPROVAL, _await),
    "approval_granted": (_AWAITING, _NO_APPROVAL, _granted),
    "approval_denied": (_AWAITING, _NO_APPROVAL, _denied),
    "approval_expired": (_AWAITING, _NO_APPROVAL, _expired),
    "goal_verified": (frozenset({"observing"}), "goal needs an observation", _verified),
    "answered": (_READY, "answer is not allowed now", _answered),
    "budget_exhausted": (_ALIVE, "", _exhausted),
    "task_failed": (_ALIVE, "", _task_failed),
    "cancelled": (_ALIVE, "", _cancelled),
}


def reduce_task(state: Mapping[str, Any], event: Mapping[str, Any] | ev.Event) -> State:
    """Pure reducer: old state and one event give the new state; the old one is not touched.

    ``event`` is a typed event or a dict with "type"; a dict's unknown fields are ignored. The new
    state is a fresh dict whose values are frozen: "phase"; "operation_id" while one is pending and
    "last_operation_id" after it; "evidence", which grows; after a cancel that came while a tool may
    have been acting, "cancel_requested" and "unsettled". An ``event_id`` that the state has seen
    changes nothing. Raises EventError (a ValueError) for every event that is malformed, stale, out
    of order or later than a terminal phase.

    >>> asked = {"type": "tool_requested", "operation_id": "op1"}
    >>> state = reduce_task({"phase": "planning"}, asked)
    >>> reduce_task(state, {"type": "tool_succeeded", "operation_id": "op1", "evidence": ["r7"]})
    {'phase': 'observing', 'evidence': ['r7'], 'last_operation_id': 'op1'}
    """
    event_id = _event_id(event)
    seen = state.get("event_ids", ())
    if event_id is not None and event_id in seen:
        return dict(state)
    reduced = _step(state, event)
    if event_id is not None:
        reduced["event_ids"] = FrozenList((*seen, event_id))
    return reduced


def replay(
    events: Iterable[Mapping[str, Any] | ev.Event], initial: Mapping[str, Any] | None = None
) -> State:
    """The state after all events, equal to `reduce_task` event by event, in linear time.

    >>> replay([{"type": "tool_requested", "operation_id": "op1"}])["phase"]
    'executing'
    """
    state: State = dict(initial) if initial is not None else {"phase": "planning"}
    ids: list[str] = list(state.pop("event_ids", ()))
    seen = set(ids)
    evidence: list[Any] | None = None  # collected here: a copy per event would take square time
    for event in events:
        event_id = _event_id(event)
        if event_id is not None and event_id in seen:
            continue
        state = _step(state, event)
        if isinstance(state.get("evidence"), FrozenList):
            evidence = [] if evidence is None else evidence
            evidence += state.pop("evidence")
        if event_id is not None:
            seen.add(event_id)
            ids.append(event_id)
    if evidence is not None:
        state["evidence"] = FrozenList(evidence)
    if ids:
        state["event_ids"] = FrozenList(ids)
    return state


def _event_id(event: Mapping[str, Any] | ev.Event) -> str | None:
    if isinstance(event, ev.Event):
        return event.event_id
    if not isinstance(event, Mapping):
        raise EventError(f"an event is an object, got {type(event).__name__}")
    event_id = event.get("event_id")
    if event_id is not None and not isinstance(event_id, str):
        raise EventError("event_id must be a string")
    return event_id


def _step(state: Mapping[str, Any], event: Mapping[str, Any] | ev.Event) -> State:
    kind = event.type if isinstance(event, ev.Event) else event.get("type")
    phase = state.get("phase")
    unknown = f"unknown phase {phase!r}; a new task is {{'phase': 'planning'}}"
    if not isinstance(phase, str):
        raise EventError(unknown)
    if phase in TERMINAL_PHASES:
        if phase == "cancelled" and kind == "cancelled":
            return dict(state)
        raise EventError("terminal task state cannot transition")
    if not isinstance(kind, str) or kind not in TABLE:
        raise EventError(f"unknown event: {kind}")
    phases, refusal, apply = TABLE[kind]
    if phase not in phases:
        raise EventError(refusal or unknown)
    typed = event if isinstance(event, ev.Event) else ev.event_from_dict(event, extra=True)
    if (
        phase in _PENDING
        and isinstance(typed, ev.ToolEvent)
        and state.get("operation_id") != typed.operation_id
    ):
        raise EventError("stale tool result")
    reduced = dict(state)
    apply(reduced, typed)
    return reduced
