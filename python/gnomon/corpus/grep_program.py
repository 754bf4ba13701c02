"""Lines of raw text that match, found by the compiled core; RE2 judges the few that it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .. import _core
from .columns_io import Int64Array
from .grep_places import chunk_at, of_utf16, raw_span, shown
from .grep_scan import BUFFER, spans_of
from .live import Live
from .snapshot_model import GrepLine, GrepResult
from .stored import rendered

if TYPE_CHECKING:
    from .grep import Matcher


def in_raw(
    live: Live,
    matcher: Matcher,
    ranks: Int64Array,
    n_documents: int,
    limit: int | None,
    skip: int,
) -> GrepResult | None:
    """What matches in the documents at these places of the catalogue; None when too many lines are
    left to RE2, which is then better asked about all.
    """
    assert matcher.program is not None
    places = live.places
    source, begin, end = places.segment[ranks], places.begin[ranks], places.end[ranks]
    sources: list[_core.Container | bytes] = [each.raw_container for each in live.segments]
    for row in places.utf16[ranks].nonzero()[0].tolist():
        text = _in_utf8(live, int(ranks[row]))
        source[row], begin[row], end[row] = len(sources), 0, len(text)
        sources.append(text)
    stop = (1 << 63) if limit is None else skip + limit
    scan = _core.LineScan(matcher.program, sources, source, begin, end, stop, most_unsure=BUFFER)
    if not _settled(scan, matcher):
        return None
    lines, matches, documents = scan.totals
    return GrepResult(
        tuple(_lines(live, ranks, scan, skip, stop)),
        lines,
        matches,
        documents,
        len(ranks),
        n_documents,
        shown(matcher.needed),
    )


def _settled(scan: _core.LineScan, matcher: Matcher) -> bool:
    """Asks RE2 about the lines that the program leaves, unless they are many."""
    if scan.has_given_up:
        return False
    unsure = scan.unsure()
    if not unsure:
        return True
    if matcher.regex is None:
        return False
    scan.settle(*spans_of(matcher.regex)(unsure))
    return True


class RenderedScan(NamedTuple):
    """A scan of chunks, and of each its document's place in the catalogue and its number."""

    scan: _core.LineScan
    rank: Int64Array
    chunk: Int64Array
    begin: Int64Array  # of its text in that of the document


def rendered_scan(
    live: Live, matcher: Matcher, ranks: Int64Array, most: int
) -> RenderedScan | None:
    """The lines of the rendered texts of the documents at these places of the catalogue."""
    assert matcher.program is not None
    sources: list[_core.Container | bytes] = []
    firsts, all_ends = [], [np.zeros(0, np.int64)]
    for rank in ranks.tolist():
        _, spot = live.catalogue[rank]
        text, ends = live.segments[spot.segment].rendered_text(spot.number)
        sources.append(text)
        all_ends.append(ends)
        firsts.append(live.segments[spot.segment].chunk_range(spot.number)[0])
    counts = np.array([len(ends) for ends in all_ends[1:]], np.int64)
    owner, end = np.repeat(np.arange(len(counts)), counts), np.concatenate(all_ends)
    begin = np.concatenate([np.zeros(1, np.int64), end[:-1]])[: len(end)]
    starts = np.cumsum(counts) - counts
    begin[starts[counts > 0]] = 0
    chunk = np.array(firsts, np.int64)[owner] + np.arange(len(end)) - starts[owner]
    places = begin.astype(np.uint64), end.astype(np.uint64)
    scan = _core.LineScan(
        matcher.program, sources, owner.astype(np.uint32), *places, most, most_unsure=BUFFER
    )
    if not _settled(scan, matcher):
        return None
    return RenderedScan(scan, ranks[owner], chunk, begin)


def in_rendered(
    live: Live,
    matcher: Matcher,
    ranks: Int64Array,
    n_documents: int,
    limit: int | None,
    skip: int,
) -> GrepResult | None:
    """The same in the rendered texts of chunks; the spans are the raw bytes that show them."""
    stop = (1 << 63) if limit is None else skip + limit
    given = rendered_scan(live, matcher, ranks, stop)
    if given is None:
        return None
    lines, matches, _ = given.scan.totals
    return GrepResult(
        tuple(_rendered_lines(live, given, skip, stop)),
        lines,
        matches,
        len(np.unique(given.rank[given.scan.matched() != 0])),
        len(ranks),
        n_documents,
        shown(matcher.needed),
    )


def _rendered_lines(live: Live, given: RenderedScan, skip: int, stop: int) -> list[GrepLine]:
    owner, _, begin, end, first, begins, stops = (
        column.tolist() for column in given.scan.page(skip, stop)
    )
    matches = list(zip(begins, stops, strict=True))
    found = []
    for i, row in enumerate(owner):
        document, spot = live.catalogue[int(given.rank[row])]
        segment, number = live.segments[spot.segment], int(given.chunk[row])
        chunk, raw = segment.stored_chunk(number), segment.raw(spot.number)
        raw_map, text = rendered(chunk, raw)
        span = raw_span(chunk, raw_map, len(text), (begin[i], end[i]))
        spans = [
            raw_span(chunk, raw_map, len(text), match) for match in matches[first[i] : first[i + 1]]
        ]
        line = chunk.lines[0] + bytes(raw[chunk.span[0] : spans[0][0]]).count(b"\n")
        name = segment.chunk_ids[number]
        found.append(GrepLine(document.id, document.path, line, span, tuple(spans), name))
    return found


def _in_utf8(live: Live, rank: int) -> bytes:
    document, spot = live.catalogue[rank]
    raw = bytes(live.segments[spot.segment].raw(spot.number))
    return raw.decode(document.encoding).encode("utf-8", "surrogatepass")


def _lines(
    live: Live, ranks: Int64Array, scan: _core.LineScan, skip: int, stop: int
) -> list[GrepLine]:
    owner, number, begin, end, first, begins, stops = (
        column.tolist() for column in scan.page(skip, stop)
    )
    matches = list(zip(begins, stops, strict=True))
    found = []
    for i, row in enumerate(owner):
        rank = int(ranks[row])
        document, spot = live.catalogue[rank]
        segment = live.segments[spot.segment]
        span, spans = (begin[i], end[i]), matches[first[i] : first[i + 1]]
        if live.places.utf16[rank]:
            span, spans = of_utf16(document, _in_utf8(live, rank), span, spans)
        chunk = chunk_at(segment, spot.number, spans[0][0])
        name = segment.chunk_ids[chunk] if chunk >= 0 else ""
        found.append(GrepLine(document.id, document.path, number[i], span, tuple(spans), name))
    return found
