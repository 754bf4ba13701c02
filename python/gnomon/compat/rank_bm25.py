"""rank_bm25's classes over gnomon's engine: change the import, keep the program.

    from rank_bm25 import BM25Okapi            # before
    from gnomon.compat.rank_bm25 import BM25Okapi   # after

Scores equal rank_bm25 0.2.2's with ``==`` (its order of float64 operations is gnomon's); with
``compat="head"`` those of its repository, where BM25L no longer multiplies by the term frequency
twice and BM25Plus takes its idf as a difference of logarithms. rank_bm25 need not be installed.

What differs from rank_bm25:

==========================  ================================  ==================================
matter                      rank_bm25                         here
==========================  ================================  ==================================
ties in ``get_top_n``       by NumPy's sort of this machine   the lower document first
n < 0 in ``get_top_n``      drops the n worst                 the same
``tokenizer``               in a pool of processes            in this process; lambdas work
no document, no token       ZeroDivisionError                 the same, with a message
0 / 0 in a score            NaN and a RuntimeWarning          that term adds what an absent one
                                                              does (BM25L, BM25Plus without any
                                                              token: all scores 0.0)
k1, b, delta                anything                          k1 from 0 to 1e100, b from 0 to 1,
                                                              delta finite; else ValueError
k1, b, delta set later      count                             the same
idf, doc_freqs, doc_len     change the scores when written    ``idf`` is read-only; the lists are
                                                              made when asked for
avgdl, corpus_size          change the scores when written    read-only
a subclass's ``_calc_idf``  used                              TypeError: use rank_bm25
``get_scores`` and memory   all documents' dicts              an inverted index
==========================  ================================  ==================================
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from .. import _core
from ..arrays import as_number
from ..bm25 import BM25Index
from ..bm25_formula import Formula
from ..results import Float64Array, Int64Array

Doc = TypeVar("Doc")

_VERSIONS = ("0.2.2", "head")


class BM25:
    """What the three formulas share. Not used by itself.

    Attributes: ``corpus_size``, ``avgdl``, ``doc_len`` (list of int), ``doc_freqs`` (a dict of
    token to count for each document), ``idf`` (token to float), ``k1``, ``b``, ``tokenizer``.
    """

    k1: float
    b: float

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = [
            name for name in ("_calc_idf", "_initialize", "_tokenize_corpus") if name in vars(cls)
        ]
        if own:
            raise TypeError(
                f"{cls.__name__}.{own[0]} would never be called: the scores are computed in C++; "
                "derive from rank_bm25's own class instead"
            )

    def __init__(
        self,
        corpus: Iterable[Any],
        tokenizer: Callable[[Any], Sequence[Hashable]] | None = None,
        *,
        compat: str = "0.2.2",
    ):
        if compat not in _VERSIONS:
            raise ValueError(f"compat must be one of {', '.join(_VERSIONS)}, got {compat!r}")
        self.tokenizer = tokenizer
        self.compat = compat
        documents = corpus if tokenizer is None else map(tokenizer, corpus)
        vocabulary: dict[Hashable, int] = {}
        ids: list[int] = []
        offsets = [0]
        for document in documents:
            for token in document:
                ids.append(vocabulary.setdefault(token, len(vocabulary)))
            offsets.append(len(ids))
        if len(offsets) == 1:
            raise ZeroDivisionError("corpus holds no document; the average length is undefined")
        self._restore(list(vocabulary), np.array(ids, np.uint32), np.array(offsets, np.int64))

    def _restore(
        self,
        tokens: list[Hashable],
        ids: Any,
        offsets: Int64Array,
        index: BM25Index | None = None,
    ) -> None:
        """All that is derived from the documents' tokens; also of an unpickled object."""
        self._tokens, self._ids, self._offsets = tokens, ids, offsets
        self._vocabulary = {token: place for place, token in enumerate(tokens)}
        self._avgdl = len(ids) / self.corpus_size
        self._index = BM25Index.build((ids, offsets)) if index is None else index
        self._scorers: dict[Formula, _core.Bm25Scorer] = {}

    def __getstate__(self) -> dict[str, Any]:
        derived = ("_vocabulary", "_index", "_scorers", "_avgdl")
        return {name: value for name, value in vars(self).items() if name not in derived}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._restore(self._tokens, self._ids, self._offsets)

    def _parameters(self) -> Formula:
        """The formula as the attributes say now."""
        raise NotImplementedError("BM25 has no formula; use BM25Okapi, BM25L or BM25Plus")

    def _scorer(self) -> _core.Bm25Scorer:
        formula = self._parameters()
        scorer = self._scorers.get(formula)
        if scorer is None:
            scorer = formula.scorer(self._index._view.searcher.snapshot)
            self._scorers = {formula: scorer}
        return scorer

    def _known(self, query: Iterable[Hashable]) -> list[int]:
        places = map(self._vocabulary.get, query)
        return [place for place in places if place is not None]

    def get_scores(self, query: Iterable[Hashable]) -> Float64Array:
        """The score of every document, float64 [N]; a str is taken character by character."""
        return self._scorer().scores(self._known(query), None, False, "")

    def get_batch_scores(self, query: Iterable[Hashable], doc_ids: Sequence[int]) -> list[float]:
        """The scores of some documents, in the order of ``doc_ids``; -1 is the last one.

        Raises AssertionError for an id that is too great, IndexError for one below -N.
        """
        wanted = [*doc_ids]
        for doc_id in wanted:
            if isinstance(doc_id, (bool, np.bool_)) or not hasattr(doc_id, "__index__"):
                raise IndexError(f"doc_ids holds {doc_id!r}, which is no whole number")
            if doc_id >= self.corpus_size:
                raise AssertionError(f"doc_ids holds {doc_id}; there are {self.corpus_size}")
        places = np.arange(self.corpus_size)[np.array(wanted, np.int64)]
        if not len(places):
            return []
        unique, back = np.unique(places, return_inverse=True)
        scores: list[float] = (
            self._scorer().parts(self._known(query), unique, None)[0][0][back].tolist()
        )
        return scores

    def get_top_n(
        self, query: Iterable[Hashable], documents: Sequence[Doc], n: int | None = 5
    ) -> list[Doc]:
        """The ``documents`` of the n best scores, best first, ties in their own order.

        Documents without a query term count as well, with their score, so that n come back whenever
        there are so many. Raises AssertionError when ``documents`` is not as long as the corpus.
        """
        if self.corpus_size != len(documents):
            raise AssertionError("The documents given don't match the index corpus!")
        return [documents[place] for place in self._best(self._known(query), n)]

    def _best(self, terms: list[int], n: int | None) -> list[int]:
        count = len(range(self.corpus_size)[:n])
        if count < self.corpus_size:
            # Among the documents with a query term, which a search reads; each of the others has
            # the same score, and comes before no document of a greater one.
            slots, found = self._scorer().search(terms, count, None, False, None, 1, "")
            if len(slots) == count and (count == 0 or found[-1] > self._absent_score(terms)):
                best: list[int] = slots.tolist()
                return best
        scores = self._scorer().scores(terms, None, False, "")
        order: list[int] = np.argsort(-scores, kind="stable")[:count].tolist()
        return order

    def _absent_score(self, terms: list[int]) -> float:
        """The score of a document without any of the terms, added up as in the formula."""
        formula = self._parameters()
        score = 0.0
        for place in terms if formula.name.startswith(_ABSENT_COUNTS) else ():
            idf = (self._scorer().term(place) or (0, 0.0))[1]
            k1, delta = formula.k1, formula.delta
            if formula.name == "rank_bm25-l-head":
                score += 0.0 if k1 + delta == 0.0 else idf * (k1 + 1.0) * delta / (k1 + delta)
            else:
                score += idf * delta
        return score

    def _documents(self) -> list[list[Hashable]]:
        """The tokens of each document again."""
        tokens, ids = self._tokens, self._ids.tolist()
        ends = pairwise(self._offsets.tolist())
        return [[tokens[place] for place in ids[first:last]] for first, last in ends]

    @property
    def corpus_size(self) -> int:
        """How many documents; read-only."""
        return len(self._offsets) - 1

    @property
    def avgdl(self) -> float:
        """Their mean length; read-only."""
        return self._avgdl

    @property
    def doc_len(self) -> list[int]:
        """Tokens of each document."""
        lengths: list[int] = np.diff(self._offsets).tolist()
        return lengths

    @property
    def doc_freqs(self) -> list[dict[Hashable, int]]:
        """For each document how often each of its tokens stands in it; made anew at each access."""
        return [dict(Counter(document)) for document in self._documents()]

    @property
    def idf(self) -> Mapping[Hashable, float]:
        """The idf of every token, in order of first appearance; read-only."""
        scorer = self._scorer()
        terms = (scorer.term(place) for place in range(len(self._tokens)))
        values = [(0.0 if term is None else term[1]) for term in terms]
        return MappingProxyType(dict(zip(self._tokens, values, strict=True)))


# Formulas where a document gets something for a query term that it lacks.
_ABSENT_COUNTS = ("rank_bm25-l-head", "rank_bm25-plus")


class BM25Okapi(BM25):
    """Okapi BM25 with rank_bm25's floor: a negative idf becomes epsilon times the mean idf.

    Examples
    --------
    >>> from gnomon.compat.rank_bm25 import BM25Okapi
    >>> corpus = ["red apple pie", "green pear", "red plum jam", "blueberry"]
    >>> bm25 = BM25Okapi([text.split() for text in corpus])
    >>> bm25.get_top_n("apple pie".split(), corpus, n=1)
    ['red apple pie']
    >>> bm25.get_scores(["plum"]).tolist()
    [0.0, 0.0, 0.736..., 0.0]
    """

    def __init__(
        self,
        corpus: Iterable[Any],
        tokenizer: Callable[[Any], Sequence[Hashable]] | None = None,
        k1: float = 1.5,
        b: float = 0.75,
        epsilon: float = 0.25,
        *,
        compat: str = "0.2.2",
    ):
        self.k1, self.b, self.epsilon = k1, b, epsilon
        super().__init__(corpus, tokenizer, compat=compat)
        if not self._tokens:
            raise ZeroDivisionError("corpus holds no token; the mean idf is undefined")
        self.average_idf = self._mean_idf()
        self._floor = epsilon * self.average_idf  # as it was at the start, whatever is set later
        self._parameters().checked()

    def _mean_idf(self) -> float:
        """Added up in order of first appearance, for rank_bm25's bits."""
        scorer = Formula("rank_bm25-okapi", idf_floor=0.0).scorer(
            self._index._view.searcher.snapshot
        )
        total = 0.0
        for place in range(len(self._tokens)):
            df = (scorer.term(place) or (0, 0.0))[0]
            total = total + (math.log(self.corpus_size - df + 0.5) - math.log(df + 0.5))
        return float(total / len(self._tokens))

    def _parameters(self) -> Formula:
        return Formula(
            "rank_bm25-okapi",
            as_number(self.k1, "k1"),
            as_number(self.b, "b"),
            idf_floor=float(self._floor),
        )


class BM25L(BM25):
    """BM25L (Lv & Zhai 2011) as rank_bm25 0.2.2 computes it, or with ``compat="head"``.

    Examples
    --------
    >>> from gnomon.compat.rank_bm25 import BM25L
    >>> corpus = [["one", "two", "two"], ["three"]]
    >>> BM25L(corpus).get_scores(["two"]) > BM25L(corpus, compat="head").get_scores(["two"])
    array([ True, False])
    """

    _formula = "rank_bm25-l"

    def __init__(
        self,
        corpus: Iterable[Any],
        tokenizer: Callable[[Any], Sequence[Hashable]] | None = None,
        k1: float = 1.5,
        b: float = 0.75,
        delta: float = 0.5,
        *,
        compat: str = "0.2.2",
    ):
        self.k1, self.b, self.delta = k1, b, delta
        super().__init__(corpus, tokenizer, compat=compat)
        self._parameters().checked()

    def _parameters(self) -> Formula:
        name = self._formula if self.compat == "0.2.2" else f"{self._formula}-head"
        return Formula(
            name,
            as_number(self.k1, "k1"),
            as_number(self.b, "b"),
            as_number(self.delta, "delta"),
        )


class BM25Plus(BM25L):
    """BM25+ (Lv & Zhai 2011) as rank_bm25 computes it: an absent term adds delta * idf.

    Examples
    --------
    >>> from gnomon.compat.rank_bm25 import BM25Plus
    >>> BM25Plus([["one", "two"], ["three"]]).get_batch_scores(["three"], [1, 0])
    [2.391..., 1.098...]
    """

    _formula = "rank_bm25-plus"

    def __init__(
        self,
        corpus: Iterable[Any],
        tokenizer: Callable[[Any], Sequence[Hashable]] | None = None,
        k1: float = 1.5,
        b: float = 0.75,
        delta: float = 1,
        *,
        compat: str = "0.2.2",
    ):
        super().__init__(corpus, tokenizer, k1, b, delta, compat=compat)
