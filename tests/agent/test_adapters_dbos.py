"""DBOS: a step whose process is killed after the effect, with the ledger and without."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from gnomon.agent.testing import EffectCounter

pytest.importorskip("dbos", reason="the extra 'adapters' is not installed: dbos")

# DBOS is one per process, so each launch is a process: the first dies inside the step, the second
# recovers the workflow by itself.
PROGRAM = """
import asyncio, json, os, signal, sys
sys.path.insert(0, {path!r})
from pathlib import Path
from gnomon.agent.testing import EffectCounter
from adapter_bench import lossy_write, runtime_of
from dbos import DBOS, SetWorkflowID
from gnomon.agent.adapters.bridge import Bridge
from gnomon.agent.adapters.dbos import ledger_async_step, ledger_step

folder, first = Path({folder!r}), {first}
log = EffectCounter(folder / "effects")
DBOS(config={{
    "name": "gnomon-test",
    "system_database_url": "sqlite:///" + str(folder / "dbos.db"),
    "run_admin_server": False,
    "log_level": "CRITICAL",
}})

def write(project: str, count: int = 1) -> dict:
    log.add(project)
    if first:
        os.kill(os.getpid(), signal.SIGKILL)
    return {{"status": "succeeded"}}

if {alone}:
    step = DBOS.step(name="write")(lambda tool, arguments: write(**arguments))

    @DBOS.step(name="async_write")
    async def async_step(tool, arguments):
        return write(**arguments)
else:
    bridge = Bridge(runtime_of(folder, write), "ann", lambda *_: DBOS.workflow_id, wait=0)
    step, async_step = ledger_step(bridge), ledger_async_step(bridge)

@DBOS.workflow(name="flow")
def flow(project: str) -> dict:
    return step("write", {{"project": project}})

@DBOS.workflow(name="async_flow")
async def async_flow(project: str) -> dict:
    return await async_step("write", {{"project": project}})

async def start() -> None:
    with SetWorkflowID("invoice-7"):
        await async_flow("alpha")

DBOS.launch()
if first and {asynchronous}:
    asyncio.run(start())
elif first:
    with SetWorkflowID("invoice-7"):
        flow("alpha")
else:
    print(json.dumps(DBOS.retrieve_workflow("invoice-7").get_result()))
DBOS.destroy()
"""


def launch(
    folder: Path, *, first: bool, alone: bool, asynchronous: bool
) -> subprocess.CompletedProcess[str]:
    names = {"path": str(Path(__file__).parent), "folder": str(folder)}
    program = PROGRAM.format(first=first, alone=alone, asynchronous=asynchronous, **names)
    command = [sys.executable, "-W", "ignore", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(("alone", "effects"), [(True, 2), (False, 1)])
def test_d1_killed_after_the_effect_and_recovered(
    tmp_path: Path, alone: bool, effects: int, asynchronous: bool
) -> None:
    how = {"alone": alone, "asynchronous": asynchronous}
    first = launch(tmp_path, first=True, **how)
    assert first.returncode == -signal.SIGKILL, first.stderr
    second = launch(tmp_path, first=False, **how)
    assert second.returncode == 0, second.stderr
    answer = json.loads(second.stdout.splitlines()[-1])
    assert answer["status"] == ("succeeded" if alone else "needs_reconcile")
    assert EffectCounter(tmp_path / "effects").count == effects
