"""What values of metadata a query's patterns and ranges take in.

Patterns ignore case; ``*`` stands for any characters and ``?`` for one. A path without a star also
stands for what it ends or is a folder of. Versions compare number by number.

>>> [glob(p, "path")("docs/User/CHANGES") for p in ("*changes", "user/CHANGES", "docs", "ANGES")]
[True, True, True, False]
>>> in_range("8.0.9", "8.1", False, True)("8.0.13"), in_range("8.0.9", None, False, False)("8")
(True, False)
"""

from __future__ import annotations

import re
from collections.abc import Callable

_PIECES = re.compile(r"\d+|[^\W\d_]+")
_NUMBER_MOST = 18  # digits


def glob(pattern: str, field: str) -> Callable[[str], bool]:
    """Whether a value of a field fits a pattern."""
    low = pattern.casefold()
    if "*" not in low and "?" not in low:
        if field != "path":
            return lambda value: value.casefold() == low
        part = low.strip("/")
        return lambda value: f"/{part}/" in f"/{value.casefold()}/"
    return _starred(low[:500])


def _starred(pattern: str) -> Callable[[str], bool]:
    """Piece by piece from the left: the leftmost place of each is right, so nothing is tried twice.

    >>> [_starred(p)("abcabd") for p in ("a*d", "*b?", "*bc*bd", "a?d", "ab*ab*abd")]
    [True, True, True, False, False]
    """
    pieces = [_piece(piece) for piece in pattern.split("*")]
    if len(pieces) == 1:
        return lambda value: pieces[0].fullmatch(value.casefold()) is not None
    first, *middle, last = pieces
    width = len(pattern.rsplit("*", 1)[1])

    def holds(value: str) -> bool:
        value = value.casefold()
        begun = first.match(value)
        if begun is None:
            return False
        at = begun.end()
        for piece in middle:
            found = piece.search(value, at)
            if found is None:
                return False
            at = found.end()
        return len(value) - width >= at and last.match(value, len(value) - width) is not None

    return holds


def _piece(text: str) -> re.Pattern[str]:
    return re.compile("".join("." if c == "?" else re.escape(c) for c in text), re.DOTALL)


def version_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """What versions are compared by: numbers as numbers, above words (8.0 is behind 8.0-rc1).

    >>> version_key("8.0.13") > version_key("8.0.9") > version_key("8.0") > version_key("8.0-rc1")
    True
    """
    pieces = []
    for piece in _PIECES.findall(text.casefold()):
        if piece.isdecimal():
            pieces.append((2, int(piece[:_NUMBER_MOST]), ""))
        else:
            pieces.append((0, 0, piece))
    return (*pieces, (1, 0, ""))  # the end: above a word, below a number


def in_range(
    low: str | None, high: str | None, low_open: bool, high_open: bool
) -> Callable[[str], bool]:
    """Whether a value lies between two ends, None being no end."""
    least = None if low is None else version_key(low)
    most = None if high is None else version_key(high)

    def holds(value: str) -> bool:
        key = version_key(value)
        if least is not None and (key < least or (low_open and key == least)):
            return False
        return most is None or not (key > most or (high_open and key == most))

    return holds
