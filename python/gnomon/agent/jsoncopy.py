"""Plain, checked, bounded copies of JSON values, and their canonical text."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from .canonical_text import canonical_text, fast_text
from .problems import Problem, ValidationError, pointer

INTEGER_MAX = 2**53 - 1
DEPTH_LIMIT = 256
# CPython refuses to print an integer of more than 4,300 digits.
EXACT_BITS_MAX = 4_096


@dataclass(frozen=True)
class Bounds:
    """How large a value may be: bytes of canonical text, nesting, and values in all.

    `max_integer` is the largest magnitude of an integer. None takes integers of up to 1,233 digits
    and prints them exactly, which is JSON, but no longer RFC 8785.
    """

    max_bytes: int = 1_000_000
    max_depth: int = 64
    max_items: int = 100_000
    max_integer: int | None = INTEGER_MAX

    def __post_init__(self) -> None:
        for name in ("max_bytes", "max_depth", "max_items"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ValueError(f"{name} must be a positive integer, got {value!r}")
        if self.max_depth > DEPTH_LIMIT:
            # Deeper values overflow the stack of a small thread inside the validator.
            raise ValueError(f"max_depth must be at most {DEPTH_LIMIT}, got {self.max_depth}")
        if self.max_integer is not None and not 1 <= self.max_integer <= INTEGER_MAX:
            raise ValueError(f"max_integer must be None or 1 to 2^53 - 1, got {self.max_integer!r}")


DEFAULT_BOUNDS = Bounds()
EXACT_BOUNDS = Bounds(max_integer=None)


class Canonical(NamedTuple):
    """A plain deep copy of a JSON value and its canonical text.

    `value` is what `data` reads back as: an integral float such as 5.0 is the integer 5 in both.
    """

    value: Any
    data: bytes

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical text, as "sha256:" and 64 hexadecimal digits."""
        return "sha256:" + hashlib.sha256(self.data).hexdigest()


def plain_copy(value: Any, bounds: Bounds = DEFAULT_BOUNDS) -> PlainCopy:
    """The checked plain copy of `value`, with integral floats still as they came."""
    copy = PlainCopy(bounds)
    try:
        copy.value = copy.of(value, 1)
    except _RefusedError as refused:
        problem = refused.problem()
        raise ValidationError(str(problem), [problem]) from None
    return copy


class _RefusedError(Exception):
    """Carries a broken rule up to the root; every container adds its key on the way."""

    def __init__(self, rule: str, message: str, remedy: str) -> None:
        super().__init__(rule)
        self.rule, self.message, self.remedy = rule, message, remedy
        self.is_about_key = False
        self.tokens: list[str | int] = []

    def problem(self) -> Problem:
        path = pointer(reversed(self.tokens))
        return Problem(path[:500], self.rule, self.message, self.remedy)


class PlainCopy:
    """The state of one copy: what was counted, and which shortcuts still hold."""

    __slots__ = ("bounds", "has_integral_float", "is_simple", "items", "value")

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.value: Any = None
        self.items = 0
        # json.dumps prints what RFC 8785 wants, as far as seen.
        self.is_simple = True
        self.has_integral_float = False

    def canonical(self) -> Canonical:
        """The canonical value and text."""
        value = self.value
        if self.has_integral_float:
            value = _integral_floats_as_int(value, self.bounds)
        text = fast_text(value) if self.is_simple else canonical_text(value)
        data = text.encode()
        if len(data) > self.bounds.max_bytes:
            problem = _size_problem(self.bounds)
            raise ValidationError(str(problem), [problem])
        return Canonical(value, data)

    def of(self, value: Any, depth: int) -> Any:
        """The plain copy of one value at this depth; the root has depth 1."""
        kind = type(value)
        if kind is str:
            return value if value.isascii() else self._string(value)
        if kind is int:
            return self._integer(value)
        if kind is bool or value is None:
            return value
        if kind is dict:
            return self._object(value, depth)
        if kind is list or kind is tuple:
            return self._array(value, depth)
        if kind is float:
            return self._float(value)
        return self._subclass(value, depth)

    def _string(self, value: str) -> str:
        if not _encodable(value):
            raise _RefusedError("surrogate", "holds a lone surrogate", "send valid Unicode text")
        return value

    def _integer(self, value: int) -> int:
        limit = self.bounds.max_integer
        if limit is None:
            if value.bit_length() > EXACT_BITS_MAX:
                raise _RefusedError("integer-range", "has too many digits", "send it as a string")
        elif not -limit <= value <= limit:
            name = "2^53 - 1" if limit == INTEGER_MAX else str(limit)
            raise _RefusedError(
                "integer-range", f"is an integer beyond {name}", "send it as a string"
            )
        return value

    def _float(self, value: float) -> float:
        # x - x is 0 for every finite x.
        if value - value != 0.0:
            raise _RefusedError(
                "not-finite", "is NaN or infinite, which JSON cannot say", "send a finite number"
            )
        if value.is_integer():
            self.has_integral_float = True
            if not -INTEGER_MAX <= value <= INTEGER_MAX:
                self.is_simple = False
        elif -1e-4 < value < 1e-4:
            self.is_simple = False
        return value

    def _enter(self, size: int, depth: int) -> None:
        if depth > self.bounds.max_depth:
            raise _RefusedError(
                "depth",
                f"is nested deeper than {self.bounds.max_depth} levels, or holds itself",
                "send a flatter value",
            )
        self.items += size
        if self.items > self.bounds.max_items:
            raise _RefusedError(
                "items", f"holds more than {self.bounds.max_items} values", "send fewer values"
            )

    def _object(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        self._enter(len(value), depth)
        of, depth = self.of, depth + 1
        plain: dict[str, Any] = {}
        key: Any = None
        try:
            for key, item in value.items():
                if type(key) is not str or not key.isascii():
                    key = self._key(key)
                    if key in plain:
                        raise _RefusedError("duplicate-key", "occurs twice", "send each key once")
                plain[key] = of(item, depth)
        except _RefusedError as refused:
            if not refused.is_about_key:
                refused.tokens.append(key)
            refused.is_about_key = False
            raise
        except RuntimeError:
            raise _RefusedError("value-type", "changed while it was read", "pass a copy") from None
        return plain

    def _key(self, key: Any) -> str:
        if isinstance(key, str):
            key = str.__str__(key)
            # Above U+D7FF the order of UTF-16 units is not the order of code points.
            if max(key, default="") > "\ud7ff":
                self.is_simple = False
            if _encodable(key):
                return key  # type: ignore[no-any-return]
            rule, message = "surrogate", "has a key with a lone surrogate"
        else:
            rule, message = "key-type", f"has a key of type {type(key).__name__}"
        refused = _RefusedError(rule, message, "send valid Unicode strings as keys")
        refused.is_about_key = True
        raise refused

    def _array(self, value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
        self._enter(len(value), depth)
        of, depth = self.of, depth + 1
        plain: list[Any] = []
        try:
            for item in value:
                plain.append(of(item, depth))
        except _RefusedError as refused:
            refused.tokens.append(len(plain))
            raise
        return plain

    def _subclass(self, value: Any, depth: int) -> Any:
        # The methods of the base type read the real content, whatever the subclass overrides.
        if isinstance(value, str):
            return self._string(str.__str__(value))
        if isinstance(value, int):
            return self._integer(int.__int__(value))
        if isinstance(value, float):
            return self._float(float.__float__(value))
        if isinstance(value, dict):
            return self._object(dict(dict.items(value)), depth)
        if isinstance(value, list):
            return self._array(list(list.__iter__(value)), depth)
        if isinstance(value, tuple):
            return self._array(list(tuple.__iter__(value)), depth)
        remedy = "send its .value" if isinstance(value, Enum) else "send a JSON value"
        raise _RefusedError(
            "value-type", f"is a {type(value).__name__}, which is not a JSON value", remedy
        )


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _size_problem(bounds: Bounds) -> Problem:
    return Problem("", "size", f"is larger than {bounds.max_bytes} bytes", "send less")


def _integral_floats_as_int(value: Any, bounds: Bounds) -> Any:
    if type(value) is float:
        # With exact integers 1e22 and 10**22 are one number, so both are its digits. Without, no
        # integer is beyond 2^53 - 1, and a float beyond it is printed as RFC 8785 says.
        exact = bounds.max_integer is None or -INTEGER_MAX <= value <= INTEGER_MAX
        return int(value) if value.is_integer() and exact else value
    if type(value) is dict:
        return {key: _integral_floats_as_int(item, bounds) for key, item in value.items()}
    if type(value) is list:
        return [_integral_floats_as_int(item, bounds) for item in value]
    return value
