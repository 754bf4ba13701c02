"""A tool from a function with type hints."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any, overload

from .contract import Tool
from .hints import Hint, hint_of, object_schema, read_fields


@overload
def tool(function: Callable[..., Any], /, **options: Any) -> Tool: ...
@overload
def tool(**options: Any) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **options: Any
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a Tool from a function: its name, docstring, type hints and defaults are the contract.

    Known hints: str, int, float, bool, None, Any, Literal, Enum, Optional and unions, list[T],
    dict[str, T], dataclasses, TypedDicts, and Annotated with Injected (the server supplies it), a
    text (the description) or a dict of JSON Schema keywords. Parameters with a default are not
    required. An Enum or a dataclass reaches the function as such, and a float as a float.

    Parameters
    ----------
    function : callable
        Its parameters must be nameable and typed. It may be a coroutine function.
    **options
        Everything else that Tool takes; `risk` is 1 and `effect` "write" unless said otherwise.

    Raises TypeError for a parameter without a usable hint.

    >>> from typing import Annotated
    >>> from gnomon.agent.hints import Injected
    >>> @tool(risk=0, effect="read")
    ... def search(query: str, top_k: Annotated[int, {"minimum": 1, "maximum": 8}] = 3,
    ...            tenant_id: Annotated[str, Injected] = "") -> dict:
    ...     "Search the manuals of the tenant."
    ...     return {"status": "succeeded", "hits": [query] * top_k}
    >>> search.contract.describe()["description"]
    'Search the manuals of the tenant.'
    >>> sorted(search.contract.model_schema["properties"])
    ['query', 'top_k']
    """
    if function is None:
        return functools.partial(_from_function, options=options)
    return _from_function(function, options)


def _from_function(function: Callable[..., Any], options: dict[str, Any]) -> Tool:
    hints, required = _parameters(function)
    injected = frozenset(name for name, hint in hints.items() if hint.is_injected)
    given = {name: hint for name, hint in hints.items() if name not in injected}
    settings: dict[str, Any] = {
        "name": getattr(function, "__name__", ""),
        "risk": 1,
        "purpose": _purpose(function),
        **options,
    }
    settings["injected"] = injected | frozenset(settings.get("injected", ()))
    schema = object_schema(
        {name: hint for name, hint in given.items() if name not in settings["injected"]},
        [name for name in required if name not in settings["injected"]],
    )
    return Tool(schema=schema, execute=_reading(function, given), **settings)


def _parameters(function: Callable[..., Any]) -> tuple[dict[str, Hint], list[str]]:
    """The hint of each parameter, and the names of those without a default."""
    where = getattr(function, "__qualname__", repr(function))
    annotations = typing.get_type_hints(function, include_extras=True)
    hints, required = {}, []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{where}: parameter {name!r} cannot be given by name; name it")
        if name not in annotations:
            raise TypeError(f"{where}: parameter {name!r} has no type hint; add one")
        hint = hint_of(annotations[name], f"{where}({name})")
        if parameter.default is parameter.empty:
            required.append(name)
        hints[name] = hint
    return hints, required


def _purpose(function: Callable[..., Any]) -> str:
    """The first paragraph of the docstring, on one line."""
    paragraph = (inspect.getdoc(function) or "").split("\n\n")[0]
    return " ".join(paragraph.split())


def _reading(function: Callable[..., Any], hints: dict[str, Hint]) -> Callable[..., Any]:
    """The function behind a reader of its arguments, or itself where nothing is to be read."""
    if all(hint.read is None for hint in hints.values()):
        return function
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def execute_async(**arguments: Any) -> Any:
            return await function(**read_fields(arguments, hints))

        return execute_async

    @functools.wraps(function)
    def execute(**arguments: Any) -> Any:
        return function(**read_fields(arguments, hints))

    return execute
