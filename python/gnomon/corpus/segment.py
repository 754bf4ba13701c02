"""A segment as it is read: columns, records and raw bytes of its documents; never changes.

Numbers count within the segment: documents, sections and chunks from 0, in the order in which they
were added. What has been deleted or may not be read is a mask beside the segment, not in it.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from .. import _core
from ..storage import Directory
from .columns_io import Array, IdColumn, Int64Array, place_of, widths_of
from .graph_segment import GraphSegment
from .kept import Kept
from .model import Chunk, Document, Report, Section
from .records_io import Records
from .segment_writer import PART, READ, VERSION
from .stored import (
    StoredChunk,
    StoredDocument,
    StoredSection,
    chunk_of,
    document_of,
    rendered,
    section_of,
)

KEPT_MOST = 4096  # documents, sections and chunks each that a segment keeps decoded
RENDERED_MOST = 64 << 20  # bytes of rendered text that a segment keeps ready for a search
_FILES = ["docs", "graph", "raw", "records", "trigrams"]


class Segment:
    """An opened segment; all of its files stay open while it lives."""

    def __init__(self, directory: Directory, name: str) -> None:
        self.directory = directory
        self.name = name
        meta = directory.meta(PART)
        if meta.get("version") not in READ:
            raise self.damaged(f"format version {meta.get('version')}, this gnomon reads {VERSION}")
        if directory.files(PART) != _FILES:
            raise self.damaged("its files")
        self.meta = meta
        self.n_docs: int = meta["documents"]
        self.n_sections: int = meta["sections"]
        self.n_chunks: int = meta["chunks"]
        docs = directory.container(PART, "docs")
        self._raw = directory.container(PART, "raw")
        self.docs = IdColumn(docs, "doc", 16)
        self.section_ids = IdColumn(docs, "section", 10)
        self.chunk_ids = IdColumn(docs, "chunk", 12)
        self._revisions = docs.array("revision")
        self.raw_end: Array = docs.array("raw_end")
        self.section_end: Array = docs.array("section_end")
        self.chunk_end: Array = docs.array("chunk_end")
        self.section_parent: Array = docs.array("section_parent")  # ordinal plus 1; 0 for none
        self.doc_acl: Array = docs.array("doc_acl")
        self.doc_source: Array = docs.array("doc_source")
        self.chunk_start: Array = docs.array("chunk_start")
        self.chunk_section: Array = docs.array("chunk_section")
        self.cids: Int64Array = docs.array("chunk_cid").astype(np.int64)
        self._lock = threading.Lock()
        self._rendered: OrderedDict[int, tuple[bytes, Int64Array]] = OrderedDict()
        self._rendered_bytes = 0
        self._kept_chunks: Kept[int, Chunk] = Kept(KEPT_MOST)
        self._kept_sections: Kept[int, Section] = Kept(KEPT_MOST)
        self._kept_documents: Kept[int, Document] = Kept(KEPT_MOST)
        self.acls = [tuple(names) for names in meta["acls"]]
        self.sources: list[str] = list(meta["sources"])
        self._check()
        self.trigrams = _core.TrigramIndex.open(directory.container(PART, "trigrams"))
        if self.trigrams.n_docs != self.n_docs:
            raise self.damaged("its trigrams are those of other documents")

    @classmethod
    def open(cls, path: str | os.PathLike[str], name: str) -> Segment:
        """Opens the segment at `path`. Raises CorruptIndex or OSError."""
        return cls(Directory.open(path), name)

    def damaged(self, what: str) -> _core.CorruptIndex:
        """An error of this segment."""
        return _core.CorruptIndex(f"{self.directory.path}: {what}; index again")

    def _check(self) -> None:
        """Every number must lie in range before it is used."""
        n, chunks = self.n_docs, self.n_chunks
        right = (
            len(self.docs) == len(self.doc_acl) == len(self.doc_source) == n
            and len(self._revisions) == 32 * n
            and len(self.section_ids) == len(self.section_parent) == self.n_sections
            and len(self.chunk_ids) == len(self.chunk_start) == len(self.cids) == chunks
            and len(self.chunk_section) == chunks
            and _rises(self.raw_end, n, None)
            and _rises(self.section_end, n, self.n_sections)
            and _rises(self.chunk_end, n, chunks)
            and _below(self.doc_acl, len(self.acls))
            and _below(self.doc_source, len(self.sources))
            and _below(self.chunk_section, self.n_sections)
        )
        if not right:
            raise self.damaged("its columns contradict one another")

    # Numbers

    def section_range(self, doc: int) -> tuple[int, int]:
        """The sections of a document."""
        return _range(self.section_end, doc)

    def chunk_range(self, doc: int) -> tuple[int, int]:
        """The chunks of a document."""
        return _range(self.chunk_end, doc)

    def parent_of_section(self, section: int) -> int:
        """The number of the section above, or -1."""
        ordinal = int(self.section_parent[section]) - 1
        first, last = self.section_range(self.doc_of_section(section))
        if ordinal >= last - first:
            raise self.damaged(f"the parent of section {section}")
        return first + ordinal if ordinal >= 0 else -1

    def doc_of_chunk(self, chunk: int) -> int:
        """The document of a chunk."""
        return place_of(self.chunk_end, chunk)

    def doc_of_section(self, section: int) -> int:
        """The document of a section."""
        return place_of(self.section_end, section)

    @cached_property
    def chunk_doc(self) -> Array:
        """The document of each chunk."""
        return np.repeat(np.arange(self.n_docs, dtype=np.int32), widths_of(self.chunk_end))

    @cached_property
    def _cid_order(self) -> Int64Array | None:
        """The chunks by cid; None when they are in this order already."""
        if self.n_chunks < 2 or bool(np.all(self.cids[1:] > self.cids[:-1])):
            return None
        return np.argsort(self.cids, kind="stable")

    def chunks_of_cids(self, cids: Int64Array) -> Int64Array:
        """The chunk of each cid, -1 where the segment has none."""
        if self.n_chunks == 0:
            return np.full(len(cids), -1, np.int64)
        order = self._cid_order
        place = np.searchsorted(self.cids, cids, sorter=order)
        place = np.minimum(place, self.n_chunks - 1)
        chunk = place if order is None else order[place]
        return np.where(self.cids[chunk] == cids, chunk, -1)

    # Records

    @cached_property
    def _records(self) -> dict[str, Records]:
        file = self.directory.container(PART, "records")
        kinds = {"document": StoredDocument, "section": StoredSection, "chunk": StoredChunk}
        counts = {"document": self.n_docs, "section": self.n_sections, "chunk": self.n_chunks}
        found = {name: Records(file, name, kind) for name, kind in kinds.items()}
        if any(len(found[name]) != count for name, count in counts.items()):
            raise self.damaged("its records are too few or too many")
        return found

    def raw_record(self, name: str, number: int) -> bytes:
        """An encoded record, to be taken over into another segment."""
        return bytes(self._records[name].raw(number))

    def document(self, doc: int) -> Document:
        """A document's record."""
        known = self._kept_documents.get(doc)
        if known is None:
            made = document_of(self._stored_document(doc), self.docs[doc], self.revision(doc))
            known = self._kept_documents.keep(doc, made)
        return known

    @cached_property
    def documents(self) -> list[Document]:
        """The records of all documents."""
        stored = self._records["document"].range(0, self.n_docs)
        return [document_of(each, self.docs[i], self.revision(i)) for i, each in enumerate(stored)]

    def report(self, doc: int) -> Report:
        """What processing said about a document."""
        return self._stored_document(doc).report

    def _stored_document(self, doc: int) -> StoredDocument:
        stored: StoredDocument = self._records["document"][doc]
        return stored

    def sections(self, doc: int) -> tuple[Section, ...]:
        """All sections of a document."""
        first, last = self.section_range(doc)
        ids, doc_id = self.section_ids.range(first, last), self.docs[doc]
        stored = self._records["section"].range(first, last)
        return tuple(section_of(each, ids, doc_id, i) for i, each in enumerate(stored))

    def section(self, section: int) -> Section:
        """A section."""
        known = self._kept_sections.get(section)
        return (
            self._kept_sections.keep(section, self._read_section(section))
            if known is None
            else known
        )

    def _read_section(self, section: int) -> Section:
        doc = self.doc_of_section(section)
        first, last = self.section_range(doc)
        ids = self.section_ids.range(first, last)
        stored = self._records["section"][section]
        return section_of(stored, ids, self.docs[doc], section - first)

    def chunk(self, chunk: int) -> Chunk:
        """A chunk."""
        known = self._kept_chunks.get(chunk)
        return self._kept_chunks.keep(chunk, self._read_chunk(chunk)) if known is None else known

    def _read_chunk(self, chunk: int) -> Chunk:
        doc = self.doc_of_chunk(chunk)
        stored: StoredChunk = self._records["chunk"][chunk]
        return chunk_of(
            stored,
            self.raw(doc),
            self.chunk_ids[chunk],
            self.docs[doc],
            self.section_ids[int(self.chunk_section[chunk])],
            chunk - self.chunk_range(doc)[0],
        )

    def rendered_chunks(self, doc: int) -> Iterator[tuple[int, StoredChunk, bytes, bytes]]:
        """Of each chunk of a document: its number, its record, its map and its text in UTF-8."""
        first, last = self.chunk_range(doc)
        raw = self.raw(doc)
        for number, stored in enumerate(self._records["chunk"].range(first, last), first):
            yield (number, stored, *rendered(stored, raw))

    def rendered_text(self, doc: int) -> tuple[bytes, Int64Array]:
        """The texts of a document's chunks in UTF-8, end to end, and where each ends; kept."""
        with self._lock:
            known = self._rendered.get(doc)
            if known is not None:
                self._rendered.move_to_end(doc)
                return known
        texts = [text for _, _, _, text in self.rendered_chunks(doc)]
        made = b"".join(texts), np.cumsum([len(text) for text in texts], dtype=np.int64)
        with self._lock:
            if self._rendered.setdefault(doc, made) is made:
                self._rendered_bytes += len(made[0])
            while self._rendered_bytes > RENDERED_MOST and len(self._rendered) > 1:
                _, (text, _) = self._rendered.popitem(last=False)
                self._rendered_bytes -= len(text)
        return made

    def stored_chunk(self, chunk: int) -> StoredChunk:
        """A chunk's record."""
        stored: StoredChunk = self._records["chunk"][chunk]
        return stored

    def chunks(self, doc: int) -> tuple[Chunk, ...]:
        """All chunks of a document."""
        first, last = self.chunk_range(doc)
        ids, doc_id = self.chunk_ids.range(first, last), self.docs[doc]
        sections = self.section_ids.take(self.chunk_section[first:last])
        stored, raw = self._records["chunk"].range(first, last), self.raw(doc)
        return tuple(
            chunk_of(each, raw, ids[i], doc_id, sections[i], i) for i, each in enumerate(stored)
        )

    def raw(self, doc: int) -> memoryview:
        """The raw bytes of a document, mapped and checked."""
        first, last = _range(self.raw_end, doc)
        view: memoryview = self._raw.slice("raw", first, last).data
        return view

    @property
    def raw_container(self) -> _core.Container:
        """The file of the raw bytes, in a section of this name, documents end to end."""
        return self._raw

    def revision(self, doc: int) -> str:
        """The revision of a document."""
        return self._revisions[32 * doc : 32 * doc + 32].tobytes().hex()

    @cached_property
    def graph(self) -> GraphSegment:
        """Entities and relations."""
        return GraphSegment(self.directory.container(PART, "graph"), self.meta, self.section_ids)

    @cached_property
    def _edges_by_doc(self) -> tuple[Array, Array]:
        """Documents and edges, a pair for each document that shows an edge, by document."""
        c = self.graph.columns
        owners = np.repeat(np.arange(len(c["edge_source"])), widths_of(c["proof_first"])[1:])
        docs = self.chunk_doc[c["proof_chunk"]]
        pairs = np.unique(np.stack([docs.astype(np.int64), owners], axis=1), axis=0)
        return pairs[:, 0], pairs[:, 1]

    def edges_of_doc(self, doc: int) -> Array:
        """The edges for which a document has evidence, ascending."""
        docs, edges = self._edges_by_doc
        first, last = np.searchsorted(docs, [doc, doc + 1])
        return edges[first:last]

    @cached_property
    def sizes(self) -> Int64Array:
        """Raw bytes of each document."""
        return widths_of(self.raw_end)


def _range(ends: Array, owner: int) -> tuple[int, int]:
    return int(ends[owner - 1]) if owner else 0, int(ends[owner])


def _below(numbers: Array, limit: int) -> bool:
    return len(numbers) == 0 or int(numbers.max()) < limit


def _rises(ends: Array, n: int, last: Any) -> bool:
    """Whether there are `n` ends that rise, the last of them `last`."""
    if len(ends) != n:
        return False
    if n == 0:
        return last in (None, 0)
    return bool(np.all(ends[1:] >= ends[:-1])) and (last is None or int(ends[-1]) == last)
