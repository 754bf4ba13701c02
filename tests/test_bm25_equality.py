"""BM25, compiled against the reference: the same ids and the same bits at every level."""

from __future__ import annotations

import gnomon
import numpy as np
import strategies
from gnomon.reference import bm25 as reference
from hypothesis import example, given
from hypothesis import strategies as st

Params = tuple[float, float]


def bits(scores: object) -> bytes:
    """What ``==`` cannot tell apart (0.0 and -0.0) differs here."""
    return np.asarray(scores, dtype=np.float64).tobytes()


@given(strategies.corpora(), strategies.queries(), strategies.bm25_params())
@example([], ["a"], (1.2, 0.75))
@example([[], []], ["a"], (1.2, 0.75))
def test_scores_of_every_document(
    level: str, documents: list[list[str]], query: list[str], params: Params
) -> None:
    expected = reference.bm25_scores(query, documents, *params)
    scores = gnomon.bm25_scores(query, documents, *params)
    assert scores == expected
    assert bits(scores) == bits(expected)
    index = gnomon.BM25Index.build(documents, k1=params[0], b=params[1])
    assert bits(index.scores(query, level=level)) == bits(expected)


@given(strategies.corpora(), strategies.queries(), strategies.bm25_params(), st.data())
def test_search(
    level: str, documents: list[list[str]], query: list[str], params: Params, data: st.DataObject
) -> None:
    k = data.draw(strategies.limits(len(documents)))
    index = gnomon.BM25Index.build(documents, k1=params[0], b=params[1])
    hits = index.search(query, k, level=level)
    found = list(zip(hits.ids.tolist(), hits.scores.tolist(), strict=True))
    assert found == reference.search(query, documents, k, *params)


@given(strategies.corpora(), st.lists(strategies.queries(), max_size=5), st.sampled_from((1, 2, 7)))
def test_search_many_over_threads(
    level: str, documents: list[list[str]], queries: list[list[str]], threads: int
) -> None:
    index = gnomon.BM25Index.build(documents)
    for query, hits in zip(
        queries, index.search_many(queries, 3, threads=threads, level=level), strict=True
    ):
        found = list(zip(hits.ids.tolist(), hits.scores.tolist(), strict=True))
        assert found == reference.search(query, documents, 3)


@given(strategies.corpora(), strategies.queries())
def test_token_ids_give_the_scores_of_their_tokens(
    level: str, documents: list[list[str]], query: list[str]
) -> None:
    vocabulary = strategies.WORDS + strategies.UNKNOWN
    numbers = [[vocabulary.index(token) for token in document] for document in documents]
    offsets = np.cumsum([0, *map(len, numbers)])
    flat = np.array([number for document in numbers for number in document], dtype=np.int64)
    expected = bits(reference.bm25_scores(query, documents))
    wanted = [vocabulary.index(token) for token in query]
    index = gnomon.BM25Index.build((flat, offsets))
    assert bits(index.scores(wanted, level=level)) == expected
    if flat.size:  # lists without a single token do not say whether tokens are str or int
        assert bits(gnomon.BM25Index.build(numbers).scores(wanted, level=level)) == expected
