from __future__ import annotations

import itertools

import numpy as np
import pytest
from gnomon import chunk_tokens
from gnomon.reference import chunking as reference
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(0, 70), st.integers(1, 40), st.data())
def test_equals_the_reference(n: int, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    tokens = list(range(n))
    assert chunk_tokens(tokens, size, overlap) == reference.chunk_tokens(tokens, size, overlap)


@given(st.integers(0, 70), st.integers(1, 40), st.data())
def test_windows_tile_the_tokens(n: int, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    tokens = list(range(n))
    chunks = chunk_tokens(tokens, size, overlap)
    for chunk in chunks:
        assert tokens[chunk["start"] : chunk["end"]] == chunk["tokens"]
        assert 0 < chunk["end"] - chunk["start"] <= size
    for before, after in itertools.pairwise(chunks):
        assert before["end"] - before["start"] == size
        assert before["end"] - after["start"] == overlap
        assert after["end"] > before["end"]
    assert [chunk["start"] for chunk in chunks[:1]] == [0] * min(n, 1)
    assert [chunk["end"] for chunk in chunks[-1:]] == [n] * min(n, 1)


def test_slices_keep_the_kind_of_the_tokens() -> None:
    assert chunk_tokens("abcde", 3) == [
        {"start": 0, "end": 3, "tokens": "abc"},
        {"start": 3, "end": 5, "tokens": "de"},
    ]
    assert chunk_tokens((1, 2), 2)[0]["tokens"] == (1, 2)
    array = np.arange(6).reshape(3, 2)
    chunks = chunk_tokens(array, np.int64(2), np.int8(1))
    assert [(chunk["start"], chunk["end"]) for chunk in chunks] == [(0, 2), (1, 3)]
    assert np.shares_memory(chunks[1]["tokens"], array)
    assert type(chunks[1]["start"]) is int


def test_no_tokens_give_no_window() -> None:
    assert chunk_tokens([], 5, 2) == []


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (-1, 0), (3, 3), (3, 4), (3, -1)])
def test_overlap_lies_between_zero_and_size(size: int, overlap: int) -> None:
    with pytest.raises(ValueError, match=rf"0 <= overlap < size.*overlap={overlap}.*size={size}"):
        chunk_tokens([1, 2, 3], size, overlap)
    with pytest.raises(ValueError, match="0 <= overlap < size"):
        chunk_tokens([], size, overlap)


def test_an_iterator_is_refused_with_the_remedy() -> None:
    with pytest.raises(TypeError, match=r"list\(tokens\)"):
        chunk_tokens(iter("abc"), 2)  # type: ignore[arg-type]


def test_a_fraction_is_no_size() -> None:
    with pytest.raises(TypeError):
        chunk_tokens("abc", 2.0)  # type: ignore[arg-type]
