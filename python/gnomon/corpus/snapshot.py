"""What readers see: one generation of a corpus, all of its indexes at once, and nothing hidden.

A :class:`Snapshot` never changes. It keeps its files open, so a writer may go on meanwhile; a newer
generation is another snapshot. :meth:`Snapshot.permitted` gives the view of a reader who may read
some documents only: it is a snapshot too, in which the other documents do not exist. All that it
says (scores, counts, suggestions, graph, error texts) is what an index of the permitted documents
alone would say, so whoever has a view cannot leak.

Two names of a chunk: its *id*, 24 hexadecimal digits, is content addressed, stands in answers and
survives edits elsewhere. Its *cid*, an int that is never given twice, is what `sparse` and `dense`
know it by; it never leaves the program. :meth:`Snapshot.cids` and :meth:`Snapshot.ids_of` convert.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .columns_io import Int64Array, widths_of
from .graph import Direction, Graph
from .live import Live, Spot
from .model import Chunk, Document, Report, Section, Source
from .near_duplicates import near_duplicates
from .opened import Opened
from .paths import path_pattern
from .restricted import without_chunks, without_vectors
from .segment import Segment
from .snapshot_model import Coverage, GraphEdge, GrepLine, GrepResult, Node, Stats
from .trigrams import Trigrams

if TYPE_CHECKING:
    from ..bm25 import BM25Index
    from ..dense_index import DenseIndex
    from .grep import Matcher

__all__ = [
    "COLUMNS",
    "FIELDS",
    "Coverage",
    "Direction",
    "Graph",
    "GraphEdge",
    "GrepLine",
    "GrepResult",
    "Node",
    "Snapshot",
    "Stats",
    "Trigrams",
]

FIELDS = ("title", "heading", "body", "code")
"""Fields of the sparse index: the document's title, the titles of the sections from the root to the
chunk's, the chunk's text without code blocks, and its code blocks."""

COLUMNS = {
    "source": "keyword",  # the source's name
    "source_kind": "keyword",  # docs, code, qa, issue...
    "type": "keyword",  # the document's type (markdown, java...)
    "language": "keyword",  # None where the document has none
    "path": "keyword",  # the logical path
    "folder": "keyword",  # every folder above the document: a/b/c.md has a and a/b
    "version": "keyword",  # None where unknown
    "doc": "keyword",  # the document's id
    "section": "keyword",  # the id of the chunk's section
    "within": "keyword",  # the ids of the chunk's section and of all sections above it
    "kind": "keyword",  # the chunk's kind (model.KINDS)
    "acl": "keyword",  # who may read it
    "trust": "keyword",
}
"""Columns of the sparse index, for `gnomon.Filter` and `bm25_query.Where` and `Together`."""

_VIEWS_MOST = 16  # that are kept ready


class Snapshot:
    """One generation of a corpus, for reading; safe from several threads at once.

    Attributes
    ----------
    path
        The index's directory.
    generation
        Rises by one with every commit; the same generation gives the same answers.
    principals
        Whose view this is; None when no access scope is enforced.
    sparse
        A `gnomon.BM25Index` over the chunks by cid, with positions, `FIELDS` and `COLUMNS`. Ties
        are in order of insertion.
    dense
        A `gnomon.DenseIndex` over the chunks by cid (cosine), or None when the view has no vectors.
    embedder
        The name that the embedder of `dense` was given, or "".
    trigram, graph
        See the classes.
    """

    def __init__(
        self,
        opened: Opened,
        live: Live,
        principals: frozenset[str] | None = None,
        whole: Snapshot | None = None,
    ) -> None:
        self._opened = opened
        self._live = live
        self._whole = self if whole is None else whole
        self._views: dict[frozenset[str], Snapshot] = {}
        self.path = opened.path
        self.generation = opened.state.generation
        self.principals = principals
        self.embedder = opened.state.embedder

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Snapshot:
        """The newest committed generation at `path`, without an access scope.

        Raises FileNotFoundError when there is no corpus, CorruptIndex when it is damaged.
        """
        opened = Opened.open(path)
        return cls(opened, Live(opened.segments, opened.alive))

    def refresh(self) -> Snapshot:
        """The newest generation with the same access scope; self when it is this one."""
        opened = Opened.open(self.path, self._opened)
        if opened is self._opened:
            return self
        return Snapshot(opened, Live(opened.segments, opened.alive)).permitted(self.principals)

    def permitted(self, principals: Iterable[str] | None) -> Snapshot:
        """The view of a reader: documents whose `acl` names one of `principals`.

        Documents that declare no acl are not in any view. None leaves the view as it is. Views are
        kept, so asking again costs nothing; making one costs a pass over the documents. A view of a
        view holds what both permit. Raises TypeError for a single str.
        """
        if principals is None:
            return self
        if isinstance(principals, str):
            raise TypeError(f"principals is one str; pass a list: [{principals!r}]")
        names = frozenset(principals)
        known = self._views.get(names)
        if known is None:
            masks = []
            for segment in self._live.segments:
                open_to = [not names.isdisjoint(acl) for acl in segment.acls]
                masks.append(np.array(open_to, np.bool_)[segment.doc_acl])
            both = names if self.principals is None else names & self.principals
            known = Snapshot(self._opened, self._live.narrowed(masks), both, self._whole)
            views = dict(self._views)  # copied: another thread may read it
            while len(views) >= _VIEWS_MOST:
                del views[next(iter(views))]
            self._views = {**views, names: known}
        return known

    def limited(self, doc_ids: Collection[str]) -> Snapshot:
        """The view in which only these documents exist. Unknown ids are left out.

        For statistics of a part of the corpus; to search in a part, pass a filter instead.
        """
        masks = [np.zeros(segment.n_docs, np.bool_) for segment in self._live.segments]
        for spot in map(self._live.document, doc_ids):
            if spot is not None:
                masks[spot.segment][spot.number] = True
        return Snapshot(self._opened, self._live.narrowed(masks), self.principals, self._whole)

    # Engines

    @cached_property
    def sparse(self) -> BM25Index:
        """The BM25 index of this view's chunks."""
        whole = self._opened.sparse
        hidden = self._hidden
        return without_chunks(whole, hidden) if hidden.size else whole

    @cached_property
    def dense(self) -> DenseIndex | None:
        """The vectors of this view's chunks; None when there is none."""
        whole = self._opened.dense
        if whole is not None and self._hidden.size:
            whole = without_vectors(whole, self._hidden)
        return whole if whole is not None and len(whole) else None

    @cached_property
    def _hidden(self) -> Int64Array:
        """The cids that exist in the generation, but not in this view."""
        if self._whole is self:
            return np.zeros(0, np.int64)
        return np.setdiff1d(self._whole._live.cids(), self._live.cids(), assume_unique=True)

    @cached_property
    def trigram(self) -> Trigrams:
        """Which documents can hold a literal."""
        return Trigrams(self._live)

    @cached_property
    def graph(self) -> Graph:
        """Entities and relations."""
        return Graph(self._live)

    # What there is

    def stats(self) -> Stats:
        """Counts of this view."""
        return self._stats

    @cached_property
    def _stats(self) -> Stats:
        by_type: dict[str, int] = {}
        by_source: dict[str, int] = {}
        for document, _ in self._live.catalogue:
            by_type[document.type] = by_type.get(document.type, 0) + 1
            by_source[document.source] = by_source.get(document.source, 0) + 1
        pairs = list(zip(self._live.segments, self._live.masks, strict=True))
        return Stats(
            generation=self.generation,
            documents=self._live.n_documents,
            sections=sum(
                int(widths_of(segment.section_end)[mask].sum()) for segment, mask in pairs
            ),
            chunks=self._live.n_chunks,
            bytes=sum(int(segment.sizes[mask].sum()) for segment, mask in pairs),
            tokens=self.sparse.n_tokens,
            entities=sum(self.graph.entity_types().values()),
            mentions=self.graph.n_mentions,
            relations=sum(self.graph.relation_types().values()),
            vectors=0 if self.dense is None else len(self.dense),
            dimensions=0 if self.dense is None else self.dense.dim,
            by_type=dict(sorted(by_type.items())),
            by_source=by_source,
        )

    def coverage(self) -> list[Coverage]:
        """What the last update of each source saw, by name of the source."""
        known = self._opened.state.coverage
        if self._whole is self:
            return list(known)
        sizes: dict[str, list[int]] = {}
        for document, _ in self._live.catalogue:
            sizes.setdefault(document.source, []).append(document.size)
        return [
            Coverage(each.source, len(sizes[each.source]), sum(sizes[each.source]), each.updated)
            for each in known
            if each.source in sizes
        ]

    def sources(self) -> list[Source]:
        """The sources of this view's documents, by name."""
        here = {document.source for document, _ in self._live.catalogue}
        return [source for source in self._opened.state.sources if source.name in here]

    # Documents

    def document(self, doc_id: str) -> Document:
        """KeyError when this view has no such document."""
        segment, number = self._document(doc_id)
        return segment.document(number)

    def find_document(self, path: str, source: str | None = None) -> list[Document]:
        """Documents with this logical path (in one source, or in all)."""
        return list(self.graph.links.documents(path, source))

    def documents(
        self,
        *,
        source: str | None = None,
        type: str | None = None,
        version: str | None = None,
        path: str | None = None,
    ) -> Iterator[Document]:
        """Documents in order of (source, path); `path` is a glob (``*`` stops at ``/``, ``**``
        does not).
        """
        pattern = None if path is None else path_pattern(path)
        for document, _ in self._live.catalogue:
            if (
                (source is None or document.source == source)
                and (type is None or document.type == type)
                and (version is None or document.version == version)
                and (pattern is None or pattern.fullmatch(document.path))
            ):
                yield document

    def sections(self, doc_id: str) -> tuple[Section, ...]:
        """The section tree of a document, in document order."""
        segment, number = self._document(doc_id)
        return segment.sections(number)

    def section(self, section_id: str) -> Section:
        """KeyError when this view has no such section."""
        spot = self._live.section(section_id)
        if spot is None:
            raise KeyError(f"there is no section {section_id!r}")
        return self._live.segments[spot.segment].section(spot.number)

    def chunks_of(self, doc_id: str) -> tuple[Chunk, ...]:
        """All chunks of a document, in document order."""
        segment, number = self._document(doc_id)
        return segment.chunks(number)

    def report(self, doc_id: str) -> Report:
        """What processing had to say about the document."""
        segment, number = self._document(doc_id)
        return segment.report(number)

    def raw(self, doc_id: str) -> memoryview:
        """The document's raw bytes, mapped; ``raw[start:end]`` of any span."""
        segment, number = self._document(doc_id)
        return segment.raw(number)

    def _document(self, doc_id: str) -> tuple[Segment, int]:
        spot = self._live.document(doc_id)
        if spot is None:
            raise KeyError(f"there is no document {doc_id!r}")
        return self._live.segments[spot.segment], spot.number

    # Chunks

    def chunk(self, chunk_id: str) -> Chunk:
        """KeyError when this view has no such chunk."""
        spot = self._chunk(chunk_id)
        return self._live.segments[spot.segment].chunk(spot.number)

    def chunks(self, chunk_ids: Iterable[str]) -> list[Chunk]:
        """As :meth:`chunk`, in the order asked for."""
        return [self.chunk(chunk_id) for chunk_id in chunk_ids]

    def at(self, cids: Sequence[int] | Int64Array) -> list[Chunk]:
        """The chunks of these cids, as `sparse` and `dense` answer them."""
        return [self._live.segments[owner].chunk(chunk) for owner, chunk in self._spots(cids)]

    def cids(self, chunk_ids: Iterable[str]) -> Int64Array:
        """The cid of each chunk; KeyError for one that this view does not have."""
        spots = [self._chunk(chunk_id) for chunk_id in chunk_ids]
        return np.array(
            [int(self._live.segments[spot.segment].cids[spot.number]) for spot in spots], np.int64
        )

    def ids_of(self, cids: Sequence[int] | Int64Array) -> list[str]:
        """The id of each cid; KeyError for one that this view does not have."""
        segments = self._live.segments
        return [segments[owner].chunk_ids[chunk] for owner, chunk in self._spots(cids)]

    def documents_of(self, cids: Sequence[int] | Int64Array) -> list[str]:
        """The document's id of each cid, without reading the chunks."""
        segments = self._live.segments
        return [
            segments[owner].docs[segments[owner].doc_of_chunk(chunk)]
            for owner, chunk in self._spots(cids)
        ]

    def has_chunk(self, chunk_id: str) -> bool:
        """Whether this view has the chunk."""
        return self._live.chunk(chunk_id) is not None

    def neighbours(self, chunk_id: str) -> tuple[str | None, str | None]:
        """The ids of the chunks before and behind it in its document."""
        spot = self._chunk(chunk_id)
        segment = self._live.segments[spot.segment]
        first, last = segment.chunk_range(segment.doc_of_chunk(spot.number))
        before, behind = spot.number - 1, spot.number + 1
        return (
            segment.chunk_ids[before] if before >= first else None,
            segment.chunk_ids[behind] if behind < last else None,
        )

    def chunk_at(self, doc_id: str, offset: int) -> Chunk:
        """The chunk that holds the raw byte `offset` of a document."""
        segment, number = self._document(doc_id)
        size = int(segment.sizes[number])
        if not 0 <= offset < max(size, 1):
            raise ValueError(f"offset must be in [0, {size}), got {offset}")
        first, last = segment.chunk_range(number)
        if first == last:
            raise ValueError(f"document {doc_id!r} has no chunks")
        place = int(np.searchsorted(segment.chunk_start[first:last], offset, side="right"))
        return segment.chunk(first + max(place - 1, 0))

    def text(self, chunk: Chunk | str) -> str:
        """The rendered text of a chunk or of the chunk with this id."""
        return self.chunk(chunk).text if isinstance(chunk, str) else chunk.text

    def near_duplicates(
        self, chunk_ids: Sequence[str] | None = None, threshold: float = 0.9
    ) -> dict[str, str]:
        """For each of these chunks (all, by document, when not given) the first of them with nearly
        the same text: see `gnomon.corpus.near_duplicates`. One that is like no earlier one has
        itself.
        """
        if chunk_ids is None:
            every = [chunk for doc, _ in self._live.catalogue for chunk in self.chunks_of(doc.id)]
        else:
            every = self.chunks(dict.fromkeys(chunk_ids))
        heads = near_duplicates([chunk.text for chunk in every], threshold)
        return {chunk.id: every[head].id for chunk, head in zip(every, heads, strict=True)}

    def _chunk(self, chunk_id: str) -> Spot:
        spot = self._live.chunk(chunk_id)
        if spot is None:
            raise KeyError(f"there is no chunk {chunk_id!r}")
        return spot

    def _spots(self, cids: Any) -> list[tuple[int, int]]:
        owners, chunks = self._live.of_cids(cids)
        if owners.size and int(owners.min()) < 0:
            unknown = np.asarray(cids)[owners < 0][0]
            raise KeyError(f"there is no chunk with cid {int(unknown)}")
        return list(zip(owners.tolist(), chunks.tolist(), strict=True))

    # Exact text search

    def matching(self, matcher: Matcher) -> Int64Array:
        """The cids of the chunks in whose rendered text a pattern matches, in order."""
        from .grep import matching_chunks

        return matching_chunks(self._live, matcher)

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
        matches_most: int | None = None,
    ) -> GrepResult:
        r"""Lines that match a regular expression (RE2 syntax) or, with `literal`, a text.

        Complete: the totals count every line of every document of this view. With `raw` lines are
        those of the raw bytes; without it, those of the chunks' rendered text (where
        ``max\_allowed\_packet`` is ``max_allowed_packet``), and the spans are the raw bytes that
        show them. `documents` limits the search to these ids; `limit` and `skip` choose the lines
        that are answered. With `matches_most`, no more matches than that are counted of a megabyte
        of text that RE2 must look through (`counted` says whether there are more).

        Raises ValueError for a pattern that is not one (it names the place) or is too large to be
        looked for everywhere, ImportError when
        google-re2 is missing (literals work without it).
        """
        from .grep import grep

        return grep(
            self._live,
            pattern,
            literal=literal,
            ignore_case=ignore_case,
            raw=raw,
            documents=documents,
            limit=limit,
            skip=skip,
            matches_most=matches_most,
        )
