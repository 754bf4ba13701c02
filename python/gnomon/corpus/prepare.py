"""The work on a document that needs nothing of the index: done in worker processes.

A :class:`Prepared` is a processed document in the form in which a segment takes it: encoded
records, ids as bytes, texts by field, mentions and relations as arrays of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from .._collector import no_collections
from . import finish
from .assemble import Limits
from .detect import detect_type
from .extractor import Extractor, apply_extractor
from .model import Chunk, Evidence, ProcessedDocument, Source, document_id, revision_of
from .prepare_direct import direct
from .prepare_model import (
    DERIVED,
    ROLES,
    Prepared,
    PreparedBatch,
    Task,
    numbers_of,
    split_text,
)
from .process import draft_document
from .stored import Packed, stored_chunks, stored_document, stored_sections


def prepare(
    tasks: Iterable[Task],
    source: Source,
    limits: Limits | None = None,
    extractor: Extractor | None = None,
) -> PreparedBatch:
    """Prepares documents in order; what cannot be read has an `error`."""
    with no_collections():  # of a million objects and hardly a cycle: a tenth of the time
        return _prepare(tasks, source, limits or Limits(), extractor)


def _prepare(
    tasks: Iterable[Task], source: Source, limits: Limits, extractor: Extractor | None
) -> PreparedBatch:
    documents: list[Prepared] = []
    of_documents: list[bytes] = []
    of_sections: list[bytes] = []
    of_chunks: list[bytes] = []
    for task in tasks:
        raw = task.raw
        if raw is None:
            try:
                with open(task.place, "rb", buffering=0) as file:
                    raw = file.read()
            except OSError as error:
                documents.append(Prepared(task.path, error=error.strerror or str(error)))
                continue
        if task.known and task.known == revision_of(raw):
            same = Prepared(task.path, same=True, doc_id=document_id(source.name, task.path))
            documents.append(same)
            continue
        kind = detect_type(task.path, raw[:2048])
        drafted = draft_document(
            raw, source, task.path, kind, limits, derived=extractor is not None
        )
        if extractor is None and drafted.text.same_offsets:
            made, document, sections, chunks = direct(drafted, raw)
        else:
            done = finish.finish(*drafted)
            if extractor is not None:
                done = apply_extractor(done, extractor)
            made, document = prepared(done, raw), stored_document(done)
            sections, chunks = stored_sections(done), stored_chunks(done, raw)
        documents.append(made)
        of_documents.append(document)
        of_sections += sections
        of_chunks += chunks
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
        chunk_start=numbers_of(chunk.span[0] for chunk in done.chunks),
        chunk_section=numbers_of(numbers[chunk.section_id] for chunk in done.chunks),
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
    return split_text(chunk.text, chunk.kind, chunk.blocks, chunk.raw_map, chunk.span[0])


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
    made.mentions = numbers_of(mentions)
    made.relation_types = list(types)
    made.nodes = list(nodes)
    made.edges = numbers_of(edges)
    made.proofs = numbers_of(proofs)
    made.origins = list(origins)
