"""Each tool as a question to the corpus: what it asks first, and what where that finds nothing.

A second question is never silent: its answer's report has a note that says why it was asked, and
its items are marked as relaxed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from .answers import Answer, Fallback
from .questions import Questions

_K = 8


def search_general_knowledge(
    asked: Questions, query: str, path: str = "", k: int = _K, **bounds: Any
) -> Answer:
    """Ranked, by whichever indexes suit the query."""
    filters = {"path": path} if path else None
    return asked.hybrid_search(query, "auto", filters, k, operator="or", detail="low", **bounds)


def search_precise(asked: Questions, query: str, k: int = _K, **bounds: Any) -> Answer:
    """All for which the query holds."""
    return asked.hybrid_search(query, "exact", None, k, detail="low", **bounds)


def find_api_reference(asked: Questions, entity: str, k: int = _K, **bounds: Any) -> Answer:
    """The places that define a name; without one, those whose headings or text have it."""
    answer = asked.navigate(entity, "defines", k=k, detail="low", **bounds)
    if answer.items or answer.report.cursor or bounds.get("cursor"):
        return answer
    found = asked.hybrid_search(f'"{entity}"', "exact", None, k, detail="low", **bounds)
    return _instead(answer, found, "search", f"no place defines {entity!r}")


def explore_related_errors(asked: Questions, error_code: str, k: int = _K, **bounds: Any) -> Answer:
    """What the graph knows of an error; without that, the passages that name it."""
    answer = asked.navigate(error_code, None, k=k, detail="low", **bounds)
    if answer.items or answer.report.cursor or bounds.get("cursor"):
        return answer
    found = asked.hybrid_search(f'"{error_code}"', "exact", None, k, detail="low", **bounds)
    return _instead(answer, found, "search", f"no error is called {error_code!r}")


def look_for_evidence(
    asked: Questions, claim_a: str, claim_b: str, scope: str = "section", **bounds: Any
) -> Answer:
    """Both claims together, counted."""
    return asked.verify_hypothesis(claim_a, claim_b, scope, detail="low", **bounds)


def refine(
    asked: Questions,
    result_ids: list[str],
    query: str,
    within: str = "doc",
    k: int = _K,
    **bounds: Any,
) -> Answer:
    """Inside earlier results."""
    return asked.contextual_refine(result_ids, query, within=within, k=k, detail="low", **bounds)


def navigate(
    asked: Questions, entity: str, relation: str = "", k: int = _K, **bounds: Any
) -> Answer:
    """One step along a relation."""
    return asked.navigate(entity, relation or None, k=k, detail="low", **bounds)


def read(asked: Questions, target: str, around: int = 0, **bounds: Any) -> Answer:
    """The text itself."""
    return asked.read(target, around=around, **bounds)


def _instead(first: Answer, second: Answer, step: str, why: str) -> Answer:
    """The second answer, with what it stands for told."""
    taken = Fallback(step, why, second.report.query, len(second.items))
    report = replace(second.report, fallbacks=(taken, *second.report.fallbacks))
    if not second.items:
        report = replace(report, no_hit=report.no_hit or first.report.no_hit)
    items = [replace(item, relaxed=item.relaxed or step) for item in second.items]
    return Answer(report, items, second.lines)


ANSWERS: dict[str, Callable[..., Answer]] = {
    function.__name__: function
    for function in (
        search_general_knowledge,
        search_precise,
        find_api_reference,
        explore_related_errors,
        look_for_evidence,
        refine,
        navigate,
        read,
    )
}
