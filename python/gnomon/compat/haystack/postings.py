"""The BM25 index behind a Haystack store: brought up to date with the store when it is asked."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...bm25 import BM25Index
from ...bm25_formula import Formula


class Postings:
    """The counted words of documents by id, in an inverted index that follows a store's changes.

    Haystack counts the words of a document when it is written, and gives it a new count when it is
    written again: whose count is not the known one has changed.
    """

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        self._seen: tuple[int, int] | None = None
        self._index: BM25Index | None = None
        self._lock = threading.Lock()
        self._scorer: tuple[Any, Formula, Any] | None = None

    def __reduce__(self) -> Any:
        return Postings, ()  # is made again from the store

    def follow(self, counted: Mapping[str, Any], changes: int) -> None:
        """Takes over what was written and deleted since the last time.

        ``changes`` is the number of changes of the store. Haystack changes it before the counts, so
        one between the two is known by the number of counts.
        """
        seen = changes, len(counted)
        if seen == self._seen:
            return
        with self._lock:
            now, known = dict(counted), self._known  # one state, whoever writes meanwhile
            gone = [name for name, count in known.items() if now.get(name) is not count]
            new = {name: count for name, count in now.items() if known.get(name) is not count}
            tokens = [list(count.freq_token.elements()) for count in new.values()]
            if self._index is None or len(gone) == len(known):
                self._index = BM25Index.build(tokens, ids=list(new)) if new else None
            else:
                if gone:
                    self._index.delete(gone)
                if new:
                    self._index.add(tokens, ids=list(new))
            self._known, self._seen = now, seen

    def top(
        self, tokens: Sequence[str], formula: Formula, k: int | None, names: Sequence[str] | None
    ) -> list[tuple[str, float]]:
        """The k best documents (None: all) that hold a token, as id and score; ties as written.

        Only those of ``names`` where given. With the Okapi formula, whose scores may be negative,
        documents without a token count as well, with score 0.
        """
        if self._index is None:
            return []
        state, searcher = self._index._view
        scorer = self._scorer_of(searcher.snapshot, formula)
        query = list(dict.fromkeys(tokens))
        n_docs = searcher.n_docs if names is None else len(names)
        best = n_docs if k is None else min(k, n_docs)
        allowed = None if names is None else self._index._allowed(list(names), state)
        slots, scores = scorer.search(query, best, None, True, allowed, 1, "")
        enough = len(slots) == best and (best == 0 or scores[-1] > 0.0)
        if formula.name == "haystack-okapi" and not enough:
            wanted = state.live_ids() if names is None else names
            places = np.sort(state.find(list(wanted)))
            all_scores = scorer.scores(query, None, True, "")[places]
            order = np.argsort(-all_scores, kind="stable")[:best]
            slots, scores = places[order], all_scores[order]
        return list(zip(state.ids_at(slots), scores.tolist(), strict=True))

    def _scorer_of(self, snapshot: Any, formula: Formula) -> Any:
        kept = self._scorer
        if kept is None or kept[0] is not snapshot or kept[1] != formula:
            kept = (snapshot, formula, formula.scorer(snapshot))
            self._scorer = kept
        return kept[2]
