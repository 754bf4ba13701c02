"""A dense index on the disk: one file of vectors for each segment, its ids and its live rows.

An index of one segment without dead rows is two files, ``vectors`` and ``ids``. Further segments
are ``s1_vectors``, ``s1_ids`` and so on; ``alive`` files hold the bitmaps, ``columns`` files what
filters ask about. A segment that the directory holds already is kept, not written again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from . import _core
from ._dense_segments import Segment, State
from .column_values import are_kinds
from .columns import ColumnBlock
from .results import Ids
from .storage import Directory, DirectoryWriter

PART = "dense"
Kinds = Sequence[tuple[str, str]]


def save(state: State, path: str | os.PathLike[str]) -> State:
    """Writes the state; returns it with what a next save may keep."""
    with DirectoryWriter(path) as writer:
        kept = _names_that_stand(state, path)
        names: list[str] = []
        for segment in state.segments:
            name = segment.name if segment.name in kept else None
            if name is None:
                name = next(n for n in names_in_order() if n not in kept and n not in names)
                write_segment(writer, segment, name)
            else:
                writer.keep(PART, f"{name}vectors")
                if segment.ids.kind != "position":
                    writer.keep(PART, f"{name}ids")
                if segment.columns is not None:
                    writer.keep(PART, f"{name}columns")
            if segment.alive is not None:
                file = _core.ContainerWriter(writer.file(PART, f"{name}alive"))
                file.section("alive", segment.alive)
                file.finish()
            names.append(name)
        parts = [
            entry_of(segment, name, segment.alive is not None)
            for segment, name in zip(state.segments, names, strict=True)
        ]
        meta = meta_of(state.kind, state.kinds, parts, state.counter, state.rows)
        writer.commit({PART: meta})
    segments = tuple(
        replace(segment, name=name) for segment, name in zip(state.segments, names, strict=True)
    )
    saved = (os.path.realpath(path), Directory.open(path).generation)
    return replace(state, segments=segments, saved=saved)


def _names_that_stand(state: State, path: str | os.PathLike[str]) -> set[str | None]:
    """Names of this state's segments whose files the directory holds; we hold its lock."""
    if state.saved is None or state.saved[0] != os.path.realpath(path):
        return set()
    try:
        generation = Directory.open(path).generation
    except (OSError, _core.CorruptIndex):
        return set()
    if generation != state.saved[1]:  # someone else wrote there since
        return set()
    return {segment.name for segment in state.segments if segment.name is not None}


def names_in_order() -> Iterator[str]:
    """What a directory may call its segments."""
    yield ""
    number = 0
    while True:
        number += 1
        yield f"s{number}_"


def write_segment(writer: DirectoryWriter, segment: Segment, name: str) -> None:
    """Files of a segment that the directory does not hold yet."""
    core = _core.ContainerWriter(writer.file(PART, f"{name}vectors"))
    segment.core.write(core)
    core.finish()
    if segment.ids.kind != "position":
        segment.ids.write(writer.file(PART, f"{name}ids"))
    if segment.columns is not None:
        columns = _core.ContainerWriter(writer.file(PART, f"{name}columns"))
        segment.columns.write(columns)
        columns.finish()


def entry_of(segment: Segment, name: str, dead: bool) -> dict[str, Any]:
    """The manifest's entry of a segment."""
    return {"name": name, "ids": segment.ids.kind, "alive": dead}


def meta_of(
    kind: str, kinds: Kinds, parts: list[dict[str, Any]], counter: int, rows: int
) -> dict[str, Any]:
    """What the manifest says of segments; `parts` are its entries for them."""
    known: dict[str, Any] = {"columns": [list(column) for column in kinds]} if kinds else {}
    if len(parts) == 1 and parts[0]["name"] == "" and not parts[0]["alive"] and counter == rows:
        return {"ids": parts[0]["ids"], **known}
    return {"ids": kind, "segments": parts, "counter": counter, **known}


def load(path: str | os.PathLike[str]) -> State:
    """Opens a saved state by memory map."""
    directory = Directory.open(path)
    meta = directory.meta(PART)
    if "segments" not in meta:
        core = _core.DenseIndex.open(directory.container(PART, "vectors"))
        ids = Ids.of_part(directory, PART, core.n_rows)
        columns = _columns(directory, "", core.n_rows)
        segments: tuple[Segment, ...] = (Segment(core, ids, name="", columns=columns),)
        counter = core.n_rows
    else:
        try:
            segments = tuple(_open(directory, entry) for entry in meta["segments"])
            counter = int(meta["counter"])
            sound = meta["ids"] in ("position", "int", "str") and len(segments) > 0
        except (KeyError, TypeError, ValueError) as error:
            raise _corrupt(directory, "its list of segments cannot be read") from error
        if not sound or any(s.core.dim != segments[0].core.dim for s in segments):
            raise _corrupt(directory, "its segments do not belong together")
    first = segments[0].core
    if any(segment.core.metric != first.metric for segment in segments):
        raise _corrupt(directory, "its segments differ in metric")
    kinds = meta.get("columns", [])
    found = [segment.columns.kinds for segment in segments if segment.columns is not None]
    if not are_kinds(kinds) or any(
        list(pair) not in kinds for block in found for pair in block.items()
    ):
        raise _corrupt(directory, "its columns are not those of the manifest")
    saved = (os.path.realpath(path), directory.generation)
    names = tuple((name, kind) for name, kind in kinds)
    return State(segments, meta["ids"], counter, first.dim, first.metric, kinds=names, saved=saved)


def _columns(directory: Directory, name: str, n: int) -> ColumnBlock | None:
    if f"{name}columns" not in directory.files(PART):
        return None
    return ColumnBlock.read(directory.container(PART, f"{name}columns"), n)


def _open(directory: Directory, entry: dict[str, Any]) -> Segment:
    name = str(entry["name"])
    core = _core.DenseIndex.open(directory.container(PART, f"{name}vectors"))
    ids = Ids(core.n_rows)
    if entry["ids"] != "position":
        ids = Ids.read(directory.container(PART, f"{name}ids"), core.n_rows)
        if ids.kind != entry["ids"]:
            raise _corrupt(directory, f"the ids of segment {name!r} are not {entry['ids']!r}")
    alive = None
    if entry["alive"]:
        alive = directory.container(PART, f"{name}alive").array("alive")
        if alive.dtype != np.uint64 or alive.shape != ((core.n_rows + 63) // 64,):
            raise _corrupt(directory, f"the live rows of segment {name!r} do not fit it")
    return Segment(core, ids, alive, name, _columns(directory, name, core.n_rows))


def _corrupt(directory: Directory, why: str) -> _core.CorruptIndex:
    return _core.CorruptIndex(f"{directory.path}: {why}; build the index again")
