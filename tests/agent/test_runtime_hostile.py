"""Ways to a second start or a lost outcome that go around the ledger's own rules."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from gnomon.agent import (
    AsyncToolRuntime,
    Limits,
    MemoryOperationStore,
    OperationStatus,
    Reconciler,
    SqliteOperationStore,
    StillRunning,
    StoreUnavailable,
    Tool,
    ToolRuntime,
)
from gnomon.agent.reducer import reduce_task, replay

SCHEMA = {"type": "object", "properties": {"p": {"type": "string"}}, "required": ["p"]}
CALL: dict[str, Any] = {"p": "x"}


def write_tool(execute: Any, **options: Any) -> dict[str, Tool]:
    return {"write": Tool("write", SCHEMA, 1, execute, **options)}


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("error", [RuntimeError("from a signal handler"), KeyboardInterrupt()])
def test_exception_after_the_thread_began_is_no_proof_that_nothing_ran(
    monkeypatch: pytest.MonkeyPatch, asynchronous: bool, error: BaseException
) -> None:
    effects: list[str] = []
    done = threading.Event()

    def act(p: str) -> dict[str, Any]:
        effects.append(p)
        done.set()
        return {"status": "succeeded"}

    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "gnomon-write":
            done.wait(10)
            raise error

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    store = MemoryOperationStore()
    tools = write_tool(act, limits=Limits(timeout_ms=10_000))

    def dispatch() -> None:
        if asynchronous:
            asyncio.run(AsyncToolRuntime(tools, 1, store).dispatch("write", CALL, "op"))
        else:
            ToolRuntime(tools, 1, store).dispatch("write", CALL, "op")

    with pytest.raises(type(error)):
        dispatch()
    monkeypatch.undo()
    dispatch()
    assert effects == ["x"]


def test_thread_that_was_given_up_before_it_began_never_runs_its_tool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    effects: list[str] = []
    late: list[threading.Thread] = []
    start = threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if thread.name == "gnomon-write" and not late:
            late.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    def act(p: str) -> dict[str, Any]:
        effects.append(p)
        return {"status": "succeeded"}

    monkeypatch.setattr(threading.Thread, "start", refused)
    runtime = ToolRuntime(write_tool(act, limits=Limits(timeout_ms=10_000)), 1)
    assert runtime.dispatch("write", CALL, "op")["status"] == "not_executed"
    start(late[0])
    late[0].join()
    assert effects == []
    assert runtime.dispatch("write", CALL, "op") == {"status": "succeeded"}
    assert effects == ["x"]


def test_outcome_that_comes_after_aclose_is_recorded(tmp_path: Path) -> None:
    async def run(store: SqliteOperationStore) -> dict[str, Any]:
        begun, go = asyncio.Event(), asyncio.Event()

        async def act(p: str) -> dict[str, Any]:
            begun.set()
            await go.wait()
            return {"status": "succeeded", "p": p}

        runtime = AsyncToolRuntime(write_tool(act), 1, store)
        task = asyncio.create_task(runtime.dispatch("write", CALL, "op"))
        await begun.wait()
        await runtime.aclose()
        go.set()
        return await task

    with SqliteOperationStore(tmp_path / "ledger.db") as store:
        assert asyncio.run(run(store)) == {"status": "succeeded", "p": "x"}
        row = store.get("op")
        assert row is not None
        assert row.status is OperationStatus.SUCCEEDED


def test_not_executed_is_refused_while_the_timed_out_tool_still_runs() -> None:
    effects: list[str] = []
    go = threading.Event()

    def act(p: str) -> dict[str, Any]:
        go.wait(10)
        effects.append(p)
        return {"status": "succeeded"}

    tools = write_tool(
        act,
        limits=Limits(timeout_ms=20),
        reconcile=lambda _: {"status": "succeeded" if effects else "not_executed"},
    )
    with ToolRuntime(tools, 1) as runtime:
        assert runtime.dispatch("write", CALL, "op")["reason"] == "timeout"
        assert Reconciler(runtime).run()[0].status is OperationStatus.NEEDS_RECONCILE
        with pytest.raises(StillRunning, match="may still run under owner"):
            runtime.reconcile("op", "not_executed")
        assert runtime.dispatch("write", CALL, "op")["status"] == "needs_reconcile"
        go.set()
        while runtime.operations["op"]["status"] != "succeeded":
            time.sleep(0.005)
        assert runtime.dispatch("write", CALL, "op") == {"status": "succeeded"}
    assert effects == ["x"]


@pytest.mark.parametrize("how", ["moved", "replaced", "linked", "deleted"])
def test_ledger_file_that_is_not_ours_alone_starts_nothing(tmp_path: Path, how: str) -> None:
    effects: list[str] = []

    def act(p: str) -> dict[str, Any]:
        effects.append(p)
        return {"status": "succeeded"}

    path, other = tmp_path / "ledger.db", tmp_path / "other.db"
    with SqliteOperationStore(path) as store, ToolRuntime(write_tool(act), 1, store) as runtime:
        assert runtime.dispatch("write", CALL, "op-1") == {"status": "succeeded"}
        if how in ("moved", "replaced"):
            path.rename(other)
        if how == "replaced":
            path.write_bytes(b"")
        if how == "linked":
            os.link(path, other)
        if how == "deleted":
            path.unlink()
        with pytest.raises(StoreUnavailable, match="moved, replaced or hard-linked"):
            runtime.dispatch("write", CALL, "op-2")
    assert effects == ["x"]


@pytest.mark.parametrize("name", ["x\ud800", "a\0b", "y" * 10_000])
def test_exception_class_of_any_name_is_recorded(tmp_path: Path, name: str) -> None:
    class OddError(Exception):
        pass

    OddError.__qualname__ = name

    def act(p: str) -> dict[str, Any]:
        raise OddError(p)

    with SqliteOperationStore(tmp_path / "ledger.db") as store:
        with ToolRuntime(write_tool(act), 1, store) as runtime, pytest.raises(OddError):
            runtime.dispatch("write", CALL, "op")
        row = store.get("op")
    assert row is not None
    assert row.status is OperationStatus.NEEDS_RECONCILE
    assert len(row.error_class) <= 200
    assert row.error_class.isprintable()


def test_settlement_that_the_ledger_refuses_does_not_end_the_heartbeat() -> None:
    class Picky(MemoryOperationStore):
        def settle(self, operation_id: str, *rest: Any) -> Any:
            if operation_id == "bad":
                raise ValueError("the ledger refuses the row")
            if operation_id == "later" and not ready.is_set():
                raise StoreUnavailable("not now")
            return super().settle(operation_id, *rest)

    ready = threading.Event()
    store = Picky()
    with ToolRuntime(write_tool(lambda p: {"status": "succeeded"}), 1, store) as runtime:
        with pytest.raises(ValueError, match="refuses the row"):
            runtime.dispatch("write", CALL, "bad")
        assert runtime.dispatch("write", CALL, "later")["reason"] == "not_recorded"
        ready.set()
        runtime.heartbeat()
        assert runtime.operations["later"]["status"] == "succeeded"


def test_reconciled_secret_is_not_stored_in_a_digest_ledger(tmp_path: Path) -> None:
    path, secret = tmp_path / "ledger.db", "CANARY-reconciled-4711"
    with SqliteOperationStore(path, store_arguments="digest") as store:
        runtime = ToolRuntime(write_tool(lambda p: {"status": "unknown"}), 1, store)
        runtime.dispatch("write", CALL, "op")
        runtime.reconcile("op", {"status": "succeeded", "password": secret, "n": 1})
        answer = runtime.dispatch("write", CALL, "op")
        assert answer["status"] == "succeeded"
        assert answer["n"] == 1
        assert secret not in str(answer)
        for file in tmp_path.iterdir():
            assert secret.encode() not in file.read_bytes()


def test_secret_in_a_remote_reference_is_not_stored_in_a_digest_ledger(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"password": {"type": "string"}}}
    secret = "CANARY-reference-4711"

    def act(context: Any, password: str = "") -> dict[str, Any]:
        assert context.note_remote_ref(f"job-7?by={password}")
        return {"status": "unknown"}

    tools = {"write": Tool("write", schema, 1, act, injected=frozenset({"context"}))}
    with SqliteOperationStore(tmp_path / "ledger.db", store_arguments="digest") as store:
        ToolRuntime(tools, 1, store).dispatch("write", {"password": secret}, "op")
        row = store.get("op")
        assert row is not None
        assert (row.remote_ref or "").startswith("job-7?by=")
        for file in tmp_path.iterdir():
            assert secret.encode() not in file.read_bytes()


def test_replay_of_much_evidence_takes_linear_time() -> None:
    def events(count: int) -> list[dict[str, Any]]:
        pairs = (
            (
                {"type": "tool_requested", "operation_id": f"op{n}"},
                {"type": "tool_succeeded", "operation_id": f"op{n}", "evidence": [f"e{n}"]},
            )
            for n in range(count)
        )
        return [event for pair in pairs for event in pair]

    state: dict[str, Any] = {"phase": "planning", "evidence": ["e"]}
    for event in events(20):
        state = reduce_task(state, event)
    assert replay(events(20), {"phase": "planning", "evidence": ["e"]}) == state

    def seconds(count: int) -> float:
        log = events(count)
        begin = time.process_time()
        replay(log)
        return time.process_time() - begin

    assert min(seconds(16_000) for _ in range(2)) < 8 * min(seconds(4_000) for _ in range(3))


def test_process_that_stood_still_past_its_lease_does_not_start_the_tool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    effects: list[str] = []

    def act(p: str) -> dict[str, Any]:
        effects.append(p)
        return {"status": "succeeded"}

    now = [1000.0]
    store = MemoryOperationStore(clock=lambda: now[0])
    other = ToolRuntime(write_tool(act), 1, store)
    moved = threading.local()

    def stand_still(name: str) -> None:
        if name == "before_call" and not getattr(moved, "done", False):
            moved.done = True
            now[0] += 5
            time.sleep(0.3)
            assert [row.operation_id for row in other.recover()] == ["op"]
            other.reconcile("op", "not_executed")
            assert other.dispatch("write", CALL, "op") == {"status": "succeeded"}

    monkeypatch.setattr("gnomon.agent.dispatch.crash_point", stand_still)
    slow = ToolRuntime(write_tool(act), 1, store, lease_seconds=0.2, heartbeat=False)
    assert slow.dispatch("write", CALL, "op") == {"status": "succeeded"}
    assert effects == ["x"]
    assert store.events("op")[-1].type == "late_result_conflict"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_child_of_a_process_killed_in_a_transaction_does_not_hold_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    program = f"""
import os, signal, sys, time
from gnomon.agent import SqliteOperationStore
import gnomon.agent.store_rules as rules
from gnomon.agent.records import Claim, OperationRequest
store = SqliteOperationStore({str(path)!r})
if os.fork() == 0:
    for end in (0, 1, 2):
        os.close(end)
    time.sleep(5)
    os._exit(0)
rules.crash_point = lambda name: os.kill(os.getpid(), signal.SIGKILL)
store.claim(Claim(OperationRequest("op", "", "", "write", "c", "a", None), "me", 30.0))
"""
    subprocess.run([sys.executable, "-c", program], check=False, stdin=subprocess.DEVNULL)
    with SqliteOperationStore(path, timeout=2.0) as store:
        runtime = ToolRuntime(write_tool(lambda p: {"status": "succeeded"}), 1, store)
        assert runtime.dispatch("write", CALL, "op") == {"status": "succeeded"}
