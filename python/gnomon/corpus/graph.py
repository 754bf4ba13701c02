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
from .graph_names import Spelled, find_names, similar_names
from .graph_segment import GraphSegment, Place
from .links import Links
from .live import Live, Spot
from .model import Evidence
from .snapshot_model import GraphEdge, Node

Direction = Literal["out", "in", "both"]
_NODES_MOST = 50_000  # that are kept ready
_Proof = tuple[int, Place]  # segment, place
_Edges = dict[tuple[str, str, str], list[_Proof]]


class Graph:
    """Entities and relations of a snapshot; everything has evidence in a document of the view.

    A *node* is an entity's key (``option:max_allowed_packet``), ``section:ID``, ``doc:ID``,
    ``url:ADDRESS`` or ``path:PATH#ANCHOR``. Besides what documents say there are the relations of
    the section tree: ``parent`` from a section to the one above, ``next`` to the one behind.
    """

    def __init__(self, live: Live) -> None:
        self._live = live
        self.links = Links(live)
        self._nodes: dict[str, Node | None] = {}

    # Entities

    def entity(self, key: str) -> Node | None:
        """The entity of this key, or None when the view has none."""
        nodes = self._nodes  # other threads may put another dict in its place
        if len(nodes) >= _NODES_MOST:
            nodes = self._nodes = {}
        try:
            return nodes[key]
        except KeyError:
            return nodes.setdefault(key, self._entity(key))

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
        return find_names(self, name, types, limit)

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
        graph = self._live.segments[spot.segment].graph
        nodes: dict[int, Node] = {}
        found = []
        for row in graph.mentions_in(spot.number):
            entity, place = graph.mention(row)
            if entity not in nodes:
                node = self.entity(decoded(graph.entities[entity]))
                assert node is not None  # this chunk names it
                nodes[entity] = node
            found.append((nodes[entity], self._evidence((spot.segment, place))))
        return found

    def mentions(
        self, key: str, *, role: str | None = None, limit: int | None = None
    ) -> list[Evidence]:
        """Where an entity stands: definitions first, then in order of documents and places."""
        found: list[_Proof] = []
        for number, graph in self._graphs():
            entity = graph.entity(key)
            if entity >= 0:
                for row in self._alive_rows(number, graph, entity).tolist():
                    place = graph.mention(row)[1]
                    if role is None or place.role == role:
                        found.append((number, place))
        found.sort(key=lambda proof: (proof[1].role != "defines", self._order(proof)))
        return [self._evidence(proof) for proof in found[:limit]]

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
        if direction not in ("out", "in", "both"):
            raise ValueError(f"direction must be 'out', 'in' or 'both', got {direction!r}")
        wanted = {relation} if isinstance(relation, str) else relation
        found = self._found(node, direction, None if wanted is None else frozenset(wanted))
        if types is not None:
            found = {
                edge: proofs
                for edge, proofs in found.items()
                if _other(edge, node).partition(":")[0] in types
            }
        order = sorted(found, key=lambda edge: (-len(found[edge]), edge[0], _other(edge, node)))
        stop = None if limit is None else skip + limit
        return [
            GraphEdge(*edge, tuple(self._evidence(p) for p in sorted(found[edge], key=self._order)))
            for edge in order[skip:stop]
        ]

    def degree(self, node: str) -> dict[str, tuple[int, int]]:
        """For each type of relation how many edges go out of the node and come in."""
        found: dict[str, tuple[int, int]] = {}
        for side, direction in enumerate(("out", "in")):
            for kind, _, _ in self._found(node, direction, None):
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

    # How edges are found

    def _found(self, node: str, direction: str, wanted: frozenset[str] | None) -> _Edges:
        found: _Edges = {}
        if direction in ("out", "both"):
            for number, graph in self._graphs():
                place = graph.node(node)
                if place >= 0:
                    self._collect(found, number, graph, graph.edges_out(place), wanted)
        if direction in ("in", "both"):
            for name in self._leading_to(node):
                for number, graph in self._graphs():
                    place = graph.node(name)
                    if place >= 0:
                        rows = graph.edges_in(place)
                        self._collect(found, number, graph, rows, wanted, node)
        if node.startswith("section:"):
            self._add_tree(found, node[8:], direction, wanted)
        return found

    def _collect(
        self,
        found: _Edges,
        number: int,
        graph: GraphSegment,
        rows: Int64Array,
        wanted: frozenset[str] | None,
        only: str | None = None,
    ) -> None:
        """Adds live edges, with targets that are paths led to what they name; `only` that."""
        if wanted is not None:
            kinds = [kind in wanted for kind in graph.relation_types]
            rows = rows[np.array(kinds, np.bool_)[graph.columns["edge_type"][rows]]]
        segment, mask = self._live.segments[number], self._live.masks[number]
        for edge in rows.tolist():
            kind, source, target = self._named(graph, edge)
            for place in graph.proofs(edge):
                doc = segment.doc_of_chunk(place.chunk)
                if not mask[doc]:
                    continue
                end = target
                if target.startswith("path:"):
                    end = self.links.target(target, segment.sources[int(segment.doc_source[doc])])
                if only is None or end == only:
                    found.setdefault((kind, source, end), []).append((number, place))

    def _leading_to(self, node: str) -> Iterator[str]:
        """The node, and the paths that links to it may have written."""
        yield node
        kind, _, wanted = node.partition(":")
        spot: Spot | None = None
        if kind == "doc":
            spot = self._live.document(wanted)
        elif kind == "section":
            section = self._live.section(wanted)
            if section is not None:
                segment = self._live.segments[section.segment]
                spot = Spot(section.segment, segment.doc_of_section(section.number))
        if spot is None:
            return
        names: set[str] = set()
        for path in self.links.paths(spot):
            names.add(path)
            for _, graph in self._graphs():
                names.update(name for _, name in graph.others_from(f"{path}#"))
        yield from sorted(names)

    def _add_tree(
        self, found: _Edges, section_id: str, direction: str, wanted: frozenset[str] | None
    ) -> None:
        spot = self._live.section(section_id)
        if spot is None:
            return
        segment = self._live.segments[spot.segment]
        first, last = segment.section_range(segment.doc_of_section(spot.number))
        own = spot.number
        above = segment.parent_of_section(own)
        links: list[tuple[str, int, int]] = []
        if direction in ("out", "both"):
            links += [("parent", own, above)] if above >= 0 else []
            links += [("next", own, own + 1)] if own + 1 < last else []
        if direction in ("in", "both"):
            parents = segment.section_parent[first:last]
            links += [("parent", first + i, own) for i in _places(parents, own - first + 1)]
            links += [("next", own - 1, own)] if own > first else []
        for kind, source, target in links:
            if wanted is None or kind in wanted:
                names = segment.section_ids[source], segment.section_ids[target]
                later = source if kind == "parent" else target
                proof = self._heading(spot.segment, later)
                edge = kind, f"section:{names[0]}", f"section:{names[1]}"
                found.setdefault(edge, []).extend(proof)

    def _heading(self, number: int, section: int) -> list[_Proof]:
        """The heading of a section as the evidence of where it stands in the tree."""
        segment = self._live.segments[number]
        given = segment.section(section)
        start, end = given.heading or (given.span[0], given.span[0])
        first, last = segment.chunk_range(segment.doc_of_section(section))
        starts = segment.chunk_start[first:last]
        chunk = first + max(int(np.searchsorted(starts, start, side="right")) - 1, 0)
        if first == last:
            return []
        begin = int(segment.chunk_start[chunk])
        return [(number, Place(chunk, start - begin, end - start, "mentions", "rule"))]

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

    def _order(self, proof: _Proof) -> tuple[int, int, int]:
        number, place = proof
        segment = self._live.segments[number]
        rank = int(self._live.ranks[number][segment.doc_of_chunk(place.chunk)])
        start = int(segment.chunk_start[place.chunk]) + place.start
        return rank, start, start + place.length

    def _evidence(self, proof: _Proof) -> Evidence:
        number, place = proof
        segment = self._live.segments[number]
        start = int(segment.chunk_start[place.chunk]) + place.start
        return Evidence(
            segment.chunk_ids[place.chunk], start, start + place.length, place.role, place.origin
        )


def _other(edge: tuple[str, str, str], node: str) -> str:
    return edge[2] if edge[1] == node else edge[1]


def _places(values: Array, wanted: int) -> list[int]:
    found: list[int] = np.flatnonzero(values == wanted).tolist()
    return found
