"""Finds the tokens of a text: word by word, each different word looked at once.

>>> hits_of("Set `max_size=3`, see Error 1153 (08S01)")
[(5, 13, 'snake'), (28, 32, 'error'), (34, 39, 'state')]
"""

from __future__ import annotations

import re

from . import names as n

# Patterns that span words, with the words, or else the parts of text, without which none matches.
_SPANNING: tuple[tuple[frozenset[str], tuple[str, ...], re.Pattern[str]], ...] = (
    (frozenset(), ("rror", "ERROR"), n.ERROR),
    (frozenset(), ("STATE",), n.STATE),
    (frozenset({"SET"}), (), n.SET_OPTION),
    (frozenset({"-e", "--env", "export", "ENV"}), (), n.SET_ENV),
    (
        frozenset(
            [
                "pip",
                "pip3",
                "npm",
                "apt-get",
                "apt",
                "yum",
                "dnf",
                "zypper",
                "brew",
                "composer",
                "gem",
                "cargo",
                "go",
            ]
        ),
        (),
        n.INSTALL,
    ),
    (frozenset({"import"}), ("require(", "\nusing "), n.IMPORTS),
    (frozenset(), ("\n[", "[mysqld", "[mariadb", "[client", "[server"), n.ASSIGNED),
)


# Words repeat, so each is looked at once: `_plain` have no token in them, `_known` have. Both are
# cleared when they hold _KNOWN_MAX words.
_plain: set[str] = set()
_known: dict[str, tuple[tuple[int, int, str], ...]] = {}
_KNOWN_MAX = 200_000


def _word_hits(word: str) -> tuple[tuple[int, int, str], ...]:
    """The tokens in a word as (start, end, group)."""
    hits = tuple((*m.span(m.lastgroup or 0), m.lastgroup or "") for m in n.TOKEN.finditer(word))
    if len(word) <= 80:
        if len(_known) + len(_plain) >= _KNOWN_MAX:
            _known.clear()
            _plain.clear()
        if hits:
            _known[word] = hits
        else:
            _plain.add(word)
    return hits


def hits_of(text: str) -> list[tuple[int, int, str]]:
    """The tokens of a text as (start, end, group), in order."""
    found: set[tuple[int, int, str]] = set()
    words = set(text.split())
    for word in words - _plain:
        hits = _known.get(word) or _word_hits(word)
        if hits:
            at, size = text.find(word), len(word)
            while at >= 0:
                if _stands(text, at, size):
                    for begin, end, group in hits:
                        found.add((at + begin, at + end, group))
                at = text.find(word, at + size)
    for triggers, parts, pattern in _SPANNING:
        if words.isdisjoint(triggers):
            for part in parts:
                if part in text:
                    break
            else:
                continue
        for match in pattern.finditer(text):
            for group, (begin, end) in zip(match.groupdict(), match.regs[1:], strict=True):
                if begin >= 0:
                    found.add((begin, end, group))
    return sorted(found)


def _stands(text: str, at: int, size: int) -> bool:
    """Whether the word found at a place is a whole one."""
    before, after = text[at - 1 : at], text[at + size : at + size + 1]
    return (not before or before.isspace()) and (not after or after.isspace())


def in_bytes(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Character spans, whose starts rise, as spans of bytes in UTF-8."""
    if text.isascii():
        return spans
    found, at, size = [], 0, 0
    for begin, end in spans:
        if begin >= at:
            size += len(text[at:begin].encode("utf-8", "surrogatepass"))
        else:
            size = len(text[:begin].encode("utf-8", "surrogatepass"))
        at = begin
        found.append((size, size + len(text[begin:end].encode("utf-8", "surrogatepass"))))
    return found
