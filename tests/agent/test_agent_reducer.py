"""The reducer: every pair of phase and event, the documents' transitions, replay."""

from __future__ import annotations

import copy
import json
import pickle
import time
from typing import Any

import pytest
from gnomon.agent.events import EVENT_CLASSES, Event, event_from_dict, event_from_json
from gnomon.agent.frozen import EventError, FrozenDict, FrozenList, freeze, thaw
from gnomon.agent.reducer import PHASES, TERMINAL_PHASES, reduce_task, replay
from hypothesis import given
from hypothesis import strategies as st

OP = {"operation_id": "op1"}
# A complete event of each type, about the operation that is pending in STATES.
EVENTS: dict[str, dict[str, Any]] = {
    "task_started": {},
    "model_requested": {"reserved": {"steps": 1}},
    "model_called": {"usage": {"tokens": 5}},
    "action_rejected": {"reason": "unknown_citations"},
    "tool_requested": OP,
    "tool_succeeded": {**OP, "evidence": ["r7"]},
    "tool_failed": OP,
    "tool_not_executed": {**OP, "error": "refused"},
    "tool_needs_reconcile": {**OP, "reason": "timeout"},
    "tool_reconciled": {**OP, "outcome": "succeeded", "evidence": ["r8"]},
    "tool_cancelled": OP,
    "approval_requested": {**OP, "approval_id": "a1"},
    "approval_granted": OP,
    "approval_denied": OP,
    "approval_expired": OP,
    "goal_verified": {},
    "answered": {"answer": "42", "citations": ["r7"]},
    "budget_exhausted": {"dimension": "tokens"},
    "task_failed": {"reason": "dependency_failed"},
    "cancelled": {},
}
STATES: dict[str, dict[str, Any]] = {
    "planning": {},
    "executing": OP,
    "awaiting_approval": OP,
    "needs_reconcile": OP,
    "observing": {"last_operation_id": "op0", "evidence": ["r1"]},
    "succeeded": {},
    "failed": {},
    "cancelled": {},
}
OUTSIDE = "tool result arrived outside execution"
ASKED = "the policy is not asked now"
APPROVAL = "approval event arrived outside its request"
# event -> {phase: phase after it}, and the error in every other phase that is not terminal.
TABLE: dict[str, tuple[dict[str, str], str]] = {
    "task_started": ({"planning": "planning"}, "a task starts once"),
    "model_requested": ({"planning": "planning", "observing": "observing"}, ASKED),
    "model_called": ({"planning": "planning", "observing": "observing"}, ASKED),
    "action_rejected": ({"planning": "planning", "observing": "observing"}, ASKED),
    "tool_requested": (
        {"planning": "executing", "observing": "executing"},
        "tool request is not allowed now",
    ),
    "tool_succeeded": ({"executing": "observing"}, OUTSIDE),
    "tool_failed": ({"executing": "observing"}, OUTSIDE),
    "tool_not_executed": ({"executing": "observing", "awaiting_approval": "observing"}, OUTSIDE),
    "tool_cancelled": ({"executing": "observing", "awaiting_approval": "observing"}, OUTSIDE),
    "tool_needs_reconcile": ({"executing": "needs_reconcile"}, OUTSIDE),
    "tool_reconciled": (
        {"needs_reconcile": "observing"},
        "reconciliation without an unknown outcome",
    ),
    "approval_requested": ({"executing": "awaiting_approval"}, APPROVAL),
    "approval_granted": ({"awaiting_approval": "executing"}, APPROVAL),
    "approval_denied": ({"awaiting_approval": "observing"}, APPROVAL),
    "approval_expired": ({"awaiting_approval": "observing"}, APPROVAL),
    "goal_verified": ({"observing": "succeeded"}, "goal needs an observation"),
    "answered": (
        {"planning": "succeeded", "observing": "succeeded"},
        "answer is not allowed now",
    ),
    "budget_exhausted": (dict.fromkeys(PHASES - TERMINAL_PHASES, "failed"), ""),
    "task_failed": (dict.fromkeys(PHASES - TERMINAL_PHASES, "failed"), ""),
    "cancelled": (dict.fromkeys(PHASES - TERMINAL_PHASES, "cancelled"), ""),
}


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **EVENTS[kind], **more}


def state_of(phase: str) -> dict[str, Any]:
    return {"phase": phase, **copy.deepcopy(STATES[phase])}


def attempt(reduce: Any, state: dict[str, Any], one: Any) -> tuple[str, Any]:
    """The text of the refusal, or "" and the new state."""
    try:
        return "", reduce(state, one)
    except ValueError as error:
        return str(error), None


def document_reduce(state: dict[str, Any], event: dict[str, Any]) -> dict[str, Any]:
    """The documents' transitions, from their definition: the oracle for their five events."""
    phase, kind = state["phase"], event["type"]
    after = dict(state)
    if phase in ("succeeded", "failed", "cancelled"):
        if (phase, kind) == ("cancelled", "cancelled"):
            return after
        raise ValueError("terminal task state cannot transition")
    match kind:
        case "tool_requested" if phase in ("planning", "observing"):
            after |= {"phase": "executing", "operation_id": event["operation_id"]}
        case "tool_requested":
            raise ValueError("tool request is not allowed now")
        case "tool_succeeded" if phase != "executing":
            raise ValueError("tool result arrived outside execution")
        case "tool_succeeded" if state.get("operation_id") != event["operation_id"]:
            raise ValueError("stale tool result")
        case "tool_succeeded":
            after |= {"phase": "observing", "last_operation_id": after.pop("operation_id")}
            after["evidence"] = event["evidence"]
        case "goal_verified" if phase != "observing":
            raise ValueError("goal needs an observation")
        case "goal_verified":
            after["phase"] = "succeeded"
        case "cancelled":
            after["phase"] = "cancelled"
        case _:
            raise ValueError(f"unknown event: {kind}")
    return after


DOCUMENTED = ("tool_requested", "tool_succeeded", "goal_verified", "cancelled", "no such event")


def test_the_tables_name_everything() -> None:
    assert set(EVENTS) == set(TABLE) == set(EVENT_CLASSES)
    assert set(STATES) == PHASES


@pytest.mark.parametrize("phase", sorted(PHASES))
@pytest.mark.parametrize("kind", sorted(TABLE))
def test_every_pair_of_phase_and_event(phase: str, kind: str) -> None:
    state, (after, refusal) = state_of(phase), TABLE[kind]
    before = copy.deepcopy(state)
    if phase in TERMINAL_PHASES and (phase, kind) != ("cancelled", "cancelled"):
        with pytest.raises(EventError, match=r"^terminal task state cannot transition$"):
            reduce_task(state, event(kind))
    elif phase in after:
        assert reduce_task(state, event(kind))["phase"] == after[phase]
    elif phase == "cancelled":
        assert reduce_task(state, event(kind)) == state
    else:
        with pytest.raises(EventError) as caught:
            reduce_task(state, event(kind))
        assert str(caught.value) == refusal
    assert state == before


@pytest.mark.parametrize("phase", sorted(PHASES))
@pytest.mark.parametrize("kind", sorted(TABLE))
def test_events_about_another_operation_are_stale(phase: str, kind: str) -> None:
    if "operation_id" in EVENTS[kind] and phase in TABLE[kind][0] and kind != "tool_requested":
        with pytest.raises(EventError, match=r"^stale tool result$"):
            reduce_task(state_of(phase), event(kind, operation_id="op2"))


@pytest.mark.parametrize("phase", ["planning", "executing", "observing", *sorted(TERMINAL_PHASES)])
@pytest.mark.parametrize("kind", DOCUMENTED)
def test_same_transitions_and_errors_as_the_document(phase: str, kind: str) -> None:
    given_event = {"type": kind, "operation_id": "op1", "evidence": ["r7"]}
    for state in (state_of(phase), {"phase": phase}, {"phase": phase, "operation_id": "op2"}):
        refusal, expected = attempt(document_reduce, state, given_event)
        said, found = attempt(reduce_task, state, given_event)
        assert said == refusal
        if expected is not None:
            assert found["phase"] == expected["phase"]
            assert found.get("operation_id") == expected.get("operation_id")
            assert found.get("last_operation_id") == expected.get("last_operation_id")


def test_a_run_of_the_documents_events_gives_the_documents_state() -> None:
    run = [event("tool_requested"), event("tool_succeeded"), event("goal_verified")]
    expected = state = {"phase": "planning"}
    for one in run:
        expected, state = document_reduce(expected, one), reduce_task(state, one)
        assert state == expected


# --- what the document leaves open ----------------------------------------------------------------


def test_evidence_grows() -> None:
    state = replay([event("tool_requested"), event("tool_succeeded")])
    state = replay([event("tool_requested"), event("tool_succeeded", evidence=["r9"])], state)
    assert state["evidence"] == ["r7", "r9"]
    with pytest.raises(TypeError):
        state["evidence"].append("r10")


def test_the_state_shares_nothing_with_the_event() -> None:
    evidence: list[Any] = [{"id": "r1", "notes": ["a"]}]
    state = reduce_task(state_of("executing"), event("tool_succeeded", evidence=evidence))
    evidence[0]["notes"].append("b")
    evidence.append("r2")
    assert state["evidence"] == [{"id": "r1", "notes": ["a"]}]


@pytest.mark.parametrize("phase", ["executing", "needs_reconcile"])
def test_c1_cancel_in_flight_keeps_the_operation_in_view(phase: str) -> None:
    state = reduce_task(state_of(phase), event("cancelled"))
    assert state["phase"] == "cancelled"
    assert state["cancel_requested"] is True
    assert state["unsettled"] == ["op1"]
    with pytest.raises(EventError, match="terminal"):
        reduce_task(state, event("tool_succeeded"))


@pytest.mark.parametrize("phase", ["planning", "observing", "awaiting_approval"])
def test_c1_cancel_with_nothing_in_flight(phase: str) -> None:
    state = reduce_task(state_of(phase), event("cancelled"))
    assert "unsettled" not in state
    assert "cancel_requested" not in state


@pytest.mark.parametrize("kind", ["task_failed", "budget_exhausted"])
def test_an_end_in_flight_keeps_the_operation_in_view(kind: str) -> None:
    assert reduce_task(state_of("executing"), event(kind))["unsettled"] == ["op1"]
    assert "unsettled" not in reduce_task(state_of("observing"), event(kind))


def test_errors_are_kept_until_the_next_success() -> None:
    state = reduce_task(state_of("executing"), event("tool_failed"))
    assert state["last_error"] == {"operation_id": "op1", "error": "failed"}
    state = replay([event("tool_requested"), event("tool_succeeded")], state)
    assert "last_error" not in state
    state = reduce_task(state_of("needs_reconcile"), event("tool_reconciled", outcome="failed"))
    assert state["last_error"]["error"] == "failed"
    problems = [{"path": "/n", "rule": "type", "message": "m", "remedy": "r"}]
    state = reduce_task(state_of("executing"), event("tool_not_executed", problems=problems))
    assert state["last_error"]["problems"] == problems


def test_duplicates_by_event_id_change_nothing() -> None:
    state = reduce_task({"phase": "planning"}, event("tool_requested", event_id="e1"))
    state = reduce_task(state, event("tool_succeeded", event_id="e2"))
    assert reduce_task(state, event("tool_requested", event_id="e1")) == state
    assert reduce_task(state, event("tool_succeeded", event_id="e2")) == state
    state = reduce_task(state, event("goal_verified", event_id="e3"))
    assert reduce_task(state, event("goal_verified", event_id="e3")) == state  # terminal, and again
    with pytest.raises(EventError, match="terminal"):
        reduce_task(state, event("goal_verified", event_id="e4"))


@pytest.mark.parametrize(
    ("state", "bad"),
    [
        ({}, event("tool_requested")),
        ({"phase": None}, event("cancelled")),
        ({"phase": ["planning"]}, event("cancelled")),
        ({"phase": "zzz"}, event("cancelled")),
        ({"phase": "zzz"}, event("tool_requested")),
        ({"phase": "planning"}, {}),
        ({"phase": "planning"}, {"type": None}),
        ({"phase": "planning"}, {"type": []}),
        ({"phase": "planning"}, []),
        ({"phase": "planning"}, None),
        ({"phase": "planning"}, {"type": "tool_requested"}),
        ({"phase": "planning"}, event("tool_requested", operation_id=None)),
        ({"phase": "planning"}, event("tool_requested", operation_id="")),
        ({"phase": "planning"}, event("tool_requested", operation_id="x" * 201)),
        ({"phase": "planning"}, event("tool_requested", operation_id=["op1"])),
        ({"phase": "planning"}, event("tool_requested", event_id=1)),
        ({"phase": "planning"}, event("tool_requested", at=float("nan"))),
        ({"phase": "planning"}, event("tool_requested", risk=True)),
        ({"phase": "executing"}, event("tool_succeeded", operation_id=None)),
        (state_of("executing"), {"type": "tool_succeeded", "operation_id": "op1"}),
        (state_of("executing"), event("tool_succeeded", evidence=5)),
        (state_of("executing"), event("tool_succeeded", evidence="r7")),
        (state_of("executing"), event("tool_succeeded", evidence=[object()])),
        (state_of("executing"), event("tool_succeeded", evidence=[float("inf")])),
        (state_of("executing"), event("tool_succeeded", evidence=[2**53])),
        (state_of("executing"), event("tool_succeeded", evidence=["\ud800"])),
        (state_of("executing"), event("tool_succeeded", evidence=[{1: "a"}])),
        (state_of("executing"), event("tool_succeeded", evidence=[{"\ud800": 1}])),
        (state_of("executing"), event("tool_succeeded", replayed=1)),
        (state_of("needs_reconcile"), event("tool_reconciled", outcome="perhaps")),
        ({"phase": "observing"}, event("answered", reason="done")),
        ({"phase": "observing"}, event("task_failed", reason=["x"])),
        ({"phase": "observing"}, event("budget_exhausted", limit=True)),
    ],
)
def test_malformed_events_and_states_are_event_errors(state: Any, bad: Any) -> None:
    before = repr(state)
    with pytest.raises(EventError):
        reduce_task(state, bad)
    assert repr(state) == before


def test_deep_and_circular_evidence_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    ring: list[Any] = []
    ring.append(ring)
    for bad in (deep, ring):
        with pytest.raises(EventError, match="deeper than 64"):
            reduce_task(state_of("executing"), event("tool_succeeded", evidence=bad))


# --- typed events, JSON, replay -------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(EVENTS))
def test_events_survive_json(kind: str) -> None:
    typed = event_from_dict(event(kind, event_id="e1", at=1.5))
    assert type(typed) is EVENT_CLASSES[kind]
    assert event_from_json(typed.to_json()) == typed
    assert event_from_json(typed.to_json().encode()) == typed
    assert event_from_dict(json.loads(json.dumps(typed.to_dict()))) == typed
    for phase in PHASES:
        expected = attempt(reduce_task, state_of(phase), event(kind, event_id="e1", at=1.5))
        assert attempt(reduce_task, state_of(phase), typed) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "5",
        '{"type":"nothing"}',
        '{"type":"cancelled","type":"cancelled"}',
        '{"type":"cancelled","why":"x"}',
        '{"type":"tool_requested"}',
        '{"type":"tool_requested","operation_id":NaN}',
        '{"type":"cancelled","at":1e999}',
        "[" * 100_000,
        b"\xff",
    ],
)
def test_texts_that_are_no_event(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        event_from_json(text)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(json_values)
def test_frozen_values_equal_plain_ones_and_cannot_change(value: Any) -> None:
    frozen = freeze(value)
    assert frozen == value
    assert json.loads(json.dumps(frozen)) == value
    assert copy.deepcopy(frozen) is frozen or not isinstance(frozen, (list, dict))
    assert pickle.loads(pickle.dumps(frozen)) == frozen
    plain = thaw(frozen)
    assert plain == value
    assert not isinstance(plain, (FrozenList, FrozenDict))


def test_frozen_values_refuse_every_change() -> None:
    frozen = freeze({"a": [1, {"b": 2}]})
    for change in (
        lambda: frozen.update(a=1),
        lambda: frozen.pop("a"),
        lambda: frozen.popitem(),
        lambda: frozen.clear(),
        lambda: frozen.setdefault("c", 1),
        lambda: frozen.__setitem__("a", 1),
        lambda: frozen.__delitem__("a"),
        lambda: frozen.__ior__({"c": 1}),
        lambda: frozen["a"].append(1),
        lambda: frozen["a"].extend([1]),
        lambda: frozen["a"].insert(0, 1),
        lambda: frozen["a"].pop(),
        lambda: frozen["a"].remove(1),
        lambda: frozen["a"].clear(),
        lambda: frozen["a"].sort(),
        lambda: frozen["a"].reverse(),
        lambda: frozen["a"].__setitem__(0, 1),
        lambda: frozen["a"].__delitem__(0),
        lambda: frozen["a"].__iadd__([1]),
        lambda: frozen["a"].__imul__(2),
        lambda: frozen["a"][1].update(b=3),
    ):
        with pytest.raises(TypeError, match="cannot be changed"):
            change()
    assert frozen == {"a": [1, {"b": 2}]}


@st.composite
def logs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Logs of events that the reducer takes, some delivered twice."""
    state: dict[str, Any] = {"phase": "planning"}
    log: list[dict[str, Any]] = []
    for number in range(draw(st.integers(0, 12))):
        kinds = [kind for kind, (after, _) in TABLE.items() if state["phase"] in after]
        if not kinds or draw(st.integers(0, 9)) == 0:
            if log:
                log.append(draw(st.sampled_from(log)))
            continue
        kind = draw(st.sampled_from(kinds))
        more: dict[str, Any] = {"event_id": f"e{number}"} if draw(st.booleans()) else {}
        if "operation_id" in EVENTS[kind]:
            pending = state.get("operation_id")
            more["operation_id"] = pending if pending else draw(st.sampled_from(["op1", "op2"]))
        if kind == "tool_succeeded":
            more["evidence"] = draw(st.lists(json_values, max_size=2))
        one = event(kind, **more)
        try:
            state = reduce_task(state, one)
        except EventError:  # a task that started already
            continue
        log.append(one)
    return [one for place, one in enumerate(log) if "event_id" in one or one not in log[:place]]


@given(logs())
def test_replay_of_the_persisted_log_gives_the_same_state(log: list[dict[str, Any]]) -> None:
    state: dict[str, Any] = {"phase": "planning"}
    kept = []
    for one in log:
        before = copy.deepcopy(state)
        try:
            after = reduce_task(state, one)
        except EventError:
            continue
        assert state == before  # pure
        state = after
        kept.append(one)
    persisted = [event_from_dict(one).to_json() for one in kept]
    assert replay(event_from_json(text) for text in persisted) == state
    half = len(kept) // 2
    assert replay(kept[half:], replay(kept[:half])) == state
    assert json.loads(json.dumps(state)) == state


def test_replay_takes_linear_time() -> None:
    def seconds(rounds: int) -> float:
        log: list[Event] = []
        for number in range(rounds):
            for kind in ("tool_requested", "tool_failed"):
                log.append(event_from_dict(event(kind, event_id=f"{kind}{number}")))
        start = time.process_time()
        replay(log)
        return time.process_time() - start

    small = min(seconds(1_000) for _ in range(3))
    assert min(seconds(8_000) for _ in range(2)) < 24 * small  # 8 if linear, 64 if quadratic
