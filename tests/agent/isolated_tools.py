"""Isolated tools as a program would define them."""

from __future__ import annotations

import os
from typing import Any

from gnomon.agent import Tool, tool
from isolated_functions import act

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"folder": {"type": "string"}, "what": {"type": "string"}},
    "required": ["folder", "what"],
}


@tool(risk=1, isolation="process")
def decorated(folder: str) -> dict[str, Any]:
    """Say in which process it ran."""
    return {"status": "succeeded", "pid": os.getpid()}


def made(**more: Any) -> Tool:
    more.setdefault("injected", frozenset({"operation_id"}))
    return Tool("act", SCHEMA, 1, act, isolation="process", **more)
