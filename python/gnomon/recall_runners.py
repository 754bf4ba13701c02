"""Other people's indexes, built and swept over their knobs: recall against queries a second.

Each runner is built once over the base and searched at every setting of its one knob. A setting is
timed `repeats` times over the whole batch; the fastest counts. Then queries are asked one by one, a
thousand at most and a hundred of slow ones, for how long each takes: what a user waits. `threads`
is the library's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .recall_counts import Int64Array

Float32Array = npt.NDArray[np.float32]
Search = Callable[[Any, slice], Int64Array]  # the knob's value, which queries -> ids [Q, k]

LATENCIES = {"p50_ms": 0.50, "p95_ms": 0.95, "p99_ms": 0.99}
_TIMED_ALONE, _ENOUGH_ALONE, _ALONE_SECONDS = 1000, 100, 10.0
_SWEEP = (8, 16, 32, 64, 128, 256, 512)


class MissingLibraryError(ValueError):
    """An index was asked for whose library is not installed."""


@dataclass
class Point:
    """One setting: its knob, the ids it gave, and how long the batch of queries took."""

    index: str
    setting: str
    ids: Int64Array
    seconds: float
    build_seconds: float
    queries: int
    latencies: npt.NDArray[np.float64]  # milliseconds of single queries, ascending

    @property
    def name(self) -> str:
        """Index and setting."""
        return f"{self.index} {self.setting}".strip()

    @property
    def qps(self) -> float:
        """Queries a second."""
        return self.queries / self.seconds if self.seconds > 0 else float("inf")

    @property
    def percentiles(self) -> list[float]:
        """Milliseconds of LATENCIES: the query at that rank; NaN without queries."""
        n = len(self.latencies)
        ranks = [min(n - 1, int(share * n)) for share in LATENCIES.values()]
        return [float(self.latencies[rank]) if n else float("nan") for rank in ranks]


class Built(NamedTuple):
    """An index ready to be searched: the knob's name and values, and the search."""

    knob: str
    values: Sequence[Any]
    search: Search


@dataclass
class Task:
    """What an index is built over and asked."""

    base: Float32Array
    queries: Float32Array
    metric: str
    k: int
    threads: int
    options: dict[str, Any] = field(default_factory=dict)

    def option(self, name: str, default: Any) -> Any:
        """A setting of the build."""
        return self.options.get(name, default)


def _normalised(rows: Float32Array) -> Float32Array:
    """Unit rows for libraries without cosine; zero rows stay zero."""
    norms = np.sqrt((rows.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = np.where(norms > 0, rows / norms, 0.0)
    return unit.astype(np.float32)


def _import(name: str, package: str) -> Any:
    try:
        return __import__(name)
    except ImportError as error:
        raise MissingLibraryError(
            f"{package} is not installed: pip install {package}, or gnomon[ann]"
        ) from error


def _faiss(task: Task, kind: str) -> Built:
    faiss = _import("faiss", "faiss-cpu")
    faiss.omp_set_num_threads(task.threads)
    euclidean = task.metric == "l2"
    measure = faiss.METRIC_L2 if euclidean else faiss.METRIC_INNER_PRODUCT
    unit = task.metric == "cosine"
    base = _normalised(task.base) if unit else task.base
    queries = _normalised(task.queries) if unit else task.queries
    dim = base.shape[1]
    values: Sequence[Any] = (None,)
    if kind == "Flat":
        index, knob = faiss.IndexFlat(dim, measure), ""
    elif kind == "IVF":
        lists = int(task.option("nlist", max(1, min(len(base) // 39, round(4 * len(base) ** 0.5)))))
        quantizer = faiss.IndexFlat(dim, measure)
        index = faiss.IndexIVFFlat(quantizer, dim, lists, measure)
        index.train(base)
        knob, values = "nprobe", [v for v in (1, 2, 4, *_SWEEP) if v < lists] + [lists]
    else:
        index = faiss.IndexHNSWFlat(dim, int(task.option("M", 32)), measure)
        index.hnsw.efConstruction = int(task.option("ef_construction", 200))
        knob, values = "efSearch", [v for v in _SWEEP if v >= task.k] or [task.k]
    index.add(base)

    def search(value: Any, rows: slice) -> Int64Array:
        if knob == "nprobe":
            index.nprobe = value
        elif knob == "efSearch":
            index.hnsw.efSearch = value
        found: Int64Array = index.search(queries[rows], task.k)[1]
        return found

    return Built(knob, values, search)


def _hnswlib(task: Task) -> Built:
    hnswlib = _import("hnswlib", "hnswlib")
    space = {"cosine": "cosine", "ip": "ip", "l2": "l2"}[task.metric]
    index = hnswlib.Index(space=space, dim=task.base.shape[1])
    ef, edges = int(task.option("ef_construction", 200)), int(task.option("M", 16))
    index.init_index(max_elements=len(task.base), ef_construction=ef, M=edges, random_seed=100)
    index.set_num_threads(task.threads)
    index.add_items(task.base)

    def search(value: Any, rows: slice) -> Int64Array:
        index.set_ef(value)
        return np.asarray(index.knn_query(task.queries[rows], k=task.k)[0], np.int64)

    return Built("ef", [v for v in _SWEEP if v >= task.k] or [task.k], search)


def _usearch(task: Task) -> Built:
    usearch = _import("usearch.index", "usearch").index
    metric = {"cosine": "cos", "ip": "ip", "l2": "l2sq"}[task.metric]
    edges, ef = int(task.option("M", 16)), int(task.option("ef_construction", 128))
    index = usearch.Index(
        ndim=task.base.shape[1], metric=metric, dtype="f32", connectivity=edges, expansion_add=ef
    )
    index.add(np.arange(len(task.base)), task.base, threads=task.threads)

    def search(value: Any, rows: slice) -> Int64Array:
        index.expansion_search = value
        found = index.search(task.queries[rows], task.k, threads=task.threads)
        keys = np.atleast_2d(np.asarray(found.keys)).astype(np.int64)
        if hasattr(found, "counts"):  # places behind the count hold no answer
            keys[np.arange(keys.shape[1]) >= np.asarray(found.counts)[:, None]] = -1
        return keys

    return Built("expansion_search", [v for v in _SWEEP if v >= task.k] or [task.k], search)


def _gnomon(task: Task) -> Built:
    from .dense import DenseIndex

    index = DenseIndex.build(task.base, metric=task.metric, threads=task.threads)

    def search(value: Any, rows: slice) -> Int64Array:
        ids: Int64Array = index.search(task.queries[rows], task.k, threads=task.threads).ids
        return ids

    return Built("", (None,), search)


# What a build takes besides, with the least that its library survives.
OPTIONS = {
    "faiss:IVF": {"nlist": 1},
    "faiss:HNSW": {"M": 2, "ef_construction": 1},
    "hnswlib": {"M": 2, "ef_construction": 1},
    "usearch": {"M": 2, "ef_construction": 1},
}

RUNNERS: dict[str, Callable[[Task], Built]] = {
    "gnomon": _gnomon,
    "faiss:Flat": lambda task: _faiss(task, "Flat"),
    "faiss:IVF": lambda task: _faiss(task, "IVF"),
    "faiss:HNSW": lambda task: _faiss(task, "HNSW"),
    "hnswlib": _hnswlib,
    "usearch": _usearch,
}


def parse_spec(spec: str) -> tuple[str, dict[str, int], list[int]]:
    """`NAME[,option=value...][@v1,v2,...]` -> name, build options, values of the knob.

    >>> parse_spec("hnswlib,M=32@10,20")
    ('hnswlib', {'M': 32}, [10, 20])
    """
    head, _, sweep = spec.partition("@")
    name, *pairs = head.split(",")
    if name not in RUNNERS:
        raise ValueError(f"index must be one of {', '.join(RUNNERS)}, got {name!r}")
    try:
        options = {key: int(value) for key, value in (pair.split("=") for pair in pairs)}
        values = [int(value) for value in sweep.split(",")] if sweep else []
    except ValueError:
        raise ValueError(f"index {spec!r}: write NAME,option=number@value,value") from None
    known = OPTIONS.get(name, {})
    for key, value in options.items():
        if key not in known:
            has = ", ".join(known) or "none"
            raise ValueError(f"index {spec!r}: {name} has no option {key!r}; options: {has}")
        if value < known[key]:
            raise ValueError(f"index {spec!r}: {key} must be at least {known[key]}, got {value}")
    if values and name in ("gnomon", "faiss:Flat"):
        raise ValueError(f"index {spec!r}: {name} is exact and has no knob to sweep")
    if values and min(values) < 1:
        raise ValueError(f"index {spec!r}: values of a knob are at least 1, got {min(values)}")
    return name, options, values


def versions(specs: Sequence[str]) -> list[str]:
    """What was run, as a report must say: each library with its version.

    >>> import gnomon
    >>> versions(["gnomon"]) == [f"gnomon {gnomon.__version__}"]
    True
    """
    from importlib.metadata import PackageNotFoundError, version

    found = []
    for name in dict.fromkeys(parse_spec(spec)[0].split(":")[0] for spec in specs):
        package = "faiss-cpu" if name == "faiss" else name
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:  # built by hand, say
            found.append(f"{name} of unknown version")
    return found


def sweep(
    spec: str,
    base: Float32Array,
    queries: Float32Array,
    metric: str,
    k: int,
    *,
    threads: int = 1,
    repeats: int = 3,
) -> Iterator[Point]:
    """Builds one index and yields a point for each value of its knob.

    Raises MissingLibraryError when its library is not installed, ValueError for a wrong spec.

    >>> rows = np.eye(4, dtype=np.float32)
    >>> [point.ids.tolist() for point in sweep("gnomon", rows, rows[:2], "cosine", 1)]
    [[[0], [1]]]
    """
    name, options, values = parse_spec(spec)
    label = spec.partition("@")[0]  # with its options: two builds of one library are two indexes
    task = Task(base, queries, metric, min(k, len(base)), threads, options)
    began = time.perf_counter()
    try:
        built = RUNNERS[name](task)
    except RuntimeError as error:  # faiss: more lists than rows to train them
        raise ValueError(f"{label}: {error}") from error
    build_seconds = time.perf_counter() - began
    for value in values or built.values:
        seconds = float("inf")
        ids = np.zeros((0, 0), np.int64)
        setting = f"{built.knob}={value}" if built.knob else ""
        latencies: list[float] = []
        try:
            for _ in range(repeats):
                began = time.perf_counter()
                ids = built.search(value, slice(None))
                seconds = min(seconds, time.perf_counter() - began)
            for query in range(min(len(queries), _TIMED_ALONE)):
                began = time.perf_counter()
                built.search(value, slice(query, query + 1))
                latencies.append((time.perf_counter() - began) * 1e3)
                if len(latencies) >= _ENOUGH_ALONE and sum(latencies) > _ALONE_SECONDS * 1e3:
                    break
        except RuntimeError as error:  # hnswlib: fewer than k were found
            raise ValueError(f"{label} {setting}: {error}") from error
        alone = np.sort(np.array(latencies, np.float64))
        yield Point(label, setting, ids, seconds, build_seconds, len(queries), alone)
