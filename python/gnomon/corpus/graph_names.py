"""Finding entities by what they are called, exactly or nearly."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from .columns_io import decoded
from .names import TYPES, normalise
from .snapshot_model import Node

if TYPE_CHECKING:
    from .graph import Graph

_NEAREST = 200  # names that share most pairs of letters, whose distance is then computed


def find_names(graph: Graph, name: str, types: Collection[str] | None, limit: int) -> list[Node]:
    """See :meth:`Graph.find_entities`."""
    name = name.strip()
    if not name or limit <= 0:
        return []
    found: dict[str, Node] = {}
    words = {normalise(kind, name) for kind in (types or TYPES)} | {name.casefold()}
    exact = [f"{kind}:{normalise(kind, name)}" for kind in (types or TYPES)]
    nodes = _nodes(graph, [key for key in exact if ":" in key], types)
    _add(found, [node for node in nodes if name in node.names])
    _add(found, nodes)
    for by, whole in (("fold", True), ("last", True), ("fold", False)):
        if len(found) >= limit:
            break
        keys = [key for word in sorted(words) for key in _keys(graph, word, by, whole, types)]
        counts: dict[str, int] = {}
        for key, count in keys:
            if key not in found:
                counts[key] = counts.get(key, 0) + count
        best = sorted(counts, key=lambda key: (-counts[key], key))[: limit - len(found)]
        _add(found, _nodes(graph, best, types))
    return list(found.values())[:limit]


def _keys(
    graph: Graph, word: str, by: str, whole: bool, types: Collection[str] | None
) -> list[tuple[str, int]]:
    """Keys of live entities and their mentions, by segment."""
    found = []
    for number, segment in enumerate(graph._live.segments):
        counts = graph.counts[number]
        for entity in segment.graph.named(word.encode("utf-8", "surrogatepass"), by, whole):
            if counts[entity]:
                key = decoded(segment.graph.entities[entity])
                if types is None or key.partition(":")[0] in types:
                    found.append((key, int(counts[entity])))
    return found


def _nodes(graph: Graph, keys: list[str], types: Collection[str] | None) -> list[Node]:
    nodes = [node for node in map(graph.entity, keys) if node is not None]
    nodes = [node for node in nodes if types is None or node.type in types]
    return sorted(nodes, key=lambda node: (-node.mentions, node.key))


def _add(found: dict[str, Node], nodes: list[Node]) -> None:
    for node in nodes:
        found.setdefault(node.key, node)


def similar_names(graph: Graph, name: str, types: Collection[str] | None, limit: int) -> list[Node]:
    """See :meth:`Graph.similar`."""
    wanted = name.strip().casefold()
    if not wanted or limit <= 0:
        return []
    pairs = _pairs(wanted)
    scored: dict[str, tuple[float, int]] = {}
    for number, segment in enumerate(graph._live.segments):
        for entity in np.flatnonzero(graph.counts[number]).tolist():
            key = decoded(segment.graph.entities[entity])
            kind, _, word = key.partition(":")
            if (types is None or kind in types) and abs(len(word) - len(wanted)) <= 4:
                shared = len(pairs & _pairs(word))
                if shared:
                    overlap = 2 * shared / (len(pairs) + len(_pairs(word)))
                    count = scored.get(key, (0.0, 0))[1] + int(graph.counts[number][entity])
                    scored[key] = overlap, count
    nearest = sorted(scored, key=lambda key: (-scored[key][0], key))[:_NEAREST]
    most = max(2, len(wanted) // 3)
    distances = {key: edits(wanted, key.partition(":")[2], most) for key in nearest}
    best = sorted(
        (key for key in nearest if distances[key] <= most),
        key=lambda key: (distances[key], -scored[key][1], key),
    )
    return [node for node in map(graph.entity, best[:limit]) if node is not None]


def _pairs(word: str) -> set[str]:
    padded = f"^{word}$"
    return {padded[i : i + 2] for i in range(len(padded) - 1)}


def edits(one: str, other: str, most: int) -> int:
    """Insertions, deletions, replacements and swaps of neighbours between two words.

    Optimal string alignment; anything above `most` is `most` + 1.

    >>> edits("timeout", "tiemout", 2), edits("abc", "xyz", 2)
    (1, 3)
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
        before, last = last, row
    return min(last[-1], most + 1)
