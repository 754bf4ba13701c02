"""The tables of the ledger and their migrations, in the marks of `store_sql`."""

from __future__ import annotations

from collections.abc import Sequence

#: Application id of a SQLite ledger file: "GNOL".
APPLICATION_ID = 0x474E4F4C

SCHEMA_TABLE = """
CREATE TABLE IF NOT EXISTS @schema_version (
    component TEXT NOT NULL,
    version %integer NOT NULL,
    applied_at %real NOT NULL,
    PRIMARY KEY (component, version)
)
"""
SCHEMA_READ = "SELECT MAX(version) FROM @schema_version WHERE component = :component"
SCHEMA_WRITE = "INSERT INTO @schema_version VALUES (:component, :version, :applied_at)"

#: Migration n is entry n - 1. Entries are only ever added: a stored ledger has run the old ones.
MIGRATIONS: Sequence[Sequence[str]] = (
    (
        """
        CREATE TABLE @operation (
            operation_id %text_key NOT NULL PRIMARY KEY,
            tenant TEXT NOT NULL,
            principal TEXT NOT NULL,
            tool TEXT NOT NULL,
            contract_digest TEXT NOT NULL,
            args_digest TEXT NOT NULL,
            arguments_json %bytes,
            business_scope TEXT NOT NULL,
            effect TEXT NOT NULL,
            risk %integer NOT NULL,
            status TEXT NOT NULL CHECK (status IN ('awaiting_approval', 'approved', 'denied',
                'expired', 'in_flight', 'succeeded', 'failed', 'not_executed', 'needs_reconcile',
                'cancelled')),
            attempt %integer NOT NULL,
            owner TEXT NOT NULL,
            lease_until %real,
            approval_id TEXT,
            cancel_requested_at %real,
            remote_ref TEXT,
            result_json %bytes,
            result_digest TEXT NOT NULL,
            result_bytes %integer NOT NULL,
            result_truncated %integer NOT NULL,
            reason TEXT NOT NULL,
            error_class TEXT NOT NULL,
            created_at %real NOT NULL,
            updated_at %real NOT NULL,
            settled_at %real,
            claim_token TEXT NOT NULL
        )
        """,
        """
        CREATE INDEX operation_open ON @operation (status, operation_id)
            WHERE settled_at IS NULL
        """,
        """
        CREATE TABLE @operation_event (
            operation_id %text_key NOT NULL,
            seq %integer NOT NULL,
            type TEXT NOT NULL,
            at %real NOT NULL,
            actor TEXT NOT NULL,
            data TEXT NOT NULL,
            PRIMARY KEY (operation_id, seq)
        )%clustered
        """,
        """
        CREATE TABLE @approval (
            approval_id TEXT NOT NULL PRIMARY KEY,
            operation_id %text_key NOT NULL,
            tenant TEXT NOT NULL,
            request_digest TEXT NOT NULL,
            requested_by TEXT NOT NULL,
            policy_version TEXT NOT NULL,
            expires_at %real NOT NULL,
            status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired',
                'superseded', 'cancelled', 'consumed')),
            decided_by TEXT NOT NULL,
            decided_at %real,
            consumed_at %real
        )
        """,
        "CREATE INDEX approval_operation ON @approval (operation_id)",
    ),
)
