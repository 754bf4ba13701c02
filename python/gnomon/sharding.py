"""One search over several processes or devices: answers of shards, made one.

The ranking is total (score, then row), so the merged answer is that of the whole index, bit for
bit, however the shards were cut or in which order they finish. Recipes; ``index`` is a
:class:`gnomon.DenseIndex` and ``queries`` a batch.

Threads, one GPU each::

    shards = [index.shard(i, 4) for i in range(4)]
    with ThreadPoolExecutor() as pool:
        parts = pool.map(lambda i: shards[i].search(queries, k, device=f"cuda:{i}"), range(4))
    hits = gnomon.merge_topk(list(parts), k)

Ray: an actor holds a shard, so that it stays on its GPU between searches::

    @ray.remote(num_gpus=1)
    class Shard:
        def __init__(self, path, i, n):
            self.index = gnomon.DenseIndex.load(path).shard(i, n)
        def search(self, queries, k):
            return self.index.search(queries, k, device="cuda")

    shards = [Shard.remote(path, i, n) for i in range(n)]
    parts = ray.get([shard.search.remote(queries, k) for shard in shards])
    hits = gnomon.merge_topk(parts, k)

Dask: the same with ``client.submit(Shard, path, i, n, actor=True)``, and
``[future.result() for future in futures]`` in the place of ``ray.get``.

torch.distributed: each rank searches its part, and all gather all answers::

    rank, n = dist.get_rank(), dist.get_world_size()
    own = index.shard(rank, n).search(queries, k, device=f"cuda:{rank}")
    parts = [None] * n
    dist.all_gather_object(parts, own)
    hits = gnomon.merge_topk(parts, k)

BM25 scores depend on the whole index, so its parts are filters over it, not indexes: each worker
calls ``search`` with a ``filter`` mask of its range of documents.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .arrays import as_count
from .results import Hits


def merge_topk(parts: Sequence[Hits], k: int) -> Hits:
    """The best k of the hits of shards, for one query or a batch.

    Parameters
    ----------
    parts
        Hits of each shard, in the order of the shards: equal scores go to the earlier one. All of
        one query, or all of the same batch (``scores`` [Q, k']). No id may be in two of them.
    k
        How many; fewer where the shards have fewer.

    Returns
    -------
    Hits
        As a search of the whole index gives them.

    Raises
    ------
    ValueError
        No part at all, parts of different batches, k < 0.

    Examples
    --------
    >>> import numpy as np
    >>> import gnomon
    >>> index = gnomon.DenseIndex.build(np.eye(4, dtype=np.float32)[[0, 1, 0, 2]])
    >>> parts = [index.shard(i, 2).search([1.0, 0.0, 0.0, 0.0], k=2) for i in range(2)]
    >>> gnomon.merge_topk(parts, k=2).ids
    array([0, 2])
    """
    best = as_count(k, "k")
    if len(parts) == 0:
        raise ValueError("parts holds no hits; pass those of one shard at least")
    leading = {part.scores.shape[:-1] for part in parts}
    if len(leading) > 1:
        raise ValueError(f"parts are of different batches: scores [..., k'] of {sorted(leading)}")
    if parts[0].scores.ndim == 1:
        return _merged(parts, best)
    rows = [
        _merged([Hits(part.ids[q], part.scores[q]) for part in parts], best)
        for q in range(parts[0].scores.shape[0])
    ]
    if not rows:
        return Hits(parts[0].ids[:0], parts[0].scores[:0])
    scores = np.stack([row.scores for row in rows])
    if isinstance(rows[0].ids, list):
        return Hits([row.ids for row in rows], scores)
    return Hits(np.stack([row.ids for row in rows]), scores)


def _merged(parts: Sequence[Hits], k: int) -> Hits:
    scores = np.concatenate([part.scores for part in parts])
    # Stable: equal scores stay in the order of shards, and of rows within one.
    order = np.argsort(-scores, kind="stable")[:k]
    if isinstance(parts[0].ids, list):
        ids = [value for part in parts for value in part.ids]
        return Hits([ids[place] for place in order.tolist()], scores[order])
    return Hits(np.concatenate([part.ids for part in parts])[order], scores[order])
