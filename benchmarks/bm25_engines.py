"""The engines of the BM25 benchmarks: build(corpus, folder), then open(folder, corpus) -> search.

A build happens in a process of its own, whose time and peak memory are reported; a search takes
token ids and k.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
from bm25_inputs import Corpus
from bm25_truth import Formula, lucene_idf, okapi_idf, pisa_idf

K1, B = 1.5, 0.75
RANK_MOST = 10_000
Search = Callable[[list[int], int], Any]


def build_gnomon(corpus: Corpus, folder: Path) -> None:
    index = gnomon.BM25Index.build((corpus.flat, corpus.offsets), k1=K1, b=B)
    index.save(folder / "index")


def open_gnomon(folder: Path, corpus: Corpus) -> Search:
    index = gnomon.BM25Index.load(folder / "index")
    return lambda query, k: index.search(query, k).ids


def _bm25s_like(module: str) -> tuple[Callable[[Corpus, Path], None], Callable[..., Search]]:
    def build(corpus: Corpus, folder: Path) -> None:
        package = __import__(module)
        vocabulary = {f"t{i}": i for i in range(int(corpus.flat.max()) + 1)}
        ids = [corpus.flat[a:b].tolist() for a, b in _bounds(corpus)]
        index = package.BM25(k1=K1, b=B, backend="numba")
        index.index((ids, vocabulary), show_progress=False)
        index.save(str(folder / "index"))

    def open_(folder: Path, corpus: Corpus) -> Search:
        package = __import__(module)
        index = package.BM25.load(str(folder / "index"), load_corpus=False)
        index.backend = "numba"
        index.activate_numba_scorer()

        def search(query: list[int], k: int) -> Any:
            # Ids need no look-up in the vocabulary.
            found = index.retrieve(
                [query], k=k, show_progress=False, n_threads=0, backend_selection="numba"
            )
            return found[0][0]

        return search

    return build, open_


def _bounds(corpus: Corpus) -> Any:
    ends = corpus.offsets.tolist()
    return pairwise(ends)


def build_tantivy(corpus: Corpus, folder: Path) -> None:
    import tantivy

    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text", stored=False, tokenizer_name="whitespace", index_option="freq")
    (folder / "index").mkdir()
    index = tantivy.Index(schema.build(), path=str(folder / "index"))
    writer = index.writer(heap_size=500_000_000, num_threads=1)
    for a, b in _bounds(corpus):
        words = " ".join([f"t{t}" for t in corpus.flat[a:b].tolist()])
        writer.add_document(tantivy.Document(text=words))
    writer.commit()
    writer.wait_merging_threads()


def open_tantivy(folder: Path, corpus: Corpus) -> Search:
    import tantivy

    index = tantivy.Index.open(str(folder / "index"))
    searcher = index.searcher()

    def search(query: list[int], k: int) -> Any:
        parsed = index.parse_query(" ".join([f"t{t}" for t in query]), ["text"])
        return [hit[1].doc for hit in searcher.search(parsed, k, count=False).hits]

    return search


def build_pisa(corpus: Corpus, folder: Path) -> None:
    from pyterrier_pisa import PisaIndex

    # One batch: several give wrong scores. toks_indexer ignores a batch_size of its own (0.4.9).
    size = corpus.n + 1
    path = str(folder / "index")
    index = PisaIndex(path, stemmer="none", stops="none", threads=1, batch_size=size)

    def documents() -> Any:
        for i, (a, b) in enumerate(_bounds(corpus)):
            words, counts = np.unique(corpus.flat[a:b], return_counts=True)
            toks = {f"t{w}": c for w, c in zip(words.tolist(), counts.tolist(), strict=True)}
            yield {"docno": str(i), "toks": toks}

    index.toks_indexer(scale=1.0).index(documents())


def _open_pisa(algorithm: str) -> Callable[[Path, Corpus], Search]:
    def open_(folder: Path, corpus: Corpus) -> Search:
        from pyterrier_pisa import PisaIndex, _pisathon

        index = PisaIndex(str(folder / "index"), stemmer="none", stops="none", threads=1)
        scorer = index.bm25(k1=K1, b=B, threads=1, query_algorithm=algorithm)
        scorer.reset_retrieval_context()

        def search(query: list[int], k: int) -> Any:
            # Below the pipeline, whose data frames cost more than the search.
            names = np.empty(k, dtype=object)
            n = _pisathon.retrieve(
                scorer._ctxt,
                algorithm,
                [(0, {f"t{t}": float(query.count(t)) for t in query})],
                k=k,
                threads=1,
                query_weighted=1,
                pretokenised=True,
                result_qidxs=np.empty(k, dtype=np.int32),
                result_docnos=names,
                result_ranks=np.empty(k, dtype=np.int32),
                result_scores=np.empty(k, dtype=np.float32),
            )
            return names[:n]

        return search

    return open_


def build_rank(corpus: Corpus, folder: Path) -> None:
    if corpus.n > RANK_MOST:
        raise RuntimeError(f"rank_bm25 scores every document in Python: not over {RANK_MOST}")
    import pickle

    from rank_bm25 import BM25Okapi

    index = BM25Okapi([corpus.document(i) for i in range(corpus.n)], k1=K1, b=B)
    (folder / "index").mkdir()
    (folder / "index" / "pickle").write_bytes(pickle.dumps(index))


def open_rank(folder: Path, corpus: Corpus) -> Search:
    import pickle

    index = pickle.loads((folder / "index" / "pickle").read_bytes())
    return lambda query, k: np.argsort(-index.get_scores(query), kind="stable")[:k]


ENGINES: dict[str, tuple[str, Callable[[Corpus, Path], None], Callable[[Path, Corpus], Search]]] = {
    "gnomon": ("gnomon", build_gnomon, open_gnomon),
    "bm25s": ("bm25s", *_bm25s_like("bm25s")),
    "bm25q": ("bm25q", *_bm25s_like("bm25q")),
    "tantivy": ("tantivy", build_tantivy, open_tantivy),
    "pisa bmw": ("pyterrier_pisa", build_pisa, _open_pisa("block_max_wand")),
    "pisa maxscore": ("pyterrier_pisa", build_pisa, _open_pisa("maxscore")),
    "rank_bm25": ("rank_bm25", build_rank, open_rank),
}

# What each computes. bm25s' and bm25q's method is "lucene"; tantivy's query parser drops repeated
# words; rank_bm25's floor of idf is its own.
FORMULAS = {
    "gnomon": Formula(lucene_idf, K1, B),
    "bm25s": Formula(lucene_idf, K1, B),
    "bm25q": Formula(lucene_idf, K1, B),
    "tantivy": Formula(lucene_idf, 1.2, 0.75, once=True),
    "pisa bmw": Formula(pisa_idf, K1, B),
    "pisa maxscore": Formula(pisa_idf, K1, B),
    "rank_bm25": Formula(okapi_idf, K1, B),
}


# ---- texts: what makes tokens of them, and what makes an index ------------------------------


def _gnomon_tokens(texts: list[str]) -> None:
    """Into a builder, which holds term frequencies then: more than the peers' token ids."""
    prepare = gnomon.Analyzer("bm25s").feed(gnomon._core.Bm25Builder(with_vocabulary=True))
    for at in range(0, len(texts), 1024):
        prepare(texts[at : at + 1024])()


def _gnomon_index(texts: list[str]) -> None:
    gnomon.BM25Index.build(texts, analyzer="bm25s", k1=K1, b=B, threads=1)


def _bm25s_tokens(texts: list[str]) -> Any:
    import bm25s

    return bm25s.tokenize(texts, show_progress=False)


def _bm25s_index(texts: list[str]) -> None:
    import bm25s

    index = bm25s.BM25(k1=K1, b=B, backend="numba")
    index.index(_bm25s_tokens(texts), show_progress=False)


TEXT_ENGINES: dict[str, tuple[Callable[[list[str]], Any], Callable[[list[str]], None]]] = {
    "gnomon": (_gnomon_tokens, _gnomon_index),
    "bm25s": (_bm25s_tokens, _bm25s_index),
}
