"""Every path of BM25 search, on every level, gives what the reference gives, bit for bit."""

from __future__ import annotations

import math
import os
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
import strategies
from gnomon import _core
from gnomon.bm25_query import Or, Prefix
from gnomon.reference import bm25_formulas as reference
from hypothesis import given
from hypothesis import strategies as st

PATHS = ("plain", "windows", "integers", "blocks", "lists", "essential", "direct", "auto")
WORDS = [f"w{i}" for i in range(40)]
Hits = list[tuple[int, float]]


@dataclass(frozen=True)
class Case:
    """Segments with deletions, and the same documents as a list with their slots."""

    snapshot: _core.Bm25Snapshot
    live: list[list[str]]
    slots: list[int]
    sizes: list[int]


def words_of(mask: np.ndarray[Any, np.dtype[np.bool_]]) -> Any:
    """A set of documents as the core takes it: bit d % 64 of word d / 64."""
    bits = np.zeros((mask.size + 63) // 64 * 64, dtype=np.uint8)
    bits[: mask.size] = mask
    return np.packbits(bits, bitorder="little").view(np.uint64)


def segment_of(documents: Sequence[Sequence[str]], packed: bool = False) -> _core.Bm25Index:
    builder = _core.Bm25Builder(with_vocabulary=True)
    builder.add_tokens([list(document) for document in documents])
    segment = builder.finish()
    if not packed:
        return segment
    with tempfile.TemporaryDirectory() as folder:
        writer = _core.ContainerWriter(Path(folder) / "packed")
        segment.write(writer, packed=True)
        writer.finish()
        return _core.Bm25Index.open(_core.Container(Path(folder) / "packed"))


def case_of(
    seed: int, n_segments: int, deleted: float, longest: int, most: int, packed: bool = False
) -> Case:
    """Skewed word counts: frequent words get block maxima and rows, rare ones neither."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, len(WORDS) + 1) ** 1.3
    segments, live, slots, sizes, base = [], [], [], [], 0
    for _ in range(n_segments):
        n = int(rng.integers(1, most))
        documents = [
            [WORDS[w] for w in rng.choice(len(WORDS), size=size, p=share / share.sum())]
            for size in rng.integers(0, longest + 1, size=n)
        ]
        for place in rng.integers(0, n, size=n // 4):  # copies: exact ties
            documents[place] = list(documents[rng.integers(0, n)])
        dead = rng.random(n) < deleted
        segments.append((segment_of(documents, packed), words_of(dead) if deleted else None))
        for doc in np.flatnonzero(~dead).tolist():
            live.append(documents[doc])
            slots.append(base + doc)
        sizes.append(n)
        base += n
    return Case(_core.Bm25Snapshot(segments), live, slots, sizes)


def cases() -> st.SearchStrategy[Case]:
    return st.builds(
        case_of,
        strategies.seeds(),
        st.integers(1, 3),
        st.sampled_from((0.0, 0.0, 0.3, 0.95)),
        st.sampled_from((1, 3, 12, 40)),
        st.sampled_from((2, 70, 400)),
        st.sampled_from((False, False, True)),
    )


def weights() -> st.SearchStrategy[float]:
    plain = st.sampled_from((1.0, 1.0, 2.0, 0.5, math.nextafter(1.0, 2.0), math.nextafter(0.5, 0)))
    return st.one_of(plain, st.sampled_from((0.0, -1.0, 1e-100, -1e100, 1e100, 3.7e-30)))


def queries() -> st.SearchStrategy[list[tuple[str, float]]]:
    """Frequent and rare words, repeats, unknown ones; odd weights in some."""
    words = st.one_of(st.sampled_from(WORDS[:5]), st.sampled_from([*WORDS, "unknown"]))
    one = st.lists(st.tuples(words, st.just(1.0)), max_size=9)
    return st.one_of(one, st.lists(st.tuples(words, weights()), max_size=6))


def expected_hits(case: Case, query: list[tuple[str, float]], k: int, formula: str) -> Hits:
    values = reference.scores(query, case.live, formula)
    return [(case.slots[p], s) for p, s in reference.ranked(query, case.live, values, k)]


def hits_of(answer: tuple[Any, Any]) -> Hits:
    return list(zip(answer[0].tolist(), answer[1].tolist(), strict=True))


@given(
    cases(), queries(), st.sampled_from(reference.FORMULAS), st.sampled_from((0, 1, 3, 10, 10_000))
)
def test_every_path_and_level_equals_the_reference(
    case: Case, query: list[tuple[str, float]], formula: str, k: int
) -> None:
    scorer = _core.Bm25Scorer(case.snapshot, formula)
    tokens, given_weights = [token for token, _ in query], [weight for _, weight in query]
    expected = expected_hits(case, query, k, formula)
    for path in PATHS:
        for level in gnomon.levels():
            answer = scorer.search(tokens, k, given_weights, level=level, path=path)
            assert hits_of(answer) == expected, (path, level)
    every = scorer.scores(tokens, given_weights)
    values = reference.scores(query, case.live, formula)
    assert struct.pack(f"{len(values)}d", *every[case.slots]) == struct.pack(
        f"{len(values)}d", *values
    )


@given(cases(), queries(), st.sampled_from((0.0, 0.02, 0.3, 1.0)), strategies.seeds())
def test_filters_remove(
    case: Case, query: list[tuple[str, float]], share: float, seed: int
) -> None:
    """Statistics stay those of all documents; what is not allowed is not there."""
    rng = np.random.default_rng(seed)
    masks = [rng.random(n) < share for n in case.sizes]
    allowed = [words_of(mask) if rng.random() < 0.8 else None for mask in masks]
    kept = np.concatenate(
        [mask | (words is None) for mask, words in zip(masks, allowed, strict=True)]
    )
    every = expected_hits(case, query, len(case.live), "default")
    expected = [(slot, score) for slot, score in every if kept[slot]]
    scorer = _core.Bm25Scorer(case.snapshot)
    tokens, given_weights = [token for token, _ in query], [weight for _, weight in query]
    for path in PATHS:
        for k in (1, 10, 10_000):
            answer = scorer.search(tokens, k, given_weights, False, allowed, path=path)
            assert hits_of(answer) == expected[:k], (path, k)


@given(cases(), queries(), st.sampled_from(reference.FORMULAS))
def test_repeats_once_keeps_the_first_of_equal_terms(
    case: Case, query: list[tuple[str, float]], formula: str
) -> None:
    once = list(dict(reversed(query)).items())[::-1]
    once.sort(key=lambda pair: [token for token, _ in query].index(pair[0]))
    scorer = _core.Bm25Scorer(case.snapshot, formula)
    tokens, given_weights = [token for token, _ in query], [weight for _, weight in query]
    assert hits_of(scorer.search(tokens, 10, given_weights, True)) == expected_hits(
        case, once, 10, formula
    )


@given(cases(), st.lists(queries(), max_size=5), st.sampled_from(reference.FORMULAS))
def test_parts_add_up_to_the_score(
    case: Case, many: list[list[tuple[str, float]]], formula: str
) -> None:
    scorer = _core.Bm25Scorer(case.snapshot, formula)
    slots = np.array(case.slots, dtype=np.int64)
    for query in many:
        tokens, given_weights = [token for token, _ in query], [weight for _, weight in query]
        (scores, parts, _, constant), _ = scorer.parts(tokens, slots, given_weights)
        assert scores.tolist() == reference.scores(query, case.live, formula)
        for score, row in zip(scores.tolist(), parts.tolist(), strict=True):
            total = 0.0
            for part in row:
                total = total + part
            if formula in reference.ABSENT_AT_END:
                total = total + constant
            assert total == score


def crowded() -> _core.Bm25Scorer:
    """Two frequent words whose best documents stand together."""
    rng = np.random.default_rng(5)
    words = rng.integers(1000, 20_000, size=(400_000, 14)).astype(np.uint32)
    for word in (0, 1):
        words[rng.random(len(words)) < 0.2, word] = word
    words[5000:6000, :7], words[5000:6000, 7:] = 0, 1
    builder = _core.Bm25Builder(with_vocabulary=False)
    builder.add_ids(words.ravel(), np.arange(0, words.size + 1, 14, dtype=np.int64))
    return _core.Bm25Scorer(_core.Bm25Snapshot([(builder.finish(), None)]), k1=2.0)


def test_paths_are_taken() -> None:
    """The switch forces a path, and the planner uses each of them somewhere."""
    rng = np.random.default_rng(5)
    ids = (rng.random(1_200_000) ** 3 * 20_000).astype(np.uint32)
    builder = _core.Bm25Builder(with_vocabulary=False)
    builder.add_ids(ids, np.arange(0, 1_200_001, 4, dtype=np.int64))
    scorer = _core.Bm25Scorer(_core.Bm25Snapshot([(builder.finish(), None)]))
    for path in ("plain", "windows", "integers", "blocks", "lists", "essential", "direct"):
        assert scorer.plan([0, 5], 10, path=path) == path
    few = [words_of(np.arange(300_000) == 7)]
    many = list(range(100, 130))
    assert scorer.plan([0, 1, 2], 10) == "integers"
    assert scorer.plan([1, 2, 3, 4, 2000], 10, [1.0, 1.0, 1.0, 1.0, 10.0]) == "lists"
    assert crowded().plan([0, 1], 10) == "blocks"
    assert scorer.plan(many, 100) == "essential"
    assert scorer.plan(many, 1000) == "windows"
    assert scorer.plan([0, 1], 10, None, few) == "direct"
    assert scorer.plan([0, 1], 10, [1.0, -1.0]) == "plain"
    one = scorer.search([0, 1, 9], 100)
    for threads in (2, 7):
        for path in ("plain", "windows", "integers", "auto"):
            answer = scorer.search([0, 1, 9], 100, threads=threads, path=path)
            assert hits_of(answer) == hits_of(one)


def test_segments_are_searched_by_the_paths_of_one() -> None:
    """What is known of a term's best documents is known over all segments, and a small segment that
    would rather be read by integers does not undo the search of a large one.
    """
    n, cuts = 200_000, (0, 180_000, 194_000, 200_000)
    ids = (np.random.default_rng(5).random(4 * n) ** 3 * 8_000).astype(np.uint32)
    ids[ids == 7_999] = 0
    ids[4 * np.arange(1_000, 200_000, 18_000)] = 7_999  # 12 documents, 10 in the first segment
    ids[4 * np.array([1_000, 19_000])] = 0  # 10 documents, 8 in the first segment

    def scorer(*borders: int) -> _core.Bm25Scorer:
        segments = []
        for first, last in pairwise(borders):
            builder = _core.Bm25Builder(with_vocabulary=False)
            ends = np.arange(0, 4 * (last - first) + 1, 4, dtype=np.int64)
            builder.add_ids(ids[4 * first : 4 * last], ends)
            segments.append((builder.finish(), None))
        return _core.Bm25Scorer(_core.Bm25Snapshot(segments))

    one, three, small = scorer(0, n), scorer(*cuts), scorer(*cuts[1:3])
    for query in ([7_999], [7_999, 0], [4, 3620], [6, 1143, 2917]):
        assert one.plan(query, 10) == three.plan(query, 10) == "lists"
        assert len(query) == 1 or small.plan(query, 10) == "integers"
        assert hits_of(three.search(query, 10)) == hits_of(one.search(query, 10))


def test_ids_of_slots_over_segments() -> None:
    """Ids that count on from the first, none, and ids one by one."""
    ids = _core.SlotIds([3, 3, 5], [7, 0, np.array([-9, 2**62])])
    assert ids.take(np.array([4, 0, 3, 2])).tolist() == [2**62, 7, -9, 9]
    assert ids.take(np.zeros(0, dtype=np.int64)).tolist() == []
    for slot in (-1, 5, 2**62):
        with pytest.raises(IndexError, match=f"there is no slot {slot}"):
            ids.take(np.array([slot]))
    with pytest.raises(ValueError, match="there must be an id for each document"):
        _core.SlotIds([3], [np.array([1, 2])])
    with pytest.raises(ValueError, match="there must be ids for each segment"):
        _core.SlotIds([3, 4], [0])
    with pytest.raises(ValueError, match="ends must not fall"):
        _core.SlotIds([3, 2], [0, 0])


@pytest.mark.parametrize("path", PATHS)
def test_scores_one_ulp_apart_keep_their_order(path: str) -> None:
    """float32 cannot tell the documents apart; the answer must."""
    names = [f"t{i}" for i in range(100)]
    documents = [[name] for name in names for _ in range(2)]
    weights = [1.0]
    for _ in names[1:]:
        weights.append(math.nextafter(weights[-1], 2.0))
    scorer = _core.Bm25Scorer(_core.Bm25Snapshot([(segment_of(documents), None)]))
    query = list(zip(names, weights, strict=True))[:60]
    expected = reference.ranked(query, documents, reference.scores(query, documents), 7)
    assert len({score for _, score in expected}) > 1
    answer = scorer.search(names[:60], 7, weights[:60], path=path)
    assert hits_of(answer) == expected


def test_many_equal_documents_fall_back_to_the_plain_path() -> None:
    documents = [["a", "b"]] * 40_000
    scorer = _core.Bm25Scorer(_core.Bm25Snapshot([(segment_of(documents), None)]))
    assert scorer.plan(["a", "b"], 10) == "plain"
    assert scorer.search(["a", "b"], 3)[0].tolist() == [0, 1, 2]


def test_screen_lists_stay_under_their_cap() -> None:
    rng = np.random.default_rng(2)
    documents = [[WORDS[w] for w in rng.integers(0, 40, size=20)] for _ in range(2000)]
    snapshot = _core.Bm25Snapshot([(segment_of(documents), None)])
    free = _core.Bm25Scorer(snapshot)
    cap = 100_000
    tight = _core.Bm25Scorer(snapshot, screen_bytes=cap)
    for word in WORDS * 2:
        assert hits_of(tight.search([word, "w1"], 5)) == hits_of(free.search([word, "w1"], 5))
        assert tight.screen_bytes <= cap
    assert free.screen_bytes > cap
    none = _core.Bm25Scorer(snapshot, screen_bytes=0)
    assert none.plan(["w1"], 5) == "plain"
    assert hits_of(none.search(["w1"], 5)) == hits_of(free.search(["w1"], 5))


def test_the_memory_of_screen_lists_is_the_users_to_set() -> None:
    rng = np.random.default_rng(2)
    index = gnomon.BM25Index.build([rng.integers(0, 40, size=20).tolist() for _ in range(2000)])
    expected = [index.search([word], formula="lucene").ids.tolist() for word in range(40)]
    index.screen_memory = 50_000
    index.add([[99]])
    index.delete([2000])
    found = [index.search([word], formula="lucene").ids.tolist() for word in range(40)]
    assert (found, index.screen_memory) == (expected, 50_000)
    assert 0 < index._view.searcher.scorer("lucene").screen_bytes <= 50_000
    for wrong, error in ((-1, ValueError), (1.5, TypeError)):
        with pytest.raises(error, match="screen_memory must be"):
            index.screen_memory = wrong


# ---------------------------------------------------------------------------------------- fields
FIELDS = ("title", "body", "code")


@st.composite
def field_cases(draw: st.DrawFn) -> list[dict[str, list[str]]]:
    rng = np.random.default_rng(draw(strategies.seeds()))
    n = draw(st.sampled_from((0, 1, 5, 90, 300)))
    return [
        {
            name: [WORDS[w] for w in rng.integers(0, 12, size=rng.integers(0, 9))]
            for name in FIELDS
            if rng.random() < 0.8
        }
        for _ in range(n)
    ]


@given(
    field_cases(),
    queries(),
    st.tuples(*[st.sampled_from((1.0, 0.0, 3.5, 1e-3))] * 3),
    st.tuples(*[st.sampled_from((0.75, 0.0, 1.0))] * 3),
)
def test_fields_equal_the_reference(
    documents: list[dict[str, list[str]]],
    query: list[tuple[str, float]],
    field_weights: tuple[float, float, float],
    bs: tuple[float, float, float],
) -> None:
    weights = dict(zip(FIELDS, field_weights, strict=True))
    each_b = dict(zip(FIELDS, bs, strict=True))
    index = gnomon.BM25Index.build(documents, fields=dict.fromkeys(FIELDS, 1.0), b=each_b)
    values = reference.field_scores(query, documents, weights, each_b)
    counted: list[list[str]] = [
        [t for name in FIELDS if weights[name] for t in d.get(name, ())] for d in documents
    ]
    expected = reference.ranked(query, counted, values, 10)
    hits = index.search(query, 10, field_weights=weights)
    assert list(zip(hits.ids.tolist(), hits.scores.tolist(), strict=True)) == expected
    scorer = index._view.searcher.scorer(field_weights=field_weights)
    tokens, given_weights = [token for token, _ in query], [weight for _, weight in query]
    if not any(document.values() for document in documents):
        return
    for path in PATHS:
        assert hits_of(scorer.search(tokens, 10, given_weights, path=path)) == expected, path


# --------------------------------------------------------------------------------------- the face
def test_explain_adds_up_and_names_what_matched() -> None:
    index = gnomon.BM25Index.build(
        ["red apple pie", "green apple", "pear"], ids=["a", "b", "c"], formula="bm25+"
    )
    why = index.explain("apple apple pie zzz", "a")
    total = 0.0
    for part in why.parts:
        total = total + part.score
    assert total + why.constant == why.score == index.score_of("apple apple pie zzz", ["a"])[0]
    assert why.matched == ["apple", "pie"]
    assert "'pie'" in str(why)
    assert index.explain_many("pear", ["c", "a"])[1].matched == []
    assert index.score_of("apple", ["b", "a", "b"]).tolist() == [
        index.scores("apple")[1],
        index.scores("apple")[0],
        index.scores("apple")[1],
    ]
    with pytest.raises(KeyError, match="'zzz'"):
        index.explain("apple", "zzz")


@given(cases(), queries())
def test_matched_names_what_explain_names(case: Case, query: list[tuple[str, float]]) -> None:
    index = gnomon.BM25Index.build(case.live)
    hits = index.search(query, 7, matched=True)
    assert isinstance(hits, gnomon.MatchedHits)
    plain = index.search(query, 7)
    assert hits.ids.tolist() == plain.ids.tolist()
    assert hits.scores.tolist() == plain.scores.tolist()
    assert hits.matched == [why.matched for why in index.explain_many(query, hits.ids)]
    assert all(hits.matched)


def test_matched_of_query_objects_and_fields() -> None:
    index = gnomon.BM25Index.build(
        [{"title": "red apple"}, {"body": "a pear"}, {"title": "pea", "body": "red red"}],
        ids=["x", "y", "z"],
        fields=["title", "body"],
    )
    query = Or("red", Prefix("pe"))
    hits = index.search(query, matched=True)
    assert dict(zip(hits.ids, hits.matched, strict=True)) == {
        "x": ["red"],
        "y": ["pe*"],
        "z": ["red", "pe*"],
    }
    left = index.search("red apple", matched=True, field_weights={"title": 0.0})
    assert (left.ids, left.matched) == (["z"], [["red"]])


def test_term_stats_are_of_live_documents() -> None:
    index = gnomon.BM25Index.build(["a b", "b c", "b"], ids=[1, 2, 3])
    index.delete([2])
    assert index.term_stats("b").df == 2
    assert index.term_stats("c") == (0, 0.0)
    assert index.term_stats("b").idf == reference.idf("default", 2, 2)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"formula": "bm26"}, ValueError, "default, lucene"),
        ({"k1": -1}, ValueError, "k1 must lie"),
        ({"delta": -1.0}, ValueError, "delta must lie"),
        ({"repeats": "twice"}, ValueError, "'count' or 'once'"),
        ({"formula": "bm25f"}, ValueError, "one weight and one b"),
        ({"field_weights": {"title": 2}}, ValueError, "'title'"),
    ],
)
def test_bad_options(options: Mapping[str, Any], error: type[Exception], message: str) -> None:
    index = gnomon.BM25Index.build([["a"]])
    with pytest.raises(error, match=message):
        index.search(["a"], **options)


@pytest.mark.parametrize("weight", [math.nan, math.inf, 1e101, -1e-101])
def test_bad_weights(weight: float) -> None:
    index = gnomon.BM25Index.build([["a"]])
    with pytest.raises(ValueError, match=r"weights\[0\] must be 0, or between"):
        index.search({"a": weight})


@pytest.mark.parametrize("formula", reference.FORMULAS)
def test_a_formula_is_stored_with_its_parameters(formula: str, tmp_path: Any) -> None:
    documents = [["a", "b", "a"], ["b"], ["c", "a"]]
    index = gnomon.BM25Index.build(documents, formula=formula, k1=0.9, delta=0.7)
    index.save(tmp_path / "index")
    opened = gnomon.BM25Index.load(tmp_path / "index")
    assert opened.formula == index.formula
    expected = reference.scores([("a", 1.0), ("c", 1.0)], documents, formula, 0.9, 0.75, 0.7)
    assert opened.scores(["a", "c"]).tolist() == expected
    other = gnomon.BM25Index.build(documents, k1=0.9)
    hits = other.search(["a", "c"], formula=formula, delta=0.7)
    assert hits.scores.tolist() == opened.search(["a", "c"]).scores.tolist()


def test_searches_of_many_threads_are_those_of_one() -> None:
    """New terms, formulas and screen lists are made while others read them."""
    rng = np.random.default_rng(3)
    documents = [[WORDS[w] for w in rng.integers(0, 40, size=8)] for _ in range(3000)]
    index = gnomon.BM25Index.build(documents)
    wanted = [(q, f) for q in pairwise(WORDS) for f in reference.FORMULAS[:4]]
    expected = [
        gnomon.BM25Index.build(documents).search(list(q), 5, formula=f).scores.tolist()
        for q, f in wanted[:8]
    ]
    failed: list[Any] = []

    def work(shift: int) -> None:
        for place in range(len(wanted)):
            q, f = wanted[(place + shift) % len(wanted)]
            found = index.search(list(q), 5, formula=f).scores.tolist()
            if (place + shift) % len(wanted) < 8 and found != expected[
                (place + shift) % len(wanted)
            ]:
                failed.append((q, f))

    threads = [threading.Thread(target=work, args=(31 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_searches_after_a_fork() -> None:
    code = """
import os, gnomon
documents = [[f"w{i % 50}", f"w{i % 7}"] for i in range(3000)]
index = gnomon.BM25Index.build(documents)
queries = [["w1", "w2"], ["w3"]] * 8
before = [h.ids.tolist() for h in index.search_many(queries, 5, threads=2)]
child = os.fork()
if child == 0:
    after = [h.ids.tolist() for h in index.search_many(queries, 5, threads=2)]
    os._exit(0 if after == before and index.search(["w9"], 3).ids.tolist() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
