"""Preparing many documents, on several processes where that pays.

The processes are started as `python -c`, so that a caller's script is not run again in them, as
`multiprocessing` would. They speak in frames over pipes: eight bytes of length, then MessagePack.
"""

from __future__ import annotations

import gc
import os
import queue
import struct
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import IO

import msgspec

from .assemble import Limits
from .extractor import Extractor
from .model import Source
from .prepare import PreparedBatch, Task, prepare

BATCH_BYTES = 1 << 20
_BATCH_MOST = 256  # documents
# Starting a process takes about a second, in which one prepares as much as this.
PARALLEL_FROM = 8 << 20
_WORK = "import sys; sys.path[:] = {path!r}; from gnomon.corpus.prepare_pool import work; work()"


class _Job(msgspec.Struct, array_like=True):
    tasks: list[Task]
    source: Source
    limits: Limits | None


class _Answer(msgspec.Struct, array_like=True):
    batch: PreparedBatch | None
    error: str = ""


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

    An `extractor` works in this process, and alone. Raises RuntimeError when a process ends early.
    """
    batches = _batches(tasks)
    if jobs == 1 or extractor is not None:
        for batch in batches:
            yield prepare(batch, source, limits, extractor)
        return
    with ExitStack() as stack:
        free: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for _ in range(jobs - 1):
            free.put(stack.enter_context(_Worker()))

        def answer(batch: list[Task]) -> PreparedBatch:
            worker = free.get()
            try:
                return worker.ask(_Job(batch, source, limits))
            finally:
                free.put(worker)

        threads = stack.enter_context(ThreadPoolExecutor(jobs - 1))
        waiting: deque[_Waiting] = deque()
        stack.callback(lambda: [each.future.cancel() for each in waiting])

        def first() -> PreparedBatch:
            """The first batch of those that wait; this process helps until it is there."""
            while not waiting[0].future.done():
                own = next((each for each in waiting if each.future.cancel()), None)
                if own is None:  # the others are at work on all of them
                    break
                own.own = prepare(own.tasks, source, limits)
            done = waiting.popleft()
            return done.future.result() if done.own is None else done.own

        for batch in batches:
            waiting.append(_Waiting(batch, threads.submit(answer, batch)))
            if len(waiting) > 2 * jobs:  # bounds the memory, keeps the order
                yield first()
        while waiting:
            yield first()


class _Waiting:
    """A batch that is given to the workers, or, where none had begun with it, is done here."""

    __slots__ = ("future", "own", "tasks")

    def __init__(self, tasks: list[Task], future: Future[PreparedBatch]) -> None:
        self.tasks = tasks
        self.future = future
        self.own: PreparedBatch | None = None


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


class _Worker:
    """A process that prepares one batch at a time."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", _WORK.format(path=sys.path)]
        alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # or numpy starts threads for nothing
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=alone
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._into, self._out = self._process.stdin, self._process.stdout
        self._decode = msgspec.msgpack.Decoder(_Answer).decode

    def ask(self, job: _Job) -> PreparedBatch:
        try:
            _write(self._into, msgspec.msgpack.encode(job))
            data = _read(self._out)
        except BrokenPipeError:
            data = None
        if data is None:
            raise RuntimeError(
                f"a process that prepares documents ended (code {self._process.wait()}); "
                "pass jobs=1 to see why"
            )
        answer = self._decode(data)
        if answer.batch is None:
            raise RuntimeError(f"preparing documents failed:\n{answer.error}")
        return answer.batch

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # it holds nothing that must be kept
        with suppress(BrokenPipeError):  # it ended before it read all, and close() writes the rest
            self._into.close()
        self._out.close()
        self._process.wait()


def work() -> None:
    """What such a process does until its standard input ends."""
    # A batch makes a million objects and hardly a circle; looking for those takes a tenth of the time.
    gc.disable()
    given, answers = sys.stdin.buffer, sys.stdout.buffer
    decode = msgspec.msgpack.Decoder(_Job).decode
    while (data := _read(given)) is not None:
        job = decode(data)
        try:
            answer = _Answer(prepare(job.tasks, job.source, job.limits))
        except Exception:
            answer = _Answer(None, traceback.format_exc())
        _write(answers, msgspec.msgpack.encode(answer))
        del job, answer
        gc.collect()


def _write(pipe: IO[bytes], data: bytes) -> None:
    pipe.write(struct.pack("<Q", len(data)))
    pipe.write(data)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes | None:
    """The next frame; None at the end."""
    head = pipe.read(8)
    if len(head) < 8:
        return None
    (size,) = struct.unpack("<Q", head)
    data = pipe.read(size)
    return data if len(data) == size else None
