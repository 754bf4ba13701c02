"""What each tool answers, on one engine: a list of passages put together from plain questions.

A tool is a question like the others (`Call`), so that sessions, the cache and replays treat it as
one. Its list is longer than an answer can be: `gnomon.corpus.tool_pages` shows as much of it as
fits. A list that stands in for one that is empty says so: the report has the fallback, the items
are marked as relaxed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from .answers import Answer, Confidence, Edge, Fallback, Item, NoHit, Related
from .arguments import K_MOST
from .bounds import offset_of
from .eval_questions import read_question
from .items import Hit, Presenter
from .query_parse import parse
from .questions import Call, Questions
from .targets import find
from .tool_pages import Listed, page
from .tool_specs import TOKENS_DEFAULT

if TYPE_CHECKING:
    from .engine import Engine

DETAIL = "text"
CANDIDATES = 60  # passages beyond the first that one answer may look at
NODES_MOST = 200
RELATED_MOST = 6
TELLING_LEAST = 3  # words that a query needs before any of them is left out
ABREAST, OF_EACH, GROUPS = 3, 4, 2  # documents side by side, passages of each, how often
COVERED = 0.4  # of the weight of a question's words in one passage: less is another vocabulary
EVIDENCE_FIRST = 3  # passages of evidence before what else their document says
_WIDE = 100_000
SEARCH_TASK = "search_general_knowledge"  # whose learned weights the tool takes, if there are any


class _Inside(Questions[Answer]):
    """Plain questions to the same engine, which no session counts."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def _ask(self, call: Call) -> Answer:
        from .handlers import HANDLERS

        return HANDLERS[call.tool](self.engine, call)


class _Work:
    """One call of a tool."""

    def __init__(self, engine: Engine, call: Call) -> None:
        self.engine, self.call, self.args = engine, call, call.args
        self.ask = _Inside(engine)
        key = engine.key(call.tool, call.args)
        self.offset = offset_of(call.args["cursor"], engine.generation, key)
        self.wanted = min(self.offset + CANDIDATES, K_MOST)
        self.bounds: dict[str, Any] = {"detail": DETAIL, "max_tokens": _WIDE}

    def shown(self, listed: Listed) -> Answer:
        return page(self.engine, self.call, listed, self.offset)

    def items_of(self, chunk_ids: Iterable[str], why: str, source: str) -> list[Item]:
        """Passages that were not found but belong to one that was: marked, with the step."""
        presenter = Presenter(self.engine.snapshot, DETAIL)
        made = []
        for chunk_id in chunk_ids:
            chunk = self.engine.snapshot.chunk(chunk_id)
            edge = Edge(source, why, f"chunk:{chunk_id}")
            hit = Hit(chunk, None, Confidence(1.0, "identity"), "context", edge)
            made.append(presenter.item(hit))
        return made

    def around(self, item: Item) -> list[str]:
        """The passages behind an item in its document, then those before it."""
        snapshot = self.engine.snapshot
        chunk = snapshot.chunk(item.chunk_id)
        every = [one.id for one in snapshot.chunks_of(chunk.doc_id)]
        return [*every[chunk.ordinal + 1 :], *reversed(every[: chunk.ordinal])]


def _found(answer: Answer) -> Listed:
    return Listed(answer.report, list(answer.items))


def _search(engine: Engine, call: Call) -> Answer:
    work = _Work(engine, call)
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
    listed = _found(answer)
    if answer.report.mode == "hybrid" and _foreign(listed.items):
        listed.items = _by_document(work, filters, listed.items)
    return work.shown(listed)


def _foreign(items: list[Item]) -> bool:
    """Whether no passage holds much of what the question's words weigh: it is in other words."""
    held = (item.confidence for item in items if not item.relaxed)
    return max((c.value for c in held if c and c.basis == "coverage"), default=0.0) < COVERED


def _by_document(work: _Work, filters: dict[str, str] | None, fused: list[Item]) -> list[Item]:
    """First the passages of the documents nearest to a question, then the fused list.

    A question in other words than the corpus's finds the document more surely than the place in
    it: the vector of the best passage says which document, and those of its own passages alone say
    where. Documents stand side by side, so that one that was taken wrongly costs its share only.
    """
    query = work.args["query"]
    nearest = work.ask.hybrid_search(query, "dense", filters, work.wanted, **work.bounds)
    snapshot = work.engine.snapshot
    documents = list(dict.fromkeys(snapshot.chunk(i.chunk_id).doc_id for i in nearest.items))
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


def _precise(engine: Engine, call: Call) -> Answer:
    work = _Work(engine, call)
    answer = work.ask.hybrid_search(work.args["query"], "exact", None, work.wanted, **work.bounds)
    return work.shown(_with_context(work, _found(answer)))


def _evidence(engine: Engine, call: Call) -> Answer:
    """Passages of documents and sections that are about one of the claims come first.

    Behind the first few stand the other passages of the best document that hold either claim: one
    sentence seldom is all that there is to know.
    """
    work = _Work(engine, call)
    args = work.args
    claims = args["claim_a"], args["claim_b"]
    answer = work.ask.verify_hypothesis(*claims, args["scope"], k=work.wanted, **work.bounds)
    listed = _found(answer)
    listed.items.sort(key=lambda item: min(_distance(item, claim) for claim in claims))
    if answer.report.total:
        first = engine.snapshot.chunk(listed.items[0].chunk_id)
        either = work.ask.hybrid_search(
            " ".join(claims), "sparse", None, 12, f"doc:{first.doc_id}", **work.bounds
        )
        known = {item.chunk_id for item in listed.items}
        more = [item for item in either.items if item.chunk_id not in known]
        for item in more:
            item.relaxed = "context"
        listed.items[EVIDENCE_FIRST:EVIDENCE_FIRST] = more
    return work.shown(_with_context(work, listed))


def _distance(item: Item, claim: str) -> int:
    """0 where the document's title has the claim's words, 1 where the nearest heading has, 2."""
    wanted, titles = _folded(claim), (item.title, *item.heading[-1:])
    held = (number for number, title in enumerate(titles) if wanted and wanted in _folded(title))
    return next(held, 2)


def _refine(engine: Engine, call: Call) -> Answer:
    work = _Work(engine, call)
    args = work.args
    answer = work.ask.contextual_refine(
        args["result_ids"], args["query"], within=args["within"], k=work.wanted, **work.bounds
    )
    return work.shown(_found(answer))


def _navigate(engine: Engine, call: Call) -> Answer:
    work = _Work(engine, call)
    args = work.args
    answer = work.ask.navigate(
        args["entity"], args["relation"] or None, k=NODES_MOST, **work.bounds
    )
    return work.shown(_joined(answer))


def _read(engine: Engine, call: Call) -> Answer:
    args = call.args
    return _Inside(engine).read(
        args["target"], around=args["around"], cursor=args["cursor"], max_tokens=args["max_tokens"]
    )


def _reference(engine: Engine, call: Call) -> Answer:
    work = _Work(engine, call)
    name = work.args["entity"]
    places = work.ask.navigate(name, "defined-in", k=NODES_MOST, **work.bounds)
    if not places.items:
        return work.shown(_instead(work, places, name, f"no place defines {name!r}"))
    return work.shown(_with_context(work, _ranked(work, places, name)))


def _errors(engine: Engine, call: Call) -> Answer:
    work = _Work(engine, call)
    name = work.args["error_code"]
    places = work.ask.navigate(name, None, k=NODES_MOST, **work.bounds)
    if not places.items or all(item.relaxed for item in places.items):
        return work.shown(_instead(work, places, name, f"no error is called {name!r}"))
    listed = _ranked(work, places, name)
    top = listed.items[0]
    top.related = _neighbours(work, name)
    return work.shown(_with_context(work, listed))


# --- lists ----------------------------------------------------------------------------------------


def _joined(answer: Answer) -> Listed:
    """One item a passage, however many edges it shows; `related` keeps the others."""
    kept: dict[str, Item] = {}
    for item in answer.items:
        first = kept.setdefault(item.chunk_id, item)
        if first is not item and len(first.related) < RELATED_MOST:
            first.related = (*first.related, *item.related)
    return Listed(answer.report, list(kept.values()))


def _ranked(work: _Work, places: Answer, name: str) -> Listed:
    """The passages of a walk: those whose headings have the name first, then as BM25 ranks them.

    What the walk found stays what is shown; only its order changes.
    """
    listed = _joined(places)
    by_id = {item.chunk_id: item for item in listed.items}
    scored = work.ask.hybrid_search(
        f'"{_bare(name)}"', "sparse", None, K_MOST, scope=list(by_id), relax=False, **work.bounds
    )
    rank = {item.chunk_id: number for number, item in enumerate(scored.items)}
    walked = {chunk: number for number, chunk in enumerate(by_id)}
    wanted = _folded(_bare(name))

    def order(item: Item) -> tuple[bool, bool, int, int]:
        own = bool(item.heading) and wanted in _folded(item.heading[-1])
        defines = item.edge is not None and item.edge.relation == "defined-in"
        place = rank.get(item.chunk_id, len(rank))
        return not own, not defines, place, walked[item.chunk_id]

    listed.items.sort(key=order)
    return listed


def _bare(name: str) -> str:
    kind, _, rest = name.partition(":")
    return rest if rest and kind.isidentifier() and kind.islower() else name


def _folded(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def _instead(work: _Work, nothing: Answer, name: str, why: str) -> Listed:
    """What a search for the name finds, where the graph has nothing."""
    found = work.ask.hybrid_search(f'"{_bare(name)}"', "exact", None, work.wanted, **work.bounds)
    taken = Fallback("search", why, found.report.query, len(found.items))
    report = replace(found.report, fallbacks=(taken, *found.report.fallbacks))
    if report.no_hit is None:
        report.no_hit = nothing.report.no_hit or NoHit("unknown_entity", (name[:200],))
    report.total = nothing.report.total
    for item in found.items:
        item.relaxed = item.relaxed or "search"
    return Listed(report, list(found.items))


def _with_context(work: _Work, listed: Listed) -> Listed:
    """Behind the list, where there is room left: what stands around its first passage."""
    answers = [item for item in listed.items if not item.relaxed]
    if answers:
        first, known = answers[0], {item.chunk_id for item in listed.items}
        near = [chunk for chunk in work.around(first) if chunk not in known]
        listed.context = work.items_of(near[:12], "around", f"chunk:{first.chunk_id}")
    return listed


def _neighbours(work: _Work, name: str) -> tuple[Related, ...]:
    """Names next to an entity, those with the most evidence first."""
    graph = work.engine.snapshot.graph
    found: dict[str, Related] = {}
    for node in find(work.engine, name).entities:
        for edge in graph.edges(node.key, None, "both", limit=200):
            other = edge.target if edge.source == node.key else edge.source
            found.setdefault(other, Related(edge.type, other, edge.source == node.key))
    ordered = sorted(found.values(), key=lambda one: one.relation == "co-occurs")
    return tuple(ordered[:RELATED_MOST])


_HANDLERS: dict[str, Callable[[Any, Call], Answer]] = {
    "search_general_knowledge": _search,
    "search_precise": _precise,
    "find_api_reference": _reference,
    "explore_related_errors": _errors,
    "look_for_evidence": _evidence,
    "refine": _refine,
    "navigate": _navigate,
    "read": _read,
}
TOOL_HANDLERS = {f"tool.{name}": handler for name, handler in _HANDLERS.items()}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "search_general_knowledge": {"path": "", "k": 10},
    "search_precise": {"k": 10},
    "find_api_reference": {"k": 10},
    "explore_related_errors": {"k": 10},
    "look_for_evidence": {"scope": "section"},
    "refine": {"within": "doc", "k": 10},
    "navigate": {"relation": "", "k": 10},
    "read": {"around": 0},
}


def tool_call(name: str, arguments: Mapping[str, Any]) -> Call:
    """The question that a tool's arguments ask, defaults written out; KeyError for no tool."""
    given = {key: value for key, value in arguments.items() if value is not None}
    bounds = {"cursor": "", "max_tokens": TOKENS_DEFAULT}
    return Call(f"tool.{name}", {**_DEFAULTS[name], **bounds, **given})
