"""txtai's vector index over gnomon's engine: one word of the configuration changes.

    Embeddings({"backend": "faiss", ...})                          # before
    Embeddings({"backend": "gnomon.compat.txtai.Exact", ...})      # after

The interface is that of txtai 9.14's ``ANN``; with txtai installed the class derives from it, as
txtai demands of a backend. It can be used without txtai as well.

What differs from txtai's own backends:

======================  ===============================  =========================================
matter                  txtai (faiss, numpy)             here
======================  ===============================  =========================================
answers                 approximate for more than 5,000  exact
                        rows (faiss)
ties                    by the backend                   score falling, then id rising
scores                  float32 sums                     a float64 sum, rounded to float32 once
deleted rows            zeroed, and found with score 0   gone
                        (numpy)
NaN or infinity         undefined                        ValueError that names the row
``quantize`` (bits)     there                            ValueError: use txtai's own backends
file                    faiss' or NumPy's format         faiss' format, a flat index with ids
======================  ===============================  =========================================

Examples
--------
>>> import numpy as np
>>> from gnomon.compat.txtai import Exact
>>> ann = Exact({"backend": "gnomon.compat.txtai.Exact"})
>>> ann.index(np.eye(3, dtype=np.float32))
>>> ann.delete([0])
>>> ann.search(np.array([[0.6, 0.8, 0.0]], np.float32), 5)
[[(1, 0.800000011920929), (2, 0.0)]]
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from .faiss import IndexFlatIP, IndexIDMap, read_index, write_index

try:
    from txtai import ann

    _Base: Any = ann.ANN
except ImportError:  # everything but txtai's own record of the build works without it
    _Base = object

__all__ = ["Exact"]


class Exact(_Base):
    """A backend of txtai: exact search by inner product (txtai's vectors have length 1).

    >>> Exact({}).count()
    0
    """

    def __init__(self, config: dict[str, Any]):
        if config.get("quantize"):
            raise ValueError(
                "quantize packs vectors into bits, whose distance gnomon does not have; leave it "
                "out, or use one of txtai's own backends"
            )
        self.config = config
        self.backend: Any = None

    def index(self, embeddings: Any) -> None:
        """Takes the rows [N, D], numbered from 0 on; float32 ones are held, not copied."""
        rows = np.asarray(embeddings)
        self.backend = IndexIDMap(IndexFlatIP(rows.shape[1]))
        if _in_memory(embeddings):  # txtai's own numpy backend keeps them as well
            self.backend._adopt(rows)
        else:  # perhaps a file, which txtai deletes
            self.backend.add_with_ids(rows, np.arange(len(rows)))
        self.config["offset"] = len(rows)
        self._record({"gnomon": "exact"})

    def append(self, embeddings: Any) -> None:
        """Adds rows, numbered from ``config["offset"]`` on."""
        rows = np.asarray(embeddings)
        start = self.config["offset"]
        self.backend.add_with_ids(rows, np.arange(start, start + len(rows)))
        self.config["offset"] = start + len(rows)
        self._record()

    def delete(self, ids: Iterable[int]) -> None:
        """Removes rows; ids that are not there are passed over."""
        self.backend.remove_ids(np.array(list(ids), np.int64))

    def search(self, queries: Any, limit: int) -> list[list[tuple[int, float]]]:
        """The best ``limit`` ids with their scores, for each query."""
        wanted = max(1, min(limit, self.count()))
        scores, ids = self.backend.search(np.asarray(queries), wanted)
        return [
            [(i, s) for i, s in zip(row, values, strict=True) if i >= 0][: max(limit, 0)]
            for row, values in zip(ids.tolist(), scores.tolist(), strict=True)
        ]

    def count(self) -> int:
        """How many rows there are."""
        return 0 if self.backend is None else int(self.backend.ntotal)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one file, in one step."""
        write_index(self.backend, path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Reads what :meth:`save`, or faiss from a flat index with ids, wrote."""
        self.backend = read_index(path)

    def close(self) -> None:
        """Lets go of the rows."""
        self.backend = None

    def _record(self, settings: dict[str, Any] | None = None) -> None:
        """Txtai's note of when and with what the index was made."""
        if hasattr(self, "metadata"):
            self.metadata(settings)


def _in_memory(rows: Any) -> bool:
    """Whether NumPy's own memory holds the rows, and not a mapped file or another library's."""
    while isinstance(rows, np.ndarray) and not isinstance(rows, np.memmap):
        if rows.base is None:
            return True
        rows = rows.base
    return False
