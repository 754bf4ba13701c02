"""Reading JSON text without the leniency of json.loads."""

from __future__ import annotations

import json
import re
from typing import Any

from .jsoncopy import DEFAULT_BOUNDS, INTEGER_MAX, Bounds, plain_copy
from .problems import Problem, ValidationError

# A string counts as one piece; its closing quote is optional, so that a text that ends inside a
# string is still read in one pass.
_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class _TextError(Exception):
    def __init__(self, rule: str, message: str, remedy: str) -> None:
        super().__init__(rule)
        self.problem = Problem("", rule, message, remedy)


def loads_strict(text: str | bytes | bytearray, bounds: Bounds = DEFAULT_BOUNDS) -> Any:
    """Read one JSON text (RFC 8259) into plain values, or raise ValidationError.

    Refused besides what the grammar refuses: a key that occurs twice in an object (at any depth),
    NaN and Infinity as words, numbers that overflow to infinity (1e999), integers beyond 2^53 - 1,
    lone surrogates (as characters and as escapes), a byte order mark, any encoding but UTF-8, and
    a text beyond `bounds`. No input raises anything else than ValidationError and TypeError.

    >>> loads_strict('{"amount": 5, "items": [1.5, null]}')
    {'amount': 5, 'items': [1.5, None]}
    >>> loads_strict('{"amount": 5, "amount": 500}')
    Traceback (most recent call last):
      ...
    gnomon.agent.problems.ValidationError: the value: the key 'amount' occurs twice in one object; \
send each key once
    """
    try:
        checked = _decoded(text, bounds)
        _check_depth(checked, bounds)
        value = json.loads(
            checked,
            object_pairs_hook=_object,
            parse_int=_parse_int(bounds),
            parse_float=_parse_float,
            parse_constant=_parse_constant,
        )
    except _TextError as fault:
        problem = fault.problem
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        problem = Problem("", "json-text", f"is not JSON: {error.msg} at {where}", "send JSON")
    except RecursionError:
        problem = Problem("", "depth", "is nested too deep to be read here", "send a flatter value")
    else:
        if _SURROGATE_ESCAPE.search(checked):
            return plain_copy(value, bounds).value
        return value
    raise ValidationError(str(problem), [problem])


def loads_canonical(data: bytes | str) -> Any:
    """Read back what `canonicalize` wrote; digits beyond 2^53 - 1 are floats that RFC 8785 printed.

    Only for texts this package stored itself: it checks nothing.
    """
    return json.loads(data, parse_int=_canonical_number)


def _canonical_number(text: str) -> int | float:
    number = int(text)
    return number if -INTEGER_MAX <= number <= INTEGER_MAX else float(text)


def _decoded(text: str | bytes | bytearray, bounds: Bounds) -> str:
    if not isinstance(text, (str, bytes, bytearray)):
        raise TypeError(f"text must be str or bytes, got {type(text).__name__}")
    if len(text) > bounds.max_bytes:
        raise _TextError("size", f"is larger than {bounds.max_bytes} bytes", "send less")
    try:
        if isinstance(text, str):
            size = len(text.encode())
        else:
            size, text = len(text), bytes(text).decode()
    except UnicodeDecodeError as error:
        message = f"is not UTF-8 at byte {error.start}"
        raise _TextError("encoding", message, "send UTF-8") from None
    except UnicodeEncodeError:
        raise _TextError("surrogate", "holds a lone surrogate", "send valid Unicode text") from None
    if size > bounds.max_bytes:
        raise _TextError("size", f"is larger than {bounds.max_bytes} bytes", "send less")
    if text.startswith("\ufeff"):
        raise _TextError("encoding", "begins with a byte order mark", "send UTF-8 without it")
    return text


def _check_depth(text: str, bounds: Bounds) -> None:
    if text.count("[") + text.count("{") <= bounds.max_depth:
        return
    depth = 0
    for match in _BRACKETS.finditer(text):
        piece = match[0]
        if piece in "[{":
            depth += 1
            if depth > bounds.max_depth:
                message = f"is nested deeper than {bounds.max_depth} levels"
                raise _TextError("depth", message, "send a flatter value")
        elif piece in "]}":
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        message = f"the key {key[:100]!r} occurs twice in one object"
        raise _TextError("duplicate-key", message, "send each key once")
    return value


def _parse_int(bounds: Bounds) -> Any:
    limit, digits_max = bounds.max_integer, 1_233 if bounds.max_integer is None else 17

    def parse(text: str) -> int:
        if len(text) <= digits_max:
            number = int(text)
            if limit is None or -limit <= number <= limit:
                return number
        raise _TextError("integer-range", "holds an integer beyond 2^53 - 1", "send it as a string")

    return parse


def _parse_float(text: str) -> float:
    number = float(text)
    if number - number != 0.0:
        raise _TextError("not-finite", "holds a number beyond the range of floats", "send less")
    return number


def _parse_constant(text: str) -> Any:
    raise _TextError("not-finite", f"holds {text}, which is not JSON", "send a finite number")
