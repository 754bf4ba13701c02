"""LangGraph: a resumed graph and a doubly resumed approval, with the ledger and without."""

from __future__ import annotations

import operator
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from adapter_bench import lossy_write, runtime_of, sound_write
from gnomon.agent import ApprovalPolicy, Approver
from gnomon.agent.adapters.bridge import Bridge
from gnomon.agent.testing import EffectCounter

pytest.importorskip("langgraph", reason="the extra 'adapters' is not installed: langgraph")
pytestmark = pytest.mark.filterwarnings("default")

from gnomon.agent.adapters.langgraph import ledger_tool_node, ledger_tools  # noqa: E402
from langchain_core.messages import AIMessage  # noqa: E402
from langchain_core.tools import tool as langchain_tool  # noqa: E402
from langgraph.checkpoint.memory import InMemorySaver  # noqa: E402
from langgraph.graph import END, START, StateGraph  # noqa: E402
from langgraph.prebuilt import ToolNode  # noqa: E402
from langgraph.types import Command, interrupt  # noqa: E402

CONFIG: Any = {"configurable": {"thread_id": "t1"}}


class State(TypedDict):
    messages: Annotated[list[Any], operator.add]


def graph_of(node: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("tools", node)
    builder.add_edge(START, "tools")
    builder.add_edge("tools", END)
    return builder.compile(checkpointer=InMemorySaver())


def proposal(call_id: str = "call_1", **arguments: Any) -> Any:
    arguments = arguments or {"project": "alpha"}
    call = {"name": "write", "args": arguments, "id": call_id, "type": "tool_call"}
    return {"messages": [AIMessage("", tool_calls=[call])]}


def answers(state: Any) -> list[dict[str, Any]]:
    return [message.artifact for message in state["messages"] if message.type == "tool"]


@pytest.fixture
def log(tmp_path: Path) -> EffectCounter:
    return EffectCounter(tmp_path / "effects")


def test_d4_a_resumed_node_acts_twice_alone_and_once_with_the_ledger(
    log: EffectCounter, tmp_path: Path
) -> None:
    write = lossy_write(log)

    @langchain_tool("write")
    def alone(project: str) -> str:
        """Write a project."""
        return str(write(project))

    graph = graph_of(ToolNode([alone], handle_tool_errors=False))
    with pytest.raises(TimeoutError):
        graph.invoke(proposal(), CONFIG)
    with pytest.raises(TimeoutError):
        graph.invoke(None, CONFIG)
    assert log.count == 2

    ours = EffectCounter(tmp_path / "ours")
    bridge = Bridge(runtime_of(tmp_path, lossy_write(ours)), "ann", "task-1")
    graph = graph_of(ledger_tool_node(bridge))
    for call_id in ("call_1", "call_7"):  # the model mints a new id for the same action
        (answer, *_) = answers(graph.invoke(proposal(call_id), CONFIG))
        assert answer["status"] == "needs_reconcile"
    assert ours.count == 1


KILLED = """
import os, signal, sys
sys.path[:0] = {path!r}
from pathlib import Path
from gnomon.agent.testing import EffectCounter
from adapter_bench import runtime_of
from test_adapters_langgraph import graph_of, proposal, CONFIG, ToolNode, langchain_tool
from gnomon.agent.adapters.bridge import Bridge
from gnomon.agent.adapters.langgraph import ledger_tool_node
log = EffectCounter(Path({log!r}))
def write(project: str, count: int = 1) -> dict:
    "Write a project."
    log.add(project)
    os.kill(os.getpid(), signal.SIGKILL)
def node():
    if {alone}:
        return ToolNode([langchain_tool("write")(write)])
    runtime = runtime_of(Path({folder!r}), write)
    return ledger_tool_node(Bridge(runtime, "ann", "task-1", wait=0))
for _ in range(2):  # two lives, forked from one process that imports all this once
    if os.fork() == 0:
        print(graph_of(node()).invoke(proposal(), CONFIG)["messages"][-1].content, flush=True)
        os._exit(0)
    print("exit", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


@pytest.mark.parametrize(("alone", "effects"), [(True, 2), (False, 1)])
def test_d1_killed_after_the_effect_and_asked_again(
    log: EffectCounter, tmp_path: Path, alone: bool, effects: int
) -> None:
    names = {"path": [str(Path(__file__).parent)], "log": str(log.path), "folder": str(tmp_path)}
    program = textwrap.dedent(KILLED.format(alone=alone, **names))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    first, *second = done.stdout.splitlines()
    assert first == f"exit {-signal.SIGKILL}", done.stderr
    assert log.count == effects
    if not alone:
        answer, exit_code = second
        assert exit_code == "exit 0", done.stderr
        assert '"status":"needs_reconcile"' in answer


def test_a1_an_approval_resumed_twice_acts_once(log: EffectCounter, tmp_path: Path) -> None:
    @langchain_tool("write")
    def alone(project: str) -> str:
        """Write a project."""
        interrupt("allow?")
        return str(sound_write(log)(project))

    start = graph_of(ToolNode([alone]))
    start.invoke(proposal(), CONFIG)
    saved = start.get_state(CONFIG).config  # the point at which it waits
    for _ in range(2):
        start.invoke(Command(resume=True), saved)
    assert log.count == 2

    ours = EffectCounter(tmp_path / "ours")
    runtime = runtime_of(tmp_path, sound_write(ours), approval=True)
    policy = ApprovalPolicy(approvers=(Approver("boss", max_risk=1),))
    runtime = type(runtime)(runtime.tools, 0, runtime.store, approvals=policy)
    graph = graph_of(ledger_tool_node(Bridge(runtime, "ann", "task-1"), on_approval="interrupt"))
    waiting = graph.invoke(proposal(), CONFIG)["__interrupt__"][0].value
    assert waiting["status"] == "awaiting_approval"
    saved = graph.get_state(CONFIG).config
    # Resuming is not approving: the ledger decides.
    (answer,) = answers(graph.invoke(Command(resume=True), saved))
    assert (answer["status"], ours.count) == ("awaiting_approval", 0)
    runtime.approvals.approve(waiting["approval_id"], "boss")
    for _ in range(2):
        state = graph.invoke(Command(resume=True), saved)
        assert answers(state)[0]["status"] == "succeeded"
    assert ours.count == 1


def test_v1_arguments_are_not_coerced(log: EffectCounter, tmp_path: Path) -> None:
    bridge = Bridge(runtime_of(tmp_path, sound_write(log)), "ann", "task-1")
    graph = graph_of(ledger_tool_node(bridge))
    for value in (True, "5", 5.5, 2**53):
        state = graph.invoke(proposal(project="a", count=value), CONFIG)
        assert answers(state)[-1]["reason"] == "invalid_arguments"
    state = graph.invoke(proposal(project="a", admin=True), CONFIG)
    assert answers(state)[-1]["reason"] == "invalid_arguments"
    assert log.count == 0


def test_the_tools_alone_go_through_the_ledger_too(log: EffectCounter, tmp_path: Path) -> None:
    bridge = Bridge(runtime_of(tmp_path, lossy_write(log)), "ann", "task-1")
    (tool,) = ledger_tools(bridge)
    assert tool.args_schema == bridge.tools[0].contract.model_schema
    for _ in range(3):
        assert '"needs_reconcile"' in tool.invoke({"project": "alpha"})
    assert log.count == 1


def test_the_scope_may_be_the_thread(log: EffectCounter, tmp_path: Path) -> None:
    bridge = Bridge(runtime_of(tmp_path, sound_write(log)), "ann", "none")
    node = ledger_tool_node(bridge, scope=lambda config: config["configurable"]["thread_id"])
    graph = graph_of(node)
    for thread in ("t1", "t2", "t1"):
        graph.invoke(proposal(), {"configurable": {"thread_id": thread}})
    assert log.count == 2


def test_equal_calls_in_one_message_act_once(log: EffectCounter, tmp_path: Path) -> None:
    bridge = Bridge(runtime_of(tmp_path, sound_write(log)), "ann", "task-1")
    both = [proposal("call_1")["messages"][0].tool_calls[0] for _ in range(2)]
    both[1] = {**both[1], "id": "call_2"}
    state = graph_of(ledger_tool_node(bridge)).invoke(
        {"messages": [AIMessage("", tool_calls=both)]}, CONFIG
    )
    assert [answer["status"] for answer in answers(state)] == ["succeeded"] * 2
    assert log.count == 1


@pytest.mark.anyio
async def test_the_asynchronous_node(log: EffectCounter, tmp_path: Path) -> None:
    bridge = Bridge(runtime_of(tmp_path, lossy_write(log)), "ann", "task-1")
    graph = graph_of(ledger_tool_node(bridge))
    for _ in range(2):
        state = await graph.ainvoke(proposal(), CONFIG)
        assert answers(state)[-1]["status"] == "needs_reconcile"
    assert log.count == 1


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
