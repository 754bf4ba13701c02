"""The loop within its budget: each dimension held before the act, on every path."""

from __future__ import annotations

import time
from typing import Any

import pytest
from agent_tools import Gate, until
from gnomon.agent import Limits, Tool
from gnomon.agent.budget import Budget, BudgetMeter
from gnomon.agent.gate import validate
from gnomon.agent.loop import run_agent
from loop_world import SCHEMA, World, busy, judged, never, script, tool


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize(
    ("budget", "dimension", "effects"),
    [
        (Budget(steps=2), "steps", 2),
        (Budget(tokens=20), "tokens", 2),
        (Budget(tokens=25), "tokens", 2),
        (Budget(cost_micros=6), "cost_micros", 2),
        (Budget(writes=1), "writes", 1),
        (Budget(writes=0), "writes", 0),
        (Budget(risk=3), "risk", 3),
        (Budget(risk=0), "risk", 0),
        (Budget(result_bytes=30), "result_bytes", 2),
        (Budget(writes=2, risk=1), "risk", 1),
    ],
)
def test_b1_each_dimension_ends_the_run_by_its_name(
    budget: Budget, dimension: str, effects: int, world: World
) -> None:
    world.settings = {}
    outcome = run_agent(busy, world.runtime, {}, never, 9, budget=budget)
    assert (outcome["status"], outcome["exhausted"]) == ("budget_exhausted", dimension)
    assert (outcome["reason"], len(world.effects)) == ("budget_exhausted", effects)
    assert outcome["task"]["exhausted"] == dimension
    if budget != Budget(tokens=25):  # there the model said more than was held
        judged(outcome)


def test_b1_an_estimate_keeps_the_run_within_its_tokens(world: World) -> None:
    outcome = judged(
        run_agent(
            busy,
            world.runtime,
            {},
            never,
            9,
            budget=Budget(tokens=25),
            estimate=lambda state: {"tokens": 10},
        )
    )
    assert (outcome["exhausted"], outcome["usage"]["tokens"], len(world.effects)) == (
        "tokens",
        20,
        2,
    )


def test_b1_wall_time(world: World) -> None:
    now = [100.0]

    def slow(project: str) -> dict[str, Any]:
        now[0] += 6.0
        return {"status": "succeeded"}

    world.answers = [slow] * 9
    outcome = run_agent(
        busy, world.runtime, {}, never, 9, budget=Budget(seconds=10), clock=lambda: now[0]
    )
    assert (outcome["status"], outcome["exhausted"]) == ("budget_exhausted", "seconds")
    assert len(world.effects) == 2
    assert validate(outcome["trace"]) == []


def test_b1_the_error_path_is_counted_too(world: World) -> None:
    world.answers = [{"status": "failed"}] * 9
    outcome = judged(run_agent(busy, world.runtime, {}, never, 9, budget=Budget(writes=2)))
    assert (outcome["exhausted"], len(world.effects)) == ("writes", 2)
    bad = {**tool(), "arguments": {}, "usage": {"tokens": 10}}
    outcome = judged(
        run_agent(lambda state: bad, world.runtime, {}, never, 9, budget=Budget(tokens=30))
    )
    assert (outcome["exhausted"], outcome["usage"]["steps"]) == ("tokens", 3)


def test_b1_replays_are_no_writes(world: World) -> None:
    outcome = judged(
        run_agent(lambda state: tool(), world.runtime, {}, never, 4, budget=Budget(writes=1))
    )
    assert (outcome["exhausted"], outcome["usage"]["writes"], world.effects) == (
        "steps",
        1,
        ["alpha"],
    )
    assert [step.get("replayed", False) for step in outcome["trace"]["steps"]] == [
        False,
        True,
        True,
        True,
    ]


@pytest.mark.parametrize("bad", [float("nan"), -5, 10**400, "many", True])
def test_b1_a_report_that_is_no_count_ends_a_limited_run(bad: Any, world: World) -> None:
    def policy(state: dict[str, Any]) -> dict[str, Any]:
        return tool(usage={"cost_micros": bad})

    outcome = judged(run_agent(policy, world.runtime, {}, never, 5, budget=Budget(cost_micros=100)))
    assert (outcome["exhausted"], world.effects) == ("cost_micros", [])
    world.answers = [{"status": "succeeded", "usage": {"tokens": bad if bad == -5 else -1}}]
    outcome = judged(
        run_agent(script(tool()), world.runtime, {}, never, 5, budget=Budget(tokens=9))
    )
    assert (outcome["exhausted"], len(world.effects)) == ("tokens", 1)


def test_b1_a_run_within_a_run_shares_the_budget(world: World) -> None:
    meter = BudgetMeter(Budget(writes=3))
    inner = {"n": 100}
    first = judged(run_agent(busy, world.runtime, {}, never, 2, budget=meter))
    second = judged(run_agent(busy, world.runtime, inner, never, 9, budget=meter))
    assert (first["exhausted"], second["exhausted"]) == ("steps", "writes")
    assert len(world.effects) == 3


def test_an_answer_over_the_budget_is_not_an_answer(world: World) -> None:
    answer = {"kind": "answer", "text": "x", "usage": {"tokens": 50}}
    outcome = run_agent(script(answer), world.runtime, {}, never, 5, budget=Budget(tokens=10))
    assert (outcome["status"], outcome["exhausted"]) == ("budget_exhausted", "tokens")


def test_b1_a_tool_gets_no_more_time_than_the_run_has_left() -> None:
    gate = Gate()
    world = World()
    world.answers = [lambda project: gate() or {"status": "succeeded"}]
    began = time.monotonic()
    outcome = run_agent(script(tool()), world.runtime, {}, never, 5, budget=Budget(seconds=0.2))
    assert time.monotonic() - began < 5
    assert (outcome["status"], outcome["unsettled"]) == ("needs_reconcile", ["op1"])
    assert outcome["events"][0]["result"]["reason"] == "timeout"
    gate.open()
    until(lambda: world.runtime.operations["op1"]["status"] == "succeeded")


def test_b1_a_tools_own_timeout_holds_where_it_is_shorter() -> None:
    gate = Gate()
    world = World()
    world.tools["write"] = Tool("write", SCHEMA, 1, lambda project: gate(), limits=Limits(20))
    began = time.monotonic()
    outcome = run_agent(script(tool()), world.restart(), {}, never, 5, budget=Budget(seconds=60))
    assert time.monotonic() - began < 5
    assert outcome["events"][0]["result"]["reason"] == "timeout"
    gate.open()


@pytest.mark.parametrize("left", [0.0, -1.0, lambda: 0.0])
def test_b1_nothing_is_started_without_time(world: World, left: Any) -> None:
    answer = world.runtime.dispatch("write", {"project": "a"}, "op1", timeout=left)
    assert (answer["status"], world.effects) == ("not_executed", [])
    later = world.runtime.dispatch("write", {"project": "a"}, "op1", timeout=lambda: None)
    assert (later["status"], world.effects) == ("succeeded", ["a"])


@pytest.mark.parametrize("bad", ["1", float("nan"), True, lambda: "1"])
def test_a_timeout_that_is_none_is_named(world: World, bad: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="timeout"):
        world.runtime.dispatch("write", {"project": "a"}, "op1", timeout=bad)
    assert world.effects == []
