"""What a mode of search found, and how two rankings become one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .answers import Part

FUSED = 100  # how deep hybrid looks into each index
# Of two rankings a reader sees the first few: with the usual 60 what both rank fiftieth beats what
# one ranks second. With 5 both together are above the better one, or within a point of it, on
# MuSiQue and HotpotQA (benchmarks/bench_corpus_multihop.py); with 60 they are not.
RRF_K = 5.0
EVEN: Mapping[str, float] = {"sparse": 1.0, "dense": 1.0}


@dataclass
class Ranking:
    """What a mode found: slots, best first, as far as they were asked for.

    `more` says that there are others behind; `total` counts what answers as written.
    """

    slots: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    sparse: dict[int, float] = field(default_factory=dict)
    dense: dict[int, float] = field(default_factory=dict)
    parts: dict[int, tuple[Part, ...]] = field(default_factory=dict)
    relaxed: dict[int, str] = field(default_factory=dict)
    total: int = 0
    more: bool = False
    exhaustive: bool = False

    def reordered(self, order: list[int], more: bool) -> None:
        """Keeps these places of the list, in this order."""
        self.slots = [self.slots[place] for place in order]
        self.scores = [self.scores[place] for place in order]
        self.more = more


def fused(
    sparse: Ranking, dense: Mapping[int, float], wanted: int, weights: Mapping[str, float] = EVEN
) -> Ranking:
    """Reciprocal rank fusion: an item's score is the sum of weight / (RRF_K + its rank)."""
    parts: dict[int, tuple[Part, ...]] = {}
    for name, ranked in (("sparse", sparse.slots), ("dense", list(dense))):
        for rank, slot in enumerate(ranked, 1):
            part = Part(f"rrf:{name}", weights[name] / (RRF_K + rank))
            parts[slot] = (*parts.get(slot, ()), part)
    values = {slot: sum_of(each) for slot, each in parts.items()}
    order = sorted(values, key=lambda slot: (-values[slot], slot))
    shown = order[:wanted]
    return Ranking(
        shown,
        [values[slot] for slot in shown],
        sparse.sparse,
        dict(dense),
        parts,
        {},
        len(order),
        len(order) > wanted,
    )


def sum_of(parts: tuple[Part, ...]) -> float:
    """The score that its parts add up to, from left to right."""
    total = 0.0
    for part in parts:
        total += part.value
    return total
