# ruff: noqa: N818  (these names say what happened; "Error" would add nothing)
"""What a memory allows, what it answers with, and how it refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from . import memory_sql as sql
from .memory_sql import MemoryItem
from .redact import Redactor
from .store_sql import Transaction

_NAME_MAX = 200


class MemoryRefused(PermissionError):
    """The memory refuses the write or decision by policy; no readable value was changed."""


class MemoryNotFound(LookupError):
    """The tenant has no such item in that state: the same words whether another tenant has one."""

    def __init__(self) -> None:
        super().__init__(
            "no such memory item; list the items of this tenant and use one of its ids"
        )


def nobody(tenant: str, principal: str) -> bool:
    """The default approver: there is none."""
    return False


@dataclass(frozen=True)
class MemoryPolicy:
    """What the host allows. Documents never write without approval, and never instructions.

    ``may_approve(tenant, principal)`` says who decides pending writes and others' conflicts.
    ``approval_origins`` are origins whose writes wait for it; "document" is always one of them.
    ``max_ttl_seconds`` bounds (and sets) the life of every item; None: items may live for ever.
    ``max_items`` bounds the rows of one tenant per origin, so that a flood of documents takes no
    room from users. ``redact`` is applied to a value before it is stored: by default a Redactor
    with its own patterns; None stores values as they are.
    """

    may_approve: Callable[[str, str], bool] = nobody
    approval_origins: frozenset[str] = frozenset()
    max_ttl_seconds: float | None = None
    max_items: int = 10_000
    max_value_bytes: int = 16_384
    redact: Callable[[Any], Any] | None = field(default_factory=lambda: Redactor().value)

    def waits(self, origin: str) -> bool:
        """Whether writes of this origin need an approval."""
        return origin == "document" or origin in self.approval_origins


@dataclass(frozen=True, slots=True)
class Recall:
    """What is remembered under one key.

    ``status`` is "absent", "found" (one value, however many vouch for it) or "conflict"; ``reason``
    is then "conflicting_evidence", a terminal reason of the trace gate. ``items`` holds every live
    item, the most trusted first; ``value`` is None unless the status is "found".
    """

    key: str
    status: str
    value: Any
    items: tuple[MemoryItem, ...]
    reason: str | None


class Written(NamedTuple):
    """Answer of ``put``: the item's id, and "live" or "pending"."""

    item_id: str
    status: str


def check_name(name: str, value: object) -> None:
    """Refuse with ValueError what is no printable string of 1 to 200 characters."""
    if not isinstance(value, str) or not 1 <= len(value) <= _NAME_MAX:
        raise ValueError(f"{name} must be a string of 1 to {_NAME_MAX} characters")
    if not value.isprintable():
        raise ValueError(f"{name} holds a character that cannot be printed")


def recall_of(key: str, items: Sequence[MemoryItem]) -> Recall:
    """The live items of one key as one answer."""
    ordered = sql.by_trust(items)
    if not ordered:
        return Recall(key, "absent", None, (), None)
    if len({item.digest for item in ordered}) > 1:
        return Recall(key, "conflict", None, ordered, "conflicting_evidence")
    return Recall(key, "found", ordered[0].value, ordered, None)


def log(tx: Transaction, item_id: str, event: str, actor: str, reason: str = "") -> None:
    """Add to the item's audit record."""
    at = {"item_id": item_id, "type": event, "at": tx.now, "actor": actor, "reason": reason}
    tx.change(sql.LOG, at)
