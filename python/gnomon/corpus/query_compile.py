"""From the tree of a query to a query object of the sparse index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..analysis import Span
from ..bm25_query import (
    All,
    And,
    AnyOf,
    Boolean,
    Fuzzy,
    Near,
    Or,
    Phrase,
    Prefix,
    Query,
    Term,
    Where,
)
from .grep import Matcher
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
    leaves,
    shown_parts,
)
from .query_fields import DECLARED, ERROR_TYPES, INDEX_FIELDS
from .query_match import dated, glob, in_range
from .regex_spans import RegexSpans
from .slots import Int64Array, Mask, Slots, SlotSet

_FUZZY_MOST = 255
_NEAR_MOST = 64  # tokens that the core places near each other
_PARTS_MOST = 32
_TOKENS_MOST = 4096  # of a word or a phrase
EXPANDING_MOST = 32
_BITS_OF_SLOT = 64  # fewer slots than that of all passages are kept as they are
METAS_MOST = 64
REGEXES_MOST = 6
_LOOKS_MOST, _LOOKS_LEAST = 32, 10_000  # times the passages of a corpus, which count as so many


class QueryError(ValueError):
    """A part of a query that means nothing here; `code` is the problem's."""

    def __init__(self, code: str, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.remedy = remedy


class Compiler:
    """Compiles queries for one snapshot.

    A word is its token; an identifier the whole of it, without its parts, alone or in a qualified
    name; a word that the analyzer
    cuts in several (``root'@'localhost``) is a phrase of them, or with `loose` each by itself.
    """

    def __init__(self, slots: Slots, loose: bool = False) -> None:
        self.slots = slots
        self.loose = loose
        analyzer = slots.index.analyzer
        if analyzer is None:
            raise ValueError("the sparse index has no analyzer")
        self.analyzer = analyzer
        self.regex_spans = RegexSpans(slots.snapshot)
        self._made: dict[Node, Query | None] = {}
        self._blind = 0  # regular expressions that have to be looked for everywhere
        self._held: dict[Node, Any] = {}  # slots, or bits
        self._looks: dict[Node, int] = {}

    def query(self, node: Node) -> Query | None:
        """The query object; None for what has no token at all, which is left out of groups.

        Raises QueryError for a regular expression that is none.
        """
        if node not in self._made:
            if not self._made:
                self.require_bounded(node)
            self._made[node] = _COMPILERS[type(node)](self, node)
        return self._made[node]

    def matching(self, node: Node) -> Int64Array:
        """The slots of the passages for which a query holds, in order; none for what has no token.

        Found once. Many are kept as bits: a query of many clauses keeps n / 8 bytes of each.
        """
        known = self._held.get(node)
        if known is None:
            query = self.query(node)
            found = () if query is None else self.slots.matching(query)
            slots = np.asarray(found, dtype=np.int64)
            few = slots.size < self.slots.n // _BITS_OF_SLOT
            self._held[node] = slots if few else np.packbits(self.slots.mask(slots))
            return slots
        if known.dtype == np.uint8:
            return np.flatnonzero(np.unpackbits(known, count=self.slots.n))
        kept: Int64Array = known
        return kept

    def holds(self, node: Node) -> Mask:
        """As `matching`, one bool a slot."""
        return self.slots.mask(self.matching(node))

    def count(self, node: Node) -> int:
        """How many passages that is."""
        query = self.query(node)
        if isinstance(query, Term):
            return self.slots.count(query)
        return 0 if query is None else self.matching(node).size

    def tokens(self, text: str) -> list[str]:
        """The tokens of a word that stand side by side: of an identifier, only the whole."""
        return _side_by_side(self.analyzer.spans(text))

    def parts_of(self, text: str) -> list[str]:
        """The parts of an identifier; empty for what has none."""
        spans = self.analyzer.spans(text)
        if not 2 <= len(spans) <= _PARTS_MOST or len(_side_by_side(spans)) != 1:
            return []
        return [token for token, _, _ in spans[1:]]

    def _word(self, node: Word) -> Query | None:
        field = _field(node.field)
        spans = self.slots.spans_of(node.text)
        tokens = _side_by_side(spans)
        if not tokens:
            return None
        _few(spans, node)
        if len(tokens) == 1:
            inside = self._qualified(tokens[0], node.text) if len(spans) > 1 else []
            if inside:
                return AnyOf(tokens[0], *inside, field=field, boost=node.boost)
            return Term(tokens[0], field, node.boost)
        if self.loose:
            return Or(*(Term(token, field) for token in tokens), boost=node.boost)
        self._look(node, [tokens])
        return Phrase(self.analyzer.tokens(node.text), field=field, boost=node.boost)

    def _qualified(self, token: str, text: str) -> list[str]:
        """The qualified names that an identifier of several parts is a part of."""
        if not self.parts_of(text):
            return []
        return [name for name in self.slots.qualified.get(token, ()) if self.slots.df(name)]

    def _quoted(self, node: Quoted) -> Query | None:
        tokens = self.analyzer.tokens(node.text)
        if not tokens:
            return None
        _few(tokens, node)
        field = _field(node.field)
        if len(tokens) == 1:
            return Term(tokens[0], field, node.boost)
        self._look(node, [tokens])
        if node.slop and len(tokens) > _NEAR_MOST:
            message = f"a phrase with slop has at most {_NEAR_MOST} tokens, got {len(tokens):,}"
            raise QueryError("bad_query", message, "search for a part of it, or without slop")
        return Phrase(tokens, node.slop, field=field, boost=node.boost)

    def _lowered(self, text: str) -> str:
        return self.analyzer.views(text)[1]

    def _look(self, node: Node, parts: list[list[str]]) -> None:
        """Keeps the work of phrases bounded: each looks into the passages of its rarest token."""
        dfs = (self.slots.df(token) for token in {token for part in parts for token in part})
        self._looks[node] = min(dfs, default=0)
        looks, most = sum(self._looks.values()), _LOOKS_MOST * max(self.slots.n_live, _LOOKS_LEAST)
        if looks > most:
            raise QueryError(
                "too_much_work",
                f"the phrases and NEARs of a query look into at most {most:,} passages in all "
                f"({_LOOKS_MOST} times the corpus), got {looks:,} with {node.shown()[:80]!r}",
                "ask with fewer of them, or with rarer words",
            )

    @staticmethod
    def require_bounded(node: Node) -> None:
        """Raises QueryError for too many patterns: each goes through the dictionary or the text."""
        patterns = {leaf for leaf, _ in leaves(node) if isinstance(leaf, (Start, Similar))}
        metas = {leaf for leaf, _ in leaves(node) if isinstance(leaf, Meta)}
        regexes = {leaf for leaf, _ in leaves(node) if isinstance(leaf, Regex)}
        for what, found, most in (
            ("prefixes and fuzzy words", patterns, EXPANDING_MOST),
            ("conditions on metadata", metas, METAS_MOST),
            ("regular expressions and words with a * in them", regexes, REGEXES_MOST),
        ):
            if len(found) > most:
                raise QueryError(
                    "too_many_patterns",
                    f"a query has at most {most} different {what}, got {len(found):,}",
                    "ask with whole words, or in several queries",
                )

    def _start(self, node: Start) -> Query:
        return Prefix(self._lowered(node.text), _field(node.field), node.boost)

    def _similar(self, node: Similar) -> Query:
        text = self._lowered(node.text)
        if len(text) > _FUZZY_MOST:
            message = f"a fuzzy word has at most {_FUZZY_MOST} characters, got {len(text):,}"
            raise QueryError("bad_query", message, "search for a part of it, or a prefix*")
        return Fuzzy(text, node.edits, field=_field(node.field), boost=node.boost)

    def _regex(self, node: Regex) -> Query:
        try:
            matcher = Matcher(node.pattern, ignore_case=node.ignore_case)
        except ValueError as error:
            raise QueryError("bad_regex", str(error), "escape it, or search the words") from None
        except ImportError as error:
            raise QueryError("no_regex", str(error), "search the words") from None
        self._blind += matcher.blind
        if self._blind > 1:
            raise QueryError(
                "too_many_patterns",
                "a query has at most one regular expression that holds no three characters which "
                f"must stand side by side; another is {node.shown()[:80]!r}",
                "add literal text to it, or search the words",
            )
        self.regex_spans.add(matcher)
        cids = self.slots.snapshot.matching(matcher)
        return Where(SlotSet(self.slots.mask(self.slots.of_cids(cids))))

    def _close(self, node: Close) -> Query | None:
        parts: list[Any] = []
        for part in node.near:
            text = part.text
            tokens = self.tokens(text)
            if len(tokens) == 1 and isinstance(part, Word):
                parts.append(Term(tokens[0]))
            elif tokens:
                parts.append(Phrase(self.analyzer.tokens(text)))
        if len(parts) < 2:
            return None
        self._look(node, [self.tokens(part.text) for part in node.near])
        if len(parts) > _NEAR_MOST:
            message = f"NEAR takes at most {_NEAR_MOST} words or phrases, got {len(parts):,}"
            raise QueryError("bad_query", message, "name fewer")
        return Near(parts, node.window, field=_field(_one_field(node)), boost=node.boost)

    def _meta(self, node: Meta) -> Query:
        return Where(SlotSet(self.meta(node)))

    def meta(self, node: Meta) -> Mask:
        """The passages for which a condition on metadata holds."""
        ranged = node.low is not None or node.high is not None
        if node.field in ("entity", "error"):
            if ranged:
                raise QueryError("bad_filter", f"{node.field} takes no range", "give a name")
            types = ERROR_TYPES if node.field == "error" else None
            return self._named(node.pattern, types)
        if node.field in DECLARED:
            return self._declared(node)
        holds: Callable[[str], bool]
        if ranged or (node.field in ("version",) and not node.pattern):
            holds = in_range(node.low, node.high, node.low_open, node.high_open)
        else:
            holds = glob(node.pattern, node.field)
        if not self.slots.n_live:
            return np.zeros(self.slots.n, dtype=np.bool_)
        return self.slots.where(node.field, node.shown(), holds)

    def _declared(self, node: Meta) -> Mask:
        """The passages of documents that say so of themselves: dates and tags."""
        holds: Callable[[str], bool]
        if node.field == "date":
            try:
                holds = dated(node.pattern, node.low, node.high, node.low_open, node.high_open)
            except ValueError as error:
                raise QueryError("bad_filter", str(error), "a range is [2023 TO 2024-06]") from None
        elif node.low is not None or node.high is not None:
            raise QueryError("bad_filter", f"{node.field} takes no range", "give a name")
        else:
            holds = glob(node.pattern, node.field)
        said = self.slots.declared[node.field]
        documents = {doc for doc, values in said.items() if any(map(holds, values))}
        return self.slots.where("doc", f"{node.field} {node.shown()}", documents.__contains__)

    def _named(self, name: str, types: Any) -> Mask:
        graph = self.slots.snapshot.graph
        known = graph.entity(name)
        nodes = [known] if known is not None else graph.find_entities(name, types=types)
        low = name.casefold()
        ids: dict[str, None] = {}
        for node in nodes:
            exact = low in (node.key, node.key.partition(":")[2])
            if exact or low in (each.casefold() for each in node.names):
                ids.update((evidence.chunk_id, None) for evidence in graph.mentions(node.key))
        return self.slots.mask(self.slots.of_chunks(list(ids)))

    def _every(self, node: Every) -> Query:
        return All()

    def _group(self, node: Group) -> Query | None:
        must, should, must_not = map(self._parts, (node.must, node.should, node.must_not))
        if not must and not should and not must_not:
            return None
        least = 1 if should and node.needs_one else 0
        return Boolean(must, should, must_not, minimum_should_match=least, boost=node.boost)

    def _parts(self, nodes: Sequence[Node]) -> list[Query]:
        """The queries of a list, those that score nothing once."""
        found = []
        seen: set[int] = set()
        for node in nodes:
            query = self.query(node)
            if query is None or id(query) in seen:
                continue
            if isinstance(query, Where):
                seen.add(id(query))
            found.append(query)
        return found

    def _within(self, node: Within) -> Query | None:
        if self.query(node.node) is None:
            return None
        codes, n = self.slots.groups(node.kind)
        holds = self.of_groups(node.node, codes, n, self.slots.live)
        inside = holds.take(codes)
        if self.slots.n_live < self.slots.n:
            inside &= self.slots.live
        positive = [
            each if boost == 1.0 else Or(each, boost=boost)
            for part, boost in shown_parts(node.node)
            if (each := self.query(part)) is not None
        ]
        where = Where(SlotSet(inside))
        if not positive:
            return where
        return And(where, Or(*positive))

    def of_groups(self, node: Node, codes: Any, n: int, inside: Mask) -> Mask:
        """For each section or document whether the query holds for its passages `inside` together.

        `codes` are the numbers of the slots' groups, below `n`.
        """
        if isinstance(node, Group):
            every, some, none = (
                [
                    self.of_groups(part, codes, n, inside)
                    for part in dict.fromkeys(parts)  # what is said twice holds where it holds
                    if self.query(part)
                ]
                for parts in (node.must, node.should, node.must_not)
            )
            if some and node.needs_one:
                every.append(np.logical_or.reduce(some))
            found = np.zeros(n, dtype=np.bool_)
            if every:
                np.logical_and.reduce(every, out=found)
            else:  # nothing must hold: every group that there is
                found[codes[inside]] = True
            for mask in none:
                found &= ~mask
            return found
        found = np.zeros(n, dtype=np.bool_)
        slots = self.matching(node)
        found[codes.take(slots[inside.take(slots)])] = True
        return found


def _few(tokens: Sequence[Any], node: Node) -> None:
    if len(tokens) > _TOKENS_MOST:
        raise QueryError(
            "query_too_long",
            f"a word or a phrase has at most {_TOKENS_MOST:,} tokens once it is cut into them, "
            f"got {len(tokens):,} of {node.shown()[:40]!r}",
            "search for a part of it",
        )


def _side_by_side(spans: Sequence[Span]) -> list[str]:
    """The tokens that stand side by side: of an identifier the whole, which comes first."""
    found, end = [], -1
    for token, _, stop in spans:
        if stop > end:
            found.append(token)
            end = stop
    return found


def _field(name: str) -> Any:
    if not name:
        return None
    fields = INDEX_FIELDS[name]
    return fields[0] if len(fields) == 1 else list(fields)


def _one_field(node: Close) -> str:
    return next((part.field for part in node.near if part.field), "")


_COMPILERS: dict[type, Callable[[Compiler, Any], Query | None]] = {
    Word: Compiler._word,
    Quoted: Compiler._quoted,
    Start: Compiler._start,
    Similar: Compiler._similar,
    Regex: Compiler._regex,
    Close: Compiler._close,
    Meta: Compiler._meta,
    Every: Compiler._every,
    Group: Compiler._group,
    Within: Compiler._within,
}
