"""What each path of BM25 search costs, for the constants of cpp/bm25_plan.hpp.

fit_bm25.py [--docs 10000,100000,1000000] [--prose FILE.jsonl] [--queries 100] [--rounds 3]

Prints, for each corpus, kind of query and k, the mean microseconds of a query by each path that is
forced, by the planner's choice (auto), by the best path of each query (oracle: what a planner that
is never wrong would reach), and how often the planner chose what. CPU time of the thread, each
query's best of the rounds. Constants are right when auto is close to the oracle everywhere.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

import numpy as np
from bm25_engines import K1, B
from bm25_inputs import Corpus, prose, queries, short_documents
from gnomon import _core

PATHS = ("plain", "windows", "integers", "essential", "blocks", "lists", "")


def fit(label: str, corpus: Corpus, n_queries: int, rounds: int) -> None:
    builder = _core.Bm25Builder(with_vocabulary=False)
    builder.add_ids(corpus.flat, corpus.offsets)
    snapshot = _core.Bm25Snapshot([(builder.finish(), None)])
    scorer = _core.Bm25Scorer(snapshot, "default", K1, B, 0.5, 0.25)
    for kind in ("2-8 tokens", "no common words", "15-30 tokens"):
        asked = queries(corpus, kind, n_queries)
        for k in (10, 1000):
            best = {path: np.full(len(asked), np.inf) for path in PATHS}
            for turn in range(rounds + 1):  # the first one only warms
                for path in PATHS:
                    for place, query in enumerate(asked):
                        began = time.thread_time_ns()
                        scorer.search(query, k, path=path)
                        spent = (time.thread_time_ns() - began) / 1e3
                        if turn:
                            best[path][place] = min(best[path][place], spent)
            forced = np.minimum.reduce([best[path] for path in PATHS if path])
            figures = "  ".join(f"{path or 'auto'} {best[path].mean():.1f}" for path in PATHS)
            chosen = dict(Counter(scorer.plan(query, k) for query in asked))
            print(f"{label}, {kind}, k={k}: {figures}  oracle {forced.mean():.1f}  {chosen}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--docs", default="10000,100000,1000000")
    parser.add_argument("--prose")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    for n in [int(n) for n in given.docs.split(",") if n]:
        fit(f"{n:,} short documents", short_documents(n), given.queries, given.rounds)
    if given.prose:
        corpus, _ = prose(given.prose, None)
        fit(f"{corpus.n:,} passages of prose", corpus, given.queries, given.rounds)


if __name__ == "__main__":
    main()
