"""OpenTelemetry, by the GenAI conventions: the span of one dispatch, and a whole run as spans.

The conventions are in development; the names that gnomon writes stand here, those that it reads in
`gate_import`. Spans hold ids, names, states and counts: no arguments, results or texts of a tool.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import events as ev
from .trace import trace_of

#: What of an evidence item goes into a span: who, which, and who may see it.
DOCUMENT_KEYS = ("id", "source_id", "revision", "scope", "acl_scope", "retrieved_at", "validated")


def installed_api() -> Any:
    """The module opentelemetry.trace, or None."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace


class Tracer:
    """Opens the spans of dispatches.

    Parameters
    ----------
    clean : callable
        Text in, text without secrets out.
    tracer : opentelemetry Tracer, False or None
        None takes the global tracer where opentelemetry is installed and set up; False never
        traces.
    """

    def __init__(self, clean: Callable[[Any], Any], tracer: Any = None) -> None:
        self._clean = clean
        self._tracer = tracer or None
        self._api = installed_api() if tracer is None else None

    def span(self, tool: str, operation_id: str) -> Span:
        """A span ``execute_tool NAME`` around one dispatch."""
        tracer = self._tracer
        if tracer is None:
            api = self._api
            if api is None or isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
                return SILENT  # not installed, or nobody has set up where spans go
            tracer = api.get_tracer("gnomon.agent")
        name = self._clean(tool)
        return Span(
            tracer.start_as_current_span(
                f"execute_tool {name}",
                attributes=tool_attributes(name, self._clean(operation_id)),
                record_exception=False,  # its text is the tool's and may hold secrets
                set_status_on_exception=False,
            )
        )


def tool_attributes(tool: str, operation_id: str) -> dict[str, Any]:
    """What every span of a tool call says."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": operation_id,
    }


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
            _mark_failed(self._entered, type(error).__qualname__)
        self._manager.__exit__(kind, error, trace)

    def outcome(self, status: str, executed: bool, attempts: int) -> None:
        """Note how the dispatch ended."""
        if self._entered is not None:
            self._entered.set_attribute("gnomon.operation.status", status)
            self._entered.set_attribute("gnomon.operation.executed", executed)
            self._entered.set_attribute("gnomon.operation.attempts", attempts)


SILENT = Span()


def _mark_failed(span: Any, error_type: str) -> None:
    """Mark the span as an error of this class, without the error's text."""
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", error_type)
    span.set_status(Status(StatusCode.ERROR, error_type))


# --- a whole run ----------------------------------------------------------------------------------


def export_run(
    events: Iterable[ev.Event | Mapping[str, Any]], tracer: Any = None, *, agent: str = "gnomon"
) -> int:
    """Write a run as spans: ``invoke_agent``, and below it model usage and one span for each step.

    Exported and imported again, a run has the tools, tokens, evidence ids and scopes, stop reason
    and citations that its trace has.

    Parameters
    ----------
    events : iterable of Event or dict
        The run's log (``outcome["log"]``, or a JsonlLog). Times of spans are the events'.
    tracer : opentelemetry Tracer, optional
        Default: the global one, as ``gnomon.agent``.
    agent : str
        ``gen_ai.agent.name``.

    Returns
    -------
    int
        Spans written.

    Raises ImportError without the extra ``gnomon[otel]``.
    """
    api = installed_api()
    if api is None:
        raise ImportError("exporting spans needs opentelemetry; install gnomon[otel]")
    tracer = tracer if tracer is not None else api.get_tracer("gnomon.agent")
    log = [one if isinstance(one, ev.Event) else ev.event_from_dict(one) for one in events]
    trace, times = trace_of(log), _times(log)
    began, ended = _nanoseconds(log[0].at if log else None), _last(log)
    root = tracer.start_span(
        f"invoke_agent {agent}",
        start_time=began,
        attributes=_run_attributes(agent, trace["result"]),
    )
    context = api.set_span_in_context(root)
    written = 1
    for step in trace["steps"]:
        start, end = times.get(step["operation_id"], (began, ended))
        if step["tokens"]:
            _model_span(tracer, context, step, start)
            written += 1
        span = tracer.start_span(
            f"execute_tool {step['tool']}",
            context=context,
            start_time=start,
            attributes=_step_attributes(step),
        )
        if step["status"] == "failed":
            _mark_failed(span, "failed")
        span.end(end)
        written += 1
    root.end(ended)
    return written


def _run_attributes(agent: str, result: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agent,
        "gnomon.stop_reason": result["stop_reason"],
        "gnomon.citation_ids": list(result["citation_ids"]),
    }


def _step_attributes(step: Mapping[str, Any]) -> dict[str, Any]:
    documents = [
        {key: item[key] for key in DOCUMENT_KEYS if item.get(key) is not None}
        for item in step["evidence"]
    ]
    return {
        **tool_attributes(step["tool"], step["operation_id"]),
        "gnomon.operation.status": step["status"],
        "gnomon.operation.executed": not step.get("replayed", False),
        "gen_ai.retrieval.documents": json.dumps(documents, sort_keys=True),
    }


def _model_span(tracer: Any, context: Any, step: Mapping[str, Any], at: int | None) -> None:
    """What policy and tool reported together; the log does not say which part was which."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.usage.output_tokens": step["tokens"]}
    span = tracer.start_span("chat", context=context, start_time=at, attributes=attributes)
    span.end(at)


def _times(log: Iterable[ev.Event]) -> dict[str, tuple[int | None, int | None]]:
    """From an operation's last request to the event that ended it, in nanoseconds."""
    found: dict[str, tuple[int | None, int | None]] = {}
    for event in log:
        if isinstance(event, ev.ToolRequested):
            found[event.operation_id] = (_nanoseconds(event.at), _nanoseconds(event.at))
        elif isinstance(event, ev.ToolOutcome) and event.operation_id in found:
            found[event.operation_id] = (found[event.operation_id][0], _nanoseconds(event.at))
    return found


def _last(log: list[ev.Event]) -> int | None:
    return _nanoseconds(max((one.at for one in log if one.at is not None), default=None))


def _nanoseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1e9)
