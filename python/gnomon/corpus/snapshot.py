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
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from .model import Chunk, Document, Evidence, Report, Section, Source, Span

if TYPE_CHECKING:
    from ..bm25 import BM25Index
    from ..dense_index import DenseIndex

Int64Array = npt.NDArray[np.int64]
Direction = Literal["out", "in", "both"]

FIELDS = ("title", "heading", "body", "code")
"""Fields of the sparse index: the document's title, the titles of the sections from the root to the
chunk's, the chunk's text without code blocks, and its code blocks."""

COLUMNS = (
    "source",  # keyword: the source's name
    "source_kind",  # keyword: docs, code, qa, issue...
    "type",  # keyword: the document's type (markdown, java...)
    "language",  # keyword, None where the document has none
    "path",  # keyword: the logical path
    "folder",  # keywords: every folder above the document: a/b/c.md has a and a/b
    "version",  # keyword, None where unknown
    "doc",  # keyword: the document's id
    "section",  # keyword: the id of the chunk's section
    "within",  # keywords: the ids of the chunk's section and of all sections above it
    "kind",  # keyword: the chunk's kind (model.KINDS)
    "acl",  # keywords: who may read it
    "trust",  # keyword
)
"""Columns of the sparse index, for `gnomon.Filter` and `bm25_query.Where` and `Together`."""


class Coverage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the last update of a source saw; `left_out` is (path, reason, detail) of each file.

    `updated` is the time of that update in seconds since 1970. A view of some documents has no
    `left_out`, and counts what it holds.
    """

    source: str
    files: int
    bytes: int
    updated: float
    left_out: tuple[tuple[str, str, str], ...] = ()


class Stats(msgspec.Struct, frozen=True):
    """How much a snapshot holds. `bytes` are those of the raw documents."""

    generation: int
    documents: int
    sections: int
    chunks: int
    bytes: int
    tokens: int
    terms: int
    entities: int
    mentions: int
    relations: int
    vectors: int
    dimensions: int
    by_type: dict[str, int]
    by_source: dict[str, int]


class Node(msgspec.Struct, frozen=True):
    """An entity as the graph knows it.

    `name` is the spelling seen most often, `names` all spellings; `mentions` and `documents` count
    places and documents in this snapshot, `defined` the places that define it.
    """

    key: str
    type: str
    name: str
    names: tuple[str, ...]
    mentions: int
    documents: int
    defined: int


class GraphEdge(msgspec.Struct, frozen=True):
    """A relation with every place in this snapshot that shows it.

    Nodes are written as in `gnomon.corpus.Relation`. A link whose target is a document or section
    of this snapshot has that as its `target` (``doc:ID``, ``section:ID``), else ``path:...``.
    """

    type: str
    source: str
    target: str
    evidence: tuple[Evidence, ...]


class GrepLine(msgspec.Struct, frozen=True):
    """A line that matches: `span` is the line without its end, `matches` what matched.

    Both are raw bytes of the document. `chunk_id` is the chunk in which the first match begins.
    """

    doc_id: str
    path: str
    line: int
    span: Span
    matches: tuple[Span, ...]
    chunk_id: str


class GrepResult(msgspec.Struct, frozen=True):
    """Lines in order of documents, then lines. Totals count all, also what `limit` cut off.

    `scanned` is the documents that were looked at, of `documents` in all; `literals` what the
    trigram index looked for ("" when the pattern needs none, so that every document was looked at).
    """

    lines: tuple[GrepLine, ...]
    total_lines: int
    total_matches: int
    total_documents: int
    scanned: int
    documents: int
    literals: str


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
        A `gnomon.DenseIndex` over the chunks by cid (cosine), or None when the corpus has no
        vectors.
    embedder
        The name that the embedder of `dense` was given, or "".
    trigram, graph
        See the classes.
    """

    path: str
    generation: int
    principals: frozenset[str] | None
    sparse: BM25Index
    dense: DenseIndex | None
    embedder: str
    trigram: Trigrams
    graph: Graph

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Snapshot:
        """The newest committed generation at `path`, without an access scope.

        Raises FileNotFoundError when there is no corpus, CorruptIndex when it is damaged.
        """
        raise NotImplementedError

    def refresh(self) -> Snapshot:
        """The newest generation with the same access scope; self when it is this one."""
        raise NotImplementedError

    def permitted(self, principals: Iterable[str] | None) -> Snapshot:
        """The view of a reader: documents whose `acl` names one of `principals`.

        Documents that declare no acl are not in any view. None gives the snapshot without an access
        scope. Views are kept, so asking again costs nothing; making one costs a pass over the
        documents. A view of a view holds what both permit.
        """
        raise NotImplementedError

    def limited(self, doc_ids: Collection[str]) -> Snapshot:
        """The view in which only these documents exist. Unknown ids are left out.

        For statistics of a part of the corpus; to search in a part, pass a filter instead.
        """
        raise NotImplementedError

    # What there is

    def stats(self) -> Stats:
        """Counts of this view."""
        raise NotImplementedError

    def coverage(self) -> list[Coverage]:
        """What the last update of each source saw, by name of the source."""
        raise NotImplementedError

    def sources(self) -> list[Source]:
        """The sources of this view's documents, by name."""
        raise NotImplementedError

    # Documents

    def document(self, doc_id: str) -> Document:
        """KeyError when this view has no such document."""
        raise NotImplementedError

    def find_document(self, path: str, source: str | None = None) -> list[Document]:
        """Documents with this logical path (in one source, or in all)."""
        raise NotImplementedError

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
        raise NotImplementedError

    def sections(self, doc_id: str) -> tuple[Section, ...]:
        """The section tree of a document, in document order."""
        raise NotImplementedError

    def section(self, section_id: str) -> Section:
        """KeyError when this view has no such section."""
        raise NotImplementedError

    def chunks_of(self, doc_id: str) -> tuple[Chunk, ...]:
        """All chunks of a document, in document order."""
        raise NotImplementedError

    def report(self, doc_id: str) -> Report:
        """What processing had to say about the document."""
        raise NotImplementedError

    def raw(self, doc_id: str) -> memoryview:
        """The document's raw bytes, mapped; ``raw[start:end]`` of any span."""
        raise NotImplementedError

    # Chunks

    def chunk(self, chunk_id: str) -> Chunk:
        """KeyError when this view has no such chunk."""
        raise NotImplementedError

    def chunks(self, chunk_ids: Iterable[str]) -> list[Chunk]:
        """As :meth:`chunk`, in the order asked for."""
        raise NotImplementedError

    def at(self, cids: Sequence[int] | Int64Array) -> list[Chunk]:
        """The chunks of these cids, as `sparse` and `dense` answer them."""
        raise NotImplementedError

    def cids(self, chunk_ids: Iterable[str]) -> Int64Array:
        """The cid of each chunk; KeyError for one that this view does not have."""
        raise NotImplementedError

    def ids_of(self, cids: Sequence[int] | Int64Array) -> list[str]:
        """The id of each cid; KeyError for one that this view does not have."""
        raise NotImplementedError

    def documents_of(self, cids: Sequence[int] | Int64Array) -> list[str]:
        """The document's id of each cid, without reading the chunks."""
        raise NotImplementedError

    def has_chunk(self, chunk_id: str) -> bool:
        """Whether this view has the chunk."""
        raise NotImplementedError

    def neighbours(self, chunk_id: str) -> tuple[str | None, str | None]:
        """The ids of the chunks before and behind it in its document."""
        raise NotImplementedError

    def chunk_at(self, doc_id: str, offset: int) -> Chunk:
        """The chunk that holds the raw byte `offset` of a document."""
        raise NotImplementedError

    def text(self, chunk: Chunk | str) -> str:
        """The rendered text of a chunk or of the chunk with this id."""
        raise NotImplementedError

    # Exact text search

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
    ) -> GrepResult:
        r"""Lines that match a regular expression (RE2 syntax) or, with `literal`, a text.

        Complete: the totals count every line of every document of this view. With `raw` lines are
        those of the raw bytes; without it, those of the chunks' rendered text (where
        ``max\_allowed\_packet`` is ``max_allowed_packet``), and the spans are the raw bytes that
        show them. `documents` limits the search to these ids; `limit` and `skip` choose the lines
        that are answered.

        Raises ValueError for a pattern that is not one (it names the place), ImportError when
        google-re2 is missing (literals work without it).
        """
        raise NotImplementedError


class Trigrams:
    """Which documents can hold certain literals, raw or rendered; never misses one."""

    def candidates(self, needed: Any) -> list[str]:
        """Ids of the documents of the view that may match `needed`, in order.

        `needed` is a tree of `gnomon.corpus.literals`: bytes, ``All(...)``, ``Any(...)`` or None
        for "every document".
        """
        raise NotImplementedError


class Graph:
    """Entities and relations of a snapshot; everything has evidence in a document of the view.

    A *node* is an entity's key (``option:max_allowed_packet``), ``section:ID``, ``doc:ID``,
    ``url:ADDRESS`` or ``path:PATH#ANCHOR``.
    """

    def entity(self, key: str) -> Node | None:
        """The entity of this key, or None when the view has none."""
        raise NotImplementedError

    def find_entities(
        self, name: str, *, types: Collection[str] | None = None, limit: int = 20
    ) -> list[Node]:
        """Entities called `name`: exact spelling first, then any case, then as the last part of a
        qualified name, then those that begin with it; by number of mentions within each step.
        """
        raise NotImplementedError

    def similar(
        self, name: str, *, types: Collection[str] | None = None, limit: int = 5
    ) -> list[Node]:
        """Entities with a name that is spelt much like `name`, nearest first: for suggestions."""
        raise NotImplementedError

    def entities_of(self, chunk_id: str) -> list[tuple[Node, Evidence]]:
        """What a chunk names, in order of the places."""
        raise NotImplementedError

    def mentions(
        self, key: str, *, role: str | None = None, limit: int | None = None
    ) -> list[Evidence]:
        """Where an entity stands: definitions first, then in order of documents and places."""
        raise NotImplementedError

    def edges(
        self,
        node: str,
        relation: str | Collection[str] | None = None,
        direction: Direction = "both",
        *,
        types: Collection[str] | None = None,
        limit: int | None = None,
        skip: int = 0,
    ) -> list[GraphEdge]:
        """Relations of a node, those with the most evidence first, then by type and other end.

        `relation` is a type of relation or several; `types` keeps edges whose other end is of one
        of these types (an entity type, "section", "doc", "url", "path").
        """
        raise NotImplementedError

    def degree(self, node: str) -> dict[str, tuple[int, int]]:
        """For each type of relation how many edges go out of the node and come in."""
        raise NotImplementedError

    def relation_types(self) -> dict[str, int]:
        """Types of relations in the view and how many edges each has."""
        raise NotImplementedError

    def entity_types(self) -> dict[str, int]:
        """Types of entities in the view and how many entities each has."""
        raise NotImplementedError
