"""The sparse index by slots: sets of passages as arrays, their sections and documents as numbers.

A slot is a chunk's place in the sparse index. It is the one currency in which the parts of a
query (terms, metadata, regular expressions, entities) meet; it never leaves the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .. import column_words as words_of
from ..analysis import Span
from ..bm25_highlight import character_spans
from ..bm25_inside import inside, part_name
from ..bm25_query import Prefix, Query, Term
from ..bm25_querying import StateView
from ..bm25_searcher import explained
from ..filters import Filter, FilterView
from .answers import Part
from .query_fields import DECLARED
from .query_match import day_of, tags_of
from .snapshot import Snapshot

Int64Array = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

_KEPT = 256  # sets of metadata kept ready
_SPANS_MOST, _WORD_MOST = 20_000, 64  # words whose tokens are kept, and characters of one
_AT_ONCE = 16  # passages whose scores are taken apart together


class SlotSet(Filter):
    """The passages of a bool array over slots, as a filter."""

    __slots__ = ("slots",)

    def __init__(self, slots: Mask) -> None:
        self.slots = slots

    def evaluate(self, view: FilterView) -> list[Words]:
        found, base = [], 0
        for n in view.sizes():
            found.append(words_of.pack(self.slots[base : base + n]))
            base += n
        return found

    def to_json(self) -> dict[str, Any]:
        raise TypeError("a set of slots has no JSON form")


class Slots:
    """One snapshot's sparse index; safe from several threads."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.index = snapshot.sparse
        self.inside = inside(self.index)
        self.state = self.inside.state
        self.n = int(self.state.core.n_slots)
        self.n_live = int(self.state.core.n_docs)
        self._kept: dict[tuple[str, str], Mask] = {}
        self._groups: dict[str, tuple[npt.NDArray[np.int32], int]] = {}
        self._spans: dict[str, Sequence[Span]] = {}
        self._n_groups: dict[str, int] = {}
        self._lock = Lock()

    def spans_of(self, word: str) -> Sequence[Span]:
        """The tokens of a word of a query and where they stand; kept for words of usual length."""
        known = self._spans.get(word)
        if known is None:
            analyzer = self.index.analyzer
            assert analyzer is not None
            known = analyzer.spans(word)
            if len(word) <= _WORD_MOST:
                if len(self._spans) >= _SPANS_MOST:
                    self._spans = {}
                self._spans[word] = known
        return known

    def plan(self, query: Query) -> _core.QueryNode:
        """The core's tree of a query."""
        return self.inside.plan(query)

    def matching(self, query: Query) -> Int64Array:
        """The slots of the passages that match, ascending."""
        return self.members(self.plan(query))

    def members(self, node: _core.QueryNode) -> Int64Array:
        """The same for a tree."""
        found, base = [], 0
        for words, segment in zip(
            _core.query_match(node, self.state.core), self.state.segments, strict=False
        ):
            slots = words_of.members(words, segment.core.n_docs)
            found.append(slots + base if base else slots)
            base += segment.core.n_docs
        if len(found) == 1:
            return found[0]
        return np.concatenate([np.zeros(0, dtype=np.int64), *found])

    def count(self, query: Query) -> int:
        """How many passages match."""
        if isinstance(query, Term) and query.field is None:
            return self.df(str(query.token))
        return _core.query_count(self.plan(query), self.state.core)

    def words(self, mask: Mask | None) -> list[Words] | None:
        """A bool array as the core takes what is allowed; None for everything."""
        return None if mask is None else SlotSet(mask).evaluate(StateView(self.state, "int"))

    def top(
        self, node: _core.QueryNode, k: int, allowed: list[Words] | None
    ) -> tuple[Int64Array, npt.NDArray[np.float64]]:
        """Slots and scores of the best k that match."""
        scorer = self.inside.searcher.scorer()
        return _core.query_search(node, scorer, k, allowed, 1, "")

    def answer(
        self, node: _core.QueryNode, k: int, allowed: list[Words] | None
    ) -> tuple[Int64Array, npt.NDArray[np.float64], int]:
        """The same, and how many match."""
        scorer = self.inside.searcher.scorer()
        return _core.query_answer(node, scorer, k, allowed, 1, "")

    def total(self, node: _core.QueryNode, allowed: list[Words] | None = None) -> int:
        """How many passages match a tree."""
        return _core.query_count(node, self.state.core, allowed)

    def df(self, token: str) -> int:
        """How many passages hold a token; the scorer keeps it with the token's postings."""
        found = self.inside.searcher.scorer().term(token)
        return 0 if found is None else int(found[0])

    def tokens_of(self, query: Query) -> list[str]:
        """The tokens that a prefix or a fuzzy term stands for, of other readers' passages too."""
        return _core.query_tokens(self.plan(query), self.state.core)

    @cached_property
    def qualified(self) -> dict[str, list[str]]:
        """The qualified names (``a::b_c``) of the vocabulary by each compound part of them.

        The analyzer emits the whole and the words, so that ``b_c`` alone is no token of them.
        """
        found: dict[str, list[str]] = {}
        for token in self.tokens_of(Prefix("")):
            if "::" in token:
                for part in {*token.split("::")}:
                    found.setdefault(part, []).append(token)
        return {part: sorted(tokens) for part, tokens in found.items()}

    def mask(self, slots: Int64Array) -> Mask:
        """Slots as a bool array."""
        mask = np.zeros(self.n, dtype=np.bool_)
        mask[slots] = True
        return mask

    @cached_property
    def live(self) -> Mask:
        """The slots of passages that exist."""
        keeps = [
            np.ones(segment.core.n_docs, dtype=np.bool_) if segment.keep is None else segment.keep
            for segment in self.state.segments
        ]
        return np.concatenate([np.zeros(0, dtype=np.bool_), *keeps])

    def cids(self, slots: Int64Array) -> Any:
        """What the snapshot calls the passages at these slots."""
        return self.state.ids_at(slots)

    def of_cids(self, cids: Sequence[int] | Int64Array) -> Int64Array:
        """The slots of passages of this view; those of others are left out."""
        found = self.state.find(list(map(int, cids)))
        return found[found >= 0]

    def of_chunks(self, chunk_ids: Sequence[str]) -> Int64Array:
        """The slots of these passages."""
        return self.of_cids(self.snapshot.cids(chunk_ids))

    # Metadata

    def values(self, column: str) -> list[str]:
        """The distinct values of a column, ascending."""
        found: set[str] = set()
        for segment in self.state.segments:
            block = segment.columns
            if block is not None and column in block.columns:
                found.update(block.columns[column].terms)
        return sorted(found)

    def where(self, column: str, name: str, holds: Callable[[str], bool]) -> Mask:
        """Passages with a value of a column for which `holds`; `name` names the condition."""
        kept = self._kept.get((column, name))
        if kept is not None:
            return kept
        view = StateView(self.state, "int")
        wanted = [value for value in self.values(column) if holds(value)]
        found = _in(column, wanted, view) if wanted else np.zeros(self.n, dtype=np.bool_)
        found &= self.live
        with self._lock:
            while len(self._kept) >= _KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[column, name] = found
        return found

    @cached_property
    def declared(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """For "date" and "tag" what each document says of itself, by the document's id."""
        found: dict[str, dict[str, tuple[str, ...]]] = {"date": {}, "tag": {}}
        for document in self.snapshot.documents():
            meta = document.meta
            days = (day_of(meta[name]) for name in DECLARED["date"] if name in meta)
            day = next(filter(None, days), "")
            if day:
                found["date"][document.id] = (day,)
            tags = [tag for name in DECLARED["tag"] if name in meta for tag in tags_of(meta[name])]
            if tags:
                found["tag"][document.id] = tuple(dict.fromkeys(tags))
        return found

    def groups(self, kind: str) -> tuple[npt.NDArray[np.int32], int]:
        """The number of each slot's section or document ("section", "doc"), and how many."""
        known = self._groups.get(kind)
        if known is None:
            known = self._numbered(kind)
            self._groups[kind] = known
        return known

    def n_groups(self, kind: str) -> int:
        """How many sections or documents have a passage that exists."""
        known = self._n_groups.get(kind)
        if known is None:
            codes, n = self.groups(kind)
            present = np.zeros(n, dtype=np.bool_)
            present[codes[self.live]] = True
            known = self._n_groups[kind] = int(present.sum())
        return known

    def _numbered(self, column: str) -> tuple[npt.NDArray[np.int32], int]:
        if not self.n_live:
            return np.zeros(self.n, dtype=np.int32), 1
        numbers: dict[str, int] = {}
        parts = [np.zeros(0, dtype=np.int32)]
        for segment in self.state.segments:
            block = segment.columns
            if block is None or block.columns[column].codes is None:
                raise ValueError(f"the sparse index has no column {column!r}")
            given = block.columns[column]
            table = np.array(
                [0, *(numbers.setdefault(term, len(numbers)) for term in given.terms)],
                dtype=np.int32,
            )
            parts.append(table[given.codes])  # one value a slot: codes count from 1
        return np.concatenate(parts), len(numbers)


def _in(column: str, values: list[str], view: StateView) -> Mask:
    from ..filters import field

    words = field(column).isin(values).evaluate(view)
    parts = [words_of.unpack(each, n) for each, n in zip(words, view.sizes(), strict=True)]
    return np.concatenate(parts)


class Marker:
    """Where the positive parts of one query stand in texts: characters, ascending."""

    def __init__(self, slots: Slots, node: _core.QueryNode) -> None:
        self._slots = slots
        self._node = node
        fields = slots.inside.layout.fields
        self._n = max(len(fields), 1)
        self._expected: list[int] = []
        self._known: dict[int, tuple[tuple[Part, ...], float]] = {}
        self._weight = 0.0
        # Titles and headings are in no chunk's text as such.
        self._text_fields = [i for i, name in enumerate(fields) if name in ("body", "code")] or [0]

    def expect(self, slots: Sequence[int]) -> None:
        """The passages whose parts will be asked for, in this order: some are found at once,
        because whenever the core is asked, it makes a term of each prefix and fuzzy word.
        """
        self._expected = list(slots)

    @cached_property
    def weight(self) -> float:
        """The idf of all terms that some passage holds, added up."""
        if not self._known:
            self._find(self._expected[:_AT_ONCE])
        return self._weight

    def parts(self, slot: int) -> tuple[tuple[Part, ...], float]:
        """What makes up a passage's score, and the idf of the terms that it holds."""
        if slot not in self._known:
            at = self._expected.index(slot) if slot in self._expected else -1
            self._find([slot] if at < 0 else self._expected[at : at + _AT_ONCE])
        return self._known[slot]

    def _find(self, some: list[int]) -> None:
        slots = sorted({*some})
        scorer = self._slots.inside.searcher.scorer()
        found, named = scorer.query_parts(self._node, np.array(slots, dtype=np.int64))
        self._weight = float(sum(idf for _, _, _, idf in named))
        terms = [(part_name(one), weight, df, idf) for one, weight, df, idf in named]
        rows = ((slot, row) for row, slot in enumerate(slots))
        for slot, one in zip(slots, explained(found, terms, rows), strict=True):
            held = [(part.token, part.score, part.idf) for part in one.parts if part.tf]
            self._known[slot] = (
                tuple(Part(f"bm25:{token}", score) for token, score, _ in held),
                sum(idf for _, _, idf in held),
            )

    def marks(self, text: str, code: bool = True) -> list[tuple[int, int]]:
        """Spans of `text`; overlapping and touching ones are one."""
        analyzer = self._slots.index.analyzer
        assert analyzer is not None
        spans = analyzer.spans(text)
        tokens = [span.token for span in spans]
        fields = self._text_fields if code else self._text_fields[:1]
        builder = _core.Bm25Builder(True, self._n, True)
        builder.add_tokens([tokens if i in fields else [] for i in range(self._n)])
        core = _core.Bm25Snapshot([(builder.finish(), None)])
        found: set[tuple[int, int]] = set()
        for field in fields:
            found.update(self._slots.inside.ranges(self._node, core, 0, field))
        return character_spans(sorted(found), spans)
