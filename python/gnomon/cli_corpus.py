"""`gnomon corpus`: makes and keeps a corpus; `gnomon verify` checks any index directory."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import click

from .cli_common import UserError, user_errors, visible
from .cli_corpus_open import (
    AUTO,
    EMBEDDERS,
    NONE,
    embedder_option,
    named_embedder,
    recorded_embedder,
)

_SHOWN = 10  # files left out that are named


@click.group(short_help="Make and keep a corpus that agents explore.")
def corpus() -> None:
    """Documents with their text, sparse and dense indexes, names and relations, as one.

    \b
    gnomon corpus index docs/ --out docs.corpus
    gnomon corpus update docs.corpus docs/
    gnomon corpus stats docs.corpus
    """  # noqa: D301  click reads \b


_source_options = [
    click.option("--source", help="Name of the source; default: the folder's name."),
    click.option("--kind", default="docs", show_default=True, help="docs, code, qa, issue..."),
    click.option("--version", default="", help="Version that the documents describe."),
    click.option("--acl", multiple=True, metavar="NAME", help="Who may read them; repeatable."),
    click.option("--hidden", is_flag=True, help="Take files whose name begins with a dot, too."),
    click.option("--jobs", type=click.IntRange(min=1), help="Processes; default: as many as pay."),
    click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object."),
]


def _with_source_options(command: Any) -> Any:
    for option in reversed(_source_options):
        command = option(command)
    return command


@corpus.command(short_help="Make a corpus of a folder.")
@click.argument("path", type=click.Path(path_type=str))
@click.option("--out", required=True, type=click.Path(path_type=str), help="Directory to make.")
@click.option(
    "--embedder",
    type=click.Choice([NONE, *EMBEDDERS]),
    default=NONE,
    show_default=True,
    help="Give each chunk a vector of this offline embedder: pip install 'gnomon[embed]'.",
)
@_with_source_options
def index(path: str, out: str, embedder: str, **options: Any) -> None:
    """Process the documents under PATH and write a new corpus to --out."""
    with user_errors():
        if os.path.lexists(out):
            raise UserError(f"{out}: already exists; `gnomon corpus update` adds to it")
        _require_corpus_extra()
        from .corpus import CorpusIndex

        made = None if embedder == NONE else named_embedder(embedder)
        with CorpusIndex.create(out) as writer:
            _update(writer, path, options, made)


@corpus.command(short_help="Bring a source of a corpus up to date.")
@click.argument("corpus_path", metavar="CORPUS", type=click.Path(path_type=str))
@click.argument("path", type=click.Path(path_type=str))
@embedder_option
@_with_source_options
def update(corpus_path: str, path: str, embedder: str, **options: Any) -> None:
    """Take over what changed under PATH: new, changed and deleted documents, in one step.

    With another --embedder than the corpus has vectors of, every chunk is embedded anew.
    """
    with user_errors():
        _require_corpus_extra()
        from .corpus import CorpusIndex

        with CorpusIndex.open(corpus_path) as writer:
            made = None
            if embedder == AUTO:
                made = recorded_embedder(writer.snapshot().embedder)
            elif embedder != NONE:
                made = named_embedder(embedder)
            _update(writer, path, options, made)


def _update(writer: Any, path: str, options: dict[str, Any], embedder: Any) -> None:
    from .corpus import Folder, Source

    name = options["source"] or os.path.basename(os.path.realpath(path)) or "docs"
    source = Source(
        name=name,
        uri=Path(path).resolve().as_uri(),
        kind=options["kind"],
        version=options["version"],
        acl=options["acl"],
    )
    report = writer.update(
        [Folder(source, path, options["hidden"])],
        jobs=options["jobs"],
        embedder=embedder,
        embedder_name="" if embedder is None else embedder.identity,
    )
    if options["as_json"]:
        click.echo(json.dumps({name: getattr(report, name) for name in report.__struct_fields__}))
    else:
        _print_report(report)


def _print_report(report: Any) -> None:
    for path, why, detail in report.left_out[:_SHOWN]:
        click.echo(f"left out: {visible(path)}: {why}{f' ({detail})' if detail else ''}", err=True)
    if len(report.left_out) > _SHOWN:
        click.echo(f"left out: {len(report.left_out) - _SHOWN:,} more", err=True)
    for path, why in report.fallbacks[:_SHOWN]:
        click.echo(f"taken as plain text: {visible(path)}: {visible(why)}", err=True)
    click.echo(
        f"documents  {report.added:,} added, {report.changed:,} changed, {report.deleted:,} "
        f"deleted, {report.unchanged:,} unchanged"
    )
    click.echo(
        f"chunks     {report.chunks_added:,} added, {report.chunks_deleted:,} deleted, "
        f"{report.chunks_kept:,} kept"
    )
    if report.embedded or report.embeddings_saved:
        click.echo(f"vectors    {report.embedded:,} made, {report.embeddings_saved:,} kept")
    megabytes = report.bytes_read / 1e6
    click.echo(
        f"read       {megabytes:,.1f} MB in {report.seconds:.2f} s, "
        f"{megabytes / report.seconds:.1f} MB/s; generation {report.generation}"
    )


@corpus.command(short_help="What a corpus holds.")
@click.argument("corpus_path", metavar="CORPUS", type=click.Path(path_type=str))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def stats(corpus_path: str, as_json: bool) -> None:
    """Say how much CORPUS holds, of which kinds, and what was left out."""
    with user_errors():
        _require_corpus_extra()
        from .corpus import Snapshot

        snapshot = Snapshot.open(corpus_path)
        told = snapshot.stats()
        coverage = snapshot.coverage()
        if as_json:
            every = {name: getattr(told, name) for name in told.__struct_fields__}
            every["coverage"] = [
                {name: getattr(one, name) for name in one.__struct_fields__} for one in coverage
            ]
            click.echo(json.dumps(every))
            return
        for name in told.__struct_fields__:
            value = getattr(told, name)
            if isinstance(value, dict):
                value = ", ".join(f"{visible(key)} {count:,}" for key, count in value.items())
            click.echo(f"{name:11}{value:,}" if isinstance(value, int) else f"{name:11}{value}")
        for one in coverage:
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(one.updated))
            click.echo(
                f"source     {visible(one.source)}: {one.files:,} files, "
                f"{one.bytes / 1e6:,.1f} MB, {len(one.left_out):,} left out, changed {when} UTC"
            )


@corpus.command("verify", short_help="Check every byte of a corpus.")
@click.argument("corpus_path", metavar="CORPUS", type=click.Path(path_type=str))
def verify_command(corpus_path: str) -> None:
    """Check CORPUS: checksums, and that all of its indexes agree. Exit code 1: they do not."""
    with user_errors():
        _verify_corpus(corpus_path)


@click.command(short_help="Check every byte of an index directory.")
@click.argument("path", metavar="INDEX", type=click.Path(path_type=str))
def verify(path: str) -> None:
    """Check INDEX, made by any command or by `save`. Exit code 1: it is damaged."""
    with user_errors():
        if (Path(path) / "meta.sqlite").is_file():
            _verify_corpus(path)
            return
        from . import BM25Index, CorruptIndex, DenseIndex
        from .storage import Directory

        try:
            directory = Directory.open(path)
            directory.verify()
            if "bm25" in directory.parts():
                BM25Index.read_part(directory).verify()
            if "dense" in directory.parts():
                DenseIndex.load(path).verify()
        except CorruptIndex as error:
            _damaged([str(error)])
        click.echo(f"whole: {', '.join(directory.parts())}, generation {directory.generation}")


def _verify_corpus(path: str) -> None:
    _require_corpus_extra()
    from . import CorruptIndex
    from .corpus import Snapshot
    from .corpus.verify import verify_corpus

    try:
        snapshot = Snapshot.open(path)
        problems = verify_corpus(snapshot)
    except CorruptIndex as error:
        problems = [str(error)]
    if problems:
        _damaged(problems)
    told = snapshot.stats()
    click.echo(f"whole: {told.documents:,} documents, generation {told.generation}")


def _damaged(problems: list[str]) -> None:
    for problem in problems:
        click.echo(f"damaged: {visible(problem)}", err=True)
    raise SystemExit(1)


def _require_corpus_extra() -> None:
    try:
        from . import corpus as _  # noqa: F401
    except ImportError as error:
        raise UserError(str(error)) from error
