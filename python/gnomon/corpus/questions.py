"""The questions that a corpus, and a session on it, take: one signature for all of them.

Each method makes a :class:`Call`, whose JSON is the key of the cache, the row of the session and
what a replay runs again. What a caller got wrong in the *content* of a question (a query that does
not parse, an id that is not there, a stale cursor) comes back as data, in the report; a wrong type
or an unknown mode raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from . import arguments as check
from .arguments import DIRECTIONS, K_MOST, MODES, SCOPES

_R = TypeVar("_R")  # an Answer, or what gives one when it is awaited


class Call(msgspec.Struct, frozen=True):
    """A question with its normalised arguments; defaults are written out."""

    tool: str
    args: dict[str, Any]

    def key(self) -> bytes:
        """The call as JSON with sorted keys: equal calls have equal keys."""
        return msgspec.json.encode([self.tool, self.args], order="sorted")


class Questions(Generic[_R]):
    """The methods that `Corpus` and `Session` share; their async twins give coroutines.

    Everywhere: `filters` maps fields of a document or passage (path, source, type, lang, version,
    title, heading, kind, entity, error...) to a value, a list of values, or a
    condition such as ``{"$gte": "8.0.13"}``; texts may hold ``*`` and ``?``. `scope` narrows to
    passages: ``"doc:ID"``, ``"section:ID"``, ``"path:GLOB"``, ``"workspace:NAME"`` (of a session),
    or a list of chunk ids. `k` bounds the items, `max_tokens` (at least 256) the whole answer with
    its report; `report.cursor` continues. `detail` says how much each item carries: "ids" (where it
    is), "low" (with an excerpt), "text" (with the whole text, up to 1,600 characters), "full".

    A query has at most 16,384 characters, and 4,096 have a claim, a pattern of `grep`, a name in
    `navigate`, and a value in `filters`. Beyond, `report.problem` says so, and nothing is asked.
    """

    def _ask(self, call: Call) -> _R:
        raise NotImplementedError  # Corpus and Session say how

    def hybrid_search(
        self,
        query: str,
        mode: str = "auto",
        filters: Mapping[str, Any] | None = None,
        k: int = 10,
        scope: str | Sequence[str] | None = None,
        cursor: str = "",
        *,
        operator: str = "",
        relax: bool = True,
        collapse: str = "",
        mmr: float | None = None,
        task: str = "",
        detail: str = "full",
        max_tokens: int = 1500,
    ) -> _R:
        """Passages for a query, best first.

        "exact" gives every passage for which the query holds (terms are joined by AND), "sparse"
        ranks by BM25 what holds any term, "dense" by the cosine of the vectors, "hybrid" fuses both
        by reciprocal ranks; "auto" chooses, and `report.why` says by what. `operator` ("and", "or")
        changes how terms are joined. Unless `relax` is off, a query without a hit goes down the
        stated ladder (`report.fallbacks`), and what that finds is marked ``item.relaxed``;
        `report.total` counts what answers the query as written, always.

        ``collapse="near"`` shows of passages that are nearly the same only the best
        (`item.also` names others); `mmr`, from 0 (novelty only) to 1 (relevance only), puts the
        first 50 in the order of maximal marginal relevance: see `gnomon.corpus.spread`. `task` is
        the type of task whose learned weights count, if the corpus was opened with such.
        """
        return self._ask(
            Call(
                "hybrid_search",
                {
                    "query": check.text(query, "query"),
                    "mode": check.one_of(mode, "mode", MODES),
                    "filters": check.mapping(filters),
                    "k": check.count(k, "k", 1, K_MOST),
                    "scope": check.scope(scope),
                    "cursor": check.text(cursor or "", "cursor"),
                    "operator": check.one_of(operator, "operator", ("", "and", "or")),
                    "relax": bool(relax),
                    "collapse": check.one_of(collapse, "collapse", ("", "near")),
                    "mmr": check.share(mmr, "mmr"),
                    "task": check.text(task, "task"),
                    **check.bounds(detail, max_tokens),
                },
            )
        )

    def navigate(
        self,
        entity_or_id: str,
        relation: str | None = None,
        *,
        direction: str = "both",
        depth: int = 1,
        types: Sequence[str] = (),
        filters: Mapping[str, Any] | None = None,
        k: int = 10,
        cursor: str = "",
        detail: str = "full",
        max_tokens: int = 1500,
    ) -> _R:
        """What stands next to an entity, a passage, a section or a document.

        An entity (its id, or a name in any spelling) has the relations of the graph, each item
        being the evidence of one edge (`item.edge`). A chunk, ``section:ID`` or ``doc:ID`` also has
        "parent" (the heading above), "prev", "next", "children". `relation` None takes all;
        `types` keeps edges to entities of these types.
        """
        return self._ask(
            Call(
                "navigate",
                {
                    "entity_or_id": check.text(entity_or_id, "entity_or_id"),
                    "relation": None if relation is None else check.text(relation, "relation"),
                    "direction": check.one_of(direction, "direction", DIRECTIONS),
                    "depth": check.count(depth, "depth", 1, 3),
                    "types": [check.text(each, "types") for each in check.listed(types, "types")],
                    "filters": check.mapping(filters),
                    "k": check.count(k, "k", 1, K_MOST),
                    "cursor": check.text(cursor or "", "cursor"),
                    **check.bounds(detail, max_tokens),
                },
            )
        )

    def contextual_refine(
        self,
        previous_result_ids: Sequence[str],
        query: str,
        *,
        within: str = "doc",
        mode: str = "auto",
        filters: Mapping[str, Any] | None = None,
        k: int = 10,
        cursor: str = "",
        detail: str = "full",
        max_tokens: int = 1500,
    ) -> _R:
        """`hybrid_search` inside earlier results: in their documents, sections or chunks only."""
        return self._ask(
            Call(
                "contextual_refine",
                {
                    "previous_result_ids": [
                        check.text(each, "previous_result_ids")
                        for each in check.listed(previous_result_ids, "previous_result_ids")
                    ],
                    "query": check.text(query, "query"),
                    "within": check.one_of(within, "within", SCOPES),
                    "mode": check.one_of(mode, "mode", MODES),
                    "filters": check.mapping(filters),
                    "k": check.count(k, "k", 1, K_MOST),
                    "cursor": check.text(cursor or "", "cursor"),
                    **check.bounds(detail, max_tokens),
                },
            )
        )

    def verify_hypothesis(
        self,
        a: str,
        b: str,
        scope: str = "section",
        *,
        filters: Mapping[str, Any] | None = None,
        k: int = 5,
        cursor: str = "",
        detail: str = "full",
        max_tokens: int = 1500,
    ) -> _R:
        """Passages in which two claims stand together: in a chunk, section or document, or near.

        ``scope="near:N"`` wants them within N tokens of each other. `report.counts` has how many
        groups hold `a`, `b`, both, and how many would by chance; without any, the items are the
        nearest misses, marked as relaxed.
        """
        return self._ask(
            Call(
                "verify_hypothesis",
                {
                    "a": check.text(a, "a"),
                    "b": check.text(b, "b"),
                    "scope": check.hypothesis_scope(scope),
                    "filters": check.mapping(filters),
                    "k": check.count(k, "k", 1, K_MOST),
                    "cursor": check.text(cursor or "", "cursor"),
                    **check.bounds(detail, max_tokens),
                },
            )
        )

    def read(self, target: str, *, around: int = 0, cursor: str = "", max_tokens: int = 2000) -> _R:
        """The text of a chunk, ``section:ID``, ``doc:ID``, path, or ``PATH:START-END`` (raw bytes).

        `around` adds so many chunks before and behind a chunk.
        """
        return self._ask(
            Call(
                "read",
                {
                    "target": check.text(target, "target"),
                    "around": check.count(around, "around", 0, 50),
                    "cursor": check.text(cursor or "", "cursor"),
                    **check.bounds("full", max_tokens),
                },
            )
        )

    def grep(
        self,
        pattern: str,
        literal: bool = False,
        raw: bool = False,
        *,
        ignore_case: bool = False,
        filters: Mapping[str, Any] | None = None,
        scope: str | Sequence[str] | None = None,
        k: int = 20,
        cursor: str = "",
        detail: str = "low",
        max_tokens: int = 1500,
    ) -> _R:
        """Every match of a regular expression (RE2) or a literal, in order of path and place.

        Searches the rendered text, or with `raw` the files' bytes as `grep` does. Complete:
        `report.total` counts all matches, `report.counts` the files.
        """
        return self._ask(
            Call(
                "grep",
                {
                    "pattern": check.text(pattern, "pattern"),
                    "literal": bool(literal),
                    "raw": bool(raw),
                    "ignore_case": bool(ignore_case),
                    "filters": check.mapping(filters),
                    "scope": check.scope(scope),
                    "k": check.count(k, "k", 1, K_MOST),
                    "cursor": check.text(cursor or "", "cursor"),
                    **check.bounds(detail, max_tokens),
                },
            )
        )

    def outline(
        self, target: str, *, depth: int = 6, cursor: str = "", max_tokens: int = 1500
    ) -> _R:
        """The section tree of a document (``doc:ID`` or path) or below a section, in `lines`."""
        return self._ask(
            Call(
                "outline",
                {
                    "target": check.text(target, "target"),
                    "depth": check.count(depth, "depth", 1, 64),
                    "cursor": check.text(cursor or "", "cursor"),
                    **check.bounds("low", max_tokens),
                },
            )
        )

    def stats(self) -> _R:
        """How much there is that the caller may see, in `report.counts`."""
        return self._ask(Call("stats", check.bounds("low", 2000)))

    def list(
        self,
        kind: str = "documents",
        pattern: str = "*",
        *,
        filters: Mapping[str, Any] | None = None,
        k: int = 50,
        cursor: str = "",
        max_tokens: int = 1500,
    ) -> _R:
        """Documents (by path), sources, entities (by name) or relations, in `lines`.

        `pattern` is a glob over path or name.
        """
        return self._ask(
            Call(
                "list",
                {
                    "kind": check.one_of(
                        kind, "kind", ("documents", "sources", "entities", "relations")
                    ),
                    "pattern": check.text(pattern, "pattern"),
                    "filters": check.mapping(filters),
                    "k": check.count(k, "k", 1, K_MOST),
                    "cursor": check.text(cursor or "", "cursor"),
                    **check.bounds("low", max_tokens),
                },
            )
        )


# What a caller may pass
