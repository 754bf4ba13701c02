"""The asynchronous runtime has the synchronous one's semantics."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agent_tools import ALPHA, WRITE_SCHEMA, Gate, Remote
from gnomon.agent import (
    ApprovalPolicy,
    Approver,
    AsyncToolRuntime,
    ConcurrencyLimit,
    InvalidToolResult,
    Limits,
    NotExecuted,
    OperationConflict,
    ReentrantDispatch,
    RetryPolicy,
    StoreClosed,
    Tool,
    ValidationError,
)
from ledgers import Ledger

AsyncTest = Callable[..., Awaitable[None]]


def on_the_loop(test: AsyncTest) -> Callable[..., None]:
    """Run an async test with asyncio; a warning of a forgotten coroutine fails it."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 20))

    return run


class AsyncRemote(Remote):
    """Remote with an async tool; ``pause`` is awaited between the effect and the answer."""

    pause: float = 0.0

    async def write_async(self, project: str) -> Any:
        self.effects.append(project)
        await asyncio.sleep(self.pause)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def async_runtime(
        self, store: Any = None, *, tool: dict[str, Any] | None = None, **more: Any
    ) -> AsyncToolRuntime:
        made = Tool("write", WRITE_SCHEMA, 1, self.write_async, **(tool or {}))
        return AsyncToolRuntime({"write": made}, 1, store, **more)


@pytest.fixture
def remote() -> AsyncRemote:
    return AsyncRemote()


@on_the_loop
async def test_runs_once_and_replays(ledger: Ledger, remote: AsyncRemote) -> None:
    async with remote.async_runtime(ledger.open()) as runtime:
        first = await runtime.dispatch("write", ALPHA, "op-1")
        assert await runtime.dispatch("write", ALPHA, "op-1") == first == remote.answer
        with pytest.raises(OperationConflict):
            await runtime.dispatch("write", {"project": "beta"}, "op-1")
        with pytest.raises(ValidationError):
            await runtime.dispatch("write", {"n": 1}, "op-2")
    assert remote.effects == ["alpha"]
    with pytest.raises(StoreClosed):
        await runtime.dispatch("write", ALPHA, "op-3")


@on_the_loop
async def test_a_plain_tool_does_not_block_the_loop(remote: AsyncRemote) -> None:
    gate = Gate()
    remote.before = gate
    async with AsyncToolRuntime({"write": remote.tool()}, 1) as runtime:
        task = asyncio.create_task(runtime.dispatch("write", ALPHA, "op-1"))
        while not gate.inside.is_set():
            await asyncio.sleep(0.001)
        gate.open()
        assert (await task)["status"] == "succeeded"


@on_the_loop
async def test_exceptions_go_to_the_first_caller(ledger: Ledger, remote: AsyncRemote) -> None:
    remote.answer = TimeoutError("response was lost")
    async with remote.async_runtime(ledger.open()) as runtime:
        with pytest.raises(TimeoutError, match="response was lost"):
            await runtime.dispatch("write", ALPHA, "op-1")
        assert (await runtime.dispatch("write", ALPHA, "op-1"))["status"] == "needs_reconcile"
    assert remote.effects == ["alpha"]


@on_the_loop
async def test_d8_two_tasks_race_for_one_id(ledger: Ledger, remote: AsyncRemote) -> None:
    remote.pause = 0.05
    async with remote.async_runtime(ledger.open()) as runtime:
        answers = await asyncio.gather(
            *(runtime.dispatch("write", ALPHA, "op-1") for _ in range(4))
        )
        assert sorted(a["status"] for a in answers) == ["needs_reconcile"] * 3 + ["succeeded"]
        assert {a["reason"] for a in answers if "reason" in a} == {"in_flight"}
        waited = await asyncio.gather(
            *(runtime.dispatch("write", ALPHA, "op-2", wait=5) for _ in range(4))
        )
        assert waited == [remote.answer] * 4
    assert remote.effects == ["alpha", "alpha"]


@on_the_loop
async def test_c2_a_cancelled_dispatch_settles_and_stays_cancelled(
    ledger: Ledger, remote: AsyncRemote
) -> None:
    remote.pause = 5
    async with remote.async_runtime(ledger.open()) as runtime:
        task = asyncio.create_task(runtime.dispatch("write", ALPHA, "op-1"))
        while not remote.effects:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        row = runtime.core.operation("op-1")
        assert row is not None
        assert (row.status.value, row.reason) == ("needs_reconcile", "interrupted")
        assert (await runtime.dispatch("write", ALPHA, "op-1"))["status"] == "needs_reconcile"
    assert remote.effects == ["alpha"]


@on_the_loop
async def test_c2_a_cancelled_plain_tool_reports_late(ledger: Ledger) -> None:
    gate = Gate()
    remote = Remote(after=gate)
    async with AsyncToolRuntime({"write": remote.tool()}, 1, ledger.open()) as runtime:
        task = asyncio.create_task(runtime.dispatch("write", ALPHA, "op-1"))
        while not gate.inside.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await runtime.dispatch("write", ALPHA, "op-1"))["status"] == "needs_reconcile"
        gate.open()
        while runtime.core.operations["op-1"]["status"] != "succeeded":
            await asyncio.sleep(0.005)
    assert remote.effects == ["alpha"]


@on_the_loop
async def test_c2_a_cancelled_plain_tool_keeps_its_place(remote: AsyncRemote) -> None:
    gate = Gate()
    remote.before = gate
    tools = {"write": remote.tool(max_concurrency=1)}
    async with AsyncToolRuntime(tools, 1, slot_seconds=0.01) as runtime:
        task = asyncio.create_task(runtime.dispatch("write", ALPHA, "op-1"))
        while not gate.inside.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ConcurrencyLimit):
            await runtime.dispatch("write", ALPHA, "op-2")
        gate.open()
        while runtime.core.operations["op-1"]["status"] != "succeeded":
            await asyncio.sleep(0.005)
        assert (await runtime.dispatch("write", ALPHA, "op-2", wait=1))["status"] == "succeeded"


@on_the_loop
async def test_c2_cancelled_while_the_claim_is_written(
    ledger: Ledger, remote: AsyncRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that is being written is written to its end, and then settled."""
    store = ledger.open()
    claim, entered = store.claim, threading.Event()

    def slow(wish: Any) -> Any:
        entered.set()
        time.sleep(0.05)
        return claim(wish)

    monkeypatch.setattr(store, "claim", slow)
    monkeypatch.setattr(store, "blocking", True)
    async with remote.async_runtime(store) as runtime:
        task = asyncio.create_task(runtime.dispatch("write", ALPHA, "op-1"))
        while not entered.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        row = runtime.core.operation("op-1")
        assert row is not None
        assert (row.status.value, remote.effects) == ("not_executed", [])
        assert (await runtime.dispatch("write", ALPHA, "op-1"))["status"] == "succeeded"


@on_the_loop
async def test_timeout_of_an_async_tool_cancels_it(ledger: Ledger, remote: AsyncRemote) -> None:
    remote.pause = 5
    limits = Limits(timeout_ms=30)
    async with remote.async_runtime(ledger.open(), tool={"limits": limits}) as runtime:
        first = await runtime.dispatch("write", ALPHA, "op-1")
        assert first == {"status": "needs_reconcile", "operation_id": "op-1", "reason": "timeout"}
        assert await runtime.dispatch("write", ALPHA, "op-1") == first
    assert remote.effects == ["alpha"]


@on_the_loop
async def test_timeout_of_a_plain_tool_and_its_late_result(ledger: Ledger) -> None:
    gate = Gate()
    remote = Remote(after=gate)
    tools = {"write": remote.tool(limits=Limits(timeout_ms=30))}
    async with AsyncToolRuntime(tools, 1, ledger.open()) as runtime:
        assert (await runtime.dispatch("write", ALPHA, "op-1"))["reason"] == "timeout"
        gate.open()
        while runtime.core.operations["op-1"]["status"] != "succeeded":
            await asyncio.sleep(0.005)
        assert (await runtime.dispatch("write", ALPHA, "op-1"))["status"] == "succeeded"


@on_the_loop
async def test_invalid_results_need_reconciliation(remote: AsyncRemote) -> None:
    async def later() -> None: ...

    plain = Tool("plain", WRITE_SCHEMA, 1, lambda project: later())
    made = Tool("write", WRITE_SCHEMA, 1, remote.write_async)
    remote.answer = {"status": "ok"}
    async with AsyncToolRuntime({"plain": plain, "write": made}, 1) as runtime:
        for name in ("plain", "write"):
            with pytest.raises(InvalidToolResult):
                await runtime.dispatch(name, ALPHA, f"op-{name}")
            again = await runtime.dispatch(name, ALPHA, f"op-{name}")
            assert again["status"] == "needs_reconcile"


@on_the_loop
async def test_retry_and_async_objects(remote: AsyncRemote) -> None:
    class Client:
        calls = 0

        async def __call__(self, project: str) -> dict[str, Any]:
            self.calls += 1
            if self.calls < 3:
                raise NotExecuted("busy")
            return {"status": "succeeded", "calls": self.calls}

    tools = {"write": Tool("write", WRITE_SCHEMA, 1, functools.partial(Client()))}
    policy = RetryPolicy(attempts=3, initial=0.001)
    async with AsyncToolRuntime(tools, 1, retry=policy) as runtime:
        assert await runtime.dispatch("write", ALPHA, "op-1") == {
            "status": "succeeded",
            "calls": 3,
        }


@on_the_loop
async def test_concurrency_limit(remote: AsyncRemote) -> None:
    remote.pause = 0.02
    async with remote.async_runtime(max_concurrency=1) as runtime:
        answers = await asyncio.gather(
            *(runtime.dispatch("write", ALPHA, f"op-{n}") for n in range(4))
        )
        assert [a["status"] for a in answers] == ["succeeded"] * 4
    remote.pause = 0.5
    async with remote.async_runtime(tool={"max_concurrency": 1}, slot_seconds=0.01) as runtime:
        first = asyncio.create_task(runtime.dispatch("write", ALPHA, "op-1"))
        await asyncio.sleep(0.01)
        with pytest.raises(ConcurrencyLimit):
            await runtime.dispatch("write", ALPHA, "op-2")
        waiting = asyncio.create_task(runtime.dispatch("write", ALPHA, "op-3"))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await first)["status"] == "succeeded"
        remote.pause = 0
        assert (await runtime.dispatch("write", ALPHA, "op-3"))["status"] == "succeeded"


@on_the_loop
async def test_a_place_given_up_by_a_thread_wakes_a_task() -> None:
    gate = Gate()
    remote = Remote(before=gate)
    async with AsyncToolRuntime(
        {"write": remote.tool(limits=Limits(timeout_ms=20), max_concurrency=1)}, 1
    ) as runtime:
        assert (await runtime.dispatch("write", ALPHA, "op-1"))["reason"] == "timeout"
        remote.before = None
        second = asyncio.create_task(runtime.dispatch("write", ALPHA, "op-2"))
        await asyncio.sleep(0.02)
        assert not second.done()
        gate.open()
        assert (await second)["status"] == "succeeded"


@on_the_loop
async def test_reentry_is_refused(remote: AsyncRemote) -> None:
    box: dict[str, AsyncToolRuntime] = {}

    async def write(project: str) -> Any:
        return await box["runtime"].dispatch("write", ALPHA, "op-1")

    async with AsyncToolRuntime({"write": Tool("write", WRITE_SCHEMA, 1, write)}, 1) as runtime:
        box["runtime"] = runtime
        with pytest.raises(ReentrantDispatch):
            await runtime.dispatch("write", ALPHA, "op-1")


@on_the_loop
async def test_approval_cancel_and_reconcile(ledger: Ledger, remote: AsyncRemote) -> None:
    policy = ApprovalPolicy((Approver("boss", max_risk=9),))
    runtime = AsyncToolRuntime(
        {"write": Tool("write", WRITE_SCHEMA, 5, remote.write_async, approval=True)},
        1,
        ledger.open(),
        approvals=policy,
        principal="ann",
    )
    async with runtime:
        asked = await runtime.dispatch("write", ALPHA, "op-1")
        await runtime.approve(asked["approval_id"], by="boss")
        assert (await runtime.dispatch("write", ALPHA, "op-1"))["status"] == "succeeded"
        asked = await runtime.dispatch("write", ALPHA, "op-2")
        await runtime.deny(asked["approval_id"], by="boss")
        assert (await runtime.dispatch("write", ALPHA, "op-2"))["status"] == "denied"
        assert (await runtime.cancel("op-3"))["status"] == "cancelled"
        remote.answer = {"status": "unknown"}
        asked = await runtime.dispatch("write", ALPHA, "op-4")
        await runtime.approve(asked["approval_id"], by="boss")
        assert (await runtime.dispatch("write", ALPHA, "op-4"))["status"] == "needs_reconcile"
        await runtime.reconcile("op-4", {"status": "succeeded", "n": 4}, actor="ops")
        answer = await runtime.dispatch("write", ALPHA, "op-4")
        assert answer == {"status": "succeeded", "n": 4}
        assert await runtime.recover() == []
    assert "write" in repr(runtime)
    assert repr(runtime).startswith("AsyncToolRuntime")


def test_sync_and_async_share_a_ledger(shared_ledger: Ledger, remote: AsyncRemote) -> None:
    sync = remote.runtime(shared_ledger.open())
    first = sync.dispatch("write", ALPHA, "op-1")

    async def main() -> Any:
        async with remote.async_runtime(shared_ledger.open()) as runtime:
            return await runtime.dispatch("write", ALPHA, "op-1")

    assert asyncio.run(main()) == first
    assert remote.effects == ["alpha"]


@on_the_loop
async def test_the_ledger_can_be_looked_at_after_the_end(
    shared_ledger: Ledger, remote: AsyncRemote
) -> None:
    remote.answer = {"status": "unknown"}
    async with remote.async_runtime(shared_ledger.open()) as runtime:
        await runtime.dispatch("write", ALPHA, "op-1")
    assert (await runtime.reconcile("op-1", "failed")).status.value == "failed"
    assert await runtime.recover() == []
    with pytest.raises(StoreClosed):
        await runtime.dispatch("write", ALPHA, "op-1")
    await runtime.aclose()
