"""Which engines of the BM25 benchmark are exact: each against its own formula, in float64.

An answer of k documents is right when it has every document whose score is more than SAME above
the k-th best, and no document whose score is more than SAME below it: in float32, which all peers
compute in, nearer scores are ties. The truth is computed here by numpy over all documents that
hold a query term, from exact frequencies and exact lengths, by the formula that the engine
documents, with the parameters that it was given. An engine that keeps lengths in one byte
(tantivy, as Lucene) or scores in 8 bits is therefore as right as its answers are, whatever it says
of them; a second share, against its formula on its own lengths, says that nothing else is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bm25_inputs import Corpus

SAME = 3e-6  # relative; 30 float32 parts lose 2e-6 at most
EXACT = 0.99  # an engine is exact when so many of its answers are right


@dataclass(frozen=True)
class Formula:
    """What a peer says it computes: sum of idf(N, df) * tf / (tf + k1 * (1 - b + b * dl / avgdl)).

    Constant factors, as k1 + 1, rank nothing and are left out. With bytes, dl is a length as one
    byte holds it; avgdl is that of exact lengths. With once, repeated words of a query count once.
    """

    idf: Callable[[float, Any], Any]
    k1: float
    b: float
    bytes: bool = False
    once: bool = False


def lucene_idf(n: float, df: Any) -> Any:
    return np.log(1.0 + (n - df + 0.5) / (df + 0.5))


def pisa_idf(n: float, df: Any) -> Any:
    return np.maximum(np.log((n - df + 0.5) / (df + 0.5)), 1e-6)


def okapi_idf(n: float, df: Any) -> Any:
    """rank_bm25: a negative idf becomes a quarter of the mean idf of all words."""
    idf = np.log(n - df + 0.5) - np.log(df + 0.5)
    return np.where(idf < 0, 0.25 * idf[df > 0].mean(), idf)


def as_byte(lengths: Any) -> Any:
    """Lengths as Lucene's SmallFloat and tantivy's fieldnorms hold them: exact to 40, then rounded
    down to four significant bits above 24.
    """
    above = np.maximum(lengths - 24, 0)
    bits = np.frexp(np.maximum(above, 1).astype(np.float64))[1]
    step = np.left_shift(1, np.maximum(bits - 4, 0))
    return np.where(lengths < 24, lengths, 24 + above // step * step)


class Truth:
    """Frequencies of a corpus by term, and what each formula makes of them."""

    def __init__(self, corpus: Corpus):
        self.n = corpus.n
        self.lengths = np.diff(corpus.offsets)
        terms = int(corpus.flat.max()) + 1
        documents = np.repeat(np.arange(corpus.n, dtype=np.int64), self.lengths)
        keys, tfs = np.unique(
            corpus.flat.astype(np.int64) * corpus.n + documents, return_counts=True
        )
        self.documents, self.tfs = (keys % corpus.n).astype(np.int64), tfs.astype(np.float64)
        self.df = np.bincount(keys // corpus.n, minlength=terms)
        self.starts = np.concatenate([[0], np.cumsum(self.df)])
        self._ready: dict[Formula, tuple[Any, Any]] = {}

    def scores(self, query: Sequence[int], formula: Formula) -> Any:
        """float64 of every document; 0 where no term of the query stands."""
        if formula not in self._ready:
            lengths = as_byte(self.lengths) if formula.bytes else self.lengths
            norms = formula.k1 * (1 - formula.b + formula.b * lengths / self.lengths.mean())
            with np.errstate(divide="ignore"):
                idf = formula.idf(float(self.n), self.df.astype(np.float64))
            self._ready[formula] = (norms, idf)
        norms, idf = self._ready[formula]
        scores = np.zeros(self.n)
        for term in dict.fromkeys(query) if formula.once else query:
            found = slice(self.starts[term], self.starts[term + 1])
            documents, tfs = self.documents[found], self.tfs[found]
            scores[documents] += idf[term] * tfs / (tfs + norms[documents])
        return scores

    def right(self, answer: Any, query: Sequence[int], k: int, formula: Formula) -> bool:
        """Whether these ids are the best k, except for ties."""
        scores = self.scores(query, formula)
        held = np.flatnonzero(scores)
        ids = np.unique(np.asarray(answer, dtype=np.int64))
        if len(held) <= k:
            return bool(np.array_equal(ids, held)) or bool(
                len(ids) >= len(held) and np.isin(held, ids).all()
            )
        worst = -np.partition(-scores[held], k - 1)[k - 1]
        surely = held[scores[held] > worst * (1 + SAME)]
        return bool(
            len(ids) == k
            and np.isin(surely, ids).all()
            and (scores[ids] >= worst * (1 - SAME)).all()
        )
