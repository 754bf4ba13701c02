"""Passages: exact spans, whole characters, bounded size, linear time, on any text."""

from __future__ import annotations

import json
import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from gnomon.passages import PASSAGE_SIZE, is_boundary, spans
from hypothesis import example, given
from hypothesis import strategies as st

SHARED = Path(os.environ.get("GNOMON_SHARED", Path(__file__).parents[1].parent / "shared"))
CHUNKDOCS = SHARED / "data" / "chunkdocs"
needs_chunkdocs = pytest.mark.skipif(
    not CHUNKDOCS.is_dir(), reason=f"needs the documents in {CHUNKDOCS}"
)


def check(text: str, size: int) -> list[tuple[int, int]]:
    """The promises that hold for every text and size; returns the passages."""
    found = list(spans(text, size))
    last = 0
    for start, end in found:
        assert last <= start < end <= len(text)
        assert end - start <= size
        assert not text[start:end].isspace()
        assert not text[last:start].strip()  # only white space is dropped
        last = end
    assert not text[last:].strip()
    return found


def documents() -> list[dict[str, Any]]:
    expected = CHUNKDOCS / "EXPECTED.json"
    return list(json.loads(expected.read_text("utf-8"))["docs"]) if expected.exists() else []


@needs_chunkdocs
@pytest.mark.parametrize("size", [1, 2, 7, 64, 200, PASSAGE_SIZE])
def test_real_documents_are_never_cut_inside_a_character(size: int) -> None:
    for document in documents():
        text = (CHUNKDOCS / document["file"]).read_bytes().decode("utf-8")
        assert len(text) == document["code_points"]
        found = check(text, size)
        if document["file"] == "zalgo.txt" or size < 64:
            continue  # one user-perceived character may be longer than the limit
        forbidden = set(document["forbidden_cuts"])
        for start, end in found:
            assert start not in forbidden, (document["file"], start)
            assert end not in forbidden, (document["file"], end)


@needs_chunkdocs
def test_no_boundary_that_unicode_forbids() -> None:
    path = CHUNKDOCS / "unicode_vectors" / "GraphemeBreakTest.txt"
    count = 0
    for line in path.read_text("utf-8").splitlines():
        marks = line.split("#")[0].split()
        if not marks:
            continue
        text = "".join(chr(int(code, 16)) for code in marks[1::2])
        start = 0
        for at, mark in enumerate(marks[0::2]):
            if mark == "×":
                assert not is_boundary(text, at, start), line
                count += 1
            else:
                start = at
    assert count > 300


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("e\u0301", 1),
        ("\r\n", 1),
        ("👩\u200d🔬", 1),
        ("👩\u200d🔬", 2),
        ("👍🏽", 1),
        ("❤\ufe0f", 1),
        ("🇯🇵🇫🇷", 1),
        ("🇯🇵🇫🇷", 3),
        ("\u1100\u1161\u11a8", 1),
        ("\u1100\u1161\u11a8", 2),
        ("\uac00\u11a8", 1),
        ("क्ष", 2),
        ("น้ำ", 1),
    ],
)
def test_inside_a_character(text: str, at: int) -> None:
    assert not is_boundary(text, at)


def test_between_characters() -> None:
    assert is_boundary("🇯🇵🇫🇷", 2)
    assert is_boundary("가나", 1)
    assert is_boundary("字漢", 1)
    assert is_boundary("\n\u0301", 1)


def test_paragraphs_are_packed_and_kept_whole() -> None:
    paragraphs = [f"Paragraph {n} " + "word " * 40 + "end." for n in range(20)]
    text = "\n\n".join(paragraphs)
    cut = [text[start:end] for start, end in check(text, PASSAGE_SIZE)]
    assert len(cut) == 5
    assert "\n\n".join(cut) == text


def test_a_heading_stays_with_its_text() -> None:
    text = "# Heading\n\n" + "One sentence of the text. " * 100
    start, end = check(text, PASSAGE_SIZE)[0]
    assert text[start:end].startswith("# Heading\n\nOne")
    assert text[start:end].endswith("text.")


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_every_kind_of_blank_line_is_one(newline: str) -> None:
    text = ("x " * 300 + "end." + newline * 2) * 3
    assert len(check(text, PASSAGE_SIZE)) == 3


def test_words_stay_whole_where_there_is_a_place_between_them() -> None:
    text = "supercalifragilistic " * 500
    for start, end in check(text, 50):
        assert set(text[start:end].split()) == {"supercalifragilistic"}
    short = "tiny " + "x" * 120
    assert [short[a:b] for a, b in check(short, 100)] == ["tiny", "x" * 100, "x" * 20]


def test_text_without_spaces_is_cut_after_punctuation() -> None:
    text = "这是一个很长的句子,没有空格。" * 200
    assert all(text[end - 1] == "。" for _, end in check(text, PASSAGE_SIZE))
    rows = '{"key":"value_1234"},' * 200
    assert all(rows[end - 1] in '{}":,' for _, end in check(rows, PASSAGE_SIZE))


def test_nothing_comes_of_nothing() -> None:
    assert check("", 10) == []
    assert check(" \r\n\t\u3000\u2028 ", 3) == []


def test_size_must_be_positive() -> None:
    with pytest.raises(ValueError, match="size must be at least 1 code point, got 0"):
        spans("text", 0)


words = 'a word - . " 。 漢字 각 क्षि 👍🏽 🇯🇵 🇯 e\u0301 \u0301 \u200d 👩\u200d🔬 \u1100 \u1161'
others = [
    " ",
    "\n",
    "\r\n",
    "\n\n",
    ". ",
    "\f",
    "\u2029",
    "\ufeff",
    "\u0600",
    "\u00ad",
    "\ud800",
    "x" * 24,
]
pieces = st.sampled_from([*words.split(" "), *others])


@given(st.lists(pieces, max_size=60).map("".join), st.integers(1, 50))
@example(" \u0301", 1)
@example("a \u0301b", 2)
@example("\u0600 a", 1)
@example("ab\r\ncd", 3)
def test_promises_hold_for_any_text(text: str, size: int) -> None:
    found = check(text, size)
    assert found == list(spans(text, size))
    bounds = [0, *(at for at in range(1, len(text)) if is_boundary(text, at)), len(text)]
    longest = max((b - a for a, b in pairwise(bounds)), default=0)
    if longest <= size:  # else a character may have to be cut
        for start, end in found:
            assert is_boundary(text, start)
            assert is_boundary(text, end)


@pytest.mark.parametrize(
    "unit",
    [
        "x",
        " ",
        "\n",
        "e\u0301",
        "\u0301",
        "🇯🇵",
        '"',
        ".\"'",
        "\u200d",
        "a b",
        "\r",
        ".",
        "字",
        "\n \n",
    ],
    ids=repr,
)
def test_time_grows_linearly_on_one_huge_line(unit: str) -> None:
    times = []
    for length in (200_000, 800_000):
        text = unit * (length // len(unit))
        began = time.process_time()
        for _ in spans(text):
            pass
        times.append(time.process_time() - began)
    assert times[1] < 12 * max(times[0], 0.005)  # 4 when linear, 16 when quadratic
