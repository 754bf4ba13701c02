r"""Many documents in one pass: the lines that match, in buffers of documents end to end.

What a pattern costs beside RE2 is what is done for each document and each match, so documents are
joined, and what follows from the matches (documents, lines, totals) is computed for all of them at
once. This is the same search: a match never spans a line feed (``never_nl``), so it lies in one
document; ``^``, ``$`` and ``\b`` see the same beside a line feed as at an end of the text. Patterns
that ask for the ends of the text itself (``\A``, ``\z``, ``(?-m)``) are not for this.

RE2 lets other threads run while it looks, so buffers are searched on all cores.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from .columns_io import Int64Array

BUFFER = 1 << 20  # bytes of documents that are searched together
_OF_THE_TEXT = re.compile(r"\\[AzZ]|\(\?[a-zA-Z]*-[a-zA-Z]*m")


class Buffer(NamedTuple):
    """Documents end to end, each closed by a line feed, and where each begins."""

    data: bytes
    starts: Int64Array
    numbers: list[int]  # what the caller calls them


class Lines(NamedTuple):
    """Matches of a buffer, in order: lines that match, and their matches.

    `owner` and `number` (from 1) are the document (its place in the buffer) and the line of each
    line; the matches of line i are those from first[i] to first[i + 1].
    """

    buffer: Buffer
    owner: Int64Array
    number: Int64Array
    first: Int64Array
    begins: Int64Array
    stops: Int64Array
    counted: bool = True  # False: of some lines only the first match is here


def joinable(pattern: str) -> bool:
    r"""Whether a pattern finds in joined documents what it finds in each.

    >>> joinable(r"^a+$"), joinable(r"\Aa"), joinable("(?i-m)^a")
    (True, False, False)
    """
    return _OF_THE_TEXT.search(pattern) is None


def joined(documents: Iterable[tuple[int, bytes]]) -> Iterator[Buffer]:
    """Buffers of numbered documents; empty ones have no line and are left out."""
    parts: list[bytes] = []
    starts: list[int] = []
    numbers: list[int] = []
    size = 0
    for number, data in documents:
        if not data:
            continue
        starts.append(size)
        numbers.append(number)
        parts.append(data)
        size += len(data)
        if data[-1] != 10:
            parts.append(b"\n")
            size += 1
        if size >= BUFFER:
            yield Buffer(b"".join(parts), np.array(starts, np.int64), numbers)
            parts, starts, numbers, size = [], [], [], 0
    if parts:
        yield Buffer(b"".join(parts), np.array(starts, np.int64), numbers)


def scan(regex: Any, buffers: Iterable[Buffer], matches_most: int | None = None) -> Iterator[Lines]:
    """The lines of each buffer, in order; behind `matches_most` of a buffer, the first match of
    each line.
    """
    threads = os.cpu_count() or 1
    spans = spans_of(regex, matches_most)
    if threads == 1:
        yield from (_lines(buffer, *spans(buffer.data), most=matches_most) for buffer in buffers)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: list[Any] = []
        for buffer in buffers:
            waiting.append((buffer, pool.submit(spans, buffer.data)))
            if len(waiting) > 2 * threads:  # no more than that is held
                done, future = waiting.pop(0)
                begun, ended = future.result()
                yield _lines(done, begun, ended, matches_most)
        for done, future in waiting:
            begun, ended = future.result()
            yield _lines(done, begun, ended, matches_most)


def spans_of(
    regex: Any, most: int | None = None
) -> Callable[[bytes], tuple[array[int], array[int]]]:
    """What finds all matches in bytes: begins and ends.

    `regex.finditer` makes an object of each match, which takes longer than to find it; what it
    calls is asked here, where it is what it was known to be. Behind the first `most` it is the
    first match of each line; then there are more than `most`.
    """
    bare = getattr(regex, "_regexp", None)
    find = getattr(bare, "Match", None)
    anchor = getattr(getattr(type(bare), "Anchor", None), "UNANCHORED", None)
    if find is None or anchor is None:
        return lambda data: _spans_by_iterator(regex, data)

    def spans(data: bytes) -> tuple[array[int], array[int]]:
        begins, stops = array("q"), array("q")
        begun, ended = begins.append, stops.append
        at, size = 0, len(data)
        while at <= size:
            begin, stop = find(anchor, data, at, size)[0]
            if begin < 0:
                break
            begun(begin)
            ended(stop)
            at = stop if stop > begin else stop + 1
            if len(begins) == most:
                break
        else:
            return begins, stops
        while at <= size:
            begin, stop = find(anchor, data, at, size)[0]
            if begin < 0:
                break
            begun(begin)
            ended(stop)
            at = data.find(b"\n", begin) + 1 or size + 1
        return begins, stops

    return spans


def _spans_by_iterator(regex: Any, data: bytes) -> tuple[array[int], array[int]]:
    begins, stops = array("q"), array("q")
    for begin, stop in matches_of(regex, data):
        begins.append(begin)
        stops.append(stop)
    return begins, stops


def matches_of(regex: Any, data: bytes) -> Iterator[tuple[int, int]]:
    """All matches in bytes; re2's own iterator gives an empty one twice."""
    last = -1, -1
    for match in regex.finditer(data):
        if match.span() != last:
            last = match.span()
            yield last


def _lines(buffer: Buffer, begun: array[int], ended: array[int], most: int | None) -> Lines:
    counted = most is None or len(begun) <= most
    begins, stops = np.frombuffer(begun, np.int64), np.frombuffer(ended, np.int64)
    inside = begins < len(buffer.data)  # behind the last line feed there is no line
    if not inside.all():
        begins, stops = begins[inside], stops[inside]
    feeds = np.flatnonzero(np.frombuffer(buffer.data, np.uint8) == 10)
    line = np.searchsorted(feeds, begins, side="left")
    fresh = np.ones(len(line), np.bool_)
    fresh[1:] = line[1:] != line[:-1]
    places = np.flatnonzero(fresh)
    owner = np.searchsorted(buffer.starts, begins[places], side="right") - 1
    before = np.searchsorted(feeds, buffer.starts, side="left")  # line feeds before each document
    number = line[places] - before[owner] + 1
    first = np.append(places, len(line)).astype(np.int64)
    return Lines(buffer, owner, number, first, begins, stops, counted)
