"""What all adapters share: identity, the derived operation id, answers that a model can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import anyio.to_thread

from ..async_runtime import AsyncToolRuntime
from ..contract import Tool
from ..control import Control
from ..dispatch import Call
from ..errors import ConcurrencyLimit
from ..identity import derive_operation_id
from ..jsontext import loads_strict
from ..jsonvalue import canonicalize
from ..outcome import RESULT_BOUNDS, recorded_answer
from ..problems import ValidationError
from ..runtime import ToolRuntime

ADVICE: Mapping[str, str] = {
    "needs_reconcile": "It is not known whether this action took place. Do not repeat it and do "
    "not try it another way; report the operation_id.",
    "awaiting_approval": "A person decides about this action. Do not repeat it.",
    "denied": "This action was refused by a person. Do not try it another way.",
    "refused": "Nothing was executed.",
    "not_executed": "Nothing was executed.",
    "cancelled": "This action was cancelled and will not be executed.",
}


@dataclass(frozen=True)
class Bridge:
    """A runtime and the identity under which a framework's tool calls are made.

    Parameters
    ----------
    runtime : ToolRuntime or AsyncToolRuntime
        Holds the tools. With a ToolRuntime, asynchronous frameworks call it in a thread.
    principal, tenant : str
        On whose behalf; never from the model.
    business_scope : str or callable
        What makes two equal actions two: an invoice, a task, a conversation. Part of the operation
        id, so it must come from the host and stay the same over retries and restarts; a callable
        gets the tool's name and arguments.
    injected : mapping, optional
        Values for injected arguments.
    wait : float
        Seconds to wait for the result where the same action is already running.

    Examples
    --------
    >>> from gnomon.agent import Tool, ToolRuntime
    >>> schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    >>> calls = []
    >>> def send(to):
    ...     calls.append(to)
    ...     raise TimeoutError("the answer was lost")
    >>> with ToolRuntime({"send": Tool("send", schema, 1, send)}, max_risk=1) as runtime:
    ...     bridge = Bridge(runtime, principal="ann", business_scope="invoice-7")
    ...     answers = [bridge.call("send", {"to": "bob"})["status"] for _ in range(3)]
    ...     wrong = bridge.call("send", {"to": 5})["problems"][0]["path"]
    >>> answers, calls, wrong
    (['needs_reconcile', 'needs_reconcile', 'needs_reconcile'], ['bob'], '/to')
    """

    runtime: ToolRuntime | AsyncToolRuntime
    principal: str
    business_scope: str | Callable[[str, Mapping[str, Any]], str]
    tenant: str = ""
    injected: Mapping[str, Any] | None = None
    wait: float = 5.0

    @property
    def control(self) -> Control:
        """The runtime's blocking half."""
        runtime = self.runtime
        return runtime.core if isinstance(runtime, AsyncToolRuntime) else runtime

    @property
    def tools(self) -> list[Tool]:
        """The runtime's tools, by name."""
        return [tool for _, tool in sorted(self.control.tools.items())]

    def in_scope(self, business_scope: str) -> Bridge:
        """The same bridge for another business scope."""
        return replace(self, business_scope=business_scope)

    def operation_id(self, name: str, arguments: Any) -> str:
        """The id under which this action is recorded; see ``derive_operation_id``."""
        return self._identified(name, arguments)[0]

    def _identified(self, name: str, arguments: Any) -> tuple[str, dict[str, Any]]:
        """The operation id, and the options of the dispatch that goes with it."""
        scope = self.business_scope
        if not isinstance(scope, str):
            scope = scope(name, arguments)
        options = {
            "principal": self.principal,
            "tenant": self.tenant,
            "business_scope": scope,
            "injected": self.injected,
            "wait": self.wait,
        }
        who, tenant = self.principal, self.tenant
        tool = self.control.tools.get(name)
        if tool is not None:
            arguments = tool.contract.normalized(arguments)
        return derive_operation_id(who, name, arguments, scope, tenant=tenant), options

    def call(self, name: str, arguments: Any) -> dict[str, Any]:
        """Dispatch, and answer every outcome as data; use it outside an event loop.

        Besides the answers of ``dispatch`` there is "refused": nothing was executed, and
        ``reason`` says why ("invalid_arguments" with ``problems``, "not_permitted",
        "unknown_tool", "busy", "operation_conflict" where another request has the id). A tool that
        raised is "needs_reconcile".

        Raises StoreUnavailable and StoreClosed, after which nobody can tell; and what is no
        Exception (a cancellation), which the ledger has recorded.
        """
        if isinstance(self.runtime, AsyncToolRuntime):
            raise TypeError("this bridge has an AsyncToolRuntime; await acall() instead")
        try:
            operation_id, options = self._identified(name, arguments)
        except ValidationError as error:
            return _invalid(error)
        try:
            return self.runtime.dispatch(name, arguments, operation_id, **options)
        except Exception as error:
            return self._explained(error, name, arguments, operation_id)

    async def acall(self, name: str, arguments: Any) -> dict[str, Any]:
        """As ``call``, without blocking the event loop."""
        if not isinstance(self.runtime, AsyncToolRuntime):
            return await anyio.to_thread.run_sync(partial(self.call, name, arguments))
        try:
            operation_id, options = self._identified(name, arguments)
        except ValidationError as error:
            return _invalid(error)
        try:
            return await self.runtime.dispatch(name, arguments, operation_id, **options)
        except Exception as error:
            look = partial(self._explained, error, name, arguments, operation_id)
            return await anyio.to_thread.run_sync(look)

    async def acall_text(self, name: str, text: str | bytes) -> dict[str, Any]:
        """As ``acall``, for arguments as the JSON text that a model wrote.

        Duplicate keys, NaN and the like are "invalid_arguments", as they are for no framework.
        """
        try:
            arguments = loads_strict(text or "{}")
        except ValidationError as error:
            return _invalid(error)
        return await self.acall(name, arguments)

    def _explained(
        self, error: Exception, name: str, arguments: Any, operation_id: str
    ) -> dict[str, Any]:
        """The ledger says whether the tool was started; the exception's type does not."""
        row = self.control.operation(operation_id)
        if row is not None:
            call = Call(name, arguments, operation_id, self.principal, self.tenant)
            request = self.control.bare_request(call)
            if request is None or not row.same_request(request):  # what stands there is not ours
                return {"status": "refused", "reason": "operation_conflict"}
            return recorded_answer(row, self.control.store.now())
        if isinstance(error, ValidationError):
            return _invalid(error)
        if isinstance(error, PermissionError):
            return {"status": "refused", "reason": "not_permitted"}
        if isinstance(error, ConcurrencyLimit):
            return {"status": "refused", "reason": "busy", "retryable": True}
        if name not in self.control.tools:
            return {"status": "refused", "reason": "unknown_tool"}
        raise error


def _invalid(error: ValidationError) -> dict[str, Any]:
    problems = [problem.to_dict() for problem in error.problems]
    return {"status": "refused", "reason": "invalid_arguments", "problems": problems}


def reply(answer: Mapping[str, Any]) -> str:
    """An answer as text for a model: canonical JSON, with advice where it must not try again.

    >>> reply({"status": "succeeded", "number": 7})
    '{"number":7,"status":"succeeded"}'
    >>> "Do not repeat" in reply({"status": "needs_reconcile", "operation_id": "op_x"})
    True
    """
    advice = ADVICE.get(str(answer.get("status")))
    whole = dict(answer) if advice is None else {**answer, "advice": advice}
    return canonicalize(whole, RESULT_BOUNDS).data.decode()


def missing(package: str, error: ImportError) -> ImportError:
    """The error of an adapter whose framework is not installed."""
    return ImportError(
        f"this adapter needs {package}; install it with: pip install 'gnomon[adapters]' ({error})"
    )
