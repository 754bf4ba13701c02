"""What-if questions as queries for evidence: what does the corpus say of "if A, then B"?

The corpus is not asked to foretell; it is asked where A and B stand together, whether that is more
than chance, and which of its relations lead from one to the other. Without B the question is what
comes with A: the names that its passages have more often than other passages do.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from .answers import Answer, Edge, Item
from .questions import Questions

Verdict = Literal["related", "together", "by_chance", "apart", "unknown"]
SCOPES = ("chunk", "section", "doc")
CHANCE = 2.0  # together at least twice as often as chance has it
# Relations that say that one thing bears on another, not only that they stand near each other.
BEARING = frozenset(
    {"causes", "fixed-by", "see-also", "alias-of", "parameter-of", "throws", "calls", "extends"}
)
_ASKED = (
    re.compile(r"^\s*what (?:happens |will happen |would happen )?if (?P<a>.+?)\s*\??\s*$", re.I),
    re.compile(r"^\s*if (?P<a>.+?),? then (?P<b>.+?)\s*[?.]?\s*$", re.I),
    re.compile(r"^\s*(?:does|do|would|could|can|will) (?P<a>.+?) "
               r"(?:cause|causes|lead to|trigger|produce|prevent|fix|resolve|affect)s? "
               r"(?P<b>.+?)\s*\??\s*$", re.I),
)  # fmt: skip


class Consequence(msgspec.Struct, frozen=True):
    """A name that comes with the condition: in `together` of the `passages` looked at."""

    entity: str
    together: int
    passages: int
    evidence: str


class WhatIf(msgspec.Struct, frozen=True):
    """What the corpus says; every claim has its passages.

    `verdict`: "related" (a relation of the graph joins them), "together" (in one passage, section
    or document at least twice as often as chance), "by_chance" (together, but no more than that),
    "apart" (both occur, never together), "unknown" (one of them does not occur). `scope` is the
    narrowest in which they stand together, `lift` how often they do over how often chance would.
    """

    condition: str
    consequence: str
    verdict: Verdict
    scope: str = ""
    counts: dict[str, float] = {}
    lift: float | None = None
    evidence: tuple[Item, ...] = ()
    relations: tuple[Edge, ...] = ()
    consequences: tuple[Consequence, ...] = ()
    why: str = ""


def read_what_if(question: str) -> tuple[str, str]:
    """The condition and the consequence ("" for none) of a question.

    >>> read_what_if("If wait_timeout is too low, then the link fails?")
    ('wait_timeout is too low', 'the link fails')
    >>> read_what_if("What if max_connections is reached?")
    ('max_connections is reached', '')

    Raises ValueError for another form.
    """
    for form in _ASKED:
        found = form.match(question)
        if found:
            return found["a"].strip(), (found.groupdict().get("b") or "").strip()
    raise ValueError(
        f"no what-if question: {question[:200]!r}; ask 'what if A?', 'if A then B?' or "
        "'does A cause B?', or give condition and consequence"
    )


def what_if(
    asked: Questions[Answer],
    condition: str,
    consequence: str = "",
    *,
    filters: Any = None,
    k: int = 5,
) -> WhatIf:
    """What the corpus says of a condition and its consequence, or of what comes with it.

    Parameters
    ----------
    asked : Corpus or Session
    condition, consequence : str
        Words, names or quoted phrases, as `verify_hypothesis` takes them; without a consequence
        the names that come with the condition are listed, most telling first.
    filters : mapping, optional
    k : int
        How many passages and consequences at most.
    """
    if not condition.strip():
        raise ValueError("condition must say what is supposed, got an empty text")
    if not consequence.strip():
        return _comes_with(asked, condition, filters, k)
    relations = _joined(asked, condition, consequence, filters)
    for scope in SCOPES:
        answer = asked.verify_hypothesis(condition, consequence, scope, filters=filters, k=k)
        together = [item for item in answer.items if not item.relaxed]
        counts = dict(answer.report.counts)
        if together or scope == SCOPES[-1]:
            break
    return _judged(condition, consequence, answer, together, counts, scope, relations)


def _judged(
    condition: str,
    consequence: str,
    answer: Answer,
    together: list[Item],
    counts: dict[str, float],
    scope: str,
    relations: tuple[Edge, ...],
) -> WhatIf:
    both, chance = counts.get("both", float(len(together))), counts.get("expected", 0.0)
    lift = both / chance if together and chance > 0 else None
    verdict: Verdict
    if not counts.get("a", 1.0) or not counts.get("b", 1.0):
        absent = condition if not counts.get("a", 1.0) else consequence
        verdict, why = "unknown", f"nothing in the corpus says {absent!r}"
    elif relations:
        verdict, why = "related", "the graph joins them: " + relations[0].relation
    elif not together:
        verdict, why = "apart", "both occur, but in no document together"
    elif lift is not None and lift < CHANCE:
        verdict, why = "by_chance", f"together {lift:.2f} times as often as chance has it"
    else:
        verdict, why = "together", f"they stand together in a {scope}"
    return WhatIf(
        condition,
        consequence,
        verdict,
        scope if together else "",
        counts,
        lift,
        tuple(together or answer.items),
        relations,
        why=why,
    )


def _joined(asked: Questions[Answer], a: str, b: str, filters: Any) -> tuple[Edge, ...]:
    """The bearing relations between the two, where both are names of the graph."""
    found = asked.navigate(a, filters=filters, k=100, detail="ids", max_tokens=20_000)
    wanted = _folded(b)
    return tuple(
        dict.fromkeys(
            item.edge
            for item in found.items
            if item.edge is not None
            and not item.relaxed
            and item.edge.relation in BEARING
            and wanted in (_folded(item.edge.source), _folded(item.edge.target))
        )
    )


def _folded(name: str) -> str:
    bare = name.partition(":")[2] or name
    return re.sub(r"[\W_]+", "", bare).casefold()


def _comes_with(asked: Questions[Answer], condition: str, filters: Any, k: int) -> WhatIf:
    """The names in the passages of the condition, by how many of the passages have them."""
    answer = asked.hybrid_search(
        condition, "auto", filters, 50, operator="and", max_tokens=50_000, detail="full"
    )
    items = [item for item in answer.items if not item.relaxed]
    if not items:
        why = f"nothing in the corpus says {condition!r}"
        return WhatIf(condition, "", "unknown", why=why, evidence=tuple(answer.items[:k]))
    said = _folded(condition)
    places: dict[str, list[str]] = {}
    for item in items:
        for name in dict.fromkeys(named.id for named in item.entities):
            if _folded(name) not in said:
                places.setdefault(name, []).append(item.chunk_id)
    best = sorted(places, key=lambda name: (-len(places[name]), name))[:k]
    return WhatIf(
        condition,
        "",
        "together",
        "chunk",
        {"a": float(answer.report.total)},
        evidence=tuple(items[:k]),
        consequences=tuple(
            Consequence(name, len(places[name]), len(items), places[name][0]) for name in best
        ),
        why=f"names in the {len(items)} passages that were looked at, of {answer.report.total}",
    )
