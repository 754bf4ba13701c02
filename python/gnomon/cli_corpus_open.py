"""The options with which commands open a corpus: its embedder and learned weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from .cli_common import UserError, visible

if TYPE_CHECKING:
    from .corpus import Corpus
    from .corpus.embedders import OfflineEmbedder

AUTO, NONE = "auto", "none"
EMBEDDERS = ("minilm", "wordllama")  # those of gnomon.corpus.embedders, which loads slowly

embedder_option = click.option(
    "--embedder",
    type=click.Choice([AUTO, NONE, *EMBEDDERS]),
    default=AUTO,
    show_default=True,
    help="Offline embedder; auto: the one that the corpus has vectors of.",
)
learned_option = click.option(
    "--learned",
    type=click.Path(exists=True, dir_okay=False),
    help="Weights learned from outcomes (gnomon corpus learned).",
)


def open_corpus(
    path: str,
    principal: str | None = None,
    scopes: Iterable[str] = (),
    *,
    embedder: str = NONE,
    learned: str | None = None,
) -> Corpus:
    """The corpus at `path` as the options say. Without the extra of its embedder dense questions
    are asked of the sparse index, and standard error says so, unless that embedder was named.
    """
    try:
        from .corpus import Corpus, Snapshot
        from .corpus.learned import LearnedWeights
    except ImportError as error:
        raise UserError(str(error)) from error
    snapshot = Snapshot.open(path)
    made: Any = None
    if embedder == AUTO:
        try:
            made = recorded_embedder(snapshot.embedder)
        except UserError as error:
            said = f"gnomon: only the sparse index is asked: {error.format_message()}"
            click.echo(visible(said), err=True)
    elif embedder != NONE:
        made = named_embedder(embedder)
    weights = None if learned is None else LearnedWeights.load(learned)
    return Corpus.of(snapshot, principal, tuple(scopes) or None, made, learned=weights)


def named_embedder(name: str) -> OfflineEmbedder:
    """The offline embedder `name`; UserError names its extra where that is missing."""
    from .corpus.embedders import offline_embedder

    try:
        return offline_embedder(name)
    except ImportError as error:
        raise UserError(str(error)) from error


def recorded_embedder(identity: str) -> OfflineEmbedder | None:
    """The offline embedder that made a corpus's vectors; None if none of them did."""
    from .corpus.embedders import embedder_of

    try:
        return embedder_of(identity)
    except (ImportError, ValueError) as error:
        raise UserError(str(error)) from error
