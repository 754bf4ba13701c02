"""What `cpp/trigram.hpp` computes, in the plainest way.

>>> index = Trigrams([[b"Set max_size"], [b"maximum"]])
>>> index.candidates(b"MAX_"), index.candidates(("any", [b"max_", b"imu"]))
([0], [0, 1])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def trigram_fold(text: bytes) -> bytes:
    """ASCII letters in lower case, and the two other characters that fold to ASCII letters.

    >>> trigram_fold("Ünicode \u212aelvin ſ".encode()).decode()
    'Ünicode kelvin s'
    """
    return text.lower().replace(b"\xe2\x84\xaa", b"k").replace(b"\xc5\xbf", b"s")


def trigrams_of(text: bytes) -> set[bytes]:
    """Every three bytes that stand together in a line of the folded text."""
    return {
        line[i : i + 3] for line in trigram_fold(text).split(b"\n") for i in range(len(line) - 2)
    }


class Trigrams:
    """The trigrams of documents, each given as its parts."""

    def __init__(self, documents: Sequence[Sequence[bytes]]) -> None:
        self._documents = [
            set().union(*(trigrams_of(part) for part in parts)) for parts in documents
        ]

    def docs(self, trigram: bytes) -> list[int]:
        """The documents that hold a trigram."""
        return [number for number, held in enumerate(self._documents) if trigram in held]

    def candidates(self, query: Any) -> list[int]:
        """The documents that hold all trigrams that a query needs: bytes, or ("all", parts), or
        ("any", parts).
        """
        return [number for number, held in enumerate(self._documents) if _holds(held, query)]


def _holds(held: set[bytes], query: Any) -> bool:
    if isinstance(query, bytes):
        return trigrams_of(query) <= held
    kind, parts = query
    every = [_holds(held, part) for part in parts]
    return all(every) if kind == "all" else any(every)
