"""Near duplicates behind the first of them, and maximal marginal relevance, in searches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from corpora import embed
from gnomon.cli import cli
from gnomon.corpus import Corpus, CorpusIndex, Documents
from gnomon.corpus.learned import LearnedWeights, observe
from gnomon.corpus.near_duplicates import jaccard, near_duplicates, shingles_of
from gnomon.corpus.ranking import RRF_K, Ranking, fused
from gnomon.corpus.spread import _similarity
from gnomon.reference.mmr import mmr
from hypothesis import given
from hypothesis import strategies as st


def body(seed: int) -> str:
    rng = np.random.default_rng(seed)
    return " ".join(f"word{n}" for n in rng.integers(0, 400, 60))


def pages() -> list[tuple[str, bytes]]:
    """Six families of release notes that differ in a word, of one to six members each."""
    made = []
    for family in range(6):
        text = body(family)
        for member in range(family + 1):
            own = f"# Notes {family}\n\nrelease pool {text} version{member}\n"
            made.append((f"f{family}/n{member}.md", own.encode()))
    return made


@pytest.fixture(scope="module", params=[None, embed], ids=["sparse only", "with vectors"])
def corpus(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    place = tmp_path_factory.mktemp("spread") / "x"
    with CorpusIndex.create(place) as index:
        index.update([Documents("docs", pages())], embedder=request.param)
    return Corpus.open(place, embedder=request.param)


def family(item: Any) -> str:
    return str(item.path.partition("/")[0])


@pytest.mark.parametrize("mode", ["exact", "sparse", "hybrid", "dense"])
def test_collapse_keeps_the_best_of_each_cluster(corpus: Corpus, mode: str) -> None:
    """Check 16: in every mode, on families of made texts."""
    plain = corpus.hybrid_search("release pool", mode, k=50, max_tokens=50_000)
    texts = [corpus.snapshot.text(item.chunk_id) for item in plain]
    heads = near_duplicates(texts, 0.9)
    found = corpus.hybrid_search("release pool", mode, k=50, max_tokens=50_000, collapse="near")
    best = [item for place, item in enumerate(plain) if heads[place] == place]
    assert [item.chunk_id for item in found] == [item.chunk_id for item in best]
    assert [item.score for item in found] == [item.score for item in best]
    assert sorted(map(family, found)) == [f"f{n}" for n in range(6)]
    assert {family(item): 1 + len(item.also) for item in found} == {
        f"f{n}": n + 1 for n in range(6)
    }
    assert {one.chunk_id for item in found for one in item.also} == {
        item.chunk_id for place, item in enumerate(plain) if heads[place] != place
    }
    assert found.report.total == plain.report.total  # what answers stays what it is


def test_pages_of_a_collapsed_list_are_its_parts(corpus: Corpus) -> None:
    whole = corpus.hybrid_search("release pool", "exact", k=50, max_tokens=50_000, collapse="near")
    shown: list[str] = []
    cursor = ""
    for _ in range(10):
        answer = corpus.hybrid_search(
            "release pool", "exact", k=2, max_tokens=50_000, collapse="near", cursor=cursor
        )
        shown += [item.chunk_id for item in answer]
        cursor = answer.report.cursor
        if not cursor:
            break
    assert shown == [item.chunk_id for item in whole]


def test_mmr_is_that_of_the_reference(corpus: Corpus) -> None:
    engine = corpus._shared.engine(None)
    dense = corpus.snapshot.dense
    mode = "hybrid" if dense is not None else "sparse"
    plain = corpus.hybrid_search("release pool word7", mode, k=50, max_tokens=50_000)
    chunks = [item.chunk_id for item in plain]
    texts = [corpus.snapshot.text(chunk) for chunk in chunks]
    if dense is not None:
        rows = embed(
            [f"Notes {family(item)[1:]}\n{text}" for item, text in zip(plain, texts, strict=True)]
        )
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        wanted = unit @ unit.T
    else:
        wanted = np.array([[jaccard(a, b) for a in shingles_of(texts)] for b in shingles_of(texts)])
    similar = _similarity(engine, engine.slots.of_chunks(chunks).tolist())
    # `wanted` is numpy's product, which adds in an order of its own; picks are compared with ==.
    assert np.allclose(similar, wanted, atol=1e-6)
    values = [item.score.value for item in plain if item.score is not None]
    relevance = [value / max(values) for value in values]
    for share in (0.0, 0.5, 1.0):
        found = corpus.hybrid_search("release pool word7", mode, k=50, max_tokens=50_000, mmr=share)
        order = [chunks.index(item.chunk_id) for item in found]
        assert order == mmr(relevance, similar.tolist(), len(chunks), share)
    assert order == list(range(len(chunks)))  # relevance only


def test_mmr_brings_other_families_forward(corpus: Corpus) -> None:
    plain = corpus.hybrid_search("release pool", "sparse", k=6, max_tokens=50_000)
    found = corpus.hybrid_search("release pool", "sparse", k=6, max_tokens=50_000, mmr=0.3)
    assert len(set(map(family, found))) == 6 > len(set(map(family, plain)))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"collapse": "far"}, ValueError),
        ({"mmr": 1.5}, ValueError),
        ({"mmr": float("nan")}, ValueError),
        ({"mmr": "x"}, TypeError),
        ({"task": 3}, TypeError),
    ],
)
def test_wrong_arguments_raise(corpus: Corpus, options: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(options))):
        corpus.hybrid_search("x", **options)


# Learned weights


def outcomes(dense: int) -> LearnedWeights:
    learned = LearnedWeights()
    for number in range(20):
        learned.note("words", "sparse", True)
        learned.note("words", "dense", number < dense)
    return learned


_RANKED = st.lists(st.integers(0, 60), unique=True, min_size=1, max_size=50)


@given(_RANKED, _RANKED)
def test_what_leads_one_ranking_is_among_the_first_of_the_fusion(
    words: list[int], near: list[int]
) -> None:
    """What stands above it has one of the ranks 1 to 6, of which two rankings have twelve."""
    sparse = Ranking(words, [1.0] * len(words))
    found = fused(sparse, dict.fromkeys(near, 0.5), 100)
    for first in (words[0], near[0]):
        assert found.slots.index(first) <= 12
    assert sorted(found.slots) == sorted({*words, *near})
    for slot, score in zip(found.slots, found.scores, strict=True):
        ranks = [ranked.index(slot) + 1 for ranked in (words, near) if slot in ranked]
        total = 0.0
        for rank in ranks:
            total += 1.0 / (RRF_K + rank)
        assert score == total


def test_learned_weights_count_in_the_fusion_and_are_told(tmp_path: Path) -> None:
    with CorpusIndex.create(tmp_path / "x") as index:
        index.update([Documents("docs", pages())], embedder=embed)
    learned = outcomes(2)
    weights = learned.weights("words")
    corpus = Corpus.open(tmp_path / "x", embedder=embed, learned=learned)
    answer = corpus.hybrid_search("release word7", "hybrid", task="words", max_tokens=20_000)
    assert any("learned weights of words" in note for note in answer.report.notes)
    plain = Corpus.open(tmp_path / "x", embedder=embed)
    even = {
        i.chunk_id: i
        for i in plain.hybrid_search("release word7", "hybrid", k=50, max_tokens=50_000)
    }
    for item in answer:
        assert item.score is not None
        total = 0.0
        for part in item.score.parts:
            total += part.value
        assert total == item.score.value
        before = even[item.chunk_id].score
        assert before is not None
        for part, same in zip(item.score.parts, before.parts, strict=True):
            rank = round(1 / same.value - RRF_K)
            assert part.value == weights[part.name.removeprefix("rrf:")] / (RRF_K + rank)
    unasked = plain.hybrid_search("release word7", "hybrid", task="words")
    assert not any("learned" in note for note in unasked.report.notes)  # off by default
    learned.note("words", "dense", True)  # does not reach a corpus that is open
    again = corpus.hybrid_search("release word7", "hybrid", task="words", max_tokens=20_000)
    assert again.to_json(times=False) == answer.to_json(times=False)


def test_tools_and_commands_take_learned_weights(tmp_path: Path) -> None:
    from gnomon.corpus.eval_tasks import Quote, Task
    from gnomon.corpus.toolset import answer_tool

    place = tmp_path / "x"
    with CorpusIndex.create(place) as index:
        index.update([Documents("docs", pages())], embedder=embed)
    corpus = Corpus.open(place, embedder=embed)
    tasks = [
        Task(path, f"pool {text.decode().split()[5]}", (Quote(path, "release", start, start + 7),))
        for path, text in pages()
        for start in [text.index(b"release")]
    ]
    learned = LearnedWeights()
    assert observe(corpus, tasks, learned, "search_general_knowledge") == 2 * len(tasks)
    assert observe(Corpus.open(place), tasks, LearnedWeights(), "x") == len(tasks)  # sparse only
    weighted = Corpus.open(place, embedder=embed, learned=learned)
    question = {"query": "which release is the pool about"}
    said = answer_tool(weighted, "search_general_knowledge", question).report
    assert said.mode == "hybrid"
    assert any("learned weights of search_general_knowledge" in note for note in said.notes)
    learned.save(tmp_path / "w.json")
    done = CliRunner().invoke(cli, ["corpus", "learned", str(tmp_path / "w.json"), "--json"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert {row["mode"] for row in rows} == {"sparse", "dense"}
    assert all(0.5 <= row["weight"] <= 2.0 for row in rows)
    command = ["corpus", "search", str(place), "pool", "--learned", str(tmp_path / "w.json")]
    done = CliRunner().invoke(cli, [*command, "--mode", "sparse", "--collapse", "near", "--json"])
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["items"]) == 6
