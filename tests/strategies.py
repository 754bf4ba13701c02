"""Inputs that walk the edges: sizes around block borders, ties, zeros, subnormals, duplicates.

Structure (sizes, kinds, edits) is drawn by hypothesis and shrinks; the bulk of large inputs comes
from numpy with a drawn seed, which is many times faster than drawing each number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

EDGES = (0, 1, 2, 3, 31, 32, 33, 64, 65)
DIMS = (1, 2, 7, 8, 9, 31, 32, 33, 64, 65)
WORDS = ("a", "b", "c", "d", "风雨", "naïve", "x_y")
UNKNOWN = ("zzz", "")

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]


def seeds() -> st.SearchStrategy[int]:
    return st.integers(0, 2**32 - 1)


# ------------------------------------------------------------------------------------------ BM25
def small_corpora() -> st.SearchStrategy[list[list[str]]]:
    return st.lists(st.lists(st.sampled_from(WORDS), max_size=6), max_size=6)


@st.composite
def large_corpora(draw: st.DrawFn) -> list[list[str]]:
    """Skewed word counts, so that some words stand nearly everywhere; copies make exact ties."""
    rng = np.random.default_rng(draw(seeds()))
    n_docs = draw(st.sampled_from(EDGES))
    longest = draw(st.sampled_from((0, 1, 3, 40)))
    skew = 1.0 / np.arange(1, len(WORDS) + 1) ** draw(st.sampled_from((0.0, 1.0, 3.0)))
    documents = [
        [WORDS[w] for w in rng.choice(len(WORDS), size=size, p=skew / skew.sum())]
        for size in rng.integers(0, longest + 1, size=n_docs)
    ]
    if n_docs and draw(st.booleans()):
        for position in rng.integers(0, n_docs, size=n_docs // 3):
            documents[position] = list(documents[rng.integers(0, n_docs)])
    return documents


def corpora() -> st.SearchStrategy[list[list[str]]]:
    """Documents as token lists; some empty, some equal."""
    return st.one_of(small_corpora(), large_corpora())


def queries() -> st.SearchStrategy[list[str]]:
    """Tokens with repeats, words of no document, and nothing at all."""
    return st.lists(st.sampled_from(WORDS + UNKNOWN), max_size=8)


def bm25_params() -> st.SearchStrategy[tuple[float, float]]:
    """(k1, b), with their ends: k1 = 0 ignores counts, b = 0 ignores lengths."""
    return st.tuples(
        st.sampled_from((1.2, 0.0, 0.9, 1.5, 100.0)), st.sampled_from((0.75, 0.0, 1.0, 0.4))
    )


def limits(n: int) -> st.SearchStrategy[int]:
    """k around its edges for n candidates, and beyond."""
    return st.sampled_from(sorted({0, 1, 2, 10, max(n - 1, 0), n, n + 1, n + 100}))


# ----------------------------------------------------------------------------------------- dense
@dataclass(frozen=True)
class DenseCase:
    queries: Float32  # [Q, D]
    rows: Float32  # [N, D]
    k: int


def _normal(rng: np.random.Generator, shape: tuple[int, int]) -> npt.NDArray[Any]:
    return rng.standard_normal(shape)


def _lattice(rng: np.random.Generator, shape: tuple[int, int]) -> npt.NDArray[Any]:
    return rng.integers(-1, 2, size=shape)


def _subnormal(rng: np.random.Generator, shape: tuple[int, int]) -> npt.NDArray[Any]:
    bits = rng.integers(0, 1 << 23, size=shape, dtype=np.uint32)
    bits |= rng.integers(0, 2, size=shape, dtype=np.uint32) << np.uint32(31)
    return bits.view(np.float32)


def _any_finite(rng: np.random.Generator, shape: tuple[int, int]) -> npt.NDArray[Any]:
    """Every finite float32 is as likely as any other: 77 decades, both signs, both zeros."""
    bits = rng.integers(0, 0x7F800000, size=shape, dtype=np.uint32)
    bits |= rng.integers(0, 2, size=shape, dtype=np.uint32) << np.uint32(31)
    return bits.view(np.float32)


def _cancelling(rng: np.random.Generator, shape: tuple[int, int]) -> npt.NDArray[Any]:
    """Large and small terms in turn: another order of additions gives other bits."""
    return rng.standard_normal(shape) * 10.0 ** rng.integers(-8, 9, size=shape)


KINDS = {
    "normal": _normal,
    "lattice": _lattice,
    "subnormal": _subnormal,
    "any finite": _any_finite,
    "cancelling": _cancelling,
}


@st.composite
def matrices(draw: st.DrawFn, n_rows: int, dim: int) -> Float32:
    """float32 [n_rows, dim], finite; some rows zero, equal, scaled or one ulp apart."""
    rng = np.random.default_rng(draw(seeds()))
    matrix = KINDS[draw(st.sampled_from(sorted(KINDS)))](rng, (n_rows, dim)).astype(np.float32)
    edits = draw(st.lists(st.sampled_from(("zero", "copy", "negate", "half", "ulp")), max_size=6))
    for edit in edits if n_rows and dim else ():
        target, source = rng.integers(0, n_rows, size=2)
        matrix[target] = matrix[source]
        if edit == "zero":
            matrix[target] = 0.0
        elif edit == "negate":
            matrix[target] *= np.float32(-1)
        elif edit == "half":
            matrix[target] *= np.float32(0.5)
        elif edit == "ulp":
            d = rng.integers(0, dim)
            matrix[target, d] = np.nextafter(matrix[target, d], np.float32(0))
    return matrix


@st.composite
def dense_cases(draw: st.DrawFn) -> DenseCase:
    n_rows, dim = draw(st.sampled_from(EDGES)), draw(st.sampled_from(DIMS))
    rows = draw(matrices(n_rows, dim))
    queries = draw(matrices(draw(st.integers(0, 3)), dim))
    if n_rows and len(queries) and draw(st.booleans()):
        queries[0] = rows[draw(st.integers(0, n_rows - 1))]  # a query that meets its own row
    return DenseCase(queries, rows, draw(limits(n_rows)))


# ------------------------------------------------------------------------------------------- MMR
@dataclass(frozen=True)
class MmrCase:
    query_score: Float64  # [N]
    pair_similarity: Float64  # [N, N]; not always symmetric
    limit: int
    diversity: float


@st.composite
def mmr_cases(draw: st.DrawFn) -> MmrCase:
    rng = np.random.default_rng(draw(seeds()))
    n = draw(st.sampled_from(EDGES))
    kind = draw(st.sampled_from(("lattice", "random", "vectors", "constant")))
    if kind == "lattice":  # few values: most steps are ties
        score, similarity = rng.integers(-2, 3, n) / 2.0, rng.integers(-2, 3, (n, n)) / 2.0
    elif kind == "random":
        score, similarity = rng.uniform(-1, 1, n), rng.uniform(-1, 1, (n, n))
    elif kind == "vectors":
        vectors = rng.standard_normal((n + 1, 4))
        vectors /= np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
        cosines = vectors @ vectors.T
        score, similarity = cosines[n, :n].copy(), cosines[:n, :n].copy()
    else:
        score, similarity = np.full(n, 0.5), np.full((n, n), 0.25)
    # The reference looks at every pick for every candidate: few picks where candidates are many.
    limit = draw(limits(n)) if n <= 3 else draw(st.sampled_from((0, 1, 2, 5, 12)))
    if n == 33 and draw(st.booleans()):
        limit = n + 1
    diversity = draw(st.sampled_from((0.5, 0.0, 1.0, 0.3, 0.7)) | st.floats(0.0, 1.0))
    return MmrCase(score, similarity, limit, diversity)
