"""sentence-transformers' searches over gnomon's engine, for numpy arrays and torch tensors.

    from sentence_transformers.util import semantic_search          # before
    from gnomon.compat.sentence_transformers import semantic_search      # after

The interface is that of sentence-transformers 6.2; neither it nor torch need be installed.

What differs from sentence-transformers:

=========================  =================================  ==================================
matter                     sentence-transformers              here
=========================  =================================  ==================================
ties                       by torch and ``corpus_chunk_size`` score falling, then id rising;
                                                              pairs: then i, then j rising
scores                     float32, may exceed 1              the exact order's float64, in
                                                              [-1, 1] for cosine
float64 input              computed in float64                rounded to float32 first
NaN or infinity            rank 1 with score NaN              ValueError that names the row
a zero vector              cosine 0                           the same
vectors below 1e-12        cosine too small (a clamp)         their cosine
shapes that do not fit     RuntimeError                       ValueError
CUDA tensors               computed there                     copied to the host
chunk and batch sizes      change memory, and ties            an upper bound; never the answer
``score_function``         any                                ``cos_sim``, ``dot_score``; others
                                                              and sparse tensors go to the
                                                              original with a UserWarning
``threshold`` of           compared in float32                compared in float64
communities
``min_community_size=0``   IndexError                         ValueError
``mine_hard_negatives``    ``use_faiss=True``: faiss          gnomon, without faiss; ``import
                                                              faiss`` elsewhere in the process
                                                              gives gnomon's meanwhile
                           ``use_faiss=False``: torch         the same
``Information-             encodes and searches               encodes the corpus, then searches
RetrievalEvaluator``       ``corpus_chunk_size`` at a time    it once; the same order of ties
=========================  =================================  ==================================

``mine_hard_negatives`` and ``InformationRetrievalEvaluator`` derive from sentence-transformers' own
and need it installed.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..arrays import as_count, as_float32, is_tensor
from ._dense import top_rows

__all__ = [  # noqa: F822 - two come from __getattr__
    "InformationRetrievalEvaluator",
    "community_detection",
    "mine_hard_negatives",
    "paraphrase_mining_embeddings",
    "semantic_search",
]

_METRICS = {"cos_sim": "cosine", "dot_score": "ip"}
_CELLS = 1 << 25  # scores held at once by community_detection: 256 MiB


def semantic_search(
    query_embeddings: Any,
    corpus_embeddings: Any,
    query_chunk_size: int = 100,
    corpus_chunk_size: int = 500000,
    top_k: int = 10,
    score_function: Callable[[Any, Any], Any] | None = None,
) -> list[list[dict[str, int | float]]]:
    """The ``top_k`` rows of the corpus for each query, best first, as ``corpus_id`` and ``score``.

    Parameters
    ----------
    query_embeddings
        [D] or [Q, D]: numpy array, torch tensor, or a list of either or of numbers.
    corpus_embeddings
        [N, D], likewise. An empty one gives an empty list a query.
    query_chunk_size, corpus_chunk_size
        Accepted; the answer does not depend on them.
    top_k
        More than N gives N.
    score_function
        None or sentence-transformers' ``cos_sim``; its ``dot_score``; any other function is handed
        to sentence-transformers with a UserWarning.

    Raises
    ------
    ValueError
        Shapes that do not fit, NaN or infinity, top_k < 0.
    ImportError
        For another function (or a sparse tensor) without sentence-transformers.

    Examples
    --------
    >>> import numpy as np
    >>> from gnomon.compat.sentence_transformers import semantic_search
    >>> corpus = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]])
    >>> semantic_search(np.array([1.0, 0.0]), corpus, top_k=2)
    [[{'corpus_id': 0, 'score': 1.0}, {'corpus_id': 2, 'score': 1.0}]]
    """
    metric = _metric(score_function)
    if metric is None or _is_sparse(query_embeddings) or _is_sparse(corpus_embeddings):
        own = {} if score_function is None else {"score_function": score_function}
        answer: list[list[dict[str, int | float]]] = _original("semantic_search")(
            query_embeddings,
            corpus_embeddings,
            query_chunk_size=query_chunk_size,
            corpus_chunk_size=corpus_chunk_size,
            top_k=top_k,
            **own,
        )
        return answer
    queries = np.atleast_2d(_rows(query_embeddings, "query_embeddings"))
    corpus = _rows(corpus_embeddings, "corpus_embeddings")
    k = as_count(top_k, "top_k")
    if corpus.shape[0] == 0:
        return [[] for _ in queries]
    _require_matrix(corpus, "corpus_embeddings")
    if queries.shape[1] != corpus.shape[1]:
        raise ValueError(
            f"query_embeddings have {queries.shape[1]} dimensions, corpus_embeddings "
            f"{corpus.shape[1]}"
        )
    found, scores = _top(corpus, queries, metric, k)
    return [
        [{"corpus_id": i, "score": s} for i, s in zip(ids, values, strict=True)]
        for ids, values in zip(found.tolist(), scores.tolist(), strict=True)
    ]


def paraphrase_mining_embeddings(
    embeddings: Any,
    query_chunk_size: int = 5000,
    corpus_chunk_size: int = 100000,
    max_pairs: int = 500000,
    top_k: int = 100,
    score_function: Callable[[Any, Any], Any] | None = None,
) -> list[list[float | int]]:
    """The pairs ``[score, i, j]``, i < j, of rows and their ``top_k`` nearest others, best first.

    Arguments and errors as in :func:`semantic_search`; at most ``max_pairs`` come back.

    >>> import numpy as np
    >>> paraphrase_mining_embeddings(np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 0.0]]), max_pairs=1)
    [[1.0, 0, 2]]
    """
    metric = _metric(score_function)
    if metric is None or _is_sparse(embeddings):
        own = {} if score_function is None else {"score_function": score_function}
        answer: list[list[float | int]] = _original("paraphrase_mining_embeddings")(
            embeddings,
            query_chunk_size=query_chunk_size,
            corpus_chunk_size=corpus_chunk_size,
            max_pairs=max_pairs,
            top_k=top_k,
            **own,
        )
        return answer
    rows = _rows(embeddings, "embeddings")
    chunk = as_count(query_chunk_size, "query_chunk_size", 1)
    limit, k = as_count(max_pairs, "max_pairs"), as_count(top_k, "top_k")
    if rows.shape[0] == 0:
        return []
    _require_matrix(rows, "embeddings")
    n = rows.shape[0]
    keys, scores = np.zeros(0, np.int64), np.zeros(0)
    for start in range(0, n, chunk):
        found, values = _top(rows, rows[start : start + chunk], metric, k + 1)
        own_id = np.arange(start, start + len(found))[:, None]
        others = found != own_id
        if found.shape[1] == k + 1:  # where the row itself is not among them there is one too many
            others[:, -1] &= ~others.all(axis=1)
        low, high = np.minimum(found, own_id), np.maximum(found, own_id)
        more = (low * n + high)[others]
        keys, first = np.unique(np.concatenate([keys, more]), return_index=True)
        scores = np.concatenate([scores, values[others]])[first]
        best = np.lexsort((keys, -scores))[:limit]
        keys, scores = keys[best], scores[best]
    lows, highs = np.divmod(keys, n)
    return [
        [score, low, high]
        for score, low, high in zip(scores.tolist(), lows.tolist(), highs.tolist(), strict=True)
    ]


def community_detection(
    embeddings: Any,
    threshold: float = 0.75,
    min_community_size: int = 10,
    batch_size: int = 1024,
    show_progress_bar: bool = False,
) -> list[list[int]]:
    """Groups of rows whose cosine to a centre is at least ``threshold``, largest first.

    Each list starts with its centre, then its rows by cosine falling, then id rising. Larger groups
    choose first, among equals that of the lower centre; a row belongs to one group; a group that
    loses rows to others stays when ``min_community_size`` are left.
    Raises ValueError for NaN or infinity, or min_community_size < 1.

    >>> import numpy as np
    >>> rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1]])
    >>> community_detection(rows, threshold=0.9, min_community_size=2)
    [[0, 2]]
    """
    rows = np.atleast_2d(_rows(embeddings, "embeddings"))
    least = as_count(min_community_size, "min_community_size", 1)
    batch = as_count(batch_size, "batch_size", 1)
    n = rows.shape[0]
    if rows.size == 0 or n < least:
        return []
    groups: list[tuple[int, npt.NDArray[np.int64]]] = []
    batch = min(batch, max(1, _CELLS // n))
    for start in range(0, n, batch):
        cosines = _core.cosines(rows, rows[start : start + batch], 0, "")
        near = cosines >= threshold
        for row in np.flatnonzero(near.sum(axis=1) >= least).tolist():
            ids = np.flatnonzero(near[row])
            groups.append((start + row, ids[np.argsort(-cosines[row, ids], kind="stable")]))
    groups.sort(key=lambda group: len(group[1]), reverse=True)  # stable: the lower centre first
    used = np.zeros(n, bool)
    chosen: list[list[int]] = []
    for centre, ids in groups:
        left = ids[~used[ids]]
        if not used[centre] and len(left) >= least:
            chosen.append([centre, *left[left != centre].tolist()])
            used[chosen[-1]] = True
    return sorted(chosen, key=len, reverse=True)


def _metric(score_function: Any) -> str | None:
    """The engine's name for a scoring function; None for a function it does not know."""
    if score_function is None:
        return "cosine"
    module = getattr(score_function, "__module__", None) or ""
    if module.split(".")[0] != "sentence_transformers":
        return None
    return _METRICS.get(getattr(score_function, "__name__", ""))


def _is_sparse(value: Any) -> bool:
    return is_tensor(value) and value.layout != sys.modules["torch"].strided


def _original(name: str) -> Any:
    """The function of sentence-transformers itself, with a warning that it is used."""
    try:
        from sentence_transformers import util
    except ImportError:
        raise ImportError(
            f"{name} with this score_function (or a sparse tensor) is handed to "
            "sentence-transformers, which is not installed: pip install sentence-transformers"
        ) from None
    warnings.warn(
        f"{name}: gnomon knows cos_sim and dot_score of dense vectors; this call goes to "
        "sentence_transformers.util, with its order of ties",
        UserWarning,
        stacklevel=3,
    )
    return getattr(util, name)


def _rows(value: Any, name: str) -> npt.NDArray[np.float32]:
    """Float32 rows of an array, a tensor, or a list of them."""
    if isinstance(value, (list, tuple)) and value and is_tensor(value[0]):
        value = sys.modules["torch"].stack(list(value))
    return as_float32(value, name)


def _require_matrix(rows: npt.NDArray[np.float32], name: str) -> None:
    if rows.ndim != 2:
        raise ValueError(f"{name} must be a matrix [N, D], got shape {list(rows.shape)}")


def _top(
    corpus: npt.NDArray[np.float32], queries: npt.NDArray[np.float32], metric: str, k: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    return top_rows(corpus, queries, metric, k)


def __getattr__(name: str) -> Any:
    """What needs sentence-transformers is imported when it is asked for."""
    if name not in ("InformationRetrievalEvaluator", "mine_hard_negatives"):
        raise AttributeError(f"gnomon.compat.sentence_transformers has no {name!r}")
    try:
        training = importlib.import_module(f"{__package__}._st_training")
    except ImportError as error:
        raise ImportError(
            f"{name} derives from sentence-transformers' own, which is not installed (6.2 or "
            "later): pip install sentence-transformers"
        ) from error
    return getattr(training, name)
