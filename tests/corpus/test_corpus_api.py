"""Answers: spans that are right, scores that add up, bounds that hold, the same bytes each time."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest
from corpora import SMALL, Documents, all_ids, corpus_of, embed, pages, small
from gnomon.agent import Evidence
from gnomon.corpus import Answer, Corpus, Source, process_document


def raws(documents: Documents) -> dict[str, bytes]:
    return {done.document.path: raw for done, raw, _ in documents}


def test_escaped_names_are_found_with_their_raw_spans() -> None:
    corpus = corpus_of(small())
    answer = corpus.hybrid_search("max_allowed_packet")
    texts = {SMALL[item.path].encode()[start:end] for item in answer for start, end in item.matches}
    assert texts == {b"max\\_allowed\\_packet", b"max_allowed_packet"}
    assert corpus.hybrid_search(r"max\_allowed\_packet").report.total == answer.report.total == 3
    marked = {item.highlighted("[", "]") for item in answer}
    assert any("[max_allowed_packet] to 3" in text for text in marked)


def test_a_name_is_found_inside_a_qualified_one() -> None:
    text = b"# A\n\nSee DBOptions::WAL\\_ttl\\_seconds.\n\n# B\n\nWAL_ttl_seconds=3, MDL_lock::x.\n"
    source = Source(name="docs")
    corpus = corpus_of([(process_document(text, source, path="a.md"), text, source)])
    answer = corpus.hybrid_search("WAL_ttl_seconds", mode="exact")
    shown = {text[slice(*span)] for item in answer for span in item.matches}
    assert shown == {b"DBOptions::WAL\\_ttl\\_seconds", b"WAL_ttl_seconds"}
    assert corpus.hybrid_search("MDL_lock").report.total == 1


@pytest.mark.parametrize("mode", ["sparse", "exact", "hybrid", "dense", "auto"])
def test_parts_add_up_to_the_score_bit_for_bit(mode: str) -> None:
    corpus = corpus_of(small(), embedder=embed)
    for query in ("packet too big", "max_allowed_packet timeout", '"public key"', "wait"):
        for item in corpus.hybrid_search(query, mode=mode, k=50, max_tokens=20_000):
            assert item.score is not None
            total = 0.0
            for part in item.score.parts:
                total += part.value
            assert total == item.score.value
            assert item.confidence is not None
            assert 0 <= item.confidence.value <= 1


def test_items_are_evidence() -> None:
    corpus = corpus_of(small(acl=[("staff",), ("public", "staff")]))
    for item in corpus.hybrid_search("packet", k=5):
        evidence = Evidence.from_dict(item.evidence())
        assert evidence.revision == item.revision
        assert evidence.retrieved_at == "2027-01-15T08:00:00Z"
        assert evidence.acl_scope in ("staff", "public,staff")
        assert evidence.excerpt == item.excerpt


def test_modes_without_vectors_say_so() -> None:
    corpus = corpus_of(small())
    for mode in ("dense", "hybrid"):
        report = corpus.hybrid_search("packet", mode=mode).report
        assert (report.mode, report.fallbacks[0].step) == ("sparse", "sparse")
        assert report.fallbacks[0].why == "the corpus has no vectors"


def test_auto_prefers_the_sparse_index_for_concrete_terms() -> None:
    corpus = corpus_of(small(), embedder=embed)
    concrete = corpus.hybrid_search("what is max_allowed_packet")
    assert concrete.report.mode == "sparse"
    assert concrete.report.why == ("concrete term 'max_allowed_packet': df=3",)
    assert corpus.hybrid_search("how big may it be").report.mode == "hybrid"
    assert corpus.hybrid_search('"too big"').report.mode == "exact"
    quoted = corpus.hybrid_search('what does "Public Key Retrieval" mean when it is not allowed')
    assert quoted.report.mode == "sparse"
    assert quoted.report.why == ("quoted text 'Public Key Retrieval': df=1",)
    nowhere = 'what does "Private Key Retrieval" mean when it is not allowed'
    assert corpus.hybrid_search(nowhere).report.mode == "hybrid"
    assert corpus.hybrid_search("what is a MITM attack").report.mode == "sparse"
    assert corpus.hybrid_search("WHAT ABOUT ATTACKS").report.mode == "hybrid"  # all are capitals
    extended = corpus.hybrid_search("allowPublicKeyRetrieval", k=5)
    assert [item.relaxed for item in extended] == ["", "dense", "dense", "dense", "dense"]
    assert (extended.report.total, extended.report.fallbacks[0].step) == (1, "dense")


# Bounds: see test_corpus_bounds.py, too


def test_cursors_are_bound_to_their_question() -> None:
    corpus = corpus_of(small())
    cursor = corpus.hybrid_search("packet", k=1).report.cursor
    assert corpus.hybrid_search("packet", k=2, cursor=cursor).report.problem is None
    for other, code in (
        (corpus.hybrid_search("big", cursor=cursor), "cursor_invalid"),
        (corpus.hybrid_search("packet", cursor="x"), "cursor_invalid"),
        (corpus.hybrid_search("packet", cursor="9" + cursor[1:]), "cursor_stale"),
        (corpus.seen_by("u", ["s"]).hybrid_search("packet", cursor=cursor), "cursor_invalid"),
    ):
        assert other.report.problem is not None
        assert other.report.problem.code == code
        assert other.items == []


def test_the_same_call_gives_the_same_bytes_from_the_cache_or_not() -> None:
    documents = small()
    cached, plain = corpus_of(documents), corpus_of(documents, cache_bytes=0)
    calls: list[Any] = [
        lambda c: c.hybrid_search("packet timeout", filters={"kind": "prose", "path": "docs*"}),
        lambda c: c.navigate("max_allowed_packet"),
        lambda c: c.verify_hypothesis("packet", "bigger"),
        lambda c: c.grep("max", literal=True),
    ]
    for call in calls:
        answers = [call(cached), call(cached), call(plain), call(plain)]
        assert len({answer.to_json() for answer in answers}) == 1
        assert msgspec.json.decode(answers[0].to_json(), type=Answer).items == answers[0].items
    assert (cached.cache.hits, plain.cache.hits) == (4, 0)
    turned = cached.hybrid_search("packet timeout", filters={"path": "docs*", "kind": "prose"})
    assert cached.cache.hits == 5
    assert turned.to_json() == calls[0](plain).to_json()


def test_a_full_cache_forgets_the_oldest() -> None:
    corpus = corpus_of(small(), cache_bytes=9000)
    for word in ("packet", "big", "wait", "fish"):
        corpus.hybrid_search(word)
    corpus.hybrid_search("fish")
    corpus.hybrid_search("packet")
    assert (corpus.cache.hits, corpus.cache.misses) == (1, 5)


def test_async_calls_are_those_of_the_corpus_and_overlap() -> None:
    corpus = corpus_of(small(), cache_bytes=0)
    barrier = threading.Barrier(2, timeout=20)
    plain = corpus.timeless

    def together(call: Any) -> Answer:
        barrier.wait()  # passes only if two calls run at the same time
        return plain(call)

    corpus.timeless = together  # type: ignore[method-assign]

    async def ask() -> list[Answer]:
        twin = corpus.aio()
        return list(await asyncio.gather(twin.hybrid_search("packet"), twin.grep("max")))

    answers = asyncio.run(ask())
    corpus.timeless = plain  # type: ignore[method-assign]
    right = [corpus.hybrid_search("packet"), corpus.grep("max")]
    assert [a.to_json() for a in answers] == [a.to_json() for a in right]


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda c: c.hybrid_search(3), TypeError, "query must be a str"),
        (lambda c: c.hybrid_search("a", mode="best"), ValueError, "mode must be one of"),
        (lambda c: c.hybrid_search("a", k=0), ValueError, "k must lie between 1 and 1000"),
        (lambda c: c.hybrid_search("a", max_tokens=10), ValueError, "max_tokens must lie between"),
        (lambda c: c.hybrid_search("a", filters=["x"]), TypeError, "filters must be a mapping"),
        (lambda c: c.verify_hypothesis("a", "b", "near"), ValueError, "scope must be 'chunk'"),
        (lambda c: c.contextual_refine("abc", "b"), TypeError, "must be a list of str"),
        (lambda c: c.seen_by("u", "staff"), TypeError, "scopes is one text"),
    ],
)
def test_a_programmers_mistake_raises(call: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call(corpus_of(small()))


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda c: c.hybrid_search("a", filters={"colour": "red"}), "unknown_field"),
        (lambda c: c.hybrid_search("a", filters={"path": {"$near": 3}}), "bad_filter"),
        (lambda c: c.hybrid_search("a", scope="town:x"), "bad_scope"),
        (lambda c: c.hybrid_search("a" * 20_000), "query_too_long"),
        (lambda c: c.hybrid_search("/(/"), "bad_regex"),
        (lambda c: c.grep("(", raw=True), "bad_regex"),
        (lambda c: c.contextual_refine(["zz"], "b"), "unknown_id"),
        (lambda c: c.verify_hypothesis("", "b"), "empty_query"),
    ],
)
def test_a_models_mistake_is_data(call: Any, code: str) -> None:
    answer = call(corpus_of(small()))
    assert answer.report.problem.code == code
    assert answer.items == []


# Hypotheses (see test_corpus_hypotheses.py, too) and navigation


def test_claims_that_never_meet() -> None:
    corpus = corpus_of(small())
    apart = corpus.verify_hypothesis("wait_timeout", "MITM")
    assert apart.report.no_hit is not None
    assert apart.report.no_hit.reason == "never_together"
    assert (apart.report.counts["a"], apart.report.counts["both"]) == (2, 0)
    assert {item.relaxed for item in apart} == {"alone"}
    wider = corpus.verify_hypothesis("max_allowed_packet", "MITM")
    assert {item.relaxed for item in wider} == {"scope:doc"}
    absent = corpus.verify_hypothesis("allowPublicKeyRetrievl", "MITM").report.no_hit
    assert absent is not None
    assert absent.guilty == ("allowPublicKeyRetrievl",)
    assert "allowpublickeyretrieval" in absent.nearest[0].instead


def test_navigation_from_passages_and_names() -> None:
    corpus = corpus_of(small())
    hit = corpus.hybrid_search('"below timeouts"').items[0]
    above = corpus.navigate(hit.chunk_id, "PARENT_HEADING").items
    headings = [SMALL[i.path].encode()[slice(*i.matches[0])].strip() for i in above]
    assert headings == [b"## Timeouts", b"# Setup"]
    assert corpus.navigate(hit.chunk_id, "prev").items[0].heading == ("Setup", "Timeouts")
    below = corpus.navigate(above[-1].edge.target, "children")
    assert [item.heading for item in below] == [("Setup", "Timeouts")]
    pool = corpus.navigate("class:pool", "INHERITS").items[0]
    assert pool.edge is not None
    assert pool.edge.target == "class:base"
    assert SMALL["src/Pool.java"].encode()[slice(*pool.matches[0])] == b"Base"
    nothing = corpus.navigate("class:pool", "implements").report
    assert nothing.no_hit is not None
    assert nothing.no_hit.reason == "no_relation"
    assert "inherits (1)" in nothing.no_hit.advice
    guess = corpus.navigate("max_allowed_pack")
    assert {item.relaxed for item in guess} == {"name"}
    unknown = corpus.navigate("max_alowed_packet").report.no_hit
    assert unknown is not None
    assert "max_allowed_packet" in unknown.advice


def test_refinement_stays_inside() -> None:
    corpus = corpus_of(small())
    hit = corpus.hybrid_search("MITM").items[0]
    whole = corpus.hybrid_search("packet", k=50)
    for within, name in (("doc", "doc_id"), ("section", "section_id"), ("chunk", "chunk_id")):
        inner = corpus.contextual_refine([hit.chunk_id], "packet", within=within, k=50)
        right = [i.chunk_id for i in whole if getattr(i, name) == getattr(hit, name)]
        assert [i.chunk_id for i in inner if not i.relaxed] == right
        assert inner.report.total == len(right)


def test_filters_and_scopes() -> None:
    corpus = corpus_of(small())

    def paths(**args: Any) -> set[str]:
        answers = pages(corpus.hybrid_search, query="*", mode="exact", k=50, **args)
        assert len(all_ids(answers)) == answers[0].report.total
        return {item.path for answer in answers for item in answer}

    everything = paths()
    assert everything == set(SMALL)
    assert paths(filters={"path": "docs/*"}) == {"docs/setup.md", "docs/errors.md"}
    assert paths(filters={"path": {"$nin": ["docs"]}}) == everything - paths(scope="path:docs")
    assert paths(filters={"type": ["java", "plain"]}) == {"src/Pool.java", "CHANGES"}
    assert paths(filters={"heading": "timeouts"}) == {"docs/setup.md"}
    assert paths(filters={"entity": "class:pool"}) == {"src/Pool.java"}
    assert paths(filters={"error": "1153"}) == {"docs/errors.md"}
    assert paths(filters={"language": {"$exists": False}}) == everything - {"src/Pool.java"}
    document = corpus.list(pattern="CHANGES").lines[0].id
    assert paths(scope=document) == {"CHANGES"}
    ids = [item.chunk_id for item in corpus.hybrid_search("packet", k=2)]
    inside = corpus.hybrid_search("*", mode="exact", scope=ids)
    assert {item.chunk_id for item in inside} == set(ids)


def test_hostile_questions_end_soon() -> None:
    """Bounded work: the time of the process, not of the clock, which others share."""
    import time

    corpus: Corpus = corpus_of(small(), cache_bytes=0)
    corpus.hybrid_search("warm packet")
    queries = [
        "a" * 1_000_000,
        " OR ".join(f"t{i}" for i in range(10_000)),
        "(" * 5000 + "a" + ")" * 5000,
        '"' * 9999,
        "/a" * 5000,
        "path:[" * 2000,
        "*a" * 4000,
        "NEAR(" + "a," * 5000 + "3)",
        "\x00\u202e\u2066 \x00",
        "path:../../etc/passwd",
        "x~2 " * 900,
        "the AND " * 900 + "of",
        " ".join(f'"the of{i}"~60' for i in range(300)),
    ]
    for query in queries:
        for mode in ("auto", "exact"):
            began = time.process_time()
            answer = corpus.hybrid_search(query, mode=mode, max_tokens=600)
            assert time.process_time() - began < 1.0, query[:40]
            assert len(answer.to_json()) <= 2400
    for target in ("../../etc/passwd", "doc:../x", "\x00", "/etc/passwd:0-10", ""):
        assert corpus.read(target).items == []
