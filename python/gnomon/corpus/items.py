"""From passages to items: spans in raw bytes, excerpts with marks, names, neighbours, scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .answers import Confidence, Edge, Item, Named, Related, Score
from .model import Chunk, Document, Section, Span
from .rawmap import locate_many, rendered_many
from .slots import Marker
from .snapshot import Snapshot
from .words import in_bytes

EXCERPT = {"ids": 0, "low": 400, "text": 1600, "full": 700}
_NAMES = {"ids": 0, "low": 0, "text": 5, "full": 5}
_RELATED = 3
_MATCHES = 20
_KEPT_MOST = 20_000  # passages whose names and neighbours are kept
_LINKS = ("see-also", "fixed-by", "causes")  # few of a section; others are for navigate
UNDECLARED = "undeclared"
NO_TIME = "0000-00-00T00:00:00Z"  # as wide as a time; who has a clock puts it in its place


@dataclass(frozen=True)
class Hit:
    """A passage that is to be shown; `spans` are raw matches that are known already, and with
    `told` the only ones to tell.
    """

    chunk: Chunk
    score: Score | None = None
    confidence: Confidence | None = None
    relaxed: str = ""
    edge: Edge | None = None
    spans: tuple[Span, ...] = ()
    related: tuple[Related, ...] = ()
    told: bool = False


@dataclass
class Presenter:
    """Makes items of one snapshot; keeps what several of them share."""

    snapshot: Snapshot
    detail: str
    marker: Marker | None = None
    regex_spans: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    kept: dict[str, tuple[tuple[Named, ...], tuple[Related, ...]]] = field(default_factory=dict)
    _documents: dict[str, Document] = field(default_factory=dict)
    _sections: dict[str, Section] = field(default_factory=dict)

    def item(self, hit: Hit) -> Item:
        """The item of a passage."""
        chunk = hit.chunk
        document = self.document(chunk.doc_id)
        marks = self._marks(hit)
        start, end = window(chunk.text, marks, EXCERPT[self.detail])
        shown = tuple((a - start, b - start) for a, b in marks if start <= a and b <= end)
        item = Item(
            chunk_id=chunk.id,
            source=document.source,
            path=document.path,
            span=chunk.span,
            lines=chunk.lines,
            matches=hit.spans if hit.told else self._raw(chunk, marks[:_MATCHES]),
            excerpt=chunk.text[start:end],
            marks=shown[:_MATCHES],
            cut=start > 0 or end < len(chunk.text),
            confidence=hit.confidence,
            edge=hit.edge,
            relaxed=hit.relaxed,
            new=True,
            retrieved_at=NO_TIME,
        )
        score = hit.score
        if self.detail == "ids":
            item.score = None if score is None else Score(score.value)
            return item
        section = self.section(chunk.section_id)
        item.title = document.title
        item.heading = section.path
        item.acl_scope = self.acl(document)
        if self.detail in ("low", "text"):
            item.score = None if score is None else Score(score.value)
            item.related = hit.related
            if self.detail == "text":
                item.revision, item.section_id = document.revision, chunk.section_id
                item.entities = self.names(chunk.id)
            return item
        item.score = score
        self._all(item, chunk, document, hit)
        return item

    def _all(self, item: Item, chunk: Chunk, document: Document, hit: Hit) -> None:
        item.doc_id = document.id
        item.revision = document.revision
        item.section_id = chunk.section_id
        item.kind = chunk.kind
        item.type = document.type
        item.version = document.version
        item.url = document.url
        names, related = self._beside(chunk)
        item.entities = names
        item.related = hit.related or related

    def _beside(self, chunk: Chunk) -> tuple[tuple[Named, ...], tuple[Related, ...]]:
        """Names and neighbours of a passage; those of hot passages are kept."""
        known = self.kept.get(chunk.id)
        if known is None:
            known = self.names(chunk.id), self.related(chunk)
            if len(self.kept) >= _KEPT_MOST:
                self.kept.clear()
            self.kept[chunk.id] = known
        return known

    def document(self, doc_id: str) -> Document:
        """A document, read once."""
        known = self._documents.get(doc_id)
        if known is None:
            known = self._documents[doc_id] = self.snapshot.document(doc_id)
        return known

    def section(self, section_id: str) -> Section:
        """A section, read once."""
        known = self._sections.get(section_id)
        if known is None:
            known = self._sections[section_id] = self.snapshot.section(section_id)
        return known

    def acl(self, document: Document) -> str:
        """The access scopes that let this reader see a document."""
        names = document.acl
        if self.snapshot.principals is not None:
            names = tuple(name for name in names if name in self.snapshot.principals)
        return ",".join(names) or UNDECLARED

    def names(self, chunk_id: str) -> tuple[Named, ...]:
        """What a passage names: definitions first, then as they stand."""
        roles: dict[str, str] = {}
        for key, role in self.snapshot.graph.keys_in(chunk_id):
            if roles.get(key) != "defines":
                roles[key] = role
        ranked = sorted(roles, key=lambda key: roles[key] != "defines")
        return tuple(Named(key, roles[key]) for key in ranked[: _NAMES[self.detail]])

    def related(self, chunk: Chunk) -> tuple[Related, ...]:
        """The neighbours of a passage, and where its section leads."""
        before, behind = self.snapshot.neighbours(chunk.id)
        found = [Related("prev", before, False)] if before else []
        if behind:
            found.append(Related("next", behind))
        above = self.section(chunk.section_id).parent
        if above:
            found.append(Related("parent", f"section:{above}"))
        node = f"section:{chunk.section_id}"
        for edge in self.snapshot.graph.edges(node, _LINKS, "out", limit=_RELATED):
            found.append(Related(edge.type, edge.target))
        return tuple(found)

    def _marks(self, hit: Hit) -> list[Span]:
        """The characters of the chunk's text that match."""
        chunk = hit.chunk
        found: list[Span] = []
        if self.marker is not None:
            code = any(block.kind == "code" for block in chunk.blocks)
            found += self.marker.marks(chunk.text, code)
        spans = (*hit.spans, *self.regex_spans.get(chunk.id, ()))
        if spans:
            found += _characters(chunk, spans)
        return merged(found)

    def _raw(self, chunk: Chunk, marks: Sequence[Span]) -> tuple[Span, ...]:
        if not marks:
            return ()
        base = chunk.span[0]
        found = locate_many(chunk.raw_map, in_bytes(chunk.text, list(marks)))
        return tuple((base + start, base + end) for start, end in found)


def merged(spans: Sequence[Span]) -> list[Span]:
    """Spans in order, those that overlap or touch as one.

    >>> merged([(4, 6), (0, 2), (2, 3)])
    [(0, 3), (4, 6)]
    """
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif end > start:
            found.append((start, end))
    return found


def _characters(chunk: Chunk, spans: Sequence[Span]) -> list[Span]:
    """Raw spans of a document as characters of a chunk's text."""
    data = chunk.text.encode("utf-8", "surrogatepass")
    first, last = chunk.span
    found = []
    for start, end in spans:
        start, end = max(start, first), min(end, last)
        if start < end:
            a, b = rendered_many(chunk.raw_map, (start - first, end - 1 - first))
            found.append((_length(data[:a]), _length(data[: b + 1])))
    return found


def _length(data: bytes) -> int:
    """Characters that begin in this UTF-8, which may end inside of one."""
    if data.isascii():
        return len(data)
    return sum(1 for byte in data if byte & 0xC0 != 0x80)


def window(text: str, marks: Sequence[Span], limit: int) -> Span:
    """The part of a text, at most `limit` characters, with the most marks; the first if several.

    It begins at a word, and a third of the room stands before its first mark where there is text.

    >>> window("one two three four", [(14, 18)], 10)
    (8, 18)
    """
    if len(text) <= limit:
        return 0, len(text)
    best, most = 0, -1
    starts = [mark[0] for mark in marks] or [0]
    for i, start in enumerate(starts):
        held = sum(1 for _, end in marks[i : i + 50] if end <= start + limit)
        if held > most:
            best, most = start, held
    last = max((end for _, end in marks if end <= best + limit), default=best)
    room = min(limit // 3, limit - (last - best))
    start = max(0, min(best - room, len(text) - limit))
    while 0 < start < best and not text[start - 1].isspace():
        start += 1
    return start, min(start + limit, len(text))
