"""`gnomon serve`: a corpus for agents (MCP) and for people (a web page)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .cli_common import UserError, user_errors, visible

if TYPE_CHECKING:
    from .corpus.mcp_server import Callers

LOCAL = ("127.0.0.1", "localhost", "::1")


@click.command(short_help="A corpus for agents (MCP) and people (web page).")
@click.argument("index", metavar="INDEX", type=click.Path(exists=True, file_okay=False))
@click.option("--http", is_flag=True, help="MCP as streamable HTTP at /mcp instead of stdio.")
@click.option("--web", is_flag=True, help="The web page at /; implies --http.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65535))
@click.option("--principal", default=None, help="On whose behalf; owns the sessions.")
@click.option(
    "--scope", "scopes", multiple=True, help="Access scope that may be read; may be given again."
)
@click.option("--tokens", metavar="FILE", help="JSON of bearer tokens: who asks and may read what.")
@click.option("--sessions", metavar="DIR", help="Keep sessions here, to resume and replay.")
@click.option("--no-sessions", is_flag=True, help="Answer each call by itself.")
@click.option("--calls", type=click.IntRange(1), help="Calls of a session at most.")
def serve(
    index: str,
    http: bool,
    web: bool,
    host: str,
    port: int,
    principal: str | None,
    scopes: tuple[str, ...],
    tokens: str | None,
    sessions: str | None,
    no_sessions: bool,
    calls: int | None,
) -> None:
    """Serve the corpus at INDEX to an agent over stdio, or over HTTP.

    The eight tools are read-only. Who asks and what they may read comes from here, never from a
    model: --principal and --scope, or --tokens for several callers over HTTP:

    \b
    {"a long random token": {"principal": "ann", "scopes": ["docs", "internal"]}}

    Without --scope and --tokens no access scope is enforced. A host beyond this machine needs
    --tokens. Needs the extra: pip install 'gnomon[mcp]'
    """  # noqa: D301  click reads \b
    if web and tokens:
        raise click.UsageError("--web shows one caller's view; give --principal and --scope to it")
    if tokens and not http:
        raise click.UsageError("--tokens are sent over HTTP; add --http")
    if host not in LOCAL and not tokens:
        raise click.UsageError(
            f"--host {visible(host)} can be reached from other machines: add --tokens, or leave "
            "it local and put a server with a login before it"
        )
    if no_sessions and (sessions or calls):
        raise click.UsageError("--sessions and --calls need sessions; drop --no-sessions")
    with user_errors():
        try:
            _serve(index, http or web, web, host, port, principal, scopes, tokens, _options(
                None if no_sessions else {}, sessions, calls
            ))  # fmt: skip
        except ImportError as error:
            raise UserError(str(error)) from error


def _options(
    options: dict[str, Any] | None, store: str | None, calls: int | None
) -> dict[str, Any] | None:
    """What `Corpus.session` is given; None keeps no sessions."""
    from .agent import Budget

    if options is None:
        return None
    if store is not None:
        options["store"] = store
    if calls is not None:
        options["budget"] = Budget(steps=calls)
    return options


def _callers(principal: str | None, scopes: tuple[str, ...], tokens: str | None) -> Callers:
    from .corpus.mcp_server import Caller, Callers, callers_from

    default = Caller(principal, scopes or None)
    if tokens is None:
        return Callers(default)
    try:
        data = json.loads(Path(tokens).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{tokens} is not JSON: {error}") from error
    return callers_from(data, default)


def _serve(
    index: str,
    http: bool,
    web: bool,
    host: str,
    port: int,
    principal: str | None,
    scopes: tuple[str, ...],
    tokens: str | None,
    session: dict[str, Any] | None,
) -> None:
    import anyio

    from .corpus.api import Corpus
    from .corpus.mcp_server import http_app, mcp_server, serve_stdio

    callers = _callers(principal, scopes, tokens)
    corpus = Corpus.open(index)
    server = mcp_server(corpus, callers, session=session)
    if not http:
        anyio.run(serve_stdio, server)
        return
    routes = []
    if web:
        from .corpus.web_app import web_routes
        from .corpus.web_sessions import StoredSessions

        seen = corpus.seen_by(principal, scopes or None)
        store = (session or {}).get("store")
        routes = web_routes(seen, None if store is None else StoredSessions(seen, store))
    _listen(http_app(server, callers, host=host, routes=routes), host, port, web)


def _listen(app: Any, host: str, port: int, web: bool) -> None:
    import socket

    import uvicorn

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        shown = f"[{host}]" if family == socket.AF_INET6 else host
        address = f"http://{shown}:{listener.getsockname()[1]}"
        click.echo(f"MCP at {address}/mcp" + (f", page at {address}/" if web else ""), err=True)
        config = uvicorn.Config(app, log_level="warning", access_log=False)
        uvicorn.Server(config).run(sockets=[listener])
