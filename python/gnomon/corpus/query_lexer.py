r"""Cuts a query into tokens; words keep their code punctuation.

A word ends at white space, or at a closing parenthesis that it did not open. A backslash before
punctuation takes it as it is (``max\_allowed\_packet`` is `max_allowed_packet`); before a letter or
digit it is a character of the word (``C:\temp``). A colon makes a field only of a name that is one.

>>> [token.text for token in lex('std::vector<int> foo(a, b) -x "y z"', frozenset())]
['std::vector<int>', 'foo(a, b)', '-', 'x', 'y z']
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from functools import cached_property
from typing import NamedTuple

KEYWORDS = {"AND": "and", "&&": "and", "OR": "or", "||": "or", "NOT": "not"}
CALLS = ("NEAR", "SECTION", "DOC", "CHUNK")
_BOOST = re.compile(r"\^(\d{1,4}(?:\.\d{1,4})?)(?=[\s)]|$)")
_NUMBER = re.compile(r"~(\d{1,9})")
_FUZZY = re.compile(r"~([012]?)(?=[\s)^]|$)")
_RANGE = re.compile(
    r"([\[{])\s*(?:\"([^\"]*)\"|([^\s\]}]+))\s+TO\s+(?:\"([^\"]*)\"|([^\s\]}]+))\s*([\]}])"
)
_COMPARED = re.compile(r"(>=|<=|>|<)([^\s)]+)")
_KEYWORD = re.compile(r"\\(AND|OR|NOT)(?=[\s)^]|$)")
_FIELD = re.compile(r"([A-Za-z_][\w.]*):(?=[^\s)])")
_CALL_MOST = 400  # characters between the parentheses of a word, as in foo(a, b)
_END = re.compile(r"[\s)^]|$")
_PLAIN = re.compile(r"\w+(?=\s|\Z)", re.ASCII)  # a word that nothing else can be


class ParseError(ValueError):
    """The query does not parse; the message says why."""


class Token(NamedTuple):
    """`kind` is word, phrase, start, similar, wild, regex, range, field, call, modifier, boost,
    slop, and, or, not, ( or ); `bare` marks a word without an escape.
    """

    kind: str
    text: str
    at: int
    extra: tuple[str, ...] = ()
    bare: bool = True


class Lexer:
    """Reads one query from left to right."""

    def __init__(self, text: str, fields: Collection[str]):
        self.text = text
        self.fields = fields
        self.at = 0
        self.tokens: list[Token] = []

    def run(self, most: int | None = None) -> list[Token]:
        """All tokens, or at least the first `most`. Raises ParseError."""
        text = self.text
        while self.at < len(text) and (most is None or len(self.tokens) < most):
            here = text[self.at]
            plain = _PLAIN.match(text, self.at)
            if plain:
                word = plain[0]
                self._add(KEYWORDS.get(word, "word"), word, len(word))
            elif here.isspace():
                self.at += 1
            elif here in "()":
                self._add(here, here, 1)
                if here == ")":
                    self._boost()
            elif here == '"':
                self._phrase()
            elif here in "+-" and self._modifies():
                self._add("modifier", here, 1)
            elif not (here == "/" and self._regex()):
                self._word()
        return self.tokens

    def _add(self, kind: str, text: str, width: int, *extra: str, bare: bool = True) -> None:
        self.tokens.append(Token(kind, text, self.at, extra, bare))
        self.at += width

    def _modifies(self) -> bool:
        """Whether + or - here belongs to the clause behind it: `-x`, not `--flag`, `- ` or `->`."""
        behind = self.text[self.at + 1 : self.at + 2]
        return behind.isalnum() or (behind in ('"', "(", "/", "_", "\\") and behind != "")

    def _phrase(self) -> None:
        end, parts, at = -1, [], self.at + 1
        while at < len(self.text):
            here = self.text[at]
            if here == "\\" and self.text[at + 1 : at + 2] in ('"', "\\"):
                parts.append(self.text[at + 1])
                at += 2
                continue
            if here == '"':
                end = at
                break
            parts.append(here)
            at += 1
        if end < 0:
            raise ParseError(f"the quotation mark at character {self.at + 1} is not closed")
        self._add("phrase", "".join(parts), end + 1 - self.at)
        slop = _NUMBER.match(self.text, self.at)
        if slop:
            self._add("slop", slop[1], len(slop[0]))
        self._boost()

    def _boost(self) -> None:
        boost = _BOOST.match(self.text, self.at)
        if boost:
            self._add("boost", boost[1], len(boost[0]))

    def _regex(self) -> bool:
        """Takes /.../ or /.../i when its end is the end of a word; a path is none."""
        start = self.at + 1
        slashes, closing = self._slashes
        n = bisect_right(closing, start)
        if n == len(closing):
            return False
        end = closing[n]
        between = bisect_left(slashes, end) - bisect_right(slashes, start)
        if between and any(self.text[i].isspace() for i in range(start, end)):
            return False
        flag = "i" if self.text[end + 1 : end + 2] == "i" else ""
        pattern = self.text[start:end].replace("\\/", "/")
        self._add("regex", pattern, end + 1 + len(flag) - self.at, flag)
        return True

    @cached_property
    def _slashes(self) -> tuple[list[int], list[int]]:
        """Where slashes stand without a backslash, and those that end a word: found once, because
        every word may begin with one.
        """
        slashes, closing, at = [], [], 0
        while at < len(self.text):
            here = self.text[at]
            if here == "/":
                slashes.append(at)
                flag = self.text[at + 1 : at + 2] == "i"
                if _END.match(self.text, at + 1 + flag):
                    closing.append(at)
            at += 2 if here == "\\" else 1
        return slashes, closing

    @cached_property
    def _calls(self) -> frozenset[int]:
        """Where parentheses open that are closed before the query ends, and not far behind."""
        open_ones: list[int] = []
        found = []
        for at, here in enumerate(self.text):
            if here == "(":
                open_ones.append(at)
            elif here == ")" and open_ones:
                begin = open_ones.pop()
                if at - begin < _CALL_MOST:
                    found.append(begin)
        return frozenset(found)

    def _word(self) -> None:
        if self._field() or self._call():
            return
        keyword = _KEYWORD.match(self.text, self.at)
        if keyword:
            self._add("word", keyword[1], len(keyword[0]), bare=False)
            return
        chars, at, bare, open_ones, stars = [], self.at, True, 0, []
        text = self.text
        while at < len(text):
            here = text[at]
            following = text[at + 1 : at + 2]
            if here == "\\" and following and not following.isalnum():
                chars.append(following)
                bare = False
                at += 2
                continue
            if here.isspace() and not open_ones:
                break
            if here == "(" and at in self._calls:
                open_ones += 1
            elif here == ")":
                if not open_ones:
                    break
                open_ones -= 1
            elif chars and not open_ones and self._ends_word(here, at):
                break
            elif here == "*":
                stars.append(len(chars))
            elif here == "(" and not open_ones:
                break
            chars.append(here)
            at += 1
        self._finish_word("".join(chars), at, bare, stars)

    def _ends_word(self, here: str, at: int) -> bool:
        """Whether a boost or the mark of a fuzzy word stands here."""
        pattern = {"^": _BOOST, "~": _FUZZY}.get(here)
        return pattern is not None and pattern.match(self.text, at) is not None

    def _finish_word(self, word: str, end: int, bare: bool, stars: list[int]) -> None:
        kind, shown = "word", word
        if bare and word in KEYWORDS:
            kind = KEYWORDS[word]
        elif stars == [len(word) - 1] and len(word) > 1:
            kind, shown = "start", word[:-1]
        elif stars and any(c.isalnum() for c in word):
            kind = "wild"
        fuzzy = _FUZZY.match(self.text, end)
        if fuzzy and kind == "word":
            self._add("similar", word, end + len(fuzzy[0]) - self.at, fuzzy[1] or "1")
        else:
            self._add(kind, shown, end - self.at, bare=bare)
        self._boost()

    def _field(self) -> bool:
        found = _FIELD.match(self.text, self.at)
        if not found or found[1].lower() not in self.fields:
            return False
        self._add("field", found[1].lower(), len(found[0]))
        span = _RANGE.match(self.text, self.at)
        if span:
            low, high = span[2] or span[3], span[4] or span[5]
            self._add("range", "", len(span[0]), low or "", high or "", span[1], span[6])
            return True
        compared = _COMPARED.match(self.text, self.at)
        if compared:
            ends = ("[", "]") if "=" in compared[1] else ("{", "}")
            low, high = (compared[2], "*") if ">" in compared[1] else ("*", compared[2])
            self._add("range", "", len(compared[0]), low, high, *ends)
        return True

    def _call(self) -> bool:
        for name in CALLS:
            if self.text.startswith(name + "(", self.at):
                self._add("call", name, len(name) + 1)
                return True
        return False


def lex(text: str, fields: Collection[str]) -> list[Token]:
    """The tokens of a query. Raises ParseError."""
    return Lexer(text, fields).run()


def is_plain(word: str, fields: Collection[str]) -> bool:
    """Whether a word, written without escapes, is read as this one word."""
    try:
        tokens = Lexer(word, fields).run(2)
    except ParseError:
        return False
    return len(tokens) == 1 and tokens[0].kind == "word" and tokens[0].text == word
