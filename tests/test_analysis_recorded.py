"""The presets bm25s and lucene-english give what bm25s and Lucene gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gnomon import _core
from gnomon.analysis import Analyzer, Span
from gnomon.reference import analysis_filters as reference
from gnomon.reference import porter

DATA = Path(__file__).parent / "data"


def recorded(name: str) -> list[Any]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").split("\n") if line]


def test_lucene_english_equals_lucene() -> None:
    cases = recorded("lucene_english.jsonl")
    assert len(cases) > 400
    analyzer = Analyzer("lucene-english")
    for case in cases:
        expected = [tuple(token) for token in case["tokens"]]
        assert analyzer.spans(case["text"]) == [Span(*token) for token in expected], case["text"]
        assert reference.lucene_english(case["text"]) == expected, case["text"]


def test_bm25s_equals_bm25s() -> None:
    cases = recorded("bm25s_tokens.jsonl")
    assert len(cases) > 400
    plain, stemmed = Analyzer("bm25s"), Analyzer("bm25s", stemmer="english", stop_words=[])
    for case in cases:
        assert plain.tokens(case["text"]) == case["tokens"], case["text"]
        assert stemmed.tokens(case["text"]) == case["stemmed"], case["text"]


def test_bm25s_equals_the_installed_bm25s() -> None:
    bm25s = pytest.importorskip("bm25s", reason="compares with the package itself")
    texts = [case["text"] for case in recorded("lucene_english.jsonl")]
    theirs = bm25s.tokenize(texts, return_ids=False, show_progress=False)
    assert [Analyzer("bm25s").tokens(text) for text in texts] == theirs


def test_porter_equals_lucenes() -> None:
    lines = (DATA / "porter.txt").read_text("utf-8").split("\n")
    pairs = [line.split(" ") for line in lines if line]
    assert len(pairs) > 600
    words, stems = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    assert _core.porter_stems(words) == stems
    assert [porter.stem(word) for word in words] == stems
