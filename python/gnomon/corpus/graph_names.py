"""Finding entities by what they are called, exactly or nearly."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

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
    known = graph.spelled
    chosen, keys = known.nearest(wanted, types), known.keys
    most = max(2, len(wanted) // 3)
    distances = {number: edits(wanted, keys[number].partition(":")[2], most) for number in chosen}
    best = sorted(
        (number for number in chosen if distances[number] <= most),
        key=lambda number: (distances[number], -int(known.counts[number]), keys[number]),
    )
    return [node for node in map(graph.entity, (keys[n] for n in best[:limit])) if node is not None]


class Spelled:
    """The keys of a view's entities by the pairs of letters in their words, for `similar_names`.

    A word's pairs are those of ``^word$``, each once. Made in one pass over all words and kept:
    asking costs what the entities with a shared pair cost, without a look at any word.
    """

    def __init__(self, counts: dict[str, int]) -> None:
        self.keys = sorted(counts)
        self.counts = np.array([counts[key] for key in self.keys], np.int64)
        kinds = [key.partition(":")[0] for key in self.keys]
        self._kinds = sorted(set(kinds))
        numbers = {kind: number for number, kind in enumerate(self._kinds)}
        self._kind = np.array([numbers[kind] for kind in kinds], np.int64)
        words = [f"^{key.partition(':')[2]}$" for key in self.keys]
        widths = np.array([len(word) for word in words], np.int64)
        self._lengths = widths - 2
        owners, codes = _coded_pairs("".join(words), widths)
        self._n_pairs = np.bincount(owners, minlength=len(words))
        order = np.argsort(codes, kind="stable")
        self._codes, self._owners = codes[order], owners[order]

    def nearest(self, wanted: str, types: Collection[str] | None) -> list[int]:
        """The numbers of the keys that share most pairs with a word (Dice's coefficient)."""
        own = f"^{wanted}$"
        _, codes = _coded_pairs(own, np.array([len(own)], np.int64))
        first = np.searchsorted(self._codes, codes, side="left")
        last = np.searchsorted(self._codes, codes, side="right")
        hit = [self._owners[a:b] for a, b in zip(first, last, strict=True)]
        shared = np.bincount(np.concatenate(hit), minlength=len(self.keys))
        may = (shared > 0) & (np.abs(self._lengths - len(wanted)) <= 4)
        if types is not None:
            allowed = np.array([kind in types for kind in self._kinds], np.bool_)
            may &= allowed[self._kind]
        numbers = np.flatnonzero(may)
        overlap = 2 * shared[numbers] / (len(codes) + self._n_pairs[numbers])
        best: list[int] = numbers[np.lexsort((numbers, -overlap))[:_NEAREST]].tolist()
        return best


def _coded_pairs(text: str, widths: Any) -> tuple[Any, Any]:
    """Of words end to end the pairs of letters, each once a word: (number of the word, pair)."""
    letters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)
    owners = np.repeat(np.arange(len(widths)), widths)
    inside = owners[1:] == owners[:-1]
    codes = (letters[:-1] << 21 | letters[1:])[inside]
    order = np.lexsort((codes, owners[1:][inside]))
    words, codes = owners[1:][inside][order], codes[order]
    fresh = np.ones(len(codes), np.bool_)
    fresh[1:] = (codes[1:] != codes[:-1]) | (words[1:] != words[:-1])
    return words[fresh], codes[fresh]


def edits(one: str, other: str, most: int) -> int:
    """Insertions, deletions, replacements and swaps of neighbours between two words.

    Optimal string alignment; anything above `most` is `most` + 1.

    >>> edits("timeout", "tiemout", 2), edits("abc", "xyz", 2)
    (1, 3)
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    if not one:
        return min(len(other), most + 1)
    # Hyyro (2003): a column of the matrix as the bits of a number, one step a letter.
    whole = (1 << len(one)) - 1
    last = 1 << (len(one) - 1)
    places: dict[str, int] = {}
    for i, letter in enumerate(one):
        places[letter] = places.get(letter, 0) | 1 << i
    up, down, diagonal, before, distance = whole, 0, 0, 0, len(one)
    for letter in other:
        here = places.get(letter, 0)
        swapped = ((~diagonal & here) << 1) & before
        diagonal = ((((here & up) + up) ^ up) | here | down | swapped) & whole
        right, left = down | (whole & ~(diagonal | up)), diagonal & up
        distance += bool(right & last) - bool(left & last)
        right, left = (right << 1 | 1) & whole, left << 1 & whole
        up, down, before = left | (whole & ~(diagonal | right)), right & diagonal, here
    return min(distance, most + 1)
