"""SECTION and DOC in each other: what they hold for, by hand and against trying everything."""

from __future__ import annotations

import random

import pytest
from corpora import FULL, Documents, corpus_of, found
from gnomon.corpus import Source, process_document
from gnomon.corpus.query_ast import Group, Meta, Node, Quoted, Regex, Within, Word
from gnomon.corpus.query_parse import parse
from query_oracle import Oracle

SCOPES = "# One\n\nalpha beta\n\n# Two\n\nalpha\n\n# Three\n\ngamma delta\n\n# Four\n\nbeta\n"


def scopes() -> Documents:
    """Two documents of few words, in sections of one passage each."""
    source = Source(name="hand")
    texts = {"a.md": SCOPES, "b.md": "# Other\n\nalpha gamma\n\n# More\n\nbeta\n"}
    return [
        (process_document(text.encode(), source, path=path), text.encode(), source)
        for path, text in texts.items()
    ]


@pytest.mark.parametrize(
    ("text", "headings"),
    [
        # alpha stands in Two as well, but SECTION(alpha AND beta) does not hold there
        ("DOC(gamma AND SECTION(alpha AND beta))", {"One", "Three"}),
        ("DOC(SECTION(alpha AND beta))", {"One"}),
        ("DOC(SECTION(alpha AND beta) OR delta)", {"One", "Three"}),
        ("DOC(gamma AND NOT SECTION(alpha AND beta))", {"Other"}),
        ("DOC(gamma AND SECTION(alpha AND NOT beta))", {"Two", "Three", "Other"}),
        # not shown for a word under two negations of which one is a scope's
        ("DOC(gamma AND NOT SECTION(delta AND NOT beta))", {"Other"}),
        ("SECTION(beta AND DOC(gamma AND delta))", set()),
        ("SECTION(alpha AND DOC(delta AND path:a.md))", {"One", "Two"}),
        ("DOC(delta AND SECTION(alpha AND SECTION(beta AND path:a.md)))", {"One", "Three"}),
        ("DOC(path:a.md AND SECTION(gamma AND alpha))", set()),
    ],
)
def test_a_scope_in_a_scope_holds_for_its_hits_only(text: str, headings: set[str]) -> None:
    documents = scopes()
    ids = found(corpus_of(documents, cache_bytes=0), text)[0]
    titles = {part.id: part.title for done, _, _ in documents for part in done.sections}
    chunks = {chunk.id: chunk for done, _, _ in documents for chunk in done.chunks}
    assert {titles[chunks[each].section_id] for each in ids} == headings
    assert set(ids) == Oracle(documents).matching(parse(text, "and").node)


def test_a_boost_in_a_scope_multiplies_the_scores_of_its_group() -> None:
    corpus = corpus_of(scopes())
    boosted, plain = (
        {
            (item.chunk_id, part.name): part.value
            for item in corpus.hybrid_search(text, mode="exact").items
            for part in item.score.parts
        }
        for text in (
            "DOC((alpha OR (beta AND NOT x))^2 AND gamma)",
            "DOC(alpha AND beta AND gamma)",
        )
    )
    assert len(plain) > 5
    for (chunk_id, name), value in plain.items():
        assert boosted[chunk_id, name] == value * (1 if name == "bm25:gamma" else 2)


WORDS = ("alpha", "beta", "gamma", "delta", "eps")


def made_up(rng: random.Random) -> Documents:
    """Small documents of few words in sections of one passage and of several."""
    source, documents = Source(name="hand"), []
    for number in range(14):
        blocks = []
        for _ in range(rng.randint(1, 4)):
            blocks.append("#" * rng.randint(1, 3) + " " + rng.choice(("One", "Two", "alpha")))
            texts = (" ".join(rng.choices(WORDS, k=rng.randint(1, 4))) for _ in range(2))
            blocks += [*texts, "```\n" + rng.choice(WORDS) + "\n```", "* " + rng.choice(WORDS)]
            if rng.random() < 0.3:
                blocks += ["long words " * rng.randint(150, 300), rng.choice(WORDS)]
        raw = "\n\n".join(blocks).encode()
        path = f"{rng.choice('ab')}/{number}.md"
        documents.append((process_document(raw, source, path=path), raw, source))
    return documents


def leaf(rng: random.Random) -> Node:
    kind = rng.randrange(9)
    if kind == 0:
        return Meta("path", rng.choice(("a", "b", "*1.md", "b/3.md")))
    if kind == 1:
        return Meta("kind", rng.choice(("code", "prose", "list")))
    if kind == 2:
        return Quoted(" ".join(rng.choices(WORDS, k=2)), rng.choice((0, 1)))
    if kind == 3:
        return Regex(rng.choice(("al", "x", "ta g")))
    if kind == 4:
        return Word(rng.choice(WORDS), rng.choice(("title", "heading", "text", "code")))
    return Word(rng.choice(WORDS))


def nested(rng: random.Random, depth: int = 0) -> Node:
    """Scopes, groups and negations in each other."""
    if depth >= 5 or (depth and rng.random() < 0.25):
        return leaf(rng)
    kind = rng.random()
    if kind < 0.45:
        return Within(rng.choice(("section", "doc")), nested(rng, depth + 1))
    parts = tuple(nested(rng, depth + 1) for _ in range(rng.choice((2, 2, 3))))
    if kind < 0.6:
        return Group(must=parts)
    if kind < 0.75:
        return Group(should=parts)
    if kind < 0.9:
        return Group(must=parts[1:], must_not=parts[:1])
    if kind < 0.95:
        return Group(must_not=parts)
    return Group(must=parts[:1], should=parts[1:])


def test_scopes_in_each_other_equal_trying_everything() -> None:
    """Check 4: SECTION and DOC in each other, against trying every passage."""
    hits = 0
    for seed in range(40 if FULL else 2):
        rng = random.Random(seed)
        documents = made_up(rng)
        corpus, oracle = corpus_of(documents, cache_bytes=0), Oracle(documents)
        for _ in range(120):
            text = nested(rng).shown()
            parsed = parse(text, "and")
            assert not parsed.literal, (text, parsed.why)
            ids, total = found(corpus, text)
            assert len(ids) == total, text
            assert set(ids) == oracle.matching(parsed.node), text
            hits += 0 < total < len(oracle.chunks)
    assert hits > 100
