"""The running answer of a ground truth scan, and its checkpoint.

Blocks come from top to bottom, so on equal scores what is there ranks before what comes: a stable
sort of [old, new] by falling score is the total order, and the state after any blocks is the exact
answer over the rows so far. Where the blocks were cut, and whether a run was resumed, cannot show.

Ties at the last place are counted over all rows. A block's own list may end inside such a group;
then it is asked for a longer one until it does not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from ._atomic import replacing

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]
Widen = Callable[[int, int], tuple[Int64Array, Float64Array]]  # (query, k) -> ids, scores

CHECKPOINT_FORMAT, CHECKPOINT_VERSION = "gnomon-groundtruth-checkpoint", 1


class State:
    """The best `k` of the rows so far for each of `n_queries`, and the ties that did not fit."""

    def __init__(self, n_queries: int, k: int, ties_max: int) -> None:
        self.ids = np.full((n_queries, k), -1, np.int64)
        self.scores = np.full((n_queries, k), -np.inf)
        self.beyond = np.zeros(n_queries, np.int64)  # how many ties did not fit into the list
        self.tied: dict[int, Int64Array] = {}  # the first ties_max of them
        self.ties_max = ties_max
        self.rows_done = 0

    def merge(
        self, first: int, ids: Int64Array, scores: Float64Array, n_rows: int, widen: Widen
    ) -> None:
        """Takes in one block's lists for queries first.. : rows of the whole base, best first.

        `n_rows` is how many rows the block has; `widen` gives a longer list of it for one query.
        """
        k, count = self.ids.shape[1], len(ids)
        rows = slice(first, first + count)
        all_scores = np.concatenate([self.scores[rows], scores], axis=1)
        all_ids = np.concatenate([self.ids[rows], ids], axis=1)
        order = np.argsort(-all_scores, axis=1, kind="stable")
        all_scores = np.take_along_axis(all_scores, order, 1)
        all_ids = np.take_along_axis(all_ids, order, 1)
        threshold = all_scores[:, k - 1]
        raised = threshold > self.scores[rows][:, -1]
        self.scores[rows], self.ids[rows] = all_scores[:, :k], all_ids[:, :k]
        left = (all_scores[:, k:] == threshold[:, None]) & (all_ids[:, k:] >= 0)
        cut = (scores[:, -1] == threshold) & (scores.shape[1] < n_rows)
        for query in np.flatnonzero(raised & (self.beyond[rows] > 0)):
            self.beyond[first + query] = 0
            self.tied.pop(int(first + query), None)
        for query in np.flatnonzero(left.any(axis=1) | cut):
            more = all_ids[query, k:][left[query]]
            if cut[query]:
                more = np.concatenate([more, _rest(widen, int(query), scores[query], n_rows)])
            self._add(int(first + query), more)

    def _add(self, query: int, more: Int64Array) -> None:
        self.beyond[query] += len(more)
        held = np.concatenate([self.tied.get(query, more[:0]), more])
        self.tied[query] = np.sort(held)[: self.ties_max]

    def tie_lists(self) -> tuple[Int64Array, Int64Array]:
        """Offsets and ids of the ties beyond the lists."""
        sizes = [len(self.tied.get(query, ())) for query in range(len(self.ids))]
        offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
        held = [self.tied[query] for query in sorted(self.tied)]
        return offsets, np.concatenate(held) if held else np.zeros(0, np.int64)

    def n_tied(self) -> Int64Array:
        """How many rows have exactly the score of the last place."""
        inside: Int64Array = (self.scores == self.scores[:, -1:]).sum(axis=1)
        return inside + self.beyond

    def save(self, path: str, record: dict[str, Any]) -> None:
        """Writes a checkpoint, checksummed, in one step."""
        full = {"format": CHECKPOINT_FORMAT, "version": CHECKPOINT_VERSION, **record}
        full["rows_done"], full["k"] = self.rows_done, self.ids.shape[1]
        offsets, tied = self.tie_lists()
        with replacing(path) as temp:
            writer = _core.ContainerWriter(temp)
            writer.section("meta", np.frombuffer(json.dumps(full).encode(), np.uint8))
            writer.section("ids", self.ids.reshape(-1))
            writer.section("scores", self.scores.reshape(-1))
            writer.section("beyond", self.beyond)
            writer.section("tied.offsets", offsets)
            writer.section("tied.ids", tied)
            writer.finish()

    @classmethod
    def load(cls, path: str, record: dict[str, Any]) -> State:
        """Reads a checkpoint of the run that `record` describes.

        Raises CorruptIndex for a damaged file, ValueError naming what differs from `record`.
        """
        container = _core.Container(path)
        container.verify()
        arrays = {name: np.array(container.array(name)) for name, _, _ in container.sections()}
        try:
            full = json.loads(arrays["meta"].tobytes())
            n, k = len(arrays["beyond"]), int(full["k"])
            state = cls(n, k, int(full["ties_max"]))
            state.ids = arrays["ids"].reshape(n, k)
            state.scores = arrays["scores"].reshape(n, k)
            state.beyond = arrays["beyond"]
            offsets = arrays["tied.offsets"]
            for query in np.flatnonzero(np.diff(offsets)):
                state.tied[int(query)] = arrays["tied.ids"][offsets[query] : offsets[query + 1]]
            state.rows_done = int(full["rows_done"])
            version = (full["format"], full["version"])
        except (KeyError, TypeError, ValueError) as error:
            raise _core.CorruptIndex(f"{path}: not a checkpoint ({error}); {_REMEDY}") from error
        if version != (CHECKPOINT_FORMAT, CHECKPOINT_VERSION):
            raise _core.CorruptIndex(f"{path}: not a checkpoint of this version; {_REMEDY}")
        for name, value in record.items():
            if full.get(name) != value:
                was, now = _short(full.get(name)), _short(value)
                raise ValueError(f"{path}: of another run: {name} was {was}, is {now}; {_REMEDY}")
        return state


_REMEDY = "delete it, or start over (restart=True, --restart)"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 20 else text[:16] + "..."


def _rest(widen: Widen, query: int, scores: Float64Array, n_rows: int) -> Int64Array:
    """The ids of a block behind its list `scores` that tie with the end of it."""
    threshold, have = scores[-1], len(scores)
    k = have
    while True:
        k = min(n_rows, 2 * k + 64)
        ids, wide = widen(query, k)
        if k == n_rows or wide[-1] != threshold:
            rest: Int64Array = ids[have:][wide[have:] == threshold]
            return rest


def remove(path: str) -> None:
    """Deletes a checkpoint that is done with."""
    if os.path.exists(path):
        os.unlink(path)
