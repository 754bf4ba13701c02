"""Where sessions lie: one SQLite file of rows that are only ever added, or dropped as a session."""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS session(
    id TEXT PRIMARY KEY, tenant TEXT NOT NULL, created REAL NOT NULL, expires REAL NOT NULL,
    options BLOB NOT NULL, format INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS event(
    session TEXT NOT NULL, seq INTEGER NOT NULL, began REAL NOT NULL, ended REAL NOT NULL,
    generation INTEGER NOT NULL, tool TEXT NOT NULL, args BLOB NOT NULL, digest TEXT NOT NULL,
    response BLOB NOT NULL, PRIMARY KEY(session, seq)) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS event_stays BEFORE UPDATE ON event
    BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
"""


class Event(NamedTuple):
    """A call and its answer (JSON without times)."""

    seq: int
    began: float
    ended: float
    generation: int
    tool: str
    args: dict[str, Any]
    digest: str
    response: bytes


class StoredSession(NamedTuple):
    """A session's row."""

    id: str
    tenant: str
    created: float
    expires: float
    options: dict[str, Any]


class SessionStore:
    """Sessions of all tenants; safe from several threads, and from several processes."""

    def __init__(self, path: str) -> None:
        try:
            self._db = sqlite3.connect(path, timeout=30, check_same_thread=False)
            self._db.isolation_level = None
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)
        except sqlite3.OperationalError as error:
            raise OSError(
                f"sessions cannot be kept in {path!r} ({error}); pass store= another place, or "
                '":memory:"'
            ) from error
        self._lock = threading.Lock()

    def add_session(self, row: StoredSession) -> None:
        """Adds a session; its id must be new."""
        options = msgspec.json.encode(row.options, order="sorted")
        with self._lock:
            self._db.execute("INSERT INTO session VALUES(?,?,?,?,?,?)", (*row[:4], options, FORMAT))

    def session(self, id: str, tenant: str, now: float) -> StoredSession:
        """A tenant's session. Raises KeyError also for another tenant's, and one that expired."""
        with self._lock:
            row = self._db.execute(
                "SELECT id, tenant, created, expires, options, format FROM session "
                "WHERE id = ? AND tenant = ? AND expires > ?",
                (id, tenant, now),
            ).fetchone()
        if row is None:
            raise KeyError(f"there is no session {id!r}, or it has expired")
        if row[5] != FORMAT:
            raise ValueError(f"session {id!r} has format {row[5]}; this program reads {FORMAT}")
        return StoredSession(row[0], row[1], row[2], row[3], msgspec.json.decode(row[4]))

    def sessions(self, tenant: str, now: float) -> list[StoredSession]:
        """A tenant's sessions, oldest first."""
        with self._lock:
            rows = self._db.execute(
                "SELECT id, tenant, created, expires, options FROM session "
                "WHERE tenant = ? AND expires > ? ORDER BY created, id",
                (tenant, now),
            ).fetchall()
        return [
            StoredSession(row[0], row[1], row[2], row[3], msgspec.json.decode(row[4]))
            for row in rows
        ]

    def append(self, session: str, event: Event) -> None:
        """Adds a row. Raises RuntimeError when another process has added one of this number."""
        row = (
            session,
            *event[:5],
            msgspec.json.encode(event.args, order="sorted"),
            event.digest,
            zlib.compress(event.response, 1),
        )
        try:
            with self._lock:
                self._db.execute("INSERT INTO event VALUES(?,?,?,?,?,?,?,?,?)", row)
        except sqlite3.IntegrityError as error:
            raise RuntimeError(
                f"session {session!r} goes on in another process; open it again by its id"
            ) from error

    def events(self, session: str) -> Iterator[Event]:
        """The rows of a session, in order."""
        with self._lock:
            rows = self._db.execute(
                "SELECT seq, began, ended, generation, tool, args, digest, response FROM event "
                "WHERE session = ? ORDER BY seq",
                (session,),
            ).fetchall()
        for row in rows:
            args, response = msgspec.json.decode(row[5]), zlib.decompress(row[7])
            yield Event(row[0], row[1], row[2], row[3], row[4], args, row[6], response)

    def purge(self, now: float) -> int:
        """Drops the sessions that have expired, with their rows; returns how many."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.execute(
                    "DELETE FROM event WHERE session IN "
                    "(SELECT id FROM session WHERE expires <= ?)",
                    (now,),
                )
                gone = self._db.execute("DELETE FROM session WHERE expires <= ?", (now,)).rowcount
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
        return int(gone)

    def close(self) -> None:
        """Closes the file."""
        self._db.close()
