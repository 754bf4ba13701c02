"""Turning a validator's findings into problems: place, rule and remedy, never the value itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema_rs

from .problems import PROBLEMS_MAX, Problem, pointer, shortened
from .schema_closed import STRICT_INTEGER
from .schema_patterns import shown_pattern

BRANCHES_SHOWN = 3
COST_MAX = 20_000
# With one of these the fields of the root are not only those of `properties`.
_NAMES_MORE = frozenset(
    {
        *("additionalProperties", "unevaluatedProperties", "patternProperties", "$ref"),
        *("allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies", "$dynamicRef"),
    }
)
DOCUMENT_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}


def problems_of(validator: Any, value: Any, cost: int, *, has_choices: bool) -> list[Problem]:
    """The first 20 problems that the validator has with the value.

    `cost` bounds how many judgements there can be. The validator collects every error before it
    shows one, and every branch of an `anyOf` with it, so beyond a limit fewer are asked for.
    """
    if cost <= COST_MAX:
        errors = validator.iter_errors(value)
    elif not has_choices:
        errors = _first_error(validator, value)
    else:
        message = "breaks the schema, and is too large to say where"
        return [Problem("", "schema", message, "send a smaller value to learn what is wrong")]
    found: list[Problem] = []
    for error in errors:
        found.extend(_problems(error, ()))
        if len(found) >= PROBLEMS_MAX:
            break
    return list(dict.fromkeys(_certain(found)))[:PROBLEMS_MAX]


def _certain(found: list[Problem]) -> list[Problem]:
    """Without fields that count as unknown only because the schema that knows them failed."""
    others = [problem.path for problem in found if problem.rule != "unevaluatedProperties"]
    return [
        problem
        for problem in found
        if problem.rule != "unevaluatedProperties"
        or not any(_is_within(path, problem.path.rpartition("/")[0]) for path in others)
    ]


def _is_within(path: str, place: str) -> bool:
    return path == place or path.startswith(place + "/")


def _first_error(validator: Any, value: Any) -> list[Any]:
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return [error]
    return []


def _problems(error: Any, prefix: tuple[str | int, ...]) -> list[Problem]:
    kind, path = error.kind, (*prefix, *error.instance_path)
    rule = kind.name
    if rule in ("additionalProperties", "unevaluatedProperties"):
        names = sorted(kind.unexpected)[:PROBLEMS_MAX]
        return [_unknown_field(path, rule, name) for name in names]
    if rule == "required":
        message = f"lacks the required field {shortened(repr(kind.property), 100)}"
        return [Problem(_path(path), rule, message, "add it")]
    if rule in ("anyOf", "oneOf") and getattr(kind, "context", None):
        return [_no_branch(path, rule, kind)]
    if rule == "propertyNames":
        inner = _problems(kind.error, ())[0]
        message = f"has a field whose name {inner.message}"
        return [Problem(_path(path), rule, message, "rename it")]
    message, remedy = _sentence(rule, kind)
    rule = "integer" if rule == STRICT_INTEGER else rule
    return [Problem(_path(path), rule, message, remedy)]


def _path(tokens: tuple[str | int, ...]) -> str:
    return shortened(pointer(tokens), 500)


def _unknown_field(path: tuple[str | int, ...], rule: str, name: str) -> Problem:
    return Problem(_path((*path, name)), rule, "is not a known field", "remove it")


def _no_branch(path: tuple[str | int, ...], rule: str, kind: Any) -> Problem:
    """What each branch wants; the branches that came furthest first."""
    if type(kind).__name__ == "OneOfMultipleValid":
        message = "fits more than one of the forms, and must fit one"
        return Problem(_path(path), rule, message, "send what only one form allows")
    firsts = [_problems(branch[0], ())[0] for branch in kind.context if branch]
    firsts.sort(key=lambda problem: -problem.path.count("/"))
    shown = [f"({p.path or 'whole'}: {p.message})" for p in firsts[:BRANCHES_SHOWN]]
    more = len(firsts) - len(shown)
    message = f"fits none of the {len(kind.context)} forms: " + ", ".join(shown)
    message += f" and {more} more" if more else ""
    return Problem(_path(path), rule, shortened(message, 800), "send one of the forms")


def _json(value: Any) -> str:
    return shortened(json.dumps(value, ensure_ascii=False, default=str), 300)


def _limit(kind: Any) -> str:
    return _json(getattr(kind, "limit", None))


_Sentence = Callable[[Any], tuple[str, str]]
_SENTENCES: dict[str, _Sentence] = {
    "type": lambda k: (f"must be {' or '.join(k.types)}", f"send {' or '.join(k.types)}"),
    STRICT_INTEGER: lambda k: ("must be an integer without a fraction part", "send 5, not 5.0"),
    "enum": lambda k: ("is none of the allowed values", f"send one of {_json(k.options)}"),
    "const": lambda k: ("is not the one allowed value", f"send {_json(k.expected_value)}"),
    "minimum": lambda k: (f"is less than {_limit(k)}", f"send {_limit(k)} or more"),
    "maximum": lambda k: (f"is more than {_limit(k)}", f"send {_limit(k)} or less"),
    "exclusiveMinimum": lambda k: (f"is not more than {_limit(k)}", f"send more than {_limit(k)}"),
    "exclusiveMaximum": lambda k: (f"is not less than {_limit(k)}", f"send less than {_limit(k)}"),
    "multipleOf": lambda k: (
        f"is no multiple of {_json(k.multiple_of)}",
        f"send a multiple of {_json(k.multiple_of)}",
    ),
    "minLength": lambda k: (f"has fewer than {_limit(k)} characters", "send a longer text"),
    "maxLength": lambda k: (f"has more than {_limit(k)} characters", "send a shorter text"),
    "minItems": lambda k: (f"has fewer than {_limit(k)} items", "send more items"),
    "maxItems": lambda k: (f"has more than {_limit(k)} items", "send fewer items"),
    "minProperties": lambda k: (f"has fewer than {_limit(k)} fields", "send more fields"),
    "maxProperties": lambda k: (f"has more than {_limit(k)} fields", "send fewer fields"),
    "uniqueItems": lambda k: ("holds an item twice", "send each item once"),
    "pattern": lambda k: (
        f"does not match the pattern {shortened(shown_pattern(k.pattern), 200)}",
        "send a text that matches it",
    ),
    "format": lambda k: (f"is no {k.format}", f"send a {k.format}"),
    "contains": lambda k: ("lacks an item that the schema demands", "add such an item"),
    "not": lambda k: ("is what the schema excludes", "send something else"),
    "additionalItems": lambda k: (f"has more than {_limit(k)} items", "send fewer items"),
    "unevaluatedItems": lambda k: ("has items that are not allowed", "remove them"),
    "falseSchema": lambda k: ("is not allowed here", "remove it"),
}


def _sentence(rule: str, kind: Any) -> tuple[str, str]:
    sentence = _SENTENCES.get(rule)
    if sentence is None:
        return f"breaks the rule {rule}", "send a value that keeps it"
    return sentence(kind)


def document_error(arguments: dict[str, Any], schema: dict[str, Any]) -> str | None:
    """The flat validator's message for what it can judge, in its order; None for what it cannot.

    It judges required and unknown fields of the root, and the type and enum of flat properties.
    """
    properties = schema.get("properties", {})
    missing = set(schema.get("required", [])) - arguments.keys()
    extra = arguments.keys() - properties.keys()
    if _NAMES_MORE & schema.keys():
        extra = set()
    if missing or extra:
        return f"missing={sorted(missing)}, extra={sorted(extra)}"
    for name, value in arguments.items():
        rules = properties.get(name)
        if not isinstance(rules, dict) or not isinstance(rules.get("type"), str):
            continue
        expected = DOCUMENT_TYPES.get(rules["type"])
        if isinstance(value, bool) and rules["type"] != "boolean":
            return f"unsupported or ambiguous type for {name}"
        if expected is None:
            continue
        if not isinstance(value, expected):
            return f"wrong type for {name}"
        if "enum" in rules and not any(_json_equal(value, option) for option in rules["enum"]):
            return f"invalid enum for {name}"
    return None


def _json_equal(value: Any, option: Any) -> bool:
    """JSON equality of a flat value: 1 equals 1.0 and not true."""
    return isinstance(value, bool) is isinstance(option, bool) and bool(value == option)
