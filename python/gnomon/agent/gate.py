"""The trace gate: did a recorded run keep to its policy? A pure function of the trace.

`validate` gives the messages of profile v1, `validate_trace` every finding with its rule, place and
severity. Both give a verdict on any value whatever and take linear time. `rules_text` documents the
rules; the `gnomon gate` command is the same for files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .gate_checks import V1_CHECKS
from .gate_checks_v2 import V2_CHECKS
from .gate_core import Facts, TraceFinding, judge
from .gate_rules import BY_NAME, PROFILES, RULES, SEVERITIES, find_rule, rules_text
from .terminal import TERMINAL_REASONS

__all__ = [
    "TERMINAL_REASONS",
    "GatePolicy",
    "TraceFinding",
    "rules_text",
    "trace_passes",
    "validate",
    "validate_trace",
]


@dataclass(frozen=True)
class GatePolicy:
    """What a policy file says: how strictly to judge, whatever the trace says about itself.

    Parameters
    ----------
    profile : str
        "v1", "v2", or "auto": v2 for a trace with ``"profile": "v2"``, else v1.
    policy : mapping
        Keys that take the place of the same keys of the trace's own policy.
    rules : mapping
        Rule id or name to "error", "unverifiable", "warning" or "off".
    strict : bool
        Whether warnings and what is unverifiable fail a trace as well.
    canaries : tuple of str
        Secrets that must not stand in the trace, as keys or within any string.

    Raises ValueError, naming the key, for what is none of these.
    """

    profile: str = "auto"
    policy: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False
    canaries: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.profile not in ("auto", *PROFILES):
            raise ValueError(f"profile must be auto, v1 or v2, got {self.profile!r}")
        if not isinstance(self.policy, Mapping):
            raise ValueError("policy must be an object with the keys of a trace's policy")
        if not isinstance(self.strict, bool):
            raise ValueError("strict must be true or false")
        if not isinstance(self.rules, Mapping):
            raise ValueError("rules must be an object: rule id or name to severity")
        for key, severity in self.rules.items():
            if not isinstance(key, str) or find_rule(key) is None:
                raise ValueError(
                    f"rules names {key!r}, which is no rule; see `gnomon gate --rules`"
                )
            if not isinstance(severity, str) or severity not in SEVERITIES:
                raise ValueError(f"rules.{key} must be one of {', '.join(SEVERITIES)}")
        if not isinstance(self.canaries, (list, tuple)) or not all(
            isinstance(item, str) and item for item in self.canaries
        ):
            raise ValueError("canaries must be a list of non-empty strings")
        by_id = {(BY_NAME.get(key) or RULES[key]).id: level for key, level in self.rules.items()}
        object.__setattr__(self, "rules", by_id)
        object.__setattr__(self, "canaries", tuple(self.canaries))

    @classmethod
    def from_dict(cls, raw: Any) -> GatePolicy:
        """The policy of a parsed policy file; an unknown key is an error, not a limit lost."""
        if not isinstance(raw, dict):
            raise ValueError("a policy file is a JSON object")
        unknown = sorted(map(str, raw.keys() - cls.__dataclass_fields__.keys()))
        if unknown:
            known = ", ".join(cls.__dataclass_fields__)
            raise ValueError(f"unknown key {', '.join(unknown)}; a policy file has {known}")
        return cls(**raw)

    def profile_of(self, trace: Any) -> str:
        """The profile by which this trace is judged."""
        if self.profile != "auto":
            return self.profile
        named = trace.get("profile") if isinstance(trace, dict) else None
        return "v2" if isinstance(named, str) and named == "v2" else "v1"


DEFAULT_POLICY = GatePolicy()


def validate(trace: Any) -> list[str]:
    """The messages of profile v1 about a trace, in their order; empty for one that passes.

    >>> validate({"policy": {}, "steps": {}, "result": {}})
    ['steps must be a list']
    """
    return [finding.message for finding in judge(trace).findings]


def validate_trace(
    trace: Any, policy: GatePolicy = DEFAULT_POLICY, *, profile: str | None = None
) -> list[TraceFinding]:
    """Every finding about a trace, those of profile v1 first.

    In profile v1 the findings of severity "error" are exactly what `validate` says (and canaries,
    if the policy lists some); ``profile`` overrides the policy's.

    >>> trace = {"policy": {"max_steps": 1, "max_tokens": 9, "allowed_tools": ["find"],
    ...                     "allowed_source_scopes": []},
    ...          "steps": [{"tool": "find"}], "result": {"stop_reason": "insufficient_evidence"}}
    >>> [(finding.code, finding.severity) for finding in validate_trace(trace)]
    [('G404', 'unverifiable')]
    """
    if profile is not None:
        policy = replace(policy, profile=profile)
    chosen = policy.profile_of(trace)
    if policy.policy and isinstance(trace, dict) and isinstance(trace.get("policy"), dict):
        trace = {**trace, "policy": {**trace["policy"], **policy.policy}}
    facts = judge(trace)
    if facts.readable:
        for check in V1_CHECKS if chosen == "v1" else V2_CHECKS:
            check(facts)
    if policy.canaries:
        _canaries(facts, policy.canaries)
    found = [weighed(one, policy, chosen) for one in facts.findings]
    return [_without(one, policy.canaries) for one in found if one is not None]


def weighed(finding: TraceFinding, policy: GatePolicy, profile: str) -> TraceFinding | None:
    """The finding with the severity that policy and profile give its rule; None if that is off."""
    severity = policy.rules.get(finding.code) or RULES[finding.code].severity(profile)
    return None if severity == "off" else replace(finding, severity=severity)


def trace_passes(findings: list[TraceFinding], policy: GatePolicy = DEFAULT_POLICY) -> bool:
    """The verdict: no finding that is an error; no finding at all if the policy is strict."""
    if policy.strict:
        return not findings
    return all(finding.severity != "error" for finding in findings)


def _without(finding: TraceFinding, canaries: tuple[str, ...]) -> TraceFinding:
    """The finding with canaries cut out of its text: reports must not spread what leaked."""
    message = finding.message
    for canary in canaries:
        message = message.replace(canary, "[canary]")
    return finding if message == finding.message else replace(finding, message=message)


def _canaries(facts: Facts, canaries: tuple[str, ...]) -> None:
    """Look through all keys and strings, without recursion and without naming the secret."""
    todo: list[tuple[str, Any]] = [("", facts.trace)]
    seen: set[int] = set()
    while todo:
        path, value = todo.pop()
        if isinstance(value, str):
            for number, canary in enumerate(canaries):
                if canary in value:
                    facts.add("G801", path, f"canary {number} of the policy stands in the trace")
        elif isinstance(value, (dict, list, tuple)):
            if id(value) in seen:
                continue
            seen.add(id(value))
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in pairs:
                # A pointer grows no further than this: a value may be very deep.
                here = f"{path}/{_pointer_step(key, canaries)}" if len(path) < 500 else path
                if isinstance(key, str):
                    todo.append((here, key))
                todo.append((here, item))


def _pointer_step(key: Any, canaries: tuple[str, ...]) -> str:
    """A step of a JSON pointer that shows no canary."""
    text = str(key) if isinstance(key, (str, int)) else "?"
    if any(canary in text for canary in canaries):
        return "?"
    return text.replace("~", "~0").replace("/", "~1")
