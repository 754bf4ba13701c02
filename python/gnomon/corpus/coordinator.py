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
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from .._atomic import sync
from .._lock import Lock
from ..bm25 import BM25Index
from ..bm25_policy import merges
from ..storage import DirectoryWriter
from .assemble import Limits
from .extractor import Extractor
from .generation import KINDS, LOCK, META, Database, Part, SegmentPart, State, manifest_crc, named
from .ingest import Documents, Folder, Ingest, UpdateReport
from .live import Live, Mask
from .opened import Opened
from .rewrite import rewrite_segments
from .segment import Segment
from .segment_writer import PART, SegmentWriter
from .snapshot import COLUMNS, FIELDS, Snapshot
from .vectors import Embedder, write_vectors
from .verify import verify_corpus

__all__ = ["CRASH_POINTS", "CorpusIndex", "Documents", "Embedder", "Folder", "UpdateReport"]

Progress = Callable[[int, int], None]  # documents done, bytes done

CRASH_POINTS = (
    "after_ingest",
    "after_segment",
    "after_sparse",
    "after_dense",
    "before_transaction",
    "after_transaction",
    "in_cleanup",
)


def _no_crash(name: str) -> None:
    """Does nothing; tests put a function here that kills the process at a named point."""


_crash_point: Callable[[str], None] = _no_crash


class CorpusIndex:
    """A corpus opened for writing; one at a time, beside any number of readers."""

    def __init__(self, path: Path, lock: Lock) -> None:
        self.path = path
        self._lock: Lock | None = lock
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
            )
            empty.save(temp / "sparse" / _name(1))
            crc = manifest_crc(temp / "sparse" / _name(1))
            database = Database(temp, create=True)
            database.commit(State(1, 2, Part(_name(1), crc)))
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
            work.ingest(given, jobs, limits, extractor, progress)
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
    def _transaction(self) -> Iterator[_Transaction]:
        self._require_open()
        work = _Transaction(self.path, self._opened, self._database)
        try:
            yield work
        except BaseException:
            # The state on the disk decides: an error may have come behind the transaction.
            self._opened = Opened.open(self.path, self._opened)
            self._remove_orphans()
            raise
        self._opened = Opened.open(self.path, self._opened)
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
                    _crash_point("in_cleanup")


class _Transaction:
    """An update in the making."""

    def __init__(self, path: Path, opened: Opened, database: Database) -> None:
        self._path = path
        self._opened = opened
        self._database = database
        self._live = Live(opened.segments, opened.alive)
        state = opened.state
        self._sources = {source.name: source for source in state.sources}
        self._coverage = {each.source: each for each in state.coverage}
        self._name = _name(state.next_number)
        self._numbers = state.next_number + 1
        self._pass: Ingest | None = None
        self._new: Segment | None = None
        self._sparse: BM25Index | None = None
        self._segments: list[SegmentPart] = list(state.segments)
        self.report = UpdateReport(state.generation)

    def ingest(
        self,
        given: list[Folder | Documents],
        jobs: int | None,
        limits: Limits | None,
        extractor: Extractor | None,
        progress: Progress | None,
    ) -> None:
        """Documents into a new segment and the sparse index."""
        sparse = self._writable_sparse()
        where = self._path / "seg" / self._name
        with DirectoryWriter(where) as directory:
            writer = SegmentWriter(directory)
            step = self._pass = self._ingest(writer, progress)
            sparse.add(step.texts(given, jobs, limits, extractor), columns=step.columns)
            _crash_point("after_ingest")
            if writer.n_docs:
                directory.commit({PART: writer.finish()})
        for one in step.coverage:
            self._coverage[one.source] = one
        self._sources |= step.new_sources
        if writer.n_docs:
            self._new = Segment.open(where, self._name)
            self._segments.append(SegmentPart(self._name, manifest_crc(where)))
        _crash_point("after_segment")

    def delete(self, source: str | None, doc_ids: Collection[str] | None) -> None:
        """Marks documents deleted."""
        self._writable_sparse()
        step = self._pass = self._ingest(None, None)
        if source is not None and source not in self._sources:
            raise KeyError(f"there is no source {source!r}")
        if source is not None:
            spots = [spot for doc, spot in self._live.catalogue if doc.source == source]
            del self._sources[source], self._coverage[source]
        else:
            wanted = list(dict.fromkeys(doc_ids or ()))
            found = [(doc_id, self._live.document(doc_id)) for doc_id in wanted]
            unknown = [doc_id for doc_id, spot in found if spot is None]
            if unknown:
                raise KeyError(f"there is no document {unknown[0]!r}")
            spots = [spot for _, spot in found if spot is not None]
        for spot in spots:
            document = self._live.segments[spot.segment].document(spot.number)
            step.removed.append((document.source, document.path))
            step.delete(spot)

    def finish(self, embedder: Embedder | None, embedder_name: str) -> None:
        """Deletions, vectors, merges, and the commit."""
        step, sparse = self._pass, self._sparse
        assert step is not None
        assert sparse is not None
        state = self._opened.state
        changed = self.report.added + self.report.changed + self.report.deleted
        sources = tuple(self._sources[name] for name in sorted(self._sources))
        told = sources != state.sources or {c.source for c in state.coverage} != {*self._coverage}
        # A known embedder with nothing new has nothing to do.
        wants = embedder is not None and (state.dense is None or state.embedder != embedder_name)
        if not changed and not told and not wants:
            sparse.close()
            if step.written:
                self._database.commit(state, step.written)
            return
        gone = np.concatenate([np.zeros(0, np.int64), *step.gone])
        sparse.delete(gone.tolist())
        sparse.commit()
        sparse.close()
        sparse_part = Part(self._name, manifest_crc(self._path / "sparse" / self._name))
        _crash_point("after_sparse")
        segments, masks = self._alive(step)
        dense, embedder_name = self._vectors(Live(segments, masks), embedder, embedder_name)
        _crash_point("after_dense")
        parts = self._merged(segments, masks)
        _crash_point("before_transaction")
        self._database.commit(
            State(
                state.generation + 1,
                self._numbers,
                sparse_part,
                tuple(parts),
                dense,
                embedder_name,
                sources,
                tuple(self._coverage[name] for name in sorted(self._coverage)),
            ),
            step.written,
            step.removed,
        )
        _crash_point("after_transaction")
        self.report.generation = state.generation + 1

    def _ingest(self, writer: SegmentWriter | None, progress: Progress | None) -> Ingest:
        assert self._sparse is not None
        return Ingest(
            self._live,
            self._sources,
            self._database.files,
            self._sparse._layout.next_id,
            writer,
            self.report,
            progress,
        )

    def _writable_sparse(self) -> BM25Index:
        old = self._path / "sparse" / self._opened.state.sparse.name
        clone(old, self._path / "sparse" / self._name)
        self._sparse = BM25Index.open(self._path / "sparse" / self._name, mode="w")
        return self._sparse

    def _alive(self, step: Ingest) -> tuple[list[Segment], list[Mask]]:
        """All segments with what is alive in them now."""
        segments, masks = [], []
        for segment, mask, dead in zip(
            self._live.segments, self._live.masks, step.dead, strict=True
        ):
            if dead:
                mask = mask.copy()
                mask[list(dead)] = False
            segments.append(segment)
            masks.append(mask)
        if self._new is not None:
            segments.append(self._new)
            masks.append(np.ones(self._new.n_docs, np.bool_))
        return segments, masks

    def _vectors(self, live: Live, embedder: Embedder | None, name: str) -> tuple[Part | None, str]:
        state = self._opened.state
        known = self._opened.dense is not None and len(self._opened.dense) > 0
        if (embedder is None or live.n_chunks == 0) and not known:
            return None, ""
        where = self._path / "dense" / self._name
        old = self._opened.dense if embedder is None or state.embedder == name else None
        if old is not None and state.dense is not None:
            clone(self._path / "dense" / state.dense.name, where)
        saved, made = write_vectors(where, old, self._live, live, embedder)
        self.report.embedded, self.report.embeddings_saved = made, saved
        kept = name if embedder is not None else state.embedder
        return Part(self._name, manifest_crc(where)), kept

    def _merged(self, segments: list[Segment], masks: list[Mask]) -> list[SegmentPart]:
        """The parts of the next state, with segments rewritten as the policy says."""
        live = Live(segments, masks)
        sizes = [int(mask.sum()) for mask in live.chunk_masks]
        dead = [segment.n_chunks - size for segment, size in zip(segments, sizes, strict=True)]
        parts: list[SegmentPart] = []
        place = 0
        for first, last in [*merges(sizes, dead), (len(segments), len(segments))]:
            for number in range(place, first):
                given = self._segments[number]
                bits = np.packbits(~masks[number], bitorder="little").tobytes()
                if masks[number].any():
                    full = bool(masks[number].all())
                    parts.append(SegmentPart(given.name, given.crc, b"" if full else bits))
            if first < last and any(mask.any() for mask in masks[first:last]):
                name = _name(self._numbers)
                self._numbers += 1
                where = self._path / "seg" / name
                rewrite_segments(where, segments[first:last], masks[first:last])
                parts.append(SegmentPart(name, manifest_crc(where)))
            place = last
        return parts


def _name(number: int) -> str:
    return f"{number:08d}"


def clone(source: Path, target: Path) -> None:
    """A directory with the same files: links to them, or copies where there are no links."""
    os.mkdir(target)
    for name in os.listdir(source):
        if name == LOCK:
            continue
        try:
            os.link(source / name, target / name)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK):
                raise
            shutil.copy2(source / name, target / name)
