"""Hypotheses against trying everything."""

from __future__ import annotations

import random
from pathlib import Path

from corpora import FULL, count, sample, small, stored
from gnomon.corpus import Corpus
from query_oracle import ANALYZER, Oracle


def test_hypotheses_equal_trying_everything(tmp_path: Path) -> None:
    """Check 13: for 1,000 random pairs the counts within passage, section, document and near:N, and
    the passages that are shown, equal those of trying everything.
    """
    documents = [*small(), *sample(3 if FULL else 90)]
    corpus, oracle = stored(documents, tmp_path / "x"), Oracle(documents)
    place_of = {chunk.id: place for place, (_, chunk) in enumerate(oracle.chunks)}
    grouped = {
        scope: [getattr(chunk, name) for _, chunk in oracle.chunks]
        for scope, name in (("chunk", "id"), ("section", "section_id"), ("doc", "doc_id"))
    }
    rng = random.Random(13)
    texts = [fields["body"] for fields in oracle.tokens if len(fields["body"]) > 5]
    tried = 0
    while tried < count(25, 1000):
        one = rng.choice(texts)
        a, b = rng.choice(one), rng.choice(rng.choice((one, rng.choice(texts))))
        if a == b or len({*ANALYZER.tokens(a), *ANALYZER.tokens(b)}) != 2:
            continue
        tried += 1
        for scope, groups in grouped.items():
            sides = [{groups[place] for place in oracle.places[word]} for word in (a, b)]
            answer = corpus.verify_hypothesis(f'"{a}"', f'"{b}"', scope, k=200, max_tokens=100_000)
            counts = answer.report.counts
            assert (counts["a"], counts["b"]) == (len(sides[0]), len(sides[1])), (a, b, scope)
            assert counts["both"] == answer.report.total == len(sides[0] & sides[1])
            assert counts["groups"] == len(set(groups))
            strict = [item for item in answer if not item.relaxed]
            if not answer.report.cursor:
                shown = {groups[place_of[item.chunk_id]] for item in strict}
                assert shown == sides[0] & sides[1]
        window = rng.randint(1, 12)
        near = sum(
            any(_near(tokens, a, b, window) for tokens in oracle.tokens[place].values())
            for place in oracle.places[a] & oracle.places[b]
        )
        answer = corpus.verify_hypothesis(a, b, f"near:{window}")
        assert answer.report.total == near, (a, b, window)


def _near(tokens: list[str], a: str, b: str, window: int) -> bool:
    sides = [[i for i, token in enumerate(tokens) if token == word] for word in (a, b)]
    return any(abs(i - j) <= window for i in sides[0] for j in sides[1])


def test_a_pair_that_never_meets_has_both_counts(dbconn: Path) -> None:
    """Check 13: two names that stand in no document together are reported with how often each
    occurs and with 0 together.

    The shared tasks no longer hold the pair that the check names; this one is like it.
    """
    corpus = Corpus.open(dbconn)
    one, other = "allowPublicKeyRetrieval", "innodb_undo_logs"
    answer = corpus.verify_hypothesis(one, other, "doc")
    asked = {"mode": "exact", "detail": "ids", "k": 1000, "max_tokens": 100_000}
    alone = [corpus.hybrid_search(each, **asked) for each in (one, other)]
    paths = [{item.path for item in each} for each in alone]
    assert (answer.report.counts["a"], answer.report.counts["b"]) == tuple(map(len, paths))
    assert min(map(len, paths)) > 0
    assert answer.report.counts["both"] == answer.report.total == 0
    assert answer.report.no_hit is not None
    assert answer.report.no_hit.reason == "never_together"
