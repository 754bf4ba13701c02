"""`gnomon recall`: results against exact neighbours, and indexes run on the spot."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

from .cli_common import print_table, user_errors, visible

if TYPE_CHECKING:
    from .recall import Recall
    from .recall_counts import Int64Array, Truth
    from .recall_runners import Point

_INDEXES = "gnomon, faiss:Flat, faiss:IVF, faiss:HNSW, hnswlib, usearch"


@click.command(
    short_help="Recall of results, ties counted right.",
    context_settings={"max_content_width": 100},
)
@click.argument("truth", metavar="TRUTH")
@click.argument("results", nargs=-1, metavar="[RESULT...]")
@click.option(
    "-k", "ks", multiple=True, type=click.IntRange(1), help="May be given again. Default: 10."
)
@click.option("--base", help="Vectors; with --queries all scores are computed anew, exactly.")
@click.option("--queries", help="Vectors of the queries.")
@click.option("--metric", type=click.Choice(["cosine", "ip", "l2"]), help="Default: the truth's.")
@click.option("--n-base", type=click.IntRange(1), help="Rows of the base, if TRUTH does not say.")
@click.option("--index", "indexes", multiple=True, metavar="SPEC", help=f"Run {_INDEXES}.")
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1), help="Of --index.")
@click.option(
    "--repeats", default=3, show_default=True, type=click.IntRange(1), help="Of a timing."
)
@click.option(
    "--worst", default=10, show_default=True, type=click.IntRange(0), help="Worst queries to list."
)
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0), help="Of the bootstrap."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--csv", "csv_file", metavar="FILE", help="Write the table.")
@click.option("--plot", "plot_file", metavar="FILE", help="Recall against speed, .png or .svg.")
@click.option("--html", "html_file", metavar="FILE", help="Write a report that loads nothing.")
def recall(
    truth: str,
    results: tuple[str, ...],
    ks: tuple[int, ...],
    base: str | None,
    queries: str | None,
    metric: str | None,
    n_base: int | None,
    indexes: tuple[str, ...],
    threads: int,
    repeats: int,
    worst: int,
    seed: int,
    as_json: bool,
    csv_file: str | None,
    plot_file: str | None,
    html_file: str | None,
) -> None:
    """Compare each RESULT, and each --index, with the exact neighbours in TRUTH.

    recall@k is 1 for a query if and only if the answer is an exact top k, whichever of the tied
    rows it chose; repeated ids, -1 and ids that do not exist are misses. Where TRUTH ends inside a
    group of ties, two numbers are given; with --base and --queries there is one. Other definitions
    stand beside it, labelled. Intervals: 95 %, bootstrap over queries.

    \b
    strict-id    overlap with the k ids that TRUTH happens to keep
    threshold    distinct ids no farther than the k-th: ties stand in for better ones
    ann-bench    ann-benchmarks: distance <= k-th + 1e-3, repeats count (needs the vectors)
    big-ann      big-ann-benchmarks: overlap with TRUTH's ids up to 1e-6 behind the k-th distance

    \b
    TRUTH, RESULT:  npz, bin, hdf5, ivecs, ibin, npy, parquet
    SPEC:           NAME[,option=number...][@knob,knob...], such as hnswlib,M=32@10,20,40
                    needs --base and --queries
    """  # noqa: D301  click reads \b
    from .recall import recall_many
    from .recall_inputs import as_results, as_truth
    from .recall_runners import versions

    given = ks or (10,)
    if (base is None) != (queries is None):
        raise click.UsageError("--base and --queries are given together")
    if not results and not indexes:
        raise click.UsageError("name at least one RESULT, or an --index to run")
    if indexes and base is None:
        raise click.UsageError("--index needs --base and --queries")
    if plot_file and not indexes:
        raise click.UsageError("--plot draws recall against speed, which needs --index")
    with user_errors():
        _require_places(csv_file, plot_file, html_file)
        exact = as_truth(truth, None, n_base, metric)
        runs: dict[str, Int64Array] = {}
        for name in results:
            runs[name] = as_results(name, len(exact.ids))
        points: list[Point] = []
        if base is not None and queries is not None and indexes:
            points = _run(indexes, exact, base, queries, max(given), threads, repeats)
        runs |= {point.name: point.ids for point in points}
        vectors = None if base is None else (base, queries)
        measured = recall_many(exact, runs, list(given), vectors, seed)
        facts = [f"truth: {truth}", f"queries: {len(exact.ids)}"]
        if points:
            asked = f"indexes were asked for {max(given)} neighbours"
            facts.append(f"libraries: {', '.join(versions(indexes))}")
            facts.append(f"{asked}, with {threads} threads; the fastest of {repeats} counts")
        _write(measured, points, max(given), facts, csv_file, plot_file, html_file, worst)
    if as_json:
        click.echo(json.dumps(_as_dict(measured, points, worst)))
    else:
        _print(measured, points, worst)


def _require_places(csv_file: str | None, plot_file: str | None, html_file: str | None) -> None:
    """Finds out before indexes are built, not after, that a report has no place."""
    from ._atomic import require_plain
    from .recall_html import require_plot

    if plot_file:
        require_plot(plot_file)
    for name in filter(None, (csv_file, plot_file, html_file)):
        folder = os.path.dirname(os.path.realpath(name))
        if os.path.isdir(name):
            raise IsADirectoryError(21, "a directory; name a file", name)
        if not os.path.isdir(folder):
            raise FileNotFoundError(2, "no such directory; make it first", folder)
        require_plain(name)


def _run(
    indexes: tuple[str, ...],
    truth: Truth,
    base: str,
    queries: str,
    k: int,
    threads: int,
    repeats: int,
) -> list[Point]:
    """Builds and searches the indexes; a library that is missing ends the command at once."""
    from .arrays import as_float32
    from .groundtruth import opened
    from .recall_inputs import require_fitting
    from .recall_runners import parse_spec, sweep

    for spec in indexes:
        parse_spec(spec)
    with opened(base, "base") as rows, opened(queries, "queries") as wanted:
        require_fitting(truth, rows, wanted)
        matrix = as_float32(rows.read(0, rows.n_rows), "base")
        asked = as_float32(wanted.read(0, wanted.n_rows), "queries")
    points: list[Point] = []
    for spec in dict.fromkeys(indexes):
        found = sweep(spec, matrix, asked, str(truth.metric), k, threads=threads, repeats=repeats)
        for point in found:
            points.append(point)
            alone = f"alone p95 {point.percentiles[1]:.3g} ms"
            click.echo(f"{point.name}: {point.qps:,.0f} queries/s, {alone}", err=True)
    return points


def _write(
    runs: list[Recall],
    points: list[Point],
    k: int,
    facts: list[str],
    csv_file: str | None,
    plot_file: str | None,
    html_file: str | None,
    worst: int,
) -> None:
    from .recall_html import html_report, write_plot, write_text
    from .recall_report import as_csv

    deepest = [run for run in runs if run.k == k]
    if csv_file:
        write_text(csv_file, as_csv(runs, points))
    if html_file:
        shown = runs if not points else deepest
        write_text(html_file, html_report(shown, points, facts=facts, worst=worst))
    if plot_file:
        write_plot(plot_file, points, {run.name: run for run in deepest})


def _as_dict(runs: list[Recall], points: list[Point], worst: int) -> dict[str, Any]:
    from .recall_report import comparisons, notes
    from .recall_runners import LATENCIES

    speeds = {
        point.name: {
            "qps": point.qps,
            "seconds": point.seconds,
            "build_seconds": point.build_seconds,
            **dict(zip(LATENCIES, point.percentiles, strict=True)),
        }
        for point in points
    }
    return {
        "runs": [
            {
                **run.as_dict(),
                "notes": notes(run),
                "worst": run.worst(worst),
                "speed": speeds.get(run.name),
            }
            for run in runs
        ],
        "comparisons": comparisons(runs),
    }


def _print(runs: list[Recall], points: list[Point], worst: int) -> None:
    from .recall_report import comparisons, notes
    from .recall_stats import RESAMPLES

    speeds = {point.name: (point.qps, point.percentiles[1]) for point in points}
    columns = ["run", "k", "recall", "95 %", "strict-id", "threshold", "ann-bench", "big-ann"]
    columns += ["min", "p5", "perfect"] + (["queries/s", "p95 ms"] if points else [])
    rows = []
    for run in runs:
        said = run.as_dict()
        others = said["others"]
        low, high = said["interval95"]
        mean = _figure(said["recall"])
        if said["recall"] != said["recall_upper"]:
            mean += f" .. {_figure(said['recall_upper'])}"
        cells = [visible(run.name), str(run.k), mean, f"{_figure(low)} - {_figure(high)}"]
        names = ("strict-id", "distance-threshold", "ann-benchmarks", "big-ann")
        cells += [_figure(others[name]) for name in names]
        cells += [_figure(said["per_query"][name]) for name in ("min", "p5")]
        cells.append(f"{said['perfect']}/{said['queries']}")
        if run.name in speeds:
            qps, wait = speeds[run.name]
            cells += [f"{qps:,.0f}", f"{wait:.3g}"]
        elif points:
            cells += ["", ""]
        rows.append(cells)
    print_table(columns, rows)
    for run in runs:
        if run.name in speeds:  # dozens of settings; their notes are in --json and --html
            continue
        for note in notes(run):
            click.echo(f"{visible(run.name)} @{run.k}: {note}")
        bad = [f"{query} ({value:.2f})" for query, value in run.worst(worst) if value < 1.0]
        if bad:
            click.echo(f"{visible(run.name)} @{run.k}: worst queries: {', '.join(bad)}")
    for line in comparisons(runs):
        click.echo(visible(line))
    click.echo(
        f"95 %: percentile bootstrap over queries, {RESAMPLES:,} resamples, seed {runs[0].seed}"
    )


def _figure(value: float | None) -> str:
    """Four digits; what is less than 1 is not rounded to it."""
    if value is None:
        return "-"
    return "0.9999" if 0.99995 <= value < 1.0 else f"{value:.4f}"
