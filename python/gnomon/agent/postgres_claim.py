"""A PostgreSQL transaction in few round trips, and the claim of a new id as one statement."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .operations import crash_point
from .records import Claim, ClaimReason, ClaimResult, Operation, OperationStatus
from .store_rules import known
from .store_sql import CLAIM_NEW, Dialect, Parameters, Row

if TYPE_CHECKING:
    import psycopg

CLOCK = "SELECT extract(epoch FROM clock_timestamp())::double precision"


class Texts:
    """Statements in PostgreSQL's spelling, made once each."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._made: dict[str, bytes] = {}

    def __call__(self, statement: str) -> bytes:
        text = self._made.get(statement)
        if text is None:
            text = self._made[statement] = self._dialect.render(statement).encode("utf-8")
        return text


class PostgresTransaction:
    """A transaction on a connection; statements in the marks of `store_sql`.

    It begins with its first statement, in the same message to the server: BEGIN, the settings, the
    server's clock and the statement take one round trip together. ``clock`` replaces that clock.
    """

    def __init__(
        self,
        raw: psycopg.Connection[Row],
        begin: Sequence[str],
        texts: Texts,
        clock: Callable[[], float] | None,
        client_cursor: Callable[..., psycopg.Cursor[Row]],
    ) -> None:
        self.raw = raw
        self.begun = False
        self.clock = clock
        self._begin = "; ".join([*begin, CLOCK, ""]).encode()
        self._before_clock = len(begin)
        self._texts = texts
        self._cursor = client_cursor
        self._now: float | None = None

    @property
    def now(self) -> float:
        """The store's clock, read when the transaction began."""
        if self._now is None:
            self._run(b"SELECT 1", {})
        assert self._now is not None
        return self._now

    def _run(self, text: bytes, parameters: Parameters) -> psycopg.Cursor[Row]:
        if self.begun:
            return self.raw.execute(text, parameters)
        # Parameters are merged into the text by the driver: only so may one message hold several
        # statements.
        self.begun = True
        cursor = self._cursor(self.raw)
        cursor.execute(self._begin + text, parameters)
        for _ in range(self._before_clock):
            cursor.nextset()
        seconds = float(cursor.fetchall()[0][0])
        self._now = seconds if self.clock is None else self.clock()
        cursor.nextset()
        return cursor

    def change(self, statement: str, parameters: Parameters) -> int:
        """See Transaction.change."""
        return self._run(self._texts(statement), parameters).rowcount

    def rows(self, statement: str, parameters: Parameters) -> list[Row]:
        """See Transaction.rows."""
        return self._run(self._texts(statement), parameters).fetchall()


def claim_new(tx: PostgresTransaction, wish: Claim, token: str) -> ClaimResult:
    """The claim of an id without a row: one statement inserts the row and its event, or nothing."""
    request, status = wish.request, OperationStatus.IN_FLIGHT
    values: dict[str, Any] = {
        **vars(request),
        "status": status.value,
        "owner": wish.owner,
        "lease_seconds": wish.lease_seconds,
        "claim_token": token,
        "at": None if tx.clock is None else tx.clock(),
        "data": json.dumps({"status": status.value, "attempt": 1}, separators=(",", ":")),
    }
    found = tx.rows(CLAIM_NEW, values)
    if not found:
        return ClaimResult(False, known(tx, request.operation_id), ClaimReason.EXISTS)
    ((at, lease_until),) = found
    new = Operation(request, status, 1, wish.owner, lease_until, created_at=at, updated_at=at)
    crash_point("in_claim_tx")
    return ClaimResult(True, new, ClaimReason.CLAIMED)
