"""Index directories whose every file holds one number, so that a mixture of states shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gnomon import _core
from gnomon.storage import Directory, DirectoryWriter


def put(writer: DirectoryWriter, part: str, name: str, values: np.ndarray) -> None:
    file = _core.ContainerWriter(writer.file(part, name))
    file.section("values", values)
    file.finish()


def commit(target: Path, number: int) -> None:
    with DirectoryWriter(target) as writer:
        put(writer, "bm25", "postings", np.full(100, number, np.uint32))
        put(writer, "passages", "text", np.full(50, number, np.uint8))
        writer.commit({"bm25": {"number": number}})


def number_of(directory: Directory) -> int:
    """The committed number; all files and the settings must agree on it."""
    directory.verify()
    number = directory.meta("bm25")["number"]
    assert set(directory.container("bm25", "postings").array("values").tolist()) == {number}
    assert set(directory.container("passages", "text").array("values").tolist()) == {number}
    return number
