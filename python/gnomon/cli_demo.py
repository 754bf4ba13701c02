"""`gnomon demo`: indexes the documentation of Python itself and checks scores to the last bit."""

from __future__ import annotations

import ast
import inspect
import os
import sysconfig
import tempfile
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from .cli_common import user_errors
from .documents import Document

if TYPE_CHECKING:
    from .cli_search import Opened

QUERIES = (
    "how do I open a file for reading in binary mode",
    "subprocess timeout expired",
    "read_text encoding errors",
)
_LEFT_OUT = frozenset(
    {"test", "tests", "site-packages", "dist-packages", "idle_test", "__pycache__"}
)
_ANALYZER = "standard-v1"
_SHOWN = 3


@click.command(short_help="Try it on the Python library's documentation.")
@click.pass_context
def demo(context: click.Context) -> None:
    """Index Python's own documentation, search it, and prove the scores.

    Docstrings and help topics of this Python are indexed; at the end the scores are compared with
    those of a plain-Python reference. They must be equal to the last bit, else the exit code is 1.
    """
    from .cli_index import print_figures, write_index
    from .cli_search import Opened, print_hits

    with user_errors(), tempfile.TemporaryDirectory(prefix="gnomon-demo-") as folder:
        out = os.path.join(folder, "index")
        library = Library(sysconfig.get_paths()["stdlib"])
        click.echo(f"indexing the documentation in {library.folder}")
        print_figures(write_index(library.documents(), out, _ANALYZER, lambda: library.bytes_read))
        opened = Opened(out)
        for query in QUERIES:
            click.echo(f'\ngnomon search INDEX "{query}" -k {_SHOWN}')
            print_hits(opened.search(query, _SHOWN))
        equal = compare(opened, QUERIES[0])
    context.exit(0 if equal else 1)


def compare(opened: Opened, query: str) -> bool:
    """Scores every passage with the reference and prints whether the index agrees in every bit."""
    from .reference import analysis, bm25

    click.echo("\nthe same scores by the reference (plain Python, written out from the formula):")
    documents = [analysis.tokens(passage.text, _ANALYZER) for passage in opened.passages]
    wanted = bm25.bm25_scores(analysis.tokens(query, _ANALYZER), documents)
    given = [float(score) for score in opened.bm25.scores(query)]
    matching = [number for number, score in enumerate(wanted) if score > 0]
    ranked = sorted(matching, key=lambda number: (-wanted[number], number))[:_SHOWN]
    ids, scores = opened.bm25.search(query, _SHOWN)
    click.echo(f"{'rank':>4}  {'gnomon':<22} reference")
    for rank, (score, number) in enumerate(zip(scores, ranked, strict=False), 1):
        click.echo(f"{rank:>4}  {float(score).hex():<22} {wanted[number].hex()}")
    equal = (
        given == wanted
        and [int(number) for number in ids] == ranked
        and [float(score) for score in scores] == [wanted[number] for number in ranked]
    )
    click.echo(f"all {len(wanted):,} passages scored; equal: {equal}")
    return equal


class Library:
    """The docstrings of the modules in `folder`, and Python's help topics."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.bytes_read = 0

    def documents(self) -> Iterator[Document]:
        """One document for each docstring and topic; files that do not parse are passed over."""
        for folder, inner, names in os.walk(self.folder):
            inner[:] = sorted(set(inner) - _LEFT_OUT)
            for name in sorted(names):
                if name.endswith(".py"):
                    yield from self._docstrings(os.path.join(folder, name))
        yield from self._topics()

    def _docstrings(self, path: str) -> Iterator[Document]:
        try:
            with open(path, "rb") as file:
                source = file.read()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of escapes in others' string literals
                module = ast.parse(source)
        except (OSError, SyntaxError, ValueError, RecursionError):
            return
        self.bytes_read += len(source)
        relative = os.path.relpath(path, self.folder)
        name = relative.removesuffix(".py").replace(os.sep, ".").removesuffix(".__init__")
        yield from _docstrings_of(module, relative, name)

    def _topics(self) -> Iterator[Document]:
        try:
            from pydoc_data.topics import topics
        except ImportError:  # some distributions leave it out
            return
        for name, text in topics.items():
            self.bytes_read += len(text.encode())
            yield Document("pydoc_data/topics.py", text, name)


def _docstrings_of(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, path: str, name: str
) -> Iterator[Document]:
    first = node.body[0] if node.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        text = first.value.value
        if isinstance(text, str) and text.strip():
            yield Document(path, inspect.cleandoc(text), name, first.lineno)
    for inner in node.body:
        if isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docstrings_of(inner, path, f"{name}.{inner.name}")
