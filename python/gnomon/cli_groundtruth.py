"""`gnomon groundtruth`: exact neighbours of a file of queries in a file of vectors."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from .cli_common import UserError, user_errors, visible

if TYPE_CHECKING:
    from .groundtruth import Report

_LINE_EVERY_S = 10.0


@click.command(
    short_help="Exact nearest neighbours of a file of queries.",
    context_settings={"max_content_width": 100},
)
@click.argument("base", metavar="BASE")
@click.argument("queries", metavar="QUERIES")
@click.option("-k", default=100, show_default=True, type=click.IntRange(1), help="Neighbours each.")
@click.option(
    "--metric", type=click.Choice(["cosine", "ip", "l2"]), default="cosine", show_default=True
)
@click.option("--out", required=True, help="File to write; its suffix names the format.")
@click.option(
    "--memory", default="2G", show_default=True, help="What the process may use, such as 512M."
)
@click.option("--threads", type=click.IntRange(1), help="Default: all usable cores.")
@click.option(
    "--on-zero",
    type=click.Choice(["error", "zero"]),
    default="error",
    show_default=True,
    help="Zero vectors under cosine: refuse them, or score them 0.",
)
@click.option(
    "--ties-max", default=1000, show_default=True, help="Ties beyond the last place kept a query."
)
@click.option("--checkpoint-every", default=30.0, show_default=True, help="Seconds.")
@click.option("--restart", is_flag=True, help="Ignore the checkpoint of a killed run.")
@click.option("--block-rows", type=click.IntRange(1), hidden=True)
@click.option("--quiet", is_flag=True, help="No progress.")
def groundtruth(
    base: str,
    queries: str,
    k: int,
    metric: str,
    out: str,
    memory: str,
    threads: int | None,
    on_zero: str,
    ties_max: int,
    checkpoint_every: float,
    restart: bool,
    block_rows: int | None,
    quiet: bool,
) -> None:
    """Write the exact k nearest rows of BASE for every row of QUERIES.

    BASE may be larger than memory. Both files are read and checked before the search starts.
    Progress is saved beside OUT: after a kill, the same command goes on where it was, to the same
    result.

    \b
    Vectors:  fvecs ivecs bvecs fbin f16bin u8bin i8bin ibin npy npz hdf5 parquet
              FILE::NAME chooses an array, dataset or column; in HDF5, train and test are usual.
    OUT:      npz (everything: float64 scores, ties, digests), bin (big-ann-benchmarks, DiskANN),
              hdf5 (ann-benchmarks), ivecs, ibin, npy, parquet

    Distances in OUT are 1 - cosine, Euclidean, negative inner product; ties go to the lower row.
    """  # noqa: D301  click reads \b
    from .groundtruth import groundtruth as compute

    began = time.monotonic()
    try:
        with user_errors(), progress(quiet) as report:
            truth = compute(
                base,
                queries,
                k,
                metric=metric,
                out=out,
                memory=memory,
                on_zero=on_zero,
                ties_max=ties_max,
                threads=threads,
                block_rows=block_rows,
                checkpoint_s=checkpoint_every,
                restart=restart,
                report=report,
            )
    except UserError as error:
        if isinstance(error.__cause__, MemoryError):
            raise UserError("out of memory; give a lower --memory, or fewer queries") from error
        raise
    n, width = truth.ids.shape
    inside = (truth.scores == truth.scores[:, -1:]).sum(axis=1)
    click.echo(
        f"{visible(out)}: {n:,} queries, {width} neighbours each of "
        f"{truth.meta['base_rows']:,} rows ({metric}), {time.monotonic() - began:.1f} s; in "
        f"{int((truth.n_tied > inside).sum()):,} queries rows that did not fit tie with the last"
    )


@contextmanager
def progress(quiet: bool) -> Iterator[Report | None]:
    """A report that draws a bar with the time left; in a log, a line every few seconds."""
    if quiet:
        yield None
    elif not sys.stderr.isatty():
        yield _lines()
    else:
        from rich import progress as rich_progress
        from rich.console import Console

        with rich_progress.Progress(
            rich_progress.TextColumn("{task.description}"),
            rich_progress.BarColumn(),
            rich_progress.TaskProgressColumn(),
            rich_progress.TimeElapsedColumn(),
            rich_progress.TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        ) as bar:
            tasks: dict[str, Any] = {}

            def report(phase: str, done: int, total: int) -> None:
                if phase not in tasks:
                    tasks[phase] = bar.add_task(phase, total=total, completed=done)
                bar.update(tasks[phase], completed=done)

            yield report


def _lines() -> Report:
    due = time.monotonic() + _LINE_EVERY_S
    first: dict[str, tuple[float, int]] = {}

    def report(phase: str, done: int, total: int) -> None:
        nonlocal due
        now = time.monotonic()
        since, before = first.setdefault(phase, (now, done))
        if now < due:
            return
        due = now + _LINE_EVERY_S
        rate = (done - before) / (now - since) if now > since else 0.0
        left = f", {(total - done) / rate:,.0f} s left" if rate > 0 else ""
        click.echo(f"{phase}: {100 * done / total:.1f} %{left}", err=True)

    return report
