"""Questions of somebody who means no good, by the tools: forged cursors, other tenants, odd texts.

What the page and the server are sent is in test_corpus_web and test_corpus_mcp.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_corpus
from corpora import DBCONN, FULL, embed
from gnomon.corpus import Answer, Corpus, CorpusIndex, Documents
from gnomon.corpus.coordinator import Folder
from gnomon.corpus.model import Source
from gnomon.corpus.regex_spans import SPANS_MOST
from gnomon.corpus.tool_answers import as_json
from gnomon.corpus.toolset import call_tool, corpus_tools

SECRET = "swordfish"
NOON = 1_800_000_000.0  # of `retrieved_at`: two answers are compared, a second may end between them


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_corpus.make(tmp_path_factory.mktemp("hostile") / "small.corpus")


@pytest.fixture(scope="module")
def whole(index: Path) -> Corpus:
    return Corpus.open(index)


@pytest.fixture(scope="module")
def corpus(index: Path) -> Corpus:
    return Corpus.open(index, "ann", ["docs"], clock=lambda: NOON)


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """An index in which the secret never was."""
    place = tmp_path_factory.mktemp("without") / "x"
    given = [(name, text.encode()) for name, text in small_corpus.DOCS.items()]
    with CorpusIndex.create(place) as made:
        made.update([Documents(Source(name="docs", acl=("docs",)), given)])
        made.update([Documents(Source(name="other", acl=("other",)), [("x.md", b"# X\n")])])
    return Corpus.open(place, "ann", ["docs"], clock=lambda: NOON)


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


def hostile_queries() -> dict[str, str]:
    """Queries that cost much more than they look like, by name."""
    rng = random.Random(18)

    def word(n: int = 4) -> str:
        return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=n))

    common = ["the", "of", "a", "to", "in", "is", "server", "connection", "error", "table"]
    pairs = [f"{one} {other}" for one in common for other in common]
    return {
        "a path of 5,000 parts": "/a" * 5000,
        "5,000 slashes": "/a " * 5000,
        "one fuzzy word 900 times": "x~2 " * 900,
        "900 fuzzy words": " ".join(word() + "~2" for _ in range(900)),
        "32 fuzzy words": " ".join(word() + "~2" for _ in range(32)),
        "one prefix 900 times": "a* " * 900,
        "prefixes of everything": " ".join(f"{letter}*" for letter in "abcdefghijklmnopqrstuvwxyz"),
        "a phrase of one word with slop": '"' + "the " * 64 + '"~1000',
        "a phrase of one word": '"' + "the " * 4000 + '"',
        "a phrase of common words": '"' + " ".join(rng.choices(common, k=2500)) + '"',
        "NEAR of one word": "NEAR(" + " ".join(["the"] * 60) + ", 1000)",
        "NEAR of words in turn": "NEAR(" + " ".join(["the", "of", "a"] * 20) + ", 1000)",
        "pairs of common words": " ".join(f'"{pair}"' for pair in pairs),
        "NEARs of common words": " ".join(f"NEAR({pair}, 1000)" for pair in pairs),
        "SECTION of hundreds": "SECTION(" + " ".join(common * 60) + ")",
        "SECTIONs in each other": "SECTION(" * 19 + " AND ".join(common) + ")" * 19,
        "DOC of unknown words": "DOC(" + " AND ".join(word() for _ in range(600)) + ")",
        "900 unknown words": " AND ".join(word(8) for _ in range(900)),
        "unknown identifiers": " AND ".join("_".join(word() for _ in range(8)) for _ in range(350)),
        "10,000 clauses": "a " * 8000,
        "a megabyte": "a " * 500_000,
        "open parentheses": "(" * 16_000,
        "calls that never close": "f(" * 8000,
        "deep parentheses": "(" * 8000 + "a" + ")" * 8000,
        "fields of fields": "title:" * 2500 + "a",
        "nots": "NOT " * 3000 + "the",
        "quotation marks": '"' * 15_001,
        "backslashes": "\\" * 16_000,
        "stars": "*" * 16_000,
        "a word of stars": "a*" * 7000,
        "900 wildcards": " ".join(f"{word(2)}*{word(1)}" for _ in range(900)),
        "900 expressions": " ".join(f"/{word(1)}.{word(1)}/" for _ in range(900)),
        "a repeat of repeats": "/(a{1,1000}){1,1000}/",
        "repeats in repeats": "/((((a{1,9}){1,9}){1,9}){1,9}){1,9}/",
        "a word of 999 letters": r"/\w{999}/",
        "900 globs": " ".join(f"path:*{word(1)}*{word(1)}*" for _ in range(900)),
        "700 ranges": " ".join(f"version:[{low} TO {low + 9}]" for low in range(700)),
        "a way up": "../" * 5000 + "etc/passwd",
        "NUL": "\x00" * 16_000,
        "bidirectional controls": "\u202e\u2066a " * 3000,
        "joined emoji": "\U0001f469\u200d" * 6000,
        "marks on marks": "a" + "\u0301" * 12_000,
        "a letter that is 18": "\ufdfa" * 12_000,
        "pairs of ideographs": "\u6f22\u5b57" * 8000,
        "a word of 16,000 letters": word(16_000),
        "300 letters of any script": "/" + r"\pL" * 300 + "/",
        "500 letters between two": "/" + "|".join(f".{word(1)}." for _ in range(500)) + "/",
        "a thousand short words": "/" + "|".join(word(3) for _ in range(1000)) + "/i",
    }


HOSTILE = hostile_queries()


@pytest.fixture(scope="module")
def bounded(request: pytest.FixtureRequest, whole: Corpus) -> tuple[Corpus, float]:
    """A corpus and how many seconds of the process a question to it may take."""
    if not FULL:
        return whole, 1.5  # of a machine that does other things, on a small corpus
    place = request.getfixturevalue("tmp_path_factory").mktemp("whole") / "x"
    with CorpusIndex.create(place) as made:
        made.update([Folder("dbconn", DBCONN)])
    corpus = Corpus.open(place, cache_bytes=0)
    for query in ("a~1 b* /x.y/ entity:x tag:x date:2020 DOC(a) SECTION(b) std::a_b", "zzqx zzqy"):
        corpus.hybrid_search(query, "exact")  # what is made at the first question
    for raw in (False, True):
        corpus.grep("zzqx|z.q", raw=raw)
    return corpus, 0.25


@pytest.mark.parametrize("name", HOSTILE)
def test_what_looks_cheap_is_answered_or_refused_in_bounded_time(
    bounded: tuple[Corpus, float], name: str
) -> None:
    """Check 18: whatever is asked ends soon, with an answer or with an error that says why."""
    corpus, most = bounded
    query = HOSTILE[name]
    found = corpus.hybrid_search("connection", k=5).items
    asked: dict[str, Callable[[], Answer]] = {
        "auto": lambda: corpus.hybrid_search(query),
        "exact": lambda: corpus.hybrid_search(query, "exact"),
        "refine": lambda: corpus.contextual_refine([item.chunk_id for item in found], query),
        "grep": lambda: corpus.grep(query[:4096], literal=True),
        "verify": lambda: corpus.verify_hypothesis(query[:4096], "the server"),
        "navigate": lambda: corpus.navigate(query),
        "read": lambda: corpus.read(query),
    }
    slow, number = [], list(HOSTILE).index(name)
    ways = list(asked)
    for way in ways if FULL else {"auto", ways[number % len(ways)]}:
        ask = asked[way]
        began = time.process_time()
        answer = ask()
        took = time.process_time() - began
        if took >= most:
            slow.append(f"{way}: {took:.3f} s")
        assert len(answer.to_json()) <= 8000
    assert not slow


EVERYWHERE = {
    "nothing": "",
    "perhaps an a": "a*",
    "edges of words": r"\b",
    "any character": ".",
    "ends of lines": "$",
    "blanks": " " * 4096,
    "line feeds": "\n" * 4096,
    "300 letters of any script": r"\pL" * 300,
    "500 letters between two": "|".join(f".{chr(97 + n % 26)}." for n in range(500)),
    "a thousand short words": "|".join(f"{chr(97 + n % 26)}{n % 10}e" for n in range(1000)),
    "any text 50 times": ".*a" * 50,
}
_LONGEST = 0.9  # seconds over the whole corpus: a match of each of its 440,000 lines


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("name", EVERYWHERE)
def test_patterns_that_match_everywhere_are_grepped_in_bounded_time(
    bounded: tuple[Corpus, float], name: str, raw: bool
) -> None:
    corpus, most = bounded
    for ignore_case in (False, True):
        began = time.process_time()
        answer = corpus.grep(EVERYWHERE[name], raw=raw, ignore_case=ignore_case)
        assert time.process_time() - began < max(most, _LONGEST)
        assert len(answer.to_json()) <= 8000


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("pattern", ["", "a*", r"\b", ".", "$", "^", "^.", r"\w+", "[^a]", "..?$"])
def test_lines_are_the_same_when_not_all_matches_are_counted(
    whole: Corpus, monkeypatch: pytest.MonkeyPatch, pattern: str, raw: bool
) -> None:
    ask: dict[str, Any] = {"raw": raw, "limit": None}
    snapshot = whole.snapshot
    every = snapshot.grep(pattern, **ask)
    assert every.counted
    for most in (1, 7, 100):
        some = snapshot.grep(pattern, **ask, matches_most=most)
        assert some.lines == every.lines
        assert some.total_lines == every.total_lines
        assert some.total_documents == every.total_documents
        assert some.counted or some.total_matches <= every.total_matches
    monkeypatch.setattr("gnomon.corpus.grep.joinable", lambda pattern: False)
    assert snapshot.grep(pattern, **ask) == every  # document by document, passage by passage


@pytest.mark.parametrize("pattern", [r"\pL" * 30, r"\w" * 251])
def test_a_pattern_too_large_to_be_run_over_everything_is_refused(
    whole: Corpus, pattern: str
) -> None:
    for problem in (
        whole.grep(pattern).report.problem,
        whole.hybrid_search(f"/{pattern}/", "exact").report.problem,
    ):
        assert problem is not None
        assert problem.code == "bad_regex"
        assert "at most" in problem.message
        assert "make it smaller" in problem.message
    assert whole.grep(r"\w" * 20).report.problem is None


def test_a_word_or_a_phrase_of_too_many_tokens_is_refused(whole: Corpus) -> None:
    for query in ("\ufdfa" * 12_000, '"' + "a " * 4097 + '"'):
        problem = whole.hybrid_search(query, "exact").report.problem
        assert problem is not None
        assert problem.code == "query_too_long"
        assert "at most 4,096 tokens" in problem.message
    assert whole.hybrid_search('"' + "a " * 4096 + '"', "exact").report.problem is None


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (" ".join(f"w{n}~2" for n in range(33)), "at most 32 different prefixes and fuzzy words"),
        (" ".join(f"w{n}*x" for n in range(7)), "at most 6 different regular expressions"),
        (" ".join(f"path:p{n}" for n in range(65)), "at most 64 different conditions on metadata"),
        ("/./ /[^z]/", "at most one regular expression that holds no three characters"),
    ],
)
def test_what_is_over_a_limit_is_refused_by_name(whole: Corpus, query: str, said: str) -> None:
    problem = whole.hybrid_search(query, "exact").report.problem
    assert problem is not None
    assert problem.code == "too_many_patterns"
    assert said in problem.message
    assert problem.remedy


def test_what_is_said_twice_counts_as_written(whole: Corpus) -> None:
    """Equal clauses are looked up once, but score each time: words in the order of the query."""
    asked: dict[str, Any] = {"mode": "exact", "k": 100, "max_tokens": 20_000}
    for clause in ("connect*", "conection~1", '"key retrieval"'):
        once, thrice = (
            {item.chunk_id: item.score for item in whole.hybrid_search(text, **asked).items}
            for text in (clause, f"{clause} {clause} {clause}")
        )
        assert once
        assert thrice.keys() == once.keys()
        for key, score in thrice.items():
            assert score.parts == once[key].parts * 3
            total = 0.0
            for part in score.parts:
                total += part.value
            assert score.value == total


def test_each_claim_of_a_hypothesis_is_bounded(whole: Corpus) -> None:
    """The second was not: its patterns were looked up however many there were."""
    many = " OR ".join(f"w{number}*" for number in range(33))
    for claims in ((many, "key"), ("key", many)):
        problem = whole.verify_hypothesis(*claims).report.problem
        assert problem is not None
        assert problem.code == "too_many_patterns"
    for claims in (("a" * 5000, "key"), ("key", "a" * 5000)):
        problem = whole.verify_hypothesis(*claims).report.problem
        assert problem is not None
        assert "got 5,000" in problem.message
        assert problem.remedy
