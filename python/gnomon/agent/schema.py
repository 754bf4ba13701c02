"""Compiled schemas and document 000's argument check, behind one set of strict rules.

The validator itself is jsonschema-rs, told to stay offline and to run every pattern in linear time.
What it is not asked to do is done around it: values are bounded and made plain before it sees them,
schemas are read against a closed keyword list and costed before they are compiled, and its messages
are replaced by problems that never repeat a value.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any, Literal

import jsonschema_rs

from .jsoncopy import PlainCopy, plain_copy
from .jsonvalue import (
    DEFAULT_BOUNDS,
    EXACT_BOUNDS,
    Bounds,
    Canonical,
    canonicalize,
    digest,
    loads_canonical,
)
from .problems import Problem, SchemaError, ValidationError
from .schema_closed import STRICT_INTEGER, add_strict_integers, close, is_monotone
from .schema_cost import check_cost
from .schema_keywords import DRAFT_2020_12, Dialect
from .schema_problems import document_error, problems_of
from .schema_refs import dialect_of, read_document, refuse

Rules = Literal["strict", "json-schema"]
Integers = Literal["strict", "json-schema"]

NOT_AN_OBJECT = "tool input must be an object"
_SCHEMA_BOUNDS = Bounds(max_bytes=256_000, max_depth=128, max_items=50_000)
_SCHEMA_BOUNDS_EXACT = Bounds(max_bytes=256_000, max_depth=128, max_items=50_000, max_integer=None)


class CompiledSchema:
    """A schema that has passed registration; `validate` judges values by it.

    Immutable and safe to share between threads. `digest` names the schema and the rules.
    """

    __slots__ = ("_strict_validators", "_validators", "bounds", "digest", "is_object", "schema")

    def __init__(self, schema: Any, *, rules: Rules, integers: Integers, is_object: bool) -> None:
        is_strict = rules == "strict"
        self.is_object = is_object
        self.bounds = DEFAULT_BOUNDS if is_strict else EXACT_BOUNDS
        canonical = _plain_schema(schema, is_strict)
        self.schema: Any = canonical.value
        key = json.dumps([rules, integers, is_object]).encode() + canonical.data
        self.digest = digest(key)
        self._validators, self._strict_validators = _validators(canonical, is_strict, integers)

    def validate(self, value: Any, bounds: Bounds | None = None) -> Canonical:
        """A canonical copy of `value`, or ValidationError with every problem found (at most 20)."""
        copy = plain_copy(value, bounds or self.bounds)
        if self.is_object and type(copy.value) is not dict:
            raise _not_an_object()
        self.check(copy)
        return copy.canonical()

    def is_valid(self, value: Any) -> bool:
        """Whether `validate` would return."""
        try:
            self.validate(value)
        except ValidationError:
            return False
        return True

    def check(self, copy: PlainCopy) -> None:
        """Raise ValidationError unless the plain copy keeps the schema."""
        value = copy.value
        validators = self._strict_validators if copy.has_integral_float else self._validators
        for validator in validators:
            if not validator.is_valid(value):
                problems = problems_of(validator, value)
                message = document_error(value, self.schema) if self.is_object else None
                raise ValidationError(message or "; ".join(map(str, problems)), problems)


def compile_schema(
    schema: Mapping[str, Any] | bool,
    *,
    rules: Rules = "strict",
    integers: Integers = "strict",
    is_object: bool = False,
) -> CompiledSchema:
    """Check a JSON Schema (2020-12, or draft 7 by its `$schema`) and compile it.

    `rules="strict"`: fields the schema does not name are refused at every level unless it says
    `additionalProperties` or `unevaluatedProperties`; `format` is checked and must be a known one.
    `rules="json-schema"`: the standard's own rules.
    `integers="strict"`: 5.0 is no integer; "json-schema": it is, and becomes 5.
    `is_object=True`: the schema of a tool's arguments, whose root has the type "object".

    Raises SchemaError, with path and remedy, for a keyword that is not known, a schema that breaks
    its meta-schema, a reference that leaves the document or loops, a pattern that cannot run in
    linear time, and a schema so large or so entangled that judging by it has no sensible bound.

    >>> compile_schema({"type": "object", "properties": {"n": {"type": "int"}}})
    Traceback (most recent call last):
      ...
    gnomon.agent.problems.SchemaError: /properties/n/type: breaks the rules of JSON Schema \
2020-12; correct it
    """
    if rules not in ("strict", "json-schema"):
        raise ValueError(f"rules must be 'strict' or 'json-schema', got {rules!r}")
    if integers not in ("strict", "json-schema"):
        raise ValueError(f"integers must be 'strict' or 'json-schema', got {integers!r}")
    if is_object and not (isinstance(schema, dict) and schema.get("type") == "object"):
        problem = Problem("", "type", NOT_AN_OBJECT, 'write {"type": "object", ...}')
        raise SchemaError(NOT_AN_OBJECT, [problem])
    return CompiledSchema(schema, rules=rules, integers=integers, is_object=is_object)


def validate_arguments(arguments: Any, schema: Any) -> dict[str, Any]:
    """Validate arguments by a strict object schema and return a canonical deep copy.

    Document 000's validator, with its messages wherever it can judge, and JSON Schema 2020-12 or
    draft 7 beyond it. Raises ValidationError (a ValueError) for the arguments and SchemaError (a
    ValueError) for the schema; both carry `problems`.

    >>> schema = {"type": "object", "properties": {"top_k": {"type": "integer", "maximum": 8}}}
    >>> validate_arguments({"top_k": 3}, schema)
    {'top_k': 3}
    >>> validate_arguments({"top_k": True}, schema)
    Traceback (most recent call last):
      ...
    gnomon.agent.problems.ValidationError: unsupported or ambiguous type for top_k
    """
    if not isinstance(arguments, dict):
        raise _not_an_object()
    try:
        text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        compiled = compile_schema(schema, is_object=True)
    else:
        compiled = (
            _compiled(text) if type(schema) is dict else compile_schema(schema, is_object=True)
        )
    value: dict[str, Any] = compiled.validate(arguments).value
    return value


@functools.lru_cache(maxsize=256)
def _compiled(text: str) -> CompiledSchema:
    return compile_schema(json.loads(text), is_object=True)


def _not_an_object() -> ValidationError:
    problem = Problem("", "type", NOT_AN_OBJECT, "send a JSON object")
    return ValidationError(NOT_AN_OBJECT, [problem])


def _plain_schema(schema: Any, is_strict: bool) -> Canonical:
    try:
        canonical = canonicalize(schema, _SCHEMA_BOUNDS if is_strict else _SCHEMA_BOUNDS_EXACT)
    except ValidationError as error:
        raise SchemaError(f"the schema is no JSON value: {error}", error.problems) from None
    if not isinstance(canonical.value, (dict, bool)):
        raise refuse((), "schema", "must be an object, true or false", "write a JSON Schema")
    return canonical


def _validators(
    canonical: Canonical, is_strict: bool, integers: Integers
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The validators for values without and with an integral float such as 5.0."""
    schema = canonical.value
    if isinstance(schema, bool):
        schema = {} if schema else {"not": {}}
    dialect = dialect_of(schema, DRAFT_2020_12)
    rewritten = loads_canonical(canonical.data) if isinstance(canonical.value, dict) else schema
    document = read_document(rewritten, dialect, is_strict=is_strict)
    check_cost(document, DEFAULT_BOUNDS.max_depth)
    # The meta-schema is checked on the author's own text; the other copy is rewritten below.
    original = _build(schema, dialect, is_strict)
    native = [original]
    if is_strict:
        monotone = is_monotone(document)
        close(document)
        closed = _build(rewritten, dialect, is_strict)
        native = [closed] if monotone else [original, closed]
    if integers == "strict" and add_strict_integers(document):
        return tuple(native), (*native, _build(rewritten, dialect, is_strict))
    return tuple(native), tuple(native)


class _RefuseFloat:
    """Our keyword: an integer asked for must not come as 5.0."""

    def __init__(self, parent: dict[str, Any], value: Any, path: list[str | int]) -> None:
        pass

    def validate(self, instance: Any) -> None:
        if type(instance) is float:
            raise ValueError("not an integer")


def _build(schema: dict[str, Any], dialect: Dialect, is_strict: bool) -> Any:
    build: Any = (
        jsonschema_rs.Draft7Validator if dialect.is_draft7 else jsonschema_rs.Draft202012Validator
    )
    options: dict[str, Any] = {"validate_formats": is_strict, "ignore_unknown_formats": False}
    try:
        return build(
            schema,
            offline=True,
            pattern_options=_PATTERNS,
            keywords={STRICT_INTEGER: _RefuseFloat},
            **options,
        )
    except jsonschema_rs.ValidationError as error:
        raise _broken(error, dialect) from None


# The engine without look-around and backreferences runs every pattern in linear time.
_PATTERNS = jsonschema_rs.RegexOptions(size_limit=1_000_000, dfa_size_limit=1_000_000)


def _broken(error: Any, dialect: Dialect) -> SchemaError:
    path = tuple(error.instance_path)
    keyword = str(path[-1]) if path else ""
    if keyword in ("pattern",) or "patternProperties" in path:
        message = "is no regular expression that runs in linear time here"
        return refuse(path, "pattern", message, "use ECMA-262 without look-around and \\1")
    if keyword == "format":
        return refuse(path, "format", "is no known format", "correct or remove it")
    message = f"breaks the rules of JSON Schema {dialect.name}"
    return refuse(path, keyword or "schema", message, "correct it")
