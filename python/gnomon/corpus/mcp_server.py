"""An MCP server for a corpus: its eight tools over stdio or streamable HTTP, by the official SDK.

Who asks is decided here and never by the model: by the server's own principal and scopes, or over
HTTP by a bearer token (`Callers`). What a model sends beyond a tool's schema is refused by name.
Needs the extra: ``pip install 'gnomon[mcp]'``.
"""

from __future__ import annotations

import hmac
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from .answers import Answer
from .questions import Questions
from .tool_answers import as_json
from .tool_specs import META_PROMPT, OUTPUT_SCHEMA
from .toolset import call_tool, corpus_tools

if TYPE_CHECKING:
    from .api import Corpus

SESSIONS_MAX = 1024  # sessions that a server keeps open; beyond, the one used longest ago is let go
SESSION_META = "gnomon/session"  # in a request's _meta: tells the conversations of a client apart
ANONYMOUS = ""


@dataclass(frozen=True)
class Caller:
    """On whose behalf a call is made. `scopes` None enforces no access scope."""

    principal: str | None = None
    scopes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Callers:
    """Who may ask over HTTP: everyone as `default`, or only who sends a known bearer token."""

    default: Caller = Caller()
    tokens: Mapping[str, Caller] = field(default_factory=dict)

    def of(self, authorization: str | None) -> Caller | None:
        """The caller of an ``Authorization`` header; None if it names none.

        >>> callers = Callers(tokens={"s3cret": Caller("ann", ("docs",))})
        >>> callers.of("Bearer s3cret").principal, callers.of("Bearer guess"), callers.of(None)
        ('ann', None, None)
        """
        if not self.tokens:
            return self.default
        kind, _, sent = (authorization or "").partition(" ")
        found = None
        for token, caller in self.tokens.items():  # all of them: the time tells nothing
            if hmac.compare_digest(token.encode(), sent.strip().encode()) and (
                kind.lower() == "bearer"
            ):
                found = caller
        return found


def callers_from(data: Any, default: Caller) -> Callers:
    """Callers out of JSON ``{"TOKEN": {"principal": "ann", "scopes": ["docs"]}}``.

    Raises ValueError for another form.
    """
    if not isinstance(data, dict) or not data:
        raise ValueError("the tokens file must hold an object of at least one token")
    tokens = {}
    for token, who in data.items():
        scopes = who.get("scopes") if isinstance(who, dict) else None
        right = isinstance(scopes, list) and all(isinstance(one, str) for one in scopes)
        if len(token) < 16 or not isinstance(scopes, list) or not right:
            raise ValueError(
                "each token must have at least 16 characters and name its principal and scopes, "
                'such as {"principal": "ann", "scopes": ["docs"]}; scopes [] sees nothing'
            )
        tokens[token] = Caller(str(who.get("principal") or ANONYMOUS), tuple(scopes))
    return Callers(default, tokens)


class Sessions:
    """One session of the corpus for each conversation of each caller."""

    def __init__(self, corpus: Corpus, options: Mapping[str, Any] | None) -> None:
        self._corpus, self._options = corpus, options
        self._open: OrderedDict[tuple[Caller, str], Questions[Answer]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, caller: Caller, conversation: str | None) -> Questions[Answer]:
        """What answers a call; without a conversation to belong to, the corpus itself."""
        seen = self._corpus.seen_by(caller.principal, caller.scopes)
        if conversation is None or self._options is None:
            return seen
        key = caller, conversation
        with self._lock:
            found = self._open.pop(key, None)
            if found is None:
                found = seen.session(**self._options)
            self._open[key] = found
            while len(self._open) > SESSIONS_MAX:
                self._open.popitem(last=False)
        return found


def mcp_server(
    corpus: Corpus,
    callers: Callers | None = None,
    *,
    name: str = "gnomon",
    session: Mapping[str, Any] | None = None,
) -> Any:
    """An `mcp.server.lowlevel.Server` of the eight tools.

    Parameters
    ----------
    corpus : Corpus
        Opened without scopes; each call sees it as its caller may.
    callers : Callers, optional
        Default: everybody, without an access scope.
    name : str
    session : mapping, optional
        Options of `Corpus.session` (budget, repeat_limit, store...): each conversation then has a
        session of its own. A conversation is the process on stdio, the MCP session over HTTP where
        there is one, else what the client's host names in ``_meta["gnomon/session"]``. None keeps
        no sessions.

    Raises ImportError without the extra.
    """
    lowlevel, types, MCPError = _sdk()
    callers = callers or Callers()
    tools = corpus_tools(corpus)
    sessions = Sessions(corpus, session)
    listed = [_described(types, tool) for tool in tools.values()]

    async def list_tools(context: Any, params: Any) -> Any:
        return types.ListToolsResult(tools=listed)

    async def call(context: Any, params: Any) -> Any:
        import anyio.to_thread

        tool = tools.get(params.name)
        if tool is None:
            known = ", ".join(tools)
            raise MCPError(types.INVALID_PARAMS, f"no tool {params.name!r}; there are {known}")
        caller = callers.of(_header(context, "authorization"))
        if caller is None:
            raise MCPError(types.INVALID_REQUEST, "the bearer token is missing or not known")
        try:
            arguments = tool.contract.validate(params.arguments or {}).value
        except ValueError as error:
            return _result(types, _refusal(error, tool), failed=True)
        asked = sessions.of(caller, _conversation(context))
        work = partial(call_tool, asked, params.name, arguments)
        answer = await anyio.to_thread.run_sync(work)
        failed = answer.pop("status") == "failed"
        return _result(types, answer, failed=failed)

    return lowlevel.Server(
        name,
        version=_version(),
        instructions=META_PROMPT,
        on_list_tools=list_tools,
        on_call_tool=call,
    )


def _sdk() -> tuple[Any, Any, Any]:
    try:
        import mcp.types as types
        from mcp import MCPError
        from mcp.server import lowlevel
    except ImportError as error:
        raise ImportError(
            f"the MCP server needs mcp 2: pip install 'gnomon[mcp]' ({error})"
        ) from error
    return lowlevel, types, MCPError


def _version() -> str:
    from importlib.metadata import version

    return version("gnomon")


def _described(types: Any, tool: Any) -> Any:
    return types.Tool(
        name=tool.name,
        description=tool.purpose,
        input_schema=tool.contract.model_schema,
        output_schema=OUTPUT_SCHEMA,
        annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
    )


def _result(types: Any, answer: dict[str, Any], *, failed: bool) -> Any:
    # The same JSON twice: not every client shows its model the structured content.
    text = types.TextContent(type="text", text=as_json(answer).decode("utf-8"))
    return types.CallToolResult(content=[text], structured_content=answer, is_error=failed)


def _refusal(error: ValueError, tool: Any) -> dict[str, Any]:
    problems = [problem.to_dict() for problem in getattr(error, "problems", ())]
    return {
        "evidence": [],
        "report": {
            "problem": {
                "code": "invalid_arguments",
                "message": str(error),
                "remedy": f"{tool.name} takes {', '.join(tool.schema['properties'])}",
            },
            "problems": problems,
        },
    }


def _header(context: Any, name: str) -> str | None:
    headers = getattr(context.request, "headers", None)
    return None if headers is None else headers.get(name)


def _conversation(context: Any) -> str | None:
    named = (context.meta or {}).get(SESSION_META)
    if isinstance(named, str) and named:
        return f"meta:{named[:200]}"
    if context.request is None:
        return "process"  # stdio, or in memory: one client
    session = _header(context, "mcp-session-id")
    return None if session is None else f"http:{session}"


def http_app(
    server: Any, callers: Callers | None = None, *, host: str = "127.0.0.1", routes: Any = ()
) -> Any:
    """The ASGI application: MCP at ``/mcp``, and `routes` (the web page's) beside it.

    Without a known token a request gets 401 before anything is read. Unless `host` is public, only
    requests for this machine's own names are answered, so that no web site can rebind its name
    to it (as CVE-2025-66416 of the SDK shows).
    """
    app = server.streamable_http_app(host=host, custom_starlette_routes=list(routes))
    if callers is not None and callers.tokens:
        app = _checked(app, callers)
    return _for_this_machine(app) if host in LOCAL else app


LOCAL = ("127.0.0.1", "localhost", "::1")


def _for_this_machine(app: Any) -> Callable[..., Any]:
    """Refuses what a page of another site makes a browser send here: the SDK checks ``/mcp``, and
    the page's own routes would answer under any name.
    """
    from urllib.parse import urlsplit

    from starlette.datastructures import Headers
    from starlette.responses import PlainTextResponse

    def named(address: str) -> bool:
        try:
            return urlsplit(address).hostname in LOCAL
        except ValueError:
            return False

    async def local(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            origin = headers.get("origin")
            refused = None
            if not named(f"//{headers.get('host', '')}"):
                refused = PlainTextResponse("this server answers to this machine's names\n", 421)
            elif origin is not None and not named(origin):
                refused = PlainTextResponse("not for pages of other sites\n", 403)
            if refused is not None:
                await refused(scope, receive, send)
                return
        await app(scope, receive, send)

    return local


def _checked(app: Any, callers: Callers) -> Callable[..., Any]:
    from starlette.datastructures import Headers
    from starlette.responses import PlainTextResponse

    async def checked(scope: Any, receive: Any, send: Any) -> None:
        if (
            scope["type"] == "http"
            and callers.of(Headers(scope=scope).get("authorization")) is None
        ):
            refusal = PlainTextResponse(
                "a bearer token is needed\n", 401, {"WWW-Authenticate": "Bearer"}
            )
            await refusal(scope, receive, send)
            return
        await app(scope, receive, send)

    return checked
