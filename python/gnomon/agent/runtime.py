"""The synchronous runtime: ``ToolRuntime.dispatch`` starts a tool at most once per operation id."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from .contract import Tool
from .control import Control
from .core import inside
from .dispatch import Dispatched, Steps, Timeout
from .effects import (
    Do,
    Effect,
    Enter,
    Raised,
    Ran,
    Returned,
    Run,
    Sleep,
    TimedOut,
    ToolContext,
)
from .errors import ConcurrencyLimit
from .operations import OperationStore
from .process import ProcessCall
from .records import OperationRequest
from .settings import Settings
from .slots import Slot
from .worker import Worker

__all__ = ["ToolContext", "ToolRuntime", "no_slot"]


def __getattr__(name: str) -> Any:
    if name == "AsyncToolRuntime":  # it stands on this module
        from .async_runtime import AsyncToolRuntime

        return AsyncToolRuntime
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class ToolRuntime(Control):
    """Runs tools with permission, one execution per operation id, and recorded outcomes.

    For one operation id ``tool.execute`` is started at most once, over all threads, processes and
    machines that share ``store``: ``in_flight`` is recorded before the call, a recorded outcome is
    returned again, and whatever leaves the outcome open (timeout, exception, unknown or invalid
    result, a lost process) ends in ``needs_reconcile``, which only ``reconcile`` and a late result
    of that same attempt leave. A power cut may let a tool of effect "read" start once more, because
    its claims do not wait for the disk.

    Parameters
    ----------
    tools : mapping of str to Tool
        Contracts are compiled here; a bad one raises SchemaError.
    max_risk : int
        The delegated risk. Tools above it are refused, or need approval if they say
        ``approval=True``.
    store : OperationStore, optional
        The ledger; default one in memory, which ends with the process.
    settings : Settings, optional
    **options
        Fields of Settings, as an alternative to ``settings``.

    Examples
    --------
    >>> from gnomon.agent import Tool, ToolRuntime
    >>> schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    >>> sent = []
    >>> def send(to):
    ...     sent.append(to)
    ...     return {"status": "succeeded", "number": len(sent)}
    >>> with ToolRuntime({"send": Tool("send", schema, 1, send)}, max_risk=1) as runtime:
    ...     first = runtime.dispatch("send", {"to": "ann"}, "op-1")
    ...     again = runtime.dispatch("send", {"to": "ann"}, "op-1")
    >>> first == again, sent
    (True, ['ann'])
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        max_risk: int,
        store: OperationStore | None = None,
        settings: Settings | None = None,
        **options: Any,
    ) -> None:
        if settings is not None and options:
            raise ValueError(f"give settings or {sorted(options)}, not both")
        settings = settings if settings is not None else Settings(**options)
        super().__init__(tools, max_risk, store, settings, asynchronous=False)
        if settings.recover:
            self.recover()

    def dispatch(
        self,
        name: str,
        arguments: Any,
        operation_id: str,
        *,
        principal: str | None = None,
        tenant: str | None = None,
        business_scope: str = "",
        injected: Mapping[str, Any] | None = None,
        wait: float = 0.0,
        admit: Callable[[OperationRequest], None] | None = None,
        timeout: Timeout = None,
    ) -> dict[str, Any]:
        """Run the tool under this id, or answer what is recorded under it.

        Parameters
        ----------
        name : str
        arguments : dict
            Checked against the tool's schema; the tool gets a canonical copy.
        operation_id : str
            1 to 200 characters; see derive_operation_id.
        principal, tenant : str, optional
            On whose behalf; default those of the settings.
        business_scope : str
            Recorded with the operation.
        injected : mapping, optional
            Values for the tool's injected arguments, which the model never supplies.
        wait : float
            Seconds to wait for the result where another dispatch is running the operation.
        admit : callable, optional
            Called with the request just before the first claim; what it raises refuses the call.
            Replays do not call it, so budgets can count here.
        timeout : float or callable, optional
            Seconds that the caller waits for the tool at most, or a function that says just before
            the call how many are left; the tool's own ``timeout_ms`` holds where it is shorter.
            Nothing is started where none are left.

        Returns
        -------
        dict
            The tool's result (status "succeeded" or "failed"), or ``{"status": ..., "operation_id":
            ...}`` with status "needs_reconcile", "not_executed", "awaiting_approval", "denied" or
            "cancelled" and a "reason" where there is one. Always the caller's own copy.

        Raises
        ------
        ValueError
            Unknown tool, invalid arguments (ValidationError), an id of another request
            (OperationConflict), an invalid result (InvalidToolResult).
        PermissionError
            ToolRefused above the delegated risk, ApprovalMismatch.
        ConcurrencyLimit, StoreUnavailable
            Nothing was started.
        Exception
            What the tool raised, on the dispatch that ran it.
        """
        return self.dispatch_detail(
            name,
            arguments,
            operation_id,
            principal=principal,
            tenant=tenant,
            business_scope=business_scope,
            injected=injected,
            wait=wait,
            admit=admit,
            timeout=timeout,
        ).result

    def dispatch_detail(
        self, name: str, arguments: Any, operation_id: str, **options: Any
    ) -> Dispatched:
        """As ``dispatch``, and how the answer came about: state, whether the tool ran, attempts."""
        with self.observer.span(name, operation_id) as span:
            done = self._drive(self.steps(name, arguments, operation_id, **options))
            span.outcome(done.status.value, done.executed, done.attempts)
            return done

    def _drive(self, steps: Steps) -> Dispatched:
        try:
            effect = next(steps)
            while True:
                try:
                    answer = self._carry_out(effect)
                except BaseException as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(answer)
        except StopIteration as done:
            answered: Dispatched = done.value
            return answered

    def _carry_out(self, effect: Effect) -> Any:
        if isinstance(effect, Do):
            return effect.call(*effect.args)
        if isinstance(effect, Run):
            return self._call(effect)
        if isinstance(effect, Enter):
            return self._enter(effect.tool, effect.resource)
        if isinstance(effect, Sleep):
            time.sleep(effect.seconds)
            return None
        raise TypeError(f"the dispatch core asked for {effect!r}, which no driver knows")

    def _call(self, run: Run) -> Ran:
        mark = inside.set((*inside.get(), run.operation_id))
        try:
            if run.tool.isolation == "process":
                return ProcessCall(run).run()
            if run.timeout is not None:
                return _call_with_timeout(run, run.timeout)
            return Returned(run.tool.execute(**run.arguments))
        except BaseException as error:
            return Raised(error)
        finally:
            inside.reset(mark)

    def _enter(self, tool: Tool, resource: str | None) -> Slot:
        slot = self.slots.enter(tool.name, tool.max_concurrency, resource)
        if slot is not None:
            return slot
        seconds = 0.0 if inside.get() else self.settings.slot_seconds
        served = threading.Event()
        waiter = self.slots.wait(tool.name, tool.max_concurrency, served.set, resource)
        try:
            served.wait(seconds)
        except BaseException:
            slot = self.slots.leave_line(waiter)
            if slot is not None:
                slot.release()
            raise
        slot = self.slots.leave_line(waiter)
        if slot is None:
            raise no_slot(tool, seconds)
        return slot


def no_slot(tool: Tool, seconds: float) -> ConcurrencyLimit:
    """The error of a dispatch that found no place."""
    return ConcurrencyLimit(
        f"no place for tool {tool.name!r} within {seconds:g} s: max_concurrency is reached, or "
        "another call acts on the same resource; nothing was started, dispatch the same operation "
        "id again later"
    )


def _call_with_timeout(run: Run, timeout: float) -> Ran:
    ended = threading.Event()
    worker = Worker(run, ended.set)
    refused = worker.start()
    if refused is not None:
        return refused
    try:
        ended.wait(timeout)
    except BaseException as error:
        return worker.interrupted(error)
    return worker.abandon() or TimedOut(abandoned=True)
