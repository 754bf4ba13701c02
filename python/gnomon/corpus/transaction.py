"""An update in the making: new files beside those of the newest generation, then one commit."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from .._atomic import sync
from .._syncs import Syncs
from ..bm25 import BM25Index
from ..bm25_policy import merges
from ..bm25_session import Session
from ..storage import DirectoryWriter
from .assemble import Limits
from .extractor import Extractor
from .generation import LOCK, Database, Part, SegmentPart, State, manifest_crc
from .ingest import Ingest, UpdateReport
from .live import Live, Mask
from .opened import Opened, taken_over
from .rewrite import rewrite_segments
from .segment import Segment
from .segment_writer import PART, SegmentWriter
from .tasks import Documents, Folder
from .vectors import Embedder, write_vectors

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


def no_crash(name: str) -> None:
    """Does nothing; tests put a function here that kills the process at a named point."""


crash_point: Callable[[str], None] = no_crash


class Transaction:
    """An update in the making."""

    def __init__(self, path: Path, opened: Opened, database: Database, syncs: Syncs) -> None:
        self._path = path
        self._opened = opened
        self._database = database
        self._syncs = syncs
        self._live = Live(opened.segments, opened.alive)
        state = opened.state
        self._sources = {source.name: source for source in state.sources}
        self._coverage = {each.source: each for each in state.coverage}
        self._name = directory_name(state.next_number)
        self._numbers = state.next_number + 1
        self._pass: Ingest | None = None
        self._new: Segment | None = None
        self._sparse: BM25Index | None = None
        self._segments: list[SegmentPart] = list(state.segments)
        self.report = UpdateReport(state.generation)

    @property
    def written(self) -> tuple[str, BM25Index | None]:
        """The directory of the sparse index, and the index when it was begun."""
        return self._name, self._sparse

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
        with DirectoryWriter(where, sync=self._syncs) as directory, ThreadPoolExecutor(1) as thread:
            writer = SegmentWriter(directory)
            step = self._pass = self._ingest(writer, progress)
            closing: list[Future[None]] = []

            def texts() -> Iterator[dict[str, str]]:
                yield from step.texts(given, jobs, limits, extractor)
                if writer.n_docs:  # while the sparse index is made of them
                    closing.append(thread.submit(_close, writer, directory))

            sparse.add(texts(), columns=step.columns)
            step.columns.clear()
            crash_point("after_ingest")
            for each in closing:
                each.result()
        for one in step.coverage:
            self._coverage[one.source] = one
        self._sources |= step.new_sources
        if writer.n_docs:
            self._new = Segment.open(where, self._name)
            self._segments.append(SegmentPart(self._name, manifest_crc(where)))
        crash_point("after_segment")

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
        saw = {(c.source, c.files, c.bytes, c.left_out) for c in self._coverage.values()}
        told = sources != state.sources or saw != {
            (c.source, c.files, c.bytes, c.left_out) for c in state.coverage
        }
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
        self._syncs(self._path / "sparse")
        sparse_part = Part(self._name, manifest_crc(self._path / "sparse" / self._name))
        crash_point("after_sparse")
        segments, masks = self._alive(step)
        dense, embedder_name = self._vectors(Live(segments, masks), embedder, embedder_name)
        crash_point("after_dense")
        parts = self._merged(segments, masks)
        self._syncs.wait()  # until here no row names the new files
        crash_point("before_transaction")
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
        crash_point("after_transaction")
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
        session = Session(self._path / "sparse" / self._name, writing=True, sync=self._syncs)
        try:
            self._sparse = taken_over(self._opened.sparse, session.opened(), session)
        except BaseException:
            session.close()
            raise
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
            self._syncs(where.parent)
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
                name = directory_name(self._numbers)
                self._numbers += 1
                where = self._path / "seg" / name
                rewrite_segments(where, segments[first:last], masks[first:last], self._syncs)
                parts.append(SegmentPart(name, manifest_crc(where)))
            place = last
        return parts


def _close(writer: SegmentWriter, directory: DirectoryWriter) -> None:
    directory.commit({PART: writer.finish()})


def directory_name(number: int) -> str:
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
            sync(target / name)  # a link is to what was brought to the disk
