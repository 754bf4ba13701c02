"""Where a query's positive parts stand in a document: token positions, and characters of its text.

A term (prefix, fuzzy) stands wherever one of its tokens does. A phrase without slop stands from its
first to its last token. Of a sloppy phrase and of a near, every token counts that takes part in at
least one occurrence. What stands under `Not` and `must_not` marks nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence

from . import _core
from .analysis import Span

__all__ = ["Ranges", "character_spans", "matched_ranges"]

# First and last token position of each match, ascending, each once.
Ranges = list[tuple[int, int]]
PositionsOf = Callable[[_core.QueryNode], list[int]]

_WHOLE = 2**40  # a slop or window beyond every document


def matched_ranges(node: _core.QueryNode, field: int, positions: PositionsOf) -> Ranges:
    """Where the positive parts of a query stand in one field of a document.

    `positions` says where the tokens of a node of single tokens stand there.
    """
    found: set[tuple[int, int]] = set()
    for leaf in _leaves(node):
        if leaf.fields and field not in leaf.fields:
            continue
        if leaf.names_tokens:
            found.update((place, place) for place in positions(leaf))
        elif leaf.children:
            found.update(_placed(leaf, positions))
    return sorted(found)


def character_spans(ranges: Ranges, spans: Sequence[Span]) -> list[tuple[int, int]]:
    """The characters of these token positions, ascending; overlapping and touching ones as one."""
    places = sorted(
        (
            min(span.start for span in spans[first : last + 1]),
            max(span.end for span in spans[first : last + 1]),
        )
        for first, last in ranges
    )
    merged: list[tuple[int, int]] = []
    for start, end in places:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _leaves(node: _core.QueryNode) -> Iterator[_core.QueryNode]:
    """Terms, phrases and nears that count, in written order."""
    if node.kind == "boolean":
        for part in (*node.children, *node.should):
            yield from _leaves(part)
    elif node.kind not in ("all", "docs"):
        yield node


def _placed(leaf: _core.QueryNode, positions: PositionsOf) -> Iterator[tuple[int, int]]:
    """Ranges of a phrase or near."""
    parts = [part.children if part.kind == "phrase" else [part] for part in leaf.children]
    if leaf.kind == "phrase" and leaf.slop == 0:
        for start in _starts(leaf.children, positions):
            yield start, start + len(leaf.children) - 1
        return
    lists = [_starts(tokens, positions) for tokens in parts]
    lengths = [len(tokens) for tokens in parts]
    width = min(leaf.slop, _WHOLE)
    reach = width + len(parts)
    fits = _fit(leaf, lengths, width)
    if not all(lists):
        return
    for i, own in enumerate(lists):
        for start in own:
            near = [
                other[bisect_left(other, start - reach) : bisect_right(other, start + reach)]
                for other in lists
            ]
            near[i] = [start]
            if all(near) and fits(near):
                yield start, start + lengths[i] - 1


def _fit(
    leaf: _core.QueryNode, lengths: list[int], width: int
) -> Callable[[list[list[int]]], bool]:
    if leaf.ordered:
        return lambda lists: _core.fit_order(lists, lengths, width)
    if leaf.kind == "phrase":
        offsets, slacks = list(range(len(lengths))), [width] * len(lengths)
    else:
        offsets, slacks = [0] * len(lengths), [width - length + 1 for length in lengths]
    return lambda lists: _core.fit_window(lists, offsets, slacks)


def _starts(tokens: Sequence[_core.QueryNode], positions: PositionsOf) -> list[int]:
    """Where the tokens stand one after the other."""
    starts = set(positions(tokens[0]))
    for i, token in enumerate(tokens[1:], 1):
        if not starts:
            break
        starts &= {place - i for place in positions(token)}
    return sorted(starts)
