"""Filters: which documents a search may return, said as predicates on typed columns, ids or masks.

A filter removes documents; it never changes a score, and statistics (N, df, avgdl) stay those of
all live documents. Logic is two-valued: a document without a value in a column satisfies no
comparison on it, and `~` is the exact complement, so ``field("year") != 2020`` keeps documents that
have no year. With several keywords a comparison holds when it holds for one of them.

>>> import gnomon
>>> recent = gnomon.field("year") >= 2020
>>> english = gnomon.field("lang").isin(["en", "en-GB"])
>>> recent & ~english
Filter({"$and": [{"year": {"$gte": 2020}}, {"$not": {"lang": {"$in": ["en", "en-GB"]}}}]})

The same as JSON, for filters that arrive from elsewhere (`Filter.from_json`)::

    {"year": {"$gte": 2020, "$lt": 2030}, "lang": "en"}        # several conditions: all must hold
    {"$or": [{"tag": {"$in": ["a", "b"]}}, {"$not": {"tag": {"$exists": true}}}]}
    {"$scope": {"any_of": ["staff"]}}                          # see Filter.scope
    {"$ids": ["doc-1", "doc-2"]}
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from . import column_words as words_of
from .columns import Column, ColumnBlock
from .predicates import test_column

__all__ = ["Field", "Filter", "FilterView", "allowed", "field"]

Words = npt.NDArray[np.uint64]

# Operators of the JSON form, and how messages call them.
COMPARISONS = ("$eq", "$ne", "$lt", "$lte", "$gt", "$gte", "$in", "$nin", "$between", "$exists")


class FilterView(Protocol):
    """What a filter is evaluated against: segments of documents in slot order."""

    def sizes(self) -> Sequence[int]:
        """How many documents each segment has, deleted ones included."""

    def live(self, segment: int) -> Words | None:
        """The segment's documents that are not deleted; None for all."""

    def columns(self, segment: int) -> ColumnBlock | None:
        """The segment's columns; None when it has none."""

    def slots(self, ids: Sequence[Any]) -> npt.NDArray[np.int64]:
        """Slots of the live documents with these ids, in any order; unknown ids have none."""


class Filter:
    """A set of documents, said by a condition. Combine with ``&``, ``|`` and ``~``.

    Make one with :func:`field`, :meth:`scope`, :meth:`ids`, :meth:`mask` or :meth:`from_json`.
    Immutable.

    >>> import gnomon
    >>> gnomon.Filter.scope(["staff"]) & (gnomon.field("year") >= 2020)
    Filter({"$and": [{"$scope": {"any_of": ["staff"]}}, {"year": {"$gte": 2020}}]})
    """

    __slots__ = ()

    def __and__(self, other: Filter) -> Filter:
        """Documents that satisfy both."""
        return _joined("$and", self, other)

    def __or__(self, other: Filter) -> Filter:
        """Documents that satisfy one of them."""
        return _joined("$or", self, other)

    def __invert__(self) -> Filter:
        """Documents that do not satisfy it."""
        return self.parts[0] if isinstance(self, _Not) else _Not((self,))

    def __bool__(self) -> bool:
        """Refused: `and`, `or`, `not` and chained comparisons would drop conditions."""
        raise TypeError(
            "a Filter has no truth value; write (a) & (b), (a) | (b), ~(a) instead of and, or, "
            "not, and field(x).between(low, high) instead of low <= field(x) <= high"
        )

    def __repr__(self) -> str:
        """The JSON form."""
        return f"Filter({json.dumps(self.to_json(), ensure_ascii=False, default=str)})"

    def to_json(self) -> dict[str, Any]:
        """The filter as JSON data (see the module); TypeError for a mask, which has none."""
        raise NotImplementedError

    def evaluate(self, view: FilterView) -> list[Words]:
        """Packed words for each segment of the view, deleted documents not yet removed.

        Raises ValueError for a column that no segment has, TypeError for a value that is not of
        the column's kind.
        """
        raise NotImplementedError

    @staticmethod
    def scope(any_of: Iterable[str], *, column: str = "scope", unscoped: bool = False) -> Filter:
        """Documents that a caller with these access scopes may see.

        A document is visible when its scopes (a keyword column) and `any_of` have one in common.
        One without a scope is hidden, unless `unscoped` says otherwise. An empty `any_of` sees
        nothing more.

        >>> Filter.scope(["staff", "public"])
        Filter({"$scope": {"any_of": ["staff", "public"]}})
        """
        if isinstance(any_of, (str, bytes)):
            raise TypeError(f"any_of is one text; pass a list of scopes: [{any_of!r}]")
        scopes = list(any_of)
        for place, scope in enumerate(scopes):
            if not isinstance(scope, str):
                raise TypeError(f"any_of[{place}] must be a str, got a {type(scope).__name__}")
        return _Scope(tuple(scopes), column, bool(unscoped))

    @staticmethod
    def ids(ids: Iterable[Any]) -> Filter:
        """The documents with these ids; ids that the index does not have are no documents.

        >>> Filter.ids([3, 5])
        Filter({"$ids": [3, 5]})
        """
        if isinstance(ids, (str, bytes)):
            raise TypeError("ids is one text; pass a list of ids")
        values = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
        for place, value in enumerate(values):
            if isinstance(value, bool) or not isinstance(value, (str, int, np.integer)):
                raise TypeError(f"ids[{place}] is a {type(value).__name__}; ids are str or int")
        return _Ids(tuple(values))

    @staticmethod
    def mask(mask: Any) -> Filter:
        """The documents where `mask` is true: bool [N] over the live documents in their order."""
        array = np.asarray(mask)
        if array.dtype != np.bool_ or array.ndim != 1:
            raise TypeError(
                f"mask must be a flat array of bool, got {array.ndim} dimensions of {array.dtype}"
            )
        return _Mask(array.copy())

    @staticmethod
    def from_json(data: Any) -> Filter:
        """The filter that JSON data describes (see the module); a str is parsed first.

        Safe for input from anywhere: raises ValueError that names the place and the rule, and takes
        at most 1,000 conditions, 32 levels deep, with 100,000 listed values.

        >>> Filter.from_json('{"year": {"$gte": 2020}}')
        Filter({"year": {"$gte": 2020}})
        >>> Filter.from_json({"year": {"$above": 2020}})
        Traceback (most recent call last):
        ...
        ValueError: filter.year: unknown operator '$above'; known are $eq, $ne, $lt, $lte, $gt, ...
        """
        from .filter_json import parse

        return parse(data)


class Field:
    """A column's name, to be compared with values. See :func:`field`."""

    __slots__ = ("name",)
    __hash__ = None  # type: ignore[assignment]  # == makes a filter

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"a column's name is a str that is not empty, got {name!r}")
        self.name = name

    def __eq__(self, value: object) -> Filter:  # type: ignore[override]
        """The value is equal."""
        return _Comparison(self.name, "$eq", value)

    def __ne__(self, value: object) -> Filter:  # type: ignore[override]
        """The complement of ``==``: another value, or none."""
        return _Comparison(self.name, "$ne", value)

    def __lt__(self, value: Any) -> Filter:
        """The value is less; keywords compare by code point."""
        return _Comparison(self.name, "$lt", value)

    def __le__(self, value: Any) -> Filter:
        """The value is less or equal."""
        return _Comparison(self.name, "$lte", value)

    def __gt__(self, value: Any) -> Filter:
        """The value is greater."""
        return _Comparison(self.name, "$gt", value)

    def __ge__(self, value: Any) -> Filter:
        """The value is greater or equal."""
        return _Comparison(self.name, "$gte", value)

    def isin(self, values: Iterable[Any]) -> Filter:
        """The value is one of these; none of them: no document."""
        if isinstance(values, (str, bytes)):
            raise TypeError(f"isin takes a list of values, got one text; pass [{values!r}]")
        return _Comparison(self.name, "$in", tuple(values))

    def between(self, low: Any, high: Any) -> Filter:
        """The value lies in [low, high], both ends included.

        With several keywords in a document, one of them lies there.
        """
        return _Comparison(self.name, "$between", (low, high))

    def exists(self) -> Filter:
        """The document has a value."""
        return _Comparison(self.name, "$exists", True)

    def missing(self) -> Filter:
        """The document has no value."""
        return _Comparison(self.name, "$exists", False)

    def __repr__(self) -> str:
        """As it was made."""
        return f"field({self.name!r})"


def field(name: str) -> Field:
    """A column to compare with values: ``field("year") >= 2020``.

    >>> field("lang") == "en"
    Filter({"lang": {"$eq": "en"}})
    """
    return Field(name)


def allowed(filter: Any, view: FilterView) -> list[Words]:
    """Packed words of the live documents that `filter` lets through, for each segment.

    `filter` is a `Filter`, JSON data (a dict), a list of ids, or a bool mask.
    """
    found = as_filter(filter).evaluate(view)
    for segment, words in enumerate(found):
        live = view.live(segment)
        if live is not None:
            words &= live
    return found


def as_filter(value: Any) -> Filter:
    """A `Filter` from what a caller may pass as filter=. Raises TypeError for anything else."""
    if isinstance(value, Filter):
        return value
    if isinstance(value, Mapping):
        return Filter.from_json(value)
    if isinstance(value, np.ndarray) and value.dtype == np.bool_:
        return Filter.mask(value)
    if isinstance(value, (list, tuple)) and value and all(type(v) is bool for v in value):
        return Filter.mask(value)
    if isinstance(value, (list, tuple, set, frozenset, np.ndarray, range)):
        return Filter.ids(value)
    raise TypeError(
        f"filter is a {type(value).__name__}; pass a gnomon.Filter such as field('year') >= 2020, "
        "its JSON form as a dict, a list of ids, or a bool mask over the documents"
    )


class _Many(Filter):
    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Filter, ...]) -> None:
        self.parts = parts


class _And(_Many):
    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        return {"$and": [part.to_json() for part in self.parts]}

    def evaluate(self, view: FilterView) -> list[Words]:
        found = [words_of.full(n) for n in view.sizes()]
        for part in self.parts:
            for words, more in zip(found, part.evaluate(view), strict=True):
                words &= more
        return found


class _Or(_Many):
    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        return {"$or": [part.to_json() for part in self.parts]}

    def evaluate(self, view: FilterView) -> list[Words]:
        found = [words_of.empty(n) for n in view.sizes()]
        for part in self.parts:
            for words, more in zip(found, part.evaluate(view), strict=True):
                words |= more
        return found


class _Not(_Many):
    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        return {"$not": self.parts[0].to_json()}

    def evaluate(self, view: FilterView) -> list[Words]:
        found = self.parts[0].evaluate(view)
        return [~words & words_of.full(n) for words, n in zip(found, view.sizes(), strict=True)]


def _joined(operator: str, *filters: Any) -> Filter:
    kind = _And if operator == "$and" else _Or
    parts: list[Filter] = []
    for each in filters:
        if not isinstance(each, Filter):
            raise TypeError(f"& and | join filters, got a {type(each).__name__}; mind the brackets")
        parts.extend(each.parts if isinstance(each, kind) else [each])
    return kind(tuple(parts))


class _Comparison(Filter):
    __slots__ = ("column", "operator", "value")

    def __init__(self, column: str, operator: str, value: Any) -> None:
        self.column = column
        self.operator = operator
        self.value = value

    def to_json(self) -> dict[str, Any]:
        return {self.column: {self.operator: _jsonable(self.value)}}

    def evaluate(self, view: FilterView) -> list[Words]:
        return [
            test_column(column, self.operator, self.value, self.column)
            for column in columns_named(self.column, view)
        ]


class _Scope(Filter):
    __slots__ = ("any_of", "column", "unscoped")

    def __init__(self, any_of: tuple[str, ...], column: str, unscoped: bool) -> None:
        self.any_of = any_of
        self.column = column
        self.unscoped = unscoped

    def to_json(self) -> dict[str, Any]:
        said: dict[str, Any] = {"any_of": list(self.any_of)}
        if self.column != "scope":
            said["column"] = self.column
        if self.unscoped:
            said["unscoped"] = True
        return {"$scope": said}

    def evaluate(self, view: FilterView) -> list[Words]:
        found = []
        for column in columns_named(self.column, view):
            if column.kind != "keyword":
                raise TypeError(
                    f"access scopes are keywords, but column {self.column!r} is {column.kind}"
                )
            words = test_column(column, "$in", self.any_of, self.column)
            if self.unscoped:
                words |= test_column(column, "$exists", False, self.column)
            found.append(words)
        return found


class _Ids(Filter):
    __slots__ = ("values",)

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values

    def to_json(self) -> dict[str, Any]:
        return {"$ids": [_jsonable(value) for value in self.values]}

    def evaluate(self, view: FilterView) -> list[Words]:
        return _split(np.sort(view.slots(self.values)), view.sizes())


class _Mask(Filter):
    __slots__ = ("values",)

    def __init__(self, values: npt.NDArray[np.bool_]) -> None:
        self.values = values

    def __repr__(self) -> str:
        return f"Filter.mask(<{int(self.values.sum())} of {self.values.size} documents>)"

    def to_json(self) -> dict[str, Any]:
        raise TypeError("a mask over documents has no JSON form; use ids or a condition")

    def evaluate(self, view: FilterView) -> list[Words]:
        found, first = [], 0
        sizes = view.sizes()
        lives = [view.live(segment) for segment in range(len(sizes))]
        counts = [
            n if live is None else words_of.count(live)
            for n, live in zip(sizes, lives, strict=True)
        ]
        if sum(counts) != self.values.size:
            raise ValueError(
                f"the mask has {self.values.size} entries, the index {sum(counts)} documents; a "
                "mask counts live documents only, in the order of their insertion"
            )
        for n, live, count in zip(sizes, lives, counts, strict=True):
            part = self.values[first : first + count]
            first += count
            if live is None:
                found.append(words_of.pack(part))
                continue
            mask = np.zeros(n, dtype=np.bool_)
            mask[words_of.members(live, n)] = part
            found.append(words_of.pack(mask))
        return found


def columns_named(name: str, view: FilterView) -> list[Column]:
    """The column in each segment, all missing where a segment has no such column."""
    blocks = [view.columns(segment) for segment in range(len(view.sizes()))]
    kinds = {b.columns[name].kind for b in blocks if b is not None and name in b.columns}
    if not kinds:
        known = sorted({key for block in blocks if block is not None for key in block.columns})
        if not blocks:
            return []
        raise ValueError(
            f"the index has no column {name!r}; its columns: {', '.join(known) or 'none'}"
        )
    kind = min(kinds)
    return [
        block.columns[name]
        if block is not None and name in block.columns
        else Column.missing(kind, n)
        for block, n in zip(blocks, view.sizes(), strict=True)
    ]


def _split(slots: npt.NDArray[np.int64], sizes: Sequence[int]) -> list[Words]:
    found, base = [], 0
    for n in sizes:
        first, last = np.searchsorted(slots, [base, base + n])
        found.append(words_of.of_members(slots[first:last] - base, n))
        base += n
    return found


def _jsonable(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_jsonable(each) for each in value]
    if isinstance(value, (datetime.date, np.datetime64)):
        return str(value) if isinstance(value, np.datetime64) else value.isoformat()
    return value.item() if isinstance(value, np.generic) else value
