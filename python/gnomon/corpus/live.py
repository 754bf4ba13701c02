"""Which documents of which segments a view holds, and the ways from ids to them and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .columns_io import Array, IdColumn, Int64Array
from .kept import Kept
from .model import Document
from .segment import Segment

Mask = npt.NDArray[np.bool_]
_SPOTS_MOST = 20_000  # ids of sections and chunks whose place is kept


class Spot(NamedTuple):
    """A document, section or chunk: its segment and its number there."""

    segment: int
    number: int


class Places(NamedTuple):
    """Of documents: the segment, the bytes in its raw text, and whether those are UTF-16."""

    segment: npt.NDArray[np.uint32]
    begin: npt.NDArray[np.uint64]
    end: npt.NDArray[np.uint64]
    utf16: Mask


class Live:
    """Segments with a mask each of the documents that exist; never changes."""

    def __init__(self, segments: Sequence[Segment], masks: Sequence[Mask]) -> None:
        self.segments = tuple(segments)
        self.masks = tuple(masks)
        self.n_documents = sum(int(mask.sum()) for mask in self.masks)
        self._spots: Kept[tuple[str, str], Spot] = Kept(_SPOTS_MOST)

    def narrowed(self, masks: Sequence[Mask]) -> Live:
        """The documents that `masks` hold as well."""
        both = [one & other for one, other in zip(self.masks, masks, strict=True)]
        return Live(self.segments, both)

    # From ids

    def document(self, doc_id: str) -> Spot | None:
        """The document of this id."""
        return self._documents.get(doc_id)

    @cached_property
    def _documents(self) -> dict[str, Spot]:
        """Every document by id: links ask for many that are not there."""
        found: dict[str, Spot] = {}
        for number, (segment, mask) in enumerate(zip(self.segments, self.masks, strict=True)):
            docs = np.flatnonzero(mask)
            ids = segment.docs.take(docs)
            found.update(
                (name, Spot(number, doc)) for name, doc in zip(ids, docs.tolist(), strict=True)
            )
        return found

    def section(self, section_id: str) -> Spot | None:
        """The section of this id."""
        return self._find([segment.section_ids for segment in self.segments], section_id, "section")

    def chunk(self, chunk_id: str) -> Spot | None:
        """The chunk of this id."""
        return self._find([segment.chunk_ids for segment in self.segments], chunk_id, "chunk")

    def _find(self, columns: Sequence[IdColumn], wanted: str, kind: str) -> Spot | None:
        known = self._spots.get((kind, wanted))
        if known is not None:
            return known
        for number, column in enumerate(columns):
            segment = self.segments[number]
            of = segment.doc_of_section if kind == "section" else segment.doc_of_chunk
            for row in column.find(wanted):
                if self.masks[number][of(row)]:
                    return self._spots.keep((kind, wanted), Spot(number, row))
        return None

    # Chunks by cid

    @cached_property
    def chunk_masks(self) -> list[Mask]:
        """Which chunks of each segment exist."""
        return [
            mask[segment.chunk_doc] for segment, mask in zip(self.segments, self.masks, strict=True)
        ]

    @cached_property
    def n_chunks(self) -> int:
        """How many chunks exist."""
        return sum(int(mask.sum()) for mask in self.chunk_masks)

    def of_cids(self, cids: Any) -> tuple[Int64Array, Int64Array]:
        """The segment and the chunk of each cid, -1 where there is none."""
        wanted = np.asarray(cids, np.int64)
        owner, chunk = np.full(wanted.shape, -1, np.int64), np.full(wanted.shape, -1, np.int64)
        for number, segment in enumerate(self.segments):
            found = segment.chunks_of_cids(wanted)
            here = found >= 0
            here[here] = self.masks[number][segment.chunk_doc[found[here]]]
            owner[here], chunk[here] = number, found[here]
        return owner, chunk

    def cids(self) -> Int64Array:
        """All cids, by segment and chunk."""
        parts: list[Array] = [
            segment.cids[mask]
            for segment, mask in zip(self.segments, self.chunk_masks, strict=True)
        ]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    # Documents in order

    @cached_property
    def catalogue(self) -> list[tuple[Document, Spot]]:
        """Every document, by source and path."""
        found = [
            (segment.documents[doc], Spot(number, doc))
            for number, segment in enumerate(self.segments)
            for doc in np.flatnonzero(self.masks[number]).tolist()
        ]
        return sorted(found, key=lambda pair: (pair[0].source, pair[0].path))

    @cached_property
    def places(self) -> Places:
        """Where the raw bytes of each document of the catalogue lie."""
        owners = np.array([spot.segment for _, spot in self.catalogue], np.uint32)
        numbers = np.array([spot.number for _, spot in self.catalogue], np.int64)
        begin, end = (np.zeros(len(owners), np.uint64) for _ in range(2))
        for number, segment in enumerate(self.segments):
            here = owners == number
            ends = np.concatenate([np.zeros(1, np.uint64), segment.raw_end]).astype(np.uint64)
            begin[here] = ends[numbers[here]]
            end[here] = ends[numbers[here] + 1]
        wide = [d.encoding.startswith("utf-16") for d, _ in self.catalogue]
        return Places(owners, begin, end, np.array(wide, np.bool_))

    @cached_property
    def ranks(self) -> list[Int64Array]:
        """By segment the place of each document in the catalogue, -1 for those that are not."""
        ranks = [np.full(segment.n_docs, -1, np.int64) for segment in self.segments]
        for place, (_, spot) in enumerate(self.catalogue):
            ranks[spot.segment][spot.number] = place
        return ranks
