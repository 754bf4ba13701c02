"""A pytest plugin that writes what became of each test: a JSON pair of id and outcome a line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_LOG = Path(os.environ["GNOMON_PEERS_LOG"])
_worst: dict[str, str] = {}


def _id(nodeid: str) -> str:
    """Without the folders, which differ from machine to machine."""
    path, _, rest = nodeid.partition("::")
    return f"{path.rsplit('/', 1)[-1]}::{rest}"


def pytest_runtest_logreport(report: Any) -> None:
    """Setup, call and teardown: the first that does not pass decides."""
    outcome = "xfailed" if hasattr(report, "wasxfail") and report.skipped else report.outcome
    if _worst.get(report.nodeid, "passed") == "passed":
        _worst[report.nodeid] = outcome


def pytest_sessionfinish() -> None:
    """Adds this run's outcomes to the log."""
    with _LOG.open("a", encoding="utf-8") as log:
        for nodeid, outcome in _worst.items():
            log.write(json.dumps([_id(nodeid), outcome]) + "\n")
