"""JSON values that cannot be changed: what events and task states are made of.

They are still lists and dicts, so they compare equal to plain ones and `json.dumps` takes them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NoReturn

DEPTH_MAX = 64
INTEGER_MAX = 2**53 - 1  # I-JSON (RFC 7493): beyond it, readers disagree about the value


class EventError(ValueError):
    """An event, or the state it meets, is malformed; the text names the field and the rule."""


def _refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
    raise TypeError(f"{type(self).__name__} cannot be changed; thaw() gives a copy that can")


class FrozenList(list[Any]):
    """A list whose methods refuse to change it. All of its items are frozen as well."""

    append = extend = insert = pop = remove = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, memo: Any) -> FrozenList:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenList, (list(self),))


class FrozenDict(dict[str, Any]):
    """A dict whose methods refuse to change it. All of its values are frozen as well."""

    pop = popitem = clear = update = setdefault = _refuse
    __setitem__ = __delitem__ = __ior__ = _refuse

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: Any) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenDict, (dict(self),))


def freeze(value: Any, path: str = "value", depth: int = 0) -> Any:
    """A frozen deep copy of a JSON value; tuples become lists.

    EventError, naming the place, for what JSON text could not carry there and back: other types,
    keys that are no strings, NaN and infinities, integers beyond 2**53 - 1, lone surrogates, more
    than 64 levels.

    >>> freeze({"a": [1, 2]}) == {"a": [1, 2]}
    True
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, int):
        if abs(value) > INTEGER_MAX:
            raise EventError(f"{path} is beyond 2**53 - 1; send such an integer as a string")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise EventError(f"{path} is {float(value)!r}, which JSON has no number for")
        return float(value)
    if depth >= DEPTH_MAX:
        raise EventError(f"{path} is nested deeper than {DEPTH_MAX} levels")
    if isinstance(value, (list, tuple)):
        return FrozenList(
            freeze(item, f"{path}[{number}]", depth + 1) for number, item in enumerate(value)
        )
    if isinstance(value, Mapping):
        return FrozenDict(_pairs(value, path, depth))
    raise EventError(f"{path} is a {type(value).__name__}, which is no JSON value")


def _pairs(value: Mapping[Any, Any], path: str, depth: int) -> list[tuple[str, Any]]:
    pairs = []
    for key, item in value.items():
        if not isinstance(key, str):
            raise EventError(f"{path} has the key {key!r}; keys of a JSON object are strings")
        pairs.append((_text(key, f"a key of {path}"), freeze(item, f"{path}.{key}", depth + 1)))
    return pairs


def _text(value: str, path: str) -> str:
    text = str(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise EventError(f"{path} holds half of a surrogate pair, which is no text") from None
    return text


def thaw(value: Any) -> Any:
    """A plain deep copy of a frozen (or plain) JSON value, free to be changed.

    >>> thaw(freeze([1]))
    [1]
    """
    if isinstance(value, (list, tuple)):
        return [thaw(item) for item in value]
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in value.items()}
    return value
