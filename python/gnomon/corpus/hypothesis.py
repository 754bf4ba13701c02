"""`verify_hypothesis`: do two claims stand together, and how often would they by chance?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..bm25_query import Near, Or, Phrase, Query, Term
from .answers import Answer, Confidence, Item, NoHit, Report, Score, TermCount
from .bounds import offset_of
from .filtering import restriction
from .items import Hit
from .nohit import _nearest as nearest_of
from .query_ast import Node, Quoted, Word, leaves
from .query_compile import Compiler, QueryError
from .query_parse import parse
from .questions import Call
from .slots import Marker, Mask

if TYPE_CHECKING:
    from .engine import Engine

_WIDER = {"near": "chunk", "chunk": "section", "section": "doc"}
CLAIM_MOST = 4096  # characters


@dataclass(frozen=True)
class _Claim:
    text: str
    node: Node
    query: Query


@dataclass(frozen=True)
class _Together:
    """Groups (sections...) that hold a, b, both; `passages` are slots of both, best group first."""

    scope: str
    a: int
    b: int
    both: int
    groups: int
    passages: list[int]
    scores: dict[int, float]
    marker: Marker


def verify_hypothesis(engine: Engine, call: Call) -> Answer:
    """For each group that holds both claims the passage that shows most of each.

    `report.total` counts groups; `counts` has those of `a`, `b`, `both`, all `groups`, and how many
    were `expected` to hold both if the claims had nothing to do with each other.
    """
    args = call.args
    offset = offset_of(args["cursor"], engine.generation, engine.key(call.tool, args))
    restricted = restriction(engine.slots, args["filters"], None)
    check = _Check(engine, restricted.mask, args)
    found = check.together(args["scope"])
    no_hit, relaxed, shown = None, "", found
    if not found.both:
        no_hit = check.nothing(found)
        shown, relaxed = check.nearest_miss(found)
    passages = shown.passages[offset : offset + args["k"]]
    if offset and not passages and no_hit is None:
        no_hit = NoHit("exhausted_cursor", advice="there is nothing behind the last page")
    expected = found.a * found.b / found.groups if found.groups else 0.0
    report = Report(
        tool=call.tool,
        generation=engine.generation,
        mode="exact",
        query=f"{check.a.node.shown()} | {check.b.node.shown()}"[:1000],
        plan=(f"both claims in one {args['scope']}",),
        terms=tuple(TermCount(text, df) for text, df in check.terms().items())[:20],
        filters_applied=restricted.shown(),
        total=found.both,
        exhaustive=True,
        no_hit=no_hit,
        counts={
            "a": found.a,
            "b": found.b,
            "both": found.both,
            "groups": found.groups,
            "expected": round(expected, 3),
        },
        notes=tuple(check.notes),
    )
    items = check.items(passages, shown, relaxed, args["detail"])
    more = offset + len(passages) < len(shown.passages)
    bases = ["coverage" if relaxed else "exact"] if passages else []
    return engine.page(call.tool, args, report, items, (), len(passages), offset, more, bases)


class _Check:
    """Two claims against one engine."""

    def __init__(self, engine: Engine, mask: Mask | None, args: Any) -> None:
        self.engine = engine
        self.slots = engine.slots
        self.compiler = Compiler(engine.slots)
        self.restricted = mask is not None
        self.mask = engine.slots.live if mask is None else mask & engine.slots.live
        self.notes: list[str] = []
        self.a = self._claim(args["a"], "a")
        self.b = self._claim(args["b"], "b")

    def _claim(self, text: str, name: str) -> _Claim:
        if len(text) > CLAIM_MOST:
            raise QueryError(
                "query_too_long",
                f"{name} has at most {CLAIM_MOST:,} characters, got {len(text):,}",
                "shorten the claim to the words that must stand together",
            )
        parsed = parse(text, "and")
        if parsed.literal:
            self.notes.append(f"{name} was taken as literal words: {parsed.why}")
        self.compiler.require_bounded(parsed.node)  # each claim: a compiler checks its first query
        query = self.compiler.query(parsed.node)
        if query is None:
            raise QueryError("empty_query", f"{name} has no word to look for", "write words")
        return _Claim(text, parsed.node, query)

    def together(self, scope: str) -> _Together:
        """Who holds both, and the passages to show."""
        kind = scope.partition(":")[0]
        if kind == "near":
            return self._near(int(scope.partition(":")[2]))
        codes, n = self._groups(kind)
        holds_a = self._holding(self.a, kind, codes, n)
        holds_b = self._holding(self.b, kind, codes, n)
        both = holds_a & holds_b
        inside = both.take(codes)
        if self.restricted or self.slots.n_live < self.slots.n:
            inside &= self.mask
        passages, scores, marker = self._passages(inside, codes)
        return _Together(
            scope,
            int(holds_a.sum()),
            int(holds_b.sum()),
            int(both.sum()),
            self._present(kind, codes, n),
            passages,
            scores,
            marker,
        )

    def _present(self, kind: str, codes: Any, n: int) -> int:
        """How many groups have a passage that is looked at."""
        if kind != "chunk" and not self.restricted:
            return self.slots.n_groups(kind)
        present = np.zeros(n, dtype=np.bool_)
        present[codes[self.mask]] = True
        return int(present.sum())

    def _groups(self, kind: str) -> tuple[Any, int]:
        if kind == "chunk":
            return np.arange(self.slots.n), self.slots.n
        return self.slots.groups(kind)

    def _holding(self, claim: _Claim, kind: str, codes: Any, n: int) -> Mask:
        """Groups for which a claim holds; its words may stand in different passages of one."""
        if kind == "chunk":
            return self.compiler.holds(claim.node) & self.mask
        return self.compiler.of_groups(claim.node, codes, n, self.mask)

    def _near(self, window: int) -> _Together:
        parts = [self._side(claim) for claim in (self.a, self.b)]
        near = Near(parts, window)
        found = self.slots.mask(self.slots.matching(near)) & self.mask
        codes = np.arange(self.slots.n)
        passages, scores, marker = self._passages(found, codes, near)
        a, b = (
            int((self.slots.mask(self.slots.matching(part)) & self.mask).sum()) for part in parts
        )
        scope = f"near:{window}"
        groups = int(self.mask.sum())
        return _Together(scope, a, b, int(found.sum()), groups, passages, scores, marker)

    def _side(self, claim: _Claim) -> Any:
        """A claim as a word or phrase, which is what can be near another."""
        plain = all(isinstance(leaf, Word) and not no for leaf, no in leaves(claim.node))
        text = claim.node.text if isinstance(claim.node, Quoted) else claim.text
        if not plain and not isinstance(claim.node, Quoted):
            raise QueryError("bad_claim", "near:N takes words or a phrase", "use another scope")
        tokens = self.compiler.tokens(text)
        return Term(tokens[0]) if len(tokens) == 1 else Phrase(self.compiler.analyzer.tokens(text))

    def _passages(
        self, inside: Mask, codes: Any, query: Query | None = None
    ) -> tuple[list[int], dict[int, float], Marker]:
        """Of each group the best passage for a and the best for b; groups by their best score."""
        tree = self.slots.plan(query or Or(*self._positive()))
        marker = Marker(self.slots, tree)
        words = self.slots.words(inside)
        slots, values = self.slots.top(tree, self.slots.n, words)
        groups = codes[slots]
        places = _best_of_groups(groups, [self._shows(claim)[slots] for claim in (self.a, self.b)])
        passages = slots[places].tolist()
        return passages, dict(zip(passages, values[places].tolist(), strict=True)), marker

    def _positive(self) -> list[Query]:
        return [
            query
            for claim in (self.a, self.b)
            for leaf, negated in leaves(claim.node)
            if not negated and (query := self.compiler.query(leaf)) is not None
        ]

    def _shows(self, claim: _Claim) -> Mask:
        """Passages that hold a positive part of a claim."""
        mask = np.zeros(self.slots.n, dtype=np.bool_)
        said = dict.fromkeys(leaf for leaf, negated in leaves(claim.node) if not negated)
        for leaf in said:
            mask |= self.compiler.holds(leaf)
        return mask

    # When they never do

    def nothing(self, found: _Together) -> NoHit:
        missing = [claim for claim, count in ((self.a, found.a), (self.b, found.b)) if not count]
        if not missing:
            return NoHit(
                "never_together",
                (self.a.text[:200], self.b.text[:200]),
                advice="each stands alone; a wider scope may hold both",
            )
        nearest = nearest_of([claim.node for claim in missing], self.compiler)
        return NoHit(
            "unknown_term",
            tuple(claim.text[:200] for claim in missing),
            nearest=tuple(nearest),
            advice="no group holds it: try a nearest term or other words",
        )

    def nearest_miss(self, found: _Together) -> tuple[_Together, str]:
        """The next wider scope that holds both, else the claims by themselves."""
        kind = found.scope.partition(":")[0]
        while kind in _WIDER:
            kind = _WIDER[kind]
            wider = self.together(kind)
            if wider.both:
                return wider, f"scope:{kind}"
        tree = self.slots.plan(Or(*self._positive()))
        slots, values = self.slots.top(tree, 20, self.slots.words(self.mask))
        scores = dict(zip(slots.tolist(), values.tolist(), strict=True))
        marker = Marker(self.slots, tree)
        alone = _Together("alone", 0, 0, 0, 0, slots.tolist(), scores, marker)
        return alone, "alone"

    # What is shown

    def terms(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for claim in (self.a, self.b):
            for leaf, _ in leaves(claim.node):
                if self.compiler.query(leaf) is not None:
                    found[leaf.shown()[:120]] = self.compiler.count(leaf)
        return found

    def items(
        self, passages: list[int], found: _Together, relaxed: str, detail: str
    ) -> Iterator[Item]:
        spans = self.compiler.regex_spans
        presenter = self.engine.presenter(detail, found.marker, spans)
        cids = np.asarray(self.slots.cids(np.array(passages, dtype=np.int64)))
        found.marker.expect(passages)
        for slot, chunk in zip(passages, self.engine.snapshot.at(cids), strict=True):
            parts, held = found.marker.parts(slot)
            score = Score(found.scores[slot], parts, found.scores[slot])
            whole = found.marker.weight
            share = round(min(held / whole, 1.0), 4) if whole else 0.0
            confidence = Confidence(share, "coverage") if relaxed else Confidence(1.0, "exact")
            yield presenter.item(Hit(chunk, score, confidence, relaxed))


def _best_of_groups(groups: Any, shows: list[Any]) -> Any:
    """Places in a ranking: of each group the first that shows each claim, groups by their first
    place. `groups` and each of `shows` have one value for each place.

    >>> one, two = np.array([1, 0, 1, 0, 0]), np.array([0, 1, 1, 1, 0])
    >>> _best_of_groups(np.array([7, 5, 5, 7, 7]), [one == 1, two == 1]).tolist()
    [0, 3, 1, 2]
    """
    _, first, number = np.unique(groups, return_index=True, return_inverse=True)
    found = []
    for claim in shows:
        places = np.flatnonzero(claim)
        _, best = np.unique(number[places], return_index=True)
        found.append(places[best])
    every = np.unique(np.concatenate(found))
    ordered = every[np.lexsort((every, first[number[every]]))]
    return ordered
