"""From a schema to the validators that judge by it: every check of registration, in order."""

from __future__ import annotations

from typing import Any, NamedTuple

import jsonschema_rs

from .jsonvalue import Bounds, Canonical, canonicalize, loads_canonical
from .problems import SchemaError, ValidationError
from .schema_closed import STRICT_INTEGER, add_strict_integers, close, is_monotone
from .schema_cost import check_cost
from .schema_keywords import Dialect
from .schema_patterns import engine_pattern
from .schema_refs import Document, dialect_of, read_document, refuse

_BOUNDS = Bounds(max_bytes=256_000, max_depth=128, max_items=50_000)
_EXACT_BOUNDS = Bounds(max_bytes=256_000, max_depth=128, max_items=50_000, max_integer=None)
# The engine without look-around and backreferences; the sizes bound what a{1000}{1000} compiles to.
_ENGINE = jsonschema_rs.RegexOptions(size_limit=1_000_000, dfa_size_limit=1_000_000)
_CHOICES = frozenset({"anyOf", "oneOf"})


class Validators(NamedTuple):
    """What a value has to pass: all of `plain`, or of `strict` where it holds a 5.0."""

    plain: tuple[Any, ...]
    strict: tuple[Any, ...]
    ways: int  # in how many ways one value can be judged, at most
    has_choices: bool


def plain_schema(schema: Any, *, is_strict: bool) -> Canonical:
    """The canonical copy of a schema, or SchemaError."""
    try:
        canonical = canonicalize(schema, _BOUNDS if is_strict else _EXACT_BOUNDS)
    except ValidationError as error:
        raise SchemaError(f"the schema is no JSON value: {error}", error.problems) from None
    if not isinstance(canonical.value, (dict, bool)):
        raise refuse((), "schema", "must be an object, true or false", "write a JSON Schema")
    return canonical


def build_validators(
    canonical: Canonical,
    *,
    default_dialect: str,
    is_strict: bool,
    is_object: bool,
    strict_integers: bool,
    depth: int,
) -> Validators:
    """Check the schema and compile it for values of at most this depth."""
    # A copy of our own, which is rewritten step by step; each validator is built from one step.
    schema = loads_canonical(canonical.data)
    if isinstance(schema, bool):
        schema = {} if schema else {"not": {}}
    dialect = dialect_of(schema, default_dialect)
    document = read_document(schema, dialect, is_strict=is_strict)
    ways = check_cost(document, depth)
    _translate_patterns(document)
    plain = [_build(schema, dialect, is_strict)]
    if is_strict:
        if is_object:
            _check_argument_types(schema)
        keep = [] if is_monotone(document) else plain
        close(document)
        plain = [*keep, _build(schema, dialect, is_strict)]
    strict = list(plain)
    if strict_integers and add_strict_integers(document):
        strict.append(_build(schema, dialect, is_strict, keywords=_OWN_KEYWORDS))
    has_choices = any(_CHOICES & node.schema.keys() for node in document.nodes.values())
    return Validators(tuple(plain), tuple(strict), ways, has_choices)


def _check_argument_types(schema: dict[str, Any]) -> None:
    """Every argument has a type, or another schema that gives it one."""
    for name, rules in schema.get("properties", {}).items():
        if rules is False or (isinstance(rules, dict) and _TYPE_GIVERS & rules.keys()):
            continue
        message = f"unsupported or ambiguous type for {name}"
        problem = refuse(("properties", name), "type", message, "say its type").problems
        raise SchemaError(message, problem)


_TYPE_GIVERS = frozenset({"type", "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf"})


def _translate_patterns(document: Document) -> None:
    for node in document.nodes.values():
        pattern = node.schema.get("pattern")
        if isinstance(pattern, str):
            node.schema["pattern"] = _translated(pattern, (*node.path, "pattern"))
        by_pattern = node.schema.get("patternProperties")
        if isinstance(by_pattern, dict):
            node.schema["patternProperties"] = {
                _translated(key, (*node.path, "patternProperties", key)): inner
                for key, inner in by_pattern.items()
            }


def _translated(pattern: str, path: tuple[str | int, ...]) -> str:
    try:
        return engine_pattern(pattern)
    except ValueError as error:
        raise refuse(path, "pattern", str(error), "write it in plain ECMA-262") from None


class _RefuseFloat:
    """Our keyword: an integer asked for must not come as 5.0."""

    def __init__(self, parent: dict[str, Any], value: Any, path: list[str | int]) -> None:
        pass

    def validate(self, instance: Any) -> None:
        if type(instance) is float:
            raise ValueError("not an integer")


_OWN_KEYWORDS = {STRICT_INTEGER: _RefuseFloat}


def _build(
    schema: dict[str, Any],
    dialect: Dialect,
    is_strict: bool,
    # A keyword of one's own makes every judgement slower, whether the schema uses it or not.
    keywords: dict[str, Any] | None = None,
) -> Any:
    build: Any = (
        jsonschema_rs.Draft7Validator if dialect.is_draft7 else jsonschema_rs.Draft202012Validator
    )
    try:
        return build(
            schema,
            offline=True,
            pattern_options=_ENGINE,
            keywords=keywords,
            validate_formats=is_strict,
            ignore_unknown_formats=False,
        )
    except jsonschema_rs.ValidationError as error:
        raise _broken(error, dialect) from None


def _broken(error: Any, dialect: Dialect) -> SchemaError:
    path = tuple(error.instance_path)
    keyword = str(path[-1]) if path else "schema"
    if keyword == "pattern" or "patternProperties" in path:
        message = "is no regular expression that runs in linear time here"
        return refuse(path, "pattern", message, "use ECMA-262 without look-around and \\1")
    if keyword == "format":
        return refuse(path, "format", "is no known format", "correct or remove it")
    message = f"breaks the rules of JSON Schema {dialect.name}"
    return refuse(path, keyword, message, "correct it")
