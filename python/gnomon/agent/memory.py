"""Memory per tenant: provenance, trust, expiry; conflicts are kept, documents cannot command.

A session is bound to a tenant, a principal and the most trusted origin its writes may claim; the
host makes it, and nothing a model says can change these three. The rows lie in the same database
as the operation ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import memory_sql as sql
from .memory_policy import (
    MemoryNotFound,
    MemoryPolicy,
    MemoryRefused,
    Recall,
    Written,
    check_name,
    log,
    recall_of,
)
from .memory_sql import MemoryEvent, MemoryItem, trust_of
from .memory_write import move, write
from .store_base import SqlOperationStore


class Memory:
    """The memory of all tenants on one SQL ledger; ``session`` gives one tenant's.

    Parameters
    ----------
    store : SqlOperationStore
        A SqliteOperationStore or PostgresOperationStore: the ledger itself, or one of its own file.
        Its clock decides about expiry.
    policy : MemoryPolicy

    Examples
    --------
    >>> import os, tempfile
    >>> from gnomon.agent.sqlite_store import SqliteOperationStore
    >>> store = SqliteOperationStore(os.path.join(tempfile.mkdtemp(), "ledger.db"))
    >>> ann = Memory(store).session("acme", "ann", origin="user")
    >>> ann.put("city", "Paris").status, ann.get("city").value
    ('live', 'Paris')
    >>> ann.tainted("mail-7", "r1").put("city", "Rome").status, ann.get("city").value
    ('pending', 'Paris')
    >>> store.close()
    """

    def __init__(self, store: SqlOperationStore, policy: MemoryPolicy | None = None) -> None:
        self.store = store
        self.policy = policy or MemoryPolicy()
        for origin in self.policy.approval_origins:
            trust_of(origin)
        store.migrate("memory", sql.MIGRATIONS)

    def session(self, tenant: str, principal: str, *, origin: str) -> MemorySession:
        """One principal's view of one tenant; ``origin`` is the most that its writes may claim.

        Raises ValueError for an empty tenant or principal and for an unknown origin.
        """
        for name, value in (("tenant", tenant), ("principal", principal)):
            check_name(name, value)
        trust_of(origin)
        return MemorySession(self, tenant, principal, origin)

    def purge_expired(self) -> int:
        """Drop the values of all items, of every tenant, whose time has come; how many there were.

        Housekeeping only: an expired item is never returned, purged or not.
        """
        with self.store.transaction() as tx:
            overdue = [row[0] for row in tx.rows(sql.OVERDUE, {"now": tx.now})]
            for item_id in overdue:
                tx.change(sql.EXPIRE, {"item_id": item_id, "now": tx.now})
                log(tx, item_id, "expired", "memory")
        return len(overdue)


@dataclass(frozen=True)
class MemorySession:
    """Reads and writes of one tenant. Made by ``Memory.session``; see there."""

    memory: Memory
    tenant: str
    principal: str
    origin: str
    source: tuple[str, str] = ("", "")

    def tainted(self, source_id: str, revision: str) -> MemorySession:
        """The session after it has read an untrusted document: its writes are the document's."""
        check_name("source_id", source_id)
        check_name("revision", revision)
        return replace(self, origin="document", source=(source_id, revision))

    def put(
        self,
        key: str,
        value: Any,
        *,
        kind: str = "fact",
        origin: str | None = None,
        source: tuple[str, str] | None = None,
        ttl_seconds: float | None = None,
        replaces: str | None = None,
    ) -> Written:
        """Remember a JSON value under a key.

        ``origin`` may lower the session's, never raise it. ``source`` is (source_id, revision), and
        required below origin "user". Another value under the key is kept beside this one, and
        reading gives a conflict; ``replaces`` names a live item of the same key that is no more
        trusted than this write, and takes its place. The same content from the same writer and
        source is one item, whose expiry is set anew. A document's item is "pending" until approved.

        Raises MemoryRefused (recorded) for an instruction whose origin is below "user", for an
        origin above the session's, for a write that was denied before, for ``replaces`` of a more
        trusted item, and when the tenant's room for the origin is used up; MemoryNotFound for
        ``replaces``; ValueError for a key, kind, source, ttl or value out of bounds.
        """
        return write(
            self,
            key,
            value,
            kind=kind,
            origin=origin,
            source=source,
            ttl_seconds=ttl_seconds,
            replaces=replaces,
        )

    def get(self, key: str, *, min_trust: str = "document") -> Recall:
        """What is remembered under the key by origins of at least ``min_trust``.

        Another tenant's key, an expired item and one that waits for approval are all "absent".
        """
        at = {"tenant": self.tenant, "name": key, "now": self.memory.store.now()}
        return recall_of(key, _rows(self.memory.store.read(sql.LIVE, at), min_trust))

    def list(self, prefix: str = "", *, min_trust: str = "document") -> list[Recall]:
        """What is remembered under every key that begins with ``prefix``, by key."""
        at = {"tenant": self.tenant, "now": self.memory.store.now()}
        by_key: dict[str, list[MemoryItem]] = {}
        for item in _rows(self.memory.store.read(sql.ALL_LIVE, at), min_trust):
            if item.key.startswith(prefix):
                by_key.setdefault(item.key, []).append(item)
        return [recall_of(key, items) for key, items in by_key.items()]

    def pending(self) -> Sequence[MemoryItem]:
        """The items that wait for approval, the oldest first."""
        at = {"tenant": self.tenant, "now": self.memory.store.now()}
        return _rows(self.memory.store.read(sql.PENDING, at), "document")

    def history(self, key: str) -> Sequence[MemoryItem]:
        """Every item that was ever written under the key, the oldest first."""
        at = {"tenant": self.tenant, "name": key}
        return _rows(self.memory.store.read(sql.HISTORY, at), "document")

    def events(self, item_id: str) -> Sequence[MemoryEvent]:
        """The audit record of an item; empty for an id of no item of this tenant."""
        at = {"tenant": self.tenant, "item_id": item_id}
        return [MemoryEvent(*row) for row in self.memory.store.read(sql.EVENTS, at)]

    def resolve(self, recall: Recall, keep: str, reason: str) -> Recall:
        """Settle a conflict: ``keep`` stays, the other items that ``recall`` showed do not.

        A value that arrived since is not touched, so the answer may be a conflict again. Allowed to
        approvers, and to whoever wrote all the items that are to go.

        Raises ValueError when ``keep`` is not shown by ``recall`` or the reason is empty;
        MemoryNotFound when an item was decided, replaced or expired meanwhile; MemoryRefused.
        """
        shown = {item.item_id: item for item in recall.items}
        if keep not in shown or not reason:
            raise ValueError("keep must be the id of an item in recall.items, and reason not empty")
        kept = shown[keep].digest
        losers = sorted(name for name, item in shown.items() if item.digest != kept)
        with self.memory.store.transaction() as tx:
            at = {"tenant": self.tenant, "now": tx.now, "name": recall.key}
            live = {row[0]: sql.item_of(row) for row in tx.rows(sql.LIVE, at)}
            if keep not in live or not live.keys() >= set(losers):
                raise MemoryNotFound
            own = all(live[name].written_by == self.principal for name in losers)
            # A document's or tool's text is not its principal's word, so its removal is not asked.
            if not (own and trust_of(self.origin) >= trust_of("user")) and not self._approver():
                raise MemoryRefused("only an approver, or the writer of every item that goes")
            for name in losers:
                move(self, tx, name, "live", "resolved", reason)
        return self.get(recall.key)

    def approve(self, item_id: str) -> MemoryItem:
        """Let a pending item be read. The first decision wins.

        Raises MemoryRefused unless the policy names this principal an approver, its session is of
        origin "user" or "system", and it did not write the item; MemoryNotFound for an id that is
        not pending in this tenant.
        """
        return self._decide(item_id, "live", "approved")

    def deny(self, item_id: str) -> MemoryItem:
        """Keep a pending item from ever being read; see ``approve``."""
        return self._decide(item_id, "denied", "denied")

    def _approver(self) -> bool:
        allowed = self.memory.policy.may_approve(self.tenant, self.principal)
        return allowed is True and trust_of(self.origin) >= trust_of("user")

    def _decide(self, item_id: str, status: str, event: str) -> MemoryItem:
        if not self._approver():
            raise MemoryRefused("this principal may not decide memory writes (MemoryPolicy)")
        with self.memory.store.transaction() as tx:
            at = {"tenant": self.tenant, "item_id": item_id}
            found = tx.rows(sql.LOCK, at)
            if found and sql.item_of(found[0]).written_by == self.principal:
                raise MemoryRefused("whoever wrote an item does not decide about it")
            moved = {"from_status": "pending", "status": status, "now": tx.now}
            if not tx.change(sql.MOVE, {**at, **moved}):
                raise MemoryNotFound
            log(tx, item_id, event, self.principal)
            return sql.item_of(tx.rows(sql.LOCK, at)[0])

    def forget(self, item_id: str) -> None:
        """Erase an item's value and its digest; its provenance and audit record stay.

        Raises MemoryNotFound; MemoryRefused for an item that somebody else wrote, unless this
        principal is an approver, and for a session below origin "user".
        """
        with self.memory.store.transaction() as tx:
            at = {"tenant": self.tenant, "item_id": item_id}
            found = tx.rows(sql.LOCK, at)
            if not found:
                raise MemoryNotFound
            own = sql.item_of(found[0]).written_by == self.principal
            if not (own and trust_of(self.origin) >= trust_of("user")) and not self._approver():
                raise MemoryRefused("only an approver, or the item's writer, may forget it")
            if tx.change(sql.FORGET, at):
                log(tx, item_id, "forgotten", self.principal)


def _rows(rows: Sequence[Sequence[Any]], min_trust: str) -> list[MemoryItem]:
    least = trust_of(min_trust)
    return [item for item in map(sql.item_of, map(tuple, rows)) if item.trust >= least]
