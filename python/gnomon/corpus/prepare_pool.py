"""Preparing many documents, on several processes where that pays."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context

import msgspec

from .assemble import Limits
from .extractor import Extractor
from .model import Source
from .prepare import PreparedBatch, Task, prepare

BATCH_BYTES = 1 << 20
_BATCH_MOST = 256  # documents
# Starting processes takes about a second, in which one prepares as much as this.
PARALLEL_FROM = 8 << 20


def jobs_for(n_bytes: int, jobs: int | None) -> int:
    """How many processes to use for so many bytes; `jobs` is what the caller wants."""
    if jobs is not None:
        if isinstance(jobs, bool) or not isinstance(jobs, int):
            raise TypeError(f"jobs must be a whole number, got a {type(jobs).__name__}")
        if jobs < 1:
            raise ValueError(f"jobs must be at least 1, got {jobs}")
        return jobs
    return len(os.sched_getaffinity(0)) if n_bytes >= PARALLEL_FROM else 1


def prepare_all(
    tasks: Iterable[tuple[Task, int]],
    source: Source,
    limits: Limits | None,
    extractor: Extractor | None,
    jobs: int,
) -> Iterator[PreparedBatch]:
    """Prepared documents in the order of the tasks, which come with their bytes.

    An `extractor` works in this process, and alone.
    """
    batches = _batches(tasks)
    if jobs == 1 or extractor is not None:
        for batch in batches:
            yield prepare(batch, source, limits, extractor)
        return
    decode = msgspec.msgpack.Decoder(PreparedBatch).decode
    # spawn: the caller may have threads, which a fork would leave locked.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting: list[Future[bytes]] = []
        try:
            for batch in batches:
                waiting.append(pool.submit(_work, batch, source, limits))
                if len(waiting) > 2 * jobs:  # bounds the memory, keeps the order
                    yield decode(waiting.pop(0).result())
            for future in waiting:
                yield decode(future.result())
        finally:
            for future in waiting:
                future.cancel()


def _batches(tasks: Iterable[tuple[Task, int]]) -> Iterator[list[Task]]:
    batch: list[Task] = []
    size = 0
    for task, n_bytes in tasks:
        batch.append(task)
        size += n_bytes
        if size >= BATCH_BYTES or len(batch) == _BATCH_MOST:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _work(batch: list[Task], source: Source, limits: Limits | None) -> bytes:
    return msgspec.msgpack.encode(prepare(batch, source, limits))
