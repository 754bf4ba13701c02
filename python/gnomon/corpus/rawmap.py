r"""The map from a chunk's rendered text back to its raw bytes.

A map is a run of triples (skip, length, width): `skip` raw bytes that show nothing, then `length`
raw bytes that became `width` bytes of the text in UTF-8. ``width == -1`` says that the bytes were
copied as they are, so that a place inside of them has its place in the text; any other run (a
character reference, a line break) is one piece. Packed, it is little-endian int32; an empty map
says that the text is the raw bytes.

>>> packed = pack([2, 3, -1, 1, 8, -1])  # "**max\_allowed": "max" and "_allowed"
>>> locate(packed, 0, 11), locate(packed, 3, 4)
((2, 14), (6, 7))
>>> rendered_at(packed, 6)
3
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

COPIED = -1
_CODE = "i"


def pack(triples: Iterable[int]) -> bytes:
    """The flat triples as bytes."""
    numbers = array(_CODE, triples)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def unpack(packed: bytes) -> Sequence[int]:
    """The flat triples of `packed`."""
    numbers = array(_CODE)
    numbers.frombytes(packed)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def runs(packed: bytes) -> Iterator[tuple[int, int, int, int, bool]]:
    """Each run as (text start, text end, raw start, raw end, copied), all in bytes."""
    numbers = unpack(packed)
    raw = text = 0
    for i in range(0, len(numbers), 3):
        start = raw + numbers[i]
        raw = start + numbers[i + 1]
        width = numbers[i + 2]
        begin = text
        text += numbers[i + 1] if width == COPIED else width
        yield begin, text, start, raw, width == COPIED


def locate(packed: bytes, start: int, end: int) -> tuple[int, int]:
    """The raw bytes, counted from the chunk's start, that show bytes [start, end) of the text.

    A piece that was not copied is taken whole. Raises ValueError unless 0 <= start < end <= width.
    """
    if not 0 <= start < end:
        raise ValueError(f"require 0 <= start < end, got start={start} and end={end}")
    if not packed:
        return start, end
    first = -1
    for text_start, text_end, raw_start, raw_end, copied in runs(packed):
        if first < 0 and start < text_end:
            first = raw_start + (start - text_start if copied else 0)
        if end <= text_end:
            return first, raw_end - (text_end - end if copied else 0)
    raise ValueError(f"end={end} lies behind the text")


@lru_cache(1024)
def _table(packed: bytes) -> list[tuple[int, int, int, int, bool]]:
    """The runs of a map; what several spans of a passage are looked up in."""
    return list(runs(packed))


def locate_many(packed: bytes, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """`locate` for many spans whose starts rise, in one pass over the map."""
    if not packed:
        return list(spans)
    if not spans:
        return []
    table = _table(packed)
    found, first = [], 0
    for start, end in spans:
        while table[first][1] <= start:
            first += 1
        text_start, _, raw_start, _, copied = table[first]
        begin = raw_start + (start - text_start if copied else 0)
        last = first
        while table[last][1] < end:
            last += 1
        _, text_end, _, raw_end, copied = table[last]
        found.append((begin, raw_end - (text_end - end if copied else 0)))
    return found


def rendered_at(packed: bytes, place: int) -> int:
    """The byte of the text that shows the raw byte `place`, or the first one behind it."""
    return rendered_many(packed, [place])[0]


def rendered_many(packed: bytes, places: Sequence[int]) -> list[int]:
    """`rendered_at` for many places, which rise, in one pass over the map.

    >>> rendered_many(pack([2, 3, -1, 1, 8, -1]), [0, 3, 6, 99])
    [0, 1, 3, 11]
    """
    if not packed:
        return list(places)
    table, at = _table(packed), 0
    begin = 0
    found = []
    for place in places:
        while at < len(table):
            text_start, text_end, raw_start, raw_end, copied = table[at]
            if place < raw_end:
                begin = text_start + (max(place - raw_start, 0) if copied else 0)
                break
            at += 1
            begin = text_end
        found.append(begin)
    return found
