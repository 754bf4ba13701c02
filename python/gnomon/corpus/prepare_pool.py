"""Preparing many documents, on several processes where that pays.

The processes are started as `python -c`, so that a caller's script is not run again in them, as
`multiprocessing` would. They speak in frames over sockets: eight bytes of length, then MessagePack.
"""

from __future__ import annotations

import os
import queue
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress

import msgspec

from .assemble import Limits
from .extractor import Extractor
from .model import Source
from .prepare import prepare
from .prepare_model import PreparedBatch, Task

BATCH_BYTES = 1 << 20
_BATCH_MOST = 256  # documents
_ASKERS = 2  # jobs that a worker has at once
# Starting a process takes about a second, in which one prepares as much as this.
PARALLEL_FROM = 8 << 20
# The packages without what they show, for which they import all that workers do not need, too.
_WORK = """
import sys, types
sys.path[:] = {path!r}
for name, place in {packages!r}:
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = place
from gnomon.corpus.prepare_pool import work
work()
"""
_PACKAGES = ("gnomon", "gnomon.corpus")


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
            worker = stack.enter_context(_Worker())
            for _ in range(_ASKERS):
                free.put(worker)

        def answer(batch: list[Task]) -> PreparedBatch:
            worker = free.get()
            try:
                return worker.ask(_Job(batch, source, limits))
            finally:
                free.put(worker)

        threads = stack.enter_context(ThreadPoolExecutor(_ASKERS * (jobs - 1)))
        waiting: deque[_Waiting] = deque()
        stack.callback(lambda: [each.future.cancel() for each in waiting])

        def first() -> PreparedBatch:
            """The first batch of those that wait; this process helps until it is there."""
            while not waiting[0].future.done():
                undone = [each for each in waiting if not each.future.done()]
                rest = undone[_ASKERS * (jobs - 1) :]  # of those that no worker will have next
                own = next((each for each in rest if each.future.cancel()), None)
                if own is None:  # the others are at work on all of them
                    break
                own.own = prepare(own.tasks, source, limits)
            done = waiting.popleft()
            return done.future.result() if done.own is None else done.own

        for batch in batches:
            waiting.append(_Waiting(batch, threads.submit(answer, batch)))
            if len(waiting) > (_ASKERS + 1) * jobs:  # bounds the memory, keeps the order
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
    """A process that prepares batches in order. There is room for two askers at once, so that the
    next job is there when one is done: what is between them waits for this process's lock.
    """

    def __init__(self) -> None:
        packages = [(name, list(sys.modules[name].__path__)) for name in _PACKAGES]
        command = [sys.executable, "-c", _WORK.format(path=sys.path, packages=packages)]
        alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # or numpy starts threads for nothing
        # A socket gives an answer in one call, without the lock; a pipe would in pieces of 64 KiB.
        self._socket, theirs = socket.socketpair()
        with theirs:
            end = theirs.fileno()
            self._process = subprocess.Popen(command, stdin=end, stdout=end, env=alone)
        self._decode = msgspec.msgpack.Decoder(_Answer).decode
        self._turn = threading.Condition()
        self._asked = self._answered = 0
        self._asking = threading.Lock()

    def ask(self, job: _Job) -> PreparedBatch:
        data = None
        with suppress(ConnectionError):
            data = self._exchange(msgspec.msgpack.encode(job))
        if data is None:
            raise RuntimeError(
                f"a process that prepares documents ended (code {self._process.wait()}); "
                "pass jobs=1 to see why"
            )
        answer = self._decode(data)
        if answer.batch is None:
            raise RuntimeError(f"preparing documents failed:\n{answer.error}")
        return answer.batch

    def _exchange(self, data: bytes) -> bytearray | None:
        with self._asking:
            number, self._asked = self._asked, self._asked + 1
            try:
                _send(self._socket, data)
                sent = True
            except OSError:
                sent = False
        with self._turn:
            self._turn.wait_for(lambda: self._answered == number)
        try:
            return _receive(self._socket) if sent else None
        finally:
            with self._turn:
                self._answered += 1
                self._turn.notify_all()

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # it holds nothing that must be kept
        self._process.wait()
        self._socket.close()


def work() -> None:
    """What such a process does until nobody asks any more."""
    with socket.socket(fileno=os.dup(0)) as asker:
        os.dup2(2, 1)  # what a library may print is no answer
        decode = msgspec.msgpack.Decoder(_Job).decode
        while (data := _receive(asker)) is not None:
            job = decode(data)
            try:
                answer = _Answer(prepare(job.tasks, job.source, job.limits))
            except Exception:
                answer = _Answer(None, traceback.format_exc())
            _send(asker, msgspec.msgpack.encode(answer))


def _send(to: socket.socket, data: bytes) -> None:
    to.sendall(struct.pack("<Q", len(data)))
    to.sendall(data)


def _receive(of: socket.socket) -> bytearray | None:
    """The next frame; None at the end."""
    head = _exactly(of, 8)
    return None if head is None else _exactly(of, struct.unpack("<Q", head)[0])


def _exactly(of: socket.socket, size: int) -> bytearray | None:
    data = bytearray(size)
    view = memoryview(data)
    at = 0
    while at < size:
        n = of.recv_into(view[at:], size - at, socket.MSG_WAITALL)
        if n == 0:
            return None
        at += n
    return data
