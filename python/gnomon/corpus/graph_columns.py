"""How a segment's entities and relations lie on disk, and the writing of it.

Node numbers: first the segment's sections, then its entities in order of their keys, then all other
ends of relations (documents, addresses, paths, sections elsewhere) in order.

    entity_*, other_*   the strings of the nodes, the others packed; name_* spellings of entities
    fold, last          entities by folded name, and by the folded last part of a qualified name
    pair_count          of each entity: its rows of pair_doc, pair_name: documents, spellings
    at_count            of each chunk: its rows of at_entity, at_start (from the chunk's start),
                        at_length, at_role (role + 3 * origin): mentions in order of places
    out_count           of each node: its edges, of edge_type, edge_target, by type and target
    proof_count         of each edge: its rows of proof_chunk, proof_start, proof_length, proof_role

Counts take a byte or two where places would take four; a reader adds them up once. The mentions of
an entity and the edges that come into a node are the reader's to find, by sorting at_entity and
edge_target when they are first asked for.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import count

import numpy as np

from .. import _core
from .columns_io import (
    Array,
    Int64Array,
    counts_of,
    narrow,
    numbered,
    write_packed_strings,
    write_strings,
)
from .prepare_model import Prepared

ROLE_COUNT = 3
_MENTION, _EDGE, _PROOF = 6, 4, 5  # numbers of a row of `Prepared`


def fold_name(key: bytes) -> bytes:
    """The folded name of an entity's key: what stands behind its type."""
    return key.partition(b":")[2]


def fold_last(key: bytes) -> bytes:
    """The last part of a qualified name; the name itself where it has one part."""
    return fold_name(key).rpartition(b".")[2] or fold_name(key)


class GraphWriter:
    """Takes documents in order; writes the graph of a segment at the end.

    What documents show is kept as it comes, and put in numbers of the segment in one go.
    """

    def __init__(self) -> None:
        self._entities = _numbers()
        self._names = _numbers()
        self._nodes = _numbers()
        self._types = _numbers()
        self._origins = _numbers()
        # By the numbers that documents gave, end to end, those of the segment.
        self._given: dict[str, list[int]] = {name: [] for name in ("key", "name", "node", "type")}
        self._given["origin"] = []
        self._firsts: list[tuple[int, ...]] = []  # of each document: document, chunk, and in _given
        self._rows = {name: bytearray() for name in ("mentions", "edges", "proofs", "starts")}
        self._counts: list[tuple[int, ...]] = []  # of each document: mentions, edges, proofs

    def add(self, document: int, first_chunk: int, given: Prepared) -> None:
        """Adds what a document shows; its chunks are numbered from `first_chunk` on."""
        own = self._given
        self._firsts.append(
            (
                document,
                first_chunk,
                *(len(own[name]) for name in ("key", "node", "type", "origin")),
            )
        )
        for name, table, words in (
            ("key", self._entities, given.keys),
            ("name", self._names, given.names),
            ("node", self._nodes, given.nodes),
            ("type", self._types, given.relation_types),
            ("origin", self._origins, given.origins),
        ):
            own[name] += map(table.__getitem__, words)
        rows = self._rows
        rows["mentions"] += given.mentions
        rows["edges"] += given.edges
        rows["proofs"] += given.proofs
        rows["starts"] += given.chunk_start
        self._counts.append(
            (
                len(given.keys),
                len(given.mentions) // (4 * _MENTION),
                len(given.edges) // (4 * _EDGE),
                len(given.proofs) // (4 * _PROOF),
            )
        )

    def write(
        self, file: _core.ContainerWriter, section_ids: list[str], n_chunks: int
    ) -> dict[str, list[str]]:
        """Writes the sections; returns the tables for the segment's settings."""
        self._first = np.array(self._firsts, np.int64).reshape(-1, 6).T
        self._count = np.array(self._counts, np.int64).reshape(-1, 4).T
        keys, entity_numbers = numbered(self._entities)
        write_strings(file, "entity", keys)
        write_strings(file, "name", [name.encode("utf-8", "surrogatepass") for name in self._names])
        file.section("fold", _order([fold_name(key) for key in keys]))
        file.section("last", _order([fold_last(key) for key in keys]))
        ranks = _table(self._entities, entity_numbers)
        self._write_pairs(file, ranks, len(keys))
        self._write_mentions(file, ranks, n_chunks)
        self._write_edges(file, section_ids, entity_numbers)
        return {"relation_types": list(self._types), "origins": list(self._origins)}

    def _numbers(self, name: str) -> Int64Array:
        return np.array(self._given[name], np.int64)

    def _read(self, name: str, width: int, count: int) -> tuple[Int64Array, Int64Array]:
        """The rows of all documents, and for each what its document's numbers begin with."""
        rows = np.frombuffer(bytes(self._rows[name]), np.uint32).reshape(-1, width)
        return rows.astype(np.int64).T, np.repeat(self._first, self._count[count], axis=1)

    def _proof(self, rows: Int64Array, first: Int64Array) -> Int64Array:
        """(chunk, start, length, role, origin) of documents as (chunk, start, length, role)."""
        starts = np.frombuffer(bytes(self._rows["starts"]), np.uint32).astype(np.int64)
        chunk = first[1] + rows[0]
        origins = self._numbers("origin")[first[5] + rows[4]]
        return np.stack([chunk, rows[1] - starts[chunk], rows[2], rows[3] + ROLE_COUNT * origins])

    def _write_pairs(self, file: _core.ContainerWriter, ranks: Int64Array, n: int) -> None:
        documents = np.repeat(self._first[0], self._count[0])
        pairs = np.stack([ranks[self._numbers("key")], documents, self._numbers("name")], axis=1)
        pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
        file.section("pair_count", counts_of(pairs[:, 0], n))
        file.section("pair_doc", narrow(pairs[:, 1]))
        file.section("pair_name", narrow(pairs[:, 2]))

    def _write_mentions(
        self, file: _core.ContainerWriter, ranks: Int64Array, n_chunks: int
    ) -> None:
        given, first = self._read("mentions", _MENTION, 1)
        entities = ranks[self._numbers("key")[first[2] + given[0]]]
        rows = np.concatenate([entities[np.newaxis], self._proof(given[1:], first)]).T
        rows = rows[np.lexsort((rows[:, 0], rows[:, 3], rows[:, 2], rows[:, 1]))]
        file.section("at_count", counts_of(rows[:, 1], n_chunks))
        for name, column in (("entity", 0), ("start", 2), ("length", 3), ("role", 4)):
            file.section(f"at_{name}", narrow(rows[:, column]))

    def _write_edges(
        self, file: _core.ContainerWriter, section_ids: list[str], entities: dict[str, int]
    ) -> None:
        numbers = {f"section:{name}": number for number, name in enumerate(section_ids)}
        first_entity, base = len(numbers), len(numbers) + len(entities)
        numbers.update(zip(entities, range(first_entity, base), strict=True))  # in their order
        others, rest = numbered(self._nodes.keys() - numbers.keys())
        write_packed_strings(file, "other", others)
        numbers.update(zip(rest, range(base, base + len(rest)), strict=True))
        ranks = _table(self._nodes, numbers)
        given, first = self._read("edges", _EDGE, 2)
        types = self._numbers("type")[first[4] + given[0]]
        nodes = ranks[self._numbers("node")]
        edges = np.stack([nodes[first[3] + given[1]], types, nodes[first[3] + given[2]]], axis=1)
        proofs = self._proof(*self._read("proofs", _PROOF, 3)).T
        # The same edge of several documents becomes one; its evidence stays in order of chunks.
        triples, which = _distinct(edges)
        edge_of = which[np.repeat(np.arange(len(edges)), given[3])]
        order = np.lexsort((proofs[:, 1], proofs[:, 0], edge_of))
        n = base + len(others)
        file.section("out_count", counts_of(triples[:, 0], n))
        for name, column in (("type", 1), ("target", 2)):
            file.section(f"edge_{name}", narrow(triples[:, column]))
        file.section("proof_count", counts_of(edge_of, len(triples)))
        for name, column in (("chunk", 0), ("start", 1), ("length", 2), ("role", 3)):
            file.section(f"proof_{name}", narrow(proofs[order, column]))


def _numbers() -> dict[str, int]:
    """A dict that numbers strings from 0 on as they are asked for."""
    return defaultdict(count().__next__)


def _distinct(rows: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The distinct rows in order, and the place of each row among them.

    >>> [part.tolist() for part in _distinct(np.array([[2, 0, 1], [1, 5, 5], [2, 0, 1]]))]
    [[[1, 5, 5], [2, 0, 1]], [1, 0, 1]]
    """
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    new = np.ones(len(rows), np.bool_)
    new[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    place = np.empty(len(rows), np.int64)
    place[order] = np.cumsum(new) - 1
    return ordered[new], place


def _table(given: dict[str, int], numbers: dict[str, int]) -> Int64Array:
    """By the number at which a string came, the number that it has now."""
    return np.fromiter(map(numbers.__getitem__, given), np.int64, len(given))


def _order(keys: list[bytes]) -> Array:
    return narrow(sorted(range(len(keys)), key=keys.__getitem__))
