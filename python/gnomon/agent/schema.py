"""Compiled schemas and the strict argument check, behind one set of rules.

The validator itself is jsonschema-rs, told to stay offline and to run every pattern in linear time.
What it is not asked to do is done around it: values are bounded and made plain before it sees them,
schemas are read against a closed keyword list and costed before they are compiled, and its messages
are replaced by problems that never repeat a value.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from .jsoncopy import PlainCopy, plain_copy
from .jsonvalue import DEFAULT_BOUNDS, EXACT_BOUNDS, Bounds, Canonical, digest
from .problems import Problem, SchemaError, ValidationError
from .schema_build import build_validators, plain_schema
from .schema_keywords import DRAFT_2020_12
from .schema_problems import document_error, problems_of

Rules = Literal["strict", "json-schema"]
Integers = Literal["strict", "json-schema"]

NOT_AN_OBJECT = "tool input must be an object"


class CompiledSchema:
    """A schema that has passed registration; `validate` judges values by it.

    Immutable and safe to share between threads.

    Attributes
    ----------
    schema : dict or bool
        The canonical copy of the schema. Do not change it.
    digest : str
        Names the schema together with its rules.
    bounds : Bounds
        How large a value may be.
    """

    __slots__ = ("_passes", "_validators", "bounds", "digest", "is_object", "schema")

    def __init__(
        self,
        schema: Any,
        *,
        rules: Rules,
        integers: Integers,
        is_object: bool,
        dialect: str,
        bounds: Bounds | None,
    ) -> None:
        is_strict = rules == "strict"
        self.is_object = is_object
        self.bounds = bounds or (DEFAULT_BOUNDS if is_strict else EXACT_BOUNDS)
        canonical = plain_schema(schema, is_strict=is_strict)
        self.schema: Any = canonical.value
        key = json.dumps([rules, integers, is_object, dialect]).encode() + canonical.data
        self.digest = digest(key)
        self._validators = build_validators(
            canonical,
            default_dialect=dialect,
            is_strict=is_strict,
            is_object=is_object,
            strict_integers=integers == "strict",
            depth=self.bounds.max_depth,
        )
        # One call in the common case: one validator, and no 5.0 in the value.
        plain = self._validators.plain
        self._passes: Callable[[Any], bool] = (
            plain[0].is_valid if len(plain) == 1 else self._passes_all
        )

    def _passes_all(self, value: Any) -> bool:
        return all(validator.is_valid(value) for validator in self._validators.plain)

    def validate(self, value: Any) -> Canonical:
        """A canonical copy of `value`, or ValidationError with every problem found (at most 20)."""
        copy = plain_copy(value, self.bounds)
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
        if copy.has_integral_float or not self._passes(copy.value):
            self._check_all(copy)

    def _check_all(self, copy: PlainCopy) -> None:
        known = self._validators
        value = copy.value
        for validator in known.strict if copy.has_integral_float else known.plain:
            if not validator.is_valid(value):
                cost = (copy.items + 1) * known.ways
                problems = problems_of(validator, value, cost, has_choices=known.has_choices)
                message = document_error(value, self.schema) if self.is_object else None
                raise ValidationError(message or "; ".join(map(str, problems)), problems)


def compile_schema(
    schema: Mapping[str, Any] | bool,
    *,
    rules: Rules = "strict",
    integers: Integers = "strict",
    is_object: bool = False,
    dialect: str = DRAFT_2020_12,
    bounds: Bounds | None = None,
) -> CompiledSchema:
    """Check a JSON Schema (2020-12, or draft 7 by its `$schema`) and compile it.

    `rules="strict"`: fields the schema does not name are refused at every level unless it says
    `additionalProperties` or `unevaluatedProperties`; `format` is checked and must be a known one.
    `rules="json-schema"`: the standard's own rules.
    `integers="strict"`: 5.0 is no integer; "json-schema": it is, and becomes 5.
    `is_object=True`: the schema of a tool's arguments, whose root has the type "object".

    `dialect`: the URI of the draft that a schema without `$schema` is written in.

    `bounds`: how large values may be; None for 1 MB, 64 levels and 100,000 values, with integers of
    any size under JSON Schema's own rules.

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
    if is_object and not (isinstance(schema, Mapping) and schema.get("type") == "object"):
        problem = Problem("", "type", NOT_AN_OBJECT, 'write {"type": "object", ...}')
        raise SchemaError(NOT_AN_OBJECT, [problem])
    return CompiledSchema(
        schema,
        rules=rules,
        integers=integers,
        is_object=is_object,
        dialect=dialect,
        bounds=bounds,
    )


def validate_arguments(arguments: Any, schema: Any) -> dict[str, Any]:
    """Validate arguments by a strict object schema and return a canonical deep copy.

    The flat validator, with its messages wherever it can judge, and JSON Schema 2020-12 or
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
        # The text is the key: a schema that was changed since is another one.
        text = _schema_text(schema)
    except (TypeError, ValueError, RecursionError):
        compiled = compile_schema(schema, is_object=True)
    else:
        compiled = _compiled(text)
    value: dict[str, Any] = compiled.validate(arguments).value
    return value


_schema_text = json.JSONEncoder(separators=(",", ":")).encode


@functools.lru_cache(maxsize=256)
def _compiled(text: str) -> CompiledSchema:
    return compile_schema(json.loads(text), is_object=True)


def _not_an_object() -> ValidationError:
    problem = Problem("", "type", NOT_AN_OBJECT, "send a JSON object")
    return ValidationError(NOT_AN_OBJECT, [problem])
