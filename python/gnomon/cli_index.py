"""`gnomon index`: reads files, writes an index directory, says what it did and what it left out."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from .cli_common import UserError, signals_held, user_errors, visible
from .documents import MAX_BYTES, Document, Options, Problems

if TYPE_CHECKING:
    from .passage_store import PassageWriter
    from .sources import Sources

Report = Callable[[int], None]  # takes the bytes read so far


@dataclass(frozen=True)
class Summary:
    """What an index holds and what making it took. MB are 10**6 bytes."""

    documents: int
    passages: int
    tokens: int
    terms: int
    megabytes: float
    seconds: float
    megabytes_per_s: float


def _parse_bytes(text: str) -> int:
    """A number of bytes, with K, M or G for powers of 1024."""
    match = re.fullmatch(r"(\d{1,15})([KMG]?)(?:I?B)?", text.strip().upper())
    if match is None or int(match[1]) == 0:
        raise click.BadParameter(f"{text!r} is not a size; write 5000000, 512K, 256M or 2G")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]


@click.command(short_help="Make an index of files and folders.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=str))
@click.option("--out", required=True, type=click.Path(path_type=str), help="Directory to write.")
@click.option(
    "--analyzer",
    default="standard-v1",
    show_default=True,
    help="How text becomes tokens: standard-v1 or basic-v1.",
)
@click.option("--text-field", help="Field of records to index; default: text, body, content, ...")
@click.option("--title-field", help="Field put before the text; default: title; '' for none.")
@click.option("--id-field", help="Field with the record's id; default: _id or id.")
@click.option("--encoding", help="For files that are not UTF-8 and do not say what they are.")
@click.option(
    "--max-bytes",
    type=_parse_bytes,
    metavar="BYTES",
    default=str(MAX_BYTES >> 20) + "M",
    show_default=True,
    help="Longer files and records are reported, not read.",
)
@click.option("--overwrite", is_flag=True, help="Replace the index that --out holds.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
def index(
    paths: tuple[str, ...],
    out: str,
    analyzer: str,
    text_field: str | None,
    title_field: str | None,
    id_field: str | None,
    encoding: str | None,
    max_bytes: int,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Index the text of PATHS into the directory --out.

    Folders are searched for .md .markdown .txt .rst .html .htm .py (one document each) and .jsonl
    .ndjson .csv .tsv .parquet (one document for each record). What cannot be read is reported and
    left out.
    """
    from .sources import Sources

    with user_errors():
        if os.path.lexists(out) and not overwrite:
            raise UserError(f"{out}: already exists; --overwrite replaces it")
        options = Options(text_field, title_field, id_field, encoding, max_bytes)
        sources = Sources(paths, options)
        if not as_json:
            megabytes = sources.bytes_total / 1e6
            click.echo(f"{len(sources.files):,} files, {megabytes:,.1f} MB", err=True)
        with _progress(sources.bytes_total) as report:
            documents = _reporting(sources, report)
            try:
                summary = write_index(documents, out, analyzer, lambda: sources.bytes_read)
            except NothingToIndexError:
                summary = None
        if summary is None:
            _print_problems(sources.problems)
            raise UserError(f"no text found in {', '.join(paths)}; no index was written")
        _print_summary(summary, sources.problems, sources.other_files, out, as_json)


class NothingToIndexError(Exception):
    """There was no passage to index."""


def write_index(
    documents: Iterator[Document], out: str, analyzer: str, bytes_read: Callable[[], int]
) -> Summary:
    """Streams `documents` into an index directory at `out`; all or nothing.

    Raises NothingToIndexError when they hold no text, ValueError for an unknown analyzer, OSError.
    """
    from .analysis import Analyzer
    from .bm25 import BM25Index
    from .passage_store import PART, PassageWriter
    from .storage import DirectoryWriter

    began = time.perf_counter()
    with ExitStack() as stack:
        with (
            signals_held()
        ):  # else an interrupt between entering and the first line leaves a folder
            directory = stack.enter_context(DirectoryWriter(out))
        passages = PassageWriter(directory)
        texts = _passages(documents, passages)
        bm25 = BM25Index.build(texts, analyzer=Analyzer(analyzer))
        if len(bm25) == 0:
            raise NothingToIndexError
        meta = {PART: passages.finish(), "bm25": bm25.write_part(directory)}
        directory.commit(meta)
    seconds = time.perf_counter() - began
    megabytes = bytes_read() / 1e6
    return Summary(
        documents=meta[PART]["documents"],
        passages=len(bm25),
        tokens=bm25.n_tokens,
        terms=bm25.n_terms,
        megabytes=megabytes,
        seconds=seconds,
        megabytes_per_s=megabytes / seconds,
    )


def _passages(documents: Iterator[Document], passages: PassageWriter) -> Iterator[str]:
    for document in documents:
        yield from passages.add(document)


def _reporting(documents: Sources, report: Report) -> Iterator[Document]:
    for document in documents:
        yield document
        report(documents.bytes_read)


@contextmanager
def _progress(total: int) -> Iterator[Report]:
    """A bar on a terminal, elsewhere a line every ten seconds; yields what takes the bytes read."""
    total = max(total, 1)
    if not sys.stderr.isatty():
        yield _at_most_every(
            10.0,
            lambda done: click.echo(f"{done / 1e6:,.0f} MB, {100 * done // total} %", err=True),
        )
        return
    from rich import progress
    from rich.console import Console

    with progress.Progress(
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("index", total=total)
        yield _at_most_every(0.1, lambda done: bar.update(task, completed=done))


def _at_most_every(wait_s: float, report: Report) -> Report:
    due = time.monotonic() + wait_s

    def reported(done: int) -> None:
        nonlocal due
        now = time.monotonic()
        if now >= due:
            due = now + wait_s
            report(done)

    return reported


def _print_problems(problems: Problems) -> None:
    for line in problems.first:
        click.echo(f"left out: {visible(line)}", err=True)
    if len(problems) > len(problems.first):
        click.echo(f"left out: {len(problems) - len(problems.first):,} more", err=True)


def _print_summary(
    summary: Summary, problems: Problems, other_files: int, out: str, as_json: bool
) -> None:
    if as_json:
        everything = asdict(summary) | {
            "index": out,
            "index_bytes": directory_bytes(out),
            "problems": problems.counts,
            "first_problems": problems.first,
            "other_files": other_files,
        }
        click.echo(json.dumps(everything))
        return
    _print_problems(problems)
    print_figures(summary)
    click.echo(f"index      {directory_bytes(out) / 1e6:,.1f} MB in {visible(out)}")
    if problems:
        reasons = sorted(problems.counts.items(), key=lambda item: (-item[1], item[0]))
        left_out = ", ".join(f"{reason} {count:,}" for reason, count in reasons)
        click.echo(f"left out   {len(problems):,} ({left_out})")
    if other_files:
        click.echo(f"skipped    {other_files:,} files of other kinds; name one to index it as text")


def print_figures(summary: Summary) -> None:
    """Prints the counts and the speed."""
    click.echo(f"documents  {summary.documents:,} in {summary.passages:,} passages")
    click.echo(f"tokens     {summary.tokens:,}, {summary.terms:,} distinct")
    click.echo(
        f"read       {summary.megabytes:,.1f} MB in {summary.seconds:.2f} s, "
        f"{summary.megabytes_per_s:.1f} MB/s"
    )


def directory_bytes(path: str) -> int:
    """The sizes of the files in a directory, added."""
    with os.scandir(path) as entries:
        return sum(entry.stat().st_size for entry in entries if entry.is_file())
