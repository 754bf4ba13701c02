"""`outline`, `list` and `stats`: what there is, without its text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .answers import Answer, Line, NoHit, Report
from .bounds import offset_of
from .filtering import restriction
from .query_match import glob
from .questions import Call
from .targets import find

if TYPE_CHECKING:
    from .engine import Engine

_ENTITIES_MOST = 1000


def outline(engine: Engine, call: Call) -> Answer:
    """Sections in document order, `level` counted in the document, down to `depth` levels."""
    args = call.args
    target = find(engine, args["target"], entities=False)
    section = target.section
    if target.chunk is not None:
        section = engine.snapshot.section(target.chunk.section_id)
    doc_id = section.doc_id if section is not None else ""
    if target.document is not None:
        doc_id = target.document.id
    tree = engine.snapshot.sections(doc_id)
    within = section.extent if section is not None else (0, 1 << 62)
    inside = [s for s in tree if within[0] <= s.span[0] and s.span[1] <= within[1]]
    top = min((each.level for each in inside), default=0)
    lines = [
        Line(f"section:{each.id}", each.title, each.level, span=each.extent, kind=each.kind)
        for each in inside
        if each.level - top < args["depth"] and (each.heading is not None or each.level)
    ]
    path = engine.snapshot.document(doc_id).path
    return _page(engine, call, lines, len(lines), (f"sections of {path}",))


def list_things(engine: Engine, call: Call) -> Answer:
    """Documents, sources, entities or relations whose name fits the pattern."""
    args = call.args
    lines, notes = _LISTS[args["kind"]](engine, args)
    restricted = restriction(engine.slots, args["filters"], None)
    if restricted.mask is not None and args["kind"] == "documents":
        mask = restricted.mask & engine.slots.live
        codes, _ = engine.slots.groups("doc")
        slots = np.flatnonzero(mask)
        _, first = np.unique(codes[slots], return_index=True)
        kept = {
            f"doc:{each}" for each in engine.snapshot.documents_of(engine.slots.cids(slots[first]))
        }
        lines = [line for line in lines if line.id in kept]
    elif restricted.mask is not None:
        notes = (*notes, "filters choose documents only")
    return _page(engine, call, lines, args["k"], notes, restricted.shown())


def _documents(engine: Engine, args: Any) -> tuple[list[Line], tuple[str, ...]]:
    fits = glob(args["pattern"], "path")
    return [
        Line(f"doc:{each.id}", each.title, path=each.path, kind=each.type, source=each.source)
        for each in engine.snapshot.documents()
        if fits(each.path)
    ], ()


def _sources(engine: Engine, args: Any) -> tuple[list[Line], tuple[str, ...]]:
    fits = glob(args["pattern"], "source")
    counts = engine.snapshot.stats().by_source
    return [
        Line(each.name, each.uri, kind=each.kind, source=each.name, count=counts.get(each.name, 0))
        for each in engine.snapshot.sources()
        if fits(each.name)
    ], ()


def _entities(engine: Engine, args: Any) -> tuple[list[Line], tuple[str, ...]]:
    """Those called so or beginning so; of all of them, how many there are of each type."""
    name = args["pattern"].rstrip("*")
    if not name:
        types = engine.snapshot.graph.entity_types()
        return [
            Line(kind, kind, kind="entity type", count=n) for kind, n in sorted(types.items())
        ], ("give the start of a name to list entities",)
    found = engine.snapshot.graph.find_entities(name, limit=_ENTITIES_MOST)
    lines = [Line(node.key, node.name, kind=node.type, count=node.mentions) for node in found]
    full = (f"only the first {_ENTITIES_MOST}",) if len(found) == _ENTITIES_MOST else ()
    return lines, full


def _relations(engine: Engine, args: Any) -> tuple[list[Line], tuple[str, ...]]:
    fits = glob(args["pattern"], "relation")
    return [
        Line(name, name, kind="relation", count=n)
        for name, n in sorted(engine.snapshot.graph.relation_types().items())
        if fits(name)
    ], ()


_LISTS: dict[str, Callable[[Any, Any], tuple[list[Line], tuple[str, ...]]]] = {
    "documents": _documents,
    "sources": _sources,
    "entities": _entities,
    "relations": _relations,
}


def _page(
    engine: Engine,
    call: Call,
    lines: list[Line],
    k: int,
    notes: tuple[str, ...] = (),
    filters: tuple[str, ...] = (),
) -> Answer:
    args = call.args
    offset = offset_of(args["cursor"], engine.generation, engine.key(call.tool, args))
    shown = lines[offset : offset + k]
    no_hit = None
    if not lines:
        no_hit = NoHit("no_match", advice="try the pattern *")
    elif not shown:
        no_hit = NoHit("exhausted_cursor", advice="there is nothing behind the last page")
    report = Report(
        tool=call.tool,
        generation=engine.generation,
        mode="exact",
        query=str(args.get("pattern") or args.get("target"))[:500],
        filters_applied=filters,
        total=len(lines),
        exhaustive=True,
        no_hit=no_hit,
        notes=notes,
    )
    more = offset + len(shown) < len(lines)
    return engine.page(call.tool, args, report, (), shown, len(shown), offset, more)


def stats(engine: Engine, call: Call) -> Answer:
    """Counts of what the reader may see."""
    found = engine.snapshot.stats()
    counts: dict[str, float] = {
        name: getattr(found, name)
        for name in (
            "documents",
            "sections",
            "chunks",
            "bytes",
            "tokens",
            "entities",
            "mentions",
            "relations",
            "vectors",
            "dimensions",
        )
    }
    counts.update((f"type:{name}", n) for name, n in sorted(found.by_type.items()))
    counts.update((f"source:{name}", n) for name, n in sorted(found.by_source.items()))
    report = Report(
        tool="stats", generation=engine.generation, mode="exact", counts=counts, exhaustive=True
    )
    return engine.page("stats", call.args, report, (), (), 0, 0, False)
