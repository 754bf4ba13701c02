# Types of the compiled module; `stubtest` keeps them true.
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import DTypeLike, NDArray
from typing_extensions import Buffer

# Errors

class CorruptIndex(RuntimeError): ...  # noqa: N818
class DeviceError(RuntimeError): ...

# Storage

def crc32c(data: Buffer, seed: int = 0) -> int: ...

@final
class ContainerWriter:
    def __init__(self, path: str | os.PathLike[str]) -> None: ...
    def section(self, name: str, values: NDArray[Any]) -> None: ...
    def begin(self, name: str, dtype: DTypeLike) -> None: ...
    def append(self, values: Buffer) -> None: ...
    def end(self) -> None: ...
    def finish(self) -> None: ...

@final
class Container:
    def __init__(self, path: str | os.PathLike[str]) -> None: ...
    @property
    def path(self) -> Path: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def table_crc(self) -> int: ...
    def sections(self) -> list[tuple[str, str, int]]: ...
    def __contains__(self, name: str) -> bool: ...
    def array(self, name: str, verify: bool = True) -> NDArray[Any]: ...
    def verify(self) -> None: ...

# Analyze

def tokenize(preset: str, cased: str, lowered: str) -> list[str]: ...
def token_spans(preset: str, cased: str, lowered: str) -> list[tuple[str, int, int]]: ...
def unstable_segments(text: str) -> list[tuple[int, int]]: ...
def unicode_version() -> str: ...

# Levels

def build_info() -> dict[str, Any]: ...
def levels() -> list[str]: ...
def level() -> str: ...
def thread_count(threads: int = 0) -> int: ...

# BM25

@final
class Bm25Builder:
    def __init__(
        self, with_vocabulary: bool, n_fields: int = 1, with_positions: bool = False
    ) -> None: ...
    def add_tokens(self, documents: list[Any]) -> None: ...
    def add_texts(self, cased: list[str], lowered: list[str], preset: str) -> None: ...
    def add_ids(self, ids: NDArray[np.uint32], offsets: NDArray[np.int64]) -> None: ...
    def add_matches(self, documents: list[Any], query_terms: dict[Any, int]) -> None: ...
    @property
    def n_docs(self) -> int: ...
    @property
    def n_tokens(self) -> int: ...
    def finish(self) -> Bm25Index: ...

@final
class Bm25Index:
    @property
    def n_docs(self) -> int: ...
    @property
    def n_fields(self) -> int: ...
    @property
    def has_positions(self) -> bool: ...
    def positions(self, term: int, field: int = 0) -> list[list[int]]: ...
    def n_tokens(self, field: int = 0) -> int: ...
    @property
    def n_terms(self) -> int: ...
    def n_postings(self, field: int = 0) -> int: ...
    def postings(
        self, term: int, field: int = 0
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]: ...
    def length(self, doc: int, field: int = 0) -> int: ...
    @property
    def has_vocabulary(self) -> bool: ...
    def lookup(self, queries: list[Any]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]: ...
    def prepare(self, k1: float, b: float) -> None: ...
    def search_many(
        self,
        terms: NDArray[np.uint32],
        offsets: NDArray[np.int64],
        k: int,
        k1: float,
        b: float,
        threads: int = 0,
        level: str = "",
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]: ...
    def scores(
        self, terms: NDArray[np.uint32], k1: float, b: float, level: str = ""
    ) -> NDArray[np.float64]: ...
    def write(self, writer: ContainerWriter) -> None: ...
    @staticmethod
    def open(container: Container) -> Bm25Index: ...
    def verify(self) -> None: ...

# Queries

@final
class QueryNode:
    def __init__(
        self,
        kind: str,
        *,
        boost: float = ...,
        text: bytes = ...,
        id: int | None = None,
        fields: Sequence[int] = ...,
        edits: int = 0,
        exact: int = 0,
        swaps: bool = True,
        slop: int = 0,
        ordered: bool = False,
        children: Sequence[QueryNode] = ...,
        should: Sequence[QueryNode] = ...,
        must_not: Sequence[QueryNode] = ...,
        minimum: int = 0,
        docs: Sequence[NDArray[np.uint64]] = ...,
        sizes: Sequence[int] = ...,
    ) -> None: ...

def query_match(
    node: QueryNode,
    snapshot: Bm25Snapshot,
    allowed: Sequence[NDArray[np.uint64]] | None = None,
) -> list[NDArray[np.uint64]]: ...
def query_count(
    node: QueryNode,
    snapshot: Bm25Snapshot,
    allowed: Sequence[NDArray[np.uint64]] | None = None,
) -> int: ...
def query_search(
    node: QueryNode,
    scorer: Bm25Scorer,
    k: int,
    allowed: Sequence[NDArray[np.uint64]] | None = None,
    threads: int = 1,
    level: str = "",
) -> tuple[NDArray[np.int64], NDArray[np.float64]]: ...
def query_tokens(node: QueryNode, snapshot: Bm25Snapshot) -> list[Any]: ...
def docs_having(
    wanted: NDArray[np.uint8], codes: NDArray[Any], starts: NDArray[np.uint64]
) -> NDArray[np.uint64]: ...

@final
class Bm25Snapshot:
    def __init__(
        self, segments: list[tuple[Bm25Index, NDArray[np.uint64] | None]]
    ) -> None: ...

# Dense

def dense_top_k(
    vectors: NDArray[np.float32],
    queries: NDArray[np.float32],
    metric: str,
    k: int,
    on_zero: str = "zero",
    threads: int = 0,
    level: str = "",
) -> tuple[NDArray[np.int64], NDArray[np.float64]]: ...

@final
class DenseIndex:
    def __init__(
        self,
        vectors: NDArray[np.float32],
        metric: str,
        on_zero: str = "zero",
        screen: str = "auto",
        threads: int = 0,
        level: str = "",
    ) -> None: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def dim(self) -> int: ...
    @property
    def screen_bytes(self) -> int: ...
    @property
    def metric(self) -> str: ...
    def search(
        self,
        queries: NDArray[np.float32],
        k: int,
        on_zero: str = "zero",
        screen: str = "auto",
        threads: int = 0,
        level: str = "",
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], dict[str, int]]: ...
    def write(self, writer: ContainerWriter) -> None: ...
    @staticmethod
    def open(container: Container) -> DenseIndex: ...
    def verify(self) -> None: ...

# MMR

def mmr(
    relevance: NDArray[np.float64],
    similarity: NDArray[np.float64],
    limit: int,
    diversity: float,
    level: str = "",
) -> NDArray[np.int64]: ...
def mmr_vectors(
    vectors: NDArray[np.float32],
    relevance: NDArray[np.float64],
    selected: list[list[int]],
    limit: int,
    diversity: float,
    penalty: str = "all",
    threads: int = 0,
    level: str = "",
) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]: ...
def cosines(
    vectors: NDArray[np.float32], queries: NDArray[np.float32], threads: int = 0, level: str = ""
) -> NDArray[np.float64]: ...
