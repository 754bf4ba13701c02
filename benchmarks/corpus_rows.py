"""Rows of the corpus goals, and the clock that they share."""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

ROUNDS = 5


def row(
    goal: int,
    what: str,
    value: float,
    unit: str,
    limit: tuple[str, float] | None = None,
    **more: Any,
) -> None:
    """Prints a figure; `limit` is ("<=" or ">=", number) where the goal sets one."""
    said: dict[str, Any] = {"what": f"goal {goal}: {what}", "value": round(value, 4), "unit": unit}
    said["goal"] = goal
    if limit is not None:
        side, bound = limit
        said["limit"] = f"{side} {bound:g} {unit}"
        said["met"] = value <= bound if side == "<=" else value >= bound
    print(json.dumps(said | more), flush=True)


def late(times: Sequence[float], share: float = 0.95) -> float:
    """The 95th percentile."""
    return sorted(times)[int(share * (len(times) - 1))]


def interleaved(
    runs: Mapping[str, tuple[Callable[[Any], Any], Sequence[Any]]], rounds: int = ROUNDS
) -> dict[str, list[float]]:
    """Of each run the milliseconds of each of its questions, the least of the rounds.

    `runs` has what is called and the questions, as many for each. They take turns question by
    question, each time in another order: who comes behind a slow one finds the caches cold.
    """
    order, mixed = list(runs), random.Random(1)
    n = min(len(given) for _, given in runs.values())
    best = {name: [float("inf")] * n for name in runs}
    for run, given in runs.values():
        for each in given[:3]:
            run(each)
    for _ in range(rounds):
        for i in range(n):
            mixed.shuffle(order)
            for name in order:
                run, given = runs[name]
                began = time.perf_counter()
                run(given[i])
                took = (time.perf_counter() - began) * 1000
                best[name][i] = min(best[name][i], took)
    return best


def middle(times: Sequence[float]) -> float:
    """The median."""
    return statistics.median(times)
