"""Why a query found nothing: each clause alone, the query without it, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .answers import ClauseCount, Nearest, NoHit
from .filtering import Restriction
from .query_ast import Group, Meta, Node, Quoted, Regex, Similar, Start, Word, leaves
from .query_compile import Compiler
from .relax import near_terms, spellings
from .slots import Mask

_SUGGESTIONS = 5
_CLAUSES_MOST = 12
_TRIED_MOST = 10  # unknown words for which something is looked for
_LEAST = 3  # characters of a word that others can be spelt like


@dataclass(frozen=True)
class _Clause:
    text: str
    mask: Mask
    node: Node | None = None  # None: a filter


def explain(node: Node, compiler: Compiler, restriction: Restriction) -> NoHit:
    """The report for a query that no passage answers as written."""
    slots = compiler.slots
    if not slots.n_live:
        return NoHit("empty_corpus", advice="there is nothing here that you may read")
    clauses = _clauses(node, compiler, restriction)
    if not clauses:
        return NoHit("empty_query", advice="write words, a phrase or a condition")
    fails = _fails(clauses)
    counts = []
    for clause in clauses[:_CLAUSES_MOST]:
        others = int((fails == ~clause.mask).sum()) if len(clauses) > 1 else slots.n_live
        counts.append(ClauseCount(clause.text, int(clause.mask.sum()), others))
    alone = [clause for clause in clauses if not clause.mask.any()]
    guilty = alone or _conflict(clauses)
    nearest = _nearest([clause.node for clause in guilty if clause.node is not None], compiler)
    reason = _reason(alone, guilty, compiler)
    return NoHit(
        reason,
        tuple(clause.text for clause in guilty),
        tuple(counts),
        tuple(nearest),
        _ADVICE[reason],
    )


def _clauses(node: Node, compiler: Compiler, restriction: Restriction) -> list[_Clause]:
    """What must hold together: the parts of an AND, or the query as a whole; and each filter."""
    slots = compiler.slots
    found = []
    if isinstance(node, Group) and (node.must or node.must_not):
        rest = Group(should=node.should) if node.should and node.needs_one else None
        parts = [(part, False) for part in node.must] + ([(rest, False)] if rest else [])
        parts += [(part, True) for part in node.must_not]
    elif isinstance(node, Group) and not restriction.clauses:
        parts = [(part, False) for part in node.should]
    else:
        parts = [(node, False)]
    for part, negated in parts:
        query = compiler.query(part)
        if query is None:
            continue
        mask = compiler.holds(part)
        shown = f"NOT {part.shown()}" if negated else part.shown()
        found.append(_Clause(shown, slots.live & ~mask if negated else mask, part))
    found += [_Clause(text, mask & slots.live) for text, mask in restriction.clauses]
    return found


def _conflict(clauses: Sequence[_Clause]) -> list[_Clause]:
    """As few clauses as exclude each other: what can be left out of them without a hit is."""
    by_text = {clause.text: clause for clause in clauses}
    for text, clause in by_text.items():
        if f"NOT {text}" in by_text:
            return [clause, by_text[f"NOT {text}"]]
    core, fails = list(clauses), _fails(clauses)
    for clause in clauses:
        others = fails - ~clause.mask
        if len(core) > 1 and others.all():
            core, fails = [other for other in core if other is not clause], others
    return core


def _fails(clauses: Sequence[_Clause]) -> npt.NDArray[np.int32]:
    """For each passage how many clauses do not hold: with it, the work for n clauses is that of n
    masks, and not of n times n.
    """
    fails = np.zeros(len(clauses[0].mask), dtype=np.int32)
    for clause in clauses:
        fails += ~clause.mask
    return fails


def _reason(alone: Sequence[_Clause], guilty: Sequence[_Clause], compiler: Compiler) -> str:
    nodes = [clause.node for clause in guilty]
    if not alone:
        return "conflict"
    if any(node is not None and next(_unknown(node, compiler), None) for node in nodes):
        return "unknown_term"
    if all(node is None or isinstance(node, Meta) for node in nodes):
        return "filter"
    return "no_phrase" if any(isinstance(node, Quoted) for node in nodes) else "no_match"


_ADVICE = {
    "conflict": "each guilty clause has passages, together they have none: drop one of them",
    "unknown_term": "no passage holds the term: try a nearest one, or other words",
    "filter": "no passage passes the filter: drop it, or list what values there are",
    "no_phrase": "the words do not stand side by side: join them by AND or NEAR",
    "no_match": "the pattern matches nothing: try a shorter one",
}


def _unknown(node: Node, compiler: Compiler) -> Iterator[Word]:
    """The words below a node that no passage holds."""
    known: set[str] = set()
    for leaf, negated in leaves(node):
        if negated or isinstance(leaf, (Meta, Regex, Start, Similar)):
            continue
        text = leaf.text if isinstance(leaf, (Word, Quoted)) else ""
        words = [part.text for part in leaf.parts() if isinstance(part, (Word, Quoted))] or [text]
        for each in words:
            for token in compiler.tokens(each):
                if token not in known and not compiler.slots.df(token):
                    yield Word(token)
                known.add(token)


def _nearest(nodes: Sequence[Node], compiler: Compiler) -> list[Nearest]:
    """For each unknown word what the corpus has that is spelt like it."""
    found: dict[str, Nearest] = {}
    tried: set[str] = set()
    for node in nodes:
        for word in _unknown(node, compiler):
            if len(tried) >= _TRIED_MOST or len(found) >= _SUGGESTIONS:
                break
            if word.text not in tried:
                tried.add(word.text)
                instead = suggestions(word.text, compiler)
                if instead:
                    found[word.text] = Nearest(word.text, tuple(instead))
    return list(found.values())


def suggestions(word: str, compiler: Compiler) -> list[str]:
    """At most five terms or names: other spellings, terms some edits away, entities."""
    if len(word) < _LEAST:
        return []
    slots = compiler.slots
    found: dict[str, None] = {}
    for spelling in spellings(word):
        if slots.df(spelling):
            found[spelling] = None
    for term in near_terms(word, compiler, _SUGGESTIONS):
        found[term] = None
    if not found:  # names of entities are terms, too, but for those of several words
        for node in slots.snapshot.graph.similar(word, limit=_SUGGESTIONS):
            if node.name.casefold() not in found:
                found[node.name] = None
    return list(found)[:_SUGGESTIONS]
