"""Answers that fit: no answer is larger than asked for, and a cursor continues where one ends."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from .answers import Answer, Item, Line, Problem, Report

BYTES_PER_TOKEN = 4
_ROOM = 260  # bytes kept for what is known last: cursor, counts, budget
_TEXT_SHORT = 160
_encode = msgspec.json.encode


def tokens_of(data: bytes) -> int:
    """What JSON is counted as: a quarter of its bytes, rounded up."""
    return math.ceil(len(data) / BYTES_PER_TOKEN)


def cursor_of(generation: int, key: str, offset: int) -> str:
    """Where the next page begins, good for this generation and question only.

    >>> cursor_of(3, "ab", 20), offset_of("3-20-ab", 3, "ab")
    ('3-20-ab', 20)
    """
    return f"{generation}-{offset}-{key}"


class CursorError(ValueError):
    """A cursor that fits neither this question nor this generation; `code` says which."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def offset_of(cursor: str, generation: int, key: str) -> int:
    """The offset in a cursor; 0 without one. Raises CursorError."""
    if not cursor:
        return 0
    parts = cursor.split("-")
    numeric = all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts[:2])
    if len(parts) != 3 or not numeric:
        raise CursorError("cursor_invalid", "this is no cursor of an answer")
    if parts[2] != key:
        raise CursorError("cursor_invalid", "the cursor belongs to another question")
    if int(parts[0]) != generation:
        raise CursorError(
            "cursor_stale", f"the cursor is of generation {parts[0]}, now is {generation}"
        )
    return int(parts[1])


def digest(*parts: bytes) -> str:
    """Eight bytes of blake2b, in hexadecimal."""
    return hashlib.blake2b(b"\0".join(parts), digest_size=8).hexdigest()


def fitted(
    report: Report,
    items: Iterable[Item],
    lines: Iterable[Line],
    n: int,
    max_tokens: int,
    next_cursor: Callable[[int], str],
    more_behind: bool,
) -> Answer:
    """As many items (or lines) as fit, and the report, in `max_tokens`.

    `n` is how many items or lines are given; `next_cursor` makes the cursor behind the first so
    many of them; `more_behind` says that there are others even if all of these fit. The first item
    is cut down until it fits: a page is never empty while there is something to show.
    """
    widest, left = _widest(report, max_tokens)
    kept: list[Item] = []
    for item in items:
        item, size = _sized(item, left, first=not kept)
        if size > left:
            break
        kept.append(item)
        left -= size
    kept_lines: list[Line] = []
    for line in lines:
        size = len(_encode(line)) + 1
        if size > left:
            break
        kept_lines.append(line)
        left -= size
    shown = len(kept) + len(kept_lines)
    cursor = next_cursor(shown) if more_behind or shown < n else ""
    if not shown and n:
        cursor = next_cursor(1)  # what fits nowhere is passed over, and said
        widest = replace(widest, trimmed=(*widest.trimmed, "item"))
    report = replace(widest, cursor=cursor, returned=shown)
    return measured(Answer(report, kept, kept_lines), max_tokens)


def room_for(report: Report, max_tokens: int) -> int:
    """How many bytes of items `fitted` will have room for beside this report."""
    return _widest(report, max_tokens)[1]


def _widest(report: Report, max_tokens: int) -> tuple[Report, int]:
    """The report without what is known last, cut down if it must be, and the bytes it leaves."""
    limit = max_tokens * BYTES_PER_TOKEN
    widest = replace(
        report, cursor="", budget=replace(report.budget, tokens=0, of=max_tokens, ms=0.0)
    )
    widest = trimmed_report(widest, int(limit * 0.7) - _ROOM)
    return widest, limit - len(_encode(Answer(widest))) - _ROOM


def measured(answer: Answer, max_tokens: int) -> Answer:
    """The answer with its own size in it."""
    report = answer.report
    use = replace(report.budget, tokens=max_tokens, of=max_tokens)
    guess = Answer(replace(report, budget=use), answer.items, answer.lines)
    use = replace(use, tokens=tokens_of(_encode(guess)))
    return Answer(replace(report, budget=use), answer.items, answer.lines)


def _sized(item: Item, left: int, first: bool) -> tuple[Item, int]:
    """The item and its size, cut down if it is the first and does not fit."""
    size = len(_encode(item)) + 1
    if size <= left or not first:
        return item, size
    for cut in (_without_links, _short, _bare, _least, _place):
        item = cut(item)
        size = len(_encode(item)) + 1
        if size <= left:
            break
    return item, size


def _without_links(item: Item) -> Item:
    return replace(item, entities=item.entities[:2], related=item.related[:2], cut=True)


def _short(item: Item) -> Item:
    at = item.marks[0][0] if item.marks else 0
    at = min(at, max(len(item.excerpt) - _TEXT_SHORT, 0))
    marks = tuple((a - at, b - at) for a, b in item.marks if at <= a and b <= at + _TEXT_SHORT)
    return replace(
        _without_links(item),
        entities=(),
        related=(),
        excerpt=item.excerpt[at : at + _TEXT_SHORT],
        marks=marks[:3],
        matches=item.matches[:3],
    )


def _bare(item: Item) -> Item:
    score = None if item.score is None else replace(item.score, parts=())
    return replace(
        _short(item), excerpt="", marks=(), heading=(), revision="", url="", score=score, matches=()
    )


def _least(item: Item) -> Item:
    return replace(_place(item), edge=item.edge)


def _place(item: Item) -> Item:
    return Item(
        item.chunk_id,
        item.source[:40],
        item.path[-60:],
        item.span,
        relaxed=item.relaxed,
        new=item.new,
        cut=True,
    )


def trimmed_report(report: Report, limit: int) -> Report:
    """The report without its least needed parts, until it fits; what went is named."""
    for name, shorter in (
        ("plan", lambda r: replace(r, plan=())),
        ("notes", lambda r: replace(r, notes=r.notes[:1])),
        ("terms", lambda r: replace(r, terms=_rarest(r, 8))),
        ("query", lambda r: replace(r, query=r.query[:120])),
        ("why", lambda r: replace(r, why=r.why[:1])),
        ("no_hit", _short_no_hit),
        ("fallbacks", lambda r: replace(r, fallbacks=_short_fallbacks(r))),
        ("filters_applied", lambda r: replace(r, filters_applied=())),
        ("terms", lambda r: replace(r, terms=_rarest(r, 2))),
        ("notes", lambda r: replace(r, notes=())),
        ("confidence", lambda r: replace(r, confidence=())),
        ("no_hit", _least_no_hit),
        ("terms", lambda r: replace(r, terms=())),
        ("why", lambda r: replace(r, why=())),
        ("fallbacks", lambda r: replace(r, fallbacks=())),
        ("problem", _short_problem),
        ("query", lambda r: replace(r, query="")),
        ("counts", lambda r: replace(r, counts={})),
    ):
        if len(_encode(report)) <= limit:
            break
        less = shorter(report)
        if less != report:
            gone = report.trimmed if name in report.trimmed else (*report.trimmed, name)
            report = replace(less, trimmed=gone)
    return report


def _rarest(report: Report, n: int) -> tuple:  # type: ignore[type-arg]
    """The n terms that say most, in their order."""
    best = sorted(range(len(report.terms)), key=lambda i: (report.terms[i].df, i))[:n]
    return tuple(report.terms[i] for i in sorted(best))


def _short_no_hit(report: Report) -> Report:
    if report.no_hit is None:
        return report
    no_hit = replace(
        report.no_hit,
        clauses=tuple(replace(each, clause=each.clause[:80]) for each in report.no_hit.clauses[:4]),
        nearest=report.no_hit.nearest[:3],
        guilty=tuple(each[:80] for each in report.no_hit.guilty[:4]),
    )
    return replace(report, no_hit=no_hit)


def _least_no_hit(report: Report) -> Report:
    if report.no_hit is None:
        return report
    guilty = tuple(each[:40] for each in report.no_hit.guilty[:2])
    return replace(
        report, no_hit=replace(report.no_hit, clauses=(), nearest=(), guilty=guilty, advice="")
    )


def _short_fallbacks(report: Report) -> tuple:  # type: ignore[type-arg]
    return tuple(replace(each, query=each.query[:80], why="") for each in report.fallbacks)


def _short_problem(report: Report) -> Report:
    if report.problem is None:
        return report
    return replace(report, problem=Problem(report.problem.code, report.problem.message[:120]))
