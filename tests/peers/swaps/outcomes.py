"""A pytest plugin that writes what became of each test: a JSON pair of id and outcome a line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_LOG = Path(os.environ["GNOMON_PEERS_LOG"])
_worst: dict[str, str] = {}


def _id(report: Any) -> str:
    """Without the folders, which differ from machine to machine."""
    file = Path(report.location[0]).name
    return f"{file}::{report.nodeid.partition('::')[2]}"


def pytest_runtest_logreport(report: Any) -> None:
    """Setup, call and teardown: the first that does not pass decides."""
    outcome = "xfailed" if hasattr(report, "wasxfail") and report.skipped else report.outcome
    test = _id(report)
    if _worst.get(test, "passed") == "passed":
        _worst[test] = outcome


def pytest_sessionfinish() -> None:
    """Adds this run's outcomes to the log."""
    with _LOG.open("a", encoding="utf-8") as log:
        for test, outcome in _worst.items():
            log.write(json.dumps([test, outcome]) + "\n")
