"""The figures of recall as plain types, lines of text and CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .recall_stats import mean, paired, wilson

if TYPE_CHECKING:
    from .recall import Recall
    from .recall_runners import Point

QUANTILES = {"min": 0.0, "p1": 0.01, "p5": 0.05, "p10": 0.10, "p50": 0.50}


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def figures(run: Recall) -> dict[str, Any]:
    """All figures of one run at one k as JSON types."""
    values = run.lower if run.lower is not None else run.others["strict-id"]
    assert values is not None
    counted = np.sort(values[~np.isnan(values)])
    n = len(counted)
    perfect, none = int((counted == 1.0).sum()), int((counted == 0.0).sum())
    strict = run.mean_of("strict-id")
    coverage = run.coverage._asdict()
    return {
        "name": run.name,
        "k": run.k,
        "queries": n,
        "recall": _number(run.mean),
        "recall_upper": _number(run.mean_upper),
        "interval95": [_number(value) for value in run.interval],
        "others": {name: _number(run.mean_of(name)) for name in run.others},
        "per_query": {
            name: float(counted[min(n - 1, int(share * n))]) if n else None
            for name, share in QUANTILES.items()
        },
        "perfect": perfect,
        "perfect_interval95": [_number(value) for value in wilson(perfect, n)],
        "zero": none,
        "ties": {
            "effect": _number(run.mean - strict),
            "queries_crossing": None if run.crossing is None else int(run.crossing.sum()),
            "queries_cut_off": None if run.cut_off is None else int(run.cut_off.sum()),
        },
        "coverage": {name: int(counts.sum()) for name, counts in coverage.items()},
        "coverage_queries": {name: int((counts > 0).sum()) for name, counts in coverage.items()},
        "truth_beaten": run.beat_truth,
        "queries_without_truth": run.without_truth,
        "distance_ratio": _ratio(run),
        "queries_at_distance_zero": run.at_zero,
    }


def _ratio(run: Recall) -> dict[str, float | None] | None:
    if run.distance_ratio is None:
        return None
    values = run.distance_ratio[~np.isnan(run.distance_ratio)]
    worst = float(values.max()) if len(values) else math.nan
    return {"mean": _number(mean(values)), "worst_query": _number(worst)}


def notes(run: Recall) -> list[str]:
    """What a reader must know before taking the number at face value."""
    said = figures(run)
    found = []
    if run.lower is None:
        found.append("the truth has no distances: ties are unknown, only strict-id is given")
    cut = said["ties"]["queries_cut_off"]
    if cut:
        found.append(
            f"{cut} queries: the truth ends inside a group of ties, so the recall is between two "
            "numbers; give --base and --queries, or a truth made by gnomon"
        )
    effect = said["ties"]["effect"]
    if effect:
        crossing = said["ties"]["queries_crossing"]
        found.append(
            f"ties: {crossing} queries have more ties than places; {effect:+.4f} in the mean"
        )
    for name, count in said["coverage"].items():
        if count:
            queries = said["coverage_queries"][name]
            found.append(f"{name.replace('_', ' ')}: {count} places in {queries} queries, misses")
    if run.beat_truth:
        found.append(
            f"{run.beat_truth} returned rows are better than the truth's last: the truth is not "
            "exact, or was made with another metric"
        )
    if run.at_zero:
        found.append(f"{run.at_zero} queries have a neighbour at distance 0: rows of the base?")
    if said["queries_without_truth"]:
        found.append(f"{said['queries_without_truth']} queries have no neighbours and are left out")
    if said["queries"] and said["perfect"] == said["queries"]:
        low = said["perfect_interval95"][0]
        found.append(f"every query is perfect: in truth at least {low:.1%} are (Wilson, 95 %)")
    return found


def comparisons(runs: Sequence[Recall]) -> list[str]:
    """Each run against the first at the same k, on the same queries."""
    lines = []
    for run in runs:
        first = next(other for other in runs if other.k == run.k)
        if run is first or run.lower is None or first.lower is None:
            continue
        both = ~np.isnan(run.lower) & ~np.isnan(first.lower)
        delta = paired(first.lower[both], run.lower[both], run.seed)
        verdict = "significant" if delta.significant else "not significant"
        low, high = delta.interval
        lines.append(
            f"recall@{run.k}: {run.name} - {first.name} = {delta.mean:+.4f} "
            f"[{low:+.4f}, {high:+.4f}], {verdict}"
        )
    return lines


COLUMNS = (
    *("name", "k", "queries", "recall", "recall_upper", "low", "high"),
    *("strict_id", "distance_threshold", "ann_benchmarks", "ann_benchmarks_1pct", "big_ann"),
    *("min", "p1", "p5", "p10", "p50", "perfect", "zero"),
    *("ties_effect", "crossing", "cut_off", "missing", "repeated", "out_of_range", "ratio_mean"),
)


def row(run: Recall) -> list[Any]:
    """The figures of a run in the order of COLUMNS; "" for what is unknown."""
    said = figures(run)
    cells = [said["name"], said["k"], said["queries"], said["recall"], said["recall_upper"]]
    cells += [*said["interval95"], *said["others"].values(), *said["per_query"].values()]
    cells += [said["perfect"], said["zero"], *said["ties"].values(), *said["coverage"].values()]
    cells.append((said["distance_ratio"] or {}).get("mean"))
    return ["" if cell is None else cell for cell in cells]


SPEED_COLUMNS = ("qps", "seconds", "build_seconds", "p50_ms", "p95_ms", "p99_ms")


def as_csv(runs: Sequence[Recall], points: Sequence[Point] = ()) -> str:
    """One line a run and k, under a header; the last columns are of indexes that were run here."""
    speeds = {
        point.name: [point.qps, point.seconds, point.build_seconds, *point.percentiles]
        for point in points
    }
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, *SPEED_COLUMNS])
    writer.writerows([*row(run), *speeds.get(run.name, [""] * len(SPEED_COLUMNS))] for run in runs)
    return text.getvalue()
