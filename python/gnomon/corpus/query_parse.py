"""From a query's text to its tree: a Lucene subset that takes code as it is.

Juxtaposed clauses are joined by the default operator; AND binds tighter than OR, and so does
juxtaposition where AND is the default. ``+x`` must hold; ``-x`` and ``NOT x`` must not; only behind
an explicit OR does NOT mean "what does not hold x". A condition on metadata filters unless it
stands beside an explicit OR. A query that does not parse becomes its words.

>>> parse("a b -c", "or").node.shown(), parse("a b -c", "and").node.shown()
('a b -c', 'a AND b AND NOT c')
>>> parse("(a OR b", "and").literal
True
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from .query_ast import (
    Close,
    Every,
    Group,
    Meta,
    Node,
    Quoted,
    Regex,
    Similar,
    Start,
    Within,
    Word,
)
from .query_fields import FIELDS, META_FIELDS, TEXT_FIELDS
from .query_lexer import ParseError, Token, lex

DEPTH_MOST = 20
CLAUSES_MOST = 1000
NEAR_WINDOW = 10


@dataclass(frozen=True)
class Parsed:
    """`literal` says that the text did not parse (`why`) and stands here as its words.

    `kinds` are the kinds of its tokens ("word", "phrase", "field"...) and `words` counts the words.
    """

    node: Node
    literal: bool = False
    why: str = ""
    kinds: frozenset[str] = frozenset({"word"})
    words: int = 0
    notes: tuple[str, ...] = field(default=())


def parse(text: str, operator: str, fields: Collection[str] = FIELDS) -> Parsed:
    """The tree of a query; `operator` ("and", "or") joins clauses that stand side by side."""
    try:
        tokens = lex(text, fields)
        reader = _Parser(tokens, operator)
        node = reader.whole()
    except ParseError as error:
        words = tuple(Word(part) for part in text.split())
        if len(words) > CLAUSES_MOST:
            words = words[:CLAUSES_MOST]
        return Parsed(_joined(words, operator), True, str(error), words=len(words))
    kinds = [token.kind for token in tokens]
    return Parsed(node, kinds=frozenset(kinds), words=kinds.count("word"), notes=_notes(text))


def _joined(words: tuple[Node, ...], operator: str) -> Node:
    if len(words) == 1:
        return words[0]
    return Group(must=words) if operator == "and" else Group(should=words)


_LOOKS_LIKE_FIELD = re.compile(r"(?:^|[\s(])([a-z]{3,12}):(?=[\w\"*])")


def _notes(text: str) -> tuple[str, ...]:
    """Names before a colon that are no fields, which a caller may have meant as such."""
    found = {m[1] for m in _LOOKS_LIKE_FIELD.finditer(text) if m[1] not in FIELDS}
    found -= {"http", "https", "file", "jdbc", "mailto", "std"}
    return tuple(f"{name!r} is no field, so '{name}:' was taken as text" for name in sorted(found))


class _Parser:
    """Recursive descent over the tokens."""

    def __init__(self, tokens: list[Token], operator: str):
        self.tokens = tokens
        self.at = 0
        self.by_and = operator == "and"
        self.depth = 0
        self.clauses = 0

    def whole(self) -> Node:
        if not self.tokens:
            raise ParseError("the query is empty")
        if 1 < len(self.tokens) <= CLAUSES_MOST and all(t.kind == "word" for t in self.tokens):
            # What the rules below make of words side by side, without going through them.
            return _joined(
                tuple(Word(token.text) for token in self.tokens), "and" if self.by_and else "or"
            )
        node = self.either("")
        if self.at < len(self.tokens):
            raise ParseError(f"character {self.tokens[self.at].at + 1}: ')' closes nothing")
        return node

    def peek(self) -> str:
        return self.tokens[self.at].kind if self.at < len(self.tokens) else ""

    def take(self) -> Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def either(self, name: str) -> Node:
        """Clauses joined by OR, or side by side where OR is the default."""
        clauses: list[tuple[bool, str, Node]] = []  # whether behind an OR, sign, clause
        behind_or = False
        while True:
            clauses.append((behind_or, *self.together(name)))
            if self.peek() in ("", ")"):
                break
            behind_or = self.peek() == "or"
            if behind_or:
                self.take()
        must: list[Node] = []
        should: list[Node] = []
        must_not: list[Node] = []
        followed = [behind for behind, _, _ in clauses[1:]] + [False]
        for (behind, sign, node), before in zip(clauses, followed, strict=True):
            explicit = behind or before
            if sign == "-":
                if behind:
                    should.append(Group(must_not=(node,)))
                else:
                    must_not.append(node)
            elif sign == "+" or (isinstance(node, Meta) and not explicit and len(clauses) > 1):
                must.append(node)  # a condition that stands by itself is a filter
            else:
                should.append(node)
        if len(must) + len(should) == 1 and not must_not:
            return (must or should)[0]
        return Group(tuple(must), tuple(should), tuple(must_not))

    def together(self, name: str) -> tuple[str, Node]:
        """Clauses joined by AND, or side by side where AND is the default, with a lone sign."""
        parts = [self.signed(name)]
        while True:
            kind = self.peek()
            if kind == "and":
                self.take()
                if self.peek() in ("", ")", "or", "and"):
                    raise ParseError("nothing stands behind AND")
            elif not self.by_and or kind in ("", ")", "or"):
                break
            parts.append(self.signed(name))
        if len(parts) == 1:
            return parts[0]
        must = tuple(node for sign, node in parts if sign != "-")
        return "", Group(must=must, must_not=tuple(node for sign, node in parts if sign == "-"))

    def signed(self, name: str) -> tuple[str, Node]:
        sign = ""
        while self.peek() in ("modifier", "not"):
            token = self.take()
            mark = token.text if token.kind == "modifier" else "-"
            sign = "" if (sign, mark) == ("-", "-") else mark
        return sign, self.single(name)

    def single(self, name: str) -> Node:
        if self.at >= len(self.tokens):
            raise ParseError("the query ends where a clause should stand")
        self.clauses += 1
        if self.clauses > CLAUSES_MOST:
            raise ParseError(f"more than {CLAUSES_MOST:,} clauses")
        token = self.take()
        if token.kind == "(":
            return self.boosted(self.inside(name))
        if token.kind == "call":
            return self.call(token, name)
        if token.kind == "field":
            return self.boosted(self.of_field(token))
        if token.kind in ("word", "phrase", "start", "similar", "wild", "regex"):
            return self.boosted(self.leaf(token, name))
        raise ParseError(f"character {token.at + 1}: {token.text!r} stands where a clause should")

    def inside(self, name: str) -> Node:
        self.deeper()
        node = self.either(name)
        self.depth -= 1
        if self.peek() != ")":
            raise ParseError("a parenthesis is not closed")
        self.take()
        return node

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEPTH_MOST:
            raise ParseError(f"nested deeper than {DEPTH_MOST} parentheses")

    def boosted(self, node: Node) -> Node:
        if self.peek() != "boost":
            return node
        factor = float(self.take().text)
        return _times(node, factor)

    def leaf(self, token: Token, name: str) -> Node:
        if token.kind == "phrase":
            slop = int(self.take().text) if self.peek() == "slop" else 0
            return Quoted(token.text, slop, name)
        if token.kind == "start":
            return Start(token.text, name)
        if token.kind == "similar":
            return Similar(token.text, int(token.extra[0]), name)
        if token.kind == "regex":
            return Regex(token.text, bool(token.extra[0]))
        if token.kind == "wild":
            return Regex(_wild(token.text), ignore_case=True)
        if token.text == "*" and len(self.tokens) == 1:
            return Every()
        return Word(token.text, name)

    def of_field(self, token: Token) -> Node:
        name = token.text
        if name in TEXT_FIELDS and self.peek() != "range":
            self.deeper()
            node = self.single(TEXT_FIELDS[name])
            self.depth -= 1
            return node
        known = META_FIELDS.get(name)
        if known is None:
            raise ParseError(f"character {token.at + 1}: {name!r} takes no range")
        if self.peek() == "(":
            self.take()
            node = self.inside("")
            return _as_meta(node, known)
        if self.peek() not in ("word", "phrase", "start", "wild", "range", "similar"):
            raise ParseError(f"character {token.at + 1}: nothing stands behind '{name}:'")
        value = self.take()
        if value.kind == "range":
            low, high, left, right = value.extra
            least, most = _end(low), _end(high)
            return Meta(
                known,
                "",
                least,
                most,
                least is not None and left == "{",
                most is not None and right == "}",
            )
        return Meta(known, value.text + ("*" if value.kind == "start" else ""))

    def call(self, token: Token, name: str) -> Node:
        if token.text != "NEAR":
            node = self.inside(name)
            return node if token.text == "CHUNK" else Within(token.text.lower(), node)
        return self.boosted(self.near(token, name))

    def near(self, token: Token, name: str) -> Close:
        parts: list[Word | Quoted] = []
        while self.peek() in ("word", "phrase"):
            part = self.take()
            if part.kind == "phrase":
                parts.append(Quoted(part.text, 0, name))
                continue
            words = (text for text in part.text.split(",") if text)
            parts.extend(Word(text, name) for text in words)
        if self.peek() != ")":
            raise ParseError(f"character {token.at + 1}: NEAR takes words, phrases and a number")
        self.take()
        window = NEAR_WINDOW
        last = parts[-1] if parts else None
        if len(parts) > 2 and isinstance(last, Word) and last.text.isdecimal():
            window = min(int(last.text), 100_000)
            parts.pop()
        if len(parts) < 2:
            raise ParseError(f"character {token.at + 1}: NEAR needs two words or phrases")
        return Close(tuple(parts), window)


def _times(node: Node, factor: float) -> Node:
    """The node with its boost multiplied; what scores nothing stays as it is."""
    if isinstance(node, (Word, Quoted, Start, Similar, Close, Group)):
        return replace(node, boost=node.boost * factor)
    return node


def _end(text: str) -> str | None:
    return None if text == "*" else text


def _wild(text: str) -> str:
    r"""A word with stars as a regular expression over text.

    >>> _wild("allow*Retrieval")
    '\\ballow\\w*Retrieval\\b'
    """
    inner = r"\w*".join(re.escape(part) for part in text.split("*"))
    before = r"\b" if text[0].isalnum() else ""
    behind = r"\b" if text[-1].isalnum() else ""
    return before + inner + behind


def _as_meta(node: Node, name: str) -> Node:
    """``path:(a OR b*)``: every word of the group is a condition on the field."""
    if isinstance(node, Group):
        return Group(
            tuple(_as_meta(part, name) for part in node.must),
            tuple(_as_meta(part, name) for part in node.should),
            tuple(_as_meta(part, name) for part in node.must_not),
        )
    if isinstance(node, (Word, Quoted)):
        return Meta(name, node.text)
    if isinstance(node, Start):
        return Meta(name, node.text + "*")
    raise ParseError(f"'{name}:(...)' takes words only")
