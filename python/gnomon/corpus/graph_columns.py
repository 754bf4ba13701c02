"""How a segment's entities and relations lie on disk, and the writing of it.

Node numbers: first the segment's sections, then its entities in order of their keys, then all other
ends of relations (documents, addresses, paths, sections elsewhere) in order.

    entity_*, other_*   the strings of the nodes; name_* spellings of entities
    fold, last          entities by folded name, and by the folded last part of a qualified name
    pair_first          of each entity: its rows of pair_doc, pair_name: documents, spellings
    at_first            of each chunk: its rows of at_entity, at_start (from the chunk's start),
                        at_length, at_role (role + 3 * origin): mentions in order of places
    of_first, of_row    of each entity: its mentions
    out_first           of each node: its edges, of edge_type, edge_target, by type and target
    in_first, in_edge   of each node: the edges that come in; edge_source names where from
    proof_first         of each edge: its rows of proof_chunk, proof_start, proof_length, proof_role
"""

from __future__ import annotations

import numpy as np

from .. import _core
from .columns_io import Array, Int64Array, narrow, numbered, starts_of, write_strings
from .prepare import Prepared

ROLE_COUNT = 3


def fold_name(key: bytes) -> bytes:
    """The folded name of an entity's key: what stands behind its type."""
    return key.partition(b":")[2]


def fold_last(key: bytes) -> bytes:
    """The last part of a qualified name; the name itself where it has one part."""
    return fold_name(key).rpartition(b".")[2] or fold_name(key)


class GraphWriter:
    """Takes documents in order; writes the graph of a segment at the end."""

    def __init__(self) -> None:
        self._entities: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._nodes: dict[str, int] = {}
        self._types: dict[str, int] = {}
        self._origins: dict[str, int] = {}
        self._pairs: list[Int64Array] = []  # entity, document, name
        self._mentions: list[Int64Array] = []  # entity, chunk, start, length, role
        self._edges: list[Int64Array] = []  # type, source, target, evidence
        self._proofs: list[Int64Array] = []  # chunk, start, length, role

    def add(self, document: int, first_chunk: int, given: Prepared) -> None:
        """Adds what a document shows; its chunks are numbered from `first_chunk` on."""
        origins = np.array(
            [self._origins.setdefault(name, len(self._origins)) for name in given.origins], np.int64
        )
        starts = np.frombuffer(given.chunk_start, np.uint32).astype(np.int64)
        if given.keys:
            entities = np.array(
                [self._entities.setdefault(key, len(self._entities)) for key in given.keys],
                np.int64,
            )
            names = np.array(
                [self._names.setdefault(name, len(self._names)) for name in given.names], np.int64
            )
            self._pairs.append(
                np.stack([entities, np.full(len(entities), document), names], axis=1)
            )
            rows = np.frombuffer(given.mentions, np.uint32).reshape(-1, 6).astype(np.int64)
            proof = _proof(rows[:, 1:], starts, origins, first_chunk)
            self._mentions.append(np.column_stack([entities[rows[:, 0]], proof]))
        if given.edges:
            types = np.array(
                [self._types.setdefault(t, len(self._types)) for t in given.relation_types],
                np.int64,
            )
            nodes = np.array(
                [self._nodes.setdefault(n, len(self._nodes)) for n in given.nodes], np.int64
            )
            rows = np.frombuffer(given.edges, np.uint32).reshape(-1, 4).astype(np.int64)
            self._edges.append(
                np.stack([types[rows[:, 0]], nodes[rows[:, 1]], nodes[rows[:, 2]], rows[:, 3]], 1)
            )
            rows = np.frombuffer(given.proofs, np.uint32).reshape(-1, 5).astype(np.int64)
            self._proofs.append(_proof(rows, starts, origins, first_chunk))

    def write(
        self, file: _core.ContainerWriter, section_ids: list[str], n_chunks: int
    ) -> dict[str, list[str]]:
        """Writes the sections; returns the tables for the segment's settings."""
        keys, entity_numbers = numbered(self._entities)
        write_strings(file, "entity", keys)
        write_strings(file, "name", [name.encode("utf-8", "surrogatepass") for name in self._names])
        file.section("fold", _order([fold_name(key) for key in keys]))
        file.section("last", _order([fold_last(key) for key in keys]))
        ranks = _table(self._entities, entity_numbers)
        self._write_pairs(file, ranks, len(keys))
        self._write_mentions(file, ranks, len(keys), n_chunks)
        self._write_edges(file, section_ids, entity_numbers)
        return {"relation_types": list(self._types), "origins": list(self._origins)}

    def _write_pairs(self, file: _core.ContainerWriter, ranks: Int64Array, n: int) -> None:
        pairs = _joined(self._pairs, 3)
        pairs[:, 0] = ranks[pairs[:, 0]]
        pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
        file.section("pair_first", starts_of(pairs[:, 0], n))
        file.section("pair_doc", narrow(pairs[:, 1]))
        file.section("pair_name", narrow(pairs[:, 2]))

    def _write_mentions(
        self, file: _core.ContainerWriter, ranks: Int64Array, n: int, n_chunks: int
    ) -> None:
        rows = _joined(self._mentions, 5)
        rows[:, 0] = ranks[rows[:, 0]]
        rows = rows[np.lexsort((rows[:, 0], rows[:, 3], rows[:, 2], rows[:, 1]))]
        file.section("at_first", starts_of(rows[:, 1], n_chunks))
        for name, column in (("entity", 0), ("start", 2), ("length", 3), ("role", 4)):
            file.section(f"at_{name}", narrow(rows[:, column]))
        order = np.argsort(rows[:, 0], kind="stable")
        file.section("of_first", starts_of(rows[order, 0], n))
        file.section("of_row", narrow(order))

    def _write_edges(
        self, file: _core.ContainerWriter, section_ids: list[str], entities: dict[str, int]
    ) -> None:
        own = {f"section:{name}": number for number, name in enumerate(section_ids)}
        rest = [name for name in self._nodes if name not in own and name not in entities]
        others, other_numbers = numbered(rest)
        write_strings(file, "other", others)
        numbers = dict(own)
        numbers.update((name, len(own) + number) for name, number in entities.items())
        base = len(own) + len(entities)
        numbers.update((name, base + number) for name, number in other_numbers.items())
        ranks = _table(self._nodes, numbers)
        edges, proofs = _joined(self._edges, 4), _joined(self._proofs, 4)
        edges[:, 1], edges[:, 2] = ranks[edges[:, 1]], ranks[edges[:, 2]]
        # The same edge of several documents becomes one; its evidence stays in order of chunks.
        owner = np.repeat(np.arange(len(edges)), edges[:, 3])
        triples, which = np.unique(edges[:, [1, 0, 2]], axis=0, return_inverse=True)
        edge_of = which.reshape(-1)[owner]
        order = np.lexsort((proofs[:, 1], proofs[:, 0], edge_of))
        n = base + len(others)
        file.section("out_first", starts_of(triples[:, 0], n))
        for name, column in (("source", 0), ("type", 1), ("target", 2)):
            file.section(f"edge_{name}", narrow(triples[:, column]))
        coming = np.argsort(triples[:, 2], kind="stable")
        file.section("in_first", starts_of(triples[coming, 2], n))
        file.section("in_edge", narrow(coming))
        file.section("proof_first", starts_of(edge_of[order], len(triples)))
        for name, column in (("chunk", 0), ("start", 1), ("length", 2), ("role", 3)):
            file.section(f"proof_{name}", narrow(proofs[order, column]))


def _proof(rows: Array, starts: Int64Array, origins: Int64Array, first_chunk: int) -> Int64Array:
    """(chunk, start, length, role, origin) of a document as (chunk, start, length, role)."""
    chunks = rows[:, 0]
    return np.stack(
        [
            chunks + first_chunk,
            rows[:, 1] - starts[chunks],
            rows[:, 2],
            rows[:, 3] + ROLE_COUNT * origins[rows[:, 4]],
        ],
        axis=1,
    )


def _joined(parts: list[Int64Array], width: int) -> Int64Array:
    return np.concatenate(parts) if parts else np.zeros((0, width), np.int64)


def _table(given: dict[str, int], numbers: dict[str, int]) -> Int64Array:
    """By the number at which a string came, the number that it has now."""
    return np.array([numbers[name] for name in given], np.int64)


def _order(keys: list[bytes]) -> Array:
    return narrow(sorted(range(len(keys)), key=keys.__getitem__))
