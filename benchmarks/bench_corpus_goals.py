"""The ten goals of a corpus, in one run with ripgrep, codesearch, SQLite FTS5, tantivy and bm25s.

bench_corpus_goals.py [--index INDEX] [--million [INDEX]] [--questions N] [--goals 1,2,...]

Without INDEX a corpus is made of the shared documents and copies of them until it has 75,000
passages, each with a random unit vector of 384 numbers (which vectors they are does not change what
an exact search costs). With --million goals 3, 4, 7 and 8 are measured on 1,000,000 passages, made
the same way without vectors. A goal's figures are checked before they are timed: totals of the
questions are those of the peers, lines are ripgrep's, the nearest vectors those of numpy in
float64, the index verifies. Every row names its goal; `limit` is what the goal asks and `met`
whether it was reached. Peers take turns question by question; a question's time is the least of
five rounds (three at a million), so what is kept of hot passages is warm; `value` is the median or
the 95th percentile over the questions. One thread unless a row says otherwise.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import bench_corpus
import bench_corpus_grep
import corpus_goals_parts as parts
from bench_corpus_questions import SHARED, Words, check, made, queries
from corpus_peers import Bm25s, Fts5, Tantivy, Tokens, built, coded, texts_of
from corpus_rows import interleaved, late, middle, row
from gnomon.corpus import Corpus, CorpusIndex, Folder
from gnomon.corpus.query_compile import Compiler
from gnomon.corpus.query_parse import parse

TEXT = SHARED / "data" / "dbconn"


def goal_1(place: Path, index: Path) -> None:
    """Processing on one thread; then whole indexes of the same passages. Leaves one at `index`."""
    texts = bench_corpus.documents(4)
    bench_corpus.check(texts)
    size = sum(len(raw) for raw, _ in texts)
    for name, seconds in bench_corpus.staged(texts, "parse").items():
        limit = (">=", 25.0) if name.startswith("parse") else None
        row(1, f"{name}, 1 thread", size / seconds / 1e6, "MB/s", limit, bytes=size)
    best: dict[str, float] = {}
    passages: list[str] = []
    for turn in range(2):
        for jobs in (1, 2):
            shutil.rmtree(index, ignore_errors=True)
            began = time.perf_counter()
            with CorpusIndex.create(index) as making:
                report = making.update([Folder("dbconn", str(TEXT))], jobs=jobs)
                _least(best, f"gnomon, {jobs} processes", time.perf_counter() - began)
        if turn == 0:
            with CorpusIndex.open(index) as making:
                if problems := making.verify():
                    raise SystemExit(f"the index is not whole: {problems[0]}")
            passages = texts_of(Corpus.open(index))
        for peer, given in ((Tantivy, True), (Fts5, True), (Bm25s, False)):
            own = place / f"build-{peer.name}-{turn}"
            own.mkdir()
            arguments: tuple[Any, ...] = (own, passages) if given else (passages,)
            _least(best, peer.name, built(peer, *arguments)[1])
            shutil.rmtree(own)
    raw = report.bytes_read
    for name, seconds in best.items():
        limit = (">=", 15.0) if name == "gnomon, 2 processes" else None
        row(1, f"whole index: {name}", raw / seconds / 1e6, "MB/s", limit, bytes=raw)
    ratio = best["tantivy"] / best["gnomon, 1 processes"]
    row(1, "whole index, gnomon / tantivy, 1 thread each", ratio, "x", (">=", 0.33))


def _least(best: dict[str, float], name: str, seconds: float) -> None:
    best[name] = min(best.get(name, seconds), seconds)


def goal_2(index: Path, corpus: Corpus, peers: list[Any]) -> None:
    """Bytes on the disk over bytes of the texts."""
    text = corpus.snapshot.stats().bytes
    files = [path for path in index.rglob("*") if path.is_file()]
    sizes = {path: path.stat().st_size for path in files}
    vectors = sum(size for path, size in sizes.items() if (index / "dense") in path.parents)
    raw = sum(size for path, size in sizes.items() if path.name.startswith("segment-raw"))
    search = sum(
        size
        for path, size in sizes.items()
        if (index / "sparse") in path.parents or path.name.startswith("segment-trigrams")
    )
    left = sum(sizes.values()) - vectors - raw
    row(2, "index without raw text and vectors / text", left / text, "x", ("<=", 1.0), bytes=text)
    row(2, "sparse + positions + trigrams / text", search / text, "x", ("<=", 0.6))
    row(2, "raw text, packed / text", raw / text, "x")
    for peer in peers:
        row(2, f"{peer.name}, positions, text not stored / text", peer.bytes() / text, "x")


def asked_of(corpus: Corpus, text: str, loose: bool) -> Any:
    """What asks the engine for the exact total and the 10 best; parsing is part of it."""
    slots = corpus._shared.engine(corpus.scopes).slots
    query = Compiler(slots, loose).query(parse(text, "or" if loose else "and").node)
    return None if query is None else slots.answer(slots.plan(query), 10, None)


def same_totals(
    corpus: Corpus, peers: list[Any], given: dict[str, list[str]], tokens: Tokens
) -> None:
    """Words in any and in all: every engine counts the same passages."""
    for kind, word in (("question of 30 words", " OR "), ("AND of two words", " AND ")):
        for text in given[kind][:25]:
            found = asked_of(corpus, text, word == " OR ")
            words = word.join(dict.fromkeys(tokens.words(text.replace(" AND ", " "))))
            totals = [0 if found is None else found[2], *(peer.total(words) for peer in peers)]
            if len(set(totals)) > 1:
                raise SystemExit(f"{text!r}: totals {totals} of gnomon and the peers differ")


def goal_3(
    corpus: Corpus, given: list[str], tokens: Tokens, peers: dict[str, Any], million: bool
) -> None:
    words = [tokens.words(text) for text in given]
    either = [" OR ".join(each) for each in words]
    runs: dict[str, Any] = {
        "gnomon's engine, total and 10 best": (lambda text: asked_of(corpus, text, True), given),
        "gnomon's API, whole answers": (corpus.hybrid_search, given),
        "tantivy, 10 best": (peers["tantivy"].best, [" ".join(each) for each in words]),
        "tantivy, total and 10 best": (peers["tantivy"].answer, [" ".join(each) for each in words]),
        "FTS5, 10 best": (peers["FTS5"].best, either),
    }
    if "bm25s" in peers:
        runs["bm25s, 10 best"] = (peers["bm25s"].best, words)
    found = interleaved(runs, 3 if million else 5)
    size = "1M" if million else "75k"
    for name, times in found.items():
        own = name.startswith("gnomon's API")
        limits = (("<=", 10.0), ("<=", 30.0)) if million else (None, ("<=", 5.0))
        what = f"question of 30 words at {size}: {name}"
        row(3, f"{what}, p50", middle(times), "ms", limits[0] if own else None, n=len(times))
        row(3, f"{what}, p95", late(times), "ms", limits[1] if own else None)
    for own in ("gnomon's engine, total and 10 best", "gnomon's API, whole answers"):
        for other, limit in (
            ("tantivy, 10 best", None if million else ("<=", 1.2)),
            ("tantivy, total and 10 best", None if million else ("<=", 1.2)),
        ):
            ratio = middle(found[own]) / middle(found[other])
            row(3, f"at {size}: {own} / {other}, p50", ratio, "x", limit)
        ratio = middle(found["FTS5, 10 best"]) / middle(found[own])
        row(3, f"at {size}: FTS5 / {own}, p50", ratio, "x", (">=", 30.0) if million else None)


def goal_4(
    corpus: Corpus, given: dict[str, list[str]], tokens: Tokens, fts5: Fts5, million: bool
) -> None:
    theirs = {
        "AND of two words": lambda text: " AND ".join(tokens.words(text.replace(" AND ", " "))),
        "phrase of two words": lambda text: f'"{" ".join(tokens.words(text))}"',
        "NEAR within 5": lambda text: f"NEAR({' '.join(tokens.words(text[5:-4]))}, 4)",
    }
    size, bound = ("1M", 3.0) if million else ("75k", 0.3)
    for kind in [*theirs, "SECTION of two words"]:
        texts = given[kind]
        runs: dict[str, Any] = {
            "gnomon's engine": (lambda text: asked_of(corpus, text, False), texts),
            "gnomon's API": (corpus.hybrid_search, texts),
        }
        if kind in theirs:
            runs["FTS5"] = (fts5.answer, [theirs[kind](text) for text in texts])
        for name, times in interleaved(runs).items():
            limit = ("<=", bound) if name == "gnomon's engine" else None
            what = f"{kind} at {size}, total and 10 best: {name}, p50"
            row(4, what, middle(times), "ms", limit, p95=round(late(times), 3), n=len(times))


def goal_5(place: Path, index: Path) -> None:
    """Lines, spans and totals of literals and expressions, on the documents as they are."""
    found = bench_corpus_grep.measure(Corpus.open(index).snapshot, place)
    start = found.pop("codesearch, start")["start"][""]
    for kind, best in found.items():
        weak = kind.endswith("without a literal")
        own = middle(list(best["gnomon"].values()))
        limit = None if weak else ("<=", 5.0)
        row(5, f"{kind}: gnomon, spans and totals, p50", own, "ms", limit)
        for other in ("ripgrep, lines", "codesearch, lines"):
            if other not in best:
                continue
            ratios = [(best[other][one] - start * (other[0] == "c")) / t
                      for one, t in best["gnomon"].items()]  # fmt: skip
            peer = other[0] == "r"
            bound = (">=", (1 / 1.1 if weak else 10.0) if peer else 1.0)
            said = "all cores" if peer else "its start taken off"
            what = f"{kind}: {other} ({said}) / gnomon, median"
            row(5, what, middle(ratios), "x", bound, least=round(min(ratios), 2))


def at_size(index: Path, place: Path, options: Any, million: bool, wanted: set[int]) -> None:
    """The goals of questions, on one corpus."""
    parts.goal_8(index, million) if 8 in wanted else None
    corpus = Corpus.open(index, cache_bytes=0)
    row(3, "passages", corpus.snapshot.stats().chunks, "passages")
    words = Words(corpus, 4)
    if not million:
        check(corpus, words)
    given = queries(words, options.questions)
    if wanted & {2, 3, 4}:
        tokens = Tokens(corpus)
        fts5 = Fts5(place, coded(corpus, tokens))
        fts5.optimize()
        tantivy = Tantivy(place, coded(corpus, tokens), "whitespace")
        peers: dict[str, Any] = {"FTS5": fts5, "tantivy": tantivy}
        same_totals(corpus, [fts5, tantivy], given, tokens)
        if 2 in wanted:
            goal_2(index, corpus, [fts5, tantivy])
        if not million:
            ids = [tokens.of(text) for text in texts_of(corpus)]
            peers["bm25s"] = Bm25s(ids, len(tokens.numbers))
        if 3 in wanted:
            goal_3(corpus, given["question of 30 words"], tokens, peers, million)
        if 4 in wanted:
            goal_4(corpus, given, tokens, fts5, million)
    if 6 in wanted:
        parts.goal_6(index, given)
    if 7 in wanted:
        parts.goal_7(corpus, words, options.questions, million)
    if 10 in wanted:
        parts.goal_10(corpus, given["identifier"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", type=Path, help="A corpus that is there already.")
    parser.add_argument("--million", type=Path, nargs="?", const=Path(), default=None)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--goals", default="1,2,3,4,5,6,7,8,9,10")
    options = parser.parse_args()
    wanted = {int(goal) for goal in options.goals.split(",")}
    if not TEXT.is_dir() or not shutil.which("rg"):
        raise SystemExit(f"needs ripgrep, and the documents at {TEXT}; set GNOMON_SHARED")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        if options.million is not None:
            index = options.million
            if index == Path():
                index = made(place, 1, 1_000_000)
            at_size(index, place, options, True, wanted & {3, 4, 7, 8})
            return
        alone = place / "alone.corpus"
        if wanted & {1, 5}:
            goal_1(place, alone)
        if 5 in wanted:
            goal_5(place, alone)
        if 9 in wanted:
            parts.goal_9(place)
        index = options.index or made(place, 1, 75_000, parts.unit_vectors)
        at_size(index, place, options, False, wanted)


if __name__ == "__main__":
    main()
