"""The search half of a BM25 index: queries in whatever form, against one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _core
from .arrays import as_number
from .bm25_formula import SCREEN_BYTES, Formula
from .results import Float64Array, Int64Array

_SCORERS_MOST = 8  # formulas kept ready at once; each may hold screen lists


class Part(NamedTuple):
    """What one query term does for a document's score."""

    token: Any
    weight: float
    """The query's weight of the term."""
    tf: float
    """How often it stands in the document; for BM25F the weighted, length-normalised sum."""
    df: int
    idf: float
    score: float
    """Its part of the score."""


class Explanation(NamedTuple):
    """Why a document has its score: ``parts``, added up left to right, then ``constant``.

    ``constant`` is what BM25L and BM25+ give every document for the query's terms; else 0.0.
    """

    id: Any
    score: float
    parts: list[Part]
    constant: float

    @property
    def matched(self) -> list[Any]:
        """The query's terms that stand in the document, each once, in query order."""
        return list(dict.fromkeys(part.token for part in self.parts if part.tf))

    def __str__(self) -> str:
        lines = [f"{self.score!r} = score of {self.id!r}"]
        for part in self.parts:
            lines.append(
                f"  {part.score!r}  {part.token!r}: tf {part.tf:g}, df {part.df}, "
                f"idf {part.idf:.4f}, weight {part.weight:g}"
            )
        if self.constant:
            lines.append(f"  {self.constant!r}  for every document")
        return "\n".join(lines)


class TermStats(NamedTuple):
    """A term in the documents that are not deleted."""

    df: int
    """Documents that hold it."""
    idf: float
    """By the index's formula; 0.0 for a term of no document."""


class Query(NamedTuple):
    """Tokens (or token ids) in order, and a weight for each when they are not all 1."""

    tokens: Sequence[Any]
    weights: list[float] | None


class Searcher:
    """Answers queries over one snapshot; safe from several threads."""

    def __init__(
        self,
        snapshot: _core.Bm25Snapshot,
        formula: Formula,
        analyze: Callable[[str], Sequence[str]] | None,
        screen_bytes: int = SCREEN_BYTES,
    ):
        self.snapshot = snapshot
        self._formula = formula
        self._analyze = analyze
        self._screen_bytes = screen_bytes
        self._scorer = formula.scorer(snapshot, screen_bytes)
        self._others: dict[Formula, _core.Bm25Scorer] = {}
        self._is_text = snapshot.has_vocabulary
        # Documents without a single token do not say whether tokens are str or ids.
        self._any_kind = self._is_text and snapshot.n_terms == 0
        self.n_docs = snapshot.n_docs

    def scorer(
        self,
        formula: str | None = None,
        k1: float | None = None,
        b: float | None = None,
        delta: float | None = None,
        field_weights: Sequence[float] | None = None,
    ) -> _core.Bm25Scorer:
        """The scorer of the index's formula, or of one with these changes; the last are kept."""
        if (formula is None and k1 is None and b is None and delta is None) and (
            field_weights is None
        ):
            return self._scorer
        wanted = self._formula.with_(formula, k1, b, delta, field_weights)
        if wanted == self._formula:
            return self._scorer
        known = self._others.get(wanted)
        if known is None:
            known = wanted.scorer(self.snapshot, self._screen_bytes)
            others = dict(self._others)  # copied: another thread may read it
            while len(others) >= _SCORERS_MOST:
                del others[next(iter(others))]
            self._others = {**others, wanted: known}
        return known

    def query(self, query: Any) -> Query:
        """Tokens and weights of a query: a text, tokens, token ids, or terms with weights."""
        if type(query) is list and query and type(query[0]) is not tuple:
            # The core looks at each token; what most callers pass should cost no second look.
            return Query([*map(str, query)] if self._any_kind else query, None)
        if isinstance(query, str):
            if not self._is_text:
                raise TypeError(
                    "this index was built from token ids; a query is a list of token ids"
                )
            if self._analyze is None and self._any_kind:
                return Query([], None)  # nothing was ever said, so there is nothing to find
            if self._analyze is None:
                raise TypeError(
                    "this index was built from tokens, without an analyzer; pass the query as a "
                    "list of tokens, or build with analyzer="
                )
            return Query(self._analyze(query), None)
        if isinstance(query, (bytes, bytearray)):
            raise TypeError(f"query is {type(query).__name__}; decode it first")
        if isinstance(query, Mapping):
            return self._weighted(list(query.items()))
        tokens = query if isinstance(query, (list, tuple)) else _listed(query)
        if tokens and isinstance(tokens[0], tuple):
            return self._weighted(tokens)
        return Query(self._tokens(tokens), None)

    def _weighted(self, pairs: Sequence[Any]) -> Query:
        tokens, weights = [], []
        for place, pair in enumerate(pairs):
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(f"query[{place}] must be a (token, weight) pair like the others")
            tokens.append(pair[0])
            weights.append(as_number(pair[1], f"the weight of query[{place}]"))
        return Query(self._tokens(tokens), weights)

    def _tokens(self, tokens: Sequence[Any]) -> Sequence[Any]:
        return [*map(str, tokens)] if self._any_kind else tokens

    def search_many(
        self,
        queries: Sequence[Any],
        k: int,
        scorer: _core.Bm25Scorer,
        *,
        once: bool = False,
        allowed: list[Any] | None = None,
        threads: int = 0,
        level: str = "",
    ) -> tuple[Int64Array, Int64Array, Float64Array]:
        """Slots and scores of the best k of each query, over threads: those of query i are
        [ends[i]:ends[i + 1]].
        """
        parsed = [self.query(query) for query in queries]
        weights = [query.weights for query in parsed]
        return scorer.search_many(
            [query.tokens for query in parsed],
            k,
            weights if any(given is not None for given in weights) else None,
            once,
            allowed,
            threads,
            level,
        )

    def scores(self, query: Any, scorer: _core.Bm25Scorer, level: str = "") -> Float64Array:
        """The score of every slot, deleted documents included."""
        tokens, weights = self.query(query)
        return scorer.scores(tokens, weights, False, level)

    def scores_of(self, query: Any, slots: Int64Array, scorer: _core.Bm25Scorer) -> Float64Array:
        """The scores of some slots, in their order; they may repeat."""
        tokens, weights = self.query(query)
        unique, back = np.unique(slots, return_inverse=True)
        return scorer.parts(tokens, unique, weights)[0][0][back]

    def explain(
        self, query: Any, slots: Int64Array, ids: Sequence[Any], scorer: _core.Bm25Scorer
    ) -> list[Explanation]:
        """An explanation for each slot; `ids` are the callers' names of them."""
        tokens, weights = self.query(query)
        unique, back = np.unique(slots, return_inverse=True)
        found, places = scorer.parts(tokens, unique, weights)
        terms = []
        for place in places.tolist():
            df, idf = scorer.term(tokens[place]) or (0, 0.0)
            terms.append((tokens[place], 1.0 if weights is None else weights[place], df, idf))
        return explained(found, terms, zip(ids, back.tolist(), strict=True))

    def term_stats(self, token: Any) -> TermStats:
        """How many documents hold a token (or token id), and its idf by the index's own formula."""
        return TermStats(*(self._scorer.term(token) or (0, 0.0)))


def explained(
    found: tuple[Float64Array, Float64Array, Float64Array, float],
    terms: Sequence[tuple[Any, float, int, float]],
    rows: Iterable[tuple[Any, int]],
) -> list[Explanation]:
    """An explanation for each (id, row) of what the core found of (token, weight, df, idf)."""
    scores, parts, frequencies, constant = found
    return [
        Explanation(
            id_,
            float(scores[row]),
            [
                Part(token, weight, float(tf), df, idf, float(part))
                for (token, weight, df, idf), tf, part in zip(
                    terms, frequencies[row], parts[row], strict=True
                )
            ],
            constant,
        )
        for id_, row in rows
    ]


def _listed(query: Any) -> list[Any]:
    if isinstance(query, np.ndarray):
        tokens: list[Any] = query.tolist()
        return tokens
    if isinstance(query, Iterable):
        return list(query)
    raise TypeError(
        f"query is a {type(query).__name__}; pass a text, tokens, token ids, a mapping from token "
        "to weight, or a query object of gnomon.bm25_query"
    )


def as_once(repeats: str) -> bool:
    """Whether repeated query terms count once. Raises ValueError for neither word."""
    if repeats == "count":
        return False
    if repeats == "once":
        return True
    raise ValueError(f"repeats must be 'count' or 'once', got {repeats!r}")
