"""gnomon.compat.sklearn against its written contract, and the float64 search behind it."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from gnomon.compat import sklearn as ours
from gnomon.compat._exact64 import Exact64
from gnomon.reference.dense import cosine, l2
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.estimator_checks import check_estimator

# Neighbours in float64 that float32 cannot tell apart.
CLOSE = st.sampled_from([1.0, 1.0 + 1e-9, 1.0 - 1e-9, 1e-9, -1.0, 0.0, 1e-300, 1e300, 3e5 + 1e-4])
COORDINATE = st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0, 3.0])


@st.composite
def matrices(draw: Any, of: Any = COORDINATE, most: int = 12) -> Any:
    n, d = draw(st.integers(2, most)), draw(st.integers(1, 3))
    rows = st.lists(of, min_size=d, max_size=d)
    return np.array(draw(st.lists(rows, min_size=n, max_size=n)))


def score64(query: Any, row: Any, metric: str) -> float:
    """Of fewer than nine coordinates, whose sums have one order in floats as well."""
    if metric == "l2":
        return 0.0 - float(
            sum_of_lanes([(b - a) * (b - a) for a, b in zip(query, row, strict=True)])
        )
    q, x = unit(query), unit(row)
    squares = sum_of_lanes(q * q) * sum_of_lanes(x * x)
    if squares == 0.0:
        return 0.0
    return float(np.clip(sum_of_lanes(x * q) / np.sqrt(squares), -1.0, 1.0))


def sum_of_lanes(products: Any) -> Any:
    lanes = [*products, *[0.0] * (8 - len(products))]
    pairs = [lanes[i] + lanes[i + 4] for i in range(4)]
    return (pairs[0] + pairs[2]) + (pairs[1] + pairs[3])


def unit(row: Any) -> Any:
    return np.ldexp(row, -np.frexp(np.abs(row).max())[1])


@given(
    rows=matrices(CLOSE, 40),
    metric=st.sampled_from(["cosine", "l2"]),
    k=st.integers(1, 30),
    small=st.booleans(),
    screened=st.booleans(),
)
@example(rows=np.ones((40, 1)), metric="l2", k=3, small=False, screened=True)
@settings(max_examples=150)
def test_float64_is_exact(rows: Any, metric: str, k: int, small: bool, screened: bool) -> None:
    if metric == "l2":
        rows = np.clip(rows, -1e9, 1e9)
    if small:
        rows = rows * 1e-150
    k = min(k, len(rows))
    engine = Exact64(rows, metric, screened)
    ids, scores = engine.top(rows[:4], k)
    for q in range(min(4, len(rows))):
        wanted = [score64(rows[q], row, metric) for row in rows]
        order = sorted(range(len(rows)), key=lambda i: (-wanted[i], i))[:k]
        assert ids[q].tolist() == order
        assert scores[q].tolist() == [wanted[i] for i in order]
        least = wanted[order[-1]]
        within = engine.within(rows[q : q + 1], least)[0]
        assert within[0].tolist() == [i for i in range(len(rows)) if wanted[i] >= least]


def test_float64_tells_apart_what_float32_cannot() -> None:
    """Positions a tenth of a millimetre apart, in metres from the pole."""
    rng = np.random.default_rng(5)
    rows = np.array([6.3e6, 1.2e6]) + rng.integers(0, 50, (300, 2)) * 1e-4
    near, ids = ours.ExactNearestNeighbors(algorithm="brute").fit(rows).kneighbors(rows[:20], 5)
    exact = [
        [sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(q, x, strict=True)) for x in rows]
        for q in rows[:20]
    ]
    for q in range(20):
        order = sorted(range(300), key=lambda i: (exact[q][i], i))[:5]
        assert [exact[q][i] for i in ids[q]] == [exact[q][i] for i in order]
    assert near[:, 0].tolist() == [0.0] * 20


@given(
    rows=matrices(),
    metric=st.sampled_from(["cosine", "euclidean", "sqeuclidean"]),
    dtype=st.sampled_from([np.float32, np.float64, np.float16]),
    own=st.booleans(),
    data=st.data(),
)
@settings(max_examples=120)
def test_neighbours(rows: Any, metric: str, dtype: Any, own: bool, data: Any) -> None:
    rows = rows.astype(dtype)
    k = data.draw(st.integers(1, len(rows) - own))
    fitted = ours.ExactNearestNeighbors(metric=metric, algorithm="brute").fit(rows)
    near, ids = fitted.kneighbors(None if own else rows, k)
    radius = data.draw(st.sampled_from([0.0, 0.5, 1.0, 2.0]))
    within, found = fitted.radius_neighbors(None if own else rows, radius, sort_results=True)
    kind = np.float32 if (dtype, metric) == (np.float32, "cosine") else np.float64
    assert (near.dtype, ids.dtype) == (kind, np.int64)
    for q, query in enumerate(rows.tolist()):
        score = cosine if metric == "cosine" else l2
        scores = [score(query, row) for row in rows.tolist()]
        all_near = [(metric == "cosine") - value for value in scores]
        if metric == "euclidean":
            all_near = [value**0.5 for value in all_near]
        others = [i for i in range(len(rows)) if not (own and i == q)]
        order = sorted(others, key=lambda i: (-scores[i], i))
        assert ids[q].tolist() == order[:k]
        assert near[q].tolist() == [kind(all_near[i]) for i in order[:k]]
        inside = [i for i in others if kind(all_near[i]) <= radius]
        inside.sort(key=lambda i: (kind(all_near[i]), i))
        assert found[q].tolist() == inside
        assert within[q].tolist() == [kind(all_near[i]) for i in inside]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_against_scikit_learn(dtype: Any, metric: str) -> None:
    rows = np.random.default_rng(6).normal(size=(300, 20)).astype(dtype)
    theirs = NearestNeighbors(metric=metric, algorithm="brute").fit(rows)
    mine = ours.ExactNearestNeighbors(metric=metric, algorithm="brute").fit(rows)
    tolerance = 2e-6 if dtype == np.float32 else 1e-14
    for X in (None, rows[:40]):
        (D, I), (E, J) = theirs.kneighbors(X), mine.kneighbors(X)  # noqa: E741
        assert I.tolist() == J.tolist()
        assert E.dtype == D.dtype
        assert np.abs(D - E)[:, X is not None :].max() < tolerance  # theirs is not 0 to itself
        for mode in ("connectivity", "distance"):
            one, other = (fitted.kneighbors_graph(X, mode=mode) for fitted in (theirs, mine))
            assert one.indices.tolist() == other.indices.tolist()
            assert one.dtype == other.dtype
    r = float(np.median(mine.kneighbors(rows)[0][:, -1]))
    for one, other in zip(
        theirs.radius_neighbors(rows, r)[1], mine.radius_neighbors(rows, r)[1], strict=True
    ):
        assert sorted(one.tolist()) == other.tolist()


def test_a_zero_row_and_what_is_not_finite() -> None:
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    fitted = ours.ExactNearestNeighbors(n_neighbors=3, metric="cosine").fit(rows)
    assert fitted.kneighbors(rows[:2])[0].tolist() == [[1.0, 1.0, 1.0], [0.0, 1.0, 2.0]]
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="contains"):
            fitted.kneighbors([[bad, 0.0]])
        with pytest.raises(ValueError, match="contains"):
            ours.ExactNearestNeighbors(metric="cosine").fit([[bad, 0.0]])


def test_errors_are_those_of_scikit_learn() -> None:
    rows = np.eye(3)
    pair = [c(metric="cosine").fit(rows) for c in (NearestNeighbors, ours.ExactNearestNeighbors)]
    for X, k in ((rows, 4), (rows, 0), (rows, 1.5), (None, 3), (rows[0], 1), (np.eye(2), 1)):
        texts = []
        for fitted in pair:
            with pytest.raises((ValueError, TypeError)) as caught:
                fitted.kneighbors(X, k)
            texts.append((type(caught.value), str(caught.value).replace("Exact", "")))
        assert texts[0] == texts[1]


def test_what_scikit_learn_searches() -> None:
    scipy_sparse = pytest.importorskip("scipy.sparse")
    rows = np.random.default_rng(7).normal(size=(60, 20))
    sparse = scipy_sparse.csr_array(rows)
    for X in (rows, sparse):
        for fit in (rows, sparse):
            mine, theirs = (
                c(metric="cosine").fit(fit).kneighbors(X)[1]
                for c in (ours.ExactNearestNeighbors, NearestNeighbors)
            )
            assert mine.tolist() == theirs.tolist()
    for metric in ("manhattan", lambda a, b: float(np.abs(a - b).max())):
        with pytest.warns(UserWarning, match="scikit-learn itself searches"):
            mine = ours.ExactNearestNeighbors(metric=metric).fit(rows)
        theirs = NearestNeighbors(metric=metric).fit(rows)
        assert mine.kneighbors(rows)[1].tolist() == theirs.kneighbors(rows)[1].tolist()


def test_graphs_and_recipes() -> None:
    from sklearn.cluster import DBSCAN
    from sklearn.manifold import TSNE
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(8)
    rows = np.concatenate([rng.normal(size=(20, 6)) + 9, rng.normal(size=(20, 6)) - 9])
    rows = rows.astype(np.float32)
    ids, near = ours.precomputed_knn(rows[[0, 0, 1]], 3)
    assert ids[:, 0].tolist() == [0, 1, 2]
    assert near[:, 0].tolist() == [0.0, 0.0, 0.0]
    graph = ours.kneighbors_graph(rows, 3, mode="distance", metric="cosine")
    assert graph.shape == (40, 40)
    assert graph.nnz == 120
    assert ours.kneighbors_graph(rows, 3, include_self=True).diagonal().all()
    within = ours.RadiusNeighborsTransformer(radius=0.1, metric="cosine").fit_transform(rows)
    labels = DBSCAN(eps=0.1, min_samples=3, metric="precomputed").fit_predict(within)
    assert set(labels[:20]) == {0}
    assert set(labels[20:]) == {1}
    pipeline = make_pipeline(
        ours.KNeighborsTransformer(n_neighbors=19, metric="cosine", mode="distance"),
        TSNE(metric="precomputed", init="random", perplexity=5, max_iter=250, random_state=0),
    )
    assert pipeline.fit_transform(rows).shape == (40, 2)


def test_umap_takes_the_neighbours() -> None:
    umap = pytest.importorskip("umap", reason="umap-learn is not installed")
    rows = np.random.default_rng(9).normal(size=(60, 8)).astype(np.float32)
    knn = ours.precomputed_knn(rows, 10)
    placed = umap.UMAP(n_neighbors=10, precomputed_knn=knn, random_state=0).fit_transform(rows)
    assert placed.shape == (60, 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pickles_threads_and_processes(dtype: Any) -> None:
    joblib = pytest.importorskip("joblib")
    rows = np.random.default_rng(10).normal(size=(200, 16)).astype(dtype)
    fitted = ours.ExactNearestNeighbors(metric="cosine").fit(rows)
    expected = fitted.kneighbors(rows)[1].tolist()
    again = pickle.loads(pickle.dumps(fitted))
    assert again.kneighbors(rows)[1].tolist() == expected
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda _: fitted.kneighbors(rows)[1].tolist(), range(8))
        assert all(ids == expected for ids in found)
    delayed = joblib.delayed(fitted.kneighbors)
    for backend in ("threading", "loky"):
        parts = joblib.Parallel(2, backend=backend)(delayed(rows[i : i + 100]) for i in (0, 100))
        assert np.concatenate([ids for _, ids in parts]).tolist() == expected
    if "fork" in multiprocessing.get_all_start_methods():
        with multiprocessing.get_context("fork").Pool(1) as processes:
            assert processes.apply(fitted.kneighbors, (rows,))[1].tolist() == expected


def test_the_estimator_check() -> None:
    estimator = ours.ExactNearestNeighbors(metric="cosine", algorithm="brute")
    results = check_estimator(estimator, on_skip=None)
    assert sum(result["status"] == "passed" for result in results) >= 40


def test_no_jobs_are_refused() -> None:
    for dtype in (np.float32, np.float64):
        rows = np.eye(9, dtype=dtype)
        fitted = ours.ExactNearestNeighbors(metric="cosine", n_jobs=0).fit(rows)
        for search in (fitted.kneighbors, fitted.radius_neighbors):
            with pytest.raises(ValueError, match="n_jobs == 0"):
                search(rows)
