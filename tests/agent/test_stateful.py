"""The runtime against a small model, by random histories with crashes at named points."""

from __future__ import annotations

import contextvars
import json
from dataclasses import dataclass
from typing import Any

import gnomon.agent.operations as operations
import pytest
from agent_tools import WRITE_SCHEMA
from gnomon.agent import (
    ApprovalPolicy,
    Approver,
    MemoryOperationStore,
    NotExecuted,
    StoreUnavailable,
    Tool,
    ToolRuntime,
)
from gnomon.agent.operations import TERMINAL, TRANSITIONS, OperationStatus
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

IDS = ["op-1", "op-2"]
OUTCOMES = ["succeeded", "failed", "unknown", "not_executed", "raise", "invalid", "interrupt"]
POINTS = [
    "",
    "before_claim",
    "in_claim_tx",
    "after_claim",
    "before_call",
    "in_tool_before_effect",
    "in_tool_after_effect",
    "after_return",
    "in_settle_tx",
    "after_settle",
]
IN_FLIGHT = [
    "after_claim",
    "before_call",
    "in_tool_before_effect",
    "in_tool_after_effect",
    "after_return",
]
LEASE = 30.0
TTL = 1e6


class Died(BaseException):
    """The process is gone: whatever it still does reaches neither ledger nor caller."""


class Connection:
    """One process's way to the shared ledger; nothing passes once the process died."""

    blocking = False

    def __init__(self, store: MemoryOperationStore) -> None:
        self._store = store
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if self.dead:
                raise StoreUnavailable("this process is dead")
            return method(*arguments, **named)

        return call


@dataclass(frozen=True)
class Plan:
    """One dispatch: what the tool does, where its process dies, what another does meanwhile."""

    outcome: str
    crash: str
    meanwhile: str
    at: str

    def dies_before(self, point: str) -> bool:
        order = [*POINTS[1:6], "the effect", *POINTS[6:]]
        return bool(self.crash) and order.index(self.crash) < order.index(point)


class Model:
    """What must hold for one operation id, in states and effects; no ledger, no runtime."""

    def __init__(self, needs_approval: bool) -> None:
        self.status = "none"
        self.effects = 0
        self.answer: Any = None  # the terminal answer, once there is one
        self.needs_approval = needs_approval
        self.approval_fits = False
        self.cancel_asked = False

    def starts(self) -> bool:
        """Whether a dispatch now starts the tool."""
        if self.needs_approval:
            return self.approval_fits and self.status in ("approved", "not_executed")
        return self.status in ("none", "not_executed")

    def dispatch(self, plan: Plan) -> None:
        if self.needs_approval and not self.approval_fits:
            if self.status in ("none", "expired", "not_executed"):
                self.status = "awaiting_approval"
            return
        if not self.starts() or plan.crash in ("before_claim", "in_claim_tx"):
            return
        self.status = "in_flight"
        if plan.meanwhile and not plan.dies_before(plan.at):
            self.while_in_flight(plan.meanwhile)
        self.effects += plan.outcome != "not_executed" and not plan.dies_before("the effect")
        if not plan.crash or plan.crash == "after_settle":
            self.settle(plan.outcome)

    def while_in_flight(self, action: str) -> None:
        if action == "cancel":
            self.cancel_asked = True
        elif action in ("recover", "resolve"):
            self.status = "needs_reconcile" if action == "recover" else "failed"

    def settle(self, outcome: str) -> None:
        """The owner's own outcome: it may be late, and then yields to a resolution."""
        if outcome not in ("succeeded", "failed", "not_executed"):
            outcome = "needs_reconcile"
        if outcome == "not_executed" and self.cancel_asked:
            outcome = "cancelled"
        if self.status in ("in_flight", "needs_reconcile"):
            self.status = outcome

    def recover(self) -> None:
        if self.status == "in_flight":
            self.status = "needs_reconcile"

    def cancel(self) -> None:
        if self.status in ("none", "awaiting_approval", "approved", "expired", "not_executed"):
            self.status = "cancelled"
        elif self.status in ("in_flight", "needs_reconcile"):
            self.cancel_asked = True

    def resolve(self, outcome: str) -> bool:
        if self.status != "needs_reconcile":
            return False
        is_cancel = outcome == "not_executed" and self.cancel_asked
        self.status = "cancelled" if is_cancel else outcome
        return True


class RuntimeMachine(RuleBasedStateMachine):
    """Two processes share a ledger; each may die at any point and is replaced by a new one."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 1_000.0
        self.store = MemoryOperationStore(clock=lambda: self.time)
        self.effects: dict[str, int] = dict.fromkeys(IDS, 0)
        self.models = {"op-1": Model(False), "op-2": Model(True)}
        self.terminal: dict[str, Any] = {}
        self.plan = Plan("succeeded", "", "", "")
        self.plan_id = ""
        self.processes = [self._process(), self._process()]

    # --- processes ------------------------------------------------------------------------------

    def _process(self) -> tuple[Connection, ToolRuntime]:
        connection = Connection(self.store)
        policy = ApprovalPolicy((Approver("boss", max_risk=9),), ttl_seconds=TTL)
        tools = {
            "op-1": Tool("op-1", WRITE_SCHEMA, 1, self._write("op-1")),
            "op-2": Tool("op-2", WRITE_SCHEMA, 5, self._write("op-2"), approval=True),
        }
        runtime = ToolRuntime(
            tools,
            1,
            connection,  # type: ignore[arg-type]
            principal="ann",
            approvals=policy,
            heartbeat=False,
            lease_seconds=LEASE,
            recover=False,
        )
        return connection, runtime

    def _write(self, operation_id: str) -> Any:
        def write(project: str) -> Any:
            operations.crash_point("in_tool_before_effect")
            if self.plan.outcome == "not_executed":
                raise NotExecuted("refused")
            self.effects[operation_id] += 1
            operations.crash_point("in_tool_after_effect")
            if self.plan.outcome == "raise":
                raise TimeoutError("lost")
            if self.plan.outcome == "interrupt":
                raise KeyboardInterrupt
            if self.plan.outcome == "invalid":
                return {"status": "odd"}
            return {"status": self.plan.outcome, "n": self.effects[operation_id]}

        return write

    def _dispatch(self, place: int, operation_id: str) -> Any:
        connection, runtime = self.processes[place]
        self.plan_id = operation_id

        pending = [self.plan.meanwhile] if self.plan.meanwhile else []

        def hook(name: str) -> None:
            if connection.dead:
                return  # what still runs here runs in no process any more
            if name == self.plan.at and pending:
                pending.pop()
                operations.crash_hook = None
                other = self.processes[1 - place][1]
                contextvars.Context().run(self._meanwhile, other, operation_id)
                operations.crash_hook = hook
            if name == self.plan.crash:
                connection.dead = True
                raise Died

        operations.crash_hook = hook
        try:
            return self._call(runtime, operation_id)
        except (Died, StoreUnavailable, TimeoutError, KeyboardInterrupt, ValueError) as error:
            return error
        finally:
            operations.crash_hook = None

    # --- rules ----------------------------------------------------------------------------------

    @rule(
        place=st.integers(0, 1),
        operation_id=st.sampled_from(IDS),
        outcome=st.sampled_from(OUTCOMES),
        crash=st.sampled_from(["", *POINTS]),
        meanwhile=st.sampled_from(["", "", "cancel", "recover", "resolve", "rival"]),
        at=st.sampled_from(IN_FLIGHT),
    )
    def dispatch(
        self, place: int, operation_id: str, outcome: str, crash: str, meanwhile: str, at: str
    ) -> None:
        if outcome == "not_executed":  # such a tool has no moment after its effect
            crash, at = (
                "after_return" if point == "in_tool_after_effect" else point
                for point in (crash, at)
            )
        model = self.models[operation_id]
        self.plan = Plan(outcome, crash, meanwhile, at)
        starts = model.starts()
        model.dispatch(self.plan)
        answer = self._dispatch(place, operation_id)
        if self.processes[place][0].dead:
            assert starts, "a dispatch that starts nothing has no point to die at"
            self.processes[place] = self._process()
            return
        self._check_answer(operation_id, answer, starts)

    def _meanwhile(self, other: ToolRuntime, operation_id: str) -> None:
        """What another process does while the operation is in flight."""
        action = self.plan.meanwhile
        if action == "cancel":
            assert other.cancel(operation_id)["status"] == "in_flight"
        elif action == "rival":
            assert self._call(other, operation_id)["status"] == "needs_reconcile"
        elif action in ("recover", "resolve"):
            assert operation_id not in self._recovered(other)
            self.time += LEASE + 1
            assert operation_id in self._recovered(other)
            if action == "resolve":
                other.reconcile(operation_id, {"status": "failed", "by": "ops"}, actor="ops")

    def _recovered(self, runtime: ToolRuntime) -> list[str]:
        """Recover, and tell the models of other operations, whose processes died before."""
        found = [row.operation_id for row in runtime.recover()]
        for operation_id in found:
            if operation_id != self.plan_id:
                self.models[operation_id].recover()
        return found

    def _call(self, runtime: ToolRuntime, operation_id: str) -> Any:
        return runtime.dispatch(operation_id, {"project": "alpha"}, operation_id)

    def _check_answer(self, operation_id: str, answer: Any, started: bool) -> None:
        model = self.models[operation_id]
        if isinstance(answer, BaseException):
            assert started
            assert self.plan.outcome in ("raise", "interrupt", "invalid")
            return
        expected = "needs_reconcile" if model.status == "in_flight" else model.status
        assert answer["status"] == expected
        if model.status in ("succeeded", "failed"):
            text = json.dumps(answer, sort_keys=True)
            assert self.terminal.setdefault(operation_id, text) == text

    @rule(place=st.integers(0, 1))
    def restart(self, place: int) -> None:
        self.processes[place] = self._process()

    @rule(place=st.integers(0, 1))
    def recover(self, place: int) -> None:
        """After all leases ended: nobody is inside a call between rules, so all owners are dead."""
        self.time += LEASE + 1
        for model in self.models.values():
            model.recover()
        self.processes[place][1].recover()

    @rule(place=st.integers(0, 1))
    def recover_too_early(self, place: int) -> None:
        """Leases that have not ended are left alone."""
        living = [
            row.operation_id
            for row in self.store.list_operations(statuses=[OperationStatus.IN_FLIGHT])
            if row.lease_until is not None and row.lease_until >= self.time
        ]
        self.plan_id = ""
        assert not set(living) & set(self._recovered(self.processes[place][1]))

    @rule(place=st.integers(0, 1), operation_id=st.sampled_from(IDS))
    def cancel(self, place: int, operation_id: str) -> None:
        model = self.models[operation_id]
        model.cancel()
        said = self.processes[place][1].cancel(operation_id)
        assert said["status"] == model.status

    @rule(place=st.integers(0, 1), approve=st.booleans())
    def decide(self, place: int, approve: bool) -> None:
        model = self.models["op-2"]
        row = self.store.get("op-2")
        if model.status != "awaiting_approval":
            return
        assert row is not None
        approvals = self.processes[place][1].approvals
        (approvals.approve if approve else approvals.deny)(row.approval_id or "", by="boss")
        model.status = "approved" if approve else "denied"
        model.approval_fits = approve

    @rule()
    def expire(self) -> None:
        self.time += TTL
        self.processes[0][1].approvals.expire()
        model = self.models["op-2"]
        model.approval_fits = False
        if model.status in ("awaiting_approval", "approved"):
            model.status = "expired"

    @rule(
        place=st.integers(0, 1),
        operation_id=st.sampled_from(IDS),
        outcome=st.sampled_from(["succeeded", "failed", "not_executed"]),
    )
    def resolve(self, place: int, operation_id: str, outcome: str) -> None:
        model = self.models[operation_id]
        if outcome == "not_executed" and self.effects[operation_id]:
            outcome = "succeeded"  # who resolves tells the truth
        allowed = model.resolve(outcome)
        result = {"status": outcome, "by": "ops"}
        runtime = self.processes[place][1]
        if allowed:
            row = runtime.reconcile(operation_id, result, actor="ops")
            assert row.status.value == model.status
        else:
            with pytest.raises(ValueError, match=r"is |nothing under"):
                runtime.reconcile(operation_id, result, actor="ops")

    # --- what always holds ----------------------------------------------------------------------

    @invariant()
    def at_most_one_effect(self) -> None:
        for operation_id, model in self.models.items():
            assert self.effects[operation_id] == model.effects <= 1

    @invariant()
    def states_agree_and_terminal_results_never_change(self) -> None:
        for operation_id, model in self.models.items():
            row = self.store.get(operation_id)
            assert (row.status.value if row else "none") == model.status
            if row is not None and row.status in TERMINAL and row.result_json:
                text = json.dumps(json.loads(row.result_json), sort_keys=True)
                assert self.terminal.setdefault(operation_id, text) == text

    @invariant()
    def events_explain_the_state(self) -> None:
        for operation_id in IDS:
            events = self.store.events(operation_id)
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            status: OperationStatus | None = None
            for event in events:
                following = OperationStatus(event.data["status"])
                assert following is status or following in TRANSITIONS[status]
                status = following
            row = self.store.get(operation_id)
            assert status is (row.status if row else None)


TestRuntime = RuntimeMachine.TestCase
TestRuntime.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)
