"""The MCP server, asked by the official client: in memory, over stdio, over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import small_corpus
from gnomon.corpus.api import Corpus
from gnomon.corpus.eval_tasks import Passage, Task, load_tasks, missing
from gnomon.corpus.tool_answers import tokens_of
from gnomon.corpus.tool_specs import META_PROMPT, NAMES

pytest.importorskip("mcp.server.lowlevel", reason="the extra 'mcp' is not installed")
pytestmark = [
    pytest.mark.filterwarnings("default"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

from gnomon.corpus.mcp_server import (  # noqa: E402
    SESSION_META,
    Caller,
    Callers,
    callers_from,
    mcp_server,
)
from gnomon.corpus.serving import session_options  # noqa: E402
from mcp import Client, MCPError, StdioServerParameters  # noqa: E402

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("search_general_knowledge", {"query": "how to keep the password secret"}),
    ("search_precise", {"query": "AllowPublicKeyRetrieval"}),
    ("find_api_reference", {"entity": "max_allowed_packet"}),
    ("explore_related_errors", {"error_code": "1153"}),
    ("look_for_evidence", {"claim_a": "AllowPublicKeyRetrieval", "claim_b": "MITM"}),
    ("navigate", {"entity": "option:max_allowed_packet"}),
    ("read", {"target": "server/variables.md"}),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_corpus.make(tmp_path_factory.mktemp("mcp") / "small.corpus")


@pytest.fixture(scope="module")
def corpus(index: Path) -> Corpus:
    return Corpus.open(index)


def answers(target: Any, calls: list[tuple[str, dict[str, Any]]], **meta: Any) -> list[Any]:
    """The results of calls over one connection."""

    async def main() -> list[Any]:
        async with Client(target) as client:
            options = {"meta": meta} if meta else {}
            return [await client.call_tool(name, given, **options) for name, given in calls]

    return asyncio.run(main())


def evidence(result: Any) -> list[dict[str, Any]]:
    assert not result.is_error, result.content[0].text
    assert json.loads(result.content[0].text) == result.structured_content
    found: list[dict[str, Any]] = result.structured_content["evidence"]
    return found


# --- in memory ------------------------------------------------------------------------------------


def test_the_server_lists_eight_read_only_tools_of_2000_tokens(corpus: Corpus) -> None:
    async def main() -> tuple[Any, Any]:
        async with Client(mcp_server(corpus)) as client:
            return await client.list_tools(), client.instructions

    listed, instructions = asyncio.run(main())
    assert [tool.name for tool in listed.tools] == list(NAMES)
    assert instructions == META_PROMPT
    told = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed.tools]
    assert tokens_of(told) <= 2000
    for tool in listed.tools:
        assert tool.annotations.read_only_hint is True
        assert tool.annotations.open_world_hint is False
        assert set(tool.output_schema["required"]) == {"evidence", "report"}
        assert tool.input_schema["additionalProperties"] is False


def test_every_tool_answers_through_the_client(corpus: Corpus) -> None:
    """Check 17: every tool is called through an MCP client in memory."""
    found = answers(mcp_server(corpus), CALLS)
    assert all(evidence(result) for result in found)
    first = evidence(found[1])[0]["id"]
    (refined,) = answers(mcp_server(corpus), [("refine", {"result_ids": [first], "query": "MITM"})])
    assert evidence(refined)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_argument_is_refused_by_name(corpus: Corpus, name: str) -> None:
    """Check 17: an unknown argument is refused, through the client as well."""
    arguments = dict(CALLS).get(name, {"result_ids": ["x"], "query": "y"})
    (refused,) = answers(mcp_server(corpus), [(name, {**arguments, "tenant": "ann"})])
    assert refused.is_error
    problem = refused.structured_content["report"]["problem"]
    assert problem["code"] == "invalid_arguments"
    assert "/tenant" in problem["message"]
    assert problem["remedy"].startswith(f"{name} takes ")
    assert refused.structured_content["evidence"] == []


def test_a_tool_that_does_not_exist_is_a_protocol_error(corpus: Corpus) -> None:
    async def main() -> None:
        async with Client(mcp_server(corpus)) as client:
            with pytest.raises(MCPError, match="no tool 'drop_tables'"):
                await client.call_tool("drop_tables", {})

    asyncio.run(main())


def test_a_failed_answer_is_an_error_that_says_what_to_do(corpus: Corpus) -> None:
    (stale,) = answers(mcp_server(corpus), [("read", {"target": "no/such.md"})])
    assert "no_hit" in stale.structured_content["report"]
    call = ("search_precise", {"query": "wait_timeout", "cursor": "1-2-nonsense"})
    (stale,) = answers(mcp_server(corpus), [call])
    assert stale.is_error
    assert "cursor" in stale.structured_content["report"]["problem"]["code"]


def test_a_conversation_has_a_session_with_a_budget(corpus: Corpus) -> None:
    server = mcp_server(corpus, session=session_options(calls=2))
    ask = ("search_precise", {"query": "wait_timeout"})
    first, again, ended = answers(server, [ask, ask, ask])
    assert evidence(first)
    assert again.structured_content["report"]["repeat_of"] == 1
    assert ended.is_error
    assert ended.structured_content["report"]["problem"]["code"] == "budget_exhausted"
    # Another conversation of the same client has a budget of its own.
    (other,) = answers(server, [ask], **{SESSION_META: "second"})
    assert evidence(other)


def test_scopes_belong_to_the_server(corpus: Corpus) -> None:
    ask = ("search_precise", {"query": "swordfish_option OR AllowPublicKeyRetrieval"})
    seen = {}
    for scopes in (("docs",), ("secret",), ()):
        server = mcp_server(corpus, Callers(Caller("ann", scopes)))
        (result,) = answers(server, [ask])
        seen[scopes] = {item["source_id"].split("/")[0] for item in evidence(result)}
        hidden = result.structured_content["report"]
        if scopes != ("secret",):
            assert hidden["terms"]["swordfish_option"] == 0
    assert seen == {("docs",): {"docs"}, ("secret",): {"secret"}, (): set()}


def test_a_file_of_tokens_is_checked() -> None:
    token = "a-long-random-token"
    callers = callers_from({token: {"principal": "ann", "scopes": ["docs"]}}, Caller())
    assert callers.of(f"Bearer {token}") == Caller("ann", ("docs",))
    assert callers.of(f"Basic {token}") is None
    assert callers.of(None) is None
    wrong: list[Any] = [{}, [], {"short": {"scopes": []}}, {token: {}}, {token: {"scopes": "docs"}}]
    for data in wrong:
        with pytest.raises(ValueError, match="token"):
            callers_from(data, Caller())


# --- stdio and HTTP -------------------------------------------------------------------------------


def test_over_stdio(index: Path) -> None:
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "gnomon", "serve", str(index), "--scope", "docs"],
        env={**os.environ},
    )
    found = answers(command, CALLS[:3])
    assert all(evidence(result) for result in found)


@pytest.fixture(scope="module")
def address(index: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server over HTTP with two callers."""
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.json"
    rows = {name * 8: {"principal": name, "scopes": [name]} for name in ("docs", "secret")}
    tokens.write_text(json.dumps(rows))
    command = [sys.executable, "-m", "gnomon", "serve", str(index), "--http", "--port", "0"]
    with subprocess.Popen(
        [*command, "--tokens", str(tokens)], stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        line = server.stderr.readline()
        yield line.split()[2].rstrip(",")
        server.terminate()
        server.stderr.read()


def over_http(address: str, token: str, calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    async def main() -> list[Any]:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            create_mcp_http_client(headers=headers) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            return [await client.call_tool(name, given) for name, given in calls]

    return asyncio.run(main())


def test_over_http_each_token_sees_its_scope(address: str) -> None:
    ask = ("search_precise", {"query": "swordfish_option OR AllowPublicKeyRetrieval"})
    for name in ("docs", "secret"):
        found = over_http(address, name * 8, [ask, ask])
        assert {item["source_id"].split("/")[0] for item in evidence(found[0])} == {name}


def test_over_http_nobody_without_a_token_is_answered(address: str) -> None:
    import urllib.error
    import urllib.request

    def status(headers: dict[str, str]) -> tuple[int, Any]:
        request = urllib.request.Request(address, b"{}", headers, method="POST")
        for _ in range(100):
            try:
                with urllib.request.urlopen(request) as answer:
                    return answer.status, None
            except urllib.error.HTTPError as error:
                return error.code, error.headers["WWW-Authenticate"]
            except urllib.error.URLError:  # it listens, but does not answer yet
                time.sleep(0.1)
        raise AssertionError("the server did not come up")

    assert status({}) == (401, "Bearer")
    assert status({"Authorization": "Bearer wrong-wrong-wrong"}) == (401, "Bearer")


# --- the document's own case ----------------------------------------------------------------------


def test_public_key_retrieval_in_four_rounds(dbconn: Path, shared: Path) -> None:
    """From the error to the option, from the option to its danger, and to what is better."""
    tasks = {task.id: task for task in load_tasks(shared / "cases" / "corpus_tasks.jsonl")}
    task: Task = tasks["dbconn-001"]

    async def main() -> list[list[dict[str, Any]]]:
        async with Client(mcp_server(Corpus.open(dbconn), session=session_options())) as client:

            async def ask(name: str, **given: Any) -> list[dict[str, Any]]:
                return evidence(await client.call_tool(name, given))

            rounds = [
                await ask("search_general_knowledge", query="Public Key Retrieval is not allowed")
            ]
            # The option is named in what the first round showed, as a name that can be followed.
            named = {name for item in rounds[0] for name in item.get("names", ())}
            option = next(n for n in sorted(named) if "allowpublickeyretrieval" in n.casefold())
            bare = option.partition(":")[2]
            rounds.append(await ask("search_precise", query=bare))
            rounds.append(await ask("look_for_evidence", claim_a=bare, claim_b="MITM"))
            # And the alternative is documented together with the error.
            rounds.append(
                await ask("look_for_evidence", claim_a="SslMode=Required", claim_b="public key")
            )
            return rounds

    rounds = asyncio.run(main())
    passages = [
        Passage(item["source_id"].split("/", 1)[1], *item["span"], item["excerpt"], "cut" in item)
        for found in rounds
        for item in found
    ]
    assert missing(task, passages) == []
    assert len(rounds) == 4
    assert any("SslMode" in item["excerpt"] for item in rounds[3])
