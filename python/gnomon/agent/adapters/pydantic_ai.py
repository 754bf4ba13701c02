"""A toolset for pydantic-ai whose calls go through the ledger.

pydantic-ai marks a tool that timed out as "retried" and the model calls it again. Here the second
call of the same action gets the recorded answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..jsontext import loads_strict
from .bridge import Bridge, missing, reply

if TYPE_CHECKING:
    from pydantic_ai.toolsets import FunctionToolset


class StrictArguments:
    """Reads a call's arguments without changing them: no coercion, no duplicate keys, no NaN.

    Whether they fit the tool is the runtime's question; its answer reaches the model as data.
    """

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> dict[str, Any]:
        """The object in a JSON text. What is none comes back under a key that no tool takes."""
        try:
            value = loads_strict(input or "{}")
        except ValueError as error:
            return {"": f"not readable as JSON: {error}"}
        return self.validate_python(value)

    def validate_python(self, input: Any, **_: Any) -> dict[str, Any]:
        """The object itself."""
        return input if isinstance(input, dict) else {"": "arguments must be an object"}


def ledger_toolset(bridge: Bridge) -> FunctionToolset[Any]:
    """The runtime's tools as a toolset for ``Agent(toolsets=[...])``; any deps type will do."""
    try:
        from pydantic_ai import Tool as FrameworkTool
        from pydantic_ai.toolsets import FunctionToolset
    except ImportError as error:
        raise missing("pydantic-ai-slim", error) from None

    def function(name: str) -> Any:
        async def call(**arguments: Any) -> str:
            return reply(await bridge.acall(name, arguments))

        return call

    tools = []
    for tool in bridge.tools:
        framework_tool = FrameworkTool.from_schema(
            function(tool.name),
            name=tool.name,
            description=tool.purpose,
            json_schema=tool.contract.model_schema,
        )
        framework_tool.function_schema.validator = StrictArguments()
        framework_tool.max_retries = 0  # an answer is never an error that the framework repeats
        tools.append(framework_tool)
    return FunctionToolset(tools)
