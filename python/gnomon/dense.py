"""Exact dense top-k: cosine, inner product and squared Euclidean distance."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from . import _core
from .arrays import as_count, as_float32, as_threads, is_tensor
from .results import Hits, Ids
from .storage import Directory, DirectoryWriter


class TopK(NamedTuple):
    """Scores and row numbers, best first, as arrays of the caller's kind.

    >>> import numpy as np
    >>> values, indices = cosine_topk(np.array([1, 0]), np.array([[0, 1], [3, 0]]), k=1)
    >>> values.tolist(), indices.tolist()
    ([1.0], [1])
    """

    values: Any
    indices: Any


def cosine_topk(
    query: Any,
    documents: Any,
    k: int,
    *,
    on_zero: str = "zero",
    dtype: Any = None,
    threads: int | None = None,
    level: str | None = None,
) -> TopK:
    """The k rows of ``documents`` with the greatest cosine to the query, exactly.

    Inputs are taken as float32 (float16 and bfloat16 widen exactly, float64 rounds to nearest);
    then every score is ``dot / sqrt(|q|^2 * |x|^2)`` in one written order of float64 operations
    (``gnomon.reference.dense``), clipped to [-1, 1]. The ranking uses that float64 value: higher
    first, ties to the lower row. A zero vector has similarity 0, never NaN.

    Parameters
    ----------
    query
        [D], or [Q, D] for a batch: numpy array, torch tensor (on any device), or nested lists.
    documents
        [N, D], likewise.
    k
        How many rows; more than N gives N, 0 gives none.
    on_zero
        ``"zero"`` scores zero vectors 0; ``"error"`` refuses them.
    dtype
        Of the values: ``"float64"`` (numpy's default here) or ``"float32"`` (torch's default here,
        the float64 score rounded once).
    threads, level
        How to compute; the answer does not depend on them.

    Returns
    -------
    TopK
        ``values`` and int64 ``indices``, [k'] or [Q, k'] with k' = min(k, N); torch tensors on the
        documents' device if an input was a tensor, else numpy arrays. CUDA tensors are copied to
        the host and the result back.

    Raises
    ------
    ValueError
        Shapes that do not fit, k < 0, NaN or infinity (naming the row), zero vectors with
        ``on_zero="error"`` (naming the row), another `dtype`, an unknown `level`.
    TypeError
        Arguments that are not real numbers, or k that is not a whole number.

    Examples
    --------
    >>> import numpy as np
    >>> import gnomon
    >>> found = gnomon.cosine_topk(np.array([1.0, 0.0]), np.array([[0.0, 2.0], [3.0, 0.0]]), k=1)
    >>> found.values, found.indices
    (array([1.]), array([1]))
    """
    tensor = next((value for value in (documents, query) if is_tensor(value)), None)
    kind = _value_dtype(dtype, "float64" if tensor is None else "float32")
    rows = as_float32(documents, "documents")
    wanted = as_float32(query, "query")
    if wanted.ndim not in (1, 2) or rows.ndim != 2 or wanted.shape[-1] != rows.shape[1]:
        raise ValueError(
            "incompatible embedding shapes: query must be [D] or [Q, D] and documents [N, D], "
            f"got {list(wanted.shape)} and {list(rows.shape)}"
        )
    best = min(as_count(k, "k"), rows.shape[0])
    positions, scores = _core.dense_top_k(
        rows, np.atleast_2d(wanted), "cosine", best, on_zero, as_threads(threads), level or ""
    )
    values = scores.astype(kind, copy=False)
    if wanted.ndim == 1:
        values, positions = values[0], positions[0]
    if tensor is None:
        return TopK(values, positions)
    torch = sys.modules["torch"]
    return TopK(
        torch.from_numpy(values).to(tensor.device), torch.from_numpy(positions).to(tensor.device)
    )


def _value_dtype(dtype: Any, default: str) -> np.dtype[Any]:
    """The dtype of the values, from a name or from a dtype of numpy or torch."""
    if dtype is None:
        return np.dtype(default)
    text = str(dtype)
    with suppress(TypeError):  # numpy knows no such type: torch.bfloat16, a misspelt name
        kind = np.dtype(text.removeprefix("torch.") if text.startswith("torch.") else dtype)
        if kind in (np.dtype(np.float32), np.dtype(np.float64)):
            return kind
    raise ValueError(f"dtype must be float32 or float64, got {dtype}")


def _is_ours(rows: np.ndarray[Any, Any], vectors: Any) -> bool:
    """Whether conversion made `rows` anew: only then can nobody go on writing to them.

    Of tensors and of what has ``__array__`` it cannot be known.
    """
    if isinstance(vectors, np.ndarray):
        return not np.may_share_memory(rows, vectors)
    return isinstance(vectors, (list, tuple))


class DenseIndex:
    """Vectors ready for exact search; build once, save, load by memory map.

    Make one with :meth:`build` or :meth:`load`. Searches are safe from several threads at once.

    Examples
    --------
    >>> import numpy as np
    >>> import gnomon
    >>> index = gnomon.DenseIndex.build(np.eye(3, dtype=np.float32), ids=["x", "y", "z"])
    >>> hits = index.search([0.0, 1.0, 0.0], k=1)
    >>> hits.ids, hits.scores
    (['y'], array([1.]))
    """

    def __init__(self, core: _core.DenseIndex, ids: Ids):
        self._core = core
        self._ids = ids

    @classmethod
    def build(
        cls,
        vectors: Any,
        ids: Iterable[Any] | None = None,
        metric: str = "cosine",
        *,
        on_zero: str = "zero",
        screen: str = "auto",
        threads: int | None = None,
    ) -> DenseIndex:
        """An index over [N, D] real numbers, taken as float32 (see :func:`cosine_topk`).

        Parameters
        ----------
        vectors
            [N, D] numpy array, torch tensor or nested lists. The index keeps a float32 copy.
        ids
            N unique str or N unique int; positions 0..N-1 when not given.
        metric
            ``"cosine"``, ``"ip"`` (inner product) or ``"l2"``: the negative squared Euclidean
            distance, so that a higher score is better with every metric.
        on_zero
            ``"error"`` refuses zero vectors under cosine, naming the row; ``"zero"`` scores them 0.
        screen
            ``"auto"`` adds an int8 screen where it pays (a quarter of the vectors' memory);
            ``"int8"`` insists, ``"none"`` does without. The answers do not depend on it.
        threads
            For the pass over the vectors.

        Raises
        ------
        ValueError
            Wrong shape, NaN or infinity (naming the row), ids that repeat or do not fit.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.DenseIndex.build([[1.0, 2.0], [3.0, 4.0]], metric="l2")
        >>> index.search([1.0, 2.0], k=2).scores
        array([ 0., -8.])
        """
        rows = as_float32(vectors, "vectors")
        if rows.ndim != 2:
            raise ValueError(f"vectors must be a matrix [N, D], got shape {list(rows.shape)}")
        table = Ids.of(ids, rows.shape[0])
        if not _is_ours(rows, vectors):
            rows = rows.copy()
        return cls(_core.DenseIndex(rows, metric, on_zero, screen, as_threads(threads)), table)

    def search(
        self,
        queries: Any,
        k: int = 10,
        *,
        on_zero: str = "zero",
        screen: str = "auto",
        stats: dict[str, int] | None = None,
        threads: int | None = None,
        level: str | None = None,
    ) -> Hits:
        """The k best rows for one query [D] or for each of a batch [Q, D].

        ``screen`` is ``"auto"``, ``"int8"`` or ``"none"`` and decides how, never what. A dict
        passed as ``stats`` is filled with what the search did, summed over the queries: rows
        ``screened`` in integers, ``candidates`` left, rows ``settled`` in float64, queries scanned
        ``plain``.
        Returns :class:`Hits`: ``scores`` float64 [k'] or [Q, k'] with k' = min(k, N), best first,
        ties to the row that was given first; ``ids`` of the same shape.
        Raises ValueError for shapes that do not fit, k < 0, or a query that is not finite.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.DenseIndex.build([[1.0, 0.0], [0.0, 1.0]])
        >>> index.search([[1.0, 0.0], [0.0, 5.0]], k=1).ids
        array([[0],
               [1]])
        """
        wanted = as_float32(queries, "queries")
        if wanted.ndim not in (1, 2) or wanted.shape[-1] != self.dim:
            raise ValueError(
                f"queries must be [D] or [Q, D] with D = {self.dim}, got shape {list(wanted.shape)}"
            )
        best = min(as_count(k, "k"), len(self))
        positions, scores, did = self._core.search(
            np.atleast_2d(wanted), best, on_zero, screen, as_threads(threads), level or ""
        )
        if stats is not None:
            stats.update(did)
        if wanted.ndim == 1:
            positions, scores = positions[0], scores[0]
        return Hits(self._ids.take(positions), scores)

    def __len__(self) -> int:
        """How many vectors the index holds."""
        return self._core.n_rows

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return self._core.dim

    @property
    def screen_bytes(self) -> int:
        """Memory of the int8 screen in bytes; 0 without one."""
        return self._core.screen_bytes

    @property
    def metric(self) -> str:
        """``"cosine"``, ``"ip"`` or ``"l2"``."""
        return self._core.metric

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the index to a directory, atomically: it is there completely, or as it was before.

        Raises FileExistsError when the path holds something that is not an index.

        Examples
        --------
        >>> import tempfile
        >>> import gnomon
        >>> folder = tempfile.mkdtemp() + "/vectors"
        >>> gnomon.DenseIndex.build([[1.0, 0.0], [0.0, 1.0]]).save(folder)
        >>> len(gnomon.DenseIndex.load(folder))
        2
        """
        with DirectoryWriter(path) as writer:
            core = _core.ContainerWriter(writer.file("dense", "vectors"))
            self._core.write(core)
            core.finish()
            if self._ids.kind != "position":
                self._ids.write(writer.file("dense", "ids"))
            writer.commit({"dense": {"ids": self._ids.kind}})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DenseIndex:
        """Opens a saved index by memory map.

        Raises FileNotFoundError, or :class:`gnomon.CorruptIndex` when what is there is not a whole
        dense index. Damage inside the vectors is found when they are first read.
        """
        directory = Directory.open(path)
        core = _core.DenseIndex.open(directory.container("dense", "vectors"))
        return cls(core, Ids.of_part(directory, "dense", core.n_rows))

    def verify(self) -> None:
        """Reads and checks everything. Raises :class:`gnomon.CorruptIndex` naming the damage."""
        self._core.verify()
        self._ids.verify()
