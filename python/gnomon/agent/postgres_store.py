"""The ledger in PostgreSQL: for processes on several machines."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from . import store_schema as schema_text
from . import store_sql as sql
from .errors import StoreUnavailable
from .postgres_claim import CLOCK, PostgresTransaction, Texts, claim_new
from .records import Claim, ClaimResult
from .store_base import CommitUnknown, Rows, SqlOperationStore, StoreArguments
from .store_sql import Parameters, Row, Transaction

if TYPE_CHECKING:
    import psycopg

# One key for all ledgers of a server: only migrations take it, and those are short.
_MIGRATION_LOCK = 0x676E6F6D6F6E
# A vanished server must not hold a worker for ever, and only a primary may answer.
_CONNECT = {
    "connect_timeout": "10",
    "tcp_user_timeout": "30000",
    "keepalives_idle": "30",
    "target_session_attrs": "read-write",
    "application_name": "gnomon ledger",
}


def _driver() -> Any:
    try:
        import psycopg
    except ImportError:
        raise ImportError(
            "PostgresOperationStore needs psycopg 3: pip install 'gnomon[postgres]'"
        ) from None
    return psycopg


class PostgresOperationStore(SqlOperationStore):
    """The ledger for several machines: tables in one schema of a PostgreSQL database.

    A claim is committed with ``synchronous_commit`` "on" at least, whatever the session's default,
    but "off" for a tool of effect "read", which may then start again after a server crash. An
    outcome is committed with "off": a server crash may lose it, and then the operation needs
    reconciliation. With failover, the promise holds only as far as ``synchronous_standby_names``
    makes the standby wait. Times are the server's, so all machines agree on leases. Needs
    PostgreSQL 12 or newer and the extra ``gnomon[postgres]``.

    Parameters
    ----------
    conninfo : str
        What libpq takes: ``"postgresql://user@host/database"`` or ``"host=... dbname=..."``.
    schema : str
        Schema of the tables, made if it is not there.
    clock : callable, optional
        Seconds since the epoch in place of the server's clock; for tests.
    max_connections : int
        Connections that this process opens at most; more threads than that wait.
    timeout : float
        Seconds to wait for a connection or a row lock before StoreUnavailable.
    store_arguments : {"full", "digest"}
        "digest" keeps the digest of the arguments and not the arguments.
    settle_durable : bool
        True waits for the disk at each outcome as well.
    require_fsync : bool
        False accepts a server that runs with ``fsync=off``, on which a power cut can lose a claim.

    Raises
    ------
    ImportError
        psycopg 3 is not installed.
    ValueError
        A wrong argument, a server with ``fsync=off``, or tables of a newer version.
    StoreUnavailable
        The server cannot be reached, or is a standby.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        schema: str = "gnomon",
        clock: Callable[[], float] | None = None,
        max_connections: int = 8,
        timeout: float = 30.0,
        store_arguments: StoreArguments = "full",
        settle_durable: bool = False,
        require_fsync: bool = True,
    ) -> None:
        super().__init__(store_arguments)
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schema):
            raise ValueError(
                f"schema must be lower-case letters, digits and _ (63 at most), got {schema!r}"
            )
        if max_connections < 1:
            raise ValueError(f"max_connections must be at least 1, got {max_connections}")
        self._psycopg = _driver()
        self._conninfo = self._with_defaults(conninfo)
        self._schema = schema
        self._texts = Texts(sql.postgres_dialect(schema))
        self._clock = clock
        self._timeout = timeout
        self._settle_durable = settle_durable
        self._free = threading.Semaphore(max_connections)
        self._idle: list[psycopg.Connection[Row]] = []
        self._idle_lock = threading.Lock()
        self._durable_level = "on"
        try:
            self._look_at_server(require_fsync)
            self.migrate("operations", schema_text.MIGRATIONS)
        except BaseException:
            self.close()
            raise

    def _with_defaults(self, conninfo: str) -> str:
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        try:
            given = conninfo_to_dict(conninfo)
        except self._psycopg.Error as error:
            raise ValueError(f"conninfo is not understood: {error}") from None
        return make_conninfo("", **{**_CONNECT, **given})

    def _look_at_server(self, require_fsync: bool) -> None:
        with self._connection() as raw:
            shown = {
                name: raw.execute(f"SHOW {name}".encode()).fetchall()[0][0]
                for name in ("fsync", "synchronous_commit", "server_version_num")
            }
        if int(shown["server_version_num"]) < 120000:
            raise ValueError("the server is older than PostgreSQL 12, which the ledger needs")
        if require_fsync and shown["fsync"] != "on":
            raise ValueError(
                "the server runs with fsync=off, so a power cut can lose a claim and a tool could "
                "run twice; turn fsync on, or pass require_fsync=False"
            )
        if shown["synchronous_commit"] == "remote_apply":
            self._durable_level = "remote_apply"  # stronger than "on": not ours to weaken

    def _has_versions(self, rows: Rows) -> bool:
        named = {"name": f'"{self._schema}".schema_version'}
        return rows("SELECT to_regclass(:name)", named)[0][0] is not None

    def _prepare_versions(self, tx: Transaction) -> None:
        tx.rows("SELECT pg_advisory_xact_lock(:key)", {"key": _MIGRATION_LOCK})
        # Looked for first: a role may use the schema without being allowed to make one.
        wanted = {"schema": self._schema}
        if not tx.rows("SELECT 1 FROM pg_namespace WHERE nspname = :schema", wanted):
            tx.change(f'CREATE SCHEMA "{self._schema}"', {})
        if not self._has_versions(tx.rows):
            tx.change(schema_text.SCHEMA_TABLE, {})

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Row]]:
        """A connection of the pool; one that broke is not put back."""
        self._check()
        if not self._free.acquire(timeout=self._timeout):
            raise StoreUnavailable(
                f"all connections to the ledger have been busy for {self._timeout:g} s; nothing "
                "was changed, try again or raise max_connections"
            )
        raw: psycopg.Connection[Row] | None = None
        try:
            with self._explained():
                raw = self._take()
                yield raw
        finally:
            self._give_back(raw)
            self._free.release()

    def _take(self) -> psycopg.Connection[Row]:
        while True:
            with self._idle_lock:
                raw = self._idle.pop() if self._idle else None
            if raw is None:
                made: psycopg.Connection[Row]
                made = self._psycopg.connect(self._conninfo, autocommit=True)
                return made
            # The server may have gone since; it tells with the first answer, before any change.
            if not raw.closed and not self._has_ended(raw):
                return raw
            raw.close()

    @staticmethod
    def _has_ended(raw: psycopg.Connection[Row]) -> bool:
        """Whether an idle connection got an answer that nobody asked for: the server's farewell."""
        import select

        try:
            return bool(select.select([raw.fileno()], [], [], 0)[0])
        except (OSError, ValueError):
            return True

    def _give_back(self, raw: psycopg.Connection[Row] | None) -> None:
        if raw is None:
            return
        idle = self._psycopg.pq.TransactionStatus.IDLE
        with self._idle_lock:
            if self._open and not raw.closed and raw.info.transaction_status == idle:
                self._idle.append(raw)
                return
        raw.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """The driver's errors as ours, without their details, which may show values."""
        try:
            yield
        except (self._psycopg.IntegrityError, self._psycopg.DataError) as error:
            state = error.sqlstate or type(error).__name__
            raise ValueError(f"the ledger refuses the row ({state})") from None
        except self._psycopg.Error as error:
            text = error.diag.message_primary or str(error).split("\n")[0]
            raise StoreUnavailable(f"the ledger did not answer: {text}") from None

    def now(self) -> float:
        """See OperationStore.now. The server's clock: one round trip."""
        if self._clock is not None:
            return self._clock()
        with self._connection() as raw:
            return float(raw.execute(CLOCK).fetchall()[0][0])

    def read(self, statement: str, parameters: Parameters) -> list[Row]:
        """Rows of one reading statement, from what is committed; one round trip."""
        with self._connection() as raw:
            return raw.execute(self._texts(statement), parameters).fetchall()

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[PostgresTransaction]:
        """A writing transaction; `durable` waits for the disk of the server."""
        with self._connection() as raw:
            tx = PostgresTransaction(
                raw, self._begin(durable), self._texts, self._clock, self._psycopg.ClientCursor
            )
            try:
                yield tx
            except BaseException:
                with suppress(self._psycopg.Error):
                    raw.execute("ROLLBACK")
                raise
            if not tx.begun:
                return
            try:
                answer = raw.execute("COMMIT").statusmessage
            except self._psycopg.Error:
                raise CommitUnknown("the ledger did not confirm the commit") from None
            if answer != "COMMIT":  # a failed transaction is rolled back by its COMMIT
                raise StoreUnavailable(
                    f"the ledger answered {answer} to COMMIT; nothing was changed"
                )

    def _begin(self, durable: bool) -> list[str]:
        """BEGIN and the settings of one transaction; a pooler before the server keeps no others."""
        level = self._durable_level if durable else "off"
        return [
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
            f"SET LOCAL synchronous_commit TO {level}",
            f"SET LOCAL lock_timeout TO {int(self._timeout * 1000)}",
        ]

    def _claim(self, tx: Any, wish: Claim, token: str) -> ClaimResult:
        """Two round trips for a new id, its COMMIT included; see `claim_new`."""
        if wish.first:
            return claim_new(tx, wish, token)
        return super()._claim(tx, wish, token)

    def close(self) -> None:
        """See OperationStore.close. Does nothing in a child that inherited the store by fork."""
        if os.getpid() != self._pid:
            return
        self._open = False
        with self._idle_lock:
            idle, self._idle = self._idle, []
        for raw in idle:
            raw.close()

    def __enter__(self) -> PostgresOperationStore:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
