"""Other libraries at the job that tests/device_check.py times: the k best inner products, float32.

Each entry makes a search of rows (a torch tensor on the GPU) and returns a function from queries
and k to row numbers. What is not installed, or does not run here, is told with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Search = Callable[[Any, int], Any]
_PART = 256  # queries at once, where scores of all rows are written out


def torch(rows: Any) -> Search:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False

    def search(queries: Any, k: int) -> Any:
        parts = [(queries[i : i + _PART] @ rows.T).topk(k) for i in range(0, len(queries), _PART)]
        return torch.cat([part.indices for part in parts])

    return search


def cupy(rows: Any) -> Search:
    import cupy

    own = cupy.from_dlpack(rows)

    def search(queries: Any, k: int) -> Any:
        found = []
        wanted = cupy.from_dlpack(queries)
        for first in range(0, len(wanted), _PART):
            scores = wanted[first : first + _PART] @ own.T
            best = cupy.argpartition(-scores, k - 1, axis=1)[:, :k]
            order = cupy.argsort(-cupy.take_along_axis(scores, best, axis=1), axis=1)
            found.append(cupy.take_along_axis(best, order, axis=1))
        return cupy.concatenate(found)

    return search


def faiss_gpu(rows: Any) -> Search:
    import faiss
    import faiss.contrib.torch_utils

    index = faiss.GpuIndexFlatIP(faiss.StandardGpuResources(), rows.shape[1])
    index.add(rows)
    return lambda queries, k: index.search(queries, k)[1]


def cuvs(rows: Any) -> Search:
    from cuvs.neighbors import brute_force

    index = brute_force.build(rows, metric="inner_product")
    return lambda queries, k: brute_force.search(index, queries, k)[1]


def raft(rows: Any) -> Search:
    from pylibraft.neighbors import brute_force

    return lambda queries, k: brute_force.knn(rows, queries, k, metric="inner_product")[1]


RIVALS = (torch, cupy, faiss_gpu, cuvs, raft)


def present(rows: Any) -> tuple[dict[str, Search], dict[str, str]]:
    """The rivals that answer a first question over these rows, and why the others do not."""
    found, absent = {}, {}
    for make in RIVALS:
        try:
            search = make(rows)
            search(rows[:2], 3)
        except Exception as error:  # whatever another library may raise
            absent[make.__name__] = f"{type(error).__name__}: {error}"[:200]
        else:
            found[make.__name__] = search
    return found, absent
