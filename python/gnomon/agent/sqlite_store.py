"""The ledger in one SQLite file: durable, for all processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from . import store_schema as schema
from .errors import StoreUnavailable
from .file_lock import FileLock
from .records import Claim, ClaimResult
from .sqlite_connection import Connection, make_file, roll_back
from .store_base import CommitUnknown, Rows, SqlOperationStore, StoreArguments
from .store_sql import Parameters, Row, Transaction

_OLDEST = (3, 24, 0)  # ON CONFLICT DO NOTHING
_CHECKPOINT_PAGES = 2000

# A child made by fork must neither use nor close what it inherited: closing would drop locks and
# could fold the log into the file under the parent's hands. So the child keeps it for ever.
_living: weakref.WeakSet[SqliteOperationStore] = weakref.WeakSet()
_of_parent: list[object] = []
_opening = threading.Lock()


def _after_fork() -> None:
    stores = list(_living)
    _of_parent.extend(stores)
    for store in stores:
        store.drop_lock_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class SqliteOperationStore(SqlOperationStore):
    """The embedded ledger: one file in write-ahead-log mode, and two lock files beside it.

    A claim is committed with ``synchronous=FULL``: one fsync, and no power cut can lose it. Only
    claims of tools of effect "read" are not: a power cut may let such a tool start again. The
    outcome is committed with ``NORMAL``: no fsync; a power cut may lose it, and then the operation
    needs reconciliation, which is safe. Every 2000 pages the log is copied into the file, within
    the commit of an outcome.

    Parameters
    ----------
    path : str or path-like
        The ledger file, on a local disk; made if it is not there, readable by its owner only. Its
        folder must exist.
    clock : callable, optional
        Seconds since the epoch; replaced in tests.
    timeout : float
        Seconds to wait for other writers before StoreUnavailable.
    store_arguments : {"full", "digest"}
        "digest" keeps the digest of the arguments and not the arguments.
    settle_durable : bool
        True pays a second fsync so that a power cut cannot lose an outcome either.

    Raises
    ------
    ValueError
        The file is no ledger, is a newer version's, or lies on a network file system.
    StoreUnavailable
        The file cannot be opened or written.

    Examples
    --------
    >>> import tempfile
    >>> from gnomon.agent.records import Claim, OperationRequest
    >>> path = os.path.join(tempfile.mkdtemp(), "ledger.db")
    >>> store = SqliteOperationStore(path)
    >>> request = OperationRequest("op-1", "", "", "write", "c", "a", b"{}")
    >>> store.claim(Claim(request, "me", 30.0)).won, store.claim(Claim(request, "you", 30.0)).won
    (True, False)
    >>> store.close()
    >>> with SqliteOperationStore(path) as store:
    ...     store.get("op-1").owner
    'me'
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Callable[[], float] = time.time,
        timeout: float = 30.0,
        store_arguments: StoreArguments = "full",
        settle_durable: bool = False,
    ) -> None:
        super().__init__(store_arguments)
        self._path = os.path.abspath(os.fspath(path))
        self._clock = clock
        self._timeout = timeout
        self._settle_durable = settle_durable
        self._open = False
        self._thread_lock = threading.Lock()
        self._read_lock = threading.Lock()
        if sqlite3.sqlite_version_info < _OLDEST:
            raise StoreUnavailable(f"SQLite {sqlite3.sqlite_version} is too old; 3.24 is needed")
        connections: list[Connection] = []
        with _opening:
            make_file(self._path)
            self._file_lock = self._make_lock()
        try:
            with self._explained("opened"):
                for synchronous in ("FULL", "NORMAL", "NORMAL"):
                    connections.append(Connection(self._path, synchronous, timeout))
                self._durable, self._relaxed, self._reader = connections
                status = os.stat(self._path)
                self._identity = status.st_dev, status.st_ino
                self._open = True
                self._prepare()
        except BaseException:
            self._open = False
            for connection in connections:
                connection.raw.close()
            self._file_lock.close()
            raise
        _living.add(self)

    def _make_lock(self) -> FileLock:
        try:
            return FileLock(self._path)
        except OSError as error:
            raise StoreUnavailable(f"the ledger's lock cannot be opened: {error}") from None

    def _prepare(self) -> None:
        """Check that the file is ours, set its mode, and migrate: one process at a time."""
        raw = self._durable.raw
        if not self._file_lock.acquire(self._timeout):
            raise self._busy()
        try:
            application = raw.execute("PRAGMA application_id").fetchone()[0]
            if application not in (0, schema.APPLICATION_ID) or (
                application == 0 and raw.execute("SELECT 1 FROM sqlite_master").fetchone()
            ):
                raise ValueError(
                    f"{self._path!r} is a database of another program; choose another path"
                )
            version = raw.execute("PRAGMA user_version").fetchone()[0]
            if version > len(schema.MIGRATIONS):
                raise ValueError(
                    f"{self._path!r} is a ledger of version {version}; this gnomon knows "
                    f"{len(schema.MIGRATIONS)}. Install a newer gnomon"
                )
            mode = raw.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise StoreUnavailable(
                    f"{self._path!r} cannot use a write-ahead log (mode {mode!r}); its file system "
                    "lacks shared memory maps: use another disk"
                )
        finally:
            self._file_lock.release()
        raw.execute("PRAGMA wal_autocheckpoint = 0")  # a claim never pays for copying the log
        self._relaxed.raw.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        self._reader.raw.execute("PRAGMA query_only = ON")
        self.migrate("operations", schema.MIGRATIONS)

    def _has_versions(self, rows: Rows) -> bool:
        return bool(rows("SELECT 1 FROM sqlite_master WHERE name = 'schema_version'", {}))

    def _prepare_versions(self, tx: Transaction) -> None:
        tx.change(schema.SCHEMA_TABLE, {})
        tx.change(f"PRAGMA application_id = {schema.APPLICATION_ID}", {})
        tx.change(f"PRAGMA user_version = {len(schema.MIGRATIONS)}", {})

    def _busy(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"another process has been writing to {self._path!r} for {self._timeout:g} s; nothing "
            "was changed, try again"
        )

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """SQLite's errors as ours. None of their texts holds a parameter."""
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise ValueError(f"the ledger refuses the row: {error}") from error
        except sqlite3.Error as error:
            if "not a database" in str(error):
                raise ValueError(f"{self._path!r} is not a ledger: {error}") from None
            raise StoreUnavailable(
                f"the ledger {self._path!r} could not be {what}: {error}; nothing was changed"
            ) from error

    def now(self) -> float:
        """See OperationStore.now."""
        return self._clock()

    def read(self, statement: str, parameters: Parameters) -> list[Row]:
        """Rows of one reading statement, from what is committed."""
        self._check()
        with self._read_lock:
            self._check()
            try:
                return self._reader.rows(statement, parameters)
            except sqlite3.Error as error:
                raise StoreUnavailable(
                    f"the ledger {self._path!r} is unreadable: {error}"
                ) from error

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[Connection]:
        """A writing transaction; `durable` waits for the disk."""
        self._check()
        if not self._thread_lock.acquire(timeout=self._timeout):
            raise self._busy()
        try:
            self._check()
            if not self._file_lock.acquire(self._timeout):
                raise self._busy()
            try:
                connection = self._durable if durable else self._relaxed
                yield from self._transact(connection)
            finally:
                self._file_lock.release()
        finally:
            self._thread_lock.release()

    def _transact(self, connection: Connection) -> Iterator[Connection]:
        raw = connection.raw
        with self._explained("written"):
            raw.execute("BEGIN IMMEDIATE")
            try:
                connection.now = self._clock()
                yield connection
            except BaseException:
                roll_back(raw)
                raise
            try:
                raw.execute("COMMIT")
            except sqlite3.Error as error:
                roll_back(raw)
                raise CommitUnknown(f"the ledger {self._path!r} did not commit: {error}") from error

    def claim(self, claim: Claim) -> ClaimResult:
        """See OperationStore.claim. StoreUnavailable where our file is not there alone.

        Another process that opens the path, or the file's other name, would not see this claim.
        """
        try:
            status = os.stat(self._path)
            same = (status.st_dev, status.st_ino) == self._identity and status.st_nlink == 1
        except OSError:
            same = False
        if not same:
            raise StoreUnavailable(
                f"the ledger {self._path!r} was moved, replaced or hard-linked while it was open; "
                "nothing was started: close it, keep one file with one name and open it again"
            )
        return super().claim(claim)

    def purge_results(self, settled_before: float) -> int:
        """See OperationStore.purge_results. Empties the log too, so that nothing of them stays.

        StoreUnavailable where a reader holds the log for longer than ``timeout``: the results are
        purged then, but their bytes still stand in the log.
        """
        count = super().purge_results(settled_before)
        self._check()
        with self._thread_lock, self._explained("checkpointed"):
            checkpoint = self._durable.raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if checkpoint[0]:
            raise StoreUnavailable(
                f"the results were purged, but another connection has held the log of "
                f"{self._path!r} for {self._timeout:g} s, where their bytes still stand; end its "
                "transaction and call purge_results again"
            )
        return count

    def drop_lock_in_child(self) -> None:
        """What a child made by fork does first with the store of its parent."""
        self._file_lock.drop_in_child()

    def close(self) -> None:
        """See OperationStore.close. Does nothing in a child that inherited the store by fork."""
        if os.getpid() != self._pid or not self._open:
            return
        with self._thread_lock, self._read_lock:
            self._open = False
            for connection in (self._reader, self._relaxed, self._durable):
                connection.raw.close()
            self._file_lock.close()
        _living.discard(self)

    def __enter__(self) -> SqliteOperationStore:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
