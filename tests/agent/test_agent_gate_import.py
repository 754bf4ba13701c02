"""Traces imported from spans: OTLP/JSON with GenAI names, OpenInference, one span per line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from gnomon.agent.gate import validate_trace
from gnomon.agent.gate_import import import_spans
from gnomon.cli import cli
from hypothesis import given
from hypothesis import strategies as st
from traces import codes, junk

POLICY = {
    "max_steps": 5,
    "max_tokens": 200,
    "allowed_tools": ["search", "lookup"],
    "allowed_source_scopes": ["public"],
}


def otlp_value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [otlp_value(one) for one in value]}}
    if isinstance(value, dict):
        pairs = [{"key": key, "value": otlp_value(one)} for key, one in value.items()]
        return {"kvlistValue": {"values": pairs}}
    return {"stringValue": value}


def genai_spans() -> list[dict[str, Any]]:
    """Model, tool with a retrieval inside it, model, failing tool; the root says how it ended."""
    documents = [
        {"id": "r1", "score": 0.9, "scope": "public"},
        {"id": "r2", "score": 0.5, "scope": "secret"},
    ]
    tool = {"gen_ai.operation.name": "execute_tool"}
    found = [
        (
            "root",
            "",
            "invoke_agent",
            {"gnomon.stop_reason": "answered", "gnomon.citation_ids": ["r1"]},
        ),
        (
            "m1",
            "root",
            "chat",
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.usage.input_tokens": 30,
                "gen_ai.usage.output_tokens": 5,
            },
        ),
        ("t1", "root", "execute_tool search", {**tool, "gen_ai.tool.name": "search"}),
        (
            "d1",
            "t1",
            "retrieval",
            {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": documents},
        ),
        ("m2", "root", "chat", {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 40}),
        ("t2", "root", "execute_tool lookup", tool),
        ("m3", "root", "chat", {"gen_ai.operation.name": "chat", "gen_ai.usage.output_tokens": 7}),
    ]
    return [
        {
            "traceId": "a" * 32,
            "spanId": span_id,
            "parentSpanId": parent,
            "name": name,
            "startTimeUnixNano": str(1_700_000_000_000_000_000 + number),
            "attributes": attributes,
            "status": {"code": 2} if span_id == "t2" else {},
        }
        for number, (span_id, parent, name, attributes) in enumerate(found)
    ]


def as_otlp(spans: list[dict[str, Any]]) -> dict[str, Any]:
    listed = [
        {
            **span,
            "attributes": [
                {"key": key, "value": otlp_value(value)}
                for key, value in span["attributes"].items()
            ],
        }
        for span in spans
    ]
    return {"resourceSpans": [{"scopeSpans": [{"spans": listed}]}]}


EXPECTED = [
    {
        "tool": "search",
        "tokens": 35,
        "status": "succeeded",
        "evidence": [{"id": "r1", "scope": "public"}, {"id": "r2", "scope": "secret"}],
    },
    {"tool": "lookup", "tokens": 47, "status": "failed", "evidence": []},
]


def test_genai_spans_become_steps() -> None:
    spans = genai_spans()
    for raw in (as_otlp(spans), spans, spans[::-1], {"spans": spans}, [as_otlp(spans)]):
        [trace] = import_spans(raw)
        assert trace["steps"] == EXPECTED
        assert trace["result"] == {"stop_reason": "answered", "citation_ids": ["r1"]}
    trace["policy"] = POLICY
    assert [one.message for one in validate_trace(trace)] == [
        "steps[0] evidence uses unauthorized scope 'secret'"
    ]


@pytest.mark.parametrize("form", ["flat", "nested", "json"])
def test_openinference_spans_become_steps(form: str) -> None:
    metadata = {"acl_scope": "public", "revision": "3", "other": 1}
    document = {
        "document.id": 7,
        "document.content": "text",
        "document.metadata": json.dumps(metadata),
    }
    attributes: dict[str, Any] = {"openinference.span.kind": "RETRIEVER", "tool.name": "search"}
    if form == "flat":
        attributes |= {f"retrieval.documents.0.{key}": value for key, value in document.items()}
    elif form == "nested":
        inner = {"document": {"id": 7, "content": "text", "metadata": metadata}}
        attributes = {"openinference": {"span": {"kind": "RETRIEVER"}}, "tool": {"name": "search"}}
        attributes["retrieval"] = {"documents": [inner]}
    else:
        attributes["retrieval.documents"] = json.dumps([document])
    model = {
        "openinference.span.kind": "LLM",
        "llm.token_count.prompt": 9,
        "llm.token_count.completion": 4,
    }
    spans = [
        {"name": "llm", "start_time": "2026-01-01T00:00:00Z", "attributes": model},
        {"name": "retriever", "start_time": "2026-01-01T00:00:01+00:00", "attributes": attributes},
    ]
    [trace] = import_spans(spans)
    [step] = trace["steps"]
    assert (step["tool"], step["tokens"]) == ("search", 13)
    assert step["evidence"] == [
        {"acl_scope": "public", "revision": "3", "id": "7", "scope": "public", "content": "text"}
    ]


def test_tokens_of_nested_model_spans_count_once() -> None:
    spans = genai_spans()[:2]
    inner = {**spans[1], "spanId": "m1b", "parentSpanId": "m1"}
    [trace] = import_spans([*spans, inner])
    assert trace["steps"] == []
    assert trace["result"]["tokens"] == 35


def test_several_traces_and_parents_in_a_ring() -> None:
    first, second = genai_spans(), genai_spans()
    for span in second:
        span["traceId"] = "b" * 32
        span["parentSpanId"] = span["spanId"]
    first[1]["parentSpanId"], first[4]["parentSpanId"] = "m2", "m1"
    assert [trace["trace_id"] for trace in import_spans(first + second)] == ["a" * 32, "b" * 32]


@pytest.mark.parametrize(
    "raw", [None, 5, "x", [], {}, {"resourceSpans": 5}, [5], {"resourceSpans": [None]}]
)
def test_what_is_no_export_is_a_value_error(raw: Any) -> None:
    with pytest.raises(ValueError, match="span"):
        import_spans(raw)


keys = st.sampled_from(
    [
        *("gen_ai.operation.name", "openinference.span.kind", "gen_ai.tool.name", "key", "value"),
        *(
            "gen_ai.usage.input_tokens",
            "llm.token_count.total",
            "retrieval.documents",
            "document.id",
        ),
        *(
            "gen_ai.retrieval.documents",
            "retrieval.documents.0.document.id",
            "attributes",
            "context",
        ),
        *("traceId", "spanId", "parentSpanId", "startTimeUnixNano", "start_time", "status", "code"),
        *("intValue", "arrayValue", "kvlistValue", "values", "metadata", "spans", "scopeSpans"),
    ]
)
words = st.sampled_from(
    ["execute_tool", "RETRIEVER", "LLM", "chat", "9" * 30, "2026-01-01", "[]", "{"]
)
spans_junk = st.recursive(
    junk | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=8,
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"attributes": spans_junk},
            optional={
                "traceId": spans_junk,
                "start_time": spans_junk,
                "status": spans_junk,
                "context": spans_junk,
                "name": spans_junk,
            },
        ),
        min_size=1,
        max_size=3,
    )
    | spans_junk
)
def test_any_export_is_judged_or_refused(raw: Any) -> None:
    try:
        imported = import_spans(raw)
    except ValueError:
        return
    for trace in imported:
        codes(trace)


def test_cli_judges_spans(tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text(
        json.dumps({"policy": {**POLICY, "allowed_source_scopes": ["public", "secret"]}})
    )
    whole = tmp_path / "otlp.json"
    whole.write_text(json.dumps(as_otlp(genai_spans())))
    lines = tmp_path / "spans.jsonl"
    lines.write_text("\n".join(json.dumps(span) for span in genai_spans()))
    for file in (whole, lines):
        for kind in ("auto", "spans"):
            arguments = ["gate", str(file), "--input", kind]
            bare = CliRunner().invoke(cli, arguments)
            assert bare.exit_code == 1
            assert "ERROR: policy.max_steps must be a positive integer" in bare.output
            judged = CliRunner().invoke(cli, [*arguments, "--policy", str(policy)])
            assert (judged.exit_code, judged.output) == (0, f"trace passed: {file}\n")
    bad = tmp_path / "bad.json"
    bad.write_text("[]")
    assert CliRunner().invoke(cli, ["gate", str(bad), "--input", "spans"]).exit_code == 2
