"""The first half of an update: what is new, what stays, what goes; nothing is committed here.

Documents stream through once. What is new goes into a segment that is being written and, chunk by
chunk, to the sparse index; a chunk whose id and facets are those of before keeps its cid, and with
it its postings and its vector.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import msgspec
import numpy as np

from ..columns import Runs
from .assemble import Limits
from .columns_io import Int64Array
from .extractor import Extractor
from .generation import FileRow
from .live import Live, Spot
from .model import Source, document_id
from .prepare_model import Prepared, Settings
from .prepare_pool import jobs_for, prepare_all
from .segment_writer import SegmentWriter
from .snapshot import COLUMNS
from .snapshot_model import Coverage
from .tasks import Documents, Folder, Tasks
from .walk import Coverage as Walked


class UpdateReport(msgspec.Struct):
    """What an update did.

    Documents: added, changed, deleted, unchanged; chunks: `chunks_*`, those of unchanged documents
    not counted. `left_out` is (path, reason, detail); `fallbacks` is (path, why the plain parser
    took over). `embeddings_saved` counts chunks of new and changed documents whose vector was
    known. `generation` is the one that is newest now.
    """

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


class Ingest:
    """One pass over sources. `texts` is consumed by the sparse index; the rest is filled by it."""

    def __init__(
        self,
        live: Live,
        sources: dict[str, Source],
        files: Any,
        first_cid: int,
        writer: SegmentWriter | None,
        report: UpdateReport,
        progress: Any,
    ) -> None:
        self._live = live
        self._sources = sources  # as they were
        self._files = files  # source -> path -> FileRow
        self._next_cid = first_cid
        self._writer = writer
        self._report = report
        self._progress = progress
        self.columns = {name: Runs([], []) for name in COLUMNS}
        self.dead: list[set[int]] = [set() for _ in live.segments]
        self.gone: list[Int64Array] = []  # cids
        self.written: list[tuple[str, FileRow]] = []
        self.removed: list[tuple[str, str]] = []
        self.coverage: list[Coverage] = []
        self.new_sources: dict[str, Source] = {}

    def texts(
        self,
        given: Iterable[Folder | Documents],
        jobs: int | None,
        limits: Limits | None,
        extractor: Extractor | None,
    ) -> Iterator[dict[str, str]]:
        """The fields of each new chunk, in order of cids."""
        groups: dict[str, list[Folder | Documents]] = {}
        for item in given:
            source = Source(name=item.source) if isinstance(item.source, str) else item.source
            known = self.new_sources.setdefault(source.name, source)
            if known != source:
                raise ValueError(f"source {source.name!r} is described in two ways")
            groups.setdefault(source.name, []).append(item)
        for name, items in groups.items():
            yield from self._source(self.new_sources[name], items, jobs, limits, extractor)

    def _source(
        self,
        source: Source,
        items: list[Folder | Documents],
        jobs: int | None,
        limits: Limits | None,
        extractor: Extractor | None,
    ) -> Iterator[dict[str, str]]:
        extracts = "" if extractor is None else getattr(extractor, "name", type(extractor).__name__)
        settings = Settings(source, limits, extracts).digest()
        known = self._files(source.name)
        seen: set[str] = set()
        walked = Walked()
        complete = True
        for item in items:
            tasks = Tasks(item, known, seen, settings, walked)
            complete = complete and (isinstance(item, Folder) or item.complete)
            todo = tasks.listed()
            self._report.unchanged += tasks.unchanged
            workers = jobs_for(sum(size for _, size in todo), jobs)
            batches = prepare_all(todo, source, limits, extractor, workers)
            for batch in batches:
                cids = []
                for done in batch.documents:
                    if done.error:
                        walked.taken -= 1
                        walked.leave_out(done.path, "unreadable", done.error)
                        seen.discard(done.path)
                        continue
                    self._note_file(source, done, tasks.rows[done.path], settings)
                    if done.same:
                        self._report.unchanged += 1
                        continue
                    own, fresh = self._numbered(done, source)
                    cids.append(own)
                    yield from self._new_texts(done, source, fresh)
                assert self._writer is not None
                self._writer.add(batch, source.name, cids)
                self._tell()
        if complete:
            for path in sorted(known.keys() - seen):
                self._delete(source.name, path)
        self._report.left_out += walked.left_out
        self.coverage.append(
            Coverage(
                source.name,
                walked.taken,
                walked.bytes_taken,
                time.time(),
                tuple((_printable(path), why, detail) for path, why, detail in walked.left_out),
            )
        )

    def _tell(self) -> None:
        report = self._report
        if self._progress is not None:
            self._progress(report.added + report.changed + report.unchanged, report.bytes_read)

    def _note_file(self, source: Source, done: Prepared, row: FileRow, settings: bytes) -> None:
        revision = row.revision if done.same else done.revision
        self.written.append((source.name, row._replace(revision=revision, settings=settings)))

    def _numbered(self, done: Prepared, source: Source) -> tuple[Int64Array, list[int]]:
        """The cids of a document's chunks, and which of them are new."""
        report = self._report
        report.bytes_read += len(done.raw)
        if done.fallback:
            report.fallbacks.append((done.path, done.fallback))
        spot = self._live.document(done.doc_id)
        known: dict[bytes, int] = {}
        if spot is None:
            report.added += 1
        else:
            report.changed += 1
            known = self._replaced(spot, done, source)
        n = len(done.chunk_ids) // 12
        cids = np.empty(n, np.int64)
        fresh = []
        for i in range(n):
            cid = known.pop(done.chunk_ids[12 * i : 12 * i + 12], -1)
            if cid < 0:
                cid = self._next_cid
                self._next_cid += 1
                fresh.append(i)
            cids[i] = cid
        report.chunks_added += len(fresh)
        report.chunks_kept += n - len(fresh)
        self._let_go(list(known.values()))
        return cids, fresh

    def _replaced(self, spot: Spot, done: Prepared, source: Source) -> dict[bytes, int]:
        """Marks a document dead; the cids of its chunks that may live on, by id."""
        segment = self._live.segments[spot.segment]
        self.dead[spot.segment].add(spot.number)
        old = segment.document(spot.number)
        first, last = segment.chunk_range(spot.number)
        cids = segment.cids[first:last].tolist()
        same = self._sources.get(source.name) == source and (
            (old.title, old.type, old.language, old.version, old.acl)
            == (done.title, done.type, done.language, done.version, done.acl)
        )
        if not same:  # what the sparse index says of them changes
            self._let_go(cids)
            return {}
        ids = bytes.fromhex("".join(segment.chunk_ids.range(first, last)))
        return {ids[12 * i : 12 * i + 12]: cid for i, cid in enumerate(cids)}

    def _let_go(self, cids: list[int]) -> None:
        self._report.chunks_deleted += len(cids)
        if cids:
            self.gone.append(np.array(cids, np.int64))

    def _delete(self, source: str, path: str) -> None:
        self.removed.append((source, path))
        spot = self._live.document(document_id(source, path))
        if spot is not None:
            self.delete(spot)

    def delete(self, spot: Spot) -> None:
        """Deletes a document that exists."""
        segment = self._live.segments[spot.segment]
        first, last = segment.chunk_range(spot.number)
        self.dead[spot.segment].add(spot.number)
        self._let_go(segment.cids[first:last].tolist())
        self._report.deleted += 1

    def _new_texts(
        self, done: Prepared, source: Source, fresh: list[int]
    ) -> Iterator[dict[str, str]]:
        """The fields of the new chunks of a document; their columns are noted on the way."""
        if not fresh:
            return
        text = done.section_ids.hex()
        sections = [text[at : at + 20] for at in range(0, len(text), 20)]
        within: list[list[str]] = []
        for number, parent in enumerate(done.section_parents):
            within.append([sections[number], *(within[parent] if parent >= 0 else [])])
        owners = np.frombuffer(done.chunk_section, np.uint32).tolist()
        folders = [done.path[:at] for at, sign in enumerate(done.path) if sign == "/" and at]
        of_document = {
            "source": source.name,
            "source_kind": source.kind,
            "type": done.type,
            "language": done.language or None,
            "path": done.path,
            "folder": folders or None,
            "version": done.version or None,
            "doc": done.doc_id,
            "acl": list(done.acl) or None,
            "trust": source.trust,
        }
        for name, value in of_document.items():
            self._note(name, value, len(fresh))
        for section, chunks in groupby(map(owners.__getitem__, fresh)):
            count = len(list(chunks))
            self._note("section", sections[section], count)
            self._note("within", within[section], count)
        for kind, same in groupby(map(done.kinds.__getitem__, fresh)):
            self._note("kind", kind, len(list(same)))
        for i in fresh:
            section = owners[i]
            yield {
                "title": done.title,
                "heading": done.headings[section],
                "body": done.bodies[i],
                "code": done.codes[i],
            }

    def _note(self, column: str, value: Any, count: int) -> None:
        """A value of `count` chunks that follow one another."""
        runs = self.columns[column]
        runs.values.append(value)
        runs.counts.append(count)


def _printable(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode()
