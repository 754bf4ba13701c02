"""The steps of a walk: most are only counted, so what they show is made when it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from .answers import Edge
from .graph_edges import Proof, Triple
from .model import Evidence

if TYPE_CHECKING:
    from .graph import Graph


@dataclass(frozen=True)
class Step:
    """An edge that was walked, and where the bytes stand that show it."""

    edge: Edge
    evidence: Evidence
    other: str
    outward: bool

    @property
    def relation(self) -> str:
        """The relation's name."""
        return self.edge.relation

    def shown(self, graph: Graph) -> Step:
        """Itself."""
        return self


class Walked(NamedTuple):
    """A relation that was walked from `node`, not yet made for showing."""

    relation: str
    triple: Triple
    node: str
    depth: int
    proof: Proof

    def shown(self, graph: Graph) -> Step:
        """The step with its evidence."""
        _, source, target = self.triple
        outward = source == self.node
        evidence = graph.evidence(self.proof)
        edge = Edge(source, self.relation, target, self.depth, evidence.origin)
        return Step(edge, evidence, target if outward else source, outward)


class Placed(NamedTuple):
    """A place where an entity stands, not yet made for showing."""

    relation: str
    key: str
    proof: Proof

    def shown(self, graph: Graph) -> Step:
        """The step with its evidence."""
        found = graph.evidence(self.proof)
        edge = Edge(self.key, self.relation, f"chunk:{found.chunk_id}", 1, found.origin)
        return Step(edge, found, found.chunk_id, True)


AnyStep = Step | Walked | Placed
