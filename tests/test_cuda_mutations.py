"""Each barrier and wait of cuda/ is needed: without it an answer is wrong, and a test sees it.

The list is read from the source, so that a new barrier is on it at once. The emulator leaves out
the one at a given line; nothing is built for it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import cuda_mutants as mutants
import pytest
from emulated import Emulator

# (file, the line's text, its place among equal ones of that file) -> why its absence shows nowhere.
UNNOTICED: dict[tuple[str, str, int], str] = {}


def keyed(outcomes: list[list[str]]) -> dict[tuple[str, str, int], str]:
    seen: dict[tuple[str, str], int] = {}
    result = {}
    for file, _, text, outcome in outcomes:
        place = seen.get((file, text), 0)
        seen[file, text] = place + 1
        result[file, text, place] = outcome
    return result


def test_each_barrier_and_wait_is_needed(emulator: Emulator) -> None:
    done = subprocess.run(
        [sys.executable, str(Path(mutants.__file__))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    outcomes = keyed(json.loads(done.stdout))
    assert {file for file, _, _ in outcomes} == set(mutants.RUNS)
    assert len(outcomes) >= 25
    assert {site for site, outcome in outcomes.items() if outcome == "unreached"} == set()
    assert {site for site, outcome in outcomes.items() if outcome == "unnoticed"} == set(UNNOTICED)


@pytest.mark.parametrize("schedule", mutants.SCHEDULES)
def test_nothing_moves_with_the_schedule(device: Emulator, schedule: int) -> None:
    runs = sorted({run for group in mutants.RUNS.values() for run in group}, key=str)
    wanted = [run(device) for run in runs]
    device.schedule(schedule)
    assert [run(device) for run in runs] == wanted
