"""A dense index on the disk: one file of vectors for each segment, its ids and its live rows.

An index of one segment without dead rows is two files, ``vectors`` and ``ids``. Further segments
are ``s1_vectors``, ``s1_ids`` and so on; ``alive`` files hold the bitmaps. A segment that the
directory holds already is kept, not written again.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from . import _core
from ._dense_segments import Segment, State
from .results import Ids
from .storage import Directory, DirectoryWriter

PART = "dense"


def save(state: State, path: str | os.PathLike[str]) -> State:
    """Writes the state; returns it with what a next save may keep."""
    with DirectoryWriter(path) as writer:
        kept = _names_that_stand(state, path)
        names: list[str] = []
        for segment in state.segments:
            name = segment.name if segment.name in kept else None
            if name is None:
                name = next(n for n in _all_names() if n not in kept and n not in names)
                _write(writer, segment, name)
            else:
                writer.keep(PART, f"{name}vectors")
                if segment.ids.kind != "position":
                    writer.keep(PART, f"{name}ids")
            if segment.alive is not None:
                file = _core.ContainerWriter(writer.file(PART, f"{name}alive"))
                file.section("alive", segment.alive)
                file.finish()
            names.append(name)
        writer.commit({PART: _meta(state, names)})
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


def _all_names() -> Any:
    yield ""
    number = 0
    while True:
        number += 1
        yield f"s{number}_"


def _write(writer: DirectoryWriter, segment: Segment, name: str) -> None:
    core = _core.ContainerWriter(writer.file(PART, f"{name}vectors"))
    segment.core.write(core)
    core.finish()
    if segment.ids.kind != "position":
        segment.ids.write(writer.file(PART, f"{name}ids"))


def _meta(state: State, names: list[str]) -> dict[str, Any]:
    if names == [""] and state.segments[0].alive is None and state.counter == state.rows:
        return {"ids": state.segments[0].ids.kind}
    parts = [
        {"name": name, "ids": segment.ids.kind, "alive": segment.alive is not None}
        for name, segment in zip(names, state.segments, strict=True)
    ]
    return {"ids": state.kind, "segments": parts, "counter": state.counter}


def load(path: str | os.PathLike[str]) -> State:
    """Opens a saved state by memory map."""
    directory = Directory.open(path)
    meta = directory.meta(PART)
    if "segments" not in meta:
        core = _core.DenseIndex.open(directory.container(PART, "vectors"))
        ids = Ids.of_part(directory, PART, core.n_rows)
        segments: tuple[Segment, ...] = (Segment(core, ids, name=""),)
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
    saved = (os.path.realpath(path), directory.generation)
    return State(segments, meta["ids"], counter, first.dim, first.metric, saved=saved)


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
    return Segment(core, ids, alive, name)


def _corrupt(directory: Directory, why: str) -> _core.CorruptIndex:
    return _core.CorruptIndex(f"{directory.path}: {why}; build the index again")
