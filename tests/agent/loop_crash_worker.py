"""Runs a task of three writes, is killed at one point, and goes on with it; prints what remained.

loop_crash_worker.py FOLDER

Every run is a process of its own, forked from this one before it opens anything. The effect file is
the world outside: one synced line per effect.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from crash_worker import POINTS, forked
from gnomon.agent import SqliteOperationStore, Tool, ToolRuntime, operations
from gnomon.agent.budget import Budget
from gnomon.agent.loop import JsonlLog, run_agent
from gnomon.agent.testing import EffectCounter

#: Point -> at which of its visits the process dies: within the second write, and at every event.
DEATHS = {
    **dict.fromkeys(POINTS, 2),
    **{f"before event {n}": n for n in range(1, 15)},
}
SCHEMA = {
    "type": "object",
    "properties": {"project": {"type": "string"}},
    "required": ["project"],
}
FOLLOWING = {None: "a", "a": "b", "b": "c"}


class Death:
    """Counts visits of one point and kills the process at the right one."""

    def __init__(self, point: str, visit: int) -> None:
        self.point, self.left = point, visit

    def __call__(self, name: str) -> None:
        if name == self.point:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def policy(state: dict[str, Any]) -> dict[str, Any]:
    project = FOLLOWING.get((state.get("last_result") or {}).get("project"))
    if project is None:
        return {"kind": "answer", "text": "done", "usage": {"tokens": 1}}
    action = {"kind": "tool", "name": "write", "arguments": {"project": project}}
    return {**action, "usage": {"tokens": 1}}


def run(folder: Path, death: Death, later: float) -> None:
    """One process's part of the task, by a clock so much later; its outcome is left in a file."""

    def clock() -> float:
        return time.time() + later

    operations.crash_hook = death

    class Log(JsonlLog):
        def append(self, event: dict[str, Any], /) -> None:
            death("before")
            super().append(event)

    def write(project: str) -> dict[str, Any]:
        operations.crash_point("in_tool_before_effect")
        EffectCounter(folder / "effects").add(project)
        operations.crash_point("in_tool_after_effect")
        return {"status": "succeeded", "project": project}

    tools = {"write": Tool("write", SCHEMA, 1, write)}
    store = SqliteOperationStore(str(folder / "ledger.db"), clock=clock)
    with store, Log(folder / "log") as log:
        options: dict[str, Any] = {"heartbeat": False, "lease_seconds": 30.0}
        with ToolRuntime(tools, 1, store, principal="ann", **options) as runtime:
            more: dict[str, Any] = {"principal": "ann", "budget": Budget(writes=3)}
            outcome = run_agent(policy, runtime, {}, lambda state: False, 9, log=log, **more)
    (folder / "outcome").write_text(json.dumps(outcome))


def main() -> None:
    found = {}
    for number, (point, visit) in enumerate(DEATHS.items()):
        folder = Path(sys.argv[1]) / str(number)
        folder.mkdir()
        codes, outcomes, effects = [], [], []
        deaths = Death(point.split()[0], visit), Death("", 0), Death("", 0)
        for life, death in enumerate(deaths):
            pid = forked(partial(run, folder, death, 60.0 * life))
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            if codes[-1] == 0:
                outcomes.append(json.loads((folder / "outcome").read_text()))
            effects.append(EffectCounter(folder / "effects").names())
        found[point] = {"codes": codes, "outcomes": outcomes, "effects": effects}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
