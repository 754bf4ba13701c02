"""Tools that never run twice: the agent half of gnomon.

`Tool`, `ToolRuntime`, `validate_arguments`, `reduce_task` and `run_agent` stand on a durable
ledger: an operation is recorded before its tool is called, its outcome is returned again for the
same id, and an outcome that nobody knows waits for `reconcile` instead of another try. The trace
gate is `validate` and `validate_trace`.

Names are imported on first use: `gnomon gate` needs no event loop and no database.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .approval import ApprovalDecision, ApprovalPolicy, ApprovalRequest, Approvals, Approver
    from .async_runtime import AsyncToolRuntime
    from .budget import Budget, BudgetMeter
    from .citations import citation_report, evidence_coverage
    from .compression import check_compression, compress_checked
    from .context import assemble
    from .context_parts import Passage
    from .contract import Limits, Tool, ToolContract
    from .dispatch import Dispatched
    from .effects import ToolContext
    from .errors import (
        ApprovalError,
        ApprovalMismatch,
        ConcurrencyLimit,
        InvalidToolResult,
        InvalidTransition,
        NotExecuted,
        OperationConflict,
        ReentrantDispatch,
        StillRunning,
        StoreClosed,
        StoreUnavailable,
        ToolProcessError,
        ToolRefused,
        UnknownOperation,
    )
    from .events import Event, event_from_dict, event_from_json
    from .evidence import EVIDENCE_SCHEMA, Evidence
    from .from_function import tool
    from .frozen import EventError
    from .gate import GatePolicy, TraceFinding, validate, validate_trace
    from .hints import Injected
    from .identity import derive_operation_id
    from .jsontext import loads_strict
    from .jsonvalue import Bounds, canonicalize
    from .loop import EventLog, JsonlLog, run_agent, run_agent_async
    from .memory import Memory, MemorySession
    from .memory_policy import MemoryNotFound, MemoryPolicy, MemoryRefused
    from .memory_store import MemoryOperationStore
    from .memory_toolset import memory_tools
    from .operations import (
        Operation,
        OperationEvent,
        OperationRequest,
        OperationStatus,
        OperationStore,
    )
    from .postgres_store import PostgresOperationStore
    from .problems import Problem, SchemaError, ValidationError
    from .reconcile import Looked, OpenOperation, Reconciler
    from .redact import RedactedError, Redactor
    from .redact_logging import RedactingFilter, structlog_processor
    from .reducer import reduce_task, replay
    from .retry import RetryPolicy
    from .runtime import ToolRuntime
    from .schema import CompiledSchema, compile_schema, validate_arguments
    from .settings import Settings
    from .sqlite_store import SqliteOperationStore
    from .trace import trace_of

__all__ = [
    "EVIDENCE_SCHEMA",
    "ApprovalDecision",
    "ApprovalError",
    "ApprovalMismatch",
    "ApprovalPolicy",
    "ApprovalRequest",
    "Approvals",
    "Approver",
    "AsyncToolRuntime",
    "Bounds",
    "Budget",
    "BudgetMeter",
    "CompiledSchema",
    "ConcurrencyLimit",
    "Dispatched",
    "Event",
    "EventError",
    "EventLog",
    "Evidence",
    "GatePolicy",
    "Injected",
    "InvalidToolResult",
    "InvalidTransition",
    "JsonlLog",
    "Limits",
    "Looked",
    "Memory",
    "MemoryNotFound",
    "MemoryOperationStore",
    "MemoryPolicy",
    "MemoryRefused",
    "MemorySession",
    "NotExecuted",
    "OpenOperation",
    "Operation",
    "OperationConflict",
    "OperationEvent",
    "OperationRequest",
    "OperationStatus",
    "OperationStore",
    "Passage",
    "PostgresOperationStore",
    "Problem",
    "Reconciler",
    "RedactedError",
    "RedactingFilter",
    "Redactor",
    "ReentrantDispatch",
    "RetryPolicy",
    "SchemaError",
    "Settings",
    "SqliteOperationStore",
    "StillRunning",
    "StoreClosed",
    "StoreUnavailable",
    "Tool",
    "ToolContext",
    "ToolContract",
    "ToolProcessError",
    "ToolRefused",
    "ToolRuntime",
    "TraceFinding",
    "UnknownOperation",
    "ValidationError",
    "assemble",
    "canonicalize",
    "check_compression",
    "citation_report",
    "compile_schema",
    "compress_checked",
    "derive_operation_id",
    "event_from_dict",
    "event_from_json",
    "evidence_coverage",
    "loads_strict",
    "memory_tools",
    "reduce_task",
    "replay",
    "run_agent",
    "run_agent_async",
    "structlog_processor",
    "tool",
    "trace_of",
    "validate",
    "validate_arguments",
    "validate_trace",
]

_HOME = {
    "ApprovalDecision": "approval",
    "ApprovalError": "errors",
    "ApprovalMismatch": "errors",
    "ApprovalPolicy": "approval",
    "ApprovalRequest": "approval",
    "Approvals": "approval",
    "Approver": "approval",
    "AsyncToolRuntime": "async_runtime",
    "Bounds": "jsonvalue",
    "Budget": "budget",
    "BudgetMeter": "budget",
    "CompiledSchema": "schema",
    "ConcurrencyLimit": "errors",
    "Dispatched": "dispatch",
    "EVIDENCE_SCHEMA": "evidence",
    "Event": "events",
    "EventError": "frozen",
    "EventLog": "loop",
    "Evidence": "evidence",
    "GatePolicy": "gate",
    "Injected": "hints",
    "InvalidToolResult": "errors",
    "InvalidTransition": "errors",
    "JsonlLog": "loop",
    "Limits": "contract",
    "Looked": "reconcile",
    "Memory": "memory",
    "MemoryNotFound": "memory_policy",
    "MemoryOperationStore": "memory_store",
    "MemoryPolicy": "memory_policy",
    "MemoryRefused": "memory_policy",
    "MemorySession": "memory",
    "NotExecuted": "errors",
    "OpenOperation": "reconcile",
    "Operation": "operations",
    "OperationConflict": "errors",
    "OperationEvent": "operations",
    "OperationRequest": "operations",
    "OperationStatus": "operations",
    "OperationStore": "operations",
    "Passage": "context_parts",
    "PostgresOperationStore": "postgres_store",
    "Problem": "problems",
    "Reconciler": "reconcile",
    "RedactedError": "redact",
    "RedactingFilter": "redact_logging",
    "Redactor": "redact",
    "ReentrantDispatch": "errors",
    "RetryPolicy": "retry",
    "SchemaError": "problems",
    "Settings": "settings",
    "SqliteOperationStore": "sqlite_store",
    "StillRunning": "errors",
    "StoreClosed": "errors",
    "StoreUnavailable": "errors",
    "Tool": "contract",
    "ToolContext": "effects",
    "ToolContract": "contract",
    "ToolProcessError": "errors",
    "ToolRefused": "errors",
    "ToolRuntime": "runtime",
    "TraceFinding": "gate",
    "UnknownOperation": "errors",
    "ValidationError": "problems",
    "assemble": "context",
    "canonicalize": "jsonvalue",
    "check_compression": "compression",
    "citation_report": "citations",
    "compile_schema": "schema",
    "compress_checked": "compression",
    "derive_operation_id": "identity",
    "event_from_dict": "events",
    "event_from_json": "events",
    "evidence_coverage": "citations",
    "loads_strict": "jsontext",
    "memory_tools": "memory_toolset",
    "reduce_task": "reducer",
    "replay": "reducer",
    "run_agent": "loop",
    "run_agent_async": "loop",
    "structlog_processor": "redact_logging",
    "tool": "from_function",
    "trace_of": "trace",
    "validate": "gate",
    "validate_arguments": "schema",
    "validate_trace": "gate",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
