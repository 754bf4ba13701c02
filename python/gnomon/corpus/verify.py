"""Checks that all indexes of a generation say the same, down to the last byte."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import _core
from .columns_io import Int64Array
from .live import Live
from .model import chunk_id, document_id, revision_of
from .segment import Segment
from .snapshot import Snapshot

_MOST = 20  # problems of one kind that are told


def verify_corpus(snapshot: Snapshot) -> list[str]:
    """The problems of a generation, [] when there is none."""
    problems: list[str] = []
    live = snapshot._live
    cids = live.cids()
    if len(np.unique(cids)) != len(cids):
        problems.append("chunks: two have the same number")
    for number, segment in enumerate(live.segments):
        _attempt(problems, lambda s=segment: s.directory.verify())  # type: ignore[misc]
        _attempt(problems, lambda s=segment: s.trigrams.verify())  # type: ignore[misc]
        _attempt(problems, lambda n=number: _check_documents(live, n))  # type: ignore[misc]
    _attempt(problems, lambda: _check_sparse(snapshot, cids))
    _attempt(problems, lambda: _check_dense(snapshot, cids))
    return problems


def _attempt(problems: list[str], check: Callable[[], list[str] | None]) -> None:
    try:
        problems += (check() or [])[:_MOST]
    except (_core.CorruptIndex, OSError) as error:
        problems.append(str(error))


def _check_sparse(snapshot: Snapshot, cids: Int64Array) -> list[str]:
    sparse = snapshot.sparse
    sparse.verify()
    return _compared("sparse", np.asarray(sparse.ids, np.int64), cids)


def _check_dense(snapshot: Snapshot, cids: Int64Array) -> list[str]:
    dense = snapshot._opened.dense
    if dense is None:
        return []
    dense.verify()
    return _compared("dense", np.array(dense.ids, np.int64), cids)


def _compared(name: str, have: Int64Array, wanted: Int64Array) -> list[str]:
    extra, missing = np.setdiff1d(have, wanted), np.setdiff1d(wanted, have)
    found = []
    if extra.size:
        found.append(f"{name}: holds {extra.size:,} chunks that the documents do not have")
    if missing.size:
        found.append(f"{name}: lacks {missing.size:,} chunks of the documents")
    return found


def _check_documents(live: Live, number: int) -> list[str]:
    segment, mask = live.segments[number], live.masks[number]
    found: list[str] = []
    for doc in np.flatnonzero(mask).tolist():
        document = segment.document(doc)
        where = f"{segment.name}: {document.source}/{document.path}"
        raw = bytes(segment.raw(doc))
        if revision_of(raw) != document.revision:
            found.append(f"{where}: the raw bytes are not those of its revision")
        its_id = document_id(document.source, document.path)
        if its_id != document.id or document.size != len(raw):
            found.append(f"{where}: its columns are those of another document")
        found += _check_chunks(segment, doc, where, len(raw))
        found += _check_graph(segment, doc, where)
    return found


def _check_chunks(segment: Segment, doc: int, where: str, size: int) -> list[str]:
    found = []
    at = 0
    seen: dict[tuple[str, str, str], int] = {}
    first, _ = segment.chunk_range(doc)
    for chunk in segment.chunks(doc):
        key = chunk.section_id, chunk.kind, chunk.text
        seen[key] = seen.get(key, -1) + 1
        if chunk.id != chunk_id(*key, seen[key]):
            found.append(f"{where}: chunk {chunk.ordinal} has another text than its id says")
        if chunk.span[0] != at or int(segment.chunk_start[first + chunk.ordinal]) != at:
            found.append(f"{where}: chunk {chunk.ordinal} does not begin where the last one ends")
        at = chunk.span[1]
    if at != size and first != segment.chunk_range(doc)[1]:
        found.append(f"{where}: its chunks end at {at:,} of {size:,} bytes")
    return found


def _check_graph(segment: Segment, doc: int, where: str) -> list[str]:
    """Evidence lies in the chunk that it names."""
    graph = segment.graph
    first, last = segment.chunk_range(doc)
    starts = segment.chunk_start[first:last].astype(np.int64)
    ends = np.append(starts[1:], segment.sizes[doc])
    places = [graph.mention(row)[1] for n in range(first, last) for row in graph.mentions_in(n)]
    for edge in segment.edges_of_doc(doc).tolist():
        places += [place for place in graph.proofs(edge) if first <= place.chunk < last]
    for place in places:
        width = int(ends[place.chunk - first] - starts[place.chunk - first])
        if place.start + place.length > width:
            return [f"{where}: evidence outside of its chunk"]
    return []
