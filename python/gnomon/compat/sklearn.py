"""scikit-learn's nearest neighbours over gnomon's engine.

    from sklearn.neighbors import NearestNeighbors                                     # before
    from gnomon.compat.sklearn import ExactNearestNeighbors as NearestNeighbors       # after

Needs scikit-learn (``pip install 'gnomon[sklearn]'``). The classes are scikit-learn's with another
search: every parameter, error, ``clone``, pipeline and pickle is theirs.

gnomon searches dense data by brute force under ``"cosine"`` and ``"euclidean"`` (also ``"l2"`` and
``"minkowski"`` with p = 2), ``"sqeuclidean"``; float32 rows as they are, all others exactly in
float64. With ``algorithm="auto"`` scikit-learn decides as always: it takes a tree for Euclidean
data of up to 15 dimensions, and brute force for the rest.

What differs from scikit-learn:

==========================  ===============================  =====================================
matter                      scikit-learn                     here
==========================  ===============================  =====================================
ties                        by NumPy's argpartition          by the float64 score behind the
                                                             distance, then id rising
distances                   float32 for cosines of float32,  the same dtypes; a float64 sum in one
                            else float64; the expansion of   written order, rounded once
                            squares cancels
distance to itself          about 1e-7 in float32            0 (a zero vector under cosine: 1)
neighbours of the fitted    with more duplicates than k the  never the row itself
data (``X=None``)           first is left out instead
``radius_neighbors``        unordered, or by NumPy's sort    by id, or distance, then id
float16 data                float64 distances                the same
NaN or infinity             ValueError                       the same
writing to ``X`` after      the next search sees it          undefined answers until the next
``fit``                                                      ``fit``: there are codes beside it
a tree, sparse data,        searched                         scikit-learn searches; with a
another metric, callables                                    UserWarning unless a tree was asked
                                                             for or sparse data given
``n_jobs``                  processes or threads             threads; None means all cores
memory of a search          chunks of a distance matrix      a quarter of float32 data more, an
                                                             eighth of float64
==========================  ===============================  =====================================

Recipes
-------
UMAP (rows and distances of each row's neighbours, itself first)::

    umap.UMAP(n_neighbors=15, precomputed_knn=precomputed_knn(X, 15)).fit_transform(X)

t-SNE (whose default perplexity of 30 asks for 91 neighbours), DBSCAN, SpectralClustering,
LocalOutlierFactor: a graph of neighbours in their place::

    make_pipeline(
        KNeighborsTransformer(n_neighbors=91, metric="cosine", mode="distance"),
        TSNE(metric="precomputed", init="random"),
    ).fit_transform(X)

HDBSCAN of scikit-learn takes the distances of all pairs; for a graph, use DBSCAN or ``hdbscan``,
whose graph must hang together: its parts are tied by the greatest distance (of cosine, 2)::

    graph = kneighbors_graph(X, 50, mode="distance", metric="cosine")
    graph = graph.maximum(graph.T).tolil()
    parts = scipy.sparse.csgraph.connected_components(graph)[1]
    first, *others = np.unique(parts, return_index=True)[1]
    graph[first, others] = graph[others, first] = 2.0
    hdbscan.HDBSCAN(metric="precomputed").fit(graph.tocsr())

Examples
--------
>>> from gnomon.compat.sklearn import ExactNearestNeighbors
>>> rows = [[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]
>>> nearest = ExactNearestNeighbors(n_neighbors=2, metric="cosine").fit(rows)
>>> nearest.kneighbors([[0.5, 0.0]])
(array([[0., 0.]]), array([[0, 2]]))
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..arrays import as_count
from ..dense_index import DenseIndex
from ._dense import index_of
from ._exact64 import Exact64

try:
    from scipy.sparse import issparse
    from sklearn.neighbors import KNeighborsTransformer as _KNeighborsTransformer
    from sklearn.neighbors import NearestNeighbors as _NearestNeighbors
    from sklearn.neighbors import RadiusNeighborsTransformer as _RadiusNeighborsTransformer
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        "gnomon.compat.sklearn needs scikit-learn 1.6 or later: pip install 'gnomon[sklearn]'"
    ) from error

__all__ = [
    "ExactNearestNeighbors",
    "KNeighborsTransformer",
    "RadiusNeighborsTransformer",
    "kneighbors_graph",
    "precomputed_knn",
    "radius_neighbors_graph",
]

_METRICS = {"cosine": "cosine", "euclidean": "l2", "l2": "l2", "sqeuclidean": "l2"}

Engine = DenseIndex | Exact64


class _Exact:
    """Neighbours by gnomon where it can, by the class behind in the order of resolution else."""

    _engine: Engine | None = None

    def _fit(self: Any, X: Any, y: Any = None) -> Any:
        super()._fit(X, y)  # type: ignore[misc]
        metric = _METRICS.get(self.effective_metric_) if _is_name(self.effective_metric_) else None
        rows = self._fit_X
        self._engine = None
        if self._fit_method == "brute" and metric and not issparse(rows) and rows.shape[1]:
            self._engine = _engine(rows, metric)
        elif metric is None and self.effective_metric_ != "precomputed":
            warnings.warn(
                f"metric={self.effective_metric_!r} is not gnomon's; scikit-learn itself searches",
                UserWarning,
                stacklevel=3,
            )
        return self

    def __getstate__(self: Any) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())  # type: ignore[misc]
        state["_engine"] = state.get("_engine") is not None  # its rows are in the state already
        return state

    def __setstate__(self: Any, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[misc]
        had = self._engine
        self._engine = _engine(self._fit_X, _METRICS[self.effective_metric_]) if had else None

    def _queries(self: Any, X: Any) -> Any:
        """The queries as scikit-learn checks them."""
        if X is None:
            return self._fit_X
        return validate_data(self, X, accept_sparse="csr", reset=False, order="C")

    def kneighbors(
        self: Any, X: Any = None, n_neighbors: Any = None, return_distance: bool = True
    ) -> Any:
        """Distances (unless ``return_distance=False``) and ids of the nearest rows, [Q, k]."""
        check_is_fitted(self)
        k = self.n_neighbors if n_neighbors is None else n_neighbors
        own = X is None
        fits = _is_whole(k) and 0 < k <= self.n_samples_fit_ - own
        queries = self._queries(X) if self._engine is not None and fits else None
        if queries is None or issparse(queries):
            return super().kneighbors(X, n_neighbors, return_distance)  # type: ignore[misc]
        ids, scores = self._top(queries, int(k) + own)
        if own:
            others = ids != np.arange(len(ids))[:, None]
            others[others.all(axis=1), -1] = False
            ids = ids[others].reshape(len(ids), int(k))
            scores = scores[others].reshape(len(ids), int(k))
        if not return_distance:
            return ids
        return self._distances(scores, queries), ids

    def _top(self: Any, queries: Any, k: int) -> tuple[Any, Any]:
        threads = _threads(self.n_jobs)
        if isinstance(self._engine, Exact64):
            return self._engine.top(queries, k, threads)
        if queries.dtype != np.float32:
            rows = self._fit_X.astype(np.float64)
            return Exact64(rows, self._engine.metric).top(queries, k, threads)
        hits = self._engine.search(queries, k, threads=threads)
        return hits.ids, hits.scores

    def _distances(self: Any, scores: Any, queries: Any) -> Any:
        if self.effective_metric_ == "cosine":
            values = 1.0 - scores
        else:
            values = 0.0 - scores
            if self.effective_metric_ != "sqeuclidean":
                values = np.sqrt(values)
            return values  # as scikit-learn's, for float32 data too
        single = queries.dtype == self._fit_X.dtype == np.float32
        return values.astype(np.float32 if single else np.float64)

    def radius_neighbors(
        self: Any,
        X: Any = None,
        radius: Any = None,
        return_distance: bool = True,
        sort_results: bool = False,
    ) -> Any:
        """Distances and ids of all rows within ``radius``: object arrays [Q] of arrays."""
        check_is_fitted(self)
        limit = self.radius if radius is None else radius
        queries = self._queries(X) if self._engine is not None and np.ndim(limit) == 0 else None
        if queries is None or issparse(queries) or (sort_results and not return_distance):
            return super().radius_neighbors(  # type: ignore[misc]
                X, radius, return_distance, sort_results
            )
        near = np.empty(len(queries), object)
        found = np.empty(len(queries), object)
        for place, (ids, scores) in enumerate(self._within(queries, float(limit))):
            values = self._distances(scores, queries)
            keep = values <= limit
            if X is None:
                keep &= ids != place
            ids, values = ids[keep], values[keep]
            if sort_results:
                order = np.argsort(values, kind="stable")
                ids, values = ids[order], values[order]
            near[place], found[place] = values, ids
        return (near, found) if return_distance else found

    def _within(self: Any, queries: Any, limit: float) -> list[tuple[Any, Any]]:
        """Ids, rising, and scores of all rows whose distance may be within the limit."""
        threads = _threads(self.n_jobs)
        wide = limit + 1e-6 * (abs(limit) + 1e-30)  # what rounds to the limit counts as well
        if self.effective_metric_ == "cosine":
            least = 1.0 - wide - 1e-7
        else:
            least = -wide if self.effective_metric_ == "sqeuclidean" else -wide * abs(wide)
        if isinstance(self._engine, Exact64):
            return self._engine.within(queries, least, threads)
        if queries.dtype != np.float32:
            rows = self._fit_X.astype(np.float64)
            return Exact64(rows, self._engine.metric).within(queries, least, threads)
        hits = self._engine.search(queries, None, min_score=least, threads=threads)
        orders = [np.argsort(hit.ids) for hit in hits]
        return [(h.ids[order], h.scores[order]) for h, order in zip(hits, orders, strict=True)]


class ExactNearestNeighbors(_Exact, _NearestNeighbors):
    """scikit-learn's ``NearestNeighbors``; see the head of this module.

    >>> ExactNearestNeighbors(radius=1.5).fit([[0.0], [1.0], [3.0]]).radius_neighbors([[0.0]])[1]
    array([array([0, 1])], dtype=object)
    """


class KNeighborsTransformer(_Exact, _KNeighborsTransformer):
    """scikit-learn's ``KNeighborsTransformer``: data to a sparse graph of neighbours.

    >>> rows = [[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]
    >>> KNeighborsTransformer(n_neighbors=1, metric="cosine").fit_transform(rows).toarray()
    array([[0., 0., 0.],
           [1., 0., 0.],
           [0., 0., 0.]])
    """


class RadiusNeighborsTransformer(_Exact, _RadiusNeighborsTransformer):
    """scikit-learn's ``RadiusNeighborsTransformer``.

    >>> RadiusNeighborsTransformer(radius=1.0).fit_transform([[0.0], [0.5]]).toarray()
    array([[0. , 0.5],
           [0.5, 0. ]])
    """


def kneighbors_graph(
    X: Any,
    n_neighbors: int,
    *,
    mode: str = "connectivity",
    metric: Any = "minkowski",
    p: float = 2,
    metric_params: Any = None,
    include_self: bool | str = False,
    n_jobs: int | None = None,
) -> Any:
    """The sparse graph [N, N] of the ``n_neighbors`` nearest of each row; scikit-learn's function.

    >>> kneighbors_graph([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]], 1, metric="cosine").toarray()
    array([[0., 0., 1.],
           [1., 0., 0.],
           [1., 0., 0.]])
    """
    fitted = _fitted(X, n_neighbors, 1.0, (metric, p, metric_params, n_jobs))
    itself = mode == "connectivity" if include_self == "auto" else include_self
    return fitted.kneighbors_graph(fitted._fit_X if itself else None, n_neighbors, mode)


def radius_neighbors_graph(
    X: Any,
    radius: float,
    *,
    mode: str = "connectivity",
    metric: Any = "minkowski",
    p: float = 2,
    metric_params: Any = None,
    include_self: bool | str = False,
    n_jobs: int | None = None,
) -> Any:
    """The sparse graph [N, N] of the rows within ``radius`` of each; scikit-learn's function.

    >>> radius_neighbors_graph([[0.0], [1.0], [3.0]], 1.5).toarray()
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 0., 0.]])
    """
    fitted = _fitted(X, 5, radius, (metric, p, metric_params, n_jobs))
    itself = mode == "connectivity" if include_self == "auto" else include_self
    return fitted.radius_neighbors_graph(fitted._fit_X if itself else None, radius, mode)


def precomputed_knn(
    X: Any, n_neighbors: int, metric: str = "cosine", *, n_jobs: int | None = None
) -> tuple[npt.NDArray[np.int64], Any]:
    """What UMAP takes as ``precomputed_knn``: ids and distances [N, n_neighbors], itself first.

    >>> ids, distances = precomputed_knn([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]], 2)
    >>> ids.tolist()
    [[0, 2], [1, 0], [2, 0]]
    """
    others = as_count(n_neighbors, "n_neighbors", 2) - 1
    fitted = ExactNearestNeighbors(algorithm="brute", metric=metric, n_jobs=n_jobs).fit(X)
    near, ids = fitted.kneighbors(n_neighbors=others)
    own = np.arange(len(ids))[:, None]
    return np.hstack([own, ids]), np.hstack([np.zeros((len(ids), 1), near.dtype), near])


def _fitted(X: Any, n_neighbors: int, radius: float, rest: tuple[Any, ...]) -> Any:
    if isinstance(X, _Exact):
        return X
    metric, p, params, n_jobs = rest
    return ExactNearestNeighbors(
        n_neighbors=n_neighbors,
        radius=radius,
        metric=metric,
        p=p,
        metric_params=params,
        n_jobs=n_jobs,
    ).fit(X)


def _engine(rows: Any, metric: str) -> Engine:
    if rows.dtype == np.float32:
        return index_of(rows, metric)
    return Exact64(np.ascontiguousarray(rows, np.float64), metric)


def _is_name(metric: Any) -> bool:
    return isinstance(metric, str)


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _threads(n_jobs: int | None) -> int | None:
    """``n_jobs`` of scikit-learn: -1 is all cores, -2 all but one."""
    if n_jobs is None:
        return None
    if n_jobs == 0:
        raise ValueError("n_jobs == 0 in Parallel has no meaning")
    return n_jobs if n_jobs > 0 else max(1, _core.thread_count(0) + 1 + n_jobs)
