"""The writing side of a memory session: origin, policy, identity of an item, replacement."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from . import memory_sql as sql
from .jsonvalue import Bounds, Canonical, canonicalize, digest
from .memory_policy import MemoryNotFound, MemoryRefused, Written, check_name, log
from .memory_sql import KINDS, trust_of
from .store_sql import Transaction

if TYPE_CHECKING:
    from .memory import MemorySession


def write(
    session: MemorySession,
    key: str,
    value: Any,
    *,
    kind: str,
    origin: str | None,
    source: tuple[str, str] | None,
    ttl_seconds: float | None,
    replaces: str | None,
) -> Written:
    """See ``MemorySession.put``."""
    claimed = _claimed_origin(session, origin)
    stored = _prepared(session, key, value, kind, ttl_seconds)
    source_id, revision = session.source if source is None or session.source[0] else source
    if trust_of(claimed) < trust_of("user") and not (source_id and revision):
        raise ValueError(f"a write of origin {claimed!r} needs source=(source_id, revision)")
    refused = kind == "instruction" and trust_of(claimed) < trust_of("user")
    status = "live"
    if refused or session.memory.policy.waits(claimed):
        status = "refused" if refused else "pending"
    row: dict[str, object] = {
        "tenant": session.tenant,
        "name": key,
        "value_json": None if refused else stored.data,
        "value_digest": stored.digest,
        "kind": kind,
        "origin": claimed,
        "source_id": source_id,
        "revision": revision,
        "written_by": session.principal,
        "status": status,
    }
    identity = [row[name] for name in sorted(row.keys() - {"value_json", "status"})]
    row["item_id"] = "mem_" + digest(canonicalize(identity).data)[7:47]
    with session.memory.store.transaction() as tx:
        life = _life(session, ttl_seconds)
        row |= {"created_at": tx.now, "expires_at": None if life is None else tx.now + life}
        status = _write(session, tx, row, replaces)
    if status in ("refused", "denied"):
        raise MemoryRefused(
            f"a {kind} of origin {claimed!r} was {status}; only a user or the host may write it"
        )
    return Written(str(row["item_id"]), status)


def _claimed_origin(session: MemorySession, origin: str | None) -> str:
    claimed = session.origin if origin is None else origin
    if trust_of(claimed) > trust_of(session.origin):
        raise MemoryRefused(f"a session of origin {session.origin!r} cannot write as {claimed!r}")
    return claimed


def _prepared(
    session: MemorySession, key: str, value: Any, kind: str, ttl_seconds: float | None
) -> Canonical:
    check_name("key", key)
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    if ttl_seconds is not None:
        is_number = isinstance(ttl_seconds, (int, float)) and not isinstance(ttl_seconds, bool)
        if not (is_number and 0 < ttl_seconds < math.inf):
            raise ValueError(f"ttl_seconds must be a positive number, got {ttl_seconds!r}")
    policy = session.memory.policy
    bounds = Bounds(max_bytes=policy.max_value_bytes)
    value = canonicalize(value, bounds).value
    return canonicalize(value if policy.redact is None else policy.redact(value), bounds)


def _life(session: MemorySession, ttl_seconds: float | None) -> float | None:
    longest = session.memory.policy.max_ttl_seconds
    if ttl_seconds is None or longest is None:
        return longest if ttl_seconds is None else ttl_seconds
    return min(ttl_seconds, longest)


def _write(
    session: MemorySession, tx: Transaction, row: dict[str, object], replaces: str | None
) -> str:
    if replaces is not None:
        _replace(session, tx, row, replaces)
    found = tx.rows(sql.LOCK, row)
    if not found:
        room = {"tenant": session.tenant, "origin": row["origin"]}
        if tx.rows(sql.COUNT, room)[0][0] >= session.memory.policy.max_items:
            raise MemoryRefused(
                f"this tenant's room for items of origin {row['origin']!r} is used up; "
                "forget some, or raise MemoryPolicy.max_items"
            )
    if found or not tx.change(sql.INSERT, row):
        tx.change(sql.RENEW, row)
    status = str(tx.rows(sql.LOCK, row)[0][10])
    event = {"live": "written", "pending": "approval_requested"}.get(status, "refused")
    if not found or event != "refused":  # a refusal is recorded once, not once per attempt
        log(tx, str(row["item_id"]), event, session.principal)
    return status


def _replace(
    session: MemorySession, tx: Transaction, row: dict[str, object], replaces: str
) -> None:
    found = tx.rows(sql.LOCK, {"tenant": session.tenant, "item_id": replaces})
    old = sql.item_of(found[0]) if found else None
    if old is None or old.key != row["name"] or old.status != "live":
        raise MemoryNotFound
    if row["status"] != "live" or trust_of(str(row["origin"])) < old.trust:
        raise MemoryRefused(
            f"an item of origin {old.origin!r} cannot be replaced by one of origin "
            f"{row['origin']!r}; write it without `replaces` and resolve the conflict"
        )
    if replaces != row["item_id"]:
        move(session, tx, replaces, "live", "replaced", "")


def move(
    session: MemorySession, tx: Transaction, item_id: str, start: str, end: str, reason: str
) -> None:
    """Change an item's state, or raise MemoryNotFound where it is not in ``start``."""
    moved = {"item_id": item_id, "from_status": start, "status": end, "now": tx.now}
    if not tx.change(sql.MOVE, {"tenant": session.tenant, **moved}):
        raise MemoryNotFound
    log(tx, item_id, end, session.principal, reason)
