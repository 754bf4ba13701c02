"""One BM25 segment: fields over one vocabulary, wide frequencies, the file format."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon import _core
from hypothesis import given
from hypothesis import strategies as st

Documents = list[list[list[str]]]  # by document, then field
WORDS = ["a", "b", "c", "", "日", "\udc80"]


def documents_of(n_fields: int) -> st.SearchStrategy[Documents]:
    tokens = st.lists(st.sampled_from(WORDS), max_size=4) | st.just(["a"] * 256 + ["b"] * 255)
    return st.lists(st.lists(tokens, min_size=n_fields, max_size=n_fields), max_size=6)


def build(documents: Documents, n_fields: int) -> _core.Bm25Index:
    builder = _core.Bm25Builder(with_vocabulary=True, n_fields=n_fields)
    builder.add_tokens([tokens for document in documents for tokens in document])
    return builder.finish()


def write(segment: _core.Bm25Index, path: Path, packed: bool = False) -> None:
    writer = _core.ContainerWriter(path)
    segment.write(writer, packed)
    writer.finish()


def check(segment: _core.Bm25Index, documents: Documents, n_fields: int) -> None:
    assert (segment.n_docs, segment.n_fields) == (len(documents), n_fields)
    for field in range(n_fields):
        counts = [Counter(document[field]) for document in documents]
        for doc, count in enumerate(counts):
            assert segment.length(doc, field) == sum(count.values())
        assert segment.n_tokens(field) == sum(sum(count.values()) for count in counts)
        for word in WORDS:
            terms, _ = segment.lookup([[word]])
            wanted = [(doc, count[word]) for doc, count in enumerate(counts) if count[word]]
            if terms.size == 0:
                assert wanted == []
            else:
                docs, tfs = segment.postings(int(terms[0]), field)
                assert list(zip(docs.tolist(), tfs.tolist(), strict=True)) == wanted
    segment.verify()


@given(st.data(), st.integers(1, 3), st.booleans())
def test_a_segment_holds_what_was_added(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, n_fields: int, packed: bool
) -> None:
    documents = data.draw(documents_of(n_fields))
    segment = build(documents, n_fields)
    check(segment, documents, n_fields)
    path = tmp_path_factory.mktemp("segment") / "postings.gno"
    write(segment, path, packed)
    opened = _core.Bm25Index.open(_core.Container(path))
    assert opened.is_packed == packed
    check(opened, documents, n_fields)


def sections_of(path: Path) -> dict[str, Any]:
    container = _core.Container(path)
    return {name: container.array(name).copy() for name, _, _ in container.sections()}


@pytest.mark.parametrize(
    ("section", "place", "value", "message"),
    [
        ("0.wide_tfs", 1, 7, "wide frequencies are not those"),
        ("0.wide_terms", 0, 9, "do not fit together"),
        ("0.wide_starts", 1, 5, "do not fit together"),
        ("0.wide_starts", 0, 1, "do not fit together"),
        ("0.tfs", 0, 0, "frequency is zero"),
        ("0.docs", 0, 9, "does not exist"),
        ("0.starts", 1, 9, "outside"),
        ("1.starts", 1, 2**63, "outside"),
        ("counts", 2, 3, "counts do not agree"),
        ("counts", 2, 0, "counts do not agree"),
        ("counts", 1, 2**63, "counts do not agree"),
        ("version", 0, 1, "format version 1, but this gnomon reads 2 and 3"),
    ],
)
def test_forged_segments_are_corrupt(
    tmp_path: Path, section: str, place: int, value: int, message: str
) -> None:
    """Right checksums over contradictions: found on opening, or when the term is used."""
    write(build([[["a"] * 300, ["b"]], [["a"], []], [["b"], ["a"]]], 2), tmp_path / "good")
    sections = sections_of(tmp_path / "good")
    sections[section][place] = value
    writer = _core.ContainerWriter(tmp_path / "bad")
    for name, values in sections.items():
        writer.section(name, values)
    writer.finish()

    def read_all() -> None:
        segment = _core.Bm25Index.open(_core.Container(tmp_path / "bad"))
        for term in range(segment.n_terms):
            for field in range(2):
                segment.postings(term, field)

    with pytest.raises(gnomon.CorruptIndex, match=message):
        read_all()


def test_a_segment_without_a_version_is_an_old_one(tmp_path: Path) -> None:
    writer = _core.ContainerWriter(tmp_path / "old")
    writer.section("counts", np.array([0, 0, 0, 0], dtype=np.uint64))
    writer.finish()
    with pytest.raises(gnomon.CorruptIndex, match=r"version 1, but this gnomon reads 2 and 3"):
        _core.Bm25Index.open(_core.Container(tmp_path / "old"))


def test_parts_that_are_not_whole_documents_are_refused() -> None:
    builder = _core.Bm25Builder(with_vocabulary=True, n_fields=2)
    with pytest.raises(ValueError, match="2 parts each"):
        builder.add_tokens([["a"]])
    with pytest.raises(ValueError, match="1 to 255 fields"):
        _core.Bm25Builder(with_vocabulary=True, n_fields=256)
