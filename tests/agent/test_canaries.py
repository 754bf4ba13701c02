"""The watch over the whole suite notices what it is there for."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from agent_tools import ALPHA, Remote
from canaries import Watch
from click.testing import CliRunner
from gnomon.agent import SqliteOperationStore
from gnomon.cli import cli
from ledgers import claim_for
from traces import good

CANARY = "cAnArY-77aa01"


@pytest.fixture
def watch() -> Watch:
    return Watch()


def test_a_log_record_is_noticed(watch: Watch) -> None:
    record = logging.LogRecord("gnomon", 20, __file__, 1, "%s", (CANARY,), None)
    watch.emit(record)
    assert len(watch.found) == 1


def test_a_span_is_noticed(watch: Watch) -> None:
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    with pytest.MonkeyPatch.context() as patch:
        watch.spans(patch)
        tracer = trace.TracerProvider().get_tracer("test")
        Remote().runtime(tracer=tracer).dispatch("write", ALPHA, "op-1")
        assert (watch.looks["span"], watch.found) == (1, [])


def test_what_a_command_prints_is_noticed(watch: Watch, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(good()))
    with pytest.MonkeyPatch.context() as patch:
        watch.cli(patch)
        CliRunner().invoke(cli, ["gate", str(file)])
    assert (watch.looks["cli"], watch.found) == (1, [])
    watch.look("cli", f"rule G801: {CANARY}")
    watch.look("cli", 'canary 0 of the policy; {"canaries": ["sk-canary"]}')
    assert len(watch.found) == 1


def test_a_ledger_file_is_noticed(watch: Watch, no_canary_leaves: Watch, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteOperationStore, "close", no_canary_leaves.unwatched)
        watch.ledgers(patch)
        with SqliteOperationStore(tmp_path / "a.db", store_arguments="digest") as store:
            store.claim(claim_for(arguments_json=CANARY.encode()))
        assert (watch.looks["ledger"] >= 1, watch.found) == (True, [])
        with SqliteOperationStore(tmp_path / "b.db", store_arguments="digest") as store:
            store.claim(claim_for(f"op-{CANARY}"))
    assert len(watch.found) >= 1
