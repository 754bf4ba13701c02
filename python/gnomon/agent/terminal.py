"""The eight reasons for which a task may stop; a trace names exactly one of them."""

from __future__ import annotations

TERMINAL_REASONS = frozenset(
    {
        "answered",
        "clarification_required",
        "insufficient_evidence",
        "conflicting_evidence",
        "authorization_denied",
        "budget_exhausted",
        "dependency_failed",
        "policy_blocked",
    }
)
