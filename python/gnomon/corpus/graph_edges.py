"""How a graph finds the relations of a node: proofs as rows of numbers, names where they are met.

A proof is where a document shows a relation, written so that it sorts by documents and places.
Names and numbers of nodes, and what leads to a document, are kept in bounded tables: a generation
never changes, so neither do they.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import numpy as np

from .columns_io import Array, Int64Array
from .graph_segment import GraphSegment
from .kept import Kept
from .links import Links
from .live import Live, Spot
from .model import Evidence

Triple = tuple[str, str, str]  # type, source, target
#: Rank of the document, first and last raw byte, segment, chunk, (role, origin).
Proof = tuple[int, int, int, int, int, tuple[str, str]]
Edges = dict[Triple, list[Proof]]
in_order = itemgetter(0, 1, 2)  # of proofs: by documents, then places

_NAMES_MOST = 200_000  # names of nodes kept, a segment
_PROOFS_MOST = 200_000  # proofs of links into documents kept
_HEADINGS_MOST = 50_000


class Relations:
    """The relations of a view's nodes, found node by node."""

    def __init__(self, live: Live, links: Links) -> None:
        self._live = live
        self._links = links
        self._names: list[Kept[int, str]] = [Kept(_NAMES_MOST) for _ in live.segments]
        self._numbers: list[Kept[str, int]] = [Kept(_NAMES_MOST) for _ in live.segments]
        self._into: dict[Spot, dict[str, list[tuple[Triple, Proof]]]] = {}
        self._kept = 0  # proofs in `_into`
        self._headings: Kept[Spot, list[Proof]] = Kept(_HEADINGS_MOST)

    def of(self, node: str, direction: str, wanted: frozenset[str] | None) -> Edges:
        """The relations of a node with their proofs, out of it first."""
        found: Edges = {}
        if direction in ("out", "both"):
            for number, graph, place in self._places(node):
                for edge, proof in self._proofs(number, graph, graph.edges_out(place), wanted):
                    found.setdefault(edge, []).append(proof)
        if direction in ("in", "both"):
            for number, graph, place in self._places(node):
                for edge, proof in self._proofs(number, graph, graph.edges_in(place), wanted):
                    if edge[2] == node:
                        found.setdefault(edge, []).append(proof)
            for edge, proof in self._by_path(node):
                if wanted is None or edge[0] in wanted:
                    found.setdefault(edge, []).append(proof)
        if node.startswith("section:"):
            self._add_tree(found, node[8:], direction, wanted)
        return found

    def evidence(self, proof: Proof) -> Evidence:
        """A proof as the answer says it."""
        _, start, end, number, chunk, (role, origin) = proof
        return Evidence(self._live.segments[number].chunk_ids[chunk], start, end, role, origin)

    def proofs(
        self, number: int, chunks: Array, starts: Array, lengths: Array, roles: Array
    ) -> list[Proof]:
        """Places of a segment as proofs; `starts` count from the chunks' starts."""
        segment = self._live.segments[number]
        ranks = self._live.ranks[number][segment.chunk_doc[chunks]]
        begin = segment.chunk_start[chunks].astype(np.int64) + starts
        end = begin + lengths
        called = segment.graph.roles
        return [
            (rank, first, last, number, chunk, called[role])
            for rank, first, last, chunk, role in zip(
                ranks.tolist(),
                begin.tolist(),
                end.tolist(),
                chunks.tolist(),
                roles.tolist(),
                strict=True,
            )
        ]

    # Nodes

    def _places(self, node: str) -> Iterator[tuple[int, GraphSegment, int]]:
        """The segments that have a node, and its number there."""
        for number, segment in enumerate(self._live.segments):
            known = self._numbers[number]
            place = known.get(node)
            if place is None:
                place = known.keep(node, segment.graph.node(node))
            if place >= 0:
                yield number, segment.graph, place

    def _called(self, number: int, graph: GraphSegment, nodes: list[int]) -> list[str]:
        """The names of nodes of a segment."""
        known = self._names[number]
        names = []
        for node in nodes:
            name = known.get(node)
            names.append(known.keep(node, graph.name(node)) if name is None else name)
        return names

    # Rows

    def _proofs(
        self,
        number: int,
        graph: GraphSegment,
        rows: Int64Array,
        wanted: frozenset[str] | None = None,
        source: str | None = None,
    ) -> Iterator[tuple[Triple, Proof]]:
        """Live proofs of edges, with targets that are paths led to what they name; only those of
        documents of `source` where one is given.
        """
        c, segment = graph.columns, self._live.segments[number]
        if wanted is not None:
            kinds = [kind in wanted for kind in graph.relation_types]
            rows = rows[np.array(kinds, np.bool_)[c["edge_type"][rows]]]
        if not rows.size:
            return
        begin = c["proof_first"][rows].astype(np.int64)
        widths = c["proof_first"][rows + 1] - begin
        owner = np.repeat(np.arange(len(rows)), widths)
        at = np.arange(len(owner)) + (begin - np.cumsum(widths) + widths)[owner]
        alive = self._live.chunk_masks[number][c["proof_chunk"][at]]
        if source is not None:
            of = [name == source for name in segment.sources]
            docs = segment.chunk_doc[c["proof_chunk"][at]]
            alive &= np.array(of, np.bool_)[segment.doc_source[docs]]
        if not alive.all():
            held, owner = np.unique(owner[alive], return_inverse=True)
            rows, at = rows[held], at[alive]
        names = graph.relation_types
        kinds_, sources = c["edge_type"][rows].tolist(), c["edge_source"][rows].tolist()
        triples = list(
            zip(
                [names[kind] for kind in kinds_],
                self._called(number, graph, sources),
                self._called(number, graph, c["edge_target"][rows].tolist()),
                strict=True,
            )
        )
        places = (c[f"proof_{name}"][at] for name in ("chunk", "start", "length", "role"))
        found: list[Any] = self.proofs(number, *places)
        for edge, proof in zip(owner.tolist(), found, strict=True):
            triple = triples[edge]
            if triple[2].startswith("path:"):
                here = segment.sources[int(segment.doc_source[segment.chunk_doc[proof[4]]])]
                triple = (triple[0], triple[1], self._links.target(triple[2], here))
            yield triple, proof

    # Links that name a document by its path

    def _by_path(self, node: str) -> list[tuple[Triple, Proof]]:
        """The relations into a document or section whose target is written as a path."""
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
            return []
        into = self._into.get(spot)
        if into is None:
            into = self._links_into(spot)
            if self._kept >= _PROOFS_MOST:
                self._into, self._kept = {}, 0
            self._into[spot] = into
            self._kept += 1 + sum(map(len, into.values()))
        return into.get(node, [])

    def _links_into(self, spot: Spot) -> dict[str, list[tuple[Triple, Proof]]]:
        """By the node that they lead to, all links that may have meant a document by its path.

        A path leads to documents of the source that it stands in, never to another's.
        """
        home = self._live.segments[spot.segment]
        source = home.sources[int(home.doc_source[spot.number])]
        names: set[str] = set()
        for path in self._links.paths(spot):
            names.add(path)
            for segment in self._live.segments:
                names.update(name for _, name in segment.graph.others_from(f"{path}#"))
        into: dict[str, list[tuple[Triple, Proof]]] = {}
        for name in sorted(names):
            for number, graph, place in self._places(name):
                for edge, proof in self._proofs(number, graph, graph.edges_in(place), None, source):
                    into.setdefault(edge[2], []).append((edge, proof))
        return into

    # The section tree

    def _add_tree(
        self, found: Edges, section_id: str, direction: str, wanted: frozenset[str] | None
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
            below: list[int] = np.flatnonzero(parents == own - first + 1).tolist()
            links += [("parent", first + i, own) for i in below]
            links += [("next", own - 1, own)] if own > first else []
        for kind, source, target in links:
            if wanted is None or kind in wanted:
                names = segment.section_ids[source], segment.section_ids[target]
                later = source if kind == "parent" else target
                edge = kind, f"section:{names[0]}", f"section:{names[1]}"
                found.setdefault(edge, []).extend(self._heading(Spot(spot.segment, later)))

    def _heading(self, spot: Spot) -> list[Proof]:
        """The heading of a section as the evidence of where it stands in the tree."""
        known = self._headings.get(spot)
        if known is None:
            known = self._headings.keep(spot, self._read_heading(spot))
        return known

    def _read_heading(self, spot: Spot) -> list[Proof]:
        segment = self._live.segments[spot.segment]
        given = segment.section(spot.number)
        start, end = given.heading or (given.span[0], given.span[0])
        doc = segment.doc_of_section(spot.number)
        first, last = segment.chunk_range(doc)
        if first == last:
            return []
        starts = segment.chunk_start[first:last]
        chunk = first + max(int(np.searchsorted(starts, start, side="right")) - 1, 0)
        rank = int(self._live.ranks[spot.segment][doc])
        return [(rank, start, end, spot.segment, chunk, ("mentions", "rule"))]
