"""Tools that never run twice: the agent half of gnomon.

Document 000's names (`Tool`, `ToolRuntime`, `validate_arguments`) on a durable ledger: an
operation is recorded before its tool is called, its outcome is returned again for the same id, and
an outcome that nobody knows waits for `reconcile` instead of being tried again.
"""

from __future__ import annotations

from .approval import ApprovalPolicy, ApprovalRequest, Approvals, Approver
from .async_runtime import AsyncToolRuntime
from .contract import Evidence, Limits, Tool, ToolContract
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
    StoreClosed,
    StoreUnavailable,
    ToolRefused,
    UnknownOperation,
)
from .identity import derive_operation_id
from .jsontext import loads_strict
from .jsonvalue import Bounds, canonicalize
from .memory_store import MemoryOperationStore
from .operations import Operation, OperationEvent, OperationStatus, OperationStore
from .problems import Problem, SchemaError, ValidationError
from .reconcile import OpenOperation, Reconciler
from .retry import RetryPolicy
from .runtime import ToolRuntime
from .schema import validate_arguments
from .settings import Settings

__all__ = [
    "ApprovalError",
    "ApprovalMismatch",
    "ApprovalPolicy",
    "ApprovalRequest",
    "Approvals",
    "Approver",
    "AsyncToolRuntime",
    "Bounds",
    "ConcurrencyLimit",
    "Dispatched",
    "Evidence",
    "InvalidToolResult",
    "InvalidTransition",
    "Limits",
    "MemoryOperationStore",
    "NotExecuted",
    "OpenOperation",
    "Operation",
    "OperationConflict",
    "OperationEvent",
    "OperationStatus",
    "OperationStore",
    "Problem",
    "Reconciler",
    "ReentrantDispatch",
    "RetryPolicy",
    "SchemaError",
    "Settings",
    "StoreClosed",
    "StoreUnavailable",
    "Tool",
    "ToolContext",
    "ToolContract",
    "ToolRefused",
    "ToolRuntime",
    "UnknownOperation",
    "ValidationError",
    "canonicalize",
    "derive_operation_id",
    "loads_strict",
    "validate_arguments",
]
