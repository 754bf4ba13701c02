"""faiss' flat indexes over gnomon's engine: exact, and the same on every machine.

    import faiss                        # before
    from gnomon.compat import faiss     # after

The interface is that of faiss 1.15; it need not be installed. ``IndexFlat``, ``IndexFlatIP``,
``IndexFlatL2``, ``IndexIDMap`` and ``IndexIDMap2``, ``knn``, selectors, ``normalize_L2``, and files
in faiss' own format. Any other name of faiss is faiss' own where it is installed, with a
UserWarning; ``faiss.deserialize_index(serialize_index(index))`` gives it an index of this module.

What differs from faiss:

==========================  ===============================  =====================================
matter                      faiss                            here
==========================  ===============================  =====================================
ties                        number falling (inner product),  distance, then number rising (in a
                            rising (L2), neither above       map of ids: the row added first)
                            some k
order of ``range_search``   not documented                   number rising
distances                   float32 sums; with 20 queries    float64 in one written order, rounded
                            or more L2 by an expansion that  to float32 once; never negative; the
                            cancels                          same for 1 query and 10,000
NaN or infinity in rows     never found                      ValueError that names the row
a distance beyond float32   never found                      found, with distance infinity
NaN in a query              all ids -1                       ValueError that names the row
``k``                       a Python int                     any whole number
lists, tensors              AttributeError                   work, as arrays of any real dtype do
float64                     rounded to float32               the same
metrics                     a dozen                          L2, inner product; others are faiss'
                                                             own, with a UserWarning
``normalize_L2``            float32 lengths                  float64 lengths; float32 arrays only,
                                                             of any strides
``add``                     copies the rows                  the same, but ``add(x, copy=False)``;
                                                             the first search after it prepares a
                                                             screen (a quarter more)
``codes``, ``id_map``       std::vector                      arrays; ``codes`` is a copy
``add_sa_codes``, ``xb``    there                            not there
pickling, ``deepcopy``      there                            the same
fork after a search         hangs with several threads       works
threads                     OpenMP, all cores                gnomon's, all cores;
                                                             ``omp_set_num_threads`` works
==========================  ===============================  =====================================

Examples
--------
>>> import numpy as np
>>> from gnomon.compat import faiss
>>> index = faiss.IndexFlatL2(2)
>>> index.add(np.array([[0, 0], [3, 4], [0, 0]], np.float32))
>>> D, I = index.search(np.array([[0, 0]], np.float32), 4)
>>> I.tolist(), D[0, :3].tolist()
([[0, 2, 1, -1]], [0.0, 0.0, 25.0])
"""

from __future__ import annotations

from typing import Any

from . import shared
from .files import deserialize_index, read_index, serialize_index, write_index
from .flat import Index, IndexFlat, IndexFlatIP, IndexFlatL2
from .functions import clone_index, index_factory, knn, normalize_L2, vector_to_array
from .idmap import IndexIDMap, IndexIDMap2
from .selectors import (
    IDSelector,
    IDSelectorAll,
    IDSelectorAnd,
    IDSelectorArray,
    IDSelectorBatch,
    IDSelectorBitmap,
    IDSelectorNot,
    IDSelectorOr,
    IDSelectorRange,
    IDSelectorXOr,
    SearchParameters,
)
from .shared import METRIC_INNER_PRODUCT, METRIC_L2, omp_get_max_threads, omp_set_num_threads

__all__ = [
    "METRIC_INNER_PRODUCT",
    "METRIC_L2",
    "IDSelector",
    "IDSelectorAll",
    "IDSelectorAnd",
    "IDSelectorArray",
    "IDSelectorBatch",
    "IDSelectorBitmap",
    "IDSelectorNot",
    "IDSelectorOr",
    "IDSelectorRange",
    "IDSelectorXOr",
    "Index",
    "IndexFlat",
    "IndexFlatIP",
    "IndexFlatL2",
    "IndexIDMap",
    "IndexIDMap2",
    "SearchParameters",
    "clone_index",
    "deserialize_index",
    "index_factory",
    "knn",
    "normalize_L2",
    "omp_get_max_threads",
    "omp_set_num_threads",
    "read_index",
    "serialize_index",
    "vector_to_array",
    "write_index",
]


def __getattr__(name: str) -> Any:
    """A name that only faiss has is faiss' own."""
    if not name.startswith("_"):
        try:
            return shared.original(name, "gnomon does not have it")
        except (ImportError, AttributeError):
            pass
    raise AttributeError(f"gnomon.compat.faiss has no {name!r}, and faiss is not installed with it")
