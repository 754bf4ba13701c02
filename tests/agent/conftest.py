from __future__ import annotations

from ledgers import ledger, postgres_server, shared_ledger

__all__ = ["ledger", "postgres_server", "shared_ledger"]
