"""Tools and a tool node for LangGraph whose calls go through the ledger.

A graph that is resumed runs an unfinished node from its beginning: a tool that had acted acts
again, two resumes of one approval act twice. Here the node finds the recorded answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from .bridge import Bridge, missing, reply

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool
    from langgraph.prebuilt import ToolNode

OnApproval = Literal["answer", "interrupt"]


def ledger_tools(bridge: Bridge) -> list[BaseTool]:
    """The runtime's tools as LangChain tools, for ``model.bind_tools`` and for ``ToolNode``.

    Raises ValueError for a tool with an argument named "config", "run_manager" or "callbacks",
    which LangChain takes for itself.
    """
    try:
        from langchain_core.tools import StructuredTool
    except ImportError as error:
        raise missing("langgraph", error) from None
    tools: list[BaseTool] = []
    for tool in bridge.tools:
        schema = tool.contract.model_schema
        taken = {"config", "run_manager", "callbacks"} & schema.get("properties", {}).keys()
        if taken:
            raise ValueError(
                f"tool {tool.name!r} has arguments {sorted(taken)}, which LangChain reserves"
            )
        tools.append(
            StructuredTool(
                name=tool.name,
                description=tool.purpose,
                args_schema=schema,
                func=_function(bridge, tool.name),
                coroutine=_coroutine(bridge, tool.name),
            )
        )
    return tools


def _function(bridge: Bridge, name: str) -> Callable[..., str]:
    def call(**arguments: Any) -> str:
        return reply(bridge.call(name, arguments))

    return call


def _coroutine(bridge: Bridge, name: str) -> Callable[..., Any]:
    async def call(**arguments: Any) -> str:
        return reply(await bridge.acall(name, arguments))

    return call


def ledger_tool_node(
    bridge: Bridge,
    *,
    on_approval: OnApproval = "answer",
    scope: Callable[[Mapping[str, Any]], str] | None = None,
    **options: Any,
) -> ToolNode:
    """A ``langgraph.prebuilt.ToolNode`` that dispatches each tool call of the last message.

    ``scope(config)`` gives the business scope of a run, e.g. its thread id:
    ``lambda config: config["configurable"]["thread_id"]``; default: the bridge's. With
    ``on_approval="interrupt"`` a call that waits for approval interrupts the graph with the answer
    as its value; whatever it is resumed with, the ledger's decision counts. Further options go to
    ToolNode.
    """
    try:
        from langchain_core.messages import ToolMessage
        from langchain_core.runnables.config import ensure_config
        from langgraph.prebuilt import ToolNode
        from langgraph.types import interrupt
    except ImportError as error:
        raise missing("langgraph", error) from None
    if on_approval not in ("answer", "interrupt"):
        raise ValueError(f"on_approval must be 'answer' or 'interrupt', got {on_approval!r}")

    def scoped() -> Bridge:
        return bridge if scope is None else bridge.in_scope(scope(ensure_config()))

    def message(request: Any, answer: dict[str, Any]) -> ToolMessage:
        call, status = request.tool_call, answer.get("status")
        return ToolMessage(
            reply(answer),
            name=call["name"],
            tool_call_id=call["id"],
            artifact=answer,
            status="success" if status == "succeeded" else "error",
        )

    def waits(answer: dict[str, Any]) -> bool:
        return on_approval == "interrupt" and answer.get("status") == "awaiting_approval"

    def run(request: Any, execute: Any) -> ToolMessage:
        call, here = request.tool_call, scoped()
        answer = here.call(call["name"], call["args"])
        if waits(answer):
            interrupt(answer)
            answer = here.call(call["name"], call["args"])
        return message(request, answer)

    async def arun(request: Any, execute: Any) -> ToolMessage:
        call, here = request.tool_call, scoped()
        answer = await here.acall(call["name"], call["args"])
        if waits(answer):
            interrupt(answer)
            answer = await here.acall(call["name"], call["args"])
        return message(request, answer)

    return ToolNode(ledger_tools(bridge), wrap_tool_call=run, awrap_tool_call=arun, **options)
