r"""Which literals a text must hold for a regular expression to match in it.

The answer is a tree: bytes (a literal), ``("all", [trees])`` or ``("any", [trees])``; `EVERYTHING`
says that nothing is known. It is conservative: a text that matches always satisfies its tree (case
aside: the trigram index folds it). What this reader of RE2's syntax does not know is taken as
"anything"; whether a pattern is one at all is for RE2 to say.

>>> required_literals(r"allow[A-Z]\w+Retrieval")
('all', [b'allow', b'Retrieval'])
>>> required_literals("colou?r|grey(ish)?")
('any', [b'color', b'colour', b'grey', b'greyish'])
>>> required_literals(r"\w+") == EVERYTHING
True
"""

from __future__ import annotations

from typing import Any, NamedTuple

Tree = Any  # bytes | tuple[str, list[Tree]]
EVERYTHING: Tree = ("all", [])

_STRINGS_MOST = 16  # that a part may stand for before it is cut
_CLASS_MOST = 8
_DEEPEST = 100
_NOTHING_WIDE = frozenset("AzZbB")  # escapes that match no character
_CLASSES = frozenset("dDwWsSpPC")
_CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}


class _Part(NamedTuple):
    """What a part of a pattern stands for: these strings exactly, or a text with this need."""

    strings: frozenset[bytes] | None
    need: Tree = EVERYTHING


_EMPTY = _Part(frozenset([b""]))
_ANY = _Part(None)


class _UnknownError(Exception):
    """Syntax that this reader does not know."""


def required_literals(pattern: str, ignore_case: bool = False) -> Tree:
    """The tree of a pattern in RE2's syntax."""
    try:
        reader = _Reader(pattern, ignore_case)
        part = reader.alternatives(0)
        if reader.at != len(pattern):
            return EVERYTHING
    except (_UnknownError, RecursionError):
        return EVERYTHING
    return _need(part)


def _need(part: _Part) -> Tree:
    if part.strings is None:
        return part.need
    if any(len(text) < 3 for text in part.strings):
        return EVERYTHING
    found = sorted(part.strings)
    return found[0] if len(found) == 1 else ("any", list(found))


def _all(parts: list[Tree]) -> Tree:
    flat: list[Tree] = []
    for part in parts:
        flat += part[1] if isinstance(part, tuple) and part[0] == "all" else [part]
    unique = [part for i, part in enumerate(flat) if part not in flat[:i]]
    return unique[0] if len(unique) == 1 else ("all", unique)


def _any(parts: list[Tree]) -> Tree:
    if any(part == EVERYTHING for part in parts):
        return EVERYTHING
    flat: list[Tree] = []
    for part in parts:
        flat += part[1] if isinstance(part, tuple) and part[0] == "any" else [part]
    unique = [part for i, part in enumerate(flat) if part not in flat[:i]]
    return unique[0] if len(unique) == 1 else ("any", unique)


class _Reader:
    """A recursive descent over the pattern."""

    def __init__(self, pattern: str, ignore_case: bool) -> None:
        self.pattern = pattern
        self.at = 0
        self.folding = ignore_case

    def alternatives(self, depth: int) -> _Part:
        if depth > _DEEPEST:
            raise _UnknownError
        folding = self.folding
        parts = [self._sequence(depth)]
        while self._take("|"):
            parts.append(self._sequence(depth))
        self.folding = folding  # (?i) holds until its group ends
        if len(parts) == 1:
            return parts[0]
        if all(part.strings is not None for part in parts):
            every = frozenset().union(*(part.strings or () for part in parts))
            if len(every) <= _STRINGS_MOST:
                return _Part(every)
        return _Part(None, _any([_need(part) for part in parts]))

    def _sequence(self, depth: int) -> _Part:
        needs: list[Tree] = []
        strings = _EMPTY.strings
        assert strings is not None
        exact = True
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            part = self._repeated(depth)
            if part.strings is not None and len(strings) * len(part.strings) <= _STRINGS_MOST:
                strings = frozenset(a + b for a in strings for b in part.strings)
                continue
            exact = False
            needs.append(_need(_Part(strings)))
            if part.strings is not None and len(part.strings) <= _STRINGS_MOST:
                strings = part.strings
            else:
                needs.append(part.need if part.strings is None else EVERYTHING)
                strings = frozenset([b""])
        if exact:
            return _Part(strings)
        needs.append(_need(_Part(strings)))
        return _Part(None, _all(needs))

    def _repeated(self, depth: int) -> _Part:
        part = self._one(depth)
        while self.at < len(self.pattern) and self.pattern[self.at] in "*+?{":
            least, most = self._times()
            if least < 0:
                break
            part = _times(part, least, most)
        return part

    def _times(self) -> tuple[int, int | None]:
        """How often; (-1, None) for a brace that is a literal."""
        sign = self.pattern[self.at]
        if sign != "{":
            self.at += 1
            self._take("?")
            return (1 if sign == "+" else 0), (1 if sign == "?" else None)
        end = self.pattern.find("}", self.at)
        inside = self.pattern[self.at + 1 : end] if end > 0 else ""
        low, comma, high = inside.partition(",")
        if not low.isascii() or not low.isdigit() or (high and not high.isdigit()):
            return -1, None
        self.at = end + 1
        self._take("?")
        return int(low), (int(high) if high else None) if comma else int(low)

    def _one(self, depth: int) -> _Part:
        sign = self.pattern[self.at]
        self.at += 1
        if sign == "(":
            return self._group(depth)
        if sign == "[":
            return self._class()
        if sign == ".":
            return _ANY
        if sign in "^$":
            return _EMPTY
        if sign == "\\":
            return self._escape()
        return self._character(sign)

    def _character(self, sign: str) -> _Part:
        if self.folding and not sign.isascii():
            return _ANY
        return _Part(frozenset([sign.encode("utf-8", "surrogatepass")]))

    def _group(self, depth: int) -> _Part:
        folding = self.folding
        if self._take("?"):
            if self._take("P<") or self._take("<"):
                end = self.pattern.find(">", self.at)
                if end < 0 or self.pattern[self.at : self.at + 1] in ("=", "!"):
                    raise _UnknownError
                self.at = end + 1
            elif self._flags():
                return _EMPTY
        part = self.alternatives(depth + 1)
        if not self._take(")"):
            raise _UnknownError
        self.folding = folding
        return part

    def _flags(self) -> bool:
        """Reads flags; True for ``(?i)``, False where a group follows."""
        on = True
        while self.at < len(self.pattern):
            sign = self.pattern[self.at]
            self.at += 1
            if sign == "-":
                on = False
            elif sign == "i":
                self.folding = on
            elif sign == ")":
                return True
            elif sign == ":":
                return False
            elif sign not in "msU":
                break
        raise _UnknownError

    def _escape(self) -> _Part:
        if self.at >= len(self.pattern):
            raise _UnknownError
        sign = self.pattern[self.at]
        self.at += 1
        if sign in _NOTHING_WIDE:
            return _EMPTY
        if sign == "Q":
            end = self.pattern.find("\\E", self.at)
            text = self.pattern[self.at : end if end >= 0 else None]
            self.at = end + 2 if end >= 0 else len(self.pattern)
            if self.folding and not text.isascii():
                return _ANY
            return _Part(frozenset([text.encode("utf-8", "surrogatepass")]))
        if sign in "pP":
            return self._property()
        if sign in _CLASSES:
            return _ANY
        return self._character(self._escaped(sign))

    def _property(self) -> _Part:
        if self._take("{"):
            end = self.pattern.find("}", self.at)
            if end < 0:
                raise _UnknownError
            self.at = end + 1
        else:
            self.at += 1
        return _ANY

    def _escaped(self, sign: str) -> str:
        """The character of an escape that stands for one."""
        if sign in _CONTROLS:
            return _CONTROLS[sign]
        if sign == "x":
            if self._take("{"):
                end = self.pattern.find("}", self.at)
                digits = self.pattern[self.at : max(end, self.at)]
                self.at = end + 1
            else:
                digits = self.pattern[self.at : self.at + 2]
                self.at += 2
            try:
                return chr(int(digits, 16))
            except (ValueError, OverflowError):
                raise _UnknownError from None
        if sign.isascii() and sign.isalnum():
            raise _UnknownError  # octal digits, or nothing that is known
        return sign

    def _class(self) -> _Part:
        negated = self._take("^")
        members: set[str] = set()
        wide = negated
        first = True
        while first or not self._take("]"):
            first = False
            low = self._member()
            if low is None:
                wide = True
                continue
            high: str | None = low
            behind = self.pattern[self.at + 1 : self.at + 2]
            if self.pattern[self.at : self.at + 1] == "-" and behind not in ("]", ""):
                self.at += 1
                high = self._member()
            if high is None or ord(high) - ord(low) >= _CLASS_MOST:
                wide = True
                continue
            members.update(map(chr, range(ord(low), ord(high) + 1)))
        if wide or not members or len(members) > _CLASS_MOST:
            return _ANY
        parts = [self._character(member) for member in members]
        if any(part.strings is None for part in parts):
            return _ANY
        return _Part(frozenset().union(*(part.strings or () for part in parts)))

    def _member(self) -> str | None:
        """A character of a class, or None for a class within."""
        if self.at >= len(self.pattern):
            raise _UnknownError
        sign = self.pattern[self.at]
        if self.pattern.startswith("[:", self.at):
            end = self.pattern.find(":]", self.at)
            if end < 0:
                raise _UnknownError
            self.at = end + 2
            return None
        self.at += 1
        if sign != "\\":
            return sign
        if self.at >= len(self.pattern):
            raise _UnknownError
        sign = self.pattern[self.at]
        self.at += 1
        if sign in "pP":
            self._property()
            return None
        if sign in _CLASSES:
            return None
        return self._escaped(sign)

    def _take(self, text: str) -> bool:
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False


def _times(part: _Part, least: int, most: int | None) -> _Part:
    if (least, most) == (0, 1) and part.strings is not None:
        both = part.strings | {b""}
        return _Part(both) if len(both) <= _STRINGS_MOST else _ANY
    if least == 0:
        return _ANY
    if least == most == 1:
        return part
    if part.strings is not None and len(part.strings) == 1 and least <= 8:
        text = next(iter(part.strings)) * least
        return _Part(frozenset([text])) if least == most else _Part(None, _need_of(text))
    return _Part(None, _need(part))


def _need_of(text: bytes) -> Tree:
    return text if len(text) >= 3 else EVERYTHING
