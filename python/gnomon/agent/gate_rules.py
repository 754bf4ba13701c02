"""The rules of the trace gate: stable ids, what they ask, and how bad a breach is in each profile.

Profile v1 is the documents' trace format: its errors are exactly those of the documents' program,
and all that the gate sees beyond them is a warning. Profile v2 asks for more keys and makes the
consistency rules errors. A policy file changes the severity of any rule by its id or name.
"""

from __future__ import annotations

from collections.abc import Mapping
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


_ERROR = ("error", "error")
_LATER = ("warning", "error")
_ONLY_V2 = ("off", "error")

_RULES = (
    Rule("G101", "trace-shape", *_ERROR, "A trace is an object with policy (object), steps (list of objects) and result (object).", "Write the missing part; see the v1 format."),
    Rule("G102", "limits-shape", *_ERROR, "policy.max_steps and policy.max_tokens are positive integers; true is no integer.", "Give both limits as integers of at least 1."),
    Rule("G103", "policy-lists", *_ERROR, "policy.allowed_tools and policy.allowed_source_scopes are lists of non-empty strings.", "List names; an empty list allows nothing."),
    Rule("G104", "policy-keys", *_LATER, "policy has no keys but the known ones, so that a limit with a typing error is seen.", "Correct the key, or move what is no limit out of policy."),
    Rule("G105", "strict-json", *_ERROR, "The text is I-JSON: no key twice in one object, no NaN, no infinity.", "Write the trace with a JSON library that refuses them."),
    Rule("G106", "profile", *_LATER, 'profile, where the trace names one, is "v1" or "v2".', "Correct or remove the key."),
    Rule("G201", "tool-allowed", *_ERROR, "Every step uses a tool of policy.allowed_tools.", "Allow the tool, or find out why the runtime let it run."),
    Rule("G202", "tools-declared", "off", "unverifiable", "The allowed tools were declared before the run, not collected from it.", "Give run_agent a runtime with a table of tools."),
    Rule("G301", "evidence-shape", *_ERROR, "evidence is a list of objects.", "Write one object with id and scope per item."),
    Rule("G302", "evidence-id", *_ERROR, "Every evidence item has a non-empty string as its id.", "Give the item an id that citations can name."),
    Rule("G303", "evidence-scope", *_ERROR, "The scope of every evidence item is in policy.allowed_source_scopes.", "Filter by the caller's authorization before retrieval, not after."),
    Rule("G304", "evidence-conflict", *_LATER, "One evidence id stands for one scope, source, revision and content.", "Put the revision into the id."),
    Rule("G305", "evidence-id-form", *_LATER, "An evidence id has no blanks around it and is in Unicode NFC, so that equal-looking ids are equal.", "Normalise ids where they are made."),
    Rule("G306", "evidence-source", *_ONLY_V2, "Evidence names source_id, revision, acl_scope and retrieved_at.", "Return the fields of the tool contract's evidence items."),
    Rule("G307", "scopes-declared", "off", "unverifiable", "The allowed scopes were declared before the run, not collected from it.", "Give run_agent the caller's scopes."),
    Rule("G401", "step-budget", *_ERROR, "There are at most policy.max_steps steps.", "Stop before the step, not after it."),
    Rule("G402", "tokens-shape", *_ERROR, "The tokens of a step are a number of at least 0; NaN is none.", "Write the count that the model reported."),
    Rule("G403", "token-budget", *_ERROR, "The tokens of all steps are at most policy.max_tokens, summed without rounding.", "Reserve an estimate before each call."),
    Rule("G404", "tokens-missing", "unverifiable", "error", "Every step says how many tokens it used.", "Write 0 for a step that used none."),
    Rule("G405", "limits-form", *_ONLY_V2, "policy.limits, costs, risks and times are numbers of at least 0.", "Correct the value."),
    Rule("G406", "cost-budget", *_ONLY_V2, "The cost of the run is at most policy.limits.cost_micros.", "Reserve an estimate before each call."),
    Rule("G407", "time-budget", *_ONLY_V2, "The run took at most policy.limits.seconds.", "Give tools a deadline."),
    Rule("G408", "write-budget", *_ONLY_V2, "At most policy.limits.writes operations of tools that write were started.", "Reserve a write before each dispatch."),
    Rule("G409", "risk-budget", *_ONLY_V2, "The risks of the operations that were started sum to at most policy.limits.risk.", "Reserve the risk before each dispatch."),
    Rule("G501", "citations-shape", *_ERROR, "result.citation_ids is a list of non-empty strings.", "List evidence ids."),
    Rule("G502", "citation-known", *_ERROR, "Every citation is the id of evidence that this run retrieved.", "Refuse the answer before it is given."),
    Rule("G503", "answer-cites", *_ERROR, 'A result that is "answered" cites evidence.', 'Cite, or stop with "insufficient_evidence".'),
    Rule("G504", "citation-authorized", *_LATER, "No citation rests on evidence of an unauthorized scope or tool alone.", "Drop the evidence before the model sees it."),
    Rule("G505", "citation-validated", "off", "warning", "No citation rests on evidence that is marked as not validated.", "Validate the source, or say that it is not."),
    Rule("G601", "stop-reason", *_ERROR, "result.stop_reason is one of the eight terminal reasons.", "Name the reason for which the run stopped."),
    Rule("G602", "answer-within-budget", *_LATER, "An answered run has exceeded no budget.", 'Stop with "budget_exhausted".'),
    Rule("G603", "exhausted-shown", *_LATER, "budget_exhausted: the trace shows a budget that was reached.", "Name the dimension in result.exhausted."),
    Rule("G604", "denied-shown", *_LATER, "authorization_denied: the trace shows what was denied.", "Record the refused call in result.denied."),
    Rule("G605", "reason-without-citations", *_LATER, "A run that stopped for clarification, for lack of evidence or by refusal cites nothing.", "Leave citation_ids empty, or name the true reason."),
    Rule("G606", "conflict-shown", *_ONLY_V2, "conflicting_evidence: the trace has at least two evidence items.", "Record both sides."),
    Rule("G607", "failure-shown", *_ONLY_V2, "dependency_failed: the trace shows the step that failed or whose outcome is unknown.", "Record the step with its status."),
    Rule("G701", "operation-id", *_ONLY_V2, "A step of a tool that writes has an operation_id.", "Dispatch through the runtime."),
    Rule("G702", "executed-once", *_ONLY_V2, "No operation_id was executed twice; a repeated answer is marked as replayed.", "Never start a tool again under an id whose outcome is unknown."),
    Rule("G703", "untrusted-write", "off", "warning", "No write follows evidence that is marked as not validated, unless it was approved.", "Ask for approval after untrusted text was read."),
    Rule("G704", "risk-approved", *_ONLY_V2, "A step above policy.max_risk has an approval_id.", "Let the runtime refuse it, or ask for approval."),
    Rule("G705", "settled", *_ONLY_V2, "A run that is answered has no operation whose outcome is unknown.", "Reconcile first."),
    Rule("G801", "canary", "error", "error", "No canary secret of the policy file stands anywhere in the trace.", "Redact before the trace is written."),
)  # fmt: skip

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
