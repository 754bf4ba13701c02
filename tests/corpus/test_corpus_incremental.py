"""After any edits a corpus says what one built anew says, and does no work twice."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time

import pytest
from corpora import FULL, count, files_of
from corpus_states import QUERIES, built, edited, embed, pages, put, told
from gnomon.corpus import (
    CorpusIndex,
    Documents,
    Folder,
    Source,
    prepare_pool,
    process_document,
)
from gnomon.corpus.assemble import Limits


def cids_of(snapshot):
    return {chunk.id: int(snapshot.cids([chunk.id])[0]) for document in snapshot.documents()
            for chunk in snapshot.chunks_of(document.id)}  # fmt: skip


@pytest.mark.parametrize("vectors", [False, True])
def test_edits_equal_a_rebuild(tmp_path, vectors):
    """Check 5: on the way through 1,000 random edits scores to the bit, vectors, graph and totals
    are those of a corpus built anew; each chunk that stays keeps its id, its cid and its vector.
    """
    rng = random.Random(11)
    options = {"embedder": embed} if vectors else {}
    now = pages(1, 12)
    turns = count(10, 500)
    with CorpusIndex.create(tmp_path / "edited") as index:
        put(index, now, **options)
        for turn in range(turns):
            old = cids_of(index.snapshot())
            now = edited(now, rng, 2)
            report = put(index, now, **options)
            after = index.snapshot()
            new = cids_of(after)
            assert all(old[name] == new[name] for name in old.keys() & new.keys())
            assert report.chunks_added == len(new.keys() - old.keys())
            assert report.chunks_deleted == len(old.keys() - new.keys())
            assert report.embedded == (report.chunks_added if vectors else 0)
            if turn % max(turns // 10, 3) == 2 or turn == turns - 1:
                assert index.verify() == []
                assert told(after) == told(built(tmp_path / f"anew{turn}", now, **options))
        assert len(index.snapshot()._live.segments) <= 8


ASKED_AGAIN = """
import hashlib, sys
from gnomon.corpus import Corpus
from corpus_states import QUERIES, embed
said = hashlib.sha256()
for path in sys.argv[2:]:
    corpus = Corpus.open(path, embedder=embed, clock=lambda: 0.0, cache_bytes=0)
    calls = [("hybrid_search", dict(query=q, mode=m, k=50, max_tokens=9000))
             for q in QUERIES for m in ("sparse", "exact", "hybrid", "dense")]
    calls += [("grep", dict(pattern="max_[a-z]+")),
              ("navigate", dict(entity_or_id="option:timeout")),
              ("verify_hypothesis", dict(a="server", b="timeout"))]
    for tool, args in calls:
        ask = getattr(corpus, tool)
        answers = {ask(**args).to_json(times=False) for _ in range(int(sys.argv[1]))}
        assert len(answers) == 1, (tool, args)
        said.update(answers.pop())
print(said.hexdigest())
"""


def test_order_is_total_and_the_same_on_any_number_of_threads(tmp_path, request):
    """Check 5: equal scores stand in the order of their numbers; 100 repetitions give the same
    bytes, and so does another number of threads.
    """
    snapshot = built(tmp_path / "x", pages(4, 40), embedder=embed)
    for query in QUERIES:
        hits = snapshot.sparse.search(query, k=1000)
        order = list(zip((-hits.scores).tolist(), hits.ids.tolist(), strict=True))
        assert order == sorted(set(order))
        assert len(order) > 5
    places = [str(tmp_path / "x")]
    if FULL:
        places.append(str(request.getfixturevalue("dbconn")))
    command = [sys.executable, "-c", ASKED_AGAIN, str(count(3, 100)), *places]
    said = set()
    for threads in ("1", "2"):
        own = {**os.environ, "GNOMON_THREADS": threads, "PYTHONPATH": os.path.dirname(__file__)}
        done = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said.add(done.stdout)
    assert len(said) == 1


def test_one_file_in_a_hundred_changed(tmp_path, shared):
    """Check 7: with 1 % of the shared corpus changed an update takes at most 5 % of the time of the
    whole, no unchanged chunk is embedded again, and each keeps its id.
    """
    texts = files_of(shared / "data" / "dbconn")[:: 1 if FULL else 60]
    given, embedded = [], []

    def embedder(chunks):
        embedded.extend(chunks)
        return embed(chunks)

    with CorpusIndex.create(tmp_path / "x") as index:
        whole = index.update([Documents("docs", texts)], embedder=embedder, embedder_name="e")
        seconds = []
        for turn in range(3):
            before, given = index.snapshot(), list(texts)
            old = {d.path: [c.id for c in before.chunks_of(d.id)] for d in before.documents()}
            cids = cids_of(before)
            for number in range(17 + 31 * turn, len(texts), 100):
                path, raw = texts[number]
                given[number] = path, raw + b"\n\nAnother_word %d.\n" % turn
            embedded.clear()
            report = index.update([Documents("docs", given)], embedder=embedder, embedder_name="e")
            seconds.append(report.seconds)
            after = index.snapshot()
            new = cids_of(after)
            assert report.changed >= max(len(texts) // 100, 1)
            assert report.embedded == len(embedded) == len(new.keys() - cids.keys())
            assert all(cids[name] == new[name] for name in cids.keys() & new.keys())
            same = {path for (path, raw), (_, was) in zip(given, texts, strict=True) if raw == was}
            for document in after.documents():
                if document.path in same and turn == 0:
                    assert [c.id for c in after.chunks_of(document.id)] == old[document.path]
            assert sorted(new) == sorted(
                chunk.id
                for path, raw in given
                for chunk in process_document(raw, "docs", path=path, facts=False).chunks
            )
    print(
        f"whole {whole.seconds:.2f} s, 1 % {min(seconds):.2f} s: {min(seconds) / whole.seconds:.3f}"
    )
    if FULL:
        assert min(seconds) <= 0.05 * whole.seconds


def test_nothing_new_is_no_generation(tmp_path):
    with CorpusIndex.create(tmp_path / "x") as index:
        put(index, pages(1, 5))
        generation = index.generation
        report = put(index, pages(1, 5))
        assert (report.unchanged, report.added, report.changed) == (5, 0, 0)
        assert index.generation == generation == report.generation


def folder_of(path, given):
    for name, raw in given.items():
        place = path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(raw)
        os.utime(place, ns=(10**18, 10**18))  # long ago: nothing here is a race
    return path


def test_files_are_read_only_when_they_may_have_changed(tmp_path, monkeypatch):
    top = folder_of(tmp_path / "top", pages(1, 6))
    with CorpusIndex.create(tmp_path / "x") as index:
        assert index.update([Folder("docs", str(top))]).added == 6
        report = index.update([Folder("docs", str(top))])
        assert (report.unchanged, report.bytes_read) == (6, 0)
        first = top / "docs/page1.md"
        os.utime(first, ns=(2 * 10**18, 10**18 + 5))  # only the time changed
        report = index.update([Folder("docs", str(top))])
        assert (report.unchanged, report.changed) == (6, 0)
        first.write_bytes(b"# Other")
        first.rename(top / "docs/moved.md")
        (top / "docs/page2.md").unlink()
        report = index.update([Folder("docs", str(top))])
        assert (report.added, report.deleted, report.unchanged) == (1, 2, 4)
        assert [d.path for d in index.snapshot().documents(path="docs/m*.md")] == ["docs/moved.md"]
        assert index.verify() == []


def test_a_file_written_while_it_is_indexed_is_read_again(tmp_path):
    """Same size and, on a coarse clock, same time: only the bytes can tell."""
    top = tmp_path / "top"
    top.mkdir()
    (top / "a.md").write_bytes(b"# One")
    now = time.time_ns()
    os.utime(top / "a.md", ns=(now, now))
    with CorpusIndex.create(tmp_path / "x") as index:
        index.update([Folder("docs", str(top))])
        (top / "a.md").write_bytes(b"# Two")
        os.utime(top / "a.md", ns=(now, now))
        assert index.update([Folder("docs", str(top))]).changed == 1
        (document,) = index.snapshot().documents()
        assert document.title == "Two"


def test_what_a_source_says_of_its_documents_is_part_of_them(tmp_path):
    given = pages(3, 4)
    with CorpusIndex.create(tmp_path / "x") as index:
        put(index, given, Source(name="docs"), embedder=embed)
        source = Source(name="docs", acl=("staff",), version="9")
        report = put(index, given, source, embedder=embed)
        assert report.changed == 4
        assert (report.embedded, report.chunks_kept) == (0, 0)
        assert report.embeddings_saved == report.chunks_added > 0
        view = index.snapshot().permitted(["staff"])
        assert view.stats().documents == 4
        assert view.sparse.count("page", filter={"version": "9"}) == view.sparse.count("page")
        assert index.verify() == []
        report = put(index, given, source, embedder=embed, limits=Limits(300, 600))
        assert report.changed == 4


def test_sources_do_not_touch_each_other(tmp_path):
    with CorpusIndex.create(tmp_path / "x") as index:
        one, two = Documents("one", list(pages(1, 3).items())), Documents("two", [("a.md", b"# A")])
        index.update([one, two])
        index.update([Documents("two", [("b.md", b"# B")], complete=False)])
        snapshot = index.snapshot()
        assert snapshot.stats().by_source == {"one": 3, "two": 2}
        assert [source.name for source in snapshot.sources()] == ["one", "two"]
        index.update([Documents("two", [("b.md", b"# B")])])
        assert index.snapshot().stats().by_source == {"one": 3, "two": 1}
        report = index.delete(source="one")
        assert report.deleted == 3
        assert index.snapshot().stats().by_source == {"two": 1}
        (document,) = index.snapshot().documents()
        index.delete(doc_ids=[document.id])
        assert index.snapshot().stats().chunks == 0
        assert index.verify() == []
        with pytest.raises(KeyError, match="no document"):
            index.delete(doc_ids=[document.id])
        with pytest.raises(KeyError, match="no source"):
            index.delete(source="one")
        assert index.update([one]).added == 3


def test_embedders(tmp_path):
    given = pages(5, 4)
    with CorpusIndex.create(tmp_path / "x") as index:
        put(index, given)
        chunks = index.snapshot().stats().chunks
        report = put(index, given, embedder=embed, embedder_name="one")  # all at once, later
        assert report.embedded == chunks
        assert index.snapshot().embedder == "one"
        assert len(index.snapshot().dense) == chunks
        assert put(index, given, embedder=embed, embedder_name="one").embedded == 0
        more = {**given, "docs/new.md": b"# New"}
        generation = index.generation
        with pytest.raises(ValueError, match="pass the embedder"):
            put(index, more)
        with pytest.raises(ValueError, match="must return a matrix"):
            put(index, more, embedder=lambda texts: embed(texts)[:0], embedder_name="one")
        with pytest.raises(ValueError, match="dimensions"):
            put(index, more, embedder=lambda t: embed(t)[:, :3], embedder_name="one")
        assert index.generation == generation
        assert index.verify() == []
        assert put(index, more, embedder=embed, embedder_name="one").embedded == 1
        report = put(index, more, embedder=lambda t: embed(t)[:, :5], embedder_name="two")
        assert report.embedded == chunks + 1
        assert index.snapshot().dense.dim == 5
        assert put(index, given).deleted == 1  # nothing new needs no embedder
        assert len(index.snapshot().dense) == chunks


def test_jobs_make_the_same_index(tmp_path):
    given = pages(8, 30)
    top = folder_of(tmp_path / "top", given)
    answers = []
    for jobs in (1, 2):
        with CorpusIndex.create(tmp_path / f"x{jobs}") as index:
            index.update([Folder("docs", str(top))], jobs=jobs)
            answers.append(told(index.snapshot()))
    assert answers[0] == answers[1]


def test_what_was_left_out_is_kept_up_to_date(tmp_path):
    """A file that is left out changes no document, and the coverage all the same."""
    top = folder_of(tmp_path / "top", pages(1, 2))
    with CorpusIndex.create(tmp_path / "x") as index:
        index.update([Folder("docs", str(top))])
        (top / "b.bin").write_bytes(b"\0")
        index.update([Folder("docs", str(top))])
        (coverage,) = index.snapshot().coverage()
        assert [path for path, _, _ in coverage.left_out] == ["b.bin"]
        generation = index.generation
        index.update([Folder("docs", str(top))])
        assert index.generation == generation


def test_a_script_may_use_processes(tmp_path):
    """Without the guard that multiprocessing asks of a script, which it would run again."""
    top = folder_of(tmp_path / "top", pages(1, 6))
    script = tmp_path / "script.py"
    script.write_text(
        "from gnomon.corpus import CorpusIndex, Folder\n"
        f"with CorpusIndex.create({str(tmp_path / 'x')!r}) as index:\n"
        f"    print(index.update([Folder('docs', {str(top)!r})], jobs=2).added)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout == "6\n"


def test_a_process_that_dies_is_named(tmp_path, monkeypatch):
    top = folder_of(tmp_path / "top", pages(1, 2))
    monkeypatch.setattr(prepare_pool, "_WORK", "import os; os._exit(9) # {path}")
    with CorpusIndex.create(tmp_path / "x") as index:
        with pytest.raises(RuntimeError, match=r"ended \(code 9\)"):
            index.update([Folder("docs", str(top))], jobs=2)
        assert index.generation == 1
        assert index.verify() == []
