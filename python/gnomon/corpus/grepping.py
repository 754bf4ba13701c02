"""`grep`: every match of a pattern, by way of the trigram index, in order of path and place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .answers import Answer, Confidence, Item, NoHit, Report
from .bounds import offset_of
from .filtering import Restriction, restriction
from .items import Hit
from .query_compile import QueryError
from .questions import Call
from .snapshot import GrepLine, GrepResult

if TYPE_CHECKING:
    from .engine import Engine

PATTERN_MOST = 4096  # characters
_MATCHES_MOST = 4000  # of a megabyte: each takes RE2 a call


def grep(engine: Engine, call: Call) -> Answer:
    """One item a line that matches; `report.counts` has lines, matches and files."""
    args = call.args
    if len(args["pattern"]) > PATTERN_MOST:
        raise QueryError(
            "pattern_too_long",
            f"a pattern has at most {PATTERN_MOST:,} characters, got {len(args['pattern']):,}",
            "look for a part of it, or for several patterns one after the other",
        )
    offset = offset_of(args["cursor"], engine.generation, engine.key("grep", args))
    restricted = restriction(engine.slots, args["filters"], args["scope"])
    found, whole = _found(engine, args, restricted, offset)
    no_hit = None
    if not found.total_lines:
        no_hit = _no_hit(engine, args, restricted)
    elif not found.lines:
        no_hit = NoHit("exhausted_cursor", advice="there is nothing behind the last page")
    kind = "literal" if args["literal"] else "regular expression"
    text = "raw bytes" if args["raw"] else "rendered text"
    narrowed = f"the trigram index asked for {found.literals[:200]}" if found.literals else "all"
    counts = {"lines": found.total_lines}
    if found.counted:
        counts["matches"] = found.total_matches
    else:
        most = f"{_MATCHES_MOST:,} a megabyte are counted"
        whole = (*whole, f"at least {found.total_matches:,} matches: {most}")
    report = Report(
        tool="grep",
        generation=engine.generation,
        mode="exact",
        query=args["pattern"][:500],
        plan=(
            f"{kind} over the {text} of {found.scanned} of {found.documents} documents "
            f"({narrowed})",
        ),
        filters_applied=restricted.shown(),
        total=found.total_lines,
        exhaustive=True,
        no_hit=no_hit,
        counts={**counts, "documents": found.total_documents},
        notes=whole,
    )
    more = offset + len(found.lines) < found.total_lines
    items = _items(engine, args["detail"], found.lines)
    return engine.page("grep", args, report, items, (), len(found.lines), offset, more, ["exact"])


def _found(
    engine: Engine, args: Any, restricted: Restriction, offset: int
) -> tuple[GrepResult, tuple[str, ...]]:
    """The page's lines and the totals.

    A restriction to whole documents is the snapshot's to keep; one to passages keeps the lines
    whose first match begins in one of them.
    """
    mask = restricted.mask
    documents = None
    by_chunk = False
    if mask is not None:
        codes, _ = engine.slots.groups("doc")
        live = engine.slots.live
        inside = set(codes[mask & live].tolist())
        by_chunk = bool(set(codes[live & ~mask].tolist()) & inside)
        ids = engine.snapshot.documents_of(engine.slots.cids(_first_of(codes, mask & live)))
        documents = list(dict.fromkeys(ids))
    ask = {
        "literal": args["literal"],
        "ignore_case": args["ignore_case"],
        "raw": args["raw"],
        "documents": documents,
        "matches_most": _MATCHES_MOST,
    }
    try:
        if not by_chunk:
            return engine.snapshot.grep(args["pattern"], limit=args["k"], skip=offset, **ask), ()
        every = engine.snapshot.grep(args["pattern"], limit=None, **ask)
    except ValueError as error:
        raise QueryError("bad_regex", str(error), "escape it, or pass literal=true") from None
    except ImportError as error:
        raise QueryError("no_regex", str(error), "pass literal=true") from None
    assert mask is not None
    known = dict.fromkeys(line.chunk_id for line in every.lines)
    slots = engine.slots.of_chunks(list(known))
    allowed = dict(zip(known, mask[slots].tolist(), strict=True))
    lines = [line for line in every.lines if allowed[line.chunk_id]]
    result = GrepResult(
        tuple(lines[offset : offset + args["k"]]),
        len(lines),
        sum(len(line.matches) for line in lines),
        len({line.doc_id for line in lines}),
        every.scanned,
        every.documents,
        every.literals,
    )
    return result, ("a line counts where its first match begins in a permitted passage",)


def _first_of(codes: Any, mask: Any) -> Any:
    """One slot of each group that has a slot in the mask."""
    import numpy as np

    slots = np.flatnonzero(mask)
    _, first = np.unique(codes[slots], return_index=True)
    return slots[first]


def _items(engine: Engine, detail: str, lines: tuple[GrepLine, ...]) -> Iterator[Item]:
    presenter = engine.presenter(detail)
    for line in lines:
        chunk = engine.snapshot.chunk(line.chunk_id)
        item = presenter.item(Hit(chunk, None, Confidence(1.0, "exact"), spans=line.matches))
        item.matches = line.matches[:50]
        item.lines = (line.line, line.line)
        item.span = line.span
        yield item


def _no_hit(engine: Engine, args: Any, restricted: Restriction) -> NoHit:
    if not engine.slots.n_live:
        return NoHit("empty_corpus", advice="there is nothing here that you may read")
    if restricted.clauses:
        everywhere = engine.snapshot.grep(
            args["pattern"],
            literal=args["literal"],
            ignore_case=args["ignore_case"],
            raw=args["raw"],
            limit=0,
            matches_most=_MATCHES_MOST,
        )
        if everywhere.total_lines:
            return NoHit(
                "filter",
                restricted.shown(),
                advice=f"without the filters there are {everywhere.total_lines} lines",
            )
    advice = "try ignore_case, a shorter pattern, or the rendered text (raw=false)"
    return NoHit("no_match", (args["pattern"][:200],), advice=advice)
