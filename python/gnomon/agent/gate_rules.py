"""The rules of the trace gate: stable ids, what they ask, and how bad a breach is in each profile.

Profile v1 is the plain trace format with a fixed list of errors, and all that the gate sees beyond
them is a warning. Profile v2 asks for more keys and makes the
consistency rules errors. A policy file changes the severity of any rule by its id or name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

#: From bad to harmless. "unverifiable": the trace cannot show that the rule holds. "off" is no
#: finding at all. Only errors fail a trace, unless the gate is strict.
SEVERITIES = ("error", "unverifiable", "warning", "off")
PROFILES = ("v1", "v2")

GROUPS: Mapping[str, str] = {
    "1": "shape",
    "2": "tools",
    "3": "evidence",
    "4": "budgets",
    "5": "citations",
    "6": "stop reason",
    "7": "operations",
    "8": "secrets",
}


@dataclass(frozen=True)
class Rule:
    """One rule: its id never changes its meaning; ``v1`` and ``v2`` are its default severities."""

    id: str
    name: str
    v1: str
    v2: str
    asks: str
    remedy: str

    @property
    def group(self) -> str:
        """Heading under which the rule is documented."""
        return GROUPS[self.id[1]]

    def severity(self, profile: str) -> str:
        """Default severity in this profile."""
        return self.v1 if profile == "v1" else self.v2


# id, name, severity in v1 and in v2; what the rule asks; what to do.
_TEXT = """
G101 trace-shape error error
    A trace is an object with policy (object), steps (list of objects) and result (object).
    Remedy: Write the missing part; see the v1 format.
G102 limits-shape error error
    policy.max_steps and policy.max_tokens are positive integers; true is no integer.
    Remedy: Give both limits as integers of at least 1.
G103 policy-lists error error
    policy.allowed_tools and policy.allowed_source_scopes are lists of non-empty strings.
    Remedy: List names; an empty list allows nothing.
G104 policy-keys warning error
    policy has no keys but the known ones, so that a limit with a typing error is seen.
    Remedy: Correct the key, or move what is no limit out of policy.
G105 strict-json error error
    The text is I-JSON: no key twice in one object, no NaN, no infinity.
    Remedy: Write the trace with a JSON library that refuses them.
G106 profile warning error
    profile, where the trace names one, is "v1" or "v2".
    Remedy: Correct or remove the key.
G201 tool-allowed error error
    Every step uses a tool of policy.allowed_tools.
    Remedy: Allow the tool, or find out why the runtime let it run.
G202 tools-declared off unverifiable
    The allowed tools were declared before the run, not collected from it.
    Remedy: Give run_agent a runtime with a table of tools.
G301 evidence-shape error error
    evidence is a list of objects.
    Remedy: Write one object with id and scope per item.
G302 evidence-id error error
    Every evidence item has a non-empty string as its id.
    Remedy: Give the item an id that citations can name.
G303 evidence-scope error error
    The scope of every evidence item is in policy.allowed_source_scopes.
    Remedy: Filter by the caller's authorization before retrieval, not after.
G304 evidence-conflict warning error
    One evidence id stands for one scope, source, revision and content.
    Remedy: Put the revision into the id.
G305 evidence-id-form warning error
    An evidence id has no blanks around it and is in Unicode NFC, so that equal-looking ids are
    equal.
    Remedy: Normalise ids where they are made.
G306 evidence-source off error
    Evidence names source_id, revision, acl_scope and retrieved_at.
    Remedy: Return the fields of the tool contract's evidence items.
G307 scopes-declared off unverifiable
    The allowed scopes were declared before the run, not collected from it.
    Remedy: Give run_agent the caller's scopes.
G401 step-budget error error
    There are at most policy.max_steps steps.
    Remedy: Stop before the step, not after it.
G402 tokens-shape error error
    The tokens of a step are a number of at least 0; NaN is none.
    Remedy: Write the count that the model reported.
G403 token-budget error error
    The tokens of all steps are at most policy.max_tokens, summed without rounding.
    Remedy: Reserve an estimate before each call.
G404 tokens-missing unverifiable error
    Every step says how many tokens it used.
    Remedy: Write 0 for a step that used none.
G405 limits-form off error
    policy.limits, costs, risks and times are numbers of at least 0.
    Remedy: Correct the value.
G406 cost-budget off error
    The cost of the run is at most policy.limits.cost_micros.
    Remedy: Reserve an estimate before each call.
G407 time-budget off error
    The run took at most policy.limits.seconds.
    Remedy: Give tools a deadline.
G408 write-budget off error
    At most policy.limits.writes operations of tools that write were started.
    Remedy: Reserve a write before each dispatch.
G409 risk-budget off error
    The risks of the operations that were started sum to at most policy.limits.risk.
    Remedy: Reserve the risk before each dispatch.
G501 citations-shape error error
    result.citation_ids is a list of non-empty strings.
    Remedy: List evidence ids.
G502 citation-known error error
    Every citation is the id of evidence that this run retrieved.
    Remedy: Refuse the answer before it is given.
G503 answer-cites error error
    A result that is "answered" cites evidence.
    Remedy: Cite, or stop with "insufficient_evidence".
G504 citation-authorized warning error
    No citation rests on evidence of an unauthorized scope or tool alone.
    Remedy: Drop the evidence before the model sees it.
G505 citation-validated off warning
    No citation rests on evidence that is marked as not validated.
    Remedy: Validate the source, or say that it is not.
G601 stop-reason error error
    result.stop_reason is one of the eight terminal reasons.
    Remedy: Name the reason for which the run stopped.
G602 answer-within-budget warning error
    An answered run has exceeded no budget.
    Remedy: Stop with "budget_exhausted".
G603 exhausted-shown warning error
    budget_exhausted: the trace shows a budget that was reached.
    Remedy: Name the dimension in result.exhausted.
G604 denied-shown warning error
    authorization_denied: the trace shows what was denied.
    Remedy: Record the refused call in result.denied.
G605 reason-without-citations warning error
    A run that stopped for clarification, for lack of evidence or by refusal cites nothing.
    Remedy: Leave citation_ids empty, or name the true reason.
G606 conflict-shown off error
    conflicting_evidence: the trace has at least two evidence items.
    Remedy: Record both sides.
G607 failure-shown off error
    dependency_failed: the trace shows the step that failed or whose outcome is unknown.
    Remedy: Record the step with its status.
G701 operation-id off error
    A step of a tool that writes has an operation_id.
    Remedy: Dispatch through the runtime.
G702 executed-once off error
    No operation_id was executed twice; a repeated answer is marked as replayed.
    Remedy: Never start a tool again under an id whose outcome is unknown.
G703 untrusted-write off warning
    No write follows evidence that is marked as not validated, unless it was approved.
    Remedy: Ask for approval after untrusted text was read.
G704 risk-approved off error
    A step above policy.max_risk has an approval_id.
    Remedy: Let the runtime refuse it, or ask for approval.
G705 settled off error
    A run that is answered has no operation whose outcome is unknown.
    Remedy: Reconcile first.
G801 canary error error
    No canary secret of the policy file stands anywhere in the trace.
    Remedy: Redact before the trace is written.
"""


def _parsed(text: str) -> Iterator[Rule]:
    for block in re.split(r"\n(?=G\d)", text.strip()):
        head, _, body = block.partition("\n")
        asks, _, remedy = " ".join(body.split()).partition(" Remedy: ")
        rule_id, name, v1, v2 = head.split()
        yield Rule(rule_id, name, v1, v2, asks, remedy)


_RULES = tuple(_parsed(_TEXT))
RULES: Mapping[str, Rule] = {rule.id: rule for rule in _RULES}
BY_NAME: Mapping[str, Rule] = {rule.name: rule for rule in _RULES}


def find_rule(key: str) -> Rule | None:
    """The rule with this id or name."""
    return RULES.get(key) or BY_NAME.get(key)


def rules_text() -> str:
    """The documentation of all rules, as plain text."""
    lines = ["Rules of the trace gate: id, name, severity in profile v1 and in v2.", ""]
    group = ""
    for rule in _RULES:
        if rule.group != group:
            group = rule.group
            lines += [group.upper()]
        lines += [f"{rule.id} {rule.name}  (v1: {rule.v1}, v2: {rule.v2})"]
        lines += [f"    {rule.asks}", f"    Remedy: {rule.remedy}"]
    return "\n".join(lines) + "\n"
