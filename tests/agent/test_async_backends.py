"""What AsyncToolRuntime promises for asyncio and for trio, on both."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest
from agent_tools import ALPHA, WRITE_SCHEMA, Gate, Remote, until
from gnomon.agent import (
    AsyncToolRuntime,
    ConcurrencyLimit,
    Limits,
    NotExecuted,
    OperationConflict,
    RetryPolicy,
    StillRunning,
    Tool,
    run_agent_async,
)
from ledgers import Ledger

BACKENDS = ["asyncio", "trio"]


def on_both(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test on both event loops; a minute is a failure."""

    @functools.wraps(test)
    def run(*, backend: str, **fixtures: Any) -> None:
        if backend == "trio":
            pytest.importorskip("trio")

        async def limited() -> None:
            with anyio.fail_after(60):
                await test(**fixtures)

        anyio.run(limited, backend=backend)

    wanted = inspect.signature(test)
    more = inspect.Parameter("backend", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = wanted.replace(  # type: ignore[attr-defined]
        parameters=[*wanted.parameters.values(), more]
    )
    return pytest.mark.parametrize("backend", BACKENDS)(run)


class Waiting(Remote):
    """An asynchronous tool that acts and then waits until it is let go."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.inside, self.go = threading.Event(), threading.Event()
        self.cancelled = False

    async def wait_and_write(self, project: str) -> Any:
        self.effects.append(project)
        self.inside.set()
        try:
            while not self.go.is_set():
                await anyio.sleep(0.002)
        except anyio.get_cancelled_exc_class():
            self.cancelled = True
            raise
        return self.answer

    def async_runtime(self, store: Any = None, **more: Any) -> AsyncToolRuntime:
        limits = more.pop("limits", Limits())
        limit = more.pop("max_concurrency", None)
        made = Tool(
            "write", WRITE_SCHEMA, 1, self.wait_and_write, limits=limits, max_concurrency=limit
        )
        return AsyncToolRuntime({"write": made}, 1, store, **more)


async def inside(remote: Waiting) -> None:
    while not remote.inside.is_set():
        await anyio.sleep(0.002)


@on_both
async def test_runs_once_and_replays(ledger: Ledger) -> None:
    remote = Waiting()
    remote.go.set()
    async with remote.async_runtime(ledger.open()) as runtime:
        first = await runtime.dispatch("write", ALPHA, "op-1")
        assert await runtime.dispatch("write", ALPHA, "op-1") == first == remote.answer
        with pytest.raises(OperationConflict):
            await runtime.dispatch("write", {"project": "beta"}, "op-1")
    assert remote.effects == ["alpha"]


@on_both
async def test_one_of_many_tasks_claims(ledger: Ledger) -> None:
    remote = Waiting()
    answers: list[dict[str, Any]] = []
    async with remote.async_runtime(ledger.open()) as runtime:

        async def dispatch(wait: float) -> None:
            answers.append(await runtime.dispatch("write", ALPHA, "op-1", wait=wait))

        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(dispatch, 20.0 if number % 2 else 0.0)
            await inside(remote)
            while len(answers) < 2:
                await anyio.sleep(0.002)
            remote.go.set()
    assert remote.effects == ["alpha"]
    assert [one for one in answers if one["status"] == "succeeded"].count(remote.answer) >= 3
    assert {one.get("reason") for one in answers} <= {None, "in_flight"}


@on_both
async def test_a_cancelled_dispatch_is_recorded_first(ledger: Ledger) -> None:
    remote, store = Waiting(), ledger.open()
    async with remote.async_runtime(store) as runtime:
        async with anyio.create_task_group() as group:
            group.start_soon(runtime.dispatch, "write", ALPHA, "op-1")
            await inside(remote)
            group.cancel_scope.cancel()
        row = store.get("op-1")
        assert remote.cancelled
        assert (row.status.value, row.reason) == ("needs_reconcile", "interrupted")
        assert row.lease_until is None  # the tool has ended
        assert (await runtime.dispatch("write", ALPHA, "op-1"))["status"] == "needs_reconcile"
    assert remote.effects == ["alpha"]


@on_both
async def test_an_async_tool_is_cancelled_when_its_time_is_over(ledger: Ledger) -> None:
    remote = Waiting()
    async with remote.async_runtime(ledger.open(), limits=Limits(timeout_ms=20)) as runtime:
        answer = await runtime.dispatch("write", ALPHA, "op-1")
    assert (answer["status"], answer["reason"], remote.cancelled) == (
        "needs_reconcile",
        "timeout",
        True,
    )


@on_both
async def test_a_plain_tool_is_reported_late(ledger: Ledger) -> None:
    gate, store = Gate(), ledger.open()
    remote = Remote(before=gate)
    tools = {"write": remote.tool(limits=Limits(timeout_ms=20))}
    async with AsyncToolRuntime(tools, 1, store) as runtime:
        answer = await runtime.dispatch("write", ALPHA, "op-1")
        assert (answer["status"], answer["reason"]) == ("needs_reconcile", "timeout")
        with pytest.raises(StillRunning):
            await runtime.reconcile("op-1", "not_executed")
        gate.open()
        status = functools.partial(until, lambda: store.get("op-1").status.value == "succeeded")
        await anyio.to_thread.run_sync(status)
        assert await runtime.dispatch("write", ALPHA, "op-1") == remote.answer
    assert remote.effects == ["alpha"]


@on_both
async def test_a_plain_tool_whose_dispatch_is_cancelled_runs_on(ledger: Ledger) -> None:
    gate, store = Gate(), ledger.open()
    remote = Remote(before=gate)
    async with AsyncToolRuntime({"write": remote.tool()}, 1, store) as runtime:
        async with anyio.create_task_group() as group:
            group.start_soon(runtime.dispatch, "write", ALPHA, "op-1")
            while not gate.inside.is_set():
                await anyio.sleep(0.002)
            group.cancel_scope.cancel()
        assert store.get("op-1").status.value == "needs_reconcile"
        with pytest.raises(StillRunning):
            await runtime.reconcile("op-1", "not_executed")
        gate.open()
        status = functools.partial(until, lambda: store.get("op-1").status.value == "succeeded")
        await anyio.to_thread.run_sync(status)


@on_both
async def test_places_are_waited_for_without_blocking(ledger: Ledger) -> None:
    remote = Waiting()
    runtime = remote.async_runtime(ledger.open(), max_concurrency=1, slot_seconds=0.02)
    async with runtime, anyio.create_task_group() as group:
        group.start_soon(runtime.dispatch, "write", ALPHA, "op-1")
        await inside(remote)
        with pytest.raises(ConcurrencyLimit):
            await runtime.dispatch("write", ALPHA, "op-2")
        remote.go.set()
    assert remote.effects == ["alpha"]


@on_both
async def test_a_proved_non_execution_is_tried_again(ledger: Ledger) -> None:
    calls: list[int] = []

    async def write(project: str) -> dict[str, Any]:
        calls.append(1)
        if len(calls) < 3:
            raise NotExecuted("busy")
        return {"status": "succeeded"}

    policy = RetryPolicy(attempts=3, initial=0.0, jitter=0.0)
    tools = {"write": Tool("write", WRITE_SCHEMA, 1, write)}
    async with AsyncToolRuntime(tools, 1, ledger.open(), retry=policy) as runtime:
        assert (await runtime.dispatch("write", ALPHA, "op-1"))["status"] == "succeeded"
    assert len(calls) == 3


@on_both
async def test_the_loop_stops_at_an_unknown_outcome(ledger: Ledger) -> None:
    remote = Waiting(answer={"status": "unknown"})
    remote.go.set()

    async def policy(state: dict[str, Any]) -> dict[str, Any]:
        await anyio.sleep(0)
        return {"kind": "tool", "name": "write", "arguments": ALPHA, "operation_id": "op-1"}

    async with remote.async_runtime(ledger.open()) as runtime:
        outcome = await run_agent_async(policy, runtime, {}, lambda state: False, 5)
    assert (outcome["status"], len(outcome["events"])) == ("needs_reconcile", 1)
    assert remote.effects == ["alpha"]
