"""The "bm25" part of an index directory: the files of each segment, and what the manifest says.

Segment 0 has the files "postings", "ids", "texts", "columns" and "dead", segment N "postings_N" and
so on; all but the first only where there are any. A file never changes: deletions make a new file
"dead", and the postings are taken over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from . import _core
from .bm25_ids import SegmentIds
from .bm25_segment import Segment, State, joined_columns, joined_ids, pairs
from .bm25_texts import Texts
from .column_values import are_kinds
from .columns import ColumnBlock
from .storage import Directory, DirectoryWriter

PART = "bm25"
POSTINGS = ("plain", "packed")  # by Layout.packed
_ROLES = ("postings", "ids", "texts", "columns", "dead")


@dataclass(frozen=True)
class Layout:
    """What all segments of an index have in common."""

    kind: str = "position"  # of the ids: 'position', 'int' or 'str'
    fields: tuple[str, ...] = ()
    store_text: bool = False
    positions: bool = False
    columns: tuple[tuple[str, str], ...] = ()  # names and kinds
    next_id: int = 0  # the next automatic id; ids are not given twice
    next_number: int = 0  # the next segment's
    packed: bool = False  # how postings are written; each file says how it was

    def to_meta(self) -> dict[str, Any]:
        """Its entries in the manifest."""
        return {
            "ids": self.kind,
            "fields": list(self.fields),
            "store_text": self.store_text,
            "positions": self.positions,
            "columns": [list(column) for column in self.columns],
            "next_id": self.next_id,
            "next_number": self.next_number,
            "postings": POSTINGS[self.packed],
        }

    @classmethod
    def of_meta(cls, meta: dict[str, Any]) -> Layout:
        """Checks what a manifest says; it can be forged. Raises CorruptIndex."""
        try:
            kind, fields, texts = meta["ids"], meta["fields"], meta["store_text"]
            next_id, next_number = meta["next_id"], meta["next_number"]
            positions, columns = meta["positions"], meta["columns"]
            postings = meta.get("postings", "plain")  # an older index is plain
        except KeyError as error:
            raise damaged(f"{error} is missing") from None
        if (
            kind not in ("position", "int", "str")
            or not isinstance(fields, list)
            or not all(isinstance(name, str) for name in fields)
            or len(set(fields)) != len(fields)
            or type(texts) is not bool
            or type(positions) is not bool
            or not are_kinds(columns)
            or postings not in POSTINGS
            or not all(type(n) is int and 0 <= n < 2**62 for n in (next_id, next_number))
        ):
            raise damaged("its settings contradict one another")
        kinds = tuple((name, kind) for name, kind in columns)
        packed = postings == "packed"
        return cls(kind, tuple(fields), texts, positions, kinds, next_id, next_number, packed)


def damaged(what: str) -> _core.CorruptIndex:
    """An error of the manifest's part."""
    return _core.CorruptIndex(f"the manifest's bm25 part is damaged: {what}; build the index again")


def role(name: str, number: int) -> str:
    """What the manifest calls a file of segment `number`."""
    return f"{name}_{number}" if number else name


def write_segment(
    writer: DirectoryWriter, sources: Sequence[Segment], number: int, packed: bool
) -> None:
    """The live documents of `sources` as the new segment `number`, one pass after the other."""
    postings = _core.ContainerWriter(writer.file(PART, role("postings", number)))
    first = sources[0]
    if len(sources) == 1 and first.n_dead == 0 and (packed or not first.core.is_packed):
        first.core.write(postings, packed)
    else:
        _core.merge_segments_to(pairs(sources), postings, packed)
    postings.finish()
    ids = joined_ids(sources)
    if ids.kind != "position":
        ids.write(writer.file(PART, role("ids", number)))
    if any(segment.texts is not None for segment in sources):
        Texts.write_joined(
            [segment.texts for segment in sources],
            [segment.keep for segment in sources],
            writer.file(PART, role("texts", number)),
        )
    columns = joined_columns(sources)
    if columns is not None:
        file = _core.ContainerWriter(writer.file(PART, role("columns", number)))
        columns.write(file)
        file.finish()


def segment_meta(sources: Sequence[Segment], number: int) -> dict[str, Any]:
    """The manifest's entry of a segment that :func:`write_segment` wrote."""
    n_docs = sum(segment.n_docs for segment in sources)
    return {"number": number, "docs": n_docs, "dead": 0, "ids": joined_ids(sources).to_meta()}


def keep_segment(writer: DirectoryWriter, segment: Segment) -> dict[str, Any]:
    """Takes a segment's files over, with new deletions if there are any; its manifest entry."""
    number = segment.number
    if number is None:
        raise ValueError("a segment that has no files cannot be kept")
    names = ["postings"]
    if segment.ids.kind != "position":
        names.append("ids")
    if segment.texts is not None:
        names.append("texts")
    if segment.columns is not None:
        names.append("columns")
    if segment.n_dead and segment.n_dead == segment.saved_dead:
        names.append("dead")
    for name in names:
        writer.keep(PART, role(name, number))
    if segment.dead is not None and segment.n_dead != segment.saved_dead:
        dead = _core.ContainerWriter(writer.file(PART, role("dead", number)))
        dead.section("dead", segment.dead)
        dead.finish()
    return {
        "number": number,
        "docs": segment.core.n_docs,
        "dead": segment.n_dead,
        "ids": segment.ids.to_meta(),
    }


def read_state(
    directory: Directory, layout: Layout, entries: Any, known: State | None = None
) -> State:
    """The segments of an opened directory; those of `known` that are the same are taken over."""
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise damaged("the list of segments")
    numbers = [entry.get("number") for entry in entries]
    if not all(type(n) is int and 0 <= n < layout.next_number for n in numbers) or len(
        set(numbers)
    ) != len(numbers):
        raise damaged("the numbers of the segments")
    old = {segment.number: segment for segment in (known.segments if known is not None else ())}
    segments = [
        _read_segment(directory, layout, entry, old.get(entry["number"])) for entry in entries
    ]
    expected = {role(name, number) for number in numbers for name in _ROLES}
    if not expected.issuperset(directory.files(PART)):
        raise damaged("it names files that no segment has")
    try:
        return State(segments)
    except ValueError as error:
        raise damaged(str(error)) from None


def _read_columns(
    directory: Directory, layout: Layout, number: int, n_docs: int
) -> ColumnBlock | None:
    if role("columns", number) not in directory.files(PART):
        return None
    block = ColumnBlock.read(directory.container(PART, role("columns", number)), n_docs)
    kinds = dict(layout.columns)
    if any(kinds.get(name) != kind for name, kind in block.kinds.items()):
        raise damaged(f"the columns of segment {number} are of another kind")
    return block


def _read_segment(
    directory: Directory, layout: Layout, entry: dict[str, Any], known: Segment | None
) -> Segment:
    number: int = entry["number"]
    if known is None:
        core = _core.Bm25Index.open(directory.container(PART, role("postings", number)))
        if core.has_positions != layout.positions:
            raise damaged(f"the positions of segment {number}")
        if entry.get("docs") != core.n_docs or core.n_fields != max(len(layout.fields), 1):
            raise damaged(f"segment {number} is not the one of the manifest")
        ids = SegmentIds.open(directory, role("ids", number), core.n_docs, entry.get("ids"))
        automatic = layout.kind == "position"
        kinds = ("position", "int") if automatic else (layout.kind,)
        if ids.kind not in kinds or (automatic and not ids.within(layout.next_id)):
            raise damaged(f"the ids of segment {number} are of another kind")
        texts = None
        if layout.store_text:
            container = directory.container(PART, role("texts", number))
            texts = Texts.open(container, core.n_docs, layout.fields)
        columns = _read_columns(directory, layout, number, core.n_docs)
        known = Segment(core, ids, texts, columns, number=number)
    n_dead = entry.get("dead")
    if type(n_dead) is not int or not 0 <= n_dead <= known.core.n_docs:
        raise damaged(f"the deletions of segment {number}")
    if n_dead == 0:
        return replace(known, dead=None, n_dead=0, saved_dead=0)
    dead = directory.container(PART, role("dead", number)).array("dead")
    if (
        dead.dtype != np.uint64
        or dead.shape != ((known.core.n_docs + 63) // 64,)
        or int(np.unpackbits(dead.view(np.uint8)).sum()) != n_dead
    ):
        raise damaged(f"the deletions of segment {number}")
    return replace(known, dead=dead, n_dead=n_dead, saved_dead=n_dead)
