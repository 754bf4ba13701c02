"""Texts on which other products' tokenizers fail, distilled from their public bug threads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gnomon
import ir_measures
import pytest
from gnomon.analysis import PRESETS, Analyzer, Span
from ir_measures import nDCG

Case = dict[str, Any]
ANALYZERS = [
    *[Analyzer(preset) for preset in PRESETS],
    *[Analyzer(preset, stemmer="porter", stop_words=["zzz"]) for preset in PRESETS],
]
analyzers = pytest.mark.parametrize("analyzer", ANALYZERS, ids=repr)


@pytest.fixture(scope="module")
def cases(shared: Path) -> dict[str, Case]:
    path = shared / "cases" / "retrieval_cases.jsonl"
    if not path.is_file():
        pytest.skip(f"no cases at {path}")
    lines = path.read_text(encoding="utf-8").split("\n")
    return {case["id"]: case for case in map(json.loads, filter(str.strip, lines))}


@pytest.mark.parametrize("preset", ["basic-v1", "standard-v1"])
def test_bm25_14_chinese_without_spaces_is_found(cases: dict[str, Case], preset: str) -> None:
    given, right = cases["bm25-14"]["input"], cases["bm25-14"]["right"]
    index = gnomon.BM25Index.build(given["docs"], analyzer=preset, k1=given["k1"], b=given["b"])
    hits = index.search(given["query"])
    assert hits.ids.tolist() == right["ranking"]
    wanted = right["scores"][2] * (given["k1"] + 1)  # the file leaves out this factor
    assert abs(hits.scores[0] - wanted) <= 1e-12 * wanted


@pytest.mark.parametrize("k1", [0.9, 1.2])
def test_bm25_15_chinese_collection(cases: dict[str, Case], k1: float, shared: Path) -> None:
    b = {0.9: 0.4, 1.2: 0.75}[k1]
    right = cases["bm25-15"]["right"][f"lucene_cjk_k1={k1}_b={b}"]
    folder = shared / "data" / "collections" / cases["bm25-15"]["input"]["collection"]
    records, queries = (
        [json.loads(line) for line in (folder / name).read_text("utf-8").split("\n") if line]
        for name in ("corpus.jsonl", "queries.jsonl")
    )
    index = gnomon.BM25Index.build(
        [each["text"] for each in records], ids=[each["_id"] for each in records], k1=k1, b=b
    )
    found = index.search_many([query["text"] for query in queries])
    run = [
        ir_measures.ScoredDoc(query["_id"], document, score)
        for query, hits in zip(queries, found, strict=True)
        for document, score in zip(hits.ids, hits.scores.tolist(), strict=True)
    ]
    rows = [row.split("\t") for row in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]]
    qrels = [ir_measures.Qrel(query, document, int(grade)) for query, document, grade in rows]
    assert ir_measures.calc_aggregate([nDCG @ 10], qrels, run)[nDCG @ 10] >= right - 0.005


@analyzers
def test_span_16_offsets_are_those_of_the_text_not_of_its_lower_case(
    cases: dict[str, Case], analyzer: Analyzer
) -> None:
    given, right = cases["span-16"]["input"], cases["span-16"]["right"]
    terms = set(analyzer.query_tokens(given["find_ignoring_case"]))
    assert terms
    assert analyzer.match_spans(given["text"], terms) == [(right["start"], right["end"])]


@analyzers
def test_span_18_a_byte_order_mark_belongs_to_no_word(
    cases: dict[str, Case], analyzer: Analyzer
) -> None:
    given, right = cases["span-18"]["input"], cases["span-18"]["right"]
    kept = bytes.fromhex(given["bytes_hex"]).decode("utf-8")
    places = right["if_bom_kept"]
    stem = {"title": "titl", "body": "bodi"} if "porter" in analyzer.options["stemmer"] else {}
    title, body = (stem.get(word, word) for word in (right["first_token"], "body"))
    assert analyzer.spans(kept) == [
        Span(title, places["Title_char"], places["Title_char"] + 5),
        Span(body, places["Body_char"], places["Body_char"] + 4),
    ]
