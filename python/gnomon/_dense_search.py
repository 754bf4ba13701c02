"""One search over the segments of a dense index, and their answers made one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ._dense_segments import Segment, State, Words
from .results import Hits

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]


@dataclass
class Request:
    """What a search asks for; the core checks the words."""

    k: int
    on_zero: str
    screen: str
    threads: int
    level: str
    min_score: float | None
    stats: dict[str, float] = field(default_factory=dict)


@dataclass
class Found:
    """Rows and scores of all queries, one after the other, and how many each has."""

    rows: Int64
    scores: Float64
    counts: Int64


def search(
    state: State, queries: Float32, request: Request, allowed: Sequence[Words | None]
) -> list[Found]:
    """What each segment finds; what the searches did is summed into ``request.stats``."""
    found = []
    for segment, words in zip(state.segments, allowed, strict=True):
        screen = request.screen
        if len(state.segments) > 1 and screen in ("int8", "head") and not segment.core.screen_bytes:
            screen = "auto"  # a small segment has none
        rows, scores, counts, did = segment.core.search(
            queries,
            min(request.k, segment.core.n_rows),
            request.on_zero,
            screen,
            request.threads,
            request.level,
            -np.inf if request.min_score is None else request.min_score,
            words,
        )
        found.append(Found(rows, scores, counts))
        for name, value in did.items():
            before = request.stats.get(name, 0)
            request.stats[name] = max(before, value) if name == "slack" else before + value
    return found


def merged(state: State, found: Sequence[Found], n: int, request: Request) -> list[Hits]:
    """The hits of each of n queries: higher score first, then the row that was given first."""
    if len(found) == 1 == n:
        return [Hits(state.segments[0].ids.take(found[0].rows), found[0].scores)]
    if len(found) == 1:  # in order already
        ends = np.cumsum(found[0].counts).tolist()
        parts_of_one = [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]
        take = state.segments[0].ids.take
        return [Hits(take(found[0].rows[p]), found[0].scores[p]) for p in parts_of_one]
    starts = [np.concatenate([[0], np.cumsum(one.counts)]) for one in found]
    hits = []
    for q in range(n):
        parts = [slice(start[q], start[q + 1]) for start in starts]
        scores = np.concatenate([one.scores[p] for one, p in zip(found, parts, strict=True)])
        rows = np.concatenate([one.rows[p] for one, p in zip(found, parts, strict=True)])
        sizes = [p.stop - p.start for p in parts]
        number = np.repeat(np.arange(len(found)), sizes)
        # Stable: equal scores stay in the order of segments, and of rows within one.
        order = np.argsort(-scores, kind="stable")[: request.k]
        hits.append(Hits(_ids(state.segments, number[order], rows[order]), scores[order]))
    return hits


def _ids(segments: Sequence[Segment], numbers: Int64, rows: Int64) -> Any:
    if len(segments) == 1:
        return segments[0].ids.take(rows)
    if segments[0].ids.kind == "str":
        texts: list[Any] = [""] * len(rows)
        for number, segment in enumerate(segments):
            places = np.flatnonzero(numbers == number)
            taken = segment.ids.take(rows[places])
            for place, text in zip(places.tolist(), taken, strict=True):
                texts[place] = text
        return texts
    ids = np.empty(len(rows), np.int64)
    for number, segment in enumerate(segments):
        here = numbers == number
        ids[here] = segment.ids.take(rows[here])
    return ids


def as_batch(state: State, found: Sequence[Found], n: int, request: Request) -> Hits:
    """The hits of n queries as one; without a least score each has as many."""
    if len(found) == 1:
        shape = (n, len(found[0].rows) // max(1, n))
        ids = state.segments[0].ids.take(found[0].rows.reshape(shape))
        return Hits(ids, found[0].scores.reshape(shape))
    hits = merged(state, found, n, request)
    scores = np.stack([one.scores for one in hits])
    if isinstance(hits[0].ids, list):
        return Hits([one.ids for one in hits], scores)
    return Hits(np.stack([one.ids for one in hits]), scores)


def joined(parts: Sequence[Hits]) -> Hits:
    """The hits of parts of a batch, one after the other."""
    if len(parts) == 1:
        return parts[0]
    scores = np.concatenate([one.scores for one in parts])
    if isinstance(parts[0].ids, list):
        return Hits([ids for one in parts for ids in one.ids], scores)
    return Hits(np.concatenate([one.ids for one in parts]), scores)


def parts_of(n: int, size: int) -> Iterable[slice]:
    """[0, n) in pieces of at most `size`."""
    return (slice(first, min(n, first + size)) for first in range(0, n, max(1, size)))
