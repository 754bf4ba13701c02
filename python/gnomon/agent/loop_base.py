"""What a run of the loop holds, and what it gives back: shared by acting, resuming and the loop."""

from __future__ import annotations

import copy
from collections.abc import Generator, Mapping
from typing import Any

from . import events as ev
from .budget import BudgetMeter, Exhausted
from .frozen import EventError, FrozenDict, freeze, thaw
from .gateway import Gateway
from .loop_log import LogWriter
from .loop_options import Call, Options, Outcome
from .trace import evidence_id, evidence_names, trace_of

Calls = Generator[Call, Any, Any]
Ends = Generator[Call, Any, Outcome | None]  # an outcome where the run stops


class RunBase:
    """State of one run over one task."""

    def __init__(
        self,
        policy: Any,
        runtime: Any,
        initial_state: Mapping[str, Any],
        verify: Any,
        max_steps: int,
        options: Options,
    ) -> None:
        self.policy = policy
        self.verify = verify
        self.options = options
        names = {"principal": options.principal, "tenant": options.tenant}
        self.gateway = Gateway(runtime, {**names, "business_scope": options.business_scope})
        self.state: dict[str, Any] = copy.deepcopy(dict(initial_state))
        self.events: list[dict[str, Any]] = []
        self.evidence: dict[str, dict[str, None]] = {}  # name -> ids in the trace
        self.failures = 0
        self.log = LogWriter(options.log if options.log is not None else [], options.clock)
        self.meter: BudgetMeter = options.meter(max_steps, self._started_at())

    def _started_at(self) -> float | None:
        return self.log.events[0].at if self.log.events else None

    def fail(self, reason: str, error: str) -> Outcome:
        """End the task without its goal."""
        self.log.emit(ev.TaskFailed(reason=reason, error=error))
        return self.outcome("failed")

    def exhausted(self, refusal: Exhausted, **more: Any) -> Outcome:
        """End the task because a limit would be passed."""
        self.log.emit(
            ev.BudgetExhausted(
                dimension=refusal.dimension,
                limit=refusal.limit,
                used=refusal.used,
                requested=refusal.requested,
            )
        )
        return self.outcome("budget_exhausted", exhausted=refusal.dimension, **more)

    def learn(self, evidence: Any, operation_id: str) -> None:
        """Remember under which names the policy may cite this evidence."""
        for item in evidence or [{"id": operation_id}]:
            for name in evidence_names(item):
                self.evidence.setdefault(name, {})[evidence_id(item)] = None

    def note(
        self, candidate: dict[str, Any], result: dict[str, Any], *, failed: bool = False
    ) -> Outcome | None:
        """Add the round to the events and show its result to the policy."""
        failed = failed or result.get("status") == "failed"
        self.tell(candidate, result, failed)
        limit = self.options.errors_in_a_row_max
        if failed and limit is not None and self.failures >= limit:
            return self.fail("dependency_failed", f"{self.failures} failures in a row")
        return None

    def tell(self, candidate: dict[str, Any], result: dict[str, Any], failed: bool) -> None:
        """Note a round, in copies: nobody changes afterwards what was said."""
        self.events.append({"candidate": copy.deepcopy(candidate), "result": copy.deepcopy(result)})
        self.state["last_result"] = copy.deepcopy(result)
        self.failures = self.failures + 1 if failed else 0

    def outcome(self, status: str, **more: Any) -> Outcome:
        """The dict that the run returns."""
        trace = trace_of(self.log.events, self._interrupted(status))
        task = self.log.state
        pending = self.log.phase in ("executing", "needs_reconcile")
        unsettled = [task["operation_id"]] if pending else task.get("unsettled", ())
        return {
            "status": status,
            **more,
            "state": self.state,
            "events": self.events,
            "reason": trace["result"]["stop_reason"],
            "task": task,
            "unsettled": list(unsettled),
            "usage": self.meter.used(),
            "log": [thaw(event.to_dict()) for event in self.log.events],
            "trace": trace,
        }

    def _interrupted(self, status: str) -> dict[str, Any] | None:
        if self.log.phase in ("succeeded", "failed", "cancelled"):
            return None
        if status == "awaiting_approval":
            return {"stop_reason": "policy_blocked", "error": "awaiting_approval"}
        if status == "succeeded":
            return {"stop_reason": "insufficient_evidence"}
        return {"stop_reason": "dependency_failed", "error": status}


def frozen(value: Any) -> Any:
    """The frozen copy of a value, None for None."""
    return None if value is None else freeze(value)


def loggable(value: Any) -> FrozenDict | None:
    """A value for the log, or None where it is no JSON object: the runtime will refuse it."""
    try:
        found = freeze(value)
    except EventError:
        return None
    return found if isinstance(found, FrozenDict) else None
