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
from collections.abc import Iterator
from typing import Any

from .schema_keywords import positions
from .schema_refs import Document, always_in_place, ref_siblings_count, refuse

WAYS_MAX = 5_000
EDGES_MAX = 100_000
CHAIN_MAX = 100
# Texts in an enum are looked up; objects and arrays are compared with the value one by one.
ENUM_MAX = 1_000

_Edges = list[tuple[int, int]]  # (schema, how often)
_Key = str | int | None
_Own = tuple[str, _Key, frozenset[Any], int]
# What judges children of many names: (family, the names it leaves to others, schema, how often).
_Wide = tuple[str, frozenset[Any], int, int]


def check_cost(document: Document, depth: int) -> int:
    """In how many ways one value within `depth` can be judged; SchemaError if more than 5,000.

    The computation itself is bounded: by the chain of references for one value, and by the number
    of edges between schemas.
    """
    _check_enums(document)
    groups = _Groups(document)
    root = id(document.root)
    children: dict[int, list[_Edges]] = {}
    stack = [root]
    edges_count = 0
    while stack:
        schema = stack.pop()
        if schema not in children:
            children[schema] = groups.children(schema)
            edges_count += sum(map(len, children[schema]))
            if edges_count > EDGES_MAX:
                _refuse(document, schema)
            stack.extend(target for edges in children[schema] for target, _ in edges)
    ways = {schema: groups.size(schema) for schema in children}
    most = 1
    for _ in range(depth):
        most = max(most, *ways.values())
        if most > WAYS_MAX:
            _refuse(document, max(ways, key=lambda schema: ways[schema]))
        next_ways = {
            schema: max(
                (sum(times * ways[target] for target, times in edges) for edges in found),
                default=0,
            )
            for schema, found in children.items()
        }
        if next_ways == ways or not any(next_ways.values()):
            break
        ways = next_ways
    return most


def _check_enums(document: Document) -> None:
    """Over the whole document: several enums may judge one value."""
    count = 0
    for node in document.nodes.values():
        listed = node.schema.get("enum")
        count += sum(type(one) in (dict, list) for one in listed) if type(listed) is list else 0
        if count > ENUM_MAX:
            message = f"lists more than {ENUM_MAX} objects and arrays in enums"
            raise refuse(node.path, "schema-cost", message, "describe their form instead")


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
        self._children: dict[int, list[_Own]] = {}

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
        if len(self._open) > CHAIN_MAX:
            path = document.nodes[schema].path
            message = f"lies at the end of more than {CHAIN_MAX} references for the same value"
            raise refuse(path, "schema-cost", message, "refer to it directly")
        self._open.add(schema)
        counts = Counter({schema: 1})
        for other in always_in_place(document, document.nodes[schema].schema):
            counts.update(self.members(id(other)))
            if sum(counts.values()) > WAYS_MAX:
                _refuse(document, schema)
        # One of them is followed; the largest count of each member bounds them all.
        followed: Counter[int] = Counter()
        for choice in document.choices.get(schema, ()):
            followed |= self.members(id(choice))
        counts.update(followed)
        if sum(counts.values()) > WAYS_MAX:
            _refuse(document, schema)
        self._open.discard(schema)
        self._members[schema] = counts
        return counts

    def children(self, schema: int) -> list[_Edges]:
        """For each kind of child that can be told apart, the schemas that judge it."""
        exact: dict[tuple[str, Any], Counter[int]] = defaultdict(Counter)
        wide: list[_Wide] = []
        for member, times in self.members(schema).items():
            for family, key, left, target in self._own(member):
                if key is not None:
                    exact[family, key][target] += times
                else:
                    wide.append((family, left, target, times))
        return _combined(exact, wide)

    def _own(self, schema: int) -> list[_Own]:
        found = self._children.get(schema)
        if found is None:
            inner = self.document.nodes[schema].schema
            is_read = ref_siblings_count(self.document, inner)
            found = self._children[schema] = list(_own_children(inner)) if is_read else []
        return found


def _own_children(schema: dict[str, Any]) -> Iterator[_Own]:
    """The schemas that this one holds for children: (family, the one child, names left, schema)."""
    named = {
        "property": frozenset(_named(schema, "properties")),
        "item": frozenset(_named(schema, "prefixItems", "items")),
    }
    for position in positions(schema):
        if position.kind == "child" and isinstance(position.schema, dict):
            family, key = _label(position.keyword, position.key)
            takes_rest = position.keyword not in {"patternProperties", "contains"}
            left = named.get(family, _NONE) if takes_rest else _NONE
            yield family, key, left, id(position.schema)


def _combined(exact: dict[tuple[str, Any], Counter[int]], wide: list[_Wide]) -> list[_Edges]:
    """What judges each named child, and what judges any other."""
    found = []
    for (family, key), edges in exact.items():
        total = Counter(edges)
        for other, left, target, times in wide:
            if other == family and key not in left:
                total[target] += times
        found.append(list(total.items()))
    for family in {family for family, _, _, _ in wide}:
        total = Counter()
        for other, _, target, times in wide:
            if other == family:
                total[target] += times
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
