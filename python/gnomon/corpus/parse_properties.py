r"""Java properties files: a logical line is an atom, keys with one first part are a section.

The key and the value are shown with their escapes resolved (``\u00e9``, ``\:``); continued lines
are one atom.

>>> parsed = parse_properties(b"# Texts\na.0=It\\\n  goes\na.1=\\u00e9\nb.0=x\n")
>>> [h.title for h in parsed.headings], parsed.text_of(1)
(['a', 'b'], 'a.0=Itgoes')
"""

from __future__ import annotations

import re

from .builder import Name, Parsed

_LINE = re.compile(
    rb"^[ \t\f]*(?:(?P<comment>[#!][^\r\n]*)"
    rb"|(?P<key>(?:[^\s=:\\]|\\.)+)(?P<rest>(?:\\\r?\n|[^\\\r\n]|\\.)*))",
    re.MULTILINE,
)
_ESCAPE = re.compile(rb"\\(?:u([0-9A-Fa-f]{4})|\r?\n[ \t\f]*|([^\r\n\x80-\xff])|(?=[\x80-\xff]))")
_LETTERS = {b"t": "\t", b"n": "\n", b"r": "\r", b"f": "\f"}
_GROUP = re.compile(r"[A-Za-z_][\w-]*")
# A setting, where a message has sentences: the key of several words in one, a value of one word.
_SETTING = re.compile(r"[a-z][a-z0-9]*(?:[A-Z_][A-Za-z0-9]*)+")
_ONE_WORD = re.compile(rb"[ \t\f]*[=:][ \t\f]*[^\s{}]+[ \t\f]*")


def parse_properties(data: bytes, start: int = 0) -> Parsed:
    """The document in `data` (UTF-8) from `start` on, where a byte order mark ends."""
    parsed = Parsed(data, start)
    group = None
    for match in _LINE.finditer(data, start):
        begin, end = match.span()
        if match["comment"] is not None:
            parsed.atom(begin, "comment")
            parsed.copy(match.start("comment"), end)
            continue
        key = match["key"].decode("utf-8")
        parsed.atom(begin, "properties")
        _unescaped(parsed, match.start("key"), end)
        first, dot, rest = key.partition(".")
        if dot and first != group and _GROUP.fullmatch(first):
            group = first
            parsed.heading(2, begin, match.end("key"), first, kind="group")
        name_start = match.start("key")
        parsed.names.append(Name("message", key, name_start, match.end("key"), "defines"))
        if _SETTING.fullmatch(key) and _ONE_WORD.fullmatch(match["rest"]):
            parsed.names.append(Name("option", key, name_start, match.end("key"), "defines"))
        if first in ("ConnectionProperties", "connectionProperties") and _GROUP.fullmatch(rest):
            parsed.names.append(
                Name("option", rest, name_start + len(first) + 1, match.end("key"), "defines")
            )
    return parsed


def _unescaped(parsed: Parsed, begin: int, end: int) -> None:
    at = begin
    for escape in _ESCAPE.finditer(parsed.data, begin, end):
        parsed.copy(at, escape.start())
        at = escape.end()
        if escape[1] is not None:
            code = int(escape[1], 16)
            shown = "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)
            parsed.put(escape.start(), at, shown)
        elif escape[2] is not None:
            letter = _LETTERS.get(escape[2])
            if letter is None:
                parsed.copy(escape.start() + 1, at)
            else:
                parsed.put(escape.start(), at, letter)
    parsed.copy(at, end)
