"""What each tool answers, on one engine: a list of passages put together from plain questions.

A tool is a question like the others (`Call`), so that sessions, the cache and replays treat it as
one. Its list is longer than an answer can be: `gnomon.corpus.tool_pages` shows as much of it as
fits. A list that stands in for one that is empty says so: the report has the fallback, the items
are marked as relaxed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from .answers import Answer, Fallback, Item, NoHit, Related
from .arguments import K_MOST
from .questions import Call
from .targets import find
from .tool_pages import Listed
from .tool_search import search
from .tool_specs import TOKENS_DEFAULT
from .tool_work import CANDIDATES, Inside, Work, listed_of

if TYPE_CHECKING:
    from .engine import Engine

NODES_MOST = 200
RELATED_MOST = 6
EVIDENCE_FIRST = 3  # passages of evidence before what else their document says


def _precise(engine: Engine, call: Call) -> Answer:
    work = Work(engine, call)
    query = work.args["query"]
    answer = work.onward.hybrid_search(query, "exact", None, CANDIDATES, **work.bounds)
    return work.shown(_with_context(work, listed_of(answer, work.offset)))


def _evidence(engine: Engine, call: Call) -> Answer:
    """Of the first passages those of documents and sections about one of the claims lead.

    Behind the first few stand the other passages of the best document that hold either claim: one
    sentence seldom is all that there is to know. No page changes the order of those before it.
    """
    work = Work(engine, call)
    args = work.args
    claims = args["claim_a"], args["claim_b"]

    def ask(start: int, k: int = CANDIDATES, **bounds: Any) -> Answer:
        bounds = {**work.bounds, **bounds}
        return Inside(engine, start).verify_hypothesis(*claims, args["scope"], k=k, **bounds)

    answer = ask(0)
    beyond = bool(answer.report.cursor)
    listed = listed_of(answer)
    n = len(listed.items)
    listed.items.sort(key=lambda item: min(_distance(item, claim) for claim in claims))
    if answer.report.total:
        first = engine.snapshot.chunk(listed.items[0].chunk_id)
        either = work.ask.hybrid_search(
            " ".join(claims), "sparse", None, 12, f"doc:{first.doc_id}", **work.bounds
        )
        whole = ask(0, K_MOST, detail="ids") if beyond else answer
        known = {item.chunk_id for item in (*listed.items, *whole.items)}
        more = [item for item in either.items if item.chunk_id not in known]
        for item in more:
            item.relaxed = "context"
        listed.items[EVIDENCE_FIRST:EVIDENCE_FIRST] = more
    if beyond:  # the others come in the order of the plain answer
        shift = len(listed.items) - n
        begin = max(work.offset - shift, n)
        others = ask(begin)
        listed.report.cursor = others.report.cursor
        if begin == n:
            listed.items += others.items
        else:
            listed.items, listed.start = list(others.items), begin + shift
    return work.shown(_with_context(work, listed))


def _distance(item: Item, claim: str) -> int:
    """0 where the document's title has the claim's words, 1 where the nearest heading has, 2."""
    wanted, titles = _folded(claim), (item.title, *item.heading[-1:])
    held = (number for number, title in enumerate(titles) if wanted and wanted in _folded(title))
    return next(held, 2)


def _refine(engine: Engine, call: Call) -> Answer:
    work = Work(engine, call)
    args = work.args
    answer = work.onward.contextual_refine(
        args["result_ids"], args["query"], within=args["within"], k=CANDIDATES, **work.bounds
    )
    return work.shown(listed_of(answer, work.offset))


def _navigate(engine: Engine, call: Call) -> Answer:
    work = Work(engine, call)
    args = work.args
    relation = args["relation"] or None
    answer = work.gathered(
        lambda cursor: work.ask.navigate(
            args["entity"], relation, k=NODES_MOST, cursor=cursor, **work.bounds
        )
    )
    return work.shown(_joined(answer))


def _read(engine: Engine, call: Call) -> Answer:
    args = call.args
    return Inside(engine).read(
        args["target"], around=args["around"], cursor=args["cursor"], max_tokens=args["max_tokens"]
    )


def _reference(engine: Engine, call: Call) -> Answer:
    work = Work(engine, call)
    name = work.args["entity"]
    places = work.ask.navigate(name, "defined-in", k=NODES_MOST, **work.bounds)
    if not places.items:
        return work.shown(_instead(work, places, name, f"no place defines {name!r}"))
    return work.shown(_with_context(work, _ranked(work, places, name)))


def _errors(engine: Engine, call: Call) -> Answer:
    work = Work(engine, call)
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


def _ranked(work: Work, places: Answer, name: str) -> Listed:
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


def _instead(work: Work, nothing: Answer, name: str, why: str) -> Listed:
    """What a search for the name finds, where the graph has nothing."""
    found = work.onward.hybrid_search(f'"{_bare(name)}"', "exact", None, CANDIDATES, **work.bounds)
    taken = Fallback("search", why, found.report.query, len(found.items))
    report = replace(found.report, fallbacks=(taken, *found.report.fallbacks))
    if report.no_hit is None:
        report.no_hit = nothing.report.no_hit or NoHit("unknown_entity", (name[:200],))
    report.total = nothing.report.total
    for item in found.items:
        item.relaxed = item.relaxed or "search"
    return Listed(report, list(found.items), start=work.offset)


def _with_context(work: Work, listed: Listed) -> Listed:
    """Behind the list, where there is room left: what stands around its first passage."""
    answers = [item for item in listed.items if not item.relaxed]
    if answers:
        first, known = answers[0], {item.chunk_id for item in listed.items}
        near = [chunk for chunk in work.around(first) if chunk not in known]
        listed.context = work.items_of(near[:12], "around", f"chunk:{first.chunk_id}")
    return listed


def _neighbours(work: Work, name: str) -> tuple[Related, ...]:
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
    "search_general_knowledge": search,
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
