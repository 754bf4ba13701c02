"""Runs a server of a corpus: over stdio until the client goes, or on a port until it is stopped."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from typing import Any


def session_options(store: str | None = None, calls: int | None = None) -> dict[str, Any]:
    """Options of `Corpus.session` for a server: in memory without a store, bounded by `calls`."""
    from gnomon.agent import Budget

    options: dict[str, Any] = {"store": ":memory:" if store is None else store}
    return options if calls is None else {**options, "budget": Budget(steps=calls)}


def run_stdio(server: Any) -> None:
    """Serves MCP over stdin and stdout until the client closes stdin."""
    import anyio
    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(serve)


def listen(app: Any, host: str, port: int, told: Callable[[str], None]) -> None:
    """Serves an ASGI application; `told` gets its address once requests are taken (port 0: any)."""
    import uvicorn

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
        shown = f"[{host}]" if family == socket.AF_INET6 else host
        announce = partial(told, f"http://{shown}:{listener.getsockname()[1]}")
        config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="on")
        server = uvicorn.Server(config)
        announce()
        server.run(sockets=[listener])
