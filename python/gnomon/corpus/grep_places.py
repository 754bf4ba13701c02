"""Where the matches of a search lie in a document, and how what it asked for reads."""

from __future__ import annotations

from bisect import bisect_right

from .literals import Tree
from .model import Chunk, Document, Span
from .rawmap import locate_many
from .segment import Segment
from .stored import StoredChunk


def of_utf16(
    document: Document, text: bytes, span: Span, matches: list[Span]
) -> tuple[Span, list[Span]]:
    """Bytes of a text in UTF-8 as those of the document that it was."""
    places = sorted({*span, *(place for match in matches for place in match)})
    at = {
        place: len(text[:place].decode("utf-8", "surrogatepass").encode(document.encoding))
        for place in places
    }
    return (at[span[0]], at[span[1]]), [(at[begin], at[stop]) for begin, stop in matches]


def chunk_at(segment: Segment, doc: int, place: int) -> int:
    """The chunk that holds a raw byte, -1 in a document without chunks."""
    first, last = segment.chunk_range(doc)
    if first == last:
        return -1
    starts = segment.chunk_start[first:last]
    return first + max(bisect_right(starts, place) - 1, 0)


def raw_span(chunk: StoredChunk | Chunk, raw_map: bytes, width: int, span: Span) -> Span:
    """The raw bytes that show bytes of a chunk's text, which has `width`; an empty span stays
    one.
    """
    start, end = span
    if start == end == width:
        return chunk.span[1], chunk.span[1]
    begin, stop = locate_many(raw_map, [(start, max(end, start + 1))])[0]
    return chunk.span[0] + begin, chunk.span[0] + (stop if end > start else begin)


def shown(tree: Tree) -> str:
    """A tree as a reader may see it.

    >>> shown(("all", [b"allow", ("any", [b"one", b"two"])]))
    'allow AND (one OR two)'
    """
    if isinstance(tree, bytes):
        return tree.decode("utf-8", "replace")
    kind, parts = tree
    inner = [f"({shown(p)})" if isinstance(p, tuple) and len(p[1]) > 1 else shown(p) for p in parts]
    return f" {'AND' if kind == 'all' else 'OR'} ".join(inner)
