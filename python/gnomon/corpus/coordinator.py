"""The writer of a corpus: one coordinator over text, sparse, dense, trigram and graph.

>>> index = CorpusIndex.create("docs.corpus")
>>> report = index.update([Documents("docs", [("a.md", b"# A\n\nSet `max_size=3`.\n")])])
>>> report.added, index.snapshot().stats().documents
(1, 1)
>>> index.close()
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import msgspec

from .assemble import Limits
from .extractor import Extractor
from .model import Source
from .snapshot import Snapshot
from .walk import MAX_BYTES

Embedder = Callable[[list[str]], Any]  # n texts to [n, D] real numbers
Progress = Callable[[int, int], None] | bool | None  # documents done, bytes done


class Folder(msgspec.Struct, frozen=True):
    """A folder (or file) on disk whose documents belong to `source`."""

    source: Source | str
    top: str
    hidden: bool = False
    max_bytes: int = MAX_BYTES


class Documents(msgspec.Struct, frozen=True):
    """Documents in memory: (logical path, bytes) of each. `complete` off leaves alone what the
    source had before; on, documents that are not among these are deleted.
    """

    source: Source | str
    documents: Iterable[tuple[str, bytes]]
    complete: bool = True


class UpdateReport(msgspec.Struct):
    """What an update did. Documents: added, changed, deleted, unchanged; chunks: *_chunks."""

    generation: int
    added: int = 0
    changed: int = 0
    deleted: int = 0
    unchanged: int = 0
    chunks_added: int = 0
    chunks_deleted: int = 0
    chunks_kept: int = 0
    embedded: int = 0
    embeddings_saved: int = 0
    bytes_read: int = 0
    seconds: float = 0.0
    left_out: list[tuple[str, str, str]] = []
    fallbacks: list[tuple[str, str]] = []


class CorpusIndex:
    """A corpus opened for writing; one at a time, beside any number of readers."""

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, analyzer: str = "standard-v1") -> CorpusIndex:
        """A new, empty corpus. Raises FileExistsError when the path holds something."""
        raise NotImplementedError

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> CorpusIndex:
        """Takes the writer's lock (BlockingIOError names who has it) and removes what a killed
        writer left.
        """
        raise NotImplementedError

    def update(
        self,
        sources: Iterable[Folder | Documents],
        *,
        embedder: Embedder | None = None,
        embedder_name: str = "",
        jobs: int = 1,
        limits: Limits | None = None,
        extractor: Extractor | None = None,
        progress: Progress = None,
    ) -> UpdateReport:
        """Brings these sources up to date, in one commit; other sources stay as they are."""
        raise NotImplementedError

    def delete(
        self, *, source: str | None = None, doc_ids: Collection[str] | None = None
    ) -> UpdateReport:
        """Deletes a source's documents, or these documents, from every index, in one commit."""
        raise NotImplementedError

    def verify(self) -> list[str]:
        """Checks everything; the problems, [] when there is none."""
        raise NotImplementedError

    def snapshot(self) -> Snapshot:
        """The newest generation, for reading."""
        raise NotImplementedError

    def close(self) -> None:
        """Lets the next writer in."""
        raise NotImplementedError
