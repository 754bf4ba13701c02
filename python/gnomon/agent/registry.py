"""The tools of one runtime: looked up, prepared once, and their secrets kept out of texts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from .contract import Tool
from .jsonvalue import DEFAULT_BOUNDS, canonicalize
from .outcome import Outcome, outcome_of
from .redact import Redactor

if TYPE_CHECKING:
    from .dispatch import Call
    from .effects import Ran

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
    redactor: Redactor
    hides_results: bool
    context_names: tuple[str, ...]

    def scrubbed(self, error: BaseException, arguments: Any) -> BaseException:
        """The tool's own exception, with the call's secrets taken out of its texts."""
        return self.redactor.for_call(arguments).scrub(error)

    def outcome(self, ran: Ran, operation_id: str, arguments: Any) -> Outcome:
        """What the ledger records and the caller gets for what the tool did."""
        hide = self._hide(arguments) if self.hides_results else None
        return outcome_of(self.tool, ran, operation_id, hide)

    def _hide(self, arguments: Any) -> Callable[[Any], Any]:
        return self.redactor.for_call(arguments).value

    def injected(
        self, arguments: Mapping[str, Any], call: Call, shared: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The tool's injected arguments; the context comes with the claim.

        What the runtime knows itself (tenant, principal, ids) cannot be overridden by a call.
        """
        wanted = self.tool.injected
        if not wanted:
            return {}
        given = {**shared, **(call.injected or {})}
        for name in wanted:
            if name in _KNOWN:
                given[name] = _KNOWN[name](call)
            elif name in self.context_names:
                given[name] = None
        whole = self.tool.contract.call_arguments(arguments, given)
        return {name: whole[name] for name in wanted}


class Registry:
    """Tools by name. The mapping is the caller's: tools added to it later are found too."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        redactor: Redactor,
        shared: Mapping[str, Any],
        *,
        hides_results: bool,
        asynchronous: bool,
    ) -> None:
        if not isinstance(tools, Mapping):
            raise TypeError(f"tools must be a mapping of name to Tool, got {type(tools).__name__}")
        self.tools = tools
        self._asynchronous = asynchronous
        self._hides = hides_results
        self.redactor = redactor
        self._shared = shared
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
        redactor = (
            self.redactor.with_fields(tool.redact_paths) if tool.redact_paths else self.redactor
        )
        return Entry(tool, redactor, self._hides, names)

    def identify(self, name: str, arguments: Any) -> bytes:
        """The canonical bytes of arguments that nobody validates, or ValueError."""
        tool = self.tools.get(name)
        if tool is not None:
            arguments = tool.contract.normalized(arguments)
        return canonicalize(arguments, (tool.bounds if tool else None) or DEFAULT_BOUNDS).data

    # --- secrets
    # ------------------------------------------------------------------------------------

    def storable(self, tool_name: str, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """A result of this tool, without its secrets where the ledger is to hold none."""
        if not self._hides:
            return result
        plain = canonicalize(dict(result)).value
        hidden: dict[str, Any] = self.redactor_for(tool_name, plain).value(plain)
        return hidden

    def redactor_for(self, tool_name: Any, *known: Any) -> Redactor:
        """What knows the secrets of a tool: its fields, and what stands in them.

        Looked for in ``known`` (arguments, a result) and in what the settings inject.
        """
        redactor = self.redactor
        shared: dict[str, Any] = {}
        if isinstance(tool_name, str) and tool_name in self.tools:
            entry = self.find(tool_name)
            redactor = entry.redactor
            wanted = entry.tool.injected & self._shared.keys()
            shared = {name: self._shared[name] for name in wanted}
        for value in (*known, shared):
            redactor = redactor.for_call(value)
        return redactor

    def redact_arguments(self, tool_name: str, arguments: Any) -> Any:
        """Stored arguments as an approver may see them."""
        return self.redactor_for(tool_name, arguments).value(arguments)
