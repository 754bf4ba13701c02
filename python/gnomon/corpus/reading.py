"""`read`: text in order, as much as fits, and a cursor at the character where it stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .answers import Answer, Confidence, Item, NoHit, Report
from .bounds import cursor_of, fitted, offset_of, room_for
from .items import Hit, Presenter
from .model import Chunk, Document, Span
from .query_compile import QueryError
from .questions import Call
from .rawmap import locate, runs
from .targets import Target, find

if TYPE_CHECKING:
    from .engine import Engine

_PLACES = 1 << 20  # a cursor counts characters of the passage below this, passages above
_SLIM = 1500  # bytes; with less room the text comes without what else is known of it
_LEAST = 200  # bytes of text that are worth an item of their own
_encode = msgspec.json.encode


def read(engine: Engine, call: Call) -> Answer:
    """One item a passage; an item that was cut ends where the cursor goes on."""
    args = call.args
    offset = offset_of(args["cursor"], engine.generation, engine.key("read", args))
    target = find(engine, args["target"], entities=False)
    if target.span is not None:
        assert target.document is not None
        return _bytes(engine, call, target.document, target.span, offset)
    chunks = _chunks(engine, target, args["around"])
    first, at = divmod(offset, _PLACES)
    report = Report(
        tool="read",
        generation=engine.generation,
        mode="exact",
        query=args["target"][:500],
        total=len(chunks),
        exhaustive=True,
        no_hit=None
        if first < len(chunks)
        else NoHit("exhausted_cursor", advice="there is nothing behind the last page"),
    )
    items, place = _fitting(engine, chunks, first, at, room_for(report, args["max_tokens"]))
    return _answer(engine, call, report, items, place, len(chunks) * _PLACES)


def _answer(
    engine: Engine, call: Call, report: Report, items: list[Item], place: int, end: int
) -> Answer:
    key = engine.key("read", call.args)
    return fitted(
        report,
        items,
        (),
        len(items),
        call.args["max_tokens"],
        lambda _: cursor_of(engine.generation, key, place),
        place < end,
    )


def _chunks(engine: Engine, target: Target, around: int) -> list[Chunk]:
    snapshot = engine.snapshot
    if target.chunk is not None:
        if not around:
            return [target.chunk]
        every = list(snapshot.chunks_of(target.chunk.doc_id))
        place = target.chunk.ordinal
        return every[max(place - around, 0) : place + around + 1]
    if target.section is not None:
        begin, end = target.section.extent
        every = list(snapshot.chunks_of(target.section.doc_id))
        return [chunk for chunk in every if begin <= chunk.span[0] and chunk.span[1] <= end]
    assert target.document is not None
    return list(snapshot.chunks_of(target.document.id))


def _fitting(
    engine: Engine, chunks: list[Chunk], first: int, at: int, room: int
) -> tuple[list[Item], int]:
    """Items from a character on that fit in `room` bytes, and the place where they end."""
    presenter = Presenter(engine.snapshot, "low" if room > _SLIM else "ids")
    items: list[Item] = []
    for number in range(first, len(chunks)):
        chunk = chunks[number]
        item = _item(presenter, chunk, at, len(chunk.text))
        size = len(_encode(item)) + 1
        if size > room:
            if items and room < _LEAST + 400:
                return items, number * _PLACES + at
            end = _whole(chunk, at, _longest(presenter, chunk, at, room))
            if end > at:
                items.append(_item(presenter, chunk, at, end))
                at = end
            elif not items:  # not even a word: pass it over, and say so
                items.append(_item(presenter, chunk, at, at))
                at = min(at + _LEAST, len(chunk.text))
            return items, number * _PLACES + at
        items.append(item)
        room -= size
        at = 0
    return items, len(chunks) * _PLACES


def _longest(presenter: Presenter, chunk: Chunk, at: int, room: int) -> int:
    """How far the text from `at` on can go in `room` bytes."""
    low, high = at, len(chunk.text)
    while low < high:
        middle = (low + high + 1) // 2
        if len(_encode(_item(presenter, chunk, at, middle))) + 1 <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _whole(chunk: Chunk, at: int, end: int) -> int:
    """`end`, or where the piece of the text begins that stands for other bytes and would be parted.

    The spans of both parts would hold the bytes of such a piece.
    """
    place = len(chunk.text[:end].encode("utf-8", "surrogatepass"))
    for first, last, _, _, copied in runs(chunk.raw_map):
        if first < place < last and not copied:
            text = chunk.text.encode("utf-8", "surrogatepass")[:first]
            before = len(text.decode("utf-8", "surrogatepass"))
            return before if before > at else end
    return end


def _item(presenter: Presenter, chunk: Chunk, start: int, end: int) -> Item:
    item = presenter.item(Hit(chunk, None, Confidence(1.0, "identity")))
    item.excerpt = chunk.text[start:end]
    if presenter.detail != "ids":
        item.revision = presenter.document(chunk.doc_id).revision
    else:
        item.confidence = None
    item.marks = ()
    item.cut = start > 0 or end < len(chunk.text)
    if item.cut:
        item.span = _span(chunk, start, end)
    return item


def _span(chunk: Chunk, start: int, end: int) -> Span:
    """The raw bytes of some characters of a passage."""
    a, b = (len(chunk.text[:place].encode("utf-8", "surrogatepass")) for place in (start, end))
    if a == b:
        return chunk.span[0], chunk.span[0]
    first, last = locate(chunk.raw_map, a, b)
    base = chunk.span[0]
    return (
        base + first if start else chunk.span[0],
        base + last if end < len(chunk.text) else chunk.span[1],
    )


def _bytes(engine: Engine, call: Call, document: Document, span: Span, offset: int) -> Answer:
    """Raw bytes of a document, decoded; bytes that are no text stand as U+FFFD."""
    start = span[0] + offset
    report = Report(
        tool="read",
        generation=engine.generation,
        mode="exact",
        query=call.args["target"][:500],
        plan=("raw bytes",),
        total=1,
        exhaustive=True,
    )
    if start >= span[1]:
        raise QueryError("cursor_invalid", "the cursor lies behind the bytes that were asked for")
    room = room_for(report, call.args["max_tokens"])
    data = bytes(engine.snapshot.raw(document.id)[start : span[1]])
    presenter = Presenter(engine.snapshot, "low" if room > _SLIM else "ids")
    chunk = engine.snapshot.chunk_at(document.id, start)
    ends = _ends(data, document.encoding)
    low, high = 0, len(ends) - 1
    while low < high:  # the most bytes that fit, at least one character
        middle = (low + high + 1) // 2
        if len(_encode(_raw_item(presenter, chunk, document, data, start, ends[middle]))) < room:
            low = middle
        else:
            high = middle - 1
    item = _raw_item(presenter, chunk, document, data, start, ends[low])
    item.cut = item.span[1] < span[1]
    return _answer(engine, call, report, [item], item.span[1] - span[0], span[1] - span[0])


def _ends(data: bytes, encoding: str) -> list[int]:
    """Where a piece may end without cutting a character."""
    if encoding.startswith("utf-16"):
        return list(range(2, len(data) + 1, 2)) or [len(data)]
    if not encoding.startswith("utf-8"):
        return list(range(1, len(data) + 1))
    return [i for i in range(1, len(data)) if data[i] & 0xC0 != 0x80] + [len(data)]


def _raw_item(
    presenter: Presenter, chunk: Chunk, document: Document, data: bytes, start: int, n: int
) -> Item:
    item = presenter.item(Hit(chunk, None, Confidence(1.0, "identity")))
    item.excerpt = data[:n].decode(document.encoding, "replace")
    if presenter.detail != "ids":
        item.revision = document.revision
    else:
        item.confidence = None
    item.cut = True
    item.span = (start, start + n)
    item.marks = ()
    item.lines = None
    return item
