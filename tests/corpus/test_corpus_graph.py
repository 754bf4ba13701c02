"""The graph of a view is what its documents say, and nothing else."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from corpora import count
from corpus_states import built, by_acl, edited, pages, put
from gnomon.corpus import CorpusIndex, Documents, process_document
from gnomon.corpus.graph_names import edits
from gnomon.corpus.graph_segment import KEY_MOST
from gnomon.corpus.kept import Kept
from gnomon.corpus.links import slug
from hypothesis import given
from hypothesis import strategies as st


def said(snapshot) -> tuple[dict, dict, dict]:
    """Edges with evidence, mentions by key and spellings by key: from processing anew."""
    edges: dict[tuple[str, str, str], set] = {}
    mentions: dict[str, set] = {}
    names: dict[str, Counter] = {}
    for document in snapshot.documents():
        raw = bytes(snapshot.raw(document.id))
        done = process_document(raw, document.source, path=document.path)
        for relation in done.relations:
            edge = relation.type, relation.source, relation.target
            edges.setdefault(edge, set()).update(relation.evidence)
        for entity in done.entities:
            mentions.setdefault(entity.key, set()).update(entity.evidence)
            names.setdefault(entity.key, Counter())[entity.name] += 1
    return edges, mentions, names


def check_graph(snapshot) -> None:
    """Every edge and mention of the graph has its evidence, and every evidence its edge."""
    edges, mentions, names = said(snapshot)
    graph = snapshot.graph
    for key, places in mentions.items():
        assert set(graph.mentions(key)) == places
        node = graph.entity(key)
        assert node is not None
        assert node.mentions == len(places)
        assert node.names == tuple(sorted(names[key]))
        assert names[key][node.name] == max(names[key].values())
        assert node.defined == sum(place.role == "defines" for place in places)
        assert set(graph.mentions(key, role="defines")) == {
            place for place in places if place.role == "defines"
        }
    resolved: dict[tuple[str, str, str], set] = {}
    for (kind, source, target), places in edges.items():
        for place in places:
            owner = snapshot.document(snapshot.chunk(place.chunk_id).doc_id).source
            end = graph.links.target(target, owner) if target.startswith("path:") else target
            resolved.setdefault((kind, source, end), set()).add(place)
    out: dict[tuple[str, str, str], set] = {}
    coming: dict[tuple[str, str, str], set] = {}
    for node in {end for _, source, target in resolved for end in (source, target)}:
        for edge in graph.edges(node, direction="out"):
            out[edge.type, edge.source, edge.target] = set(edge.evidence)
        for edge in graph.edges(node, direction="in"):
            coming[edge.type, edge.source, edge.target] = set(edge.evidence)
    assert out == resolved
    assert coming == resolved
    kinds = Counter(kind for kind, _, _ in edges)
    assert graph.relation_types() == dict(sorted(kinds.items()))
    types = Counter(key.partition(":")[0] for key in mentions)
    assert graph.entity_types() == dict(sorted(types.items()))
    assert graph.n_mentions == sum(map(len, mentions.values()))


def test_no_edge_without_live_evidence(tmp_path):
    """Check 12: no edge without live evidence after random edits and deletions, in segments of
    every age: the graph is what processing the living documents anew says.
    """
    rng = random.Random(31)
    now = pages(7, 14)
    with CorpusIndex.create(tmp_path / "x") as index:
        put(index, now)
        check_graph(index.snapshot())
        for turn in range(count(6, 120)):
            now = edited(now, rng)
            put(index, now)
            if turn % 2:
                ids = [document.id for document in index.snapshot().documents()]
                index.delete(doc_ids=rng.sample(ids, 2))
                check_graph(index.snapshot())
                put(index, now)
        check_graph(index.snapshot())
        put(index, {})
        graph = index.snapshot().graph
        assert (graph.relation_types(), graph.entity_types(), graph.n_mentions) == ({}, {}, 0)


def test_views_have_their_own_graph(tmp_path):
    with CorpusIndex.create(tmp_path / "x") as index:
        index.update(by_acl(3, 14))
        for principals in (["public"], ["staff", "ops"], []):
            check_graph(index.snapshot().permitted(principals))


def test_links_of_one_source_lead_into_no_other_that_has_the_same_paths(tmp_path):
    """In two segments, one of them with documents that were replaced and deleted."""
    files = [
        ("a.md", b"# A\n\n[b](b.md) [part](b#part) `max_size`\n"),
        ("b.md", b"# B\n\n## Part\n\n[a](a.md) `max_size`\n"),
    ]
    with CorpusIndex.create(tmp_path / "x") as index:
        index.update([Documents("one", files)])
        index.update([Documents("two", files), Documents("three", files[1:])])
        index.update([Documents("one", [*files[:1], ("b.md", b"# B\n\n## Part\n\nNone.\n")])])
        snapshot = index.snapshot()
        check_graph(snapshot)
        graph = snapshot.graph
        for document in snapshot.find_document("b.md"):
            back = graph.edges(f"doc:{document.id}", "links-to", "in")
            assert len(back) == (document.source != "three")
            for edge in back:
                (proof,) = edge.evidence
                linking = snapshot.document(snapshot.chunk(proof.chunk_id).doc_id)
                assert (linking.source, linking.path) == (document.source, "a.md")
        index.delete(source="one")
        check_graph(index.snapshot())


def test_steps_are_the_edges_with_their_first_evidence(tmp_path):
    with CorpusIndex.create(tmp_path / "x") as index:
        put(index, pages(11, 12))
        graph = index.snapshot().graph
        nodes = {end for _, one, two in said(index.snapshot())[0] for end in (one, two)}
        for node in sorted(nodes):
            edges = graph.edges(node)
            steps = graph.steps(node)
            assert [edge for edge, _ in steps] == [(e.type, e.source, e.target) for e in edges]
            assert [graph.evidence(proof) for _, proof in steps] == [e.evidence[0] for e in edges]
            assert graph.steps(node, limit=2) == steps[:2]


def test_names_and_places_are_the_same_however_they_are_asked_for(tmp_path):
    """As keys or as nodes, as proofs or as evidence, the first few or all."""
    with CorpusIndex.create(tmp_path / "x") as index:
        put(index, pages(11, 12))
        put(index, edited(pages(11, 12), random.Random(4), 6))
        snapshot = index.snapshot()
        graph, keys = snapshot.graph, set()
        for document in snapshot.documents():
            for chunk in snapshot.chunks_of(document.id):
                named = [(node.key, each.role) for node, each in graph.entities_of(chunk.id)]
                assert graph.keys_in(chunk.id) == named
                keys.update(key for key, _ in named)
        assert len(keys) > 10
        for key in keys:
            for role in (None, "defines", "mentions"):
                every = graph.mentions(key, role=role)
                assert [graph.evidence(one) for one in graph.proofs_of(key, role=role)] == every
                assert graph.mentions(key, role=role, limit=2) == every[:2]
                assert all(role in (None, each.role) for each in every)


def test_what_is_kept_is_bounded_by_number_and_by_length(tmp_path):
    """What a generation was asked before changes nothing, and no caller fills the memory."""
    kept = Kept(3)
    for number in range(7):
        assert kept.keep(number, str(number)) == str(number)
        assert len(kept) <= 3
    assert kept == {6: "6"}
    snapshot = built(tmp_path / "x", pages(3, 8))
    graph = snapshot.graph
    wanted = {"option:wait_timeout", "identifier:wait_timeout"}
    for name in ("wait_timeout", "x" * 5000, "\ud800", "wait_timeout"):
        called = {node.key for node in graph.find_entities(name)}
        assert called == (wanted if name == "wait_timeout" else set())
        assert (graph.entity(f"option:{name}") is not None) == bool(called)
    assert max(map(len, graph._nodes)) <= KEY_MOST
    assert max(len(name) for name, _, _ in graph._called) <= KEY_MOST
    assert (
        max(len(key) for part in snapshot._live.segments for key in part.graph._numbers) <= KEY_MOST
    )


def corpus_of(tmp_path, **files: str):
    return built(tmp_path / "x", {f"{name}.md": text.encode() for name, text in files.items()})


def test_links_lead_to_what_is_there(tmp_path):
    snapshot = corpus_of(
        tmp_path,
        a="# A\n\n[1](b.md) [2](b#second-part) [3](b.md#nowhere) [4](none.md) [5](https://x.y)\n",
        b="# B\n\n## Second part\n\ntext\n",
    )
    (a,), (b,) = snapshot.find_document("a.md"), snapshot.find_document("b.md")
    (section,) = snapshot.sections(a.id)
    second = snapshot.sections(b.id)[1]
    edges = snapshot.graph.edges(f"section:{section.id}", "links-to")
    assert {edge.target: len(edge.evidence) for edge in edges} == {
        f"doc:{b.id}": 2, f"section:{second.id}": 1, "path:none.md": 1, "url:https://x.y": 1,
    }  # fmt: skip
    assert edges[0].target == f"doc:{b.id}"  # the most evidence first
    (back,) = snapshot.graph.edges(f"section:{second.id}", "links-to", "in")
    raw = bytes(snapshot.raw(a.id))
    assert raw[back.evidence[0].start : back.evidence[0].end] == b"[2](b#second-part)"
    only = snapshot.graph.edges(f"section:{section.id}", types=["section"])
    assert [edge.target for edge in only] == [f"section:{second.id}"]
    whole = snapshot.graph.edges(f"section:{section.id}")
    paged = [snapshot.graph.edges(f"section:{section.id}", limit=1, skip=n) for n in range(9)]
    assert [edge for page in paged for edge in page] == whole
    assert snapshot.graph.degree(f"doc:{b.id}") == {"links-to": (0, 1)}
    hidden = snapshot.limited([a.id])
    targets = {e.target for e in hidden.graph.edges(f"section:{section.id}", "links-to")}
    assert targets == {"path:b.md", "path:b#second-part", "path:b.md#nowhere",
                       "path:none.md", "url:https://x.y"}  # fmt: skip


def test_the_section_tree(tmp_path):
    snapshot = corpus_of(tmp_path, a="# A\n\n## B\n\nx\n\n### C\n\ny\n\n## D\n\nz\n")
    (document,) = snapshot.documents()
    a, b, c, d = snapshot.sections(document.id)
    out = {(e.type, e.target) for e in snapshot.graph.edges(f"section:{b.id}", direction="out")}
    assert out == {("parent", f"section:{a.id}"), ("next", f"section:{c.id}")}
    coming = {(e.type, e.source) for e in snapshot.graph.edges(f"section:{b.id}", None, "in")}
    assert coming == {("parent", f"section:{c.id}"), ("next", f"section:{a.id}")}
    (edge,) = snapshot.graph.edges(f"section:{d.id}", "parent")
    raw = bytes(snapshot.raw(document.id))
    assert raw[edge.evidence[0].start : edge.evidence[0].end].startswith(b"## D")


def test_finding_names(tmp_path):
    snapshot = corpus_of(
        tmp_path,
        a="# A\n\nThe `max_size` option and the `Max_Size` option. `Cursor.execute()` runs.\n",
        b="# B\n\nThe `max_size_total` option; `execute()`; the `wait_timeout` variable.\n",
    )
    graph = snapshot.graph

    def keys(name: str, **options) -> list[str]:
        return [node.key for node in graph.find_entities(name, **options)]

    assert keys("max_size")[0] == "option:max_size"
    assert "option:max_size_total" in keys("max_size")
    assert keys("MAX_SIZE")[0] == "option:max_size"
    assert keys("--max-size", types=["option"])[0] == "option:max_size"
    assert keys("execute")[0] == "function:execute"
    assert "function:cursor.execute" in keys("execute")
    assert keys("max", limit=1) == keys("max")[:1]
    assert keys("max", types=["function"]) == []
    assert [node.key for node in graph.similar("wiat_timeout")][:1] == ["option:wait_timeout"]
    assert graph.similar("entirely_other") == []
    assert keys("") == keys("zzz") == []


@pytest.mark.parametrize(
    ("title", "anchor"),
    [("Second part", "second-part"), ("A, b & C", "a-b--c"), ("Ü_x-y", "ü_x-y"), ("", "")],
)
def test_slugs(title, anchor):
    assert slug(title) == anchor


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_edits_equal_the_table(one, other):
    """The whole table, without any bound."""
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i in range(len(one) + 1):
        for j in range(len(other) + 1):
            if not i or not j:
                table[i][j] = i + j
                continue
            least = min(table[i - 1][j], table[i][j - 1]) + 1
            least = min(least, table[i - 1][j - 1] + (one[i - 1] != other[j - 1]))
            if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
                least = min(least, table[i - 2][j - 2] + 1)
            table[i][j] = least
    for most in range(4):
        assert edits(one, other, most) == min(table[-1][-1], most + 1)


def test_documents_of_two_sources_keep_their_links_apart(tmp_path):
    """The same path in two sources: a link leads to the page of its own source."""
    page = [("a.md", b"# A\n\n[x](b.md)\n"), ("b.md", b"# B\n")]
    with CorpusIndex.create(tmp_path / "x") as index:
        index.update([Documents("one", page), Documents("two", page)])
        snapshot = index.snapshot()
    for source in ("one", "two"):
        ((a,), (b,)) = (snapshot.find_document(p, source) for p in ("a.md", "b.md"))
        (section,) = snapshot.sections(a.id)
        (edge,) = snapshot.graph.edges(f"section:{section.id}", "links-to")
        assert edge.target == f"doc:{b.id}"
        assert len(snapshot.graph.edges(f"doc:{b.id}", "links-to", "in")) == 1
    check_graph(snapshot)
