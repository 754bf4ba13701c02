# Types of the compiled module; `stubtest` keeps them true.
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import DTypeLike, NDArray
from typing_extensions import Buffer

# Errors

class CorruptIndex(RuntimeError): ...  # noqa: N818
class DeviceError(RuntimeError): ...

# Arrays

def float_rows(value: Any) -> NDArray[np.float32] | None: ...

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
    def slice(self, name: str, first: int, last: int) -> NDArray[Any]: ...
    def verify(self) -> None: ...

# Analyze

def tokenize(preset: str, cased: str, lowered: str) -> list[str]: ...
def token_spans(preset: str, cased: str, lowered: str) -> list[tuple[str, int, int]]: ...
def marked_spans(preset: str, cased: str, lowered: str) -> list[tuple[str, int, int, bool]]: ...
def unstable_segments(text: str) -> list[tuple[int, int]]: ...
def porter_stems(words: list[str]) -> list[str]: ...
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
    def add_tokens(self, documents: list[Any], first: int = 0) -> None: ...
    def add_texts(self, cased: list[str], lowered: list[str], preset: str) -> None: ...
    def add_ids(self, ids: NDArray[np.uint32], offsets: NDArray[np.int64]) -> None: ...
    def add_matches(self, documents: list[Any], query_terms: dict[Any, int]) -> None: ...
    @property
    def n_docs(self) -> int: ...
    @property
    def n_tokens(self) -> int: ...
    @property
    def memory(self) -> int: ...
    def finish(self) -> Bm25Index: ...

@final
class FilteredTexts:
    def __init__(
        self,
        builder: Bm25Builder,
        preset: str,
        stop_words: Sequence[str],
        stem: Callable[[list[str]], list[str]] | str | None,
        rules: Sequence[tuple[Sequence[str], Sequence[str]]],
    ) -> None: ...
    def add(self, cased: list[str], lowered: list[str]) -> None: ...

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
    def is_mapped(self) -> bool: ...
    @property
    def memory(self) -> int: ...
    @property
    def has_vocabulary(self) -> bool: ...
    def lookup(self, queries: list[Any]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]: ...
    @property
    def is_packed(self) -> bool: ...
    @property
    def kept(self) -> int: ...
    def write(self, writer: ContainerWriter, packed: bool = False) -> None: ...
    @staticmethod
    def open(container: Container) -> Bm25Index: ...
    def verify(self) -> None: ...

_Segments = list[tuple[Bm25Index, NDArray[np.uint64] | None]]  # with the words of deletions

@final
class Bm25Snapshot:
    def __init__(self, segments: _Segments) -> None: ...
    @property
    def n_slots(self) -> int: ...
    @property
    def n_docs(self) -> int: ...
    @property
    def n_fields(self) -> int: ...
    @property
    def n_terms(self) -> int: ...
    @property
    def has_vocabulary(self) -> bool: ...
    def n_tokens(self, field: int = 0) -> int: ...
    def df(self, token: Any) -> int: ...

@final
class SlotIds:
    def __init__(self, ends: Sequence[int], ids: list[int | NDArray[np.int64]]) -> None: ...
    def take(self, slots: NDArray[np.int64]) -> NDArray[np.int64]: ...

def merge_segments(segments: _Segments, threads: int = 1) -> Bm25Index: ...
def merge_segments_to(
    segments: _Segments, writer: ContainerWriter, packed: bool = False
) -> None: ...
def segment_of_tokens(token_ids: NDArray[Any], offsets: NDArray[np.int64]) -> Bm25Index: ...
def segment_of_counts(
    indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any], n_terms: int
) -> Bm25Index: ...

@final
class Impacts:
    def __init__(
        self,
        data: NDArray[Any],
        indices: NDArray[Any],
        indptr: NDArray[np.int64],
        n_docs: int,
    ) -> None: ...
    def sums(self, columns: NDArray[np.int64]) -> NDArray[Any]: ...
    def top_k(
        self,
        columns: NDArray[np.int64],
        offsets: NDArray[np.int64],
        k: int,
        shifts: NDArray[Any] | None = None,
        threads: int = 0,
    ) -> tuple[NDArray[Any], NDArray[np.int64]] | None: ...

def bm25_device_formula(scorer: Bm25Scorer) -> dict[str, Any]: ...
def bm25_device_segments(scorer: Bm25Scorer) -> list[dict[str, Any]]: ...
def bm25_device_live(scorer: Bm25Scorer) -> list[NDArray[np.uint64] | None]: ...
def bm25_device_plan(
    scorer: Bm25Scorer,
    queries: list[Any],
    weights: Sequence[Sequence[float] | None] | None = None,
    once: bool = False,
) -> dict[str, Any]: ...
def bm25_formulas() -> list[str]: ...

_Parts: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float]

@final
class Bm25Scorer:
    def __init__(
        self,
        snapshot: Bm25Snapshot,
        formula: str = "default",
        k1: float = 1.2,
        b: float = 0.75,
        delta: float = 0.5,
        epsilon: float = 0.25,
        idf_floor: float | None = None,
        field_weights: list[float] = ...,
        field_b: list[float] = ...,
        screen_bytes: int = ...,
    ) -> None: ...
    def search(
        self,
        tokens: Sequence[Any],
        k: int,
        weights: list[float] | None = None,
        once: bool = False,
        allowed: list[NDArray[np.uint64] | None] | None = None,
        threads: int = 1,
        level: str = "",
        path: str = "",
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]: ...
    def search_many(
        self,
        queries: list[Any],
        k: int,
        weights: list[list[float] | None] | None = None,
        once: bool = False,
        allowed: list[NDArray[np.uint64] | None] | None = None,
        threads: int = 0,
        level: str = "",
        path: str = "",
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]: ...
    def scores(
        self,
        tokens: Sequence[Any],
        weights: list[float] | None = None,
        once: bool = False,
        level: str = "",
    ) -> NDArray[np.float64]: ...
    def parts(
        self,
        tokens: Sequence[Any],
        slots: NDArray[np.int64],
        weights: list[float] | None = None,
        once: bool = False,
    ) -> tuple[_Parts, NDArray[np.int64]]: ...
    def query_parts(
        self, node: QueryNode, slots: NDArray[np.int64]
    ) -> tuple[_Parts, list[tuple[QueryNode, float, int, float]]]: ...
    def plan(
        self,
        tokens: Sequence[Any],
        k: int,
        weights: list[float] | None = None,
        allowed: list[NDArray[np.uint64] | None] | None = None,
        path: str = "",
    ) -> str: ...
    def term(self, token: Any) -> tuple[int, float] | None: ...
    @property
    def screen_bytes(self) -> int: ...

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
    @property
    def kind(self) -> str: ...
    @property
    def names_tokens(self) -> bool: ...
    @property
    def text(self) -> bytes: ...
    @property
    def id(self) -> int | None: ...
    @property
    def edits(self) -> int: ...
    @property
    def children(self) -> list[QueryNode]: ...
    @property
    def should(self) -> list[QueryNode]: ...
    @property
    def fields(self) -> list[int]: ...
    @property
    def slop(self) -> int: ...
    @property
    def ordered(self) -> bool: ...

def fit_window(
    lists: Sequence[Sequence[int]], offsets: Sequence[int], slacks: Sequence[int]
) -> bool: ...
def fit_order(lists: Sequence[Sequence[int]], lengths: Sequence[int], window: int) -> bool: ...
def query_positions(
    node: QueryNode, snapshot: Bm25Snapshot, slot: int, field: int
) -> list[int]: ...
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
def query_answer(
    node: QueryNode,
    scorer: Bm25Scorer,
    k: int,
    allowed: Sequence[NDArray[np.uint64]] | None = None,
    threads: int = 1,
    level: str = "",
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]: ...
def query_tokens(node: QueryNode, snapshot: Bm25Snapshot) -> list[Any]: ...
def docs_having(
    wanted: NDArray[np.uint8], codes: NDArray[Any], starts: NDArray[np.uint64]
) -> NDArray[np.uint64]: ...

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
    def head_dims(self) -> int: ...
    @property
    def metric(self) -> str: ...
    @property
    def vectors(self) -> NDArray[np.float32]: ...
    def search(
        self,
        queries: NDArray[np.float32],
        k: int,
        on_zero: str = "zero",
        screen: str = "auto",
        threads: int = 0,
        level: str = "",
        min_score: float = ...,
        allowed: NDArray[np.uint64] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64], dict[str, float]]: ...
    def best(
        self,
        queries: NDArray[np.float32],
        k: int,
        on_zero: str = "zero",
        screen: str = "auto",
        threads: int = 0,
        level: str = "",
        allowed: NDArray[np.uint64] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]: ...
    def write(self, writer: ContainerWriter) -> None: ...
    @staticmethod
    def open(container: Container) -> DenseIndex: ...
    def verify(self) -> None: ...

# Dense, over float64 rows

@final
class Dense64:
    def __init__(
        self,
        vectors: NDArray[np.float64],
        metric: str,
        centre: Sequence[float],
        exponent: int,
        screened: bool,
        threads: int = 0,
        level: str = "",
    ) -> None: ...
    @property
    def screen_bytes(self) -> int: ...
    def search(
        self,
        queries: NDArray[np.float64],
        k: int,
        min_score: float = ...,
        threads: int = 0,
        level: str = "",
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]: ...

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

# Words and places of a corpus

@final
class WordScanner:
    def __init__(
        self,
        lookup: Callable[[str], tuple[int, Sequence[tuple[int, int, int]]]],
        groups: Sequence[str],
        parts: Sequence[str] = ...,
        flagged: Sequence[tuple[str, int, int, int]] = ...,
    ) -> None: ...
    def hits(self, text: str) -> tuple[list[tuple[int, int, str]], int]: ...
    def __len__(self) -> int: ...

def word_facts(
    word: str, flagged: Sequence[tuple[str, int, int, int]]
) -> tuple[int, list[tuple[int, int, int]]]: ...
def locate_spans(
    text: str, marks: list[int] | None, base: int, spans: Sequence[tuple[Any, ...]]
) -> list[tuple[int, int]]: ...
def plain_names(text: str, spans: Sequence[tuple[Any, ...]]) -> bytes: ...
def pack_text(raw: Buffer, marks: bytes, text: bytes) -> tuple[bytes, bytes] | None: ...
def unpack_text(raw: Buffer, map: bytes, pieces: bytes) -> tuple[bytes, bytes]: ...
def chunk_records(
    drafts: Sequence[Any],
    atoms: Sequence[Any],
    raw: bytes,
    data: bytes,
    chars: dict[int, int] | None,
) -> tuple[list[bytes], list[str], list[str], list[str], list[bytes]]: ...
def pack_mentions(
    mentions: Sequence[Any],
    normalise: Callable[[str, str], str],
    roles: dict[str, int],
    starts: list[int],
    ends: list[int],
) -> tuple[list[str], list[str], bytes]: ...
def pack_relations(
    edges: Sequence[Any], left_out: tuple[str, ...], starts: list[int], ends: list[int]
) -> tuple[list[str], list[str], bytes, bytes]: ...
def link_target(folder: str, url: str) -> str | None: ...

@final
class NameJudge:
    def __init__(
        self,
        mention: Any,
        fixed: dict[str, str],
        atoms: Sequence[Any],
        codes: Sequence[tuple[int, int]],
        links: Sequence[Any],
        titled: set[int],
        source: bool,
    ) -> None: ...
    def names(
        self, text: str, marks: list[int] | None, base: int, hits: Sequence[tuple[int, int, str]]
    ) -> list[Any]: ...

def read_markdown(reader: Any, parsed: Any, data: bytes, events: Iterable[Any]) -> None: ...

# Trigrams

def trigram_fold(text: bytes) -> bytes: ...

@final
class TrigramBuilder:
    def __init__(self) -> None: ...
    def add(self, parts: Iterable[Buffer]) -> None: ...
    @property
    def n_docs(self) -> int: ...
    def write(self, writer: ContainerWriter) -> None: ...

@final
class TrigramIndex:
    @staticmethod
    def open(container: Container) -> TrigramIndex: ...
    @property
    def n_docs(self) -> int: ...
    @property
    def n_trigrams(self) -> int: ...
    def candidates(self, query: bytes | tuple[str, Sequence[Any]]) -> NDArray[np.uint64]: ...
    def docs(self, key: int) -> list[int]: ...
    def verify(self) -> None: ...

# Lines

@final
class LineProgram:
    def __init__(
        self,
        steps: Sequence[tuple[int, int, int]],
        sets: Sequence[bytes],
        wide: bool,
        window: Sequence[bytes],
        order: Sequence[int],
        anchor: int,
        offset: int | None,
        edges: bool,
        lead: Sequence[bytes],
    ) -> None: ...
    def find(self, line: bytes) -> list[tuple[int, int]] | None: ...

@final
class LineScan:
    def __init__(
        self,
        program: LineProgram,
        sources: Sequence[Container | bytes],
        source: NDArray[np.uint32],
        begin: NDArray[np.uint64],
        end: NDArray[np.uint64],
        most: int = ...,
        threads: int = 0,
        level: str = "",
        most_unsure: int = ...,
    ) -> None: ...
    @property
    def has_given_up(self) -> bool: ...
    @property
    def totals(self) -> tuple[int, int, int]: ...
    def matched(self) -> NDArray[np.uint8]: ...
    def unsure(self) -> bytes: ...
    def settle(self, begins: Buffer, stops: Buffer) -> None: ...
    def page(
        self, skip: int, stop: int
    ) -> tuple[
        NDArray[np.uint64],
        NDArray[np.uint64],
        NDArray[np.uint64],
        NDArray[np.uint64],
        NDArray[np.uint64],
        NDArray[np.uint64],
        NDArray[np.uint64],
    ]: ...
