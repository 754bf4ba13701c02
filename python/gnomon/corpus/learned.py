"""Weights of the search modes learned from outcomes, apart for each type of task.

Off unless given: ``Corpus.open(path, learned=...)`` (``--learned FILE`` on the command line) makes
them count in the fusion of hybrid searches, for the `task` of each; the tools ask as
``search_general_knowledge``. They say what they rest on (`table`, ``gnomon corpus learned FILE``,
and a note in each answer), they are bounded, and with few outcomes they hardly differ from 1.

For a type of task and a mode with s successes in n outcomes the estimate is (s + 1) / (n + 2), the
mean of a Beta(1, 1) prior's posterior. A mode's weight is its estimate over the mean of all modes'
estimates, not below 1/2 and not above 2. A type of task with fewer than 8 outcomes has the weights
of all types together; without 8 of those they are all 1.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ..fusion import rrf_scores
from .answers import Answer, Item, Part, Score
from .eval_tasks import Passage, Task, share
from .kept_file import load, save
from .questions import Questions

FORMAT, VERSION = "gnomon-learned-weights", 1
MODES = ("sparse", "dense", "hybrid", "exact")
OUTCOMES_LEAST = 8
LOWEST, HIGHEST = 0.5, 2.0
TYPES_MAX, TYPE_LENGTH = 1000, 200
EVERY = ""  # the type that stands for all


class LearnedWeights:
    """Outcomes per type of task and mode, and the weights that follow from them.

    >>> learned = LearnedWeights()
    >>> for number in range(20):
    ...     learned.note("error", "sparse", True)
    ...     learned.note("error", "dense", number % 4 == 0)
    >>> weights = learned.weights("error")
    >>> round(weights["sparse"], 3), round(weights["dense"], 3), weights["exact"] <= 2.0
    (1.714, 0.5, True)
    >>> learned.weights("never seen") == learned.weights("")
    True
    """

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, list[int]]] = {}  # type -> mode -> [successes, outcomes]

    def note(self, task_type: str, mode: str, success: bool) -> None:
        """One outcome: a search in this mode did or did not serve a task of this type."""
        if mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
        if not isinstance(task_type, str) or not 0 < len(task_type) <= TYPE_LENGTH:
            raise ValueError(f"task_type must have 1 to {TYPE_LENGTH} characters")
        if task_type not in self._counts and len(self._counts) >= TYPES_MAX:
            raise ValueError(f"there are {TYPES_MAX} types of tasks already; use fewer")
        count = self._counts.setdefault(task_type, {}).setdefault(mode, [0, 0])
        count[0] += bool(success)
        count[1] += 1

    def counts(self, task_type: str) -> dict[str, tuple[int, int]]:
        """For each mode (successes, outcomes) of a type; "" is all types together."""
        kinds = self._counts if task_type == EVERY else {task_type: None}
        found = dict.fromkeys(MODES, (0, 0))
        for kind in kinds:
            for mode, (won, n) in self._counts.get(kind, {}).items():
                found[mode] = found[mode][0] + won, found[mode][1] + n
        return found

    def weights(self, task_type: str) -> dict[str, float]:
        """The weight of each mode, from 1/2 to 2."""
        for kind in (task_type, EVERY):
            counts = self.counts(kind)
            if sum(n for _, n in counts.values()) >= OUTCOMES_LEAST:
                break
        else:
            return dict.fromkeys(MODES, 1.0)
        estimates = {mode: (won + 1) / (n + 2) for mode, (won, n) in counts.items()}
        total = 0.0
        for mode in MODES:
            total += estimates[mode]
        mean = total / len(MODES)
        return {mode: min(max(estimates[mode] / mean, LOWEST), HIGHEST) for mode in MODES}

    def every(self) -> dict[str, dict[str, float]]:
        """The weights of each type as they are now, and under "" those of all types."""
        return {kind: self.weights(kind) for kind in (*self._counts, EVERY)}

    def table(self) -> list[dict[str, Any]]:
        """What the weights rest on: a row for each type and mode with an outcome."""
        return [
            {
                "task_type": kind or "(all)",
                "mode": mode,
                "successes": won,
                "outcomes": n,
                "weight": self.weights(kind)[mode],
            }
            for kind in (*sorted(self._counts), EVERY)
            for mode, (won, n) in self.counts(kind).items()
            if n
        ]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the outcomes (not the weights) as a versioned JSON file."""
        save(path, FORMAT, VERSION, self._counts)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LearnedWeights:
        """Reads what `save` wrote; ValueError for anything else."""
        made = cls()
        body = load(path, FORMAT, VERSION)
        try:
            for kind, modes in body.items():
                for mode, (won, n) in modes.items():
                    right = mode in MODES and type(won) is int and type(n) is int
                    if not right or not 0 <= won <= n:
                        raise ValueError(f"{mode!r}: {won!r} of {n!r}")
                    made._counts.setdefault(str(kind), {})[mode] = [won, n]
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"{os.fspath(path)} holds no outcomes: {error}") from error
        return made


def observe(
    asked: Questions[Answer],
    tasks: Iterable[Task],
    learned: LearnedWeights,
    task_type: str,
    *,
    modes: Iterable[str] = ("sparse", "dense"),
    k: int = 10,
) -> int:
    """Asks each answerable task's question in each mode, and notes whether a quote of its evidence
    lies inside one of the first `k` passages. Returns the number of outcomes.

    A mode that the corpus cannot serve gives no outcome.
    """
    n, every = 0, tuple(modes)
    for task in tasks:
        for mode in every if task.evidence else ():
            options: dict[str, Any] = {"relax": False, "detail": "ids", "max_tokens": 100_000}
            answer = asked.hybrid_search(task.question[:16_000], mode, k=k, **options)
            if answer.report.mode != mode:
                continue
            shown = [Passage(item.path, *item.span, "", id=item.chunk_id) for item in answer.items]
            learned.note(task_type, mode, share(task, shown, shown=False) > 0)
            n += 1
    return n


def weighted_search(
    asked: Questions[Answer],
    query: str,
    learned: LearnedWeights,
    task_type: str,
    *,
    k: int = 10,
    depth: int = 50,
    modes: Iterable[str] = ("sparse", "dense"),
    **options: Any,
) -> Answer:
    """Reciprocal rank fusion of the modes' rankings (60, depth 50) with the learned weights.

    Each mode is asked for `depth` passages; `options` are those of `hybrid_search`. The score of an
    item is the sum of its parts ``rrf:MODE``; the report's notes have the weights. A mode that the
    corpus cannot serve (dense without vectors) takes no part.
    """
    weights, items, rankings, names = learned.weights(task_type), dict[str, Item](), [], []
    report = None
    for mode in modes:
        answer = asked.hybrid_search(
            query, mode, k=depth, relax=False, **{"max_tokens": 100_000, **options}
        )
        report = report or answer.report
        if answer.report.problem is None and answer.items:
            rankings.append([item.chunk_id for item in answer.items])
            names.append(mode)
            for item in answer.items:
                items.setdefault(item.chunk_id, item)
    if report is None:
        raise ValueError("modes must name at least one mode")
    given = [weights[mode] for mode in names]
    scores = rrf_scores(rankings, weights=given) if rankings else {}
    best = sorted(scores, key=lambda chunk: (-scores[chunk], chunk))[:k]
    for chunk in best:
        parts = tuple(
            Part(f"rrf:{mode}", rrf_scores([ranking], weights=[weight]).get(chunk, 0.0))
            for mode, ranking, weight in zip(names, rankings, given, strict=True)
            if chunk in ranking
        )
        items[chunk].score = Score(scores[chunk], parts)
    report.mode, report.returned, report.cursor = "weighted", len(best), ""
    report.exhaustive, report.total = False, len(scores)
    report.notes = (*report.notes, *(f"weight of {mode}: {weights[mode]!r}" for mode in names))
    return Answer(report, [items[chunk] for chunk in best])
