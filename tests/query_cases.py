"""Query objects as hypothesis draws them, and the same as trees of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gnomon.bm25_query import (
    All,
    And,
    AnyOf,
    Boolean,
    Fuzzy,
    Match,
    Near,
    Not,
    Or,
    Phrase,
    Prefix,
    Query,
    Term,
)
from hypothesis import strategies as st

# Tokens close to one another: prefixes of each other, one and two edits apart, swapped neighbours.
TOKENS = ("a", "ab", "ba", "abc", "acb", "b", "xyz", "é", "e", "風雨", "風")
FIELDS = ("title", "body")


def tokens() -> st.SearchStrategy[str]:
    return st.sampled_from(TOKENS)


def boosts() -> st.SearchStrategy[float]:
    return st.sampled_from((1.0, 1.0, 1.0, 2.0, 0.5, 0.0, -1.0, 3e-3))


def fields() -> st.SearchStrategy[Any]:
    return st.sampled_from((None, None, None, "title", "body", ["body", "title"]))


@st.composite
def singles(draw: st.DrawFn, with_fields: bool, depth: int = 0) -> Query:
    """Queries of single tokens."""
    field = draw(fields()) if with_fields else None
    boost = draw(boosts())
    kind = draw(st.sampled_from(("term", "term", "term", "prefix", "fuzzy", "any_of")))
    text = draw(tokens() | st.sampled_from(("", "abcd", "zzz", "風雨雨")))
    if kind == "prefix":
        return Prefix(text, field, boost)
    if kind == "fuzzy":
        edits, exact = draw(st.integers(0, 2)), draw(st.sampled_from((0, 0, 1, 2)))
        return Fuzzy(text, edits, exact, draw(st.booleans()), field, boost)
    if kind == "any_of" and depth == 0:
        parts = draw(st.lists(singles(with_fields, 1), max_size=3))
        return AnyOf(*parts, field=field, boost=boost)
    return Term(text, field, boost)


@st.composite
def positional(draw: st.DrawFn, with_fields: bool) -> Query:
    """Phrases and nears."""
    field, boost = draw(fields()) if with_fields else None, draw(boosts())
    parts: list[Any] = draw(st.lists(tokens() | singles(False), max_size=4))
    if draw(st.booleans()):
        slop = draw(st.sampled_from((0, 0, 1, 2, 3, 10, 2**70)))
        return Phrase(parts, slop, field=field, boost=boost)
    phrases = st.lists(tokens(), min_size=1, max_size=3).map(Phrase)
    some = draw(st.lists(phrases, max_size=1))
    window = draw(st.sampled_from((0, 1, 2, 3, 5, 2**70)))
    return Near([*parts, *some][:4], window, draw(st.booleans()), field=field, boost=boost)


def queries(with_fields: bool = False, positions: bool = True) -> st.SearchStrategy[Query]:
    """Every kind of query, nested."""
    leaves = singles(with_fields) | st.just(All())
    if positions:
        leaves = leaves | positional(with_fields)

    def joined(parts: st.SearchStrategy[Query]) -> st.SearchStrategy[Query]:
        some = st.lists(parts, max_size=3)
        return st.one_of(
            st.builds(lambda p, b: And(*p, boost=b), some, boosts()),
            st.builds(lambda p, b: Or(*p, boost=b), some, boosts()),
            parts.map(Not),
            st.builds(
                lambda must, should, must_not, least: Boolean(
                    must, should, must_not, minimum_should_match=least
                ),
                *(some, some, st.lists(parts, max_size=1)),
                st.none() | st.integers(0, 4),
            ),
        )

    return st.recursive(leaves, joined, max_leaves=6)


def tree(query: Query) -> dict[str, Any]:
    """The query as gnomon.reference.bm25_query takes it."""
    node: dict[str, Any] = {"boost": getattr(query, "boost", 1.0)}
    field = getattr(query, "field", None)
    if field is not None:
        node["fields"] = [field] if isinstance(field, str) else list(field)
    if isinstance(query, Term):
        node |= {"kind": "term", "token": query.token}
    elif isinstance(query, Prefix):
        node |= {"kind": "prefix", "text": query.text}
    elif isinstance(query, Fuzzy):
        node |= {"kind": "fuzzy", "text": query.text, "edits": query.edits}
        node |= {"exact": query.exact, "swaps": query.swaps}
    elif isinstance(query, AnyOf):
        node |= {"kind": "any_of", "parts": trees(query.queries)}
    elif isinstance(query, Phrase):
        terms = query.terms
        parts = trees([Term(t) for t in terms.split()] if isinstance(terms, str) else terms)
        node |= {"kind": "phrase", "parts": parts, "slop": query.slop}
    elif isinstance(query, Near):
        node |= {"kind": "near", "parts": trees(query.queries), "window": query.window}
        node |= {"ordered": query.ordered}
    elif isinstance(query, All):
        node |= {"kind": "all"}
    elif isinstance(query, Match):
        parts = [tree(Term(token, query.field)) for token in query.text.split()]
        must = query.operator == "and" and bool(parts)
        node |= {"kind": "boolean", "must" if must else "should": parts, "minimum": not must}
    elif isinstance(query, Boolean):
        node |= {"kind": "boolean", "must": trees(query.must), "should": trees(query.should)}
        node |= {"must_not": trees(query.must_not), "minimum": query.minimum_should_match}
    else:
        raise AssertionError(query)
    return node


def trees(queries: Sequence[Query]) -> list[dict[str, Any]]:
    return [tree(query) for query in queries]
