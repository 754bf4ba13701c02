"""A run's trace, in the format of profile v1 with the further keys of v2, from its event log.

`trace_of` is a pure function: the same log gives the same trace. What never started (refused,
invalid, not executed) is no step; it stands in ``result.denied`` or ``result.rejected``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import events as ev
from .frozen import INTEGER_MAX, thaw
from .jsonvalue import canonicalize

#: Scope of what the runtime itself attests: that an operation was settled.
LEDGER_SCOPE = "ledger"
#: Scope of evidence that names none.
NO_SCOPE = "unscoped"
_DENIALS = frozenset({"refused", "approval_denied"})
_KEPT = ("source_id", "revision", "title", "retrieved_at", "acl_scope", "validated")
_CITING = frozenset({"answered", "conflicting_evidence"})


def scope_of(item: Any) -> str:
    """The scope that an evidence item names, or NO_SCOPE."""
    scope = item.get("acl_scope", item.get("scope")) if isinstance(item, Mapping) else None
    return scope if isinstance(scope, str) and scope else NO_SCOPE


def evidence_id(item: Any) -> str:
    """The id under which an item stands in the trace: its own, or source and revision."""
    if isinstance(item, Mapping):
        if isinstance(item.get("id"), str) and item["id"]:
            return str(item["id"])
        if isinstance(item.get("source_id"), str) and item["source_id"]:
            revision = item.get("revision")
            return f"{item['source_id']}@{revision}" if revision else str(item["source_id"])
    if isinstance(item, str) and item:
        return item
    return canonicalize(item).digest


def evidence_names(item: Any) -> frozenset[str]:
    """All names by which a citation may mean the item."""
    names = {evidence_id(item)}
    if isinstance(item, Mapping) and isinstance(item.get("source_id"), str):
        names.add(item["source_id"])
    return frozenset(names)


def _entry(item: Any, at: float | None) -> dict[str, Any]:
    name, plain = evidence_id(item), thaw(item)
    fields = plain if isinstance(plain, dict) else {}
    entry = {key: fields[key] for key in _KEPT if fields.get(key) not in (None, "")}
    entry |= {"id": name, "scope": scope_of(item), "digest": canonicalize(plain).digest}
    entry.setdefault("source_id", name)
    entry.setdefault("revision", entry["digest"])  # the text itself is the version that was seen
    entry.setdefault("acl_scope", entry["scope"])
    entry.setdefault("retrieved_at", at)
    return entry


class _Trace:
    """The trace as far as the events were read."""

    def __init__(self) -> None:
        self.started = ev.TaskStarted()
        self.steps: list[dict[str, Any]] = []
        self.by_operation: dict[str, dict[str, Any]] = {}
        self.requested: dict[str, ev.ToolRequested] = {}
        self.scopes: dict[str, None] = {}
        self.tokens = 0  # of the policy, for the step that follows
        self.cost = 0
        self.denied: list[dict[str, Any]] = []
        self.rejected: list[dict[str, Any]] = []
        self.pending: dict[str, str] = {}
        self.result: dict[str, Any] = {"stop_reason": "dependency_failed"}
        self.first_at: float | None = None
        self.last_at: float | None = None

    def read(self, event: ev.Event) -> None:
        """Take in one more event."""
        if event.at is not None:
            self.first_at = event.at if self.first_at is None else self.first_at
            self.last_at = max(event.at, self.last_at or event.at)
        if isinstance(event, ev.TaskStarted):
            self.started = event
        elif isinstance(event, ev.ModelCalled):
            self._use(event.usage)
        elif isinstance(event, ev.ActionRejected):
            self.rejected.append({"reason": event.reason})
        elif isinstance(event, ev.ToolEvent):
            self._operation(event)
        else:
            self._end(event)

    def _use(self, usage: Mapping[str, Any] | None) -> None:
        self.tokens += (usage or {}).get("tokens", 0)
        self.cost += (usage or {}).get("cost_micros", 0)

    def _operation(self, event: ev.ToolEvent) -> None:
        name = event.operation_id
        if isinstance(event, ev.ToolRequested):
            self.requested[name] = event
        elif isinstance(event, ev.ApprovalRequested):
            self.pending[name] = event.approval_id
        elif isinstance(event, ev.ToolReconciled):
            step = self.by_operation.get(name)
            if step is not None:
                step["status"] = event.outcome
                if event.outcome == "succeeded":
                    self._evidence(step, event.evidence or (), event.at)
        elif isinstance(event, (ev.ToolSucceeded, ev.ToolFailed, ev.ToolNeedsReconcile)):
            self._step(event)
        elif isinstance(
            event, (ev.ToolNotExecuted, ev.ToolCancelled, ev.ApprovalDenied, ev.ApprovalExpired)
        ):
            reason = getattr(event, "error", "") or event.type
            entry = {"operation_id": name, "tool": self._tool(name), "reason": reason}
            is_denial = reason in _DENIALS or isinstance(event, ev.ApprovalDenied)
            (self.denied if is_denial else self.rejected).append(entry)

    def _tool(self, name: str) -> str:
        request = self.requested.get(name)
        return request.tool if request is not None else ""

    def _step(self, event: ev.ToolSucceeded | ev.ToolFailed | ev.ToolNeedsReconcile) -> None:
        self._use(event.usage)
        request = self.requested.get(event.operation_id)
        status = event.type.removeprefix("tool_")
        step: dict[str, Any] = {
            "tool": self._tool(event.operation_id),
            "tokens": self.tokens,
            "evidence": [],
            "operation_id": event.operation_id,
            "status": status,
            "effect": request.effect if request else "write",
            "risk": request.risk if request else 0,
            "cost_micros": self.cost,
        }
        approval_id = event.approval_id or self.pending.get(event.operation_id, "")
        if approval_id:
            step["approval_id"] = approval_id
        if event.replayed:
            step["replayed"] = True
        self.tokens = self.cost = 0
        if isinstance(event, ev.ToolSucceeded):
            self._evidence(step, event.evidence, event.at)
        self.steps.append(step)
        self.by_operation[event.operation_id] = step

    def _evidence(self, step: dict[str, Any], items: Iterable[Any], at: float | None) -> None:
        entries = [_entry(item, at) for item in items]
        if not entries:
            # The tool showed nothing but its success: then the ledger's record is what is known.
            receipt = {"id": step["operation_id"], "acl_scope": LEDGER_SCOPE}
            entries = [_entry(receipt | {"validated": True}, at)]
        self.scopes.update(dict.fromkeys(entry["scope"] for entry in entries))
        step["evidence"] += entries

    def _end(self, event: ev.Event) -> None:
        if isinstance(event, ev.GoalVerified):
            cited = [item["id"] for step in self.steps for item in step["evidence"]]
            self.result = _ended("answered", list(dict.fromkeys(cited)))
        elif isinstance(event, ev.Answered):
            self.result = _ended(event.reason, list(event.citations or ()))
        elif isinstance(event, ev.BudgetExhausted):
            exhausted = {
                "dimension": event.dimension,
                "limit": event.limit,
                "used": event.used,
                "requested": event.requested,
            }
            self.result = {"stop_reason": "budget_exhausted", "exhausted": exhausted}
        elif isinstance(event, ev.TaskFailed):
            self.result = {"stop_reason": event.reason, "error": event.error}
        elif isinstance(event, ev.Cancelled):
            self.result = {"stop_reason": "policy_blocked", "error": "cancelled"}

    def finished(self, interrupted: Mapping[str, Any] | None) -> dict[str, Any]:
        """The trace; ``interrupted`` is the result of a run that is not at its end."""
        result = dict(interrupted) if interrupted is not None else dict(self.result)
        result.setdefault("citation_ids", [])
        if result["stop_reason"] == "answered" and not result["citation_ids"]:
            result["stop_reason"] = "insufficient_evidence"
        result |= {"tokens": self.tokens, "cost_micros": self.cost}
        if self.first_at is not None and self.last_at is not None:
            result["seconds"] = self.last_at - self.first_at
        for key, entries in (("denied", self.denied), ("rejected", self.rejected)):
            if entries:
                result[key] = entries
        return {"profile": "v2", "policy": self._policy(), "steps": self.steps, "result": result}

    def _policy(self) -> dict[str, Any]:
        started = self.started
        limits = dict(started.limits or {})
        tools = started.tools
        scopes = started.scopes
        used = sorted({step["tool"] for step in self.steps if step["tool"]})
        seen = [*(self.scopes if scopes is None else scopes), LEDGER_SCOPE]
        policy: dict[str, Any] = {
            # Profile v1 has no word for "no limit" and none for 0.
            "max_steps": max(1, int(limits.get("steps", INTEGER_MAX))),
            "max_tokens": max(1, int(limits.get("tokens", INTEGER_MAX))),
            "allowed_tools": used if tools is None else list(tools),
            "allowed_source_scopes": sorted(set(map(str, seen))),
            "limits": limits,
            "tools_declared": tools is not None,
            "scopes_declared": scopes is not None,
        }
        if started.max_risk is not None:
            policy["max_risk"] = started.max_risk
        return policy


def _ended(reason: str, citations: list[str]) -> dict[str, Any]:
    return {"stop_reason": reason, "citation_ids": citations if reason in _CITING else []}


def trace_of(
    events: Iterable[ev.Event | Mapping[str, Any]],
    interrupted: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The trace of a log of events.

    ``interrupted`` is the trace's result for a run that stopped without a terminal event: one that
    needs reconciliation or waits for an approval.
    """
    trace = _Trace()
    for event in events:
        trace.read(event if isinstance(event, ev.Event) else ev.event_from_dict(event))
    return thaw(trace.finished(interrupted))  # type: ignore[no-any-return]
