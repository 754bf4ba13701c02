"""What a search of a dense index asks for, checked, and answered in parts that fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import cuda_dense
from ._dense_filters import allowed
from ._dense_search import Float32, Request, as_batch, joined, merged, parts_of, search
from ._dense_segments import State
from .arrays import as_count, as_float32, as_threads
from .device import Place, as_matrix, is_on_device, place_of
from .results import Hits

_NO_LEAST = -np.inf
_HIT_BYTES = 96  # of one wanted row of one query while a search runs, about


def answer(
    state: State,
    queries: Any,
    k: int | None,
    min_score: float | None,
    filter: Any,
    on_zero: str,
    screen: str,
    stats: dict[str, float] | None,
    memory_budget: int | None,
    device: Any,
    max_workspace_bytes: int | None,
    threads: int | None,
    level: str | None,
) -> Any:
    """Arguments and answer of :meth:`gnomon.DenseIndex.search`."""
    place = place_of(device)
    there = place is not None and is_on_device(queries, place)
    wanted = queries if there else as_float32(queries, "queries")
    shape = tuple(wanted.shape)  # what DLPack hands over may know nothing else
    if len(shape) not in (1, 2) or shape[-1] != state.dim:
        raise ValueError(
            f"queries must be [D] or [Q, D] with D = {state.dim}, got shape {list(shape)}"
        )
    best = state.rows if k is None else min(as_count(k, "k"), state.rows)
    single = len(shape) == 1
    batch, n = (wanted[None], 1) if single else (wanted, shape[0])
    workers = as_threads(threads)
    plain = place is None and min_score is None and memory_budget is None
    if plain and len(state.segments) == 1 and n:
        segment = state.segments[0]  # most searches: nothing to merge, nothing to divide
        words = segment.alive if filter is None else allowed(state, filter)[0]
        how = (on_zero, screen, workers, level or "")
        if stats is None:
            rows, scores = segment.core.best(batch, best, *how, words)
        else:
            rows, scores, _, did = segment.core.search(batch, best, *how, _NO_LEAST, words)
            stats.update(did)
            rows, scores = rows.reshape(n, -1), scores.reshape(n, -1)
        if single:
            rows, scores = rows[0], scores[0]
        return Hits(segment.ids.take(rows), scores)
    request = Request(best, on_zero, screen, workers, level or "", _score(min_score))
    part = n
    if memory_budget is not None:
        each = max(1, best * _HIT_BYTES + 12 * state.dim)
        part = max(1, as_count(memory_budget, "memory_budget") // each)
    lists = _in_parts(state, batch, n, single, part, request, filter, place, max_workspace_bytes)
    if stats is not None and n:
        stats.update(request.stats)
    if single:
        return lists[0]
    return lists if min_score is not None else joined(lists)


def _in_parts(
    state: State,
    batch: Any,
    n: int,
    single: bool,
    part: int,
    request: Request,
    filter: Any,
    place: Place | None,
    max_workspace_bytes: int | None,
) -> list[Hits]:
    """The hits of each query, or of each part of a batch without a least score."""
    bitmaps = allowed(state, filter)
    if n == 0 or place is not None:  # words that have no use are checked all the same
        search(state, np.zeros((0, state.dim), np.float32), request, bitmaps)
        request.stats.clear()
    if n == 0:
        width = min(request.k, state.count(bitmaps))
        none: Any = [] if state.kind == "str" else np.zeros((0, width), np.int64)
        return [] if request.min_score is not None else [Hits(none, np.zeros((0, width)))]
    lists: list[Hits] = []
    for piece in parts_of(n, part):
        queries: Float32 = batch[piece]
        count = piece.stop - piece.start
        if place is None:
            found = search(state, queries, request, bitmaps)
        else:
            here = as_matrix(queries, "queries", place)
            found = cuda_dense.search(state, here, request, bitmaps, place, max_workspace_bytes)
        if single or request.min_score is not None:
            lists += merged(state, found, count, request)
        else:
            lists.append(as_batch(state, found, count, request))
    return lists


def _score(min_score: float | None) -> float | None:
    if min_score is None:
        return None
    if isinstance(min_score, bool) or not isinstance(min_score, (int, float, np.number)):
        raise TypeError(f"min_score must be a number, got a {type(min_score).__name__}")
    if np.isnan(min_score):
        raise ValueError("min_score must be a number, got NaN")
    return float(min_score)
