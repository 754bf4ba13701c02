"""Any history of edits is as good as an index built afresh: the same ids, order and bits.

Also as good as the reference, which sees nothing but the list of live documents.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, Literal

import gnomon
import numpy as np
import pytest
from gnomon.reference import bm25 as reference
from gnomon.reference import bm25_formulas
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

WORDS = ("a", "b", "c", "d", "风雨")
QUERIES: list[list[str]] = [["a"], ["b", "a", "b"], ["c", "风雨", "d", "zzz"], []]
K1, B = 1.4, 0.6
WEIGHTS = {"title": 2.5, "body": 1.0}

Tokens = list[str]
tokens = st.lists(st.sampled_from(WORDS), max_size=5) | st.just(["a"] * 300 + ["b"])
batches = st.lists(tokens, min_size=0, max_size=4)


def found(hits: gnomon.Hits) -> list[tuple[Any, float]]:
    return list(zip(list(hits.ids), hits.scores.tolist(), strict=True))


class Edits(RuleBasedStateMachine):
    """An index in memory with ids of the caller's; subclasses put it on the disk or change ids."""

    kind = "str"
    fields = False
    postings: Literal["plain", "packed"] = "plain"  # how the disk has them

    @initialize(documents=batches)
    def build(self, documents: list[Tokens]) -> None:
        self.next = 0
        self.live: list[tuple[Any, Any]] = []
        pairs = self.fresh(documents)
        self.live = list(pairs)
        self.index = self.made(pairs)
        self.start()

    def start(self) -> None:
        pass

    def made(self, pairs: list[tuple[Any, Any]]) -> gnomon.BM25Index:
        ids = [id for id, _ in pairs]
        automatic = self.kind == "position" and ids == list(range(len(ids)))
        return gnomon.BM25Index.build(
            [document for _, document in pairs],
            ids=None if automatic else ids,
            k1=K1,
            b=B,
            fields=WEIGHTS if self.fields else None,
            postings=self.postings,
        )

    def fresh(self, documents: list[Tokens]) -> list[tuple[Any, Any]]:
        """Documents with ids that were not there before."""
        pairs = []
        for document in documents:
            id = f"id {self.next}" if self.kind == "str" else self.next
            pairs.append((id, self.shaped(document)))
            self.next += 1
        return pairs

    def shaped(self, document: Tokens) -> Any:
        if not self.fields:
            return document
        half = len(document) // 2
        return {"title": document[:half], "body": document[half:]}

    @rule(documents=batches)
    def add(self, documents: list[Tokens]) -> None:
        pairs = self.fresh(documents)
        ids = None if self.kind == "position" else [id for id, _ in pairs]
        given = self.index.add([document for _, document in pairs], ids)
        assert list(given) == [id for id, _ in pairs]
        self.live += pairs

    @precondition(lambda self: self.live)
    @rule(data=st.data(), documents=batches)
    def update(self, data: st.DataObject, documents: list[Tokens]) -> None:
        known = [id for id, _ in self.live]
        chosen = data.draw(st.permutations(known))[: len(documents)]
        pairs = [(id, self.shaped(d)) for id, d in zip(chosen, documents, strict=False)]
        ids = [id for id, _ in pairs]
        assert self.index.update([d for _, d in pairs], ids) == len(pairs)
        self.live = [(id, d) for id, d in self.live if id not in ids] + pairs

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from([id for id, _ in self.live]), unique=True))
        assert self.index.delete(ids) == len(ids)
        self.live = [(id, d) for id, d in self.live if id not in ids]

    @rule()
    def merge(self) -> None:
        self.index.merge()
        assert self.index.n_segments == 1

    @invariant()
    def as_built_afresh(self) -> None:
        fresh = self.made(self.live)
        documents = [document for _, document in self.live]
        ids = [id for id, _ in self.live]
        assert list(self.index.ids) == ids
        assert len(self.index) == len(ids)
        assert self.index.n_tokens == fresh.n_tokens
        for query in QUERIES:
            scores = self.expected(query, documents)
            assert self.index.scores(query).tobytes() == fresh.scores(query).tobytes()
            assert self.index.scores(query).tolist() == scores
            for k in (1, 3, 100):
                hits = found(self.index.search(query, k))
                assert hits == found(fresh.search(query, k))
                assert hits == self.best(query, documents, ids, scores, k)
        stats = [self.index.term_stats(word) for word in WORDS]
        assert stats == [fresh.term_stats(word) for word in WORDS]

    def expected(self, query: Tokens, documents: list[Any]) -> list[float]:
        if not self.fields:
            return reference.bm25_scores(query, documents, K1, B)
        weighted = [(token, 1.0) for token in query]
        return bm25_formulas.field_scores(
            weighted, documents, WEIGHTS, dict.fromkeys(WEIGHTS, B), K1
        )

    def best(
        self, query: Tokens, documents: list[Any], ids: list[Any], scores: list[float], k: int
    ) -> list[tuple[Any, float]]:
        terms = set(query)
        matching = []
        for id, document, score in zip(ids, documents, scores, strict=True):
            parts = document.values() if self.fields else [document]
            if any(not terms.isdisjoint(part) for part in parts):
                matching.append((id, score))
        return sorted(matching, key=lambda hit: -hit[1])[:k]  # stable: the earlier one first

    def teardown(self) -> None:
        if hasattr(self, "index"):
            self.index.verify()


class NumberedEdits(Edits):
    kind = "position"


class IntegerEdits(Edits):
    kind = "int"


class FieldEdits(Edits):
    fields = True


class DiskEdits(Edits):
    """On disk, with a reader beside the writer that must see committed states only."""

    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.index.save(self.folder / "index")
        self.index = gnomon.BM25Index.open(self.folder / "index", mode="w")
        self.reader = gnomon.BM25Index.open(self.folder / "index")
        self.mark_committed()
        self.read = list(self.live)

    def mark_committed(self) -> None:
        self.committed = list(self.live)
        self.committed_next = self.next

    def back_to_committed(self) -> None:
        self.live = list(self.committed)
        if self.kind == "position":  # numbers that no commit gave away are given again
            self.next = self.committed_next

    @rule()
    def commit(self) -> None:
        self.index.commit()
        self.mark_committed()

    @rule()
    def merge(self) -> None:
        before = (self.index.n_segments, self.index.ids)
        self.index.merge()
        assert self.index.n_segments == 1
        assert list(self.index.ids) == list(before[1])
        if self.index.generation != self.reader.generation:
            self.mark_committed()

    @rule()
    def rollback(self) -> None:
        self.index.rollback()
        self.back_to_committed()

    @rule(how=st.sampled_from(("commit", "drop")))
    def reopen(self, how: str) -> None:
        if how == "commit":
            self.commit()
        self.index.close()
        self.index = gnomon.BM25Index.open(self.folder / "index", mode="w")
        self.back_to_committed()

    @rule()
    def refresh(self) -> None:
        generation = self.reader.generation
        assert self.reader.refresh() == (self.index.generation != generation)
        self.read = list(self.committed)

    @invariant()
    def reader_sees_one_committed_state(self) -> None:
        assert list(self.reader.ids) == [id for id, _ in self.read]
        documents = [document for _, document in self.read]
        scores = self.reader.scores(QUERIES[1])
        assert scores.tolist() == self.expected(QUERIES[1], documents)

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            self.reader.refresh()
            self.reader.verify()
            self.index.close()
            shutil.rmtree(self.folder)


class NumberedDiskEdits(DiskEdits):
    kind = "position"
    postings = "packed"


class FieldDiskEdits(DiskEdits):
    fields = True
    postings = "packed"


MACHINES = [Edits, NumberedEdits, IntegerEdits, FieldEdits]
DISK_MACHINES = [DiskEdits, NumberedDiskEdits, FieldDiskEdits]


def few(share: float) -> settings:
    """A history is many steps, so there are fewer of them than of other examples; a found one is
    shown as it is, for shrinking takes minutes."""
    return settings(
        max_examples=max(5, int(settings().max_examples * share)),
        stateful_step_count=12,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
    )


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
def test_any_history_in_memory(machine: type[Edits]) -> None:
    run_state_machine_as_test(machine, settings=few(0.15))


@pytest.mark.parametrize("machine", DISK_MACHINES, ids=lambda machine: machine.__name__)
def test_any_history_on_disk(machine: type[Edits]) -> None:
    run_state_machine_as_test(machine, settings=few(0.1))


def test_a_long_history_has_few_segments_and_the_bits_of_a_fresh_index(level: str) -> None:
    """Thousands of documents, so that screens and blocks of every path are used."""
    rng = np.random.default_rng(5)

    def document() -> Tokens:
        return [f"w{w}" for w in np.minimum(rng.zipf(1.4, size=rng.integers(0, 9)), 60)]

    live = {id: document() for id in range(6000)}
    index = gnomon.BM25Index.build(live.values(), ids=list(live))
    for turn in range(12):
        gone = rng.choice(list(live), size=150, replace=False).tolist()
        index.delete(gone[:100])
        for id in gone[:100]:
            del live[id]
        changed = {id: document() for id in gone[100:]}
        index.update(changed.values(), list(changed))
        for id in changed:
            del live[id]
        new = {10_000 * (turn + 1) + i: document() for i in range(120)}
        index.add(new.values(), list(new))
        live |= changed | new
    assert index.n_segments <= np.log2(len(live)) + 1
    fresh = gnomon.BM25Index.build(live.values(), ids=list(live))
    assert list(index.ids) == list(live)
    for query in (["w1"], ["w2", "w7"], ["w3", "w1", "w40", "w9"], ["w55"]):
        for k in (1, 10, 1000, 10_000):
            assert found(index.search(query, k, level=level)) == found(fresh.search(query, k))
        expected = reference.search(query, list(live.values()), 20)
        ids = list(live)
        assert found(index.search(query, 20)) == [(ids[place], score) for place, score in expected]
