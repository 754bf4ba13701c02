"""Writes a segment: documents that were added together, in immutable files of one directory.

The directory is one of `gnomon.storage` with the part "segment" and these files:

    docs       columns of documents, sections and chunks (see `write_columns` here)
    records    the records of all three, packed (`gnomon.corpus.stored`)
    raw        the raw bytes of the documents, end to end
    trigrams   which documents can hold a literal (`cpp/trigram.hpp`)
    graph      entities and relations (`gnomon.corpus.graph_columns`)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from ..storage import DirectoryWriter
from .columns_io import Int64Array, narrow, write_ids
from .graph_columns import GraphWriter
from .prepare_model import Prepared, PreparedBatch
from .records_io import RecordWriter

PART = "segment"
VERSION = 3
READ = (2, VERSION)  # version 2 has plain strings in its graph, and more columns


class SegmentWriter:
    """Takes batches in order. The files belong to the DirectoryWriter, which commits them."""

    def __init__(self, directory: DirectoryWriter) -> None:
        self._directory = directory
        self._raw = _core.ContainerWriter(directory.file(PART, "raw"))
        self._raw.begin("raw", "u1")
        self._trigrams = _core.TrigramBuilder()
        self._graph = GraphWriter()
        self._records = {name: RecordWriter() for name in ("document", "section", "chunk")}
        self._bytes = {name: bytearray() for name in ("doc", "revision", "section", "chunk")}
        self._ends: dict[str, list[int]] = {"raw": [], "section": [], "chunk": []}
        self._acls: dict[tuple[str, ...], int] = {}
        self._sources: dict[str, int] = {}
        self._acl: list[int] = []
        self._source: list[int] = []
        self._starts = bytearray()
        self._sections: list[Int64Array] = []
        self._parents: list[int] = []  # of each section: the ordinal of the one above, plus 1
        self._cids: list[Int64Array] = []
        self._raw_bytes = 0
        self.n_docs = 0
        self.n_chunks = 0

    def add(self, batch: PreparedBatch, source: str, cids: Sequence[Int64Array]) -> None:
        """Adds the documents of a batch that are new; `cids` has those of each one's chunks."""
        self._records["document"].add(batch.document_records)
        self._records["section"].add(batch.section_records)
        self._records["chunk"].add(batch.chunk_records)
        new = [given for given in batch.documents if not given.same and not given.error]
        for given, own in zip(new, cids, strict=True):
            self._add(given, source, own)

    def _add(self, given: Prepared, source: str, cids: Int64Array) -> None:
        if len(given.raw) >= 1 << 32:
            raise ValueError(f"a document takes less than 4 GiB, {given.path!r} is larger")
        first_section = len(self._bytes["section"]) // 10
        self._raw.append(given.raw)
        self._raw_bytes += len(given.raw)
        same = given.text == given.raw
        self._trigrams.add([given.raw] if same else [given.raw, given.text])
        self._graph.add(self.n_docs, self.n_chunks, given)
        self._bytes["doc"] += bytes.fromhex(given.doc_id)
        self._bytes["revision"] += bytes.fromhex(given.revision)
        self._bytes["section"] += given.section_ids
        self._bytes["chunk"] += given.chunk_ids
        self._starts += given.chunk_start
        self._parents += [parent + 1 for parent in given.section_parents]
        self._sections.append(
            np.frombuffer(given.chunk_section, np.uint32).astype(np.int64) + first_section
        )
        self._cids.append(cids)
        self._acl.append(self._acls.setdefault(given.acl, len(self._acls)))
        self._source.append(self._sources.setdefault(source, len(self._sources)))
        self.n_docs += 1
        self.n_chunks += len(cids)
        self._ends["raw"].append(self._raw_bytes)
        self._ends["section"].append(len(self._bytes["section"]) // 10)
        self._ends["chunk"].append(self.n_chunks)

    def finish(self) -> dict[str, Any]:
        """Completes the files. Returns the settings for DirectoryWriter.commit."""
        self._raw.end()
        self._raw.finish()
        file = self._file("trigrams")
        self._trigrams.write(file)
        file.finish()
        file = self._file("records")
        for name, records in self._records.items():
            records.write(file, name)
        file.finish()
        file = self._file("docs")
        self._write_columns(file)
        file.finish()
        sections = self._bytes["section"].hex()
        file = self._file("graph")
        tables = self._graph.write(
            file, [sections[at : at + 20] for at in range(0, len(sections), 20)], self.n_chunks
        )
        file.finish()
        return {
            "version": VERSION,
            "documents": self.n_docs,
            "sections": len(sections) // 20,
            "chunks": self.n_chunks,
            "bytes": self._raw_bytes,
            "acls": [list(names) for names in self._acls],
            "sources": list(self._sources),
            **tables,
        }

    def _file(self, name: str) -> _core.ContainerWriter:
        return _core.ContainerWriter(self._directory.file(PART, name))

    def _write_columns(self, file: _core.ContainerWriter) -> None:
        for name, width in (("doc", 16), ("section", 10), ("chunk", 12)):
            write_ids(file, name, bytes(self._bytes[name]), width)
        file.section("revision", np.frombuffer(bytes(self._bytes["revision"]), np.uint8))
        for name, ends in self._ends.items():
            file.section(f"{name}_end", narrow(np.array(ends, np.int64)))
        file.section("section_parent", narrow(np.array(self._parents, np.int64)))
        file.section("doc_acl", narrow(np.array(self._acl, np.int64)))
        file.section("doc_source", narrow(np.array(self._source, np.int64)))
        file.section("chunk_start", np.frombuffer(bytes(self._starts), np.uint32))
        empty = [np.zeros(0, np.int64)]
        file.section("chunk_section", narrow(np.concatenate(self._sections or empty)))
        file.section("chunk_cid", narrow(np.concatenate(self._cids or empty)))
