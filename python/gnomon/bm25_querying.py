"""Query objects and filters on a BM25 index: who matches, how many, and where."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from . import _core
from . import column_words as words_of
from .bm25_highlight import Ranges, character_spans, matched_ranges
from .bm25_ids import checked_ids
from .bm25_query import Match, Or, Query, Term
from .bm25_query_plan import Planner
from .bm25_segment import State
from .bm25_store import Layout
from .columns import ColumnBlock
from .filters import allowed
from .results import Int64Array

if TYPE_CHECKING:
    from .analysis import Analyzer
    from .bm25_versions import View

Words = npt.NDArray[np.uint64]


class PositionMatch(NamedTuple):
    """Where a part of a query stands: token positions of one field, both ends included."""

    field: str | None
    first: int
    last: int


class StateView:
    """A state as filters see it."""

    def __init__(self, state: State, kind: str):
        self._state = state
        self._kind = kind

    def sizes(self) -> list[int]:
        """Documents of each segment, deleted ones included."""
        return [segment.core.n_docs for segment in self._state.segments]

    def live(self, segment: int) -> Words | None:
        """Documents that are not deleted; None for all."""
        given = self._state.segments[segment]
        if given.dead is None:
            return None
        live: Words = ~given.dead & words_of.full(given.core.n_docs)
        return live

    def columns(self, segment: int) -> ColumnBlock | None:
        """The columns of a segment."""
        return self._state.segments[segment].columns

    def slots(self, ids: Sequence[Any]) -> Int64Array:
        """Slots of the live documents with these ids."""
        unique = list(dict.fromkeys(ids))
        values = checked_ids(unique, self._kind, None)
        found = self._state.find(values)
        return found[found >= 0]


class Querying:
    """The half of :class:`gnomon.BM25Index` that takes query objects."""

    _view: View
    _layout: Layout
    _analyzer: Analyzer | None
    text: Callable[[Any], Any]

    def count(self, query: Any, *, filter: Any = None) -> int:
        """How many documents match, exactly.

        `query` is anything that :meth:`search` takes; a text or a list of tokens matches where one
        of the tokens stands. `filter` as for :meth:`search`.

        Examples
        --------
        >>> import gnomon
        >>> from gnomon.bm25_query import And
        >>> index = gnomon.BM25Index.build(["red apple", "green apple", "red pear"])
        >>> index.count("apple"), index.count(And("apple", "red"))
        (2, 1)
        """
        state = self._view.state
        node = self._planner(state).plan(self._as_query(query))
        return _core.query_count(node, state.core, self._allowed(filter, state))

    def matches(self, query: Any, *, filter: Any = None) -> Any:
        """Ids of all documents that match, in order of insertion: int64 array, or list of str.

        Examples
        --------
        >>> import gnomon
        >>> from gnomon.bm25_query import Not
        >>> gnomon.BM25Index.build(["red apple", "pear", "red pear"]).matches(Not("red"))
        array([1])
        """
        state = self._view.state
        node = self._planner(state).plan(self._as_query(query))
        found = _core.query_match(node, state.core, self._allowed(filter, state))
        slots = [
            words_of.members(words, segment.core.n_docs) + base
            for words, segment, base in zip(found, state.segments, state.bases, strict=False)
        ]
        return state.ids_at(np.concatenate([np.zeros(0, dtype=np.int64), *slots]))

    def match_positions(self, query: Any, id: Any) -> list[PositionMatch]:
        """Where the positive parts of a query stand in a document, by token positions.

        A term stands at one position, a phrase without slop from its first to its last token; of a
        sloppy phrase or a near, each token that takes part in an occurrence is named. Whether the
        document matches as a whole does not matter. Needs an index with positions.

        Raises KeyError for an id that is not in the index, ValueError without positions.

        Examples
        --------
        >>> import gnomon
        >>> from gnomon.bm25_query import Phrase
        >>> index = gnomon.BM25Index.build(["a red apple, a red pear"], positions=True)
        >>> index.match_positions(Phrase("a red"), 0)
        [PositionMatch(field=None, first=0, last=1), PositionMatch(field=None, first=3, last=4)]
        """
        state = self._view.state
        slot = int(state.find(checked_ids([id], self._layout.kind, 1))[0])
        if slot < 0:
            raise KeyError(f"id is not in the index: {id!r}")
        node = self._planner(state).plan(self._as_query(query))
        names = self._layout.fields or (None,)
        return [
            PositionMatch(name, first, last)
            for number, name in enumerate(names)
            for first, last in self._ranges(node, state.core, slot, number)
        ]

    def highlight(self, query: Any, text: Any = None, *, id: Any = None) -> Any:
        """Characters of a text in which the positive parts of a query stand.

        The text is analysed anew, so it may be any; with `id` it is the stored one. Works without
        positions in the index.

        Parameters
        ----------
        query
            Anything that :meth:`search` takes.
        text
            A str; with named fields, a mapping from field to str.
        id
            Of a document, instead of a text; needs ``store_text=True``.

        Returns
        -------
        list of (start, end), half open, ascending, overlapping ones as one; or a dict of such lists
        by field. ``text[start:end]`` is what stands there: of a phrase without slop from its first
        to its last token, else single tokens (see :meth:`match_positions`).

        Raises
        ------
        TypeError
            Neither a text nor an id, or both; an index without an analyzer.
        ValueError
            An analyzer without spans: a function of the caller's own.

        Examples
        --------
        >>> import gnomon
        >>> from gnomon.bm25_query import Or, Phrase
        >>> index = gnomon.BM25Index.build(["A red apple, a pear."], positions=True)
        >>> text = "Red apples, a red apple and pears; a pear"
        >>> spans = index.highlight(Or(Phrase("red apple"), "pear"), text)
        >>> [text[start:end] for start, end in spans]
        ['red apple', 'pear']
        """
        if (text is None) == (id is None):
            raise TypeError("pass either a text or id=")
        if self._analyzer is None:
            raise TypeError("this index has no analyzer, so it cannot say where tokens stand")
        if id is not None:
            text = self.text(id)
        fields = self._layout.fields
        if not fields:
            return self._highlighted(query, {None: text})[None]
        if not isinstance(text, Mapping):
            raise TypeError(f"text must map fields to texts: {', '.join(fields)}")
        return self._highlighted(query, {name: text.get(name, "") for name in fields})

    # How it is done

    def _highlighted(
        self, query: Any, texts: Mapping[str | None, str]
    ) -> dict[str | None, list[tuple[int, int]]]:
        """A small index of the one text, asked as the whole one would be."""
        analyzer = cast("Analyzer", self._analyzer)
        spans = {name: analyzer.spans(text) for name, text in texts.items()}
        builder = _core.Bm25Builder(True, len(spans), True)
        builder.add_tokens([[span.token for span in each] for each in spans.values()])
        core = _core.Bm25Snapshot([(builder.finish(), None)])
        node = self._planner(self._view.state).plan(self._as_query(query))
        return {
            name: character_spans(self._ranges(node, core, 0, number), each)
            for number, (name, each) in enumerate(spans.items())
        }

    @staticmethod
    def _ranges(node: _core.QueryNode, core: _core.Bm25Snapshot, slot: int, field: int) -> Ranges:
        return matched_ranges(
            node, field, lambda leaf: _core.query_positions(leaf, core, slot, field)
        )

    def _planner(self, state: State) -> Planner:
        return Planner(
            state.core,
            StateView(state, self._layout.kind),
            self._analyzed,
            self._layout.fields or None,
            state.core.has_vocabulary,
            None if self._analyzer is None else self._analyzer.query_tokens,
        )

    def _analyzed(self, text: str) -> Sequence[Any]:
        if self._analyzer is None:
            raise TypeError(
                "this index has no analyzer, so a text is not a query; pass tokens, for example "
                "Phrase(['red', 'apple']), or build with analyzer="
            )
        return self._analyzer.tokens(text)

    def _as_query(self, query: Any) -> Query:
        """A query object from anything that search() takes."""
        if isinstance(query, Query):
            return query
        if isinstance(query, str):
            return Match(query)
        tokens, weights = self._view.searcher.query(query)
        boosts = weights if weights is not None else [1.0] * len(tokens)
        return Or(*(Term(token, boost=b) for token, b in zip(tokens, boosts, strict=True)))

    def _allowed(self, filter: Any, state: State) -> list[Words] | None:
        """The documents of each segment that a filter lets through; None for all."""
        if filter is None:
            return None
        return allowed(filter, StateView(state, self._layout.kind))

    def _search_query(
        self,
        query: Query,
        k: int,
        scorer: _core.Bm25Scorer,
        state: State,
        allowed: list[Words] | None,
        threads: int = 1,
        level: str = "",
    ) -> tuple[Int64Array, npt.NDArray[np.float64]]:
        """Slots and scores of the best k that match."""
        node = self._planner(state).plan(query)
        return _core.query_search(node, scorer, k, allowed, threads, level)

    def _search_queries(
        self,
        queries: Sequence[Any],
        k: int,
        scorer: _core.Bm25Scorer,
        state: State,
        allowed: list[Words] | None,
        threads: int,
        level: str = "",
    ) -> list[tuple[Int64Array, npt.NDArray[np.float64]]]:
        """The same for many queries; the core works without the GIL."""
        nodes = [self._planner(state).plan(self._as_query(query)) for query in queries]
        workers = min(_core.thread_count(threads), max(len(nodes), 1))

        def answer(node: _core.QueryNode) -> tuple[Int64Array, npt.NDArray[np.float64]]:
            return _core.query_search(node, scorer, k, allowed, 1, level)

        if workers == 1:
            return [answer(node) for node in nodes]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(answer, nodes))


def require_counted(repeats: str) -> None:
    """A query object says itself how often a term counts. Raises ValueError for "once"."""
    if repeats != "count":
        raise ValueError(
            f"repeats={repeats!r} is for plain queries; a query object counts what it names"
        )
