"""A reader's view says what an index of the permitted documents alone would say."""

from __future__ import annotations

import random

import pytest
from corpora import count
from corpus_states import ACLS, QUERIES, by_acl, embed, pages, put, told
from gnomon.bm25_query import Fuzzy, Prefix
from gnomon.corpus import CorpusIndex, Documents, Snapshot, Source

READERS = (["public"], ["staff"], ["public", "ops"], ["nobody"], [])
TRIPLES = count(60, 1000, "GNOMON_ACL_TRIPLES")


def only(sources: list[Documents], principals: list[str]) -> list[Documents]:
    return [s for s in sources if not set(s.source.acl).isdisjoint(principals)]


@pytest.fixture(scope="module")
def sources():
    return by_acl(21, 24)


@pytest.fixture(scope="module")
def whole(sources, tmp_path_factory) -> Snapshot:
    with CorpusIndex.create(tmp_path_factory.mktemp("acl") / "x") as index:
        index.update(sources, embedder=embed)
        return index.snapshot()


@pytest.fixture(scope="module")
def alone(sources, tmp_path_factory) -> dict[int, Snapshot]:
    """For each reader an index of what the reader may read."""
    made = {}
    for number, principals in enumerate(READERS):
        with CorpusIndex.create(tmp_path_factory.mktemp("alone") / "x") as index:
            index.update(only(sources, principals), embedder=embed)
            made[number] = index.snapshot()
    return made


@pytest.mark.parametrize("reader", range(len(READERS)))
def test_a_view_equals_an_index_of_its_documents(whole, alone, reader):
    view = whole.permitted(READERS[reader])
    assert told(view) == told(alone[reader])
    assert [c.source for c in view.coverage()] == [s.name for s in view.sources()]
    assert all(not c.left_out for c in view.coverage())


def test_random_calls(whole, alone):
    """Check 11: 1,000 questions to the parts below the tools: graph, text, index, statistics."""
    rng = random.Random(9)
    ids = [d.id for d in whole.documents()]
    names = sorted({node.key for d in whole.documents() for c in whole.chunks_of(d.id)
                    for node, _ in whole.graph.entities_of(c.id)})  # fmt: skip
    sections = [s.id for d in ids for s in whole.sections(d)]
    chunks = [c.id for d in ids for c in whole.chunks_of(d)]
    calls = [
        lambda s: s.graph.entity(name),
        lambda s: s.graph.edges(name),
        lambda s: s.graph.edges(f"section:{section}"),
        lambda s: s.graph.find_entities(name.partition(":")[2][:4]),
        lambda s: s.graph.similar(name.partition(":")[2] + "x"),
        lambda s: s.document(doc),
        lambda s: s.section(section),
        lambda s: s.chunk(chunk),
        lambda s: s.neighbours(chunk),
        lambda s: s.grep(word, raw=False),
        lambda s: s.trigram.candidates(word.encode()),
        lambda s: s.sparse.term_stats(word),
        lambda s: s.ids_of(s.sparse.search(Prefix(word[:3]), k=500).ids),
        lambda s: s.sparse.search(Fuzzy(word, 1), k=500).scores.tolist(),
        lambda s: s.sparse.search(word, filter={"folder": "docs"}).scores.tolist(),
    ]
    for _ in range(TRIPLES):
        doc, chunk, section = rng.choice(ids), rng.choice(chunks), rng.choice(sections)
        name, word = rng.choice(names), rng.choice(QUERIES).split()[0].lower()
        reader, call = rng.randrange(len(READERS)), rng.choice(calls)
        answers = []
        for snapshot in (whole.permitted(READERS[reader]), alone[reader]):
            try:
                answers.append(call(snapshot))
            except KeyError as error:
                answers.append(str(error))
        assert answers[0] == answers[1]


def test_documents_that_declare_nothing_are_hidden(whole):
    """Check 11: a document that declares no scope is hidden when scopes are enforced."""
    every = {name for acl in ACLS for name in acl}
    view = whole.permitted(every)
    undeclared = [d for d in whole.documents() if not d.acl]
    assert undeclared
    assert view.stats().documents == whole.stats().documents - len(undeclared)
    with pytest.raises(KeyError, match="no document"):
        view.document(undeclared[0].id)


def test_views_of_views(whole):
    staff = whole.permitted(["staff"])
    both = staff.permitted(["public"])
    assert {d.acl for d in both.documents()} == {("public", "staff")}
    assert staff.permitted(["public"]) is both
    assert staff.permitted(None) is staff
    ids = [d.id for d in whole.documents()][:3]
    some = whole.limited([*ids, "unknown"])
    assert [d.id for d in some.documents()] == ids
    assert some.permitted(["ops"]).stats().documents <= 3
    with pytest.raises(TypeError, match="pass a list"):
        whole.permitted("staff")


def test_a_view_is_refreshed_as_a_view(tmp_path):
    with CorpusIndex.create(tmp_path / "x") as index:
        put(index, pages(1, 2), Source(name="a", acl=("staff",)))
        put(index, pages(2, 2), Source(name="b", acl=("ops",)))
        view = Snapshot.open(tmp_path / "x").permitted(["ops"])
        assert view.refresh() is view
        put(index, pages(3, 3), Source(name="b", acl=("ops",)))
        later = view.refresh()
        assert later.generation == index.generation
        assert later.stats().by_source == {"b": 3}
        put(index, pages(3, 3), Source(name="b", acl=("staff",)))
        assert later.refresh().stats().documents == 0
        assert later.stats().documents == 3
