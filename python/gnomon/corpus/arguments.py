"""What the arguments of a question may be; what they are not raises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

MODES = ("auto", "sparse", "dense", "hybrid", "exact")
DETAILS = ("ids", "low", "text", "full")
SCOPES = ("chunk", "section", "doc")
DIRECTIONS = ("out", "in", "both")
TOKENS_LEAST = 256
TOKENS_MOST = 100_000
K_MOST = 1000


def text(value: Any, name: str) -> str:
    """The text; TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, got a {type(value).__name__}")
    return value


def one_of(value: Any, name: str, known: Sequence[str]) -> str:
    """One of the known values; ValueError names them."""
    if value not in known:
        shown = ", ".join(repr(each) for each in known)
        raise ValueError(f"{name} must be one of {shown}, got {value!r}")
    return str(value)


def count(value: Any, name: str, least: int, most: int) -> int:
    """A whole number in bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, got a {type(value).__name__}")
    if not least <= value <= most:
        raise ValueError(f"{name} must lie between {least} and {most}, got {value}")
    return value


def listed(value: Any, name: str) -> list[Any]:
    """A list of what can be iterated and is no text."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a list of str, got a {type(value).__name__}")
    return list(value)


def mapping(value: Any) -> dict[str, Any] | None:
    """Filters as plain data; None for none."""
    if not value:
        return None
    if not isinstance(value, Mapping):
        raise TypeError(f"filters must be a mapping, got a {type(value).__name__}")
    for key in value:
        text(key, "filters: a field's name")
    found: dict[str, Any] = msgspec.to_builtins(dict(value))
    return found


def scope(value: Any) -> Any:
    """A scope's name, or the ids of passages, sorted; None for none."""
    if value is None or isinstance(value, str):
        return value or None
    return sorted({text(each, "scope") for each in listed(value, "scope")})


def hypothesis_scope(value: Any) -> str:
    """Where two claims are to stand together."""
    named = text(value, "scope")
    if named in SCOPES:
        return named
    name, _, number = named.partition(":")
    if name == "near" and number.isascii() and number.isdigit() and len(number) < 7:
        return f"near:{int(number)}"
    raise ValueError(f"scope must be 'chunk', 'section', 'doc' or 'near:N', got {value!r}")


def bounds(detail: Any, max_tokens: Any) -> dict[str, Any]:
    """The bounds that every question has."""
    return {
        "detail": one_of(detail, "detail", DETAILS),
        "max_tokens": count(max_tokens, "max_tokens", TOKENS_LEAST, TOKENS_MOST),
    }


def share(value: Any, name: str) -> float | None:
    """A number from 0 to 1, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number from 0 to 1, got a {type(value).__name__}")
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must lie between 0 and 1, got {value}")
    return float(value)
