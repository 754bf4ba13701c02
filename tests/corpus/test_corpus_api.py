"""Answers: spans that are right, scores that add up, bounds that hold, the same bytes each time."""

from __future__ import annotations

import asyncio
import random
import re
import threading
from typing import Any

import msgspec
import pytest
from corpora import FULL, SMALL, Documents, all_ids, corpus_of, embed, pages, sample, small
from gnomon.agent import Evidence
from gnomon.corpus import Answer, Corpus, Source, process_document
from gnomon.corpus.bounds import tokens_of
from query_oracle import ANALYZER, Oracle


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


def test_escaped_names_of_the_shared_corpus() -> None:
    """(identifier, file) pairs that stand only with backslashes: a search finds each, grep none."""
    documents = sample(1 if FULL else 45)
    corpus, files = corpus_of(documents), raws(documents)
    escaped = re.compile(rb"(?<![\w\\])[a-z]+(?:\\_[a-z]+)+(?![\w\\])")
    pairs = sorted(
        {
            (found.decode().replace("\\", ""), path)
            for path, raw in files.items()
            for found in escaped.findall(raw)
            if found.replace(b"\\", b"") not in raw
        }
    )
    rng = random.Random(3)
    chosen = rng.sample(pairs, min(len(pairs), 5000 if FULL else 80))
    assert len(chosen) > 30
    for name, path in chosen:
        answers = pages(corpus.hybrid_search, query=name, mode="exact", detail="ids", k=1000,
                        max_tokens=100_000)  # fmt: skip
        hits = [item for answer in answers for item in answer if item.path == path]
        assert hits, (name, path)
        for item in hits:
            for start, end in item.matches:
                shown = re.sub(rb"[\\*`]|<[^>]*>", b"", files[path][start:end])
                assert name in shown.decode().lower()


def test_spans_of_every_hit_hold_what_matched() -> None:
    """Each span of a match, rendered, has the tokens of a term of the query."""
    documents = [*small(), *sample(1 if FULL else 90)]
    corpus, files = corpus_of(documents), raws(documents)
    oracle = Oracle(documents)
    rng = random.Random(1)
    checked = 0
    words = [t for fields in oracle.tokens for t in fields["body"] if len(t) > 2]
    while checked < (100_000 if FULL else 800):
        term = rng.choice(words)
        for item in corpus.hybrid_search(term, mode="exact", k=50, max_tokens=50_000):
            start, end = item.span
            chunk = corpus.snapshot.chunk(item.chunk_id)
            assert chunk.span == item.span
            assert item.excerpt in chunk.text
            for first, last in item.matches:
                assert start <= first < last <= end
                raw = files[item.path][first:last]
                shown = re.sub(rb"[\\*`]|<[^>]*>|&amp;", b"", raw).decode("utf-8", "replace")
                assert set(ANALYZER.tokens(shown)) & {term} or term in shown.casefold(), (term, raw)
                checked += 1
            for first, last in item.marks:
                assert term in ANALYZER.tokens(item.excerpt[first:last]) or (
                    term in item.excerpt[first:last].casefold()
                )


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


# Bounds


def random_call(rng: random.Random, documents: Documents, ids: list[str]) -> tuple[str, Any]:
    texts = [chunk.text for done, _, _ in documents for chunk in done.chunks]
    words = rng.choice(texts).split() or ["a"]
    query = " ".join(rng.choice(words) for _ in range(rng.choice((1, 1, 2, 5, 40))))
    done = rng.choice(documents)[0]
    k = rng.choice((1, 3, 10, 200))
    bounds = {
        "max_tokens": rng.choice((256, 300, 600, 1500, 5000)),
        "detail": rng.choice(("ids", "low", "full")),
        "k": k,
    }
    section = rng.choice(done.sections)
    tool = rng.choice(("hybrid_search", "hybrid_search", "navigate", "contextual_refine",
                       "verify_hypothesis", "read", "grep", "outline", "list"))  # fmt: skip
    if tool == "hybrid_search":
        filters = rng.choice((None, {"path": done.document.path}, {"kind": ["code", "prose"]}))
        mode = rng.choice(("auto", "sparse", "exact", "hybrid", "dense"))
        return tool, {"query": query, "mode": mode, "filters": filters, **bounds}
    if tool == "navigate":
        entity = rng.choice(done.entities).key if done.entities else "nothing"
        name = rng.choice((entity, rng.choice(ids), f"section:{section.id}", words[0]))
        return tool, {"entity_or_id": name, "depth": rng.choice((1, 2)), **bounds}
    if tool == "contextual_refine":
        previous = rng.sample(ids, 3)
        within = rng.choice(("chunk", "section", "doc"))
        return tool, {"previous_result_ids": previous, "query": query, "within": within, **bounds}
    if tool == "verify_hypothesis":
        scope = rng.choice(("section", "chunk", "doc", "near:9"))
        return tool, {"a": words[0], "b": rng.choice(words), "scope": scope, **bounds}
    if tool == "grep":
        raw = rng.random() < 0.5
        return tool, {"pattern": words[0], "literal": True, "raw": raw, **bounds}
    del bounds["detail"]
    if tool == "list":
        kind = rng.choice(("documents", "entities", "relations", "sources"))
        return tool, {"kind": kind, "pattern": rng.choice(("*", "a*", "m*")), **bounds}
    del bounds["k"]
    target = rng.choice((done.document.path, f"section:{section.id}", f"doc:{done.document.id}"))
    return tool, {"target": target, **bounds}


def test_no_answer_is_larger_than_asked_for_and_pages_add_up() -> None:
    documents = [*small(), *sample(3 if FULL else 90)]
    corpus = corpus_of(documents, embedder=embed)
    ids = [chunk.id for done, _, _ in documents for chunk in done.chunks]
    rng = random.Random(7)
    paged = 0
    for _ in range(10_000 if FULL else 60):
        tool, args = random_call(rng, documents, ids)
        ask = getattr(corpus, tool)
        answers = [ask(**args)]
        for _ in range(40):
            if not answers[-1].report.cursor:
                break
            answers.append(ask(**args, cursor=answers[-1].report.cursor))
        for answer in answers:
            size = len(answer.to_json())
            assert size <= args["max_tokens"] * 4, (tool, args, size)
            assert tokens_of(answer.to_json()) <= answer.report.budget.of
            assert answer.report.returned == len(answer.items) + len(answer.lines)
        if tool not in ("read", "grep") and not answers[-1].report.cursor:
            whole = ask(**{**args, "max_tokens": 100_000, "k": 1000, "detail": "ids"}
                        if "detail" in args else {**args, "max_tokens": 100_000})  # fmt: skip
            if whole.report.cursor or any("item" in a.report.trimmed for a in answers):
                continue
            right = [(i.chunk_id, i.edge) for i in whole.items] or [x.id for x in whole.lines]
            shown = [(i.chunk_id, i.edge) for a in answers for i in a.items] or [
                x.id for a in answers for x in a.lines
            ]
            assert shown == right, (tool, args)
            paged += len(answers) > 1
    assert paged > 5


def test_reading_in_pieces_gives_the_whole_text() -> None:
    documents = [*small(), *sample(90)]
    corpus = corpus_of(documents)
    for done, raw, _ in documents[:: 1 if FULL else 12]:
        for most in (256, 700):
            answers = pages(corpus.read, target=f"doc:{done.document.id}", max_tokens=most)
            text = "".join(item.excerpt for answer in answers for item in answer)
            assert text == "".join(chunk.text for chunk in done.chunks)
            at = 0
            for item in (item for answer in answers for item in answer):
                assert item.span[0] >= at
                at = item.span[1]
        whole = f"{done.document.path}:0-{len(raw)}"
        answers = pages(corpus.read, target=whole, max_tokens=500)
        text = "".join(item.excerpt for answer in answers for item in answer)
        assert text == raw.decode(done.document.encoding, "replace")


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


# Hypotheses and navigation against trying everything


def test_hypotheses_equal_trying_everything() -> None:
    documents = [*small(), *sample(3 if FULL else 90)]
    corpus, oracle = corpus_of(documents), Oracle(documents)
    place_of = {chunk.id: place for place, (_, chunk) in enumerate(oracle.chunks)}
    grouped = {
        scope: [getattr(chunk, name) for _, chunk in oracle.chunks]
        for scope, name in (("chunk", "id"), ("section", "section_id"), ("doc", "doc_id"))
    }
    rng = random.Random(13)
    texts = [fields["body"] for fields in oracle.tokens if len(fields["body"]) > 5]
    for _ in range(1000 if FULL else 25):
        one = rng.choice(texts)
        a, b = rng.choice(one), rng.choice(rng.choice((one, rng.choice(texts))))
        if a == b or len({*ANALYZER.tokens(a), *ANALYZER.tokens(b)}) != 2:
            continue
        for scope, groups in grouped.items():
            sides = [{groups[place] for place in oracle.places[word]} for word in (a, b)]
            answer = corpus.verify_hypothesis(f'"{a}"', f'"{b}"', scope, k=200, max_tokens=100_000)
            counts = answer.report.counts
            assert (counts["a"], counts["b"]) == (len(sides[0]), len(sides[1])), (a, b, scope)
            assert counts["both"] == answer.report.total == len(sides[0] & sides[1])
            assert counts["groups"] == len(set(groups))
            strict = [item for item in answer if not item.relaxed]
            if not answer.report.cursor:
                shown = {groups[place_of[item.chunk_id]] for item in strict}
                assert shown == sides[0] & sides[1]
        window = rng.randint(1, 12)
        near = sum(
            any(_near(tokens, a, b, window) for tokens in oracle.tokens[place].values())
            for place in oracle.places[a] & oracle.places[b]
        )
        answer = corpus.verify_hypothesis(a, b, f"near:{window}")
        assert answer.report.total == near, (a, b, window)


def _near(tokens: list[str], a: str, b: str, window: int) -> bool:
    sides = [[i for i, token in enumerate(tokens) if token == word] for word in (a, b)]
    return any(abs(i - j) <= window for i in sides[0] for j in sides[1])


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
