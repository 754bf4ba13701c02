"""Tools in a process of their own: killed when their time is over, and with their owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from agent_tools import until
from gnomon.agent import (
    AsyncToolRuntime,
    Limits,
    RetryPolicy,
    SqliteOperationStore,
    Tool,
    ToolProcessError,
    ToolRuntime,
)
from gnomon.agent.testing import EffectCounter
from isolated_functions import act
from isolated_tools import SCHEMA, decorated, made
from ledgers import Ledger

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups are POSIX")
HERE = Path(__file__).parent
SHORT = {"limits": Limits(timeout_ms=1000)}


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def pid_in(path: Path) -> int:
    until(lambda: path.exists() and path.read_text())
    return int(path.read_text())


def call(store: Any, folder: Path, what: str, **more: Any) -> dict[str, Any]:
    with ToolRuntime({"act": made(**more)}, 1, store) as runtime:
        return runtime.dispatch("act", {"folder": str(folder), "what": what}, "op-1")


def effects(folder: Path) -> int:
    return EffectCounter(folder / "effects").count


@pytest.mark.parametrize("what", ["answer", "print", "thread"])
def test_runs_elsewhere_and_once(ledger: Ledger, tmp_path: Path, what: str) -> None:
    answer = call(ledger.open(), tmp_path, what)
    assert answer["status"] == "succeeded"
    assert answer["ä"] == ["text", 1, None]
    assert answer["pid"] != os.getpid()
    assert EffectCounter(tmp_path / "effects").names() == ["op-1"]
    if ledger.durable:
        assert call(ledger.open(), tmp_path, what) == answer
        assert effects(tmp_path) == 1


def test_a_decorated_function_is_found_by_its_name(tmp_path: Path) -> None:
    with ToolRuntime({"decorated": decorated}, 1) as runtime:
        answer = runtime.dispatch("decorated", {"folder": str(tmp_path)}, "op-1")
    assert answer["pid"] != os.getpid()


@pytest.mark.parametrize("what", ["hang", "grandchild"])
def test_killed_when_its_time_is_over(shared_ledger: Ledger, tmp_path: Path, what: str) -> None:
    """Nothing of it acts any more, so its lease is over at once."""
    store = shared_ledger.open()
    answer = call(store, tmp_path, what, **SHORT)
    assert (answer["status"], answer["reason"]) == ("needs_reconcile", "timeout")
    until(lambda: not alive(pid_in(tmp_path / "pid")))
    if what == "grandchild":
        until(lambda: not alive(pid_in(tmp_path / "grandchild")))
    row = store.get("op-1")
    assert row.lease_until is None
    assert call(store, tmp_path, what, **SHORT)["status"] == "needs_reconcile"
    assert effects(tmp_path) == 1


@pytest.mark.parametrize(
    ("what", "reason", "error"),
    [
        ("raise", "exception", "TimeoutError: response was lost"),
        ("exit", "exception", r"ended \(7\) without a result"),
        ("not json", "invalid_result", "invalid status"),
        ("nan", "invalid_result", "invalid status"),
        ("refuse wrongly", "exception", "retryable must be True or False"),
    ],
)
def test_an_unknown_outcome_needs_reconciliation(
    ledger: Ledger, tmp_path: Path, what: str, reason: str, error: str
) -> None:
    store = ledger.open()
    with pytest.raises((ToolProcessError, ValueError), match=error):
        call(store, tmp_path, what)
    row = store.get("op-1")
    assert (row.status.value, row.reason) == ("needs_reconcile", reason)
    assert call(store, tmp_path, what)["status"] == "needs_reconcile"
    assert effects(tmp_path) == (what != "refuse wrongly")


def test_a_proof_of_not_executed_comes_across(tmp_path: Path) -> None:
    waits: list[float] = []
    policy = RetryPolicy(attempts=2, initial=0.0, jitter=0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gnomon.agent.runtime.time.sleep", waits.append)
        with ToolRuntime({"act": made()}, 1, retry=policy) as runtime:
            answer = runtime.dispatch("act", {"folder": str(tmp_path), "what": "refuse"}, "op-1")
    assert (answer["status"], waits) == ("not_executed", [1.5])
    assert effects(tmp_path) == 0


def test_an_interrupted_wait_kills_it(ledger: Ledger, tmp_path: Path) -> None:
    store = ledger.open()

    def interrupt() -> None:
        pid_in(tmp_path / "pid")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        call(store, tmp_path, "hang")
    thread.join()
    until(lambda: not alive(pid_in(tmp_path / "pid")))
    row = store.get("op-1")
    assert (row.status.value, row.reason) == ("needs_reconcile", "interrupted")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_task_kills_it(tmp_path: Path, backend: str) -> None:
    if backend == "trio":
        pytest.importorskip("trio")

    async def main() -> None:
        arguments = {"folder": str(tmp_path), "what": "hang"}
        async with AsyncToolRuntime({"act": made()}, 1) as runtime:
            with anyio.move_on_after(30):
                async with anyio.create_task_group() as group:
                    group.start_soon(runtime.dispatch, "act", arguments, "op-1")
                    while not (tmp_path / "effects").exists():
                        await anyio.sleep(0.01)
                    group.cancel_scope.cancel()
            row = runtime.core.operation("op-1")
            assert row is not None
            assert (row.status.value, row.reason) == ("needs_reconcile", "interrupted")
            answer = await runtime.dispatch("act", {**arguments, "what": "answer"}, "op-2")
            assert answer["status"] == "succeeded"

    anyio.run(main, backend=backend)
    assert (tmp_path / "effects").read_text() == "op-1\nop-2\n"


PROGRAM = """
import sys
sys.path.insert(0, {here!r})
from pathlib import Path
from gnomon.agent import SqliteOperationStore
from test_isolation import call
call(SqliteOperationStore({path!r}), Path({folder!r}), "grandchild")
"""


def test_it_dies_with_its_owner(tmp_path: Path) -> None:
    """Else it would act after its lease, while somebody resolves it as not executed."""
    path = tmp_path / "ledger.db"
    program = PROGRAM.format(here=str(HERE), path=str(path), folder=str(tmp_path))
    owner = subprocess.Popen([sys.executable, "-c", program])
    try:
        tool, below = pid_in(tmp_path / "pid"), pid_in(tmp_path / "grandchild")
        assert alive(tool)
        assert alive(below)
    finally:
        owner.kill()
        owner.wait()
    until(lambda: not alive(tool) and not alive(below))
    with SqliteOperationStore(path) as store:
        assert store.get("op-1").status.value == "in_flight"  # type: ignore[union-attr]


def nested() -> Any:
    def inner(folder: str, what: str) -> Any:
        return None

    return inner


@pytest.mark.parametrize(
    ("execute", "more", "message"),
    [
        (nested(), {}, "cannot be imported"),
        (lambda folder, what: None, {}, "cannot be imported"),
        (act, {"injected": {"operation_id", "context"}}, "context"),
    ],
)
def test_functions_that_another_process_could_not_call(
    execute: Any, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Tool("act", SCHEMA, 1, execute, isolation="process", **more)


def test_arguments_that_are_no_json_start_nothing(tmp_path: Path) -> None:
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"]}}
    tool = Tool("act", schema, 1, act, isolation="process", injected={"operation_id"})
    shared = {"operation_id": object()}
    with ToolRuntime({"act": tool}, 1, injected=shared) as runtime:  # the runtime's own id wins
        answer = runtime.dispatch("act", {"folder": str(tmp_path), "what": "answer"}, "op-1")
    assert answer["status"] == "succeeded"


def test_no_process_is_left_and_no_pipe(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    for number in range(3):
        with ToolRuntime({"act": made()}, 1) as runtime:
            runtime.dispatch("act", {"folder": str(tmp_path), "what": "answer"}, f"op-{number}")
    began = time.monotonic()
    while sys.platform == "linux" and len(os.listdir("/proc/self/fd")) > before:
        assert time.monotonic() - began < 5
        time.sleep(0.01)
    until(lambda: not alive(pid_in(tmp_path / "pid")))
