"""Sessions: what was seen, what is left, and that all of it can be asked again."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from corpora import corpus_of, count, sample, small
from gnomon.agent import Budget
from gnomon.corpus import Corpus, Session, replay
from gnomon.corpus.session_store import SessionStore


class Clock:
    """Moves by a second a look."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def corpus_with_clock(documents: Any, **options: Any) -> tuple[Corpus, Clock]:
    from memory_snapshot import MemorySnapshot

    clock = Clock()
    return Corpus.of(MemorySnapshot(documents), clock=clock, **options), clock


def session_of(corpus: Corpus, **options: Any) -> Session:
    return corpus.session(store=options.pop("store", ":memory:"), **options)


def test_a_repeated_call_gives_a_pointer_and_then_ends() -> None:
    """Check 15: a repeated call is answered by a pointer of at most 60 tokens; the call after the
    limit of repeats ends with budget_exhausted.
    """
    session = session_of(corpus_of(small()), repeat_limit=2)
    first = session.hybrid_search("packet")
    assert (first.report.call, first.report.repeat_of) == (1, None)
    for call in (2, 3):
        again = session.hybrid_search("packet")
        assert (again.report.call, again.report.repeat_of) == (call, 1)
        assert again.items == []
        assert len(again.to_json()) <= 60 * 4
    ended = session.hybrid_search("packet")
    assert ended.report.problem is not None
    assert ended.report.problem.code == ended.report.budget.stop == "budget_exhausted"
    assert session.hybrid_search("packet", k=1).report.repeat_of is None


def test_what_was_shown_is_not_new_and_not_shown_again() -> None:
    session = session_of(corpus_of(small()))
    first = session.hybrid_search("max_allowed_packet")
    assert all(item.new for item in first)
    assert first.report.novelty is not None
    assert (first.report.novelty.new_chunks, first.report.novelty.share) == (3, 1.0)
    second = session.hybrid_search("max_allowed_packet", k=9)
    assert [item.new for item in second] == [False] * 3
    assert [item.excerpt for item in second] == [""] * 3
    assert second.report.novelty is not None
    assert second.report.novelty.repeats == 3
    assert second.report.budget.tokens < first.report.budget.tokens * 0.7
    read = session.read(first.items[0].chunk_id)
    assert read.items[0].excerpt
    assert not read.items[0].new
    assert session.seen == {item.chunk_id for item in first}
    assert "option:max_allowed_packet" in session.entities


@pytest.mark.parametrize(
    ("budget", "per_tool", "dimension", "calls"),
    [
        (Budget(steps=3), {}, "steps", 3),
        (Budget(tokens=1500), {}, "tokens", None),
        (Budget(seconds=8), {}, "seconds", None),
        (None, {"hybrid_search": 2}, "hybrid_search", 2),
    ],
)
def test_budgets_end_in_budget_exhausted(
    budget: Any, per_tool: Any, dimension: str, calls: int | None
) -> None:
    corpus, _ = corpus_with_clock(small())
    session = session_of(corpus, budget=budget, per_tool=per_tool)
    done, spent = 0, 0
    for word in ("packet", "timeout", "key", "wait", "pool", "big", "set", "errors", "free"):
        answer = session.hybrid_search(word, max_tokens=700)
        if answer.report.budget.stop:
            break
        done, spent = done + 1, spent + answer.report.budget.tokens
    assert answer.report.problem is not None
    assert answer.report.problem.code == "budget_exhausted"
    assert answer.report.problem.message.startswith(dimension)
    assert answer.items == []
    assert calls is None or done == calls
    if budget is not None and budget.tokens is not None:
        assert spent <= budget.tokens
    assert session.hybrid_search("malicious").report.budget.stop == "budget_exhausted"


def test_the_report_says_what_is_left() -> None:
    corpus, _ = corpus_with_clock(small())
    session = session_of(corpus, budget=Budget(steps=5, tokens=9000, seconds=100))
    report = session.hybrid_search("packet").report
    assert (report.budget.calls_left, report.session) == (4, session.id)
    assert report.budget.ms_left is not None
    assert 0 < report.budget.ms_left < 100_000
    left = session.hybrid_search("timeout").report.budget
    assert left.calls_left == 3
    assert left.tokens_left == 9000 - report.budget.tokens


def test_a_session_goes_on_where_it_was(tmp_path: Path) -> None:
    corpus, store = corpus_of(small()), tmp_path / "s.sqlite"
    session = session_of(corpus, store=store, budget=Budget(steps=4), repeat_limit=1)
    session.hybrid_search("packet")
    session.keep(session.seen, "mine")
    again = session_of(corpus, store=store, id=session.id)
    assert again.seen == session.seen
    assert again.workspace("mine") == session.workspace("mine")
    assert again.hybrid_search("packet").report.repeat_of == 1
    assert again.hybrid_search("packet").report.budget.stop == "budget_exhausted"
    third = again.hybrid_search("timeout").report
    assert (third.budget.calls_left, third.budget.stop) == (1, "")
    with pytest.raises(RuntimeError, match="goes on in another process"):
        session.hybrid_search("key")


def test_sessions_belong_to_a_principal_and_expire(tmp_path: Path) -> None:
    corpus, clock = corpus_with_clock(small())
    store = tmp_path / "s.sqlite"
    mine = corpus.seen_by("me", None)
    session = session_of(mine, store=store, ttl=100)
    with pytest.raises(KeyError, match="there is no session"):
        session_of(corpus.seen_by("you", None), store=store, id=session.id)
    clock.now += 200
    late = session.hybrid_search("packet").report.problem
    assert late is not None
    assert late.code == "session_expired"
    with pytest.raises(KeyError, match="or it has expired"):
        session.keep(["any"])
    with pytest.raises(KeyError, match="or it has expired"):
        session_of(mine, store=store, id=session.id)
    kept = SessionStore(str(store))
    assert kept.sessions("me", 0) != []
    session_of(corpus.seen_by("you", None), store=store)  # a new session, of anybody
    assert kept.sessions("me", 0) == []
    session.hybrid_search("key")  # leaves no row behind either
    assert list(kept.events(session.id)) == []
    assert kept.purge(clock.now) == 0


def test_rows_are_never_changed(tmp_path: Path) -> None:
    session = session_of(corpus_of(small()), store=tmp_path / "s.sqlite")
    session.hybrid_search("packet")
    with (
        sqlite3.connect(tmp_path / "s.sqlite") as db,
        pytest.raises(sqlite3.IntegrityError, match="never changed"),
    ):
        db.execute("UPDATE event SET tool = 'other'")


def test_a_store_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="sessions cannot be kept in"):
        session_of(corpus_of(small()), store=tmp_path / "no" / "s.sqlite")


def test_a_workspace_narrows_questions() -> None:
    session = session_of(corpus_of(small()))
    pulled = session.pull("max_allowed_packet", k=2)
    assert session.workspace() == [item.chunk_id for item in pulled]
    inside = session.hybrid_search("packet timeout", scope="workspace:main")
    assert {item.chunk_id for item in inside} <= set(session.workspace())
    assert session.grep("packet", scope="workspace:main").report.total == 2
    assert session.drop(session.workspace()[:1]) == 1
    problem = session.hybrid_search("packet", scope="workspace:other").report.problem
    assert problem is not None
    assert problem.message == "there is no workspace 'other'; there are: main"
    plain = corpus_of(small()).hybrid_search("packet", scope="workspace:main").report.problem
    assert plain is not None
    assert plain.code == "bad_scope"


def random_walk(session: Session, rng: random.Random, words: list[str]) -> None:
    """Questions that follow one another, some of them twice."""
    ids: list[str] = []
    for _ in range(rng.randint(4, 9)):
        word = rng.choice(words)
        step = rng.randrange(7)
        if step == 0 and ids:
            answer = session.navigate(rng.choice(ids))
        elif step == 1 and ids:
            answer = session.read(rng.choice(ids))
        elif step == 2 and ids:
            answer = session.contextual_refine(ids[:3], word)
        elif step == 3:
            answer = session.verify_hypothesis(word, rng.choice(words))
        elif step == 4:
            answer = session.grep(word, literal=True)
        elif step == 5 and ids:
            session.keep(ids[:4])
            answer = session.hybrid_search(word, scope="workspace:main", max_tokens=400)
        else:
            answer = session.hybrid_search(word, k=rng.choice((2, 5)))
        ids += [item.chunk_id for item in answer if item.chunk_id not in ids]


def test_recorded_sessions_replay_byte_by_byte(tmp_path: Path) -> None:
    """Check 15: 50 recorded sessions give the same bytes again, warm cache or cold."""
    documents = [*small(), *sample(90)]
    corpus, _ = corpus_with_clock(documents)
    fresh, _ = corpus_with_clock(documents)
    words = ["packet", "timeout", "connection", "max_allowed_packet", "wait_timeout", "zebra"]
    rng = random.Random(15)
    for number in range(count(8, 50)):
        budget = rng.choice((None, Budget(steps=5), Budget(tokens=3000), Budget(seconds=20)))
        session = session_of(corpus, store=tmp_path / "s.sqlite", budget=budget, repeat_limit=1)
        random_walk(session, rng, words)
        recorded = session.events()
        assert [event.seq for event in recorded] == list(range(1, len(recorded) + 1))
        for again in (corpus, fresh):  # another one has nothing in its cache
            assert all(each.same for each in replay(again, session)), number
        assert session.events() == recorded
        for event in recorded:
            assert len(event.response) <= 4 * event.args.get("max_tokens", 1 << 20)


def test_a_replay_sees_that_the_corpus_changed() -> None:
    documents = small()
    session = session_of(corpus_of(documents))
    session.hybrid_search("packet")
    session.hybrid_search("malicious")
    other = corpus_of(documents[:1])
    assert [each.same for each in replay(other, session)] == [False, False]
