"""Exact retrieval: BM25, cosine top-k, MMR and rank fusion with one answer on every machine.

>>> import gnomon
>>> index = gnomon.BM25Index.build(["red apple", "green apple", "blueberry"])
>>> index.search("green apple", k=1).ids
array([1])
"""

from ._core import CorruptIndex, DeviceError
from ._core import levels as levels
from .analysis import Analyzer
from .bm25 import BM25Index, bm25_scores
from .chunking import chunk_tokens
from .citation import citation_report
from .dense import TopK, cosine_topk
from .dense_index import DenseIndex
from .dense_stream import stream_topk
from .device import devices
from .filters import Filter, field
from .formats import open_vectors
from .fusion import reciprocal_rank_fusion
from .fusion_tuning import tune_fusion
from .groundtruth import groundtruth
from .groundtruth_file import GroundTruth
from .mmr import mmr, mmr_vectors
from .recall import recall
from .results import Hits, MatchedHits
from .sharding import merge_topk

__version__: str = "0.1.0"

__all__ = [
    "Analyzer",
    "BM25Index",
    "CorruptIndex",
    "DenseIndex",
    "DeviceError",
    "Filter",
    "GroundTruth",
    "Hits",
    "MatchedHits",
    "TopK",
    "bm25_scores",
    "chunk_tokens",
    "citation_report",
    "cosine_topk",
    "devices",
    "field",
    "groundtruth",
    "levels",
    "merge_topk",
    "mmr",
    "mmr_vectors",
    "open_vectors",
    "recall",
    "reciprocal_rank_fusion",
    "stream_topk",
    "tune_fusion",
]
