"""What a value of a typed column may be, and how it is stored: keyword, integer, float, date.

Dates are int64 microseconds since 1970-01-01 UTC. A datetime without a time zone is taken as UTC, a
date as its midnight. Texts in ISO 8601 stand for dates too, so that JSON can carry them.
"""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["KINDS", "as_date", "as_float", "as_integer", "as_keywords", "kind_of"]

KINDS = ("keyword", "integer", "float", "date")

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)


def kind_of(value: Any, name: str) -> str:
    """The kind of column that a value asks for when none was declared. TypeError for no kind."""
    if isinstance(value, (str, list, tuple, set, frozenset)):
        return "keyword"
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is a bool; use the keywords 'yes' and 'no', or the integers 0, 1")
    if isinstance(value, (datetime.date, np.datetime64)):
        return "date"
    if isinstance(value, (float, np.floating)):
        return "float"
    if isinstance(value, (int, np.integer)):
        return "integer"
    raise TypeError(
        f"{name} is a {type(value).__name__}; a value is a str or a list of str (keyword), an int, "
        "a float, a date or datetime, or None where a document has none"
    )


def as_keywords(value: Any, name: str) -> list[str]:
    """The keywords of one document, as given; a str is one keyword. Raises TypeError."""
    if isinstance(value, str):
        return [value]
    if type(value) is list and set(map(type, value)) <= {str}:  # what is frequent
        return list(value)
    if not isinstance(value, Iterable) or isinstance(value, (bytes, bytearray, dict)):
        raise TypeError(f"{name} must be a str or a list of str, got a {type(value).__name__}")
    values = list(value)
    for place, keyword in enumerate(values):
        if not isinstance(keyword, str):
            raise TypeError(f"{name}[{place}] must be a str, got a {type(keyword).__name__}")
    return values


def as_integer(value: Any, name: str) -> int:
    """A whole number within int64. Raises TypeError or ValueError."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, got a {type(value).__name__}") from None
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{name} does not fit 64 bits: {number}; store it as a keyword or float")
    return number


def as_float(value: Any, name: str) -> float:
    """A float, infinities included. Raises TypeError, or ValueError for NaN."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        raise TypeError(f"{name} must be a number, got a {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name} does not fit float64") from None
    if math.isnan(number):
        raise ValueError(f"{name} is NaN, which compares with nothing; pass None for no value")
    return number


def as_date(value: Any, name: str) -> int:
    """Microseconds since 1970-01-01 UTC. Raises TypeError or ValueError."""
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            raise ValueError(f"{name} is NaT; pass None for no value")
        value = value.astype("datetime64[us]").item()
        if isinstance(value, int):
            raise ValueError(f"{name} lies outside the years 1 to 9999")
    if isinstance(value, str):
        value = _parsed(value, name)
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            value = value.replace(tzinfo=datetime.timezone.utc)
    elif isinstance(value, datetime.date):
        value = datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.timezone.utc)
    else:
        raise TypeError(
            f"{name} must be a date, a datetime or a text in ISO 8601, got a {type(value).__name__}"
        )
    # In whole numbers: a timestamp as a float has lost microseconds since the year 2242.
    microseconds: int = (value - _EPOCH) // _MICROSECOND
    return microseconds


def date_of(microseconds: int) -> datetime.datetime:
    """The datetime (UTC) that is stored as this number. Raises OverflowError beyond year 9999."""
    return _EPOCH + microseconds * _MICROSECOND


def _parsed(text: str, name: str) -> datetime.datetime:
    try:
        # Python 3.10 reads no "Z", which most programs write.
        whole = text[:-1] + "+00:00" if text[-1:] in ("Z", "z") else text
        return datetime.datetime.fromisoformat(whole)
    except ValueError:
        raise ValueError(
            f"{name} must be a date in ISO 8601 such as '2024-02-29' or '2024-02-29T12:30:00Z', "
            f"got {text!r}"
        ) from None


def are_kinds(columns: Any) -> bool:
    """Whether what a manifest says of the columns is pairs of a name and a kind."""
    if not isinstance(columns, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in columns
    ):
        return False
    names = [name for name, _ in columns]
    return len(set(names)) == len(names) and all(kind in KINDS for _, kind in columns)
