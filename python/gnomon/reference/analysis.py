r"""Text to tokens: the specification of the analyzer presets.

basic-v1: NFKC, then lower case. A run of CJK characters gives its overlapping bigrams, a single one
gives itself; any other run of word characters (letters, numbers, combining marks) is one token.

standard-v1: the same, and
- Thai, Lao, Myanmar and Khmer, which write no spaces either, also give bigrams;
- a run of other word characters, "_", and "::" between these is an identifier. It gives itself and,
  when it is not its own only part, its parts after it. Parts end at "_" and "::", between a
  lower-case and an upper-case letter (allowPublic), and before the last capital of several that a
  lower-case letter follows (HTTPServer: http, server). Never between letters and digits. What has
  no letter or number gives nothing.

bm25s: str.lower, then runs of at least two letters, numbers and "_" (the regular expression
(?u)\b\w\w+\b); lucene-english: `gnomon.reference.lucene`. These are the presets before their stop
words and stemmer, which `gnomon.reference.analysis_filters` puts behind them.

Spans are half open, in code points of the original text. A segment is what NFKC may change as one;
of a segment that it did change, a token covers all, however little it touches.
"""

import functools
import re
import unicodedata

from gnomon.reference import lucene

PRESETS = ("basic-v1", "standard-v1", "bm25s", "lucene-english")

Token = tuple[str, int, int]

CJK = (
    (0x3005, 0x3007),
    (0x3040, 0x30FA),
    (0x30FC, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
THAI_LAO = ((0x0E00, 0x0EFF),)
MYANMAR = ((0x1000, 0x109F), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F), (0x116D0, 0x116FF))
KHMER = ((0x1780, 0x17FF),)


def tokens(text: str, preset: str = "standard-v1") -> list[str]:
    """Return the tokens of `text` in order.

    Raises ValueError for a preset that is not in PRESETS.

    >>> tokens("HTTPServer2Go listens")
    ['httpserver2go', 'http', 'server2go', 'listens']
    >>> tokens("HTTPServer2Go \u5168\u6587\u68c0\u7d22", "basic-v1")
    ['httpserver2go', '\u5168\u6587', '\u6587\u68c0', '\u68c0\u7d22']
    """
    return [token for token, _, _ in spans(text, preset)]


def spans(text: str, preset: str = "standard-v1") -> list[Token]:
    """Return (token, start, end) for each token; text[start:end] is what it was made from.

    Raises ValueError for a preset that is not in PRESETS.

    >>> spans("std::ofstream")
    [('std::ofstream', 0, 13), ('std', 0, 3), ('ofstream', 5, 13)]
    >>> spans("a \ufb01sh")
    [('a', 0, 1), ('fish', 2, 5)]
    """
    return [(token, start, end) for token, start, end, _ in marked_spans(text, preset)]


def marked_spans(text: str, preset: str) -> list[tuple[str, int, int, bool]]:
    """Return the spans, and of each whether it is a whole identifier.

    One with "_" or "::", or with a lower-case letter and a capital after its first character.

    >>> marked_spans("max_size", "standard-v1")
    [('max_size', 0, 8, True), ('max', 0, 3, False), ('size', 4, 8, False)]
    """
    if preset not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {preset!r}")
    if preset == "lucene-english":
        return [(*word, False) for word in lucene.words(text)]
    if preset == "bm25s":
        return [(*word, False) for word in _bm25s(text)]
    origin: list[tuple[int, int]] = []  # of each normalised character
    for start, end in segments(text):
        segment = normalise(text[start:end])
        if segment == text[start:end]:
            origin.extend((at, at + 1) for at in range(start, end))
        else:
            origin.extend((start, end) for _ in segment)
    cased = normalise(text)
    lowered = cased.lower()  # of the whole: a final sigma depends on its neighbours
    if preset == "basic-v1":
        cut = [(*token, False) for token in _basic(lowered)]
    else:
        cut = _standard(cased, lowered)
    return [
        (token, origin[start][0], origin[end - 1][1], whole) for token, start, end, whole in cut
    ]


def _bm25s(text: str) -> list[Token]:
    lowered = text.lower()
    origin = [at for at, char in enumerate(text) for _ in char.lower()]
    found = []
    for match in re.finditer(r"(?u)\b\w\w+\b", lowered):
        start, end = match.span()
        found.append((match.group(), origin[start], origin[end - 1] + 1))
    return found


def normalise(text: str) -> str:
    """Return NFKC of `text`, with the one character whose lower case is longer spelled out.

    So the result and its lower case are aligned, character by character.
    """
    return unicodedata.normalize("NFKC", text).replace("\u0130", "i\u0307")


def segments(text: str) -> list[tuple[int, int]]:
    """Return spans that cover `text` and that NFKC treats each for itself.

    A segment starts at a character whose decomposition starts with one that is neither reordered
    (it has combining class 0) nor ever composed with what is before it.
    """
    if not text:
        return []
    starts = [0]
    for at in range(1, len(text)):
        first = unicodedata.normalize("NFKD", text[at])[0]
        if unicodedata.combining(first) == 0 and first not in _seconds():
            starts.append(at)
    return list(zip(starts, [*starts[1:], len(text)], strict=True))


@functools.cache
def _seconds() -> frozenset[str]:
    """Return the characters that composition can melt into the one before them."""
    found = {chr(code) for code in range(0x1161, 0x1176)}  # Hangul vowels
    found.update(chr(code) for code in range(0x11A8, 0x11C3))  # Hangul final consonants
    for code in range(0x110000):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            found.add(chr(int(parts[1], 16)))
    return frozenset(found)


def _basic(lowered: str) -> list[Token]:
    found: list[Token] = []
    at = 0
    while at < len(lowered):
        end = at + 1
        if is_cjk(lowered[at]):
            while end < len(lowered) and is_cjk(lowered[end]):
                end += 1
            found.extend(_bigrams(lowered, at, end))
        elif is_word(lowered[at]):
            while end < len(lowered) and is_word(lowered[end]) and not is_cjk(lowered[end]):
                end += 1
            found.append((lowered[at:end], at, end))
        at = end
    return found


def _standard(cased: str, lowered: str) -> list[tuple[str, int, int, bool]]:
    found: list[tuple[str, int, int, bool]] = []
    at = 0
    while at < len(cased):
        end = at + 1
        if is_bigram_script(cased[at]):
            while end < len(cased) and is_bigram_script(cased[end]):
                end += 1
            found.extend((*token, False) for token in _bigrams(lowered, at, end))
        elif is_identifier(cased[at]):
            end = _identifier_end(cased, at)
            if has_alnum(cased[at:end]):
                found.append((lowered[at:end], at, end, _is_whole(cased[at:end])))
                for start, stop in _parts(cased, at, end):
                    if (start, stop) != (at, end):
                        found.append((lowered[start:stop], start, stop, False))
        at = end
    return found


def _is_whole(cased: str) -> bool:
    humps = any(map(is_upper, cased[1:])) and any(map(is_lower, cased))
    return humps or "_" in cased or "::" in cased


def _bigrams(lowered: str, start: int, end: int) -> list[Token]:
    if end - start == 1:
        return [(lowered[start:end], start, end)]
    return [(lowered[at : at + 2], at, at + 2) for at in range(start, end - 1)]


def _identifier_end(cased: str, start: int) -> int:
    end = start + 1
    while end < len(cased):
        if is_identifier(cased[end]):
            end += 1
        elif cased[end : end + 2] == "::" and is_identifier(cased[end + 2 : end + 3]):
            end += 2
        else:
            break
    return end


def _parts(cased: str, start: int, end: int) -> list[tuple[int, int]]:
    pieces = []
    piece = start
    for at in range(start, end + 1):
        if at == end or cased[at] in "_:":
            pieces.append((piece, at))
            piece = at + 1
    found = []
    for first, last in pieces:
        if has_alnum(cased[first:last]):
            found.extend(_split_case(cased, first, last))
    return found


def _split_case(cased: str, start: int, end: int) -> list[tuple[int, int]]:
    # Combining marks belong to the letter before them, so the letters are compared without them.
    letters = [at for at in range(start, end) if cased[at].isalnum()]
    cuts = [start]
    for number in range(1, len(letters)):
        before, at = cased[letters[number - 1]], cased[letters[number]]
        after = cased[letters[number + 1]] if number + 1 < len(letters) else ""
        if is_upper(at) and (is_lower(before) or (is_upper(before) and is_lower(after))):
            cuts.append(letters[number])
    return list(zip(cuts, [*cuts[1:], end], strict=True))


def is_word(char: str) -> bool:
    """Whether `char` is a letter, a number or a combining mark."""
    return char.isalnum() or unicodedata.category(char).startswith("M")


def has_alnum(text: str) -> bool:
    """Whether `text` has a letter or a number; combining marks alone are none."""
    return any(char.isalnum() for char in text)


def is_upper(char: str) -> bool:
    """Whether `char` starts a part: upper or title case."""
    return unicodedata.category(char) in ("Lu", "Lt")


def is_lower(char: str) -> bool:
    """Whether `char` is a lower-case letter; false for no character."""
    return char != "" and unicodedata.category(char) == "Ll"


def is_cjk(char: str) -> bool:
    """Whether `char` lies in the Chinese, Japanese and Korean ranges of basic-v1."""
    return any(first <= ord(char) <= last for first, last in CJK)


@functools.lru_cache(4096)
def is_bigram_script(char: str) -> bool:
    """Whether `char` is written without spaces between words, for standard-v1."""
    ranges = THAI_LAO + MYANMAR + KHMER
    return is_cjk(char) or (
        any(first <= ord(char) <= last for first, last in ranges) and is_word(char)
    )


@functools.lru_cache(4096)
def is_identifier(char: str) -> bool:
    """Whether `char` belongs to an identifier; false for no character."""
    return char != "" and (char == "_" or is_word(char)) and not is_bigram_script(char)
