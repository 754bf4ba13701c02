"""The tool that searches by a question in plain words: BM25 and vectors, fused or by document."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .answers import Answer, Fallback, Item
from .eval_questions import read_question
from .query_parse import parse
from .questions import Call
from .tool_work import CANDIDATES, Work, listed_of

if TYPE_CHECKING:
    from .engine import Engine

TELLING_LEAST = 3  # words that a query needs before any of them is left out
ABREAST, OF_EACH, GROUPS = 3, 4, 2  # documents side by side, passages of each, how often
COVERED = 0.45  # of the weight of a question's words in one passage: less is another vocabulary
COMPARED, AGREEING = 20, 5  # of so many passages of each ranking so many in both: they agree
BY_DOCUMENT = "by-document"  # the report's step where the nearest documents stand first
OTHER_WORDS = (
    "no passage holds much of what the question's words weigh, and the rankings by words and by "
    "vectors differ: the nearest documents first"
)
SEARCH_TASK = "search_general_knowledge"  # whose learned weights the tool takes, if there are any


def search(engine: Engine, call: Call) -> Answer:
    """The answer of ``search_general_knowledge``."""
    work = Work(engine, call)
    args = work.args
    filters = {"path": args["path"]} if args["path"] else None
    answer = work.ask.hybrid_search(
        _telling(args["query"]),
        "auto",
        filters,
        work.wanted,
        operator="or",
        task=SEARCH_TASK,
        **work.bounds,
    )
    listed = listed_of(answer)
    # What the first page looks at decides for all pages, or one would go on in another list.
    if answer.report.mode == "hybrid" and _uncovered(listed.items[:CANDIDATES]):
        nearest = work.ask.hybrid_search(args["query"], "dense", filters, CANDIDATES, **work.bounds)
        if _apart(work, filters, nearest.items):
            listed.items = _by_document(work, filters, nearest.items, listed.items)
            step = Fallback(BY_DOCUMENT, OTHER_WORDS, "", len(listed.items))
            listed.report = replace(listed.report, fallbacks=(*listed.report.fallbacks, step))
    return work.shown(listed)


def _uncovered(items: list[Item]) -> bool:
    """Whether no passage holds much of what the question's words weigh."""
    held = (item.confidence for item in items if not item.relaxed)
    return max((c.value for c in held if c and c.basis == "coverage"), default=0.0) < COVERED


def _apart(work: Work, filters: dict[str, str] | None, nearest: list[Item]) -> bool:
    """Whether the two rankings have little in common: where they agree, both are right."""
    words = work.ask.hybrid_search(
        _telling(work.args["query"]), "sparse", filters, COMPARED, operator="or", **work.bounds
    )
    shared = {item.chunk_id for item in words.items}
    return len(shared & {item.chunk_id for item in nearest[:COMPARED]}) < AGREEING


def _by_document(
    work: Work, filters: dict[str, str] | None, nearest: list[Item], fused: list[Item]
) -> list[Item]:
    """First the passages of the documents nearest to a question, then the fused list.

    A question in other words than the corpus's finds the document more surely than the place in
    it: the vector of the best passage says which document, and those of its own passages alone say
    where. Documents stand side by side, so that one that was taken wrongly costs its share only.
    """
    query = work.args["query"]
    snapshot = work.engine.snapshot
    documents = list(dict.fromkeys(snapshot.chunk(i.chunk_id).doc_id for i in nearest))
    kept: dict[str, Item] = {}
    for first in range(0, ABREAST * GROUPS, ABREAST):
        columns = [
            work.ask.hybrid_search(query, "dense", filters, OF_EACH, f"doc:{each}", **work.bounds)
            for each in documents[first : first + ABREAST]
        ]
        for row in zip_longest(*(answer.items for answer in columns)):
            for item in row:
                if item is not None:
                    kept.setdefault(item.chunk_id, item)
    for item in fused:
        kept.setdefault(item.chunk_id, item)
    return list(kept.values())


def _telling(query: str) -> str:
    """A question in plain words without those that say nothing, each word once.

    What it quotes counts as a phrase, too. A query that uses the query language stays as it is.

    >>> _telling("What is the default of the server's wait_timeout, and why?")
    'default server wait_timeout'
    >>> _telling("error 'Access denied' on login and path:a*")
    "error 'Access denied' on login and path:a*"
    """
    if not parse(query, "or").kinds <= {"word"}:
        return query
    asked = read_question(query)
    phrases = [f'"{text}"' for text in asked.quoted if '"' not in text]
    if len(asked.words) < TELLING_LEAST:
        return query
    return " ".join([*asked.words, *phrases])
