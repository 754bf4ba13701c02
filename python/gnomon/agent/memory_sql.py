"""Tables, statements and rows of the memory, in the marks of ``store_sql``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .jsontext import loads_canonical
from .store_sql import Row

#: Who vouches for what is written, the most trusted first. The text of a document vouches for
#: nothing, whatever it says about itself.
ORIGINS = ("system", "user", "tool", "document")
KINDS = ("fact", "preference", "instruction")

MIGRATIONS: Sequence[Sequence[str]] = (
    (
        """
        CREATE TABLE @memory_item (
            item_id %text_key NOT NULL PRIMARY KEY,
            tenant TEXT NOT NULL,
            name %text_key NOT NULL,
            value_json %bytes,
            value_digest TEXT NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('fact', 'preference', 'instruction')),
            origin TEXT NOT NULL CHECK (origin IN ('system', 'user', 'tool', 'document')),
            source_id TEXT NOT NULL,
            revision TEXT NOT NULL,
            written_by TEXT NOT NULL,
            status TEXT NOT NULL CHECK (status IN ('live', 'pending', 'denied', 'refused',
                'replaced', 'resolved', 'forgotten', 'expired')),
            created_at %real NOT NULL,
            expires_at %real
        )
        """,
        "CREATE INDEX memory_by_name ON @memory_item (tenant, name)",
        """
        CREATE TABLE @memory_event (
            item_id %text_key NOT NULL,
            seq %integer NOT NULL,
            type TEXT NOT NULL,
            at %real NOT NULL,
            actor TEXT NOT NULL,
            reason TEXT NOT NULL,
            PRIMARY KEY (item_id, seq)
        )%clustered
        """,
    ),
)

_COLUMNS = (
    "item_id, tenant, name, value_json, value_digest, kind, origin, source_id, revision, "
    "written_by, status, created_at, expires_at"
)
INSERT = f"""
INSERT INTO @memory_item ({_COLUMNS}) VALUES (:item_id, :tenant, :name, :value_json, :value_digest,
    :kind, :origin, :source_id, :revision, :written_by, :status, :created_at, :expires_at)
ON CONFLICT (item_id) DO NOTHING
"""
# A write of the same content again: what had ended begins anew, what is open keeps its state. A
# denied or refused item stays so: asking again is not an argument.
RENEW = """
UPDATE @memory_item SET value_json = :value_json, value_digest = :value_digest,
    expires_at = :expires_at, created_at = :created_at,
    status = CASE WHEN status IN ('live', 'pending')
        AND (expires_at IS NULL OR expires_at > :created_at) THEN status ELSE :status END
WHERE item_id = :item_id AND tenant = :tenant AND status NOT IN ('denied', 'refused')
"""
LOCK = f"SELECT {_COLUMNS} FROM @memory_item WHERE item_id = :item_id AND tenant = :tenant @lock"
# The tenant stands in every statement; there is no read or write of an item without it.
LIVE = f"""
SELECT {_COLUMNS} FROM @memory_item WHERE tenant = :tenant AND name = :name AND status = 'live'
    AND (expires_at IS NULL OR expires_at > :now)
"""
ALL_LIVE = f"""
SELECT {_COLUMNS} FROM @memory_item WHERE tenant = :tenant AND status = 'live'
    AND (expires_at IS NULL OR expires_at > :now) ORDER BY name, item_id
"""
PENDING = f"""
SELECT {_COLUMNS} FROM @memory_item WHERE tenant = :tenant AND status = 'pending'
    AND (expires_at IS NULL OR expires_at > :now) ORDER BY created_at, item_id
"""
HISTORY = f"""
SELECT {_COLUMNS} FROM @memory_item WHERE tenant = :tenant AND name = :name
    ORDER BY created_at, item_id
"""
COUNT = "SELECT COUNT(*) FROM @memory_item WHERE tenant = :tenant AND origin = :origin"
MOVE = """
UPDATE @memory_item SET status = :status
WHERE item_id = :item_id AND tenant = :tenant AND status = :from_status
    AND (expires_at IS NULL OR expires_at > :now)
"""
FORGET = """
UPDATE @memory_item SET status = 'forgotten', value_json = NULL, value_digest = ''
WHERE item_id = :item_id AND tenant = :tenant AND status <> 'forgotten'
"""
OVERDUE = """
SELECT item_id FROM @memory_item WHERE status IN ('live', 'pending')
    AND expires_at IS NOT NULL AND expires_at <= :now ORDER BY item_id @skip
"""
EXPIRE = """
UPDATE @memory_item SET status = 'expired', value_json = NULL
WHERE item_id = :item_id AND expires_at <= :now AND status IN ('live', 'pending')
"""
LOG = """
INSERT INTO @memory_event (item_id, seq, type, at, actor, reason)
SELECT :item_id, COALESCE(MAX(seq), 0) + 1, :type, :at, :actor, :reason
FROM @memory_event WHERE item_id = :item_id
"""
EVENTS = """
SELECT e.seq, e.type, e.at, e.actor, e.reason FROM @memory_event e
JOIN @memory_item i ON i.item_id = e.item_id
WHERE e.item_id = :item_id AND i.tenant = :tenant ORDER BY e.seq
"""


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """One remembered value with its provenance. ``value`` is None once it was forgotten or purged.

    ``status``: "live"; "pending" (waits for approval); "denied"; "refused"; "replaced" (by its own
    writer); "resolved" (lost a conflict); "forgotten"; "expired". A live item whose ``expires_at``
    has come is not returned by any reading call, purged or not. ``created_at`` and ``expires_at``
    are seconds since the epoch.
    """

    item_id: str
    key: str
    value: Any
    kind: str
    origin: str
    source_id: str
    revision: str
    written_by: str
    status: str
    created_at: float
    expires_at: float | None
    digest: str

    @property
    def trust(self) -> int:
        """3 for "system", 2 "user", 1 "tool", 0 "document"."""
        return trust_of(self.origin)


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """One entry of an item's audit record."""

    seq: int
    type: str
    at: float
    actor: str
    reason: str


def trust_of(origin: str) -> int:
    """The rank of an origin, 0 for the least trusted.

    Raises ValueError for a word that is no origin.
    """
    if origin not in ORIGINS:
        raise ValueError(f"origin must be one of {', '.join(ORIGINS)}, got {origin!r}")
    return len(ORIGINS) - 1 - ORIGINS.index(origin)


def item_of(row: Row) -> MemoryItem:
    """The item that a row of the item table holds; its tenant is the one that was asked for."""
    (item_id, _, name, value, digest, kind, origin, source, revision, writer, status, at, until) = (
        row
    )
    return MemoryItem(
        item_id=item_id,
        key=name,
        value=None if value is None else loads_canonical(bytes(value)),
        kind=kind,
        origin=origin,
        source_id=source,
        revision=revision,
        written_by=writer,
        status=status,
        created_at=at,
        expires_at=until,
        digest=digest,
    )


def by_trust(items: Sequence[MemoryItem]) -> tuple[MemoryItem, ...]:
    """The items, most trusted first, then newest, then by id."""
    return tuple(sorted(items, key=lambda item: (-item.trust, -item.created_at, item.item_id)))
