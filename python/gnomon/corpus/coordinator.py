r"""The writer of a corpus: one coordinator over text, sparse, dense, trigram and graph.

>>> index = CorpusIndex.create("docs.corpus")
>>> report = index.update([Documents("docs", [("a.md", b"# A\n\nSet `max_size=3`.\n")])])
>>> report.added, index.snapshot().stats().documents
(1, 1)
>>> index.close()

An update writes new files beside those of the newest generation, brings them to the disk, and then
names them in one transaction (`gnomon.corpus.generation`). Until then readers see the generation
before, also if the process is killed at any moment or the disk is full.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .._atomic import sync
from .._collector import no_collections
from .._lock import Lock
from .._syncs import Syncs
from ..bm25 import BM25Index
from . import transaction
from .assemble import Limits
from .extractor import Extractor
from .generation import KINDS, LOCK, META, Database, Part, State, manifest_crc, named
from .ingest import UpdateReport
from .live import Live
from .opened import Opened
from .snapshot import COLUMNS, FIELDS, Snapshot
from .tasks import Documents, Folder
from .transaction import CRASH_POINTS, Progress, Transaction, directory_name
from .vectors import Embedder
from .verify import verify_corpus

__all__ = ["CRASH_POINTS", "CorpusIndex", "Documents", "Embedder", "Folder", "UpdateReport"]


class CorpusIndex:
    """A corpus opened for writing; one at a time, beside any number of readers."""

    def __init__(self, path: Path, lock: Lock) -> None:
        self.path = path
        self._lock: Lock | None = lock
        self._edits = threading.Lock()
        self._database = Database(path)
        try:
            self._opened = Opened.open(path)
            self._remove_orphans()
        except BaseException:
            self._database.close()
            raise

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        analyzer: str = "standard-v1",
        field_weights: Mapping[str, float] | None = None,
    ) -> CorpusIndex:
        """A new, empty corpus.

        `field_weights` of `FIELDS` go into every score (1.0 each when not given). Raises
        FileExistsError when the path holds something, ValueError for a field that is none.
        """
        target = Path(os.path.realpath(os.fspath(path)))
        if target.exists():
            raise FileExistsError(errno.EEXIST, "will not overwrite; open() it", str(target))
        weights = dict.fromkeys(FIELDS, 1.0)
        for name, weight in (field_weights or {}).items():
            if name not in weights:
                raise ValueError(f"field_weights names {name!r}; fields are {', '.join(FIELDS)}")
            weights[name] = weight
        temp = target.with_name(f".{target.name}.tmp-{os.getpid()}-{secrets.token_hex(4)}")
        try:
            for kind in KINDS:
                (temp / kind).mkdir(parents=True)
            empty = BM25Index.build(
                [],
                analyzer=analyzer,
                fields=weights,
                positions=True,
                columns={name: [] for name in COLUMNS},
                column_kinds=COLUMNS,
                postings="packed",
            )
            empty.save(temp / "sparse" / directory_name(1))
            crc = manifest_crc(temp / "sparse" / directory_name(1))
            database = Database(temp, create=True)
            database.commit(State(1, 2, Part(directory_name(1), crc)))
            database.close()
            sync(temp)
            os.rename(temp, target)
        except BaseException:
            shutil.rmtree(temp, ignore_errors=True)
            raise
        sync(target.parent)
        return cls.open(target)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> CorpusIndex:
        """Takes the writer's lock (BlockingIOError names who has it) and removes what a killed
        writer left. FileNotFoundError when there is no corpus, CorruptIndex when it is damaged.
        """
        target = Path(os.path.realpath(os.fspath(path)))
        if not (target / META).is_file():  # before the lock: leave what is no corpus untouched
            raise FileNotFoundError(
                errno.ENOENT, "no corpus there; make one with create()", str(target)
            )
        lock = Lock(target / LOCK, target)
        try:
            return cls(target, lock)
        except BaseException:
            lock.release()
            raise

    def update(
        self,
        sources: Iterable[Folder | Documents],
        *,
        embedder: Embedder | None = None,
        embedder_name: str = "",
        jobs: int | None = None,
        limits: Limits | None = None,
        extractor: Extractor | None = None,
        progress: Progress | None = None,
    ) -> UpdateReport:
        """Brings these sources up to date, in one commit; other sources stay as they are.

        Parameters
        ----------
        sources
            Folders and documents. What a source had and they do not is deleted.
        embedder
            From a list of n texts to [n, D] real numbers; each new chunk gets a vector, and so do
            all others when the corpus has none yet or those of an embedder of another name. A
            corpus with vectors needs it for new chunks.
        jobs
            Processes that prepare documents; as many as there are cores where that pays when not
            given. The index does not depend on it.
        limits, extractor
            As for `process_document`.
        progress
            Called with (documents, bytes) done so far.

        Raises
        ------
        ValueError
            Vectors are needed and no embedder is given, or it gives another number of them.
        OSError
            From the disk. Nothing is changed then, nor after any other error.
        """
        began = time.perf_counter()
        given = list(sources)
        with self._transaction() as work:
            # Many objects that stay and hardly a cycle: the collector took a twentieth of the time.
            with no_collections():
                work.ingest(given, jobs, limits, extractor, progress)
                if embedder is None:
                    work.finish(None, embedder_name)
            if embedder is not None:  # a caller's code keeps the collector
                work.finish(embedder, embedder_name)
        work.report.seconds = time.perf_counter() - began
        return work.report

    def delete(
        self, *, source: str | None = None, doc_ids: Collection[str] | None = None
    ) -> UpdateReport:
        """Deletes a source's documents, or these documents, from every index, in one commit.

        KeyError for a document or source that is not there. A document that is still in its folder
        comes back with the next update of its source.
        """
        if (source is None) == (doc_ids is None):
            raise TypeError("pass either source= or doc_ids=")
        began = time.perf_counter()
        with self._transaction() as work:
            work.delete(source, doc_ids)
            work.finish(None, "")
        work.report.seconds = time.perf_counter() - began
        return work.report

    def verify(self) -> list[str]:
        """Reads and checks everything; the problems found, [] when there is none."""
        self._require_open()
        return self._database.check() + verify_corpus(self.snapshot())

    def snapshot(self) -> Snapshot:
        """The newest generation, for reading."""
        self._require_open()
        return Snapshot(self._opened, Live(self._opened.segments, self._opened.alive))

    @property
    def generation(self) -> int:
        """The number of the newest generation."""
        return self._opened.state.generation

    def close(self) -> None:
        """Lets the next writer in. Snapshots stay readable."""
        lock, self._lock = self._lock, None
        if lock is not None:
            self._database.close()
            lock.release()

    def __enter__(self) -> CorpusIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # How it is done

    def _require_open(self) -> None:
        if self._lock is None:
            raise ValueError("this corpus was closed; open it again")

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        with self._edits:
            self._require_open()
            syncs = Syncs()
            work = Transaction(self.path, self._opened, self._database, syncs)
            try:
                with syncs:
                    yield work
            finally:
                # The state on the disk decides: an error may have come behind the transaction.
                self._opened = Opened.open(self.path, self._opened, work.written)
                self._remove_orphans()

    def _remove_orphans(self) -> None:
        """Removes what the newest generation does not name."""
        keep = named(self._opened.state)
        for kind in KINDS:
            for name in os.listdir(self.path / kind):
                orphan = self.path / kind / name
                if name not in keep[kind]:
                    if orphan.is_dir():
                        shutil.rmtree(orphan, ignore_errors=True)
                    else:  # the lock of a directory that was being made
                        orphan.unlink(missing_ok=True)
                    transaction.crash_point("in_cleanup")
