r"""Complete search for lines: the trigram index says where to look; who looks finds what RE2 finds.

Most patterns are compiled (`gnomon.corpus.line_program`) and looked for by the core; RE2 judges the
lines and the patterns that this leaves.

Lines are what ripgrep takes for lines: what stands between line feeds. A match never spans one:
RE2 is told so (``never_nl``, under which ``\s`` and ``[^a]`` do not match it either), and ``^`` and
``$`` stand at the ends of lines. ``\d``, ``\s`` and ``\w`` are those of Unicode
(`gnomon.corpus.perl_classes`). A byte order mark is not part of the first line, and UTF-16 is
searched as the text that it encodes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .columns_io import Int64Array
from .grep_joined import in_joined_raw, in_joined_rendered
from .grep_places import chunk_at, of_utf16, raw_span, shown
from .grep_program import in_raw, in_rendered, rendered_scan
from .grep_scan import joinable, matches_of
from .line_program import line_program
from .literals import EVERYTHING, Tree, required_literals
from .live import Live
from .model import Chunk, Document, Span
from .perl_classes import unicode_classes
from .segment import Segment
from .snapshot_model import GrepLine, GrepResult
from .trigrams import Trigrams

_BOM = b"\xef\xbb\xbf"
_MEMORY = 16 << 20  # bytes that RE2 may use for its automaton: it fills them in 0.1 s at most
_PATTERN_MOST = 10_000  # characters
_CLASSES_MOST = 250  # each may be a thousand instructions of RE2
_BLIND_MOST = 30_000  # instructions that RE2 may run everywhere; twenty \w side by side are 27,924
_SCREENED_MOST = 16  # literals
_CLASS = re.compile(r"\\[dDsSwWpP]")


class _Found(NamedTuple):
    """A line that matches, in bytes of what was searched."""

    number: int  # from 1
    span: Span
    matches: list[Span]


class Matcher:
    """A pattern, ready to be looked for."""

    def __init__(self, pattern: str, literal: bool = False, ignore_case: bool = False) -> None:
        if not isinstance(pattern, str):
            raise TypeError(f"pattern must be a str, got a {type(pattern).__name__}")
        if len(pattern) > _PATTERN_MOST:
            raise ValueError(
                f"pattern must have at most {_PATTERN_MOST:,} characters, got {len(pattern):,}"
            )
        self._needle = pattern.encode("utf-8", "surrogatepass")
        self._asked = pattern, literal, ignore_case
        self._plain = literal and not ignore_case
        self.joinable = not literal and joinable(pattern)
        self.program = line_program(pattern, literal, ignore_case)
        if self._plain:
            self.needed: Tree = self._needle if len(self._needle) > 2 else EVERYTHING
            return
        if not literal:
            _check_classes(pattern)
        if self.program is None:
            _ = self.regex  # says what is wrong with it
        if literal:
            alone = pattern.isascii() and len(pattern) > 2
            self.needed = self._needle if alone else EVERYTHING
        else:
            self.needed = required_literals(pattern, ignore_case)
        if self.blind:
            _check_size(pattern, self.regex)

    def may_match(self, data: bytes) -> bool:
        """Whether bytes hold what a match needs; much cheaper than to look for one."""
        if self._plain:
            return self._needle in data
        if self._of_many:
            return True  # to look for so many takes longer than RE2 does
        return self.needed == EVERYTHING or _held(self.needed, _core.trigram_fold(data))

    @cached_property
    def regex(self) -> Any:
        """The compiled pattern; None for a literal that is searched as bytes."""
        return None if self._plain else _compiled(*self._asked)

    @cached_property
    def _of_many(self) -> bool:
        return _literals(self.needed) > _SCREENED_MOST

    @property
    def blind(self) -> bool:
        """Whether only RE2 can look for it, and everywhere."""
        return self.program is None and self.needed == EVERYTHING

    def matches(self, data: bytes) -> bool:
        """Whether a line matches."""
        if self.regex is not None and not data.startswith(_BOM):
            found = self.regex.search(data)
            if found is None or found.start() < len(data):
                return found is not None
        return next(self.lines(data), None) is not None  # at the end there may be no line

    def lines(self, data: bytes) -> Iterator[_Found]:
        """The lines that match, in order."""
        start = 3 if data.startswith(_BOM) else 0
        number, line, end = 1, start, -1
        matches: list[Span] = []
        for begin, stop in self._spans(data, start):
            if begin > end:
                if matches:
                    yield _Found(number, (line, end), matches)
                    matches = []
                number += data.count(b"\n", line, begin)
                line = max(data.rfind(b"\n", line, begin) + 1, line)
                end = data.find(b"\n", begin)
                end = len(data) if end < 0 else end
                if begin == len(data) and (begin == start or data.endswith(b"\n")):
                    return  # there is no line behind the last line feed
            matches.append((begin, stop))
        if matches:
            yield _Found(number, (line, end), matches)

    def _spans(self, data: bytes, start: int) -> Iterator[Span]:
        if self.regex is not None:
            for begin, stop in matches_of(self.regex, data[start:] if start else data):
                yield begin + start, stop + start
            return
        needle = self._needle
        if b"\n" in needle:
            return
        step = max(len(needle), 1)
        at = data.find(needle, start)
        while at >= 0:
            yield at, at + len(needle)
            at = data.find(needle, at + step)


def _check_classes(pattern: str) -> None:
    found = len(_CLASS.findall(pattern))
    if found > _CLASSES_MOST:
        raise ValueError(
            f"pattern has at most {_CLASSES_MOST} classes such as \\w, got {found:,} in "
            f"{pattern[:40]!r}; write it with repeats, or make it smaller"
        )


def _check_size(pattern: str, regex: Any) -> None:
    """What must be run over all text is small: time goes with the size of its automaton."""
    size = getattr(regex, "programsize", 0)
    if size > _BLIND_MOST:
        raise ValueError(
            "pattern that holds no three characters which must stand side by side compiles to at "
            f"most {_BLIND_MOST:,} instructions, got {size:,} for {pattern[:40]!r}; give it three "
            "literal characters, or make it smaller"
        )


def _literals(needed: Tree) -> int:
    return 1 if isinstance(needed, bytes) else sum(map(_literals, needed[1]))


def _held(needed: Tree, folded: bytes) -> bool:
    if isinstance(needed, bytes):
        return _core.trigram_fold(needed) in folded
    kind, parts = needed
    return (all if kind == "all" else any)(_held(part, folded) for part in parts)


@lru_cache(maxsize=64)
def _compiled(pattern: str, literal: bool, ignore_case: bool) -> Any:
    try:
        import re2
    except ImportError as error:
        raise ImportError(
            "regular expressions need google-re2: pip install 'gnomon[corpus]'"
        ) from error
    options = re2.Options()
    options.log_errors = False
    options.never_nl = True
    options.never_capture = True  # the whole match is all that is asked for
    options.max_mem = _MEMORY
    text = re2.escape(pattern) if literal else unicode_classes(pattern)
    flags = "(?im)" if ignore_case else "(?m)"
    try:
        return re2.compile((flags + text).encode("utf-8", "surrogatepass"), options=options)
    except re2.error as error:
        reason = error.args[0] if error.args else "not a regular expression"
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
        raise ValueError(f"pattern is not one of RE2: {reason}; escape signs with \\") from None


def grep(
    live: Live,
    pattern: str,
    *,
    literal: bool,
    ignore_case: bool,
    raw: bool,
    documents: Collection[str] | None,
    limit: int | None,
    skip: int,
    matches_most: int | None = None,
) -> GrepResult:
    """See :meth:`gnomon.corpus.snapshot.Snapshot.grep`."""
    matcher = Matcher(pattern, literal, ignore_case)
    ranks = _candidates(live, matcher, documents)
    n_documents = live.n_documents if documents is None else len(frozenset(documents))
    if matcher.program is not None:
        look_in = in_raw if raw else in_rendered
        result = look_in(live, matcher, ranks, n_documents, limit, skip)
        if result is not None:
            return result
    found = [live.catalogue[rank] for rank in ranks.tolist()]
    if matcher.joinable and matcher.regex is not None:
        given = (live, matcher, found, n_documents, limit, skip, matches_most)
        return in_joined_raw(*given) if raw else in_joined_rendered(*given)
    lines: list[GrepLine] = []
    total_lines = total_matches = total_documents = scanned = 0
    last = None if limit is None else skip + limit
    for document, spot in found:
        scanned += 1
        segment = live.segments[spot.segment]
        seen = total_lines
        look = _raw_lines if raw else _rendered_lines
        for line, span, matches, chunk in look(matcher, segment, spot.number, document):
            total_lines += 1
            total_matches += len(matches)
            if total_lines > skip and (last is None or total_lines <= last):
                chunk = chunk_at(segment, spot.number, matches[0][0]) if chunk < 0 else chunk
                name = segment.chunk_ids[chunk] if chunk >= 0 else ""
                lines.append(GrepLine(document.id, document.path, line, span, tuple(matches), name))
        total_documents += total_lines > seen
    return GrepResult(
        tuple(lines),
        total_lines,
        total_matches,
        total_documents,
        scanned,
        n_documents,
        shown(matcher.needed),
    )


def _candidates(live: Live, matcher: Matcher, documents: Collection[str] | None) -> Int64Array:
    """The places in the catalogue of the documents that may match, ascending."""
    masks = Trigrams(live).masks(matcher.needed)
    if documents is not None:
        chosen = [np.zeros(len(mask), np.bool_) for mask in masks]
        for spot in filter(None, map(live.document, documents)):
            chosen[spot.segment][spot.number] = True
        masks = [mask & only for mask, only in zip(masks, chosen, strict=True)]
    ranks = [rank[mask] for rank, mask in zip(live.ranks, masks, strict=True)]
    return np.sort(np.concatenate([np.zeros(0, np.int64), *ranks]))


_Lines = Iterator[tuple[int, Span, list[Span], int]]  # line, span, matches, chunk or -1


def _raw_lines(matcher: Matcher, segment: Segment, doc: int, document: Document) -> _Lines:
    data = bytes(segment.raw(doc))
    if not document.encoding.startswith("utf-16"):
        for found in matcher.lines(data):
            yield found.number, found.span, found.matches, -1
        return
    text = data.decode(document.encoding).encode("utf-8", "surrogatepass")
    for found in matcher.lines(text):
        yield found.number, *of_utf16(document, text, found.span, found.matches), -1


def _rendered_lines(matcher: Matcher, segment: Segment, doc: int, document: Document) -> _Lines:
    data: bytes | None = None
    for number, chunk, raw_map, text in segment.rendered_chunks(doc):
        if not matcher.may_match(text):
            continue
        for found in matcher.lines(text):
            if data is None:
                data = bytes(segment.raw(doc))
            span = raw_span(chunk, raw_map, len(text), found.span)
            matches = [raw_span(chunk, raw_map, len(text), match) for match in found.matches]
            before = data.count(b"\n", chunk.span[0], matches[0][0])
            yield chunk.lines[0] + before, span, matches, number


def rendered_matches(matcher: Matcher, chunk: Chunk, most: int) -> list[Span]:
    """The raw bytes that show the first matches in a chunk's text."""
    text = chunk.text.encode("utf-8", "surrogatepass")
    spans = (span for found in matcher.lines(text) for span in found.matches)
    return [raw_span(chunk, chunk.raw_map, len(text), span) for span in islice(spans, most)]


def matching_chunks(live: Live, matcher: Matcher) -> Int64Array:
    """See :meth:`gnomon.corpus.snapshot.Snapshot.matching`."""
    found: list[int] = []
    ranks = _candidates(live, matcher, None)
    given = rendered_scan(live, matcher, ranks, 0) if matcher.program is not None else None
    if given is not None:
        matched = np.flatnonzero(given.scan.matched())
        owners = zip(given.rank[matched].tolist(), given.chunk[matched].tolist(), strict=True)
        spots = [(live.catalogue[rank][1].segment, chunk) for rank, chunk in owners]
        return np.array([int(live.segments[s].cids[chunk]) for s, chunk in spots], np.int64)
    for rank in ranks.tolist():
        _, spot = live.catalogue[rank]
        segment = live.segments[spot.segment]
        for number, _, _, text in segment.rendered_chunks(spot.number):
            if matcher.may_match(text) and matcher.matches(text):
                found.append(int(segment.cids[number]))
    return np.array(found, np.int64)
