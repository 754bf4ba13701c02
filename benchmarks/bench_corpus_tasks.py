"""How well the tools of a corpus are used on the shared tasks, by policies without a model.

bench_corpus_tasks.py [INDEX]

INDEX is a corpus of the whole shared folder `data/dbconn` (`gnomon corpus index`, with `--embedder
minilm` for the rows of vectors), made when it is not given: then with vectors if the extra `embed`
is installed, which takes the embedder several minutes. Every policy asks the same tasks within the
same calls and tokens: the plan of each task, greedy rules, one search, and other programs on the
same passages. `hard` rows ask the same in other words (`question_hard`). Without a note a row is
that of the index without its vectors; `hybrid with` names the embedder. `quotes` is the share of
all quotes of the evidence that the answers showed.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from gnomon.corpus import Corpus, CorpusIndex, Folder
from gnomon.corpus.embedders import OfflineEmbedder, embedder_of, offline_embedder
from gnomon.corpus.eval_report import Evaluation
from gnomon.corpus.evaluate import evaluate, hard_tasks, load_tasks

TOKENS_FEW = 4000
SHARED = Path(os.environ.get("GNOMON_SHARED") or Path(__file__).parents[1].parent / "shared")


def show(what: str, value: float, unit: str) -> None:
    print(json.dumps({"what": what, "value": round(value, 4), "unit": unit}), flush=True)


def report(done: Evaluation, label: str) -> None:
    for policy in done.policies():
        said = done.summaries()[policy]
        name = f"{policy}{label}"
        show(f"{name}: tasks answered of {said['answerable']}", said["success"], "tasks")
        show(f"{name}: quotes of the evidence shown", said["previewed_recall"], "share")
        show(f"{name}: calls of a task", said["steps"], "calls")
        show(f"{name}: tokens of a task", said["tokens"], "tokens")
        show(f"{name}: useless turns", said["useless_turns"] or 0.0, "share")
        if said["unanswerable"]:
            right = said["abstained_rightly"]
            show(f"{name}: rightly without an answer of {said['unanswerable']}", right, "tasks")
    for policy, why in done.left_out.items():
        print(f"# {policy} did not run: {why}", flush=True)


def measure(index: Path) -> None:
    tasks = load_tasks(SHARED / "cases" / "corpus_tasks.jsonl")
    sparse = Corpus.open(index)
    report(evaluate(sparse, tasks, files=SHARED / "data" / "dbconn"), "")
    hard = hard_tasks(tasks)
    report(evaluate(sparse, hard, ["single_shot", "greedy", "fts5"]), ", hard, sparse")
    made = embedder_of(sparse.snapshot.embedder)
    if made is None:
        print("# nothing is measured with vectors: the index has none", flush=True)
        return
    both, label = Corpus.open(index, embedder=made), f", hybrid with {made.name}"
    report(evaluate(both, tasks, ["single_shot", "greedy"]), label)
    report(evaluate(both, hard, ["single_shot", "greedy"]), f", hard{label}")
    few = evaluate(both, hard, ["greedy"], tokens_max=TOKENS_FEW, answer_tokens=TOKENS_FEW // 4)
    report(few, f", hard{label}, {TOKENS_FEW:,} tokens in all")


def offline() -> OfflineEmbedder | None:
    try:
        return offline_embedder("minilm")
    except ImportError as error:
        print(f"# the index gets no vectors: {error}", flush=True)
        return None


def main() -> None:
    if len(sys.argv) > 1:
        measure(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "dbconn.corpus"
        made, files = offline(), [Folder("dbconn", SHARED / "data" / "dbconn")]
        with CorpusIndex.create(path) as index:
            named = "" if made is None else made.identity
            index.update(files, embedder=made, embedder_name=named)
        measure(path)


if __name__ == "__main__":
    main()
