"""The query language by trying everything: which passages a tree holds for, from token lists."""

from __future__ import annotations

import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import gnomon
import numpy as np
import numpy.typing as npt
from corpora import Documents
from gnomon.corpus.query_ast import (
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
from gnomon.reference.bm25_query import distance
from memory_snapshot import field_texts

Mask = npt.NDArray[np.bool_]  # of passages
Numbers = npt.NDArray[np.int64]
ANALYZER = gnomon.Analyzer()
FIELDS_ALL = ("title", "heading", "body", "code")
FIELDS = {"title": ["title"], "heading": ["heading"], "text": ["body", "code"], "code": ["code"]}


class Oracle:
    """Passages in order, with the tokens of their fields."""

    def __init__(self, documents: Documents) -> None:
        self.chunks = [(done, chunk) for done, _, _ in documents for chunk in done.chunks]
        self.texts = [field_texts(done, chunk) for done, chunk in self.chunks]
        self.tokens = [
            {name: ANALYZER.tokens(text) for name, text in texts.items()} for texts in self.texts
        ]
        self.held = [
            {name: set(tokens) for name, tokens in fields.items()} for fields in self.tokens
        ]
        self.places: dict[str, set[int]] = {}
        for place, fields in enumerate(self.held):
            for held in fields.values():
                for token in held:
                    self.places.setdefault(token, set()).add(place)

    def matching(self, node: Node) -> set[str]:
        """Ids of the passages for which a query holds."""
        self._found: dict[Node, Mask] = {}
        return {self.chunks[place][1].id for place in np.flatnonzero(self.holds(node))}

    def holds(self, node: Node) -> Mask:
        """For each passage whether the query holds for it."""
        if node not in self._found:  # a scope asks twice: for itself and for its passages
            if isinstance(node, Group):
                found = self._group(node, [self.holds(part) for part in node.parts()])
            else:
                found = self._within(node) if isinstance(node, Within) else self._leaf(node)
            self._found[node] = found
        return self._found[node]

    @staticmethod
    def _group(node: Group, parts: Sequence[Mask]) -> Mask:
        n_must, n_should = len(node.must), len(node.should)
        needs_one = bool(node.should) and all(isinstance(part, Meta) for part in node.must)
        rows = np.array(parts, dtype=np.bool_)
        found: Mask = rows[:n_must].all(axis=0) & ~rows[n_must + n_should :].any(axis=0)
        if needs_one:
            found &= rows[n_must : n_must + n_should].any(axis=0)
        return found

    @functools.cached_property
    def numbers(self) -> dict[str, Numbers]:
        """For each passage the number of its section, and of its document."""
        found = {}
        for kind, name in (("section", "section_id"), ("doc", "doc_id")):
            known: dict[str, int] = {}
            held = [known.setdefault(getattr(c, name), len(known)) for _, c in self.chunks]
            found[kind] = np.array(held, dtype=np.int64)
        return found

    def _within(self, node: Within) -> Mask:
        groups = self.numbers[node.kind]

        def whole(part: Node) -> Mask:
            if isinstance(part, Group):
                return self._group(part, [whole(each) for each in part.parts()])
            held = np.zeros(int(groups.max(initial=-1)) + 1, dtype=np.bool_)
            held[groups[self.holds(part)]] = True
            return held

        held = whole(node.node)
        positive = [self.holds(leaf) for leaf in _positive(node.node)]
        shown = np.array(positive).any(axis=0) if positive else np.bool_(True)
        found: Mask = held[groups] & shown
        return found

    def _leaf(self, node: Node) -> Mask:
        n = len(self.chunks)
        if isinstance(node, Every):
            return np.ones(n, dtype=np.bool_)
        if isinstance(node, Meta):
            return np.array([_meta(node, done, chunk) for done, chunk in self.chunks])
        if isinstance(node, Regex):
            wanted = re.compile(node.pattern, re.IGNORECASE if node.ignore_case else 0)
            return np.array(
                [
                    any(wanted.search(line) for line in chunk.text.split("\n"))
                    for _, chunk in self.chunks
                ]
            )
        name = node.near[0].field if isinstance(node, Close) else getattr(node, "field", "")
        fields = FIELDS[name] if name else list(FIELDS_ALL)
        holds = np.zeros(n, dtype=np.bool_)
        if isinstance(node, (Start, Similar)):
            words = self._alike(node)
            for place in set().union(*(self.places[word] for word in words)):
                held = self.held[place]
                holds[place] = any(not words.isdisjoint(held[field]) for field in fields)
            return holds
        for place in self._candidates(node):
            tokens, held = self.tokens[place], self.held[place]
            holds[place] = any(self._in_field(node, tokens[field], held[field]) for field in fields)
        return holds

    def _alike(self, node: Start | Similar) -> set[str]:
        """The tokens that begin so, or are spelt so."""
        text = node.text.lower()
        if isinstance(node, Start):
            return {token for token in self.places if token.startswith(text)}
        # An edit changes the counts of two letters by one at most; only what is within that is
        # measured, because the measure is slow.
        names, letters = self._letters
        own = np.abs(letters - _letter_counts([text])).sum(axis=1)
        close = (names[i] for i in np.flatnonzero(own <= 2 * node.edits))
        return {token for token in close if distance(text, token, True) <= node.edits}

    @functools.cached_property
    def _letters(self) -> tuple[list[str], npt.NDArray[np.int16]]:
        names = list(self.places)
        return names, _letter_counts(names)

    def _candidates(self, node: Node) -> Iterable[int]:
        """Passages that hold every token that the node needs, in whatever field."""
        if isinstance(node, Word) and "_" in node.text:
            return range(len(self.chunks))  # it may stand in a qualified name
        texts = [part.text for part in node.near] if isinstance(node, Close) else [node.text]
        needed = {token for text in texts for token in _side_by_side(text)}
        lists = [self.places.get(token, set()) for token in needed]
        return set.intersection(*lists) if lists else ()

    @staticmethod
    def _in_field(node: Node, tokens: list[str], held: set[str]) -> bool:
        if isinstance(node, Word):
            wanted = _side_by_side(node.text)
            if len(wanted) == 1:
                if len(_tokens(node.text)) == 1:
                    return wanted[0] in held
                return any(t == wanted[0] or wanted[0] in t.split("::") for t in held)
            return _phrase(_tokens(node.text), 0, tokens, held)
        if isinstance(node, Quoted):
            return _phrase(_tokens(node.text), node.slop, tokens, held)
        assert isinstance(node, Close)
        parts = []
        for part in node.near:
            one = _side_by_side(part.text) if isinstance(part, Word) else ()
            parts.append(list(one) if len(one) == 1 else _tokens(part.text))
        return _near(parts, node.window, tokens, held)


def _positive(node: Node) -> list[Node]:
    if isinstance(node, Group):
        below = [leaf for part in (*node.must, *node.should) for leaf in _positive(part)]
        for part in node.must_not:
            below += _negative(part)
        return below
    return [node]


def _negative(node: Node) -> list[Node]:
    """What stands under two negations."""
    if isinstance(node, Group):
        found = [leaf for part in (*node.must, *node.should) for leaf in _negative(part)]
        for part in node.must_not:
            found += _positive(part)
        return found
    return []


def _letter_counts(words: Sequence[str]) -> npt.NDArray[np.int16]:
    """How often each letter stands in a word; letters are told apart by their last six bits."""
    counts = np.zeros((len(words), 64), dtype=np.int16)
    for row, word in zip(counts, words, strict=True):
        for letter in word:
            row[ord(letter) & 63] += 1
    return counts


@functools.lru_cache(64)
def _tokens(text: str) -> list[str]:
    return ANALYZER.tokens(text)


@functools.lru_cache(64)
def _side_by_side(text: str) -> list[str]:
    """The tokens of a word that do not lie inside another one."""
    spans = ANALYZER.spans(text)
    return [
        token
        for i, (token, start, end) in enumerate(spans)
        if not any(other.start <= start and end <= other.end for other in spans[:i])
    ]


def _phrase(wanted: list[str], slop: int, tokens: list[str], held: set[str]) -> bool:
    if not set(wanted) <= held:
        return False
    places = [[i for i, token in enumerate(tokens) if token == each] for each in wanted]
    if slop == 0:
        later = [set(each) for each in places]
        return any(all(at + i in later[i] for i in range(len(wanted))) for at in places[0])
    shifted = [[place - i for place in each] for i, each in enumerate(places)]
    return _within(shifted, [0] * len(wanted), slop, list(range(len(wanted))))


def _near(parts: list[list[str]], window: int, tokens: list[str], held: set[str]) -> bool:
    if not all(set(part) <= held for part in parts):
        return False
    starts = [
        [i for i in range(len(tokens)) if tokens[i : i + len(part)] == part] for part in parts
    ]
    return _within(starts, [len(part) - 1 for part in parts], window, [0] * len(parts))


def _within(places: list[list[int]], behind: list[int], window: int, offsets: list[int]) -> bool:
    """Whether one place of each list can be chosen such that none is chosen twice and the last end
    (a place and what stands behind it) less the first place is at most `window`.

    Places are told apart with their `offsets` added. Every choice is tried, but for those that
    begin outside the window already: their number is the product of the lists' lengths.
    """

    def chosen(taken: tuple[int, ...], low: int, high: int) -> bool:
        i = len(taken)
        if i == len(places):
            return True
        first, last = bisect_left(places[i], high - window), bisect_right(places[i], low + window)
        for place in places[i][first:last]:
            lower, higher = min(low, place), max(high, place + behind[i])
            own = place + offsets[i]
            if (
                higher - lower <= window
                and own not in taken
                and chosen((*taken, own), lower, higher)
            ):
                return True
        return False

    return any(
        chosen((place + offsets[0],), place, place + behind[0])
        for place in places[0]
        if behind[0] <= window
    )


def _meta(node: Meta, done: object, chunk: object) -> bool:
    document = done.document  # type: ignore[attr-defined]
    value = {
        "path": document.path,
        "type": document.type,
        "version": document.version,
        "source": document.source,
        "language": document.language,
        "doc": document.id,
        "kind": chunk.kind,  # type: ignore[attr-defined]
    }[node.field]
    if not value:
        return False
    if node.low is not None or node.high is not None:
        own = _numbers(value)
        return (node.low is None or _numbers(node.low) <= own) and (
            node.high is None or own <= _numbers(node.high)
        )
    pattern, value = node.pattern.lower(), value.lower()
    if "*" in pattern or "?" in pattern:
        text = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
        return re.fullmatch(text, value) is not None
    if node.field == "path":
        parts, wanted = value.split("/"), pattern.strip("/").split("/")
        n = len(wanted)
        return any(parts[i : i + n] == wanted for i in range(len(parts)))
    return pattern == value


def _numbers(text: str) -> list[int]:
    return [int(piece) for piece in text.split(".")]
