"""Whether a function can be called with what a schema allows, asked before anything is called."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable
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


def check_importable(tool: str, execute: Callable[..., Any], injected: Iterable[str]) -> None:
    """Raise where another process could not find the function, or not be given its arguments."""
    if os.name != "posix":
        raise ValueError('isolation="process" needs POSIX: process groups and inherited pipes')
    if "context" in injected:
        raise ValueError(
            f"tool {tool!r} takes a context, which cannot be given to another process; inject "
            "operation_id or idempotency_key instead"
        )
    if inspect.iscoroutinefunction(execute):
        raise TypeError(f"tool {tool!r} is asynchronous; an isolated tool is a plain function")
    module, name = place_of(execute)
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    # A decorator replaces the function by its Tool while that Tool is made: then it is not there
    # yet, and the child takes the Tool's function.
    unnamed = module in ("", "__main__") or not all(p.isidentifier() for p in name.split("."))
    meant = found is None or place_of(getattr(found, "execute", found)) == (module, name)
    if unnamed or not meant:
        raise ValueError(
            f"the function of tool {tool!r} ({module}.{name}) cannot be imported in another "
            "process; define it at the top of a module that is not run as the program"
        )


def place_of(execute: Callable[..., Any]) -> tuple[str, str]:
    """Module and qualified name of a function, "" where it has none."""
    return getattr(execute, "__module__", "") or "", getattr(execute, "__qualname__", "") or ""
