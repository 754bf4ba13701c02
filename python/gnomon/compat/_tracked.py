"""A dict that knows when it changed: what is derived from it is made once, not a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")
Derived = TypeVar("Derived")


def _changing(name: str) -> Any:
    """A dict's method that counts as a change, also when it fails half-way."""
    method = getattr(dict, name)

    def changed(self: TrackedDict[Any, Any], *args: Any, **options: Any) -> Any:
        try:
            return method(self, *args, **options)
        finally:
            self._changes += 1

    return changed


class TrackedDict(dict[Key, Value]):
    """A dict whose :meth:`derived` values are made anew after a change of its entries.

    A change is a call of one of its own methods; writing into a value is none.

    >>> lengths = TrackedDict(a="one")
    >>> lengths.derived("total", lambda: sum(map(len, lengths.values())))
    3
    >>> lengths["b"] = "three"
    >>> lengths.derived("total", lambda: sum(map(len, lengths.values())))
    8
    """

    _changes = 0
    _known: dict[Any, tuple[int, Any]] | None = None

    __setitem__ = _changing("__setitem__")
    __delitem__ = _changing("__delitem__")
    __ior__ = _changing("__ior__")
    pop = _changing("pop")
    popitem = _changing("popitem")
    clear = _changing("clear")
    update = _changing("update")
    setdefault = _changing("setdefault")

    def __reduce__(self) -> Any:
        return TrackedDict, (dict(self),)  # what was derived is made again

    @property
    def changes(self) -> int:
        """How often an entry may have changed."""
        return self._changes

    def derived(self, name: Any, make: Callable[[], Derived]) -> Derived:
        """What ``make()`` gave last under this name, unless an entry has changed since."""
        changes = self._changes  # before the entries are read: another thread may add some
        known = {} if self._known is None else self._known
        found = known.get(name)
        if found is not None and found[0] == changes:
            value: Derived = found[1]
            return value
        made = make()
        # A new dict and not an entry: readers in other threads keep theirs whole.
        self._known = {**known, name: (changes, made)}
        return made
