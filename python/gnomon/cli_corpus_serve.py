"""`gnomon serve`: a corpus for agents (MCP) and for people (a web page)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .cli_common import UserError, user_errors, visible
from .cli_corpus_open import embedder_option, learned_option, open_corpus

if TYPE_CHECKING:
    from .corpus.api import Corpus
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
@click.option("--sessions", metavar="FILE", help="Keep sessions here (SQLite), to replay them.")
@click.option("--no-sessions", is_flag=True, help="Answer each call by itself.")
@click.option("--calls", type=click.IntRange(1), help="Calls of a session at most.")
@embedder_option
@learned_option
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
    embedder: str,
    learned: str | None,
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
            where = http or web, web, host, port
            corpus = open_corpus(index, embedder=embedder, learned=learned)
            _serve(corpus, *where, principal, scopes, tokens, sessions, calls, not no_sessions)
        except ImportError as error:
            raise UserError(str(error)) from error


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
    corpus: Corpus,
    http: bool,
    web: bool,
    host: str,
    port: int,
    principal: str | None,
    scopes: tuple[str, ...],
    tokens: str | None,
    store: str | None,
    calls: int | None,
    with_sessions: bool,
) -> None:
    from .corpus.mcp_server import http_app, mcp_server
    from .corpus.serving import listen, run_stdio, session_options

    callers = _callers(principal, scopes, tokens)
    session = session_options(store, calls) if with_sessions else None
    server = mcp_server(corpus, callers, session=session)
    if not http:
        run_stdio(server)
        return
    routes = []
    if web:
        from .corpus.web_app import web_routes
        from .corpus.web_sessions import StoredSessions

        seen = corpus.seen_by(principal, scopes or None)
        routes = web_routes(seen, None if store is None else StoredSessions(seen, store))

    def told(address: str) -> None:
        page = f", page at {address}/" if web else ""
        click.echo(f"MCP at {address}/mcp{page}", err=True)

    listen(http_app(server, callers, host=host, routes=routes), host, port, told)
