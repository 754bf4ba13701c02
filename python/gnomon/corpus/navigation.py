"""`navigate`: along the relations of an entity, or along the document of a passage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from .answers import Answer, Confidence, Edge, Item, NoHit, Related, Report
from .bounds import offset_of
from .filtering import restriction
from .graph_edges import Proof, Triple
from .items import Hit
from .model import Chunk, Evidence, Section, Span
from .query_compile import QueryError
from .questions import Call
from .snapshot import Direction
from .steps import AnyStep, Placed, Step, Walked
from .targets import Target, find

if TYPE_CHECKING:
    from .engine import Engine

STRUCTURE = ("parent", "prev", "next", "children")
_NAMED_BY = ("defined-in", "mentions")  # of an entity: where it stands
_LAST = ("co-occurs",)  # the many weak ones, behind the others
_ROLES = {"defines": 1.0, "example": 0.8}
_NAME_MOST = 4096  # characters
_NODES_MOST, _STEPS_MOST = 200, 2000


def relation_name(name: str) -> str:
    """How the graph writes a relation.

    >>> relation_name("SEE_ALSO"), relation_name("parent heading")
    ('see-also', 'parent')
    """
    plain = name.strip().casefold().replace("_", "-").replace(" ", "-")
    return {"parent-heading": "parent", "previous": "prev", "defines": "defined-in"}.get(
        plain, plain
    )


def navigate(engine: Engine, call: Call) -> Answer:
    """One item a step; its `edge` says which, its span and matches where that stands."""
    args = call.args
    offset = 0
    if args["cursor"]:
        offset = offset_of(args["cursor"], engine.generation, engine.key("navigate", args))
    if len(args["entity_or_id"]) > _NAME_MOST:
        raise QueryError(
            "query_too_long",
            f"entity_or_id has at most {_NAME_MOST:,} characters, "
            f"got {len(args['entity_or_id']):,}",
            "name one entity, passage or document",
        )
    target = find(engine, args["entity_or_id"])
    relation = None if args["relation"] is None else relation_name(args["relation"])
    restricted = restriction(engine.slots, args["filters"], None)
    walk = _Walk(engine, args, relation)
    if target.entities:
        steps = walk.from_entities([node.key for node in target.entities])
    else:
        steps = walk.from_place(target)
    if restricted.mask is not None:
        steps = walk.inside(steps, restricted.mask)
    shown = [step.shown(walk.graph) for step in steps[offset : offset + args["k"]]]
    if not steps:
        no_hit = walk.nothing(target, relation)
    elif not shown:
        no_hit = NoHit("exhausted_cursor", advice="there is nothing behind the last page")
    else:
        no_hit = None
    names = [node.key for node in target.entities] or [args["entity_or_id"]]
    report = Report(
        tool="navigate",
        generation=engine.generation,
        mode="graph",
        query=", ".join(names)[:500],
        plan=(f"{relation or 'all relations'}, {args['direction']}, depth {args['depth']}",),
        filters_applied=restricted.shown(),
        total=len(steps),
        exhaustive=not walk.bounded,
        no_hit=no_hit,
        counts=walk.counts(steps, target),
        notes=tuple(walk.notes(target)),
    )
    relaxed = "name" if target.guessed else ""
    items = walk.items(shown, relaxed)
    bases = {"identity" if step.edge.relation in STRUCTURE else "edge" for step in shown}
    more = offset + len(shown) < len(steps)
    return engine.page("navigate", args, report, items, (), len(shown), offset, more, bases)


class _Walk:
    """One walk over the graph or the section tree."""

    def __init__(self, engine: Engine, args: Any, relation: str | None) -> None:
        self.engine = engine
        self.snapshot = engine.snapshot
        self.graph = engine.snapshot.graph
        self.args = args
        self.relation = relation
        self.direction = cast(Direction, args["direction"])
        self.bounded = False

    # From entities

    def from_entities(self, keys: Sequence[str]) -> list[AnyStep]:
        steps: list[AnyStep] = []
        relation = self.relation
        if relation in (None, *_NAMED_BY):
            for key in keys:
                steps += self._places(key, relation)
        if relation in _NAMED_BY:
            return steps
        edges = self._walked(keys)
        if relation is None and not steps:  # defined nowhere: where it is mentioned
            for key in keys:
                steps += self._places(key, "mentions")
        steps += [step for step in edges if step.relation not in _LAST]
        return steps + [step for step in edges if step.relation in _LAST]

    def _walked(self, keys: Sequence[str]) -> list[Walked]:
        """Breadth first, each edge once."""
        steps: list[Walked] = []
        frontier, seen = list(keys), set(keys)
        walked: set[Triple] = set()
        for depth in range(1, self.args["depth"] + 1):
            behind: list[str] = []
            for node in frontier:
                for edge, proof in self._edges(node):
                    if edge in walked:
                        continue
                    walked.add(edge)
                    steps.append(Walked(edge[0], edge, node, depth, proof))
                    other = edge[2] if edge[1] == node else edge[1]
                    if other not in seen:
                        if len(seen) < _NODES_MOST:
                            seen.add(other)
                            behind.append(other)
                        else:
                            self.bounded = True
            frontier = behind
        return steps

    def _places(self, key: str, relation: str | None) -> list[Placed]:
        role = None if relation == "mentions" else "defines"
        name = "mentions" if relation == "mentions" else "defined-in"
        found = self.graph.proofs_of(key, role=role, limit=_STEPS_MOST)
        self.bounded |= len(found) >= _STEPS_MOST
        return [Placed(name, key, proof) for proof in found]

    def _edges(self, node: str) -> list[tuple[Triple, Proof]]:
        types = self.args["types"] or None
        found = self.graph.steps(
            node, self.relation, self.direction, types=types, limit=_STEPS_MOST
        )
        self.bounded |= len(found) >= _STEPS_MOST
        return found

    # From a passage, section or document

    def from_place(self, target: Target) -> list[AnyStep]:
        relation = self.relation
        steps: list[AnyStep] = []
        node, section = self._node(target), self._section(target)
        if relation in (None, "parent"):
            steps += self._parents(target, node)
        if relation in (None, "prev", "next") and target.chunk is not None:
            steps += self._beside(target.chunk, relation)
        if relation in (None, "children"):
            steps += self._children(target, node)
        if relation == "mentions" and target.chunk is not None:
            steps += self._named(target.chunk)
        if relation not in (*STRUCTURE, "mentions"):
            place = f"section:{section.id}" if section is not None else node
            steps += [
                Walked(edge[0], edge, place, 1, proof)
                for edge, proof in self._edges(place)
                if edge[0] not in STRUCTURE
            ]
        return steps

    def _node(self, target: Target) -> str:
        if target.chunk is not None:
            return f"chunk:{target.chunk.id}"
        if target.section is not None:
            return f"section:{target.section.id}"
        assert target.document is not None
        return f"doc:{target.document.id}"

    def _section(self, target: Target) -> Section | None:
        if target.chunk is not None:
            return self.snapshot.section(target.chunk.section_id)
        return target.section

    def _parents(self, target: Target, node: str) -> list[Step]:
        """The headings above: a chunk's own first, unless the chunk begins with it."""
        section = self._section(target)
        if section is None:
            return []
        steps = []
        chunk = target.chunk
        if chunk is not None and chunk.span[0] > section.span[0] and section.heading is not None:
            steps.append(self._head(node, "parent", section))
        while section.parent is not None:
            section = self.snapshot.section(section.parent)
            if section.heading is not None:
                steps.append(self._head(node, "parent", section, len(steps) + 1))
        return steps

    def _head(self, node: str, relation: str, section: Section, depth: int = 1) -> Step:
        """The passage that begins a section, its heading marked."""
        place = section.heading or section.span
        chunk = self.snapshot.chunk_at(section.doc_id, place[0])
        evidence = Evidence(chunk.id, place[0], place[1], "defines")
        other = f"section:{section.id}"
        return Step(Edge(node, relation, other, depth), evidence, other, True)

    def _beside(self, chunk: Chunk, relation: str | None) -> list[Step]:
        before, behind = self.snapshot.neighbours(chunk.id)
        steps = []
        for name, other in (("prev", before), ("next", behind)):
            if other is not None and relation in (None, name):
                place = self.snapshot.chunk(other).span
                evidence = Evidence(other, place[0], place[0], "mentions")
                steps.append(
                    Step(Edge(f"chunk:{chunk.id}", name, f"chunk:{other}"), evidence, other, True)
                )
        return steps

    def _children(self, target: Target, node: str) -> list[Step]:
        section = self._section(target)
        doc_id = section.doc_id if section is not None else ""
        if target.document is not None:
            doc_id = target.document.id
        tree = self.snapshot.sections(doc_id)
        if section is None:
            least = min((each.level for each in tree if each.heading), default=0)
            below = [each for each in tree if each.heading and each.level == least]
        else:
            below = [each for each in tree if each.parent == section.id]
        return [self._head(node, "children", each) for each in below]

    def _named(self, chunk: Chunk) -> list[Step]:
        return [
            Step(
                Edge(f"chunk:{chunk.id}", "mentions", node.key, 1, evidence.origin),
                evidence,
                node.key,
                True,
            )
            for node, evidence in self.graph.entities_of(chunk.id)
        ]

    # What is shown

    def inside(self, given: Sequence[AnyStep], mask: Any) -> list[AnyStep]:
        """The steps whose evidence stands in permitted passages."""
        steps = [step.shown(self.graph) for step in given]
        ids = list(dict.fromkeys(step.evidence.chunk_id for step in steps))
        slots = self.engine.slots.of_chunks(ids)
        kept = dict(zip(ids, mask[slots].tolist(), strict=True))
        return [step for step in steps if kept[step.evidence.chunk_id]]

    def items(self, steps: Sequence[Step], relaxed: str) -> Iterator[Item]:
        presenter = self.engine.presenter(self.args["detail"])
        for step in steps:
            evidence = step.evidence
            chunk = self.snapshot.chunk(evidence.chunk_id)
            spans: tuple[Span, ...] = ()
            if evidence.end > evidence.start:
                spans = ((evidence.start, evidence.end),)
            place = step.edge.relation in STRUCTURE
            confidence = (
                Confidence(1.0, "identity")
                if place
                else Confidence(_ROLES.get(evidence.role, 0.6), "edge")
            )
            related = (Related(step.edge.relation, step.other, step.outward),)
            yield presenter.item(
                Hit(chunk, None, confidence, relaxed, step.edge, spans, related, told=True)
            )

    def counts(self, steps: Sequence[AnyStep], target: Target) -> dict[str, float]:
        """How many steps of each relation there are, and how often an entity is mentioned."""
        found: dict[str, float] = {}
        for step in steps:
            found[step.relation] = found.get(step.relation, 0) + 1
        if target.entities:
            found["mentions"] = sum(node.mentions for node in target.entities)
            found["defined-in"] = sum(node.defined for node in target.entities)
        return dict(sorted(found.items()))

    def degrees(self, target: Target) -> dict[str, float]:
        """How many edges of each relation there are, in both directions."""
        found: dict[str, float] = {}
        nodes = [node.key for node in target.entities] or [self._node(target)]
        if target.chunk is not None:
            nodes = [f"section:{target.chunk.section_id}"]
        for node in nodes:
            for relation, (out, into) in self.graph.degree(node).items():
                found[relation] = found.get(relation, 0) + out + into
        if target.entities:
            found["mentions"] = sum(node.mentions for node in target.entities)
            found["defined-in"] = sum(node.defined for node in target.entities)
        return dict(sorted(found.items()))

    def notes(self, target: Target) -> list[str]:
        found = []
        if target.guessed:
            found.append(
                f"nothing is called {self.args['entity_or_id'][:100]!r}; "
                f"{target.entities[0].name!r} comes nearest"
            )
        if self.bounded:
            found.append(f"the walk ended at {_NODES_MOST} nodes or {_STEPS_MOST} edges of one")
        return found

    def nothing(self, target: Target, relation: str | None) -> NoHit:
        has = ", ".join(f"{name} ({n:g})" for name, n in self.degrees(target).items() if n)
        return NoHit(
            "no_relation",
            (relation or self.args["direction"],),
            advice=f"it has: {has[:400]}" if has else "it has no relation at all",
        )
