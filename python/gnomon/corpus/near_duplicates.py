"""Texts that are nearly the same, found exactly and without comparing all pairs.

Two texts are near when the Jaccard similarity of their sets of shingles (runs of five words) is at
least a threshold; clusters are what such pairs connect. Candidates come from prefix filtering
(Bayardo, Ma and Srikant, WWW 2007): with the shingles of every text in one order, rare ones first,
two texts of similarity t or more share one among the first n - ceil(t n) + 1 of the larger one's n.
Each candidate is then compared set by set, so nothing is missed and nothing is guessed. Texts that
are in one cluster already are not compared again.

>>> base = "one two three four five six seven eight nine ten eleven twelve"
>>> near_duplicates([base, "something else", base + " thirteen"], 0.8)
[0, 1, 0]
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

WIDTH = 5  # words of a shingle
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, so that the mixing of hashes is one to one

Shingles = npt.NDArray[np.uint64]


def near_duplicates(texts: Sequence[str], threshold: float = 0.9) -> list[int]:
    """For each text the number of the first text of its cluster; its own when it is that.

    Raises ValueError unless 0 < threshold <= 1.
    """
    if not 0.0 < threshold <= 1.0:
        raise ValueError(f"threshold must be in (0, 1], got {threshold}")
    clusters = _Clusters(len(texts))
    sets = shingles_of(texts)
    kept = []  # one text of each set
    first: dict[bytes, int] = {}
    for number, own in enumerate(sets):
        same = first.setdefault(own.tobytes(), number)
        if same == number:
            kept.append(number)
        clusters.join(same, number)
    for one, other in _candidates([sets[number] for number in kept], threshold):
        a, b = kept[one], kept[other]
        if clusters.find(a) != clusters.find(b) and jaccard(sets[a], sets[b]) >= threshold:
            clusters.join(a, b)
    return [clusters.find(number) for number in range(len(texts))]


def shingles_of(texts: Sequence[str]) -> list[Shingles]:
    """The hashed shingles of each text, ascending, each once.

    Words are what white space separates, without regard to case; a text of less than five words is
    one shingle.
    """
    numbers: dict[str, int] = {}
    words = [
        [numbers.setdefault(word, len(numbers) + 1) for word in text.casefold().split()]
        for text in texts
    ]
    flat = np.array([word for own in words for word in [*own, *[0] * WIDTH]], np.uint64)
    hashes = np.zeros(max(len(flat) - WIDTH + 1, 0), np.uint64)
    for step in range(WIDTH):
        hashes = _mixed(hashes ^ flat[step : step + len(hashes)])
    found, at = [], 0
    for own in words:
        count = max(len(own) - WIDTH + 1, 1)
        found.append(np.unique(hashes[at : at + count]))
        at += len(own) + WIDTH
    return found


def _mixed(values: Shingles) -> Shingles:
    spread: Shingles = (values ^ (values >> np.uint64(31))) * _MULTIPLIER
    mixed: Shingles = spread ^ (spread >> np.uint64(29))
    return mixed


def jaccard(one: Shingles, other: Shingles) -> float:
    """The shared part of two sets, ascending arrays, of what either holds."""
    both = np.concatenate([one, other])
    both.sort()
    shared = int((both[1:] == both[:-1]).sum())
    return shared / (len(both) - shared)


def _candidates(sets: list[Shingles], threshold: float) -> Iterator[tuple[int, int]]:
    """Pairs that share a shingle of their prefixes and whose sizes allow the similarity."""
    if not sets:
        return
    _, ranks, counts = np.unique(np.concatenate(sets), return_inverse=True, return_counts=True)
    order = np.argsort(np.argsort(counts, kind="stable"), kind="stable")[ranks.reshape(-1)]
    groups: dict[int, list[int]] = {}
    at = 0
    for number, own in enumerate(sets):
        n = len(own)
        mine = np.sort(order[at : at + n])
        at += n
        # Rounding must not lose a pair, so a hair less is asked for.
        for rank in mine[: n - math.ceil(threshold * n - 1e-9) + 1].tolist():
            groups.setdefault(rank, []).append(number)
    sizes = [len(own) for own in sets]
    for group in groups.values():
        if len(group) == 1:
            continue
        group.sort(key=sizes.__getitem__)
        for place, one in enumerate(group):
            most = sizes[one] / threshold + 1e-9
            for other in group[place + 1 :]:
                if sizes[other] > most:
                    break
                yield one, other


class _Clusters:
    """Disjoint sets whose name is their least member."""

    def __init__(self, n: int) -> None:
        self._above: list[Any] = list(range(n))

    def find(self, number: int) -> int:
        above = self._above
        while above[number] != number:
            above[number] = above[above[number]]
            number = above[number]
        return number

    def join(self, one: int, other: int) -> None:
        a, b = self.find(one), self.find(other)
        self._above[max(a, b)] = min(a, b)
