"""Access scopes: what a reader gets equals what an index of the permitted documents would give."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Any

from corpora import Documents, corpus_of, count, embed, sample, small, stored
from gnomon.corpus import Corpus, Source, process_document

GROUPS = ("staff", "public", "ops")


def with_scopes(documents: Documents, rng: random.Random) -> Documents:
    """The documents, each with none to two groups that may read it, in a source of its scope."""
    found = []
    for done, raw, _ in documents:
        acl = tuple(sorted(rng.sample(GROUPS, rng.choice((0, 1, 1, 2)))))
        source = Source(name=f"of {'+'.join(acl)}", acl=acl)
        found.append((process_document(raw, source, path=done.document.path), raw, source))
    return found


def permitted(documents: Documents, scopes: set[str]) -> Documents:
    return [each for each in documents if scopes & set(each[0].document.acl)]


def calls(rng: random.Random, documents: Documents) -> list[tuple[str, dict[str, Any]]]:
    """Questions about what may be hidden: words, names, ids, paths, typos."""
    done = rng.choice(documents)[0]
    chunk = rng.choice(done.chunks)
    words = [word for word in chunk.text.split() if word.isalnum()] or ["a"]
    word, other = rng.choice(words), rng.choice(words)
    entity = rng.choice(done.entities).key if done.entities else "option:nothing"
    wide = {"max_tokens": 20_000}
    return [
        ("hybrid_search", {"query": f"{word} {other}", **wide}),
        ("hybrid_search", {"query": f"{word}x AND {other}", **wide}),
        ("hybrid_search", {"query": word, "filters": {"path": done.document.path}, **wide}),
        ("hybrid_search", {"query": word, "mode": "dense", "k": 5, **wide}),
        ("navigate", {"entity_or_id": entity, **wide}),
        ("navigate", {"entity_or_id": chunk.id, **wide}),
        ("navigate", {"entity_or_id": entity[:-1], **wide}),
        ("verify_hypothesis", {"a": word, "b": other, **wide}),
        ("contextual_refine", {"previous_result_ids": [chunk.id], "query": word, **wide}),
        ("read", {"target": done.document.path, **wide}),
        ("read", {"target": f"section:{chunk.section_id}", **wide}),
        ("grep", {"pattern": word, "literal": True, **wide}),
        ("outline", {"target": f"doc:{done.document.id}", **wide}),
        ("list", {"kind": rng.choice(("documents", "entities", "relations", "sources")), **wide}),
        ("list", {"kind": "entities", "pattern": entity.partition(":")[2][:3] + "*", **wide}),
        ("stats", {}),
    ]


def same(corpus: Corpus, alone: Corpus, tool: str, args: dict[str, Any]) -> None:
    seen = getattr(corpus, tool)(**args)
    right = getattr(alone, tool)(**args)
    assert seen.to_json() == right.to_json(), (tool, args)


def test_a_view_equals_an_index_of_the_permitted_documents(tmp_path: Path) -> None:
    """Check 11: 1,000 random triples of a principal, a question and a tool give the same JSON as an
    index on disk that holds only the permitted documents: totals, suggestions, entities, graph.
    """
    rng = random.Random(11)
    documents = with_scopes([*small(), *sample(count(120, 6))], rng)
    whole = stored(documents, tmp_path / "whole", embedder=embed)

    @functools.cache
    def alone(scopes: frozenset[str]) -> Corpus:
        place = tmp_path / f"of {'+'.join(sorted(scopes))}"
        return stored(permitted(documents, set(scopes)), place, embedder=embed)

    triples = 0
    while triples < count(100, 1000):
        scopes = frozenset(rng.sample((*GROUPS, "nobody"), rng.randrange(3)))
        left = alone(scopes).seen_by("u", scopes)
        view = whole.seen_by("u", scopes)
        for tool, args in rng.sample(calls(rng, documents), 5):
            same(view, left, tool, args)
            triples += 1


def test_documents_without_a_scope_are_hidden_when_scopes_are_enforced() -> None:
    corpus = corpus_of(small(acl=[("staff",)]))
    assert corpus.stats().report.counts["documents"] == 5
    assert corpus.seen_by("u", ["staff"]).stats().report.counts["documents"] == 1
    assert corpus.seen_by("u", []).stats().report.counts["documents"] == 0
    assert corpus.seen_by("u", None).stats().report.counts["documents"] == 5


def test_nothing_in_a_call_widens_a_scope() -> None:
    corpus = corpus_of(small(acl=[("staff",), ("public",)])).seen_by("u", ["public"])
    hidden = "wait_timeot"
    for args in (
        {"filters": {"path": "docs/setup.md"}},
        {"scope": "path:docs/setup.md"},
        {"filters": {"path": "*"}},
    ):
        answer = corpus.hybrid_search(hidden, **args)
        assert answer.report.total == 0
        assert {item.path for item in answer} <= {"docs/errors.md"}
        assert answer.report.no_hit is not None
        assert all("wait_timeout" not in each.instead for each in answer.report.no_hit.nearest)
    assert corpus.hybrid_search("acl:staff").report.notes != ()
    assert corpus.hybrid_search("x", filters={"acl": "staff"}).report.problem is not None


def test_the_cache_is_kept_apart_by_scope() -> None:
    corpus = corpus_of(small(acl=[("staff",), ("public",)]))
    staff, public = corpus.seen_by("a", ["staff"]), corpus.seen_by("b", ["public"])
    totals = [each.hybrid_search("max_allowed_packet").report.total for each in (staff, public)]
    assert totals == [2, 1]
    assert corpus.cache.hits == 0
    assert corpus.seen_by("c", ["public"]).hybrid_search("max_allowed_packet").report.total == 1
    assert corpus.cache.hits == 1


def test_sources_of_hidden_documents_are_not_listed() -> None:
    source = Source(name="secret", acl=("ops",))
    documents = small(acl=[("staff",)])
    documents[1] = (documents[1][0], documents[1][1], source)
    corpus = corpus_of(documents).seen_by("u", ["staff"])
    assert [line.id for line in corpus.list("sources").lines] == ["hand"]
