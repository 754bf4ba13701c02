"""Whether a function can be called with what a schema allows, asked before anything is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .problems import Problem, SchemaError

# With one of these the schema may demand more fields than its `required` lists.
_DEMANDS_MORE = frozenset({"allOf", "anyOf", "oneOf", "$ref", "$dynamicRef", "if"})


def check_signature(
    tool: str, function: Callable[..., Any], schema: dict[str, Any], injected: frozenset[str]
) -> None:
    """Raise SchemaError where a call that the schema allows could not reach the function.

    Such a call would raise TypeError before the tool runs, after its operation was claimed.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return  # A builtin without a signature cannot be asked.
    by_name = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    surplus = sorted((schema.get("properties", {}).keys() | injected) - by_name)
    if surplus and not takes_any:
        _refuse(tool, f"does not take {surplus}", "add the parameters or **kwargs")
    if not takes_any and _allows_any_field(schema):
        _refuse(tool, "does not take the further fields its schema allows", "add **kwargs")
    always = (set(schema.get("required", [])) | injected) & by_name
    needs = sorted(
        p.name
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        if p.name not in always
    )
    if needs and not _DEMANDS_MORE & schema.keys():
        message = f"needs {needs}, which the schema does not require"
        _refuse(tool, message, "require them, inject them or give them defaults")


def _allows_any_field(schema: dict[str, Any]) -> bool:
    says = ("additionalProperties", "unevaluatedProperties")
    return "patternProperties" in schema or any(schema.get(k, False) is not False for k in says)


def _refuse(tool: str, message: str, remedy: str) -> None:
    problem = Problem("", "signature", f"execute of tool {tool!r} {message}", remedy)
    raise SchemaError(f"{problem.message}; {remedy}", [problem])
