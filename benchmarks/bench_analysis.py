"""Text to tokens in a builder against bm25s and tantivy, and what the tokens are worth.

bench_analysis.py [--collections FOLDER] [--rounds N]

Texts: the judged collections (each document once: repeated text would flatter every hash table),
or without them made-up words by Zipf's law. CPU time of the process on one thread, best of the
rounds, interleaved. The answers first: gnomon's bm25s tokens are those of the package, what a
builder holds is what the analyzer says, and some documents are cut as the reference cuts them.

bm25s and tantivy stop at token ids or lists; gnomon's figure includes the term frequencies.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gnomon
from gnomon import _core
from gnomon.reference import analysis_filters as reference

BESIDE = Path(__file__).resolve().parents[1].parent / "shared"
SHARED = Path(os.environ.get("GNOMON_SHARED") or BESIDE) / "data"
ENGLISH = {"name": "lucene-english"}
ARABIC = {"name": "standard-v1", "stemmer": "arabic", "stop_words": "arabic"}
CHINESE = {"name": "standard-v1"}
SUITABLE = {
    **{"cacm": ENGLISH, "scifact": ENGLISH, "xquad_en": ENGLISH, "xquad_ar": ARABIC},
    **{"xquad_zh": CHINESE, "zh_cmrc2018_trial": CHINESE},
}
PIPELINES = {
    "standard-v1": gnomon.Analyzer(),
    "basic-v1": gnomon.Analyzer("basic-v1"),
    "bm25s": gnomon.Analyzer("bm25s"),
    "lucene-english": gnomon.Analyzer("lucene-english"),
    "standard-v1, English stop words and Snowball": gnomon.Analyzer(
        stemmer="english", stop_words="english"
    ),
}
BATCH = 1024


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def texts_of(folder: Path) -> list[str]:
    titled = not (folder / "answer_spans.jsonl").exists()
    return [
        f"{each['title']} {each['text']}".strip() if titled else each["text"]
        for each in lines(folder / "corpus.jsonl")
    ]


def made_up(seed: int = 7) -> list[str]:
    rng = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 11))) for _ in range(60_000)]
    weights = [1 / (rank + 2) for rank in range(len(words))]
    return [" ".join(rng.choices(words, weights, k=200)) + "." for _ in range(6000)]


def corpora(folder: Path) -> dict[str, list[str]]:
    if not folder.is_dir():
        return {"made-up ASCII": made_up()}
    every = [text for name in SUITABLE for text in texts_of(folder / name)]
    return {
        "English, ASCII documents": [text for text in every if text.isascii()],
        "mixed, non-ASCII documents": [text for text in every if not text.isascii()],
    }


def into_builder(analyzer: gnomon.Analyzer, texts: list[str]) -> _core.Bm25Builder:
    builder = _core.Bm25Builder(with_vocabulary=True)
    prepare = analyzer.feed(builder)
    for at in range(0, len(texts), BATCH):
        prepare(texts[at : at + BATCH])()
    return builder


def check(texts: list[str]) -> None:
    for analyzer in PIPELINES.values():
        tokens = [analyzer.tokens(text) for text in texts]
        index = into_builder(analyzer, texts).finish()
        assert index.n_tokens == sum(map(len, tokens))
        assert index.n_terms == len({token for document in tokens for token in document})
    for text in texts[:: max(len(texts) // 40, 1)]:
        found = [token for token, _, _ in reference.lucene_english(text)]
        assert gnomon.Analyzer("lucene-english").tokens(text) == found
        found = [token for token, _, _ in reference.filtered(text, "standard-v1")]
        assert gnomon.Analyzer().tokens(text) == found


def peers(texts: list[str]) -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {}
    try:
        import bm25s
    except ImportError:
        pass
    else:
        theirs = bm25s.tokenize(texts, return_ids=False, show_progress=False)
        assert [gnomon.Analyzer("bm25s").tokens(text) for text in texts] == theirs
        found["bm25s.tokenize"] = lambda: bm25s.tokenize(texts, show_progress=False)
    try:
        import tantivy
    except ImportError:
        pass
    else:
        builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        analyzer = builder.filter(tantivy.Filter.lowercase()).build()
        found["tantivy analyze (words, lower case)"] = lambda: [*map(analyzer.analyze, texts)]
    return found


def speeds(name: str, texts: list[str], rounds: int) -> None:
    check(texts)
    size = sum(len(text.encode("utf-8")) for text in texts)
    runs: dict[str, Callable[[], Any]] = {
        label: lambda analyzer=analyzer: into_builder(analyzer, texts)
        for label, analyzer in PIPELINES.items()
    }
    runs |= peers(texts)
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for label, run in runs.items():
            start = time.process_time()
            run()
            best[label] = min(best[label], time.process_time() - start)
    for label, seconds in best.items():
        row = {"what": f"tokenise {name}: {label}", "value": size / seconds / 1e6, "unit": "MB/s"}
        print(json.dumps(row | {"megabytes": size / 1e6, "documents": len(texts)}), flush=True)


def measures(folder: Path) -> None:
    import ir_measures
    from ir_measures import AP, R, nDCG

    theirs = json.loads((folder.parent / "references.json").read_text())
    wanted = [nDCG @ 10, R @ 100, AP]
    names = {"nDCG@10": "ndcg_cut_10", "R@100": "recall_100", "AP": "map"}
    for name, options in SUITABLE.items():
        asked = lines(folder / name / "queries.jsonl")
        judged = (folder / name / "qrels.tsv").read_text().splitlines()[1:]
        qrels = [ir_measures.Qrel(q, d, int(g)) for q, d, g in (row.split("\t") for row in judged)]
        index = gnomon.BM25Index.build(
            texts_of(folder / name),
            ids=[each["_id"] for each in lines(folder / name / "corpus.jsonl")],
            analyzer=gnomon.Analyzer(**options),
        )
        found = index.search_many([query["text"] for query in asked], 1000, threads=1)
        run = [
            ir_measures.ScoredDoc(query["_id"], document, score)
            for query, hits in zip(asked, found, strict=True)
            for document, score in zip(hits.ids, hits.scores.tolist(), strict=True)
        ]
        ours = ir_measures.calc_aggregate(wanted, qrels, run)
        lucene = theirs[name]["measured"]["lucene_k1=1.2_b=0.75"]
        for measure in wanted:
            value, reference_value = ours[measure], lucene[names[str(measure)]]
            what = f"{name}, {index.analyzer!r} (Lucene {reference_value:.3f})"
            row = {"what": what, "value": value, "unit": str(measure)}
            print(json.dumps(row | {"lucene": reference_value}), flush=True)
            assert value >= reference_value - 0.005, (name, measure)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--collections", type=Path, default=SHARED / "collections")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    for name, texts in corpora(options.collections).items():
        speeds(name, texts, options.rounds)
    if options.collections.is_dir():
        measures(options.collections)


if __name__ == "__main__":
    main()
