"""MuSiQue: questions of several hops, asked as one and hop by hop, by the sparse index alone."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from corpora import SHARED
from gnomon.corpus import Corpus, CorpusIndex, Documents

PLACE = SHARED / "data" / "musique"
DEPTH = 5


@pytest.fixture(scope="module")
def passages(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    if not PLACE.is_dir():
        pytest.skip("needs the shared questions")
    path = str(tmp_path_factory.mktemp("musique") / "corpus")
    given = json.loads((PLACE / "musique_train_corpus.json").read_text("utf-8"))
    index = CorpusIndex.create(path)
    texts = [(f"{i}.md", f"# {p['title']}\n\n{p['text']}\n".encode()) for i, p in enumerate(given)]
    index.update([Documents("musique", texts)])
    index.close()
    return Corpus.open(path)


def read_questions() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((PLACE / "musique_train.json").read_text("utf-8"))
    return found


def filled(hop: dict[str, Any], answers: list[str]) -> str:
    """A hop's question with the answers of earlier hops in the place of #1, #2..."""
    return re.sub(r"#(\d)", lambda m: answers[int(m[1]) - 1], hop["question"])


def found(corpus: Corpus, question: str) -> set[str]:
    """The raw bytes of the first passages."""
    answer = corpus.hybrid_search(question, k=DEPTH, detail="ids", max_tokens=5000)
    assert answer.report.mode in ("sparse", "exact")
    assert len(answer.items) <= DEPTH
    return {bytes(corpus.snapshot.raw(doc)).decode() for doc in documents(corpus, answer)}


def documents(corpus: Corpus, answer: Any) -> list[str]:
    return [corpus.snapshot.chunk(item.chunk_id).doc_id for item in answer]


def test_hop_by_hop_finds_nine_of_ten_and_one_shot_half(passages: Corpus) -> None:
    """Check 14: MuSiQue by BM25 alone."""
    hops = hop_hits = whole = 0
    gold_of_one = one_hits = 0
    for given in read_questions():
        answers: list[str] = []
        complete = True
        once = found(passages, given["question"])
        golds = set()
        for hop in given["question_decomposition"]:
            support = given["paragraphs"][hop["paragraph_support_idx"]]
            gold = f"# {support['title']}\n\n{support['paragraph_text']}\n"
            golds.add(gold)
            hit = gold in found(passages, filled(hop, answers))
            hops, hop_hits, complete = hops + 1, hop_hits + hit, complete and hit
            answers.append(hop["answer"])
        whole += complete
        gold_of_one += len(golds)
        one_hits += len(golds & once)
    print(f"hops {hop_hits}/{hops}, whole {whole}, single shot {one_hits}/{gold_of_one}")
    assert hop_hits / hops >= 0.90
    assert whole >= 78
    assert one_hits / gold_of_one >= 0.468
