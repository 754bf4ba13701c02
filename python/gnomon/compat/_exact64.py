"""Exact neighbours among float64 rows: gnomon's float32 search as a screen, settled in float64.

Rounding a vector to float32 turns it by at most u = 2^-24 (after an exact scaling that keeps its
greatest coordinate near 1), so a cosine moves by less than 4u in all, and a Euclidean distance by
at most u times the two lengths. Every row that the bound leaves in play is scored again from the
float64 numbers, in the order of operations of :mod:`gnomon.reference.dense`; where more are left
than were fetched, all rows are. The answer is that of scoring every row in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ._dense import index_of

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

_EXTRA = 16  # rows fetched beyond k, for those that rounding may have moved
_COSINE_SLACK = 2.0**-21  # twice 4u; the float64 sums' own error is far below the rest
_CELLS = 1 << 22  # numbers scored at once


class Exact64:
    """Rows [N, D] ready for exact search under ``"cosine"`` or ``"l2"``.

    The rows must stay as they are. Scores are cosines, or negative squared distances.

    >>> found = Exact64(np.array([[1.0, 0.0], [1.0, 1e-12]]), "l2").top([[1.0, 1e-12]], 1)
    >>> found[0].tolist()
    [[1]]
    """

    def __init__(self, rows: Float64, metric: str):
        self.rows, self.metric = rows, metric
        if metric == "l2":  # near the origin, and in float32's range
            self._centre = rows.mean(axis=0)
            spread = max(float((rows.max(axis=0) - rows.min(axis=0)).max()), 0.0)
            self._exponent = -int(np.frexp(spread)[1])
        near, lengths = self._screened(rows)
        self._reach = float(lengths.max())
        self._index = index_of(near, metric)

    def _screened(self, rows: Float64) -> tuple[npt.NDArray[np.float32], Float64]:
        """The rows scaled and rounded to float32, and (l2) the length of each."""
        near = np.empty(rows.shape, np.float32)
        lengths = np.zeros(len(rows))
        step = max(1, _CELLS // max(1, rows.shape[1]))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            here = slice(start, start + len(part))
            if self.metric == "cosine":
                greatest = np.abs(part).max(axis=1, keepdims=True, initial=0.0)
                near[here] = np.ldexp(part, -np.frexp(greatest)[1])
                continue
            moved = np.ldexp(part - self._centre, self._exponent)
            lengths[here] = np.sqrt(np.square(moved).sum(axis=1))
            with np.errstate(over="ignore"):
                near[here] = moved
        return near, lengths

    def top(self, queries: Any, k: int) -> tuple[Int64, Float64]:
        """Ids and scores [Q, k] of the k <= N best rows: score falling, then id rising."""
        wanted = np.asarray(queries, np.float64)
        near, lengths = self._screened(wanted)
        # A query far outside the data would not fit float32's squares.
        usable = np.abs(near).max(axis=1, initial=0.0) < 2.0**40
        n = len(self.rows)
        fetched = min(k + _EXTRA, n)
        ids = np.zeros((len(wanted), k), np.int64)
        scores = np.zeros((len(wanted), k))
        whole = ~usable
        if usable.any() and k:
            hits = self._index.search(near[usable], fetched)
            least = self._least(hits.scores[:, k - 1], lengths[usable])
            whole[usable] = (hits.scores[:, -1] >= least) & (fetched < n)
            some = ~whole[usable]
            self._settle(wanted, np.flatnonzero(usable)[some], hits.ids[some], ids, scores)
        for place in np.flatnonzero(whole).tolist():
            ids[place], scores[place] = self._best(wanted[place], np.arange(n), k)
        return ids, scores

    def within(self, queries: Any, least: float) -> list[tuple[Int64, Float64]]:
        """Ids (rising) and scores of all rows that score at least ``least``, for each query."""
        wanted = np.asarray(queries, np.float64)
        near, lengths = self._screened(wanted)
        usable = np.abs(near).max(axis=1, initial=0.0) < 2.0**40
        found = []
        for place in range(len(wanted)):
            ids = np.arange(len(self.rows))
            if usable[place]:
                bound = float(self._least(np.array(self._scaled(least)), lengths[place]))
                hit = self._index.search(near[place], None, min_score=bound)
                ids = np.sort(hit.ids)
            scores = self._scores(wanted[place][None], ids[None])[0]
            keep = scores >= least
            found.append((ids[keep], scores[keep]))
        return found

    def _scaled(self, score: float) -> float:
        """A score of the rows as one of the screen's."""
        if self.metric == "cosine":
            return score
        return -(float(np.ldexp(np.sqrt(max(0.0, -score)), self._exponent)) ** 2)

    def _least(self, scores: Any, lengths: Any) -> Any:
        """The least screened score of a row whose true one may reach that of these."""
        if self.metric == "cosine":
            return scores - _COSINE_SLACK
        error = 2.0**-22 * (self._reach + lengths) + 2.0**-120
        return -np.square(np.sqrt(-np.minimum(scores, 0.0)) + error)

    def _settle(
        self, queries: Float64, places: Int64, found: Int64, ids: Int64, scores: Float64
    ) -> None:
        k = ids.shape[1]
        step = max(1, _CELLS // max(1, found.shape[1] * self.rows.shape[1]))
        for start in range(0, len(places), step):
            here, some = places[start : start + step], found[start : start + step]
            exact = self._scores(queries[here], some)
            order = np.lexsort((some, -exact), axis=1)[:, :k]
            ids[here] = np.take_along_axis(some, order, axis=1)
            scores[here] = np.take_along_axis(exact, order, axis=1)

    def _best(self, query: Float64, ids: Int64, k: int) -> tuple[Int64, Float64]:
        exact = np.empty(len(ids))
        step = max(1, _CELLS // max(1, self.rows.shape[1]))
        for start in range(0, len(ids), step):
            some = ids[start : start + step]
            exact[start : start + step] = self._scores(query[None], some[None])[0]
        order = np.argsort(-exact, kind="stable")[:k]
        return ids[order], exact[order]

    def _scores(self, queries: Float64, ids: Int64) -> Float64:
        """The scores [Q, M] of the rows ``ids`` [Q, M] for each query [Q, D]."""
        rows = self.rows[ids]
        asked = queries[:, None, :]
        if self.metric == "l2":
            differences = rows - asked
            return 0.0 - _dot(differences, differences)
        rows, asked = _unit_scale(rows), _unit_scale(asked)
        squares = _dot(asked, asked) * _dot(rows, rows)
        with np.errstate(invalid="ignore", divide="ignore"):
            cosines = _dot(rows, asked) / np.sqrt(squares)
        cosines[squares == 0.0] = 0.0
        clipped: Float64 = np.clip(cosines, -1.0, 1.0)
        return clipped


def _unit_scale(rows: Float64) -> Float64:
    """Each row times a power of two, which changes no cosine, so that no square overflows."""
    greatest = np.abs(rows).max(axis=-1, keepdims=True, initial=0.0)
    scaled: Float64 = np.ldexp(rows, -np.frexp(greatest)[1])
    return scaled


def _dot(a: Float64, b: Float64) -> Float64:
    """Products added in eight running sums, which are then added in pairs."""
    width = a.shape[-1] - a.shape[-1] % 8
    shape = np.broadcast_shapes(a.shape, b.shape)
    lanes = np.zeros((*shape[:-1], 8))
    for start in range(0, width, 8):
        lanes += a[..., start : start + 8] * b[..., start : start + 8]
    lanes[..., : shape[-1] - width] += a[..., width:] * b[..., width:]
    pairs = lanes[..., :4] + lanes[..., 4:]
    total: Float64 = (pairs[..., 0] + pairs[..., 2]) + (pairs[..., 1] + pairs[..., 3])
    return total
