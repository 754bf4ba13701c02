"""Function tools for the OpenAI Agents SDK whose calls go through the ledger.

The SDK tells a model "Please try again." when a tool raised, and hands a timeout back as a result;
a tool that had acted acts again. Here the second proposal of the same action gets the recorded
answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .bridge import Bridge, missing, reply

if TYPE_CHECKING:
    from agents import FunctionTool


def ledger_tools(bridge: Bridge) -> list[FunctionTool]:
    """The runtime's tools as ``agents.FunctionTool`` objects for ``Agent(tools=...)``.

    The SDK's own timeout and approval stay off: a limit belongs to ``Tool.limits``, an approval to
    ``Tool.approval``, where they are recorded. Arguments reach the runtime as the model wrote them.
    """
    try:
        from agents import FunctionTool
    except ImportError as error:
        raise missing("openai-agents", error) from None

    def invoke(name: str) -> Any:
        async def on_invoke_tool(context: Any, arguments: str) -> str:
            return reply(await bridge.acall_text(name, arguments))

        return on_invoke_tool

    return [
        FunctionTool(
            name=tool.name,
            description=tool.purpose,
            params_json_schema=tool.contract.model_schema,
            on_invoke_tool=invoke(tool.name),
            # The strict mode of the provider would rewrite the schema that the ledger checks.
            strict_json_schema=False,
        )
        for tool in bridge.tools
    ]
