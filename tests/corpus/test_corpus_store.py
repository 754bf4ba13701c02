"""What a snapshot reads is what processing found, whatever the documents are."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner
from corpus_states import built, embed, pages, put, told
from gnomon.bm25_query import And, Phrase, Together
from gnomon.cli import cli
from gnomon.corpus import CorpusIndex, Documents, Folder, Source, process_document
from gnomon.corpus.model import chunk_id
from gnomon.corpus.prepare import split_code

MIXED = {
    "guide.md": "# Ü\n\nSay `a_b`.\n\n|a|b|\n|---|---|\n|1|2|\n\n```sh\nls\n```\n".encode(),
    "api/Main.java": b"/** Doc. */\npublic class Main extends Base {\n  void run() { go(); }\n}\n",
    "notes.txt": b"\xef\xbb\xbfVersion 1.2\n\nfixed it\r\nand more\r\n",
    "utf16.txt": "Zeile 𝄞 eins\nzwei\n".encode("utf-16"),
    "bad.md": b"caf\xe9 \xff\xfe # x\n",
    "empty.md": b"",
    "page.html": b"<h1 id=top>T</h1><p>max&amp;min <b>x</b></p>",
    "conf.properties": b"# c\nmax.size=3\nother=\\u00e9\n",
    "rows.jsonl": b'{"title": "t", "text": "first"}\n{"title": "u", "text": "second"}\n',
    "a b/\xc3\xbc.rst".encode("latin-1").decode("utf-8"): b"Title\n=====\n\n``opt_x`` here.\n",
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    return built(tmp_path_factory.mktemp("mixed") / "x", MIXED)


@pytest.mark.parametrize("path", MIXED)
def test_documents_come_back(mixed, path):
    raw = MIXED[path]
    done = process_document(raw, "docs", path=path)
    (document,) = mixed.find_document(path)
    assert document == done.document == mixed.document(document.id)
    assert bytes(mixed.raw(document.id)) == raw
    assert mixed.sections(document.id) == done.sections
    assert mixed.chunks_of(document.id) == done.chunks
    assert mixed.report(document.id) == done.report
    assert [mixed.section(section.id) for section in done.sections] == list(done.sections)
    ids = [chunk.id for chunk in done.chunks]
    assert mixed.chunks(ids) == list(done.chunks)
    assert mixed.at(mixed.cids(ids)) == list(done.chunks)
    assert mixed.ids_of(mixed.cids(ids)) == ids
    assert mixed.documents_of(mixed.cids(ids)) == [document.id] * len(ids)
    for before, behind in pairwise(ids):
        assert mixed.neighbours(before)[1] == behind
        assert mixed.neighbours(behind)[0] == before
    for place in range(0, len(raw), 5):
        chunk = mixed.chunk_at(document.id, place)
        assert chunk.span[0] <= place < chunk.span[1]
    named = {(e.key, evidence) for e in done.entities for evidence in e.evidence}
    assert named == {(node.key, at) for name in ids for node, at in mixed.graph.entities_of(name)}
    for entity in done.entities:
        assert set(entity.evidence) == {
            at for at in mixed.graph.mentions(entity.key) if at.chunk_id in ids
        }


def test_every_token_is_in_the_sparse_index(mixed):
    """The fields of a chunk, taken together, are its text."""
    for document in mixed.documents():
        for chunk in mixed.chunks_of(document.id):
            body, code = split_code(chunk)
            assert sorted(f"{body}\n{code}".split()) == sorted(chunk.text.split())
            words = [w for w in chunk.text.split() if w.isalpha()]
            for word in words:
                hits = mixed.sparse.search(word, k=99, filter={"doc": document.id})
                assert chunk.id in mixed.ids_of(hits.ids)


def test_columns_and_queries(mixed):
    count = mixed.sparse.count
    (java,) = mixed.find_document("api/Main.java")
    assert count("main", filter={"folder": "api"}) == count("main", filter={"doc": java.id}) > 0
    assert count(Phrase("max min")) + count(And("max", "min")) > 0
    root = mixed.sections(java.id)[0]
    assert count("go", filter={"within": root.id}) == count("go", filter={"type": "java"}) > 0
    assert count(Together("doc", "first", "second")) > 0
    assert [d.path for d in mixed.documents(path="**/*.java")] == ["api/Main.java"]
    assert [d.path for d in mixed.documents(type="rst", source="docs")] == ["a b/ü.rst"]


def test_what_is_not_there(mixed):
    for ask in (mixed.document, mixed.section, mixed.chunk, mixed.raw, mixed.sections):
        for name in ("", "zz", "00" * 12, "AB" * 16, "é"):
            with pytest.raises(KeyError, match="there is no"):
                ask(name)
    with pytest.raises(KeyError, match="cid 12345"):
        mixed.at([12345])
    assert mixed.graph.entity("option:none") is None
    assert mixed.graph.edges("doc:nothing") == []
    assert mixed.graph.find_entities("") == []
    assert mixed.find_document("nothing") == []
    with pytest.raises(ValueError, match="direction"):
        mixed.graph.edges("doc:x", direction="up")
    (empty,) = mixed.find_document("empty.md")
    with pytest.raises(ValueError, match=r"offset must be in \[0, 0\)"):
        mixed.chunk_at(empty.id, 3)


def test_an_empty_corpus(tmp_path):
    with CorpusIndex.create(tmp_path / "x") as index:
        snapshot = index.snapshot()
        assert snapshot.stats().documents == 0
        assert snapshot.sparse.search("word").ids.tolist() == []
        assert snapshot.grep("x").total_lines == 0
        assert told(snapshot) == told(snapshot.permitted(["all"]))
        assert index.verify() == []
        assert index.update([]).generation == index.generation == 1
        put(index, {}, embedder=embed)
        assert index.snapshot().dense is None


def test_input_that_is_refused(tmp_path):
    with CorpusIndex.create(tmp_path / "x") as index:
        with pytest.raises(TypeError, match="pairs of a path"):
            index.update([Documents("docs", [("a.md", "text")])])  # type: ignore[list-item]
        with pytest.raises(ValueError, match="in two ways"):
            index.update([Documents("a", []), Documents(Source(name="a", kind="code"), [])])
        with pytest.raises(FileNotFoundError):
            index.update([Folder("docs", str(tmp_path / "nowhere"))])
        with pytest.raises(ValueError, match="jobs"):
            index.update([Documents("docs", [("a.md", b"x")])], jobs=0)
        report = index.update([Documents("docs", [("a.md", b"# A"), ("a.md", b"# B")])])
        assert report.left_out == [("a.md", "excluded", "a document of this path came before")]
        assert index.generation == 2
    with pytest.raises(ValueError, match="fields are"):
        CorpusIndex.create(tmp_path / "y", field_weights={"titel": 2.0})
    assert not (tmp_path / "y").exists()


def test_names_that_are_not_utf8(tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    (top / "a.md").write_bytes(b"# A")
    try:
        (top / "b\udcff.md").write_bytes(b"# B")
    except (OSError, UnicodeError):
        pytest.skip("the file system takes no such name")
    with CorpusIndex.create(tmp_path / "x") as index:
        report = index.update([Folder("docs", str(top))])
        assert report.added == 1
        assert [reason for _, reason, _ in report.left_out] == ["unreadable"]
        (coverage,) = index.snapshot().coverage()
        assert coverage.left_out[0][2] == "its name is not UTF-8"


def test_vectors_follow_their_chunks(tmp_path):
    snapshot = built(tmp_path / "x", pages(4, 8), embedder=embed)
    rng = random.Random(2)
    chunks = [c for d in snapshot.documents() for c in snapshot.chunks_of(d.id)]
    for chunk in rng.sample(chunks, 8):
        titles = " > ".join(snapshot.section(chunk.section_id).path)
        query = embed([f"{titles}\n{chunk.text}" if titles else chunk.text])[0]
        (best,) = snapshot.dense.search(query, k=1).ids
        assert snapshot.at([best])[0].text == chunk.text or np.isclose(
            snapshot.dense.search(query, k=1).scores[0], 1.0
        )
        seen = [c for c in snapshot.chunks_of(chunk.doc_id) if c.section_id == chunk.section_id]
        same = [c for c in seen if (c.kind, c.text) == (chunk.kind, chunk.text)]
        number = same.index(chunk)
        assert chunk.id == chunk_id(chunk.section_id, chunk.kind, chunk.text, number)


def run(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == code, done.output
    return done.output


def test_the_command(tmp_path):
    top, out = tmp_path / "top", str(tmp_path / "x.corpus")
    top.mkdir()
    (top / "a.md").write_bytes(b"# A\n\ntext\n")
    (top / "b.bin").write_bytes(b"\0")
    assert "1 added" in run("corpus", "index", str(top), "--out", out, "--acl", "staff")
    assert "already exists" in run("corpus", "index", str(top), "--out", out, code=2)
    (top / "c.md").write_bytes(b"# C")
    report = json.loads(run("corpus", "update", out, str(top), "--acl", "staff", "--json"))
    assert (report["added"], report["unchanged"]) == (1, 1)
    stats = json.loads(run("corpus", "stats", out, "--json"))
    assert (stats["documents"], stats["coverage"][0]["left_out"][0][1]) == (2, "binary")
    assert "documents  2" in run("corpus", "stats", out)
    assert "whole: 2 documents" in run("corpus", "verify", out)
    assert "whole: 2 documents" in run("verify", out)
    (sparse,) = (tmp_path / "x.corpus" / "sparse").iterdir()
    assert "whole: bm25" in run("verify", str(sparse))
    raw = sorted((tmp_path / "x.corpus").glob("seg/*/*raw*"))[0]
    data = bytearray(raw.read_bytes())
    data[70] ^= 1
    raw.write_bytes(data)
    assert "damaged" in run("verify", out, code=1)
    assert "no corpus" in run("corpus", "update", str(top), str(top), code=2)
