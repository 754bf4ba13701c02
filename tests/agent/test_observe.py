"""Logs with a stable vocabulary, spans after the GenAI conventions, and no secret in either."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from pathlib import Path
from typing import Any

import pytest
from agent_tools import ALPHA, WRITE_SCHEMA, Gate, Remote, until
from gnomon.agent import (
    ApprovalError,
    ApprovalPolicy,
    Approver,
    AsyncToolRuntime,
    Limits,
    OperationConflict,
    SqliteOperationStore,
    Tool,
    ToolRuntime,
    ValidationError,
    run_agent,
)
from gnomon.agent.gate_import import import_spans
from gnomon.agent.observe import LOG_EVENTS, Observer
from gnomon.agent.otel import export_run

CANARY = "cAnArY-9f31c7e2"


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.DEBUG, logger="gnomon.agent")

    def names() -> list[str]:
        return [record.gnomon["event"] for record in caplog.records]  # type: ignore[attr-defined]

    names.log = caplog  # type: ignore[attr-defined]
    return names


def test_one_execution_and_one_replay(records: Any) -> None:
    runtime = Remote().runtime()
    runtime.dispatch("write", ALPHA, "op-1")
    runtime.dispatch("write", ALPHA, "op-1")
    assert records() == ["operation.claimed", "operation.settled", "operation.replayed"]
    settled = records.log.records[1]
    assert settled.levelno == logging.INFO
    assert settled.gnomon == {
        "event": "operation.settled",
        "operation_id": "op-1",
        "tool": "write",
        "status": "succeeded",
        "attempt": 1,
    }
    assert settled.getMessage() == (
        "operation.settled operation_id=op-1 tool=write status=succeeded attempt=1"
    )
    assert "alpha" not in records.log.text


def test_refusals_conflicts_and_cancellations(records: Any) -> None:
    runtime = Remote().runtime()
    with pytest.raises(ValueError, match="unknown tool"):
        runtime.dispatch("nothing", ALPHA, "op-1")
    with pytest.raises(ValidationError):
        runtime.dispatch("write", {}, "op-1")
    runtime.dispatch("write", ALPHA, "op-1")
    with pytest.raises(OperationConflict):
        runtime.dispatch("write", {"project": "beta"}, "op-1")
    runtime.cancel("op-2")
    assert records()[:2] == ["operation.refused"] * 2
    assert records()[-2:] == ["operation.conflict", "operation.cancel"]


def test_late_results_and_contradictions(records: Any) -> None:
    gate = Gate()
    runtime = Remote(after=gate).runtime(tool={"limits": Limits(timeout_ms=20)})
    runtime.dispatch("write", ALPHA, "op-1")
    runtime.reconcile("op-1", "failed", actor="ops")
    gate.open()
    until(lambda: "operation.late_conflict" in records())
    assert "operation.reconciled" in records()
    assert "operation.late_result" in records()


def test_approvals(records: Any) -> None:
    policy = ApprovalPolicy((Approver("boss", max_risk=9),))
    runtime = Remote().runtime(
        tool={"risk": 5, "approval": True}, approvals=policy, principal="ann"
    )
    approval_id = runtime.dispatch("write", ALPHA, "op-1")["approval_id"]
    with pytest.raises(ApprovalError):
        runtime.approvals.approve(approval_id, by="ann")
    runtime.approvals.approve(approval_id, by="boss")
    assert records() == ["approval.requested", "approval.refused", "approval.approved"]


def test_only_words_of_the_vocabulary_can_be_logged() -> None:
    observer = Observer(lambda text: text, tracer=False)
    with pytest.raises(KeyError):
        observer.emit("operation.invented")
    for name, (level, meaning) in LOG_EVENTS.items():
        assert name.count(".") == 1
        assert level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
        assert meaning[0].islower()


# --- spans ----------------------------------------------------------------------------------------


@pytest.fixture
def spans() -> Any:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    def finished() -> Any:
        return exporter.get_finished_spans()

    finished.tracer = provider.get_tracer("test")  # type: ignore[attr-defined]
    yield finished
    provider.shutdown()


def test_a_span_says_what_the_conventions_ask_for(spans: Any) -> None:
    runtime = Remote().runtime(tracer=spans.tracer)
    runtime.dispatch("write", ALPHA, "op-1")
    runtime.dispatch("write", ALPHA, "op-1")
    first, second = spans()
    assert first.name == "execute_tool write"
    assert dict(first.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "write",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "op-1",
        "gnomon.operation.status": "succeeded",
        "gnomon.operation.executed": True,
        "gnomon.operation.attempts": 1,
    }
    assert second.attributes["gnomon.operation.executed"] is False


def test_an_error_span_has_the_class_and_no_text(spans: Any) -> None:
    runtime = Remote(answer=TimeoutError(CANARY)).runtime(tracer=spans.tracer)
    with pytest.raises(TimeoutError):
        runtime.dispatch("write", ALPHA, "op-1")
    [span] = spans()
    assert span.attributes["error.type"] == "TimeoutError"
    assert span.status.status_code.name == "ERROR"
    assert span.events == ()
    assert CANARY not in span.to_json()


def test_a_tools_own_spans_are_children(spans: Any) -> None:
    def inner() -> None:
        with spans.tracer.start_as_current_span("inner"):
            pass

    for limits in (Limits(), Limits(timeout_ms=5_000)):
        runtime = Remote(before=inner).runtime(tracer=spans.tracer, tool={"limits": limits})
        runtime.dispatch("write", ALPHA, "op-1")
    by_name = {span.name: span for span in spans()}
    assert by_name["inner"].parent.span_id == by_name["execute_tool write"].context.span_id


def test_async_spans(spans: Any) -> None:
    async def write(project: str) -> dict[str, str]:
        return {"status": "succeeded"}

    async def main() -> None:
        tools = {"write": Tool("write", WRITE_SCHEMA, 1, write)}
        async with AsyncToolRuntime(tools, 1, tracer=spans.tracer) as runtime:
            await runtime.dispatch("write", ALPHA, "op-1")

    asyncio.run(main())
    assert [span.name for span in spans()] == ["execute_tool write"]


# --- secrets --------------------------------------------------------------------------------------

SECRET_SCHEMA = {
    "type": "object",
    "properties": {
        "to": {"type": "string"},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}},
        "pin": {"type": "string"},
    },
    "required": ["to"],
}
ARGUMENTS = {
    "to": "bob",
    "headers": {"Authorization": f"Bearer {CANARY}"},
    "pin": f"pin-{CANARY}",
}


def secret_runtime(answer: Any, store: Any = None, **more: Any) -> ToolRuntime:
    def send(to: str, headers: Any = None, pin: str = "") -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    tool = Tool("send", SECRET_SCHEMA, 1, send, redact_paths=("/pin",))
    return ToolRuntime({"send": tool}, 1, store, principal="ann", **more)


def test_r1_a_secret_in_an_exception(records: Any, spans: Any) -> None:
    error = RuntimeError(f"503 for https://x/?key={CANARY} with pin-{CANARY}")
    error.__cause__ = OSError(f"Authorization: Bearer {CANARY}")
    runtime = secret_runtime(error, tracer=spans.tracer)
    with pytest.raises(RuntimeError, match="503 for") as raised:
        runtime.dispatch("send", ARGUMENTS, "op-1")
    assert raised.value is error
    shown = "".join(traceback.format_exception(raised.value))
    assert CANARY not in shown
    assert CANARY not in records.log.text
    assert all(CANARY not in span.to_json() for span in spans())


def test_r1_a_secret_in_an_invalid_result() -> None:
    runtime = secret_runtime({"status": "succeeded", CANARY: {1}, "x": f"pin-{CANARY}"})
    with pytest.raises(ValueError, match="invalid result") as raised:
        runtime.dispatch("send", ARGUMENTS, "op-1")
    assert f"pin-{CANARY}" not in str(raised.value)


def test_errors_of_validation_name_keys_and_no_values() -> None:
    runtime = secret_runtime({"status": "succeeded"})
    with pytest.raises(ValidationError) as raised:
        runtime.dispatch("send", {"to": 5, "pin": [CANARY], "headers": CANARY}, "op-1")
    assert CANARY not in str(raised.value)
    assert CANARY not in repr(runtime)


@pytest.mark.parametrize("where", ["runtime", "store"])
def test_digest_only_storage_holds_no_secret(tmp_path: Path, records: Any, where: str) -> None:
    path = tmp_path / "ledger.db"
    answer = {"status": "succeeded", "token": CANARY, "echo": f"pin-{CANARY}", "n": 1}
    if where == "runtime":
        store = SqliteOperationStore(path)
        runtime = secret_runtime(answer, store, store_arguments="digest")
    else:
        store = SqliteOperationStore(path, store_arguments="digest")
        runtime = secret_runtime(answer, store)
    first = runtime.dispatch("send", ARGUMENTS, "op-1", business_scope=f"?key={CANARY}")
    assert first == {"status": "succeeded", "token": "[redacted]", "echo": "[redacted]", "n": 1}
    assert runtime.dispatch("send", ARGUMENTS, "op-1") == first
    with pytest.raises(OperationConflict):
        runtime.dispatch("send", {**ARGUMENTS, "to": "eve"}, "op-1")
    files = [file for file in tmp_path.iterdir() if file.is_file()]
    assert any(file.name.endswith("-wal") for file in files)
    runtime.close()
    for file in files:
        assert CANARY.encode() not in file.read_bytes(), file.name
    store.close()
    assert CANARY.encode() not in path.read_bytes()
    assert CANARY not in records.log.text


def test_full_storage_keeps_what_it_must_replay(tmp_path: Path) -> None:
    answer = {"status": "succeeded", "token": CANARY}
    with SqliteOperationStore(tmp_path / "ledger.db") as store:
        runtime = secret_runtime(answer, store)
        assert runtime.dispatch("send", ARGUMENTS, "op-1") == answer
        assert runtime.dispatch("send", ARGUMENTS, "op-1") == answer
        runtime.close()


def test_evidence_of_a_reconciliation_is_redacted() -> None:
    runtime = secret_runtime({"status": "unknown"})
    runtime.dispatch("send", ARGUMENTS, "op-1")
    runtime.reconcile("op-1", "failed", actor="ops", evidence={"authorization": CANARY})
    assert CANARY not in repr(runtime.events("op-1"))


# --- names in a ledger of digests -----------------------------------------------------------------


@pytest.fixture
def digests(tmp_path: Path) -> Any:
    """A ledger of digests, a runtime on it, and a search of its files for the canary."""
    with SqliteOperationStore(tmp_path / "ledger.db", store_arguments="digest") as store:
        runtime = secret_runtime({"status": "unknown"}, store)
        yield runtime
        runtime.close()
        for file in tmp_path.iterdir():
            assert CANARY.encode() not in file.read_bytes(), file.name


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("operation_id", {}),
        ("principal", {"principal": f"ann-{ARGUMENTS['pin']}"}),
        ("tenant", {"tenant": f"?key={CANARY}"}),
    ],
)
def test_a_ledger_of_digests_takes_no_secret_as_a_name(
    digests: Any, what: str, options: dict[str, Any]
) -> None:
    operation_id = "op-1" if options else f"pay-{ARGUMENTS['pin']}"
    with pytest.raises(ValueError, match=f"{what} holds a secret") as raised:
        digests.dispatch("send", ARGUMENTS, operation_id, **options)
    assert CANARY not in str(raised.value)
    assert digests.store.list_operations() == []


def test_a_ledger_of_digests_takes_no_secret_as_an_actor(digests: Any) -> None:
    digests.dispatch("send", ARGUMENTS, "op-1")
    secret = f"Bearer sk-{CANARY}"
    for refused in (
        lambda: digests.reconcile("op-1", "failed", actor=secret),
        lambda: digests.cancel("op-1", actor=secret),
        lambda: digests.cancel(f"?key={CANARY}"),
        lambda: digests.approvals.approve("ap-1", by=secret),
    ):
        with pytest.raises(ValueError, match="holds a secret"):
            refused()
    assert [event.type for event in digests.events("op-1")] == ["dispatched", "settled"]


def test_a_declared_secret_is_no_name_in_any_ledger() -> None:
    """Logs and spans show operation ids."""
    runtime = secret_runtime({"status": "succeeded"})
    with pytest.raises(ValueError, match="operation_id holds a secret"):
        runtime.dispatch("send", ARGUMENTS, f"pay-{ARGUMENTS['pin']}")


# --- a whole run as spans -------------------------------------------------------------------------


def finished_run(**more: Any) -> dict[str, Any]:
    item = {"source_id": "r7", "revision": "3", "acl_scope": "team", "excerpt": CANARY}
    answers = [{"status": "succeeded", "evidence": [item], "usage": {"tokens": 7}}]
    remote = Remote(answer=lambda n: answers.pop() if answers else {"status": "failed"})
    propose = {"kind": "tool", "name": "write", "arguments": ALPHA, "usage": {"tokens": 5}}
    script = iter(
        [
            {**propose, "operation_id": "op-1"},
            {**propose, "operation_id": "op-2"},
            {"kind": "answer", "text": "seven", "citations": ["r7"], "usage": {"tokens": 0}},
        ]
    )
    return run_agent(lambda state: next(script), remote.runtime(), {}, lambda state: False, 5)


def test_a_run_exported_and_imported_is_the_same_run(spans: Any) -> None:
    outcome = finished_run()
    assert outcome["status"] == "answered"
    assert export_run(outcome["log"], spans.tracer) == 5
    exported = [json.loads(span.to_json()) for span in spans()]
    assert CANARY not in json.dumps(exported)
    [imported] = import_spans(exported)
    trace = outcome["trace"]

    def seen(run: dict[str, Any]) -> Any:
        return [
            (
                step["tool"],
                step["tokens"],
                step["status"],
                [(item["id"], item["scope"], item["revision"]) for item in step["evidence"]],
            )
            for step in run["steps"]
        ]

    assert seen(imported) == seen(trace)
    for key in ("stop_reason", "citation_ids"):
        assert imported["result"][key] == trace["result"][key]


def test_spans_of_a_run_have_the_times_of_its_events(spans: Any) -> None:
    log = finished_run()["log"]
    export_run(log, spans.tracer, agent="payer")
    found = {span.attributes.get("gen_ai.tool.call.id"): span for span in spans()}
    requested = next(one["at"] for one in log if one["type"] == "tool_requested")
    assert found["op-1"].start_time == int(requested * 1e9)
    root = next(span for span in spans() if span.name == "invoke_agent payer")
    assert found["op-1"].parent.span_id == root.context.span_id
    assert root.start_time <= found["op-1"].start_time <= found["op-1"].end_time <= root.end_time
    assert found["op-2"].status.status_code.name == "ERROR"


def test_exporting_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnomon.agent.otel.installed_api", lambda: None)
    with pytest.raises(ImportError, match=r"gnomon\[otel\]"):
        export_run([])
