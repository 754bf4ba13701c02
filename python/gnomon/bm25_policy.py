"""Which adjacent segments to merge, so that there are few and each document is seldom rewritten."""

from __future__ import annotations

from collections.abc import Sequence

# A segment is to hold at least as many times the documents of the next one...
_FALL = 2
# ...and this part of its documents at most may be deleted: every search pays for those.
_DEAD_MOST = 0.08


def merges(sizes: Sequence[int], dead: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges [first, last) of segments to rewrite as one, from left to right.

    `sizes` are live documents, `dead` deleted ones. After it each segment holds at least twice the
    documents of its successor, so there are at most log2(documents) + 1. When a merge takes a
    segment in, what it makes is at least 1.5 times as large, except for the last segment, which
    came just now: so a document is rewritten at most 1 + log1.5(documents / documents of the edit
    that brought it) times by merges, and a share of it for each deletion.

    >>> merges([1000, 5], [0, 0])
    []
    >>> merges([1000, 20, 10, 8], [0, 0, 0, 0])
    [(1, 4)]
    >>> merges([1000, 100], [500, 0])
    [(0, 1)]
    """
    groups: list[tuple[int, int, int]] = []  # first, last, live documents
    for place, size in enumerate(sizes):
        first, total = place, size
        while groups and groups[-1][2] < _FALL * total:
            first, _, before = groups.pop()
            total += before
        groups.append((first, place + 1, total))
    return [
        (first, last)
        for first, last, _ in groups
        if last - first > 1 or dead[first] > _DEAD_MOST * (sizes[first] + dead[first])
    ]
