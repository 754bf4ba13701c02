"""A write that acts and then loses its answer, counted outside the process, for adapter tests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gnomon.agent import Tool, ToolRuntime
from gnomon.agent.sqlite_store import SqliteOperationStore

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"project": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["project"],
}


class EffectLog:
    """One line per effect, on the disk before the call goes on."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, project: str) -> None:
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(handle, f"{project}\n".encode())
        os.fsync(handle)
        os.close(handle)

    @property
    def count(self) -> int:
        return len(self.path.read_text().splitlines()) if self.path.exists() else 0


def lossy_write(log: EffectLog) -> Any:
    """A tool function: acts, then its answer is lost."""

    def write(project: str, count: int = 1) -> dict[str, Any]:
        log.add(project)
        raise TimeoutError("response was lost")

    return write


def sound_write(log: EffectLog) -> Any:
    """A tool function: acts and answers."""

    def write(project: str, count: int = 1) -> dict[str, Any]:
        log.add(project)
        return {"status": "succeeded", "project": project, "count": count}

    return write


def runtime_of(folder: Path, function: Any, **options: Any) -> ToolRuntime:
    """A runtime on a SQLite ledger with one tool, "write"."""
    tool = Tool("write", dict(SCHEMA), 1, function, purpose="Write a project.", **options)
    store = SqliteOperationStore(folder / "ledger.db")
    return ToolRuntime({"write": tool}, max_risk=1, store=store)
