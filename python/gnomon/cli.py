"""The `gnomon` command: index text, search it, show that the scores are exact.

Exit codes: 0 done (a search without a hit included), 1 interrupted, `demo` found unequal scores
or `verify` damage, 2 wrong usage or an error, which is one line on stderr that says what, why and
what to do.
"""

from __future__ import annotations

import io
import signal
import sys
from typing import Any

import click

from .cli_corpus import corpus, verify
from .cli_corpus_evaluate import evaluate, learned_table
from .cli_corpus_query import add_questions
from .cli_corpus_serve import serve
from .cli_demo import demo
from .cli_gate import gate
from .cli_groundtruth import groundtruth
from .cli_index import index
from .cli_recall import recall
from .cli_search import search
from .cli_tune_fusion import tune_fusion


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gnomon", message="gnomon %(version)s")
def cli() -> None:
    """Exact search from the shell: texts, vectors, and what other searches miss.

    \b
    gnomon index docs/ --out docs.gnomon
    gnomon search docs.gnomon "how to open a file"
    gnomon groundtruth base.fbin queries.fbin -k 100 --out truth.npz
    gnomon recall truth.npz results.ibin -k 10
    """  # noqa: D301  click reads \b


cli.add_command(index)
cli.add_command(search)
cli.add_command(serve)
cli.add_command(demo)
cli.add_command(evaluate)
cli.add_command(gate)
cli.add_command(groundtruth)
cli.add_command(recall)
cli.add_command(tune_fusion)
cli.add_command(corpus)
add_questions(corpus)
corpus.add_command(learned_table)
cli.add_command(verify)


def _stop(signal_number: int, frame: Any) -> None:
    raise SystemExit(128 + signal_number)  # unwinds, so that a half-written index is removed


def main() -> None:
    """Entry point of the `gnomon` command."""
    _prepare()
    cli(prog_name="gnomon")


def trace_gate() -> None:
    """Entry point of `trace-gate`, another name of `gnomon gate`."""
    _prepare()
    gate(prog_name="trace-gate")


def _prepare() -> None:
    signal.signal(signal.SIGTERM, _stop)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its escape, not a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main()
