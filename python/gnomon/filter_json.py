"""The JSON form of filters, read from data that nobody vouches for (see `gnomon.filters`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .filters import COMPARISONS, Filter, _And, _Comparison, _Not, _Or

__all__ = ["parse"]

_CONDITIONS_MAX = 1_000
_DEPTH_MAX = 32
_VALUES_MAX = 100_000
_TEXT_MAX = 10_000_000
_OPERATORS = ("$and", "$or", "$not", "$scope", "$ids")


def parse(data: Any) -> Filter:
    """The filter that the data describes. Raises ValueError naming the place and the rule."""
    if isinstance(data, (str, bytes)):
        if len(data) > _TEXT_MAX:
            raise ValueError(f"filter: at most {_TEXT_MAX:,} characters of JSON, got {len(data):,}")
        try:
            data = json.loads(data)
        except RecursionError:
            raise ValueError(f"filter: nested deeper than {_DEPTH_MAX} levels") from None
        except ValueError as error:
            raise ValueError(f"filter: not JSON: {error}") from None
    return _Reader().filter(data, "filter", 0)


class _Reader:
    """Counts what it has read, so that no input makes much work."""

    def __init__(self) -> None:
        self.conditions = 0
        self.values = 0

    def filter(self, data: Any, place: str, depth: int) -> Filter:
        if not isinstance(data, Mapping):
            raise ValueError(
                f"{place}: must be an object such as {{'year': {{'$gte': 2020}}}}, "
                f"got {_kind(data)}"
            )
        if depth >= _DEPTH_MAX:
            raise ValueError(f"{place}: nested deeper than {_DEPTH_MAX} levels")
        parts: list[Filter] = []
        for key, value in data.items():
            if not isinstance(key, str) or not key:
                raise ValueError(f"{place}: a key is a str that is not empty, got {key!r}")
            inner = f"{place}.{key}"
            if key.startswith("$"):
                parts.append(self._operator(key, value, place, inner, depth))
            else:
                parts.extend(self._conditions(key, value, inner))
        return parts[0] if len(parts) == 1 else _And(tuple(parts))

    def _operator(self, key: str, value: Any, place: str, inner: str, depth: int) -> Filter:
        self._count(inner)
        if key == "$not":
            return ~self.filter(value, inner, depth + 1)
        if key in ("$and", "$or"):
            items = self._list(value, inner)
            parts = [self.filter(item, f"{inner}[{i}]", depth + 1) for i, item in enumerate(items)]
            return _And(tuple(parts)) if key == "$and" else _Or(tuple(parts))
        if key == "$scope":
            return _scope(value, inner, self)
        if key == "$ids":
            ids = self._list(value, inner)
            for i, each in enumerate(ids):
                if isinstance(each, bool) or not isinstance(each, (str, int)):
                    raise ValueError(f"{inner}[{i}]: an id is a str or an int, got {_kind(each)}")
            return Filter.ids(ids)
        raise ValueError(
            f"{place}: unknown operator {key!r}; known are {', '.join(_OPERATORS)}, and column "
            "names"
        )

    def _conditions(self, column: str, value: Any, place: str) -> list[Filter]:
        if not isinstance(value, Mapping):
            self._count(place)
            return [_Comparison(column, "$eq", self._scalar(value, place))]
        if not value:
            raise ValueError(f"{place}: no operator; known are {', '.join(COMPARISONS)}")
        found: list[Filter] = []
        for operator, operand in value.items():
            self._count(place)
            if operator not in COMPARISONS:
                raise ValueError(
                    f"{place}: unknown operator {operator!r}; known are {', '.join(COMPARISONS)}"
                )
            found.append(self._comparison(column, operator, operand, f"{place}.{operator}"))
        return found

    def _comparison(self, column: str, operator: str, operand: Any, place: str) -> Filter:
        if operator == "$exists":
            if not isinstance(operand, bool):
                raise ValueError(f"{place}: must be true or false, got {_kind(operand)}")
            return _Comparison(column, "$exists", operand)
        if operator in ("$in", "$nin", "$between"):
            listed = self._list(operand, place)
            if operator == "$between" and len(listed) != 2:
                raise ValueError(f"{place}: must be [low, high], got {len(listed)} values")
            values = tuple(self._scalar(each, f"{place}[{i}]") for i, each in enumerate(listed))
            if operator == "$nin":
                return _Not((_Comparison(column, "$in", values),))
            return _Comparison(column, operator, values)
        return _Comparison(column, operator, self._scalar(operand, place))

    def _list(self, value: Any, place: str) -> list[Any]:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{place}: must be a list, got {_kind(value)}")
        self.values += len(value)
        if self.values > _VALUES_MAX:
            raise ValueError(f"{place}: more than {_VALUES_MAX:,} listed values")
        return list(value)

    def _scalar(self, value: Any, place: str) -> Any:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ValueError(
                f"{place}: a value is a text or a number, got {_kind(value)}; "
                "for documents without one use {'$exists': false}"
            )
        if value != value:
            raise ValueError(f"{place}: NaN compares with nothing")
        return value

    def _count(self, place: str) -> None:
        self.conditions += 1
        if self.conditions > _CONDITIONS_MAX:
            raise ValueError(f"{place}: more than {_CONDITIONS_MAX:,} conditions")


def _scope(value: Any, place: str, reader: _Reader) -> Filter:
    if not isinstance(value, Mapping) or not {"any_of"} <= value.keys() <= {
        *("any_of", "column", "unscoped"),
    }:
        raise ValueError(
            f"{place}: must be an object with 'any_of' and, if wanted, 'column' and 'unscoped'"
        )
    scopes = reader._list(value["any_of"], f"{place}.any_of")
    for i, scope in enumerate(scopes):
        if not isinstance(scope, str):
            raise ValueError(f"{place}.any_of[{i}]: a scope is a text, got {_kind(scope)}")
    column, unscoped = value.get("column", "scope"), value.get("unscoped", False)
    if not isinstance(column, str) or not column:
        raise ValueError(f"{place}.column: a column's name is a text, got {_kind(column)}")
    if not isinstance(unscoped, bool):
        raise ValueError(f"{place}.unscoped: must be true or false, got {_kind(unscoped)}")
    return Filter.scope(scopes, column=column, unscoped=unscoped)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    if value is None:
        return "null"
    return names.get(type(value), f"a {type(value).__name__}")
