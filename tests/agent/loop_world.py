"""A runtime with counted effects, policies to drive it, and checks that hold for every run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from gnomon.agent import MemoryOperationStore, Tool, ToolRuntime
from gnomon.agent.events import event_from_dict
from gnomon.agent.gate import TERMINAL_REASONS, trace_passes, validate, validate_trace
from gnomon.agent.reducer import replay
from trace_oracle import messages

SCHEMA = {
    "type": "object",
    "properties": {"project": {"type": "string"}},
    "required": ["project"],
}
Policy = Callable[[dict[str, Any]], Any]


class World:
    """Tools with counted effects, a runtime on a ledger that survives the runtime."""

    def __init__(self, store: Any = None, **settings: Any) -> None:
        self.effects: list[str] = []
        self.answers: list[Any] = []  # what the write tool does next; an empty list: succeed
        self.store = MemoryOperationStore() if store is None else store
        self.settings = settings
        self.tools = {
            "write": Tool("write", SCHEMA, 1, self.write),
            "read": Tool("read", SCHEMA, 0, self.read, effect="read"),
            "danger": Tool("danger", SCHEMA, 9, self.write),
            "asked": Tool("asked", SCHEMA, 5, self.write, approval=True),
        }
        self.runtime = self.restart()

    def restart(self) -> ToolRuntime:
        self.runtime = ToolRuntime(self.tools, 1, self.store, heartbeat=False, **self.settings)
        return self.runtime

    def write(self, project: str) -> dict[str, Any]:
        self.effects.append(project)
        answer = self.answers.pop(0) if self.answers else {"status": "succeeded"}
        if isinstance(answer, BaseException):
            raise answer
        found: dict[str, Any] = answer(project) if callable(answer) else answer
        return found

    def read(self, project: str) -> dict[str, Any]:
        item = {"source_id": project, "revision": "3", "acl_scope": "team", "excerpt": "text"}
        return {"status": "succeeded", "evidence": [item], "usage": {"tokens": 2}}


def never(state: dict[str, Any]) -> bool:
    return False


def tool(
    name: str = "write", project: str = "alpha", op: str | None = "op1", **more: Any
) -> dict[str, Any]:
    found = {"kind": "tool", "name": name, "arguments": {"project": project}, **more}
    return found if op is None else {**found, "operation_id": op}


def script(*candidates: Any) -> Policy:
    """A policy that proposes these in turn and answers after them."""
    rest: Iterator[Any] = iter(candidates)
    return lambda state: next(rest, {"kind": "answer", "text": "done"})


def judged(outcome: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The outcome, after checks that hold for every run."""
    trace = outcome["trace"]
    assert json.loads(json.dumps(trace)) == trace
    assert validate(trace) == messages(trace) == []
    found = validate_trace(trace)
    assert trace_passes(found), found
    assert trace["profile"] == "v2"
    assert outcome["reason"] == trace["result"]["stop_reason"]
    assert outcome["reason"] in TERMINAL_REASONS
    assert replay(outcome["log"]) == outcome["task"]
    assert [event_from_dict(one).to_dict() for one in outcome["log"]] == outcome["log"]
    return outcome


def busy(state: dict[str, Any]) -> dict[str, Any]:
    """A policy that always has something new to write."""
    number = state.get("n", 0)
    state["n"] = number + 1
    return tool(op=f"op{number}", usage={"tokens": 10, "cost_micros": 3})
