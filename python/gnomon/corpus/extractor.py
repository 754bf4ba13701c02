"""The hook for an extractor that is not deterministic, such as a language model.

It sees a document's chunks and returns claims; a claim counts only if the words it quotes stand in
the text of the chunk that it names. What counts is added to the document's entities and relations
with ``origin="model:NAME"``, so that it can be told apart, filtered and removed.

>>> from gnomon.corpus import process_document
>>> class Toy:
...     name = "toy"
...     def __call__(self, document, chunks):
...         return [Claim(chunks[0].id, "engine", name, name) for name in ("InnoDB", "X")]
>>> done = process_document(b"Use InnoDB.", "docs", path="a.txt", extractor=Toy())
>>> done.entities[0].key, done.entities[0].evidence[0].start, done.entities[0].evidence[0].origin
('engine:innodb', 4, 'model:toy')
>>> done.report.problems
["toy: 'X' does not stand in the chunk it names"]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from .model import Chunk, Document, Entity, Evidence, ProcessedDocument, Relation
from .names import key_of, normalise
from .rawmap import locate


class Claim(NamedTuple):
    """An entity, or with `target` a relation of type `type` from `name` to `target` (keys of
    nodes).

    `quote` are the words of the chunk that show it.
    """

    chunk_id: str
    type: str
    name: str
    quote: str
    target: str = ""
    role: str = "mentions"


class Extractor(Protocol):
    """Anything with a name that turns chunks into claims."""

    name: str

    def __call__(self, document: Document, chunks: Sequence[Chunk]) -> Iterable[Claim]:
        """The claims about a document."""


def apply_extractor(done: ProcessedDocument, extractor: Extractor) -> ProcessedDocument:
    """`done` with the extractor's claims that their chunks bear out; the others become problems."""
    chunks = {chunk.id: chunk for chunk in done.chunks}
    entities = {entity.key: entity for entity in done.entities}
    relations = {(r.type, r.source, r.target): r for r in done.relations}
    for claim in extractor(done.document, done.chunks):
        evidence = _evidence(chunks.get(claim.chunk_id), claim, extractor.name)
        if evidence is None:
            done.report.problems.append(
                f"{extractor.name}: {claim.quote[:80]!r} does not stand in the chunk it names"
            )
        elif claim.target:
            edge = claim.type, claim.name, claim.target
            known = relations.get(edge) or Relation(*edge, ())
            relations[edge] = msgspec.structs.replace(known, evidence=(*known.evidence, evidence))
        else:
            key = key_of(claim.type, claim.name)
            name = normalise(claim.type, claim.name)
            entity = entities.get(key) or Entity(claim.type, claim.name, name, ())
            entities[key] = msgspec.structs.replace(entity, evidence=(*entity.evidence, evidence))
    return msgspec.structs.replace(
        done,
        entities=tuple(entities[key] for key in sorted(entities)),
        relations=tuple(relations[edge] for edge in sorted(relations)),
    )


def _evidence(chunk: Chunk | None, claim: Claim, name: str) -> Evidence | None:
    at = chunk.text.find(claim.quote) if chunk is not None and claim.quote else -1
    if chunk is None or at < 0:
        return None
    begin = len(chunk.text[:at].encode("utf-8"))
    start, end = locate(chunk.raw_map, begin, begin + len(claim.quote.encode("utf-8")))
    first = chunk.span[0]
    return Evidence(chunk.id, first + start, first + end, claim.role, f"model:{name}")
