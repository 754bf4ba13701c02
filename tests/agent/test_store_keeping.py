"""What every ledger promises of what it keeps: reading, purging, forgetting, closing."""

from __future__ import annotations

from typing import Any

import pytest
from gnomon.agent.errors import StoreClosed, UnknownOperation
from gnomon.agent.records import (
    EVENT_TYPES,
    OperationStatus,
    Settlement,
)
from ledgers import approved, claim_for, kinds, outcome, request_for

S = OperationStatus


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
