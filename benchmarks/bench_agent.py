"""The agent half: what a dispatch costs on each ledger, beside a raw disk sync and DBOS.

bench_agent.py [OPERATIONS]   default: 200 new operations per ledger

Answers are checked first: one effect per id, a conflict for other arguments, one winner among the
eight processes, the verdicts of the schema. Disk figures are ratios to a raw fdatasync of the same
run, taken in turn with it. PostgreSQL and DBOS are measured where they are installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
SCHEMA = {
    "type": "object",
    "properties": {
        "project": {"type": "string", "maxLength": 40},
        "amount": {"type": "integer", "minimum": 0},
        "kind": {"type": "string", "enum": ["a", "b"]},
        "notify": {"type": "boolean"},
    },
    "required": ["project", "amount"],
}
ARGUMENTS = {"project": "alpha", "amount": 5, "kind": "a", "notify": True}
PROCESSES, CLAIMS_EACH = 8, 100


def say(what: str, value: float, unit: str, **more: Any) -> None:
    print(json.dumps({"what": what, "value": round(value, 6), "unit": unit, **more}), flush=True)


def timed(work: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    work()
    return clock() - start


def p50(values: list[float]) -> float:
    return statistics.median(values)


def p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


def runtime_on(store: Any, calls: list[str], effect: str = "write") -> Any:
    from gnomon.agent import Tool, ToolRuntime

    def write(project: str, amount: int, kind: str = "a", notify: bool = False) -> dict[str, Any]:
        calls.append(project)
        return {"status": "succeeded", "amount": amount}

    return ToolRuntime({"write": Tool("write", SCHEMA, 1, write, effect=effect)}, 1, store)


def check_ledger(runtime: Any, calls: list[str]) -> None:
    first = runtime.dispatch("write", ARGUMENTS, "check-1")
    assert runtime.dispatch("write", dict(ARGUMENTS), "check-1") == first
    assert calls == ["alpha"], "an id was executed twice"
    try:
        runtime.dispatch("write", {**ARGUMENTS, "amount": 6}, "check-1")
    except ValueError:
        calls.clear()
        return
    raise AssertionError("other arguments under the same id were not refused")


class RawDisk:
    """A file that grows by a page and is synced, as a log does."""

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._page = os.urandom(4096)

    def sync(self) -> None:
        os.write(self._fd, self._page)
        os.fdatasync(self._fd)


def bench_sqlite(folder: Path, count: int) -> None:
    from gnomon.agent.sqlite_store import SqliteOperationStore

    raw, calls = RawDisk(folder), []
    with SqliteOperationStore(folder / "ledger.db") as store, runtime_on(store, calls) as runtime:
        check_ledger(runtime, calls)
        disk: list[float] = []
        new: list[float] = []
        for number in range(count + 10):
            disk.append(timed(raw.sync))
            new.append(timed(lambda n=number: runtime.dispatch("write", ARGUMENTS, f"op-{n}")))
        disk, new = disk[10:], new[10:]
        assert len(calls) == count + 10
        replay = [timed(lambda: runtime.dispatch("write", ARGUMENTS, "op-3")) for _ in range(2000)]
        assert len(calls) == count + 10
    say("raw fdatasync of 4 KiB, p50", p50(disk) * 1e3, "ms", p99=p99(disk) * 1e3)
    say("new write operation on SQLite, p50", p50(new) * 1e3, "ms", p99=p99(new) * 1e3)
    goal = p50(disk) * 1.5 + 1e-3
    say("the same / (1.5 x raw fdatasync + 1 ms)", p50(new) / goal, "x (goal: at most 1)")
    say("replay on SQLite, p50", p50(replay) * 1e6, "us (goal: 100)", p99=p99(replay) * 1e6)
    with (
        SqliteOperationStore(folder / "read.db") as store,
        runtime_on(store, calls, "read") as runtime,
    ):
        read = [
            timed(lambda n=number: runtime.dispatch("write", ARGUMENTS, f"op-{n}"))
            for number in range(count)
        ]
    say("new operation of a read-only tool on SQLite, p50", p50(read) * 1e3, "ms")


FSYNCS = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from bench_agent import ARGUMENTS, runtime_on
from gnomon.agent.sqlite_store import SqliteOperationStore
with SqliteOperationStore(Path(sys.argv[2])) as store, runtime_on(store, []) as runtime:
    runtime.dispatch("write", ARGUMENTS, "warm")
    sys.stderr.write("START\\n"); sys.stderr.flush()
    for number in range(100):
        runtime.dispatch("write", ARGUMENTS, f"op-{number}")
    sys.stderr.write("END\\n"); sys.stderr.flush()
"""


def bench_fsyncs(folder: Path) -> None:
    if shutil.which("strace") is None:
        print("strace is missing: fsyncs are not counted", file=sys.stderr)
        return
    log = folder / "strace"
    traced = ["strace", "-f", "-e", "trace=fsync,fdatasync,msync,write", "-o", str(log)]
    command = [*traced, sys.executable, "-c", FSYNCS, str(HERE.parent), str(folder / "fsync.db")]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    text = log.read_text()
    between = text[text.index('"START') : text.index('"END')]
    count = len(re.findall(r"\b(?:fsync|fdatasync|msync)\(", between))
    say("fsyncs of a new write operation on SQLite", count / 100, "per operation (goal: 1)")


def bench_memory(count: int) -> None:
    from gnomon.agent import MemoryOperationStore

    calls: list[str] = []
    with runtime_on(MemoryOperationStore(), calls) as runtime:
        check_ledger(runtime, calls)
        for number in range(200):
            runtime.dispatch("write", ARGUMENTS, f"warm-{number}")
        new = [
            timed(lambda n=n: runtime.dispatch("write", ARGUMENTS, f"op-{n}"), time.thread_time)
            for n in range(count * 10)
        ]
        wall = [
            timed(lambda n=n: runtime.dispatch("write", ARGUMENTS, f"wall-{n}"))
            for n in range(count * 10)
        ]
        assert len(calls) == 200 + 20 * count
    say("new operation in memory, CPU time, p50", p50(new) * 1e6, "us (goal: 100)")
    say("new operation in memory, p50", p50(wall) * 1e6, "us", p99=p99(wall) * 1e6)


def per_call(work: Callable[[], Any], rounds: int, calls: int) -> float:
    def loop() -> None:
        for _ in range(calls):
            work()

    return min(timed(loop) for _ in range(rounds)) / calls


def bench_validation() -> None:
    import jsonschema_rs
    from gnomon.agent.schema import compile_schema

    item = {"type": "object", "properties": SCHEMA["properties"], "additionalProperties": False}
    many = {"type": "object", "properties": {"items": {"type": "array", "items": item}}}
    cases = {
        "4 arguments": (SCHEMA, ARGUMENTS, {**ARGUMENTS, "amount": -1}),
        "100 nested items": (
            many,
            {"items": [ARGUMENTS] * 100},
            {"items": [*[ARGUMENTS] * 99, {"amount": "5"}]},
        ),
    }
    for name, (schema, good, bad) in cases.items():
        ours, alone = compile_schema(schema), jsonschema_rs.validator_for(schema)
        assert ours.is_valid(good) == alone.is_valid(good) is True
        assert ours.is_valid(bad) == alone.is_valid(bad) is False
        times: list[tuple[float, float]] = []
        for _ in range(5):
            mine = per_call(lambda o=ours, g=good: o.validate(g), 3, 200)
            times.append((mine, per_call(lambda a=alone, g=good: a.is_valid(g), 3, 200)))
        mine, theirs = (min(column) for column in zip(*times, strict=True))
        say(f"check and canonical copy of {name}", mine * 1e6, "us")
        say(f"jsonschema-rs alone, {name}", theirs * 1e6, "us", ratio=mine / theirs)


def claim_worker(path: str, number: int) -> None:
    """One of the eight: claims its own ids on the shared file when the gate opens."""
    from gnomon.agent.records import Claim, OperationRequest
    from gnomon.agent.sqlite_store import SqliteOperationStore

    gate, times = Path(f"{path}-gate"), []
    with SqliteOperationStore(path) as store:
        print("ready", flush=True)
        while not gate.exists():
            time.sleep(0.001)
        for turn in range(CLAIMS_EACH):
            name = f"op-{number}-{turn}"
            request = OperationRequest(name, "", "", "write", "c", "a", b'{"project":"alpha"}')
            wish = Claim(request, f"owner-{number}", 30.0)
            times.append(timed(lambda w=wish: store.claim(w)))
        contested = OperationRequest("contested", "", "", "write", "c", "a", b"{}")
        won = store.claim(Claim(contested, f"owner-{number}", 30.0)).won
    print(json.dumps({"times": times, "won": won}))


def bench_processes(folder: Path) -> None:
    from gnomon.agent.sqlite_store import SqliteOperationStore

    path = str(folder / "shared.db")
    SqliteOperationStore(path).close()
    workers = [
        subprocess.Popen(
            [sys.executable, str(HERE), "--claim-worker", path, str(number)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    start = time.perf_counter()
    Path(f"{path}-gate").touch()
    answers = [json.loads(worker.communicate()[0]) for worker in workers]
    seconds = time.perf_counter() - start
    assert sum(answer["won"] for answer in answers) == 1, "not exactly one winner"
    with SqliteOperationStore(path) as store:
        assert len(store.list_operations(limit=10_000)) == PROCESSES * CLAIMS_EACH + 1
    times = [value for answer in answers for value in answer["times"]]
    say("8 processes on one file", len(times) / seconds, "claims/s (goal: 300)")
    say("longest claim among them", max(times), "s (goal: 0.5)", p99=p99(times), p50=p50(times))


def bench_postgres(count: int) -> None:
    sys.path.insert(0, str(HERE.parents[1] / "tests" / "agent"))
    try:
        import postgres
        from gnomon.agent.postgres_store import PostgresOperationStore

        assert postgres.binaries() is not None
    except (ImportError, AssertionError):
        print("PostgreSQL or psycopg is missing: not measured", file=sys.stderr)
        return
    calls: list[str] = []
    with (
        postgres.server_in_temporary_folder(disk=True) as conninfo,
        PostgresOperationStore(conninfo) as store,
        runtime_on(store, calls) as runtime,
    ):
        check_ledger(runtime, calls)
        new = [
            timed(lambda n=number: runtime.dispatch("write", ARGUMENTS, f"op-{n}"))
            for number in range(count)
        ]
        replay = [timed(lambda: runtime.dispatch("write", ARGUMENTS, "op-3")) for _ in range(500)]
    say("new write operation on PostgreSQL, p50", p50(new) * 1e3, "ms", p99=p99(new) * 1e3)
    say("replay on PostgreSQL, p50", p50(replay) * 1e3, "ms")


def bench_dbos(folder: Path, count: int) -> None:
    command = [sys.executable, str(HERE), "--dbos-worker", str(folder / "dbos.db"), str(count)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"DBOS is not measured: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return
    figures = json.loads(done.stdout.splitlines()[-1])
    say("DBOS, new workflow of one step on SQLite, p50", figures["new"] * 1e3, "ms")
    say("DBOS, replay of it, p50", figures["replay"] * 1e6, "us")


def dbos_worker(path: str, count: int) -> None:
    import logging

    from dbos import DBOS, SetWorkflowID

    DBOS(config={"name": "bench", "system_database_url": f"sqlite:///{path}"})
    logging.disable(logging.CRITICAL)
    calls: list[str] = []

    @DBOS.step()  # type: ignore[untyped-decorator]
    def write(project: str) -> dict[str, str]:
        calls.append(project)
        return {"status": "succeeded"}

    @DBOS.workflow()  # type: ignore[untyped-decorator]
    def operation(project: str) -> Any:
        return write(project)

    def call(name: str) -> None:
        with SetWorkflowID(name):
            operation("alpha")

    DBOS.launch()
    call("check")
    call("check")
    assert len(calls) == 1
    new = [timed(lambda n=number: call(f"op-{n}")) for number in range(count)]
    replay = [timed(lambda: call("op-1")) for _ in range(count)]
    assert len(calls) == 1 + count
    DBOS.destroy()
    print(json.dumps({"new": p50(new), "replay": p50(replay)}))


def gate_trace(items: int, scopes: int) -> dict[str, Any]:
    steps, each = [], 1000
    for start in range(0, items, each):
        evidence = [
            {"id": f"e{number}", "scope": f"scope-{number % scopes}"}
            for number in range(start, start + each)
        ]
        steps.append({"tool": "search", "tokens": 1, "evidence": evidence})
    return {
        "policy": {
            "max_steps": 1000,
            "max_tokens": 1000,
            "allowed_tools": ["search"],
            "allowed_source_scopes": [f"scope-{number}" for number in range(scopes)],
        },
        "steps": steps,
        "result": {"stop_reason": "answered", "citation_ids": ["e0", f"e{items - 1}"]},
    }


def bench_gate() -> None:
    from gnomon.agent.gate import validate, validate_trace

    small, large = gate_trace(50_000, 5_000), gate_trace(100_000, 10_000)
    assert validate(large) == []
    broken = gate_trace(1000, 10)
    broken["result"]["citation_ids"] = ["nowhere"]
    assert validate(broken) == ["result cites unknown evidence: ['nowhere']"]
    half, whole = (
        min(timed(lambda t=t: validate_trace(t)) for _ in range(3)) for t in (small, large)
    )
    say("trace gate, 100k evidence items x 10k scopes", whole, "s (goal: 0.5)")
    say("the same / half of it", whole / half, "x (linear: 2)")


@contextmanager
def work_folder() -> Any:
    """On the disk that the source lies on: /tmp may be memory, where a sync costs nothing."""
    with tempfile.TemporaryDirectory(prefix=".bench-agent-", dir=HERE.parent) as folder:
        yield Path(folder)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with work_folder() as folder:
        bench_sqlite(folder, count)
        bench_fsyncs(folder)
        bench_memory(count)
        bench_processes(folder)
        bench_postgres(count)
        bench_dbos(folder, min(count, 100))
    bench_validation()
    bench_gate()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--claim-worker"]:
        claim_worker(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1:2] == ["--dbos-worker"]:
        dbos_worker(sys.argv[2], int(sys.argv[3]))
    else:
        main()
