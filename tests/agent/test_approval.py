"""Approvals: durable, bound to what was shown, used once, decided by the right people."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from agent_tools import ALPHA, WRITE_SCHEMA, Remote, in_thread, kinds
from gnomon.agent import (
    ApprovalError,
    ApprovalMismatch,
    ApprovalPolicy,
    Approver,
    NotExecuted,
    RetryPolicy,
    Tool,
    ToolRefused,
    ToolRuntime,
    UnknownOperation,
)
from gnomon.agent.memory_store import MemoryOperationStore
from gnomon.agent.operations import ApprovalStatus
from gnomon.agent.records import Claim
from gnomon.agent.testing import SimClock
from ledgers import Ledger

BOSS = Approver("boss", "acme", max_risk=9)
POLICY = ApprovalPolicy((BOSS, Approver("mate", "acme", max_risk=1)), ttl_seconds=60.0)


@pytest.fixture
def remote() -> Remote:
    return Remote()


def runtime_for(remote: Remote, store: Any, **more: Any) -> ToolRuntime:
    more.setdefault("approvals", POLICY)
    return remote.runtime(
        store, tool={"risk": 5, "approval": True}, principal="ann", tenant="acme", **more
    )


def ask(runtime: ToolRuntime, operation_id: str = "op-1", arguments: Any = ALPHA) -> str:
    answer = runtime.dispatch("write", arguments, operation_id)
    assert answer["status"] == "awaiting_approval"
    assert answer["operation_id"] == operation_id
    identifier: str = answer["approval_id"]
    return identifier


def test_request_approve_execute(ledger: Ledger, remote: Remote) -> None:
    runtime = runtime_for(remote, ledger.open())
    approval_id = ask(runtime)
    assert ask(runtime) == approval_id
    assert remote.effects == []
    [shown] = runtime.approvals.pending("acme")
    assert (shown.tool, shown.arguments, shown.risk) == ("write", ALPHA, 5)
    assert (shown.requested_by, shown.approval_id) == ("ann", approval_id)
    approval = runtime.approvals.approve(approval_id, by="boss")
    assert (approval.status, approval.decided_by) == (ApprovalStatus.APPROVED, "boss")
    assert remote.effects == []
    assert runtime.approvals.pending("acme") == []
    first = runtime.dispatch("write", ALPHA, "op-1")
    assert runtime.dispatch("write", ALPHA, "op-1") == first == {"status": "succeeded", "number": 1}
    assert remote.effects == ["alpha"]
    used = runtime.store.get_approval(approval_id)
    assert used is not None
    assert used.status is ApprovalStatus.CONSUMED
    assert used.consumed_at is not None
    assert kinds(runtime, "op-1") == ["approval_requested", "approved", "dispatched", "settled"]


def test_denied_is_for_good(ledger: Ledger, remote: Remote) -> None:
    runtime = runtime_for(remote, ledger.open())
    approval_id = ask(runtime)
    runtime.approvals.deny(approval_id, by="boss")
    for _ in range(2):
        assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "denied"
    with pytest.raises(ApprovalError, match="first decision"):
        runtime.approvals.approve(approval_id, by="boss")
    assert remote.effects == []


def test_a_tool_without_approval_is_still_refused(remote: Remote) -> None:
    runtime = remote.runtime(tool={"risk": 5}, approvals=POLICY)
    with pytest.raises(ToolRefused, match="tool exceeds delegated risk"):
        runtime.dispatch("write", ALPHA, "op-1")


def test_within_the_delegated_risk_nobody_is_asked(remote: Remote) -> None:
    runtime = remote.runtime(tool={"risk": 1, "approval": True}, approvals=POLICY)
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "succeeded"


def test_a1_one_approval_and_many_resumes(ledger: Ledger, remote: Remote) -> None:
    store = ledger.open()
    first = runtime_for(remote, store)
    second = runtime_for(remote, ledger.open() if ledger.durable else store)
    first.approvals.approve(ask(first), by="boss")
    gate = threading.Barrier(4)

    def resume(runtime: ToolRuntime) -> Any:
        gate.wait()
        return runtime.dispatch("write", ALPHA, "op-1", wait=5)

    ends = [in_thread(lambda r=r: resume(r)) for r in (first, second, first, second)]
    assert [end() for end in ends] == [{"status": "succeeded", "number": 1}] * 4
    assert first.dispatch("write", ALPHA, "op-1") == {"status": "succeeded", "number": 1}
    assert remote.effects == ["alpha"]


def test_a2_the_caller_mutates_its_arguments_after_asking(ledger: Ledger) -> None:
    schema = {
        "type": "object",
        "properties": {"amount": {"type": "integer"}},
        "required": ["amount"],
    }
    paid: list[int] = []
    tool = Tool(
        "pay",
        schema,
        5,
        lambda amount: paid.append(amount) or {"status": "succeeded"},
        approval=True,
    )
    runtime = ToolRuntime(
        {"pay": tool}, 1, ledger.open(), approvals=POLICY, principal="ann", tenant="acme"
    )
    arguments = {"amount": 5}
    approval_id = runtime.dispatch("pay", arguments, "op-1")["approval_id"]
    arguments["amount"] = 500
    assert runtime.approvals.show(approval_id).arguments == {"amount": 5}
    runtime.approvals.approve(approval_id, by="boss")
    with pytest.raises(ValueError, match="operation_id was reused for a different request"):
        runtime.dispatch("pay", arguments, "op-1")
    assert paid == []
    assert runtime.dispatch("pay", {"amount": 5}, "op-1")["status"] == "succeeded"
    assert paid == [5]


def changed_contract(remote: Remote, store: Any) -> ToolRuntime:
    """The same tool name with a risk that nobody was asked about."""
    return remote.runtime(
        store,
        tool={"risk": 7, "approval": True},
        principal="ann",
        tenant="acme",
        approvals=POLICY,
    )


def changed_policy(remote: Remote, store: Any) -> ToolRuntime:
    return runtime_for(remote, store, approvals=ApprovalPolicy((BOSS,), version="2"))


@pytest.mark.parametrize("change", [changed_contract, changed_policy])
def test_a2_contract_or_policy_changed_between_approval_and_dispatch(
    ledger: Ledger, remote: Remote, change: Any
) -> None:
    store = ledger.open()
    before = runtime_for(remote, store)
    old = ask(before)
    before.approvals.approve(old, by="boss")
    after = change(remote, store)
    with pytest.raises(ApprovalMismatch) as mismatch:
        after.dispatch("write", ALPHA, "op-1")
    assert remote.effects == []
    new = mismatch.value.approval_id
    assert new not in ("", old)
    replaced = store.get_approval(old)
    assert replaced is not None
    assert replaced.status is ApprovalStatus.SUPERSEDED
    assert ask(after) == new
    after.approvals.approve(new, by="boss")
    assert after.dispatch("write", ALPHA, "op-1")["status"] == "succeeded"
    assert remote.effects == ["alpha"]


def test_a2_a_pending_request_of_an_old_contract_is_replaced(
    ledger: Ledger, remote: Remote
) -> None:
    store = ledger.open()
    old = ask(runtime_for(remote, store))
    after = changed_contract(remote, store)
    new = ask(after)
    assert new != old
    with pytest.raises(ApprovalError, match="taken the place"):
        after.approvals.approve(old, by="boss")
    assert kinds(after, "op-1") == ["approval_requested", "superseded", "approval_requested"]


def test_a2_expired_one_millisecond_ago_by_the_ledgers_clock(
    ledger: Ledger, remote: Remote
) -> None:
    clock = SimClock()
    runtime = runtime_for(remote, ledger.open(clock))
    old = ask(runtime)
    runtime.approvals.approve(old, by="boss")
    clock.time += 60.0
    answer = runtime.dispatch("write", ALPHA, "op-1")
    assert (answer["status"], answer["reason"]) == ("awaiting_approval", "approval_expired")
    assert answer["approval_id"] != old
    assert remote.effects == []
    runtime.approvals.approve(answer["approval_id"], by="boss")
    clock.time += 59.999
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "succeeded"


def test_a_request_expires_without_a_decision(ledger: Ledger, remote: Remote) -> None:
    clock = SimClock()
    runtime = runtime_for(remote, ledger.open(clock))
    approval_id = ask(runtime)
    clock.time += 60.0
    assert runtime.approvals.pending("acme") == []
    with pytest.raises(ApprovalError, match="expired before the decision"):
        runtime.approvals.approve(approval_id, by="boss")
    assert runtime.operations["op-1"]["status"] == "expired"
    assert ask(runtime) != approval_id
    clock.time += 60.0
    assert runtime.approvals.expire() == ["op-1"]
    assert runtime.approvals.expire() == []


@pytest.mark.parametrize(
    ("by", "policy", "why"),
    [
        ("ann", ApprovalPolicy((Approver("ann", "acme", max_risk=9),)), "own request"),
        ("nobody", POLICY, "no approver"),
        ("mate", POLICY, "lower risk"),
        ("boss", ApprovalPolicy((Approver("boss", "other", max_risk=9),)), "no approver"),
        (
            "boss",
            ApprovalPolicy((Approver("boss", "acme", max_risk=9, tools=frozenset({"read"})),)),
            "about this tool",
        ),
        ("boss", ApprovalPolicy(), "no approver"),
    ],
    ids=["self", "unknown", "risk", "tenant", "tool", "none"],
)
def test_a4_decisions_that_are_not_allowed(
    ledger: Ledger, remote: Remote, by: str, policy: ApprovalPolicy, why: str
) -> None:
    runtime = runtime_for(remote, ledger.open(), approvals=policy)
    approval_id = ask(runtime)
    with pytest.raises(PermissionError, match=why):
        runtime.approvals.approve(approval_id, by=by)
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "awaiting_approval"
    assert remote.effects == []


def test_a4_the_first_decision_stands(ledger: Ledger, remote: Remote) -> None:
    runtime = runtime_for(remote, ledger.open())
    denied, approved = ask(runtime, "op-1"), ask(runtime, "op-2")
    runtime.approvals.deny(denied, by="boss")
    runtime.approvals.approve(approved, by="boss")
    for approval_id in (denied, approved):
        for decide in (runtime.approvals.approve, runtime.approvals.deny):
            with pytest.raises(PermissionError, match="first decision stands"):
                decide(approval_id, by="boss")
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "denied"
    assert runtime.dispatch("write", ALPHA, "op-2")["status"] == "succeeded"


def test_a4_decisions_are_recorded_with_who_and_when(ledger: Ledger, remote: Remote) -> None:
    clock = SimClock()
    runtime = runtime_for(remote, ledger.open(clock))
    approval_id = ask(runtime)
    clock.time += 7
    runtime.approvals.approve(approval_id, by="boss")
    event = runtime.events("op-1")[-1]
    assert (event.type, event.actor, event.at) == ("approved", "boss", 1007.0)


def test_self_approval_where_the_policy_allows_it(remote: Remote) -> None:
    policy = ApprovalPolicy((Approver("ann", "acme", max_risk=9),), self_approval=True)
    runtime = runtime_for(remote, None, approvals=policy)
    runtime.approvals.approve(ask(runtime), by="ann")
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "succeeded"


def test_denying_is_allowed_at_any_risk(remote: Remote) -> None:
    runtime = runtime_for(remote, None)
    runtime.approvals.deny(ask(runtime), by="mate")
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "denied"


def test_unknown_approval(remote: Remote) -> None:
    with pytest.raises(UnknownOperation):
        runtime_for(remote, None).approvals.approve("ap-none", by="boss")


def test_an_approval_covers_retries_of_attempts_that_did_not_execute(ledger: Ledger) -> None:
    calls: list[int] = []

    def write(project: str) -> dict[str, Any]:
        calls.append(1)
        if len(calls) < 3:
            raise NotExecuted("busy")
        return {"status": "succeeded"}

    runtime = ToolRuntime(
        {"write": Tool("write", WRITE_SCHEMA, 5, write, approval=True)},
        1,
        ledger.open(),
        approvals=POLICY,
        principal="ann",
        tenant="acme",
        retry=RetryPolicy(attempts=2, initial=0.0),
    )
    runtime.approvals.approve(ask(runtime), by="boss")
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "not_executed"
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "succeeded"
    assert len(calls) == 3


def test_cancelling_voids_an_approval(ledger: Ledger, remote: Remote) -> None:
    runtime = runtime_for(remote, ledger.open())
    waiting, approved = ask(runtime, "op-1"), ask(runtime, "op-2")
    runtime.approvals.approve(approved, by="boss")
    for operation_id in ("op-1", "op-2"):
        assert runtime.cancel(operation_id)["status"] == "cancelled"
        assert runtime.dispatch("write", ALPHA, operation_id)["status"] == "cancelled"
    with pytest.raises(ApprovalError):
        runtime.approvals.approve(waiting, by="boss")
    assert remote.effects == []


def test_an_approver_sees_no_declared_secret(remote: Remote) -> None:
    runtime = remote.runtime(
        tool={"risk": 5, "approval": True, "redact_paths": ("/project",)}, approvals=POLICY
    )
    shown = runtime.approvals.show(ask(runtime, arguments={"project": "hush-hush"}))
    assert shown.arguments == {"project": "[redacted]"}
    assert "hush" not in repr(shown)


@pytest.mark.parametrize(
    "bad",
    [
        {"ttl_seconds": 0},
        {"ttl_seconds": float("inf")},
        {"ttl_seconds": float("nan")},
        {"version": ""},
    ],
)
def test_policies_are_checked(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        ApprovalPolicy(**bad)


class Refusing(Remote):
    """Proves that it did not act until it is told to act."""

    def write(self, project: str) -> Any:
        if self.answer == "refuse":
            raise NotExecuted("busy")
        return super().write(project)


def test_a2_an_old_approval_allows_no_attempt_of_a_changed_contract(ledger: Ledger) -> None:
    remote, store = Refusing(answer="refuse"), ledger.open()
    before = runtime_for(remote, store)
    before.approvals.approve(ask(before), by="boss")
    assert before.dispatch("write", ALPHA, "op-1")["status"] == "not_executed"
    remote.answer = {"status": "succeeded"}
    after = changed_contract(remote, store)
    new = ask(after)
    after.approvals.approve(new, by="boss")
    assert after.dispatch("write", ALPHA, "op-1")["status"] == "succeeded"
    assert remote.effects == ["alpha"]


def test_a2_an_expired_approval_allows_no_later_attempt(ledger: Ledger) -> None:
    clock = SimClock()
    remote = Refusing(answer="refuse")
    runtime = runtime_for(remote, ledger.open(clock))
    runtime.approvals.approve(ask(runtime), by="boss")
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "not_executed"
    clock.time += 59.0
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "not_executed"
    clock.time += 1.0
    remote.answer = {"status": "succeeded"}
    new = ask(runtime)
    assert remote.effects == []
    runtime.approvals.deny(new, by="boss")
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "denied"


def test_a_risk_raised_after_a_proved_non_execution_needs_approval(ledger: Ledger) -> None:
    remote, store = Refusing(answer="refuse"), ledger.open()
    low = remote.runtime(store, principal="ann", tenant="acme")
    assert low.dispatch("write", ALPHA, "op-1")["status"] == "not_executed"
    high = runtime_for(remote, store)
    assert ask(high)


def test_more_requests_than_one_page_are_shown_and_expired(remote: Remote) -> None:
    clock = SimClock()
    runtime = runtime_for(remote, MemoryOperationStore(clock))
    for number in range(1001):
        ask(runtime, f"op-{number}")
    assert len(runtime.approvals.pending("acme")) == 1001
    clock.time += 60.0
    assert len(runtime.approvals.expire()) == 1001


def test_a_call_that_ran_meanwhile_is_no_mismatch(ledger: Ledger) -> None:
    """Our claim loses to a changed contract, and before we ask anew that one was approved."""
    remote, store = Remote(), ledger.open()
    old = runtime_for(remote, store)
    old.approvals.approve(ask(old), by="boss")
    new = changed_contract(remote, store)
    real = store.request_approval

    def raced(*args: Any) -> Any:
        store.request_approval = real
        _, approval = real(*args)
        new.approvals.approve(approval.approval_id, by="boss")
        return real(*args)

    store.request_approval = raced
    assert new.dispatch("write", ALPHA, "op-1") == {"status": "succeeded", "number": 1}
    assert remote.effects == ["alpha"]


@pytest.mark.parametrize("seconds", [59.0, 60.0])
def test_a2_an_approval_that_ends_while_a_retry_waits(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """The wait between two attempts of one dispatch carries over the end of the approval."""
    clock, remote = SimClock(), Refusing(answer="refuse")
    policy = RetryPolicy(attempts=3, initial=0.0, jitter=0.0)
    runtime = runtime_for(remote, ledger.open(clock), retry=policy)
    runtime.approvals.approve(ask(runtime), "boss")
    monkeypatch.setattr("gnomon.agent.runtime.time.sleep", lambda _: clock.advance(seconds / 2))

    def attempts() -> int:
        return kinds(runtime, "op-1").count("dispatched")

    answer = runtime.dispatch("write", ALPHA, "op-1")
    if seconds < 60.0:
        assert (answer["status"], attempts()) == ("not_executed", 3)
    else:
        assert (answer["status"], answer["reason"]) == ("awaiting_approval", "approval_expired")
        assert attempts() == 2
        assert ask(runtime) == answer["approval_id"]


def test_a_claim_of_a_retry_looks_at_its_approval(ledger: Ledger) -> None:
    clock, remote = SimClock(), Refusing(answer="refuse")
    store = ledger.open(clock)
    runtime = runtime_for(remote, store)
    runtime.approvals.approve(ask(runtime), "boss")
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "not_executed"
    row = store.get("op-1")
    shown = store.get_approval(row.approval_id).request_digest
    for digest, reason in (("sha256:other", "approval_mismatch"), (shown, "approval_expired")):
        clock.time = 1060.0 if digest == shown else 1000.0
        lost = store.claim(Claim(row.request, "you", 30.0, digest, 1))
        assert (lost.won, lost.reason.value) == (False, reason)
    clock.time = 1059.9
    assert not store.claim(Claim(row.request, "you", 30.0, shown, 2)).won  # another attempt
    assert store.claim(Claim(row.request, "you", 30.0, shown, 1)).won
