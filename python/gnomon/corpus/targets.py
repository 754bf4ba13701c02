"""What a caller's name stands for: a passage, section, document, or entities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .engine import UnknownTargetError
from .model import Chunk, Document, Section, Span
from .nohit import suggestions
from .query_compile import Compiler
from .snapshot import Node, Snapshot

if TYPE_CHECKING:
    from .engine import Engine


@dataclass(frozen=True)
class Target:
    """Exactly one of these is set; `span` is a part of the document, in raw bytes."""

    chunk: Chunk | None = None
    section: Section | None = None
    document: Document | None = None
    span: Span | None = None
    entities: tuple[Node, ...] = ()
    guessed: bool = False  # the entities are not called so, only alike


def find(engine: Engine, name: str, entities: bool = True) -> Target:
    """Raises UnknownTargetError, with names that are spelt alike."""
    snapshot = engine.snapshot
    place = find_place(snapshot, name)
    if place is not None:
        return place
    if entities:
        found = _entities(snapshot, name.removeprefix("entity:"))
        if found.entities:
            return found
    paths = _paths(engine, name)
    if len(paths) == 1:
        return Target(document=paths[0])
    if paths:
        raise UnknownTargetError(
            "document", name, [f"several end so: {each.path}" for each in paths[:5]]
        )
    what = "entity" if entities else "document"
    instead = suggestions(name, Compiler(engine.slots)) if entities and name else []
    raise UnknownTargetError(what, name, [f"spelt alike: {', '.join(instead)}"] if instead else [])


def find_place(snapshot: Snapshot, name: str) -> Target | None:
    """A passage, section or document by its id, or a document by its path (and bytes of it)."""
    kind, _, rest = name.partition(":")
    try:
        if kind == "section":
            return Target(section=snapshot.section(rest))
        if kind == "doc":
            return Target(document=snapshot.document(rest))
        chunk_id = rest if kind == "chunk" else name
        if snapshot.has_chunk(chunk_id):
            return Target(chunk=snapshot.chunk(chunk_id))
    except KeyError:
        return None
    documents = snapshot.find_document(name)
    if len(documents) == 1:
        return Target(document=documents[0])
    return _part_of_path(snapshot, name)


def _part_of_path(snapshot: Snapshot, name: str) -> Target | None:
    """``PATH:START-END``, with the raw bytes of a document."""
    path, _, part = name.rpartition(":")
    start, _, end = part.partition("-")
    if not (path and _is_number(start) and _is_number(end)):
        return None
    for document in snapshot.find_document(path):
        span = (min(int(start), document.size), min(int(end), document.size))
        if span[0] < span[1]:
            return Target(document=document, span=span)
    return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


def _paths(engine: Engine, name: str) -> list[Document]:
    """Documents whose path ends in `name`."""
    part = name.strip("/")
    if not part or len(part) > 1000:
        return []
    called = engine.by_file_name.get(part.rpartition("/")[2], [])
    return [each for each in called if f"/{each.path}".endswith(f"/{part}")]


def _entities(snapshot: Snapshot, name: str) -> Target:
    """The entities of this key or name; if none is called so, the one that comes nearest."""
    known = snapshot.graph.entity(name)
    if known is not None:
        return Target(entities=(known,))
    kind, _, rest = name.partition(":")
    nodes = snapshot.graph.find_entities(name)
    if not nodes and rest:
        nodes = snapshot.graph.find_entities(rest, types=[kind])
        name = rest
    low = name.casefold()
    called = [
        node
        for node in nodes
        if low == node.key.partition(":")[2] or low in (each.casefold() for each in node.names)
    ]
    if called:
        return Target(entities=tuple(called))
    return Target(entities=tuple(nodes[:1]), guessed=True)
