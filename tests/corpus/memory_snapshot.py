"""A `Snapshot` in memory, written for plainness: what the indexes on disk must agree with."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import gnomon
import numpy as np
from gnomon.corpus import ProcessedDocument, Source, locate_many
from gnomon.corpus.model import Chunk, Document, Evidence, Section
from gnomon.corpus.rawmap import rendered_at
from gnomon.corpus.snapshot import (
    FIELDS,
    GraphEdge,
    GrepLine,
    GrepResult,
    Node,
    Snapshot,
    Stats,
)


def field_texts(done: ProcessedDocument, chunk: Chunk) -> dict[str, str]:
    """The fields of a chunk, as `FIELDS` says."""
    sections = {section.id: section for section in done.sections}
    data = chunk.text.encode("utf-8", "surrogatepass")
    body, code, at = [], [], 0
    for block in chunk.blocks:
        if block.kind != "code":
            continue
        start, end = (
            rendered_at(chunk.raw_map, max(place - chunk.span[0], 0))
            for place in (block.start, block.end)
        )
        body.append(data[at:start])
        code.append(data[start:end])
        at = max(at, end)
    body.append(data[at:])
    return {
        "title": done.document.title,
        "heading": "\n".join(sections[chunk.section_id].path),
        "body": b"\n".join(body).decode("utf-8", "replace"),
        "code": b"\n".join(code).decode("utf-8", "replace"),
    }


class MemorySnapshot(Snapshot):
    """`documents` are (processed, raw bytes, source)."""

    def __init__(
        self,
        documents: Sequence[tuple[ProcessedDocument, bytes, Source]],
        *,
        generation: int = 1,
        embedder: Any = None,
        principals: frozenset[str] | None = None,
    ) -> None:
        self.path, self.generation, self.principals = ":memory:", generation, principals
        self._all = list(documents)
        self._embed = embedder
        self._done = {done.document.id: done for done, _, _ in documents}
        self._raw = {done.document.id: raw for done, raw, _ in documents}
        self._source = {done.document.id: source for done, _, source in documents}
        self._chunks = {chunk.id: chunk for done, _, _ in documents for chunk in done.chunks}
        self._cid = {chunk_id: i for i, chunk_id in enumerate(self._chunks)}
        self._ids = list(self._chunks)
        texts, rows = [], []
        for done, _, source in documents:
            above = {section.id: section for section in done.sections}
            for chunk in done.chunks:
                texts.append(field_texts(done, chunk))
                within, at = [], above[chunk.section_id]
                while True:
                    within.append(at.id)
                    if at.parent is None:
                        break
                    at = above[at.parent]
                document = done.document
                folders = document.path.split("/")[:-1]
                rows.append(
                    {
                        "source": document.source,
                        "source_kind": source.kind,
                        "type": document.type,
                        "language": document.language or None,
                        "path": document.path,
                        "folder": ["/".join(folders[: i + 1]) for i in range(len(folders))] or None,
                        "version": document.version or None,
                        "doc": document.id,
                        "section": chunk.section_id,
                        "within": within,
                        "kind": chunk.kind,
                        "acl": list(document.acl) or None,
                        "trust": source.trust,
                    }
                )
        self.field_texts = texts
        columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}
        self.sparse = gnomon.BM25Index.build(
            texts,
            ids=list(range(len(texts))),
            analyzer="standard-v1",
            fields=dict.fromkeys(FIELDS, 1.0),
            positions=True,
            columns=columns or None,
            column_kinds=dict.fromkeys(columns, "keyword") or None,
        )
        self.embedder = "memory" if embedder else ""
        self.dense = None
        if embedder is not None and texts:
            vectors = embedder([self._chunks[chunk_id].text for chunk_id in self._ids])
            self.dense = gnomon.DenseIndex.build(vectors, ids=list(range(len(texts))))
        self.graph = MemoryGraph(self)

    def refresh(self) -> MemorySnapshot:
        return self

    def permitted(self, principals: Iterable[str] | None) -> MemorySnapshot:
        if principals is None:
            return self
        names = frozenset(principals)
        kept = [each for each in self._all if names & set(each[0].document.acl)]
        return MemorySnapshot(
            kept, generation=self.generation, embedder=self._embed, principals=names
        )

    def stats(self) -> Stats:
        documents = [done.document for done in self._done.values()]
        return Stats(
            generation=self.generation,
            documents=len(documents),
            sections=sum(len(done.sections) for done in self._done.values()),
            chunks=len(self._chunks),
            bytes=sum(document.size for document in documents),
            tokens=self.sparse.n_tokens,
            entities=len(self.graph.places),
            mentions=sum(len(places) for places in self.graph.places.values()),
            relations=len(self.graph.all_edges),
            vectors=len(self._chunks) if self.dense is not None else 0,
            dimensions=self.dense.dim if self.dense is not None else 0,
            by_type=_counted(document.type for document in documents),
            by_source=_counted(document.source for document in documents),
        )

    def sources(self) -> list[Source]:
        return sorted({s.name: s for s in self._source.values()}.values(), key=lambda s: s.name)

    def document(self, doc_id: str) -> Document:
        return self._done[doc_id].document

    def find_document(self, path: str, source: str | None = None) -> list[Document]:
        return [d for d in self.documents(source=source) if d.path == path]

    def documents(self, **wanted: Any) -> Iterator[Document]:
        every = sorted(
            (done.document for done in self._done.values()), key=lambda d: (d.source, d.path)
        )
        path = wanted.pop("path", None)
        for document in every:
            fits = all(v is None or getattr(document, name) == v for name, v in wanted.items())
            if fits and (path is None or fnmatch.fnmatchcase(document.path, path)):
                yield document

    def sections(self, doc_id: str) -> tuple[Section, ...]:
        return self._done[doc_id].sections

    def section(self, section_id: str) -> Section:
        for done in self._done.values():
            for section in done.sections:
                if section.id == section_id:
                    return section
        raise KeyError(section_id)

    def chunks_of(self, doc_id: str) -> tuple[Chunk, ...]:
        return self._done[doc_id].chunks

    def raw(self, doc_id: str) -> memoryview:
        return memoryview(self._raw[doc_id])

    def chunk(self, chunk_id: str) -> Chunk:
        return self._chunks[chunk_id]

    def chunks(self, chunk_ids: Iterable[str]) -> list[Chunk]:
        return [self._chunks[chunk_id] for chunk_id in chunk_ids]

    def at(self, cids: Any) -> list[Chunk]:
        return [self._chunks[self._ids[int(cid)]] for cid in cids]

    def cids(self, chunk_ids: Iterable[str]) -> Any:
        return np.array([self._cid[chunk_id] for chunk_id in chunk_ids], dtype=np.int64)

    def ids_of(self, cids: Any) -> list[str]:
        return [self._ids[int(cid)] for cid in cids]

    def documents_of(self, cids: Any) -> list[str]:
        return [chunk.doc_id for chunk in self.at(cids)]

    def has_chunk(self, chunk_id: str) -> bool:
        return chunk_id in self._chunks

    def neighbours(self, chunk_id: str) -> tuple[str | None, str | None]:
        chunk = self._chunks[chunk_id]
        ids = [other.id for other in self.chunks_of(chunk.doc_id)]
        at = ids.index(chunk_id)
        return ids[at - 1] if at else None, ids[at + 1] if at + 1 < len(ids) else None

    def chunk_at(self, doc_id: str, offset: int) -> Chunk:
        for chunk in self.chunks_of(doc_id):
            if chunk.span[0] <= offset < chunk.span[1]:
                return chunk
        raise KeyError(offset)

    def text(self, chunk: Chunk | str) -> str:
        return (self._chunks[chunk] if isinstance(chunk, str) else chunk).text

    def matching(self, matcher: Any) -> Any:
        texts = [self._chunks[chunk_id].text for chunk_id in self._ids]
        found = [
            cid
            for cid, text in enumerate(texts)
            if any(matcher.regex.search(line) for line in _lines_of(text.encode()))
        ]
        return np.array(found, dtype=np.int64)

    def grep(
        self,
        pattern: str,
        *,
        literal: bool = False,
        ignore_case: bool = False,
        raw: bool = True,
        documents: Collection[str] | None = None,
        limit: int | None = 1000,
        skip: int = 0,
        matches_most: int | None = None,  # all are counted
    ) -> GrepResult:
        flags = re.MULTILINE | (re.IGNORECASE if ignore_case else 0)
        try:
            wanted = re.compile((re.escape(pattern) if literal else pattern).encode(), flags)
        except re.error as error:
            raise ValueError(f"pattern: {error}") from None
        lines: list[GrepLine] = []
        for document in self.documents():
            if documents is not None and document.id not in documents:
                continue
            if raw:
                lines += self._grep_raw(document, wanted)
            else:
                lines += self._grep_rendered(document, wanted)
        end = None if limit is None else skip + limit
        return GrepResult(
            tuple(lines[skip:end]),
            len(lines),
            sum(len(line.matches) for line in lines),
            len({line.doc_id for line in lines}),
            len(self._done),
            len(self._done),
            "",
        )

    def _grep_raw(self, document: Document, wanted: re.Pattern[bytes]) -> Iterator[GrepLine]:
        raw = self._raw[document.id]
        at = 3 if raw.startswith(b"\xef\xbb\xbf") else 0
        for number, line in enumerate(raw[at:].split(b"\n"), 1):
            body = line  # as grep has it, a carriage return is of the line
            found = [m.span() for m in wanted.finditer(body) if m.end() > m.start()]
            if found or wanted.search(body):
                spans = tuple((at + a, at + b) for a, b in found)
                place = spans[0][0] if spans else at
                chunk = self.chunk_at(document.id, min(place, document.size - 1))
                yield GrepLine(
                    document.id, document.path, number, (at, at + len(body)), spans, chunk.id
                )
            at += len(line) + 1

    def _grep_rendered(self, document: Document, wanted: re.Pattern[bytes]) -> Iterator[GrepLine]:
        raw = self._raw[document.id]
        for chunk in self.chunks_of(document.id):
            at = 0
            for line in chunk.text.encode("utf-8", "surrogatepass").split(b"\n"):
                found = [
                    (at + m.start(), at + m.end())
                    for m in wanted.finditer(line)
                    if m.end() > m.start()
                ]
                if found:
                    base = chunk.span[0]
                    spans = tuple(
                        (base + a, base + b) for a, b in locate_many(chunk.raw_map, found)
                    )
                    whole = locate_many(chunk.raw_map, [(at, at + len(line))])[0]
                    number = raw.count(b"\n", 0, spans[0][0]) + 1
                    span = (base + whole[0], base + whole[1])
                    yield GrepLine(document.id, document.path, number, span, spans, chunk.id)
                at += len(line) + 1


class MemoryGraph:
    """Entities and relations by walking over all documents."""

    def __init__(self, snapshot: MemorySnapshot) -> None:
        self.places: dict[str, list[tuple[Any, Evidence]]] = {}
        self.chunk_names: dict[str, list[tuple[str, Evidence]]] = {}
        edges: dict[tuple[str, str, str], list[Evidence]] = {}
        self._doc_of = {chunk.id: chunk.doc_id for chunk in snapshot._chunks.values()}
        for done in snapshot._done.values():
            for entity in done.entities:
                for evidence in entity.evidence:
                    self.places.setdefault(entity.key, []).append((entity, evidence))
                    self.chunk_names.setdefault(evidence.chunk_id, []).append(
                        (entity.key, evidence)
                    )
            for relation in done.relations:
                key = (relation.type, relation.source, relation.target)
                edges.setdefault(key, []).extend(relation.evidence)
        self.all_edges = [GraphEdge(*key, tuple(places)) for key, places in edges.items()]

    def entity(self, key: str) -> Node | None:
        places = self.places.get(key)
        if not places:
            return None
        counts = _counted(entity.name for entity, _ in places)
        names = sorted(counts, key=lambda name: (-counts[name], name))
        documents = {self._doc_of[evidence.chunk_id] for _, evidence in places}
        defined = sum(evidence.role == "defines" for _, evidence in places)
        return Node(
            key, places[0][0].type, names[0], tuple(names), len(places), len(documents), defined
        )

    def find_entities(
        self, name: str, *, types: Collection[str] | None = None, limit: int = 20
    ) -> list[Node]:
        ranked = []
        for key in self.places:
            node = self.entity(key)
            assert node is not None
            if types and node.type not in types:
                continue
            low, own = name.casefold(), key.partition(":")[2]
            folded = [each.casefold() for each in node.names]
            if name in node.names:
                step = 0
            elif low in (own, *folded):
                step = 1
            elif any(re.split(r"[.:>]", each)[-1] == low for each in folded):
                step = 2
            elif any(each.startswith(low) for each in folded):
                step = 3
            else:
                continue
            ranked.append((step, -node.mentions, key, node))
        return [node for *_, node in sorted(ranked, key=lambda each: each[:3])][:limit]

    def similar(
        self, name: str, *, types: Collection[str] | None = None, limit: int = 5
    ) -> list[Node]:
        import difflib

        keys = {key.partition(":")[2]: key for key in sorted(self.places)}
        close = difflib.get_close_matches(name.casefold(), list(keys), limit, 0.7)
        found = [self.entity(keys[each]) for each in close]
        return [node for node in found if node and (not types or node.type in types)]

    def entities_of(self, chunk_id: str) -> list[tuple[Node, Evidence]]:
        found = sorted(
            self.chunk_names.get(chunk_id, ()), key=lambda each: (each[1].start, each[0])
        )
        return [(node, e) for key, e in found if (node := self.entity(key)) is not None]

    def keys_in(self, chunk_id: str) -> list[tuple[str, str]]:
        return [(node.key, evidence.role) for node, evidence in self.entities_of(chunk_id)]

    def mentions(
        self, key: str, *, role: str | None = None, limit: int | None = None
    ) -> list[Evidence]:
        found = [e for _, e in self.places.get(key, ()) if role is None or e.role == role]
        return sorted(found, key=lambda e: e.role != "defines")[:limit]

    proofs_of = mentions  # evidence is its own proof here

    @staticmethod
    def evidence(proof: Evidence) -> Evidence:
        return proof

    def steps(self, *given: Any, **options: Any) -> list[tuple[tuple[str, str, str], Evidence]]:
        found = self.edges(*given, **options)
        return [((edge.type, edge.source, edge.target), edge.evidence[0]) for edge in found]

    def edges(
        self,
        node: str,
        relation: str | Collection[str] | None = None,
        direction: str = "both",
        *,
        types: Collection[str] | None = None,
        limit: int | None = None,
        skip: int = 0,
    ) -> list[GraphEdge]:
        wanted = {relation} if isinstance(relation, str) else relation
        found = []
        for edge in self.all_edges:
            out, into = edge.source == node, edge.target == node
            if not ((out and direction != "in") or (into and direction != "out")):
                continue
            other = edge.target if out else edge.source
            if wanted is not None and edge.type not in wanted:
                continue
            if types and other.partition(":")[0] not in types:
                continue
            found.append((-len(edge.evidence), edge.type, other, edge))
        found.sort(key=lambda each: each[:3])
        return [edge for *_, edge in found][skip : None if limit is None else skip + limit]

    def degree(self, node: str) -> dict[str, tuple[int, int]]:
        counts: dict[str, tuple[int, int]] = {}
        for edge in self.all_edges:
            out, into = counts.get(edge.type, (0, 0))
            if node in (edge.source, edge.target):
                counts[edge.type] = (out + (edge.source == node), into + (edge.target == node))
        return counts

    def relation_types(self) -> dict[str, int]:
        return _counted(edge.type for edge in self.all_edges)

    def entity_types(self) -> dict[str, int]:
        return _counted(key.partition(":")[0] for key in self.places)


def _counted(values: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return counts


def _lines_of(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines
