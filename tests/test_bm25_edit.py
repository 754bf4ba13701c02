"""Editing a BM25 index: what is refused and how, and what neither threads nor failures may see."""

from __future__ import annotations

import pickle
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon.bm25_policy import merges
from hypothesis import given
from hypothesis import strategies as st


def named() -> gnomon.BM25Index:
    return gnomon.BM25Index.build(["red apple", "green pear", "red plum"], ids=["a", "b", "c"])


def numbered() -> gnomon.BM25Index:
    return gnomon.BM25Index.build([["x"], ["y"]])


@pytest.mark.parametrize(
    ("index", "edit", "error", "message"),
    [
        (named, lambda i: i.add(["x"]), TypeError, "ids is missing"),
        (
            named,
            lambda i: i.add(["x"], ["a"]),
            ValueError,
            r"ids\[0\] is in the index already: 'a'",
        ),
        (named, lambda i: i.add(["x", "y"], ["d", "d"]), ValueError, r"ids\[1\] repeats ids\[0\]"),
        (named, lambda i: i.add(["x"], [1]), TypeError, r"ids\[0\] is a int; the ids .* are str"),
        (named, lambda i: i.add(["x"], ["d", "e"]), ValueError, "ids has 2 entries"),
        (named, lambda i: i.add(["x"], "d"), TypeError, "ids is one text"),
        (named, lambda i: i.add("x", ["d"]), TypeError, "documents is one text"),
        (named, lambda i: i.add([[1, 2]], ["d"]), TypeError, "made of token ids, but this index"),
        (named, lambda i: i.update(["x"], ["zz"]), KeyError, r"ids\[0\] is not in the index: 'zz'"),
        (named, lambda i: i.update(["x"], ["a"], missing="ignore"), ValueError, "missing must be"),
        (named, lambda i: i.update(["x"], ["a", "b"]), ValueError, "ids has 2 entries"),
        (named, lambda i: i.delete(["a", "zz"]), KeyError, r"ids\[1\] is not in the index"),
        (named, lambda i: i.delete(["a", "a"]), ValueError, r"ids\[1\] repeats"),
        (named, lambda i: i.delete("a"), TypeError, "ids is one text"),
        (named, lambda i: i.delete(["a"], missing="add"), ValueError, "missing must be"),
        (numbered, lambda i: i.add([["x"]], [7]), TypeError, "numbers its documents itself"),
        (numbered, lambda i: i.update([["x"]], [9]), KeyError, r"ids\[0\] is not in the index: 9"),
        (
            numbered,
            lambda i: i.update([["x"]], [9], missing="add"),
            ValueError,
            "numbers new documents itself",
        ),
        (numbered, lambda i: i.add(["a text"]), TypeError, "built without an analyzer"),
        (numbered, lambda i: i.delete(["a"]), TypeError, "the ids of this index are int"),
        (numbered, lambda i: i.delete([True]), TypeError, "bool"),
        (numbered, lambda i: i.delete([2**70]), ValueError, "64 bits"),
        (named, lambda i: i.commit(), ValueError, "for an index on disk; save"),
        (named, lambda i: i.rollback(), ValueError, "on disk"),
        (named, lambda i: i.refresh(), ValueError, "opened for reading"),
        (named, lambda i: i.text("a"), ValueError, "store_text=True"),
    ],
)
def test_bad_edits_say_what_is_wrong_and_change_nothing(
    index: Any, edit: Any, error: type[Exception], message: str
) -> None:
    made = index()
    before = (list(made.ids), made.search(["red", "x"]).scores.tolist(), made.n_segments)
    with pytest.raises(error, match=message):
        edit(made)
    assert (list(made.ids), made.search(["red", "x"]).scores.tolist(), made.n_segments) == before


def test_an_index_on_disk_needs_a_writer(tmp_path: Path) -> None:
    named().save(tmp_path / "index")
    reader = gnomon.BM25Index.load(tmp_path / "index")
    for edit in (
        lambda: reader.add(["x"], ["x"]),
        lambda: reader.delete(["a"]),
        reader.merge,
        reader.commit,
        reader.rollback,
    ):
        with pytest.raises(ValueError, match=r"opened for reading; use BM25Index\.open"):
            edit()
    with pytest.raises(ValueError, match="mode must be"):
        gnomon.BM25Index.open(tmp_path / "index", mode="a")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        gnomon.BM25Index.open(tmp_path / "nothing", mode="w")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["index"]


def test_a_with_block_commits_or_drops(tmp_path: Path) -> None:
    named().save(tmp_path / "index")
    with gnomon.BM25Index.open(tmp_path / "index", mode="w") as index:
        index.delete(["a"])
    assert gnomon.BM25Index.load(tmp_path / "index").ids == ["b", "c"]
    with pytest.raises(RuntimeError), gnomon.BM25Index.open(tmp_path / "index", mode="w") as index:  # noqa: PT012
        index.delete(["b"])
        raise RuntimeError
    assert index.ids == ["b", "c"]
    assert gnomon.BM25Index.load(tmp_path / "index").ids == ["b", "c"]
    generation = gnomon.BM25Index.load(tmp_path / "index").generation
    with gnomon.BM25Index.open(tmp_path / "index", mode="w") as index:
        assert index.commit() == generation  # nothing to write
    assert gnomon.BM25Index.load(tmp_path / "index").generation == generation


def test_missing_ids_may_be_allowed() -> None:
    index = named()
    assert index.delete(["zz", "a"], missing="ignore") == 1
    assert index.update(["new", "old"], ["d", "b"], missing="add") == 1
    assert index.ids == ["c", "d", "b"]
    assert index.search("new").ids == ["d"]


def test_numbers_are_not_given_twice(tmp_path: Path) -> None:
    index = numbered()
    index.delete([1])
    assert index.add([["z"]]).tolist() == [2]
    index.save(tmp_path / "index")
    with gnomon.BM25Index.open(tmp_path / "index", mode="w") as writer:
        writer.delete([2])
        assert writer.add([["z"], ["z"]]).tolist() == [3, 4]
        writer.update([["z", "z"]], [0])
    assert gnomon.BM25Index.load(tmp_path / "index").ids.tolist() == [3, 4, 0]


def test_texts_follow_their_documents(tmp_path: Path) -> None:
    index = gnomon.BM25Index.build(["one", "two \udc80"], ["a", "b"], store_text=True)
    index.add(["three"], ["c"])
    index.update(["two again"], ["b"])
    index.save(tmp_path / "index")
    with gnomon.BM25Index.open(tmp_path / "index", mode="w") as writer:
        writer.delete(["a"])
        writer.add(["vier 风"], ["d"])
    loaded = gnomon.BM25Index.load(tmp_path / "index")
    assert [loaded.text(id) for id in loaded.ids] == ["three", "two again", "vier 风"]
    with pytest.raises(KeyError, match="id is not in the index: 'a'"):
        loaded.text("a")
    with pytest.raises(TypeError, match="store_text=True documents are str"):
        gnomon.BM25Index.build([["one"]], store_text=True)


def test_fields_have_texts_of_their_own() -> None:
    index = gnomon.BM25Index.build([{"t": "one"}], ["a"], fields=["t", "b"], store_text=True)
    index.add([{"b": "two", "t": "x"}], ["b"])
    assert index.text("a") == {"t": "one", "b": ""}
    assert index.text("b") == {"t": "x", "b": "two"}
    assert index.search("two").ids == ["b"]
    for document, error in (("text", TypeError), ({"c": "x"}, ValueError)):
        with pytest.raises(error, match=r"documents\[0\]"):
            index.add([document], ["c"])
    with pytest.raises(TypeError, match=r"documents\[1\]\['b'\] is a list"):
        gnomon.BM25Index.build([{"t": "a"}, {"t": "a", "b": ["x"]}], fields=["t", "b"])


def test_an_index_is_pickled_by_its_path(tmp_path: Path) -> None:
    index = named()
    with pytest.raises(pickle.PicklingError, match="save"):
        pickle.dumps(index)
    index.save(tmp_path / "index")
    assert pickle.loads(pickle.dumps(index)).search("red").ids == ["a", "c"]
    index.delete(["a"])
    with pytest.raises(pickle.PicklingError, match="save"):
        pickle.dumps(index)
    with gnomon.BM25Index.open(tmp_path / "index", mode="w") as writer:
        assert pickle.loads(pickle.dumps(writer)).ids == ["a", "b", "c"]
        writer.delete(["b"])
        with pytest.raises(pickle.PicklingError, match="commit"):
            pickle.dumps(writer)
    assert pickle.loads(pickle.dumps(writer)).ids == ["a", "c"]


def test_an_index_with_passages_is_not_edited(tmp_path: Path) -> None:
    from gnomon.cli_index import write_index
    from gnomon.documents import Document

    write_index(iter([Document("a.txt", "red")]), str(tmp_path / "x"), "standard-v1", lambda: 0)
    with pytest.raises(ValueError, match="more than a BM25 index"):
        gnomon.BM25Index.open(tmp_path / "x", mode="w")
    assert not (tmp_path / "x" / ".lock").exists()


def test_searches_during_edits_see_whole_states() -> None:
    """Each edit moves all documents from one word to another: a search finds all or none."""
    index = gnomon.BM25Index.build([["even"]] * 50, ids=range(50))
    done = threading.Event()
    failures: list[Any] = []

    def search() -> None:
        while not done.is_set():
            hits = index.search(["even", "odd"], 100)
            if len(hits.ids) != 50 or len(set(hits.scores.tolist())) != 1:
                failures.append(hits)

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    for turn in range(60):
        index.update([["odd" if turn % 2 == 0 else "even"]] * 50, range(50))
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), max_size=60))
def test_the_policy_keeps_segments_few(segments: list[tuple[int, int]]) -> None:
    sizes, dead = [size for size, _ in segments], [gone for _, gone in segments]
    groups = merges(sizes, dead)
    after, place = [], 0
    for first, last in [*groups, (len(sizes), len(sizes))]:
        assert place <= first
        after += sizes[place:first]
        after += [sum(sizes[first:last])] if first < last else []
        place = last
    assert sum(after) == sum(sizes)
    assert all(one >= 2 * two for one, two in pairwise(after))


def test_documents_are_seldom_rewritten() -> None:
    """1,000 edits of 1 to 20 documents: the bound that the policy states, measured."""
    rng = np.random.default_rng(0)
    sizes: list[int] = []
    written = added = 0
    for _ in range(1000):
        size = int(rng.integers(1, 21))
        added += size
        sizes.append(size)
        for first, last in reversed(merges(sizes, [0] * len(sizes))):
            written += sum(sizes[first:last])
            sizes[first:last] = [sum(sizes[first:last])]
    assert len(sizes) <= 14
    assert written / added < 1 + np.log(added) / np.log(1.5)
    assert written / added < 10
