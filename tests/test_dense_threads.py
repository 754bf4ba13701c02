"""A DenseIndex shared by threads: searches and filters beside each other, and beside edits.

`bash tests/tsan.sh` runs these in a build with ThreadSanitizer.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon.reference import dense as reference

N, DIM, K = 3000, 24, 7

Answer = tuple[tuple[str, ...], bytes]


@pytest.fixture
def _often(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Threads of Python change places a thousand times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def rows(n: int, seed: int) -> Any:
    """Small whole numbers: ties at every place."""
    return np.random.default_rng(seed).integers(-3, 4, (n, DIM)).astype(np.float32)


def run_all(works: list[Callable[[], None]]) -> None:
    """Each in a thread of its own, begun together; the first exception is raised here."""
    errors: list[BaseException] = []
    gate = threading.Barrier(len(works))

    def guarded(work: Callable[[], None]) -> None:
        try:
            gate.wait(30)
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


@pytest.mark.usefixtures("_often")
@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_searches_of_all_kinds_at_once(metric: str) -> None:
    """Screens that are made or measured at the first search, batches, filters, least scores."""
    base, queries = rows(N, 1), rows(12, 2)
    exact = [reference.top_k(q.tolist(), base.tolist(), K, metric) for q in queries[:2]]
    calm = gnomon.DenseIndex.build(base, metric=metric, screen="none").search(queries, K)
    for q, hits in enumerate(exact):
        assert list(zip(calm.ids[q].tolist(), calm.scores[q].tolist(), strict=True)) == hits
    mask = np.arange(N) % 3 == 0
    kept = gnomon.DenseIndex.build(base[mask], metric=metric).search(queries, K)
    index = gnomon.DenseIndex.build(
        base, metric=metric, screen="int8", columns={"third": (np.arange(N) % 3).tolist()}
    )

    def same(found: Any, ids: Any, scores: Any) -> None:
        assert found.ids.tolist() == ids.tolist()
        assert found.scores.tobytes() == scores.tobytes()

    def batches() -> None:
        for _ in range(6):
            for screen in ("auto", "int8", "float32", "none"):
                same(index.search(queries, K, screen=screen, threads=2), calm.ids, calm.scores)

    def singles() -> None:
        for _ in range(4):
            for q, query in enumerate(queries):
                same(index.search(query, K, threads=2), calm.ids[q], calm.scores[q])

    def filtered() -> None:
        for _ in range(6):
            for chosen in (mask, np.flatnonzero(mask).tolist(), gnomon.field("third") == 0):
                found = index.search(queries, K, filter=chosen, threads=2)
                same(found, kept.ids * 3, kept.scores)

    def least() -> None:
        for _ in range(6):
            found = index.search(queries, K, min_score=float(calm.scores[0, 2]), threads=2)
            assert found[0].scores.tobytes()[: 3 * 8] == calm.scores[0, :3].tobytes()

    run_all([batches, batches, singles, filtered, least])


def answer(index: gnomon.DenseIndex, query: Any, **how: Any) -> Answer:
    hits = index.search(query, K, **how)
    return tuple(hits.ids), hits.scores.tobytes()


def edits() -> list[Callable[[gnomon.DenseIndex], Any]]:
    """Additions, updates, removals and merges; each makes another answer of every query."""
    steps: list[Callable[[gnomon.DenseIndex], Any]] = []
    for step in range(8):
        more = rows(40, 10 + step) * 4
        names = [f"n{step}.{i}" for i in range(40)]
        steps += [
            lambda index, more=more, names=names: index.add(more, names),
            lambda index, more=more, names=names: index.update(more[::-1].copy(), names),
            lambda index, names=names: index.remove(names[::2]),
        ]
    steps.insert(12, lambda index: index.merge())
    return steps


@pytest.mark.usefixtures("_often")
@pytest.mark.parametrize("mapped", [False, True])
def test_searches_beside_edits_see_one_state(mapped: bool, tmp_path: Path) -> None:
    """Every answer is that of the index between two edits, and no thread goes back in time."""
    base, queries = rows(N, 3), rows(3, 4)
    names = [f"r{i}" for i in range(N)]
    built = gnomon.DenseIndex.build(base, ids=names, metric="ip", screen="int8")
    built.save(tmp_path / "index")

    def fresh() -> gnomon.DenseIndex:
        if mapped:
            return gnomon.DenseIndex.load(tmp_path / "index")
        return gnomon.DenseIndex.build(base, ids=names, metric="ip", screen="int8")

    steps = edits()
    calm = fresh()
    states = [[answer(calm, q, threads=1, screen="none") for q in queries]]
    for step in steps:
        step(calm)
        states.append([answer(calm, q, threads=1, screen="none") for q in queries])
    shared = fresh()
    done = threading.Event()
    seen: list[set[int]] = [set(), set(), set()]

    def edit() -> None:
        try:
            for number, step in enumerate(steps):
                step(shared)
                if number % 4 == 0:
                    for q in range(len(queries)):
                        assert answer(shared, queries[q]) == states[number + 1][q]
        finally:
            done.set()

    def search(q: int) -> None:
        at = 0
        while True:
            last = done.is_set()
            found = answer(shared, queries[q], threads=2)
            while found != states[at][q]:  # a state is only left for a later one
                at += 1
                assert at < len(states), "an answer of no state, or of one that is gone"
            seen[q].add(at)
            if last:
                break
        assert found == states[-1][q]

    run_all([edit, *(lambda q=q: search(q) for q in range(len(queries)))])
    assert len(set.union(*seen)) > 1
    assert len(shared) == N + 8 * 20


@pytest.mark.usefixtures("_often")
def test_edits_of_several_threads_are_one_after_the_other() -> None:
    index = gnomon.DenseIndex.build(rows(50, 5), ids=[f"r{i}" for i in range(50)])

    def edit(worker: int) -> None:
        for step in range(6):
            names = [f"w{worker}.{step}.{i}" for i in range(5)]
            index.add(rows(5, worker), names)
            index.remove(names[:2])

    run_all([lambda w=w: edit(w) for w in range(4)])
    assert len(index) == 50 + 4 * 6 * 3
    assert set(index.search(rows(1, 6)[0], None).ids) == {f"r{i}" for i in range(50)} | {
        f"w{w}.{s}.{i}" for w in range(4) for s in range(6) for i in range(2, 5)
    }
