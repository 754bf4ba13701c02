"""The three ledgers as one parametrised fixture, and small makers of requests."""

from __future__ import annotations

import itertools
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import postgres
import pytest
from gnomon.agent.memory_store import MemoryOperationStore
from gnomon.agent.operations import OperationStore
from gnomon.agent.records import (
    Claim,
    NewApproval,
    OperationRequest,
    OperationStatus,
    Settlement,
)
from gnomon.agent.sqlite_store import SqliteOperationStore
from gnomon.agent.testing import SimClock

NO_SERVER = "PostgreSQL is not installed (apt-get install postgresql) or psycopg is missing"
_schemas = itertools.count()


@dataclass
class Ledger:
    """One kind of ledger: `open` gives a store; each call with the same place shares its data."""

    kind: str
    place: Any = None
    stores: list[OperationStore] = field(default_factory=list)

    @property
    def durable(self) -> bool:
        return self.kind != "memory"

    def open(self, clock: Callable[[], float] | None = None, **options: Any) -> Any:
        if clock is not None:
            options["clock"] = clock
        store: Any
        if self.kind == "memory":
            store = MemoryOperationStore(**options)
        elif self.kind == "sqlite":
            store = SqliteOperationStore(self.place, **options)
        else:
            from gnomon.agent.postgres_store import PostgresOperationStore

            conninfo, schema = self.place
            store = PostgresOperationStore(conninfo, schema=schema, **options)
        self.stores.append(store)
        return store

    def arguments(self) -> list[str]:
        """The place as command-line arguments of a worker program."""
        return [self.kind, *([str(self.place)] if self.kind == "sqlite" else self.place)]

    def close(self) -> None:
        for store in self.stores:
            store.close()


def new_ledger(kind: str, folder: Path, conninfo: str | None = None) -> Ledger:
    place: Any = None
    if kind == "sqlite":
        place = folder / f"ledger-{next(_schemas)}.db"
    elif kind == "postgres":
        place = (conninfo, f"test_{next(_schemas)}")
    return Ledger(kind, place)


@pytest.fixture(scope="session")
def quick_folder() -> Iterator[Path]:
    """A folder where a sync is free, for tests that sync often and do not ask what a sync does."""
    with tempfile.TemporaryDirectory(prefix="gnomon-", dir=postgres.short_folder()) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The conninfo of a server that lives as long as the test run."""
    pytest.importorskip("psycopg", reason=NO_SERVER)
    if postgres.binaries() is None:
        pytest.skip(NO_SERVER)
    with postgres.server_in_temporary_folder() as conninfo:
        yield conninfo


def _ledger(request: pytest.FixtureRequest, quick_folder: Path) -> Iterator[Ledger]:
    kind = request.param
    conninfo = request.getfixturevalue("postgres_server") if kind == "postgres" else None
    ledger = new_ledger(kind, quick_folder, conninfo)
    yield ledger
    ledger.close()


ledger = pytest.fixture(params=["memory", "sqlite", "postgres"], name="ledger")(_ledger)
shared_ledger = pytest.fixture(params=["sqlite", "postgres"], name="shared_ledger")(_ledger)


def request_for(
    operation_id: str = "op-1",
    *,
    tenant: str = "acme",
    principal: str = "ann",
    tool: str = "write",
    args_digest: str = "args-1",
    arguments_json: bytes | None = b'{"project":"alpha"}',
    **more: Any,
) -> OperationRequest:
    return OperationRequest(
        operation_id, tenant, principal, tool, "contract-1", args_digest, arguments_json, **more
    )


def claim_for(operation_id: str = "op-1", owner: str = "me", lease: float = 30.0, **more: Any):
    wish = {name: more.pop(name) for name in ("approval_digest", "retry_attempt") if name in more}
    return Claim(request_for(operation_id, **more), owner, lease, **wish)


def outcome(status: OperationStatus, result: bytes | None = None, **more: Any) -> Settlement:
    size = len(result or b"")
    return Settlement(status, result, f"digest-{size}" if size else "", size, **more)


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def store(ledger: Ledger, clock: SimClock) -> Any:
    return ledger.open(clock)


def wanted(digest: str = "shown-1", identifier: str = "ap-1", ttl: float = 60.0) -> NewApproval:
    return NewApproval(identifier, digest, "ann", "policy-1", ttl)


def kinds(store: Any, operation_id: str = "op-1") -> list[str]:
    """Types of the operation's events."""
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
