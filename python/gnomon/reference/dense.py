"""Exact dense retrieval: cosine, inner product and L2 over float32 vectors, added in float64.

    lane[l] = sum over d = l, l+8, l+16, ... of q[d] * x[d]     # l = 0..7, ascending d, from 0.0
    dot     = ((lane0 + lane4) + (lane2 + lane6)) + ((lane1 + lane5) + (lane3 + lane7))

The product of two float32 is exact in float64, so a fused multiply-add gives the same bits. L2
squares differences that are rounded first: t = q[d] - x[d], then lane += t * t, each step rounded.

    cosine = dot(q, x) / sqrt(dot(q, q) * dot(x, x)), clipped to [-1, 1]; 0.0 if q or x is zero

sqrt(s * s) is s exactly, so equal rows score exactly 1.0. Nothing underflows: the least non-zero
float32 squares to 2e-90.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

Vector = Sequence[float]


def to_float32(vector: Vector) -> list[float]:
    """Each component rounded to the nearest float32 (ties to even); beyond its range, infinite."""
    try:
        return list(struct.unpack(f"={len(vector)}f", struct.pack(f"={len(vector)}f", *vector)))
    except OverflowError:
        if len(vector) == 1:
            return [math.copysign(math.inf, vector[0])]
        return [to_float32([component])[0] for component in vector]


def dot(q: Vector, x: Vector) -> float:
    """The canonical dot product of two float32 vectors of one dimension."""
    lane = [0.0] * 8
    for d in range(len(q)):
        lane[d % 8] += q[d] * x[d]
    return _sum_of_lanes(lane)


def squared_distance(q: Vector, x: Vector) -> float:
    """The canonical sum of squared differences of two float32 vectors of one dimension."""
    lane = [0.0] * 8
    for d in range(len(q)):
        t = q[d] - x[d]
        lane[d % 8] += t * t
    return _sum_of_lanes(lane)


def cosine(q: Vector, x: Vector) -> float:
    """Cosine similarity in [-1, 1]; 0.0 where one of the vectors is zero.

    >>> cosine([82.0, 106.0, 20.0], [82.0, 106.0, 20.0])
    1.0
    """
    qq = dot(q, q)
    xx = dot(x, x)
    if qq == 0.0 or xx == 0.0:
        return 0.0
    return max(-1.0, min(1.0, dot(q, x) / math.sqrt(qq * xx)))


def inner_product(q: Vector, x: Vector) -> float:
    """The canonical dot product, under the name of the metric."""
    return dot(q, x)


def l2(q: Vector, x: Vector) -> float:
    """The negative squared Euclidean distance: higher is nearer, as in every other metric."""
    return 0.0 - squared_distance(q, x)  # not -distance: equal vectors score 0.0, not -0.0


METRICS: dict[str, Callable[[Vector, Vector], float]] = {
    "cosine": cosine,
    "ip": inner_product,
    "l2": l2,
}


def top_k(
    query: Vector, rows: Sequence[Vector], k: int, metric: str = "cosine"
) -> list[tuple[int, float]]:
    """The best `k` (position, score) of `rows`: higher score first, then lower position.

    All numbers are rounded to float32 first. Raises ValueError for a query or row that is not
    finite then, or whose dimension differs from the query's.

    >>> top_k([1, 0], [[0, 2], [3, 0], [0, 0]], k=2)
    [(1, 1.0), (0, 0.0)]
    """
    score = METRICS[metric]
    q = _finite_float32(query, "query")
    hits = []
    for position, row in enumerate(rows):
        if len(row) != len(q):
            raise ValueError(f"row {position} has {len(row)} components, the query {len(q)}")
        hits.append((position, score(q, _finite_float32(row, f"row {position}"))))
    hits.sort(key=lambda hit: (-hit[1], hit[0]))
    return hits[:k]


def _sum_of_lanes(lane: list[float]) -> float:
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]))


def _finite_float32(vector: Vector, name: str) -> list[float]:
    rounded = to_float32(vector)
    for d, component in enumerate(rounded):
        if not math.isfinite(component):
            raise ValueError(
                f"{name} holds {component} at component {d}; all must be finite float32"
            )
    return rounded
