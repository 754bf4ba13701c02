"""What only the SQLite ledger has: one file, its modes, its fsyncs, its failures."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from gnomon.agent import sqlite_connection, sqlite_store
from gnomon.agent.errors import StoreClosed, StoreUnavailable
from gnomon.agent.file_lock import FileLock, network_file_system
from gnomon.agent.records import ClaimReason, OperationStatus
from gnomon.agent.sqlite_store import SqliteOperationStore
from gnomon.agent.testing import SimClock
from ledgers import claim_for, outcome

S = OperationStatus
SECRET = b"canary-7c1d-secret"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


class Broken:
    """A connection whose COMMIT raises: before it is done, or after it was done."""

    def __init__(self, raw: sqlite3.Connection, committed: bool) -> None:
        self._raw = raw
        self._committed = committed
        self.failures = 1

    def execute(self, text: str, *parameters: Any) -> Any:
        if text == "COMMIT" and self.failures:
            self.failures -= 1
            if self._committed:
                self._raw.execute(text)
            raise sqlite3.OperationalError("disk I/O error")
        return self._raw.execute(text, *parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def test_settings_of_the_file_and_its_connections(path):
    with SqliteOperationStore(path) as store:

        def pragma(connection: Any, name: str) -> Any:
            return connection.raw.execute(f"PRAGMA {name}").fetchone()[0]

        assert pragma(store._durable, "synchronous") == 2  # FULL
        assert pragma(store._relaxed, "synchronous") == 1  # NORMAL
        assert pragma(store._durable, "wal_autocheckpoint") == 0
        assert pragma(store._durable, "journal_mode") == "wal"
        assert pragma(store._durable, "application_id") == 0x474E4F4C
        assert pragma(store._durable, "user_version") == 1
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        with store.transaction() as tx:
            assert tx is store._durable
        with store.transaction(durable=False) as tx:
            assert tx is store._relaxed


def test_an_existing_file_is_never_opened_beside_sqlite(path, monkeypatch):
    """Closing a descriptor of it would drop the locks of all connections in the process."""
    first = SqliteOperationStore(path)
    opened: list[str] = []
    real = os.open

    def watch(name: Any, flags: int, *mode: int) -> int:
        fd = real(name, flags, *mode)
        opened.append(str(name))
        return fd

    monkeypatch.setattr(os, "open", watch)
    SqliteOperationStore(path).close()
    assert opened == [f"{path}-queue", f"{path}-lock"]
    first.close()


SYNCS = r"""
import sys
from gnomon.agent.sqlite_store import SqliteOperationStore
from ledgers import claim_for, outcome, OperationStatus
store = SqliteOperationStore(sys.argv[1], settle_durable=sys.argv[2] == "durable")
sys.stderr.write("START\n"); sys.stderr.flush()
for number in range(40):
    assert store.claim(claim_for(f"op-{number}")).won
    assert store.settle(f"op-{number}", "me", 1, outcome(OperationStatus.SUCCEEDED, b"{}")).applied
sys.stderr.write("END\n"); sys.stderr.flush()
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace to count fsyncs")
@pytest.mark.parametrize(("settle", "per_operation"), [("relaxed", 1), ("durable", 2)])
def test_one_fsync_for_each_new_operation(path, tmp_path, settle, per_operation):
    log = tmp_path / "strace"
    traced = ["strace", "-f", "-e", "trace=fsync,fdatasync,msync,write", "-o", str(log)]
    done = subprocess.run(
        [*traced, sys.executable, "-c", SYNCS, str(path), settle],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0 and "ptrace" in done.stderr:
        pytest.skip("this machine does not allow ptrace")
    assert done.returncode == 0, done.stderr
    text = log.read_text()
    between = text[text.index('"START') : text.index('"END')]
    assert len(re.findall(r"\b(?:fsync|fdatasync|msync)\(", between)) == 40 * per_operation


def test_log_is_folded_into_the_file_by_outcomes_only(path, monkeypatch):
    """The log stays bounded without a claim ever paying for it."""
    monkeypatch.setattr(sqlite_store, "_CHECKPOINT_PAGES", 20)
    with SqliteOperationStore(path) as store:
        for number in range(100):
            store.claim(claim_for(f"op-{number}"))
            store.settle(f"op-{number}", "me", 1, outcome(S.SUCCEEDED))
        assert os.path.getsize(f"{path}-wal") < 60 * 4200


def test_files_of_others_are_left_alone(tmp_path):
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as raw:
        raw.execute("CREATE TABLE t (x)")
    raw.close()
    before = other.read_bytes()
    with pytest.raises(ValueError, match="another program"):
        SqliteOperationStore(other)
    assert other.read_bytes() == before
    text = tmp_path / "notes.txt"
    text.write_text("these are notes, and long enough to have a header of a hundred bytes " * 4)
    with pytest.raises(ValueError, match="not a ledger"):
        SqliteOperationStore(text)


def test_newer_ledger_is_refused(path):
    SqliteOperationStore(path).close()
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA user_version = 99")
    raw.close()
    with pytest.raises(ValueError, match="newer gnomon"):
        SqliteOperationStore(path)


def test_migrations_are_kept_per_component(path):
    first = [["CREATE TABLE @note (body TEXT NOT NULL)"]]
    both = [*first, ["ALTER TABLE @note ADD COLUMN author TEXT"]]
    with SqliteOperationStore(path) as store:
        store.migrate("notes", first)
        store.migrate("notes", both)
        store.migrate("notes", both)
        with store.transaction() as tx:
            tx.change("INSERT INTO @note VALUES (:body, :author)", {"body": "b", "author": "a"})
        assert store.read("SELECT body, author FROM @note", {}) == [("b", "a")]
        with pytest.raises(ValueError, match="newer gnomon"):
            store.migrate("notes", first)


@pytest.mark.parametrize("bad", ["no/such/folder/ledger.db", "."])
def test_places_where_no_file_can_be(tmp_path, bad):
    with pytest.raises((ValueError, StoreUnavailable)):
        SqliteOperationStore(tmp_path / bad)


def test_a_lock_that_cannot_be_made(path):
    Path(f"{path}-lock").mkdir()
    with pytest.raises(StoreUnavailable, match="lock"):
        SqliteOperationStore(path)


def test_wrong_option_is_named(path):
    with pytest.raises(ValueError, match="store_arguments"):
        SqliteOperationStore(path, store_arguments="some")  # type: ignore[arg-type]


def test_network_file_systems_are_told_apart(tmp_path, monkeypatch):
    device = os.stat(tmp_path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    table = tmp_path / "mountinfo"
    for kind, expected in [("nfs4", "nfs4"), ("ext4", None), ("fuse.sshfs", "fuse.sshfs")]:
        table.write_text(
            f"21 1 0:99 / /elsewhere rw shared:1 - cifs //host/share rw\n"
            f"22 1 {number} / /data rw,relatime shared:2 master:1 - {kind} host:/export rw\n"
        )
        assert network_file_system(str(tmp_path), str(table)) == expected
    assert network_file_system(str(tmp_path), str(tmp_path / "absent")) is None
    monkeypatch.setattr(sqlite_connection, "network_file_system", lambda folder: "nfs4")
    with pytest.raises(ValueError, match=r"network file system \(nfs4\).*PostgresOperationStore"):
        SqliteOperationStore(tmp_path / "ledger.db")
    assert not (tmp_path / "ledger.db").exists()


@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_child_of_a_fork_may_not_use_the_parents_ledger(path):
    with SqliteOperationStore(path) as store:
        store.claim(claim_for())
        child = os.fork()
        if child == 0:
            try:
                store.get("op-1")
            except StoreUnavailable as error:
                store.close()  # does nothing
                with SqliteOperationStore(path) as own:
                    os._exit(0 if "fork" in str(error) and own.get("op-1") else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert store.settle("op-1", "me", 1, outcome(S.SUCCEEDED)).applied


def test_digest_only_storage_has_no_byte_of_the_arguments(path):
    secret = b'{"token":"' + SECRET + b'"}'
    store = SqliteOperationStore(path, store_arguments="digest")
    won = store.claim(claim_for(arguments_json=secret))
    assert won.operation.request.arguments_json is None
    assert won.operation.request.args_digest == "args-1"
    for file in (path, Path(f"{path}-wal")):
        assert SECRET not in file.read_bytes()
    store.close()
    assert SECRET not in path.read_bytes()


def test_purged_values_are_not_in_the_files_any_more(path):
    clock = SimClock()
    with SqliteOperationStore(path, clock=clock) as store:
        store.claim(claim_for(arguments_json=b"A" + SECRET))
        store.settle("op-1", "me", 1, outcome(S.SUCCEEDED, b"R" + SECRET * 500))
        assert SECRET in Path(f"{path}-wal").read_bytes()
        clock.time += 1
        assert store.purge_results(clock.time) == 1
        for file in (path, Path(f"{path}-wal")):
            assert SECRET not in file.read_bytes()


# --- failures -------------------------------------------------------------------------------------


def test_claim_whose_commit_answer_was_lost_is_won(path):
    with SqliteOperationStore(path) as store:
        store._durable.raw = Broken(store._durable.raw, committed=True)
        won = store.claim(claim_for())
        assert won.won
        assert store.get("op-1") == won.operation


def test_claim_that_was_not_committed_is_not_won(path):
    with SqliteOperationStore(path) as store:
        store._durable.raw = Broken(store._durable.raw, committed=False)
        with pytest.raises(StoreUnavailable, match="not started"):
            store.claim(claim_for())
        assert store.get("op-1") is None
        assert store.claim(claim_for()).won


def test_claim_lost_to_the_same_owner_while_its_commit_failed(path):
    """Owner and attempt are equal then: only the token of the call tells the two apart."""
    with SqliteOperationStore(path) as store, SqliteOperationStore(path) as twin:

        class Overtaken(Broken):
            def execute(self, text: str, *parameters: Any) -> Any:
                if text == "COMMIT" and self.failures:
                    self.failures = 0
                    self._raw.execute("ROLLBACK")
                    store._file_lock.release()
                    assert twin.claim(claim_for()).won
                    raise sqlite3.OperationalError("disk I/O error")
                return super().execute(text, *parameters)

        store._durable.raw = Overtaken(store._durable.raw, committed=False)
        lost = store.claim(claim_for())
        assert (lost.won, lost.reason) == (False, ClaimReason.EXISTS)


@pytest.mark.parametrize("committed", [True, False])
def test_settle_whose_commit_answer_was_lost_is_applied_once(path, committed):
    with SqliteOperationStore(path) as store:
        store.claim(claim_for())
        store._relaxed.raw = Broken(store._relaxed.raw, committed)
        settled = store.settle("op-1", "me", 1, outcome(S.SUCCEEDED, b"{}"))
        assert settled.applied
        assert store.get("op-1") == settled.operation
        assert [event.type for event in store.events("op-1")] == ["dispatched", "settled"]


FULL_DISK = r"""
import resource, signal, sys
from gnomon.agent.errors import StoreUnavailable
from gnomon.agent.sqlite_store import SqliteOperationStore
from ledgers import claim_for
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = SqliteOperationStore(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
won, refused = set(), 0
for number in range(60):
    try:
        wish = claim_for(f"op-{number}", arguments_json=b"x" * 20_000)
        if store.claim(wish).won:
            won.add(f"op-{number}")
    except StoreUnavailable:
        refused += 1
assert won and refused, (won, refused)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert {row.operation_id for row in store.list_operations()} == won
assert store.claim(claim_for("after")).won
store.close()
with SqliteOperationStore(sys.argv[1]) as again:
    assert {row.operation_id for row in again.list_operations()} == won | {"after"}
"""


def test_full_disk_refuses_and_recovers(path):
    """Every claim is either refused or there; afterwards the ledger works again."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_an_error_inside_a_transaction_undoes_it(path):
    with SqliteOperationStore(path) as store:
        spoil = "UPDATE @schema_version SET applied_at = 0"

        def change_and_fail() -> None:
            with store.transaction() as tx:
                assert tx.change(spoil, {}) == 1
                tx.change("no SQL", {})

        with pytest.raises(StoreUnavailable):
            change_and_fail()
        assert store.read("SELECT 1 FROM @schema_version WHERE applied_at = 0", {}) == []
        assert store.claim(claim_for()).won


def test_a_writer_that_holds_on_is_named_after_the_timeout(path):
    with SqliteOperationStore(path, timeout=0.2) as store, FileLock(str(path)) as lock:
        assert lock.acquire(1.0)
        with pytest.raises(StoreUnavailable, match="another process"):
            store.claim(claim_for())
        lock.release()
        assert store.claim(claim_for()).won
        raw = sqlite3.connect(path, isolation_level=None)
        raw.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked"):
            store.claim(claim_for("op-2"))
        assert store.get("op-1") is not None  # readers do not wait
        raw.execute("ROLLBACK")
        raw.close()


def test_reading_does_not_wait_for_a_writer(path):
    with SqliteOperationStore(path) as store:
        store.claim(claim_for())
        entered, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with store.transaction():
                entered.set()
                leave.wait(10)

        thread = threading.Thread(target=hold)
        thread.start()
        entered.wait(10)
        start = time.monotonic()
        assert store.get("op-1") is not None
        assert time.monotonic() - start < 8  # a blocked reader would wait 10
        leave.set()
        thread.join()


def test_close_waits_for_a_writer(path):
    store = SqliteOperationStore(path)
    entered = threading.Event()

    def write() -> None:
        with store.transaction() as tx:
            entered.set()
            time.sleep(0.1)
            tx.change("UPDATE @schema_version SET applied_at = 5", {})

    thread = threading.Thread(target=write)
    thread.start()
    entered.wait(10)
    store.close()
    thread.join()
    with pytest.raises(StoreClosed):
        store.claim(claim_for())
    with SqliteOperationStore(path) as again:
        assert again.read("SELECT 1 FROM @schema_version WHERE applied_at = 5", {}) == [(1,)]


def test_nul_is_refused_before_anything_is_written(path):
    with SqliteOperationStore(path) as store:
        with pytest.raises(ValueError, match="operation_id holds a NUL"):
            store.claim(claim_for("op\0"))
        assert store.list_operations() == []


def test_a_log_that_a_reader_holds_is_told(path):
    """Purged results still stand in the log then, and nobody may believe that they are gone."""
    clock = SimClock()
    with SqliteOperationStore(path, clock=clock, timeout=0.1) as store:
        store.claim(claim_for())
        store.settle("op-1", "me", 1, outcome(S.SUCCEEDED, b'{"canary":"purge-me-4711"}'))
        clock.advance(10)
        reader = sqlite3.connect(path)
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM operation").fetchone()
        with pytest.raises(StoreUnavailable, match="log"):
            store.purge_results(clock())
        assert store.get("op-1").result_json is None
        reader.close()
        assert store.purge_results(clock()) == 0  # nothing left to purge, but the log is emptied
        assert all(b"purge-me-4711" not in p.read_bytes() for p in path.parent.iterdir())
