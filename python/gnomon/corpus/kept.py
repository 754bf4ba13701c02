"""What was found and may be asked for again, in a table that does not grow without end."""

from __future__ import annotations

from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class Kept(dict[_K, _V]):
    """A dict that forgets all it has when it holds `most` and more comes.

    Threads may share one that holds what never changes: what one forgets, another finds again.

    >>> kept = Kept(2)
    >>> [kept.keep(n, n * n) for n in (1, 2, 3)], kept
    ([1, 4, 9], {3: 9})
    """

    __slots__ = ("most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def keep(self, key: _K, value: _V) -> _V:
        """Keeps and returns a value."""
        if len(self) >= self.most:
            self.clear()
        self[key] = value
        return value
