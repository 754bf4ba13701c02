"""Small tools with effects that can be counted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gnomon.agent import Tool, ToolRuntime

WRITE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"project": {"type": "string"}},
    "required": ["project"],
}
ALPHA = {"project": "alpha"}


@dataclass
class Remote:
    """The outside world: counts effects, then answers what the test wants."""

    answer: Any = field(default_factory=lambda: {"status": "succeeded", "number": 1})
    effects: list[str] = field(default_factory=list)
    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None

    def write(self, project: str) -> Any:
        if self.before is not None:
            self.before()
        self.effects.append(project)
        if self.after is not None:
            self.after()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer(len(self.effects)) if callable(self.answer) else self.answer

    def tool(self, risk: int = 1, **more: Any) -> Tool:
        return Tool("write", WRITE_SCHEMA, risk, self.write, **more)

    def runtime(
        self, store: Any = None, *, tool: dict[str, Any] | None = None, **more: Any
    ) -> ToolRuntime:
        more.setdefault("max_risk", 1)
        return ToolRuntime({"write": self.tool(**(tool or {}))}, store=store, **more)


@dataclass
class Gate:
    """Holds a tool inside its call until the test opens it."""

    inside: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)

    def __call__(self) -> None:
        self.inside.set()
        assert self.opened.wait(10), "the test never opened the gate"

    def wait_inside(self) -> None:
        assert self.inside.wait(10), "the tool never started"

    def open(self) -> None:
        self.opened.set()


def in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    """Start ``work`` in a thread; what is returned waits for its end, and gives or raises it."""
    box: list[Any] = []

    def body() -> None:
        try:
            box.append((work(), None))
        except BaseException as error:
            box.append((None, error))

    thread = threading.Thread(target=body)
    thread.start()

    def end() -> Any:
        thread.join(10)
        assert box, "the thread did not end"
        value, error = box[0]
        if error is not None:
            raise error
        return value

    return end


def kinds(runtime: Any, operation_id: str) -> list[str]:
    return [event.type for event in runtime.store.events(operation_id)]


def until(condition: Callable[[], Any], seconds: float = 10.0) -> Any:
    """Wait for something that another thread does."""
    import time

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.005)
    raise AssertionError("it never happened")
