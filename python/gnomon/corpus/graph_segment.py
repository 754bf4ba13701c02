"""The graph of one segment as it is read: rows of numbers; `gnomon.corpus.graph` gives them sense.

The columns are described in `gnomon.corpus.graph_columns`. Deleted and hidden documents are in
them: who asks passes by what their evidence shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .columns_io import (
    Array,
    IdColumn,
    Int64Array,
    Strings,
    counts_of,
    decoded,
    narrow,
    place_of,
    starts_of,
    strings_of,
    widths_of,
)
from .graph_columns import ROLE_COUNT, fold_last, fold_name
from .kept import Kept
from .prepare_model import ROLES

_COLUMNS = (
    *("fold", "last", "pair_doc", "pair_name"),
    *("at_entity", "at_start", "at_length", "at_role"),
    *("edge_type", "edge_target"),
    *("proof_chunk", "proof_start", "proof_length", "proof_role"),
)
_NUMBERS_MOST = 20_000  # entities whose number is kept
KEY_MOST = 256  # characters of a key or name for which something is kept: callers say any
_COUNTED = ("pair", "at", "out", "proof")  # as first rows: "pair_first", ...


class Place(NamedTuple):
    """Evidence in numbers of a segment; `start` counts from the chunk's start."""

    chunk: int
    start: int
    length: int
    role: str
    origin: str


class GraphSegment:
    """The graph file of a segment."""

    def __init__(
        self, container: _core.Container, meta: dict[str, Any], section_ids: IdColumn
    ) -> None:
        self._path = container.path
        self._sections = section_ids
        self.entities = Strings(container, "entity")
        self._numbers: Kept[str, int] = Kept(_NUMBERS_MOST)
        self.names = Strings(container, "name")
        self.others = strings_of(container, "other")
        self.columns: dict[str, Array] = {name: container.array(name) for name in _COLUMNS}
        for name in _COUNTED:
            self.columns[f"{name}_first"] = starts_of(container.array(f"{name}_count"))
        self.relation_types: list[str] = list(meta["relation_types"])
        self._origins: list[str] = list(meta["origins"])
        #: What a number in `at_role` and `proof_role` stands for: role and origin.
        self.roles = [(role, origin) for origin in self._origins or ["rule"] for role in ROLES]
        self.n_sections = len(section_ids)
        self.n_entities = len(self.entities)
        self.n_nodes = self.n_sections + self.n_entities + len(self.others)
        self._check(meta["chunks"], meta["documents"])
        self.columns["edge_source"] = np.repeat(
            np.arange(self.n_nodes, dtype=np.uint32), widths_of(self.columns["out_first"])[1:]
        )

    def _check(self, n_chunks: int, n_docs: int) -> None:
        c = self.columns
        edges, mentions = len(c["edge_target"]), len(c["at_entity"])
        roles = ROLE_COUNT * max(len(self._origins), 1)
        right = (
            _starts(c["pair_first"], self.n_entities, len(c["pair_doc"]))
            and len(c["pair_name"]) == len(c["pair_doc"])
            and _starts(c["at_first"], n_chunks, mentions)
            and _starts(c["out_first"], self.n_nodes, edges)
            and _starts(c["proof_first"], edges, len(c["proof_chunk"]))
            and all(len(c[f"at_{n}"]) == mentions for n in ("start", "length", "role"))
            and all(
                len(c[f"proof_{n}"]) == len(c["proof_chunk"]) for n in ("start", "length", "role")
            )
            and len(c["edge_type"]) == edges
            and len(c["fold"]) == len(c["last"]) == self.n_entities
        )
        limits = {
            "pair_doc": n_docs,
            "pair_name": len(self.names),
            "at_entity": self.n_entities,
            "at_role": roles,
            "edge_target": self.n_nodes,
            "edge_type": len(self.relation_types),
            "proof_chunk": n_chunks,
            "proof_role": roles,
            "fold": self.n_entities,
            "last": self.n_entities,
        }
        if not right or any(
            len(c[name]) and int(c[name].max()) >= limit for name, limit in limits.items()
        ):
            raise _core.CorruptIndex(f"{self._path}: the graph contradicts itself; index again")

    # Nodes

    def node(self, name: str) -> int:
        """The number of a node, -1 where the segment has none of this name."""
        if name.startswith("section:"):
            found = self._sections.find(name[8:])
            if found:
                return found[0]
        try:
            key = name.encode("utf-8", "surrogatepass")
        except UnicodeEncodeError:
            return -1
        number = self.entities.find(key)
        if number >= 0:
            return self.n_sections + number
        number = self.others.find(key)
        return self.n_sections + self.n_entities + number if number >= 0 else -1

    def name(self, node: int) -> str:
        """What a node is called."""
        if node < self.n_sections:
            return f"section:{self._sections[node]}"
        if node < self.n_sections + self.n_entities:
            return decoded(self.entities[node - self.n_sections])
        return decoded(self.others[node - self.n_sections - self.n_entities])

    def others_from(self, prefix: str) -> list[tuple[int, str]]:
        """The other nodes whose name begins with `prefix`."""
        key = prefix.encode("utf-8", "surrogatepass")
        place, found = self.others.bisect(key), []
        while place < len(self.others) and (name := self.others[place]).startswith(key):
            found.append((self.n_sections + self.n_entities + place, decoded(name)))
            place += 1
        return found

    def entity(self, key: str) -> int:
        """The number of an entity, or -1."""
        number = self._numbers.get(key)
        if number is None:
            number = self.entities.find(key.encode("utf-8", "surrogatepass"))
            if len(key) <= KEY_MOST:
                self._numbers.keep(key, number)
        return number

    def named(self, word: bytes, by: str, whole: bool) -> list[int]:
        """Entities whose folded name (`by` "fold") or last part ("last") is a word, or, unless
        `whole`, begins with it.
        """
        order = self.columns[by]
        key = fold_name if by == "fold" else fold_last
        place, found = self.entities.bisect(word, order, key), []
        while place < len(order):
            name = key(self.entities[int(order[place])])
            if not (name == word if whole else name.startswith(word)):
                break
            found.append(int(order[place]))
            place += 1
        return found

    # Rows

    def pairs(self, entity: int) -> tuple[Array, Array]:
        """Documents that name an entity, and the spelling in each."""
        rows = self._rows("pair_first", entity)
        return self.columns["pair_doc"][rows], self.columns["pair_name"][rows]

    def mentions(self, entity: int) -> Int64Array:
        """Rows of an entity's mentions, in order of places."""
        first, rows = self._mentions_by_entity
        return rows[int(first[entity]) : int(first[entity + 1])].astype(np.int64)

    def mentions_in(self, chunk: int) -> range:
        """Rows of the mentions in a chunk."""
        rows = self._rows("at_first", chunk)
        return range(rows.start, rows.stop)

    def named_in(self, chunk: int) -> Iterator[tuple[int, int, int, int]]:
        """The mentions in a chunk: entity, start in the chunk, length, role."""
        rows = self._rows("at_first", chunk)
        columns = (
            self.columns[f"at_{name}"][rows] for name in ("entity", "start", "length", "role")
        )
        return zip(*(column.tolist() for column in columns), strict=True)

    def mention_chunks(self, rows: Int64Array) -> Int64Array:
        """The chunk of each mention."""
        first = self.columns["at_first"]  # rows take its type, or it would be converted
        found: Int64Array = first.searchsorted(rows.astype(first.dtype), side="right") - 1
        return found

    def mention(self, row: int) -> tuple[int, Place]:
        """The entity and the place of a mention."""
        c = self.columns
        chunk = place_of(c["at_first"], row) - 1
        return int(c["at_entity"][row]), self._place(
            chunk, c["at_start"][row], c["at_length"][row], c["at_role"][row]
        )

    def edges_out(self, node: int) -> Int64Array:
        """The edges that go out of a node."""
        rows = self._rows("out_first", node)
        return np.arange(rows.start, rows.stop)

    def edges_in(self, node: int) -> Int64Array:
        """The edges that come into a node."""
        first, edges = self._edges_by_target
        return edges[int(first[node]) : int(first[node + 1])].astype(np.int64)

    def proofs(self, edge: int) -> list[Place]:
        """The evidence of an edge."""
        c, rows = self.columns, self._rows("proof_first", edge)
        return [
            self._place(
                int(c["proof_chunk"][row]),
                c["proof_start"][row],
                c["proof_length"][row],
                c["proof_role"][row],
            )
            for row in range(rows.start, rows.stop)
        ]

    @cached_property
    def _mentions_by_entity(self) -> tuple[Array, Array]:
        return _by_owner(self.columns["at_entity"], self.n_entities)

    @cached_property
    def _edges_by_target(self) -> tuple[Array, Array]:
        return _by_owner(self.columns["edge_target"], self.n_nodes)

    def _rows(self, column: str, owner: int) -> slice:
        first = self.columns[column]
        return slice(int(first[owner]), int(first[owner + 1]))

    def _place(self, chunk: int, start: Any, length: Any, role: Any) -> Place:
        origin, kind = divmod(int(role), ROLE_COUNT)
        named = self._origins[origin] if self._origins else "rule"
        return Place(chunk, int(start), int(length), ROLES[kind], named)


def _by_owner(owners: Array, n: int) -> tuple[Array, Array]:
    """Of each of `n` owners the first of its rows, and one more; and the rows, in order.

    >>> [part.tolist() for part in _by_owner(np.array([2, 0, 2], np.uint8), 3)]
    [[0, 1, 1, 3], [1, 0, 2]]
    """
    return starts_of(counts_of(owners, n)), narrow(np.argsort(owners, kind="stable"))


def _starts(first: Array, n: int, rows: int) -> bool:
    """Whether `first` has n + 1 numbers that rise from 0 to `rows`."""
    return (
        len(first) == n + 1
        and int(first[0]) == 0
        and int(first[-1]) == rows
        and bool(np.all(first[1:] >= first[:-1]))
    )
