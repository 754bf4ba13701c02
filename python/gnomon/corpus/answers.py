"""What a corpus answers with: items, the report beside them, and their JSON.

Every call gives an :class:`Answer`. ``to_json`` writes the same bytes for the same call on the same
generation; what tells the time (`retrieved_at`, `budget.ms`) comes from the corpus's clock and is
left out with ``times=False``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from .model import Span

#: What `Confidence.basis` means; every answer says which of them its items use.
CONFIDENCE = {
    "exact": "1.0: the whole query, as written, holds for this passage",
    "coverage": "the share of the query's terms, weighted by idf, that this passage holds",
    "cosine": "the cosine of the passage and the query, 0.0 where it is negative",
    "edge": "the role of the evidence: 1.0 defines, 0.8 example, 0.6 mentions",
    "identity": "1.0: this is what was asked for by name",
}


class Part(msgspec.Struct, frozen=True):
    """One summand of a score: ``bm25:TERM``, ``rrf:sparse``, ``rrf:dense``, ``cosine``."""

    name: str
    value: float


class Score(msgspec.Struct, frozen=True, omit_defaults=True):
    """`parts`, added from left to right in float64, are `value`, bit for bit.

    `sparse` and `dense` are the scores of the two indexes, where they were asked.
    """

    value: float
    parts: tuple[Part, ...] = ()
    sparse: float | None = None
    dense: float | None = None


class Confidence(msgspec.Struct, frozen=True):
    """A number from 0 to 1 and what it is (a key of `CONFIDENCE`)."""

    value: float
    basis: str


class Named(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entity that a passage names; `id` is what `navigate` takes."""

    id: str
    role: str = "mentions"


class Related(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node that is one step away: an entity, ``section:ID``, ``doc:ID``, a chunk or an address.

    `outward` says that the relation goes from this passage (or its entity) to the node.
    """

    relation: str
    to: str
    outward: bool = True


class Edge(msgspec.Struct, frozen=True, omit_defaults=True):
    """The step that `navigate` took to this item."""

    source: str
    relation: str
    target: str
    depth: int = 1
    origin: str = ""


class Same(msgspec.Struct, frozen=True):
    """Another passage that has the very text of an item."""

    chunk_id: str
    source: str
    path: str
    span: Span


class Item(msgspec.Struct, omit_defaults=True):
    """A passage, with all that says where it stands and why it is here.

    `span`, `matches` and `lines` count in the raw bytes of `revision`: half-open bytes, lines from
    1, both ends included. `excerpt` is rendered text, and `marks` are the characters of it that
    match. `relaxed` names the step of the fallback ladder that brought the item; empty for what
    answers the query as written. `new` is off for a passage that the session was shown before; its
    excerpt is then empty if it would be the same.
    """

    chunk_id: str
    source: str
    path: str
    span: Span
    doc_id: str = ""
    revision: str = ""
    title: str = ""
    heading: tuple[str, ...] = ()
    section_id: str = ""
    kind: str = ""
    type: str = ""
    version: str = ""
    url: str = ""
    lines: Span | None = None
    matches: tuple[Span, ...] = ()
    excerpt: str = ""
    marks: tuple[Span, ...] = ()
    cut: bool = False
    score: Score | None = None
    confidence: Confidence | None = None
    entities: tuple[Named, ...] = ()
    related: tuple[Related, ...] = ()
    edge: Edge | None = None
    also: tuple[Same, ...] = ()
    acl_scope: str = ""
    trust: str = "corpus"
    relaxed: str = ""
    new: bool = False
    retrieved_at: str = ""

    def highlighted(self, before: str = "**", after: str = "**") -> str:
        """The excerpt with the marks set.

        >>> Item("c", "docs", "a.md", (0, 9), excerpt="red apple", marks=((4, 9),)).highlighted()
        'red **apple**'
        """
        parts, at = [], 0
        for start, end in self.marks:
            parts += [self.excerpt[at:start], before, self.excerpt[start:end], after]
            at = end
        return "".join([*parts, self.excerpt[at:]])

    def evidence(self) -> dict[str, Any]:
        """The item as the evidence contract of `gnomon.agent` wants it (`EVIDENCE_SCHEMA`)."""
        return {
            "source_id": f"{self.source}/{self.path}#{self.chunk_id}"[-1000:],
            "revision": self.revision or "unknown",
            "title": " > ".join((self.title, *self.heading))[:1000],
            "excerpt": self.excerpt[:20_000],
            "retrieved_at": self.retrieved_at,
            "acl_scope": self.acl_scope[:1000] or "none",
            "validated": False,
        }


class TermCount(msgspec.Struct, frozen=True):
    """How many of the passages that the caller may see hold a term."""

    term: str
    df: int


class Fallback(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that was taken because the one before found too little; `query` is what it asked.

    `step` is one of `gnomon.corpus.relax.STEPS`; "dense", what the vectors give, or "sparse", where
    there are none; of the tools "search", where the graph has nothing, and "by-document", where a
    question seems to be in other words than the corpus and the nearest documents stand first.
    """

    step: str
    why: str
    query: str = ""
    found: int = 0


class ClauseCount(msgspec.Struct, frozen=True):
    """A clause of a query that found nothing: its hits alone, and the query's hits without it."""

    clause: str
    alone: int
    without: int


class Nearest(msgspec.Struct, frozen=True):
    """Terms of the corpus that are spelled like one that it does not hold."""

    term: str
    instead: tuple[str, ...]


class NoHit(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why there is no item that answers the query as written.

    `reason` is ``unknown_term``, ``filter``, ``conflict`` (every clause alone has hits, together
    none), ``scope``, ``empty_query``, ``unknown_entity``, ``empty_corpus`` or ``exhausted_cursor``;
    `guilty` are the clauses without which there would be hits.
    """

    reason: str
    guilty: tuple[str, ...] = ()
    clauses: tuple[ClauseCount, ...] = ()
    nearest: tuple[Nearest, ...] = ()
    advice: str = ""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was wrong with a call, as data: `code` is stable, `remedy` says what to do instead."""

    code: str
    message: str
    remedy: str = ""


class BudgetUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the answer took and what is left; tokens are bytes of JSON divided by 4, rounded up.

    The `left` fields are those of the session, None where it sets no limit.
    """

    tokens: int = 0
    of: int = 0
    ms: float = 0.0
    calls_left: int | None = None
    tokens_left: int | None = None
    ms_left: float | None = None
    stop: str = ""


class Novelty(msgspec.Struct, frozen=True, omit_defaults=True):
    """What of an answer the session had not seen; `share` is new items over all."""

    new_chunks: int = 0
    new_entities: int = 0
    share: float = 0.0
    repeats: int = 0


class Report(msgspec.Struct, omit_defaults=True):
    """What an agent must know of an answer besides its items.

    `total` is exact: how many passages (matches for `grep`, nodes for `navigate`) there are, not
    how many are shown; `exhaustive` says that the list, paged to its end by `cursor`, holds all of
    them. `plan` is what was done, in order, and `why` what the mode was chosen by. `repeat_of` is
    the number of the session's call that this one repeats.
    """

    tool: str
    generation: int
    mode: str = ""
    query: str = ""
    plan: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    terms: tuple[TermCount, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    filters_applied: tuple[str, ...] = ()
    total: int = 0
    returned: int = 0
    exhaustive: bool = False
    cursor: str = ""
    no_hit: NoHit | None = None
    problem: Problem | None = None
    confidence: tuple[str, ...] = ()
    counts: dict[str, float] = {}
    notes: tuple[str, ...] = ()
    trimmed: tuple[str, ...] = ()
    budget: BudgetUse = BudgetUse()
    repeat_of: int | None = None
    novelty: Novelty | None = None
    session: str = ""
    call: int | None = None


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of `outline` or `list`: a section, a document, or an entity."""

    id: str
    title: str
    level: int = 0
    path: str = ""
    span: Span | None = None
    kind: str = ""
    source: str = ""
    count: int = 0


class Answer(msgspec.Struct, omit_defaults=True):
    """Items and the report; `lines` for outlines and lists."""

    report: Report
    items: list[Item] = []
    lines: list[Line] = []

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def to_json(self, *, times: bool = True) -> bytes:
        """The answer as JSON in UTF-8, without what tells the time when `times` is off."""
        return msgspec.json.encode(self if times else timeless(self))

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON data."""
        data: dict[str, Any] = msgspec.json.decode(self.to_json())
        return data


def timeless(answer: Answer) -> Answer:
    """A copy without times."""
    from msgspec.structs import replace

    report = replace(answer.report, budget=replace(answer.report.budget, ms=0.0, ms_left=None))
    items = [replace(item, retrieved_at="") for item in answer.items]
    return Answer(report, items, answer.lines)
