"""What every ledger promises of approvals: decided once, used once, expired by its clock."""

from __future__ import annotations

from gnomon.agent.records import (
    ApprovalStatus,
    ClaimReason,
    OperationStatus,
)
from ledgers import approved, claim_for, kinds, race, request_for, wanted

S = OperationStatus


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
