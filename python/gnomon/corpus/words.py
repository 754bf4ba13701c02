"""Finds the tokens of a text: word by word, each different word looked at once.

>>> hits_of("Set `max_size=3`, see Error 1153 (08S01)")
[(5, 13, 'snake'), (28, 32, 'error'), (34, 39, 'state')]
"""

from __future__ import annotations

import re

from .. import _core
from . import names as n

# Patterns that span words, with the words, or else the parts of text, without which none matches.
_SPANNING: tuple[tuple[frozenset[str], tuple[str, ...], re.Pattern[str]], ...] = (
    (frozenset(), ("rror", "ERROR"), n.ERROR),
    (frozenset(), ("STATE",), n.STATE),
    (frozenset(), ("bug", "Bug", "BUG"), n.REPORT),
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


# Words repeat, so each is looked at once. A flag says that a word triggers a pattern of _SPANNING;
# the flag _MAYBE places higher, that the text is asked for the parts that reach over white space.
_GROUPS = tuple(n.TOKEN.groupindex)
_PLACES = {group: place for place, group in enumerate(_GROUPS)}
_MAYBE = 16
_TRIGGERS: dict[str, int] = {}
_PARTS: list[tuple[str, int, int]] = []  # a part, the flag of a word that holds it, begins with it
for _number, (_words, _texts, _) in enumerate(_SPANNING):
    for _word in _words:
        _TRIGGERS[_word] = _TRIGGERS.get(_word, 0) | 1 << _number
    for _text in _texts:
        _begins = 1 << _number + _MAYBE if _text[0] == "\n" else 0
        _PARTS.append((_text.strip(), 0 if _begins else 1 << _number, _begins))
_SOME_PART = re.compile("|".join(re.escape(part) for part, _, _ in _PARTS))
# What each alternative of TOKEN needs; most words have none of it and are not looked at closely. A
# capital that is not the first letter stands in all names of several words that have no "_".
_SOME_TOKEN = re.compile(r"[\d_$@]|--|\w\(|[A-Za-z0-9][A-Z]")


def _facts_of(word: str) -> tuple[int, list[tuple[int, int, int]]]:
    """The flags of a word, and the tokens in it as (start, end, place of the group)."""
    flags = _TRIGGERS.get(word, 0)
    if _SOME_PART.search(word):
        for part, held, begun in _PARTS:
            if part in word:
                flags |= held
                if word.startswith(part):
                    flags |= begun
    if not _SOME_TOKEN.search(word):
        return flags, []
    hits = []
    for match in n.TOKEN.finditer(word):
        group = match.lastgroup or ""
        hits.append((*match.span(group), _PLACES[group]))
    return flags, hits


# The same for the compiled twin of `_facts_of`, which takes words of ASCII.
_FLAGGED = [(word, flags, 0, 0) for word, flags in _TRIGGERS.items()]
_FLAGGED += [(part, 0, held, begun) for part, held, begun in _PARTS]
_scanner = _core.WordScanner(
    _facts_of, _GROUPS, sorted({*_TRIGGERS, *(part for part, _, _ in _PARTS)}), _FLAGGED
)


def hits_of(text: str) -> list[tuple[int, int, str]]:
    """The tokens of a text as (start, end, group), in order."""
    hits, flags = _scanner.hits(text)
    if not flags:
        return hits
    found = set(hits)
    for number, (_, parts, pattern) in enumerate(_SPANNING):
        if not flags >> number & 1 and not (
            flags >> number + _MAYBE & 1 and any(part in text for part in parts)
        ):
            continue
        for match in pattern.finditer(text):
            for group, (begin, end) in zip(match.groupdict(), match.regs[1:], strict=True):
                if begin >= 0:
                    found.add((begin, end, group))
    return sorted(found)


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
