"""MCP: a server's error result is no proof that it did nothing; schemas come from strangers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from gnomon.agent import AsyncToolRuntime, Limits
from gnomon.agent.adapters.bridge import Bridge
from gnomon.agent.testing import EffectCounter

pytest.importorskip("mcp.server.mcpserver", reason="the extra 'adapters' is not installed: mcp 2")
pytestmark = pytest.mark.filterwarnings("default")

from gnomon.agent.adapters.mcp import McpTools, mcp_tools  # noqa: E402
from mcp import Client  # noqa: E402
from mcp.server.mcpserver import Context, MCPServer  # noqa: E402
from mcp.server.mcpserver.exceptions import ToolError  # noqa: E402
from mcp.types import ToolAnnotations  # noqa: E402


class Server:
    """A server with a lossy write, a sound write, a failing read, and their log."""

    def __init__(self, log: EffectCounter) -> None:
        self.log = log
        self.ids: list[Any] = []
        self.server = MCPServer("test")

        @self.server.tool()
        def lossy(project: str) -> str:
            log.add(project)
            raise TimeoutError("response was lost")

        @self.server.tool(annotations=ToolAnnotations(destructive_hint=False))
        def sound(project: str, ctx: Context) -> str:
            self.ids.append((ctx.request_context.meta or {}).get("gnomon/operation_id"))
            log.add(project)
            return f"wrote {project}"

        @self.server.tool(annotations=ToolAnnotations(read_only_hint=True))
        def look(project: str) -> str:
            raise ToolError("no such project")

        @self.server.tool()
        async def slow(project: str) -> str:
            log.add(project)
            await asyncio.sleep(5)
            return "late"


RISKS = {"lossy": 1, "sound": 1, "look": 0, "slow": 1}


def converse(server: MCPServer, calls: Any, risks: Any = None, **options: Any) -> Any:
    """The answers to (tool, arguments) calls through the ledger, and the tools."""

    async def main() -> tuple[list[dict[str, Any]], McpTools]:
        async with Client(server) as client:
            offered = await mcp_tools(client, RISKS if risks is None else risks, **options)
            async with AsyncToolRuntime(offered.tools, max_risk=1) as runtime:
                bridge = Bridge(runtime, "ann", "task-1")
                return [await bridge.acall(name, given) for name, given in calls], offered

    return asyncio.run(main())


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(EffectCounter(tmp_path / "effects"))


ALPHA = {"project": "alpha"}


def test_d4_an_error_result_of_a_write_is_unknown_and_never_repeated(server: Server) -> None:
    async def alone() -> list[bool]:
        async with Client(server.server) as client:  # an obedient model behind a plain client
            return [(await client.call_tool("lossy", ALPHA)).is_error for _ in range(3)]

    assert asyncio.run(alone()) == [True] * 3
    assert server.log.count == 3

    server.log.path.unlink()
    for trusted in (False, True):
        answers, _ = converse(server.server, [("lossy", ALPHA)] * 3, trusted=trusted)
        assert [answer["status"] for answer in answers] == ["needs_reconcile"] * 3
        assert [answer["reason"] for answer in answers] == ["unknown"] * 3
    assert server.log.count == 2  # once per ledger


def test_d4_an_error_result_of_a_trusted_read_is_a_failure(server: Server) -> None:
    (answer,), offered = converse(server.server, [("look", ALPHA)], trusted=True)
    assert answer["status"] == "failed"
    assert "no such project" in answer["content"][0]["text"]
    assert offered.tools["look"].effect == "read"
    # A stranger's hint is not believed.
    (answer,), offered = converse(server.server, [("look", ALPHA)])
    assert answer["status"] == "needs_reconcile"
    assert (offered.tools["look"].effect, offered.tools["look"].idempotent) == (
        "destructive",
        False,
    )


def test_d4_a_declared_error_proves_that_nothing_was_done(server: Server) -> None:
    def declared(result: Any) -> bool:
        return "no such project" in result.content[0].text

    (answer,), _ = converse(server.server, [("look", ALPHA)], not_executed=declared)
    assert (answer["status"], answer["reason"]) == ("failed", "not_executed")


def test_a_timeout_is_one_effect(server: Server) -> None:
    answers, _ = converse(server.server, [("slow", ALPHA)] * 3, limits=Limits(timeout_ms=200))
    assert [answer["reason"] for answer in answers] == ["timeout"] * 3
    assert server.log.count == 1


def test_a_result_is_replayed_and_the_server_learns_the_operation_id(server: Server) -> None:
    answers, offered = converse(server.server, [("sound", ALPHA)] * 2, trusted=True)
    assert answers[0] == answers[1]
    assert answers[0]["status"] == "succeeded"
    assert answers[0]["content"] == [{"type": "text", "text": "wrote alpha"}]
    assert (server.log.count, len(server.ids)) == (1, 1)
    assert server.ids[0].startswith("op_")
    assert "operation_id" not in offered.tools["sound"].contract.model_schema["properties"]
    assert offered.tools["sound"].effect == "write"


@pytest.mark.parametrize("extra", [{"admin": True}, {"project": 5}, {"operation_id": "op_x"}])
def test_v5_arguments_are_checked_before_they_are_sent(server: Server, extra: Any) -> None:
    (answer,), _ = converse(server.server, [("sound", {**ALPHA, **extra})])
    assert answer["reason"] == "invalid_arguments"
    assert server.log.count == 0


def test_a_tool_that_the_host_does_not_name_is_not_offered(server: Server) -> None:
    (answer,), offered = converse(server.server, [("sound", ALPHA)], risks={"look": 0})
    assert answer["reason"] == "unknown_tool"
    assert set(offered.tools) == {"look"}
    assert offered.refused["sound"] == "no risk was given for it"


class Remote:
    """A hostile server's tool list, without a server."""

    def __init__(self, *schemas: Any, pages: int = 1) -> None:
        self.schemas, self.pages = schemas, pages

    async def list_tools(self, cursor: str | None = None) -> Any:
        from types import SimpleNamespace

        number = int(cursor or 0)
        tools = [
            SimpleNamespace(name=f"t{i}", input_schema=s, description=None, annotations=None)
            for i, s in enumerate(self.schemas)
        ]
        after = None if number + 1 >= self.pages else str(number + 1)
        return SimpleNamespace(tools=tools, next_cursor=after)


def test_s1_hostile_schemas_are_refused_by_name() -> None:
    schemas = [
        {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1/x"}}},
        {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"type": "object", "propertys": {}},
        {"type": "array"},
        None,
        {"type": "object", "properties": {"ok": {"type": "string"}}},
    ]
    names = {f"t{i}": 0 for i in range(len(schemas))}
    offered = asyncio.run(mcp_tools(Remote(*schemas), names))
    assert set(offered.tools) == {"t5"}
    assert set(offered.refused) == {"t0", "t1", "t2", "t3", "t4"}


def test_pages_of_tools_end() -> None:
    assert asyncio.run(mcp_tools(Remote({"type": "object"}, pages=3), {})).tools == {}
    with pytest.raises(ValueError, match="100 pages"):
        asyncio.run(mcp_tools(Remote({"type": "object"}, pages=10**9), {}))


def test_a_prefix_tells_servers_apart(server: Server) -> None:
    (answer,), _ = converse(server.server, [("crm.sound", ALPHA)], prefix="crm.")
    assert answer["status"] == "succeeded"
