"""Filters on one document's values, from their JSON form, by the letter of their definition.

Two-valued: a missing value (None, or no keyword) satisfies no comparison; `$not`, `$ne` and `$nin`
are exact complements. Dates are integers here, as they are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def matches(condition: Mapping[str, Any], row: Mapping[str, Any], id: Any = None) -> bool:
    """Whether the document with these values satisfies the condition.

    >>> matches({"year": {"$gte": 2020}, "tag": "a"}, {"year": 2021, "tag": ["a", "b"]})
    True
    >>> matches({"year": {"$ne": 2020}}, {})
    True
    """
    return all(_one(key, value, row, id) for key, value in condition.items())


def _one(key: str, value: Any, row: Mapping[str, Any], id: Any) -> bool:
    if key == "$and":
        return all(matches(part, row, id) for part in value)
    if key == "$or":
        return any(matches(part, row, id) for part in value)
    if key == "$not":
        return not matches(value, row, id)
    if key == "$ids":
        return id in value
    if key == "$scope":
        scopes = _values(row.get(value.get("column", "scope")))
        if not scopes:
            return bool(value.get("unscoped", False))
        return any(scope in value["any_of"] for scope in scopes)
    values = _values(row.get(key))
    if not isinstance(value, Mapping):
        return any(each == value for each in values)
    return all(_compare(operator, operand, values) for operator, operand in value.items())


def _values(value: Any) -> Sequence[Any]:
    if value is None:
        return []
    return value if isinstance(value, (list, tuple)) else [value]


def _compare(operator: str, operand: Any, values: Sequence[Any]) -> bool:
    if operator == "$exists":
        return bool(values) == bool(operand)
    if operator == "$ne":
        return not any(each == operand for each in values)
    if operator == "$nin":
        return not any(each in operand for each in values)
    for each in values:
        if operator == "$eq" and each == operand:
            return True
        if operator == "$lt" and each < operand:
            return True
        if operator == "$lte" and each <= operand:
            return True
        if operator == "$gt" and each > operand:
            return True
        if operator == "$gte" and each >= operand:
            return True
        if operator == "$in" and each in operand:
            return True
        if operator == "$between" and operand[0] <= each <= operand[1]:
            return True
    return False
