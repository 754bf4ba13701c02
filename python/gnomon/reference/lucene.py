"""The preset lucene-english: what Lucene's EnglishAnalyzer makes of a text.

Words by Lucene's grammar of UAX #29, without a possessive 's, in lower case character by character;
then (in `gnomon.reference.analysis`) without its 33 stop words, and stemmed by Porter's algorithm.
A word is at most 255 UTF-16 units long, as Lucene cuts them; what follows is the next word.

`WORD` is the grammar as an automaton over the classes of `word_break`. Where Lucene departs from
UAX #29 (a Hebrew letter and a quote may be followed by a digit or "_"), so does this.
"""

import functools

from gnomon.reference.word_break import (
    break_class,
    is_modifier,
    is_pictograph,
    is_regional,
)

UNITS_MAX = 255
STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "for",
        "if",
        "in",
        "into",
        "is",
        "it",
        "no",
        "not",
        "of",
        "on",
        "or",
        "such",
        "that",
        "the",
        "their",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "will",
        "with",
    ]
)

# State -> class -> next state. Marks ("x", "S") keep the state. Only states in ENDS may end a word.
_CONTENT = {"a": "a", "h": "h", "n": "n", "_": "_"}
WORD: dict[str, dict[str, str]] = {
    "start": {"a": "a", "h": "h", "n": "n", "k": "k", "_": "start"},
    "a": {**_CONTENT, "l": "a.", "b": "a.", "'": "a."},
    "a.": {"a": "a", "h": "a"},
    "h": {**_CONTENT, "l": "a.", "b": "a.", "'": "h'", '"': 'h"'},
    "h'": _CONTENT,
    'h"': {"h": 'h"h'},
    'h"h': _CONTENT,
    "n": {**_CONTENT, "m": "n.", "b": "n.", "'": "n."},
    "n.": {"n": "n"},
    "k": {"k": "k", "_": "_"},
    "_": {**_CONTENT, "k": "k"},
}
ENDS = frozenset(WORD) - {"start", "a.", 'h"', "n."}
_SELECTORS = ("\ufe0e", "\ufe0f")


def words(text: str) -> list[tuple[str, int, int]]:
    """Return (word, start, end) of each word of `text`, before stop words and stemming.

    >>> words("The dog's U.S.A. bill_2 can't")[1:]
    [('dog', 4, 9), ('u.s.a', 10, 15), ('bill_2', 17, 23), ("can't", 24, 29)]
    """
    found = []
    at = 0
    while at < len(text):
        limit = _limit(text, at)
        end = max(_word(text, at, limit), _run(text, at, limit), _emoji(text, at, limit))
        if end > at:
            found.append((_lower(_without_possessive(text[at:end])), at, end))
        at = max(end, at + 1)
    return found


def _limit(text: str, start: int) -> int:
    """Where the window of UNITS_MAX UTF-16 units ends that starts at `start`."""
    end = min(len(text), start + UNITS_MAX)
    while len(text[start:end].encode("utf-16-le", "surrogatepass")) > 2 * UNITS_MAX:
        end -= 1
    return end


def _word(text: str, start: int, limit: int) -> int:
    """Where the longest word of letters, digits and what joins them ends; `start` for none."""
    state, end = "start", start
    for at in range(start, limit):
        kind = class_of(text[at])
        if kind in "xS":
            if at == start:
                return start
        elif kind in WORD[state]:
            state = WORD[state][kind]
        else:
            break
        if state in ENDS:
            end = at + 1
    return end


def _run(text: str, start: int, limit: int) -> int:
    """One Han or Hiragana character with its marks, or a run of a script without spaces."""
    kind = class_of(text[start])
    if kind not in "HisS":
        return start
    goes_on = "xS" if kind in "Hi" else "xsS"
    end = start + 1
    while end < limit and class_of(text[end]) in goes_on:
        end += 1
    return end


def _emoji(text: str, start: int, limit: int) -> int:
    """Where the emoji at `start` ends: one, several joined, a key cap, a flag; `start` for none."""
    if text[start] in "#*":
        return _key_cap(text, start, limit)
    if is_regional(text[start]):
        at = _marks(text, start + 1, limit, selectors=True)
        second = at < limit and is_regional(text[at])
        return _marks(text, at + 1, limit, selectors=True) if second else start
    at = start
    while at < limit and text[at] == "\u200d":
        at += 1
    if at == limit or not (is_pictograph(text[at]) or (at == start and is_modifier(text[at]))):
        return start
    while True:
        at, presented = _element(text, at, limit)
        if presented and (tagged := _tags(text, at, limit)) > at:
            return tagged
        joined = at
        while presented and joined < limit and text[joined] == "\u200d":
            joined += 1
        if joined == limit or text[joined - 1] != "\u200d":
            return at
        tone = is_modifier(text[joined]) and (not presented or joined == at + 1)
        if not (is_pictograph(text[joined]) or tone):
            return at
        at = joined


def _element(text: str, start: int, limit: int) -> tuple[int, bool]:
    """Where one emoji with marks and skin tones ends; whether a presentation selector ended it."""
    at = _marks(text, start + 1, limit)
    if not is_modifier(text[start]) and at < limit and text[at] == "\ufe0f":
        return at + 1, True
    return at, False


def _key_cap(text: str, start: int, limit: int) -> int:
    at = _marks(text, start + 1, limit)
    end = at if "\u20e3" in text[start:at] else start
    if text[at : min(at + 2, limit)] == "\ufe0f\u20e3":
        end = _marks(text, at + 2, limit)
    return end


def _tags(text: str, start: int, limit: int) -> int:
    at = start
    while at < limit and 0xE0020 <= ord(text[at]) <= 0xE007E:
        at += 1
    return at + 1 if at > start and at < limit and text[at] == "\U000e007f" else start


def _marks(text: str, at: int, limit: int, selectors: bool = False) -> int:
    while at < limit and class_of(text[at]) in "xS" and (selectors or text[at] not in _SELECTORS):
        at += 1
    return at


def _without_possessive(word: str) -> str:
    return (
        word[:-2] if len(word) >= 2 and word[-1] in "sS" and word[-2] in "'\u2019\uff07" else word
    )


def _lower(word: str) -> str:
    return "".join("i" if char == "\u0130" else char.lower() for char in word)


@functools.lru_cache(4096)
def class_of(char: str) -> str:
    """`break_class`, remembered."""
    return break_class(char)
