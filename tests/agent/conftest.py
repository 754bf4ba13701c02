from __future__ import annotations

from ledgers import clock, ledger, postgres_server, shared_ledger, store

__all__ = ["clock", "ledger", "postgres_server", "shared_ledger", "store"]
