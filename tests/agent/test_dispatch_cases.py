"""Double and lost executions: the reported cases, each by its id (D1 is in test_crash.py)."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from agent_tools import ALPHA, WRITE_SCHEMA, Gate, Remote, in_thread, kinds, until
from gnomon.agent import (
    OperationConflict,
    Tool,
    ToolRuntime,
    derive_operation_id,
    run_agent,
)
from gnomon.agent.testing import SimClock
from ledgers import Ledger

RUNNER = """
import sys, time
from pathlib import Path
from gnomon.agent import Tool, ToolRuntime
folder = Path(sys.argv[1])
kind, *place = sys.argv[2:]
if kind == "sqlite":
    from gnomon.agent.sqlite_store import SqliteOperationStore
    store = SqliteOperationStore(place[0])
else:
    from gnomon.agent.postgres_store import PostgresOperationStore
    store = PostgresOperationStore(place[0], schema=place[1])

def write(project):
    with (folder / "effects").open("a") as file:
        file.write(project + "\\n")
    (folder / "inside").touch()
    while not (folder / "open").exists():
        time.sleep(0.005)
    return {"status": "succeeded", "by": "the first process"}

schema = {"type": "object", "properties": {"project": {"type": "string"}}, "required": ["project"]}
with ToolRuntime({"write": Tool("write", schema, 1, write)}, 1, store) as runtime:
    print(runtime.dispatch("write", {"project": "alpha"}, "op-1"))
store.close()
"""


def test_d2_recovery_leaves_a_live_process_alone(shared_ledger: Ledger, tmp_path: Path) -> None:
    """Process A is inside its tool; process B starts, recovers, and dispatches the same id."""
    effects, inside = tmp_path / "effects", tmp_path / "inside"
    first = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(RUNNER), tmp_path, *shared_ledger.arguments()],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        until(inside.exists, 20)
        remote = Remote()
        second = remote.runtime(shared_ledger.open())
        assert second.recover() == []
        answer = second.dispatch("write", ALPHA, "op-1")
        assert answer == {
            "status": "needs_reconcile",
            "operation_id": "op-1",
            "reason": "in_flight",
        }
        row = second.operation("op-1")
        assert row is not None
        assert row.status.value == "in_flight"
        (tmp_path / "open").touch()
        output, _ = first.communicate(timeout=20)
    finally:
        first.kill()
    expected = {"status": "succeeded", "by": "the first process"}
    assert first.returncode == 0
    assert eval(output) == expected
    assert second.dispatch("write", ALPHA, "op-1") == expected
    assert effects.read_text() == "alpha\n"
    assert remote.effects == []


def test_d2_a_lease_that_ran_out_is_recovered_and_its_late_owner_still_settles(
    ledger: Ledger,
) -> None:
    clock = SimClock()
    store = ledger.open(clock)
    gate = Gate()
    remote = Remote(after=gate)
    mine = remote.runtime(store, heartbeat=False)
    other = Remote().runtime(store, heartbeat=False)
    end = in_thread(lambda: mine.dispatch("write", ALPHA, "op-1"))
    gate.wait_inside()
    clock.time += 29.0
    assert other.recover() == []
    mine.heartbeat()
    clock.time += 29.0
    assert other.recover() == []
    clock.time += 2.0
    assert other.dispatch("write", ALPHA, "op-1")["reason"] == "owner_lost"
    assert [row.operation_id for row in other.recover()] == ["op-1"]
    assert other.dispatch("write", ALPHA, "op-1")["status"] == "needs_reconcile"
    gate.open()
    assert end() == {"status": "succeeded", "number": 1}
    assert other.dispatch("write", ALPHA, "op-1") == {"status": "succeeded", "number": 1}
    assert remote.effects == ["alpha"]
    assert kinds(mine, "op-1") == ["dispatched", "recovered", "settled"]


def test_recovery_at_the_start_of_a_runtime(ledger: Ledger) -> None:
    clock = SimClock()
    store = ledger.open(clock)
    gate = Gate()
    mine = Remote(after=gate).runtime(store, heartbeat=False)
    end = in_thread(lambda: mine.dispatch("write", ALPHA, "op-1"))
    gate.wait_inside()
    clock.time += 31.0
    Remote().runtime(store, heartbeat=False, recover=False)
    assert mine.operations["op-1"]["status"] == "in_flight"
    Remote().runtime(store, heartbeat=False)
    assert mine.operations["op-1"]["status"] == "needs_reconcile"
    gate.open()
    end()


def test_the_lease_thread_keeps_a_long_call_alive(shared_ledger: Ledger) -> None:
    gate = Gate()
    remote = Remote(after=gate)
    mine = remote.runtime(shared_ledger.open(), lease_seconds=0.3)
    other = Remote().runtime(shared_ledger.open())
    end = in_thread(lambda: mine.dispatch("write", ALPHA, "op-1"))
    gate.wait_inside()
    row = mine.operation("op-1")
    assert row is not None
    first = row.lease_until
    until(lambda: (mine.operation("op-1") or row).lease_until != first)
    assert other.recover() == []
    gate.open()
    assert end()["status"] == "succeeded"
    mine.close()


class Obedient:
    """A policy that does what frameworks tell it: try the same action again, with a new call id."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, state: dict[str, Any]) -> dict[str, Any]:
        self.calls += 1
        return {
            "kind": "tool",
            "name": "write",
            "arguments": dict(ALPHA),
            "tool_call_id": f"call_{self.calls}",
            "operation_id": derive_operation_id("ann", "write", ALPHA, "task-1"),
        }


def test_d4_an_exception_after_the_effect_is_not_tried_again(ledger: Ledger) -> None:
    remote = Remote(answer=TimeoutError("response was lost"))
    runtime = remote.runtime(ledger.open())
    policy = Obedient()
    outcome = run_agent(policy, runtime, {}, lambda state: False, 5)
    assert outcome["status"] == "needs_reconcile"
    assert len(outcome["events"]) == 1
    assert (remote.effects, policy.calls) == (["alpha"], 1)
    again = run_agent(policy, runtime, {}, lambda state: False, 5)
    assert again["status"] == "needs_reconcile"
    assert remote.effects == ["alpha"]


def test_d5_a_new_call_id_is_the_same_operation_and_two_intents_are_two(ledger: Ledger) -> None:
    remote = Remote()
    runtime = remote.runtime(ledger.open())
    for _ in ("call_1", "call_7"):
        operation_id = derive_operation_id("ann", "write", ALPHA, "invoice-1")
        runtime.dispatch("write", ALPHA, operation_id)
    assert remote.effects == ["alpha"]
    runtime.dispatch("write", ALPHA, derive_operation_id("ann", "write", ALPHA, "invoice-2"))
    assert remote.effects == ["alpha", "alpha"]


SECRET = "s3cr3t-of-somebody-else"


@pytest.mark.parametrize("state", ["succeeded", "failed", "unknown", "not_executed", "raised"])
def test_d6_the_same_id_for_another_request_is_a_conflict(ledger: Ledger, state: str) -> None:
    answer: Any = {"status": state, "retryable": True, "note": SECRET}
    if state == "raised":
        answer = OSError("lost")
    remote = Remote(answer=answer)
    tools = {"write": remote.tool(), "erase": Tool("erase", WRITE_SCHEMA, 1, remote.write)}
    runtime = ToolRuntime(tools, 1, ledger.open(), principal="ann", tenant="acme")
    arguments = {"project": SECRET}
    with suppress(OSError):
        runtime.dispatch("write", arguments, "op-1")
    before = (runtime.operation("op-1"), kinds(runtime, "op-1"), list(remote.effects))
    others: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("write", {"project": "beta"}, {}),
        ("erase", arguments, {}),
        ("write", arguments, {"principal": "bob"}),
        ("write", arguments, {"tenant": "other"}),
    ]
    for name, other, who in others:
        with pytest.raises(OperationConflict) as conflict:
            runtime.dispatch(name, other, "op-1", **who)
        assert str(conflict.value) == "operation_id was reused for a different request"
        assert isinstance(conflict.value, ValueError)
        assert SECRET not in repr(vars(conflict.value))
    assert (runtime.operation("op-1"), kinds(runtime, "op-1"), remote.effects) == before


def test_d6_while_the_first_is_running(ledger: Ledger) -> None:
    gate = Gate()
    remote = Remote(before=gate)
    runtime = remote.runtime(ledger.open())
    end = in_thread(lambda: runtime.dispatch("write", ALPHA, "op-1"))
    gate.wait_inside()
    with pytest.raises(OperationConflict):
        runtime.dispatch("write", {"project": "beta"}, "op-1")
    gate.open()
    assert end()["status"] == "succeeded"


def test_d8_a_second_dispatch_while_the_first_is_running(ledger: Ledger) -> None:
    gate = Gate()
    remote = Remote(before=gate)
    runtime = remote.runtime(ledger.open())
    first = in_thread(lambda: runtime.dispatch("write", ALPHA, "op-1"))
    gate.wait_inside()
    row = runtime.operation("op-1")
    loser = runtime.dispatch("write", ALPHA, "op-1")
    assert (loser["status"], loser["reason"]) == ("needs_reconcile", "in_flight")
    assert runtime.operation("op-1") == row
    waiting = in_thread(lambda: runtime.dispatch("write", ALPHA, "op-1", wait=10))
    gate.open()
    assert first() == waiting() == {"status": "succeeded", "number": 1}
    assert remote.effects == ["alpha"]


def test_d8_many_threads_race_for_one_id(ledger: Ledger) -> None:
    remote = Remote()
    runtime = remote.runtime(ledger.open())
    for turn in range(10):
        ends = [
            in_thread(lambda turn=turn: runtime.dispatch("write", ALPHA, f"op-{turn}", wait=10))
            for _ in range(4)
        ]
        assert len({str(sorted(end().items())) for end in ends}) == 1
        assert len(remote.effects) == turn + 1


def test_waiting_ends_when_its_time_is_over() -> None:
    gate = Gate()
    runtime = Remote(before=gate).runtime()
    end = in_thread(lambda: runtime.dispatch("write", ALPHA, "op-1"))
    gate.wait_inside()
    assert runtime.dispatch("write", ALPHA, "op-1", wait=0.02)["reason"] == "in_flight"
    gate.open()
    end()


def test_admission_is_asked_once_per_execution_and_never_for_replays(ledger: Ledger) -> None:
    remote = Remote()
    runtime = remote.runtime(ledger.open())
    asked: list[str] = []

    def admit(request: Any) -> None:
        asked.append(request.operation_id)
        if len(asked) > 1:
            raise PermissionError("over budget")

    runtime.dispatch("write", ALPHA, "op-1", admit=admit)
    runtime.dispatch("write", ALPHA, "op-1", admit=admit)
    with pytest.raises(PermissionError, match="over budget"):
        runtime.dispatch("write", ALPHA, "op-2", admit=admit)
    assert asked == ["op-1", "op-2"]
    assert list(runtime.operations) == ["op-1"]


def test_detail_says_how_the_answer_came_about() -> None:
    runtime = Remote().runtime()
    first = runtime.dispatch_detail("write", ALPHA, "op-1")
    again = runtime.dispatch_detail("write", ALPHA, "op-1")
    assert (first.executed, first.attempts, first.status.value) == (True, 1, "succeeded")
    assert (again.executed, again.attempts, again.result) == (False, 1, first.result)


def test_purged_results_still_fence_their_ids(ledger: Ledger) -> None:
    clock = SimClock()
    remote = Remote()
    runtime = remote.runtime(ledger.open(clock))
    runtime.dispatch("write", ALPHA, "op-1")
    clock.time += 10
    assert runtime.store.purge_results(clock.time) == 1
    answer = runtime.dispatch("write", ALPHA, "op-1")
    assert answer == {"status": "succeeded", "operation_id": "op-1", "reason": "result_purged"}
    assert remote.effects == ["alpha"]


def test_a_forked_child_is_another_owner(tmp_path: Path) -> None:
    code = """
        import os, sys
        from gnomon.agent import Tool, ToolRuntime
        schema = {"type": "object", "properties": {}}
        tools = {"t": Tool("t", schema, 1, lambda: {"status": "succeeded"})}
        runtime = ToolRuntime(tools, 1)
        runtime.dispatch("t", {}, "op-1")
        mine = runtime.attempts.owner
        runtime.attempts.close()
        pid = os.fork()
        if pid == 0:
            runtime.dispatch("t", {}, "op-2")
            row = runtime.operation("op-2")
            os._exit(0 if row.owner == runtime.attempts.owner != mine else 1)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sys.exit(status or runtime.attempts.owner != mine)
    """
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(code)]).returncode == 0
