"""`gnomon search`: ranked passages with their origin, for people and, with --json, for machines."""

from __future__ import annotations

import json
import re
import sys
import textwrap
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from .cli_common import user_errors, visible

if TYPE_CHECKING:
    from .bm25 import BM25Index
    from .passage_store import Passage, Passages

SNIPPET_SIZE = 420
_MATCH_STYLE = "bold yellow"
_WHITE_SPACE = re.compile(r"\s+")

Spans = list[tuple[int, int]]
Segment = tuple[str, bool]  # a piece of text, and whether it is a match


@dataclass(frozen=True)
class Hit:
    """One result; `matches` are the matched words, code points in `passage.text`."""

    rank: int
    score: float
    passage: Passage
    matches: Spans


class Opened:
    """An index directory with its postings and its passages."""

    def __init__(self, path: str) -> None:
        from .bm25 import BM25Index
        from .passage_store import Passages
        from .storage import Directory

        directory = Directory.open(path)
        self.passages: Passages = Passages(directory)
        self.bm25: BM25Index = BM25Index.read_part(directory)
        has_words = "vocabulary.slots" in directory.container("bm25", "postings")
        if self.bm25.analyzer is None or not has_words:
            raise ValueError(f"{path}: made of tokens, not of text; make it with `gnomon index`")
        self.analyzer = self.bm25.analyzer
        if directory.meta("bm25")["ids"] != "position":
            raise ValueError(f"{path}: its ids are not those of passages; index again")
        if len(self.bm25) != len(self.passages):
            raise ValueError(
                f"{path}: {len(self.bm25)} documents but {len(self.passages)} passages; index again"
            )

    def search(self, query: str, k: int) -> list[Hit]:
        """The `k` best passages."""
        terms = frozenset(self.analyzer.query_tokens(query))
        ids, scores = self.bm25.search(query, k)
        hits = []
        for rank, (number, score) in enumerate(zip(ids, scores, strict=True), 1):
            passage = self.passages[int(number)]
            matches = self.analyzer.match_spans(passage.text, terms)
            hits.append(Hit(rank, float(score), passage, matches))
        return hits


@click.command(short_help="Search an index.")
@click.argument("index_path", metavar="INDEX", type=click.Path(path_type=str))
@click.argument("query")
@click.option("-k", default=10, show_default=True, type=click.IntRange(min=1), help="Hits at most.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, scores exact.")
def search(index_path: str, query: str, k: int, as_json: bool) -> None:
    """Print the k passages of INDEX that match QUERY best, ranked by BM25.

    With --json: {"query", "took_ms", "hits": [{"rank", "score", "source", "id", "line", "start",
    "end", "text", "matches"}]}. start and end are code points in the source, matches in text.
    """
    with user_errors():
        opened = Opened(index_path)
        began = time.perf_counter()
        hits = opened.search(query, k)
        took_ms = (time.perf_counter() - began) * 1e3
    if as_json:
        found = {"query": query, "took_ms": took_ms, "hits": [as_dict(hit) for hit in hits]}
        click.echo(json.dumps(found))
    elif not hits:
        click.echo(f"no passage contains a word of {visible(query)!r}")
    else:
        print_hits(hits)


def as_dict(hit: Hit) -> dict[str, Any]:
    """A hit as plain JSON types."""
    passage = hit.passage
    return {
        "rank": hit.rank,
        "score": hit.score,
        "source": passage.path,
        "id": passage.id,
        "line": passage.line or None,
        "start": passage.start,
        "end": passage.end,
        "text": passage.text,
        "matches": [list(span) for span in hit.matches],
    }


def print_hits(hits: list[Hit]) -> None:
    """Prints hits for people: in colour on a terminal, else without any escape code."""
    if not sys.stdout.isatty():
        for hit in hits:
            click.echo(heading(hit))
            text = "".join(piece for piece, _ in snippet(hit.passage.text, hit.matches))
            click.echo(textwrap.indent(text, "    "))
        return
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    for hit in hits:
        console.print(Text(heading(hit), style="bold"), soft_wrap=True)
        pieces = snippet(hit.passage.text, hit.matches)
        styled = ((piece, _MATCH_STYLE if matched else "") for piece, matched in pieces)
        console.print(Padding(Text.assemble(*styled), (0, 2, 1, 4)))


def heading(hit: Hit) -> str:
    """Rank, score, source with line, record id, and the span in code points."""
    passage = hit.passage
    source = visible(passage.path) + (f":{passage.line}" if passage.line else "")
    identifier = f" {visible(passage.id)}" if passage.id else ""
    span = f"{passage.start}-{passage.end}"
    return f"{hit.rank:>2}. {hit.score:.4f}  {source}{identifier}  [{span}]"


def snippet(text: str, matches: Spans, size: int = SNIPPET_SIZE) -> list[Segment]:
    r"""The part of `text` around most of the matches, on one line, cut at white space.

    >>> snippet("one\n  two three", [(6, 9)])
    [('one ', False), ('two', True), (' three', False)]
    """
    start, end = _window(text, matches, size)
    pieces: list[Segment] = [("… ", False)] if start > 0 else []
    at = start
    for first, last in matches:
        if first >= start and last <= end:
            pieces += [(text[at:first], False), (text[first:last], True)]
            at = last
    pieces.append((text[at:end], False))
    if end < len(text):
        pieces.append((" …", False))
    return [(visible(_WHITE_SPACE.sub(" ", piece)), matched) for piece, matched in pieces if piece]


def _window(text: str, matches: Spans, size: int) -> tuple[int, int]:
    """The stretch of about `size` code points that holds most matches, the first such."""
    if len(text) <= size:
        return 0, len(text)
    best, most, last = 0, 0, 0
    for first, (start, _) in enumerate(matches):
        last = max(last, first)
        while last < len(matches) and matches[last][1] <= start + size * 3 // 4:
            last += 1
        if last - first > most:
            best, most = start, last - first
    start = min(max(0, best - size // 8), len(text) - size)
    end = start + size
    if start > 0:  # begin and end between words where there is white space near
        gap = _WHITE_SPACE.search(text, start, min(start + size // 8, best))
        start = gap.end() if gap else start
    if end < len(text):
        last_space = max(text.rfind(space, end - size // 8, end) for space in " \n")
        end = last_space if last_space > 0 else end
    return start, end
