"""The peers of the corpus benchmarks: SQLite FTS5, tantivy and bm25s over the same passages.

To be built, a peer gets texts and cuts them itself. To be asked, it gets the tokens of gnomon's
analyzer as words of its own (`t12 t7 ...`), so that totals are the same or one of the two is wrong.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gnomon.corpus import Corpus

TOP_K = 10


class Tokens:
    """The tokens of texts as words that every peer cuts alike."""

    def __init__(self, corpus: Corpus) -> None:
        analyzer = corpus.snapshot.sparse.analyzer
        assert analyzer is not None
        self.analyzer = analyzer
        self.numbers: dict[str, int] = {}

    def of(self, text: str) -> list[int]:
        numbers = self.numbers
        return [numbers.setdefault(token, len(numbers)) for token in self.analyzer.tokens(text)]

    def words(self, text: str) -> list[str]:
        return [f"t{number}" for number in self.of(text)]


def passages(corpus: Corpus) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Of each document its path and revision, and title, headings and text of its passages."""
    snapshot = corpus.snapshot
    known: dict[tuple[str, ...], list[str]] = {}
    for document in snapshot.documents():
        name = document.path, document.revision
        if name not in known:  # the copies of a document have its passages
            titles = {one.id: " ".join(one.path) for one in snapshot.sections(document.id)}
            known[name] = [
                "\n".join((document.title, titles[chunk.section_id], chunk.text))
                for chunk in snapshot.chunks_of(document.id)
            ]
        yield name, known[name]


def texts_of(corpus: Corpus) -> list[str]:
    return [text for _, texts in passages(corpus) for text in texts]


def coded(corpus: Corpus, tokens: Tokens) -> Iterator[str]:
    """The passages as the peers' words."""
    known: dict[tuple[str, ...], list[str]] = {}
    for name, texts in passages(corpus):
        if name not in known:
            known[name] = [" ".join(tokens.words(text)) for text in texts]
        yield from known[name]


class Fts5:
    """SQLite FTS5, unicode61, text not stored, on the disk without waiting for it."""

    name = "FTS5"

    def __init__(self, place: Path, texts: Iterable[str]) -> None:
        self.path = place / "fts5.sqlite"
        self.db = sqlite3.connect(self.path)
        self.db.execute("PRAGMA synchronous=OFF")
        self.db.execute("CREATE VIRTUAL TABLE f USING fts5(t, content='')")
        self.db.executemany("INSERT INTO f(t) VALUES(?)", ((text,) for text in texts))
        self.db.commit()

    def optimize(self) -> None:
        """One segment, as fast as it gets."""
        self.db.execute("INSERT INTO f(f) VALUES('optimize')")
        self.db.commit()

    def best(self, match: str) -> list[Any]:
        ask = "SELECT rowid FROM f WHERE f MATCH ? ORDER BY bm25(f) LIMIT 10"
        return self.db.execute(ask, (match,)).fetchall()

    def total(self, match: str) -> int:
        ask = "SELECT count(*) FROM f WHERE f MATCH ?"
        return int(self.db.execute(ask, (match,)).fetchone()[0])

    def answer(self, match: str) -> tuple[int, list[Any]]:
        return self.total(match), self.best(match)

    def bytes(self) -> int:
        return self.path.stat().st_size


class Tantivy:
    """tantivy, one thread, with positions, text not stored."""

    name = "tantivy"

    def __init__(self, place: Path, texts: Iterable[str], tokenizer: str = "default") -> None:
        import tantivy

        schema = tantivy.SchemaBuilder()
        schema.add_text_field("t", stored=False, tokenizer_name=tokenizer, index_option="position")
        self.path = place / "tantivy"
        self.path.mkdir()
        self.index = tantivy.Index(schema.build(), path=str(self.path))
        writer = self.index.writer(heap_size=500_000_000, num_threads=1)
        for text in texts:
            writer.add_document(tantivy.Document(t=text))
        writer.commit()
        writer.wait_merging_threads()
        self.index.reload()
        self.searcher = self.index.searcher()

    def best(self, text: str) -> Any:
        return self.searcher.search(self.index.parse_query(text, ["t"]), TOP_K, count=False)

    def answer(self, text: str) -> Any:
        return self.searcher.search(self.index.parse_query(text, ["t"]), TOP_K, count=True)

    def total(self, text: str) -> int:
        return int(self.answer(text).count)

    def bytes(self) -> int:
        return sum(path.stat().st_size for path in self.path.iterdir())


class Bm25s:
    """bm25s in memory; scores of all passages, then the best."""

    name = "bm25s"

    def __init__(self, given: Sequence[str] | list[list[int]], words: int = 0) -> None:
        import bm25s

        self.index = bm25s.BM25(method="lucene")
        if words:
            self.index.index((given, {f"t{i}": i for i in range(words)}), show_progress=False)
        else:
            cut = bm25s.tokenize(list(given), stopwords=None, show_progress=False)
            self.index.index(cut, show_progress=False)

    def best(self, query: list[str]) -> Any:
        return self.index.retrieve([query], k=TOP_K, show_progress=False, n_threads=0)


def built(peer: type[Any], *given: Any) -> tuple[Any, float]:
    """A peer and the seconds that it took to build."""
    began = time.perf_counter()
    made = peer(*given)
    return made, time.perf_counter() - began
