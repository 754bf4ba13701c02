"""The closed list of JSON Schema keywords, per dialect, and where each holds further schemas.

A keyword that is not listed is refused when a tool is registered: a limit that is silently ignored,
because it is misspelt or belongs to another draft, is the worst kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

DRAFT_2020_12 = "https://json-schema.org/draft/2020-12/schema"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"

ANNOTATIONS = frozenset(
    {"$comment", "title", "description", "default", "examples", "readOnly", "writeOnly"}
)
# Annotations by the standard; the strict rules refuse them, for a reader takes them for limits.
CONTENT = frozenset({"contentEncoding", "contentMediaType", "contentSchema"})

_COMMON = ANNOTATIONS | {
    *("$id", "$schema", "$ref", "type", "enum", "const", "format", "pattern", "required"),
    *("minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("multipleOf", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
    *("definitions", "properties", "patternProperties", "additionalProperties", "propertyNames"),
    *("items", "contains", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
    *("contentEncoding", "contentMediaType"),
}


@dataclass(frozen=True)
class Dialect:
    """One draft: its name for messages, its URI, its keywords."""

    name: str
    uri: str
    keywords: frozenset[str]
    is_draft7: bool


DIALECTS = {
    DRAFT_2020_12: Dialect(
        "2020-12",
        DRAFT_2020_12,
        _COMMON
        | {
            *("$anchor", "$dynamicAnchor", "$dynamicRef", "$defs", "deprecated", "contentSchema"),
            *("dependentRequired", "dependentSchemas", "prefixItems", "minContains", "maxContains"),
            *("unevaluatedItems", "unevaluatedProperties"),
        },
        is_draft7=False,
    ),
    DRAFT_7: Dialect("7", DRAFT_7, _COMMON | {"dependencies", "additionalItems"}, is_draft7=True),
}

# Keywords that speak of objects: a schema with one of them describes an object, type or no type.
OBJECT_KEYWORDS = frozenset(
    {
        *("properties", "patternProperties", "required", "minProperties", "maxProperties"),
        *("propertyNames", "dependentRequired", "dependentSchemas", "dependencies"),
    }
)

IN_PLACE_ONE = ("not", "if", "then", "else")
IN_PLACE_MANY = ("allOf", "anyOf", "oneOf")
IN_PLACE_MAPS = ("dependentSchemas", "dependencies")
CHILD_ONE = (
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("items", "additionalItems", "unevaluatedItems", "contains"),
)
CHILD_MANY = ("prefixItems", "items")
CHILD_MAPS = ("properties", "patternProperties")
STORED = ("$defs", "definitions")


class Position(NamedTuple):
    """A schema inside a schema: how it applies, the keyword, the key or place in it, itself."""

    kind: str  # "in-place", "child" or "stored"
    keyword: str
    key: str | int | None
    schema: Any


def positions(schema: dict[str, Any]) -> Iterator[Position]:
    """Every schema directly inside `schema`, in a fixed order."""
    for keyword, value in schema.items():
        kind = _KIND.get(keyword)
        if kind is None:
            continue
        if isinstance(value, list):
            if keyword in IN_PLACE_MANY or keyword in CHILD_MANY:
                for place, inner in enumerate(value):
                    yield Position(kind, keyword, place, inner)
        elif keyword in _MAPS:
            if isinstance(value, dict):
                for key, inner in value.items():
                    if not (keyword == "dependencies" and isinstance(inner, list)):
                        yield Position(kind, keyword, key, inner)
        else:
            yield Position(kind, keyword, None, value)


_MAPS = frozenset({*IN_PLACE_MAPS, *CHILD_MAPS, *STORED})
_KIND = {
    **dict.fromkeys((*IN_PLACE_ONE, *IN_PLACE_MANY, *IN_PLACE_MAPS), "in-place"),
    **dict.fromkeys((*CHILD_ONE, *CHILD_MANY, *CHILD_MAPS), "child"),
    **dict.fromkeys((*STORED, "contentSchema"), "stored"),
}
