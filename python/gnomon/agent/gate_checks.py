"""What the gate sees in every trace beyond the messages of profile v1: consistency.

Each check reads the `Facts` of `gate_core.judge`, adds findings, and takes linear time.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

from .gate_core import Facts, Tokens, is_amount, shown

POLICY_KEYS = frozenset(
    {
        *("max_steps", "max_tokens", "allowed_tools", "allowed_source_scopes"),
        *("limits", "max_risk", "tools_declared", "scopes_declared"),
    }
)
_PROFILES = frozenset({"v1", "v2"})
_DENIED = frozenset({"denied", "refused", "authorization_denied"})
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


def steps_of(facts: Facts) -> Iterator[tuple[int, dict[str, Any]]]:
    return ((index, step) for index, step in enumerate(facts.steps) if isinstance(step, dict))


def items_of(facts: Facts) -> Iterator[tuple[tuple[int, int], dict[str, Any]]]:
    """Every evidence object with the numbers of its step and of itself."""
    for index, step in steps_of(facts):
        evidence = step.get("evidence")
        if isinstance(evidence, (list, tuple)):
            for number, item in enumerate(evidence):
                if isinstance(item, dict):
                    yield (index, number), item


def path_of(place: tuple[int, int]) -> str:
    return f"/steps/{place[0]}/evidence/{place[1]}"


def is_one_of(value: Any, words: frozenset[str]) -> bool:
    return isinstance(value, str) and value in words


def policy_keys(facts: Facts) -> None:
    """A limit with a typing error limits nothing."""
    for key in sorted(map(str, facts.policy.keys() - POLICY_KEYS)):
        facts.add("G104", "/policy", f"policy has the unknown key {shown(key)}")
    profile = facts.trace.get("profile", "v1")
    if not is_one_of(profile, _PROFILES):
        facts.add("G106", "/profile", f"profile {shown(profile)} is unknown")


def evidence_identity(facts: Facts) -> None:
    """One id stands for one thing, and is written in one way."""
    first: dict[str, dict[str, Any]] = {}
    for place, item in items_of(facts):
        evidence_id = item.get("id")
        if not isinstance(evidence_id, str) or not evidence_id:
            continue
        before = first.setdefault(evidence_id, item)
        if before is not item and _content(before) != _content(item):
            text = f"evidence {shown(evidence_id)} was seen before with other content or scope"
            facts.add("G304", path_of(place), text)
        if evidence_id != evidence_id.strip() or not (
            evidence_id.isascii() or unicodedata.is_normalized("NFC", evidence_id)
        ):
            text = f"evidence id {shown(evidence_id)} has blanks around it or is not in NFC"
            facts.add("G305", f"{path_of(place)}/id", text)


def _content(item: dict[str, Any]) -> list[Any]:
    """What makes two items differ; values of other types are not looked into."""
    values = [item.get(key) for key in _CONTENT_KEYS]
    return [value if isinstance(value, (str, int)) else None for value in values]


def tokens_stated(facts: Facts) -> None:
    """A step without a count cannot be shown to be within the budget."""
    silent = [index for index, step in steps_of(facts) if "tokens" not in step]
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
    return any(is_one_of(step.get("status"), _DENIED) for _, step in steps_of(facts))


V1_CHECKS: tuple[Callable[[Facts], None], ...] = (
    policy_keys,
    evidence_identity,
    tokens_stated,
    citations_authorized,
    reason_consistent,
)
