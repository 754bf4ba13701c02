"""Cuts a text into passages with exact spans: a passage's text is ``text[start:end]``, always.

A passage is the longest run of whole paragraphs that fits into `size` code points. A paragraph that
does not fit is cut at the best place that its window offers: a blank line, the end of a sentence,
the end of a line, white space; a run without white space after punctuation or between ideographs,
and only then inside a word, but never inside a user-perceived character (Unicode UAX #29) unless
that character alone is longer than `size`. White space around passages belongs to none; a piece of
white space alone is dropped.

All searching is done by str.rfind and compiled patterns over one window at a time, so the cost is
linear in the text whatever its shape, one line of 100 MB included.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

PASSAGE_SIZE = 1000

_SOLID = re.compile(r"\S")
# Blank lines beside "\n\n". The first kind has a pattern of its own: with a literal at its head a
# search runs four times as fast, and the others are rare.
_SPACED_BLANK = re.compile(r"\n[ \t\r]{1,80}\n")
_RARE_BLANKS = ("\r\r", "\f", "\u2029")
# Greedy `.*` finds the last place of a window; the quantifiers behind it are bounded, so is the
# backtracking.
_ODD_BLANK = re.compile(r"(?s:.*)(?:\n[ \t\r]{1,80}\n|\r\r|\u2029|\f)")
_SENTENCE = re.compile(
    r"(?s:.*)[.!?…。！？｡؟।။]"
    r"(?:(?<=[.!?…])[\"')\]”’»]{0,3}\s|(?<=[。！？｡؟।။])[”’」』）]{0,3})"
)
_SPACE = re.compile(r"(?s:.*)\s")
_PUNCTUATION = re.compile(r"(?s:.*)[^\w\s]")
_WIDE = re.compile(r"(?s:.*)[\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")

# Letters that join what follows (Prepend in UAX #29) and are not in category Cf.
_PREPEND = frozenset(
    "\u0d4e\U000111c2\U000111c3\U00011a3a\U00011a84\U00011a85\U00011a86\U00011a87\U00011a88\U00011a89"
    "\U0001193f\U00011941\U00011d46\U00011f02\U000113d1"
)
# Joined to what precedes them though they are no marks: halfwidth voicing marks, Thai and Lao AM.
_APPENDED = frozenset("\uff9e\uff9f\u0e33\u0eb3")
_VIRAMA = 9  # canonical combining class


def spans(text: str, size: int = PASSAGE_SIZE) -> Iterator[tuple[int, int]]:
    r"""Yields the passages of `text` as (start, end): code points, half open, in order, no overlap.

    Every passage has at least one character that is not white space, at most `size` code points,
    and no white space at its ends, except a space that one user-perceived character includes.

    Raises ValueError when `size` is less than 1.

    >>> text = "One paragraph.\n\nAnother, which is longer.\n"
    >>> [text[start:end] for start, end in spans(text, 30)]
    ['One paragraph.', 'Another, which is longer.']
    """
    if size < 1:
        raise ValueError(f"size must be at least 1 code point, got {size}")
    return _spans(text, size)


def _spans(text: str, size: int) -> Iterator[tuple[int, int]]:
    cut = 0
    odd_blank = -1  # where the next may be: one forward search over the text in all
    rare_blanks = any(blank in text for blank in _RARE_BLANKS)
    while (solid := _SOLID.search(text, cut)) is not None:
        start = solid.start()
        if start > cut and not is_boundary(text, start, cut):
            start -= 1
        if len(text) - start <= size:
            cut = len(text)
        else:
            if rare_blanks:
                odd_blank = start
            elif odd_blank < start:
                found = _SPACED_BLANK.search(text, start)
                odd_blank = found.start() if found else len(text)
            cut = _best_cut(text, start, start + size, odd_blank)
        end = start + len(text[start:cut].rstrip())
        if end < cut and end > start and not is_boundary(text, end, start):
            end += 1
        if end > start:
            yield start, end
            cut = end  # the space before a combining mark must stay in reach of the next passage


def _best_cut(text: str, start: int, stop: int, odd_blank: int) -> int:
    """The place in (start, stop] where the passage from `start` ends; the text goes on there."""
    # White space behind the window ends the passage as well as white space in it.
    seen = stop + (text[stop].isspace() and is_boundary(text, stop, start))
    # A heading stays with its text: a break in the first quarter of the window would part them.
    lower = start + (stop - start) // 4
    found = text.rfind("\n\n", lower, seen + 1)
    if found >= 0:
        return min(found + 1, stop)
    if odd_blank < seen:
        match = _ODD_BLANK.match(text, lower, seen)
        if match is not None and is_boundary(text, match.end(), start):
            return min(match.end(), stop)
    middle = start + (stop - start) // 2
    match = _SENTENCE.match(text, middle, seen)
    if match is not None and is_boundary(text, match.end(), start):
        return min(match.end(), stop)
    found = text.rfind("\n", middle, seen)
    if found >= 0:
        return min(found + 1, stop)
    match = _SPACE.match(text, start + 1, seen)
    if match is not None:
        return min(match.end(), stop)
    for pattern in (_PUNCTUATION, _WIDE):
        match = pattern.match(text, middle, stop)
        if match is not None and is_boundary(text, match.end(), start):
            return match.end()
    for cut in range(stop, start, -1):
        if is_boundary(text, cut, start):
            return cut
    return stop  # one user-perceived character is longer than the window


def is_boundary(text: str, at: int, start: int = 0) -> bool:
    r"""Whether a cut at `at` leaves every user-perceived character whole.

    `start` is the beginning of the piece, itself such a place. Follows UAX #29 and is stricter
    where that costs nothing: no cut beside any format character, nor after a virama (the conjuncts
    of Unicode 15.1, whatever version this Python knows).

    >>> is_boundary("e\u0301", 1), is_boundary("\r\n", 1), is_boundary("ab", 1)
    (False, False, True)
    """
    if at <= start or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if (
        before < "\u0300" and after < "\u0300"
    ):  # nothing joins here but CRLF and the soft hyphen's kin
        return not (before == "\r" and after == "\n")
    kind_before, kind_after = unicodedata.category(before), unicodedata.category(after)
    if kind_before in ("Cc", "Zl", "Zp") or kind_after in ("Cc", "Zl", "Zp"):
        return True
    if kind_after[0] == "M" or kind_after == "Cf" or after in _APPENDED:
        return False
    if kind_before == "Cf" or before in _PREPEND or "\U0001f3fb" <= after <= "\U0001f3ff":
        return False
    if _is_regional(before) and _is_regional(after):
        return _regionals_before(text, at, start) % 2 == 0
    if kind_before[0] == "M":
        return not _ends_with_virama(text, at, start)
    return not _hangul_joins(before, after)


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _regionals_before(text: str, at: int, start: int) -> int:
    first = at
    while first > start and _is_regional(text[first - 1]):
        first -= 1
    return at - first


def _ends_with_virama(text: str, at: int, start: int) -> bool:
    while at > start and unicodedata.category(text[at - 1])[0] in "MC":
        if unicodedata.combining(text[at - 1]) == _VIRAMA:
            return True
        at -= 1
    return False


def _hangul_joins(before: str, after: str) -> bool:
    """Rules GB6 to GB8: leading consonants, vowels and trailing consonants of one syllable."""
    left, right = _hangul(before), _hangul(after)
    return (
        (left == "L" and right in ("L", "V", "LV", "LVT"))
        or (left in ("LV", "V") and right in ("V", "T"))
        or (left in ("LVT", "T") and right == "T")
    )


def _hangul(character: str) -> str:
    code = ord(character)
    if 0xAC00 <= code <= 0xD7A3:
        return "LV" if (code - 0xAC00) % 28 == 0 else "LVT"
    if 0x1100 <= code <= 0x115F or 0xA960 <= code <= 0xA97C:
        return "L"
    if 0x1160 <= code <= 0x11A7 or 0xD7B0 <= code <= 0xD7C6:
        return "V"
    if 0x11A8 <= code <= 0x11FF or 0xD7CB <= code <= 0xD7FB:
        return "T"
    return ""
