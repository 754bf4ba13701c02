"""How a question is asked when it does not say: exact, sparse, or both indexes together."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .query_ast import Quoted, Word, leaves
from .query_compile import Compiler
from .query_parse import Parsed, parse
from .slots import Slots

_CONCRETE = re.compile(
    r"[A-Za-z]\w*_\w|[a-z][A-Z]|[A-Z][a-z0-9]+[A-Z]|::|->|\w\.\w|\w/\w|^--?\w|\(\)|^[@$]\w"
    r"|[A-Za-z]\d|\d[A-Za-z]|^#?\d{3,}$"
)
_ACRONYM = re.compile(r"[A-Z]{4,}")
_WORDS_BESIDE_PHRASE = 3
_WORD_MOST = 256  # characters of a word that are looked at: what runs on is no name
_RARE_SHARE, _RARE_LEAST = 0.005, 20


@dataclass(frozen=True)
class Choice:
    """The mode, how terms are joined, the parsed query, and why."""

    mode: str
    parsed: Parsed
    why: tuple[str, ...] = ()


def choose(text: str, mode: str, operator: str, slots: Slots, dense: bool) -> Choice:
    """What "auto" becomes; other modes stay as they are."""
    if mode != "auto":
        joined = operator or ("and" if mode == "exact" else "or")
        return Choice(mode, parse(text, joined), ("asked for",))
    parsed = parse(text, operator or "or")
    if not parsed.literal and _is_expression(parsed):
        marks = ", ".join(sorted(parsed.kinds - {"word", "(", ")"}))
        again = parsed if operator else parse(text, "and")
        return Choice("exact", again, (f"the query language is used: {marks}",))
    concrete = _concrete(parsed, slots, shouted=not any(map(str.islower, text)))
    if concrete:
        return Choice("sparse", parsed, concrete)
    if dense:
        return Choice("hybrid", parsed, ("no concrete term: both indexes are asked",))
    return Choice("sparse", parsed, ("no concrete term, and no vectors to ask",))


def _is_expression(parsed: Parsed) -> bool:
    """Whether a query is more than words; a phrase in a longer question is not enough."""
    kinds = parsed.kinds - {"word", "phrase", "slop", "(", ")"}
    if kinds:
        return True
    return "phrase" in parsed.kinds and parsed.words <= _WORDS_BESIDE_PHRASE


def _concrete(parsed: Parsed, slots: Slots, shouted: bool) -> tuple[str, ...]:
    """Reasons to trust the terms: identifiers, acronyms, paths, quotations that few hold."""
    compiler = Compiler(slots)
    rare = max(int(slots.n_live * _RARE_SHARE), _RARE_LEAST)
    found = []
    for leaf, negated in leaves(parsed.node):
        quoted = isinstance(leaf, Quoted)
        if negated or not isinstance(leaf, (Word, Quoted)):
            continue
        if not (quoted or _is_code(leaf.text, not shouted)):
            continue
        query = compiler.query(leaf)
        df = 0 if query is None else slots.count(query)
        if df <= rare and (df or not quoted):  # words that are quoted from elsewhere tell nothing
            kind = "quoted text" if quoted else "concrete term"
            found.append(f"{kind} {leaf.text[:80]!r}: df={df}")
    return tuple(found[:5])


def _is_code(text: str, acronyms: bool) -> bool:
    bare = text[:_WORD_MOST].rstrip("?.,!")
    return bool(_CONCRETE.search(bare) or (acronyms and _ACRONYM.fullmatch(bare)))
