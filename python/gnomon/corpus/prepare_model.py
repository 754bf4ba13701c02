"""What the worker processes are told, and what they answer with: documents for a segment."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from .assemble import Limits
from .model import Block, Source
from .rawmap import rendered_many
from .stored import Packed

ROLES = ("mentions", "defines", "example")
DERIVED = ("parent", "next")  # relations that the section tree says: not stored
PROCESSING = 3  # rises when processing changes, so that an update does all documents anew


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


def numbers_of(values: Iterable[int]) -> bytes:
    """Numbers as little-endian uint32."""
    packed = array("I", values)
    assert packed.itemsize == 4
    return packed.tobytes()


def split_text(
    text: str, kind: str, given: Sequence[Block], raw_map: bytes, first: int
) -> tuple[str, str]:
    """A chunk's text outside and inside of its blocks of code; `first` is the chunk's start."""
    blocks = [block for block in given if block.kind == "code"]
    if not blocks:
        return ("", text) if kind == "code" else (text, "")
    if len(blocks) == len(given):
        return "", text
    data = text.encode("utf-8", "surrogatepass")
    body, code, at = [], [], 0
    places = rendered_many(
        raw_map, [place - first for block in blocks for place in (block.start, block.end)]
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
