from __future__ import annotations

from canaries import no_canary_leaves
from ledgers import clock, ledger, postgres_server, quick_folder, shared_ledger, store

__all__ = [
    "clock",
    "ledger",
    "no_canary_leaves",
    "postgres_server",
    "quick_folder",
    "shared_ledger",
    "store",
]
