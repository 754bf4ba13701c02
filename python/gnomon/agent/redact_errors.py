"""Exceptions without their secrets: texts, arguments, attributes, causes and the frames' locals."""

from __future__ import annotations

import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_CHAIN_SHOWN = 100


class RedactedError(Exception):
    """Stands for an exception whose own text could not be freed of secrets."""


def safe_text(value: Any, show: Callable[[Any], str] = str) -> str:
    """What an object says of itself, also where it cannot."""
    try:
        return show(value)
    except Exception:
        return f"<{type(value).__name__}>"


def chain_text(error: BaseException) -> str:
    """Type and message of the error and of its causes."""
    chain = chain_of(error)[:_CHAIN_SHOWN]
    return "; caused by ".join(f"{type(item).__qualname__}: {safe_text(item)}" for item in chain)


def chain_of(error: BaseException) -> list[BaseException]:
    """The error with its causes, contexts, members and the errors that it carries, each once."""
    found: dict[int, BaseException] = {}
    stack = [error]
    while stack:
        item = stack.pop()
        if id(item) not in found:
            found[id(item)] = item
            carried = [*item.args, *(value for _, value in _attributes(item))]
            inner = [item.__cause__, item.__context__, *getattr(item, "exceptions", ()), *carried]
            stack.extend(one for one in inner if isinstance(one, BaseException))
    return list(found.values())


def scrubbed(error: BaseException, text: Callable[[str], str], plain: Callable[[Any], Any]) -> bool:
    """Free the whole chain of secrets in place; False where a text of it still holds one.

    ``text`` frees a text, ``plain`` a value of JSON's types or bytes.
    """
    chain = chain_of(error)
    for item in chain:
        _scrub_one(item, text, plain)
    return not any(_tells(item, text) for item in chain)


def _tells(value: Any, text: Callable[[str], str]) -> bool:
    """Whether a secret stands in what an object says of itself."""
    return any(text(shown) != shown for shown in (safe_text(value), safe_text(value, repr)))


def _scrub_one(
    error: BaseException, text: Callable[[str], str], plain: Callable[[Any], Any]
) -> None:
    def free(value: Any) -> Any:
        if isinstance(value, (str, bytes, Mapping, list, tuple)):
            return plain(value)
        if value is None or isinstance(value, (int, float, BaseException)):
            return value  # errors are links of the chain themselves
        return text(safe_text(value, repr)) if _tells(value, text) else value

    # Locals of frames that have ended: some loggers print them.
    traceback.clear_frames(error.__traceback__)
    try:
        args = tuple(free(argument) for argument in error.args)
        if args != error.args:
            error.args = args
    except Exception:
        error.args = ("[redacted]",)
    for name, value in list(_attributes(error)):
        freed = free(value)
        if freed is not value:
            try:
                setattr(error, name, freed)
            except (AttributeError, TypeError):
                continue


def _attributes(error: BaseException) -> Iterator[tuple[str, Any]]:
    """What the error carries, also outside its ``__dict__``: strerror, a SyntaxError's line."""
    yield from vars(error).items()
    for kind in type(error).__mro__:
        for name, place in vars(kind).items():
            slot = isinstance(place, (types.MemberDescriptorType, types.GetSetDescriptorType))
            if slot and name != "args" and not name.startswith("__"):
                try:
                    yield name, getattr(error, name)
                except Exception:
                    continue
