"""Edits of a DenseIndex: after any of them it answers as a fresh index of its rows does."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import gnomon
import hypothesis
import numpy as np
import pytest
from gnomon.reference import dense as reference
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

DIM = 5
IDS = st.integers(0, 40)
VECTORS = st.lists(st.lists(st.integers(-2, 2), min_size=DIM, max_size=DIM), min_size=0, max_size=9)


class Edits(RuleBasedStateMachine):
    """The model is a dict: Python keeps the order in which ids were put in."""

    known = Bundle("known")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.index = gnomon.DenseIndex.build(np.zeros((0, DIM)), ids=[], metric="l2")
        self.rows: dict[str, list[int]] = {}
        self.saves = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @rule(vectors=VECTORS, numbers=st.lists(IDS, min_size=9, max_size=9, unique=True))
    def add(self, vectors: list[list[int]], numbers: list[int]) -> None:
        ids = [f"id{number}" for number in numbers[: len(vectors)]]
        if any(name in self.rows for name in ids):
            with pytest.raises(ValueError, match="is in the index already"):
                self.index.add(np.array(vectors).reshape(-1, DIM), ids)
            return
        self.index.add(np.array(vectors).reshape(-1, DIM), ids)
        self.rows.update(zip(ids, vectors, strict=True))

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from(sorted(self.rows)), unique=True))
        self.index.remove(ids)
        for name in ids:
            del self.rows[name]

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def update(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from(sorted(self.rows)), unique=True, max_size=4))
        vectors = [[place, 1, 0, -place, 2] for place in range(len(ids))]
        self.index.update(np.array(vectors).reshape(-1, DIM), ids)
        for name, vector in zip(ids, vectors, strict=True):
            del self.rows[name]
            self.rows[name] = vector

    @rule(name=IDS)
    def remove_what_is_not_there(self, name: int) -> None:
        if f"id{name}" not in self.rows:
            with pytest.raises(KeyError, match="does not hold"):
                self.index.remove([f"id{name}"])

    @rule()
    def merge(self) -> None:
        self.index.merge()
        assert self.index.segments == 1

    @rule(again=st.booleans())
    def save_and_load(self, again: bool) -> None:
        self.saves += 0 if again else 1
        self.index.save(self.folder / f"index{self.saves}")
        self.index = gnomon.DenseIndex.load(self.folder / f"index{self.saves}")
        self.index.verify()

    @rule()
    def save_and_go_on(self) -> None:
        self.index.save(self.folder / f"index{self.saves}")

    @invariant()
    def answers_are_those_of_a_fresh_index(self) -> None:
        names = list(self.rows)
        vectors = [list(map(float, vector)) for vector in self.rows.values()]
        assert len(self.index) == len(names)
        assert self.index.ids == names
        query = [1.0, -1.0, 2.0, 0.0, 1.0]
        hits = self.index.search(query, 7)
        expected = reference.top_k(query, vectors, 7, "l2")
        assert list(hits.ids) == [names[row] for row, _ in expected]
        assert hits.scores.tolist() == [score for _, score in expected]
        if names:
            mask = np.arange(len(names)) % 3 != 0
            some = self.index.search(query, None, filter=mask, min_score=-9.0)
            ranked = reference.top_k(query, vectors, len(names), "l2")
            kept = [names[row] for row, score in ranked if row % 3 != 0 and score >= -9.0]
            assert some.ids == kept


TestEdits = Edits.TestCase
# Fifty steps a history: a quarter of the usual histories takes a quarter of half a minute.
TestEdits.settings = hypothesis.settings(
    max_examples=max(1, hypothesis.settings().max_examples // 4)
)


@pytest.mark.parametrize("metric", ["cosine", "ip", "l2"])
def test_many_rows_in_segments_equal_a_fresh_index(metric: str) -> None:
    rng = np.random.default_rng(8)
    rows = rng.standard_normal((9000, 24)).astype(np.float32)
    rows[8500] = rows[3]  # a tie over segments
    index = gnomon.DenseIndex.build(rows[:6000], metric=metric)
    for first in range(6000, 9000, 500):
        index.add(rows[first : first + 500])
    gone = rng.choice(9000, 2500, replace=False)
    index.remove(gone)
    assert index.segments > 1
    live = np.setdiff1d(np.arange(9000), gone)
    fresh = gnomon.DenseIndex.build(rows[live], ids=live, metric=metric)
    queries = np.concatenate([rows[:3], rng.standard_normal((30, 24))])
    for k in (1, 10, 400, 7000):
        ours = index.search(queries, k, threads=2)
        theirs = fresh.search(queries, k)
        assert ours.ids.tolist() == theirs.ids.tolist()
        assert ours.scores.tobytes() == theirs.scores.tobytes()


def test_numbers_of_removed_rows_are_not_used_again() -> None:
    index = gnomon.DenseIndex.build(np.eye(3))
    index.remove([2])
    index.add([[0.0, 0.0, 5.0]])
    assert index.ids == [0, 1, 3]
    index.update([[1.0, 1.0, 0.0]], [0])
    assert index.ids == [1, 3, 0]
    index.add([[2.0, 1.0, 0.0]])
    assert index.ids == [1, 3, 0, 4]


def test_untouched_segments_are_not_written_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    index = gnomon.DenseIndex.build(rng.standard_normal((3000, 16)), ids=range(3000))
    index.save(tmp_path / "index")
    before = {path.name: path.stat().st_ino for path in (tmp_path / "index").iterdir()}
    index.add(rng.standard_normal((10, 16)), ids=range(3000, 3010))
    index.remove([5])
    index.save(tmp_path / "index")
    after = {path.name: path.stat().st_ino for path in (tmp_path / "index").iterdir()}
    kept = {name for name in before if after.get(name) == before[name]}
    assert {name.split("-")[1] for name in kept if name.endswith(".gno")} == {"vectors", "ids"}
    loaded = gnomon.DenseIndex.load(tmp_path / "index")
    assert loaded.ids == index.ids
    query = rng.standard_normal(16)
    assert loaded.search(query, 50).ids.tolist() == index.search(query, 50).ids.tolist()
    # Another writer came between: nothing of its files may be taken for ours.
    gnomon.DenseIndex.build(rng.standard_normal((3000, 16)), ids=range(3000)).save(
        tmp_path / "index"
    )
    index.save(tmp_path / "index")
    again = gnomon.DenseIndex.load(tmp_path / "index")
    again.verify()
    assert again.search(query, 50).scores.tobytes() == index.search(query, 50).scores.tobytes()


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        (lambda i: i.add([[1.0]], ["d"]), ValueError, r"vectors must be \[n, 3\]"),
        (lambda i: i.add(np.eye(3)), TypeError, "pass one for each row"),
        (lambda i: i.add(np.eye(3), ["d", "e", "d"]), ValueError, "unique"),
        (lambda i: i.add(np.eye(3), [1, 2, 3]), TypeError, "ids must be str"),
        (lambda i: i.update(np.eye(3)[:2], ["a", "a"]), ValueError, "unique"),
        (lambda i: i.update(np.eye(3)[:1], ["z"]), KeyError, "'z'"),
        (lambda i: i.remove("ab"), TypeError, "one text"),
        (lambda i: i.add([[np.nan, 0.0, 0.0]], ["d"]), ValueError, "row 0"),
        (lambda i: i.update([[np.nan, 0.0, 0.0]], ["a"]), ValueError, "row 0"),
    ],
)
def test_a_refused_edit_changes_nothing(edit: Any, error: type[Exception], message: str) -> None:
    index = gnomon.DenseIndex.build(np.eye(3), ids=["a", "b", "c"])
    with pytest.raises(error, match=message):
        edit(index)
    assert index.ids == ["a", "b", "c"]
    assert index.search([1.0, 0.0, 0.0], 3).ids == ["a", "b", "c"]
