"""What the runtime tells the outside: log records with a stable vocabulary, and OpenTelemetry
spans.

Records go through the standard logger ``gnomon.agent``. Each has one of the names in
``LOG_EVENTS`` as its message's first word and in ``record.gnomon["event"]``, beside fields such as
``operation_id``, ``tool``, ``status``, ``attempt`` and ``reason``. Neither records nor spans hold
arguments or results, and all text passes the runtime's redactor first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

#: Every log event with its level and meaning. Names are never reused for another meaning.
LOG_EVENTS: Mapping[str, tuple[int, str]] = {
    "operation.claimed": (logging.DEBUG, "an attempt is recorded as in flight and starts now"),
    "operation.settled": (logging.INFO, "the outcome of an attempt is recorded"),
    "operation.replayed": (logging.DEBUG, "a recorded outcome was returned without a call"),
    "operation.conflict": (logging.WARNING, "an operation id came again for another request"),
    "operation.refused": (logging.WARNING, "policy or validation refused a call before any claim"),
    "operation.retry": (logging.INFO, "an attempt proved not to have executed is started again"),
    "operation.late_result": (logging.WARNING, "a tool ended after the runtime stopped waiting"),
    "operation.late_conflict": (logging.ERROR, "a late result contradicts what was resolved"),
    "operation.not_recorded": (logging.ERROR, "an outcome waits because the ledger is unreachable"),
    "operation.cancel": (logging.INFO, "somebody asked to cancel an operation"),
    "operation.recovered": (logging.WARNING, "an operation of a dead owner needs reconciliation"),
    "operation.reconciled": (
        logging.INFO,
        "an open outcome was resolved by an operator or a look-up",
    ),
    "approval.requested": (logging.INFO, "a call waits for approval"),
    "approval.approved": (logging.INFO, "an approver allowed one call"),
    "approval.denied": (logging.INFO, "an approver refused one call"),
    "approval.refused": (logging.WARNING, "a decision was not allowed"),
    "lease.failed": (logging.ERROR, "leases could not be extended"),
}


class Observer:
    """Writes log records and spans for one runtime.

    Parameters
    ----------
    redact : callable
        Text in, text without secrets out.
    logger : logging.Logger, optional
        Default ``logging.getLogger("gnomon.agent")``.
    tracer : opentelemetry Tracer, False or None
        None takes the global tracer if opentelemetry is installed (extra ``gnomon[otel]``); False
        never traces.
    """

    def __init__(
        self,
        redact: Callable[[str], str],
        logger: logging.Logger | None = None,
        tracer: Any = None,
    ) -> None:
        self._redact = redact
        self._logger = logger or logging.getLogger("gnomon.agent")
        self._tracer = tracer or None
        self._trace_api = _installed_api() if tracer is None else None

    def emit(self, event: str, **fields: Any) -> None:
        """Log one event of the vocabulary; a name outside it is a KeyError."""
        level, _ = LOG_EVENTS[event]
        if not self._logger.isEnabledFor(level):
            return
        clean = {key: self.clean(value) for key, value in fields.items() if value not in (None, "")}
        text = " ".join([event, *(f"{key}={value}" for key, value in clean.items())])
        self._logger.log(level, "%s", text, extra={"gnomon": {"event": event, **clean}})

    def clean(self, value: Any) -> Any:
        """The value as a log field: numbers as they are, everything else as redacted text."""
        if value is None or isinstance(value, (bool, int, float)):
            return value
        return self._redact(str(value))

    def span(self, tool: str, operation_id: str) -> Span:
        """A span ``execute_tool NAME`` around one dispatch, after the GenAI conventions."""
        tracer = self._tracer
        if tracer is None:
            api = self._trace_api
            if api is None or isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
                return _SILENT  # not installed, or nobody has set up where spans go
            tracer = api.get_tracer("gnomon.agent")
        name = self.clean(tool)
        return Span(
            tracer.start_as_current_span(
                f"execute_tool {name}",
                attributes={
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": name,
                    "gen_ai.tool.type": "function",
                    "gen_ai.tool.call.id": self.clean(operation_id),
                },
                record_exception=False,  # its text is the tool's and may hold secrets
                set_status_on_exception=False,
            )
        )


class Span:
    """The span of one dispatch as a context manager; does nothing where there is no tracer."""

    __slots__ = ("_entered", "_manager")

    def __init__(self, manager: Any = None) -> None:
        self._manager = manager
        self._entered: Any = None

    def __enter__(self) -> Span:
        if self._manager is not None:
            self._entered = self._manager.__enter__()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if self._manager is None:
            return
        if error is not None:
            self._failed(type(error).__qualname__)
        self._manager.__exit__(kind, error, trace)

    def outcome(self, status: str, executed: bool, attempts: int) -> None:
        """Note how the dispatch ended."""
        if self._entered is not None:
            self._entered.set_attribute("gnomon.operation.status", status)
            self._entered.set_attribute("gnomon.operation.executed", executed)
            self._entered.set_attribute("gnomon.operation.attempts", attempts)

    def _failed(self, error_type: str) -> None:
        """Mark the span as an error of this class, without the error's text."""
        from opentelemetry.trace import Status, StatusCode

        self._entered.set_attribute("error.type", error_type)
        self._entered.set_status(Status(StatusCode.ERROR, error_type))


_SILENT = Span()


def _installed_api() -> Any:
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace
