"""The last step: ids, characters, lines, and the public structs in offsets of the raw bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from . import model
from .assemble import Draft, SectionDraft
from .builder import Atom, Edge, Parsed
from .mention_places import Mention
from .model import Block, Chunk, Document, Entity, Evidence, ProcessedDocument, Relation, Section
from .names import normalise
from .rawmap import COPIED, pack
from .source_text import SourceText

Raw = Callable[[int], int]


def finish(
    document: Document,
    text: SourceText,
    parsed: Parsed,
    sections: Sequence[SectionDraft],
    drafts: Sequence[Draft],
    mentions: Sequence[Mention],
    edges: Sequence[Edge],
    report: model.Report,
) -> ProcessedDocument:
    """The public form of what the parsers found."""
    bounds = sorted({0, *(draft.start for draft in drafts), *(draft.end for draft in drafts)})
    _, char_bounds = text.offsets(bounds)
    chars = dict(zip(bounds, char_bounds, strict=True))
    raw: Raw = identity
    if not text.same_offsets:
        raw = _converter(text, parsed, sections, drafts, mentions, edges)
    made = _chunks(document.id, text, parsed, sections, drafts, chars, raw)
    starts = [draft.start for draft in drafts]
    proof = _Proof(starts, [draft.end for draft in drafts], [chunk.id for chunk in made], raw)
    return ProcessedDocument(
        document,
        tuple(
            _section(document.id, number, section, sections, raw)
            for number, section in enumerate(sections)
        ),
        tuple(made),
        _entities(mentions, proof),
        _relations(edges, proof),
        report,
    )


def identity(place: int) -> int:
    return place


def _converter(
    text: SourceText,
    parsed: Parsed,
    sections: Sequence[SectionDraft],
    drafts: Sequence[Draft],
    mentions: Sequence[Mention],
    edges: Sequence[Edge],
) -> Raw:
    """Raw places for all places that are needed, found in one pass."""
    places = {0, len(text.work)}
    for section in sections:
        places |= {section.start, section.end, section.extent}
        if section.heading is not None:
            places |= {section.heading.start, section.heading.end}
    for draft in drafts:
        places |= {draft.start, draft.end}
    for atom in parsed.atoms:
        places.add(atom.start)
        places |= set(atom.header or ())
    for mention in mentions:
        places |= {mention.start, mention.end}
    for edge in edges:
        places |= {edge.start, edge.end}
    ordered = sorted(places)
    found, _ = text.offsets(ordered)
    return dict(zip(ordered, found, strict=True)).__getitem__


def _section(
    doc_id: str, number: int, section: SectionDraft, sections: Sequence[SectionDraft], raw: Raw
) -> Section:
    heading = section.heading
    return Section(
        id=section.id,
        doc_id=doc_id,
        ordinal=number,
        level=heading.level if heading else 0,
        title=heading.title if heading else "",
        path=section.path,
        parent=sections[section.parent].id if section.parent >= 0 else None,
        span=(raw(section.start), raw(section.end)),
        extent=(raw(section.start), raw(section.extent)),
        heading=(raw(heading.start), raw(heading.end)) if heading else None,
        anchor=heading.anchor if heading else "",
        kind=heading.kind if heading else "root",
    )


def _chunks(
    doc_id: str,
    text: SourceText,
    parsed: Parsed,
    sections: Sequence[SectionDraft],
    drafts: Sequence[Draft],
    chars: dict[int, int],
    raw: Raw,
) -> list[Chunk]:
    data, atoms = parsed.data, parsed.atoms
    made: list[Chunk] = []
    seen: dict[tuple[int, str, str], int] = {}
    line, counted = 1, 0
    same = raw is identity
    for number, draft in enumerate(drafts):
        section, first, after, start, end, words, marks, continued = draft
        blocks, kind = blocks_of(atoms, draft, raw)
        key = section, kind, words
        occurrence = seen[key] = seen.get(key, -1) + 1
        line += data.count(b"\n", counted, start)
        last_line = line + data.count(b"\n", start, end - 1)
        counted = start
        if same:
            packed = b"" if marks is None or marks == [0, end - start, COPIED] else pack(marks)
        else:
            packed = _raw_marks(text, draft)
        opening = atoms[first].header if first < after else None
        header = (raw(opening[0]), raw(opening[1])) if opening and opening[1] <= start else None
        made.append(
            Chunk(
                model.chunk_id(sections[section].id, kind, words, occurrence),
                doc_id,
                sections[section].id,
                number,
                kind,
                (start, end) if same else (raw(start), raw(end)),
                (chars[start], chars[end]),
                (line, last_line),
                words,
                packed,
                blocks,
                continued,
                header,
            )
        )
    return made


def blocks_of(atoms: Sequence[Atom], draft: Draft, raw: Raw) -> tuple[tuple[Block, ...], str]:
    """The chunk's parts of one kind each, and the kind of most of its bytes."""
    _, first, after, start, end, _, _, _ = draft
    if after - first == 1:
        atom = atoms[first]
        return (Block(atom.kind, raw(start), raw(end), atom.info),), atom.kind
    if first >= after:
        return (), "prose"
    blocks: list[Block] = []
    sizes: dict[str, int] = {}
    kind, info, begin = atoms[first].kind, atoms[first].info, start
    for index in range(first + 1, after + 1):
        if index < after:
            atom = atoms[index]
            if atom.kind == kind and atom.info == info:
                continue
            stop = min(max(atom.start, start), end)
        else:
            stop = end
        if stop > begin:
            blocks.append(Block(kind, raw(begin), raw(stop), info))
            sizes[kind] = sizes.get(kind, 0) + stop - begin
        if index < after:
            kind, info, begin = atom.kind, atom.info, stop
    if len(sizes) > 1:
        sizes.pop("heading", None)
    return tuple(blocks), max(sizes, key=sizes.__getitem__) if sizes else "prose"


def _raw_marks(text: SourceText, draft: Draft) -> bytes:
    """The map of a chunk of a document that is not UTF-8: one run for each character."""
    size = draft.end - draft.start
    marks = [0, size, COPIED] if draft.marks is None else draft.marks
    work, at, encoding = text.work, draft.start, text.encoding
    made: list[int] = []
    for i in range(0, len(marks), 3):
        skip = len(work[at : at + marks[i]].decode("utf-8").encode(encoding))
        at += marks[i]
        piece = work[at : at + marks[i + 1]].decode("utf-8")
        at += marks[i + 1]
        if marks[i + 2] != COPIED:
            made += (skip, len(piece.encode(encoding)), marks[i + 2])
            continue
        for character in piece:
            made += (skip, len(character.encode(encoding)), len(character.encode("utf-8")))
            skip = 0
    return pack(made)


class _Proof:
    """Turns places into evidence: which chunk, which raw bytes."""

    def __init__(self, starts: list[int], ends: list[int], ids: list[str], raw: Raw) -> None:
        self.starts, self.ends, self.ids, self.raw = starts, ends, ids, raw

    def __call__(self, start: int, end: int, role: str = "mentions") -> Evidence | None:
        index = bisect_right(self.starts, start) - 1
        if index < 0 or not self.ids:
            return None
        limit = self.ends[index]
        if end > limit:  # what crosses chunks counts for the first
            end = limit
        if end < start:
            end = start
        if self.raw is not identity:
            start, end = self.raw(start), self.raw(end)
        return Evidence(self.ids[index], start, end, role)


def _entities(mentions: Sequence[Mention], proof: _Proof) -> tuple[Entity, ...]:
    found: dict[tuple[str, str], tuple[str, list[Evidence]]] = {}
    for kind, name, start, end, role in mentions:
        evidence = proof(start, end, role)
        if evidence is not None:
            found.setdefault((kind, normalise(kind, name)), (name, []))[1].append(evidence)
    return tuple(
        Entity(kind, name, word, tuple(evidence))
        for (kind, word), (name, evidence) in sorted(found.items())
        if word
    )


def _relations(edges: Sequence[Edge], proof: _Proof) -> tuple[Relation, ...]:
    found: dict[tuple[str, str, str], dict[Evidence, None]] = {}
    for kind, source, target, start, end in edges:
        evidence = proof(start, end)
        if evidence is not None:
            found.setdefault((kind, source, target), {})[evidence] = None
    return tuple(Relation(*edge, tuple(evidence)) for edge, evidence in sorted(found.items()))
