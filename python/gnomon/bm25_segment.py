"""What a search sees: segments, their deletions, and the ids and texts of their documents."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from .bm25_ids import Mask, SegmentIds
from .bm25_texts import Texts
from .columns import ColumnBlock
from .results import Float64Array, Int64Array

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Segment:
    """Documents that were added together, deleted ones included; never changes.

    `dead` has bit d % 64 of word d / 64 set for each deleted document d. `number` names its files;
    None for a segment that is in no file yet.
    """

    core: _core.Bm25Index
    ids: SegmentIds
    texts: Texts | None = None
    columns: ColumnBlock | None = None
    dead: Words | None = None
    n_dead: int = 0
    number: int | None = None
    saved_dead: int = 0  # how many deletions its file of deletions holds

    @property
    def n_docs(self) -> int:
        """How many documents are not deleted."""
        return self.core.n_docs - self.n_dead

    @cached_property
    def keep(self) -> Mask | None:
        """Which documents are not deleted; None for all."""
        if self.dead is None:
            return None
        bits = np.unpackbits(self.dead.view(np.uint8), bitorder="little")
        keep: Mask = bits[: self.core.n_docs] == 0
        return keep

    def without(self, docs: Int64Array) -> Segment:
        """The segment with these documents, alive until now, deleted."""
        if docs.size == 0:
            return self
        words = (self.core.n_docs + 63) // 64
        dead = np.zeros(words, dtype=np.uint64) if self.dead is None else self.dead.copy()
        bits = np.left_shift(np.uint64(1), (docs % 64).astype(np.uint64))
        np.bitwise_or.at(dead, docs // 64, bits)
        return replace(self, dead=dead, n_dead=self.n_dead + int(docs.size))

    def alive(self, docs: Int64Array) -> Mask:
        """For each document number, -1 standing for none, whether it is not deleted."""
        if self.dead is None:
            return docs >= 0
        places = np.maximum(docs, 0)
        bits = np.right_shift(self.dead[places // 64], (places % 64).astype(np.uint64))
        alive: Mask = (docs >= 0) & ((bits & np.uint64(1)) == 0)
        return alive


class State:
    """Segments in order of insertion, ready to be searched; never changes.

    A document's slot is its number counted over all segments, deleted documents included.
    """

    def __init__(self, segments: Sequence[Segment]):
        self.segments = tuple(segments)
        self.core = _core.Bm25Snapshot([(segment.core, segment.dead) for segment in self.segments])
        sizes = [segment.core.n_docs for segment in self.segments]
        self.bases = np.cumsum([0, *sizes], dtype=np.int64)
        self._bases: list[int] = self.bases.tolist()

    def ids_at(self, slots: Int64Array) -> Any:
        """The ids of documents: an int64 array, or a list of str."""
        if len(self.segments) == 1:
            return self.segments[0].ids.take(slots)
        if self._strings is None:
            return self._whole.take(slots)
        bases, strings = self._bases, self._strings
        owners = [bisect_right(bases, slot) - 1 for slot in slots.tolist()]
        return [
            strings[owner][slot - bases[owner]]
            for owner, slot in zip(owners, slots.tolist(), strict=True)
        ]

    @cached_property
    def _strings(self) -> list[Sequence[str]] | None:
        """The ids of each segment, where they are strings."""
        if all(segment.ids.kind != "str" for segment in self.segments):
            return None
        return [segment.ids.texts() for segment in self.segments]

    @cached_property
    def _whole(self) -> _core.SlotIds:
        """The ids of all segments, where they are integers."""
        return _core.SlotIds(self._bases[1:], [segment.ids.whole() for segment in self.segments])

    def find(self, ids: Sequence[Any]) -> Int64Array:
        """The slot of each id, -1 where no document that is not deleted has it."""
        slots = np.full(len(ids), -1, dtype=np.int64)
        for segment, base in zip(self.segments, self.bases.tolist(), strict=False):
            docs = segment.ids.find(ids)
            slots = np.where(segment.alive(docs), docs + base, slots)
        return slots

    def live_ids(self) -> Any:
        """All ids in order of insertion: an int64 array, or a list of str."""
        joined = SegmentIds.joined([(segment.ids, segment.keep) for segment in self.segments])
        return joined.values()

    def of_live(self, values: Float64Array) -> Float64Array:
        """What belongs to documents that are not deleted, of one value a slot."""
        if all(segment.dead is None for segment in self.segments):
            return values
        parts = np.split(values, self.bases[1:-1])
        return np.concatenate(
            [
                part if segment.keep is None else part[segment.keep]
                for part, segment in zip(parts, self.segments, strict=True)
            ]
        )

    def without(self, slots: Int64Array) -> list[Segment]:
        """The segments with these documents deleted."""
        return [
            segment.without(slots[(slots >= first) & (slots < last)] - first)
            for segment, first, last in zip(
                self.segments, self.bases[:-1].tolist(), self.bases[1:].tolist(), strict=True
            )
        ]

    def text(self, slot: int) -> Any:
        """The stored text of a document, or None when texts are not stored."""
        owner = int(np.searchsorted(self.bases, slot, side="right")) - 1
        texts = self.segments[owner].texts
        return None if texts is None else texts[slot - int(self.bases[owner])]


def pairs(segments: Sequence[Segment]) -> list[tuple[_core.Bm25Index, Words | None]]:
    """Segments as the core takes them."""
    return [(segment.core, segment.dead) for segment in segments]


def joined_ids(segments: Sequence[Segment]) -> SegmentIds:
    """The ids of the live documents, in order."""
    return SegmentIds.joined([(segment.ids, segment.keep) for segment in segments])


def joined_columns(segments: Sequence[Segment]) -> ColumnBlock | None:
    """The columns of the live documents, in order; None where no segment has any."""
    if all(segment.columns is None for segment in segments):
        return None
    blocks = []
    for segment in segments:
        block = segment.columns or ColumnBlock(segment.core.n_docs, {})
        blocks.append(block if segment.keep is None else block.take(segment.keep))
    return ColumnBlock.concat(blocks)


def merged(segments: Sequence[Segment], threads: int = 1) -> Segment:
    """The live documents of several segments as one, in memory."""
    texts = [segment.texts for segment in segments]
    return Segment(
        _core.merge_segments(pairs(segments), threads),
        joined_ids(segments),
        Texts.joined(texts, [segment.keep for segment in segments]),
        joined_columns(segments),
    )
