"""Dense search on a device: corpora that stay there, and one search over an index's segments."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ._dense_search import Found, Request
from ._dense_segments import State, Words
from .device import Place, as_matrix, is_on_device, like, workspace_of

# A segment never changes, so its copy on a device is good as long as the segment lives.
_corpora: WeakKeyDictionary[Any, dict[tuple[str, int], Any]] = WeakKeyDictionary()
_lock = threading.Lock()


def _corpus(core: Any, place: Place, workspace: int) -> Any:
    key = (place.module.__name__, place.number)
    with _lock:
        known = _corpora.setdefault(core, {})
        if key not in known:
            known[key] = place.module.DenseCorpus(
                core.vectors, core.metric, place.number, workspace_bytes=workspace
            )
        return known[key]


def search(
    state: State,
    queries: Any,
    request: Request,
    allowed: Sequence[Words | None],
    place: Place,
    max_workspace_bytes: int | None,
) -> list[Found]:
    """As ``_dense_search.search``; what the searches did is summed into ``request.stats``."""
    workspace = workspace_of(max_workspace_bytes, place)
    found = []
    for segment, words in zip(state.segments, allowed, strict=True):
        rows, scores, counts, did = _corpus(segment.core, place, workspace).search(
            queries,
            min(request.k, segment.core.n_rows),
            -np.inf if request.min_score is None else request.min_score,
            words,
            request.on_zero,
            workspace_bytes=workspace,
        )
        kept = np.arange(rows.shape[1]) < counts[:, None]
        found.append(Found(rows[kept], scores[kept], counts.astype(np.int64)))
        for name, value in did.items():
            if name == "workspace_bytes":
                request.stats[name] = max(request.stats.get(name, 0), value)
            elif name != "format":
                request.stats[name] = request.stats.get(name, 0) + value
    return found


def cosine_topk(
    query: Any,
    documents: Any,
    k: int,
    on_zero: str,
    place: Place,
    max_workspace_bytes: int | None,
) -> tuple[Any, Any, bool]:
    """(scores, rows) [Q, k'], and whether they are on the device, of the documents' library."""
    workspace = workspace_of(max_workspace_bytes, place)
    rows = as_matrix(documents, "documents", place)
    wanted = as_matrix(query, "query", place)
    stay = is_on_device(documents, place)
    corpus = place.module.DenseCorpus(
        rows,
        "cosine",
        place.number,
        on_zero=on_zero,
        workspace_bytes=workspace,
        name="documents",
    )
    found, scores, _, _ = corpus.search(
        wanted,
        min(k, rows.shape[0]),
        on_zero=on_zero,
        stay=stay,
        workspace_bytes=workspace,
        query_name="query",
    )
    if stay:
        return like(scores, documents), like(found, documents), True
    return scores, found, False
