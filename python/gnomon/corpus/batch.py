"""Processes a whole folder, on several processes when asked.

>>> import pathlib
>>> _ = pathlib.Path("a.md").write_text("# A"), pathlib.Path("b.txt").write_text("b")
>>> [done.document.title for done in process_sources(".", "docs", Coverage())]
['A', 'b.txt']
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context

import msgspec

from .assemble import Limits
from .extractor import Extractor, apply_extractor
from .model import ProcessedDocument, Source
from .process import process_document
from .walk import MAX_BYTES, Coverage, FoundFile, walk_sources

BATCH_BYTES = 1 << 20  # what one message to a worker covers
_Batch = list[tuple[str, str]]  # place on disk, logical path
_Done = list[tuple[str, bytes, str]]  # logical path, encoded document, error


def process_sources(
    top: str | os.PathLike[str],
    source: Source | str,
    coverage: Coverage,
    *,
    jobs: int = 1,
    hidden: bool = False,
    max_bytes: int = MAX_BYTES,
    limits: Limits | None = None,
    facts: bool = True,
    extractor: Extractor | None = None,
) -> Iterator[ProcessedDocument]:
    """Yields the processed documents under `top`, in the order of `walk_sources`, whatever `jobs`.

    A file that vanishes or cannot be read on the way is left out and stands in `coverage`. The
    `extractor` runs in this process.

    Raises ValueError when `jobs` is below 1, and what `walk_sources` and `process_document` raise.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    source = Source(name=source) if isinstance(source, str) else source
    files = walk_sources(top, coverage, hidden=hidden, max_bytes=max_bytes)
    return _process(files, source, coverage, jobs, limits, facts, extractor)


def _process(
    files: Iterable[FoundFile],
    source: Source,
    coverage: Coverage,
    jobs: int,
    limits: Limits | None,
    facts: bool,
    extractor: Extractor | None,
) -> Iterator[ProcessedDocument]:
    decode = msgspec.msgpack.Decoder(ProcessedDocument).decode
    for results in _results(files, source, jobs, limits, facts):
        for path, encoded, error in results:
            if error:
                coverage.taken -= 1
                coverage.leave_out(path, "unreadable", error)
                continue
            done = decode(encoded)
            yield apply_extractor(done, extractor) if extractor is not None else done


def _batches(files: Iterable[FoundFile]) -> Iterator[_Batch]:
    batch: _Batch = []
    size = 0
    for found in files:
        batch.append((found.place, found.path))
        size += found.size
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _results(
    files: Iterable[FoundFile], source: Source, jobs: int, limits: Limits | None, facts: bool
) -> Iterator[_Done]:
    if jobs == 1:
        for batch in _batches(files):
            yield _work(batch, source, limits, facts)
        return
    # spawn: the caller may have threads, which a fork would leave locked.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting: list[Future[_Done]] = []
        for batch in _batches(files):
            waiting.append(pool.submit(_work, batch, source, limits, facts))
            if len(waiting) > 2 * jobs:  # bounds the memory, keeps the order
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()


def _work(batch: _Batch, source: Source, limits: Limits | None, facts: bool) -> _Done:
    encode = msgspec.msgpack.Encoder().encode
    done: _Done = []
    for place, path in batch:
        try:
            with open(place, "rb") as file:
                raw = file.read()
        except OSError as error:
            done.append((path, b"", error.strerror or str(error)))
            continue
        document = process_document(raw, source, path=path, limits=limits, facts=facts)
        done.append((path, encode(document), ""))
    return done
