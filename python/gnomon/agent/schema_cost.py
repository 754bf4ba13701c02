"""How often one value can be judged by a schema, computed before any value is.

A validator walks the schema once per value and once more for every further way the schema leads to
the same value. Twenty-seven definitions that each say `allOf: [next, next]` lead to one integer in
2^27 ways, and a recursive definition that names one child twice doubles with every level of the
argument. Both are short texts. So the number of ways is computed here, over all arguments of the
permitted depth, and a schema that is too expensive is refused when the tool is registered.

Write W(d, S) for the ways in which schemas judge one value that lies d levels below a value judged
by S. All schemas that judge the same value as S (through $ref, allOf, anyOf, ...) form its group;
n(S) counts the members with repetition. A child of the value is judged by every schema that a
member holds for it:

    W(0, S) = n(S)        W(d, S) = max over children c of sum over schemas T for c of W(d - 1, T)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from .schema_keywords import positions
from .schema_refs import Document, in_place, ref_siblings_count, refuse

WAYS_MAX = 5_000

_Edges = list[tuple[int, int]]  # (schema, how often)


def check_cost(document: Document, depth: int) -> None:
    """Raise SchemaError if some value within `depth` can be judged in more than 5,000 ways."""
    groups = _Groups(document)
    root = id(document.root)
    children: dict[int, list[_Edges]] = {}
    stack = [root]
    while stack:
        schema = stack.pop()
        if schema not in children:
            children[schema] = groups.children(schema)
            stack.extend(target for edges in children[schema] for target, _ in edges)
    ways = {schema: groups.size(schema) for schema in children}
    for _ in range(depth):
        if max(ways.values()) > WAYS_MAX:
            _refuse(document, max(ways, key=lambda schema: ways[schema]))
        next_ways = {
            schema: max(
                (sum(times * ways[target] for target, times in edges) for edges in found),
                default=0,
            )
            for schema, found in children.items()
        }
        if next_ways == ways or not any(next_ways.values()):
            return
        ways = next_ways


def _refuse(document: Document, schema: int) -> None:
    raise refuse(
        document.nodes[schema].path,
        "schema-cost",
        f"can judge one value in more than {WAYS_MAX} ways",
        "make the references fewer, or let each child be described once",
    )


class _Groups:
    """The group of each schema: who else judges the same value, and how often."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._members: dict[int, Counter[int]] = {}
        self._open: set[int] = set()

    def size(self, schema: int) -> int:
        return sum(self.members(schema).values())

    def members(self, schema: int) -> Counter[int]:
        """Schema -> in how many ways it judges the value that `schema` judges."""
        found = self._members.get(schema)
        if found is not None:
            return found
        document = self.document
        if schema in self._open:
            path = document.nodes[schema].path
            message = "refers back to itself for the same value"
            raise refuse(path, "ref-loop", message, "let the reference pass through a property")
        self._open.add(schema)
        counts = Counter({schema: 1})
        for other in in_place(document, document.nodes[schema].schema):
            counts.update(self.members(id(other)))
            if sum(counts.values()) > WAYS_MAX:
                _refuse(document, schema)
        self._open.discard(schema)
        self._members[schema] = counts
        return counts

    def children(self, schema: int) -> list[_Edges]:
        """For each kind of child that can be told apart, the schemas that judge it."""
        exact: dict[tuple[str, Any], Counter[int]] = defaultdict(Counter)
        # (family, the names it leaves to others, edges): what judges children of many names.
        wide: list[tuple[str, frozenset[Any], Counter[int]]] = []
        for member, times in self.members(schema).items():
            inner = self.document.nodes[member].schema
            if not ref_siblings_count(self.document, inner):
                continue
            named = {
                "property": frozenset(_named(inner, "properties")),
                "item": frozenset(_named(inner, "prefixItems", "items")),
            }
            for position in positions(inner):
                if position.kind != "child" or not isinstance(position.schema, dict):
                    continue
                family, key = _label(position.keyword, position.key)
                edge = Counter({id(position.schema): times})
                if key is not None:
                    exact[family, key].update(edge)
                else:
                    rest = position.keyword not in {"patternProperties", "contains"}
                    wide.append((family, named.get(family, _NONE) if rest else _NONE, edge))
        return self._combined(exact, wide)

    @staticmethod
    def _combined(
        exact: dict[tuple[str, Any], Counter[int]],
        wide: list[tuple[str, frozenset[Any], Counter[int]]],
    ) -> list[_Edges]:
        found = []
        for (family, key), edges in exact.items():
            total = Counter(edges)
            for other, left, more in wide:
                if other == family and key not in left:
                    total.update(more)
            found.append(list(total.items()))
        for family in {family for family, _, _ in wide}:
            total = Counter()
            for other, _, more in wide:
                if other == family:
                    total.update(more)
            found.append(list(total.items()))
        return found


_NONE: frozenset[Any] = frozenset()


def _named(schema: dict[str, Any], *keywords: str) -> list[Any]:
    found: list[Any] = []
    for keyword in keywords:
        value = schema.get(keyword)
        if isinstance(value, dict) and keyword == "properties":
            found += value
        elif isinstance(value, list):
            found += range(len(value))
    return found


def _label(keyword: str, key: str | int | None) -> tuple[str, str | int | None]:
    """The family of children a keyword speaks of, and the one child it means, if it means one."""
    if keyword == "propertyNames":
        return "name", ""
    if keyword in {"properties", "patternProperties"} or keyword.endswith("Properties"):
        return "property", key if keyword == "properties" else None
    return "item", key
