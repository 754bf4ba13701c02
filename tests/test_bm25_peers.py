"""Formulas by name against the code that they follow, bit for bit, where that code is installed.

rank_bm25's and Haystack's own numbers are kept below as well, so that they bind everywhere.
"""

from __future__ import annotations

from typing import Any

import gnomon
import numpy as np
import pytest

DOCUMENTS = [
    ["the", "cat", "sat", "on", "the", "mat"],
    ["the", "dog", "and", "the", "cat", "and", "the", "bird"],
    ["a", "bird"],
    ["mat", "mat", "mat", "cat"],
    ["dogs", "and", "cats", "living", "together", "in", "one", "house", "with", "a", "bird"],
    ["one", "more", "document", "about", "nothing", "at", "all"],
    ["together"],
]
QUERIES = [["cat", "mat"], ["bird", "the", "cat", "the"], ["together", "unknown", "a", "nothing"]]

# rank_bm25 0.2.2, and the scoring functions of Haystack 3.4.1 fed with the same tokens.
GOLDEN: dict[str, list[list[float]]] = {
    "rank_bm25-l": [
        [2.4412258633906916, 0.9408907444796903, 0.0, 7.587590789887781, 0.0, 0.0, 0.0],
        [
            8.16161080612878,
            13.186895227121735,
            1.2770624184807227,
            1.1181753088782447,
            0.864092905160489,
            0.0,
            0.0,
        ],
        [
            0.0,
            0.0,
            1.7968485387328321,
            0.0,
            2.4315868222230823,
            1.9735801702620555,
            1.959656255650875,
        ],
    ],
    "rank_bm25-plus": [
        [
            4.655049783924257,
            3.187109484816661,
            2.367123614131617,
            5.976309578945168,
            2.367123614131617,
            2.367123614131617,
            2.367123614131617,
        ],
        [
            9.547531773585277,
            10.541115315196,
            6.11270996222566,
            5.857663993827326,
            5.41610713677406,
            4.734247228263234,
            4.734247228263234,
        ],
        [
            4.852030263919617,
            4.852030263919617,
            6.8003358525205435,
            4.852030263919617,
            6.7794983595943314,
            6.716357163356712,
            7.049814007158467,
        ],
    ],
    "haystack-okapi": [
        [1.0049838849358583, 0.21010209438275113, 0.0, 1.7016347365908975, 0.0, 0.0, 0.0],
        [
            1.34209602462139,
            1.6051690078100704,
            0.3531986559623546,
            0.28784912490324055,
            0.17471056511506847,
            0.0,
            0.0,
        ],
        [
            0.0,
            0.0,
            1.1081022361876232,
            0.0,
            1.0962508753727822,
            1.3146470271941069,
            1.249993376187258,
        ],
    ],
    "haystack-l": [
        [2.4412258633906916, 0.9408907444796906, 0.0, 3.274647135881424, 0.0, 0.0, 0.0],
        [
            2.8010618053304035,
            3.7659671119864413,
            1.2770624184807229,
            1.118175308878245,
            0.8640929051604892,
            0.0,
            0.0,
        ],
        [
            0.0,
            0.0,
            1.7968485387328328,
            0.0,
            2.431586822223083,
            1.9735801702620557,
            1.9596562556508756,
        ],
    ],
    "haystack-plus": [
        [3.913084548705534, 1.5177924928885247, 0.0, 5.022335626459258, 0.0, 0.0, 0.0],
        [
            4.410400292057076,
            5.946823717834043,
            1.988497108470747,
            1.7735350887261492,
            1.4013749074838306,
            0.0,
            0.0,
        ],
        [
            0.0,
            0.0,
            2.7978492452082593,
            0.0,
            3.9435166492877096,
            3.1747828912566187,
            3.0071703863268824,
        ],
    ],
}


def many_documents() -> tuple[list[list[str]], list[list[str]]]:
    rng = np.random.default_rng(11)
    words = [f"w{i}" for i in range(60)]
    share = 1 / np.arange(1, 61) ** 1.1
    documents = [
        [words[w] for w in rng.choice(60, size=size, p=share / share.sum())]
        for size in rng.integers(1, 40, size=150)
    ]
    queries = [
        [words[w] for w in rng.integers(0, 60, size=size)] for size in rng.integers(1, 8, 40)
    ]
    return documents, queries


def ours(documents: list[list[str]], query: list[str], formula: str, **options: float) -> Any:
    return gnomon.BM25Index.build(documents, formula=formula, **options).scores(query).tolist()


@pytest.mark.parametrize("formula", ["lucene", "robertson", "atire", "bm25l", "bm25+"])
def test_bm25s_in_float64(formula: str) -> None:
    bm25s = pytest.importorskip("bm25s")
    documents, queries = many_documents()
    peer = bm25s.BM25(k1=1.5, b=0.75, delta=0.5, method=formula, dtype="float64")
    peer.index(documents, show_progress=False)
    for query in queries:  # fewer than eight tokens: numpy's sum of the shifts goes left to right
        assert ours(documents, query, formula, k1=1.5) == peer.get_scores(query).tolist()


@pytest.mark.parametrize(
    ("formula", "name"),
    [
        ("rank_bm25-okapi", "BM25Okapi"),
        ("rank_bm25-l", "BM25L"),
        ("rank_bm25-plus", "BM25Plus"),
    ],
)
def test_rank_bm25(formula: str, name: str) -> None:
    rank_bm25 = pytest.importorskip("rank_bm25")
    documents, queries = many_documents()
    peer = getattr(rank_bm25, name)(documents)
    for query in queries:
        if formula == "rank_bm25-okapi":  # its floor is summed in the order of appearance
            floor = peer.epsilon * peer.average_idf
            index = gnomon.BM25Index.build(documents, formula=formula)
            core = gnomon._core.Bm25Scorer(
                index._view.state.core, formula, 1.5, 0.75, 0.5, 0.25, floor
            )
            assert core.scores(query).tolist() == peer.get_scores(query).tolist()
        else:
            assert ours(documents, query, formula) == peer.get_scores(query).tolist()


@pytest.mark.parametrize("formula", sorted(GOLDEN))
def test_numbers_of_the_peers(formula: str) -> None:
    once = formula.startswith("haystack")  # it counts a repeated query token once
    for query, expected in zip(QUERIES, GOLDEN[formula], strict=True):
        tokens = list(dict.fromkeys(query)) if once else query
        assert ours(DOCUMENTS, tokens, formula) == expected
