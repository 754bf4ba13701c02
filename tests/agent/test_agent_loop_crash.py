"""The loop killed with SIGKILL at every point of a dispatch and at every event of its log.

The ledger is SQLite, the log a file. `loop_crash_worker.py` does the killing in one go.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gnomon.agent.gate import validate
from gnomon.agent.reducer import replay
from loop_crash_worker import DEATHS

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL is a POSIX signal")
WORKER = Path(__file__).with_name("loop_crash_worker.py")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each death left: exit codes, outcomes and effects of three processes in a row."""
    folder = tmp_path_factory.mktemp("deaths")
    command = [sys.executable, str(WORKER), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("point", DEATHS)
def test_d9_killed_and_gone_on_with(point: str, runs: dict[str, Any]) -> None:
    found = runs[point]
    assert found["codes"] == [-signal.SIGKILL, 0, 0]
    outcome, again = found["outcomes"]
    effects = found["effects"][-1]
    assert len(set(effects)) == len(effects)  # nothing twice
    assert effects == found["effects"][1]  # and a second look starts nothing
    assert (again["status"], again["log"]) == (outcome["status"], outcome["log"])
    assert validate(outcome["trace"]) == []
    assert replay(outcome["log"]) == outcome["task"]
    if outcome["status"] == "needs_reconcile":  # the second write's outcome is open
        assert len(outcome["unsettled"]) == 1
        assert effects in (["a"], ["a", "b"])
    else:
        assert (outcome["status"], effects) == ("answered", ["a", "b", "c"])
        assert outcome["usage"]["writes"] == 3
    requested = [one["operation_id"] for one in outcome["log"] if one["type"] == "tool_requested"]
    ends = ("tool_succeeded", "tool_not_executed", "tool_needs_reconcile")
    settled = [one["operation_id"] for one in outcome["log"] if one["type"] in ends]
    assert requested == settled


def test_d9_both_ends_are_seen(runs: dict[str, Any]) -> None:
    ends = {found["outcomes"][0]["status"] for found in runs.values()}
    assert ends == {"answered", "needs_reconcile"}
