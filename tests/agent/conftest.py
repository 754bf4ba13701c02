from __future__ import annotations

from canaries import no_canary_in_any_log
from ledgers import ledger, postgres_server, shared_ledger

__all__ = ["ledger", "no_canary_in_any_log", "postgres_server", "shared_ledger"]
