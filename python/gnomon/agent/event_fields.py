"""What may stand in a field of an event: one check per kind, and the two ways to declare a field.

Each check takes a value and the path of its field, and gives the frozen value or raises EventError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from .frozen import INTEGER_MAX, EventError, FrozenDict, FrozenList, freeze

_SHOWN = 200  # characters of an operation id; longer ones are refused by the runtime as well


def an_id(value: Any, path: str) -> str:
    """A string of 1 to 200 characters."""
    if not isinstance(value, str) or not 0 < len(value) <= _SHOWN:
        raise EventError(f"{path} must be a string of 1 to {_SHOWN} characters")
    return str(freeze(value, path))


def a_text(value: Any, path: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise EventError(f"{path} must be a string, got {type(value).__name__}")
    return str(freeze(value, path))


def a_count(value: Any, path: str) -> int:
    """An integer from 0 to 2**53 - 1."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= INTEGER_MAX:
        raise EventError(f"{path} must be an integer from 0 to 2**53 - 1")
    return int(value)


def a_number(value: Any, path: str) -> int | float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise EventError(f"{path} must be a finite number")
    number: int | float = freeze(value, path)
    return number


def a_flag(value: Any, path: str) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise EventError(f"{path} must be true or false")
    return value


def items(value: Any, path: str) -> FrozenList:
    """A list of JSON values."""
    if not isinstance(value, (list, tuple)):
        raise EventError(f"{path} must be a list, got {type(value).__name__}")
    frozen: FrozenList = freeze(value, path)
    return frozen


def an_object(value: Any, path: str) -> FrozenDict:
    """An object of JSON values."""
    if not isinstance(value, Mapping):
        raise EventError(f"{path} must be an object, got {type(value).__name__}")
    frozen: FrozenDict = freeze(value, path)
    return frozen


def one_of(*allowed: str) -> Callable[[Any, str], str]:
    """One of these words."""

    def check(value: Any, path: str) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise EventError(f"{path} must be one of {', '.join(allowed)}")
        return value

    return check


def required(check: Callable[[Any, str], Any]) -> Any:
    """A field that must be given."""
    return field(metadata={"check": check})


def optional(check: Callable[[Any, str], Any], default: Any = None) -> Any:
    """A field that may be left out."""
    return field(default=default, metadata={"check": check})
