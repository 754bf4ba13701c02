"""Why a document scores as it does: the explaining half of :class:`gnomon.BM25Index`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from . import _core
from .arrays import as_number
from .bm25_edit import Editing
from .bm25_ids import known_ids
from .bm25_query import Query
from .bm25_query_plan import Planner
from .bm25_searcher import Explanation, Searcher, TermStats, explained
from .bm25_segment import State
from .results import Float64Array, Int64Array


class Explaining(Editing):
    """Explanations, scores of chosen documents, statistics of terms."""

    _planner: Callable[[State], Planner]

    def explain(self, query: Any, id: Any) -> Explanation:
        """What each term of a query adds to a document's score.

        The parts, added up from left to right, and then the constant, are the score bit for bit.
        Terms that are in no document are left out. Of a query object the positive terms are the
        parts, in the order in which it names them; a prefix, a fuzzy term or an AnyOf is one part
        (``"par*"``, ``"word~2"``, ``"a | b"``), and whether the document matches as a whole does
        not matter.

        Raises
        ------
        KeyError
            There is no document of this id.
        TypeError
            An id of another kind than the index's.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.BM25Index.build(["red apple", "green pear"], ids=["a", "b"])
        >>> why = index.explain("green apple", "a")
        >>> why.matched, why.score == float(index.score_of("green apple", ["a"])[0])
        (['apple'], True)
        >>> [(part.token, part.tf, part.df) for part in why.parts]
        [('green', 0.0, 1), ('apple', 1.0, 1)]
        """
        return self.explain_many(query, [id])[0]

    def explain_many(self, query: Any, ids: Iterable[Any]) -> list[Explanation]:
        """:meth:`explain` for several documents; ``.matched`` of each names the terms it holds.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.BM25Index.build(["red apple", "green pear"])
        >>> hits = index.search("green apple pear")
        >>> [why.matched for why in index.explain_many("green apple pear", hits.ids)]
        [['green', 'pear'], ['apple']]
        """
        values = known_ids(ids, self._layout.kind)
        state, searcher = self._view
        slots = _known_slots(state.find(values), values)
        if not isinstance(query, Query):
            return searcher.explain(query, slots, values, searcher.scorer())
        unique, back = np.unique(slots, return_inverse=True)
        node = self._planner(state).plan(query)
        found, named = searcher.scorer().query_parts(node, unique)
        terms = [(_name(one), weight, df, idf) for one, weight, df, idf in named]
        return explained(found, terms, zip(values, back.tolist(), strict=True))

    def score_of(self, query: Any, ids: Iterable[Any]) -> Float64Array:
        """The scores of chosen documents, in their order: what :meth:`scores` has for them.

        Costs look-ups in the postings, not a pass over them. Raises KeyError for an unknown id.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.BM25Index.build(["one two", "two three"], ids=[7, 9])
        >>> index.score_of("one", [9, 7]).tolist()
        [0.0, 0.693147...]
        """
        values = known_ids(ids, self._layout.kind)
        state, searcher = self._view
        slots = _known_slots(state.find(values), values)
        if not isinstance(query, Query):
            return searcher.scores_of(query, slots, searcher.scorer())
        unique, back = np.unique(slots, return_inverse=True)
        node = self._planner(state).plan(query)
        return searcher.scorer().query_parts(node, unique)[0][0][back]

    def _matched(
        self,
        query: Any,
        slots: Int64Array,
        scorer: _core.Bm25Scorer,
        state: State,
        searcher: Searcher,
    ) -> list[list[Any]]:
        """The query's terms that each of these slots, which are all different, holds."""
        order = np.argsort(slots)
        if isinstance(query, Query):
            node = self._planner(state).plan(query)
            found, named = scorer.query_parts(node, slots[order])
            names = [_name(one) for one, _, _, _ in named]
        else:
            tokens, weights = searcher.query(query)
            found, places = scorer.parts(tokens, slots[order], weights)
            names = [tokens[place] for place in places.tolist()]
        holds = np.empty(found[2].shape, dtype=np.bool_)
        holds[order] = found[2] > 0.0
        return [
            list(dict.fromkeys(names[place] for place in np.flatnonzero(row).tolist()))
            for row in holds
        ]

    def term_stats(self, token: Any) -> TermStats:
        """How many documents hold a token (or token id), and its idf by the index's formula.

        Examples
        --------
        >>> import gnomon
        >>> gnomon.BM25Index.build(["one two", "two three"]).term_stats("two").df
        2
        """
        return self._view.searcher.term_stats(token)

    def _weights(self, changed: Mapping[str, float] | None) -> list[float] | None:
        """Weights by field, in the index's order, some of them changed."""
        if changed is None:
            return None
        names = self._layout.fields
        for name in changed:
            if name not in names:
                raise ValueError(
                    f"field_weights names {name!r}; the index's fields are "
                    f"{', '.join(map(repr, names)) or 'none'}"
                )
        own = self._formula.field_weights
        return [
            as_number(changed.get(name, weight), f"field_weights[{name!r}]")
            for name, weight in zip(names, own, strict=True)
        ]


def _name(node: _core.QueryNode) -> Any:
    """How an explanation calls a part of a query object."""
    if node.kind == "any_of":
        return " | ".join(str(_name(child)) for child in node.children)
    if node.id is not None:
        return node.id
    text = node.text.decode("utf-8", "surrogatepass")
    return {"prefix": f"{text}*", "fuzzy": f"{text}~{node.edits}"}.get(node.kind, text)


def _known_slots(slots: Int64Array, ids: list[Any]) -> Int64Array:
    unknown = np.flatnonzero(slots < 0)
    if unknown.size:
        raise KeyError(f"there is no document {ids[int(unknown[0])]!r} in the index")
    return slots
