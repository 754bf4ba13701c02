"""The SQL of the ledger: tables, migrations and statements, once for SQLite and PostgreSQL.

Statements are written in what both understand. Three marks are filled in per database:
``@name`` is a table, ``@lock`` and ``@skip`` end a SELECT whose rows are to be changed (PostgreSQL
locks them; SQLite's writer has the whole file), and ``:name`` is a parameter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .records import (
    Approval,
    ApprovalStatus,
    Operation,
    OperationEvent,
    OperationRequest,
    OperationStatus,
)

Row = tuple[Any, ...]
Parameters = Mapping[str, object]


class Transaction(Protocol):
    """An open transaction. Whoever opened it commits it, or rolls it back on any exception."""

    @property
    def now(self) -> float:
        """The store's clock, read when the transaction began."""
        ...

    def change(self, sql: str, parameters: Parameters) -> int:
        """Execute a writing statement; the number of rows it changed."""
        ...

    def rows(self, sql: str, parameters: Parameters) -> list[Row]:
        """Execute a reading statement; its rows."""
        ...


@dataclass(frozen=True)
class Dialect:
    """What differs between the two databases, as text."""

    table_prefix: str
    lock: str
    skip: str
    parameter: str
    types: Mapping[str, str]

    def render(self, sql: str) -> str:
        """The statement as this database takes it."""
        for mark, text in self.types.items():
            sql = sql.replace(mark, text)
        sql = sql.replace("@lock", self.lock).replace("@skip", self.skip)
        sql = sql.replace("@", self.table_prefix)
        return re.sub(r":([a-z_0-9]+)", self.parameter, sql)


SQLITE = Dialect(
    table_prefix="",
    lock="",
    skip="",
    parameter=r":\1",
    types={
        "%text_key": "TEXT",
        "%bytes": "BLOB",
        "%real": "REAL",
        "%integer": "INTEGER",
        "%clustered": " WITHOUT ROWID",
    },
)


def postgres_dialect(schema: str) -> Dialect:
    """The dialect of PostgreSQL with the tables in this schema, whose name is checked before."""
    return Dialect(
        table_prefix=f'"{schema}".',
        lock="FOR UPDATE",
        skip="FOR UPDATE SKIP LOCKED",
        parameter=r"%(\1)s",
        # Ids are ordered by code point on every machine, whatever the server's locale is.
        types={
            "%text_key": 'TEXT COLLATE "C"',
            "%bytes": "BYTEA",
            "%real": "DOUBLE PRECISION",
            "%integer": "BIGINT",
            "%clustered": "",
        },
    )


_REQUEST = (
    "operation_id, tenant, principal, tool, contract_digest, args_digest, arguments_json, "
    "business_scope, effect, risk"
)
_STATE = (
    "status, attempt, owner, lease_until, approval_id, cancel_requested_at, remote_ref, "
    "result_json, result_digest, result_bytes, result_truncated, reason, error_class, created_at, "
    "updated_at, settled_at"
)
_APPROVAL = (
    "approval_id, operation_id, tenant, request_digest, requested_by, policy_version, expires_at, "
    "status, decided_by, decided_at, consumed_at"
)
_REQUEST_VALUES = ", ".join(f":{name}" for name in _REQUEST.split(", "))

GET = f"SELECT {_REQUEST}, {_STATE} FROM @operation WHERE operation_id = :operation_id"
LOCK = f"{GET} @lock"
# A claim of a new id: one statement that one caller wins. Never a SELECT before it.
INSERT = f"""
INSERT INTO @operation ({_REQUEST}, {_STATE}, claim_token)
VALUES ({_REQUEST_VALUES}, :status, :attempt, :owner, :lease_until, :approval_id, NULL, NULL, NULL,
    '', 0, 0, '', '', :now, :now, :settled_at, :claim_token)
ON CONFLICT (operation_id) DO NOTHING
"""
# The same in PostgreSQL as one statement with its event and the server's clock. A second claim of
# the id waits for the first one's commit, and then inserts neither row nor event.
CLAIM_NEW = f"""
WITH new AS (
    INSERT INTO @operation ({_REQUEST}, {_STATE}, claim_token)
    SELECT {_REQUEST_VALUES}, :status, 1, :owner, at + :lease_seconds, NULL, NULL, NULL, NULL,
        '', 0, 0, '', '', at, at, NULL, :claim_token
    FROM (SELECT COALESCE(:at, CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION))
        AS at) clock
    ON CONFLICT (operation_id) DO NOTHING RETURNING operation_id, created_at, lease_until
), logged AS (
    INSERT INTO @operation_event
    SELECT operation_id, 1, 'dispatched', created_at, :owner, :data FROM new
)
SELECT created_at, lease_until FROM new
"""
CLAIM_AGAIN = """
UPDATE @operation SET status = 'in_flight', attempt = attempt + 1, owner = :owner,
    lease_until = :lease_until, remote_ref = NULL, result_json = NULL, result_digest = '',
    result_bytes = 0, result_truncated = 0, reason = '', error_class = '', updated_at = :now,
    claim_token = :claim_token
WHERE operation_id = :operation_id AND status = :from_status AND attempt = :from_attempt
    AND cancel_requested_at IS NULL
"""
CLAIM_TOKEN = "SELECT claim_token FROM @operation WHERE operation_id = :operation_id"
SETTLE = """
UPDATE @operation SET status = :status,
    lease_until = CASE WHEN :running = 1 THEN lease_until ELSE NULL END,
    result_json = :result_json, result_digest = :result_digest, result_bytes = :result_bytes,
    result_truncated = :result_truncated, reason = :reason, error_class = :error_class,
    updated_at = :now, settled_at = :settled_at
WHERE operation_id = :operation_id AND owner = :owner AND attempt = :attempt
    AND status = :from_status
    AND (:needs_end = 0 OR lease_until IS NULL OR lease_until < :now)
"""
TOOL_ENDED = """
UPDATE @operation SET lease_until = NULL, updated_at = :now
WHERE operation_id = :operation_id AND owner = :owner AND attempt = :attempt
    AND status = 'needs_reconcile' AND lease_until IS NOT NULL
"""
# Changes of state that bring no result.
MOVE = """
UPDATE @operation SET status = :status, updated_at = :now, settled_at = :settled_at,
    cancel_requested_at = COALESCE(:cancel_requested_at, cancel_requested_at)
WHERE operation_id = :operation_id AND status = :from_status
"""
# A new request for approval brings its own contract and arguments (of the same digest).
ASK_AGAIN = f"""
UPDATE @operation SET {", ".join(f"{name} = :{name}" for name in _REQUEST.split(", ")[1:])},
    status = 'awaiting_approval', approval_id = :approval_id, updated_at = :now
WHERE operation_id = :operation_id
    AND status IN ('awaiting_approval', 'approved', 'expired', 'not_executed')
"""
TOUCH = "UPDATE @operation SET updated_at = :now WHERE operation_id = :operation_id"
CANCEL_REQUEST = """
UPDATE @operation SET cancel_requested_at = :now, updated_at = :now
WHERE operation_id = :operation_id AND status IN ('in_flight', 'needs_reconcile')
    AND cancel_requested_at IS NULL
"""
REMOTE_REF = """
UPDATE @operation SET remote_ref = :remote_ref, updated_at = :now
WHERE operation_id = :operation_id AND owner = :owner AND attempt = :attempt
    AND status IN ('in_flight', 'needs_reconcile')
"""
HEARTBEAT = """
UPDATE @operation SET lease_until = :lease_until
WHERE operation_id = :operation_id AND owner = :owner
    AND status IN ('in_flight', 'needs_reconcile') AND lease_until IS NOT NULL
"""
CANCEL_REQUESTED = """
SELECT 1 FROM @operation WHERE operation_id = :operation_id AND owner = :owner
    AND cancel_requested_at IS NOT NULL
"""
EXPIRED_LEASES = f"""
SELECT {_REQUEST}, {_STATE} FROM @operation
WHERE settled_at IS NULL AND status = 'in_flight' AND lease_until < :now
ORDER BY lease_until, operation_id LIMIT :limit @skip
"""
RECOVER = """
UPDATE @operation SET status = 'needs_reconcile', reason = 'owner_lost', updated_at = :now
WHERE operation_id = :operation_id AND status = 'in_flight' AND lease_until < :now
"""
EVENT = """
INSERT INTO @operation_event VALUES (:operation_id, (SELECT COALESCE(MAX(seq), 0) + 1
    FROM @operation_event WHERE operation_id = :operation_id), :type, :at, :actor, :data)
"""
EVENTS = """
SELECT operation_id, seq, type, at, actor, data FROM @operation_event
WHERE operation_id = :operation_id ORDER BY seq
"""
APPROVAL_GET = f"SELECT {_APPROVAL} FROM @approval WHERE approval_id = :approval_id"
APPROVAL_INSERT = f"""
INSERT INTO @approval ({_APPROVAL})
VALUES (:approval_id, :operation_id, :tenant, :request_digest, :requested_by, :policy_version,
    :expires_at, 'pending', '', NULL, NULL)
"""
APPROVAL_DECIDE = """
UPDATE @approval SET status = :status, decided_by = :decided_by, decided_at = :now
WHERE approval_id = :approval_id AND status = 'pending'
"""
APPROVAL_CLOSE = """
UPDATE @approval SET status = :status
WHERE approval_id = :approval_id AND status IN ('pending', 'approved')
"""
APPROVAL_CONSUME = """
UPDATE @approval SET status = 'consumed', consumed_at = :now
WHERE approval_id = :approval_id AND status = 'approved' AND request_digest = :request_digest
    AND expires_at > :now
"""
OVERDUE = """
SELECT o.operation_id FROM @operation o JOIN @approval a ON a.approval_id = o.approval_id
WHERE o.settled_at IS NULL AND o.status IN ('awaiting_approval', 'approved')
    AND a.status IN ('pending', 'approved') AND a.expires_at <= :now
ORDER BY a.expires_at, a.approval_id LIMIT :limit
"""
PURGE_LIST = """
SELECT operation_id FROM @operation
WHERE settled_at < :before AND (arguments_json IS NOT NULL OR result_json IS NOT NULL)
ORDER BY operation_id @lock
"""
PURGE = """
UPDATE @operation SET arguments_json = NULL, result_json = NULL, updated_at = :now
WHERE operation_id = :operation_id AND settled_at < :before
"""
# Whoever locks several rows locks them in this order, so that two cannot wait for each other.
FORGET_LIST = (
    "SELECT operation_id FROM @operation WHERE settled_at < :before ORDER BY operation_id @lock"
)
FORGET = (
    """
    DELETE FROM @operation_event WHERE operation_id IN
        (SELECT operation_id FROM @operation WHERE settled_at < :before)
    """,
    """
    DELETE FROM @approval WHERE operation_id IN
        (SELECT operation_id FROM @operation WHERE settled_at < :before)
    """,
    "DELETE FROM @operation WHERE settled_at < :before",
)


def list_statement(statuses: Sequence[str] | None, tenant: bool) -> str:
    """The statement of ``list_operations``; `statuses` are values of the enum, so they are text."""
    where = ["operation_id > :after"]
    if statuses is not None:
        where.append(f"status IN ({', '.join(repr(status) for status in statuses)})")
        if not any(OperationStatus(status).terminal for status in statuses):
            where.append("settled_at IS NULL")  # lets the index of open operations answer
    if tenant:
        where.append("tenant = :tenant")
    return (
        f"SELECT {_REQUEST}, {_STATE} FROM @operation WHERE {' AND '.join(where)} "
        "ORDER BY operation_id LIMIT :limit"
    )


def operation_of(row: Row) -> Operation:
    """An Operation from the columns of GET."""
    state = list(row[10:])
    state[0] = OperationStatus(state[0])
    state[10] = bool(state[10])
    return Operation(OperationRequest(*row[:10]), *state)


def approval_of(row: Row) -> Approval:
    """An Approval from the columns of APPROVAL_GET."""
    values = list(row)
    values[7] = ApprovalStatus(values[7])
    return Approval(*values)


def event_of(row: Row) -> OperationEvent:
    """An OperationEvent from the columns of EVENTS."""
    values = list(row)
    values[5] = json.loads(values[5])
    return OperationEvent(*values)
