"""The work on a document that needs nothing of the index: done in worker processes.

A :class:`Prepared` is a processed document in the form in which a segment takes it: encoded
records, ids as bytes, texts by field, mentions and relations as arrays of numbers.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from .assemble import Limits
from .extractor import Extractor
from .model import Chunk, Evidence, ProcessedDocument, Source, document_id, revision_of
from .process import process_document
from .rawmap import rendered_many
from .stored import Packed, stored_chunks, stored_document, stored_sections

ROLES = ("mentions", "defines", "example")
DERIVED = ("parent", "next")  # relations that the section tree says: not stored
PROCESSING = 1  # rises when processing changes, so that an update does all documents anew


class Task(NamedTuple):
    """A document to prepare: `raw` or the `place` of its file; `known` is the revision indexed."""

    path: str
    place: str
    raw: bytes | None
    known: str


class Prepared(msgspec.Struct, array_like=True):
    """A document for a segment, or why there is none.

    Numbers are little-endian uint32: `chunk_start` and `chunk_section` one for each chunk;
    `mentions` (entity, chunk, start, length, role, origin); `edges` (type, source, target,
    evidence); `proofs` (chunk, start, length, role, origin) of the edges in order.
    """

    path: str
    same: bool = False  # as indexed; all else is empty
    error: str = ""
    doc_id: str = ""
    revision: str = ""
    raw: bytes = b""
    text: bytes = b""  # rendered, a line feed between chunks; and decoded where not UTF-8
    title: str = ""
    type: str = ""
    language: str = ""
    version: str = ""
    acl: tuple[str, ...] = ()
    fallback: str = ""
    section_ids: bytes = b""
    section_parents: list[int] = []
    headings: list[str] = []  # of each section: the titles from the root, a line each
    chunk_ids: bytes = b""
    chunk_start: bytes = b""
    chunk_section: bytes = b""
    kinds: list[str] = []
    bodies: list[str] = []
    codes: list[str] = []
    keys: list[str] = []  # of the entities
    names: list[str] = []
    mentions: bytes = b""
    relation_types: list[str] = []
    nodes: list[str] = []
    edges: bytes = b""
    proofs: bytes = b""
    origins: list[str] = []


class PreparedBatch(msgspec.Struct, array_like=True):
    """Documents and their packed records: of those that are neither same nor in error."""

    documents: list[Prepared]
    document_records: Packed
    section_records: Packed
    chunk_records: Packed


class Settings(msgspec.Struct, frozen=True, array_like=True):
    """What decides, beside the bytes, what becomes of a document."""

    source: Source
    limits: Limits | None = None
    extractor: str = ""
    processing: int = PROCESSING

    def digest(self) -> bytes:
        """The same for the same settings."""
        limits = None if self.limits is None else (self.limits.target, self.limits.limit)
        told = (self.source, limits, self.extractor, self.processing)
        return hashlib.blake2b(msgspec.msgpack.encode(told), digest_size=16).digest()


def prepare(
    tasks: Iterable[Task],
    source: Source,
    limits: Limits | None = None,
    extractor: Extractor | None = None,
) -> PreparedBatch:
    """Prepares documents in order; what cannot be read has an `error`."""
    documents: list[Prepared] = []
    of_documents: list[bytes] = []
    of_sections: list[bytes] = []
    of_chunks: list[bytes] = []
    for task in tasks:
        raw = task.raw
        if raw is None:
            try:
                with open(task.place, "rb") as file:
                    raw = file.read()
            except OSError as error:
                documents.append(Prepared(task.path, error=error.strerror or str(error)))
                continue
        if task.known and task.known == revision_of(raw):
            same = Prepared(task.path, same=True, doc_id=document_id(source.name, task.path))
            documents.append(same)
            continue
        done = process_document(raw, source, path=task.path, limits=limits, extractor=extractor)
        documents.append(prepared(done, raw))
        of_documents.append(stored_document(done))
        of_sections += stored_sections(done)
        of_chunks += stored_chunks(done, raw)
    return PreparedBatch(
        documents, Packed.of(of_documents), Packed.of(of_sections), Packed.of(of_chunks)
    )


def prepared(done: ProcessedDocument, raw: bytes) -> Prepared:
    """The form of a processed document that a segment takes."""
    document = done.document
    numbers = {section.id: section.ordinal for section in done.sections}
    texts = [split_code(chunk) for chunk in done.chunks]
    text = "\n".join(chunk.text for chunk in done.chunks)
    if document.encoding != "utf-8":  # of which the raw bytes have no trigrams to be found
        text += "\n" + raw.decode(document.encoding)
    made = Prepared(
        document.path,
        doc_id=document.id,
        revision=document.revision,
        raw=raw,
        text=text.encode("utf-8", "surrogatepass"),
        title=document.title,
        type=document.type,
        language=document.language,
        version=document.version,
        acl=document.acl,
        fallback=done.report.fallback,
        section_ids=bytes.fromhex("".join(section.id for section in done.sections)),
        section_parents=[
            -1 if section.parent is None else numbers[section.parent] for section in done.sections
        ],
        headings=["\n".join(section.path) for section in done.sections],
        chunk_ids=bytes.fromhex("".join(chunk.id for chunk in done.chunks)),
        chunk_start=_numbers(chunk.span[0] for chunk in done.chunks),
        chunk_section=_numbers(numbers[chunk.section_id] for chunk in done.chunks),
        kinds=[chunk.kind for chunk in done.chunks],
        bodies=[body for body, _ in texts],
        codes=[code for _, code in texts],
    )
    _add_graph(made, done)
    return made


def split_code(chunk: Chunk) -> tuple[str, str]:
    r"""The text of a chunk outside and inside of its blocks of code.

    >>> from gnomon.corpus import process_document
    >>> done = process_document(b"Run:\n\n```\nls -l\n```\n", "docs", path="a.md")
    >>> [split_code(chunk) for chunk in done.chunks]
    [('Run:', 'ls -l\n')]
    """
    blocks = [block for block in chunk.blocks if block.kind == "code"]
    if not blocks:
        return ("", chunk.text) if chunk.kind == "code" else (chunk.text, "")
    if len(blocks) == len(chunk.blocks):
        return "", chunk.text
    data = chunk.text.encode("utf-8", "surrogatepass")
    body, code, at = [], [], 0
    first = chunk.span[0]
    places = rendered_many(
        chunk.raw_map, [place - first for block in blocks for place in (block.start, block.end)]
    )
    for number in range(0, len(places), 2):
        start = max(at, _boundary(data, places[number]))
        end = max(start, _boundary(data, places[number + 1]))
        body.append(data[at:start])
        code.append(data[start:end])
        at = end
    body.append(data[at:])
    return (
        b"\n".join(filter(None, (part.strip() for part in body))).decode("utf-8", "surrogatepass"),
        b"\n".join(code).decode("utf-8", "surrogatepass"),
    )


def _boundary(data: bytes, place: int) -> int:
    """`place`, or the next one at which a character begins."""
    place = min(place, len(data))
    while place < len(data) and data[place] & 0xC0 == 0x80:
        place += 1
    return place


def _numbers(values: Iterable[int]) -> bytes:
    packed = array("I", values)
    assert packed.itemsize == 4
    return packed.tobytes()


def _add_graph(made: Prepared, done: ProcessedDocument) -> None:
    chunks = {chunk.id: chunk.ordinal for chunk in done.chunks}
    origins: dict[str, int] = {}
    roles = {role: number for number, role in enumerate(ROLES)}

    def proof(evidence: Evidence) -> tuple[int, int, int, int, int]:
        start, origin = evidence.start, evidence.origin
        return (
            chunks[evidence.chunk_id],
            start,
            evidence.end - start,
            roles.get(evidence.role, 0),
            origins.setdefault(origin, len(origins)),
        )

    mentions: list[int] = []
    for number, entity in enumerate(done.entities):
        made.keys.append(entity.key)
        made.names.append(entity.name)
        for evidence in entity.evidence:
            mentions.append(number)
            mentions += proof(evidence)
    nodes: dict[str, int] = {}
    types: dict[str, int] = {}
    edges: list[int] = []
    proofs: list[int] = []
    for relation in done.relations:
        shown = relation.evidence
        if relation.type in DERIVED and all(one.origin == "rule" for one in shown):
            continue
        edges += (
            types.setdefault(relation.type, len(types)),
            nodes.setdefault(relation.source, len(nodes)),
            nodes.setdefault(relation.target, len(nodes)),
            len(shown),
        )
        for evidence in shown:
            proofs += proof(evidence)
    made.mentions = _numbers(mentions)
    made.relation_types = list(types)
    made.nodes = list(nodes)
    made.edges = _numbers(edges)
    made.proofs = _numbers(proofs)
    made.origins = list(origins)
