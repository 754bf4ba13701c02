"""What the gate sees in a trace of profile v2: sources, operations, and the further budgets.

As in ``gate_checks``: each check reads the `Facts`, adds findings, and takes linear time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .gate_checks import (
    citations_authorized,
    evidence_identity,
    is_one_of,
    items_of,
    path_of,
    policy_keys,
    reason_consistent,
    steps_of,
    tokens_stated,
)
from .gate_core import Facts, Tokens, is_amount, shown

_READ = frozenset({"read"})
_UNKNOWN = frozenset({"unknown", "needs_reconcile", "in_flight"})
_BROKEN = frozenset({"failed", "not_executed", *_UNKNOWN})
_NOT_EXECUTED = frozenset({"not_executed"})
_SOURCE_KEYS = ("source_id", "revision", "acl_scope", "retrieved_at")


def _blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value)


def declared(facts: Facts) -> None:
    """Lists that were collected from the run itself allow everything that happened."""
    for code, key in (("G202", "tools"), ("G307", "scopes")):
        if facts.policy.get(f"{key}_declared") is False:
            facts.add(code, "/policy", f"the allowed {key} were not declared before the run")


def evidence_sources(facts: Facts) -> None:
    """The output contract of evidence: where evidence came from, in which version."""
    for place, item in items_of(facts):
        missing = [key for key in _SOURCE_KEYS if _blank(item.get(key))]
        if missing:
            facts.add("G306", path_of(place), f"evidence lacks {', '.join(missing)}")


def citations_validated(facts: Facts) -> None:
    """Citations that rest on sources nobody checked."""
    cited = frozenset(facts.citations)
    doubtful = {
        item["id"]
        for _, item in items_of(facts)
        if item.get("validated") is False and is_one_of(item.get("id"), cited)
    }
    if doubtful:
        text = f"result cites evidence that is not validated: {sorted(doubtful)}"
        facts.add("G505", "/result/citation_ids", text)


def operations(facts: Facts) -> None:
    """Each write under an id, started once, settled at the end, within the delegated risk."""
    started: set[str] = set()
    unsettled: dict[str, int] = {}
    max_risk, untrusted = facts.policy.get("max_risk"), False
    for index, step in steps_of(facts):
        path = f"/steps/{index}"
        operation_id: Any = step.get("operation_id")
        named = isinstance(operation_id, str) and operation_id != ""
        writes = not is_one_of(step.get("effect"), _READ)
        approved = isinstance(step.get("approval_id"), str) and step["approval_id"] != ""
        if writes and not named:
            facts.add("G701", path, f"steps[{index}] writes without an operation_id")
        if named and step.get("replayed") is not True:
            if operation_id in started:
                text = f"steps[{index}] executes operation {shown(operation_id)} again"
                facts.add("G702", path, text)
            if not is_one_of(step.get("status"), _NOT_EXECUTED):
                started.add(operation_id)
        if writes and untrusted and not approved and step.get("replayed") is not True:
            text = f"steps[{index}] writes after evidence that is not validated, without approval"
            facts.add("G703", path, text)
        risk = step.get("risk", 0)
        if is_amount(max_risk) and is_amount(risk) and risk > max_risk and not approved:
            facts.add(
                "G704", f"{path}/risk", f"steps[{index}] is above policy.max_risk without approval"
            )
        if named:
            unsettled.pop(operation_id, None)
            if is_one_of(step.get("status"), _UNKNOWN):
                unsettled[operation_id] = index
        untrusted = untrusted or _any_untrusted(step)
    if facts.reason == "answered":
        for operation_id, index in unsettled.items():
            text = f"answered while operation {shown(operation_id)} is unsettled"
            facts.add("G705", f"/steps/{index}/status", text)


def _any_untrusted(step: dict[str, Any]) -> bool:
    evidence = step.get("evidence")
    if not isinstance(evidence, (list, tuple)):
        return False
    return any(isinstance(item, dict) and item.get("validated") is False for item in evidence)


def further_budgets(facts: Facts) -> None:
    """Cost, time, writes and risk against policy.limits; tokens that belong to no step."""
    limits = facts.policy.get("limits", {})
    if not isinstance(limits, dict):
        facts.add("G405", "/policy/limits", "policy.limits must be an object")
        limits = {}
    fresh = [(index, step) for index, step in steps_of(facts) if step.get("replayed") is not True]
    writes = Tokens.of(*(1 for _, step in fresh if not is_one_of(step.get("effect"), _READ)))
    cost = _sum(facts, "cost_micros", steps_of(facts))
    risk = _sum(facts, "risk", fresh)
    _count(facts, facts.result, "/result", "cost_micros", cost)
    seconds = Tokens()
    _count(facts, facts.result, "/result", "seconds", seconds)
    for code, key, total, word in (
        ("G406", "cost_micros", cost, "cost"),
        ("G407", "seconds", seconds, "time"),
        ("G408", "writes", writes, "write"),
        ("G409", "risk", risk, "risk"),
    ):
        limit = limits.get(key)
        if limit is None:
            continue
        if not is_amount(limit):
            facts.add("G405", f"/policy/limits/{key}", f"policy.limits.{key} must be non-negative")
        elif total.exceeds_number(limit):
            facts.add(code, "/policy/limits", f"{word} budget exceeded")
    max_tokens = facts.policy.get("max_tokens")
    _count(facts, facts.result, "/result", "tokens", facts.tokens)
    if isinstance(max_tokens, int) and not facts.has("G403") and facts.tokens.exceeds(max_tokens):
        facts.add("G403", "/result/tokens", "token budget exceeded")


def _sum(facts: Facts, key: str, steps: Iterable[tuple[int, dict[str, Any]]]) -> Tokens:
    total = Tokens()
    for index, step in steps:
        _count(facts, step, f"/steps/{index}", key, total)
    return total


def _count(facts: Facts, holder: dict[str, Any], path: str, key: str, total: Tokens) -> None:
    value = holder.get(key, 0)
    if is_amount(value):
        total.add(value)
    else:
        facts.add(
            "G405", f"{path}/{key}", f"{path[1:].replace('/', '.')}.{key} must be non-negative"
        )


def reason_shown(facts: Facts) -> None:
    """Reasons whose grounds a v2 trace records."""
    path = "/result/stop_reason"
    if facts.reason == "conflicting_evidence" and len(facts.evidence_ids) < 2:
        facts.add("G606", path, "conflicting_evidence needs at least two evidence items")
    if facts.reason == "dependency_failed":
        rejected = facts.result.get("rejected")
        error = facts.result.get("error")
        shown_there = (isinstance(rejected, list) and rejected) or (
            isinstance(error, str) and error
        )
        if not shown_there and not any(
            is_one_of(step.get("status"), _BROKEN) for _, step in steps_of(facts)
        ):
            facts.add("G607", path, "dependency_failed but no step failed")


V2_CHECKS: tuple[Callable[[Facts], None], ...] = (
    policy_keys,
    declared,
    evidence_identity,
    evidence_sources,
    tokens_stated,
    further_budgets,
    citations_authorized,
    citations_validated,
    operations,
    reason_consistent,
    reason_shown,
)
