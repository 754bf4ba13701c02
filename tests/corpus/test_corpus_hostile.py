"""Questions of somebody who means no good, by the tools: forged cursors, other tenants, odd texts.

What the page and the server are sent is in test_corpus_web and test_corpus_mcp.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import small_corpus
from corpora import embed
from gnomon.corpus import Corpus, CorpusIndex, Documents
from gnomon.corpus.model import Source
from gnomon.corpus.regex_spans import SPANS_MOST
from gnomon.corpus.tool_answers import as_json
from gnomon.corpus.toolset import call_tool, corpus_tools

SECRET = "swordfish"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_corpus.make(tmp_path_factory.mktemp("hostile") / "small.corpus")


@pytest.fixture(scope="module")
def whole(index: Path) -> Corpus:
    return Corpus.open(index)


@pytest.fixture(scope="module")
def corpus(index: Path) -> Corpus:
    return Corpus.open(index, "ann", ["docs"])


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """An index in which the secret never was."""
    place = tmp_path_factory.mktemp("without") / "x"
    given = [(name, text.encode()) for name, text in small_corpus.DOCS.items()]
    with CorpusIndex.create(place) as made:
        made.update([Documents(Source(name="docs", acl=("docs",)), given)])
        made.update([Documents(Source(name="other", acl=("other",)), [("x.md", b"# X\n")])])
    return Corpus.open(place, "ann", ["docs"])


def told(corpus: Corpus, name: str, **arguments: Any) -> dict[str, Any]:
    checked = corpus_tools(corpus)[name].contract.validate(arguments).value
    return call_tool(corpus, name, checked)


def secret_ids(whole: Corpus) -> dict[str, str]:
    item = whole.hybrid_search(SECRET).items[0]
    assert item.path == "secret/plan.md"
    return {"chunk": item.chunk_id, "section": item.section_id, "doc": item.doc_id}


PROBES: list[tuple[str, dict[str, Any]]] = [
    ("search_precise", {"query": "swordfish_option"}),
    ("search_precise", {"query": "path:secret/plan.md"}),
    ("search_precise", {"query": "source:secret"}),
    ("search_precise", {"query": "path:*"}),
    ("search_precise", {"query": "swordfish* OR /sword.*/ OR swordfsh~2"}),
    ("search_precise", {"query": "NOT zzz"}),
    ("search_precise", {"query": "entity:option:swordfish_option"}),
    ("search_general_knowledge", {"query": "what is the swordfish option", "path": "secret/*"}),
    ("search_general_knowledge", {"query": "plan 42"}),
    ("find_api_reference", {"entity": "swordfish_option"}),
    ("find_api_reference", {"entity": "swordfish_optin"}),
    ("explore_related_errors", {"error_code": "swordfish_option"}),
    ("look_for_evidence", {"claim_a": "swordfish_option", "claim_b": "AllowPublicKeyRetrieval"}),
    ("navigate", {"entity": "option:allowpublickeyretrieval"}),
    ("navigate", {"entity": "option:swordfish_option"}),
    ("navigate", {"entity": "{doc}"}),
    ("navigate", {"entity": "{section}"}),
    ("navigate", {"entity": "{chunk}"}),
    ("read", {"target": "{chunk}"}),
    ("read", {"target": "doc:{doc}"}),
    ("read", {"target": "section:{section}"}),
    ("read", {"target": "secret/plan.md"}),
    ("read", {"target": "secret/plan.md:0-40"}),
    ("read", {"target": "docs/../secret/plan.md"}),
    ("refine", {"result_ids": ["{chunk}"], "query": "plan"}),
]


@pytest.mark.parametrize(("name", "arguments"), PROBES, ids=lambda each: str(each)[:40])
def test_another_tenant_s_documents_are_as_if_they_were_not(
    corpus: Corpus, without: Corpus, whole: Corpus, name: str, arguments: dict[str, Any]
) -> None:
    """What a probe for the secret is told is what an index says in which it never was."""
    ids = secret_ids(whole)

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(each) for each in value]
        return value.format(**ids) if isinstance(value, str) and "{" in value else value

    given = {key: filled(value) for key, value in arguments.items()}
    said, right = told(corpus, name, **given), told(without, name, **given)
    for answer in (said, right):
        answer["report"].pop("generation", None)
        answer["report"].pop("cursor", None)
    assert as_json(said) == as_json(right)


def test_scopes_are_not_a_model_s_to_send(corpus: Corpus) -> None:
    for extra in (
        {"scopes": ["secret"]},
        {"principal": "root"},
        {"scope": "doc:x"},
        {"filters": {}},
    ):
        with pytest.raises(ValueError, match=next(iter(extra))):
            told(corpus, "search_precise", query="plan", **extra)


@pytest.mark.parametrize("mode", ["exact", "sparse", "dense", "hybrid"])
def test_a_cursor_of_another_question_tenant_or_generation_is_refused(
    tmp_path: Path, mode: str
) -> None:
    place = tmp_path / "x"
    pages = [(f"p{n}.md", f"# Page {n}\n\nthe pool of {n}\n".encode()) for n in range(9)]
    with CorpusIndex.create(place) as made:
        made.update([Documents(Source(name="docs", acl=("docs",)), pages)], embedder=embed)
    corpus = Corpus.open(place, "ann", ["docs"], embed)
    first = corpus.hybrid_search("pool", mode, k=2)
    cursor = first.report.cursor
    assert cursor

    def code(asked: Corpus, query: str, cursor: str, **options: Any) -> str:
        answer = asked.hybrid_search(query, mode, k=2, cursor=cursor, **options)
        assert answer.report.problem is None or not answer.items
        return "" if answer.report.problem is None else answer.report.problem.code

    assert code(corpus, "pool", cursor) == ""
    assert code(corpus, "page", cursor) == "cursor_invalid"
    assert code(corpus, "pool", cursor, filters={"path": "p1.md"}) == "cursor_invalid"
    assert code(corpus.seen_by("eve", ["docs", "x"]), "pool", cursor) == "cursor_invalid"
    assert code(corpus.seen_by("eve", None), "pool", cursor) == "cursor_invalid"
    generation, _, key = cursor.split("-")
    offsets = ("-3", "1e9", "\u0661", "9" * 5000, "2-", "")
    for forged in ("1", "x", "\x00" * 99, *(f"{generation}-{one}-{key}" for one in offsets)):
        assert code(corpus, "pool", forged) == "cursor_invalid"
    far = corpus.hybrid_search("pool", mode, k=2, cursor=f"{generation}-999999999999999-{key}")
    assert far.items == []
    assert far.report.no_hit is not None
    assert far.report.no_hit.reason == "exhausted_cursor"
    with CorpusIndex.open(place) as made:
        made.update([Documents(Source(name="more", acl=("docs",)), pages[:1])], embedder=embed)
    corpus.refresh()
    assert code(corpus, "pool", cursor) == "cursor_stale"


ODD = [
    *("\x00", "\x1b]0;owned\x07", "\u202e\u2066", "a\u0000b", "\x7f" * 100, "\ufeff" * 50),
    *("%n%s" * 100, "${jndi:ldap://x}", "' OR 1=1 --", "<script>1</script>", "{}" * 500),
]


def test_a_lone_surrogate_is_refused_by_name(corpus: Corpus) -> None:
    with pytest.raises(ValueError, match="/query: holds a lone surrogate"):
        told(corpus, "search_precise", query="\ud800")


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_odd_texts_give_small_answers_in_sound_json(corpus: Corpus, text: str) -> None:
    for name, key in (
        ("search_general_knowledge", "query"),
        ("search_precise", "query"),
        ("find_api_reference", "entity"),
        ("explore_related_errors", "error_code"),
        ("navigate", "entity"),
        ("read", "target"),
    ):
        answer = told(corpus, name, **{key: text[:500], "max_tokens": 500})
        data = as_json(answer)
        assert len(data) <= 2000
        json.loads(data)
        assert not any(byte < 32 for byte in data)


@pytest.mark.parametrize(
    "pattern", [".", "(.*)*", "(a|b|.)+", "(x+x+)+y", "[^z]", "(?:.{0,50}){0,20}", r"\b", ""]
)
def test_expressions_that_match_everywhere_cost_what_others_do(
    corpus: Corpus, pattern: str
) -> None:
    """The time of the process: others share the clock."""
    began = time.process_time()
    answer = corpus.hybrid_search(f"/{pattern}/", mode="exact", max_tokens=1000)
    assert len(answer.to_json()) <= 4000
    for item in answer:
        assert len(item.matches) <= SPANS_MOST
    assert time.process_time() - began < 1.0


def test_of_many_matches_in_a_passage_the_first_are_shown(tmp_path: Path) -> None:
    text = b"# Wide\n\n" + b"ab " * 900
    with CorpusIndex.create(tmp_path / "x") as made:
        made.update([Documents("docs", [("w.md", text)])])
    answer = Corpus.open(tmp_path / "x").hybrid_search("/a/", mode="exact", max_tokens=4000)
    assert answer.report.total == len(answer.items) > 0
    for item in answer:
        assert item.matches
        assert all(text[start:end] == b"a" for start, end in item.matches)
