"""Puts gnomon's classes into rank_bm25 before its tests import them."""

from __future__ import annotations

import rank_bm25
from gnomon.compat import rank_bm25 as ours

for name in ("BM25Okapi", "BM25L", "BM25Plus"):
    setattr(rank_bm25, name, getattr(ours, name))
