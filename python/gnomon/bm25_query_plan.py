"""From query objects to the core's trees: texts analysed, fields numbered, filters evaluated."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from . import _core
from . import column_words as words_of
from .bm25_query import (
    All,
    AnyOf,
    Boolean,
    Fuzzy,
    Match,
    Near,
    Phrase,
    Prefix,
    Query,
    Term,
    Together,
    Where,
)
from .filters import FilterView, columns_named

__all__ = ["Planner"]

Words = npt.NDArray[np.uint64]

_DEPTH_MAX = 64
_NODES_MAX = 50_000


@dataclass
class Planner:
    """Makes trees for one snapshot.

    `tokens` analyses a text as the documents were, `query_tokens` as a query is (synonyms added);
    without it, as the documents. `fields` are the names of the fields, None for an index without.
    """

    snapshot: _core.Bm25Snapshot
    view: FilterView
    tokens: Callable[[str], Sequence[Any]]
    fields: Sequence[str] | None = None
    with_vocabulary: bool = True
    query_tokens: Callable[[str], Sequence[Any]] | None = None
    nodes: int = 0

    def plan(self, query: Query, depth: int = 0) -> _core.QueryNode:
        """The tree of a query. Raises TypeError or ValueError naming the part and the rule."""
        self.nodes += 1
        if depth >= _DEPTH_MAX:
            raise ValueError(f"the query is nested deeper than {_DEPTH_MAX} levels; flatten it")
        if self.nodes > _NODES_MAX:
            raise ValueError(f"the query has more than {_NODES_MAX:,} parts; split it")
        make = _MAKERS.get(type(query)) or _MAKERS[Boolean]
        if not isinstance(query, (Boolean, *_MAKERS)):
            raise TypeError(f"{type(query).__name__} is not a query object of gnomon.bm25_query")
        return make(self, query, depth)

    # One method for each kind of query

    def _term(self, query: Term, depth: int) -> _core.QueryNode:
        return self._token("term", query.token, query)

    def _prefix(self, query: Prefix, depth: int) -> _core.QueryNode:
        _require_text(query.text, "Prefix")
        return self._token("prefix", query.text, query)

    def _fuzzy(self, query: Fuzzy, depth: int) -> _core.QueryNode:
        _require_text(query.text, "Fuzzy")
        for name, value, most in (("edits", query.edits, 2), ("exact", query.exact, 255)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} must be a whole number, got a {type(value).__name__}")
            if not 0 <= value <= most:
                raise ValueError(f"{name} must lie between 0 and {most}, got {value}")
        return self._token(
            "fuzzy", query.text, query, edits=query.edits, exact=query.exact, swaps=query.swaps
        )

    def _token(self, kind: str, token: Any, query: Any, **options: Any) -> _core.QueryNode:
        rest = {"boost": _boost(query), "fields": self._numbers(query.field), **options}
        if self.with_vocabulary:
            if not isinstance(token, str):
                raise TypeError(f"tokens of this index are str, got {token!r}")
            return _core.QueryNode(kind, text=token.encode("utf-8", "surrogatepass"), **rest)
        if kind != "term":
            raise TypeError(
                "this index was built from token ids, which have no characters; use Term"
            )
        if isinstance(token, bool) or not isinstance(token, (int, np.integer)):
            raise TypeError(f"tokens of this index are ids (int), got {token!r}")
        # An id that no array could hold is a token of no document.
        return _core.QueryNode(kind, id=int(token) if 0 <= token < 2**32 - 1 else 2**32 - 1, **rest)

    def _any_of(self, query: AnyOf, depth: int) -> _core.QueryNode:
        return self._parts("any_of", query, query.queries, depth)

    def _phrase(self, query: Phrase, depth: int) -> _core.QueryNode:
        terms = query.terms
        if isinstance(terms, str):
            terms = tuple(Term(token) for token in self.tokens(terms))
        return self._parts("phrase", query, terms, depth, slop=min(query.slop, 2**63))

    def _near(self, query: Near, depth: int) -> _core.QueryNode:
        for part in query.queries:
            if isinstance(part, Phrase) and part.slop:
                raise ValueError("a Phrase in a Near has no slop of its own; use slop=0")
        window = min(query.window, 2**63)
        return self._parts("near", query, query.queries, depth, slop=window, ordered=query.ordered)

    def _parts(
        self, kind: str, query: Any, parts: Sequence[Query], depth: int, **options: Any
    ) -> _core.QueryNode:
        return _core.QueryNode(
            kind,
            boost=_boost(query),
            fields=self._numbers(query.field),
            children=[self.plan(part, depth + 1) for part in parts],
            **options,
        )

    def _boolean(self, query: Boolean, depth: int) -> _core.QueryNode:
        return _core.QueryNode(
            "boolean",
            boost=_boost(query),
            children=[self.plan(part, depth + 1) for part in query.must],
            should=[self.plan(part, depth + 1) for part in query.should],
            must_not=[self.plan(part, depth + 1) for part in query.must_not],
            minimum=min(query.minimum_should_match, 2**63),
        )

    def _match(self, query: Match, depth: int) -> _core.QueryNode:
        if query.operator not in ("or", "and"):
            raise ValueError(f"operator must be 'or' or 'and', got {query.operator!r}")
        _require_text(query.text, "Match")
        expand = self.query_tokens or self.tokens
        children = [self.plan(Term(t, query.field), depth + 1) for t in expand(query.text)]
        if query.operator == "and" and children:
            return _core.QueryNode("boolean", boost=_boost(query), children=children)
        return _core.QueryNode("boolean", boost=_boost(query), should=children, minimum=1)

    def _all(self, query: All, depth: int) -> _core.QueryNode:
        return _core.QueryNode("all")

    def _where(self, query: Where, depth: int) -> _core.QueryNode:
        return self._docs(query.filter.evaluate(self.view))

    def _docs(self, words: Sequence[Words]) -> _core.QueryNode:
        return _core.QueryNode("docs", docs=list(words), sizes=list(self.view.sizes()))

    def _together(self, query: Together, depth: int) -> _core.QueryNode:
        parts = [self.plan(part, depth + 1) for part in query.queries]
        matched = [_core.query_match(part, self.snapshot) for part in parts]
        allowed = self._docs(_together(query.column, matched, self.view))
        # Scored as the parts are: they decide nothing more.
        return _core.QueryNode("boolean", boost=_boost(query), children=[allowed], should=parts)

    def _numbers(self, field: Any) -> list[int]:
        """The numbers of the fields that a query names; none for all."""
        if field is None:
            return []
        names = [field] if isinstance(field, str) else list(field)
        known = self.fields or ()
        for name in names:
            if name not in known:
                raise ValueError(
                    f"the index has no field {name!r}; its fields: {', '.join(known) or 'none'}"
                )
        if not names:
            raise ValueError("field is an empty list; leave it out to look in every field")
        return sorted({known.index(name) for name in names})


def _together(column: str, matched: Sequence[Sequence[Words]], view: FilterView) -> list[Words]:
    """Documents that one part matches, of groups in which every part is matched."""
    sizes = view.sizes()
    if not matched:
        return [words_of.empty(n) for n in sizes]
    owners, docs, values = [], [], []
    for segment, given in enumerate(columns_named(column, view)):
        if given.kind not in ("keyword", "integer"):
            raise TypeError(
                f"groups are keywords or integers, but column {column!r} is {given.kind}"
            )
        doc, value = given.pairs()
        owners.append(np.full(doc.size, segment))
        docs.append(doc)
        values.append(value)
    codes = _numbered(values)
    some = [words_of.empty(n) for n in sizes]  # documents that one part, and that all parts match
    every = [words_of.full(n) for n in sizes]
    full = np.ones(max((int(c.max()) + 1 for c in codes if c.size), default=0), dtype=np.bool_)
    for part in matched:
        has = np.zeros(full.size, dtype=np.bool_)
        for segment, words in enumerate(part):
            some[segment] |= words
            every[segment] &= words
            has[codes[segment][words_of.unpack(words, sizes[segment])[docs[segment]]]] = True
        full &= has
    for segment, n in enumerate(sizes):
        grouped = np.zeros(n, dtype=np.bool_)
        grouped[docs[segment]] = True
        inside = np.zeros(n, dtype=np.bool_)
        inside[docs[segment][full[codes[segment]]]] = True
        alone = every[segment] & ~words_of.pack(grouped)
        some[segment] = some[segment] & words_of.pack(inside) | alone
    return some


def _numbered(values: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[np.int64]]:
    """Equal values of all arrays get equal numbers from 0."""
    every = np.concatenate(values) if values else np.zeros(0, dtype=np.int64)
    _, codes = np.unique(every, return_inverse=True)
    ends = np.cumsum([each.size for each in values])
    return [part.astype(np.int64) for part in np.split(codes.reshape(-1), ends[:-1])]


def _boost(query: Any) -> float:
    boost = query.boost
    if type(boost) is float and boost == 1.0:
        return 1.0
    if isinstance(boost, bool) or not isinstance(boost, (int, float, np.integer, np.floating)):
        raise TypeError(f"boost must be a number, got a {type(boost).__name__}")
    if not math.isfinite(boost):
        raise ValueError(f"boost must be finite, got {boost}")
    return float(boost)


def _require_text(text: Any, name: str) -> None:
    if not isinstance(text, str):
        raise TypeError(f"{name} takes a str, got a {type(text).__name__}")


_MAKERS = cast(
    "dict[type, Callable[[Planner, Query, int], _core.QueryNode]]",
    {
        Term: Planner._term,
        Prefix: Planner._prefix,
        Fuzzy: Planner._fuzzy,
        AnyOf: Planner._any_of,
        Phrase: Planner._phrase,
        Near: Planner._near,
        Boolean: Planner._boolean,
        Match: Planner._match,
        All: Planner._all,
        Where: Planner._where,
        Together: Planner._together,
    },
)
