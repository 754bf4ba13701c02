"""DBOS: a step whose process is killed after the effect, with the ledger and without."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dbos", reason="the extra 'adapters' is not installed: dbos")

from dbos_worker import CASES

WORKER = Path(__file__).with_name("dbos_worker.py")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each case left: exit codes of its two processes, the answer, the effects."""
    command = [sys.executable, "-W", "ignore", WORKER, tmp_path_factory.mktemp("dbos")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


@pytest.mark.parametrize("case", CASES)
def test_d1_killed_after_the_effect_and_recovered(case: str, found: dict[str, Any]) -> None:
    alone, _ = CASES[case]
    assert found[case]["codes"] == [-signal.SIGKILL, 0]
    assert found[case]["answer"]["status"] == ("succeeded" if alone else "needs_reconcile")
    assert found[case]["effects"] == (2 if alone else 1)
