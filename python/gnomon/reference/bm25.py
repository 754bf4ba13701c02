"""Okapi BM25 (Robertson & Zaragoza 2009) with Lucene's idf, which is never negative.

    idf   = log(1 + (N - df + 0.5) / (df + 0.5))
    norm  = tf + k1 * (1 - b + b * dl / max(avgdl, 1e-12))
    score = score + idf * tf * (k1 + 1) / norm

N counts all documents and avgdl averages over all of them, empty ones included. Terms are added in
query order, each as often as the query repeats it, and every line is evaluated left to right.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence


def idf(n_docs: int, df: int) -> float:
    """Inverse document frequency of a term that stands in `df` of `n_docs` documents."""
    return math.log(1 + (n_docs - df + 0.5) / (df + 0.5))


def length_norm(dl: int, avgdl: float, k1: float, b: float) -> float:
    """The part of the norm that depends on the document alone; `dl` and `avgdl` in tokens."""
    return k1 * (1 - b + b * dl / max(avgdl, 1e-12))


def average_length(documents: Sequence[Sequence[Hashable]]) -> float:
    """Tokens per document: 0.0 when there is no document."""
    if not documents:
        return 0.0
    n_tokens = 0
    for document in documents:
        n_tokens += len(document)
    return n_tokens / len(documents)


def bm25_scores(
    query: Sequence[Hashable],
    documents: Sequence[Sequence[Hashable]],
    k1: float = 1.2,
    b: float = 0.75,
) -> list[float]:
    """The score of every document, in document order; 0.0 where no query term stands.

    >>> bm25_scores(["apple"], [["red", "apple"], ["blue", "berry"]])
    [0.6931471805599453, 0.0]
    """
    avgdl = average_length(documents)
    idfs = {term: idf(len(documents), _document_frequency(term, documents)) for term in query}
    scores = []
    for document in documents:
        tfs = _term_frequencies(document)
        norm = length_norm(len(document), avgdl, k1, b)
        score = 0.0
        for term in query:
            tf = tfs.get(term, 0)
            if tf:
                score += idfs[term] * tf * (k1 + 1) / (tf + norm)
        scores.append(score)
    return scores


def search(
    query: Sequence[Hashable],
    documents: Sequence[Sequence[Hashable]],
    k: int,
    k1: float = 1.2,
    b: float = 0.75,
) -> list[tuple[int, float]]:
    """The best `k` (position, score): higher score first, then lower position.

    Only documents that contain a query term are results. Containing decides, not the score.

    >>> search(["apple"], [["blue", "berry"], ["red", "apple"], ["an", "apple"]], k=2)
    [(1, 0.47000362924573563), (2, 0.47000362924573563)]
    """
    scores = bm25_scores(query, documents, k1, b)
    terms = set(query)
    hits = []
    for position, document in enumerate(documents):
        if not terms.isdisjoint(document):
            hits.append((position, scores[position]))
    hits.sort(key=lambda hit: (-hit[1], hit[0]))
    return hits[:k]


def _term_frequencies(document: Sequence[Hashable]) -> dict[Hashable, int]:
    tfs: dict[Hashable, int] = {}
    for term in document:
        tfs[term] = tfs.get(term, 0) + 1
    return tfs


def _document_frequency(term: Hashable, documents: Sequence[Sequence[Hashable]]) -> int:
    df = 0
    for document in documents:
        if term in document:
            df += 1
    return df
