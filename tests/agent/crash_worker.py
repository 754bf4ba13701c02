"""Kills processes that use one ledger and checks what the others find; prints a JSON summary.

crash_worker.py WHAT RUNS SEED FOLDER KIND PLACE...

points: each named crash point, alone and with a rival. approvals: those of an approved call.
random: SIGKILL at random times, two rivals. hammer: nobody dies; six processes, the same ids.

Every dispatch runs in a process of its own, forked from this one before it opens any ledger. An
effect is a line in a file that is appended and synced: it survives what the ledger may lose.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gnomon.agent import ApprovalPolicy, Approver, Tool, ToolRuntime, operations
from gnomon.agent.records import OperationStatus
from gnomon.agent.testing import EffectCounter, kill_points

POINTS = (
    *("before_claim", "in_claim_tx", "after_claim", "before_call", "in_tool_before_effect"),
    *("in_tool_after_effect", "after_return", "in_settle_tx", "after_settle"),
)
APPROVAL_POINTS = (
    *("before_approval_request", "in_approval_tx", "after_approval_request", "before_decision"),
    *("in_decision_tx", "after_decision", *POINTS),
)
ASKING = APPROVAL_POINTS[:6]
#: (final state, effects) after a death at the point, where nobody else dispatched meanwhile.
EXPECTED = {
    **dict.fromkeys((*ASKING, "before_claim", "in_claim_tx"), ("succeeded", 1)),
    **dict.fromkeys(
        ("after_claim", "before_call", "in_tool_before_effect"), ("needs_reconcile", 0)
    ),
    **dict.fromkeys(
        ("in_tool_after_effect", "after_return", "in_settle_tx"), ("needs_reconcile", 1)
    ),
    "after_settle": ("succeeded", 1),
}
SCHEMA = {
    "type": "object",
    "properties": {"project": {"type": "string"}},
    "required": ["project"],
}
RULES = ApprovalPolicy(approvers=(Approver("boss", max_risk=9),))


@dataclass
class Place:
    """Where the ledger is, and the logs of one run."""

    kind: str
    place: list[str]
    folder: Path
    run: int
    risk: int = 1
    pause: float = 0.0  # seconds that the tool works after its effect

    @property
    def effects(self) -> EffectCounter:
        return EffectCounter(self.folder / f"effects-{self.run}")

    @property
    def answers(self) -> EffectCounter:
        """The terminal answers that a caller got, in a file of the same kind."""
        return EffectCounter(self.folder / f"answers-{self.run}")

    def open_store(self, skew: float = 0.0) -> Any:
        """A ledger; with a skew, one whose clock says that all leases are over."""
        options = {"clock": lambda: time.time() + skew} if skew else {}
        if self.kind == "sqlite":
            from gnomon.agent.sqlite_store import SqliteOperationStore

            return SqliteOperationStore(self.place[0], **options)
        from gnomon.agent.postgres_store import PostgresOperationStore

        conninfo, schema = self.place
        return PostgresOperationStore(conninfo, schema=schema, max_connections=2, **options)

    def runtime(self, store: Any) -> ToolRuntime:
        def write(project: str) -> dict[str, Any]:
            operations.crash_point("in_tool_before_effect")
            self.effects.add(project)
            time.sleep(self.pause)
            operations.crash_point("in_tool_after_effect")
            return {"status": "succeeded", "project": project, "by": os.getpid()}

        tool = Tool("write", SCHEMA, self.risk, write, approval=True)
        return ToolRuntime({"write": tool}, 1, store, principal="ann", approvals=RULES)

    def dispatch(self, runtime: ToolRuntime, operation_id: str) -> dict[str, Any]:
        """Dispatch, approve where that is asked for, and log a terminal answer."""
        answer = runtime.dispatch("write", {"project": operation_id}, operation_id)
        if answer["status"] == "awaiting_approval":
            runtime.approvals.approve(answer["approval_id"], "boss")
            answer = runtime.dispatch("write", {"project": operation_id}, operation_id)
        if answer["status"] in ("succeeded", "failed"):
            self.answers.add(json.dumps([operation_id, answer]))
        return answer


def forked(body: Callable[[], None]) -> int:
    """Start body in a process of its own; it exits with 0 only when body returned."""
    pid = os.fork()
    if pid == 0:
        try:
            body()
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    return pid


def exit_status(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@dataclass
class Summary:
    """What all runs of a campaign came to."""

    runs: int = 0
    killed: int = 0
    double_executions: int = 0
    lost_results: int = 0
    stuck_in_flight: int = 0
    wrong: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)

    def check(self, place: Place, found: dict[str, list[dict[str, Any]]]) -> None:
        """`found`: for each id, the two answers of the process that came after the recovery."""
        effects = Counter(place.effects.names())
        seen: dict[str, Any] = {}
        for operation_id, answer in map(json.loads, place.answers.names()):
            if seen.setdefault(operation_id, answer) != answer:
                self.lost_results += 1
        for operation_id, (first, again) in found.items():
            count, status = effects[operation_id], again["status"]
            self.double_executions += count > 1
            if operation_id in seen and again != seen[operation_id]:
                self.lost_results += 1
            if again.get("reason") == "in_flight" or first["status"] == "in_flight":
                self.stuck_in_flight += 1
            if status not in ("succeeded", "needs_reconcile"):
                self.wrong.append(f"{operation_id} ended {status}")
            if first["status"] != status or (status == "succeeded" and count != 1):
                self.wrong.append(f"{operation_id}: {first} then {again}, {count} effects")
            self.outcomes[f"{status}, {count} effects"] += 1


def look_after(place: Place, operation_ids: list[str]) -> dict[str, list[dict[str, Any]]]:
    """In a new process: recover with a clock that ended all leases, then dispatch each id twice."""
    report = place.folder / f"report-{place.run}"

    def body() -> None:
        with place.open_store(skew=100_000.0) as store, place.runtime(store) as runtime:
            found = {
                name: [place.dispatch(runtime, name), place.dispatch(runtime, name)]
                for name in operation_ids
            }
            stuck = store.list_operations(statuses=[OperationStatus.IN_FLIGHT])
            assert stuck == [], stuck
        report.write_text(json.dumps(found))

    assert exit_status(forked(body)) == 0, "the process after the recovery failed"
    found: dict[str, list[dict[str, Any]]] = json.loads(report.read_text())
    report.unlink()
    return found


def victim(place: Place, operation_ids: list[str], point: str) -> int:
    def body() -> None:
        points = (point,) if point else ()
        with place.open_store() as store, place.runtime(store) as runtime, kill_points(*points):
            for name in operation_ids:
                place.dispatch(runtime, name)

    return forked(body)


def rival(place: Place, operation_ids: list[str]) -> int:
    """A second live process: recovers and dispatches the same ids until it is told to stop."""
    stop = place.folder / f"stop-{place.run}"

    def body() -> None:
        with place.open_store() as store, place.runtime(store) as runtime:
            while True:
                last = stop.exists()
                runtime.recover()
                for name in operation_ids:
                    with suppress(PermissionError):  # the other decided the approval first
                        place.dispatch(runtime, name)
                if last:
                    return
                time.sleep(0.01)

    return forked(body)


def stop(place: Place, pid: int) -> None:
    (place.folder / f"stop-{place.run}").touch()
    assert exit_status(pid) == 0, "the rival failed"


def run_points(place: Place, summary: Summary, rng: random.Random, points: tuple[str, ...]) -> None:
    point = points[(place.run // 2) % len(points)]
    name = f"op-{place.run}-{rng.randrange(10**6)}"
    other = rival(place, [name]) if place.run % 2 else None
    try:
        status = exit_status(victim(place, [name], point))
    except BaseException:
        if other is not None:
            os.kill(other, signal.SIGKILL)
        raise
    summary.killed += status == -signal.SIGKILL
    if other is not None:
        stop(place, other)
    found = look_after(place, [name])
    summary.check(place, found)
    if other is None:
        if status != -signal.SIGKILL:
            summary.wrong.append(f"{point} was not reached (exit {status})")
        result = (found[name][1]["status"], place.effects.names().count(name))
        if result != EXPECTED[point]:
            summary.wrong.append(f"{point}: {result}, not {EXPECTED[point]}")


def run_random(place: Place, summary: Summary, rng: random.Random) -> None:
    """Kills fall between the first effect and about the last one."""
    names = [f"op-{place.run}-{number}" for number in range(15)]  # some 20 ms of work
    place.pause = rng.choice([0.0, 0.001, 0.003])
    victims = [victim(place, names, ""), victim(place, names[::-1], "")]
    deadline = time.monotonic() + 30
    while not place.effects.path.exists() and time.monotonic() < deadline:
        time.sleep(0.0005)
    for pid in rng.sample(victims, rng.choice([1, 2])):
        time.sleep(rng.uniform(0.0, 0.02))
        os.kill(pid, signal.SIGKILL)
    for pid in victims:
        status = exit_status(pid)
        summary.killed += status == -signal.SIGKILL
        if status not in (0, -signal.SIGKILL):
            summary.wrong.append(f"run {place.run}: a victim failed by itself")
    summary.check(place, look_after(place, names))


def run_hammer(place: Place, summary: Summary, rng: random.Random) -> None:
    names = [f"op-{place.run}-{number}" for number in range(30)]
    gate = place.folder / f"gate-{place.run}"

    def body(order: list[str]) -> None:
        with place.open_store() as store, place.runtime(store) as runtime:
            while not gate.exists():
                time.sleep(0.001)
            for name in order:
                place.dispatch(runtime, name)

    pids = []
    for _ in range(6):
        order = names if rng.random() < 0.5 else rng.sample(names, len(names))
        pids.append(forked(lambda order=order: body(order)))  # type: ignore[misc]
    time.sleep(0.1)
    gate.touch()
    if any(exit_status(pid) != 0 for pid in pids):
        summary.wrong.append("a process failed by itself")
    found = look_after(place, names)
    summary.check(place, found)
    for name, (_, again) in found.items():
        if again["status"] != "succeeded":
            summary.wrong.append(f"{name} ended {again} although nobody died")


def warm_up(kind: str, folder: Path) -> None:
    """Load once, before any fork, what every process would load again."""
    if kind == "postgres":
        import psycopg  # noqa: F401
    place = Place("sqlite", [str(folder / "warm.db")], folder, -1)
    with place.open_store() as store, place.runtime(store) as runtime:
        place.dispatch(runtime, "warm")
    place.effects.path.unlink()
    place.answers.path.unlink()


def campaign(what: str, runs: int, seed: int, folder: Path, ledger: list[str]) -> Summary:
    summary, rng = Summary(), random.Random(seed)
    warm_up(ledger[0], folder)
    for run in range(runs):
        place = Place(ledger[0], ledger[1:], folder, run, 5 if what == "approvals" else 1)
        if what == "points":
            run_points(place, summary, rng, POINTS)
        elif what == "approvals":
            run_points(place, summary, rng, APPROVAL_POINTS)
        elif what == "random":
            run_random(place, summary, rng)
        else:
            run_hammer(place, summary, rng)
        summary.runs += 1
        for path in folder.glob(f"*-{run}"):
            path.unlink()
    return summary


if __name__ == "__main__":
    what, runs, seed, folder, *ledger = sys.argv[1:]
    result = campaign(what, int(runs), int(seed), Path(folder), ledger)
    print(json.dumps({**vars(result), "outcomes": dict(sorted(result.outcomes.items()))}))
