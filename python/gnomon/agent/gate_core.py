"""The trace rules of profile v1, in their order and with their messages, in linear time.

What a naive reading crashes on or is misled by (evidence that is no list, unhashable values, NaN,
integers too large for a float, rounded sums) is a finding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from .terminal import TERMINAL_REASONS


@dataclass(frozen=True)
class TraceFinding:
    """One breach of a rule.

    ``code`` is the rule's id, ``path`` a JSON pointer into the trace, ``severity`` "error",
    "unverifiable" or "warning".
    """

    code: str
    path: str
    message: str
    severity: str = "error"


@dataclass
class Facts:
    """What the document's rules found out on their way; the further rules build on it."""

    trace: Any
    findings: list[TraceFinding] = field(default_factory=list)
    readable: bool = False  # policy, steps and result have their shapes
    policy: dict[str, Any] = field(default_factory=dict)
    steps: list[Any] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)
    reason: str = ""  # "" where it is none of the eight
    citations: list[str] = field(default_factory=list)
    evidence_ids: set[str] = field(default_factory=set)
    clean_ids: set[str] = field(default_factory=set)  # from an allowed tool and scope
    tokens: Tokens = field(default_factory=lambda: Tokens())

    def add(self, code: str, path: str, message: str) -> None:
        """Note a breach."""
        self.findings.append(TraceFinding(code, path, message))

    def has(self, *codes: str) -> bool:
        """Whether one of these rules was broken."""
        return any(finding.code in codes for finding in self.findings)


class Tokens:
    """A sum without rounding: integers apart, floats by `math.fsum`.

    >>> tokens = Tokens()
    >>> for value in [1e16] + [1.0] * 9: tokens.add(value)
    >>> tokens.exceeds(10**16)
    True
    """

    def __init__(self) -> None:
        self._whole = 0
        self._floats: list[float] = []

    @classmethod
    def of(cls, *values: int | float) -> Tokens:
        """The sum of these."""
        tokens = cls()
        for value in values:
            tokens.add(value)
        return tokens

    def add(self, value: int | float) -> None:
        """Count one more value, which is no NaN."""
        if isinstance(value, int):
            self._whole += value
        else:
            self._floats.append(value)

    def exceeds(self, limit: int) -> bool:
        """Whether the sum is greater than ``limit``. int and float compare exactly in Python."""
        return self._part() > limit - self._whole

    def exceeds_number(self, limit: int | float) -> bool:
        """`exceeds` for a limit that may be a float."""
        if isinstance(limit, int):
            return self.exceeds(limit)
        if math.isinf(limit):
            return False
        part = self._part()
        return math.isinf(part) or Fraction(self._whole) + Fraction(part) > Fraction(limit)

    def reaches(self, limit: int) -> bool:
        """Whether the sum is ``limit`` or greater."""
        return self._part() >= limit - self._whole

    def _part(self) -> float:
        try:
            return math.fsum(self._floats)
        except OverflowError:  # finite values whose sum is no float
            return math.inf


def is_amount(value: Any) -> bool:
    """A number of at least 0; neither bool nor NaN."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


def shown(value: Any) -> str:
    """`repr` that survives nesting and digits beyond Python's own limits, and any object."""
    try:
        return repr(value)
    except (RecursionError, ValueError):
        return f"<{type(value).__name__} too large to show>"
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


def is_names(value: Any) -> bool:
    """A list of non-empty strings."""
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


def judge(trace: Any) -> Facts:
    """Apply the rules of profile v1 to a trace, which may be any Python value."""
    facts = Facts(trace)
    if not isinstance(trace, dict):
        facts.add("G101", "", "trace root must be an object")
        return facts
    for key, kind, name in (
        ("policy", dict, "an object"),
        ("steps", list, "a list"),
        ("result", dict, "an object"),
    ):
        if not isinstance(trace.get(key), kind):
            facts.add("G101", f"/{key}", f"{key} must be {name}")
            return facts
    facts.readable = True
    facts.policy, facts.steps, facts.result = trace["policy"], trace["steps"], trace["result"]
    tools, scopes = _policy(facts)
    max_steps, max_tokens = facts.policy.get("max_steps"), facts.policy.get("max_tokens")
    if isinstance(max_steps, int) and len(facts.steps) > max_steps:
        facts.add("G401", "/steps", "step budget exceeded")
    for index, step in enumerate(facts.steps):
        _step(facts, index, step, tools, scopes)
    if isinstance(max_tokens, int) and facts.tokens.exceeds(max_tokens):
        facts.add("G403", "/steps", "token budget exceeded")
    _result(facts)
    return facts


def _policy(facts: Facts) -> tuple[frozenset[str], frozenset[str]]:
    for key in ("max_steps", "max_tokens"):
        value = facts.policy.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            facts.add("G102", f"/policy/{key}", f"policy.{key} must be a positive integer")
    found: list[frozenset[str]] = []
    for key in ("allowed_tools", "allowed_source_scopes"):
        value = facts.policy.get(key)
        if value is not None and is_names(value):
            found.append(frozenset(value))
        else:
            facts.add("G103", f"/policy/{key}", f"policy.{key} must contain strings")
            found.append(frozenset())
    return found[0], found[1]


def _step(
    facts: Facts, index: int, step: Any, tools: frozenset[str], scopes: frozenset[str]
) -> None:
    path = f"/steps/{index}"
    if not isinstance(step, dict):
        facts.add("G101", path, f"steps[{index}] must be an object")
        return
    tool = step.get("tool")
    allowed = isinstance(tool, str) and tool in tools
    if not allowed:
        facts.add("G201", f"{path}/tool", f"steps[{index}] uses unauthorized tool {shown(tool)}")
    tokens = step.get("tokens", 0)
    if is_amount(tokens):
        facts.tokens.add(tokens)
    else:
        facts.add("G402", f"{path}/tokens", f"steps[{index}].tokens must be non-negative")
    evidence = step.get("evidence", [])
    if isinstance(evidence, (list, tuple)):
        _evidence(facts, index, evidence, scopes, allowed)
    else:
        facts.add("G301", f"{path}/evidence", f"steps[{index}] has malformed evidence")


def _evidence(
    facts: Facts, index: int, evidence: Any, scopes: frozenset[str], allowed: bool
) -> None:
    ids, clean = facts.evidence_ids, facts.clean_ids
    item: Any
    for number, item in enumerate(evidence):
        if not isinstance(item, dict):
            _at(facts, "G301", index, number, "", f"steps[{index}] has malformed evidence")
            continue
        evidence_id: Any = item.get("id")
        scope: Any = item.get("scope")
        known = isinstance(evidence_id, str) and evidence_id != ""
        if known:
            ids.add(evidence_id)
        else:
            _at(facts, "G302", index, number, "/id", f"steps[{index}] evidence needs an id")
        if not isinstance(scope, str) or scope not in scopes:
            text = f"steps[{index}] evidence uses unauthorized scope {shown(scope)}"
            _at(facts, "G303", index, number, "/scope", text)
        elif known and allowed:
            clean.add(evidence_id)


def _at(facts: Facts, code: str, index: int, number: int, key: str, message: str) -> None:
    facts.add(code, f"/steps/{index}/evidence/{number}{key}", message)


def _result(facts: Facts) -> None:
    reason = facts.result.get("stop_reason")
    if isinstance(reason, str) and reason in TERMINAL_REASONS:
        facts.reason = reason
    else:
        facts.add("G601", "/result/stop_reason", "result.stop_reason is invalid")
    citations = facts.result.get("citation_ids", [])
    path = "/result/citation_ids"
    if is_names(citations):
        facts.citations = citations
    else:
        facts.add("G501", path, "result.citation_ids must contain strings")
    missing = sorted(set(facts.citations) - facts.evidence_ids)
    if missing:
        facts.add("G502", path, f"result cites unknown evidence: {missing}")
    if facts.reason == "answered" and not facts.citations:
        facts.add("G503", path, "answered result must cite evidence")
