"""The graph of a view: entities and relations that live documents show.

Deletion needs no upkeep: a mention or a relation exists while a document of the view shows it, and
every document's evidence lies in one segment with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Literal

import numpy as np

from .columns_io import Array, Int64Array, decoded, widths_of
from .graph_edges import Proof, Relations, Triple, in_order
from .graph_names import Spelled, find_names, similar_names
from .graph_segment import KEY_MOST, GraphSegment
from .kept import Kept
from .links import Links
from .live import Live
from .model import Evidence
from .snapshot_model import GraphEdge, Node

Direction = Literal["out", "in", "both"]
_NODES_MOST = 50_000  # that are kept ready
_STEPS_MOST = 100_000  # relations of walked nodes that are kept ready
_CALLED_MOST = 5_000  # names whose entities are kept ready


class Graph:
    """Entities and relations of a snapshot; everything has evidence in a document of the view.

    A *node* is an entity's key (``option:max_allowed_packet``), ``section:ID``, ``doc:ID``,
    ``url:ADDRESS`` or ``path:PATH#ANCHOR``. Besides what documents say there are the relations of
    the section tree: ``parent`` from a section to the one above, ``next`` to the one behind.
    """

    def __init__(self, live: Live) -> None:
        self._live = live
        self.links = Links(live)
        self._relations = Relations(live, self.links)
        self._nodes: Kept[str, Node | None] = Kept(_NODES_MOST)
        self._steps: dict[tuple[str, str, frozenset[str] | None], list[tuple[Triple, Proof]]] = {}
        self._steps_kept = 0  # relations in `_steps`
        self._called: Kept[tuple[str, frozenset[str] | None, int], list[Node]] = Kept(_CALLED_MOST)

    # Entities

    def entity(self, key: str) -> Node | None:
        """The entity of this key, or None when the view has none."""
        try:
            return self._nodes[key]
        except KeyError:
            node = self._entity(key)
            return self._nodes.keep(key, node) if len(key) <= KEY_MOST else node

    def _entity(self, key: str) -> Node | None:
        spellings: dict[str, int] = {}
        mentions = documents = defined = 0
        for number, graph in self._graphs():
            entity = graph.entity(key)
            if entity < 0:
                continue
            docs, names = graph.pairs(entity)
            alive = self._live.masks[number][docs]
            documents += int(alive.sum())
            for name, count in zip(*np.unique(names[alive], return_counts=True), strict=True):
                text = decoded(graph.names[int(name)])
                spellings[text] = spellings.get(text, 0) + int(count)
            rows = self._alive_rows(number, graph, entity)
            mentions += rows.size
            defined += int((graph.columns["at_role"][rows] % 3 == 1).sum())
        if not documents:
            return None
        names_ = sorted(spellings, key=lambda text: (-spellings[text], text))
        kind = key.partition(":")[0]
        return Node(key, kind, names_[0], tuple(sorted(names_)), mentions, documents, defined)

    def find_entities(
        self, name: str, *, types: Collection[str] | None = None, limit: int = 20
    ) -> list[Node]:
        """Entities called `name`: exact spelling first, then any case, then as the last part of a
        qualified name, then those that begin with it; by number of mentions within each step.
        """
        key = name, None if types is None else frozenset(types), limit
        known = self._called.get(key)
        if known is None:
            known = find_names(self, name, types, limit)
            if len(name) <= KEY_MOST:
                self._called.keep(key, known)
        return list(known)

    def similar(
        self, name: str, *, types: Collection[str] | None = None, limit: int = 5
    ) -> list[Node]:
        """Entities with a name that is spelt much like `name`, nearest first: for suggestions."""
        return similar_names(self, name, types, limit)

    def entities_of(self, chunk_id: str) -> list[tuple[Node, Evidence]]:
        """What a chunk names, in order of the places. KeyError for an unknown chunk."""
        spot = self._live.chunk(chunk_id)
        if spot is None:
            raise KeyError(f"there is no chunk {chunk_id!r}")
        segment = self._live.segments[spot.segment]
        nodes: dict[int, Node] = {}
        found = []
        begin = int(segment.chunk_start[spot.number])
        for entity, start, length, role in segment.graph.named_in(spot.number):
            if entity not in nodes:
                node = self.entity(decoded(segment.graph.entities[entity]))
                assert node is not None  # this chunk names it
                nodes[entity] = node
            first = begin + start
            evidence = Evidence(chunk_id, first, first + length, *segment.graph.roles[role])
            found.append((nodes[entity], evidence))
        return found

    def keys_in(self, chunk_id: str) -> list[tuple[str, str]]:
        """The same as keys and roles only, without a look at other passages."""
        spot = self._live.chunk(chunk_id)
        if spot is None:
            raise KeyError(f"there is no chunk {chunk_id!r}")
        graph = self._live.segments[spot.segment].graph
        return [
            (decoded(graph.entities[entity]), graph.roles[role][0])
            for entity, _, _, role in graph.named_in(spot.number)
        ]

    def mentions(
        self, key: str, *, role: str | None = None, limit: int | None = None
    ) -> list[Evidence]:
        """Where an entity stands: definitions first, then in order of documents and places."""
        return [self.evidence(proof) for proof in self.proofs_of(key, role=role, limit=limit)]

    def proofs_of(
        self, key: str, *, role: str | None = None, limit: int | None = None
    ) -> list[Proof]:
        """The same as proofs, of which `evidence` makes what is shown."""
        found: list[Proof] = []
        for number, graph in self._graphs():
            entity = graph.entity(key)
            if entity < 0:
                continue
            rows = self._alive_rows(number, graph, entity)
            if role is not None:
                kinds = np.array([name == role for name, _ in graph.roles], np.bool_)
                rows = rows[kinds[graph.columns["at_role"][rows]]]
            chunks = graph.mention_chunks(rows)
            places = (graph.columns[f"at_{name}"][rows] for name in ("start", "length", "role"))
            found += self._relations.proofs(number, chunks, *places)
        found.sort(key=lambda proof: (proof[5][0] != "defines", proof[:3]))
        return found[:limit]

    def evidence(self, proof: Proof) -> Evidence:
        """Where a proof stands."""
        return self._relations.evidence(proof)

    @cached_property
    def counts(self) -> list[Int64Array]:
        """By segment, how many live mentions each entity has."""
        counts = []
        for number, graph in self._graphs():
            sizes = widths_of(graph.columns["at_first"])[1:]
            alive = np.repeat(self._live.chunk_masks[number], sizes)
            entities = graph.columns["at_entity"][alive]
            counts.append(np.bincount(entities, minlength=graph.n_entities))
        return counts

    @property
    def n_mentions(self) -> int:
        """Mentions in the view."""
        return sum(int(counts.sum()) for counts in self.counts)

    def entity_types(self) -> dict[str, int]:
        """Types of entities in the view and how many entities each has."""
        keys = {
            graph.entities[int(entity)]
            for number, graph in self._graphs()
            for entity in np.flatnonzero(self.counts[number])
        }
        found: dict[str, int] = {}
        for key in keys:
            kind = decoded(key.partition(b":")[0])
            found[kind] = found.get(kind, 0) + 1
        return dict(sorted(found.items()))

    @cached_property
    def spelled(self) -> Spelled:
        """The names of the view's entities, for suggestions."""
        counts: dict[str, int] = {}
        for number, graph in self._graphs():
            every = graph.entities.all()
            for entity in np.flatnonzero(self.counts[number]).tolist():
                key = decoded(every[entity])
                counts[key] = counts.get(key, 0) + int(self.counts[number][entity])
        return Spelled(counts)

    # Relations

    def edges(
        self,
        node: str,
        relation: str | Collection[str] | None = None,
        direction: Direction = "both",
        *,
        types: Collection[str] | None = None,
        limit: int | None = None,
        skip: int = 0,
    ) -> list[GraphEdge]:
        """Relations of a node, those with the most evidence first, then by type and other end.

        `relation` is a type of relation or several; `types` keeps edges whose other end is of one
        of these types (an entity type, "section", "doc", "url", "path").
        """
        found = self._ordered(node, relation, direction, types)
        stop = None if limit is None else skip + limit
        return [
            GraphEdge(*edge, tuple(self.evidence(p) for p in sorted(proofs, key=in_order)))
            for edge, proofs in found[skip:stop]
        ]

    def steps(
        self,
        node: str,
        relation: str | Collection[str] | None = None,
        direction: Direction = "both",
        *,
        types: Collection[str] | None = None,
        limit: int | None = None,
    ) -> list[tuple[Triple, Proof]]:
        """The same relations in the same order, each with the first proof only; kept, because walks
        from different names come by the same nodes.
        """
        wanted = None if relation is None else frozenset(_listed(relation))
        key = node, direction, wanted
        known = self._steps.get(key)
        if known is None:
            known = [
                (edge, proofs[0] if len(proofs) == 1 else min(proofs, key=in_order))
                for edge, proofs in self._ordered(node, wanted, direction, None)
            ]
            if self._steps_kept >= _STEPS_MOST:
                self._steps, self._steps_kept = {}, 0
            self._steps[key] = known
            self._steps_kept += 1 + len(known)
        if types is not None:
            known = [pair for pair in known if _other(pair[0], node).partition(":")[0] in types]
        return known[:limit]

    def _ordered(
        self,
        node: str,
        relation: str | Collection[str] | None,
        direction: Direction,
        types: Collection[str] | None,
    ) -> list[tuple[Triple, list[Proof]]]:
        if direction not in ("out", "in", "both"):
            raise ValueError(f"direction must be 'out', 'in' or 'both', got {direction!r}")
        wanted = None if relation is None else frozenset(_listed(relation))
        found = self._relations.of(node, direction, wanted)
        if types is not None:
            found = {
                edge: proofs
                for edge, proofs in found.items()
                if _other(edge, node).partition(":")[0] in types
            }
        return sorted(
            found.items(), key=lambda pair: (-len(pair[1]), pair[0][0], _other(pair[0], node))
        )

    def degree(self, node: str) -> dict[str, tuple[int, int]]:
        """For each type of relation how many edges go out of the node and come in."""
        found: dict[str, tuple[int, int]] = {}
        for side, direction in enumerate(("out", "in")):
            for kind, _, _ in self._relations.of(node, direction, None):
                counts = list(found.get(kind, (0, 0)))
                counts[side] += 1
                found[kind] = counts[0], counts[1]
        return dict(sorted(found.items()))

    def relation_types(self) -> dict[str, int]:
        """Types of relations in the view and how many edges each has, as documents say them."""
        return dict(self._relation_types)

    @cached_property
    def _relation_types(self) -> dict[str, int]:
        found: dict[str, int] = {}
        several = sum(graph.columns["edge_source"].size > 0 for _, graph in self._graphs()) > 1
        seen: set[tuple[str, str, str]] = set()
        for number, graph in self._graphs():
            for edge in self._alive_edges(number, graph).tolist():
                kind, source, target = self._named(graph, edge)
                if several:
                    if (kind, source, target) in seen:
                        continue
                    seen.add((kind, source, target))
                found[kind] = found.get(kind, 0) + 1
        for segment, mask in zip(self._live.segments, self._live.masks, strict=True):
            sizes = widths_of(segment.section_end)
            alive = np.repeat(mask, sizes)
            parents = int((segment.section_parent[alive] > 0).sum())
            followers = int(np.maximum(sizes[mask] - 1, 0).sum())
            for kind, count in (("parent", parents), ("next", followers)):
                if count:
                    found[kind] = found.get(kind, 0) + count
        return dict(sorted(found.items()))

    # Rows and evidence

    def _graphs(self) -> Iterator[tuple[int, GraphSegment]]:
        for number, segment in enumerate(self._live.segments):
            yield number, segment.graph

    def _alive_rows(self, number: int, graph: GraphSegment, entity: int) -> Int64Array:
        rows = graph.mentions(entity)
        return rows[self._live.chunk_masks[number][graph.mention_chunks(rows)]]

    def _alive_edges(self, number: int, graph: GraphSegment) -> Array:
        """Edges with live evidence."""
        alive = self._live.chunk_masks[number][graph.columns["proof_chunk"]]
        owners = np.repeat(
            np.arange(len(graph.columns["edge_source"])),
            widths_of(graph.columns["proof_first"])[1:],
        )
        return np.unique(owners[alive])

    @staticmethod
    def _named(graph: GraphSegment, edge: int) -> tuple[str, str, str]:
        c = graph.columns
        return (
            graph.relation_types[int(c["edge_type"][edge])],
            graph.name(int(c["edge_source"][edge])),
            graph.name(int(c["edge_target"][edge])),
        )


def _listed(names: str | Collection[str]) -> Collection[str]:
    return [names] if isinstance(names, str) else names


def _other(edge: Triple, node: str) -> str:
    return edge[2] if edge[1] == node else edge[1]
