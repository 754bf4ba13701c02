"""Recall: the vectorised definitions equal the written-out ones, and say what they should."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon.formats import FormatError, write_vectors
from gnomon.formats_neighbors import read_neighbors, write_neighbors
from gnomon.recall import recall_many
from gnomon.recall_counts import ann_benchmarks, as_distances, big_ann
from gnomon.recall_inputs import as_results, as_truth
from gnomon.recall_report import COLUMNS, SPEED_COLUMNS, as_csv, comparisons, notes
from gnomon.recall_stats import Interval, bootstrap, mean, paired, wilson
from gnomon.reference import recall as reference
from hypothesis import given
from hypothesis import strategies as st

SCORE = st.sampled_from([3.0, 2.0, 1.0, 0.0])


@st.composite
def truths(draw: st.DrawFn) -> tuple[list[int], list[float], int]:
    """All rows of a small base, best first with ties in any order, and how many a file keeps."""
    n = draw(st.integers(1, 9))
    scores = sorted(draw(st.lists(SCORE, min_size=n, max_size=n)), reverse=True)
    rows = draw(st.permutations(range(n)))
    rows = sorted(rows, key=lambda row: -scores[rows.index(row)])
    return list(rows), scores, draw(st.integers(1, n))


@given(
    truths(),
    st.lists(st.integers(-2, 11), max_size=9),
    st.integers(1, 9),
    st.booleans(),
    st.booleans(),
)
def test_equals_the_reference(
    world: tuple[list[int], list[float], int],
    returned: list[int],
    k: int,
    knows_base: bool,
    knows_ties: bool,
) -> None:
    rows, scores, width = world
    n = len(rows)
    k = min(k, width)
    kept, kept_scores = rows[:width], scores[:width]
    beyond = [row for row, score in zip(rows, scores, strict=True) if score == scores[width - 1]]
    beyond = sorted(set(beyond) - set(kept)) if knows_ties else []
    truth = as_truth([kept], [kept_scores], n if knows_base else None)
    if knows_ties:
        ties = {"tied_offsets": np.array([0, len(beyond)]), "tied_ids": np.array(beyond, np.int64)}
        complete = np.array([True])
        truth = type(truth)(**{**vars(truth), **ties, "complete": complete})
    ids = np.array([returned], np.int64).reshape(1, len(returned))
    found = gnomon.recall(truth, ids, k)
    n_base = n if knows_base else None
    low, high, places = reference.hits_at_k(
        kept, kept_scores, returned, k, n_base, beyond, knows_ties
    )
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower.tolist() == [low / places]
    assert found.upper.tolist() == [high / places]
    strict = reference.strict_hits(kept, returned, k, n_base)
    assert found.others["strict-id"] is not None
    assert found.others["strict-id"].tolist() == [strict / places]
    distances = [-score for score in kept_scores]
    near = [-scores[rows.index(row)] if row in rows else math.nan for row in returned[:k]]
    if min(returned, default=0) >= 0:  # big-ann-benchmarks knows no empty places
        want = reference.big_ann_hits(kept, distances, returned, k)
        assert big_ann(truth, ids, k).tolist() == [want]
    wide = np.array([near + [math.nan] * (k - len(near))])
    for epsilon in (0.0, 1e-3, 1.0):
        want = reference.ann_benchmarks_hits(distances, near, k, epsilon)
        assert ann_benchmarks(np.array([distances]), wide, k, epsilon).tolist() == [want]
    # What is unknown lies between: with every row known, one number in the interval.
    full_low, full_high, _ = reference.hits_at_k(rows, scores, returned, k, n_base, complete=True)
    assert full_low == full_high
    if all(row < n for row in returned):
        assert low <= full_low <= high


@given(truths(), st.integers(1, 9), st.randoms(use_true_random=False))
def test_one_if_and_only_if_an_exact_top_k(
    world: tuple[list[int], list[float], int], k: int, random: Any
) -> None:
    rows, scores, _ = world
    k = min(k, len(rows))
    best = sorted(scores, reverse=True)[:k]
    answer = random.sample(rows, k)
    exact = sorted((scores[rows.index(row)] for row in answer), reverse=True) == best
    found = gnomon.recall([rows], [answer], k, truth_scores=[scores])
    assert (found.mean == 1.0) == exact
    assert found.mean <= 1.0


@given(truths(), st.integers(1, 9), st.lists(st.integers(0, 8), max_size=9))
def test_it_does_not_matter_which_ties_the_truth_kept(
    world: tuple[list[int], list[float], int], k: int, returned: list[int]
) -> None:
    rows, scores, _ = world
    k = min(k, len(rows))
    ids = np.array([returned], np.int64).reshape(1, -1)
    wanted = None
    groups = [list(group) for _, group in itertools.groupby(rows, lambda r: scores[rows.index(r)])]
    for last in itertools.islice(itertools.permutations(groups[-1]), 6):
        ordered = [row for group in groups[:-1] for row in group] + list(last)
        value = gnomon.recall([ordered], ids, k, truth_scores=[scores]).mean
        assert wanted is None or value == wanted
        wanted = value


def test_what_other_definitions_get_wrong() -> None:
    """Nine strictly better neighbours and a group of ties at rank ten."""
    ids, scores = list(range(30)), [10.0 - i for i in range(9)] + [0.5] * 21
    ties = list(range(9, 19))
    truth = ([ids], [scores])
    found = gnomon.recall(truth[0], [ties], 10, truth_scores=truth[1])
    assert found.mean == 0.1  # one of ten: nine better ones are missing
    assert found.mean_of("big-ann") == 1.0
    assert found.mean_of("distance-threshold") == 1.0
    other_ties = gnomon.recall(truth[0], [[*range(9), 29]], 10, truth_scores=truth[1])
    assert other_ties.mean == 1.0
    assert other_ties.mean_of("strict-id") == 0.9


def test_the_absolute_epsilon_of_ann_benchmarks() -> None:
    """On tight data the next ten neighbours pass as the first ten."""
    base = np.array([[1.0, 1e-4 * i] for i in range(20)], np.float32)
    truth = gnomon.groundtruth(base, [[1.0, 0.0]], 20, metric="l2")
    found = gnomon.recall(truth, [list(range(10, 20))], 10, base=base, queries=[[1.0, 0.0]])
    assert found.mean == 0.0
    assert found.mean_of("ann-benchmarks") == 0.9


# -------------------------------------------------------------------------- what the truth may lack


def test_a_cut_off_group_gives_two_numbers_and_vectors_give_one() -> None:
    base = np.array([[1, 0], [2, 0], [3, 0], [0, 1]], np.float32)
    query = np.array([[1, 0]], np.float32)
    for answer, exact in (([[2]], 1.0), ([[3]], 0.0)):
        found = gnomon.recall([[0]], answer, 1, truth_scores=[[1.0]])
        assert (found.mean, found.mean_upper) == (0.0, 1.0)
        assert any("ends inside a group of ties" in note for note in notes(found))
        known = gnomon.recall(
            [[0]], answer, 1, truth_scores=[[1.0]], base=base, queries=query, metric="cosine"
        )
        assert (known.mean, known.mean_upper) == (exact, exact)
        own = gnomon.recall(gnomon.groundtruth(base, query, 1), answer, 1)
        assert (own.mean, own.mean_upper) == (exact, exact)


def test_more_ties_than_a_truth_keeps_are_unknown() -> None:
    base = np.ones((10, 2), np.float32)
    truth = gnomon.groundtruth(base, base[:1], 1, ties_max=3)
    kept = gnomon.recall(truth, [[3]], 1)
    assert (kept.mean, kept.mean_upper) == (1.0, 1.0)
    unknown = gnomon.recall(truth, [[7]], 1)
    assert (unknown.mean, unknown.mean_upper) == (0.0, 1.0)


def test_without_scores_only_strict_id_is_known() -> None:
    found = gnomon.recall([[0, 1]], [[1, 5]], 2)
    assert math.isnan(found.mean)
    assert found.mean_of("strict-id") == 0.5
    assert found.as_dict()["recall"] is None
    assert any("ties are unknown" in note for note in notes(found))


def test_a_truth_that_is_not_exact_shows() -> None:
    base = np.eye(4, dtype=np.float32)
    found = gnomon.recall([[1, 2]], [[0, 1]], 1, base=base, queries=base[:1], metric="cosine")
    assert found.beat_truth == 1
    assert found.mean == 0.0
    assert any("not exact" in note for note in notes(found))


def test_vectors_that_are_not_those_of_the_truth_are_refused() -> None:
    """Rows in another order have the same shape, and a recall of nothing in particular."""
    base = np.random.default_rng(2).standard_normal((30, 4)).astype(np.float32)
    queries = base[:3] + 1
    for metric in ("cosine", "ip", "l2"):
        truth = gnomon.groundtruth(base, queries, 5, metric=metric)
        again = gnomon.recall(truth, truth.ids, 5, base=base, queries=queries)
        assert again.mean == 1.0
        for wrong in ((base[::-1], queries), (base, queries[::-1])):
            with pytest.raises(ValueError, match="are not those of the truth: query 0 and row"):
                gnomon.recall(truth, truth.ids, 5, base=wrong[0], queries=wrong[1])


def test_a_truth_may_have_fewer_rows_than_k() -> None:
    truth = gnomon.groundtruth(np.eye(3), np.eye(3)[:1], 10)
    found = gnomon.recall(truth, [[0, 1, 2, -1, -1]], 10)
    assert found.mean == 1.0  # all three rows of the base
    with pytest.raises(ValueError, match="recall@10 needs 10 exact neighbours a query, the truth"):
        gnomon.recall([[0, 1, 2]], [[0]], 10, truth_scores=[[3.0, 2.0, 1.0]])


def test_queries_without_neighbours_are_left_out() -> None:
    found = gnomon.recall(
        [[0, 1], [-1, -1]], [[0, 1], [0, 1]], 2, truth_scores=[[2.0, 1.0], [0.0, 0.0]]
    )
    assert (found.mean, found.without_truth) == (1.0, 1)
    assert any("left out" in note for note in notes(found))


def test_coverage_is_counted() -> None:
    answers = [[0, 0, -1, 9], [1, 2], [-5, 3, 3, 3]]
    width = max(map(len, answers))
    table = [row + [-1] * (width - len(row)) for row in answers]
    truth = gnomon.groundtruth(np.eye(4), np.eye(4)[:3], 4)
    found = gnomon.recall(truth, table, 4)
    assert found.coverage.repeated.tolist() == [1, 0, 2]
    assert found.coverage.missing.tolist() == [1, 2, 0]
    assert found.coverage.out_of_range.tolist() == [1, 0, 1]
    said = " ".join(notes(found))
    for text in ("missing: 3 places in 2 queries", "repeated: 3", "out of range: 2"):
        assert text in said


def test_ids_of_any_size() -> None:
    far = 2**62
    truth = [[far + n, 5, 2**40] for n in range(9)]
    answers = [[2**63 - 1, far + n, -(2**63)] for n in range(9)]
    scores = [[3.0, 2.0, 1.0]] * 9
    assert gnomon.recall(truth, answers, 2, truth_scores=scores).mean == 0.5


def test_queries_that_are_rows_of_the_base_are_noticed() -> None:
    base = np.random.default_rng(2).standard_normal((30, 4)).astype(np.float32)
    for metric in ("cosine", "l2"):
        truth = gnomon.groundtruth(base, [*base[:3], base[3] + 1], 2, metric=metric)
        found = gnomon.recall(truth, truth.ids, 2)
        assert found.as_dict()["queries_at_distance_zero"] == 3
        assert any("3 queries have a neighbour at distance 0" in note for note in notes(found))


def test_the_first_k_places_count() -> None:
    """An index that is asked for k and wastes a place on a repeat has missed one."""
    found = gnomon.recall([[0, 1]], [[0, 0, 1]], 2, truth_scores=[[2.0, 1.0]])
    assert found.mean == 0.5


@pytest.mark.parametrize(
    ("arguments", "options", "why"),
    [
        (([[0]], [[0], [1]]), {}, "answers 2 queries, the truth 1"),
        (([[0]], [0]), {}, r"results must be a matrix \[Q, K\]"),
        (([[0]], [[0.5]]), {}, r"results must be a matrix \[Q, K\] of whole numbers"),
        (([[0, 1]], [[0]]), {"truth_scores": [[1.0, 2.0]]}, "must fall along every row"),
        (([[0, 1]], [[0]]), {"truth_scores": [[1.0]]}, r"truth_scores \[1, 1\] must fit"),
        (([[0, 0]], [[0]]), {}, "id 0 stands twice"),
        (([[0]], [[0]]), {"metric": "dot"}, "metric must be one of"),
        (([[0]], [[0]]), {"n_base": 0}, "n_base must be at least 1, got 0"),
        (([[0]], [[0]]), {"base": [[1.0]]}, "given together"),
        (([[0]], [[0]]), {"base": [[1.0]], "queries": [[1.0]]}, "metric must be given"),
        (
            ([[5]], [[0]]),
            {"base": [[1.0]], "queries": [[1.0]], "metric": "ip"},
            "the truth holds id 5, but the base has 1 rows",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    arguments: tuple[Any, Any], options: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        gnomon.recall(*arguments, 1, **options)


def test_metrics_that_contradict_are_refused() -> None:
    truth = gnomon.groundtruth(np.eye(2), np.eye(2), 1)
    with pytest.raises(ValueError, match="metric is 'ip', but truth was made with 'cosine'"):
        gnomon.recall(truth, [[0], [1]], 1, metric="ip")


# --------------------------------------------------------------------------------- distances, files


def test_distance_ratio() -> None:
    base = np.array([[0, 0], [1, 0], [2, 0], [4, 0]], np.float32)
    query = np.array([[0, 0]], np.float32)
    truth = gnomon.groundtruth(base, query, 3, metric="l2")

    def ratio(answer: list[int]) -> Any:
        found = gnomon.recall(truth, [answer], 3, base=base, queries=query)
        return found.as_dict()["distance_ratio"]["mean"]

    assert ratio([0, 1, 2]) == 1.0  # 0 / 0 counts as equal
    assert ratio([2, 1, 0]) == 1.0
    assert ratio([0, 1, 3]) == (1 + 1 + 2) / 3
    assert ratio([0, 1, -1]) == 1.0  # what is missing is not in a ratio; coverage tells
    assert ratio([1, 2, 3]) is None  # 1 / 0: infinite
    found = gnomon.recall(truth, [[-1, -1, -1]], 3, base=base, queries=query)
    assert found.as_dict()["distance_ratio"] == {"mean": None, "worst_query": None}


def test_distances_are_those_of_the_metric() -> None:
    assert as_distances(np.array([0.9, 0.5, 0.0]), "cosine").tolist() == [1 - 0.9, 0.5, 1.0]
    assert as_distances(np.array([-4.0, -0.0, 0.0]), "l2").tolist() == [2.0, 0.0, 0.0]
    assert as_distances(np.array([3.0]), "ip").tolist() == [-3.0]


@pytest.mark.parametrize("suffix", ["npz", "bin", "hdf5", "parquet", "ivecs", "ibin", "npy"])
def test_truth_and_results_from_files(suffix: str, tmp_path: Path) -> None:
    pytest.importorskip({"hdf5": "h5py", "parquet": "pyarrow"}.get(suffix, "numpy"))
    base = np.random.default_rng(3).standard_normal((60, 5)).astype(np.float32)
    truth = gnomon.groundtruth(base, base[:7], 10, out=tmp_path / f"truth.{suffix}")
    answers = truth.ids.copy()
    answers[:, 9] = -1
    write_neighbors(tmp_path / f"run.{suffix}", answers)
    write_vectors(tmp_path / "base.fbin", base)
    write_vectors(tmp_path / "queries.fbin", base[:7])
    files = tmp_path / f"truth.{suffix}", tmp_path / f"run.{suffix}"
    found = gnomon.recall(*files, 10, n_base=60)
    assert found.mean_of("strict-id") == 0.9
    assert math.isnan(found.mean) == (suffix in ("ivecs", "ibin", "npy"))
    vectors = {"base": tmp_path / "base.fbin", "queries": tmp_path / "queries.fbin"}
    known = gnomon.recall(*files, 10, metric="cosine", **vectors)
    assert known.mean == 0.9
    assert known.coverage.missing.tolist() == [1] * 7


def test_shared_runs_have_the_recall_that_was_worked_out(shared: Path) -> None:
    """Two definitions as they were worked out independently; ours is at most the second.

    The second counts every distinct row no farther than the k-th, so that a tie can stand in for a
    better row that is missing; the tie-aware one does not.
    """
    pytest.importorskip("h5py")
    ann = shared / "data" / "ann"
    if not ann.is_dir():
        pytest.skip(f"no ANN material at {ann}")
    said = json.loads((ann / "runs/recall.json").read_text("utf-8"))["recall"]
    assert len(said) == 10
    smaller = 0
    for copies in (False, True):
        names = [name for name in said if name.startswith("dup4") == copies]
        vectors = ann / ("ties/dup4.fbin" if copies else "medium/mixed-384-angular.hdf5")
        queries = ann / "ties/dup4_query.fbin" if copies else vectors
        truth = as_truth(ann / "ties/dup4_gt100.bin" if copies else vectors, metric="cosine")
        runs = {name: as_results(ann / f"runs/{name}.ibin", len(truth.ids)) for name in names}
        ks = [10] if copies else [1, 10, 100]
        for found in recall_many(truth, runs, ks, (vectors, queries)):
            strict, threshold = said[found.name][str(found.k)]
            places = len(truth.ids) * found.k
            hits = {key: round(found.mean_of(key) * places) for key in found.others}
            assert hits["strict-id"] == round(strict * places), (found.name, found.k)
            assert hits["distance-threshold"] == round(threshold * places), (found.name, found.k)
            ours = round(found.mean * places)
            assert found.mean == found.mean_upper
            assert hits["strict-id"] <= ours <= hits["distance-threshold"]
            smaller += ours < hits["distance-threshold"]
            assert found.beat_truth == 0
    assert smaller >= 5


def test_an_id_beyond_the_base_in_a_run(shared: Path) -> None:
    path = shared / "data/ann/runs/id_out_of_range.ibin"
    if not path.is_file():
        pytest.skip(f"no run at {path}")
    ids = read_neighbors(path, role="result").ids
    with pytest.raises(FormatError, match="row 0, byte 8: id 1000000, but the base has 3116 rows"):
        read_neighbors(path, n_base=3116)
    assert (ids == 1_000_000).sum() == 300


# ------------------------------------------------------------------------------------------ figures


def test_bootstrap_is_repeatable_and_covers() -> None:
    values = np.random.default_rng(0).random(500)
    assert bootstrap(values) == bootstrap(values)
    assert bootstrap(values, seed=1) != bootstrap(values)
    inside = 0
    for seed in range(100):
        sample = np.random.default_rng(seed).random(100)
        low, high = bootstrap(sample, resamples=500)
        inside += low <= 0.5 <= high
    assert 86 <= inside <= 100  # 95, and four standard deviations below
    assert bootstrap(np.ones(5)) == Interval(1.0, 1.0)
    assert all(map(math.isnan, bootstrap(np.array([]))))


def test_wilson_is_the_published_interval() -> None:
    # Newcombe 1998, Table I, method 3.
    for successes, n, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605)):
        found = wilson(successes, n)
        assert (round(found.low, 4), round(found.high, 4)) == (low, high)
    assert wilson(0, 20) == Interval(0.0, wilson(0, 20).high)
    assert round(wilson(0, 20).high, 4) == 0.1611
    assert wilson(20, 20).high == 1.0


def test_a_difference_is_significant_or_not() -> None:
    rng = np.random.default_rng(0)
    first = rng.random(200)
    assert paired(first, first + 0.01).significant
    assert not paired(first, first + rng.normal(0, 0.1, 200) * 0.01).significant
    with pytest.raises(ValueError, match="200 and 3 queries"):
        paired(first, first[:3])
    assert mean(first) == math.fsum(first.tolist()) / 200


def test_figures_are_plain_and_complete() -> None:
    rng = np.random.default_rng(1)
    base = rng.standard_normal((200, 6)).astype(np.float32)
    truth = gnomon.groundtruth(base, base[:50], 20)
    noisy = truth.ids.copy()
    noisy[::2, 5] = 199
    runs = [
        gnomon.recall(truth, ids, 10, name=name, base=base, queries=base[:50])
        for name, ids in (("exact", truth.ids), ("noisy", noisy))
    ]
    said = json.loads(json.dumps([run.as_dict() for run in runs]))
    assert said[0]["recall"] == 1.0
    assert said[0]["perfect_interval95"][0] < 1.0
    assert 0.9 < said[1]["recall"] < 1.0
    assert said[1]["interval95"][0] <= said[1]["recall"] <= said[1]["interval95"][1]
    assert len(comparisons(runs)) == 1
    assert comparisons(runs)[0].startswith("recall@10: noisy - exact = -0.0")
    assert comparisons(runs)[0].endswith(", significant")
    lines = as_csv(runs).splitlines()
    assert lines[0].split(",") == [*COLUMNS, *SPEED_COLUMNS]
    assert [len(line.split(",")) for line in lines] == [len(COLUMNS) + len(SPEED_COLUMNS)] * 3
    assert runs[1].worst(3) == sorted(runs[1].worst(3), key=lambda pair: pair[1])
