"""What every ledger promises: one suite over memory, SQLite and PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from gnomon.agent.errors import InvalidTransition, StoreClosed, UnknownOperation
from gnomon.agent.operations import OperationStore
from gnomon.agent.records import (
    EVENT_TYPES,
    ApprovalStatus,
    ClaimReason,
    NewApproval,
    OperationStatus,
    Settlement,
)
from ledgers import Ledger, SimClock, claim_for, outcome, request_for

S = OperationStatus


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def store(ledger: Ledger, clock: SimClock) -> Any:
    return ledger.open(clock)


def wanted(digest: str = "shown-1", identifier: str = "ap-1", ttl: float = 60.0) -> NewApproval:
    return NewApproval(identifier, digest, "ann", "policy-1", ttl)


def kinds(store: Any, operation_id: str = "op-1") -> list[str]:
    return [event.type for event in store.events(operation_id)]


def approved(store: Any, digest: str = "shown-1", ttl: float = 60.0) -> None:
    store.request_approval(request_for(), wanted(digest, ttl=ttl))
    assert store.decide("ap-1", True, "boss")[0]


def race(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Results of work(0), work(1), … started at the same moment in threads of their own."""
    results: list[Any] = [None] * count
    gate = threading.Barrier(count)

    def run(number: int) -> None:
        gate.wait()
        results[number] = work(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


# --- claim ----------------------------------------------------------------------------------------


def test_is_an_operation_store(store):
    assert isinstance(store, OperationStore)
    assert store.get("op-1") is None
    assert store.events("op-1") == []
    assert store.now() == 1000.0


def test_first_claim_wins_and_is_a_whole_row(store):
    won = store.claim(claim_for(business_scope="invoice 7", effect="destructive", risk=3))
    assert won.won
    assert won.reason is ClaimReason.CLAIMED
    row = store.get("op-1")
    assert row == won.operation
    assert row.request == request_for(business_scope="invoice 7", effect="destructive", risk=3)
    assert (row.status, row.attempt, row.owner) == (S.IN_FLIGHT, 1, "me")
    assert (row.lease_until, row.created_at, row.updated_at) == (1030.0, 1000.0, 1000.0)
    assert row.settled_at is None
    (event,) = store.events("op-1")
    assert (event.seq, event.type, event.at, event.actor) == (1, "dispatched", 1000.0, "me")
    assert dict(event.data) == {"status": "in_flight", "attempt": 1}


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"args_digest": "args-2"},
        {"tool": "erase"},
        {"principal": "eve"},
        {"tenant": "globex"},
    ],
)
def test_second_claim_loses_and_changes_nothing(store, other):
    first = store.claim(claim_for()).operation
    lost = store.claim(claim_for(owner="you", **other))
    assert (lost.won, lost.operation, lost.reason) == (False, first, ClaimReason.EXISTS)
    assert store.get("op-1") == first
    assert kinds(store) == ["dispatched"]


def test_claim_of_a_dead_owner_still_loses(store, clock):
    store.claim(claim_for(lease=1.0))
    clock.time += 1_000_000
    assert not store.claim(claim_for(owner="you")).won
    assert not store.claim(claim_for(owner="you", retry_attempt=1)).won


def test_threads_claim_one_id_once(store):
    for number in range(10):
        wins = race(6, lambda n, k=number: store.claim(claim_for(f"op-{k}", owner=f"o{n}")))
        assert sum(result.won for result in wins) == 1
        owners = {result.operation.owner for result in wins}
        assert owners == {store.get(f"op-{number}").owner}


def test_threads_of_one_owner_claim_one_id_once(store):
    wins = race(6, lambda n: store.claim(claim_for()))
    assert sum(result.won for result in wins) == 1


# --- settle ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [S.SUCCEEDED, S.FAILED])
def test_settle_is_final(store, clock, status):
    store.claim(claim_for())
    clock.time += 5
    settled = store.settle("op-1", "me", 1, outcome(status, b'{"n":1}', reason="done"))
    assert settled.applied
    row = store.get("op-1")
    assert row == settled.operation
    assert (row.status, row.result_json, row.result_bytes) == (status, b'{"n":1}', 7)
    assert (row.result_digest, row.reason, row.settled_at) == ("digest-7", "done", 1005.0)
    assert row.lease_until is None
    event = store.events("op-1")[-1]
    assert (event.type, event.actor, event.at) == ("settled", "me", 1005.0)
    assert dict(event.data) == {"status": status.value, "attempt": 1, "reason": "done"}
    assert not store.claim(claim_for(owner="you")).won
    assert not store.claim(claim_for(owner="you", retry_attempt=1)).won
    assert store.get("op-1") == row


def test_same_settlement_again_is_applied_once(store):
    store.claim(claim_for())
    again = outcome(S.SUCCEEDED, b"{}")
    first = store.settle("op-1", "me", 1, again)
    assert store.settle("op-1", "me", 1, again) == first
    assert kinds(store) == ["dispatched", "settled"]


@pytest.mark.parametrize(("owner", "attempt"), [("you", 1), ("me", 2), ("me", 0)])
def test_settle_by_another_changes_nothing(store, owner, attempt):
    store.claim(claim_for())
    settled = store.settle("op-1", owner, attempt, outcome(S.SUCCEEDED, b"{}"))
    assert not settled.applied
    row = store.get("op-1")
    assert (row.status, row.result_json, row.owner) == (S.IN_FLIGHT, None, "me")
    event = store.events("op-1")[-1]
    assert (event.type, event.actor) == ("late_result_conflict", owner)
    assert event.data["status"] == "in_flight"
    assert event.data["late_status"] == "succeeded"
    assert event.data["result_digest"] == "digest-2"


def test_settling_another_outcome_is_a_conflict(store):
    store.claim(claim_for())
    store.settle("op-1", "me", 1, outcome(S.SUCCEEDED, b"{}"))
    for late in (outcome(S.FAILED), outcome(S.SUCCEEDED, b'{"other":1}')):
        assert not store.settle("op-1", "me", 1, late).applied
    assert store.get("op-1").status is S.SUCCEEDED
    assert store.get("op-1").result_json == b"{}"
    assert kinds(store)[2:] == ["late_result_conflict"] * 2


def test_unknown_outcome_of_a_stranger_leaves_no_trace(store):
    store.claim(claim_for())
    assert not store.settle("op-1", "you", 1, outcome(S.NEEDS_RECONCILE)).applied
    assert kinds(store) == ["dispatched"]


def test_late_result_of_the_owner_leaves_needs_reconcile(store):
    store.claim(claim_for())
    store.settle("op-1", "me", 1, outcome(S.NEEDS_RECONCILE, reason="timeout"))
    row = store.get("op-1")
    assert (row.status, row.reason, row.settled_at) == (S.NEEDS_RECONCILE, "timeout", None)
    assert not store.claim(claim_for(owner="you", retry_attempt=1)).won
    assert store.settle("op-1", "me", 1, outcome(S.SUCCEEDED, b"{}")).applied
    assert store.get("op-1").status is S.SUCCEEDED
    assert store.get("op-1").reason == ""


def test_settle_refuses_states_that_are_no_outcome(store):
    store.claim(claim_for())
    with pytest.raises(InvalidTransition):
        store.settle("op-1", "me", 1, outcome(S.APPROVED))
    assert store.get("op-1").status is S.IN_FLIGHT
    assert kinds(store) == ["dispatched"]


# --- attempts -------------------------------------------------------------------------------------


def test_proved_not_executed_may_be_claimed_again(store, clock):
    store.claim(claim_for())
    store.settle("op-1", "me", 1, outcome(S.NOT_EXECUTED, reason="refused"))
    assert store.get("op-1").settled_at is None
    assert not store.claim(claim_for(owner="you")).won
    assert not store.claim(claim_for(owner="you", retry_attempt=2)).won
    assert not store.claim(claim_for(owner="you", retry_attempt=1, args_digest="args-2")).won
    clock.time += 1
    again = store.claim(claim_for(owner="you", retry_attempt=1))
    assert again.won
    assert store.get("op-1") == again.operation
    row = again.operation
    assert (row.status, row.attempt, row.owner, row.reason) == (S.IN_FLIGHT, 2, "you", "")
    assert (row.created_at, row.updated_at, row.lease_until) == (1000.0, 1001.0, 1031.0)
    assert not store.settle("op-1", "me", 1, outcome(S.SUCCEEDED)).applied
    assert store.settle("op-1", "you", 2, outcome(S.SUCCEEDED)).applied
    expected = ["dispatched", "settled", "dispatched", "late_result_conflict", "settled"]
    assert kinds(store) == expected


def test_threads_retry_once(store):
    store.claim(claim_for())
    store.settle("op-1", "me", 1, outcome(S.NOT_EXECUTED))
    wins = race(6, lambda n: store.claim(claim_for(owner=f"o{n}", retry_attempt=1)))
    assert sum(result.won for result in wins) == 1
    assert store.get("op-1").attempt == 2


# --- leases ---------------------------------------------------------------------------------------


def test_recover_only_what_is_dead(store, clock):
    store.claim(claim_for("dead", lease=5.0))
    store.claim(claim_for("dying", lease=10.0))
    store.claim(claim_for("live", lease=50.0))
    store.claim(claim_for("done", lease=5.0))
    store.settle("done", "me", 1, outcome(S.SUCCEEDED))
    clock.time += 10
    (lost,) = store.recover()
    assert lost == store.get("dead")
    assert (lost.status, lost.reason, lost.lease_until) == (S.NEEDS_RECONCILE, "owner_lost", None)
    event = store.events("dead")[-1]
    assert (event.type, event.actor) == ("recovered", "recovery")
    assert event.data == {"status": "needs_reconcile", "attempt": 1, "reason": "owner_lost"}
    clock.time += 1
    assert [row.operation_id for row in store.recover()] == ["dying"]
    assert store.recover() == []
    assert store.get("live").status is S.IN_FLIGHT
    assert store.settle("dead", "me", 1, outcome(S.SUCCEEDED)).applied


def test_recover_takes_the_oldest_first(store, clock):
    for number, lease in enumerate([9.0, 7.0, 8.0]):
        store.claim(claim_for(f"op-{number}", lease=lease))
    clock.time += 100
    assert [row.operation_id for row in store.recover(limit=2)] == ["op-1", "op-2"]
    assert [row.operation_id for row in store.recover(limit=2)] == ["op-0"]


def test_concurrent_recoveries_share_the_dead(store, clock):
    for number in range(12):
        store.claim(claim_for(f"op-{number:02}", lease=1.0))
    clock.time += 100
    found = [row.operation_id for rows in race(4, lambda n: store.recover()) for row in rows]
    found += [row.operation_id for row in store.recover()]
    assert sorted(found) == [f"op-{number:02}" for number in range(12)]


def test_heartbeat_keeps_its_own_alive(store, clock):
    store.claim(claim_for("mine", lease=5.0))
    store.claim(claim_for("theirs", owner="you", lease=5.0))
    clock.time += 4
    assert store.heartbeat("me", ["mine", "theirs", "nobody's"], 20.0) == frozenset()
    assert store.get("mine").lease_until == 1024.0
    assert store.get("theirs").lease_until == 1005.0
    clock.time += 4
    assert [row.operation_id for row in store.recover()] == ["theirs"]
    assert kinds(store, "mine") == ["dispatched"]


def test_heartbeat_never_revives(store, clock):
    store.claim(claim_for(lease=1.0))
    clock.time += 2
    store.recover()
    assert store.heartbeat("me", ["op-1"], 20.0) == frozenset()
    assert store.get("op-1").status is S.NEEDS_RECONCILE
    assert store.get("op-1").lease_until is None


def test_heartbeat_tells_of_a_cancellation(store):
    store.claim(claim_for())
    store.request_cancel(request_for(), "ann")
    assert store.heartbeat("me", ["op-1"], 20.0) == frozenset({"op-1"})
    assert store.heartbeat("me", [], 20.0) == frozenset()


# --- resolve --------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [S.SUCCEEDED, S.FAILED, S.NOT_EXECUTED])
def test_resolve_leaves_needs_reconcile(store, status):
    store.claim(claim_for())
    assert not store.resolve("op-1", outcome(status), "ops", {}).applied
    store.settle("op-1", "me", 1, outcome(S.NEEDS_RECONCILE))
    done = store.resolve("op-1", outcome(status, b"{}"), "ops", {"ticket": "T-1", "n": [1, None]})
    assert done.applied
    assert store.get("op-1") == done.operation
    assert done.operation.status is status
    event = store.events("op-1")[-1]
    assert (event.type, event.actor) == ("reconciled", "ops")
    assert event.data["evidence"] == {"ticket": "T-1", "n": [1, None]}
    assert not store.resolve("op-1", outcome(S.FAILED, b"no"), "ops", {}).applied
    if status is not S.NOT_EXECUTED:
        late = store.settle("op-1", "me", 1, outcome(S.FAILED, b"late"))
        assert (late.applied, late.operation.status) == (False, status)
        assert kinds(store)[-1] == "late_result_conflict"


def test_resolve_refuses_other_states(store):
    store.claim(claim_for())
    store.settle("op-1", "me", 1, outcome(S.NEEDS_RECONCILE))
    with pytest.raises(InvalidTransition):
        store.resolve("op-1", outcome(S.IN_FLIGHT), "ops", {})
    assert store.get("op-1").status is S.NEEDS_RECONCILE


# --- cancellation ---------------------------------------------------------------------------------


def test_cancel_before_anything(store):
    asked = store.request_cancel(request_for(tool="", args_digest=""), "ann")
    assert asked.applied
    assert asked.operation.status is S.CANCELLED
    assert store.get("op-1") == asked.operation
    lost = store.claim(claim_for())
    assert (lost.won, lost.operation.status) == (False, S.CANCELLED)
    assert not store.request_cancel(request_for(), "ann").applied
    assert kinds(store) == ["cancelled"]


def test_cancel_in_flight_is_a_wish(store, clock):
    store.claim(claim_for())
    clock.time += 1
    asked = store.request_cancel(request_for(), "ann")
    assert asked.applied
    assert asked.operation.status is S.IN_FLIGHT
    assert asked.operation.cancel_requested_at == 1001.0
    assert not store.request_cancel(request_for(), "ann").applied
    assert store.settle("op-1", "me", 1, outcome(S.SUCCEEDED, b"{}")).applied
    row = store.get("op-1")
    assert (row.status, row.cancel_requested_at) == (S.SUCCEEDED, 1001.0)
    assert kinds(store) == ["dispatched", "cancel_requested", "settled"]


def test_cancelled_when_nothing_was_executed(store):
    store.claim(claim_for())
    store.request_cancel(request_for(), "ann")
    settled = store.settle("op-1", "me", 1, outcome(S.NOT_EXECUTED, reason="cancelled"))
    assert settled.operation.status is S.CANCELLED
    assert store.settle("op-1", "me", 1, outcome(S.NOT_EXECUTED, reason="cancelled")).applied
    assert not store.claim(claim_for(retry_attempt=1)).won
    assert kinds(store) == ["dispatched", "cancel_requested", "cancelled"]


def test_cancel_before_a_retry(store):
    store.claim(claim_for())
    store.settle("op-1", "me", 1, outcome(S.NOT_EXECUTED))
    assert store.request_cancel(request_for(), "ann").operation.status is S.CANCELLED
    assert not store.claim(claim_for(retry_attempt=1)).won


def test_cancel_of_a_stranger_changes_nothing(store):
    store.claim(claim_for())
    for stranger in ({"tenant": "globex"}, {"principal": "eve"}):
        assert not store.request_cancel(request_for(**stranger), "eve").applied
    assert store.get("op-1").cancel_requested_at is None


def test_cancel_of_an_approval(store):
    store.request_approval(request_for(), wanted())
    assert store.request_cancel(request_for(), "ann").operation.status is S.CANCELLED
    assert store.get_approval("ap-1").status is ApprovalStatus.CANCELLED
    assert store.decide("ap-1", True, "boss")[0] is False
    assert not store.claim(claim_for(approval_digest="shown-1")).won


# --- approvals ------------------------------------------------------------------------------------


def test_approval_is_recorded(store):
    row, approval = store.request_approval(request_for(), wanted())
    assert row == store.get("op-1")
    assert (row.status, row.approval_id, row.attempt) == (S.AWAITING_APPROVAL, "ap-1", 0)
    assert approval == store.get_approval("ap-1")
    assert (approval.request_digest, approval.expires_at) == ("shown-1", 1060.0)
    assert (approval.tenant, approval.requested_by, approval.policy_version) == (
        "acme",
        "ann",
        "policy-1",
    )
    assert store.get_approval("ap-2") is None
    assert not store.claim(claim_for(approval_digest="shown-1")).won
    assert not store.claim(claim_for()).won
    assert kinds(store) == ["approval_requested"]


def test_asking_again_finds_the_open_approval(store):
    first = store.request_approval(request_for(), wanted())
    assert store.request_approval(request_for(), wanted(identifier="ap-2")) == first
    assert store.get_approval("ap-2") is None
    store.decide("ap-1", True, "boss")
    row, approval = store.request_approval(request_for(), wanted(identifier="ap-3"))
    assert (row.status, approval.approval_id) == (S.APPROVED, "ap-1")


def test_another_request_supersedes(store):
    approved(store)
    row, approval = store.request_approval(request_for(), wanted("shown-2", "ap-2"))
    assert (row.status, row.approval_id) == (S.AWAITING_APPROVAL, "ap-2")
    assert approval.status is ApprovalStatus.PENDING
    assert store.get_approval("ap-1").status is ApprovalStatus.SUPERSEDED
    assert store.decide("ap-1", True, "boss")[0] is False
    assert not store.claim(claim_for(approval_digest="shown-1")).won
    assert kinds(store)[2:] == ["superseded", "approval_requested"]


def test_first_decision_wins(store, clock):
    store.request_approval(request_for(), wanted())
    clock.time += 1
    decided, approval = store.decide("ap-1", False, "boss")
    assert decided
    assert (approval.status, approval.decided_by, approval.decided_at) == (
        ApprovalStatus.DENIED,
        "boss",
        1001.0,
    )
    assert store.decide("ap-1", True, "other") == (False, approval)
    assert store.get("op-1").status is S.DENIED
    assert store.get("op-1").settled_at == 1001.0
    assert not store.claim(claim_for(approval_digest="shown-1")).won
    assert store.request_approval(request_for(), wanted("shown-2", "ap-2"))[1] is None


def test_threads_decide_once(store):
    store.request_approval(request_for(), wanted())
    decisions = race(4, lambda n: store.decide("ap-1", n % 2 == 0, f"boss-{n}"))
    assert sum(decided for decided, _ in decisions) == 1
    assert len({approval.decided_by for _, approval in decisions}) == 1


def test_approval_is_consumed_in_the_claim(store):
    approved(store)
    assert not store.claim(claim_for()).won
    lost = store.claim(claim_for(approval_digest="shown-2"))
    assert (lost.won, lost.reason) == (False, ClaimReason.APPROVAL_MISMATCH)
    won = store.claim(claim_for(approval_digest="shown-1"))
    assert won.won
    assert won.operation == store.get("op-1")
    assert (won.operation.attempt, won.operation.approval_id) == (1, "ap-1")
    approval = store.get_approval("ap-1")
    assert (approval.status, approval.consumed_at) == (ApprovalStatus.CONSUMED, 1000.0)
    assert not store.claim(claim_for(approval_digest="shown-1")).won


def test_threads_consume_an_approval_once(store):
    approved(store)
    wish = [claim_for(owner=f"o{n}", approval_digest="shown-1") for n in range(6)]
    wins = race(6, lambda n: store.claim(wish[n]))
    assert sum(result.won for result in wins) == 1


def test_approval_of_other_arguments_is_no_approval(store):
    approved(store)
    lost = store.claim(claim_for(approval_digest="shown-1", args_digest="args-2"))
    assert (lost.won, lost.reason) == (False, ClaimReason.EXISTS)
    assert store.get_approval("ap-1").status is ApprovalStatus.APPROVED


def test_approval_expires_by_the_ledgers_clock(store, clock):
    approved(store, ttl=10.0)
    clock.time += 10
    lost = store.claim(claim_for(approval_digest="shown-1"))
    assert (lost.won, lost.reason) == (False, ClaimReason.APPROVAL_EXPIRED)
    assert lost.operation.status is S.EXPIRED
    assert store.get("op-1") == lost.operation
    assert store.get_approval("ap-1").status is ApprovalStatus.EXPIRED
    row, approval = store.request_approval(request_for(), wanted(identifier="ap-2"))
    assert (row.status, approval.approval_id) == (S.AWAITING_APPROVAL, "ap-2")


def test_decision_after_expiry(store, clock):
    store.request_approval(request_for(), wanted(ttl=10.0))
    clock.time += 10
    decided, approval = store.decide("ap-1", True, "boss")
    assert (decided, approval.status) == (False, ApprovalStatus.EXPIRED)
    assert store.get("op-1").status is S.EXPIRED


def test_expire_approvals(store, clock):
    for number in range(3):
        name = f"op-{number}"
        store.request_approval(request_for(name), wanted(identifier=name, ttl=10.0 + number))
    store.decide("op-1", True, "boss")
    clock.time += 11
    expired = store.expire_approvals()
    assert [row.operation_id for row in expired] == ["op-0", "op-1"]
    assert all(row == store.get(row.operation_id) for row in expired)
    assert {row.status for row in expired} == {S.EXPIRED}
    assert store.expire_approvals() == []
    assert kinds(store, "op-1") == ["approval_requested", "approved", "expired"]


def test_renewing_an_expired_approval_says_so(store, clock):
    store.request_approval(request_for(), wanted(ttl=10.0))
    clock.time += 10
    store.request_approval(request_for(), wanted(identifier="ap-2"))
    assert store.get_approval("ap-1").status is ApprovalStatus.EXPIRED
    assert kinds(store) == ["approval_requested", "expired", "approval_requested"]


# --- reading and keeping --------------------------------------------------------------------------


def test_remote_ref(store):
    store.claim(claim_for())
    assert store.set_remote_ref("op-1", "me", 1, "remote-7")
    assert store.get("op-1").remote_ref == "remote-7"
    assert not store.set_remote_ref("op-1", "you", 1, "x")
    assert not store.set_remote_ref("op-1", "me", 2, "x")
    store.settle("op-1", "me", 1, outcome(S.SUCCEEDED))
    assert not store.set_remote_ref("op-1", "me", 1, "x")
    assert store.get("op-1").remote_ref == "remote-7"


def test_list_operations(store):
    for name in ("b", "a", "Z", "é", "\U0001f600", "z"):
        store.claim(claim_for(name, tenant="acme" if name != "z" else "globex"))
    store.settle("a", "me", 1, outcome(S.SUCCEEDED))

    def listed(**how: Any) -> list[str]:
        return [row.operation_id for row in store.list_operations(**how)]

    assert listed() == ["Z", "a", "b", "z", "é", "\U0001f600"]
    assert listed(after="b", limit=2) == ["z", "é"]
    assert listed(statuses=[S.SUCCEEDED]) == ["a"]
    assert listed(statuses=iter([S.IN_FLIGHT, S.NEEDS_RECONCILE]), tenant="globex") == ["z"]
    assert listed(statuses=[S.SUCCEEDED, S.IN_FLIGHT], limit=3) == ["Z", "a", "b"]
    assert listed(statuses=[]) == []


def test_purge_keeps_what_fences_the_id(store, clock):
    store.claim(claim_for("done"))
    store.settle("done", "me", 1, outcome(S.SUCCEEDED, b'{"n":1}'))
    store.claim(claim_for("open"))
    clock.time += 10
    assert store.purge_results(1000.0) == 0
    assert store.purge_results(1001.0) == 1
    assert store.purge_results(1001.0) == 0
    row = store.get("done")
    assert (row.request.arguments_json, row.result_json) == (None, None)
    assert (row.status, row.result_digest, row.result_bytes) == (S.SUCCEEDED, "digest-7", 7)
    assert kinds(store, "done") == ["dispatched", "settled", "purged"]
    assert not store.claim(claim_for("done", owner="you")).won
    assert store.get("open").request.arguments_json is not None


def test_forget_opens_the_id_again(store, clock):
    approved(store)
    store.claim(claim_for(approval_digest="shown-1"))
    store.claim(claim_for("open"))
    store.settle("op-1", "me", 1, outcome(S.SUCCEEDED))
    clock.time += 1
    assert store.forget(1000.5) == 1
    assert store.get("op-1") is None
    assert store.events("op-1") == []
    assert store.get_approval("ap-1") is None
    assert store.get("open") is not None
    assert store.claim(claim_for()).won


def test_unknown_ids(store):
    for call in (
        lambda: store.settle("no", "me", 1, outcome(S.SUCCEEDED)),
        lambda: store.resolve("no", outcome(S.SUCCEEDED), "ops", {}),
        lambda: store.set_remote_ref("no", "me", 1, "x"),
        lambda: store.decide("no", True, "boss"),
        lambda: store.claim(claim_for("no", retry_attempt=1)),
        lambda: store.claim(claim_for("no", approval_digest="shown-1")),
    ):
        with pytest.raises(UnknownOperation):
            call()
    assert store.list_operations() == []


def test_events_count_from_one_and_have_known_types(store):
    approved(store)
    store.claim(claim_for(approval_digest="shown-1"))
    store.request_cancel(request_for(), "ann")
    store.settle("op-1", "me", 1, outcome(S.NEEDS_RECONCILE))
    store.resolve("op-1", outcome(S.SUCCEEDED), "ops", {})
    events = store.events("op-1")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert {event.type for event in events} <= EVENT_TYPES
    assert events[-1].data["status"] == store.get("op-1").status.value


def test_values_survive_as_they_are(store):
    strange = "quote \" ' % :name @operation \\ \n é \U0001f600"
    store.claim(claim_for("op %s :x", principal=strange, arguments_json=b"\x00\xff{}"))
    row = store.get("op %s :x")
    assert row.request.principal == strange
    assert row.request.arguments_json == b"\x00\xff{}"
    settlement = Settlement(S.NEEDS_RECONCILE, b"\x00", "d", 2**40, True, "unknown", "TimeoutError")
    row = store.settle(row.operation_id, "me", 1, settlement).operation
    assert row == store.get(row.operation_id)
    assert (row.result_truncated, row.result_bytes, row.error_class) == (
        True,
        2**40,
        "TimeoutError",
    )


def test_closed_store_says_so(store):
    store.claim(claim_for())
    store.close()
    store.close()
    for call in (
        lambda: store.get("op-1"),
        lambda: store.claim(claim_for()),
        lambda: store.settle("op-1", "me", 1, outcome(S.SUCCEEDED)),
        lambda: store.recover(),
    ):
        with pytest.raises(StoreClosed):
            call()


def test_another_store_on_the_same_data_sees_it(shared_ledger, clock):
    first, second = shared_ledger.open(clock), shared_ledger.open(clock)
    row = first.claim(claim_for()).operation
    assert second.get("op-1") == row
    assert not second.claim(claim_for(owner="you")).won
    first.close()
    settled = second.settle("op-1", "me", 1, outcome(S.SUCCEEDED, b"{}"))
    assert settled.applied
    third = shared_ledger.open(clock)
    assert third.get("op-1") == settled.operation
    assert third.events("op-1") == second.events("op-1")
