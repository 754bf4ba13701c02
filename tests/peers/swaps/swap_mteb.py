"""Puts gnomon's index into the place of mteb's faiss one before its tests import it."""

from __future__ import annotations

from gnomon.compat import mteb as ours
from mteb.models import search_encoder_index

search_encoder_index.FaissSearchIndex = ours.FaissSearchIndex
