"""Processes die with SIGKILL at every named point and at random times; nothing runs twice.

GNOMON_CRASH_RUNS is the number of runs per ledger (100 by default; 1000 for a long look).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from crash_worker import APPROVAL_POINTS, EXPECTED, POINTS
from gnomon.agent.operations import CRASH_POINTS
from ledgers import Ledger

RUNS = int(os.environ.get("GNOMON_CRASH_RUNS", "100"))
SEED = int(os.environ.get("GNOMON_CRASH_SEED", "1"))
WORKER = Path(__file__).parent / "crash_worker.py"


@pytest.fixture
def campaign(shared_ledger: Ledger, quick_folder: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(what: str, runs: int) -> dict[str, Any]:
        folder = Path(tempfile.mkdtemp(prefix="logs-", dir=quick_folder))
        command = [sys.executable, WORKER, what, str(runs), str(SEED), folder]
        done = subprocess.run(
            [*command, *shared_ledger.arguments()], capture_output=True, text=True, timeout=3600
        )
        assert done.returncode == 0, done.stderr[-4000:]
        summary: dict[str, Any] = json.loads(done.stdout)
        with capsys.disabled():
            shown = {name: value for name, value in summary.items() if name != "wrong"}
            print(f"\n{shared_ledger.kind}, {what}: {shown}")
        assert summary["double_executions"] == 0
        assert summary["lost_results"] == 0
        assert summary["stuck_in_flight"] == 0
        assert summary["wrong"] == []
        assert summary["runs"] == runs
        return summary

    return run


def test_every_point_is_visited():
    assert set(POINTS) | set(APPROVAL_POINTS) == set(CRASH_POINTS) == set(EXPECTED)


def test_d1_killed_at_each_point_with_and_without_a_rival(campaign):
    runs = max(2 * len(POINTS), RUNS * 36 // 100)
    assert campaign("points", runs)["killed"] >= runs // 2


def test_killed_at_each_point_of_an_approved_call(campaign):
    runs = max(2 * len(APPROVAL_POINTS), RUNS * 3 // 10)
    assert campaign("approvals", runs)["killed"] >= runs // 2


def test_killed_at_random_times(campaign):
    runs = RUNS * 34 // 100
    # One or two are aimed at in a run; on a fast machine some are through before they are hit.
    assert campaign("random", runs)["killed"] >= runs // 3


def test_processes_hammer_the_same_ids(campaign):
    assert campaign("hammer", 1)["outcomes"] == {"succeeded, 1 effects": 30}
