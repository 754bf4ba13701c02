"""Questions of several hops (MuSiQue-100, HotpotQA-100), by BM25, by vectors and by both.

bench_corpus_multihop.py [HOTPOTQA]

MuSiQue lies in the shared folder. HOTPOTQA is a folder with `hotpotqa_train.json` and
`hotpotqa_train_corpus.json` (CC BY-SA 4.0; https://github.com/yhshu/HippoRAG, commit c3424ec,
`data/`), or `data/hotpotqa` of the shared folder; without it only MuSiQue is asked. Rows with
vectors need the extra `embed`.

`hop by hop` asks the gold decomposition, each hop with the answers of those before it put in;
`single shot` asks the question as it stands. Five passages (HotpotQA: pages) are looked at. The
questions, the passages and the ranking are fixed, so the figures are the same wherever they are
measured, but for the last bits of a vector.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gnomon.corpus import Corpus, CorpusIndex, Documents
from gnomon.corpus.embedders import OfflineEmbedder, offline_embedder

SHARED = Path(os.environ.get("GNOMON_SHARED") or Path(__file__).parents[1].parent / "shared")
DEPTH = 5
EMBEDDER = "minilm"
LABELS = {"sparse": "BM25", "dense": f"vectors of {EMBEDDER}", "hybrid": "hybrid", "auto": "auto"}
Found = Callable[[str], set[bytes]]


def show(what: str, value: float, unit: str) -> None:
    print(json.dumps({"what": what, "value": round(value, 4), "unit": unit}), flush=True)


def page(title: str, text: str) -> bytes:
    return f"# {title}\n\n{text}\n".encode()


def finder(corpus: Corpus, mode: str) -> Found:
    """From a question to the raw bytes of the documents of its first passages."""

    def found(question: str) -> set[bytes]:
        answer = corpus.hybrid_search(question, mode, k=DEPTH, detail="ids", max_tokens=5000)
        if mode not in ("auto", answer.report.mode) or len(answer.items) > DEPTH:
            raise SystemExit(f"not what is measured: {answer.report}")
        chunks = corpus.snapshot.chunks(item.chunk_id for item in answer.items)
        return {bytes(corpus.snapshot.raw(chunk.doc_id)) for chunk in chunks}

    return found


def filled(question: str, answers: list[str]) -> str:
    """The question of a hop, ``#1`` being the first answer."""
    return re.sub(r"#(\d)", lambda number: answers[int(number[1]) - 1], question)


def musique(found: Found, label: str, questions: list[dict[str, Any]]) -> None:
    hops = hits = whole = golds = once = 0
    for given in questions:
        answers: list[str] = []
        gold, complete = set(), True
        for hop in given["question_decomposition"]:
            support = given["paragraphs"][hop["paragraph_support_idx"]]
            wanted = page(support["title"], support["paragraph_text"])
            hit = wanted in found(filled(hop["question"], answers))
            gold.add(wanted)
            hops, hits, complete = hops + 1, hits + hit, complete and hit
            answers.append(hop["answer"])
        whole += complete
        golds += len(gold)
        once += len(gold & found(given["question"]))
    show(f"hop by hop, {label}: passages of {hops} hops in the first {DEPTH}", hits / hops, "share")
    show(f"hop by hop, {label}: questions of {len(questions)} with every hop", whole, "questions")
    show(f"single shot, {label}: passages of {golds} in the first {DEPTH}", once / golds, "share")


def hotpotqa(
    found: Found, label: str, questions: list[dict[str, Any]], texts: dict[str, list[str]]
) -> None:
    golds = hits = whole = 0
    for given in questions:
        titles = {title for title, _ in given["supporting_facts"]}
        gold = {page(title, "".join(texts[title])) for title in titles}
        held = gold & found(given["question"])
        golds, hits, whole = golds + len(gold), hits + len(held), whole + (held == gold)
    name = f"HotpotQA, single shot, {label}"
    show(f"{name}: pages of {golds} in the first {DEPTH}", hits / golds, "share")
    show(f"{name}: questions of {len(questions)} with every page", whole, "questions")


def asked(pages: list[bytes], embedder: OfflineEmbedder | None, ask: Callable[..., None]) -> None:
    """Asks an index of the pages by each way there is."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pages.corpus"
        with CorpusIndex.create(path) as index:
            named = [(f"{number}.md", text) for number, text in enumerate(pages)]
            index.update([Documents("pages", named)], embedder=embedder)
        corpus = Corpus.open(path, embedder=embedder)
        for mode in LABELS if embedder is not None else ("sparse",):
            ask(finder(corpus, mode), LABELS[mode])


def main() -> None:
    try:
        embedder: OfflineEmbedder | None = offline_embedder(EMBEDDER)
    except ImportError as error:
        embedder = None
        print(f"# without vectors: {error}", flush=True)
    place = SHARED / "data" / "musique"
    given = json.loads((place / "musique_train_corpus.json").read_text("utf-8"))
    questions = json.loads((place / "musique_train.json").read_text("utf-8"))
    pages = [page(each["title"], each["text"]) for each in given]
    asked(pages, embedder, lambda found, label: musique(found, label, questions))

    place = Path(sys.argv[1]) if len(sys.argv) > 1 else SHARED / "data" / "hotpotqa"
    if not place.is_dir():
        print(f"# HotpotQA is not measured: there is no {place}", flush=True)
        return
    texts = json.loads((place / "hotpotqa_train_corpus.json").read_text("utf-8"))
    questions = json.loads((place / "hotpotqa_train.json").read_text("utf-8"))
    pages = [page(title, "".join(lines)) for title, lines in texts.items()]
    asked(pages, embedder, lambda found, label: hotpotqa(found, label, questions, texts))


if __name__ == "__main__":
    main()
