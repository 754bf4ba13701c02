"""Lines of raw text that match, found by the compiled core; RE2 judges the few that it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _core
from .columns_io import Int64Array
from .grep_places import chunk_at, of_utf16, shown
from .grep_scan import BUFFER, spans_of
from .live import Live
from .snapshot_model import GrepLine, GrepResult

if TYPE_CHECKING:
    from .grep import Matcher


def by_program(
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
    scan = _core.LineScan(matcher.program, sources, source, begin, end, stop)
    unsure = scan.unsure()
    if unsure:
        if len(unsure) > BUFFER or matcher.regex is None:
            return None
        scan.settle(*spans_of(matcher.regex)(unsure))
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
