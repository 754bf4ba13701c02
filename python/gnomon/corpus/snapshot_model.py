"""What the reading interface of a corpus, `gnomon.corpus.snapshot`, answers with."""

from __future__ import annotations

import msgspec

from .model import Evidence, Span


class Coverage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the last update of a source saw; `left_out` is (path, reason, detail) of each file.

    `updated` is when that was seen first, in seconds since 1970: an update that sees the same
    changes nothing. A view of some documents has no
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
    counted: bool = True  # False: there are more matches than `total_matches`, on the same lines
