"""OpenAI Agents SDK: an obedient model, a lost answer, with the ledger and without."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from adapter_bench import lossy_write, runtime_of, sound_write
from gnomon.agent.adapters.bridge import Bridge
from gnomon.agent.testing import EffectCounter

pytest.importorskip("agents", reason="the extra 'adapters' is not installed: openai-agents")
pytestmark = pytest.mark.filterwarnings("default")

from agents import Agent, Runner, function_tool, set_tracing_disabled  # noqa: E402
from agents.items import ModelResponse  # noqa: E402
from agents.models.interface import Model  # noqa: E402
from agents.usage import Usage  # noqa: E402
from gnomon.agent.adapters.openai_agents import ledger_tools  # noqa: E402
from openai.types.responses import (  # noqa: E402
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

set_tracing_disabled(True)


class ObedientModel(Model):
    """Proposes each of these argument texts once, then ends; keeps what it was told."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.told: list[str] = []

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        items = kwargs["input"] if "input" in kwargs else args[1]
        outputs = [] if isinstance(items, str) else items
        self.told = [
            item["output"]
            for item in outputs
            if isinstance(item, dict) and item.get("type") == "function_call_output"
        ]
        return ModelResponse(output=[self.next()], usage=Usage(), response_id=None)

    def next(self) -> Any:
        if self.texts:
            return ResponseFunctionToolCall(
                arguments=self.texts.pop(0),
                call_id=f"call_{len(self.texts)}",  # a new id for every proposal
                name="write",
                type="function_call",
            )
        text = ResponseOutputText(text="done", type="output_text", annotations=[])
        return ResponseOutputMessage(
            id="m", content=[text], role="assistant", status="completed", type="message"
        )

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def run(model: ObedientModel, tools: list[Any]) -> list[str]:
    agent = Agent(name="a", model=model, tools=tools)
    asyncio.run(Runner.run(agent, "write the project"))
    return model.told


@pytest.fixture
def log(tmp_path: Path) -> EffectCounter:
    return EffectCounter(tmp_path / "effects")


SAME = ['{"project":"alpha"}', '{ "project": "alpha" }', '{"project":"alpha"}']


def test_d4_three_effects_alone_and_one_with_the_ledger(log: EffectCounter, tmp_path: Path) -> None:
    write = lossy_write(log)

    @function_tool(name_override="write")
    def alone(project: str) -> str:
        """Write a project."""
        return str(write(project))

    assert "try again" in run(ObedientModel(*SAME), [alone])[0]
    assert log.count == 3

    ours = EffectCounter(tmp_path / "ours")
    bridge = Bridge(runtime_of(tmp_path, lossy_write(ours)), "ann", "task-1")
    told = [json.loads(text) for text in run(ObedientModel(*SAME), ledger_tools(bridge))]
    assert [answer["status"] for answer in told] == ["needs_reconcile"] * 3
    assert {answer["operation_id"] for answer in told} == {
        bridge.operation_id("write", {"project": "alpha"})
    }
    assert "Do not repeat" in told[0]["advice"]
    assert ours.count == 1


def test_a_recorded_result_is_given_again(log: EffectCounter, tmp_path: Path) -> None:
    bridge = Bridge(runtime_of(tmp_path, sound_write(log)), "ann", "task-1")
    told = run(ObedientModel(*SAME), ledger_tools(bridge))
    assert told == ['{"count":1,"project":"alpha","status":"succeeded"}'] * 3
    assert log.count == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"project":"a","count":true}',
        '{"project":"a","count":"5"}',
        '{"project":"a","admin":true}',
        '{"project":"a","count":NaN}',
        '{"project":"a","project":"b"}',
        '{"project":"a","count":12345678901234567890}',
        "[" * 100 + "]" * 100,
        "{",
        "[]",
        "",
    ],
)
def test_j1_v1_arguments_are_read_strictly(log: EffectCounter, tmp_path: Path, text: str) -> None:
    bridge = Bridge(runtime_of(tmp_path, sound_write(log)), "ann", "task-1")
    (told,) = run(ObedientModel(text), ledger_tools(bridge))
    answer = json.loads(told)
    assert (answer["status"], answer["reason"]) == ("refused", "invalid_arguments")
    assert answer["problems"]
    assert log.count == 0


def test_the_model_sees_the_contracts_schema(log: EffectCounter, tmp_path: Path) -> None:
    bridge = Bridge(runtime_of(tmp_path, sound_write(log)), "ann", "task-1")
    (tool,) = ledger_tools(bridge)
    assert tool.params_json_schema == bridge.tools[0].contract.model_schema
    assert (tool.name, tool.description) == ("write", "Write a project.")
