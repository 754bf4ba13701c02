"""pydantic-ai: an obedient model, a tool that times out, with the ledger and without."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from adapter_bench import SCHEMA, runtime_of, sound_write
from gnomon.agent import AsyncToolRuntime, Limits, Tool
from gnomon.agent.adapters.bridge import Bridge
from gnomon.agent.testing import EffectCounter

pytest.importorskip("pydantic_ai", reason="the extra 'adapters' is not installed: pydantic-ai-slim")
pytestmark = pytest.mark.filterwarnings("default")

from gnomon.agent.adapters.pydantic_ai import ledger_toolset  # noqa: E402
from pydantic_ai import Agent  # noqa: E402
from pydantic_ai import Tool as FrameworkTool  # noqa: E402
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart  # noqa: E402
from pydantic_ai.models.function import FunctionModel  # noqa: E402


def obedient(*proposals: Any) -> tuple[FunctionModel, list[Any]]:
    """A model that proposes each of these once, and the list of what it was told."""
    left, told = list(proposals), []

    def answer(messages: Any, info: Any) -> ModelResponse:
        told[:] = [
            part
            for message in messages
            for part in message.parts
            if part.part_kind in ("tool-return", "retry-prompt")
        ]
        if not left:
            return ModelResponse(parts=[TextPart("done")])
        call_id = f"call_{len(left)}"
        return ModelResponse(parts=[ToolCallPart("write", left.pop(0), tool_call_id=call_id)])

    return FunctionModel(answer), told


@pytest.fixture
def log(tmp_path: Path) -> EffectCounter:
    return EffectCounter(tmp_path / "effects")


def slow_write(log: EffectCounter) -> Any:
    async def write(project: str, count: int = 1) -> dict[str, Any]:
        log.add(project)
        await asyncio.sleep(5)
        return {"status": "succeeded"}

    return write


SAME = ['{"project":"alpha"}', {"project": "alpha"}, '{ "project": "alpha" }']


def test_d4_three_effects_alone_and_one_with_the_ledger(log: EffectCounter, tmp_path: Path) -> None:
    write = slow_write(log)

    async def alone(project: str) -> str:
        return str(await write(project))

    model, _ = obedient(*SAME)
    tool = FrameworkTool(alone, name="write", timeout=0.1, max_retries=5)
    Agent(model, tools=[tool]).run_sync("write")
    assert log.count == 3

    ours = EffectCounter(tmp_path / "ours")
    model, told = obedient(*SAME)

    async def main() -> None:
        contract = Tool("write", dict(SCHEMA), 1, slow_write(ours), limits=Limits(timeout_ms=100))
        async with AsyncToolRuntime({"write": contract}, max_risk=1) as runtime:
            bridge = Bridge(runtime, "ann", "task-1")
            await Agent(model, toolsets=[ledger_toolset(bridge)]).run("write")

    asyncio.run(main())
    answers = [json.loads(part.content) for part in told]
    assert [answer["status"] for answer in answers] == ["needs_reconcile"] * 3
    assert [answer["reason"] for answer in answers] == ["timeout"] * 3
    assert [part.part_kind for part in told] == ["tool-return"] * 3
    assert ours.count == 1


def test_a1_one_approval_given_twice_is_one_effect(log: EffectCounter, tmp_path: Path) -> None:
    """The same history, run again, finds the recorded result."""
    bridge = Bridge(runtime_of(tmp_path, sound_write(log)), "ann", "task-1")
    for _ in range(2):
        model, told = obedient(SAME[0])
        Agent(model, toolsets=[ledger_toolset(bridge)]).run_sync("write")
        assert json.loads(told[0].content)["status"] == "succeeded"
    assert log.count == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"project": "a", "count": True},
        '{"project":"a","count":"5"}',
        {"project": "a", "admin": True},
        '{"project":"a","project":"b"}',
        '{"project":"a","count":NaN}',
        "{",
        "[]",
        "",
    ],
)
def test_j1_v1_arguments_are_read_strictly(
    log: EffectCounter, tmp_path: Path, arguments: Any
) -> None:
    bridge = Bridge(runtime_of(tmp_path, sound_write(log)), "ann", "task-1")
    model, told = obedient(arguments)
    Agent(model, toolsets=[ledger_toolset(bridge)]).run_sync("write")
    answer = json.loads(told[0].content)
    assert (answer["status"], answer["reason"]) == ("refused", "invalid_arguments")
    assert log.count == 0


def test_the_model_sees_the_contracts_schema(log: EffectCounter, tmp_path: Path) -> None:
    bridge = Bridge(runtime_of(tmp_path, sound_write(log)), "ann", "task-1")
    seen: list[Any] = []

    def answer(messages: Any, info: Any) -> ModelResponse:
        seen.extend(info.function_tools)
        return ModelResponse(parts=[TextPart("done")])

    Agent(FunctionModel(answer), toolsets=[ledger_toolset(bridge)]).run_sync("write")
    (definition,) = seen
    assert definition.parameters_json_schema == bridge.tools[0].contract.model_schema
    assert (definition.name, definition.description) == ("write", "Write a project.")
