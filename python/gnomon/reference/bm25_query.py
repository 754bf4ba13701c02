"""Boolean and positional queries by trying everything: which documents match, and what they score.

A document is a mapping of field names to token lists. A query is a tree of dicts with "kind" and:

- term: token · prefix: text · fuzzy: text, edits, exact, swaps · any_of: parts
- phrase: parts, slop · near: parts, window, ordered
- boolean: must, should, must_not, minimum · all · docs: members (positions of documents)

"fields" (a list of names) restricts where a term, phrase or near is looked for; "boost" multiplies.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from . import bm25_formulas as formulas

Document = Mapping[str, Sequence[Any]]
Node = Mapping[str, Any]

TOKENS = ("term", "prefix", "fuzzy", "any_of")


def distance(a: str, b: str, swaps: bool) -> int:
    """Edits that make one text of the other; with `swaps` as optimal string alignment.

    >>> distance("recieve", "receive", True), distance("recieve", "receive", False)
    (1, 2)
    """
    rows = [list(range(len(b) + 1))]
    for i in range(1, len(a) + 1):
        row = [i]
        for j in range(1, len(b) + 1):
            best = min(
                rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + (a[i - 1] != b[j - 1])
            )
            if swaps and i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                best = min(best, rows[i - 2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[len(a)][len(b)]


def names(node: Node, token: Any) -> bool:
    """Whether a node of single tokens names this one."""
    if node["kind"] == "term":
        return bool(token == node["token"])
    if node["kind"] == "prefix":
        return bool(token.startswith(node["text"]))
    if node["kind"] == "fuzzy":
        text, exact = node["text"], node.get("exact", 0)
        if len(text) < exact or token[:exact] != text[:exact]:
            return False
        return bool(distance(text, token, node.get("swaps", True)) <= node["edits"])
    return any(names(part, token) for part in node["parts"])


def matches(node: Node, document: Document, position: int = 0) -> bool:
    """Whether the document, which is the `position`-th, matches.

    >>> red = {"kind": "term", "token": "red"}
    >>> matches({"kind": "boolean", "must_not": [red]}, {"": ["green", "apple"]})
    True
    """
    kind = node["kind"]
    if kind == "all":
        return True
    if kind == "docs":
        return position in node["members"]
    if kind == "boolean":
        should = [matches(part, document, position) for part in node.get("should", ())]
        return (
            all(matches(part, document, position) for part in node.get("must", ()))
            and should.count(True) >= node.get("minimum", 0)
            and not any(matches(part, document, position) for part in node.get("must_not", ()))
        )
    return any(occurrences(node, document[field]) for field in _fields(node, document))


def occurrences(node: Node, tokens: Sequence[Any]) -> list[tuple[int, ...]]:
    """All ways in which a term, phrase or near stands in the tokens: positions of its parts."""
    kind = node["kind"]
    if kind in TOKENS:
        return [(place,) for place, token in enumerate(tokens) if names(node, token)]
    parts = node["parts"]
    if not parts:
        return []
    found = []
    for choice in itertools.product(*(_starts(part, tokens) for part in parts)):
        if len(set(choice)) < len(choice):
            continue
        if kind == "phrase":
            moved = [start - i for i, start in enumerate(choice)]
            fits = max(moved) - min(moved) <= node["slop"]
        else:
            ends = [s + _length(part) - 1 for part, s in zip(parts, choice, strict=True)]
            fits = max(ends) - min(choice) <= node["window"]
            if node["ordered"]:
                fits = fits and all(end < s for end, s in zip(ends, choice[1:], strict=False))
        if fits:
            found.append(choice)
    return found


def _starts(part: Node, tokens: Sequence[Any]) -> list[int]:
    return [choice[0] for choice in occurrences(part, tokens)]


def _length(part: Node) -> int:
    return len(part["parts"]) if part["kind"] == "phrase" else 1


def _fields(node: Node, document: Document) -> Sequence[str]:
    return node.get("fields") or list(document)


def positive_terms(node: Node, boost: float = 1.0) -> list[tuple[Node, float]]:
    """The nodes of single tokens that count towards the score, in written order, with weights."""
    weight = boost * node.get("boost", 1.0)
    if node["kind"] in TOKENS:
        return [(node, weight)]
    found = []
    for part in (*node.get("parts", ()), *node.get("must", ()), *node.get("should", ())):
        found.extend(positive_terms(part, weight))
    return found


def search(
    node: Node,
    documents: Sequence[Document],
    k: int,
    formula: str = "default",
    k1: float = 1.2,
    b: float = 0.75,
    delta: float = 0.5,
) -> list[tuple[int, float]]:
    """The best `k` matching (position, score), for documents of one field and no floored formula.

    >>> documents = [{"": ["a"]}, {"": ["b", "a"]}, {"": ["b"]}]
    >>> search({"kind": "boolean", "must_not": [{"kind": "term", "token": "a"}]}, documents, k=3)
    [(2, 0.0)]
    """
    texts = [[token for tokens in document.values() for token in tokens] for document in documents]
    n_tokens = 0
    for text in texts:
        n_tokens += len(text)
    avgdl = n_tokens / len(texts) if texts else 0.0
    counted = []
    for term, weight in positive_terms(node):
        tfs = [sum(1 for token in text if names(term, token)) for text in texts]
        df = len(tfs) - tfs.count(0)
        if df:
            counted.append((tfs, weight * formulas.idf(formula, len(texts), df) + 0.0))
    hits = []
    for position, document in enumerate(documents):
        if matches(node, document, position):
            rel = formulas.relative_length(b, len(texts[position]), avgdl)
            score = _score(counted, position, formula, rel, k1, delta)
            hits.append((position, score))
    hits.sort(key=lambda hit: (-hit[1], hit[0]))
    return hits[:k]


def _score(
    counted: Sequence[tuple[Sequence[int], float]],
    position: int,
    formula: str,
    rel: float,
    k1: float,
    delta: float,
) -> float:
    score = 0.0
    at_end = 0.0
    for tfs, idf in counted:
        absent = formulas.absent_part(formula, idf, k1, delta)
        at_end = at_end + absent
        if tfs[position]:
            score = score + formulas.part(formula, idf, tfs[position], rel, k1, delta)
        elif formula in formulas.ABSENT_IN_ORDER:
            score = score + absent
    return score + at_end if formula in formulas.ABSENT_AT_END else score


def together(
    groups: Sequence[Sequence[Any]], parts: Sequence[Node], documents: Sequence[Document]
) -> list[int]:
    """Documents that match a part, of a group in which every part is matched by some document.

    `groups` has the groups of each document; one without any is a group of its own.
    """
    named = [list(own) or [("alone", place)] for place, own in enumerate(groups)]
    matched = [
        [place for place, document in enumerate(documents) if matches(part, document, place)]
        for part in parts
    ]
    found = []
    for place in range(len(documents)):
        if any(place in some for some in matched) and any(
            all(any(group in named[other] for other in some) for some in matched)
            for group in named[place]
        ):
            found.append(place)
    return found
