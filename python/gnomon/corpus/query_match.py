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
from functools import lru_cache

_PIECES = re.compile(r"\d+|[^\W\d_]+")
_NUMBER_MOST = 18  # digits
_DATE = re.compile(r"(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2})(?:T.*)?)?)?", re.DOTALL)
_DAY = re.compile(r"(?<!\d)(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMED = rf"(?P<month>(?:{'|'.join(_MONTHS)})[a-z]*)\.?"
_MONTH_FIRST = re.compile(rf"\b{_NAMED} (?P<day>\d{{1,2}}),? (?P<year>\d{{4}})\b", re.I)
_DAY_FIRST = re.compile(rf"\b(?P<day>\d{{1,2}}) {_NAMED},? (?P<year>\d{{4}})\b", re.I)


def glob(pattern: str, field: str) -> Callable[[str], bool]:
    """Whether a value of a field fits a pattern."""
    low = pattern.casefold()
    if "*" not in low and "?" not in low:
        if field != "path":
            return lambda value: value.casefold() == low
        part = low.strip("/")
        return lambda value: f"/{part}/" in f"/{value.casefold()}/"
    return _starred(low)


def _starred(pattern: str) -> Callable[[str], bool]:
    """Piece by piece from the left: the leftmost place of each is right, so nothing is tried twice.

    >>> [_starred(p)("abcabd") for p in ("a*d", "*b?", "*bc*bd", "a?d", "ab*ab*abd")]
    [True, True, True, False, False]
    """
    texts = re.sub(r"\*+", "*", pattern).split("*")
    width, least = len(texts[-1]), sum(map(len, texts))
    if len(texts) == 1:
        return lambda value: _piece(pattern).fullmatch(value.casefold()) is not None
    first, middle, last = texts[0], texts[1:-1], texts[-1]

    def holds(value: str) -> bool:
        value = value.casefold()
        if len(value) < least:  # most of what a long pattern is asked for ends here
            return False
        begun = _piece(first).match(value)
        if begun is None:
            return False
        at = begun.end()
        for text in middle:
            found = _piece(text).search(value, at)
            if found is None:
                return False
            at = found.end()
        return (
            len(value) - width >= at and _piece(last).match(value, len(value) - width) is not None
        )

    return holds


@lru_cache(maxsize=64)  # a piece may be as long as a query: 1,024 of them were 100 MB
def _piece(text: str) -> re.Pattern[str]:
    return re.compile("".join("." if c == "?" else re.escape(c) for c in text), re.DOTALL)


def dated(
    pattern: str, low: str | None, high: str | None, low_open: bool, high_open: bool
) -> Callable[[str], bool]:
    """Whether a day (2024-05-17) lies in a period: a year, a month, a day, or from one to another.

    A period is all of its days: ``[2023 TO 2024]`` ends with the last day of 2024, ``{2023 TO *]``
    begins with 2024. `pattern` may hold stars instead. Raises ValueError for what is no date.

    >>> day = "2024-05-17"
    >>> [dated(p, None, None, False, False)(day) for p in ("2024-5", "*-06-*", "2024-05-18")]
    [True, False, False]
    >>> [dated("", "2023", "2024", *open_)(day) for open_ in ((False, True), (True, False))]
    [False, True]
    """
    if low is None and high is None:
        if "*" in pattern or "?" in pattern:
            return _starred(pattern.casefold())
        low = high = pattern
    least = None if low is None else _period(low)[low_open]
    most = None if high is None else _period(high)[not high_open]

    def holds(value: str) -> bool:
        if least is not None and (value <= least if low_open else value < least):
            return False
        return most is None or (value < most if high_open else value <= most)

    return holds


def _period(text: str) -> tuple[str, str]:
    """The first and the last day of a year, a month or a day."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:40]!r} is no date: write 2024, 2024-05 or 2024-05-17")
    year, month, day = match[1], match[2], match[3]
    first = f"{year}-{int(month or 1):02}-{int(day or 1):02}"
    return first, f"{year}-{int(month or 12):02}-{int(day or 31):02}"


def day_of(text: str) -> str:
    """The day that a text begins with or names; "" for none.

    >>> day_of("2024-5-17T10:00:00Z"), day_of("May 17, 2024"), day_of("17 May 2024"), day_of("soon")
    ('2024-05-17', '2024-05-17', '2024-05-17', '')
    """
    match = _DAY.search(text)
    if match is not None:
        return f"{match[1]}-{int(match[2]):02}-{int(match[3]):02}"
    for words in (_MONTH_FIRST.search(text), _DAY_FIRST.search(text)):
        if words is not None:
            month = _MONTHS.index(words["month"][:3].casefold()) + 1
            return f"{words['year']}-{month:02}-{int(words['day']):02}"
    return ""


def tags_of(text: str) -> list[str]:
    """The tags of a line of front matter.

    >>> tags_of('["a b", c]'), tags_of("x, Y"), tags_of("one")
    (['a b', 'c'], ['x', 'Y'], ['one'])
    """
    inner = text.strip().removeprefix("[").removesuffix("]")
    parts = (part.strip().strip("\"'").lstrip("#").strip() for part in inner.split(","))
    return [part for part in parts if part]


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
