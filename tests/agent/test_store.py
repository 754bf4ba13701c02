"""What every ledger promises of claims, outcomes and leases: one suite over all three."""

from __future__ import annotations

import pytest
from gnomon.agent.errors import InvalidTransition
from gnomon.agent.operations import OperationStore
from gnomon.agent.records import (
    ApprovalStatus,
    ClaimReason,
    OperationStatus,
)
from ledgers import claim_for, kinds, outcome, race, request_for, wanted

S = OperationStatus


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


def test_a_retry_starts_without_the_old_reference(store):
    store.claim(claim_for())
    assert store.set_remote_ref("op-1", "me", 1, "theirs-1")
    store.settle("op-1", "me", 1, outcome(S.NOT_EXECUTED))
    again = store.claim(claim_for(owner="you", retry_attempt=1))
    assert again.won
    assert again.operation.remote_ref is None
    assert store.get("op-1").remote_ref is None


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
    assert (lost.status, lost.reason, lost.lease_until) == (S.NEEDS_RECONCILE, "owner_lost", 1005.0)
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


def test_heartbeat_of_a_slow_owner_brings_back_its_lease_and_not_its_state(store, clock):
    store.claim(claim_for(lease=1.0))
    clock.time += 2
    store.recover()
    assert store.get("op-1").lease_until == 1001.0
    assert store.heartbeat("me", ["op-1"], 20.0) == frozenset()
    assert store.get("op-1").status is S.NEEDS_RECONCILE
    assert store.get("op-1").lease_until == 1022.0


def test_heartbeat_gives_no_lease_to_what_has_ended(store, clock):
    store.claim(claim_for())
    store.settle("op-1", "me", 1, outcome(S.NEEDS_RECONCILE))
    assert store.heartbeat("me", ["op-1"], 20.0) == frozenset()
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
