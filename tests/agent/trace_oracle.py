"""The documents' trace rules written out a second time, slowly and on their own: the oracle.

It follows the documents' definition to the letter, faults included; `judgeable` says for which
traces the definition gives a verdict that can be taken at its word.
"""

from __future__ import annotations

import math
from typing import Any

REASONS = [
    *("answered", "clarification_required", "insufficient_evidence", "conflicting_evidence"),
    *("authorization_denied", "budget_exhausted", "dependency_failed", "policy_blocked"),
]


def messages(trace: dict[str, Any]) -> list[str]:
    """The documents' messages about a trace whose root is an object."""
    if not isinstance(trace.get("policy"), dict):
        return ["policy must be an object"]
    if not isinstance(trace.get("steps"), list):
        return ["steps must be a list"]
    if not isinstance(trace.get("result"), dict):
        return ["result must be an object"]
    said: list[str] = []
    policy, steps, result = trace["policy"], trace["steps"], trace["result"]
    limits = {}
    for name in ("max_steps", "max_tokens"):
        limits[name] = policy.get(name)
        if not _integer(limits[name]) or limits[name] < 1:
            said.append(f"policy.{name} must be a positive integer")
    lists = {}
    for name in ("allowed_tools", "allowed_source_scopes"):
        lists[name] = policy.get(name)
        if not _names(lists[name]):
            said.append(f"policy.{name} must contain strings")
            lists[name] = []
    if isinstance(limits["max_steps"], int) and len(steps) > limits["max_steps"]:
        said.append("step budget exceeded")
    total: Any = 0
    known: list[str] = []
    for number, step in enumerate(steps):
        if not isinstance(step, dict):
            said.append(f"steps[{number}] must be an object")
            continue
        if step.get("tool") not in lists["allowed_tools"]:
            said.append(f"steps[{number}] uses unauthorized tool {step.get('tool')!r}")
        tokens = step.get("tokens", 0)
        if isinstance(tokens, bool) or not isinstance(tokens, (int, float)) or tokens < 0:
            said.append(f"steps[{number}].tokens must be non-negative")
        else:
            total = total + tokens
        for item in step.get("evidence", []):
            if not isinstance(item, dict):
                said.append(f"steps[{number}] has malformed evidence")
                continue
            if isinstance(item.get("id"), str) and item["id"] != "":
                known.append(item["id"])
            else:
                said.append(f"steps[{number}] evidence needs an id")
            if item.get("scope") not in lists["allowed_source_scopes"]:
                text = f"steps[{number}] evidence uses unauthorized scope {item.get('scope')!r}"
                said.append(text)
    if isinstance(limits["max_tokens"], int) and total > limits["max_tokens"]:
        said.append("token budget exceeded")
    reason, citations = result.get("stop_reason"), result.get("citation_ids", [])
    if reason not in REASONS:
        said.append("result.stop_reason is invalid")
    if not _names(citations):
        said.append("result.citation_ids must contain strings")
        citations = []
    unknown = [name for name in sorted(set(citations)) if name not in known]
    if unknown:
        said.append(f"result cites unknown evidence: {unknown}")
    if reason == "answered" and len(citations) == 0:
        said.append("answered result must cite evidence")
    return said


def _integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) and one != "" for one in value)


def judgeable(trace: Any) -> bool:
    """Whether the documents' program neither crashes on the trace nor is misled by it."""
    if not isinstance(trace, dict):
        return False
    steps, result = trace.get("steps"), trace.get("result")
    if isinstance(result, dict) and isinstance(result.get("stop_reason"), (list, dict)):
        return False  # the document's set lookup needs a hashable reason
    exact = 0
    for step in steps if isinstance(steps, list) else []:
        if not isinstance(step, dict):
            continue
        if not isinstance(step.get("evidence", []), list):
            return False
        tokens = step.get("tokens", 0)
        if isinstance(tokens, float):
            # Sums of quarters are exact; a rounded sum may lose the excess, or make one up.
            if math.isnan(tokens) or (tokens * 4) % 1 or tokens > 1e9:
                return False
        elif isinstance(tokens, int):
            exact = max(exact, abs(tokens))
    return exact < 2**40
