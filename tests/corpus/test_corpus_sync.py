"""All that a generation names is on the disk before it is named."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest
from corpus_states import embed, pages, put
from gnomon.corpus import CorpusIndex
from gnomon.corpus.generation import KINDS, Database, named

fsync = os.fsync


def missing(path: Path, state, known: set[Path], synced: set[int]) -> list[Path]:
    """What a state needs that was not brought to the disk: new folders, where they are entered
    since the last state, and all that is in them.
    """
    folders = {path / kind / name for kind, names in named(state).items() for name in names}
    new = folders - known
    places = [*{folder.parent for folder in new}, *new]
    places += [file for folder in folders for file in folder.iterdir() if file.name != ".lock"]
    found = [place for place in places if place.stat().st_ino not in synced]
    synced -= {(path / kind).stat().st_ino for kind in KINDS}
    known |= folders
    return found


def test_files_are_on_the_disk_before_they_are_named(tmp_path, monkeypatch):
    synced: set[int] = set()
    known: set[Path] = set()
    checked = []

    def slow(fd: int) -> None:
        status = os.fstat(fd)
        time.sleep(0.01)
        fsync(fd)
        synced.add(status.st_ino)

    def commit(self, state, *args):
        if state.generation > 1:
            assert missing(self.file.parent, state, known, synced) == []
            checked.append(len(state.segments))
        return real(self, state, *args)

    real = Database.commit
    monkeypatch.setattr(os, "fsync", slow)
    monkeypatch.setattr(Database, "commit", commit)
    with CorpusIndex.create(tmp_path / "x") as index:
        put(index, pages(1, 9), embedder=embed, embedder_name="e")
        for edit in range(2, 5):  # merges among them
            put(index, pages(1, 9) | pages(edit, 1), embedder=embed, embedder_name="e")
        index.delete(source="docs")
    assert len(checked) == 5
    assert max(checked) > 1


def test_a_file_that_cannot_be_brought_to_the_disk(tmp_path, monkeypatch):
    with CorpusIndex.create(tmp_path / "x") as index:
        put(index, pages(1, 4))
        before = index.generation

        def broken(fd: int) -> None:
            raise OSError(errno.EIO, "no disk")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", broken)
            with pytest.raises(OSError, match="no disk"):
                put(index, pages(2, 4))
        assert index.generation == before
        put(index, pages(2, 4))
        assert index.generation == before + 1
        assert index.verify() == []
