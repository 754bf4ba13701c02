"""Query objects: what a document must hold to match, and which of it counts towards the score.

>>> import gnomon
>>> from gnomon.bm25_query import And, Not, Or, Phrase, Term
>>> index = gnomon.BM25Index.build(["a red apple", "a green apple", "apple, red"], positions=True)
>>> index.search(And("apple", Or(Phrase("red apple"), "green"))).ids
array([1, 0])
>>> index.count(And("apple", Not("green")))
2

A str in the place of a query is a `Term`: one token, taken as it is. `Phrase` and `Match` take a
text and analyse it as the documents were.

**Matching** is exact: `search` returns matching documents only, and all of them when k allows;
`count` is their number. **Scores** are BM25 of the positive terms, added left to right as written:
those of every part but `Not`, `must_not` and `Where`. A document that matches without a positive
term has score 0.0. A phrase or near counts its tokens one by one; a `Prefix`, `Fuzzy` or `AnyOf` is
one term: its tf is the sum of its tokens' tfs, its df the number of documents that hold any. Boosts
multiply: on the way from the outermost query to the term.

Token positions count the tokens of one field from 0, in the order that the analyzer gives them; an
identifier and its parts stand one after the other (`max_allowed_packet`, `max`, `allowed`,
`packet`). Documents that were given as tokens are counted alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Union

from .filters import Filter, as_filter

__all__ = [
    "All",
    "And",
    "AnyOf",
    "Boolean",
    "Fuzzy",
    "Match",
    "Near",
    "Not",
    "Or",
    "Phrase",
    "Prefix",
    "Query",
    "Term",
    "Together",
    "Where",
]

QueryLike = Union["Query", str, int]
Fields = str | Sequence[str] | None


class Query:
    """The base of all query objects; immutable, usable with any index."""

    __slots__ = ()

    def parts(self) -> tuple[Query, ...]:
        """The queries that this one is made of, in written order."""
        return ()


@dataclass(frozen=True)
class Term(Query):
    """Documents that hold the token, taken as it is: a str, or an int where tokens are ids.

    `field` names the field, or several, to look in; the score is that of the term in all fields.

    >>> Term("apple", boost=2.0)
    Term(token='apple', field=None, boost=2.0)
    """

    token: str | int
    field: Fields = None
    boost: float = 1.0


@dataclass(frozen=True)
class Prefix(Query):
    """Documents that hold a token which starts with `text`, taken as it is (lower case!).

    Every such token counts, however many there are.
    """

    text: str
    field: Fields = None
    boost: float = 1.0


@dataclass(frozen=True)
class Fuzzy(Query):
    """Documents that hold a token within `edits` (1 or 2) of `text`, taken as it is.

    An edit inserts, deletes or replaces one character or, with `swaps`, exchanges two neighbours
    (optimal string alignment: no character is edited twice). The first `exact` characters must be
    the same.
    """

    text: str
    edits: int = 1
    exact: int = 0
    swaps: bool = True
    field: Fields = None
    boost: float = 1.0


class AnyOf(Query):
    """Documents that hold one of these tokens, scored as one term: synonyms.

    Parts are tokens: str, `Term`, `Prefix`, `Fuzzy`, `AnyOf`. Their own fields and boosts do not
    count.
    """

    __slots__ = ("boost", "field", "queries")

    def __init__(self, *queries: QueryLike, field: Fields = None, boost: float = 1.0) -> None:
        self.queries = _tokens(queries, "AnyOf")
        self.field = field
        self.boost = boost

    def parts(self) -> tuple[Query, ...]:
        return self.queries

    def __repr__(self) -> str:
        return _shown(self, self.queries)


class Phrase(Query):
    """Documents in which the terms stand one after the other, in one field.

    `terms` is a text, which is analysed, or a list of tokens (str, or `AnyOf`, `Prefix`, `Fuzzy`
    where several tokens fit). With `slop` the terms may be out of place: with pi the position of
    term i, the greatest and the least of pi - i differ by at most `slop`, all positions being
    different. So 1 lets one other token stand between two terms, and 2 lets two neighbours change
    places. Needs an index with positions.

    Positions count the tokens that the analyzer leaves: a stop word leaves no gap. With English
    stop words "state of the art" is the phrase "state art", in documents as in queries, and matches
    "state art" too. (Lucene leaves a gap, and matches "state in modern art" instead.) Where the
    difference matters, build with an analyzer that keeps all words.
    """

    __slots__ = ("boost", "field", "slop", "terms")

    def __init__(
        self,
        terms: str | Iterable[QueryLike],
        slop: int = 0,
        *,
        field: Fields = None,
        boost: float = 1.0,
    ) -> None:
        self.terms = terms if isinstance(terms, str) else _tokens(terms, "Phrase")
        self.slop = _whole(slop, "slop")
        self.field = field
        self.boost = boost

    def parts(self) -> tuple[Query, ...]:
        return () if isinstance(self.terms, str) else self.terms

    def __repr__(self) -> str:
        return f"Phrase({self.terms!r}, slop={self.slop}{_rest(self)})"


class Near(Query):
    """Documents in which all parts stand within `window` positions of each other, in one field.

    The last position of any part less the first of any is at most `window`: two terms that stand
    side by side are within 1. Occurrences start at different positions, so ``Near(["a", "a"], 5)``
    needs two of them. With `ordered` each part stands behind the one before. Parts are tokens, or a
    `Phrase` without slop. Needs an index with positions.
    """

    __slots__ = ("boost", "field", "ordered", "queries", "window")

    def __init__(
        self,
        queries: Iterable[QueryLike],
        window: int,
        ordered: bool = False,
        *,
        field: Fields = None,
        boost: float = 1.0,
    ) -> None:
        if isinstance(queries, (str, bytes)):
            raise TypeError("Near takes a list of parts, got one text; use Phrase for a text")
        self.queries = tuple(
            each if isinstance(each, Phrase) else _tokens([each], "Near")[0] for each in queries
        )
        self.window = _whole(window, "window")
        self.ordered = bool(ordered)
        self.field = field
        self.boost = boost

    def parts(self) -> tuple[Query, ...]:
        return self.queries

    def __repr__(self) -> str:
        ordered = ", ordered=True" if self.ordered else ""
        return f"Near({list(self.queries)!r}, {self.window}{ordered}{_rest(self)})"


class Boolean(Query):
    """Documents that match every `must`, no `must_not`, and enough of `should`.

    Enough is `minimum_should_match`; not given, it is 0 where there is a must, else 1 (0 where
    there is no should either). More than there are: no document matches.
    """

    __slots__ = ("boost", "minimum_should_match", "must", "must_not", "should")

    def __init__(
        self,
        must: Iterable[QueryLike] = (),
        should: Iterable[QueryLike] = (),
        must_not: Iterable[QueryLike] = (),
        *,
        minimum_should_match: int | None = None,
        boost: float = 1.0,
    ) -> None:
        self.must = _queries(must, "must")
        self.should = _queries(should, "should")
        self.must_not = _queries(must_not, "must_not")
        least = 0 if self.must or not self.should else 1
        self.minimum_should_match = (
            least
            if minimum_should_match is None
            else _whole(minimum_should_match, "minimum_should_match")
        )
        self.boost = boost

    def parts(self) -> tuple[Query, ...]:
        return (*self.must, *self.should, *self.must_not)

    def __repr__(self) -> str:
        return (
            f"Boolean(must={list(self.must)!r}, should={list(self.should)!r}, "
            f"must_not={list(self.must_not)!r}, "
            f"minimum_should_match={self.minimum_should_match}{_rest(self)})"
        )


class And(Boolean):
    """Documents that match every part; all documents when there is none."""

    __slots__ = ()

    def __init__(self, *queries: QueryLike, boost: float = 1.0) -> None:
        super().__init__(must=queries, boost=boost)

    def __repr__(self) -> str:
        return _shown(self, self.must)


class Or(Boolean):
    """Documents that match at least one part; no document when there is none."""

    __slots__ = ()

    def __init__(self, *queries: QueryLike, boost: float = 1.0) -> None:
        super().__init__(should=queries, minimum_should_match=1, boost=boost)

    def __repr__(self) -> str:
        return _shown(self, self.should)


class Not(Boolean):
    """Documents that do not match; they score 0.0 by themselves."""

    __slots__ = ()

    def __init__(self, query: QueryLike) -> None:
        super().__init__(must_not=[query])

    def __repr__(self) -> str:
        return f"Not({self.must_not[0]!r})"


@dataclass(frozen=True)
class Match(Query):
    """The tokens of an analysed text: "or" matches one of them, "and" all. Scored one by one.

    ``Match(text)`` ranks as the text itself does.
    """

    text: str
    operator: str = "or"
    field: Fields = None
    boost: float = 1.0


@dataclass(frozen=True)
class All(Query):
    """Every document, with score 0.0."""

    boost: float = 1.0


class Where(Query):
    """Documents that a filter lets through, with score 0.0: an `index.filter` inside a query.

    >>> import gnomon
    >>> Or("red", Where(gnomon.field("year") >= 2020))
    Or(Term(token='red', field=None, boost=1.0), Where(Filter({"year": {"$gte": 2020}})))
    """

    __slots__ = ("boost", "filter")

    def __init__(self, filter: Any) -> None:
        self.filter: Filter = as_filter(filter)
        self.boost = 1.0

    def __repr__(self) -> str:
        return f"Where({self.filter!r})"


class Together(Query):
    """Documents that match a part, of a group in which every part is matched by some document.

    Groups are documents with an equal value in `column` (keyword or integer): the chunks of a
    section, the sections of a page. ``Together("section", "timeout", "retry")`` finds chunks with
    "timeout" or "retry" in sections that have both. A document without a value is a group of its
    own; one with several keywords belongs to several groups.
    """

    __slots__ = ("boost", "column", "queries")

    def __init__(self, column: str, *queries: QueryLike, boost: float = 1.0) -> None:
        if not isinstance(column, str):
            raise TypeError(f"column is the name of a column, got a {type(column).__name__}")
        self.column = column
        self.queries = _queries(queries, "Together")
        self.boost = boost

    def parts(self) -> tuple[Query, ...]:
        return self.queries

    def __repr__(self) -> str:
        return f"Together({self.column!r}, {', '.join(map(repr, self.queries))}{_rest(self)})"


def as_query(value: Any, name: str) -> Query:
    """A query from what stands in the place of one. Raises TypeError naming the place."""
    if isinstance(value, Query):
        return value
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return Term(value)
    raise TypeError(f"{name} must be a query or a token, got a {type(value).__name__}")


def _queries(values: Iterable[Any], name: str) -> tuple[Query, ...]:
    if isinstance(values, (str, bytes, Query)):
        raise TypeError(f"{name} takes a list of queries, got one: put it in a list")
    return tuple(as_query(value, f"{name}[{i}]") for i, value in enumerate(values))


def _tokens(values: Iterable[Any], name: str) -> tuple[Query, ...]:
    found = _queries(values, name)
    for i, query in enumerate(found):
        if not isinstance(query, (Term, Prefix, Fuzzy, AnyOf)):
            raise TypeError(
                f"{name}[{i}] must be a token (str, Term, Prefix, Fuzzy or AnyOf), got "
                f"{type(query).__name__}"
            )
    return found


def _whole(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, got a {type(value).__name__}")
    if value < 0:
        raise ValueError(f"{name} must be at least 0, got {value}")
    return value


def _shown(query: Any, parts: Sequence[Query]) -> str:
    rest = _rest(query)
    inner = ", ".join(map(repr, parts))
    return f"{type(query).__name__}({inner}{rest if inner else rest.removeprefix(', ')})"


def _rest(query: Any) -> str:
    field = getattr(query, "field", None)
    shown = "" if field is None else f", field={field!r}"
    return shown if query.boost == 1.0 else f"{shown}, boost={query.boost!r}"
