"""Workflows of one step that acts, killed after the effect and recovered; prints what remained.

dbos_worker.py FOLDER

DBOS is one per process, so each launch is a process, forked from this one, which only imports: the
first dies inside the step, the second recovers the workflow by itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

from adapter_bench import runtime_of
from crash_worker import exit_status, forked
from dbos import DBOS, SetWorkflowID
from gnomon.agent.adapters.bridge import Bridge
from gnomon.agent.adapters.dbos import ledger_async_step, ledger_step
from gnomon.agent.testing import EffectCounter

#: Name -> whether DBOS is alone, and whether the workflow is asynchronous.
CASES = {
    "alone": (True, False),
    "alone, asynchronous": (True, True),
    "with the ledger": (False, False),
    "with the ledger, asynchronous": (False, True),
}


def steps_of(folder: Path, first: bool, alone: bool) -> tuple[Any, Any]:
    """The step as a plain and as an asynchronous function."""

    def write(project: str, count: int = 1) -> dict[str, Any]:
        EffectCounter(folder / "effects").add(project)
        if first:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"status": "succeeded"}

    if not alone:
        bridge = Bridge(runtime_of(folder, write), "ann", lambda *_: DBOS.workflow_id, wait=0)
        return ledger_step(bridge), ledger_async_step(bridge)

    async def asynchronous(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return write(**arguments)

    plain = DBOS.step(name="write")(lambda tool, arguments: write(**arguments))
    return plain, DBOS.step(name="async_write")(asynchronous)


def life(folder: Path, first: bool, alone: bool, asynchronous: bool) -> None:
    """One process: starts the workflow and dies, or waits for the recovered one's answer."""
    os.chdir(folder)
    database = f"sqlite:///{folder / 'dbos.db'}"
    DBOS(
        config={
            "name": "gnomon-test",
            "system_database_url": database,
            "run_admin_server": False,
            "log_level": "CRITICAL",
        }
    )
    step, async_step = steps_of(folder, first, alone)

    @DBOS.workflow(name="flow")
    def flow(project: str) -> Any:
        return step("write", {"project": project})

    @DBOS.workflow(name="async_flow")
    async def async_flow(project: str) -> Any:
        return await async_step("write", {"project": project})

    async def start() -> None:
        with SetWorkflowID("invoice-7"):
            await async_flow("alpha")

    DBOS.launch()
    if first and asynchronous:
        asyncio.run(start())
    elif first:
        with SetWorkflowID("invoice-7"):
            flow("alpha")
    else:
        answer = DBOS.retrieve_workflow("invoice-7").get_result()
        (folder / "answer").write_text(json.dumps(answer))
    DBOS.destroy()


def main(root: Path) -> None:
    found = {}
    for number, (name, how) in enumerate(CASES.items()):
        folder = root / str(number)
        folder.mkdir()
        codes = [exit_status(forked(partial(life, folder, first, *how))) for first in (True, False)]
        answer = folder / "answer"
        found[name] = {
            "codes": codes,
            "answer": json.loads(answer.read_text()) if answer.exists() else None,
            "effects": EffectCounter(folder / "effects").count,
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
