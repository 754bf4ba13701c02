"""The dense index of the next generation: known vectors stay, new chunks are embedded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import as_float32
from ..dense_index import DenseIndex
from .columns_io import Int64Array
from .live import Live

Embedder = Callable[[list[str]], Any]  # n texts to [n, D] real numbers
Float32Array = npt.NDArray[np.float32]

_BATCH = 256  # texts


def write_vectors(
    where: Path, old: DenseIndex | None, before: Live, after: Live, embedder: Embedder | None
) -> tuple[int, int]:
    """Writes the dense index of `after` to `where`, which holds a copy of the files of `old`.

    Returns how many chunks of new documents had a vector already, and how many were embedded.
    """
    index = old if old is None else DenseIndex.load(where)
    wanted = after.cids()
    known = np.array(index.ids if index is not None else [], np.int64)
    gone = np.setdiff1d(known, wanted, assume_unique=True)
    missing = np.setdiff1d(wanted, known, assume_unique=True)
    copied, rest = _copied(old, before, after, missing)
    if rest.size and embedder is None:
        raise ValueError(
            f"the corpus has vectors and {rest.size:,} new chunks need one: pass the embedder"
        )
    blocks = [copied[1]] if copied[0].size else []
    for texts in _batches(texts_of(after, rest)):
        assert embedder is not None
        blocks.append(_embedded(embedder, texts))
    dims = {block.shape[1] for block in blocks} | ({index.dim} if index is not None else set())
    if len(dims) > 1:
        raise ValueError(
            f"embedder gave vectors of {max(dims)} and {min(dims)} dimensions; to change the "
            "embedder give the new one another embedder_name"
        )
    cids = np.concatenate([copied[0], rest])
    vectors = np.concatenate(blocks) if blocks else np.zeros((0, next(iter(dims))), np.float32)
    if index is None:
        index = DenseIndex.build(vectors, ids=cids)
    else:
        index.remove(gone.tolist())
        if cids.size:
            index.add(vectors, ids=cids)
    index.save(where)
    kept = np.isin(_of_new_documents(before, after), np.concatenate([known, copied[0]])).sum()
    return int(kept), int(rest.size)


def _of_new_documents(before: Live, after: Live) -> Int64Array:
    """The cids of documents that `before` did not have in this segment."""
    n = len(before.segments)
    parts = [
        segment.cids[mask]
        for segment, mask in zip(after.segments[n:], after.chunk_masks[n:], strict=True)
    ]
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _copied(
    old: DenseIndex | None, before: Live, after: Live, missing: Int64Array
) -> tuple[tuple[Int64Array, Float32Array], Int64Array]:
    """Vectors of chunks that have a new cid but the id of one before, and the cids of the rest."""
    if old is None:
        return (np.zeros(0, np.int64), np.zeros((0, 0), np.float32)), missing
    places = old._state.places
    found, rows, rest = [], [], []
    owners, chunks = after.of_cids(missing)
    for cid, owner, chunk in zip(missing.tolist(), owners.tolist(), chunks.tolist(), strict=True):
        spot = before.chunk(after.segments[owner].chunk_ids[chunk])
        place = None
        if spot is not None:
            place = places.get(int(before.segments[spot.segment].cids[spot.number]))
        if place is None:
            rest.append(cid)
            continue
        found.append(cid)
        rows.append(old._state.segments[place[0]].core.vectors[place[1]])
    vectors = np.stack(rows) if rows else np.zeros((0, old.dim), np.float32)
    return (np.array(found, np.int64), vectors), np.array(rest, np.int64)


def texts_of(live: Live, cids: Int64Array) -> Iterator[str]:
    """What is embedded of each chunk: the titles from the root, then its text."""
    owners, chunks = live.of_cids(cids)
    known = -1, -1
    titles = ""
    for owner, chunk in zip(owners.tolist(), chunks.tolist(), strict=True):
        segment = live.segments[owner]
        section = int(segment.chunk_section[chunk])
        if (owner, section) != known:
            known = owner, section
            titles = " > ".join(segment.section(section).path)
        text = segment.chunk(chunk).text
        yield f"{titles}\n{text}" if titles else text


def _batches(texts: Iterator[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    for text in texts:
        batch.append(text)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def unit_rows(rows: Float32Array) -> Float32Array:
    """Rows of length 1; a zero row stays one."""
    lengths: Float32Array = np.linalg.norm(rows, axis=1, keepdims=True).astype(np.float32)
    lengths[lengths == 0] = 1
    unit: Float32Array = rows / lengths
    return unit


def _embedded(embedder: Embedder, texts: list[str]) -> Float32Array:
    vectors: Float32Array = as_float32(embedder(texts), "what embedder returns")
    if vectors.ndim != 2 or len(vectors) != len(texts) or vectors.shape[1] == 0:
        raise ValueError(
            f"embedder must return a matrix [{len(texts)}, D] for {len(texts)} texts, got shape "
            f"{list(vectors.shape)}"
        )
    return vectors
