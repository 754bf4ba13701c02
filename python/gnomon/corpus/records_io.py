"""Records in a segment's file: written block by block; to read one, its block is unpacked, and the
last blocks stay unpacked.
"""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from typing import Any

import msgspec
import numpy as np

from .. import _core
from .columns_io import place_of
from .stored import Packed

_KEPT = 256  # blocks of a store that stay unpacked: 8 MiB


class RecordWriter:
    """Collects packed records and writes them as three sections ``NAME_data/end/first``."""

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._counts: list[int] = []

    def add(self, packed: Packed) -> None:
        """Adds the records of `packed` behind the others."""
        self._blocks += packed.blocks
        self._counts += packed.counts

    def write(self, file: _core.ContainerWriter, name: str) -> None:
        """Writes the sections."""
        file.begin(f"{name}_data", "u1")
        for block in self._blocks:
            file.append(block)
        file.end()
        ends = np.cumsum([len(block) for block in self._blocks], dtype=np.uint64)
        first = np.concatenate(
            [np.zeros(1, np.uint64), np.cumsum(self._counts, dtype=np.uint64)]
        ).astype(np.uint64)
        file.section(f"{name}_end", ends)
        file.section(f"{name}_first", first)


class Records:
    """Records of a mapped file, by number; safe from several threads."""

    def __init__(self, container: _core.Container, name: str, kind: Any) -> None:
        self._container = container
        self._name = name
        self._ends = container.array(f"{name}_end")
        self._first = container.array(f"{name}_first")
        if len(self._first) != len(self._ends) + 1:
            raise self._damaged("its blocks")
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._split = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
        self._unpacked: OrderedDict[int, list[msgspec.Raw]] = OrderedDict()
        self._lock = threading.Lock()

    def _damaged(self, what: str) -> _core.CorruptIndex:
        return _core.CorruptIndex(
            f"{self._container.path}: the {self._name} records are damaged ({what}); index again"
        )

    def __len__(self) -> int:
        return int(self._first[-1])

    def raw(self, number: int) -> bytes | msgspec.Raw:
        """The encoded record."""
        block = place_of(self._first, number) - 1
        records = self._block(block)
        place = number - int(self._first[block])
        if not 0 <= place < len(records):
            raise self._damaged(f"record {number} is missing")
        return records[place]

    def __getitem__(self, number: int) -> Any:
        try:
            return self._decode(self.raw(number))
        except msgspec.MsgspecError as error:
            raise self._damaged(str(error)) from None

    def range(self, first: int, last: int) -> list[Any]:
        """Records [first, last)."""
        found: list[Any] = []
        number = first
        while number < last:
            block = place_of(self._first, number) - 1
            place = number - int(self._first[block])
            records = self._block(block)[place : place + last - number]
            if not records:
                raise self._damaged(f"record {number} is missing")
            try:
                found += [self._decode(record) for record in records]
            except msgspec.MsgspecError as error:
                raise self._damaged(str(error)) from None
            number += len(records)
        return found

    def _block(self, block: int) -> list[msgspec.Raw]:
        with self._lock:
            known = self._unpacked.get(block)
            if known is not None:
                self._unpacked.move_to_end(block)
                return known
        if not 0 <= block < len(self._ends):
            raise self._damaged(f"block {block} is missing")
        start = int(self._ends[block - 1]) if block else 0
        data = self._container.slice(f"{self._name}_data", start, int(self._ends[block]))
        try:
            records = self._split(zlib.decompress(data.data))
        except (zlib.error, msgspec.MsgspecError) as error:
            raise self._damaged(str(error)) from None
        with self._lock:
            self._unpacked[block] = records
            while len(self._unpacked) > _KEPT:
                self._unpacked.popitem(last=False)
        return records
