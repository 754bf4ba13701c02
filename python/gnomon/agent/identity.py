"""Operation ids that follow from what is asked, so that asking twice is one operation."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

from .jsonvalue import canonicalize

_MAX_LENGTH = 200
# Control characters and lone surrogates cannot be logged, stored and compared alike everywhere.
_BAD = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def derive_operation_id(
    principal: str, tool: str, arguments: Any, business_scope: str, *, tenant: str = ""
) -> str:
    """The operation id of this action: equal actions have equal ids, in every process and version.

    "op_" and the base32 of SHA-256 over the RFC 8785 text of ``["op/1", tenant, principal, tool,
    arguments, business_scope]``. A tool_call_id, a step number or a time is no part of it: a model
    that proposes the same action again means the same operation. Two equal actions that are both
    wanted (two payments of one amount) differ in ``business_scope``: an invoice number, a task, an
    intent.

    Raises ValidationError for arguments that are no JSON values within the default bounds, and
    ValueError for names that are not text.

    Examples
    --------
    >>> a = derive_operation_id("alice", "pay", {"amount": 5, "to": "bob"}, "invoice-7")
    >>> a == derive_operation_id("alice", "pay", {"to": "bob", "amount": 5.0}, "invoice-7")
    True
    >>> a == derive_operation_id("alice", "pay", {"amount": 5, "to": "bob"}, "invoice-8")
    False
    >>> len(a)
    55
    """
    for name, value in (
        ("principal", principal),
        ("tool", tool),
        ("business_scope", business_scope),
        ("tenant", tenant),
    ):
        if not isinstance(value, str):
            raise ValueError(f"{name} must be a str, got {type(value).__name__}")
    _, data = canonicalize(["op/1", tenant, principal, tool, arguments, business_scope])
    code = base64.b32encode(hashlib.sha256(data).digest()).decode().rstrip("=").lower()
    return f"op_{code}"


def check_name(what: str, value: Any, *, empty: bool = False) -> str:
    """The value, if it is text of 1 to 200 printable characters; else ValueError naming
    ``what``.
    """
    if type(value) is not str:
        raise ValueError(f"{what} must be a str, got {type(value).__name__}")
    if not value and not empty:
        raise ValueError(f"{what} must not be empty")
    if len(value) > _MAX_LENGTH:
        raise ValueError(
            f"{what} must have at most {_MAX_LENGTH} characters, got {len(value)}; hash it first"
        )
    if not (value.isascii() and value.isprintable()) and _BAD.search(value):
        raise ValueError(f"{what} must not hold control characters or lone surrogates")
    return value
