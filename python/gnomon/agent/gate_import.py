"""Traces out of OpenTelemetry spans: GenAI conventions and OpenInference, from files of exporters.

Read are OTLP/JSON (`resourceSpans`), lists of spans, and one span per line, with attributes flat,
nested or as OTLP key-value lists. Both conventions are in development; all their names stand here.

A tool span becomes a step, a retriever span a step or, inside a tool span, that step's evidence;
the tokens of model spans count for the step that follows. Spans carry no policy: without a policy
file the gate says so. They name no stop reason either, unless a span has the attributes
``gnomon.stop_reason`` and ``gnomon.citation_ids``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

_TOOL = "tool"
_RETRIEVER = "retriever"
_MODEL = "model"
_KINDS = {  # gen_ai.operation.name, openinference.span.kind
    "execute_tool": _TOOL,
    "retrieval": _RETRIEVER,
    "chat": _MODEL,
    "text_completion": _MODEL,
    "generate_content": _MODEL,
    "TOOL": _TOOL,
    "RETRIEVER": _RETRIEVER,
    "LLM": _MODEL,
}
_TOOL_NAMES = ("gen_ai.tool.name", "tool.name", "tool_call.function.name", "gen_ai.data_source.id")
_TOTALS = ("llm.token_count.total",)
_PARTS = (
    ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"),
    ("gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens"),
    ("llm.token_count.prompt", "llm.token_count.completion"),
)
_DOCUMENTS = ("gen_ai.retrieval.documents", "retrieval.documents")
_METADATA_KEYS = (
    "source_id",
    "revision",
    "acl_scope",
    "scope",
    "title",
    "retrieved_at",
    "validated",
)


@dataclass
class Span:
    """What is needed of one span."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start: int
    failed: bool
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """tool, retriever, model, or "" for any other span."""
        for key in ("gen_ai.operation.name", "openinference.span.kind"):
            value = self.attributes.get(key)
            if isinstance(value, str) and value in _KINDS:
                return _KINDS[value]
        return ""


def import_spans(raw: Any) -> list[dict[str, Any]]:
    """The traces in an export, in the order of their first spans; ValueError if it is none.

    >>> span = {"name": "execute_tool find", "attributes":
    ...         {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}}
    >>> import_spans([span])[0]["steps"]
    [{'tool': 'find', 'tokens': 0, 'evidence': [], 'status': 'succeeded'}]
    """
    traces: dict[str, list[Span]] = {}
    for span in _spans(raw):
        traces.setdefault(span.trace_id, []).append(span)
    if not traces:
        raise ValueError("holds no spans; give OTLP/JSON or a list of spans")
    return [_trace(trace_id, spans) for trace_id, spans in traces.items()]


def _spans(raw: Any) -> Iterator[Span]:
    if isinstance(raw, dict) and isinstance(raw.get("resourceSpans"), list):
        for resource in raw["resourceSpans"]:
            for scope in _list(resource, "scopeSpans"):
                yield from _spans(_list(scope, "spans"))
    elif isinstance(raw, dict) and isinstance(raw.get("spans"), list):
        yield from _spans(raw["spans"])
    elif isinstance(raw, dict) and "attributes" in raw:
        yield _span(raw)
    elif isinstance(raw, list):
        for item in raw:
            if not isinstance(item, dict):
                raise ValueError("a list of spans holds something that is no object")
            yield from _spans(item) if "resourceSpans" in item else iter([_span(item)])
    else:
        raise ValueError("is no export of spans; give OTLP/JSON or a list of spans")


def _list(holder: Any, key: str) -> list[Any]:
    value = holder.get(key, []) if isinstance(holder, dict) else []
    return value if isinstance(value, list) else []


def _span(raw: Mapping[str, Any]) -> Span:
    context = raw.get("context")
    ids = {**raw, **context} if isinstance(context, dict) else raw
    status = raw.get("status")
    code = status.get("code", status.get("status_code")) if isinstance(status, dict) else None
    code = raw.get("status_code", code)
    return Span(
        trace_id=str(_first(ids, "traceId", "trace_id") or ""),
        span_id=str(_first(ids, "spanId", "span_id") or ""),
        parent_id=str(_first(raw, "parentSpanId", "parent_span_id", "parent_id") or ""),
        name=str(raw.get("name", "")),
        start=_time(_first(raw, "startTimeUnixNano", "start_time_unix_nano", "start_time")),
        failed=code in (2, "STATUS_CODE_ERROR", "ERROR"),
        attributes=_attributes(raw.get("attributes")),
    )


def _first(holder: Mapping[str, Any], *keys: str) -> Any:
    return next((holder[key] for key in keys if holder.get(key) is not None), None)


def _time(value: Any) -> int:
    """Nanoseconds, out of nanoseconds or ISO 8601; 0 where there is none: then the file decides."""
    if isinstance(value, str) and value.isdigit() and len(value) < 40:
        return int(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return int(value) if abs(value) < 1e30 else 0  # NaN compares false
    if not isinstance(value, str):
        return 0
    try:
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
        return int(moment.timestamp() * 1_000_000) * 1000
    except (ValueError, OverflowError, OSError):
        return 0


def _attributes(raw: Any) -> dict[str, Any]:
    """Flat attributes out of an OTLP list, a flat object or a nested one."""
    found: dict[str, Any] = {}
    if isinstance(raw, list):
        for pair in raw:
            if isinstance(pair, dict) and isinstance(pair.get("key"), str):
                found[pair["key"]] = _otlp(pair.get("value"))
    elif isinstance(raw, dict):
        _flatten("", raw, found)
    return found


def _flatten(prefix: str, raw: Mapping[str, Any], found: dict[str, Any]) -> None:
    for key, value in raw.items():
        if isinstance(value, dict):
            _flatten(f"{prefix}{key}.", value, found)
        found[f"{prefix}{key}"] = value


def _otlp(value: Any) -> Any:
    """The plain value of an OTLP AnyValue."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    kind, item = next(iter(value.items()))
    if kind == "intValue":  # a string in JSON, by the protobuf mapping
        return (
            int(item)
            if isinstance(item, int)
            or (isinstance(item, str) and item.lstrip("-").isdigit() and len(item) < 21)
            else None
        )
    if kind == "arrayValue":
        return [_otlp(one) for one in _list(item, "values")]
    if kind == "kvlistValue":
        return {
            pair["key"]: _otlp(pair.get("value"))
            for pair in _list(item, "values")
            if isinstance(pair, dict) and isinstance(pair.get("key"), str)
        }
    return item


def _trace(trace_id: str, spans: list[Span]) -> dict[str, Any]:
    spans = sorted(spans, key=lambda span: span.start)  # stable: the file decides between equals
    by_id = {span.span_id: span for span in spans if span.span_id}
    steps: list[dict[str, Any]] = []
    step_of: dict[str, dict[str, Any]] = {}
    tokens = 0
    for span in spans:
        above = list(_ancestors(span, by_id))
        if span.kind == _MODEL and not any(parent.kind == _MODEL for parent in above):
            tokens += _tokens(span)
        elif span.kind in (_TOOL, _RETRIEVER):
            holder = next((step_of[one.span_id] for one in above if one.span_id in step_of), None)
            if span.kind == _TOOL or holder is None:
                holder = {"tool": _tool_name(span), "tokens": tokens, "evidence": []}
                holder["status"] = "failed" if span.failed else "succeeded"
                steps.append(holder)
                tokens = 0
                if span.span_id:
                    step_of[span.span_id] = holder
            holder["evidence"] += _evidence(span)
    result = _result(spans)
    if tokens and steps:
        steps[-1]["tokens"] += tokens
    elif tokens:
        result["tokens"] = tokens
    return {"trace_id": trace_id, "policy": {}, "steps": steps, "result": result}


def _ancestors(span: Span, by_id: Mapping[str, Span]) -> Iterator[Span]:
    seen = {span.span_id}
    parent = by_id.get(span.parent_id)
    while parent is not None and parent.span_id not in seen:
        seen.add(parent.span_id)
        yield parent
        parent = by_id.get(parent.parent_id)


def _tool_name(span: Span) -> str:
    for key in _TOOL_NAMES:
        value = span.attributes.get(key)
        if isinstance(value, str) and value:
            return value
    return span.name.removeprefix("execute_tool ")


def _tokens(span: Span) -> int:
    def count(key: str) -> int | None:
        value = span.attributes.get(key)
        valid = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        return value if valid else None

    totals: Iterable[int | None] = [count(key) for key in _TOTALS]
    for one in totals:
        if one is not None:
            return one
    for keys in _PARTS:
        parts = [count(key) for key in keys]
        if any(part is not None for part in parts):
            return sum(part or 0 for part in parts)
    return 0


def _evidence(span: Span) -> list[dict[str, Any]]:
    documents: list[Any] = []
    for key in _DOCUMENTS:
        listed = _parsed(span.attributes.get(key))
        if isinstance(listed, list):
            documents += listed
    return [_item(one) for one in documents + _flattened(span.attributes)]


def _flattened(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Documents of OpenInference's flat form: retrieval.documents.0.document.id and so on."""
    found: dict[int, dict[str, Any]] = {}
    prefix = "retrieval.documents."
    for key, value in attributes.items():
        if key.startswith(prefix):
            number, _, name = key[len(prefix) :].partition(".")
            if number.isdigit() and len(number) < 9 and name:
                found.setdefault(int(number), {})[name] = value
    return [found[number] for number in sorted(found)]


def _item(raw: Any) -> dict[str, Any]:
    if not isinstance(raw, dict):
        return {}
    flat: dict[str, Any] = {}
    _flatten("", raw, flat)
    flat = {key.removeprefix("document."): value for key, value in flat.items()}
    metadata = _parsed(flat.get("metadata"))
    if not isinstance(metadata, dict):
        metadata = {}
    item = {key: metadata[key] for key in _METADATA_KEYS if key in metadata}
    item |= {key: flat[key] for key in _METADATA_KEYS if key in flat}
    if flat.get("id") is not None:
        item["id"] = str(flat["id"])
    if "scope" not in item and "acl_scope" in item:
        item["scope"] = item["acl_scope"]
    if isinstance(flat.get("content"), str):
        item["content"] = flat["content"]
    return item


def _parsed(value: Any) -> Any:
    """A value that some exporters write as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _result(spans: list[Span]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for span in spans:
        for key in ("stop_reason", "citation_ids"):
            value = span.attributes.get(f"gnomon.{key}")
            if value is not None:
                result[key] = value
    return result
