"""The trigram index gives the candidates of the plain reference, and finds damage."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from gnomon import _core
from gnomon.reference.trigram import Trigrams, trigram_fold
from hypothesis import example, given
from hypothesis import strategies as st

TEXTS = st.binary(max_size=40) | st.text("aAbBkKsſK\n é", max_size=40).map(lambda t: t.encode())
DOCUMENTS = st.lists(st.lists(TEXTS, max_size=3), max_size=20)
LITERALS = TEXTS | st.text("aAbBkKsS", max_size=6).map(lambda t: t.encode())
QUERIES = st.recursive(
    LITERALS,
    lambda inner: st.tuples(st.sampled_from(["all", "any"]), st.lists(inner, max_size=4)),
    max_leaves=8,
)


def built(documents, folder: Path) -> _core.TrigramIndex:
    builder = _core.TrigramBuilder()
    for parts in documents:
        builder.add(parts)
    path = folder / "trigrams"
    path.unlink(missing_ok=True)
    writer = _core.ContainerWriter(path)
    builder.write(writer)
    writer.finish()
    return _core.TrigramIndex.open(_core.Container(path))


def members(words: np.ndarray, n: int) -> list[int]:
    bits = np.unpackbits(words.view(np.uint8), count=n, bitorder="little")
    return np.flatnonzero(bits).tolist()


@given(TEXTS)
@example("K ſ \u212a".encode())
@example(b"\xe2\x84")
@example(b"\xc5")
def test_folding(text):
    assert _core.trigram_fold(text) == trigram_fold(text)


@given(DOCUMENTS, st.lists(QUERIES, min_size=1, max_size=6))
def test_candidates_equal_the_reference(tmp_path_factory, documents, queries):
    index = built(documents, tmp_path_factory.getbasetemp())
    plain = Trigrams(documents)
    index.verify()
    assert index.n_docs == len(documents)
    for query in queries:
        assert members(index.candidates(query), len(documents)) == plain.candidates(query)


def test_lists_of_every_density(tmp_path):
    """Words of 1 to 3,000 of 3,000 documents, so that all widths of the code occur."""
    rng = random.Random(5)
    n = 3000
    documents: list[list[bytes]] = [[] for _ in range(n)]
    wanted = {}
    for step in range(1, 40):
        df = min(n, max(1, int(1.24**step)))
        chosen = sorted(rng.sample(range(n), df))
        word = bytes([100 + step, 200, 250])
        wanted[word] = chosen
        for doc in chosen:
            documents[doc].append(word)
    index = built(documents, tmp_path)
    for word, chosen in wanted.items():
        assert index.docs(int.from_bytes(word, "big")) == chosen
        assert members(index.candidates(word), n) == chosen
    assert index.n_trigrams == len(wanted)
    index.verify()


def test_many_trigrams_fill_many_blocks(tmp_path):
    rng = random.Random(7)
    documents = [[rng.randbytes(4000)] for _ in range(12)]
    index, plain = built(documents, tmp_path), Trigrams(documents)
    for _ in range(300):
        parts = documents[rng.randrange(12)][0]
        at = rng.randrange(3900)
        literal = parts[at : at + rng.randrange(1, 9)]
        assert members(index.candidates(literal), 12) == plain.candidates(literal)


def test_what_is_no_query(tmp_path):
    index = built([[b"abc"]], tmp_path)
    with pytest.raises(TypeError, match="bytes or a tuple"):
        index.candidates("abc")
    with pytest.raises(ValueError, match="'all' or 'any'"):
        index.candidates(("none", [b"abc"]))
    deep = b"abc"
    for _ in range(300):
        deep = ("all", [deep])
    with pytest.raises(ValueError, match="nested"):
        index.candidates(deep)
    with pytest.raises((TypeError, BufferError)):
        _core.TrigramBuilder().add(["a str"])


def test_every_damaged_byte_is_found(tmp_path):
    documents = [[b"some words", b"and more"], [b"other words"], []]
    index = built(documents, tmp_path)
    whole = (tmp_path / "trigrams").read_bytes()
    del index
    for place in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[place] ^= 0x41
        (tmp_path / "damaged").write_bytes(damaged)
        with pytest.raises(_core.CorruptIndex):
            _core.TrigramIndex.open(_core.Container(tmp_path / "damaged")).verify()


FORGED = {
    "head": np.array([1, 2, 900], np.uint32),
    "first": np.array([1 << 24], np.uint32),
    "entry": np.array([99], np.uint64),
    "list": np.array([1 << 60], np.uint64),
    "entries": np.array([255] * 30, np.uint8),
    "lists": np.zeros(1, np.uint8),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_sections_are_refused(tmp_path, name):
    """A file whose checksums are right and whose content is not."""
    built([[b"some words"], [b"some other words"]], tmp_path)
    honest = _core.Container(tmp_path / "trigrams")
    writer = _core.ContainerWriter(tmp_path / "forged")
    for section, _, _ in honest.sections():
        writer.section(section, FORGED[name] if section == name else honest.array(section))
    writer.finish()
    with pytest.raises(_core.CorruptIndex):
        _core.TrigramIndex.open(_core.Container(tmp_path / "forged")).verify()
