"""Breaks the promise on purpose, one way at a time, and shows which test notices.

    python tests/agent/mutants.py [--without-control] [NAME...]

Each mutant is a change of the source, made in a temporary copy of the package. Its test must be red
on the copy and is green on the unchanged one. A change that no longer fits the source is an error:
a mutant that is not applied would be "not noticed" for the wrong reason. --without-control leaves
out the run on the unchanged source, for where the whole suite runs anyway.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import shutil
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

import anyio.from_thread  # noqa: F401
import hypothesis.stateful  # noqa: F401
import jsonschema_rs  # noqa: F401  (all that every child would import again, except gnomon)
import numpy  # noqa: F401
import pytest

HERE = Path(__file__).resolve().parent
KILLED_AT_EACH_POINT = (
    "test_crash.py::test_d1_killed_at_each_point_with_and_without_a_rival[sqlite]"
)


@dataclass(frozen=True)
class Mutant:
    """Changes of files of gnomon.agent (file, old text, new text), and the test that notices.

    `because` stands in the failure: a copy that merely crashes would be red as well.
    """

    name: str
    changes: tuple[tuple[str, str, str], ...]
    test: str
    because: str


for optional in ("psycopg", "opentelemetry.trace", "tenacity", "rfc8785"):
    with contextlib.suppress(ImportError):
        importlib.import_module(optional)

MUTANTS = (
    Mutant(
        "a claim overwrites what is there (upsert)",
        (
            (
                "store_sql.py",
                'ON CONFLICT (operation_id) DO NOTHING\n"""',
                "ON CONFLICT (operation_id) DO UPDATE SET owner = excluded.owner, "
                'claim_token = excluded.claim_token\n"""',
            ),
        ),
        "test_store.py::test_threads_claim_one_id_once[sqlite]",
        "assert sum(result.won for result in wins) == 1",
    ),
    Mutant(
        "a claim looks first and inserts afterwards",
        (
            (
                "store_base.py",
                "            with self.transaction(durable=claim.durable) as tx:\n",
                "            free = self.get(wish.request.operation_id) is None\n"
                "            __import__('time').sleep(0.01)\n"
                "            with self.transaction(durable=claim.durable) as tx:\n"
                "                if free:\n"
                "                    for table in ('operation', 'operation_event'):\n"
                "                        tx.change(f'DELETE FROM @{table} WHERE operation_id = '\n"
                "                                  ':operation_id', vars(wish.request))\n",
            ),
        ),
        "test_store.py::test_threads_claim_one_id_once[sqlite]",
        "assert sum(result.won for result in wins) == 1",
    ),
    Mutant(
        "a claim in PostgreSQL overwrites what is there (upsert)",
        (
            (
                "store_sql.py",
                "ON CONFLICT (operation_id) DO NOTHING RETURNING",
                "ON CONFLICT (operation_id) DO UPDATE SET owner = excluded.owner, "
                "claim_token = excluded.claim_token RETURNING",
            ),
        ),
        "test_store.py::test_threads_claim_one_id_once[postgres]",
        "assert sum(result.won for result in wins) == 1",
    ),
    Mutant(
        "a claim in memory looks first and inserts afterwards",
        (
            (
                "memory_store.py",
                "        with self._transaction() as now:\n"
                "            row = self._rows.get(request.operation_id)\n"
                "            lost",
                "        row = self._rows.get(request.operation_id)\n"
                "        __import__('time').sleep(0.01)\n"
                "        with self._transaction() as now:\n"
                "            lost",
            ),
        ),
        "test_store.py::test_threads_claim_one_id_once[memory]",
        "assert sum(result.won for result in wins) == 1",
    ),
    Mutant(
        "the tool is executed before the claim",
        (
            (
                "dispatch.py",
                "                won: ClaimResult = yield Do(core.store.claim, (claim,))\n",
                "                early = prepared.entry.tool.execute(**prepared.arguments)\n"
                "                from .effects import Returned\n"
                "                self.early = Returned(early)\n"
                "                won: ClaimResult = yield Do(core.store.claim, (claim,))\n",
            ),
            ("dispatch.py", "= yield run\n", "= self.early\n"),
        ),
        KILLED_AT_EACH_POINT,
        'assert summary["double_executions"] == 0',
    ),
    Mutant(
        "the claim is committed after the tool was executed",
        (
            (
                "store_rules.py",
                '        event(tx, new, "dispatched", wish.owner, _S.IN_FLIGHT)\n',
                "        tx.change('DELETE FROM @operation WHERE operation_id = :operation_id',\n"
                "                  vars(request))\n"
                "        vars(claim).setdefault('later', {})[request.operation_id] = wish\n",
            ),
            (
                "store_rules.py",
                "    row = known(tx, operation_id)\n"
                "    status = row.settles_as(settlement.status)\n",
                "    wish = vars(claim).get('later', {}).pop(operation_id, None)\n"
                "    if wish is not None:\n"
                "        insert(tx, wish.request, _S.IN_FLIGHT, attempt=1, owner=wish.owner)\n"
                "    row = known(tx, operation_id)\n"
                "    status = row.settles_as(settlement.status)\n",
            ),
        ),
        KILLED_AT_EACH_POINT,
        'assert summary["double_executions"] == 0',
    ),
    Mutant(
        "an operation whose lease is over is claimed again",
        (
            (
                "store_rules.py",
                "        if new is None:\n            return ClaimResult",
                "        if new is None:\n"
                "            old = known(tx, request.operation_id)\n"
                "            if old.lease_until is not None and old.lease_until < tx.now:\n"
                "                for table in ('operation', 'operation_event'):\n"
                "                    tx.change(f'DELETE FROM @{table} WHERE operation_id = '\n"
                "                              ':operation_id', vars(request))\n"
                "                return claim(tx, wish, token)\n"
                "            return ClaimResult",
            ),
        ),
        "test_store.py::test_claim_of_a_dead_owner_still_loses[sqlite]",
        'assert not store.claim(claim_for(owner="you")).won',
    ),
    Mutant(
        "the record is deleted when the tool raises",
        (
            (
                "attempts.py",
                '        """Record an outcome; None where',
                '        if settlement.reason == "exception":\n'
                "            with self._store.transaction() as tx:\n"
                "                tx.change('DELETE FROM @operation WHERE operation_id = '\n"
                "                          ':operation_id', vars(row.request))\n"
                "            return None\n"
                '        """Record an outcome; None where',
            ),
        ),
        "test_runtime.py::test_response_lost_after_success[sqlite]",
        "TimeoutError: response was lost",
    ),
    Mutant(
        "only Exception is settled",
        (
            (
                "runtime.py",
                "        except BaseException as error:\n            return Raised(error)",
                "        except Exception as error:\n            return Raised(error)",
            ),
            (
                "dispatch.py",
                "            except BaseException as error:\n                if called",
                "            except Exception as error:\n                if called",
            ),
        ),
        "test_runtime.py::test_c2_base_exceptions_settle_and_go_on[sqlite-error0]",
        "IN_FLIGHT: 'in_flight'> != ",
    ),
    Mutant(
        "anybody may settle",
        (
            (
                "store_rules.py",
                "    if (row.owner, row.attempt) == (owner, attempt):\n        late",
                "    if True:\n        late",
            ),
        ),
        "test_store.py::test_settle_by_another_changes_nothing[sqlite-you-1]",
        "assert not settled.applied",
    ),
    Mutant(
        "the approval is not consumed by the claim",
        (
            (
                "store_rules.py",
                "    if tx.change(sql.APPROVAL_CONSUME, wanted) == 1:\n        return None\n",
                "    return None\n",
            ),
        ),
        "test_store_approvals.py::test_approval_is_consumed_in_the_claim[sqlite]",
        "ClaimReason.APPROVAL_MISMATCH",
    ),
    Mutant(
        "a lost commit is read back by owner only",
        (
            (
                "store_base.py",
                "        if found and found[0][0] == token:\n",
                "        if found:\n",
            ),
        ),
        "test_sqlite_store.py::test_claim_lost_to_the_same_owner_while_its_commit_failed",
        "assert (lost.won, lost.reason) == (False, ClaimReason.EXISTS)",
    ),
    Mutant(
        "recovery takes what is alive",
        (
            (
                "store_sql.py",
                "status = 'in_flight' AND lease_until < :now\nORDER",
                "status = 'in_flight'\nORDER",
            ),
            (
                "store_sql.py",
                "operation_id AND status = 'in_flight' AND lease_until < :now",
                "operation_id AND status = 'in_flight'",
            ),
        ),
        "test_store.py::test_recover_only_what_is_dead[sqlite]",
        "(lost,) = store.recover()",
    ),
    Mutant(
        "not_executed is believed while the tool may still run",
        (
            (
                "store_rules.py",
                "    if needs_end and row.may_run(tx.now):\n",
                "    if False:\n",
            ),
            (
                "store_sql.py",
                "(:needs_end = 0 OR lease_until IS NULL OR lease_until < :now)",
                "(:needs_end = 0 OR 1 = 1)",
            ),
        ),
        "test_still_running.py::test_another_runtime_cannot_start_it_again[sqlite]",
        "DID NOT RAISE",
    ),
    Mutant(
        "a tool that nobody waits for has no lease",
        (
            (
                "dispatch.py",
                "running=True) if abandoned else None",
                "running=False) if abandoned else None",
            ),
        ),
        "test_still_running.py::test_another_runtime_cannot_start_it_again[sqlite]",
        "DID NOT RAISE",
    ),
    Mutant(
        "a claim does not wait for the disk",
        (("sqlite_store.py", '("FULL", "NORMAL", "NORMAL")', '("NORMAL", "NORMAL", "NORMAL")'),),
        "test_sqlite_store.py::test_settings_of_the_file_and_its_connections",
        'pragma(store._durable, "synchronous") == 2',
    ),
)


def copy_of_package(folder: Path) -> Path:
    """A package gnomon whose agent half is a copy, and the rest links; the copy's folder."""
    spec = importlib.util.find_spec("gnomon")
    assert spec is not None
    assert spec.submodule_search_locations
    source = Path(next(iter(spec.submodule_search_locations)))
    package = folder / "gnomon"
    package.mkdir()
    for entry in source.iterdir():
        if entry.name not in ("agent", "__pycache__"):
            (package / entry.name).symlink_to(entry)
    shutil.copytree(source / "agent", package / "agent")  # with times and compiled files
    return package / "agent"


def apply(agent: Path, mutant: Mutant) -> dict[Path, str]:
    """Change the copy; the files as they were."""
    before: dict[Path, str] = {}
    for name, old, new in mutant.changes:
        path = agent / name
        text = path.read_text()
        before.setdefault(path, text)
        if text.count(old) != 1:
            raise ValueError(
                f"{mutant.name!r} does not fit {name}: {text.count(old)} times {old!r}"
            )
        path.write_text(text.replace(old, new))
    return before


def outcome_of(tests: list[str], folder: Path) -> tuple[int, str]:
    """Exit status of pytest on these tests against the copy, and what it printed.

    In a child by fork, because pytest and hypothesis take longer to import than most tests to run.
    """
    report = folder / "report"
    child = os.fork()
    if child == 0:
        status = 99
        try:
            sys.path.insert(0, str(folder))
            sys.dont_write_bytecode = True
            os.environ.update(
                PYTHONPATH=str(folder),
                PYTHONDONTWRITEBYTECODE="1",
                PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
                GNOMON_CRASH_RUNS="0",
            )
            paths = [f"{HERE / test}" for test in tests]
            with open(report, "w") as text, contextlib.redirect_stdout(text):
                status = int(pytest.main(["-q", "-p", "no:cacheprovider", "--tb=short", *paths]))
                agent = sys.modules["gnomon.agent"].__file__ or ""
                if not agent.startswith(str(folder)):
                    status = 98
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, report.read_text()


def run(names: list[str], control: bool) -> list[str]:
    """What went wrong: mutants that nobody noticed."""
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    faults = []
    with tempfile.TemporaryDirectory(prefix="gnomon-mutants-") as folder:
        agent = copy_of_package(Path(folder))
        if control:
            status, text = outcome_of(sorted({mutant.test for mutant in chosen}), Path(folder))
            if status != pytest.ExitCode.OK:
                return [f"the tests are not green on the unchanged source ({status}):\n{text}"]
        for mutant in chosen:
            before = apply(agent, mutant)
            status, text = outcome_of([mutant.test], Path(folder))
            noticed = status == pytest.ExitCode.TESTS_FAILED and mutant.because in text
            print(f"{'red  ' if noticed else 'GREEN'}  {mutant.name}: {mutant.test}")
            if not noticed:
                faults.append(f"{mutant.name} (exit {status}):\n{text}")
            for path, source in before.items():
                path.write_text(source)
    return faults


if __name__ == "__main__":
    assert isinstance(sys.stdout, io.TextIOBase)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[attr-defined]
    names = [name for name in sys.argv[1:] if name != "--without-control"]
    found = run(names, control=len(names) == len(sys.argv) - 1)
    sys.exit("\n".join(found) if found else 0)
