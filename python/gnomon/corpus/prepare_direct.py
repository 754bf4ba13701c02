"""A document for a segment straight from its drafts, without the public structs between.

It says what :func:`gnomon.corpus.prepare.prepared` says of the finished document, which tests
compare with it; it takes documents whose offsets are those of the raw bytes, and no extractor.
"""

from __future__ import annotations

import hashlib

from .. import _core
from .names import normalise
from .prepare_model import DERIVED, ROLES, Prepared, numbers_of
from .process import Drafted
from .stored import StoredSection, encoded, record_of

_ROLES = {role: number for number, role in enumerate(ROLES)}


def direct(drafted: Drafted, raw: bytes) -> tuple[Prepared, bytes, list[bytes], list[bytes]]:
    """The document, its record, and those of its sections and chunks."""
    document, _, _, sections, drafts, mentions, edges, report = drafted
    made = Prepared(
        document.path,
        doc_id=document.id,
        revision=document.revision,
        raw=raw,
        title=document.title,
        type=document.type,
        language=document.language,
        version=document.version,
        acl=document.acl,
        fallback=report.fallback,
        section_ids=bytes.fromhex("".join([section.id for section in sections])),
        section_parents=[section.parent for section in sections],
        headings=["\n".join(section.path) for section in sections],
        chunk_start=numbers_of(draft.start for draft in drafts),
        chunk_section=numbers_of(draft.section for draft in drafts),
    )
    chunks = _chunks(made, drafted, raw)
    starts, ends = [draft.start for draft in drafts], [draft.end for draft in drafts]
    made.keys, made.names, made.mentions = _core.pack_mentions(
        mentions, normalise, _ROLES, starts, ends
    )
    made.relation_types, made.nodes, made.edges, made.proofs = _core.pack_relations(
        edges, DERIVED, starts, ends
    )
    made.origins = ["rule"] if made.mentions or made.edges else []
    return made, record_of(document, report), _sections(drafted), chunks


def _sections(drafted: Drafted) -> list[bytes]:
    records = []
    for section in drafted.sections:
        heading, start = section.heading, section.start
        records.append(
            encoded(
                StoredSection(
                    heading.level if heading else 0,
                    heading.title if heading else "",
                    section.path,
                    section.parent,
                    (start, section.end),
                    (start, section.extent),
                    (heading.start, heading.end) if heading else None,
                    heading.anchor if heading else "",
                    heading.kind if heading else "root",
                )
            )
        )
    return records


def _characters(drafted: Drafted) -> dict[int, int] | None:
    """The number of characters before each end of a chunk; None where they are the bytes."""
    if drafted.text.work.isascii():
        return None
    bounds = sorted({place for draft in drafted.drafts for place in (draft.start, draft.end)})
    _, chars = drafted.text.offsets(bounds)
    return dict(zip(bounds, chars, strict=True))


def _chunks(made: Prepared, drafted: Drafted, raw: bytes) -> list[bytes]:
    """The records of the chunks; their ids and texts go into `made`."""
    parsed, sections, drafts = drafted.parsed, drafted.sections, drafted.drafts
    records, made.kinds, made.bodies, made.codes, texts = _core.chunk_records(
        drafts, parsed.atoms, raw, parsed.data, _characters(drafted)
    )
    ids = []
    seen: dict[tuple[int, str, bytes], int] = {}
    for draft, kind, text in zip(drafts, made.kinds, texts, strict=True):
        key = draft.section, kind, text
        occurrence = seen[key] = seen.get(key, -1) + 1
        name = f"{sections[draft.section].id}\x1f{kind}\x1f{occurrence}\x1f".encode()
        ids.append(hashlib.blake2b(name + text, digest_size=12).digest())
    made.chunk_ids = b"".join(ids)
    made.text = b"\n".join(texts)
    return records
