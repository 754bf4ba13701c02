"""Building one segment from documents: over threads, and within a memory budget.

Documents are cut into runs. Each run becomes a small segment; these are merged in order, which
gives the very arrays that one run over all documents gives. Without threads and without a budget
there is one run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from .analysis import Analyzer
from .arrays import as_count, as_threads
from .bm25_input import (
    AnalyzerLike,
    Sink,
    as_analyzer,
    batches,
    checked_token_ids,
    feed_of,
    is_id_array,
    peek,
)
from .bm25_spill import Spill
from .bm25_texts import TextBuffer, TextFile, Texts
from .progress import Progress, reporting

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Feed = Callable[[Sink], None]
_RUN_CHARS = 8 << 20  # of text for one thread: some 0.1 s of work
_BUDGET_LEAST = 32 << 20


@dataclass(frozen=True)
class Built:
    """A segment, the analyzer that goes with it, and its texts if they were to be stored."""

    core: _core.Bm25Index
    analyzer: Analyzer | None
    texts: Texts | None


@dataclass(frozen=True)
class Plan:
    """How to build."""

    fields: tuple[str, ...] = ()
    store_text: bool = False
    threads: int = 1
    memory_budget: int | None = None
    positions: bool = False

    @classmethod
    def of(
        cls,
        fields: Iterable[str] | None,
        store_text: bool,
        threads: int | None,
        memory_budget: int | None,
        positions: bool = False,
    ) -> Plan:
        """Checks what a caller gave. Raises TypeError or ValueError."""
        budget = None if memory_budget is None else as_count(memory_budget, "memory_budget", None)
        if budget is not None and budget < _BUDGET_LEAST:
            raise ValueError(
                f"memory_budget must be at least {_BUDGET_LEAST:,} bytes, got {budget:,}"
            )
        return cls(
            checked_fields(fields),
            bool(store_text),
            _core.thread_count(as_threads(threads)),
            budget,
            bool(positions),
        )


def checked_fields(fields: Iterable[str] | None) -> tuple[str, ...]:
    """Names of fields. Raises TypeError or ValueError."""
    if fields is None:
        return ()
    if isinstance(fields, str):
        raise TypeError("fields is a str; pass a list of names")
    names = tuple(fields)
    for place, name in enumerate(names):
        if not isinstance(name, str):
            raise TypeError(f"fields[{place}] is a {type(name).__name__}; names are str")
    if not names or len(names) > 255 or len(set(names)) != len(names):
        raise ValueError(f"fields must be 1 to 255 different names, got {list(names)!r}")
    return names


def build(
    documents: Any, analyzer: AnalyzerLike | None, plan: Plan, progress: Progress = None
) -> Built:
    """One segment of all documents. Raises TypeError or ValueError naming the document at fault."""
    chosen = as_analyzer(analyzer)
    if isinstance(documents, (str, bytes)):
        raise TypeError("documents is one text; pass a list of texts or of token lists")
    if isinstance(documents, Mapping):  # its keys would be the documents
        raise TypeError("documents is a mapping; pass its values, and its keys as ids")
    arrays = _of_arrays(documents, plan.positions)
    if arrays is not None:
        if plan.fields or plan.store_text:
            raise ValueError("arrays of token ids have no fields and no texts to store")
        return Built(arrays, chosen, None)
    stream = iter(documents)
    kind, stream = peek(_parts(stream, plan.fields) if plan.fields else stream)
    if kind == "text":
        chosen = chosen or Analyzer("standard-v1")
    elif plan.store_text:
        stream = _no_texts(stream)
    total = len(documents) if hasattr(documents, "__len__") else None
    with ExitStack() as stack:
        report = stack.enter_context(reporting(progress, total))
        assembly = stack.enter_context(_Assembly(kind, chosen, plan))
        for done in assembly.take(stream):
            report(done)
        return Built(assembly.finish(), chosen, assembly.texts())


def _no_texts(stream: Iterator[Any]) -> Iterator[Any]:
    for document in stream:
        raise TypeError(
            f"documents[0] is a {type(document).__name__}; with store_text=True documents are str"
        )
    return iter(())


def _of_arrays(documents: Any, positions: bool) -> _core.Bm25Index | None:
    """A segment of a scipy sparse matrix or of (token ids, offsets), read where they lie."""
    if isinstance(documents, tuple) and len(documents) == 2 and all(map(is_id_array, documents)):
        token_ids, offsets = documents
        if offsets.size == 0:
            raise ValueError("offsets is empty; it holds one entry more than there are documents")
        if positions:
            builder = _core.Bm25Builder(with_vocabulary=False, with_positions=True)
            ids = checked_token_ids(token_ids, "token_ids")
            builder.add_ids(ids, np.ascontiguousarray(offsets, dtype=np.int64))
            return builder.finish()
        if token_ids.dtype.itemsize < 4 or not token_ids.dtype.isnative:
            token_ids = checked_token_ids(token_ids, "token_ids")
        return _core.segment_of_tokens(
            np.ascontiguousarray(token_ids), np.ascontiguousarray(offsets, dtype=np.int64)
        )
    if not (hasattr(documents, "tocsr") and hasattr(documents, "shape")):
        return None
    if positions:
        raise ValueError("a matrix of term frequencies has no positions; pass tokens instead")
    if len(documents.shape) != 2:
        raise ValueError(f"a matrix has 2 dimensions, [documents, terms], got {documents.shape}")
    matrix = documents.tocsr()
    data = matrix.data
    if data.dtype not in (np.int32, np.int64, np.float32, np.float64):
        if data.dtype.kind not in "iuf":
            raise TypeError(f"counts must be numbers, got a matrix of {data.dtype}")
        data = data.astype(np.float64 if data.dtype.kind == "f" else np.int64)
    return _core.segment_of_counts(
        np.ascontiguousarray(matrix.indptr),
        np.ascontiguousarray(matrix.indices),
        np.ascontiguousarray(data),
        documents.shape[1],
    )


def _parts(stream: Iterator[Any], fields: Sequence[str]) -> Iterator[Any]:
    """The fields of each document one after the other; () for one that it lacks."""
    names = frozenset(fields)
    for place, document in enumerate(stream):
        if not isinstance(document, Mapping):
            raise TypeError(
                f"documents[{place}] is a {type(document).__name__}; with fields= a document is a "
                "mapping from field to its text or tokens"
            )
        for name in document:
            if name not in names:
                raise ValueError(
                    f"documents[{place}] has a field {name!r}; the fields are {', '.join(fields)}"
                )
        for name in fields:
            yield document.get(name, ())


class _Assembly:
    """Takes documents, keeps finished segments in order, and makes one of them."""

    def __init__(self, kind: str, analyzer: Analyzer | None, plan: Plan):
        self._kind = kind
        self._analyzer = analyzer
        self._plan = plan
        self._n_parts = max(len(plan.fields), 1)
        self._done: list[_core.Bm25Index] = []
        self._running: deque[Future[_core.Bm25Index]] = deque()
        in_core = kind == "text" and analyzer is not None and analyzer.in_core
        self._threads = plan.threads if in_core else 1
        self._pool = _pool(self._threads) if self._threads > 1 else None
        self._sink = self._new_sink()
        self._builder = self._sink.builder
        self._budget = plan.memory_budget
        self._spill = Spill() if self._budget is not None else None
        self._texts: TextBuffer | None = None
        if plan.store_text:
            self._texts = TextBuffer() if self._spill is None else TextFile(self._spill.path())

    def __enter__(self) -> _Assembly:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        if self._spill is not None:
            self._spill.close()

    def _new_sink(self) -> Sink:
        builder = _core.Bm25Builder(
            with_vocabulary=self._kind != "id",
            n_fields=self._n_parts,
            with_positions=self._plan.positions,
        )
        return Sink(builder, self._analyzer if self._kind == "text" else None)

    def take(self, stream: Iterator[Any]) -> Iterator[int]:
        """Reads all documents; yields how many there were so far."""
        run: list[Feed] = []
        chars = 0
        place = 0
        for batch in batches(stream, self._n_parts):
            if self._kind == "text" and self._plan.fields:
                batch = ["" if isinstance(part, tuple) and not part else part for part in batch]
            where = _where(place, self._plan.fields)
            feed = feed_of(batch, self._kind, self._analyzer, where, place)
            self._store(batch)
            place += len(batch) // self._n_parts
            if self._pool is None:
                feed(self._sink)
                self._end_run_if_large()
            else:
                run.append(feed)
                chars += sum(map(len, batch))
                if chars >= self._run_chars():
                    self._start(run)
                    run, chars = [], 0
            yield place
        if run:
            self._start(run)

    def _store(self, batch: list[Any]) -> None:
        if self._texts is not None:
            for text in batch:
                self._texts.add(text)

    # Threads: a run of batches is one task.

    def _run_chars(self) -> int:
        if self._budget is None:
            return _RUN_CHARS
        # A run takes up to 16 bytes a character: its texts twice, and its postings.
        return min(_RUN_CHARS, self._budget // (2 * 16 * (self._threads + 1)))

    def _start(self, run: list[Feed]) -> None:
        assert self._pool is not None
        while len(self._running) >= self._threads:
            self._finished(self._running.popleft().result())
        self._running.append(self._pool.submit(self._build_run, run))

    def _build_run(self, run: list[Feed]) -> _core.Bm25Index:
        sink = self._new_sink()
        for feed in run:
            feed(sink)
        return sink.builder.finish()

    # Memory: segments that are too much for it go to the disk.

    def _end_run_if_large(self) -> None:
        if self._budget is not None and self._builder.memory > self._budget // 2:
            self._finished(self._builder.finish())

    def _finished(self, segment: _core.Bm25Index) -> None:
        self._done.append(segment)
        if self._spill is None or self._budget is None:
            return
        in_memory = [place for place, s in enumerate(self._done) if not s.is_mapped]
        if sum(self._done[place].memory for place in in_memory) > self._budget // 4:
            for place in in_memory:
                self._done[place] = self._spill.keep(self._done[place].write)

    def finish(self) -> _core.Bm25Index:
        """One segment of everything."""
        while self._running:
            self._finished(self._running.popleft().result())
        if self._builder.n_docs or not self._done:
            self._done.append(self._builder.finish())
        if len(self._done) == 1:
            return self._done[0]
        pairs: list[tuple[_core.Bm25Index, Any]] = [(segment, None) for segment in self._done]
        if self._spill is None:
            return _core.merge_segments(pairs, self._threads)
        return self._spill.keep(lambda writer: _core.merge_segments_to(pairs, writer))

    def texts(self) -> Texts | None:
        """The stored texts."""
        if isinstance(self._texts, TextFile) and self._spill is not None:
            self._texts.finish()
            n = sum(segment.n_docs for segment in self._done)
            return Texts.open(self._spill.opened(), n, self._plan.fields)
        return None if self._texts is None else self._texts.texts(self._plan.fields)


def _pool(threads: int) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor  # here: `import gnomon` stays fast

    return ThreadPoolExecutor(threads)


def _where(place: int, fields: Sequence[str]) -> Callable[[int], str]:
    if not fields:
        return lambda i: f"documents[{place + i}]"
    n = len(fields)
    return lambda i: f"documents[{place + i // n}][{fields[i % n]!r}]"
