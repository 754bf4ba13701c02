"""The report of recall as one HTML file that loads nothing, and the curve as PNG or SVG."""

from __future__ import annotations

import html
import importlib.util
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._atomic import replacing
from ._svg import Line, chart
from .formats_source import missing_extra
from .recall import DEFINITIONS, Recall
from .recall_report import COLUMNS, comparisons, notes, row
from .recall_runners import LATENCIES, Point

_STYLE = """body{font:14px/1.45 sans-serif;margin:2em auto;max-width:1100px;padding:0
1em;color:#222} table{border-collapse:collapse;margin:1em 0;display:block;overflow-x:auto}
td,th{border:1px solid #ccc;padding:3px 7px;text-align:right;white-space:nowrap}
td:first-child,th:first-child{text-align:left}th{background:#f3f3f3}li{margin:.2em 0}"""


def curve_lines(
    points: Sequence[Point], runs: dict[str, Recall]
) -> dict[str, list[tuple[float, float]]]:
    """For each index its (recall, queries a second), by rising recall."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for point in points:
        lines.setdefault(point.index, []).append((runs[point.name].mean, point.qps))
    return {name: sorted(line) for name, line in lines.items()}


def wait_lines(
    points: Sequence[Point], runs: dict[str, Recall]
) -> dict[str, list[tuple[float, float]]]:
    """For each index its (recall, 95th percentile of a query's milliseconds), by rising recall."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for point in points:
        lines.setdefault(point.index, []).append((runs[point.name].mean, point.percentiles[1]))
    return {name: sorted(line) for name, line in lines.items()}


def html_report(
    runs: Sequence[Recall],
    points: Sequence[Point] = (),
    *,
    title: str = "Recall",
    facts: Sequence[str] = (),
    worst: int = 20,
) -> str:
    """The page. `facts` are lines about inputs and machine; every text is escaped.

    >>> import gnomon
    >>> run = gnomon.recall([[1, 2]], [[1, 2]], k=2, truth_scores=[[2.0, 1.0]])
    >>> page = html_report([run])
    >>> page.count("<script"), page.count("src="), page.count("href=")
    (0, 0, 0)
    """
    escape = html.escape
    body = [f"<h1>{escape(title)}</h1>", _items(facts)]
    body += ["<h2>Runs</h2>", _table(COLUMNS, [row(run) for run in runs])]
    body.append(
        "<p>recall is tie-aware; low and high are its 95 % bootstrap interval over queries (seed "
        f"{runs[0].seed if runs else 0}, 10,000 resamples).</p>"
    )
    body += [
        "<h2>Definitions</h2>",
        _items([f"{name}: {text}" for name, text in DEFINITIONS.items()]),
    ]
    against = comparisons(runs)
    if against:
        body += ["<h2>Against the first run, on the same queries</h2>", _items(against)]
    said = [f"{run.name} @{run.k}: {note}" for run in runs for note in notes(run)]
    if said:
        body += ["<h2>Notes</h2>", _items(said)]
    if points:
        by_name = {run.name: run for run in runs}
        lines = [Line(name, line) for name, line in curve_lines(points, by_name).items()]
        body += [
            "<h2>Recall and speed</h2>",
            chart(lines, "recall", "queries a second", log_y=True),
        ]
        body.append(_table(CURVE_COLUMNS, curve_rows(points, by_name)))
        slow = [Line(name, line) for name, line in wait_lines(points, by_name).items()]
        body += [
            "<h2>Recall and waiting</h2>",
            "<p>A query alone, in milliseconds: one of twenty takes longer.</p>",
            chart(slow, "recall", "95th percentile, ms", log_y=True),
            "<h2>Waiting per query</h2>",
            chart(_waits(points), "milliseconds", "share of queries", log_x=True),
        ]
    body += ["<h2>Recall per query</h2>", chart(_distributions(runs), "recall", "share of queries")]
    for run in runs:
        cells = [[query, f"{value:.4f}"] for query, value in run.worst(worst) if value < 1.0]
        if cells:
            name = escape(f"{run.name} @{run.k}")
            body.append(f"<details><summary>Worst queries of {name}</summary>")
            body.append(_table(("query", "recall"), cells) + "</details>")
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f"<!doctype html><html><head>{head}</head><body>{''.join(body)}</body></html>\n"


CURVE_COLUMNS = (
    *("index", "setting", "recall", "low", "high", "qps", "seconds", "build_seconds"),
    *LATENCIES,
)


def curve_rows(points: Sequence[Point], runs: dict[str, Recall]) -> list[list[Any]]:
    """One row a setting, in the order of CURVE_COLUMNS."""
    rows = []
    for point in points:
        run = runs[point.name]
        low, high = run.interval
        cells = [point.index, point.setting, run.mean, low, high]
        rows.append([*cells, point.qps, point.seconds, point.build_seconds, *point.percentiles])
    return rows


def _distributions(runs: Sequence[Recall]) -> list[Line]:
    """Of each run, which share of the queries has at most this recall: a step a distinct value."""
    lines = []
    for run in runs:
        values = run.lower if run.lower is not None else run.others["strict-id"]
        assert values is not None
        counted = np.sort(values[~np.isnan(values)])
        distinct, counts = np.unique(counted, return_counts=True)
        steps, below = [], 0.0
        for value, count in zip(distinct.tolist(), counts.tolist(), strict=True):
            steps.append((value, below))
            below += count / len(counted)
            steps.append((value, below))
        lines.append(Line(f"{run.name} @{run.k}", steps, marks=False))
    return lines


def _waits(points: Sequence[Point]) -> list[Line]:
    """Of each setting, which share of the queries took at most so long."""
    lines = []
    for point in points:
        n = len(point.latencies)
        shares = (np.arange(n) + 1) / max(n, 1)
        steps = list(zip(point.latencies.tolist(), shares.tolist(), strict=True))
        lines.append(Line(point.name, steps, marks=False))
    return lines


def _items(lines: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in lines) + "</ul>"


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_cell(cell))}</td>" for cell in cells) + "</tr>"
        for cells in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text file in one step."""
    with replacing(path) as temp:
        temp.write_text(text, encoding="utf-8")


def require_plot(path: str) -> str:
    """The suffix, png or svg; ValueError for another, FormatError where matplotlib is missing."""
    suffix = os.path.splitext(path)[1].removeprefix(".").lower()
    if suffix not in ("png", "svg"):
        raise ValueError(f"a plot is .png or .svg, got {path!r}")
    if importlib.util.find_spec("matplotlib") is None:
        raise missing_extra(path, "matplotlib", "plot")
    return suffix


def write_plot(path: str, points: Sequence[Point], runs: dict[str, Recall]) -> None:
    """Recall against speed and waiting as PNG or SVG, by the suffix; FormatError: no matplotlib."""
    suffix = require_plot(path)
    deepest = max(run.k for run in runs.values())
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "gnomon"}):
        figure = Figure(figsize=(13, 5), layout="constrained")
        panels = {
            "queries a second": curve_lines(points, runs),
            "95th percentile of single queries, ms": wait_lines(points, runs),
        }
        for number, (label, lines) in enumerate(panels.items()):
            axes = figure.add_subplot(1, len(panels), number + 1)
            for name, line in lines.items():
                axes.plot(*zip(*line, strict=True), marker="o", label=name)
            axes.set_yscale("log")
            axes.set_xlabel(f"recall@{deepest} (tie-aware)")
            axes.set_ylabel(label)
            axes.grid(visible=True, which="both", alpha=0.3)
            axes.legend()
        with replacing(path) as temp:
            metadata = {"Date": None} if suffix == "svg" else None
            figure.savefig(temp, format=suffix, dpi=150, metadata=metadata)
