"""Near duplicates are those of all pairs compared, found without comparing all pairs."""

from __future__ import annotations

import random
from itertools import combinations
from pathlib import Path

import pytest
from corpora import FULL, count, files_of, more_texts
from corpora import pages as all_pages
from gnomon.corpus import Corpus, CorpusIndex, Documents, process_document
from gnomon.corpus import near_duplicates as module
from gnomon.corpus.near_duplicates import jaccard, near_duplicates, shingles_of
from hypothesis import example, given
from hypothesis import strategies as st

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "dbconn"


def shingles(text: str) -> set[tuple[str, ...]]:
    words = text.casefold().split()
    return {tuple(words[i : i + 5]) for i in range(max(len(words) - 4, 1))}


def by_all_pairs(texts: list[str], threshold: float) -> list[int]:
    sets = [shingles(text) for text in texts]
    heads = list(range(len(texts)))
    for a, b in combinations(range(len(texts)), 2):
        if len(sets[a] & sets[b]) / len(sets[a] | sets[b]) >= threshold:
            low, high = sorted((heads[a], heads[b]))
            heads = [low if head == high else head for head in heads]
    return heads


WORDS = st.lists(st.sampled_from(["a", "b", "c", "dd"]), max_size=14).map(" ".join)


@given(st.lists(WORDS, max_size=12), st.sampled_from([0.1, 1 / 3, 0.5, 0.8, 0.9, 1.0]))
@example(["", "", "a"], 0.9)
@example(["a b c a b c", "a b c a b", "A  b C a b c"], 0.5)
def test_equal_to_all_pairs(texts, threshold):
    assert near_duplicates(texts, threshold) == by_all_pairs(texts, threshold)


def family(rng: random.Random, words: int, members: int) -> list[str]:
    base = [f"w{rng.randrange(400)}" for _ in range(words)]
    texts = []
    for _ in range(members):
        own = list(base)
        for _ in range(rng.randrange(4)):
            own[rng.randrange(words)] = f"x{rng.randrange(400)}"
        texts.append(" ".join(own))
    return texts


def test_families(monkeypatch):
    rng = random.Random(6)
    texts = [text for _ in range(12) for text in family(rng, rng.randrange(20, 120), 12)]
    rng.shuffle(texts)
    compared = 0

    def counted(one, other):
        nonlocal compared
        compared += 1
        return jaccard(one, other)

    monkeypatch.setattr(module, "jaccard", counted)
    for threshold in (0.6, 0.9):
        assert near_duplicates(texts, threshold) == by_all_pairs(texts, threshold)
    assert compared < len(texts) * (len(texts) - 1) / 4  # of two rounds


def test_thresholds_are_checked():
    for threshold in (0.0, 1.5, -1.0, float("nan")):
        with pytest.raises(ValueError, match="threshold"):
            near_duplicates(["a"], threshold)


def pairs_of(heads: list[int]) -> set[tuple[int, int]]:
    clusters: dict[int, list[int]] = {}
    for number, head in enumerate(heads):
        clusters.setdefault(head, []).append(number)
    return {pair for members in clusters.values() for pair in combinations(members, 2)}


def sample(n: int) -> list[str]:
    """Chunks of real pages: in full of the release notes, which are nearly the same."""
    top = more_texts("release-notes") if FULL else SHARED / "mariadb-docs" / "connectors"
    texts: list[str] = []
    for path in sorted(top.rglob("*.md")):
        done = process_document(path.read_bytes(), "docs", path=path.name, facts=False)
        texts += [chunk.text for chunk in done.chunks if len(chunk.text.split()) >= 30]
        if len(texts) >= n:
            break
    return texts[:n]


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is not there")
def test_clusters_agree_with_datasketch(monkeypatch):
    """Check 16: MinHash with LSH, from another hand, on 5,000 real chunks: it estimates what is
    exact here. F1 of the pairs is at least 0.98, and not all pairs are compared.
    """
    datasketch = pytest.importorskip("datasketch", reason="datasketch is not installed")
    texts = sample(count(700, 5000))
    rng = random.Random(1)
    for _ in range(0 if FULL else 300):  # near copies, as release notes have them
        words = rng.choice(texts[:400]).split(" ")
        words[rng.randrange(len(words))] = "changed"
        texts.append(" ".join(words))
    compared = 0

    def counted(one, other):
        nonlocal compared
        compared += 1
        return jaccard(one, other)

    monkeypatch.setattr(module, "jaccard", counted)
    found = pairs_of(near_duplicates(texts, 0.9))
    index = datasketch.MinHashLSH(threshold=0.8, num_perm=128)
    sketches = []
    for number, text in enumerate(texts):
        sketch = datasketch.MinHash(num_perm=128)
        sketch.update_batch([" ".join(words).encode() for words in shingles(text)])
        index.insert(number, sketch)
        sketches.append(sketch)
    sets = [shingles(text) for text in texts]
    heads = list(range(len(texts)))
    for number, sketch in enumerate(sketches):
        for other in index.query(sketch):
            union = len(sets[number] | sets[other])
            if other < number and len(sets[number] & sets[other]) / union >= 0.9:
                low, high = sorted((heads[number], heads[other]))
                heads = [low if head == high else head for head in heads]
    theirs = pairs_of(heads)
    shared = len(found & theirs)
    f1 = 2 * shared / (len(found) + len(theirs))
    every = len(texts) * (len(texts) - 1) // 2
    print(f"{len(texts)} chunks, {len(found)} pairs, F1 {f1:.4f}, {compared} of {every} compared")
    assert len(theirs) > 100
    assert f1 >= 0.98
    assert theirs <= found  # an estimate may miss a pair; the exact join may not
    assert compared < every / 50


@pytest.mark.skipif(
    not FULL, reason="set GNOMON_CORPUS_FULL=1; test_corpus_spread.py has made ones"
)
def test_one_of_each_cluster_of_release_notes_is_shown(tmp_path):
    """Check 16: collapse="near" over release notes shows one passage of each cluster, the best, and
    names the others.
    """
    pages = files_of(more_texts("release-notes"), ".md")[::3]
    with CorpusIndex.create(tmp_path / "x") as index:
        index.update([Documents("notes", pages)])
    corpus = Corpus.open(tmp_path / "x")
    for query in ("release notes", "innodb", "replication bug"):
        asked = {"query": query, "mode": "exact", "k": 1000, "max_tokens": 100_000}
        plain = [i for a in all_pages(corpus.hybrid_search, **asked) for i in a][:1000]
        shown = [i for a in all_pages(corpus.hybrid_search, **asked, collapse="near") for i in a]
        heads = by_sets([corpus.snapshot.text(item.chunk_id) for item in plain])
        best = [item.chunk_id for place, item in enumerate(plain) if heads[place] == place]
        assert [item.chunk_id for item in shown][: len(best)] == best
        print(f"{query}: {len(plain)} passages, {len(best)} clusters")
        assert len(best) < len(plain)


def by_sets(texts: list[str]) -> list[int]:
    """All pairs, but only those whose sizes allow the similarity."""
    sets = [shingles(text) for text in texts]
    heads = list(range(len(texts)))
    for a, b in combinations(range(len(texts)), 2):
        few, many = sorted((len(sets[a]), len(sets[b])))
        if heads[a] != heads[b] and few >= 0.9 * many:
            shared = len(sets[a] & sets[b])
            if shared / (few + many - shared) >= 0.9:
                low, high = sorted((heads[a], heads[b]))
                heads = [low if head == high else head for head in heads]
    return heads


def test_chunks_of_a_corpus(tmp_path):
    body = " ".join(f"word{i}" for i in range(60))
    given = [
        ("a.md", f"# One\n\n{body}\n".encode()),
        ("b.md", f"# One\n\n{body} more\n".encode()),
        ("c.md", b"# Three\n\nother words entirely\n"),
    ]
    with CorpusIndex.create(tmp_path / "x") as index:
        index.update([Documents("docs", given)])
        snapshot = index.snapshot()
    heads = snapshot.near_duplicates(threshold=0.9)
    chunks = [snapshot.chunks_of(document.id)[0].id for document in snapshot.documents()]
    assert heads == {chunks[0]: chunks[0], chunks[1]: chunks[0], chunks[2]: chunks[2]}
    assert snapshot.near_duplicates(chunks[1:]) == {name: name for name in chunks[1:]}


def test_one_shingle_has_one_hash():
    """The same words give the same numbers wherever they stand, and different words others."""
    one, two = shingles_of(["a b c d e f", "x a b c d e f y"])
    assert set(one.tolist()) < set(two.tolist())
    assert len(two) == 4
