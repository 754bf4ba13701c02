"""The scan behind :func:`gnomon.groundtruth`: check, resume, block by block, result."""

from __future__ import annotations

import os
from typing import Any

from . import _core
from .dense import DenseIndex
from .formats_source import FormatError, VectorSource, check_vectors, widened
from .groundtruth import Report, batch_of, memory_used, now, rows_that_fit
from .groundtruth_file import Float64Array, GroundTruth, Int64Array
from .groundtruth_state import State, remove


def _no_crash(point: str) -> None:
    """Does nothing; tests put a function here that kills the process at a named point."""


_crash_point = _no_crash


class Scan:
    """One run over `base` for `queries`."""

    def __init__(
        self,
        base: VectorSource,
        queries: VectorSource,
        k: int,
        metric: str,
        on_zero: str,
        ties_max: int,
        threads: int | None,
        report: Report | None,
    ) -> None:
        self.base, self.queries = base, queries
        self.metric, self.on_zero, self.threads = metric, on_zero, threads
        self.k = min(k, base.n_rows)
        self._ties_max = ties_max
        self._report = report or (lambda phase, done, total: None)
        self._record: dict[str, Any] = {}
        self._checkpoint: str | None = None
        self._checkpoint_s = 0.0
        self.state = State(queries.n_rows, max(self.k, 1), ties_max)

    def check(self) -> None:
        """Reads everything once. Raises FormatError for what would spoil the answer."""
        base, queries = self.base, self.queries
        if base.dim != queries.dim:
            why = f"dimension {queries.dim}, but {base.path} has {base.dim}"
            raise FormatError(queries.path, why)
        for source in (base, queries):
            if source.n_rows == 0:
                raise FormatError(source.path, "no rows")
        zero_rows = "error" if self.metric == "cosine" and self.on_zero == "error" else "count"
        facts = {}
        for name, source in (("queries", queries), ("base", base)):

            def report(done: int, total: int, phase: str = f"check {name}") -> None:
                self._report(phase, done, total)

            facts[name] = check_vectors(source, zero_rows=zero_rows, report=report)
        self._record = {
            "metric": self.metric,
            "k": self.k,
            "on_zero": self.on_zero,
            "ties_max": self._ties_max,
            "base_rows": base.n_rows,
            "dim": base.dim,
            "base_dtype": base.dtype.name,
            "base_sha256": facts["base"].sha256,
            "base_zero_rows": facts["base"].n_zero,
            "queries": queries.n_rows,
            "queries_sha256": facts["queries"].sha256,
        }

    def resume(self, checkpoint: str, restart: bool, checkpoint_s: float) -> None:
        """Takes the state of a killed run of the same inputs, and saves this one's from now on."""
        self._checkpoint, self._checkpoint_s = checkpoint, checkpoint_s
        if restart:
            remove(checkpoint)
        elif os.path.exists(checkpoint):
            self.state = State.load(checkpoint, self._record)

    def run(self, limit: int, block_rows: int | None) -> GroundTruth:
        """Searches the rows that are left and returns the answer."""
        base = self.base
        vectors = widened(self.queries.read(0, self.queries.n_rows), "queries")
        self.queries.require_unchanged()  # the check of the base took a while
        if block_rows is None:
            block_rows = rows_that_fit(limit, base, len(vectors), self.k, memory_used())
        saved_at = now()
        for start in range(self.state.rows_done, base.n_rows, block_rows):
            stop = min(base.n_rows, start + block_rows)
            self._block(start, stop, vectors)
            self.state.rows_done = stop
            _crash_point("after_block")
            if self._checkpoint and stop < base.n_rows and now() - saved_at >= self._checkpoint_s:
                base.require_unchanged()
                self.state.save(self._checkpoint, self._record)
                saved_at = now()
                _crash_point("after_checkpoint")
        base.require_unchanged()
        return self._truth()

    def _block(self, start: int, stop: int, vectors: Any) -> None:
        index = DenseIndex.build(
            widened(self.base.read(start, stop), self.base.path),
            metric=self.metric,
            threads=self.threads,
        )
        asked = min(self.k + 1, stop - start)  # one more shows whether a group of ties goes on
        step, total = batch_of(self.k), self.base.n_rows * len(vectors)
        for first in range(0, len(vectors), step):
            batch = vectors[first : first + step]
            hits = index.search(batch, asked, threads=self.threads)

            def widen(query: int, k: int, batch: Any = batch) -> tuple[Int64Array, Float64Array]:
                found = index.search(batch[query], k, threads=self.threads)
                return found.ids + start, found.scores

            self.state.merge(first, hits.ids + start, hits.scores, stop - start, widen)
            done = start * len(vectors) + (stop - start) * (first + len(batch))
            self._report("search", done, total)
            _crash_point("after_batch")

    def _truth(self) -> GroundTruth:
        state = self.state
        offsets, tied = state.tie_lists()
        meta = {
            **self._record,
            "gnomon": _core.build_info()["version"],
            "arithmetic": "float32 values, float64 sums in the order of gnomon.reference.dense",
            "scores": {"l2": "negative squared distance"}.get(self.metric, self.metric),
            "ties": "lower row first",
        }
        return GroundTruth(state.ids, state.scores, state.n_tied(), offsets, tied, meta)

    def forget(self) -> None:
        """Deletes the checkpoint: the answer is on the disk."""
        if self._checkpoint:
            remove(self._checkpoint)
