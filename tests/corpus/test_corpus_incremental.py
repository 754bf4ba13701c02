"""After any edits a corpus says what one built anew says, and does no work twice."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time

import pytest
from corpus_states import built, edited, embed, pages, put, told
from gnomon.corpus import CorpusIndex, Documents, Folder, Source, prepare_pool
from gnomon.corpus.assemble import Limits


@pytest.mark.parametrize("vectors", [False, True])
def test_edits_equal_a_rebuild(tmp_path, vectors):
    """Scores to the bit, vectors, graph, totals; after each of many commits."""
    rng = random.Random(11)
    options = {"embedder": embed} if vectors else {}
    now = pages(1, 12)
    with CorpusIndex.create(tmp_path / "edited") as index:
        put(index, now, **options)
        for turn in range(10):
            before = index.snapshot()
            old = {c.id: int(before.cids([c.id])[0]) for d in before.documents()
                   for c in before.chunks_of(d.id)}  # fmt: skip
            now = edited(now, rng)
            report = put(index, now, **options)
            after = index.snapshot()
            assert index.verify() == []
            new = {c.id: int(after.cids([c.id])[0]) for d in after.documents()
                   for c in after.chunks_of(d.id)}  # fmt: skip
            assert all(old[name] == new[name] for name in old.keys() & new.keys())
            assert report.chunks_added == len(new.keys() - old.keys())
            assert report.chunks_deleted == len(old.keys() - new.keys())
            assert report.embedded == (report.chunks_added if vectors else 0)
            if turn % 3 == 2:
                assert told(after) == told(built(tmp_path / f"anew{turn}", now, **options))
        assert len(index.snapshot()._live.segments) <= 8


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
