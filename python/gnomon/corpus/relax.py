"""What is asked instead when a query finds nothing: a ladder of stated steps.

Each step makes another query of the one that was written; the first that finds something ends the
ladder. What a step finds is marked with its name, and each step that was tried is in the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..bm25_query import AnyOf, Fuzzy, Term
from .query_ast import Close, Group, Meta, Node, Quoted, Similar, Start, Within, Word, leaves
from .query_compile import Compiler
from .slots import Slots

STEPS = ("spelling", "identifier parts", "near words", "drop a clause", "any term", "alias")
_NEAR_SLOP = 10
_LOOSE_WORDS = 12  # of a phrase that may be loosened: its tokens are near each other then
_VARIANTS = 5
_PIECES_MOST = 12
_TRIED_MOST = 12  # absent words that others are looked for in place of
_SPELLED_LEAST = 4  # characters; among shorter words everything is near
_SPELLED_MOST = 64


def steps(node: Node, compiler: Compiler) -> Iterator[tuple[str, str, Node]]:
    """(step, why, query) in order; a step that changes nothing is left out."""
    slots = compiler.slots
    absent = {leaf for leaf, negated in leaves(node) if not negated and _absent(leaf, compiler)}
    why = "no passage holds " + ", ".join(sorted(leaf.shown() for leaf in absent))[:200]
    # Of many that no passage holds, the first: each takes a walk through the dictionary.
    tried = list(dict.fromkeys(leaf for leaf, _ in leaves(node) if leaf in absent))[:_TRIED_MOST]
    if len(tried) < len(absent):
        why += f" (others are looked for in place of the first {_TRIED_MOST} of {len(absent)})"
    spelled = _changed(node, lambda leaf: _spelled(leaf, compiler) if leaf in tried else leaf)
    if spelled is not None:
        yield "spelling", why, spelled
    parted = _changed(node, lambda leaf: _parts(leaf, compiler))
    if parted is not None:
        yield "identifier parts", "no passage holds the whole identifier", parted
    near = _changed(node, _loosened)
    if near is not None:
        yield "near words", "no passage holds the phrase as written", near
    dropped = _dropped(node, compiler)
    if dropped is not None:
        yield "drop a clause", f"without {dropped[0]}", dropped[1]
    any_term = _any_term(node, compiler)
    if any_term is not None:
        yield "any term", "no passage holds all of the terms", any_term
    alias = _changed(node, lambda leaf: _alias(leaf, slots) if leaf in tried else leaf)
    if alias is not None:
        yield "alias", why, alias


def near_terms(word: str, compiler: Compiler, most: int = _VARIANTS) -> list[str]:
    """Terms of the corpus within two edits of a word, nearest and then most frequent first."""
    text = compiler.analyzer.views(word)[1]
    if len(text) > _SPELLED_MOST:
        return []
    slots = compiler.slots
    found: dict[str, tuple[int, int, str]] = {}
    for edits in (1, 2):
        if edits == 2 and (len(text) < 4 or len(found) >= most):
            break
        for token in slots.tokens_of(Fuzzy(text, edits)):
            df = slots.df(token)
            if df and token not in found and token != text:
                found[token] = (edits, -df, token)
    return sorted(found, key=found.__getitem__)[:most]


def spellings(word: str) -> list[str]:
    """Other ways to write the words of an identifier.

    >>> spellings("maxAllowed"), spellings("max-allowed")
    (['max_allowed', 'max-allowed', 'max.allowed'], ['max_allowed', 'maxallowed', 'max.allowed'])
    """
    pieces = _pieces(word)
    if not 1 < len(pieces) <= _PIECES_MOST:
        return []
    joined = (mark.join(pieces) for mark in ("_", "-", "", "."))
    return [each for each in dict.fromkeys(joined) if each != word.casefold()]


def _pieces(word: str) -> list[str]:
    pieces = [""]
    for before, here in zip(" " + word, word, strict=False):
        if not here.isalnum():
            pieces.append("")
        elif here.isupper() and before.islower():
            pieces.append(here)
        else:
            pieces[-1] += here
    return [piece.casefold() for piece in pieces if piece]


def _absent(leaf: Node, compiler: Compiler) -> bool:
    if not isinstance(leaf, (Word, Quoted, Start, Similar)):
        return False
    query = compiler.query(leaf)
    return query is not None and compiler.count(leaf) == 0


def _changed(node: Node, change: Callable[[Node], Node]) -> Node | None:
    """The query with its positive leaves changed; None when none was."""
    made = _map(node, change)
    return None if made == node else made


def _map(node: Node, change: Callable[[Node], Node]) -> Node:
    if isinstance(node, Group):
        return Group(
            tuple(_map(part, change) for part in node.must),
            tuple(_map(part, change) for part in node.should),
            node.must_not,
            node.boost,
        )
    if isinstance(node, Within):
        return Within(node.kind, _map(node.node, change))
    return change(node)


def _some(words: list[str], leaf: Word) -> Node:
    parts = tuple(Word(word, leaf.field, leaf.boost) for word in words)
    return parts[0] if len(parts) == 1 else Group(should=parts)


def _spelled(leaf: Node, compiler: Compiler) -> Node:
    if not isinstance(leaf, Word):
        return leaf
    known = []
    for spelling in spellings(leaf.text):
        query = compiler.query(Word(spelling, leaf.field))
        if query is not None and isinstance(query, (AnyOf, Term)) and compiler.slots.count(query):
            known.append(spelling)
    if not known and len(leaf.text) >= _SPELLED_LEAST:
        known = near_terms(leaf.text, compiler)
    return _some(known, leaf) if known else leaf


def _parts(leaf: Node, compiler: Compiler) -> Node:
    if not isinstance(leaf, Word):
        return leaf
    parts = compiler.parts_of(leaf.text)
    return Quoted(" ".join(parts), 0, leaf.field, leaf.boost) if parts else leaf


def _loosened(leaf: Node) -> Node:
    words = len(leaf.text.split()) if isinstance(leaf, Quoted) else 0
    if isinstance(leaf, Quoted) and leaf.slop < _NEAR_SLOP and 1 < words <= _LOOSE_WORDS:
        return Quoted(leaf.text, _NEAR_SLOP, leaf.field, leaf.boost)
    return leaf


def _dropped(node: Node, compiler: Compiler) -> tuple[str, Node] | None:
    """The query without the clause whose loss leaves the fewest passages, but some."""
    if not isinstance(node, Group) or len(node.must) < 2:
        return None
    n_words = sum(not isinstance(part, Meta) for part in node.must)
    best: tuple[int, int] | None = None
    for i, (all_of_them, with_should) in enumerate(_counts_without(node, compiler)):
        only_filters = n_words - (not isinstance(node.must[i], Meta)) == 0
        if only_filters and not node.should:
            continue  # what is left would only filter
        count = with_should if only_filters else all_of_them
        if count and (best is None or (count, i) < best):
            best = (count, i)
    if best is None:
        return None
    i = best[1]
    rest = Group((*node.must[:i], *node.must[i + 1 :]), node.should, node.must_not)
    return None if compiler.query(rest) is None else (node.must[i].shown(), rest)


def _counts_without(node: Group, compiler: Compiler) -> Iterator[tuple[int, int]]:
    """For each clause of `must` how many passages the others leave: all, those with a `should`.

    That is those that fail no clause, or this one alone: every clause is looked up once, where
    asking for each rest of n clauses would be n times n look-ups.
    """
    slots = compiler.slots
    n = len(node.must)
    held = np.zeros(slots.n, dtype=np.int32)  # how many clauses hold
    which = np.zeros(slots.n, dtype=np.int64)  # the sum of their numbers
    for i, part in enumerate(node.must):
        here = (
            np.flatnonzero(compiler.holds(part))
            if compiler.query(part) is not None
            else slice(None)
        )
        held[here] += 1
        which[here] += i
    allowed, some = slots.live.copy(), np.zeros(slots.n, dtype=np.bool_)
    for part in node.must_not:
        allowed &= ~compiler.holds(part)
    for part in node.should:
        some |= compiler.holds(part)
    missing = n * (n - 1) // 2 - which  # where one clause fails: its number
    counts = []
    for inside in (allowed, allowed & some):
        alone = np.bincount(missing[inside & (held == n - 1)], minlength=n)
        counts.append((alone + int((inside & (held == n)).sum())).tolist())
    return zip(*counts, strict=True)


def _any_term(node: Node, compiler: Compiler) -> Node | None:
    """The query's positive words joined by OR; its conditions on metadata stay."""
    terms: dict[Node, None] = {}
    for leaf, negated in leaves(node):
        if negated:
            continue
        if isinstance(leaf, Quoted):
            terms.update((Word(text, leaf.field), None) for text in leaf.text.split())
        elif isinstance(leaf, Close):
            terms.update((part, None) for part in leaf.near)
        elif not isinstance(leaf, Meta):
            terms[leaf] = None
            if isinstance(leaf, Word):
                terms.update(
                    (Word(part, leaf.field), None) for part in compiler.parts_of(leaf.text)
                )
    conditions = tuple(
        part for part in (node.must if isinstance(node, Group) else ()) if isinstance(part, Meta)
    )
    must_not = node.must_not if isinstance(node, Group) else ()
    made = Group(conditions, tuple(terms), must_not)
    return made if terms and made != node else None


def _alias(leaf: Node, slots: Slots) -> Node:
    """Other names of the entity that a word names, or of those spelt like it."""
    if not isinstance(leaf, Word):
        return leaf
    graph = slots.snapshot.graph
    nodes = graph.find_entities(leaf.text, limit=3) or graph.similar(leaf.text, limit=3)
    names: dict[str, None] = {}
    for node in nodes:
        names.update((name, None) for name in node.names[:3])
        for edge in graph.edges(node.key, "alias-of", limit=5):
            other = graph.entity(edge.target if edge.source == node.key else edge.source)
            if other is not None:
                names.update((name, None) for name in other.names[:3])
    known = [name for name in names if name.casefold() != leaf.text.casefold()]
    return _some(known[:_VARIANTS], leaf) if known else leaf
