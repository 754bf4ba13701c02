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

from .otel import Span, Tracer

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
        self._spans = Tracer(self.clean, tracer)

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
        return self._spans.span(tool, operation_id)
