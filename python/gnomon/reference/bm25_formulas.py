"""BM25 by name: the formulas of cpp/bm25.hpp, written out in the same order of operations.

A query is a list of (token, weight); tokens repeat as often as they should count. Every function
scores every document and says which of them match: those that hold a query term.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

Query = Sequence[tuple[Hashable, float]]
Document = Sequence[Hashable]

FORMULAS = (
    *("default", "lucene", "robertson", "atire", "bm25l", "bm25+"),
    *("rank_bm25-okapi", "rank_bm25-l", "rank_bm25-l-head", "rank_bm25-plus"),
    *("rank_bm25-plus-head", "haystack-okapi", "haystack-l", "haystack-plus", "tf-idf"),
)
FLOORED = ("rank_bm25-okapi", "haystack-okapi")
ABSENT_AT_END = ("bm25l", "bm25+")
ABSENT_IN_ORDER = ("rank_bm25-l-head", "rank_bm25-plus", "rank_bm25-plus-head")


def idf(formula: str, n_docs: int, df: int) -> float:
    """Inverse document frequency of a term in `df` > 0 of `n_docs` documents, before any floor.

    >>> idf("atire", 4, 2)
    0.6931471805599453
    """
    if formula == "robertson":
        return math.log(max(1.0, (n_docs - df + 0.5) / (df + 0.5)))
    if formula in ("atire", "tf-idf"):
        return math.log(n_docs / df)
    if formula in ("bm25l", "haystack-l"):
        return math.log((n_docs + 1.0) / (df + 0.5))
    if formula in ("bm25+", "rank_bm25-plus"):
        return math.log((n_docs + 1.0) / df)
    if formula == "rank_bm25-plus-head":
        return math.log(n_docs + 1.0) - math.log(df)
    if formula == "rank_bm25-okapi":
        return math.log(n_docs - df + 0.5) - math.log(df + 0.5)
    if formula in ("rank_bm25-l", "rank_bm25-l-head"):
        return math.log(n_docs + 1.0) - math.log(df + 0.5)
    if formula == "haystack-okapi":
        return math.log((n_docs - df + 0.5) / (df + 0.5))
    return math.log(1.0 + (n_docs - df + 0.5) / (df + 0.5))


def floor_idf(formula: str, n_docs: int, dfs: Mapping[Hashable, int], epsilon: float) -> float:
    """What replaces a negative idf: `epsilon` times the mean idf of all terms."""
    terms_of: dict[int, int] = {}
    for df in dfs.values():
        terms_of[df] = terms_of.get(df, 0) + 1
    idf_sum = 0.0
    for df in sorted(terms_of):
        idf_sum = idf_sum + terms_of[df] * idf(formula, n_docs, df)
    if formula == "rank_bm25-okapi":
        return epsilon * (idf_sum / len(dfs))
    return epsilon * idf_sum / len(dfs)


def relative_length(b: float, dl: int, avgdl: float) -> float:
    """A document's length against the average; 1 for an average one."""
    return 1.0 - b + b * dl / max(avgdl, 1e-12)


def saturated(k1: float, delta: float, c: float) -> float:
    denominator = k1 + c + delta
    return 0.0 if denominator == 0.0 else ((k1 + 1.0) * (c + delta)) / denominator


def absent_part(formula: str, idf: float, k1: float, delta: float) -> float:
    """What a document that lacks the term gets for it."""
    if formula == "bm25l":
        return idf * saturated(k1, delta, 0.0)
    if formula == "rank_bm25-l-head":
        return 0.0 if k1 + delta == 0.0 else idf * (k1 + 1.0) * delta / (k1 + delta)
    if formula in ("bm25+", "rank_bm25-plus", "rank_bm25-plus-head"):
        return idf * delta
    return 0.0


def part(formula: str, idf: float, tf: int, rel: float, k1: float, delta: float) -> float:
    """What a document of relative length `rel` gets for a term that stands `tf` > 0 times in it.

    >>> part("tf-idf", 0.5, 3, 1.0, 1.2, 0.0)
    1.5
    """
    norm = k1 * rel
    c = tf / rel
    if formula in ("lucene", "robertson"):
        return idf * (tf / (norm + tf))
    if formula in ("atire", "rank_bm25-okapi", "haystack-okapi"):
        return idf * (tf * (k1 + 1.0) / (tf + norm))
    if formula == "bm25l":
        return idf * saturated(k1, delta, c) - idf * saturated(k1, delta, 0.0)
    if formula == "bm25+":
        return idf * ((k1 + 1.0) * tf / (norm + tf) + delta) - idf * delta
    if formula == "rank_bm25-l":
        return idf * tf * (k1 + 1.0) * (c + delta) / (k1 + c + delta)
    if formula == "rank_bm25-l-head":
        return idf * (k1 + 1.0) * (c + delta) / (k1 + c + delta)
    if formula in ("rank_bm25-plus", "rank_bm25-plus-head"):
        return idf * (delta + tf * (k1 + 1.0) / (norm + tf))
    if formula == "haystack-l":
        return idf * saturated(k1, delta, c)
    if formula == "haystack-plus":
        return idf * (tf * (k1 + 1.0) / (tf + norm) + delta)
    if formula == "tf-idf":
        return idf * tf
    return idf * tf * (k1 + 1.0) / (tf + norm)


def document_frequencies(documents: Sequence[Document]) -> dict[Hashable, int]:
    """In how many documents each term stands."""
    dfs: dict[Hashable, int] = {}
    for document in documents:
        for term in dict.fromkeys(document):
            dfs[term] = dfs.get(term, 0) + 1
    return dfs


def scores(
    query: Query,
    documents: Sequence[Document],
    formula: str = "default",
    k1: float = 1.2,
    b: float = 0.75,
    delta: float = 0.5,
    epsilon: float = 0.25,
) -> list[float]:
    """The score of every document. Query terms of no document add nothing.

    >>> scores([("a", 1.0)], [["a"], ["b"]], "atire")
    [0.6931471805599453, 0.0]
    """
    dfs = document_frequencies(documents)
    terms = [
        (term, weight * term_idf(formula, len(documents), dfs, term, epsilon) + 0.0)
        for term, weight in query
        if term in dfs
    ]
    n_tokens = 0
    for document in documents:
        n_tokens += len(document)
    avgdl = n_tokens / len(documents) if documents else 0.0
    at_end = 0.0
    for _, idf_ in terms:
        at_end = at_end + absent_part(formula, idf_, k1, delta)
    result = []
    for document in documents:
        rel = relative_length(b, len(document), avgdl)
        score = 0.0
        for term, idf_ in terms:
            tf = document.count(term)
            if tf:
                score = score + part(formula, idf_, tf, rel, k1, delta)
            elif formula in ABSENT_IN_ORDER:
                score = score + absent_part(formula, idf_, k1, delta)
        if formula in ABSENT_AT_END:
            score = score + at_end
        result.append(score)
    return result


def term_idf(
    formula: str, n_docs: int, dfs: Mapping[Hashable, int], term: Hashable, epsilon: float
) -> float:
    """The idf of a term of the collection, floored where the formula has a floor."""
    value = idf(formula, n_docs, dfs[term])
    if value < 0.0 and formula in FLOORED:
        return floor_idf(formula, n_docs, dfs, epsilon)
    return value


def field_scores(
    query: Query,
    documents: Sequence[Mapping[str, Document]],
    weights: Mapping[str, float],
    bs: Mapping[str, float],
    k1: float = 1.2,
) -> list[float]:
    """BM25F (Robertson, Zaragoza & Taylor 2004): one saturation over weighted fields.

    `weights` names the fields in order; a field of weight 0 is as good as not there, but for df.

    >>> field_scores([("a", 1.0)], [{"t": ["a"]}, {"t": ["b"]}], {"t": 1.0}, {"t": 0.0})
    [0.6931471805599453, 0.0]
    """
    n_docs = len(documents)
    avgdl: dict[str, float] = {}
    for name in weights:
        n_tokens = 0
        for document in documents:
            n_tokens += len(document.get(name, ()))
        avgdl[name] = n_tokens / n_docs if n_docs else 0.0
    everything = [[t for name in weights for t in d.get(name, ())] for d in documents]
    dfs = document_frequencies(everything)
    result = []
    for document in documents:
        score = 0.0
        for term, weight in query:
            tilde = 0.0
            for name, field_weight in weights.items():
                tf = document.get(name, ()).count(term)
                if tf and field_weight:
                    rel = relative_length(bs[name], len(document[name]), avgdl[name])
                    tilde = tilde + field_weight * tf / rel
            if tilde:
                idf_ = weight * idf("default", n_docs, dfs[term]) + 0.0
                score = score + idf_ * tilde * (k1 + 1.0) / (tilde + k1)
        result.append(score)
    return result


def ranked(
    query: Query, documents: Sequence[Document], values: Sequence[float], k: int
) -> list[tuple[int, float]]:
    """The best `k` (position, score) of the documents that hold a query term."""
    terms = {term for term, _ in query}
    hits = []
    for position, document in enumerate(documents):
        if not terms.isdisjoint(document):
            hits.append((position, values[position]))
    hits.sort(key=lambda hit: (-hit[1], hit[0]))
    return hits[:k]
