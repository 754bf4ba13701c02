"""Small helpers for columns on disk: ids of equal width, strings end to end, narrow integers."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core

Array = npt.NDArray[Any]
Int64Array = npt.NDArray[np.int64]
Uint32Array = npt.NDArray[np.uint32]


def narrow(values: Any) -> Array:
    """The values, none negative, in the narrowest unsigned type that holds them all.

    >>> narrow([1, 300]).dtype
    dtype('uint16')
    """
    array = np.asarray(values)
    most = int(array.max()) if array.size else 0
    for kind in (np.uint8, np.uint16, np.uint32):
        if most <= np.iinfo(kind).max:
            return array.astype(kind)
    return array.astype(np.uint64)


def counts_of(owners: Array, n: int) -> Array:
    """How many rows each of `n` owners has, narrow: what :func:`starts_of` adds up.

    >>> counts_of(np.array([0, 0, 2]), 3).tolist()
    [2, 0, 1]
    """
    return narrow(np.bincount(owners, minlength=n) if n else np.zeros(0, np.int64))


def starts_of(counts: Array) -> Uint32Array:
    """Where the rows of each owner begin, and the end.

    >>> starts_of(np.array([2, 0, 1])).tolist()
    [0, 2, 2, 3]
    """
    starts = np.zeros(len(counts) + 1, np.uint32)
    np.cumsum(counts, out=starts[1:])
    return starts


def widths_of(ends: Array) -> Int64Array:
    """The distances between 0 and rising ends.

    >>> widths_of(np.array([2, 2, 5])).tolist()
    [2, 0, 3]
    """
    widths = ends.astype(np.int64)
    widths[1:] -= widths[:-1].copy()
    return widths


def place_of(ends: Array, value: int) -> int:
    """How many of the rising ends are not above a value: the owner of a row.

    The value takes the ends' type, or numpy would convert all of them first.
    """
    return int(ends.searchsorted(ends.dtype.type(value), side="right"))


class Strings:
    """Byte strings end to end in a mapped file: ``NAME_text`` and ``NAME_end``."""

    def __init__(self, container: _core.Container, name: str) -> None:
        self._text: memoryview = container.array(f"{name}_text").data
        self.ends = container.array(f"{name}_end")
        self._stops: memoryview = self.ends.data  # the same; its items are int
        last = int(self.ends[-1]) if len(self.ends) else 0
        if last != len(self._text) or np.any(self.ends[1:] < self.ends[:-1]):
            raise _core.CorruptIndex(f"{container.path}: the {name} strings; index again")

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: int) -> bytes:
        start = self._stops[number - 1] if number else 0
        return self._text[start : self._stops[number]].tobytes()

    def all(self) -> list[bytes]:
        """All strings."""
        text = self._text.tobytes()
        ends = self.ends.tolist()
        return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def bisect(self, wanted: bytes, order: Array | None = None, key: Any = None) -> int:
        """The first place, in order, whose string (or `key` of it) is not before `wanted`."""
        low, high = 0, len(self) if order is None else len(order)
        while low < high:
            middle = (low + high) // 2
            here = self[middle if order is None else int(order[middle])]
            if (here if key is None else key(here)) < wanted:
                low = middle + 1
            else:
                high = middle
        return low

    def find(self, wanted: bytes) -> int:
        """The number of a string of sorted ones, or -1."""
        place = self.bisect(wanted)
        return place if place < len(self) and self[place] == wanted else -1


class PackedStrings(Strings):
    """Strings of which each `BLOCK` are compressed together: ``NAME_packed``, where the blocks end
    in it ``NAME_block``, and ``NAME_end`` as of :class:`Strings`. A block stays unpacked once it
    was: all of them are what plain strings take. Sorted paths and addresses shrink to a tenth.
    """

    BLOCK = 64

    def __init__(self, container: _core.Container, name: str) -> None:
        self.ends = container.array(f"{name}_end")
        self._where = f"{container.path}: the {name} strings; index again"
        self._packed: memoryview = container.array(f"{name}_packed").data
        self._last = container.array(f"{name}_block")
        count = -(-len(self.ends) // self.BLOCK)
        last = int(self._last[-1]) if len(self._last) else 0
        if (
            len(self._last) != count
            or last != len(self._packed)
            or np.any(self._last[1:] < self._last[:-1])
            or np.any(self.ends[1:] < self.ends[:-1])
        ):
            raise _core.CorruptIndex(self._where)
        self._blocks: list[bytes | None] = [None] * count

    def __getitem__(self, number: int) -> bytes:
        number = range(len(self))[number]
        block, place = divmod(number, self.BLOCK)
        base = self._end(block * self.BLOCK)
        start = base if place == 0 else self._end(number)
        return self._text_of(block)[start - base : self._end(number + 1) - base]

    def all(self) -> list[bytes]:
        """All strings."""
        text = b"".join(map(self._text_of, range(len(self._blocks))))
        ends = self.ends.tolist()
        return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def _end(self, count: int) -> int:
        """Where the first `count` strings end."""
        return int(self.ends[count - 1]) if count else 0

    def _text_of(self, block: int) -> bytes:
        text = self._blocks[block]
        if text is None:
            first = int(self._last[block - 1]) if block else 0
            size = self._end(min((block + 1) * self.BLOCK, len(self))) - self._end(
                block * self.BLOCK
            )
            unpacker = zlib.decompressobj()
            try:  # no more than is needed, whatever the file says
                text = unpacker.decompress(self._packed[first : int(self._last[block])], size + 1)
            except zlib.error as error:
                raise _core.CorruptIndex(f"{self._where} ({error})") from None
            if len(text) != size or not unpacker.eof:
                raise _core.CorruptIndex(self._where)
            self._blocks[block] = text
        return text


def strings_of(container: _core.Container, name: str) -> Strings:
    """The strings of a file, packed or not."""
    return (PackedStrings if f"{name}_packed" in container else Strings)(container, name)


def write_packed_strings(file: _core.ContainerWriter, name: str, strings: Sequence[bytes]) -> None:
    """Writes the sections that :class:`PackedStrings` reads."""
    step = PackedStrings.BLOCK
    packed = [
        zlib.compress(b"".join(strings[first : first + step]), 1)
        for first in range(0, len(strings), step)
    ]
    file.section(f"{name}_packed", np.frombuffer(b"".join(packed), np.uint8))
    file.section(f"{name}_block", narrow(np.cumsum([len(b) for b in packed], dtype=np.int64)))
    file.section(f"{name}_end", narrow(np.cumsum([len(s) for s in strings], dtype=np.int64)))


def write_strings(file: _core.ContainerWriter, name: str, strings: Sequence[bytes]) -> None:
    """Writes the sections that :class:`Strings` reads."""
    file.section(f"{name}_text", np.frombuffer(b"".join(strings), np.uint8))
    file.section(f"{name}_end", narrow(np.cumsum([len(s) for s in strings], dtype=np.int64)))


class IdColumn:
    """Ids of `width` bytes in a mapped file, ``NAME`` by number and ``NAME_order`` sorted."""

    def __init__(self, container: _core.Container, name: str, width: int) -> None:
        data = container.array(name)
        self._order = container.array(f"{name}_order")
        if len(data) != width * len(self._order):
            raise _core.CorruptIndex(f"{container.path}: the {name} ids; index again")
        self._rows = data.reshape(-1, width)
        self._bytes: memoryview = data.data
        self._places: memoryview = self._order.data  # the order; its items are int
        self._width = width

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> str:
        number = range(len(self._rows))[number]
        return self._bytes[number * self._width : (number + 1) * self._width].hex()

    def range(self, first: int, last: int) -> list[str]:
        """Ids [first, last) in hexadecimal."""
        text, size = self._rows[first:last].tobytes().hex(), 2 * self._width
        return [text[at : at + size] for at in range(0, len(text), size)]

    def take(self, numbers: Array) -> list[str]:
        """The ids of some numbers, in hexadecimal."""
        text, size = self._rows[numbers].tobytes().hex(), 2 * self._width
        return [text[at : at + size] for at in range(0, len(text), size)]

    def find(self, wanted: str) -> list[int]:
        """The numbers that have this id, ascending."""
        try:
            key = bytes.fromhex(wanted)
        except ValueError:
            return []
        if len(key) != self._width or wanted != wanted.lower():
            return []
        data, places, width = self._bytes, self._places, self._width
        low, high = 0, len(places)
        while low < high:
            middle = (low + high) // 2
            at = places[middle] * width
            if data[at : at + width].tobytes() < key:
                low = middle + 1
            else:
                high = middle
        found = []
        while low < len(places):
            at = places[low] * width
            if data[at : at + width] != key:
                break
            found.append(places[low])
            low += 1
        return found


def write_ids(file: _core.ContainerWriter, name: str, ids: bytes, width: int) -> None:
    """Writes the sections that :class:`IdColumn` reads."""
    rows = np.frombuffer(ids, np.uint8).reshape(-1, width)
    high = np.ascontiguousarray(rows[:, :8]).view(">u8").ravel()
    low = np.zeros(len(rows), np.uint64)
    for column in range(8, width):
        low = low << np.uint64(8) | rows[:, column].astype(np.uint64)
    file.section(name, np.frombuffer(ids, np.uint8))
    file.section(f"{name}_order", narrow(np.lexsort((low, high))))


def numbered(strings: Iterable[str]) -> tuple[list[bytes], dict[str, int]]:
    """The distinct strings as sorted bytes, and the number of each."""
    ordered = sorted(set(strings))  # the order of code points is that of their UTF-8
    encoded = [text.encode("utf-8", "surrogatepass") for text in ordered]
    return encoded, dict(zip(ordered, range(len(ordered)), strict=True))


def decoded(data: bytes) -> str:
    """The str of what :func:`numbered` encoded."""
    return data.decode("utf-8", "surrogatepass")


Folded = Callable[[bytes], bytes]
