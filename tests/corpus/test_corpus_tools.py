"""The eight tools: what a model is told, what it may send, what it gets back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import small_corpus
from gnomon.agent import EVIDENCE_SCHEMA, ToolRuntime, compile_schema
from gnomon.corpus.answers import Answer
from gnomon.corpus.api import Corpus
from gnomon.corpus.tool_answers import as_json, tokens_of, told
from gnomon.corpus.tool_search import BY_DOCUMENT
from gnomon.corpus.tool_specs import META_PROMPT, NAMES, SPECS
from gnomon.corpus.toolset import (
    answer_tool,
    anthropic_definitions,
    call_tool,
    corpus_tools,
    langchain_tools,
    openai_definitions,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXAMPLES: dict[str, dict[str, Any]] = {
    "search_general_knowledge": {"query": "how to get the plaintext password"},
    "search_precise": {"query": '"Public Key Retrieval is not allowed"'},
    "find_api_reference": {"entity": "max_allowed_packet"},
    "explore_related_errors": {"error_code": "1153"},
    "look_for_evidence": {"claim_a": "AllowPublicKeyRetrieval", "claim_b": "MITM"},
    "navigate": {"entity": "option:max_allowed_packet"},
    "read": {"target": "server/variables.md"},
}


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_corpus.make(tmp_path_factory.mktemp("tools") / "small.corpus")


@pytest.fixture(scope="session")
def corpus(index: Path) -> Corpus:
    return Corpus.open(index)


# --- what a model is told -------------------------------------------------------------------------


def test_there_are_at_most_eight_tools_of_2000_tokens_and_60_words() -> None:
    """Check 17: at most eight tools, whose schemas have at most 2,000 tokens."""
    assert len(SPECS) <= 8
    for tools in (anthropic_definitions(), openai_definitions(), openai_definitions(strict=True)):
        assert tokens_of(tools) <= 2000
    for spec in SPECS:
        assert len(spec.purpose.split()) <= 60
        assert spec.schema["additionalProperties"] is False
        assert spec.name in META_PROMPT or spec.name in ("navigate", "read", "refine")


def test_no_tenant_or_scope_of_access_stands_in_what_a_model_is_told(corpus: Corpus) -> None:
    for injected in (False, True):
        for tool in corpus_tools(corpus, injected=injected).values():
            told_to_model = json.dumps(tool.contract.describe())
            assert "principal" not in told_to_model
            assert '"scopes"' not in told_to_model
            assert tool.contract.describe()["annotations"]["readOnlyHint"] is True


def test_strict_definitions_need_every_argument_and_take_null(corpus: Corpus) -> None:
    for tool in openai_definitions(strict=True, api="responses"):
        schema = tool["parameters"]
        assert schema["required"] == list(schema["properties"])
        for name, field in schema["properties"].items():
            given = SPECS[NAMES.index(tool["name"])].schema["required"]
            assert ("null" in field["type"]) == (name not in given)
    nulls = {"query": "max_allowed_packet", "k": None, "cursor": None, "max_tokens": None}
    assert answer_tool(corpus, "search_precise", nulls).items
    with pytest.raises(ValueError, match="'chat' or 'responses'"):
        openai_definitions(api="completions")


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_argument_is_refused_by_name(corpus: Corpus, name: str) -> None:
    """Check 17: of each tool, by its contract."""
    contract = corpus_tools(corpus)[name].contract
    arguments = {"result_ids": ["x"], "query": "y"} if name == "refine" else EXAMPLES[name]
    contract.validate(arguments)
    for sneaked in ("tenant", "scopes", "principal", "acl"):
        with pytest.raises(ValueError, match=f"/{sneaked}"):
            contract.validate({**arguments, sneaked: "secret"})


# --- what it gets back ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_every_tool_answers_with_evidence_that_keeps_the_contract(
    corpus: Corpus, name: str
) -> None:
    answer = call_tool(corpus, name, EXAMPLES[name])
    assert answer["status"] == "succeeded"
    assert answer["evidence"]
    kept = compile_schema(EVIDENCE_SCHEMA)
    for item in answer["evidence"]:
        wanted = {key: item[key] for key in EVIDENCE_SCHEMA["required"]}
        kept.validate(wanted)
        raw = (small_corpus.DOCS | small_corpus.SECRET)[item["source_id"].split("/", 1)[1]]
        start, end = item["span"]
        assert raw.encode()[start:end].decode()  # the span is bytes of the document


def test_the_answers_are_those_that_the_tools_promise(corpus: Corpus) -> None:
    found = answer_tool(corpus, "find_api_reference", {"entity": "max_allowed_packet"})
    assert found.items[0].path == "server/variables.md"
    error = answer_tool(corpus, "explore_related_errors", {"error_code": "1153"})
    assert error.items[0].path == "server/e1153.md"
    assert "ER_NET_PACKET_TOO_LARGE" in error.items[0].excerpt
    by_symbol = answer_tool(
        corpus, "explore_related_errors", {"error_code": "ER_NET_PACKET_TOO_LARGE"}
    )
    assert by_symbol.items[0].path == "server/e1153.md"
    both = answer_tool(corpus, "look_for_evidence", EXAMPLES["look_for_evidence"])
    assert both.report.total == 1
    assert both.items[0].path == "driver/options.md"
    first = answer_tool(corpus, "search_general_knowledge", {"query": "secure connection"})
    inside = answer_tool(
        corpus, "refine", {"result_ids": [first.items[0].chunk_id], "query": "MITM OR preferred"}
    )
    assert {item.path for item in inside.items} == {first.items[0].path}


def test_what_stands_in_for_an_empty_answer_is_marked(corpus: Corpus) -> None:
    for name, arguments in (
        ("find_api_reference", {"entity": "plaintext"}),
        ("explore_related_errors", {"error_code": "9999"}),
        ("search_precise", {"query": "max_alowed_packet"}),
    ):
        answer = answer_tool(corpus, name, arguments)
        assert answer.report.total == 0, name
        assert all(item.relaxed for item in answer.items), name
        assert answer.report.no_hit is not None, name
    absent = call_tool(corpus, "search_precise", {"query": "zzzNowhere"})
    assert absent["evidence"] == []
    assert absent["report"]["terms"] == {"zzzNowhere": 0}
    assert absent["report"]["no_hit"]["reason"] == "unknown_term"


def test_passages_of_the_same_text_are_shown_once_and_named(tmp_path: Path) -> None:
    text = "# Copy\n\nThe `copied_option` doubles the buffer.\n"
    twice = {"a/README.md": text, "b/content.md": text, "c.md": "# Other\n\nNothing here.\n"}
    corpus = Corpus.open(small_corpus.make(tmp_path / "twice.corpus", twice))
    answer = answer_tool(corpus, "search_precise", {"query": "copied_option"})
    assert answer.report.total == 2
    (item,) = answer.items
    assert [same.path for same in item.also] == ["b/content.md"]
    assert told(answer)["evidence"][0]["also"][0]["source_id"] == "docs/b/content.md"


# --- bounds ---------------------------------------------------------------------------------------


@given(
    st.sampled_from([*EXAMPLES, "search_precise"]),
    st.integers(256, 3000),
    st.sampled_from(["", "max_allowed_packet", "the", "option OR the", "x" * 500, "(((", "\u202e"]),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_answer_is_larger_than_asked_for(
    corpus: Corpus, name: str, most: int, query: str
) -> None:
    arguments = {**EXAMPLES[name], "max_tokens": most}
    if query and "query" in arguments:
        arguments["query"] = query
    answer = answer_tool(corpus, name, arguments)
    assert tokens_of(told(answer)) <= most


def test_pages_are_disjoint_and_together_the_whole(corpus: Corpus) -> None:
    whole = [i.chunk_id for i in corpus.hybrid_search("option OR connection", "exact", k=50).items]
    seen: list[str] = []
    arguments: dict[str, Any] = {"query": "option OR connection", "max_tokens": 400, "k": 2}
    for _ in range(50):
        answer = answer_tool(corpus, "search_precise", arguments)
        shown = [item for item in answer.items if item.relaxed != "context"]
        seen += [
            chunk for item in shown for chunk in (item.chunk_id, *(s.chunk_id for s in item.also))
        ]
        if not answer.report.cursor:
            break
        arguments["cursor"] = answer.report.cursor
    assert len(seen) == len(set(seen))
    assert set(whole) <= set(seen)
    stale = answer_tool(corpus, "search_precise", {**arguments, "cursor": "99-1-abc"})
    assert stale.report.problem is not None
    assert call_tool(corpus, "search_precise", {"query": "x", "cursor": "no"})["status"] == "failed"


def test_the_same_call_gives_the_same_bytes(corpus: Corpus, index: Path) -> None:
    other = Corpus.open(index, cache_bytes=0)
    for name, arguments in EXAMPLES.items():
        answers = [answer_tool(each, name, arguments) for each in (corpus, corpus, other)]
        assert len({answer.to_json(times=False) for answer in answers}) == 1


# --- who may see what -----------------------------------------------------------------------------


def test_injected_callers_see_what_they_may_and_nothing_else(corpus: Corpus) -> None:
    tools = corpus_tools(corpus, injected=True)
    with ToolRuntime(tools, max_risk=0) as runtime:

        def ask(scopes: list[str] | None, number: int) -> dict[str, Any]:
            return runtime.dispatch(
                "search_precise",
                {"query": "AllowPublicKeyRetrieval OR swordfish_option"},
                f"op-{number}",
                injected={"principal": "ann", "scopes": scopes},
            )

        seen = {
            name: {item["source_id"] for item in ask(scopes, number)["evidence"]}
            for number, (name, scopes) in enumerate(
                {"docs": ["docs"], "secret": ["secret"], "none": [], "all": None}.items()
            )
        }
    assert seen["secret"] == {"secret/secret/plan.md"}
    assert "secret/secret/plan.md" not in seen["docs"]
    assert seen["none"] == set()
    assert seen["all"] >= seen["docs"] | seen["secret"]


def test_a_session_counts_tool_calls_and_ends_with_its_budget(corpus: Corpus) -> None:
    from gnomon.agent import Budget

    session = corpus.session(budget=Budget(steps=2), store=":memory:")
    first = call_tool(session, "search_precise", {"query": "wait_timeout"})
    assert first["report"]["budget"]["calls_left"] == 1
    again = call_tool(session, "search_precise", {"query": "wait_timeout"})
    assert again["report"]["repeat_of"] == 1
    assert len(as_json(again)) <= 4 * 60
    ended = call_tool(session, "read", {"target": "driver/options.md"})
    assert ended["status"] == "failed"
    assert ended["report"]["problem"]["code"] == "budget_exhausted"


# --- LangChain ------------------------------------------------------------------------------------


def test_langchain_tools_answer_and_refuse(corpus: Corpus) -> None:
    pytest.importorskip("langchain_core", reason="the extra 'langchain' is not installed")
    tools = {tool.name: tool for tool in langchain_tools(corpus)}
    assert list(tools) == list(NAMES)
    text = tools["search_precise"].invoke({"query": "wait_timeout"})
    assert json.loads(text)["evidence"][0]["source_id"] == "docs/server/variables.md"
    call = {"name": "read", "args": {"target": "hostile.md"}, "id": "1", "type": "tool_call"}
    message = tools["read"].invoke(call)
    assert isinstance(message.artifact, Answer)
    refused = tools["read"].invoke({**call, "args": {"target": "x", "tenant": "y"}})
    assert "/tenant" in refused.content


def test_a_question_in_other_words_is_asked_of_the_nearest_documents_first() -> None:
    """Its words are nowhere: the documents of the nearest passages lead, with more of their own."""
    import numpy as np
    from corpora import corpus_of
    from gnomon.corpus import Source, process_document

    def embed(texts: list[str]) -> Any:
        rows = np.full((len(texts), 3), 0.01, dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[0] += 4 * ("frozen pipes" in text or "burst" in text) + ("boiler" in text)
            row[1] += 3 * ("garden" in text)
        return rows

    source = Source(name="docs")
    texts = {
        "a.md": "# House\n\nWhat burst in winter.\n\n# Heat\n\nA boiler.\n\n# Door\n\nA key.\n",
        "b.md": "# Outside\n\nThe garden.\n\n# More\n\nAnother garden, with winter roses.\n",
    }
    documents = [
        (process_document(text.encode(), source, path=path), text.encode(), source)
        for path, text in texts.items()
    ]
    corpus = corpus_of(documents, embedder=embed)
    asked = {"query": "winter remedies against frozen pipes wanted urgently"}
    answer = answer_tool(corpus, "search_general_knowledge", asked)
    assert answer.report.mode == "hybrid"
    assert [step.step for step in answer.report.fallbacks] == [BY_DOCUMENT]
    assert [item.path for item in answer.items[:2]] == ["a.md", "b.md"]
    assert {item.path for item in answer.items[:5:2]} == {"a.md"}
    held = answer_tool(corpus, "search_general_knowledge", {"query": "another garden, roses"})
    assert (held.report.mode, held.report.fallbacks) == ("hybrid", ())


def test_where_words_and_vectors_agree_nothing_is_asked_by_document() -> None:
    """Most words are nowhere, but the passages that hold the others are the nearest as well."""
    from corpora import corpus_of
    from gnomon.corpus import Source, process_document

    def corpus(near: str) -> Corpus:
        def embed(texts: list[str]) -> Any:
            wanted = [near in text or "unheard" in text for text in texts]
            return [[1.0, 0.0] if one else [0.1, 1.0] for one in wanted]

        source = Source(name="docs")
        texts = [f"# {word} {n}\n\nText.\n" for word in ("Rose", "Tulip") for n in range(25)]
        raw = [(f"{n}.md", text.encode()) for n, text in enumerate(texts)]
        made = [(process_document(text, source, path=path), text, source) for path, text in raw]
        return corpus_of(made, embedder=embed)

    asked = {"query": "rose unheard unseen unknown unsaid things"}
    apart = answer_tool(corpus("Tulip"), "search_general_knowledge", asked)
    assert [step.step for step in apart.report.fallbacks] == [BY_DOCUMENT]
    assert apart.items[0].title.startswith("Tulip")
    together = answer_tool(corpus("Rose"), "search_general_knowledge", asked)
    assert (together.report.mode, together.report.fallbacks) == ("hybrid", ())
    assert together.items[0].title.startswith("Rose")


def test_the_first_page_decides_for_all_what_stands_by_document() -> None:
    """A passage that only a later page looks at holds most of the words; the list stays."""
    from corpora import all_ids, corpus_of, pages
    from gnomon.corpus import Source, process_document

    words = ["heron", "pigeon", "swallow", "magpie", "kestrel"]

    def embed(texts: list[str]) -> Any:
        asked = [all(word in text for word in words) for text in texts]
        near = [
            3.0 if one else float("nearest" in text) for one, text in zip(asked, texts, strict=True)
        ]
        return [[one + ("elsewhere" in text), 1.0] for one, text in zip(near, texts, strict=True)]

    source = Source(name="docs")
    texts = {
        f"{word}{n}.md": f"# N{n}\n\n{word} r{n}{word}.\n" for n in range(12) for word in words
    }
    texts |= {f"e{n}.md": f"# E {n}\n\nelsewhere q{n}.\n" for n in range(110)}
    filler = " ".join(f"filler{n}" for n in range(90))
    texts["long.md"] = f"# Long\n\nheron pigeon swallow {filler} {filler}.\n"
    parts = "".join(f"# Part {n}\n\nApart p{n}.\n\n" for n in range(4))
    texts["near.md"] = f"# Near\n\nThe nearest and elsewhere.\n\n{parts}"
    made = [
        (process_document(text.encode(), source, path=path), text.encode(), source)
        for path, text in texts.items()
    ]
    corpus = corpus_of(made, embedder=embed)
    answers = pages(
        lambda **given: answer_tool(corpus, "search_general_knowledge", given),
        query=" ".join(words), k=40, max_tokens=8000,
    )  # fmt: skip
    assert {tuple(s.step for s in each.report.fallbacks) for each in answers} == {(BY_DOCUMENT,)}
    assert answers[0].items[0].path == "near.md"
    shown = all_ids(answers)
    assert len(shown) == len(set(shown)) > 120
    assert {f"{word}{n}.md" for n in range(12) for word in words} < {
        i.path for a in answers for i in a.items
    }
