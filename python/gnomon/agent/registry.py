"""The tools of one runtime: looked up, prepared once, and their secrets kept out of texts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from .contract import Tool
from .jsonvalue import DEFAULT_BOUNDS, Bounds, canonicalize
from .outcome import Classifier

if TYPE_CHECKING:
    from .dispatch import Call

#: What a result may hold before max_result_bytes is looked at; beyond it, it is no result.
RESULT_BOUNDS = Bounds(max_bytes=1 << 30, max_items=10_000_000)

_KNOWN: Mapping[str, Callable[[Call], str]] = {
    "tenant": lambda call: call.tenant,
    "tenant_id": lambda call: call.tenant,
    "principal": lambda call: call.principal,
    "principal_id": lambda call: call.principal,
    "operation_id": lambda call: call.operation_id,
    "idempotency_key": lambda call: call.operation_id,
    "business_scope": lambda call: call.business_scope,
}


def is_async(execute: Callable[..., Any]) -> bool:
    """Whether calling it gives an awaitable, as far as that can be told without calling."""
    while isinstance(execute, partial):
        execute = execute.func
    call = getattr(execute, "__call__", None)  # noqa: B004  (an object with an async __call__)
    return inspect.iscoroutinefunction(execute) or inspect.iscoroutinefunction(call)


@dataclass(frozen=True)
class Entry:
    """One tool, ready to be called."""

    tool: Tool
    classifier: Classifier
    context_names: tuple[str, ...]

    def arguments(
        self, arguments: Mapping[str, Any], call: Call, shared: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The arguments as ``execute`` takes them; the context comes with the claim.

        What the runtime knows itself (tenant, principal, ids) cannot be overridden by a call.
        """
        if not self.tool.injected:
            return dict(arguments)
        given = {**shared, **(call.injected or {})}
        for name in self.tool.injected:
            if name in _KNOWN:
                given[name] = _KNOWN[name](call)
            elif name in self.context_names:
                given[name] = None
        return self.tool.contract.call_arguments(arguments, given)


class Registry:
    """Tools by name. The mapping is the caller's: tools added to it later are found too."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        store_arguments: Literal["full", "digest"],
        *,
        asynchronous: bool,
    ) -> None:
        if not isinstance(tools, Mapping):
            raise TypeError(f"tools must be a mapping of name to Tool, got {type(tools).__name__}")
        self.tools = tools
        self._asynchronous = asynchronous
        self._hides = store_arguments == "digest"
        self._entries: dict[str, Entry] = {}
        for name in tools:
            self.find(name)

    def find(self, name: Any) -> Entry:
        """The tool of this name, or ValueError."""
        tool = self.tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise ValueError("unknown tool")
        entry = self._entries.get(name)
        if entry is None or entry.tool is not tool:
            entry = self._entries[name] = self._prepare(tool)
        return entry

    def _prepare(self, tool: Tool) -> Entry:
        if not isinstance(tool, Tool):
            raise TypeError(f"tools must map to gnomon.agent.Tool, got {type(tool).__name__}")
        if is_async(tool.execute) and not self._asynchronous:
            raise TypeError(
                f"tool {tool.name!r} is asynchronous; use AsyncToolRuntime, or a plain function"
            )
        names = tuple(name for name in sorted(tool.injected) if name == "context")
        hide = partial(self.redact_result, tool) if self._hides else _as_it_is
        classifier = Classifier(
            tool,
            parse=lambda value: canonicalize(value, RESULT_BOUNDS),
            check=tool.contract.check_result,
            hide=hide,
        )
        return Entry(tool, classifier, names)

    def identify(self, name: str, arguments: Any) -> bytes:
        """The canonical bytes of arguments that nobody validates, or ValueError."""
        tool = self.tools.get(name)
        return canonicalize(arguments, (tool.bounds if tool else None) or DEFAULT_BOUNDS).data

    # --- secrets
    # ------------------------------------------------------------------------------------

    def redact_text(self, text: str) -> str:
        return text

    def redact(self, value: Any) -> Any:
        return value

    def redact_arguments(self, tool_name: str, arguments: Any) -> Any:
        return arguments

    def redact_result(self, tool: Tool, result: Any) -> Any:
        return result

    def scrub(
        self, error: BaseException, tool: Tool, arguments: Mapping[str, Any]
    ) -> BaseException:
        return error


def _as_it_is(value: Any) -> Any:
    return value
