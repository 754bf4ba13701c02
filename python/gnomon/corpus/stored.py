"""How documents, sections and chunks lie in a segment: records packed into compressed blocks.

Ids are kept in columns beside the records (see `gnomon.corpus.segment`), so a record holds the
numbers of its relatives only; and a chunk's text is what its raw bytes do not say (`pack_text` of
`cpp/corpus_render.hpp`), or a str where they are no help: documents that are not UTF-8. A block
holds the records that follow one another until they have 32 KiB; to read one, its block is
unpacked, and the last blocks stay unpacked.
"""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from .. import _core
from .columns_io import place_of
from .model import Block, Chunk, Document, ProcessedDocument, Report, Section, Span

BLOCK_BYTES = 32 << 10
_LEVEL = 1  # of zlib: 90 MB/s to a quarter of the size; 6 is half as fast for a tenth less
_KEPT = 256  # blocks of a store that stay unpacked: 8 MiB
encoded = msgspec.msgpack.Encoder().encode


class StoredDocument(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A document's record; the document's id and revision are "" and stand in columns."""

    document: Document
    report: Report


class StoredSection(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A section's record; `parent` is the ordinal of the section above, or -1."""

    level: int
    title: str
    path: tuple[str, ...]
    parent: int
    span: Span
    extent: Span
    heading: Span | None
    anchor: str
    kind: str


class StoredChunk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A chunk's record; `section` is the ordinal of its section in the document.

    `pieces` and `raw_map` are what `pack_text` gave; where they are None and the public map, `text`
    is the whole text.
    """

    section: int
    kind: str
    span: Span
    chars: Span
    lines: Span
    text: str
    pieces: bytes | None
    raw_map: bytes
    blocks: tuple[Block, ...]
    continued: bool
    header: Span | None


def rendered(stored: StoredChunk, raw: memoryview) -> tuple[bytes, bytes]:
    """The map and the text, in UTF-8, of a chunk of a document with these raw bytes."""
    if stored.pieces is None:
        return stored.raw_map, stored.text.encode("utf-8", "surrogatepass")
    return _core.unpack_text(raw[slice(*stored.span)], stored.raw_map, stored.pieces)


class Packed(msgspec.Struct, array_like=True):
    """Compressed blocks and how many records each has."""

    blocks: list[bytes]
    counts: list[int]

    @classmethod
    def of(cls, records: Iterable[bytes]) -> Packed:
        """Packs encoded records in order."""
        packed = cls([], [])
        run: list[bytes] = []
        size = 0
        for record in records:
            run.append(record)
            size += len(record)
            if size >= BLOCK_BYTES:
                packed._close(run)
                run, size = [], 0
        if run:
            packed._close(run)
        return packed

    def _close(self, run: list[bytes]) -> None:
        # An array of MessagePack: its head, then what it holds.
        count = len(run)
        head = b"\xdd" + count.to_bytes(4, "big")
        if count < 1 << 16:
            head = b"\xdc" + count.to_bytes(2, "big") if count > 15 else bytes([0x90 | count])
        self.blocks.append(zlib.compress(head + b"".join(run), _LEVEL))
        self.counts.append(len(run))


def stored_sections(done: ProcessedDocument) -> list[bytes]:
    """The encoded records of a document's sections."""
    numbers = {section.id: section.ordinal for section in done.sections}
    return [
        encoded(
            StoredSection(
                section.level,
                section.title,
                section.path,
                -1 if section.parent is None else numbers[section.parent],
                section.span,
                section.extent,
                section.heading,
                section.anchor,
                section.kind,
            )
        )
        for section in done.sections
    ]


def stored_chunks(done: ProcessedDocument, raw: bytes) -> list[bytes]:
    """The encoded records of a document's chunks."""
    numbers = {section.id: section.ordinal for section in done.sections}
    view = memoryview(raw)
    made = []
    for chunk in done.chunks:
        text, raw_map, pieces = chunk.text, chunk.raw_map, None
        packed = _core.pack_text(
            view[slice(*chunk.span)], raw_map, text.encode("utf-8", "surrogatepass")
        )
        if packed is not None:
            text, (raw_map, pieces) = "", packed
        made.append(
            encoded(
                StoredChunk(
                    numbers[chunk.section_id],
                    chunk.kind,
                    chunk.span,
                    chunk.chars,
                    chunk.lines,
                    text,
                    pieces,
                    raw_map,
                    chunk.blocks,
                    chunk.continued,
                    chunk.header,
                )
            )
        )
    return made


def stored_document(done: ProcessedDocument) -> bytes:
    """The encoded record of a document."""
    return record_of(done.document, done.report)


def record_of(document: Document, report: Report) -> bytes:
    """The encoded record of a document."""
    document = msgspec.structs.replace(document, id="", revision="")
    return encoded(StoredDocument(document, report))


def document_of(stored: StoredDocument, doc_id: str, revision: str) -> Document:
    """The public form."""
    return msgspec.structs.replace(stored.document, id=doc_id, revision=revision)


def section_of(stored: StoredSection, ids: Sequence[str], doc_id: str, ordinal: int) -> Section:
    """The public form; `ids` are those of the document's sections."""
    return Section(
        ids[ordinal],
        doc_id,
        ordinal,
        stored.level,
        stored.title,
        stored.path,
        None if stored.parent < 0 else ids[stored.parent],
        stored.span,
        stored.extent,
        stored.heading,
        stored.anchor,
        stored.kind,
    )


def chunk_of(
    stored: StoredChunk, raw: memoryview, chunk_id: str, doc_id: str, section_id: str, ordinal: int
) -> Chunk:
    """The public form; `raw` are the bytes of the document."""
    raw_map, shown = rendered(stored, raw)
    try:
        text = shown.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise _core.CorruptIndex(f"the text of chunk {chunk_id} is damaged; index again") from None
    return Chunk(
        chunk_id,
        doc_id,
        section_id,
        ordinal,
        stored.kind,
        stored.span,
        stored.chars,
        stored.lines,
        text,
        raw_map,
        stored.blocks,
        stored.continued,
        stored.header,
    )


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
