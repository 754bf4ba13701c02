"""The web page of a corpus: three files and a JSON interface that only reads.

Every response carries a policy under which the page loads nothing but its own files and runs no
inline script; all that comes from the corpus travels as JSON and is set as text. Needs the extra:
``pip install 'gnomon[mcp]'`` (which brings starlette and uvicorn).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from typing import TYPE_CHECKING, Any

from .answers import Answer
from .arguments import MODES, TOKENS_MOST
from .web_sessions import StoredSessions

if TYPE_CHECKING:
    from .api import Corpus

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
FILES = {"page.html": "text/html", "page.js": "text/javascript", "page.css": "text/css"}
ANSWER_TOKENS = 12_000
EDGES_MAX = 40
PARAMETER_MAX = 10_000  # characters of a parameter


class BadRequestError(ValueError):
    """What the page asked for makes no sense."""


def web_routes(corpus: Corpus, sessions: StoredSessions | None = None) -> list[Any]:
    """The page's routes, for `gnomon.corpus.mcp_server.http_app` or any Starlette application.

    `corpus` is seen as it was opened: open it for the principal and scopes of the page's readers.
    Raises ImportError without the extra.
    """
    try:
        from starlette.routing import Route
    except ImportError as error:
        raise ImportError(
            f"the web page needs starlette: pip install 'gnomon[mcp]' ({error})"
        ) from error
    api = Api(corpus, sessions)
    routes = [
        Route("/" if name == "page.html" else f"/{name}", _file(name), methods=["GET"])
        for name in FILES
    ]
    for name in ("about", "search", "read", "outline", "graph", "sessions", "session"):
        routes.append(Route(f"/api/{name}", _json(getattr(api, name)), methods=["GET"]))
    return routes


def _file(name: str) -> Callable[..., Any]:
    from starlette.responses import Response

    content = resources.files(__package__).joinpath("web").joinpath(name).read_bytes()

    async def page(request: Any) -> Response:
        return Response(content, media_type=FILES[name], headers=HEADERS)

    return page


def _json(answer: Callable[[dict[str, str]], dict[str, Any]]) -> Callable[..., Any]:
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import Response

    async def respond(request: Any) -> Response:
        asked = {name: str(value) for name, value in request.query_params.items()}
        status = 200
        try:
            if any(len(value) > PARAMETER_MAX for value in asked.values()):
                raise BadRequestError(f"a parameter has at most {PARAMETER_MAX} characters")
            body = await run_in_threadpool(answer, asked)
        except (ValueError, TypeError, KeyError) as error:
            status, body = 400, {"message": str(error)}
        text = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        return Response(text, status, HEADERS, "application/json")

    return respond


class Api:
    """What the page asks: each method takes the parameters of the request and gives JSON."""

    def __init__(self, corpus: Corpus, sessions: StoredSessions | None) -> None:
        self.corpus, self.stored = corpus, sessions

    def about(self, asked: dict[str, str]) -> dict[str, Any]:
        """How much there is."""
        report = self.corpus.stats().report
        counts = {name: int(value) for name, value in report.counts.items()}
        return {"generation": report.generation, "documents": 0, "chunks": 0, **counts}

    def search(self, asked: dict[str, str]) -> dict[str, Any]:
        """Results for ``q`` in ``mode``, from ``cursor`` on."""
        query, mode = _given(asked, "q"), asked.get("mode", "auto")
        bounds: dict[str, Any] = {"cursor": asked.get("cursor", ""), "max_tokens": ANSWER_TOKENS}
        if mode == "grep":
            return _as_dict(self.corpus.grep(query, raw=True, k=50, detail="full", **bounds))
        if mode not in MODES:
            raise BadRequestError(f"mode must be grep or one of {', '.join(MODES)}, got {mode!r}")
        return _as_dict(self.corpus.hybrid_search(query, mode, k=20, detail="full", **bounds))

    def read(self, asked: dict[str, str]) -> dict[str, Any]:
        """The text of ``target`` with ``around`` passages on both sides."""
        around = asked.get("around", "0")
        if not around.isdecimal() or int(around) > 50:
            raise BadRequestError(f"around must be a number up to 50, got {around!r}")
        target = _given(asked, "target")
        return _as_dict(self.corpus.read(target, around=int(around), max_tokens=TOKENS_MOST // 2))

    def outline(self, asked: dict[str, str]) -> dict[str, Any]:
        """The section tree of ``target``."""
        target = _given(asked, "target")
        return _as_dict(self.corpus.outline(target, max_tokens=TOKENS_MOST // 2))

    def graph(self, asked: dict[str, str]) -> dict[str, Any]:
        """The edges next to ``node``, each with a passage that shows it."""
        node = _given(asked, "node")
        answer = self.corpus.navigate(node, k=200, detail="ids", max_tokens=TOKENS_MOST // 2)
        edges: dict[tuple[str, str, str], dict[str, Any]] = {}
        centre = ""
        for item in answer.items:
            if item.edge is None:
                continue
            key = item.edge.source, item.edge.relation, item.edge.target
            edges.setdefault(
                key, dict(zip(("source", "relation", "target"), key, strict=True))
            ).setdefault("chunk_id", item.chunk_id)
        # Passages that only name it are many: other things come first.
        ordered = sorted(edges.values(), key=lambda edge: edge["target"].startswith("chunk:"))
        shown = ordered[:EDGES_MAX]
        for edge in shown:  # the node that they all have is the one that was meant
            ends = {edge["source"], edge["target"]}
            centre = node if node in ends else centre
        if shown and not centre:
            common = set.intersection(*({e["source"], e["target"]} for e in shown))
            centre = min(common, default=shown[0]["source"])
        report = answer.report
        said = report.problem.message if report.problem else ""
        if report.no_hit is not None:
            said = report.no_hit.advice or report.no_hit.reason
        return {"node": centre or node, "edges": shown, "total": report.total, "message": said}

    def sessions(self, asked: dict[str, str]) -> dict[str, Any]:
        """The stored sessions."""
        return {"sessions": [] if self.stored is None else self.stored.list()}

    def session(self, asked: dict[str, str]) -> dict[str, Any]:
        """The calls of the session ``id``, replayed."""
        if self.stored is None:
            raise BadRequestError("no sessions are stored")
        return {"calls": self.stored.replay(_given(asked, "id"))}


def _given(asked: dict[str, str], name: str) -> str:
    value = asked.get(name, "").strip()
    if not value:
        raise BadRequestError(f"the parameter {name} is missing")
    return value


def _as_dict(answer: Answer) -> dict[str, Any]:
    return answer.to_dict()
