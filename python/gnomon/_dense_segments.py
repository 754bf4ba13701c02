"""Segments of a dense index: immutable matrices with bitmaps of the rows that are still alive.

An edit makes a new :class:`State` that shares the segments it did not touch, so a search that has
one goes on with it. Rows keep the order in which they were given: by segment, then by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from .columns import ColumnBlock
from .results import Ids

Words = npt.NDArray[np.uint64]  # a bit for each row, from the lowest bit of the first word on
Mask = npt.NDArray[np.bool_]


def pack(mask: Mask) -> Words:
    """The bitmap of a mask."""
    words = np.zeros((mask.size + 63) // 64, np.uint64)
    bits = np.packbits(mask, bitorder="little")
    words.view(np.uint8)[: bits.size] = bits
    return words


def unpack(words: Words, n: int) -> Mask:
    """The mask of a bitmap."""
    return np.unpackbits(words.view(np.uint8), count=n, bitorder="little").view(np.bool_)


@dataclass(frozen=True)
class Segment:
    """A matrix, the ids of its rows, and which of them are alive (None: all)."""

    core: _core.DenseIndex
    ids: Ids
    alive: Words | None = None
    name: str | None = None  # of its files where it was saved or loaded
    columns: ColumnBlock | None = None

    @cached_property
    def live(self) -> int:
        """How many rows are alive."""
        if self.alive is None:
            return self.core.n_rows
        return int(self.mask().sum())

    def mask(self) -> Mask:
        """Which rows are alive."""
        n = self.core.n_rows
        return np.ones(n, np.bool_) if self.alive is None else unpack(self.alive, n)

    def live_ids(self) -> list[Any]:
        """The ids of the rows that are alive, in order."""
        taken = self.ids.take(np.flatnonzero(self.mask()))
        return taken if isinstance(taken, list) else taken.tolist()

    def without(self, rows: Sequence[int]) -> Segment:
        """The segment with these rows dead."""
        mask = self.mask()
        mask[np.asarray(rows, np.int64)] = False
        return replace(self, alive=pack(mask))


@dataclass(frozen=True)
class State:
    """What a search sees. `kind` is that of the ids; `counter` the next id of an index without."""

    segments: tuple[Segment, ...]
    kind: str
    counter: int
    dim: int
    metric: str
    screen: str = "auto"
    kinds: tuple[tuple[str, str], ...] = ()  # names and kinds of the columns
    saved: tuple[str, int] | None = field(default=None, compare=False)  # path and generation

    @cached_property
    def rows(self) -> int:
        """How many rows are alive."""
        return sum(segment.live for segment in self.segments)

    @cached_property
    def places(self) -> dict[Any, tuple[int, int]]:
        """Segment and row of each id that is alive."""
        found: dict[Any, tuple[int, int]] = {}
        for number, segment in enumerate(self.segments):
            rows = np.flatnonzero(segment.mask()).tolist()
            found.update(zip(segment.live_ids(), ((number, row) for row in rows), strict=True))
        return found

    def find(self, ids: Iterable[Any], name: str) -> list[tuple[int, int]]:
        """Segment and row of each of these ids. KeyError naming the first that is not here."""
        found = []
        for place, value in enumerate(_as_list(ids, name)):
            if isinstance(value, np.integer):
                value = int(value)
            where = None if isinstance(value, (bool, float)) else self.places.get(value)
            if where is None:
                raise KeyError(
                    f"{name}[{place}] is {value!r}, which this index does not hold; "
                    f"its ids are of kind {self.kind!r}"
                )
            found.append(where)
        return found

    def count(self, allowed: Sequence[Words | None]) -> int:
        """How many rows the bitmaps of a filter hold."""
        pairs = zip(self.segments, allowed, strict=True)
        return sum(
            segment.core.n_rows if words is None else int(unpack(words, segment.core.n_rows).sum())
            for segment, words in pairs
        )

    def with_rows(self, segment: Segment) -> State:
        """The state with a segment behind the others; small ones at the end become one.

        A segment joins the one before it while that is at most twice as large, so that there are
        logarithmically many, and a row is rewritten as often.
        """
        segments = [one for one in self.segments if one.live > 0]
        if segment.live > 0:
            segments.append(segment)
        while len(segments) > 1 and segments[-2].live <= 2 * segments[-1].live:
            segments[-2:] = [self._joined(segments[-2:])]
        counter = self.counter + segment.core.n_rows
        return replace(self, segments=tuple(segments) or (segment,), counter=counter)

    def without_rows(self, places: Iterable[tuple[int, int]]) -> State:
        """The state with these rows dead; a segment that is dead by half is rewritten."""
        rows: dict[int, list[int]] = {}
        for number, row in places:
            rows.setdefault(number, []).append(row)
        segments = []
        for number, segment in enumerate(self.segments):
            if number in rows:
                segment = segment.without(rows[number])
                if 0 < 2 * segment.live <= segment.core.n_rows:
                    segment = self._joined([segment])
            if segment.live > 0:
                segments.append(segment)
        return replace(self, segments=tuple(segments) or (self.empty_segment(),))

    def merged(self) -> State:
        """The state as one segment without dead rows."""
        if len(self.segments) == 1 and self.segments[0].alive is None:
            return self
        live = [segment for segment in self.segments if segment.live > 0]
        return replace(self, segments=(self._joined(live) if live else self.empty_segment(),))

    def part(self, start: int, stop: int) -> State:
        """The state of the live rows [start, stop), as one segment that keeps their ids."""
        kind = "int" if self.kind == "position" else self.kind  # they need not begin at 0
        named = replace(self, kind=kind, counter=stop - start, saved=None)
        chosen = []
        at = 0
        for segment in self.segments:
            mask = segment.mask()
            mask[mask] = (np.arange(at, at + segment.live) >= start) & (
                np.arange(at, at + segment.live) < stop
            )
            at += segment.live
            if mask.any():
                chosen.append(replace(segment, alive=pack(mask)))
        joined = named._joined(chosen) if chosen else named.empty_segment()
        return replace(named, segments=(joined,))

    def empty_segment(self) -> Segment:
        """A segment of no rows."""
        core = _core.DenseIndex(np.zeros((0, self.dim), np.float32), self.metric)
        if self.kind == "str":
            return Segment(core, Ids(0, strings=[]))
        return Segment(core, Ids.of(None if self.kind == "position" else [], 0))

    def _joined(self, segments: Sequence[Segment]) -> Segment:
        rows = [
            segment.core.vectors if segment.alive is None else segment.core.vectors[segment.mask()]
            for segment in segments
        ]
        ids = [value for segment in segments for value in segment.live_ids()]
        own = self.kind == "position" and ids == list(range(len(ids)))
        core = _core.DenseIndex(
            np.ascontiguousarray(np.concatenate(rows)), self.metric, "zero", self.screen
        )
        return Segment(core, Ids.of(None if own else ids, len(ids)), columns=_columns(segments))


def _columns(segments: Sequence[Segment]) -> ColumnBlock | None:
    """The columns of the live rows, in order; None where no segment has any."""
    if all(segment.columns is None for segment in segments):
        return None
    blocks = []
    for segment in segments:
        block = segment.columns or ColumnBlock(segment.core.n_rows, {})
        blocks.append(block if segment.alive is None else block.take(segment.mask()))
    return ColumnBlock.concat(blocks)


def _as_list(ids: Iterable[Any], name: str) -> list[Any]:
    if isinstance(ids, (str, bytes)):
        raise TypeError(f"{name} is one text; pass a list of ids")
    return ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
