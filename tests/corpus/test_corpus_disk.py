"""The corpus on disk answers as the plain one in memory does."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from corpora import FULL, Documents, corpus_of, sample, small
from gnomon.corpus import Answer, Corpus, CorpusIndex
from gnomon.corpus import Documents as Given
from msgspec.structs import replace
from test_corpus_bounds import random_call

WIDE = 100_000
LINKS = ("links-to", "see-also")


def on_disk(documents: Documents, path: Path) -> Corpus:
    by_source: dict[str, Any] = {}
    for done, raw, source in documents:
        by_source.setdefault(source.name, (source, []))[1].append((done.document.path, raw))
    with CorpusIndex.create(path) as index:
        index.update([Given(source, files) for source, files in by_source.values()])
    return Corpus.open(path, clock=lambda: 1_800_000_000.0)


def plain(answer: Answer) -> Answer:
    """Without what may differ: how the answer was found, on which generation, and where links lead,
    which only the graph on disk resolves.
    """
    budget = replace(answer.report.budget, tokens=0)
    report = replace(answer.report, generation=0, plan=(), cursor="", budget=budget)
    items = [
        replace(
            item,
            related=tuple(each for each in item.related if each.relation not in LINKS),
            edge=None if item.edge is not None and item.edge.relation in LINKS else item.edge,
        )
        for item in answer
    ]
    return Answer(report, items, answer.lines)


def test_random_questions(tmp_path: Path) -> None:
    pytest.importorskip("re2")
    documents = [*small(), *sample(3 if FULL else 90)]
    disk, memory = on_disk(documents, tmp_path / "disk"), corpus_of(documents)
    ids = [chunk.id for done, _, _ in documents for chunk in done.chunks]
    rng = random.Random(21)
    for _ in range(2000 if FULL else 120):
        tool, args = random_call(rng, documents, ids)
        if tool == "list" and args["kind"] == "entities":
            continue  # in which order names are found is the graph's own business
        args["max_tokens"] = WIDE
        seen, right = getattr(disk, tool)(**args), getattr(memory, tool)(**args)
        if right.report.no_hit is not None:  # likewise what names are alike
            seen.report.no_hit = right.report.no_hit
        if any(step.step == "alias" for step in right.report.fallbacks):
            continue
        assert plain(seen) == plain(right), (tool, args)


def test_the_query_language_on_disk(tmp_path: Path) -> None:
    pytest.importorskip("re2")
    disk, memory = on_disk(small(), tmp_path / "disk"), corpus_of(small())
    for query in (
        "max_allowed_packet",
        '"public key" AND path:*errors.md',
        "SECTION(malicious AND MITM) NOT kind:code",
        "/allow[A-Z]\\w+/ OR NEAR(packet, bigger, 3)",
        "wait*",
        "tiemout~2",
        "version:[8.0.10 TO *]",
        "error:1153 entity:max_allowed_packet",
        "DOC(timeout AND packet) heading:timeouts",
    ):
        assert plain(disk.hybrid_search(query)) == plain(memory.hybrid_search(query)), query


def test_a_new_generation_is_taken_up_when_asked(tmp_path: Path) -> None:
    corpus = on_disk(small(), tmp_path / "disk")
    before = corpus.hybrid_search("zebra")
    with CorpusIndex.open(tmp_path / "disk") as index:
        index.update([Given("zoo", [("z.md", b"# Zebra\n\nA zebra.\n")])])
    assert corpus.hybrid_search("zebra").to_json() == before.to_json()
    assert corpus.refresh() == before.report.generation + 1
    after = corpus.hybrid_search("zebra")
    assert (after.report.total, after.report.generation) == (1, before.report.generation + 1)
    stale = corpus.hybrid_search("packet", cursor="1-1-x").report.problem
    assert stale is not None


def test_sessions_lie_beside_the_index(tmp_path: Path) -> None:
    corpus = on_disk(small(), tmp_path / "disk")
    session = corpus.session()
    session.hybrid_search("packet")
    assert corpus.session(session.id).seen == session.seen != frozenset()
    with CorpusIndex.open(tmp_path / "disk") as index:
        assert index.verify() == []
    assert corpus.session(session.id).events() == session.events()
