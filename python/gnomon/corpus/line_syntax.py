r"""Regular expressions whose meaning is plain, as trees, for `gnomon.corpus.line_program`.

This is a part of RE2's syntax, read as RE2 reads it with ``(?m)`` and `never_nl`, and with the
classes of `gnomon.corpus.perl_classes`. Whatever is rare or not the same to every reader (``\A``,
``\pL``, ``[[:alpha:]]``, ``\Q``, repeats of what can be empty, a brace that is a literal) is None:
RE2 itself has to look. What is read here is always an expression of RE2.

>>> syntax("a|b") == Alternatives((Characters(1 << 97), Characters(1 << 98)))
True
>>> syntax(r"\Aa") is None
True
"""

from __future__ import annotations

import re
from typing import NamedTuple, Union

FEED = 1 << 10
ASCII = (1 << 128) - 1
BEYOND = ((1 << 256) - 1) ^ ASCII  # bytes of other characters
REPEATS_MOST = 50
_DEEPEST = 50
_TIMES = re.compile(r"\{([0-9]{1,3})(?:(,)([0-9]{0,3}))?\}")
_FLAGS = re.compile(r"\?([ims]+)([:)])")
_NAME = re.compile(r"\?P?<[A-Za-z_][A-Za-z_0-9]*>")
_HEX = re.compile(r"([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\}")
_CONTROLS = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}


class Characters(NamedTuple):
    """One character of a set: bytes below 0x80 as bits; `wide`: perhaps one beyond ASCII."""

    bits: int
    wide: bool = False


class Sequence(NamedTuple):
    """One after the other."""

    parts: tuple[Node, ...]


class Alternatives(NamedTuple):
    """The first that leads to a match."""

    parts: tuple[Node, ...]


class Repeated(NamedTuple):
    """A part that is never empty, so many times."""

    part: Node
    least: int
    most: int | None
    greedy: bool


class Edge(NamedTuple):
    """A place: "begin" or "end" of the line, "word" or "not_word" as ASCII knows words."""

    kind: str


Node = Union[Characters, Sequence, Alternatives, Repeated, Edge]  # noqa: UP007 (evaluated)


class _UnknownError(Exception):
    """What only RE2 should judge."""


def _of(*ranges: tuple[str, str]) -> int:
    return sum((1 << ord(high) + 1) - (1 << ord(low)) for low, high in ranges)


_DIGITS = _of(("0", "9"))
_CLASSES = {
    "d": _DIGITS,
    "s": _of(("\t", "\r"), (" ", " ")),
    "w": _DIGITS | _of(("A", "Z"), ("a", "z"), ("_", "_")),
}
_LETTERS = _of(("A", "Z"), ("a", "z"))
_SMALL = _of(("a", "z"))
_FOLDED_BEYOND = _of(*((sign, sign) for sign in "kKsS"))  # U+212A and U+017F fold to k and s


def syntax(pattern: str, ignore_case: bool = False) -> Node | None:
    """The tree of a pattern; None for one that is to be left to RE2."""
    reader = _Reader(pattern, ignore_case)
    try:
        node = reader.alternatives(0)
    except _UnknownError:
        return None
    return node if reader.at == len(pattern) else None


def may_be_empty(node: Node) -> bool:
    """Whether a match of the node can be of no width."""
    if isinstance(node, Characters):
        return False
    if isinstance(node, Repeated):
        return node.least == 0
    if isinstance(node, Edge):
        return True
    return (all if isinstance(node, Sequence) else any)(map(may_be_empty, node.parts))


class _Reader:
    """A recursive descent over the pattern."""

    def __init__(self, pattern: str, ignore_case: bool) -> None:
        self.pattern = pattern
        self.at = 0
        self.folding = ignore_case

    def alternatives(self, depth: int) -> Node:
        if depth > _DEEPEST:
            raise _UnknownError
        folding = self.folding
        parts = [self._sequence(depth)]
        while self._take("|"):
            parts.append(self._sequence(depth))
        self.folding = folding  # (?i) holds until its group ends
        return parts[0] if len(parts) == 1 else Alternatives(tuple(parts))

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            part = self._repeated(depth)
            parts += part.parts if isinstance(part, Sequence) else [part]
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repeated(self, depth: int) -> Node:
        part = self._one(depth)
        sign = self._next()
        if not sign or sign not in "*+?{":
            return part
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign) or self._times()
        self.at += sign != "{"
        greedy = not self._take("?")
        if may_be_empty(part) or (self._next() and self._next() in "*+?{"):
            raise _UnknownError
        return Repeated(part, least, most, greedy)

    def _times(self) -> tuple[int, int | None]:
        found = _TIMES.match(self.pattern, self.at)
        if found is None:
            raise _UnknownError
        self.at = found.end()
        least = int(found[1])
        most = (int(found[3]) if found[3] else None) if found[2] else least
        if max(least, most or 0) > REPEATS_MOST or (most is not None and not least <= most > 0):
            raise _UnknownError
        return least, most

    def _one(self, depth: int) -> Node:
        sign = self.pattern[self.at]
        self.at += 1
        if sign == "(":
            return self._group(depth)
        if sign == "[":
            return self._class()
        if sign == ".":
            return Characters(ASCII & ~FEED, True)
        if sign in "^$":
            return Edge("begin" if sign == "^" else "end")
        if sign == "\\":
            return self._escape()
        if sign in "*+?{":
            raise _UnknownError
        return self._character(ord(sign))

    def _group(self, depth: int) -> Node:
        folding = self.folding
        flags = _FLAGS.match(self.pattern, self.at)
        name = _NAME.match(self.pattern, self.at)
        if flags:
            self.at = flags.end()
            self.folding |= "i" in flags[1]
            if flags[2] == ")":
                return Sequence(())
        elif name:
            raise _UnknownError  # a name may stand once only
        elif self._next() == "?" and not self._take("?:"):
            raise _UnknownError
        part = self.alternatives(depth + 1)
        if not self._take(")"):
            raise _UnknownError
        self.folding = folding
        return part

    def _escape(self) -> Node:
        sign = self._next()
        if sign in ("b", "B"):
            self.at += 1
            return Edge("word" if sign == "b" else "not_word")
        found = self._named_class()
        return self._character(self._escaped()) if found is None else found

    def _named_class(self) -> Characters | None:
        sign = self._next()
        bits = _CLASSES.get(sign.lower()) if sign else None
        if bits is None:
            return None
        self.at += 1
        return Characters((bits if sign in _CLASSES else ASCII & ~bits) & ~FEED, True)

    def _escaped(self) -> int:
        """The code point of an escape that stands for one."""
        sign = self._next()
        self.at += 1
        if sign in _CONTROLS:
            return _CONTROLS[sign]
        if sign == "x":
            found = _HEX.match(self.pattern, self.at)
            code = int(found[1] or found[2], 16) if found else 1 << 30
            if found is None or code > 0x10FFFF:
                raise _UnknownError
            self.at = found.end()
            return code
        if not sign.isascii() or sign.isalnum() or not sign:
            raise _UnknownError
        return ord(sign)

    def _character(self, code: int) -> Node:
        if 0xD800 <= code < 0xE000:
            raise _UnknownError
        if code < 128:
            return self._folded(1 << code, False)
        if self.folding:
            return Characters(0, True)
        parts = tuple(Characters(1 << byte) for byte in chr(code).encode())
        return Sequence(parts)

    def _folded(self, bits: int, wide: bool) -> Characters:
        if self.folding:
            letters = bits & _LETTERS
            bits |= (letters << 32 | letters >> 32) & _LETTERS
            wide |= bool(bits & _FOLDED_BEYOND)
        return Characters(bits & ~FEED, wide)

    def _class(self) -> Node:
        negated = self._take("^")
        bits, wide, first = 0, negated, True
        while first or not self._take("]"):
            first = False
            more = self._member()
            bits |= more.bits
            wide |= more.wide
        found = self._folded(bits, wide)
        return Characters(ASCII & ~found.bits & ~FEED, True) if negated else found

    def _member(self) -> Characters:
        if self.pattern.startswith(("[:", "[=", "[."), self.at):
            raise _UnknownError
        if self._take("\\"):
            found = self._named_class()
            if found is not None:
                if self._next() == "-" and self.pattern[self.at + 1 : self.at + 2] != "]":
                    raise _UnknownError
                return found
            low = self._escaped()
        else:
            low = self._plain()
        high = low
        if self._next() == "-" and self.pattern[self.at + 1 : self.at + 2] != "]":
            self.at += 1
            high = self._escaped() if self._take("\\") else self._plain()
        if high < low:
            raise _UnknownError
        return Characters(((2 << high) - (1 << low)) & ASCII if low < 128 else 0, high >= 128)

    def _plain(self) -> int:
        sign = self._next()
        if not sign or 0xD800 <= ord(sign) < 0xE000:
            raise _UnknownError
        self.at += 1
        return ord(sign)

    def _next(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _take(self, text: str) -> bool:
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False
