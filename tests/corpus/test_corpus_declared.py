"""`date:` and `tag:`: what documents say of themselves, in queries and in filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gnomon.corpus import Corpus, CorpusIndex, Documents

PAGES = {
    "new.md": "---\ndate: 2024-05-17\ntags: [Pools, 'time outs']\n---\n# New\n\nthe pool\n",
    "old.md": "---\nlastmod: 2019-12-31T23:00:00Z\ntags: pools, tls\n---\n# Old\n\nthe pool\n",
    "spoken.md": "---\ndate: March 3, 2023\nkeywords: tls\n---\n# Spoken\n\nthe pool\n",
    "none.md": "# None\n\nthe pool\n",
    "odd.md": "---\ndate: soon\ntags: []\n---\n# Odd\n\nthe pool\n",
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    place = tmp_path_factory.mktemp("declared") / "x"
    with CorpusIndex.create(place) as index:
        index.update([Documents("docs", [(p, t.encode()) for p, t in PAGES.items()])])
    return Corpus.open(place)


def paths(answer: Any) -> set[str]:
    assert answer.report.problem is None, answer.report.problem
    return {Path(item.path).stem for item in answer.items}


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("pool date:2024", {"new"}),
        ("pool date:2024-05", {"new"}),
        ("pool date:2024-06", set()),
        ("pool date:[2019 TO 2023]", {"old", "spoken"}),
        ("pool date:{2019 TO *]", {"new", "spoken"}),
        ("pool date:[* TO 2019-12-30]", set()),
        ("pool date:>=2023-03-03", {"new", "spoken"}),
        ("pool date:>2023-03-03", {"new"}),
        ("pool date:<2023", {"old"}),
        ("pool date:*-05-*", {"new"}),
        ("pool NOT date:*", {"none", "odd"}),
        ("pool tag:pools", {"new", "old"}),
        ("pool tag:TLS", {"old", "spoken"}),
        ('pool tag:"time outs"', {"new"}),
        ("pool tag:t*", {"new", "old", "spoken"}),
        ("pool tags:(tls OR pools) NOT date:2019", {"new", "spoken"}),
    ],
)
def test_queries(corpus: Corpus, query: str, wanted: set[str]) -> None:
    assert paths(corpus.hybrid_search(query, mode="exact", relax=False)) == wanted


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({"date": {"$gte": "2020", "$lt": "2024"}}, {"spoken"}),
        ({"date": ["2019", "2024"]}, {"new", "old"}),
        ({"date": {"$exists": False}}, {"none", "odd"}),
        ({"tag": "tls"}, {"old", "spoken"}),
        ({"tag": {"$ne": "tls"}}, {"new", "none", "odd"}),
        ({"tag": "pools", "date": {"$lte": "2019-12-31"}}, {"old"}),
    ],
)
def test_filters(corpus: Corpus, filters: dict[str, Any], wanted: set[str]) -> None:
    assert paths(corpus.hybrid_search("pool", mode="exact", filters=filters)) == wanted


def test_what_is_no_date_is_said(corpus: Corpus) -> None:
    for ask in ({"query": "pool date:yesterday"}, {"query": "x", "filters": {"date": "20245"}}):
        problem = corpus.hybrid_search(**ask, mode="exact").report.problem
        assert problem is not None
        assert problem.code == "bad_filter"
        assert "2024-05-17" in problem.message
    problem = corpus.hybrid_search("pool tag:[a TO b]", mode="exact").report.problem
    assert problem is not None
    assert "takes no range" in problem.message


def test_another_reader_s_dates_are_not_told(tmp_path: Path) -> None:
    from gnomon.corpus import Source

    with CorpusIndex.create(tmp_path / "x") as index:
        for name in ("new", "old"):
            given = [(f"{name}.md", PAGES[f"{name}.md"].encode())]
            index.update([Documents(Source(name=name, acl=(name,)), given)])
    corpus = Corpus.open(tmp_path / "x", scopes=["old"])
    assert paths(corpus.hybrid_search("pool date:2019", mode="exact")) == {"old"}
    assert corpus.hybrid_search("pool date:2024", mode="exact", relax=False).report.total == 0
