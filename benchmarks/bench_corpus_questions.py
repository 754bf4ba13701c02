"""How fast a corpus answers: the parts of a question, and whole calls of the API.

bench_corpus_questions.py [INDEX] [--chunks N] [--queries N] [--peers] [--cpu]

INDEX is a corpus (`gnomon corpus index`); without it one is made of every fourth file of the shared
one, or, with --chunks, of all its files and copies of them until it has N passages. Words, phrases
and identifiers are drawn from it with a fixed seed, and the totals of words are compared with a
count over all passages first. `engine` rows take a parsed query to the exact total and the 10 best;
`api` rows are whole calls without the cache: items, highlights, report, JSON size. With --peers the
same questions go to SQLite FTS5 (ripgrep is in bench_corpus_grep.py). One thread; `value` is the
median in milliseconds, `p95` the 95th percentile.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gnomon.corpus import Corpus, CorpusIndex, Coverage, Documents, walk_sources
from gnomon.corpus.coordinator import Embedder
from gnomon.corpus.query_compile import Compiler
from gnomon.corpus.query_parse import parse

clock = time.perf_counter
SHARED = Path(os.environ.get("GNOMON_SHARED") or Path(__file__).parents[1].parent / "shared")


class Words:
    """What is asked for: drawn from the passages themselves."""

    def __init__(self, corpus: Corpus, seed: int) -> None:
        self.rng = random.Random(seed)
        snapshot = corpus.snapshot
        documents = list(snapshot.documents())
        self.rng.shuffle(documents)
        self.texts = [
            chunk.text for each in documents[:400] for chunk in snapshot.chunks_of(each.id)
        ]
        self.plain = [re.findall(r"\b[a-z]{4,12}\b", text) for text in self.texts]
        self.plain = [words for words in self.plain if len(words) > 8]
        names = {
            name for text in self.texts for name in re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", text)
        }
        self.names = sorted(names)

    def word(self) -> str:
        return self.rng.choice(self.rng.choice(self.plain))

    def pair(self) -> tuple[str, str]:
        words = self.rng.choice(self.plain)
        return self.rng.choice(words), self.rng.choice(words)

    def phrase(self) -> str:
        while True:
            words = self.rng.choice(self.texts).split()
            if len(words) > 3:
                at = self.rng.randrange(len(words) - 2)
                run = re.sub(r'["\\]', "", " ".join(words[at : at + 2]))
                if re.search(r"\w", run):
                    return run

    def question(self) -> str:
        return " ".join(self.word() for _ in range(30))


def queries(words: Words, n: int) -> dict[str, list[str]]:
    pairs = [words.pair() for _ in range(n)]
    return {
        "AND of two words": [f"{a} AND {b}" for a, b in pairs],
        "phrase of two words": [f'"{words.phrase()}"' for _ in range(n)],
        "NEAR within 5": [f"NEAR({a}, {b}, 5)" for a, b in pairs],
        "SECTION of two words": [f"SECTION({a} AND {b})" for a, b in pairs],
        "identifier": [words.rng.choice(words.names) for _ in range(n)],
        "question of 30 words": [words.question() for _ in range(n)],
    }


def timed(run: Callable[[Any], Any], given: Sequence[Any]) -> list[float]:
    found = []
    for each in given:
        began = clock()
        run(each)
        found.append((clock() - began) * 1000)
    return sorted(found)


def show(what: str, times: Sequence[float]) -> None:
    row = {
        "what": what,
        "value": round(statistics.median(times), 3),
        "unit": "ms",
        "p95": round(times[int(0.95 * (len(times) - 1))], 3),
        "n": len(times),
        "threads": 1,
    }
    print(json.dumps(row), flush=True)


def engine(corpus: Corpus, given: dict[str, list[str]]) -> None:
    slots = corpus._shared.engine(corpus.scopes).slots
    for what, texts in given.items():
        loose = what.startswith("question")
        nodes = [parse(text, "or" if loose else "and").node for text in texts]

        def answer(node: Any, loose: bool = loose) -> None:
            query = Compiler(slots, loose).query(node)
            if query is not None:
                slots.answer(slots.plan(query), 10, None)

        timed(answer, nodes[:3])
        show(f"engine: {what}, total and 10 best", timed(answer, nodes))


def api(corpus: Corpus, given: dict[str, list[str]], words: Words, n: int) -> None:
    for what, texts in given.items():
        timed(corpus.hybrid_search, texts[:3])
        times = timed(corpus.hybrid_search, texts)
        show(f"api: {what}", times)
        if what.startswith("question"):
            late = {"what": f"api: {what}, p95", "value": round(times[int(0.95 * (n - 1))], 3)}
            print(json.dumps(late | {"unit": "ms"}), flush=True)
    pairs = [words.pair() for _ in range(n)]
    show("api: verify_hypothesis in a section",
         timed(lambda pair: corpus.verify_hypothesis(*pair), pairs))  # fmt: skip
    names = [words.rng.choice(words.names) for _ in range(n)]
    show("api: grep of a literal", timed(lambda name: corpus.grep(name, literal=True), names))
    show("api: navigate, 1 hop", timed(corpus.navigate, names))
    show("api: navigate, 2 hops", timed(lambda name: corpus.navigate(name, depth=2), names))
    graph = corpus.snapshot.graph
    keys = [found[0].key for name in names if (found := graph.find_entities(name, limit=1))]
    show("graph: edges of an entity", timed(lambda key: graph.edges(key, limit=10), keys))
    ids = [item.chunk_id for name in names[:50] for item in corpus.hybrid_search(name, k=2)]
    show("api: read a passage", timed(corpus.read, ids))
    documents = [f"doc:{each.id}" for each in list(corpus.snapshot.documents())[:n]]
    show("api: outline of a document", timed(corpus.outline, documents))
    kept = Corpus.of(corpus._shared.snapshot)
    timed(kept.navigate, names)
    show("api: navigate, kept in the cache", timed(kept.navigate, names))


def peers(corpus: Corpus, given: dict[str, list[str]], words: Words) -> None:
    snapshot = corpus.snapshot
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE f USING fts5(t, content='')")
    for document in snapshot.documents():
        rows = [(chunk.text,) for chunk in snapshot.chunks_of(document.id)]
        db.executemany("INSERT INTO f(t) VALUES(?)", rows)
    ask = "SELECT rowid FROM f WHERE f MATCH ? ORDER BY bm25(f) LIMIT 10"
    theirs = {
        "AND of two words": lambda text: text,
        "phrase of two words": lambda text: text,
        "NEAR within 5": lambda text: re.sub(r"\((\w+), (\w+), 5", r"(\1 \2, 4", text),
        "question of 30 words": lambda text: " OR ".join(text.split()),
    }
    for what, turned in theirs.items():
        texts = [turned(text) for text in given[what]]
        show(f"FTS5: {what}", timed(lambda text: db.execute(ask, (text,)).fetchall(), texts))


def check(corpus: Corpus, words: Words) -> None:
    """A wrong answer has no speed: totals of words are those of looking at every passage."""
    analyzer = corpus.snapshot.sparse.analyzer
    assert analyzer is not None
    snapshot = corpus.snapshot
    wanted = {words.word() for _ in range(5)}
    counts = dict.fromkeys(wanted, 0)
    for document in snapshot.documents():
        titles = {section.id: " ".join(section.path) for section in snapshot.sections(document.id)}
        for chunk in snapshot.chunks_of(document.id):
            text = "\n".join((document.title, titles[chunk.section_id], chunk.text))
            for word in wanted & set(analyzer.tokens(text)):
                counts[word] += 1
    for word, count in counts.items():
        total = corpus.hybrid_search(word, mode="exact").report.total
        if total != count:
            raise SystemExit(f"{word!r} is in {count} passages, the answer says {total}")


def made(place: Path, share: int, chunks: int | None, embedder: Embedder | None = None) -> Path:
    """A corpus of every so many-th file of the shared one, or of so many chunks."""
    top = SHARED / "data" / "dbconn"
    if not top.is_dir():
        raise SystemExit(f"no corpus at {top}; set GNOMON_SHARED or name an index")
    files = list(walk_sources(top, Coverage()))[:: share if chunks is None else 1]
    given = [(file.path, Path(file.place).read_bytes()) for file in files]
    with CorpusIndex.create(place / "bench.corpus") as index:
        index.update([Documents("dbconn", given)], embedder=embedder)
        if chunks is not None:
            index.update(copies(index, given, chunks), embedder=embedder)
    return place / "bench.corpus"


def copies(index: CorpusIndex, given: list[tuple[str, bytes]], chunks: int) -> list[Documents]:
    """The documents, and copies of the first ones, until there are so many chunks."""
    snapshot = index.snapshot()
    n = {each.path: len(snapshot.chunks_of(each.id)) for each in snapshot.documents()}
    sources, left = [Documents("dbconn", given)], chunks - sum(n.values())
    while left > 0:
        again = []
        for path, raw in given:
            if left > 0:
                again.append((path, raw))
                left -= n[path]
        sources.append(Documents(f"copy-{len(sources)}", again))
    return sources


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("index", nargs="?")
    parser.add_argument("--share", type=int, default=4)
    parser.add_argument("--chunks", type=int, help="Passages of the corpus that is made.")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--cpu", action="store_true", help="Time of the process, not of the wall.")
    options = parser.parse_args()
    if options.cpu:
        global clock
        clock = time.process_time
    with tempfile.TemporaryDirectory() as place:
        index = options.index or made(Path(place), options.share, options.chunks)
        measure(index, options.queries, options.peers)


def measure(index: str | Path, n: int, with_peers: bool) -> None:
    began = clock()
    corpus = Corpus.open(index, cache_bytes=0)
    show("open", [(clock() - began) * 1000])
    began = clock()
    corpus.hybrid_search("first")
    show("first question", [(clock() - began) * 1000])
    size = {"what": "passages", "value": corpus.snapshot.stats().chunks, "unit": "passages"}
    print(json.dumps(size), flush=True)
    words = Words(corpus, 4)
    check(corpus, words)
    given = queries(words, n)
    engine(corpus, given)
    api(corpus, given, words, n)
    if with_peers:
        peers(corpus, given, words)


if __name__ == "__main__":
    main()
