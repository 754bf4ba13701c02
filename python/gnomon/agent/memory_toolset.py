"""The memory as two tools for an agent: ``recall`` and ``remember``.

Tenant, principal and the origin of what is written are injected by the host. A model can neither
name another tenant nor vouch for a document: what it may choose are a key, a value and a kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .contract import Limits, Tool
from .memory import Memory
from .memory_policy import MemoryRefused, Recall
from .memory_sql import KINDS

_KEY = {"type": "string", "minLength": 1, "maxLength": 200}
_ANY = {
    "type": ["string", "number", "boolean", "null", "array", "object"],
    "additionalProperties": True,
}
RECALL_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"key": _KEY},
    "required": ["key"],
}
REMEMBER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"key": _KEY, "value": _ANY, "kind": {"type": "string", "enum": list(KINDS)}},
    "required": ["key", "value"],
}


def memory_tools(
    memory: Memory, *, read_risk: int = 0, write_risk: int = 1, limits: Limits | None = None
) -> dict[str, Tool]:
    """``recall`` (effect "read") and ``remember`` (effect "write", idempotent) for a runtime.

    ``remember`` needs the injected argument ``memory_origin``: a mapping with "origin" and, below
    "user", "source_id" and "revision". The host sets it to what the model has read: a task that saw
    an untrusted document writes with origin "document" from then on, however the model words it.

    A conflict is answered as such, with every value and its provenance. A refused write is
    "failed" with reason "memory_refused"; one that waits for approval is "succeeded" with
    ``memory_status`` "pending". A look-up under the operation id of an earlier one gives that one's
    answer, as for every tool: a later look needs a scope of its own.

    >>> import os, tempfile
    >>> from gnomon.agent import SqliteOperationStore, ToolRuntime
    >>> store = SqliteOperationStore(os.path.join(tempfile.mkdtemp(), "ledger.db"))
    >>> runtime = ToolRuntime(
    ...     memory_tools(Memory(store)), 1, store, tenant="acme", principal="ann",
    ...     injected={"memory_origin": {"origin": "user"}},
    ... )
    >>> wrote = runtime.dispatch("remember", {"key": "city", "value": "Paris"}, "op-1")
    >>> runtime.dispatch("recall", {"key": "city"}, "op-2")["value"]
    'Paris'
    >>> runtime.close()
    >>> store.close()
    """

    def recall(key: str, tenant: str, principal: str) -> dict[str, Any]:
        session = memory.session(tenant, principal, origin="document")
        return {"status": "succeeded", **_told(session.get(key))}

    def remember(
        key: str,
        value: Any,
        tenant: str,
        principal: str,
        memory_origin: Mapping[str, str],
        kind: str = "fact",
    ) -> dict[str, Any]:
        session = memory.session(tenant, principal, origin=memory_origin["origin"])
        source = (memory_origin.get("source_id", ""), memory_origin.get("revision", ""))
        try:
            written = session.put(key, value, kind=kind, source=source)
        except MemoryRefused as refusal:
            return {"status": "failed", "reason": "memory_refused", "message": str(refusal)}
        return {"status": "succeeded", "item_id": written.item_id, "memory_status": written.status}

    limits = limits or Limits()
    mine = {"tenant", "principal"}
    return {
        "recall": Tool(
            "recall",
            RECALL_SCHEMA,
            read_risk,
            recall,
            purpose="Look up what is remembered under a key.",
            injected=frozenset(mine),
            effect="read",
            idempotent=True,
            limits=limits,
        ),
        "remember": Tool(
            "remember",
            REMEMBER_SCHEMA,
            write_risk,
            remember,
            purpose="Remember a value under a key.",
            injected=frozenset(mine | {"memory_origin"}),
            idempotent=True,
            limits=limits,
        ),
    }


def _told(recall: Recall) -> dict[str, Any]:
    items = [
        {
            "value": item.value,
            "kind": item.kind,
            "origin": item.origin,
            "source_id": item.source_id,
            "revision": item.revision,
            "created_at": item.created_at,
        }
        for item in recall.items
    ]
    told: dict[str, Any] = {"memory": recall.status, "value": recall.value, "items": items}
    return told if recall.reason is None else {**told, "reason": recall.reason}
