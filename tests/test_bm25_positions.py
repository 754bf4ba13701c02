"""Token positions of a segment: what the builder stores, what a file holds, what a forger gets."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon import _core
from hypothesis import given
from hypothesis import strategies as st
from strategies import WORDS

Documents = list[list[list[str]]]  # by document, then field


def build(documents: Documents, n_fields: int) -> _core.Bm25Index:
    builder = _core.Bm25Builder(True, n_fields, True)
    builder.add_tokens([field for document in documents for field in document])
    return builder.finish()


def check(index: _core.Bm25Index, documents: Documents, n_fields: int) -> None:
    snapshot = _core.Bm25Snapshot([(index, None)])
    for word in WORDS:
        node = _core.QueryNode("term", text=word.encode())
        for slot, document in enumerate(documents):
            for field in range(n_fields):
                found = _core.query_positions(node, snapshot, slot, field)
                right = [place for place, token in enumerate(document[field]) if token == word]
                assert found == right


def saved(index: _core.Bm25Index, folder: Path, packed: bool = False) -> _core.Bm25Index:
    writer = _core.ContainerWriter(folder / "segment")
    index.write(writer, packed)
    writer.finish()
    return _core.Bm25Index.open(_core.Container(folder / "segment"))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Documents, int]:
    n_fields = draw(st.integers(1, 3))
    field = st.lists(st.sampled_from(WORDS), max_size=6)
    documents = draw(st.lists(st.lists(field, min_size=n_fields, max_size=n_fields), max_size=40))
    return documents, n_fields


@given(cases(), st.booleans())
def test_positions_are_those_of_the_tokens(case: tuple[Documents, int], packed: bool) -> None:
    documents, n_fields = case
    index = build(documents, n_fields)
    check(index, documents, n_fields)
    with tempfile.TemporaryDirectory() as folder:
        opened = saved(index, Path(folder), packed)
        assert opened.has_positions
        assert opened.is_packed == packed
        check(opened, documents, n_fields)
        opened.verify()


def test_long_documents_and_frequent_terms(tmp_path: Path) -> None:
    """Frequencies above 255, distances of one to three bytes, and more than one skip."""
    rng = np.random.default_rng(1)
    documents: Documents = []
    for length in (0, 3, 300, 70_000, *range(40), 5_000, 129, 128, 127):
        common = rng.random(length) < 0.5
        documents.append([["a" if each else "b" for each in common]])
    for distance in (127, 128, 129, 16_383, 16_384, 16_385):
        documents.append([["c", *["b"] * (distance - 1), "c"]])
    index = build(documents, 1)
    check(index, documents, 1)
    check(saved(index, tmp_path), documents, 1)


def test_tokens_of_no_posting_keep_their_place() -> None:
    builder = _core.Bm25Builder(False, 1, True)
    builder.add_matches([["x", "a", "y", "a"], ["a"]], {"a": 0})
    assert builder.finish().positions(0) == [[1, 3], [0]]


def test_an_index_without_positions_says_so(tmp_path: Path) -> None:
    builder = _core.Bm25Builder(True)
    builder.add_tokens([["a"]])
    index = builder.finish()
    assert not index.has_positions
    assert not saved(index, tmp_path).has_positions
    with pytest.raises(ValueError, match="without positions"):
        index.positions(0)


def forged(folder: Path, name: str, change: Any) -> _core.Bm25Index:
    """A segment file with one section changed; all checksums fit."""
    documents = [[["a", "b"] * 3, ["b"]] for _ in range(40)]
    container = _core.Container(
        saved_path(build(documents, 2), folder),
    )
    writer = _core.ContainerWriter(folder / "forged")
    for section, _, _ in container.sections():
        values = container.array(section).copy()
        writer.section(section, change(values) if section == name else values)
    writer.finish()
    return _core.Bm25Index.open(_core.Container(folder / "forged"))


def saved_path(index: _core.Bm25Index, folder: Path) -> Path:
    saved(index, folder)
    return folder / "segment"


def put(place: int, value: int) -> Any:
    def change(values: Any) -> Any:
        values[place] = value
        return values

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("0.pos_starts", put(1, 0)),
        ("0.pos_starts", put(1, 2**63)),
        ("0.pos_starts", put(0, 7)),
        ("0.pos_starts", put(2, 5)),
        ("0.pos_bytes", put(0, 255)),  # a skip
        ("0.pos_bytes", put(8, 200)),  # a number that goes on
        ("0.pos_bytes", put(8, 100)),  # beyond the document
        ("0.pos_bytes", put(9, 0)),  # not ascending
        ("0.pos_bytes", lambda values: values[:-1]),
        ("0.pos_bytes", lambda values: np.append(values, np.uint8(0))),
        ("1.pos_bytes", lambda values: values[:0]),
    ],
)
def test_forged_positions(tmp_path: Path, name: str, change: Any) -> None:
    index = forged(tmp_path, name, change)
    with pytest.raises(gnomon.CorruptIndex, match="positions"):
        index.verify()


def test_positions_for_another_number_of_terms(tmp_path: Path) -> None:
    with pytest.raises(gnomon.CorruptIndex, match="positions"):
        forged(tmp_path, "0.pos_starts", lambda values: values[:-1])


@given(st.integers(0, 2**32 - 1))
def test_random_bytes_as_positions(seed: int) -> None:
    """Whatever the bytes say: CorruptIndex, or positions that fit their documents."""
    rng = np.random.default_rng(seed)

    def change(values: Any) -> Any:
        places = rng.integers(0, values.size, size=rng.integers(1, 4))
        values[places] = rng.integers(0, 256, size=places.size)
        return values

    with tempfile.TemporaryDirectory() as folder:
        index = forged(Path(folder), "0.pos_bytes", change)
        for term in range(2):
            try:
                found = index.positions(term)
            except gnomon.CorruptIndex:
                continue
            assert all(len(one) == 3 and one == sorted(set(one)) and one[-1] < 6 for one in found)
