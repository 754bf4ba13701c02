from __future__ import annotations

from canaries import no_canary_in_any_log
from ledgers import clock, ledger, postgres_server, shared_ledger, store

__all__ = ["clock", "ledger", "no_canary_in_any_log", "postgres_server", "shared_ledger", "store"]
