"""One comparison on one column, for all documents of a segment at once.

Numbers compare as Python compares them, exactly, whatever mixture of int and float meets: the
literal is moved to the nearest value of the column's type first, and the comparison with it.
"""

from __future__ import annotations

import datetime
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from .column_values import as_date
from .column_words import full, pack
from .columns import Column

__all__ = ["test_column"]

Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_SAID = {"$eq": "==", "$ne": "!=", "$lt": "<", "$lte": "<=", "$gt": ">", "$gte": ">="}
_INT64 = (-(2**63), 2**63 - 1)
_PLAIN = (str, int, float, bool, datetime.date, datetime.datetime)


# Answers that a column keeps, an eighth of a byte a document each: the same filter (an access
# scope, a language) comes with query after query, and a pass over the column costs more than many
# a search.
_KEPT = 16
_LISTED_MOST = 256


def test_column(column: Column, operator: str, value: Any, name: str) -> Words:
    """Packed words of the documents whose value satisfies the comparison, the caller's to change.

    Raises TypeError for a literal that is not of the column's kind, ValueError for NaN or a text
    that is no date.
    """
    key = _key(operator, value)
    known: Words | None = None if key is None else column.tested.get(key)
    if known is None:
        known = _tested(column, operator, value, name)
        if key is not None:
            kept = dict(column.tested)  # copied: another thread may read it
            while len(kept) >= _KEPT:
                del kept[next(iter(kept))]
            column.tested = {**kept, key: known}
    copied: Words = known.copy()
    return copied


def _key(operator: str, value: Any) -> Any:
    """What tells a comparison from every other; None for values that equality does not tell."""
    listed = value if isinstance(value, tuple) else (value,)
    if len(listed) > _LISTED_MOST or not all(type(each) in _PLAIN for each in listed):
        return None
    # 1, 1.0 and True are equal; so are the two times of a clock that was set back.
    told = tuple((type(each), each, getattr(each, "fold", 0)) for each in listed)
    return operator, isinstance(value, tuple), told


def _tested(column: Column, operator: str, value: Any, name: str) -> Words:
    if operator == "$exists":
        has = full(column.n) if column.present is None else column.present.copy()
        return has if value else ~has & full(column.n)
    if operator in ("$ne", "$nin"):
        inner = "$eq" if operator == "$ne" else "$in"
        return ~_tested(column, inner, value, name) & full(column.n)
    said = f"field({name!r}) {_SAID.get(operator, operator[1:])}"
    if column.kind == "keyword":
        return _keywords(column, operator, value, said)
    assert column.values is not None
    if operator == "$in":
        listed = [_number(column, each, f"{said} [{i}]") for i, each in enumerate(_listed(value))]
        return _with_value(column, _is_in(column.values, listed))
    if operator == "$between":
        low, high = (_number(column, each, said) for each in _pair(value, said))
        mask = _compare(column.values, "$gte", low)
        mask &= _compare(column.values, "$lte", high)
        return _with_value(column, mask)
    return _with_value(column, _compare(column.values, operator, _number(column, value, said)))


def _with_value(column: Column, mask: Mask) -> Words:
    words = pack(mask)
    if column.present is not None:
        words &= column.present
    return words


# ---------------------------------------------------------------------------------------- numbers
def _number(column: Column, value: Any, said: str) -> int | float:
    """The literal as a number. A date becomes microseconds."""
    if column.kind == "date":
        return as_date(value, said)
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        raise TypeError(f"{said}: the column holds {column.kind} values, got {value!r}")
    number: int | float = value.item() if isinstance(value, np.generic) else value
    if number != number:
        raise ValueError(f"{said}: NaN compares with nothing; use exists() or missing()")
    return number


def _compare(values: npt.NDArray[Any], operator: str, number: int | float) -> Mask:
    if values.dtype == np.float64:
        operator, exact = _to_float(operator, number)
    else:
        operator, exact = _to_int64(operator, number)
    if operator == "all":
        return np.ones(values.size, dtype=np.bool_)
    if operator == "none":
        return np.zeros(values.size, dtype=np.bool_)
    functions = {
        "$eq": np.equal,
        "$lt": np.less,
        "$lte": np.less_equal,
        "$gt": np.greater,
        "$gte": np.greater_equal,
    }
    mask: Mask = functions[operator](values, values.dtype.type(exact))
    return mask


def _to_int64(operator: str, number: int | float) -> tuple[str, int]:
    """The same comparison with a whole number within int64; "all" or "none" beyond."""
    if isinstance(number, float) and math.isinf(number):
        beyond = 1 if number > 0 else -1
    else:
        whole = math.floor(number)
        if whole != number:  # between whole and whole + 1
            if operator == "$eq":
                return "none", 0
            operator, number = ("$lte", whole) if operator in ("$lt", "$lte") else ("$gt", whole)
        beyond = (whole > _INT64[1]) - (whole < _INT64[0])
    if beyond == 0:
        return operator, int(number)
    if operator == "$eq":
        return "none", 0
    return ("all" if (operator in ("$lt", "$lte")) == (beyond > 0) else "none"), 0


def _to_float(operator: str, number: int | float) -> tuple[str, float]:
    """The same comparison with a float64."""
    try:
        nearest = float(number)
    except OverflowError:
        nearest = math.inf if number > 0 else -math.inf
        if operator == "$eq":
            return "none", 0.0
        # Beyond every finite float64, below infinity.
        if number > 0:
            return ("$lt" if operator in ("$lt", "$lte") else "$gte"), nearest
        return ("$lte" if operator in ("$lt", "$lte") else "$gt"), nearest
    if nearest == number:
        return operator, nearest
    if operator == "$eq":
        return "none", 0.0
    below = nearest < number  # no float64 lies between the two
    if operator in ("$lt", "$lte"):
        return ("$lte" if below else "$lt"), nearest
    return ("$gt" if below else "$gte"), nearest


def _is_in(values: npt.NDArray[Any], listed: list[int | float]) -> Mask:
    exact = set()
    for number in listed:
        convert = _to_float if values.dtype == np.float64 else _to_int64
        operator, same = convert("$eq", number)
        if operator == "$eq":
            exact.add(same)
    wanted = np.array(sorted(exact), dtype=values.dtype)
    if wanted.size <= 4:
        mask = np.zeros(values.size, dtype=np.bool_)
        for one in wanted:
            mask |= values == one
        return mask
    places = np.searchsorted(wanted, values)
    places[places == wanted.size] = 0
    found: Mask = wanted[places] == values
    return found


# --------------------------------------------------------------------------------------- keywords
def _keywords(column: Column, operator: str, value: Any, said: str) -> Words:
    """A comparison is a set of dictionary places: a range, or some."""
    terms = column.terms
    if operator == "$in":
        places = [
            _place(terms, _text(each, f"{said} [{i}]")) for i, each in enumerate(_listed(value))
        ]
        return _having(column, sorted({place for place in places if place is not None}))
    if operator == "$between":
        low, high = (_text(each, said) for each in _pair(value, said))
        return _having(column, range(bisect_left(terms, low), bisect_right(terms, high)))
    text = _text(value, said)
    left, right = bisect_left(terms, text), bisect_right(terms, text)
    ranges = {
        "$eq": range(left, right),
        "$lt": range(left),
        "$lte": range(right),
        "$gt": range(right, len(terms)),
        "$gte": range(left, len(terms)),
    }
    return _having(column, ranges[operator])


def _having(column: Column, places: range | list[int]) -> Words:
    """Documents with a keyword at one of these dictionary places, which ascend."""
    codes = column.codes
    assert codes is not None
    if not places:
        return pack(np.zeros(column.n, dtype=np.bool_))
    shift = 1 if column.starts is None else 0
    first, last = places[0] + shift, places[-1] + shift
    table = np.zeros(len(column.terms) + 1, dtype=np.bool_)
    table[np.asarray(places, dtype=np.int64) + shift] = True
    kind = codes.dtype.type
    if last - first + 1 == len(places):
        hits = codes == kind(first)
        if last != first:
            hits = codes >= kind(first)
            hits &= codes <= kind(last)
    else:
        hits = np.take(table, codes)
    if column.starts is None:
        return pack(hits)
    if np.count_nonzero(hits) * 16 < column.n:
        docs = np.searchsorted(column.starts, np.nonzero(hits)[0], side="right") - 1
        mask = np.zeros(column.n, dtype=np.bool_)
        mask[docs] = True
        return pack(mask)
    return _core.docs_having(table.view(np.uint8), codes, column.starts)


def _place(terms: Any, text: str) -> int | None:
    place = bisect_left(terms, text)
    return place if place < len(terms) and terms[place] == text else None


def _text(value: Any, said: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{said}: the column holds keywords, got {value!r}; pass a str")
    return value


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Iterable) else [value]


def _pair(value: Any, said: str) -> tuple[Any, Any]:
    low, high = value
    return low, high
