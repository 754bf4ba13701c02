"""What a model gets back from a tool: the answer without what only programs need.

The items keep the evidence contract of `gnomon.agent` (`EVIDENCE_SCHEMA`): which unchanging text,
what it says, who may read it and when it was read; `id` is what `read`, `navigate` and `refine`
take, and what a citation names. Empty fields are left out.
"""

from __future__ import annotations

import json
from typing import Any

from .answers import Answer, Item, Report, Same

REVISION_DIGITS = 16  # of 64: enough to tell revisions apart, at a quarter of the tokens
NAMES_MAX, RELATED_MAX, TITLE_MAX = 3, 6, 160


def tokens_of(value: Any) -> int:
    """The size of compact JSON in tokens, bytes / 4 rounded up.

    >>> tokens_of({"a": "b"})
    3
    """
    return -(-len(as_json(value)) // 4)


def as_json(value: Any) -> bytes:
    """Compact JSON in UTF-8."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def told(answer: Answer) -> dict[str, Any]:
    """The answer as a model gets it: ``{"evidence": [...], "report": {...}}``, maybe "lines".

    >>> from .answers import Item, Report
    >>> item = Item("c1", "docs", "a.md", (0, 9), revision="r" * 64, title="A", excerpt="red apple")
    >>> told(Answer(Report("read", 3, total=1, returned=1), [item]))["evidence"][0]["title"]
    'A'
    """
    shown: dict[str, Any] = {"evidence": [told_item(item) for item in answer.items]}
    if answer.lines:
        shown["lines"] = [_pruned(_fields(line)) for line in answer.lines]
    shown["report"] = _report(answer.report)
    return shown


def told_item(item: Item) -> dict[str, Any]:
    """An item as it stands under "evidence"."""
    shown = {
        "id": item.chunk_id,
        "source_id": f"{item.source}/{item.path}",
        "revision": item.revision[:REVISION_DIGITS],
        "title": _title(item),
        "span": list(item.span),
        "excerpt": item.excerpt,
        "cut": item.cut,
        "via": None if item.edge is None else _via(item),
        "names": [each.id for each in item.entities[:NAMES_MAX]],
        "also": [told_same(same) for same in item.also],
        "related": [f"{each.relation} {each.to}" for each in item.related[:RELATED_MAX]],
        "confidence": None if item.confidence is None else round(item.confidence.value, 2),
        "relaxed": item.relaxed,
        "new": item.new,
        "acl_scope": item.acl_scope or "none",
        "retrieved_at": item.retrieved_at,
    }
    return {"title": "", "excerpt": "", **_pruned(shown)}


def told_same(same: Same) -> dict[str, Any]:
    """Another place that has the text of an item."""
    return {
        "id": same.chunk_id,
        "source_id": f"{same.source}/{same.path}",
        "span": list(same.span),
    }


def _title(item: Item) -> str:
    """The titles from the document to the section, each once; the last ones if they are long."""
    parts = list(dict.fromkeys(part for part in (item.title, *item.heading) if part))
    while len(parts) > 1 and len(" > ".join(parts)) > TITLE_MAX:
        parts.pop(0)
    return " > ".join(parts)[:TITLE_MAX]


def _via(item: Item) -> str:
    assert item.edge is not None
    return f"{item.edge.source} {item.edge.relation} {item.edge.target}"


def _report(report: Report) -> dict[str, Any]:
    shown = _fields(report)
    for name in ("tool", "query", "plan", "trimmed", "confidence", "session", "call"):
        shown.pop(name, None)
    shown["terms"] = {each.term: each.df for each in report.terms}
    shown["total"], budget = report.total, report.budget
    kept = _pruned(shown)
    kept["total"], kept["exhaustive"] = report.total, report.exhaustive
    kept["budget"] = _pruned(
        {"calls_left": budget.calls_left, "tokens_left": budget.tokens_left, "stop": budget.stop}
    )
    return {key: value for key, value in kept.items() if value not in ({}, "")}


def _fields(struct: Any) -> dict[str, Any]:
    import msgspec

    found: dict[str, Any] = msgspec.to_builtins(struct)
    return found


def _pruned(fields: dict[str, Any]) -> dict[str, Any]:
    """Without None, False and what is empty; 0 stays."""
    return {
        key: value
        for key, value in fields.items()
        if value is not None and value is not False and value not in ("", [], {}, ())
    }
