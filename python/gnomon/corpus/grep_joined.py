"""Complete search by RE2 over documents, or passages, that stand end to end in large buffers.

Spans are made of the lines that are answered only; of the others it is known where they begin to
match. A pattern that matches at every character has as many matches as a corpus has characters, and
each takes RE2 a call: with `matches_most`, so many are counted in a buffer and behind them only
lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .grep_places import chunk_at, of_utf16, raw_span, shown
from .grep_scan import Lines, joined, matches_of, scan
from .live import Live, Spot
from .model import Document, Span
from .snapshot_model import GrepLine, GrepResult

if TYPE_CHECKING:
    from .grep import Matcher

_BOM = b"\xef\xbb\xbf"
_Found = list[tuple[Document, Spot]]
_Line = tuple[int, int, Span, list[Span]]  # owner, line in it, span and matches in it


def in_joined_raw(
    live: Live,
    matcher: Matcher,
    found: _Found,
    n_documents: int,
    limit: int | None,
    skip: int,
    matches_most: int | None,
) -> GrepResult:
    """What matches in the raw bytes of these documents."""

    def texts() -> Iterator[tuple[int, bytes]]:
        for number, (document, spot) in enumerate(found):
            data = bytes(live.segments[spot.segment].raw(spot.number))
            if document.encoding.startswith("utf-16"):
                data = data.decode(document.encoding).encode("utf-8", "surrogatepass")
            if matcher.may_match(data):
                yield number, data.removeprefix(_BOM)

    def line(given: _Line) -> GrepLine:
        number, at, span, spans = given
        document, spot = found[number]
        segment = live.segments[spot.segment]
        raw = segment.raw(spot.number)
        if document.encoding.startswith("utf-16"):
            text = bytes(raw).decode(document.encoding).encode("utf-8", "surrogatepass")
            shift = len(_BOM) * text.startswith(_BOM)
            span, spans = of_utf16(document, text, *_shifted(span, spans, shift))
        elif raw[:3] == _BOM:
            span, spans = _shifted(span, spans, len(_BOM))
        chunk = chunk_at(segment, spot.number, spans[0][0])
        name = segment.chunk_ids[chunk] if chunk >= 0 else ""
        return GrepLine(document.id, document.path, at, span, tuple(spans), name)

    scans = scan(matcher.regex, joined(texts()), matches_most)
    rows = range(len(found))
    return _result(matcher, scans, rows, line, n_documents, len(found), limit, skip)


def in_joined_rendered(
    live: Live,
    matcher: Matcher,
    found: _Found,
    n_documents: int,
    limit: int | None,
    skip: int,
    matches_most: int | None,
) -> GrepResult:
    """What matches in the text of these documents' passages."""
    rows: list[int] = []
    numbers: list[int] = []  # of the passages in their segments

    def texts() -> Iterator[tuple[int, bytes]]:
        for row, (_, spot) in enumerate(found):
            for each in live.segments[spot.segment].rendered_chunks(spot.number):
                if not matcher.may_match(each[3]):
                    continue
                rows.append(row)
                numbers.append(each[0])
                yield len(rows) - 1, each[3].removeprefix(_BOM)

    def line(given: _Line) -> GrepLine:
        document, spot = found[rows[given[0]]]
        segment, number = live.segments[spot.segment], numbers[given[0]]
        passages = segment.rendered_chunks(spot.number)
        chunk, raw_map, text = next(each[1:] for each in passages if each[0] == number)
        span, spans = given[2:]
        if text.startswith(_BOM):
            span, spans = _shifted(span, spans, len(_BOM))
        span = raw_span(chunk, raw_map, len(text), span)
        spans = [raw_span(chunk, raw_map, len(text), each) for each in spans]
        before = bytes(segment.raw(spot.number)).count(b"\n", chunk.span[0], spans[0][0])
        at, name = chunk.lines[0] + before, segment.chunk_ids[number]
        return GrepLine(document.id, document.path, at, span, tuple(spans), name)

    scans = scan(matcher.regex, joined(texts()), matches_most)
    return _result(matcher, scans, rows, line, n_documents, len(found), limit, skip)


def _result(
    matcher: Matcher,
    scans: Iterable[Lines],
    rows: Sequence[int],
    line: Callable[[_Line], GrepLine],
    n_documents: int,
    scanned: int,
    limit: int | None,
    skip: int,
) -> GrepResult:
    """Totals over all, and the lines from `skip` on; `rows` are the documents of the owners."""
    lines: list[GrepLine] = []
    total_lines = total_matches = total_documents = 0
    last_row, counted = -1, True
    last = None if limit is None else skip + limit
    for each in scans:
        n = len(each.owner)
        first = min(max(skip - total_lines, 0), n)
        stop = n if last is None else min(max(last - total_lines, 0), n)
        lines += [line(_line(matcher, each, place)) for place in range(first, stop)]
        total_lines += n
        total_matches += len(each.begins)
        counted &= each.counted
        if n:
            inside = np.array([rows[number] for number in each.buffer.numbers], np.int64)
            owners = np.unique(inside[each.owner])
            total_documents += len(owners) - int(owners[0] == last_row)
            last_row = int(owners[-1])
    literals = shown(matcher.needed)
    totals = total_lines, total_matches, total_documents
    return GrepResult(tuple(lines), *totals, scanned, n_documents, literals, counted)


def _line(matcher: Matcher, given: Lines, place: int) -> _Line:
    """Where a line and its matches lie in its document or passage."""
    owner = int(given.owner[place])
    base, data = int(given.buffer.starts[owner]), given.buffer.data
    begin = int(given.begins[given.first[place]])
    start = max(data.rfind(b"\n", base, begin) + 1, base)
    end = data.find(b"\n", begin)
    if given.counted:
        matches = slice(int(given.first[place]), int(given.first[place + 1]))
        pairs = zip(given.begins[matches].tolist(), given.stops[matches].tolist(), strict=True)
        spans = [(one - base, other - base) for one, other in pairs]
    else:
        shift = start - base
        found = matches_of(matcher.regex, data[start:end])
        spans = [(one + shift, other + shift) for one, other in found]
    number = given.buffer.numbers[owner]
    return number, int(given.number[place]), (start - base, end - base), spans


def _shifted(span: Span, matches: list[Span], by: int) -> tuple[Span, list[Span]]:
    return (span[0] + by, span[1] + by), [(begin + by, stop + by) for begin, stop in matches]
