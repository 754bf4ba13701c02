"""Puts gnomon's flat indexes and functions into faiss before its tests import them."""

from __future__ import annotations

import faiss
import numpy as np
from gnomon.compat import faiss as ours

SAVED = dict(vars(faiss))  # what gnomon hands to faiss must find faiss
ours.shared.original = lambda name, why: SAVED[name]

# The selectors stay faiss' own: its other indexes take only those.
for name in ("IndexFlat", "IndexFlatIP", "IndexFlatL2", "IndexIDMap", "IndexIDMap2", "knn"):
    setattr(faiss, name, getattr(ours, name))
faiss.normalize_L2 = ours.normalize_L2


def _either(name: str, original: object) -> object:
    """gnomon's function for gnomon's indexes, faiss' for its own."""

    def chosen(index: object, *rest: object) -> object:
        own = isinstance(index, ours.Index)
        return getattr(ours, name)(index, *rest) if own else original(index, *rest)

    return chosen


for name in ("serialize_index", "write_index", "clone_index"):
    setattr(faiss, name, _either(name, getattr(faiss, name)))


def _factory(original: object) -> object:
    def index_factory(d: int, description: str, metric: int = faiss.METRIC_L2) -> object:
        parts = set(description.split(","))
        simple = parts <= {"Flat", "IDMap", "IDMap2"} and metric in (0, 1)
        return (ours.index_factory if simple else original)(d, description, metric)

    return index_factory


_to_array = faiss.vector_to_array


def vector_to_array(v: object) -> object:
    return v if isinstance(v, np.ndarray) else _to_array(v)


faiss.vector_to_array = faiss.vector_float_to_array = vector_to_array
faiss.index_factory = _factory(faiss.index_factory)
