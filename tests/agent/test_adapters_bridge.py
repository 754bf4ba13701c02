"""What all adapters share, without any framework."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from adapter_bench import SCHEMA, lossy_write, runtime_of, sound_write
from gnomon.agent import AsyncToolRuntime, StoreClosed, Tool
from gnomon.agent.adapters.bridge import ADVICE, Bridge, reply
from gnomon.agent.testing import EffectCounter


@pytest.fixture
def log(tmp_path: Path) -> EffectCounter:
    return EffectCounter(tmp_path / "effects")


def test_a_lost_answer_is_one_effect_however_often_it_is_asked(
    log: EffectCounter, tmp_path: Path
) -> None:
    bridge = Bridge(runtime_of(tmp_path, lossy_write(log)), "ann", "invoice-7")
    answers = [bridge.call("write", {"project": "alpha"}) for _ in range(3)]
    assert [answer["status"] for answer in answers] == ["needs_reconcile"] * 3
    assert [answer["reason"] for answer in answers] == ["exception"] * 3
    assert log.count == 1


def test_a_new_process_finds_the_recorded_answer(log: EffectCounter, tmp_path: Path) -> None:
    first = Bridge(runtime_of(tmp_path, sound_write(log)), "ann", "invoice-7")
    second = Bridge(runtime_of(tmp_path, sound_write(log)), "ann", "invoice-7")
    one, two = first.call("write", {"project": "a"}), second.call("write", {"project": "a"})
    assert one == two == {"status": "succeeded", "project": "a", "count": 1}
    assert log.count == 1


def test_two_scopes_tenants_or_principals_are_two_actions(
    log: EffectCounter, tmp_path: Path
) -> None:
    bridge = Bridge(runtime_of(tmp_path, sound_write(log)), "ann", "invoice-7")
    others = [
        bridge.in_scope("invoice-8"),
        Bridge(bridge.runtime, "bob", "invoice-7"),
        Bridge(bridge.runtime, "ann", "invoice-7", tenant="umbra"),
    ]
    for each in [bridge, *others]:
        assert each.call("write", {"project": "a"})["status"] == "succeeded"
    assert log.count == 4
    assert len({each.operation_id("write", {"project": "a"}) for each in [bridge, *others]}) == 4


def test_a_scope_may_follow_from_the_call_and_is_asked_once(
    log: EffectCounter, tmp_path: Path
) -> None:
    asked: list[str] = []

    def scope(name: str, arguments: Any) -> str:
        asked.append(name)
        return f"invoice-{arguments['project']}"

    bridge = Bridge(runtime_of(tmp_path, sound_write(log)), "ann", scope)
    bridge.call("write", {"project": "a"})
    assert asked == ["write"]


@pytest.mark.parametrize(
    "arguments",
    [{}, {"project": 5}, {"project": "a", "admin": True}, {"project": "a", "count": True}, [], None]
    + [{"project": "a", "count": value} for value in (2.0, "5", 2**53, float("nan"))],
)
def test_bad_arguments_are_data_and_execute_nothing(
    log: EffectCounter, tmp_path: Path, arguments: Any
) -> None:
    bridge = Bridge(runtime_of(tmp_path, sound_write(log)), "ann", "s")
    answer = bridge.call("write", arguments)
    assert (answer["status"], answer["reason"]) == ("refused", "invalid_arguments")
    assert json.loads(reply(answer))["advice"] == "Nothing was executed."
    assert log.count == 0


def test_refusals_by_policy_are_data(log: EffectCounter, tmp_path: Path) -> None:
    runtime = runtime_of(tmp_path, sound_write(log))
    runtime.max_risk = 0
    bridge = Bridge(runtime, "ann", "s")
    assert bridge.call("write", {"project": "a"}) == {
        "status": "refused",
        "reason": "not_permitted",
    }
    assert bridge.call("delete", {})["reason"] == "unknown_tool"
    assert log.count == 0


def test_what_another_caller_has_under_the_id_is_not_shown(
    log: EffectCounter, tmp_path: Path
) -> None:
    bridge = Bridge(runtime_of(tmp_path, sound_write(log)), "ann", "s")
    operation_id = bridge.operation_id("write", {"project": "a"})
    bridge.runtime.dispatch("write", {"project": "eve's"}, operation_id, principal="eve")
    assert bridge.call("write", {"project": "a"}) == {
        "status": "refused",
        "reason": "operation_conflict",
    }
    assert log.count == 1


def test_a_closed_runtime_is_no_answer(log: EffectCounter, tmp_path: Path) -> None:
    runtime = runtime_of(tmp_path, sound_write(log))
    runtime.close()
    with pytest.raises(StoreClosed):
        Bridge(runtime, "ann", "s").call("write", {"project": "a"})


def test_asynchronous_tools_and_text_arguments(log: EffectCounter) -> None:
    async def write(project: str, count: int = 1) -> dict[str, Any]:
        log.add(project)
        raise TimeoutError("response was lost")

    async def main() -> list[dict[str, Any]]:
        tool = Tool("write", dict(SCHEMA), 1, write)
        async with AsyncToolRuntime({"write": tool}, max_risk=1) as runtime:
            bridge = Bridge(runtime, "ann", "s")
            with pytest.raises(TypeError, match="acall"):
                bridge.call("write", {"project": "a"})
            texts = ['{"project":"a"}', '{ "project": "a" }', '{"project":"a","project":"b"}', "{"]
            return [await bridge.acall_text("write", text) for text in texts]

    statuses = [answer["status"] for answer in asyncio.run(main())]
    assert statuses == ["needs_reconcile", "needs_reconcile", "refused", "refused"]
    assert log.count == 1


def test_equal_calls_at_once_get_one_result(log: EffectCounter, tmp_path: Path) -> None:
    def slow(project: str, count: int = 1) -> dict[str, Any]:
        import time

        time.sleep(0.2)
        return dict(sound_write(log)(project, count))

    bridge = Bridge(runtime_of(tmp_path, slow), "ann", "s")

    async def main() -> list[dict[str, Any]]:
        return await asyncio.gather(*(bridge.acall("write", {"project": "a"}) for _ in range(4)))

    assert asyncio.run(main()) == [{"status": "succeeded", "project": "a", "count": 1}] * 4
    assert log.count == 1


def test_every_answer_that_must_not_be_repeated_says_so() -> None:
    for status in ADVICE:
        assert json.loads(reply({"status": status}))["advice"] == ADVICE[status]
