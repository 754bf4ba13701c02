"""The file of a ground truth: an npz archive with ids, float64 scores, ties and a JSON record.

The scores are the canonical float64 values, so near ties stay apart; other formats round them to
float32. The record says metric, sizes, arithmetic, and the digests of what it was computed from.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ._atomic import replacing
from .formats_arrays import ZIP_DAMAGE
from .formats_source import FormatError

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]

FORMAT, VERSION = "gnomon-groundtruth", 1
_DAMAGE: tuple[type[Exception], ...] = (*ZIP_DAMAGE, ValueError, KeyError)


@dataclass
class GroundTruth:
    """The exact k nearest rows of each query, and who else could have stood in the last place.

    ids
        int64 [Q, K], K = min(k, N): best first, ties to the lower row.
    scores
        float64 [Q, K], higher is better: cosine, inner product, negative squared distance.
    n_tied
        int64 [Q]: how many rows of the whole base have exactly the score of the last place.
    tied_offsets, tied_ids
        Row q's ties beyond the list: tied_ids[tied_offsets[q]:tied_offsets[q+1]], the lowest first;
        fewer than there are where a group exceeds ``ties_max``.
    meta
        Metric, sizes, digests.

    Examples
    --------
    >>> import gnomon
    >>> truth = gnomon.groundtruth([[1, 0], [2, 0], [0, 1]], [[1, 0]], k=1)
    >>> truth.ids.tolist(), truth.n_tied.tolist(), truth.tied_ids.tolist()
    ([[0]], [2], [1])
    """

    ids: Int64Array
    scores: Float64Array
    n_tied: Int64Array
    tied_offsets: Int64Array
    tied_ids: Int64Array
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def distances(self) -> Float64Array:
        """1 - cosine, Euclidean distance, or negative inner product: lower is nearer."""
        metric = self.meta["metric"]
        if metric == "cosine":
            return 1.0 - self.scores
        return np.sqrt(0.0 - self.scores) if metric == "l2" else 0.0 - self.scores

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it in one step: npz keeps everything, another suffix what its format holds."""
        from .formats_neighbors import FORMATS, write_neighbors

        kind = _suffix(path)
        if kind != "npz":
            if kind not in FORMATS and kind not in ("h5", "hdf", "pq"):
                known = ", ".join(FORMATS)
                raise FormatError(os.fspath(path), f"suffix .{kind}; known formats: {known}")
            write_neighbors(path, self.ids, distances=self.distances)
            return
        record = {"format": FORMAT, "version": VERSION, **self.meta}
        text = json.dumps(record, sort_keys=True, indent=1).encode()
        with replacing(path) as temp, open(temp, "xb") as out:
            np.savez(
                out,
                ids=self.ids,
                scores=self.scores,
                n_tied=self.n_tied,
                tied_offsets=self.tied_offsets,
                tied_ids=self.tied_ids,
                meta=np.frombuffer(text, np.uint8),
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> GroundTruth:
        """Reads what :meth:`save` wrote as npz. Raises FormatError for another or damaged file."""
        parts, meta = read_parts(os.fspath(path))
        names = ("ids", "scores", "n_tied", "tied_offsets", "tied_ids")
        if meta.get("format") != FORMAT or any(name not in parts for name in names):
            raise FormatError(os.fspath(path), "not a ground truth that gnomon wrote as npz")
        if meta.get("version") != VERSION:
            why = f"version {meta.get('version')} of the format, this gnomon reads {VERSION}"
            raise FormatError(os.fspath(path), why)
        ids, scores, n_tied, tied_offsets, tied_ids = (parts[name] for name in names)
        truth = cls(ids, scores, n_tied, tied_offsets, tied_ids, meta)
        if not _belong_together(truth):
            raise FormatError(os.fspath(path), "its arrays do not belong together")
        return truth


def _belong_together(truth: GroundTruth) -> bool:
    ids, offsets, rows = truth.ids, truth.tied_offsets, truth.meta.get("base_rows")
    n = len(ids)
    whole = (ids, truth.n_tied, offsets, truth.tied_ids)
    return (
        ids.ndim == 2
        and all(part.dtype == np.int64 for part in whole)
        and truth.scores.shape == ids.shape
        and truth.scores.dtype == np.float64
        and (truth.n_tied.shape, offsets.shape) == ((n,), (n + 1,))
        and truth.tied_ids.shape == (offsets[-1],)
        and offsets[0] == 0
        and bool((np.diff(offsets) >= 0).all())
        and type(rows) is int
        and bool((ids < rows).all())
        and truth.meta.get("metric") in ("cosine", "ip", "l2")
    )


def _suffix(path: str | os.PathLike[str]) -> str:
    return os.path.splitext(os.fspath(path))[1].removeprefix(".").lower()


def read_parts(path: str) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """All arrays of an npz archive, and its JSON record if there is one; never a pickle."""
    with open(path, "rb") as file:
        try:
            archive = np.load(file, allow_pickle=False)
            parts = (
                {} if isinstance(archive, np.ndarray) else {n: archive[n] for n in archive.files}
            )
        except _DAMAGE as error:
            why = f"not an npz archive of arrays, or a damaged one: {error}"
            raise FormatError(path, why) from error
    if not parts or not all(isinstance(part, np.ndarray) for part in parts.values()):
        raise FormatError(path, "not an npz archive of arrays")
    meta: Any = {}
    if "meta" in parts:
        try:
            meta = json.loads(parts.pop("meta").tobytes())
        except ValueError as error:
            raise FormatError(path, f"its record is not JSON: {error}") from error
    return parts, meta if isinstance(meta, dict) else {}
