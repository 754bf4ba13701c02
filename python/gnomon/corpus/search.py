"""`hybrid_search` and what is made of it: modes, ranking, the ladder, items with their scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .answers import (
    Answer,
    Confidence,
    Fallback,
    Item,
    NoHit,
    Part,
    Report,
    Score,
    TermCount,
)
from .bounds import offset_of
from .filtering import Restriction, restriction
from .items import Hit, Presenter
from .modes import Choice, choose
from .nohit import explain
from .query_ast import Group, Meta, Node, Regex, leaves
from .query_compile import Compiler, QueryError
from .ranking import FUSED, RRF_K, Ranking, fused
from .relax import steps
from .slots import Marker, Mask
from .spread import MMR_POOL, POOL, collapse_near, diversified, same_as

if TYPE_CHECKING:
    from .engine import Engine

QUERY_MOST = 16_384  # characters
_TERMS_SHOWN = 40
_SAME_MOST = 10  # near duplicates that an item names


class Search:
    """One question to one engine."""

    def __init__(
        self, engine: Engine, args: Mapping[str, Any], inside: Mask | None = None, tool: str = ""
    ) -> None:
        self.engine = engine
        self.slots = engine.slots
        self.args = args
        self.tool = tool
        self.inside = inside
        self.fallbacks: list[Fallback] = []
        self.plan: list[str] = []
        self.notes: list[str] = []
        self.behind: dict[int, list[int]] = {}  # near duplicates of a slot that is shown

    def answer(self) -> Answer:
        """The answer, without times."""
        args, engine = self.args, self.engine
        if len(args["query"]) > QUERY_MOST:
            raise QueryError(
                "query_too_long",
                f"a query has at most {QUERY_MOST:,} characters, got {len(args['query']):,}",
                "ask with the words that matter",
            )
        offset = 0
        if args["cursor"]:
            offset = offset_of(args["cursor"], engine.generation, engine.key(self.tool, args))
        restricted = restriction(self.slots, args["filters"], args.get("scope"), self.inside)
        choice = choose(
            args["query"], args["mode"], args.get("operator", ""), self.slots, engine.has_dense
        )
        self.notes += choice.parsed.notes
        if choice.parsed.literal:
            self.notes.append(f"taken as literal words: {choice.parsed.why}")
        mode = self._possible(choice.mode)
        loose = choice.parsed.kinds <= {"word"} and mode != "exact"
        compiler = Compiler(self.slots, loose)
        node = choice.parsed.node
        query = compiler.query(node)
        ranking, marker, no_hit = Ranking(), None, None
        if query is None and mode != "dense":
            no_hit = NoHit("empty_query", advice="write words, a phrase or a condition")
        else:
            wanted = self._depth(offset + args["k"])
            ranking, marker = self._ranked(mode, node, compiler, restricted, wanted)
            if not ranking.total and mode != "dense":
                no_hit = explain(node, compiler, restricted)
                if args.get("relax", True):
                    ranking, marker = self._relaxed(node, compiler, restricted, wanted, ranking)
            self._spread(ranking, offset + args["k"])
        return self._page(choice, mode, node, compiler, restricted, ranking, marker, no_hit, offset)

    def _possible(self, mode: str) -> str:
        if mode in ("dense", "hybrid") and not self.engine.has_dense:
            self.fallbacks.append(Fallback("sparse", self.engine.no_dense))
            return "sparse"
        return mode

    # Ranking

    def _depth(self, wanted: int) -> int:
        """How deep to rank, so that the same pages are cut of the same list."""
        if self.args.get("collapse"):
            wanted = max(wanted, POOL)
        return wanted if self.args.get("mmr") is None else max(wanted, MMR_POOL)

    def _spread(self, ranking: Ranking, wanted: int) -> None:
        """Near duplicates go behind the first of them, then MMR orders what is left."""
        args = self.args
        if args.get("collapse"):
            before, more = len(ranking.slots), ranking.more
            self.behind = collapse_near(self.engine, ranking)
            self.plan.append(
                f"collapse: {before} passages are {len(ranking.slots)} without near duplicates"
                + ("; those beyond were not looked at" if more else "")
            )
        if args.get("mmr") is not None:
            diversified(self.engine, ranking, args["mmr"])
            self.plan.append(f"MMR ({args['mmr']:g}) of the first {MMR_POOL}: not by score alone")
        if args.get("collapse") or args.get("mmr") is not None:
            ranking.more = ranking.more or len(ranking.slots) > wanted

    def _ranked(
        self, mode: str, node: Node, compiler: Compiler, restricted: Restriction, wanted: int
    ) -> tuple[Ranking, Marker | None]:
        if mode == "dense":
            return self._by_dense(restricted, wanted), None
        tree = self.slots.plan(self._query(node, compiler))
        marker = Marker(self.slots, tree)
        if mode == "hybrid":
            return self._by_both(tree, restricted, wanted), marker
        ranking = self._by_sparse(tree, restricted, wanted)
        if mode == "sparse":
            ranking.exhaustive = True
            self.plan.append(f"sparse: BM25 over what holds any term, {ranking.total} passages")
            if self.args["mode"] == "auto" and self.engine.has_dense:
                self._extend(ranking, tree, restricted, wanted)
        else:
            ranking.exhaustive = True
            self.plan.append(f"exact: all {ranking.total} passages for which the query holds")
        return ranking, marker

    @staticmethod
    def _query(node: Node, compiler: Compiler) -> Any:
        query = compiler.query(node)
        assert query is not None  # its callers have asked
        return query

    def _by_sparse(self, tree: Any, restricted: Restriction, wanted: int) -> Ranking:
        allowed = self.slots.words(restricted.mask)
        slots, scores, total = self.slots.answer(tree, wanted, allowed)
        found, values = slots.tolist(), scores.tolist()
        sparse = dict(zip(found, values, strict=True))
        return Ranking(found, values, sparse, total=total, more=total > len(found))

    def _dense_hits(self, mask: Mask | None, k: int) -> tuple[list[int], list[float]]:
        """Slots and cosines of the passages nearest to the question."""
        dense = self.engine.snapshot.dense
        assert dense is not None
        allowed = None
        if mask is not None:
            allowed = np.asarray(self.slots.cids(np.flatnonzero(mask))).tolist()
        hits = dense.search(self.engine.vector(self.args["query"]), k, filter=allowed)
        return self.slots.state.find(list(map(int, hits.ids))).tolist(), hits.scores.tolist()

    def _by_dense(self, restricted: Restriction, wanted: int) -> Ranking:
        slots, scores = self._dense_hits(restricted.mask, wanted + 1)
        mask = restricted.mask
        total = self.slots.n_live if mask is None else int((mask & self.slots.live).sum())
        self.plan.append(f"dense: cosine to all {total} passages")
        found = dict(zip(slots, scores, strict=True))
        parts: dict[int, tuple[Part, ...]]
        parts = {slot: (Part("cosine", score),) for slot, score in found.items()}
        more = len(slots) > wanted
        return Ranking(slots[:wanted], scores[:wanted], {}, found, parts, {}, total, more)

    def _by_both(self, tree: Any, restricted: Restriction, wanted: int) -> Ranking:
        sparse = self._by_sparse(tree, restricted, FUSED)
        slots, cosines = self._dense_hits(restricted.mask, FUSED)
        weights = self.engine.weights(self.args.get("task", ""))
        self.plan.append(
            f"hybrid: RRF (k={RRF_K:g}) of the first {len(sparse.slots)} by BM25 and the first "
            f"{len(slots)} by cosine; {sparse.total} passages hold a term"
        )
        if self.engine.learned is not None:
            shown = ", ".join(f"{mode} {weights[mode]:.4g}" for mode in ("sparse", "dense"))
            self.notes.append(f"learned weights of {self.args.get('task') or '(all)'}: {shown}")
        return fused(sparse, dict(zip(slots, cosines, strict=True)), wanted, weights)

    def _extend(self, ranking: Ranking, tree: Any, restricted: Restriction, wanted: int) -> None:
        """Where the terms give too little, what the vectors give stands behind, and is marked."""
        if ranking.total >= wanted:
            ranking.more = True
            return
        holds = self.slots.mask(self.slots.members(tree))
        mask = self.slots.live & ~holds
        if restricted.mask is not None:
            mask &= restricted.mask
        slots, scores = self._dense_hits(mask, FUSED)
        room = wanted - len(ranking.slots)
        ranking.more = len(slots) > room
        for slot, score in list(zip(slots, scores, strict=True))[:room]:
            ranking.slots.append(slot)
            ranking.scores.append(score)
            ranking.dense[slot] = score
            ranking.parts[slot] = (Part("cosine", score),)
            ranking.relaxed[slot] = "dense"
        why = f"only {ranking.total} passages hold a term"
        self.fallbacks.append(Fallback("dense", why, "", len(slots)))

    def _relaxed(
        self,
        node: Node,
        compiler: Compiler,
        restricted: Restriction,
        wanted: int,
        nothing: Ranking,
    ) -> tuple[Ranking, Marker | None]:
        for step, why, other in steps(node, compiler):
            if step == "alias" and self.engine.has_dense:
                break  # before it stands the dense step
            query = compiler.query(other)
            if query is None:
                continue
            tree = self.slots.plan(query)
            found = self._by_sparse(tree, restricted, wanted)
            self.fallbacks.append(Fallback(step, why, other.shown()[:500], found.total))
            if found.total:
                return self._as_relaxed(found, step, nothing), Marker(self.slots, tree)
        if self.engine.has_dense:
            found = self._by_dense(restricted, wanted)
            self.fallbacks.append(Fallback("dense", "no term is held", "", found.total))
            if found.slots:
                return self._as_relaxed(found, "dense", nothing), None
        return nothing, None

    def _as_relaxed(self, found: Ranking, step: str, nothing: Ranking) -> Ranking:
        found.relaxed = dict.fromkeys(found.slots, step)
        found.total, found.exhaustive = nothing.total, nothing.exhaustive
        return found

    # The page

    def _page(
        self,
        choice: Choice,
        mode: str,
        node: Node,
        compiler: Compiler,
        restricted: Restriction,
        ranking: Ranking,
        marker: Marker | None,
        no_hit: NoHit | None,
        offset: int,
    ) -> Answer:
        terms = self._terms(node, compiler)
        regexes = any(isinstance(leaf, Regex) for leaf, _ in leaves(node))
        presenter = self.engine.presenter(
            self.args["detail"], marker, compiler.regex_spans if regexes else None
        )
        slots = ranking.slots[offset : offset + self.args["k"]]
        if marker is not None:
            marker.expect([slot for slot in slots if slot in ranking.sparse])
        confidence = self._confidence(mode, ranking, terms, marker)
        if offset and not slots and no_hit is None:
            no_hit = NoHit("exhausted_cursor", advice="there is nothing behind the last page")
        report = Report(
            tool=self.tool,
            generation=self.engine.generation,
            mode=mode,
            query=node.shown()[:1000],
            plan=tuple(self.plan),
            why=choice.why,
            terms=tuple(terms[:_TERMS_SHOWN]),
            fallbacks=tuple(self.fallbacks),
            filters_applied=restricted.shown(),
            total=ranking.total,
            exhaustive=ranking.exhaustive,
            no_hit=no_hit,
            notes=tuple(self.notes),
        )
        hits = self._hits(slots, ranking, confidence, marker)
        return self.engine.page(
            self.tool,
            self.args,
            report,
            self._items(presenter, slots, hits),
            (),
            len(slots),
            offset,
            ranking.more,
            {basis for basis, _ in hits},
        )

    def _items(self, presenter: Presenter, slots: list[int], hits: Any) -> Iterator[Item]:
        for slot, (_, make) in zip(slots, hits, strict=True):
            item = presenter.item(make())
            if slot in self.behind:
                item.also = same_as(self.engine, self.behind[slot][:_SAME_MOST])
            yield item

    def _hits(
        self,
        slots: list[int],
        ranking: Ranking,
        confidence: Callable[[int, float], Confidence],
        marker: Marker | None,
    ) -> list[tuple[str, Callable[[], Hit]]]:
        """For each slot the basis of its confidence, and what makes the hit when it is shown."""
        cids = np.asarray(self.slots.cids(np.array(slots, dtype=np.int64)))
        at = dict(zip(ranking.slots, ranking.scores, strict=True))

        def hit(slot: int, cid: int) -> Hit:
            held = 0.0
            parts = ranking.parts.get(slot)
            if marker is not None and slot in ranking.sparse:
                own, held = marker.parts(slot)
                parts = parts or own
            sparse, dense = ranking.sparse.get(slot), ranking.dense.get(slot)
            score = Score(at[slot], parts or (), sparse, dense)
            chunk = self.engine.snapshot.at([cid])[0]
            return Hit(chunk, score, confidence(slot, held), ranking.relaxed.get(slot, ""))

        return [
            (confidence(slot, 0.0).basis, partial(hit, slot, cid))
            for slot, cid in zip(slots, cids.tolist(), strict=True)
        ]

    def _terms(self, node: Node, compiler: Compiler) -> list[TermCount]:
        """The query's leaves with the passages of this view that hold each."""
        found: dict[str, int] = {}
        for leaf, _ in leaves(node):
            if isinstance(leaf, (Meta, Group)):
                continue
            shown = leaf.shown()[:120]
            is_new = shown not in found and len(found) < _TERMS_SHOWN
            if is_new and compiler.query(leaf) is not None:
                found[shown] = compiler.count(leaf)
        return [TermCount(term, df) for term, df in found.items()]

    def _confidence(
        self, mode: str, ranking: Ranking, terms: list[TermCount], marker: Marker | None
    ) -> Callable[[int, float], Confidence]:
        n = self.slots.n_live
        whole = sum(_idf(n, 0) for term in terms if term.df == 0)
        whole += marker.weight if marker is not None else 0.0

        def of(slot: int, held: float) -> Confidence:
            if mode == "exact" and slot not in ranking.relaxed:
                return Confidence(1.0, "exact")
            if slot in ranking.sparse:
                return Confidence(round(min(held / whole, 1.0), 4) if whole else 0.0, "coverage")
            return Confidence(round(max(ranking.dense.get(slot, 0.0), 0.0), 4), "cosine")

        return of


def _idf(n: int, df: int) -> float:
    return math.log(1 + (n - df + 0.5) / (df + 0.5))
