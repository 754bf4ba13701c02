"""Tools of an MCP server as gnomon tools.

MCP has no idempotency key, and its error results are meant for the model to try again. An error
result of a tool that may write says nothing about what the server did, so it is "unknown" here and
the operation needs reconciliation; so does every broken connection and protocol error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..contract import Effect, Limits, Tool
from ..errors import NotExecuted
from ..problems import SchemaError
from .bridge import missing

#: JSON-RPC errors by which a server says that it found no such method or refused the parameters.
_REFUSALS = frozenset({-32601, -32602})


@dataclass(frozen=True)
class McpTools:
    """What a server offers: tools for a runtime, and those refused, each with the reason."""

    tools: dict[str, Tool]
    refused: dict[str, str]


async def mcp_tools(
    client: Any,
    risks: Mapping[str, int],
    *,
    trusted: bool = False,
    prefix: str = "",
    limits: Limits | None = None,
    not_executed: Callable[[Any], bool] | None = None,
    approval: bool = False,
) -> McpTools:
    """Tools for an AsyncToolRuntime out of a connected MCP client.

    Parameters
    ----------
    client : mcp.Client or mcp.ClientSession
        Connected; it is used whenever a tool runs.
    risks : mapping of tool name to risk
        Set by the host. A tool that is not named here is refused, so a server cannot add one.
    trusted : bool
        Whether the server's annotations are believed. Otherwise every tool is "destructive" and not
        idempotent, as the protocol's own defaults are.
    prefix : str
        Put before the names, to tell servers apart.
    limits : Limits, optional
    not_executed : callable, optional
        Given an error result, whether it proves that nothing was done.
    approval : bool
        Whether tools above the delegated risk wait for approval.

    The operation id goes along as ``_meta["gnomon/operation_id"]`` for servers that use it.

    An error result is "failed" only for a trusted tool that reads or is idempotent; "not executed"
    where ``not_executed`` says so; else "unknown". A schema that is refused (remote references,
    unknown keywords, no object) is in ``refused``.
    """
    try:
        from mcp import MCPError
    except ImportError as error:
        raise missing("mcp 2", error) from None
    tools: dict[str, Tool] = {}
    refused: dict[str, str] = {}
    for remote in await _all_tools(client):
        if remote.name not in risks:
            refused[remote.name] = "no risk was given for it"
            continue
        effect, idempotent = _hints(remote.annotations, trusted)
        judge = _Judge(effect == "read" or idempotent, trusted, not_executed, MCPError)
        properties = (remote.input_schema or {}).get("properties")
        sends_id = not (isinstance(properties, dict) and "operation_id" in properties)
        try:
            tool = Tool(
                prefix + remote.name,
                remote.input_schema,
                risks[remote.name],
                _execute(client, remote.name, judge, sends_id),
                purpose=remote.description or "",
                injected=frozenset({"operation_id"} if sends_id else ()),
                limits=limits or Limits(),
                effect=effect,
                idempotent=idempotent,
                approval=approval,
            )
        except (SchemaError, ValueError, TypeError) as error:
            refused[remote.name] = f"unusable contract: {error}"
        else:
            tools[tool.name] = tool
    return McpTools(tools, refused)


async def _all_tools(client: Any) -> list[Any]:
    """All pages, up to a hundred: a server whose pages never end must not hold the host."""
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(100):
        page = await (client.list_tools() if cursor is None else client.list_tools(cursor=cursor))
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return found
    raise ValueError("the server lists more than 100 pages of tools")


def _hints(annotations: Any, trusted: bool) -> tuple[Effect, bool]:
    if not trusted or annotations is None:
        return "destructive", False
    if annotations.read_only_hint is True:
        return "read", True
    effect: Effect = "write" if annotations.destructive_hint is False else "destructive"
    return effect, annotations.idempotent_hint is True


@dataclass(frozen=True)
class _Judge:
    """What an answer of the server says about the action."""

    harmless: bool
    trusted: bool
    not_executed: Callable[[Any], bool] | None
    protocol_error: type[Exception]

    def result(self, result: Any) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "content": [part.model_dump(mode="json", exclude_none=True) for part in result.content]
        }
        if result.structured_content is not None:
            answer["structured"] = result.structured_content
        if not result.is_error:
            return {"status": "succeeded", **answer}
        if self.not_executed is not None and self.not_executed(result) is True:
            raise NotExecuted("the server answered that nothing was done", retryable=False)
        return {"status": "failed" if self.trusted and self.harmless else "unknown", **answer}

    def error(self, error: Exception) -> Exception:
        code = getattr(error, "code", None)
        if self.trusted and isinstance(error, self.protocol_error) and code in _REFUSALS:
            return NotExecuted(f"the server refused the request ({code})", retryable=False)
        return error


def _execute(client: Any, name: str, judge: _Judge, sends_id: bool) -> Callable[..., Any]:
    # ClientSession sends once; Client may resend by itself.
    session = getattr(client, "session", client)

    async def execute(**arguments: Any) -> dict[str, Any]:
        meta: dict[str, Any] = {}
        if sends_id:
            meta["gnomon/operation_id"] = arguments.pop("operation_id")
        try:
            result = await session.call_tool(name, arguments, meta=meta or None)
        except Exception as error:
            raise judge.error(error) from None
        return judge.result(result)

    return execute
