"""The recipes in the head of gnomon.compat.sklearn, in the programs that they are for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from gnomon.compat import sklearn as ours
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import DBSCAN, KMeans
from sklearn.manifold import TSNE
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline

RNG = np.random.default_rng(0)
GROUP = np.repeat(np.arange(4), 60)
ROWS = (RNG.normal(size=(4, 12))[GROUP] + 0.1 * RNG.normal(size=(240, 12))).astype(np.float32)


def grouped(places: Any) -> float:
    """1 where the groups are apart in the plane."""
    found = KMeans(4, n_init=5, random_state=0).fit_predict(places)
    return float(adjusted_rand_score(GROUP, found))


def test_tsne_takes_the_graph() -> None:
    graph = ours.KNeighborsTransformer(n_neighbors=91, metric="cosine", mode="distance")
    tsne = TSNE(metric="precomputed", init="random", random_state=0, max_iter=300)
    places = make_pipeline(graph, tsne).fit_transform(ROWS)
    assert grouped(places) == 1.0


def test_dbscan_takes_the_graph() -> None:
    graph = ours.radius_neighbors_graph(ROWS, 0.1, mode="distance", metric="cosine")
    labels = DBSCAN(eps=0.1, metric="precomputed").fit_predict(graph)
    assert (labels == DBSCAN(eps=0.1, metric="cosine").fit_predict(ROWS)).all()
    assert adjusted_rand_score(GROUP, labels) == 1.0


@pytest.mark.filterwarnings("ignore")  # umap's own, of its random state and of tqdm
def test_umap_takes_the_neighbours() -> None:
    umap = pytest.importorskip("umap", reason="umap-learn is not installed")
    ids, distances = ours.precomputed_knn(ROWS, 15)
    theirs = umap.umap_.nearest_neighbors(ROWS, 15, "cosine", {}, False, np.random.RandomState(0))
    assert (theirs[0] == ids).mean() > 0.99  # exact too for so few rows, but for float32 ties
    assert np.abs(theirs[1] - distances).max() < 1e-5
    mapper = umap.UMAP(n_neighbors=15, precomputed_knn=(ids, distances), random_state=1)
    places = mapper.fit_transform(ROWS)
    assert places.shape == (240, 2)
    assert grouped(places) == 1.0


@pytest.mark.filterwarnings("ignore")  # hdbscan's own
def test_hdbscan_takes_the_graph() -> None:
    hdbscan = pytest.importorskip("hdbscan", reason="hdbscan is not installed")
    graph = ours.kneighbors_graph(ROWS, 50, mode="distance", metric="cosine")
    graph = graph.maximum(graph.T).tolil()
    parts = connected_components(graph)[1]
    first, *others = np.unique(parts, return_index=True)[1]
    assert others  # without the ties hdbscan refuses the graph
    graph[first, others] = graph[others, first] = 2.0
    labels = hdbscan.HDBSCAN(metric="precomputed").fit(graph.tocsr()).labels_
    assert adjusted_rand_score(GROUP, labels) > 0.95
