"""What the loop asks of a runtime: `ToolRuntime`, `AsyncToolRuntime`, or any that can dispatch.

A runtime of another make needs `dispatch(name, arguments, operation_id) -> dict` only. With a
mapping `operations` of id to {"status", "result"}, its ledger can be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .records import Operation, OperationRequest
from .redact import Redactor
from .tool_contract import ToolContract

Admit = Callable[[OperationRequest | None], None]


@dataclass(frozen=True)
class Record:
    """What a ledger has under an operation id."""

    status: str
    result: dict[str, Any] | None = None
    tool: str = ""
    arguments: Any = None
    approval_id: str = ""
    reason: str = ""


class Gateway:
    """One runtime, seen from the loop."""

    def __init__(self, runtime: Any, options: Mapping[str, Any]) -> None:
        self.runtime = runtime
        self._options = {key: value for key, value in options.items() if value not in (None, "")}
        core = getattr(runtime, "core", runtime)  # AsyncToolRuntime drives the one it shares
        self._store = getattr(core, "store", None)
        self._operations = getattr(core, "operations", None)
        self._registry = getattr(core, "registry", None)
        settings = getattr(core, "settings", None)
        self._caller = tuple(
            self._options.get(name, getattr(settings, name, "")) for name in ("tenant", "principal")
        )
        self.redactor: Redactor = getattr(core, "redactor", None) or Redactor()
        tools = getattr(core, "tools", None)
        self._tools: Mapping[str, Any] | None = tools if isinstance(tools, Mapping) else None
        max_risk = getattr(core, "max_risk", None)
        self.max_risk: int | None = max_risk if type(max_risk) is int and max_risk >= 0 else None

    @property
    def is_ours(self) -> bool:
        """Whether this is a runtime of this package, which admits and knows principals."""
        return self._store is not None and self._registry is not None

    @property
    def can_look(self) -> bool:
        """Whether it can be told what the ledger has under an id."""
        return self._store is not None or isinstance(self._operations, Mapping)

    @property
    def is_durable(self) -> bool:
        """Whether the ledger outlives the process, as far as known."""
        return self._store is not None and getattr(self._store, "blocking", False) is True

    def tool_names(self) -> list[str] | None:
        """Tools within the delegated risk or open to approval; None where there is no list."""
        if self._tools is None:
            return None
        limit = self.max_risk
        return sorted(
            name
            for name, tool in self._tools.items()
            if isinstance(name, str)
            and (limit is None or _risk(tool) <= limit or getattr(tool, "approval", False) is True)
        )

    def effect_and_risk(self, name: Any) -> tuple[str, int]:
        """Effect and risk of a tool; a tool that says nothing writes."""
        tool = self._tools.get(name) if self._tools is not None and isinstance(name, str) else None
        effect = getattr(tool, "effect", "write")
        return (effect if isinstance(effect, str) else "write"), _risk(tool)

    def normalized(self, name: Any, arguments: Any) -> Any:
        """Arguments as the ledger would record them; as they came where nobody knows better."""
        tool = self._tools.get(name) if self._tools is not None and isinstance(name, str) else None
        contract = getattr(tool, "contract", None)
        return contract.normalized(arguments) if isinstance(contract, ToolContract) else arguments

    def redactor_for(self, name: Any, arguments: Any) -> Redactor:
        """What takes the secrets of one call out of events."""
        if self._registry is None:
            return self.redactor.for_call(arguments)
        redactor: Redactor = self._registry.redactor_for(name, arguments)
        return redactor

    def look(self, operation_id: str) -> Record | None:
        """The ledger's record, or None where there is none, or no ledger to look into.

        What another caller has under the id is not shown: a policy may name any id.
        """
        if self._store is not None:
            row = self._store.get(operation_id)
            if row is None or (self.is_ours and not self._is_mine(row.request)):
                return None
            return _record(row)
        if isinstance(self._operations, Mapping):
            entry = self._operations.get(operation_id)
            if isinstance(entry, Mapping):
                result = entry.get("result")
                return Record(
                    str(entry.get("status")),
                    dict(result) if isinstance(result, Mapping) else None,
                    str(entry.get("tool", "")),
                    entry.get("arguments"),
                )
        return None

    def _is_mine(self, request: OperationRequest) -> bool:
        return (request.tenant, request.principal) == self._caller

    def dispatch(
        self,
        name: Any,
        arguments: Any,
        operation_id: Any,
        admit: Admit,
        time_left: Callable[[], float | None],
    ) -> Any:
        """The runtime's answer (awaitable for an asynchronous one).

        ``admit`` is called before a first execution, by a runtime of another make before every
        dispatch of an id that its ledger does not show. A runtime of ours stops waiting for the
        tool when no time is left.
        """
        if self.is_ours:
            return self.runtime.dispatch(
                name, arguments, operation_id, admit=admit, timeout=time_left, **self._options
            )
        if not self.can_look or self.look(operation_id) is None:
            admit(None)
        return self.runtime.dispatch(name, arguments, operation_id)


def _risk(tool: Any) -> int:
    risk = getattr(tool, "risk", 0)
    return risk if type(risk) is int and risk >= 0 else 0


def _record(row: Operation) -> Record:
    request = row.request
    return Record(
        row.status.value,
        None if row.result_json is None else json.loads(row.result_json),
        request.tool,
        None if request.arguments_json is None else json.loads(request.arguments_json),
        row.approval_id or "",
        row.reason,
    )
