"""What a lease fences: interruptions at any moment, and processes that stand still for too long."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_tools import ALPHA, WRITE_SCHEMA, Gate, Remote, until
from gnomon.agent import (
    AsyncToolRuntime,
    ConcurrencyLimit,
    Limits,
    MemoryOperationStore,
    SqliteOperationStore,
    StillRunning,
    StoreUnavailable,
    Tool,
    ToolProcessError,
    ToolRuntime,
    leases,
    process_child,
)
from gnomon.agent.records import OperationStatus
from gnomon.agent.testing import EffectCounter, FaultyStore
from gnomon.agent.worker import Worker
from isolated_tools import made
from ledgers import Ledger

S = OperationStatus
HERE = Path(__file__).parent
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="stops processes as Linux does")


# --- the lease itself -----------------------------------------------------------------------------


@LINUX
def test_time_in_which_the_machine_sleeps_counts() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    now = leases.steady()
    assert before <= now <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_a_lease_that_was_over_stays_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(leases, "steady", lambda: now[0])
    lease = leases.Lease(100.0, 30.0)
    lease.extend(110.0, 30.0)
    lease.extend(105.0, 30.0)  # an older answer takes nothing away
    assert lease.left() == 40.0
    now[0] = 141.0
    lease.extend(140.5, 30.0)
    assert lease.left() == -1.0


# --- an interruption between any two lines --------------------------------------------------------


def after_start(patch: pytest.MonkeyPatch, interrupt: Callable[[], None]) -> None:
    start = Worker.start

    def started(worker: Worker) -> Any:
        start(worker)
        interrupt()

    patch.setattr(Worker, "start", started)


def after_the_wait(patch: pytest.MonkeyPatch, interrupt: Callable[[], None]) -> None:
    stop = Worker.stop_waiting
    done: list[Any] = []

    def stopped(worker: Worker) -> Any:
        ran = stop(worker)
        if not done:
            done.append(ran)
            interrupt()
        return ran

    patch.setattr(Worker, "stop_waiting", stopped)


def after_the_call(patch: pytest.MonkeyPatch, interrupt: Callable[[], None]) -> None:
    call = ToolRuntime._call

    def called(runtime: ToolRuntime, run: Any) -> Any:
        call(runtime, run)
        interrupt()

    patch.setattr(ToolRuntime, "_call", called)


@pytest.mark.parametrize("moment", [after_start, after_the_wait, after_the_call])
def test_an_interruption_at_any_moment_leaves_the_running_tool_its_lease(
    ledger: Ledger, moment: Any
) -> None:
    """Else somebody resolves it as not executed, and it is started beside the one that runs."""
    gate = Gate()
    remote, store = Remote(before=gate), ledger.open()
    tool = {"limits": Limits(timeout_ms=50), "max_concurrency": 1}
    mine = remote.runtime(store, tool=tool, slot_seconds=0.01)

    def interrupt() -> None:
        gate.wait_inside()
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        moment(patch, interrupt)
        with pytest.raises(KeyboardInterrupt):
            mine.dispatch("write", ALPHA, "op-1")
    row = store.get("op-1")
    assert row.status is S.NEEDS_RECONCILE
    assert row.lease_until is not None
    other = ToolRuntime({}, 1, store)
    with pytest.raises(StillRunning):
        other.reconcile("op-1", "not_executed")
    with pytest.raises(ConcurrencyLimit):
        mine.dispatch("write", ALPHA, "op-2")
    gate.open()
    until(lambda: store.get("op-1").status is S.SUCCEEDED)
    until(lambda: mine.slots.enter("write", 1) is not None)
    assert remote.effects == ["alpha"]


@LINUX
def test_an_interruption_after_the_answer_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from gnomon.agent.process import ProcessCall
    from test_isolation import alive, pid_in

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gnomon.agent.process._await_exit", interrupted)
    monkeypatch.setattr(ProcessCall, "_read", lambda *_: pid_in(tmp_path / "pid") and b"cut")
    arguments = {"folder": str(tmp_path), "what": "hang"}
    with pytest.raises(KeyboardInterrupt):
        ToolRuntime({"act": made()}, 1).dispatch("act", arguments, "op-1")
    until(lambda: not alive(pid_in(tmp_path / "pid")))


# --- processes that stand still -------------------------------------------------------------------


@pytest.mark.parametrize("how", ["direct", "thread", "async", "async thread", "process"])
def test_the_last_look_before_the_tool_is_at_the_lease(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    """Time that passes between the claim and the tool, wherever it passes, starts nothing."""
    calls: list[str] = []
    real, late = time.clock_gettime, [0.0]
    monkeypatch.setattr(leases, "steady", lambda: real(time.CLOCK_MONOTONIC) + late[0])

    def stand_still(name: str) -> None:
        if name == "before_call":
            late[0] = 31.0

    async def later(folder: str, what: str) -> dict[str, Any]:
        return act(folder, what)

    def act(folder: str, what: str) -> dict[str, Any]:
        calls.append(folder)
        return {"status": "succeeded"}

    monkeypatch.setattr("gnomon.agent.dispatch.crash_point", stand_still)
    limits = Limits(timeout_ms=10_000) if "thread" in how else Limits()
    schema = made().schema
    tool = Tool("act", schema, 1, later if how == "async" else act, limits=limits)
    if how == "process":
        tool = made()
    arguments = {"folder": str(tmp_path), "what": "answer"}
    if how.startswith("async"):
        answer = asyncio.run(AsyncToolRuntime({"act": tool}, 1).dispatch("act", arguments, "op-1"))
    else:
        answer = ToolRuntime({"act": tool}, 1).dispatch("act", arguments, "op-1")
    assert answer["status"] == "not_executed"
    assert (calls, list(tmp_path.glob("effects"))) == ([], [])


def test_the_process_of_a_tool_looks_at_the_lease_after_its_imports(tmp_path: Path) -> None:
    arguments = {"folder": str(tmp_path), "what": "answer"}
    place = {"module": "isolated_functions", "name": "act", "path": sys.path}
    over = process_child.Lease(leases.steady() - 1)
    answer = process_child.outcome_of({**place, "arguments": arguments}, over)
    assert answer == {"kind": "not_started", "error": "the lease was over"}
    assert list(tmp_path.iterdir()) == []
    over.move(leases.steady() + 10)
    assert process_child.outcome_of({**place, "arguments": arguments}, over)["kind"] == "returned"


STOPPED = """
import os, signal, sys, time
sys.path.insert(0, {here!r})
import gnomon.agent.dispatch as dispatch
from gnomon.agent import SqliteOperationStore, Tool, ToolRuntime
from gnomon.agent.testing import EffectCounter
from isolated_tools import made, SCHEMA

def stop(name):
    if name == "before_call" and {before!r}:
        os.kill(os.getpid(), signal.SIGSTOP)

def act(folder, what):
    EffectCounter({effects!r}).add("in the stopped process")
    return {{"status": "succeeded"}}

dispatch.crash_point = stop
tool = Tool("act", SCHEMA, 1, act) if {before!r} else made()
with SqliteOperationStore({path!r}) as store:
    runtime = ToolRuntime({{"act": tool}}, 1, store, lease_seconds=0.5)
    try:
        print(runtime.dispatch("act", {{"folder": {folder!r}, "what": "after 2"}}, "op-1"))
    except Exception as error:
        print(type(error).__name__)
"""


@LINUX
@pytest.mark.parametrize("before", [True, False])
def test_a_stopped_owner_acts_no_more_once_its_lease_is_over(tmp_path: Path, before: bool) -> None:
    """SIGSTOP before the call: nothing starts. During an isolated call: its process is killed."""
    path, effects = tmp_path / "ledger.db", tmp_path / "effects"
    places = {"path": str(path), "effects": str(effects), "folder": str(tmp_path)}
    program = STOPPED.format(here=str(HERE), before=before, **places)
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        if before:
            os.waitid(os.P_PID, owner.pid, os.WSTOPPED | os.WNOWAIT)
        else:
            until(lambda: (tmp_path / "pid").exists())
            owner.send_signal(signal.SIGSTOP)

        def act(folder: str, what: str) -> dict[str, Any]:
            EffectCounter(effects).add("elsewhere")
            return {"status": "succeeded"}

        with SqliteOperationStore(path) as store:
            other = ToolRuntime({"act": Tool("act", made().schema, 1, act)}, 1, store)
            until(lambda: [row.operation_id for row in other.recover()] == ["op-1"])
            other.reconcile("op-1", "not_executed")
            arguments = {"folder": str(tmp_path), "what": "after 2"}
            if before:
                answer = other.dispatch("act", arguments, "op-1")
                assert answer == {"status": "succeeded"}
        if not before:
            time.sleep(1.8)  # it would have acted by now
        owner.send_signal(signal.SIGCONT)
        out, _ = owner.communicate(timeout=30)
    finally:
        owner.kill()
        owner.wait()
    assert EffectCounter(effects).names() == (["elsewhere"] if before else [])
    assert ("succeeded" if before else "ToolProcessError") in out


@LINUX
def test_an_isolated_tool_outlives_its_first_lease_while_it_is_extended(tmp_path: Path) -> None:
    arguments = {"folder": str(tmp_path), "what": "after 1.5"}
    with ToolRuntime({"act": made()}, 1, lease_seconds=0.6) as runtime:
        assert runtime.dispatch("act", arguments, "op-1")["status"] == "succeeded"


@LINUX
def test_an_isolated_tool_ends_with_a_lease_that_cannot_be_extended(tmp_path: Path) -> None:
    """An owner cut off from the ledger: others will take it for dead, so its tool must be."""
    store = FaultyStore(MemoryOperationStore())
    store.fail("heartbeat")
    arguments = {"folder": str(tmp_path), "what": "after 5"}
    runtime = ToolRuntime({"act": made()}, 1, store, lease_seconds=0.6)
    with pytest.raises(ToolProcessError):
        runtime.dispatch("act", arguments, "op-1")
    assert not (tmp_path / "effects").exists()
    row = runtime.operation("op-1")
    assert row is not None
    assert row.status is S.NEEDS_RECONCILE


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_copy_of_the_ledger_in_memory_starts_nothing(tmp_path: Path) -> None:
    """The child's copy has no row of what the parent claims after the fork, and the reverse."""
    effects = EffectCounter(tmp_path / "effects")

    def write(project: str) -> dict[str, Any]:
        effects.add("op-1")
        return {"status": "succeeded"}

    runtime = ToolRuntime({"write": Tool("write", WRITE_SCHEMA, 1, write)}, 1)
    child = os.fork()
    if child == 0:
        try:
            runtime.dispatch("write", ALPHA, "op-1")
        except StoreUnavailable as refused:
            os._exit(0 if "forked" in str(refused) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert runtime.dispatch("write", ALPHA, "op-1") == {"status": "succeeded"}
    assert effects.count == 1


@pytest.mark.parametrize("seconds", [float("inf"), 1e300])
@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_timeout_without_end_is_waited_for(seconds: float, asynchronous: bool) -> None:
    """A lock refuses so long a wait, and the tool would be left behind at once."""

    def write(project: str) -> dict[str, Any]:
        time.sleep(0.1)
        return {"status": "succeeded"}

    tools = {"write": Tool("write", WRITE_SCHEMA, 1, write)}
    if asynchronous:
        work = AsyncToolRuntime(tools, 1).dispatch("write", ALPHA, "op-1", timeout=seconds)
        answer = asyncio.run(work)
    else:
        answer = ToolRuntime(tools, 1).dispatch("write", ALPHA, "op-1", timeout=seconds)
    assert answer == {"status": "succeeded"}


@pytest.mark.parametrize("wait", [float("nan"), "long", True])
def test_a_wait_that_is_no_number_of_seconds_is_named(wait: Any) -> None:
    remote = Remote()
    with pytest.raises((TypeError, ValueError), match="wait must be a number of seconds"):
        remote.runtime().dispatch("write", ALPHA, "op-1", wait=wait)
    assert remote.effects == []
