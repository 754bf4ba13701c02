"""The eager scores of bm25s: one number for each (token, document) pair, computed once.

Each is evaluated in bm25s' order, in float64 but for tf * (k1 + 1), and rounded to the index's
dtype, which is what bm25s does under NumPy 2, so that the arrays are its own bit for bit. A query
adds up columns in the order of its tokens, in that dtype.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ... import _core

METHODS = ("robertson", "lucene", "atire", "bm25l", "bm25+")
SHIFTED = ("bm25l", "bm25+")  # a document gets something for a token that it lacks

Array = npt.NDArray[Any]


class Setting(NamedTuple):
    """Which scores: the parameters of :class:`gnomon.compat.bm25s.BM25`."""

    method: str
    idf_method: str
    k1: float
    b: float
    delta: float
    dtype: np.dtype[Any]
    int_dtype: np.dtype[Any]

    def checked(self) -> Setting:
        """Itself. Raises ValueError for a method that bm25s does not have."""
        for name, value in (("method", self.method), ("idf_method", self.idf_method)):
            if value not in METHODS:
                raise ValueError(f"Invalid {name}: {value!r}. Choose from {', '.join(METHODS)}.")
        return self


def idf(method: str, df: int, n: int) -> float:
    """The weight of a token in df > 0 of n documents.

    >>> idf("atire", 2, 4)
    0.6931471805599453
    """
    if method == "robertson":
        return math.log(max(1.0, (n - df + 0.5) / (df + 0.5)))
    if method == "lucene":
        return math.log(1 + (n - df + 0.5) / (df + 0.5))
    if method == "atire":
        return math.log(n / df)
    return math.log((n + 1) / (df + 0.5 if method == "bm25l" else df))


def saturation(setting: Setting, tf: Any, relative_length: Any) -> Any:
    """What a frequency counts for in a document of that length against the average."""
    k1, delta = setting.k1, setting.delta
    if setting.method == "bm25l":
        c = tf / relative_length
        return ((k1 + 1) * (c + delta)) / (k1 + c + delta)
    norm = k1 * relative_length
    if setting.method == "bm25+":
        return ((k1 + 1) * tf) / (norm + tf) + delta
    if setting.method == "atire":
        return (tf * (k1 + 1)) / (tf + norm)
    return tf / (norm + tf)


def build(
    documents: Sequence[Sequence[int]], n_vocab: int, setting: Setting
) -> tuple[dict[str, Any], Array | None]:
    """The sparse matrix of scores by column (token), and the shift of each token if there is one.

    Token ids lie in [0, n_vocab); ValueError names a document where one does not.
    """
    n = len(documents)
    lengths = np.fromiter(map(len, documents), np.int64, n)
    tokens = np.fromiter(chain.from_iterable(documents), np.int64, int(lengths.sum()))
    owner = np.repeat(np.arange(n, dtype=np.int64), lengths)
    out = np.flatnonzero((tokens < 0) | (tokens >= n_vocab))
    if len(out):
        raise ValueError(
            f"document {owner[out[0]]} holds the token id {tokens[out[0]]}; "
            f"the vocabulary has ids 0 to {n_vocab - 1}"
        )
    pairs, tf = np.unique(tokens * max(n, 1) + owner, return_counts=True)
    term, doc = np.divmod(pairs, max(n, 1))
    df = np.bincount(term, minlength=n_vocab)
    indptr = np.zeros(n_vocab + 1, np.int64)
    np.cumsum(df, out=indptr[1:])
    known, place = np.unique(df, return_inverse=True)  # one logarithm for each df, by math.log
    idfs = np.array([idf(setting.idf_method, int(d), n) if d else 0.0 for d in known])
    average = tokens.size / n if tokens.size else 1.0
    relative = (1 - setting.b) + setting.b * lengths / average
    part = saturation(setting, tf.astype(setting.dtype), relative[doc])  # tf * (k1 + 1) in dtype
    scores = idfs.astype(setting.dtype).astype(np.float64)[place][term] * part
    shift: Array | None = None
    if setting.method in SHIFTED:
        usual = (1 - setting.b) + setting.b * average / average
        nothing = setting.method == "bm25l" and setting.k1 + setting.delta == 0  # 0 / 0
        none = 0.0 if nothing else saturation(setting, 0.0, usual)
        shift = (idfs * none).astype(setting.dtype)[place]
        scores = scores - shift.astype(np.float64)[term]
    matrix = {
        "data": scores.astype(setting.dtype),
        "indices": doc.astype(setting.int_dtype),
        "indptr": indptr,
        "num_docs": n,
    }
    return matrix, shift


class Columns:
    """The arrays of an index as the compiled code reads them: where they lie, of types it knows.

    Scores of another type than float32 and float64 are summed by NumPy, and so are those that may
    overflow.
    """

    def __init__(self, matrix: dict[str, Any], dtype: np.dtype[Any]):
        self.matrix, self.dtype = dict(matrix), dtype
        self.engine: _core.Impacts | None = None
        if dtype not in (np.float32, np.float64) or matrix["data"].dtype != dtype:
            return
        for name in ("data", "indices", "indptr"):  # a bound is known of every column
            self.matrix[name].flags.writeable = False
        data, indices = self.matrix["data"], self.matrix["indices"]
        if indices.dtype not in (np.int32, np.int64):
            indices = indices.astype(np.int64)
        self.engine = _core.Impacts(
            np.ascontiguousarray(data),
            np.ascontiguousarray(indices),
            np.ascontiguousarray(self.matrix["indptr"], np.int64),
            int(self.matrix["num_docs"]),
        )

    def are_of(self, matrix: dict[str, Any]) -> bool:
        """Whether the arrays are still these."""
        return all(matrix[name] is value for name, value in self.matrix.items())

    def best(
        self, queries: Sequence[npt.NDArray[np.int64]], k: int, shifts: Any, threads: int
    ) -> tuple[Array, npt.NDArray[np.int64]] | None:
        """Scores and documents [queries, k]; None where NumPy must sum."""
        if self.engine is None:
            return None
        offsets = np.zeros(len(queries) + 1, np.int64)
        np.cumsum([len(query) for query in queries], out=offsets[1:])
        columns = np.concatenate([np.zeros(0, np.int64), *queries])
        return self.engine.top_k(columns, offsets, k, shifts, threads)


def columns_sum(columns: Columns, token_ids: npt.NDArray[np.int64]) -> Array:
    """The sum of the columns of some tokens, left to right: a score for each document."""
    if columns.engine is not None:
        return columns.engine.sums(token_ids)
    matrix = columns.matrix
    data, indices, indptr = matrix["data"], matrix["indices"], matrix["indptr"]
    scores = np.zeros(matrix["num_docs"], columns.dtype)
    for token in token_ids.tolist():
        start, end = int(indptr[token]), int(indptr[token + 1])
        # intp: with any other type of index numpy adds several times as slowly
        np.add.at(scores, indices[start:end].astype(np.intp), data[start:end])
    return scores


def checked_matrix(matrix: dict[str, Any], where: str) -> dict[str, Any]:
    """The arrays of a folder, after a look at whether they fit each other.

    Raises ValueError naming the folder.
    """
    data, indices, indptr, n = (matrix[k] for k in ("data", "indices", "indptr", "num_docs"))
    if not (data.ndim == indices.ndim == indptr.ndim == 1 and len(data) == len(indices)):
        raise ValueError(f"{where}: data and indices must be vectors of one length")
    if not (len(indptr) and indptr[0] == 0 and indptr[-1] == len(data)):
        raise ValueError(f"{where}: indptr must lead from 0 to the {len(data)} scores")
    if (np.diff(indptr) < 0).any():
        raise ValueError(f"{where}: indptr must not fall")
    if len(indices) and not (indices.min() >= 0 and indices.max() < n):
        raise ValueError(f"{where}: indices name a document outside 0 to {n - 1}")
    return matrix
