"""A tool that runs on after its timeout: while its owner lives, nobody can say it did not act."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_tools import ALPHA, Gate, Remote, kinds, until
from gnomon.agent import (
    AsyncToolRuntime,
    Limits,
    Reconciler,
    StillRunning,
    StoreClosed,
    Tool,
    ToolRuntime,
)
from gnomon.agent.records import OperationStatus, Settlement
from gnomon.agent.testing import EffectCounter, FaultyStore, SimClock
from ledgers import Ledger, claim_for, outcome

S = OperationStatus
WORKER = Path(__file__).with_name("still_running_worker.py")
LEASE = 1.0
TIMEOUT = {"limits": Limits(timeout_ms=20)}


def abandon(store: Any, lease: float = 30.0) -> None:
    """The ledger of an attempt that nobody waits for any more."""
    store.claim(claim_for(lease=lease))
    left = Settlement(S.NEEDS_RECONCILE, reason="timeout", running=True)
    assert store.settle("op-1", "me", 1, left).applied


# --- the rule in each ledger ----------------------------------------------------------------------


def test_an_abandoned_attempt_keeps_owner_and_lease(store: Any, clock: SimClock) -> None:
    abandon(store)
    row = store.get("op-1")
    assert (row.status, row.owner, row.lease_until) == (S.NEEDS_RECONCILE, "me", 1030.0)
    clock.advance(20)
    store.heartbeat("me", ["op-1"], 30.0)
    store.heartbeat("you", ["op-1"], 99.0)
    assert store.get("op-1").lease_until == 1050.0
    assert kinds_of(store) == ["dispatched", "settled"]


def kinds_of(store: Any) -> list[str]:
    return [event.type for event in store.events("op-1")]


def test_not_executed_is_refused_until_the_lease_is_over(store: Any, clock: SimClock) -> None:
    abandon(store)
    before = store.get("op-1")
    for moment in (0.0, 30.0):
        clock.time = 1000.0 + moment
        with pytest.raises(StillRunning, match=r"owner 'me', whose lease ends at 1030\.000") as no:
            store.resolve("op-1", outcome(S.NOT_EXECUTED), "ops", {})
        assert (no.value.owner, no.value.lease_until) == ("me", 1030.0)
    assert store.get("op-1") == before
    assert not store.claim(claim_for(owner="you", retry_attempt=1)).won
    clock.time = 1030.001
    assert store.resolve("op-1", outcome(S.NOT_EXECUTED), "ops", {}).applied
    assert store.claim(claim_for(owner="you", retry_attempt=1)).won


def test_a_cancelled_one_is_refused_as_well(store: Any, clock: SimClock) -> None:
    abandon(store)
    store.request_cancel(claim_for().request, "ann")
    with pytest.raises(StillRunning):
        store.resolve("op-1", outcome(S.NOT_EXECUTED), "ops", {})
    clock.advance(31)
    row = store.resolve("op-1", outcome(S.NOT_EXECUTED), "ops", {}).operation
    assert row.status is S.CANCELLED


@pytest.mark.parametrize("status", [S.SUCCEEDED, S.FAILED])
def test_a_terminal_outcome_may_be_said_at_any_time(store: Any, status: OperationStatus) -> None:
    abandon(store)
    row = store.resolve("op-1", outcome(status), "ops", {}).operation
    assert (row.status, row.lease_until) == (status, None)


def test_the_owner_says_that_its_tool_ended_without_an_outcome(store: Any) -> None:
    abandon(store)
    ended = outcome(S.NEEDS_RECONCILE, reason="exception")
    assert store.settle("op-1", "me", 1, ended).applied
    assert store.settle("op-1", "me", 1, ended).applied  # repeated without harm
    row = store.get("op-1")
    assert (row.status, row.lease_until, row.reason) == (S.NEEDS_RECONCILE, None, "timeout")
    event = store.events("op-1")[-1]
    assert kinds_of(store) == ["dispatched", "settled", "tool_ended"]
    assert event.data == {"status": "needs_reconcile", "attempt": 1, "reason": "exception"}
    assert store.resolve("op-1", outcome(S.NOT_EXECUTED), "ops", {}).applied


def test_another_owner_cannot_say_that_the_tool_ended(store: Any) -> None:
    abandon(store)
    assert not store.settle("op-1", "you", 1, outcome(S.NEEDS_RECONCILE)).applied
    assert not store.settle("op-1", "me", 2, outcome(S.NEEDS_RECONCILE)).applied
    assert store.get("op-1").lease_until == 1030.0


def test_an_owner_taken_for_dead_comes_back(store: Any, clock: SimClock) -> None:
    store.claim(claim_for(lease=5.0))
    clock.advance(6)
    store.recover()
    store.heartbeat("me", ["op-1"], 30.0)
    with pytest.raises(StillRunning):
        store.resolve("op-1", outcome(S.NOT_EXECUTED), "ops", {})


@pytest.mark.parametrize("status", [S.SUCCEEDED, S.FAILED, S.NOT_EXECUTED, S.CANCELLED])
def test_only_an_open_outcome_can_be_of_a_running_tool(status: OperationStatus) -> None:
    with pytest.raises(ValueError, match="still runs"):
        Settlement(status, running=True)


# --- two runtimes ---------------------------------------------------------------------------------


def lease_thread(runtime: ToolRuntime) -> threading.Thread:
    keeper = runtime.attempts._keeper
    assert keeper is not None
    return keeper._thread


def look(_: Any) -> dict[str, str]:
    return {"status": "not_executed"}


def test_another_runtime_cannot_start_it_again(shared_ledger: Ledger) -> None:
    gate = Gate()
    remote = Remote(before=gate)
    mine = remote.runtime(shared_ledger.open(), tool=TIMEOUT)
    other = remote.runtime(shared_ledger.open(), tool={"reconcile": look})
    assert mine.dispatch("write", ALPHA, "op-1")["reason"] == "timeout"
    owner = mine.attempts.owner
    with pytest.raises(StillRunning, match=owner):
        other.reconcile("op-1", "not_executed", actor="ops")
    [looked] = Reconciler(other).run()
    assert (looked.answer, looked.status, looked.error) == (
        "not_executed",
        S.NEEDS_RECONCILE,
        "StillRunning",
    )
    assert other.dispatch("write", ALPHA, "op-1")["status"] == "needs_reconcile"
    gate.open()
    until(lambda: other.operations["op-1"]["status"] == "succeeded")
    assert other.dispatch("write", ALPHA, "op-1") == remote.answer
    assert remote.effects == ["alpha"]
    assert kinds(other, "op-1") == ["dispatched", "settled", "settled"]


def test_the_heartbeat_keeps_it_alive_also_after_close(shared_ledger: Ledger) -> None:
    gate = Gate()
    remote = Remote(before=gate)
    with remote.runtime(shared_ledger.open(), tool=TIMEOUT, lease_seconds=0.3) as mine:
        mine.dispatch("write", ALPHA, "op-1")
        beats = lease_thread(mine)
    other = ToolRuntime({}, 1, shared_ledger.open(), recover=False)
    end = time.monotonic() + 0.9
    while time.monotonic() < end:
        with pytest.raises(StillRunning):
            other.reconcile("op-1", "not_executed", actor="ops")
        time.sleep(0.05)
    gate.open()
    until(lambda: other.operations["op-1"]["status"] == "succeeded")
    until(lambda: not beats.is_alive())


def test_a_store_that_is_closed_under_a_running_tool_ends_its_heartbeat(ledger: Ledger) -> None:
    gate = Gate()
    remote, store = Remote(before=gate), ledger.open()
    with remote.runtime(store, tool=TIMEOUT, lease_seconds=0.03) as mine:
        mine.dispatch("write", ALPHA, "op-1")
        beats = lease_thread(mine)
    assert beats.is_alive()
    store.close()
    until(lambda: not beats.is_alive())
    gate.open()
    with pytest.raises(StoreClosed):
        store.get("op-1")


def test_a_tool_that_fails_late_opens_the_way(shared_ledger: Ledger) -> None:
    gate = Gate()
    remote = Remote(before=gate, answer=OSError("the line broke"))
    mine = remote.runtime(shared_ledger.open(), tool=TIMEOUT)
    mine.dispatch("write", ALPHA, "op-1")
    other = remote.runtime(shared_ledger.open())
    gate.open()
    until(lambda: kinds(other, "op-1")[-1] == "tool_ended")
    assert other.reconcile("op-1", "not_executed", actor="ops").status is S.NOT_EXECUTED


def test_an_interrupted_wait_is_an_abandoned_tool(ledger: Ledger) -> None:
    """KeyboardInterrupt ends the wait for a tool with a timeout, and not the tool."""
    gate = Gate()
    remote, store = Remote(before=gate), ledger.open()
    mine = remote.runtime(store, tool={"limits": Limits(timeout_ms=5000)})

    def interrupt() -> None:
        gate.wait_inside()
        time.sleep(0.05)  # until the wait has begun: a signal just before it is seen after it only
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        mine.dispatch("write", ALPHA, "op-1")
    interrupter.join()
    row = store.get("op-1")
    assert (row.status, row.reason, row.owner) == (
        S.NEEDS_RECONCILE,
        "interrupted",
        mine.attempts.owner,
    )
    assert row.lease_until is not None
    gate.open()
    until(lambda: store.get("op-1").status is S.SUCCEEDED)


def test_an_asynchronous_runtime_keeps_the_lease_of_a_plain_tool(ledger: Ledger) -> None:
    import anyio

    gate = Gate()
    remote, store = Remote(before=gate), ledger.open()

    async def main() -> None:
        tools = {"write": remote.tool(**TIMEOUT)}
        async with AsyncToolRuntime(tools, 1, store) as runtime:
            answer = await runtime.dispatch("write", ALPHA, "op-1")
            assert answer["reason"] == "timeout"
            with pytest.raises(StillRunning):
                store.resolve("op-1", outcome(S.NOT_EXECUTED), "ops", {})

    anyio.run(main)
    gate.open()
    until(lambda: store.get("op-1").status is S.SUCCEEDED)


def test_the_owner_itself_starts_nothing_beside_its_running_tool(ledger: Ledger) -> None:
    """The lease ended for want of heartbeats, and an operator said what was wrong."""
    clock, gate = SimClock(), Gate()
    remote, store = Remote(before=gate), ledger.open(clock)
    mine = remote.runtime(store, tool=TIMEOUT, heartbeat=False)
    mine.dispatch("write", ALPHA, "op-1")
    clock.advance(31)
    assert store.resolve("op-1", outcome(S.NOT_EXECUTED), "ops", {}).applied
    with pytest.raises(StillRunning):
        mine.dispatch("write", ALPHA, "op-1")
    gate.open()
    until(lambda: kinds(mine, "op-1")[-1] == "late_result_conflict")
    assert remote.effects == ["alpha"]


def test_a_late_result_that_cannot_be_recorded_is_offered_again(ledger: Ledger) -> None:
    gate = Gate()
    remote, store = Remote(before=gate), FaultyStore(ledger.open())
    mine = remote.runtime(store, tool=TIMEOUT, heartbeat=False)
    mine.dispatch("write", ALPHA, "op-1")
    store.fail("settle", times=1)
    gate.open()
    until(lambda: store.calls["settle"] == 2)
    until(lambda: not mine.attempts._running)  # the refused outcome is kept before this
    mine.heartbeat()
    assert mine.dispatch("write", ALPHA, "op-1") == remote.answer


# --- two processes --------------------------------------------------------------------------------


@pytest.fixture
def first(shared_ledger: Ledger, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The other process, its dispatch answered and its tool still running."""
    command = [sys.executable, WORKER, tmp_path, str(LEASE), *shared_ledger.arguments()]
    process = subprocess.Popen(command)
    try:
        until(lambda: (tmp_path / "answer").exists() or process.poll() is not None, 30)
        assert process.poll() is None
        yield process
    finally:
        process.kill()
        process.wait()


def second_runtime(ledger: Ledger, folder: Path) -> ToolRuntime:
    def write(project: str) -> dict[str, Any]:
        EffectCounter(folder / "effects").add("op-1")
        return {"status": "succeeded", "by": "the second"}

    from agent_tools import WRITE_SCHEMA

    tool = Tool("write", WRITE_SCHEMA, 1, write, reconcile=look)
    return ToolRuntime({"write": tool}, 1, ledger.open())


def test_a_tool_in_another_process_cannot_be_called_not_executed(
    shared_ledger: Ledger, tmp_path: Path, first: subprocess.Popen[bytes]
) -> None:
    """For several leases an operator and a look-up insist; then the tool acts: one effect."""
    second = second_runtime(shared_ledger, tmp_path)
    end = time.monotonic() + 2.5 * LEASE
    while time.monotonic() < end:
        with pytest.raises(StillRunning, match=r"lease ends at \d+\.\d{3}"):
            second.reconcile("op-1", "not_executed", actor="ops")
        [looked] = Reconciler(second).run()
        assert looked.error == "StillRunning"
        second.recover()
        assert second.dispatch("write", ALPHA, "op-1")["status"] == "needs_reconcile"
        time.sleep(0.05)
    (tmp_path / "act").touch()
    assert first.wait(20) == 0
    answer = second.dispatch("write", ALPHA, "op-1")
    assert answer == {"status": "succeeded", "by": "the first"}
    assert EffectCounter(tmp_path / "effects").count == 1


def test_a_dead_owner_stands_in_nobodys_way(
    shared_ledger: Ledger, tmp_path: Path, first: subprocess.Popen[bytes]
) -> None:
    second = second_runtime(shared_ledger, tmp_path)
    with pytest.raises(StillRunning):
        second.reconcile("op-1", "not_executed", actor="ops")
    first.kill()
    first.wait()

    def resolved() -> bool:
        [looked] = Reconciler(second).run()
        return looked.status is S.NOT_EXECUTED

    until(resolved, 10 * LEASE)
    answer = second.dispatch("write", ALPHA, "op-1")
    assert answer == {"status": "succeeded", "by": "the second"}
    assert EffectCounter(tmp_path / "effects").count == 1
