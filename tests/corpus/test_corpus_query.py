"""The query language: what is parsed as what, and that the hits are those of trying everything."""

from __future__ import annotations

import random
import re
import sqlite3

import pytest
from corpora import FULL, Documents, corpus_of, found, sample, small
from gnomon.corpus.query_ast import (
    Close,
    Group,
    Meta,
    Node,
    Quoted,
    Regex,
    Similar,
    Start,
    Within,
    Word,
)
from gnomon.corpus.query_parse import parse
from hypothesis import example, given
from hypothesis import strategies as st
from query_oracle import ANALYZER, Oracle

CASES = [
    ("a b", "a OR b", "a AND b"),
    ("a AND b c", "(a AND b) OR c", "a AND b AND c"),
    ("+a b -c", "+a b -c", "a AND b AND NOT c"),
    ("a NOT b", "a -b", "a AND NOT b"),
    ("a OR NOT b", "a OR (-b)", "a OR (-b)"),
    ("std::vector<int> x->y() C++ i++ --flag", "std::vector<int> OR x->y() OR C++ OR i++ OR --flag",
     "std::vector<int> AND x->y() AND C++ AND i++ AND --flag"),
    ("foo(a, b)", "foo(a, b)", "foo(a, b)"),
    ("root'@'localhost", "root'@'localhost", "root'@'localhost"),
    (r"max\_allowed\_packet C:\temp", r"max_allowed_packet OR C:\temp",
     r"max_allowed_packet AND C:\temp"),
    ('"a b"~3 allow* colour~2', '"a b"~3 OR allow* OR colour~2', '"a b"~3 AND allow* AND colour~2'),
    ("NEAR(a,b,5)", "NEAR(a, b, 5)", "NEAR(a, b, 5)"),
    ('NEAR("a b" c)', 'NEAR("a b", c, 10)', 'NEAR("a b", c, 10)'),
    ("SECTION(a b) DOC(c)", "SECTION(a OR b) OR DOC(c)", "SECTION(a AND b) AND DOC(c)"),
    ("CHUNK(a AND b)", "a AND b", "a AND b"),
    ("path:*CHANGES timeout", "+path:*CHANGES timeout", "path:*CHANGES AND timeout"),
    ("path:x OR timeout", "path:x OR timeout", "path:x OR timeout"),
    ("path:(a OR b*)", "path:a OR path:b*", "path:a OR path:b*"),
    ("version:[8.0.13 TO *] version:<9", "version:[8.0.13 TO *] AND version:[* TO 9}",
     "version:[8.0.13 TO *] AND version:[* TO 9}"),
    ("/allow[A-Z]\\w+/ /etc/my.cnf", "/allow[A-Z]\\w+/ OR /etc/my.cnf",
     "/allow[A-Z]\\w+/ AND /etc/my.cnf"),
    ("heading:(a b)^2", "(heading:a OR heading:b)^2", "(heading:a AND heading:b)^2"),
    ("what is foo?", "what OR is OR foo?", "what AND is AND foo?"),
    ("http://x:80/y jdbc:mysql://h", "http://x:80/y OR jdbc:mysql://h",
     "http://x:80/y AND jdbc:mysql://h"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "as_or", "as_and"), CASES)
def test_what_is_parsed_as_what(text: str, as_or: str, as_and: str) -> None:
    for operator, right in (("or", as_or), ("and", as_and)):
        parsed = parse(text, operator)
        assert (parsed.node.shown(), parsed.literal) == (right, False)
        assert parse(right, operator).node.shown() == right


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(a OR b", "a parenthesis is not closed"),
        ("a) b", "character 2: ')' closes nothing"),
        ('"a b', "the quotation mark at character 1 is not closed"),
        ("a AND", "nothing stands behind AND"),
        ("AND", "character 1: 'AND' stands where a clause should"),
        ("NEAR(a)", "character 1: NEAR needs two words or phrases"),
        ("", "the query is empty"),
        ("(" * 30 + "a" + ")" * 30, "nested deeper than 20 parentheses"),
    ],
)
def test_what_does_not_parse_is_words(text: str, why: str) -> None:
    parsed = parse(text, "or")
    assert (parsed.literal, parsed.why) == (True, why)
    words = tuple(Word(part) for part in text.split())
    assert parsed.node == (words[0] if len(words) == 1 else Group(should=words))


def test_a_literal_query_is_reported() -> None:
    corpus = corpus_of(small())
    report = corpus.hybrid_search("(packet").report
    assert report.notes == ("taken as literal words: a parenthesis is not closed",)
    assert report.total == corpus.hybrid_search("packet").report.total > 0
    note = corpus.hybrid_search("verzion:8 packet").report.notes[0]
    assert note == "'verzion' is no field, so 'verzion:' was taken as text"


@given(
    st.text(
        alphabet=st.sampled_from(list('ab"()[]{}*~^:+-/\\_. \tANDORNOT,\u202e\x00é')), max_size=40
    )
)
@example('path:"')
@example("a^2^3")
@example("path:[a TO")
@example("\\")
@example("/a/i^2 -/b c/")
@example("NEAR(" * 9)
def test_any_text_parses_and_is_written_back(text: str) -> None:
    for operator in ("or", "and"):
        parsed = parse(text, operator)
        shown = parsed.node.shown()
        again = parse(shown, operator)
        if shown:
            assert not again.literal, (shown, again.why)
            assert again.node.shown() == shown


# Against trying everything


class Queries:
    """Random queries of what a corpus holds, and of a little that it does not."""

    def __init__(self, documents: Documents, seed: int) -> None:
        self.rng = random.Random(seed)
        texts = [chunk.text for done, _, _ in documents for chunk in done.chunks]
        self.lists = [words for text in texts if len(words := text.split()) > 3]
        self.paths = sorted({done.document.path for done, _, _ in documents})

    def word(self) -> str:
        while True:
            word = self.rng.choice(self.rng.choice(self.lists))[:30]
            if ANALYZER.tokens(word) and not re.search(r"[\s\x00-\x1f]", word):
                return word

    def run(self, n: int) -> str:
        words = self.rng.choice(self.lists)
        at = self.rng.randrange(max(len(words) - n, 1))
        return " ".join(words[at : at + n])[:80]

    def leaf(self) -> Node:
        kind = self.rng.randrange(16)
        if kind == 0 and ANALYZER.tokens(run := self.run(2)):
            return Quoted(run)
        if kind == 1 and ANALYZER.tokens(run := self.run(3)):
            return Quoted(run, self.rng.choice((0, 1, 3)))
        if kind == 2:
            return Start(ANALYZER.tokens(self.word())[0][: self.rng.randint(2, 6)])
        if kind == 3:
            return Similar(ANALYZER.tokens(self.word())[0], self.rng.randint(1, 2))
        if kind == 4:
            parts = tuple(Word(self.word()) for _ in range(self.rng.choice((2, 2, 3))))
            return Close(parts, self.rng.choice((1, 2, 5, 20)))
        if kind == 5:
            path = self.rng.choice(self.paths)
            patterns = (f"*{path[-6:]}", path, path.split("/")[0], f"{path[:4]}*", "*e*d")
            return Meta("path", self.rng.choice(patterns))
        if kind == 6:
            return Meta("kind", self.rng.choice(("code", "table", "prose", "list")))
        if kind == 7:
            return Word(self.word(), self.rng.choice(("title", "heading", "text", "code")))
        if kind == 8:
            return Regex(re.escape(self.word()[:6].replace("/", "")) or "a")
        return Word(self.word())

    def node(self, depth: int = 0) -> Node:
        kind = self.rng.random()
        if depth >= 3 or kind < 0.35:
            return self.leaf()
        parts = [self.node(depth + 1) for _ in range(self.rng.choice((2, 2, 3)))]
        if kind < 0.6:
            return Group(must=tuple(parts))
        if kind < 0.8:
            return Group(should=tuple(parts))
        if kind < 0.9:
            return Group(must=tuple(parts[1:]), must_not=(parts[0],))
        name = self.rng.choice(("section", "doc"))
        return Within(name, Group(must=tuple(parts)))


def test_random_queries_equal_trying_everything() -> None:
    """Check 4: any query has the hits and the total of trying every passage."""
    documents = sample(2 if FULL else 90)
    corpus, oracle = corpus_of(documents, cache_bytes=0), Oracle(documents)
    queries = Queries(documents, 8)
    hits = 0
    for number in range(2000 if FULL else 70):
        text = queries.node().shown()
        parsed = parse(text, "and")
        assert not parsed.literal, (text, parsed.why)
        right = oracle.matching(parsed.node)
        ids, total = found(corpus, text, None if number % 40 == 0 else 50)
        assert len(ids) == len(set(ids)) == total, text
        assert set(ids) == right, text
        hits += bool(ids)
    assert hits > 25


def test_boolean_phrase_and_near_equal_sqlite() -> None:
    """Check 4: and those of FTS5; the same tokens, numbered, in the four columns of its table."""
    documents = sample(2 if FULL else 90)
    corpus, oracle = corpus_of(documents, cache_bytes=0), Oracle(documents)
    numbers: dict[str, str] = {}

    def coded(tokens: list[str]) -> str:
        return " ".join(numbers.setdefault(token, f"t{len(numbers)}") for token in tokens)

    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE f USING fts5(id UNINDEXED, title, heading, body, code)")
    for (_, chunk), fields in zip(oracle.chunks, oracle.tokens, strict=True):
        row = [coded(fields[name]) for name in ("title", "heading", "body", "code")]
        db.execute("INSERT INTO f VALUES(?,?,?,?,?)", (chunk.id, *row))
    rng = random.Random(5)
    plain = [t for fields in oracle.tokens for t in fields["body"] if re.fullmatch("[a-z]{3,9}", t)]
    for _ in range(500 if FULL else 30):
        a, b, c = (rng.choice(plain) for _ in range(3))
        fields = rng.choice(oracle.tokens)["body"] or plain
        at = rng.randrange(len(fields))
        run = [t for t in fields[at : at + 2] if re.fullmatch("[a-z]{3,9}", t)] or [a]
        window = rng.randint(1, 9)
        x, y, z = coded([a]), coded([b]), coded([c])
        pairs = [
            (f"{a} AND {b}", f"{x} AND {y}"),
            (f"{a} AND ({b} OR {c})", f"{x} AND ({y} OR {z})"),
            (f"{a} NOT {b}", f"{x} NOT {y}"),
            (f'"{" ".join(run)}" AND {c}', f'"{coded(run)}" AND {z}'),
        ]
        if a != b:
            pairs.append((f"NEAR({a}, {b}, {window})", f"NEAR({x} {y}, {window - 1})"))
        for ours, theirs in pairs:
            right = {row[0] for row in db.execute("SELECT id FROM f WHERE f MATCH ?", (theirs,))}
            assert set(found(corpus, ours, 50)[0]) == right, ours
