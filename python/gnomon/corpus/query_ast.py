"""The tree of a parsed query, and how it is written back.

>>> from gnomon.corpus.query_parse import parse
>>> parse('+a::b "c d"~2 -path:x/*', "or").node.shown()
'+a::b "c d"~2 -path:x/*'
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .query_fields import FIELDS
from .query_lexer import is_plain


@dataclass(frozen=True)
class Node:
    """The base of all; `boost` multiplies the scores of what stands below."""

    def shown(self) -> str:
        """The query language's text of it, which parses to the same tree."""
        raise NotImplementedError

    def parts(self) -> tuple[Node, ...]:
        """The nodes below, in written order."""
        return ()


@dataclass(frozen=True)
class Word(Node):
    """One word as written; the analyzer may cut it in several tokens."""

    text: str
    field: str = ""
    boost: float = 1.0

    def shown(self) -> str:
        return _field(self.field) + escaped(self.text) + _boost(self.boost)


@dataclass(frozen=True)
class Quoted(Node):
    """A phrase; with `slop` its tokens may be that far out of place."""

    text: str
    slop: int = 0
    field: str = ""
    boost: float = 1.0

    def shown(self) -> str:
        inner = self.text.replace("\\", "\\\\").replace('"', '\\"')
        slop = f"~{self.slop}" if self.slop else ""
        return f'{_field(self.field)}"{inner}"{slop}{_boost(self.boost)}'


@dataclass(frozen=True)
class Start(Node):
    """Tokens that start with a text."""

    text: str
    field: str = ""
    boost: float = 1.0

    def shown(self) -> str:
        return f"{_field(self.field)}{escaped(self.text)}*{_boost(self.boost)}"


@dataclass(frozen=True)
class Similar(Node):
    """Tokens within one or two edits of a text."""

    text: str
    edits: int
    field: str = ""
    boost: float = 1.0

    def shown(self) -> str:
        return f"{_field(self.field)}{escaped(self.text)}~{self.edits}{_boost(self.boost)}"


@dataclass(frozen=True)
class Regex(Node):
    """Passages with a match of a regular expression (RE2) in their text."""

    pattern: str
    ignore_case: bool = False

    def shown(self) -> str:
        return f"/{self.pattern}/{'i' if self.ignore_case else ''}"


@dataclass(frozen=True)
class Close(Node):
    """NEAR: words or phrases within `window` tokens of each other."""

    near: tuple[Word | Quoted, ...]
    window: int
    boost: float = 1.0

    def shown(self) -> str:
        inner = ", ".join(_listed(part) for part in self.near)
        return f"NEAR({inner}, {self.window}){_boost(self.boost)}"

    def parts(self) -> tuple[Node, ...]:
        return self.near


@dataclass(frozen=True)
class Meta(Node):
    """A condition on a document's or passage's metadata: a glob, or a range where `low` or `high`
    is given.
    """

    field: str
    pattern: str = ""
    low: str | None = None
    high: str | None = None
    low_open: bool = False
    high_open: bool = False

    def shown(self) -> str:
        if self.low is None and self.high is None:
            quoted = not self.pattern or any(c in ' ()[]{}"' for c in self.pattern)
            text = '"' + self.pattern.replace('"', '\\"') + '"' if quoted else self.pattern
            return f"{self.field}:{text}"
        left, right = "{" if self.low_open else "[", "}" if self.high_open else "]"
        return f"{self.field}:{left}{self.low or '*'} TO {self.high or '*'}{right}"


@dataclass(frozen=True)
class Every(Node):
    """Everything: ``*``."""

    def shown(self) -> str:
        return "*"


@dataclass(frozen=True)
class Group(Node):
    """What must, may and must not hold.

    One of `should` must hold (if there is any) unless `must` has a clause that is no condition on
    metadata.
    """

    must: tuple[Node, ...] = ()
    should: tuple[Node, ...] = ()
    must_not: tuple[Node, ...] = ()
    boost: float = 1.0

    def shown(self) -> str:
        if not self.should and len(self.must) + len(self.must_not) > 1 and self.must:
            parts = [_inner(part) for part in self.must]
            inner = " AND ".join(parts + ["NOT " + _inner(part) for part in self.must_not])
        elif not self.must and not self.must_not and len(self.should) > 1:
            inner = " OR ".join(_inner(part) for part in self.should)
        else:
            inner = " ".join(
                [
                    *("+" + _signed(part) for part in self.must),
                    *(_inner(part) for part in self.should),
                    *("-" + _signed(part) for part in self.must_not),
                ]
            )
        return f"({inner}){_boost(self.boost)}" if self.boost != 1.0 else inner

    def parts(self) -> tuple[Node, ...]:
        return (*self.must, *self.should, *self.must_not)

    @property
    def needs_one(self) -> bool:
        """Whether one of `should` must hold."""
        return bool(self.should) and all(isinstance(part, Meta) for part in self.must)


@dataclass(frozen=True)
class Within(Node):
    """SECTION(...), DOC(...): the query holds for the section or document as a whole.

    What stands in it holds for a section where it holds for one of its passages; hits are those of
    its passages that hold a part of it which is not negated. A SECTION or DOC inside is one such
    part: it holds for its hits and for no other passage, as it does by itself.
    """

    kind: str
    node: Node

    def shown(self) -> str:
        return f"{self.kind.upper()}({self.node.shown()})"

    def parts(self) -> tuple[Node, ...]:
        return (self.node,)


def leaves(node: Node, negated: bool = False) -> Iterator[tuple[Node, bool]]:
    """Words, phrases, conditions..., each with whether it stands under a negation."""
    if isinstance(node, Group):
        for part in (*node.must, *node.should):
            yield from leaves(part, negated)
        for part in node.must_not:
            yield from leaves(part, not negated)
    elif isinstance(node, Within):
        yield from leaves(node.node, negated)
    else:
        yield node, negated


def shown_parts(
    node: Node, boost: float = 1.0, negated: bool = False
) -> Iterator[tuple[Node, float]]:
    """The parts of which a hit of a scope around `node` holds one, with the boosts of their groups.

    A scope among them stays whole: a word in it counts in the scope's own hits only.
    """
    if isinstance(node, Group):
        boost *= node.boost
        for part in (*node.must, *node.should):
            yield from shown_parts(part, boost, negated)
        for part in node.must_not:
            yield from shown_parts(part, boost, not negated)
    elif not negated:
        yield node, boost


def escaped(text: str) -> str:
    r"""A word so that it parses as one word of this text.

    >>> escaped("std::vector"), escaped("path:x"), escaped("AND")
    ('std::vector', 'path\\:x', '\\AND')
    """
    if (text.isalnum() and text not in ("AND", "OR", "NOT")) or is_plain(text, FIELDS):
        return text
    if text in ("AND", "OR", "NOT"):
        return "\\" + text
    return _all_escaped(text)


def _listed(part: Word | Quoted) -> str:
    """A part before a comma, which would make a field of a word that ends with a colon."""
    if isinstance(part, Word) and part.text.endswith(":"):
        return _field(part.field) + _all_escaped(part.text)
    return part.shown()


def _all_escaped(text: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "\\" + c for c in text)


def _field(name: str) -> str:
    return f"{name}:" if name else ""


def _boost(value: float) -> str:
    return "" if value == 1.0 else f"^{value:g}"


def _inner(node: Node) -> str:
    shown = node.shown()
    single = not isinstance(node, Group) or (node.boost != 1.0 and shown.startswith("("))
    return shown if single else f"({shown})"


def _signed(node: Node) -> str:
    shown = _inner(node)
    return shown if shown[0].isalnum() or shown[0] in '("/' else f"({shown})"
