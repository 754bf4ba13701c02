"""Random histories: each SQL ledger answers, stores and logs exactly what memory does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gnomon.agent.errors import InvalidTransition, UnknownOperation
from gnomon.agent.memory_store import MemoryOperationStore
from gnomon.agent.records import TRANSITIONS, NewApproval, OperationStatus, Settlement
from gnomon.agent.testing import SimClock
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import Ledger, claim_for, outcome, request_for

S = OperationStatus
IDS, OWNERS, DIGESTS = ("op-1", "op-2"), ("me", "you"), ("shown-1", "shown-2")

ids, owners, digests = st.sampled_from(IDS), st.sampled_from(OWNERS), st.sampled_from(DIGESTS)
attempts = st.integers(0, 3)
approvals = st.integers(0, 3).map("ap-{}".format)
callers = st.sampled_from([{}, {}, {}, {"args_digest": "args-2"}, {"principal": "eve"}])
results = st.sampled_from([None, b"{}", b'{"n":1}'])


def step(name: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(st.just(name), st.fixed_dictionaries(arguments))


STEPS = st.one_of(
    step("claim", i=ids, owner=owners, caller=callers),
    step("claim", i=ids, owner=owners, caller=callers, approval_digest=digests),
    step("claim", i=ids, owner=owners, caller=callers, retry_attempt=attempts),
    step(
        "claim",
        i=ids,
        owner=owners,
        caller=callers,
        retry_attempt=st.just(1),
        approval_digest=digests,
    ),
    step("abandon", i=ids, owner=owners, attempt=st.just(1)),
    step("settle", i=ids, owner=owners, attempt=attempts, status=st.sampled_from(S), r=results),
    step("settle", i=ids, owner=owners, attempt=st.just(1), status=st.sampled_from(S), r=results),
    step("resolve", i=ids, status=st.sampled_from(S), r=results),
    step("cancel", i=ids, caller=callers),
    step("ask", i=ids, caller=callers, digest=digests),
    step("decide", approval=approvals, approve=st.booleans()),
    step("heartbeat", owner=owners),
    step("remote_ref", i=ids, owner=owners, attempt=attempts),
    step("pass", seconds=st.sampled_from([1.0, 10.0, 100.0])),
    *(st.tuples(st.just(name), st.just({})) for name in ("recover", "expire", "purge", "forget")),
)


def perform(store: Any, clock: SimClock, name: str, a: dict[str, Any], fresh: str) -> Any:
    """One step on one store: its answer, or the type of its error."""
    wish = {key: a[key] for key in ("approval_digest", "retry_attempt") if key in a}
    try:
        if name == "claim":
            return store.claim(claim_for(a["i"], a["owner"], 30.0, **a["caller"], **wish))
        if name == "settle":
            return store.settle(a["i"], a["owner"], a["attempt"], outcome(a["status"], a["r"]))
        if name == "abandon":
            left = Settlement(S.NEEDS_RECONCILE, reason="timeout", running=True)
            return store.settle(a["i"], a["owner"], a["attempt"], left)
        if name == "resolve":
            return store.resolve(a["i"], outcome(a["status"], a["r"]), "ops", {"why": [1, None]})
        if name == "cancel":
            return store.request_cancel(request_for(a["i"], **a["caller"]), "ann")
        if name == "ask":
            new = NewApproval(fresh, a["digest"], "ann", "p", 50.0)
            return store.request_approval(request_for(a["i"], **a["caller"]), new)
        if name == "decide":
            return store.decide(a["approval"], a["approve"], "boss")
        if name == "heartbeat":
            return store.heartbeat(a["owner"], IDS, 30.0)
        if name == "remote_ref":
            return store.set_remote_ref(a["i"], a["owner"], a["attempt"], f"at {clock.time}")
        calls = {
            "recover": store.recover,
            "expire": store.expire_approvals,
            "purge": lambda: store.purge_results(clock.time - 5),
            "forget": lambda: store.forget(clock.time - 50),
        }
        return calls[name]()
    except (InvalidTransition, UnknownOperation) as error:
        return type(error), str(error)


def state(store: Any, approvals_made: int) -> Any:
    return (
        store.list_operations(),
        [store.events(name) for name in IDS],
        [store.get_approval(f"ap-{n}") for n in range(approvals_made)],
    )


def compare(store: Any, clock: SimClock, steps: list[Any]) -> None:
    model = MemoryOperationStore(clock=clock)
    before: dict[str, OperationStatus | None] = dict.fromkeys(IDS)
    for number, (name, arguments) in enumerate(steps):
        if name == "pass":
            clock.time += arguments["seconds"]
            continue
        fresh = f"ap-{number}"
        expected = perform(model, clock, name, arguments, fresh)
        assert perform(store, clock, name, arguments, fresh) == expected, (number, name)
        for row in model.list_operations():
            was = before[row.operation_id]
            # An expired approval that is asked for again passes two states in one transaction.
            if row.status is not was and not (name == "ask" and row.status is S.AWAITING_APPROVAL):
                assert name == "forget" or row.status in TRANSITIONS[was]
        before = {name: (r := model.get(name)) and r.status for name in IDS}
    assert state(store, len(steps)) == state(model, len(steps))


def same(ledger: Ledger, steps: list[Any]) -> None:
    """The steps on an emptied ledger and on one in memory."""
    clock = SimClock()
    store = ledger.open(clock)
    with store.transaction() as tx:
        for table in ("operation", "operation_event", "approval"):
            tx.change(f"DELETE FROM @{table}", {})
    compare(store, clock, steps)
    ledger.close()


histories = st.lists(STEPS, min_size=1, max_size=25)


@given(steps=histories)
@settings(max_examples=150)
def test_sqlite_is_like_memory(quick_folder: Path, steps: list[Any]) -> None:
    """One file for all examples: making tables costs more than the history."""
    same(Ledger("sqlite", quick_folder / "model.db"), steps)


@given(steps=histories)
@settings(max_examples=60)
def test_postgres_is_like_memory(postgres_server: str, steps: list[Any]) -> None:
    same(Ledger("postgres", (postgres_server, "test_model")), steps)
