"""BM25 on a device: a scorer's postings stay there, and batches of queries run over them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from . import _core
from .bm25_searcher import Searcher
from .device import Place, workspace_of
from .results import Float64Array, Int64Array

Words = npt.NDArray[np.uint64]

# A scorer never changes: neither its snapshot nor its formula.
_corpora: WeakKeyDictionary[Any, dict[tuple[str, int], Any]] = WeakKeyDictionary()
_lock = threading.Lock()


def _corpus(scorer: _core.Bm25Scorer, place: Place) -> Any:
    key = (place.module.__name__, place.number)
    with _lock:
        known = _corpora.setdefault(scorer, {})
        if key not in known:
            formula = _core.bm25_device_formula(scorer)
            segments = _core.bm25_device_segments(scorer)
            known[key] = place.module.Bm25Corpus(segments, formula, place.number)
        return known[key]


def _both(live: Words | None, allowed: Words | None) -> Words | None:
    if live is None or allowed is None:
        return allowed if live is None else live
    return live & allowed


def search_many(
    searcher: Searcher,
    queries: Sequence[Any],
    k: int,
    scorer: _core.Bm25Scorer,
    *,
    once: bool,
    allowed: Sequence[Any] | None,
    place: Place,
    max_workspace_bytes: int | None,
) -> tuple[Int64Array, Int64Array, Float64Array]:
    """As ``Searcher.search_many``: answer i is slots and scores [ends[i]:ends[i + 1]]."""
    parsed = [searcher.query(query) for query in queries]
    weights = [query.weights for query in parsed]
    plan = _core.bm25_device_plan(
        scorer,
        [query.tokens for query in parsed],
        weights if any(given is not None for given in weights) else None,
        once,
    )
    live = _core.bm25_device_live(scorer)
    sets = [
        _both(alive, wanted)
        for alive, wanted in zip(live, allowed or [None] * len(live), strict=True)
    ]
    ends, slots, scores, _ = _corpus(scorer, place).search(
        plan, k, sets, workspace_bytes=workspace_of(max_workspace_bytes, place)
    )
    return ends, slots, scores
