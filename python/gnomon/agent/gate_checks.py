"""What the gate sees beyond profile v1: consistency, and the further keys of profile v2.

Each check reads the `Facts` of `gate_core.judge`, adds findings, and takes linear time.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .gate_core import Facts, Tokens, is_amount, shown

POLICY_KEYS = frozenset(
    {
        *("max_steps", "max_tokens", "allowed_tools", "allowed_source_scopes"),
        *("limits", "max_risk", "tools_declared", "scopes_declared"),
    }
)
_DENIED = frozenset({"denied", "refused", "authorization_denied"})
_UNKNOWN = frozenset({"unknown", "needs_reconcile", "in_flight"})
_BROKEN = frozenset({"failed", "not_executed", *_UNKNOWN})
_NO_CITATIONS = frozenset(
    {"clarification_required", "insufficient_evidence", "authorization_denied", "policy_blocked"}
)
_CONTENT_KEYS = (
    "scope",
    "acl_scope",
    "source_id",
    "revision",
    "digest",
    "excerpt",
    "text",
    "content",
)
_SOURCE_KEYS = ("source_id", "revision", "acl_scope", "retrieved_at")


def _steps(facts: Facts) -> Iterator[tuple[int, dict[str, Any]]]:
    return ((index, step) for index, step in enumerate(facts.steps) if isinstance(step, dict))


def _items(facts: Facts) -> Iterator[tuple[tuple[int, int], dict[str, Any]]]:
    """Every evidence object with the numbers of its step and of itself."""
    for index, step in _steps(facts):
        evidence = step.get("evidence")
        if isinstance(evidence, (list, tuple)):
            for number, item in enumerate(evidence):
                if isinstance(item, dict):
                    yield (index, number), item


def _path(place: tuple[int, int]) -> str:
    return f"/steps/{place[0]}/evidence/{place[1]}"


def _is(value: Any, words: frozenset[str]) -> bool:
    return isinstance(value, str) and value in words


def policy_keys(facts: Facts) -> None:
    """A limit with a typing error limits nothing."""
    for key in sorted(map(str, facts.policy.keys() - POLICY_KEYS)):
        facts.add("G104", "/policy", f"policy has the unknown key {shown(key)}")
    profile = facts.trace.get("profile", "v1")
    if profile not in ("v1", "v2"):
        facts.add("G106", "/profile", f"profile {shown(profile)} is unknown")


def evidence_identity(facts: Facts) -> None:
    """One id stands for one thing, and is written in one way."""
    first: dict[str, dict[str, Any]] = {}
    for place, item in _items(facts):
        evidence_id = item.get("id")
        if not isinstance(evidence_id, str) or not evidence_id:
            continue
        before = first.setdefault(evidence_id, item)
        if before is not item and _content(before) != _content(item):
            text = f"evidence {shown(evidence_id)} was seen before with other content or scope"
            facts.add("G304", _path(place), text)
        if evidence_id != evidence_id.strip() or not (
            evidence_id.isascii() or unicodedata.is_normalized("NFC", evidence_id)
        ):
            text = f"evidence id {shown(evidence_id)} has blanks around it or is not in NFC"
            facts.add("G305", f"{_path(place)}/id", text)


def _content(item: dict[str, Any]) -> list[Any]:
    """What makes two items differ; values of other types are not looked into."""
    values = [item.get(key) for key in _CONTENT_KEYS]
    return [value if isinstance(value, (str, int)) else None for value in values]


def tokens_stated(facts: Facts) -> None:
    """A step without a count cannot be shown to be within the budget."""
    silent = [index for index, step in _steps(facts) if "tokens" not in step]
    if silent:
        text = f"tokens are missing in {len(silent)} steps, the first is steps[{silent[0]}]"
        facts.add("G404", f"/steps/{silent[0]}", text)


def citations_authorized(facts: Facts) -> None:
    """A citation must not rest on evidence that the caller may not see."""
    bad = sorted((set(facts.citations) & facts.evidence_ids) - facts.clean_ids)
    if bad:
        text = f"result cites evidence of an unauthorized scope or tool: {bad}"
        facts.add("G504", "/result/citation_ids", text)


def reason_consistent(facts: Facts) -> None:
    """The stop reason and the rest of the trace tell the same story."""
    path, reason = "/result/stop_reason", facts.reason
    if reason == "answered" and facts.has("G401", "G403", "G406", "G407", "G408", "G409"):
        facts.add("G602", path, "answered although a budget was exceeded")
    if reason == "budget_exhausted" and not _budget_reached(facts):
        facts.add("G603", path, "budget_exhausted but the trace shows no budget that was reached")
    if reason == "authorization_denied" and not _denial_shown(facts):
        facts.add("G604", path, "authorization_denied but nothing was denied")
    if reason in _NO_CITATIONS and facts.citations:
        facts.add("G605", "/result/citation_ids", f"{reason} does not go with citations")


def _budget_reached(facts: Facts) -> bool:
    max_steps, max_tokens = facts.policy.get("max_steps"), facts.policy.get("max_tokens")
    if isinstance(max_steps, int) and len(facts.steps) >= max_steps:
        return True
    if isinstance(max_tokens, int) and facts.tokens.reaches(max_tokens):
        return True
    if facts.has("G406", "G407", "G408", "G409"):
        return True
    exhausted = facts.result.get("exhausted")
    if not isinstance(exhausted, dict):
        return False
    numbers: list[Any] = [exhausted.get(key) for key in ("limit", "used", "requested")]
    limit, used, wanted = numbers
    if not (is_amount(limit) and is_amount(used) and is_amount(wanted)):
        return False
    return bool(used >= limit or Tokens.of(used, wanted).exceeds_number(limit))


def _denial_shown(facts: Facts) -> bool:
    if facts.has("G201", "G303"):
        return True
    denied = facts.result.get("denied")
    if isinstance(denied, list) and denied:
        return True
    return any(_is(step.get("status"), _DENIED) for _, step in _steps(facts))


# --- profile v2 -----------------------------------------------------------------------------------


def declared(facts: Facts) -> None:
    """Lists that were collected from the run itself allow everything that happened."""
    for code, key in (("G202", "tools"), ("G307", "scopes")):
        if facts.policy.get(f"{key}_declared") is False:
            facts.add(code, "/policy", f"the allowed {key} were not declared before the run")


def evidence_sources(facts: Facts) -> None:
    """The output contract of evidence: where evidence came from, in which version."""
    for place, item in _items(facts):
        missing = [key for key in _SOURCE_KEYS if item.get(key) in (None, "")]
        if missing:
            facts.add("G306", _path(place), f"evidence lacks {', '.join(missing)}")


def citations_validated(facts: Facts) -> None:
    """Citations that rest on sources nobody checked."""
    cited = set(facts.citations)
    doubtful = {
        item["id"]
        for _, item in _items(facts)
        if item.get("validated") is False and _is(item.get("id"), frozenset(cited))
    }
    if doubtful:
        text = f"result cites evidence that is not validated: {sorted(doubtful)}"
        facts.add("G505", "/result/citation_ids", text)


def operations(facts: Facts) -> None:
    """Each write under an id, started once, settled at the end, within the delegated risk."""
    started: set[str] = set()
    unsettled: dict[str, int] = {}
    max_risk, untrusted = facts.policy.get("max_risk"), False
    for index, step in _steps(facts):
        path = f"/steps/{index}"
        operation_id: Any = step.get("operation_id")
        named = isinstance(operation_id, str) and operation_id != ""
        writes = step.get("effect", "write") != "read"
        approved = isinstance(step.get("approval_id"), str) and step["approval_id"] != ""
        if writes and not named:
            facts.add("G701", path, f"steps[{index}] writes without an operation_id")
        if named and step.get("replayed") is not True:
            if operation_id in started:
                text = f"steps[{index}] executes operation {shown(operation_id)} again"
                facts.add("G702", path, text)
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
            if _is(step.get("status"), _UNKNOWN):
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
    fresh = [(index, step) for index, step in _steps(facts) if step.get("replayed") is not True]
    writes = Tokens.of(*(1 for _, step in fresh if step.get("effect", "write") != "read"))
    cost = _sum(facts, "cost_micros", _steps(facts))
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
            _is(step.get("status"), _BROKEN) for _, step in _steps(facts)
        ):
            facts.add("G607", path, "dependency_failed but no step failed")


V1_CHECKS: tuple[Callable[[Facts], None], ...] = (
    policy_keys,
    evidence_identity,
    tokens_stated,
    citations_authorized,
    reason_consistent,
)
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
