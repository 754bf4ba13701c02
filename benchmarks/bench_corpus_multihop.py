"""Questions of several hops (MuSiQue-100 of the shared folder), by the sparse index alone.

`hop by hop` asks the gold decomposition, each hop with the answers of those before it put in;
`single shot` asks the question as it stands. Five passages are looked at. The questions, the
passages and the ranking are fixed, so the figures are the same wherever they are measured.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from gnomon.corpus import Corpus, CorpusIndex, Documents

SHARED = Path(os.environ.get("GNOMON_SHARED") or Path(__file__).parents[1].parent / "shared")
DEPTH = 5


def show(what: str, value: float, unit: str) -> None:
    print(json.dumps({"what": what, "value": round(value, 4), "unit": unit}), flush=True)


def page(title: str, text: str) -> bytes:
    return f"# {title}\n\n{text}\n".encode()


def found(corpus: Corpus, question: str) -> set[bytes]:
    """The raw bytes of the documents of the first passages."""
    answer = corpus.hybrid_search(question, k=DEPTH, detail="ids", max_tokens=5000)
    if answer.report.mode not in ("sparse", "exact") or len(answer.items) > DEPTH:
        raise SystemExit(f"not what is measured: {answer.report}")
    chunks = corpus.snapshot.chunks(item.chunk_id for item in answer.items)
    return {bytes(corpus.snapshot.raw(chunk.doc_id)) for chunk in chunks}


def filled(question: str, answers: list[str]) -> str:
    """The question of a hop, ``#1`` being the first answer."""
    return re.sub(r"#(\d)", lambda number: answers[int(number[1]) - 1], question)


def measure(corpus: Corpus, questions: list[dict[str, Any]]) -> None:
    hops = hits = whole = golds = once = 0
    for given in questions:
        answers: list[str] = []
        gold, complete = set(), True
        for hop in given["question_decomposition"]:
            support = given["paragraphs"][hop["paragraph_support_idx"]]
            wanted = page(support["title"], support["paragraph_text"])
            hit = wanted in found(corpus, filled(hop["question"], answers))
            gold.add(wanted)
            hops, hits, complete = hops + 1, hits + hit, complete and hit
            answers.append(hop["answer"])
        whole += complete
        golds += len(gold)
        once += len(gold & found(corpus, given["question"]))
    show(f"hop by hop, BM25: passages of {hops} hops in the first {DEPTH}", hits / hops, "share")
    show(f"hop by hop, BM25: questions of {len(questions)} with every hop", whole, "questions")
    show(f"single shot, BM25: passages of {golds} in the first {DEPTH}", once / golds, "share")


def main() -> None:
    place = SHARED / "data" / "musique"
    given = json.loads((place / "musique_train_corpus.json").read_text("utf-8"))
    pages = [(f"{i}.md", page(each["title"], each["text"])) for i, each in enumerate(given)]
    with tempfile.TemporaryDirectory() as folder:
        with CorpusIndex.create(Path(folder) / "musique.corpus") as index:
            index.update([Documents("musique", pages)])
        questions = json.loads((place / "musique_train.json").read_text("utf-8"))
        measure(Corpus.open(Path(folder) / "musique.corpus"), questions)


if __name__ == "__main__":
    main()
