"""A write that acts and then loses its answer, counted outside the process, for adapter tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gnomon.agent import Tool, ToolRuntime
from gnomon.agent.sqlite_store import SqliteOperationStore
from gnomon.agent.testing import EffectCounter

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"project": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["project"],
}


def lossy_write(log: EffectCounter) -> Any:
    """A tool function: acts, then its answer is lost."""

    def write(project: str, count: int = 1) -> dict[str, Any]:
        log.add(project)
        raise TimeoutError("response was lost")

    return write


def sound_write(log: EffectCounter) -> Any:
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
