"""Packed postings: what they hold, what a forger gets, what is kept of them in memory."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
import strategies
from gnomon import _core
from gnomon.bm25_query import And, Near, Phrase, Prefix
from hypothesis import given, settings
from hypothesis import strategies as st
from test_hostile_index import forge_meta, manifest_of, seal

Lists = list[dict[int, int]]  # by term: frequencies by document


def segment_of(lists: Lists, n_docs: int, positions: bool = False) -> _core.Bm25Index:
    builder = _core.Bm25Builder(False, 1, positions)
    documents: list[list[int]] = [[] for _ in range(n_docs)]
    for term, frequencies in enumerate(lists):
        for doc, tf in frequencies.items():
            documents[doc] += [term] * tf
    offsets = np.cumsum([0, *map(len, documents)])
    builder.add_ids(np.concatenate([[], *documents]).astype(np.uint32), offsets.astype(np.int64))
    return builder.finish()


def written(segment: _core.Bm25Index, path: Path, packed: bool = True) -> _core.Bm25Index:
    writer = _core.ContainerWriter(path)
    segment.write(writer, packed)
    writer.finish()
    return _core.Bm25Index.open(_core.Container(path))


def merged(segments: Any, path: Path, packed: bool) -> _core.Bm25Index:
    writer = _core.ContainerWriter(path)
    _core.merge_segments_to(segments, writer, packed)
    writer.finish()
    return _core.Bm25Index.open(_core.Container(path))


def content(segment: _core.Bm25Index) -> list[Any]:
    """Postings, and positions where there are any, of each term."""
    found: list[Any] = []
    for term in range(segment.n_terms):
        docs, tfs = segment.postings(term)
        found.append((docs.tolist(), tfs.tolist()))
        if segment.has_positions:
            found.append(segment.positions(term))
    return found


@st.composite
def lists_of_postings(draw: st.DrawFn) -> tuple[Lists, int]:
    """Lists around the borders of blocks, dense and sparse, with frequencies of every width."""
    n_docs = draw(st.sampled_from((1, 2, 33, 70, 5000)))
    rng = np.random.default_rng(draw(strategies.seeds()))
    lists: Lists = []
    for size in draw(st.lists(st.sampled_from((0, 1, 2, 31, 32, 33, 64, 65, 600)), max_size=5)):
        docs = np.sort(rng.choice(n_docs, size=min(size, n_docs), replace=False))
        most = draw(st.sampled_from((1, 2, 4, 5, 254, 255, 256, 700)))
        tfs = np.where(rng.random(docs.size) < 0.02, most, rng.integers(1, min(most, 3) + 1))
        lists.append(dict(zip(docs.tolist(), tfs.tolist(), strict=True)))
    return lists, n_docs


@settings(max_examples=max(20, settings().max_examples // 4))  # each writes nine files
@given(lists_of_postings(), st.booleans(), strategies.seeds())
def test_packed_and_plain_hold_the_same(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[Lists, int], positions: bool, seed: int
) -> None:
    """Written from memory, copied from a packed file, and merged with deletions."""
    folder = tmp_path_factory.mktemp("packed")
    plain = segment_of(*case, positions)
    packed = written(plain, folder / "packed")
    packed.verify()
    assert content(packed) == content(plain)
    assert [packed.n_postings(), packed.n_tokens()] == [plain.n_postings(), plain.n_tokens()]
    copied = written(packed, folder / "copied")
    assert (folder / "copied").read_bytes() == (folder / "packed").read_bytes()
    copied.verify()
    dead = np.random.default_rng(seed).random(packed.n_docs) < 0.3
    bits = np.zeros((dead.size + 63) // 64 * 64, dtype=np.uint8)
    bits[: dead.size] = dead
    words = np.packbits(bits, bitorder="little").view(np.uint64)
    for number, to_packed in enumerate((True, False)):
        results = [
            merged([(one, words), (two, None)], folder / f"{number} {place}", to_packed)
            for place, (one, two) in enumerate(((plain, plain), (packed, plain), (packed, copied)))
        ]
        assert {result.is_packed for result in results} == {to_packed}
        for result in results:
            result.verify()
            assert content(result) == content(results[0])
        assert content(_core.merge_segments([(packed, words), (copied, None)])) == content(
            results[0]
        )


def raw_segment(folder: Path, n_docs: int, lists: bytes, tokens: int, postings: int) -> Path:
    """A file of one term with these bytes as its list, right in everything else."""
    writer = _core.ContainerWriter(folder / "raw")
    writer.section("version", np.array([3], np.uint64))
    writer.section("counts", np.array([n_docs, 1, 1, tokens, postings], np.uint64))
    lengths = np.zeros(n_docs, np.uint32)
    lengths[:1] = tokens
    writer.section("0.lengths", lengths)
    writer.section("0.lists", np.frombuffer(lists + bytes(8), np.uint8))
    width = len(lists).bit_length()
    sizes = len(lists).to_bytes(8 * width, "little") + bytes(8)
    writer.section("0.lists_blocks", np.array([0, 0, len(lists), 8 * width], np.uint64))
    writer.section("0.lists_sizes", np.frombuffer(sizes, np.uint8))
    writer.finish()
    return folder / "raw"


@pytest.mark.parametrize(
    ("n_docs", "lists", "message"),
    [
        (40, bytes([1, 7, 0]), None),  # document 7, once
        (40, bytes([2, 7, 0b00000100, 3]), None),  # 7 and 11
        (40, bytes([1, 40, 0]), "does not exist"),
        (40, bytes([1, 0x80, 0x80, 0x80, 0x80, 0x10, 0]), "too large"),
        (40, bytes([1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0]), "too long"),
        (40, bytes([0, 0, 0]), "too many or none"),
        (40, bytes([41, 0, 0]), "too many or none"),
        (200, bytes([129, 1, 0, 0]), "too many or none"),  # 129 in four bytes, of 32 each
        (40, bytes([33, 0, 0]), "too early"),  # a block, and no second one
        (40, bytes([32, 0, 0]), None),  # 0 to 31 in three bytes
        (31, bytes([32, 0, 0]), "too many or none"),
        (32, bytes([32, 1, 0]), "does not exist"),
        (40, bytes([2, 0, 33]) + bytes(8), "above 32 bits"),
        (40, bytes([2, 0, 63]) + bytes(8), "above 32 bits"),
        (40, bytes([1, 0, 0b11000000, 33]) + bytes(8), "above 32 bits"),
        (40, bytes([2, 0, 32]) + b"\xff\xff\xff\xff", "does not exist"),  # 2**32: no overflow
        (40, bytes([3, 0, 32]) + b"\xff" * 8, "does not exist"),
        (40, bytes([2, 0, 32]) + b"\xff\xff\xff", "too early"),
        (40, bytes([1, 0, 0b11000000, 32]) + b"\xff\xff\xff\xff", "frequency is too large"),
        (40, bytes([1, 0, 0b11000000, 32]) + b"\xfe\xff\xff\xff", None),
        (40, bytes([1, 0, 0b11000000]), "too early"),
        (40, bytes([1, 0]), "too early"),
        (40, bytes([0x81]), "too early"),
        (40, bytes([1, 7, 0, 0]), "bytes behind the last"),
    ],
)
def test_a_forged_list(tmp_path: Path, n_docs: int, lists: bytes, message: str | None) -> None:
    segment = _core.Bm25Index.open(_core.Container(raw_segment(tmp_path, n_docs, lists, 1, 1)))
    if message is None:
        docs, tfs = segment.postings(0)
        assert docs.size == tfs.size > 0
    else:
        with pytest.raises(gnomon.CorruptIndex, match=message):
            segment.postings(0)
        with pytest.raises(gnomon.CorruptIndex):
            segment.verify()


@given(st.binary(max_size=40), st.sampled_from((1, 40, 5000)))
def test_any_bytes_are_a_list_or_corrupt(
    tmp_path_factory: pytest.TempPathFactory, lists: bytes, n_docs: int
) -> None:
    path = raw_segment(tmp_path_factory.mktemp("bytes"), n_docs, lists, 1, 1)
    segment = _core.Bm25Index.open(_core.Container(path))
    try:
        docs, tfs = segment.postings(0)
    except gnomon.CorruptIndex:
        return
    assert (docs.size == 0) == (lists == b"")
    assert np.all(docs[1:] > docs[:-1])
    assert np.all(docs < n_docs)
    assert np.all(tfs > 0)


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("lists_blocks", 0, 1),
        ("lists_blocks", 0, 2**63),
        ("lists_blocks", 1, 3),
        ("lists_blocks", 1, 2**64 - 8),
        ("lists_blocks", 2, 2**40),
        ("lists_blocks", 3, 8 * 33),
        ("lists_blocks", 3, 0),
        ("lists_sizes", 0, 255),
        ("lists_sizes", 3, 1),
        ("pos_blocks", 0, 2),
        ("pos_blocks", 3, 2**63),
        ("pos_sizes", 0, 255),
        ("counts", 4, 7),
    ],
)
def test_a_forged_directory(tmp_path: Path, name: str, place: int, value: int) -> None:
    written(segment_of([{0: 1, 2: 9}, {}, {1: 3}], 3, positions=True), tmp_path / "good")
    container = _core.Container(tmp_path / "good")
    writer = _core.ContainerWriter(tmp_path / "bad")
    for section, _, _ in container.sections():
        values = container.array(section).copy()
        if section in (name, f"0.{name}"):
            values[place] = value
        writer.section(section, values)
    writer.finish()
    with pytest.raises(gnomon.CorruptIndex):
        _core.Bm25Index.open(_core.Container(tmp_path / "bad")).verify()


def texts(n: int) -> list[str]:
    rng = np.random.default_rng(n)
    return [" ".join(f"w{w}" for w in np.minimum(rng.zipf(1.3, size=12), 900)) for _ in range(n)]


def test_an_index_stays_packed_whatever_is_done(tmp_path: Path) -> None:
    plain = gnomon.BM25Index.build(texts(3000), positions=True)
    packed = gnomon.BM25Index.build(texts(3000), positions=True, postings="packed")
    indexes = []
    for name, index in (("plain", plain), ("packed", packed)):
        index.save(tmp_path / name)
        writer = gnomon.BM25Index.open(tmp_path / name, mode="w")
        writer.add(texts(40))
        writer.delete(range(0, 900, 7))
        writer.commit()
        writer.update(["w1 w2 new"], ids=[1])
        writer.merge()
        writer.add(texts(5))
        writer.commit()
        writer.close()
        indexes.append(pickle.loads(pickle.dumps(gnomon.BM25Index.open(tmp_path / name))))
    assert [s.core.is_packed for s in indexes[0]._state.segments] == [False, False]
    assert [s.core.is_packed for s in indexes[1]._state.segments] == [True, True]
    indexes[1].verify()
    queries: list[Any] = ["w1 w9 w33", "new w2", Phrase("w1 w2"), And("w1", Prefix("w3"))]
    queries += [Near(["w1", "w5"], 3), ["w2", "w2", "w700"]]
    for query in queries:
        one, two = (index.search(query, 50) for index in indexes)
        assert one.ids.tolist() == two.ids.tolist()
        assert one.scores.tolist() == two.scores.tolist()
    ids = indexes[0].search("w1 w9", 3).ids.tolist()
    assert [str(indexes[0].explain("w1 w9", id)) for id in ids] == [
        str(indexes[1].explain("w1 w9", id)) for id in ids
    ]
    sizes = [sum(f.stat().st_size for f in (tmp_path / n).iterdir()) for n in ("plain", "packed")]
    assert sizes[1] < 0.6 * sizes[0]


def test_how_postings_are_kept_is_said(tmp_path: Path) -> None:
    """By the manifest, but for an index of before packed ones, which is plain."""
    gnomon.BM25Index.build(["red", "green"]).save(tmp_path / "index")
    parts = dict(manifest_of(tmp_path / "index").parts)
    files, meta = parts["bm25"].files, dict(parts["bm25"].meta)
    assert meta.pop("postings") == "plain"
    parts["bm25"] = type(parts["bm25"])(files, meta)
    seal(tmp_path / "index", parts)
    with gnomon.BM25Index.open(tmp_path / "index", mode="w") as older:
        older.add(["red"])
        older.commit()
        assert older.search("red", 3).ids.tolist() == [0, 2]
    assert manifest_of(tmp_path / "index").parts["bm25"].meta["postings"] == "plain"
    forge_meta(tmp_path / "index", "bm25", "postings", "both")
    with pytest.raises(gnomon.CorruptIndex):
        gnomon.BM25Index.load(tmp_path / "index")
    forge_meta(tmp_path / "index", "bm25", "postings", "plain")
    with pytest.raises(ValueError, match="'plain' or 'packed', got 'small'"):
        gnomon.BM25Index.build(["red"], postings="small")  # type: ignore[arg-type]


def test_what_is_decoded_is_kept_within_bounds(tmp_path: Path) -> None:
    """Terms that a scorer remembers, over a cap that holds a few of them."""
    index = gnomon.BM25Index.build(texts(3000), postings="packed")
    index.save(tmp_path / "index")
    plain = gnomon.BM25Index.build(texts(3000))
    opened = gnomon.BM25Index.load(tmp_path / "index")
    queries = [f"w{i} w{i % 7 + 1}" for i in range(1, 120)]
    same: list[bool] = []

    def ask() -> None:
        for query in queries:
            one, two = opened.search(query, 20), plain.search(query, 20)
            same.append(one.ids.tolist() == two.ids.tolist())
            same.append(one.scores.tolist() == two.scores.tolist())

    for screen_memory in (1 << 30, 40_000, 0):
        opened.screen_memory = screen_memory
        same.clear()
        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert same == [True] * 6 * len(queries)


def test_lists_that_are_kept_are_dropped_for_others(tmp_path: Path) -> None:
    """32 MiB of a segment's: of four terms of 10 MiB each, three."""
    n, terms = 2_000_000, 4
    ids = np.tile(np.arange(terms, dtype=np.uint32), n)
    builder = _core.Bm25Builder(False)
    builder.add_ids(ids, np.arange(0, terms * n + 1, terms, dtype=np.int64))
    segment = written(builder.finish(), tmp_path / "large")
    assert (tmp_path / "large").stat().st_size < n * 5
    for term in (0, 1, 2, 3, 0):
        docs, _ = segment.postings(term)
        assert docs.size == n
        assert 5 * n <= segment.kept <= 32 << 20
    assert segment.kept > 15 * n
