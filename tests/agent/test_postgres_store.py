"""What only the PostgreSQL ledger has: a server that may go, its settings, its connections."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from gnomon.agent import store_sql as sql
from gnomon.agent.errors import StoreClosed, StoreUnavailable
from gnomon.agent.records import Claim, ClaimReason, OperationStatus
from ledgers import Ledger, claim_for, new_ledger, outcome, race

psycopg = pytest.importorskip("psycopg")

S = OperationStatus


@pytest.fixture
def ledger(postgres_server: str, tmp_path: Any) -> Any:
    made = new_ledger("postgres", tmp_path, postgres_server)
    yield made
    made.close()


class Broken:
    """A connection whose COMMIT raises: before it is done, or after it was done."""

    failures = 1

    def __init__(self, raw: Any, committed: bool, first: Any = None) -> None:
        self._raw, self._committed, self._first = raw, committed, first

    def execute(self, text: Any, *parameters: Any) -> Any:
        if text == "COMMIT" and self.failures:
            self.failures = 0
            if self._committed:
                self._raw.execute(text)
            self._raw.close()
            if self._first is not None:
                self._first()
            raise psycopg.OperationalError("connection lost")
        return self._raw.execute(text, *parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def break_next(store: Any, committed: bool, first: Any = None) -> None:
    store._idle[-1] = Broken(store._idle[-1], committed, first)


def terminate_connections(store: Any) -> None:
    with store._connection() as raw:
        raw.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND application_name = 'gnomon ledger'"
        )


def test_claims_wait_for_the_disk_and_outcomes_do_not(ledger):
    store = ledger.open()
    show = "SHOW synchronous_commit"
    with store.transaction(durable=True) as tx:
        assert tx.rows(show, {}) == [("on",)]
    with store.transaction(durable=False) as tx:
        assert tx.rows(show, {}) == [("off",)]
        assert tx.rows("SHOW transaction_isolation", {}) == [("read committed",)]


def test_a_sessions_default_cannot_weaken_a_claim(postgres_server, tmp_path):
    weak = f"{postgres_server} options='-c synchronous_commit=off'"
    ledger = new_ledger("postgres", tmp_path, weak)
    store = ledger.open()
    with store.transaction(durable=True) as tx:
        assert tx.rows("SHOW synchronous_commit", {}) == [("on",)]
    ledger.close()


def test_times_are_the_servers(ledger):
    store = ledger.open()
    before = store.now()
    row = store.claim(claim_for(lease=30.0)).operation
    assert before <= row.created_at <= store.now()
    assert row.lease_until == row.created_at + 30.0
    assert abs(store.now() - time.time()) < 60


def test_server_without_fsync_is_refused(ledger):
    from gnomon.agent.postgres_store import PostgresOperationStore

    conninfo, schema = ledger.place
    with psycopg.connect(conninfo, autocommit=True) as raw:

        def fsync(value: str) -> None:
            raw.execute(f"ALTER SYSTEM SET fsync TO {value}")
            raw.execute("SELECT pg_reload_conf()")
            for _ in range(200):
                with psycopg.connect(conninfo) as look:
                    if look.execute("SHOW fsync").fetchall() == [(value,)]:
                        return
                time.sleep(0.02)

        fsync("off")
        try:
            with pytest.raises(ValueError, match="fsync=off"):
                PostgresOperationStore(conninfo, schema=schema)
            PostgresOperationStore(conninfo, schema=schema, require_fsync=False).close()
        finally:
            fsync("on")
    assert ledger.open().claim(claim_for()).won


def test_connections_that_the_server_closed_are_replaced(ledger):
    store = ledger.open()
    store.claim(claim_for())
    terminate_connections(ledger.open())
    time.sleep(0.05)
    assert store.get("op-1").status is S.IN_FLIGHT
    terminate_connections(ledger.open())
    time.sleep(0.05)
    assert store.settle("op-1", "me", 1, outcome(S.SUCCEEDED)).applied


def test_server_that_goes_away_inside_a_transaction(ledger):
    store, killer = ledger.open(), ledger.open()

    def change_and_lose() -> None:
        with store.transaction() as tx:
            tx.change("UPDATE @schema_version SET applied_at = 0", {})
            terminate_connections(killer)
            time.sleep(0.05)
            tx.rows("SELECT 1", {})

    with pytest.raises(StoreUnavailable):
        change_and_lose()
    assert store.read("SELECT 1 FROM @schema_version WHERE applied_at = 0", {}) == []


def test_claim_whose_commit_answer_was_lost_is_won(ledger):
    store = ledger.open()
    break_next(store, committed=True)
    won = store.claim(claim_for())
    assert won.won
    assert store.get("op-1") == won.operation


def test_claim_that_was_not_committed_is_not_won(ledger):
    store = ledger.open()
    break_next(store, committed=False)
    with pytest.raises(StoreUnavailable, match="not started"):
        store.claim(claim_for())
    assert store.get("op-1") is None
    assert store.claim(claim_for()).won


def test_claim_lost_to_the_same_owner_while_its_commit_failed(ledger):
    store, twin = ledger.open(), ledger.open()
    break_next(store, committed=False, first=lambda: twin.claim(claim_for()))
    lost = store.claim(claim_for())
    assert (lost.won, lost.reason) == (False, ClaimReason.EXISTS)


@pytest.mark.parametrize("committed", [True, False])
def test_settle_whose_commit_answer_was_lost_is_applied_once(ledger, committed):
    store = ledger.open()
    store.claim(claim_for())
    break_next(store, committed)
    assert store.settle("op-1", "me", 1, outcome(S.SUCCEEDED, b"{}")).applied
    assert [event.type for event in store.events("op-1")] == ["dispatched", "settled"]


def test_more_threads_than_connections(ledger):
    store = ledger.open(max_connections=2)
    results: list[bool] = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(store.claim(claim_for(f"op-{n}")).won))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8
    assert len(store._idle) <= 2


def test_a_row_that_another_holds_is_waited_for_and_named(ledger):
    store, other = ledger.open(timeout=0.2), ledger.open()
    store.claim(claim_for())
    with other.transaction() as tx:
        tx.rows("SELECT 1 FROM @operation WHERE operation_id = 'op-1' @lock", {})
        with pytest.raises(StoreUnavailable, match="lock timeout"):
            store.settle("op-1", "me", 1, outcome(S.SUCCEEDED))
    assert store.settle("op-1", "me", 1, outcome(S.SUCCEEDED)).applied


def test_pool_of_one_that_is_busy_is_named(ledger):
    store = ledger.open(timeout=0.2, max_connections=1)
    with store.transaction(), pytest.raises(StoreUnavailable, match="max_connections"):
        store.get("op-1")


def test_two_processes_may_make_the_tables_at_once(ledger):
    made: list[Any] = []
    threads = [threading.Thread(target=lambda: made.append(ledger.open())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    assert made[0].read("SELECT component, version FROM @schema_version", {}) == [("operations", 1)]


def test_newer_tables_are_refused(ledger):
    store = ledger.open()
    with store.transaction() as tx:
        tx.change("INSERT INTO @schema_version VALUES ('operations', 99, 0)", {})
    with pytest.raises(ValueError, match="newer gnomon"):
        ledger.open()


@pytest.mark.parametrize("schema", ["", "Robert'); DROP", "x" * 64, "a-b", 'q"'])
def test_schema_names_cannot_carry_sql(postgres_server, schema):
    from gnomon.agent.postgres_store import PostgresOperationStore

    with pytest.raises(ValueError, match="schema must be"):
        PostgresOperationStore(postgres_server, schema=schema)


def test_a_server_that_is_not_there(tmp_path):
    from gnomon.agent.postgres_store import PostgresOperationStore

    with pytest.raises(StoreUnavailable):
        PostgresOperationStore(f"host={tmp_path} dbname=postgres user=gnomon password=hunter2")
    with pytest.raises(ValueError, match="conninfo"):
        PostgresOperationStore("host")


def test_errors_do_not_show_values(ledger):
    store = ledger.open()
    row = "INSERT INTO @schema_version VALUES ('canary-secret', 1, 0)"
    with store.transaction() as tx:
        tx.change(row, {})

    def insert_again() -> None:
        with store.transaction() as tx:
            tx.change(row, {})

    with pytest.raises(ValueError, match="refuses the row") as caught:
        insert_again()
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_closing_while_a_connection_is_out(ledger):
    store = ledger.open()
    with store.transaction() as tx:
        store.close()
        raw = tx.raw
    assert raw.closed
    with pytest.raises(StoreClosed):
        store.get("op-1")


def test_needs_the_extra(monkeypatch):
    import builtins

    from gnomon.agent.postgres_store import PostgresOperationStore

    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "psycopg":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"gnomon\[postgres\]"):
        PostgresOperationStore("host=/tmp")


def test_fixture_is_the_ledger_of_this_file(ledger: Ledger) -> None:
    assert ledger.kind == "postgres"


def test_writers_of_many_rows_do_not_wait_for_each_other(ledger):
    """Rows are written in one order and lie in another; a deadlock would be StoreUnavailable."""
    stores = [ledger.open(timeout=20.0) for _ in range(4)]
    for number in range(60):
        store = stores[number % 4]
        store.claim(claim_for(f"op-{number:02}"))
        store.settle(f"op-{number:02}", "me", 1, outcome(S.SUCCEEDED, b"{}"))
    with stores[0]._connection() as raw:
        raw.execute(
            f'UPDATE "{ledger.place[1]}".operation SET result_bytes = result_bytes '
            "WHERE operation_id IN ('op-07', 'op-03', 'op-44')"
        )
    after = stores[0].now() + 60

    def work(number: int) -> int:
        counted: int = stores[number].purge_results(after)
        return counted + (stores[number].forget(after) if number == 3 else 0)

    assert sum(race(4, work)) >= 60
    assert stores[0].list_operations() == []


def test_statements_that_lock_many_rows_lock_them_in_order():
    for statement in (sql.PURGE_LIST, sql.FORGET_LIST):
        assert statement.rstrip().endswith("ORDER BY operation_id @lock")


def round_trips(store: Any, path: Any, work: Any) -> int:
    """How often the server was asked and waited for, by the protocol's own record."""
    raw = store._idle[-1]
    with open(path, "wb") as record:
        raw.pgconn.trace(record.fileno())
        work()
        raw.pgconn.untrace()
    return path.read_text().count("ReadyForQuery")


@pytest.mark.parametrize("injected", [False, True])
def test_a_claim_takes_two_round_trips(ledger, tmp_path, injected):
    store = ledger.open(clock=(lambda: 1000.0) if injected else None)
    store.now()
    path = tmp_path / "protocol"
    assert round_trips(store, path, lambda: store.claim(claim_for())) == 2
    done = outcome(S.SUCCEEDED, b"{}")
    assert round_trips(store, path, lambda: store.settle("op-1", "me", 1, done)) == 4
    assert round_trips(store, path, lambda: store.get("op-1")) == 1


def test_a_claim_in_one_statement_writes_what_the_others_write(ledger, tmp_path):
    request = claim_for(
        arguments_json=b'{"project":"a%s\\\\ \' \xc3\xa4"}', business_scope="it's 50 % \\ done"
    ).request
    rows = []
    sqlite = new_ledger("sqlite", tmp_path)
    for store in (ledger.open(lambda: 1000.0), sqlite.open(lambda: 1000.0)):
        won = store.claim(Claim(request, "o'wner", 30.0))
        assert won.operation == store.get("op-1")
        rows.append((won.operation, store.events("op-1")))
    sqlite.close()
    assert rows[0] == rows[1]
