"""As much of a tool's list as fits the answer that a model gets, and a cursor for the rest.

What counts is the JSON that the model sees (`gnomon.corpus.tool_answers.told`), not the richer
answer of the API. Passages with the same text are shown once; the others are named beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .answers import Answer, BudgetUse, Item, Report, Same
from .bounds import cursor_of, trimmed_report
from .items import window
from .questions import Call
from .tool_answers import as_json, told, told_item, told_same

if TYPE_CHECKING:
    from .engine import Engine

ROOM_TOKENS = 60  # for what is known last: the cursor, and what a session says
REPORT_SHARE = 0.7  # of an answer, at most; beyond, the report loses what is needed least
TEXT_LEAST = 200  # characters of a passage that is cut to fit


@dataclass
class Listed:
    """The list of a tool: items, best first, then `context` where there is room left.

    Where a page needs only what is new on it, the first `start` of the list are not among `items`.
    """

    report: Report
    items: list[Item]
    context: list[Item] = field(default_factory=list)
    start: int = 0


def page(engine: Engine, call: Call, listed: Listed, offset: int) -> Answer:
    """The items from `offset` on that fit in the call's `k` and `max_tokens`."""
    args, beyond = call.args, bool(listed.report.cursor)
    report = replace(listed.report, tool=call.tool, cursor="", plan=(), budget=BudgetUse())
    limit = 4 * (args["max_tokens"] - ROOM_TOKENS)
    report = trimmed_report(report, int(limit * REPORT_SHARE))
    left = limit - len(as_json(told(Answer(report))))
    kept: list[Item] = []
    texts: dict[str, Item] = {}
    at = offset
    for item in listed.items[offset - listed.start :]:
        first = texts.get(item.excerpt)
        if first is not None and not item.cut:
            same = Same(item.chunk_id, item.source, item.path, item.span)
            left -= len(as_json(told_same(same))) + 9
            if left < 0:
                break
            first.also = (*first.also, same)
            at += 1
            continue
        if len(kept) >= args.get("k", len(listed.items)):
            break
        shown = _fitted(item, left, must=not kept)
        if shown is None:
            break
        left -= len(as_json(told_item(shown))) + 1
        kept.append(shown)
        texts[item.excerpt] = shown
        at += 1
    more = at > offset and (at < listed.start + len(listed.items) or beyond)
    if not more and not offset:
        for item in listed.context:
            shown = _fitted(item, left, must=False)
            if shown is None:
                break
            left -= len(as_json(told_item(shown))) + 1
            kept.append(shown)
    report.returned = len(kept)
    if more:
        key = engine.key(call.tool, args)
        report.cursor = cursor_of(engine.generation, key, at)
    return Answer(report, kept)


def _fitted(item: Item, left: int, must: bool) -> Item | None:
    """The item if it fits in `left` bytes, else a part of it, else None."""
    if len(as_json(told_item(item))) < left:
        return item
    bare = replace(item, excerpt="", marks=(), entities=(), related=item.related[:2], cut=True)
    room = max(left - len(as_json(told_item(bare))) - 16, 0)
    if room < TEXT_LEAST and not must:
        return None
    text, marks = item.excerpt, item.marks
    while len(as_json(text)) > room and text:
        start, end = window(text, marks, len(text) * room // len(as_json(text)))
        start, end = (start, end) if end - start < len(text) else (0, len(text) - 1)
        marks = tuple((a - start, b - start) for a, b in marks if start <= a and b <= end)
        text = text[start:end]
    return replace(bare, excerpt=text)
