"""Strict rules, written into the schema itself.

Unknown fields are refused at every level unless the schema says otherwise: `close` adds
`additionalProperties: false`, or `unevaluatedProperties: false` where several schemas speak of the
same object, to every place that describes an object and says neither. Under `oneOf` a stricter
branch can make a laxer whole; where the document has such a keyword, the caller must hold every
value against the original as well (`is_monotone`), so that nothing passes that JSON Schema refuses.
"""

from __future__ import annotations

from typing import Any

from .schema_keywords import IN_PLACE_MANY, OBJECT_KEYWORDS, positions
from .schema_refs import Document, in_place, ref_siblings_count, refuse

# A keyword of our own, understood by the validator only: refuses 5.0 where "integer" is asked for.
STRICT_INTEGER = "gnomon:integer"

_SAYS = ("additionalProperties", "unevaluatedProperties")
# What may name the fields of an object.
_NAMING = frozenset({"properties", "patternProperties", *_SAYS})
# Under these a closed schema would turn a refusal into a pass, so nothing there is closed.
_REVERSING = frozenset({"not", "if", "contains", "propertyNames"})


def is_monotone(document: Document) -> bool:
    """Whether a stricter part always makes a stricter whole."""
    risky = _REVERSING | {"oneOf"}
    return not any(risky & node.schema.keys() for node in document.nodes.values())


def add_strict_integers(document: Document) -> bool:
    """Mark, in place, every schema that asks for an integer; whether there was one."""
    found = False
    for node in document.nodes.values():
        types = node.schema.get("type")
        types = [types] if isinstance(types, str) else types or []
        if "integer" in types and "number" not in types:
            node.schema[STRICT_INTEGER] = True
            found = True
    return found


def close(document: Document) -> None:
    """Close, in place, every object of the document; SchemaError where draft 7 cannot say it."""
    stack: list[tuple[dict[str, Any], bool]] = [(document.root, True)]
    while stack:
        schema, is_place = stack.pop()
        inner = list(positions(schema)) if ref_siblings_count(document, schema) else []
        stored = [p for p in positions(schema) if p.kind == "stored"]
        if is_place:
            _close_place(document, schema)
        for position in {id(p.schema): p for p in (*inner, *stored)}.values():
            if position.keyword not in _REVERSING and isinstance(position.schema, dict):
                stack.append((position.schema, position.kind == "child"))


def _close_place(document: Document, schema: dict[str, Any]) -> None:
    if any(keyword in schema for keyword in _SAYS) or not _describes_object(document, schema):
        return
    others = list(in_place(document, schema))
    if not any(_names_fields(document, other) for other in others):
        if ref_siblings_count(document, schema):
            schema["additionalProperties"] = False
            return
    elif not document.dialect.is_draft7:
        schema["unevaluatedProperties"] = False
        return
    _close_draft7(document, schema, others)


def _close_draft7(document: Document, schema: dict[str, Any], others: list[dict[str, Any]]) -> None:
    """Draft 7 knows `additionalProperties` alone: close the one place that names the fields."""
    naming = [keyword for keyword in schema if keyword in (*IN_PLACE_MANY, "then", "else")]
    has_ref = "$ref" in schema
    is_choice = naming in (["anyOf"], ["oneOf"]) or (naming == ["allOf"] and len(others) == 1)
    if not has_ref and (not is_choice or _NAMING & schema.keys() or "dependencies" in schema):
        raise refuse(
            document.node(schema).path,
            "strict-object",
            "describes one object by several schemas, which draft 7 cannot close",
            "say additionalProperties there, or write the schema in 2020-12",
        )
    for other in others:
        _close_place(document, other)


def _describes_object(document: Document, schema: dict[str, Any]) -> bool:
    known = document.describes.get(id(schema))
    if known is None:
        known = document.describes[id(schema)] = _speaks_of_object(document, schema)
    return known


def _speaks_of_object(document: Document, schema: dict[str, Any]) -> bool:
    if ref_siblings_count(document, schema):
        types = schema.get("type")
        if types is not None:
            return "object" in ([types] if isinstance(types, str) else types)
        if OBJECT_KEYWORDS & schema.keys():
            return True
    return any(_describes_object(document, other) for other in in_place(document, schema))


def _names_fields(document: Document, schema: dict[str, Any]) -> bool:
    known = document.names.get(id(schema))
    if known is None:
        own = ref_siblings_count(document, schema) and bool(_NAMING & schema.keys())
        known = own or any(_names_fields(document, other) for other in in_place(document, schema))
        document.names[id(schema)] = known
    return known
