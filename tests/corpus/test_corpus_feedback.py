"""What exploring says about the corpus, weights learned from outcomes, what-if questions."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from gnomon.corpus.answers import Answer, Item, NoHit, Report, TermCount
from gnomon.corpus.feedback import Entry, Feedback, Place, Todo, gap_of, reprocessing_list
from gnomon.corpus.kept_file import load, save
from gnomon.corpus.learned import HIGHEST, LOWEST, MODES, LearnedWeights
from hypothesis import example, given
from hypothesis import strategies as st


def item(path: str, chunk: str = "", relaxed: str = "") -> Item:
    return Item(chunk or f"id-{path}", "docs", path, (0, 9), revision="r1", relaxed=relaxed)


def no_answer(query: str = "zebraMode", items: list[Item] | None = None) -> Answer:
    terms = (TermCount(query, 0), TermCount("default", 900))
    report = Report("hybrid_search", 4, query=query, terms=terms)
    report.no_hit = NoHit("unknown_term", (query,))
    return Answer(report, items or [])


def test_an_answer_without_an_exact_item_is_a_gap_with_the_words_to_blame() -> None:
    gap = gap_of(no_answer())
    assert gap == Entry("gap", "zebraMode", "unknown_term", ("zebraMode",))
    relaxed = gap_of(no_answer(items=[item("a.md", relaxed="spelling")]))
    assert relaxed is not None
    assert [place.path for place in relaxed.places] == ["a.md"]


def test_an_answer_is_no_gap_of_the_corpus_where_the_question_was_at_fault() -> None:
    assert gap_of(no_answer(items=[item("a.md")])) is None  # answered
    for reason in ("scope", "empty_query", "exhausted_cursor"):
        answer = no_answer()
        answer.report.no_hit = NoHit(reason)
        assert gap_of(answer) is None, reason


def test_gaps_and_contradictions_become_a_list_of_documents(tmp_path: Path) -> None:
    feedback = Feedback(tmp_path / "feedback.json")
    assert feedback.entries() == []
    for _ in range(3):
        assert feedback.gap(no_answer(items=[item("near.md", relaxed="spelling")]))
    assert not feedback.gap(no_answer(items=[item("a.md")]))
    feedback.contradiction("default of size", item("one.md"), item("two.md"), "8 or 16")
    again = Feedback(feedback.path)
    assert [entry.count for entry in again.entries()] == [3, 1]
    listed = reprocessing_list(again.entries())
    assert [(todo.path, todo.count) for todo in listed] == [
        ("near.md", 3),
        ("one.md", 1),
        ("two.md", 1),
    ]
    assert listed[0].reasons == ("gap: zebraMode (unknown_term: zebraMode)",)
    # A gap without any passage is still a line; a file that was not indexed may hold it.
    feedback.gap(no_answer("yakMode"))
    skipped = {"docs": [("yakmode/big.bin", "too large"), ("other.bin", "binary")]}
    listed = reprocessing_list(feedback.entries(), skipped)
    assert Todo("", "", 1, ("gap: yakMode (unknown_term: yakMode)",)) in listed
    assert [todo.path for todo in listed if "not indexed" in "".join(todo.reasons)] == [
        "yakmode/big.bin"
    ]
    assert feedback.clear([todo for todo in listed if todo.path in ("one.md", "two.md")]) == 1
    assert [entry.kind for entry in feedback.entries()] == ["gap", "gap"]


def test_a_contradiction_needs_two_passages_and_a_subject(tmp_path: Path) -> None:
    feedback = Feedback(tmp_path / "f.json")
    place = Place("docs", "a.md", "r", "c")
    with pytest.raises(ValueError, match="two passages"):
        feedback.contradiction("x", place, place)
    with pytest.raises(ValueError, match="about must say"):
        feedback.contradiction(" ", place, Place("docs", "b.md"))
    assert not feedback.path.exists()


def test_several_threads_lose_no_entry_or_are_told_to_wait(tmp_path: Path) -> None:
    feedback, kept = Feedback(tmp_path / "f.json"), []

    def work(number: int) -> None:
        for turn in range(5):
            try:
                feedback.gap(no_answer(f"word{number}x{turn}"))
                kept.append((number, turn))
            except BlockingIOError:  # told to wait; nothing was kept
                continue

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {entry.about for entry in feedback.entries()} == {f"word{n}x{t}" for n, t in kept}
    assert kept


@pytest.mark.parametrize("text", ["", "{}", '{"format": "x"}', "[1]", "\x00", '{"body": 1}'])
def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "f.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"f\.json"):
        Feedback(path).gap(no_answer())
    assert path.read_text() == text


def test_a_kept_file_knows_its_format_version_and_checksum(tmp_path: Path) -> None:
    path = tmp_path / "k.json"
    save(path, "one", 1, {"a": "é\ud800"[:1]})
    assert load(path, "one", 1) == {"a": "é"}
    with pytest.raises(ValueError, match="not a two file"):
        load(path, "two", 1)
    with pytest.raises(ValueError, match="reads version 2"):
        load(path, "one", 2)
    whole = json.loads(path.read_text())
    whole["body"]["a"] = "e"
    path.write_text(json.dumps(whole))
    with pytest.raises(ValueError, match="checksum"):
        load(path, "one", 1)


outcomes = st.lists(
    st.tuples(st.sampled_from(["error", "howto"]), st.sampled_from(MODES), st.booleans()),
    max_size=80,
)


@given(outcomes)
@example([("error", "sparse", True)] * 1000)
@example([("error", "sparse", False)] * 1000)
def test_learned_weights_are_bounded_and_do_not_depend_on_the_order(
    seen: list[tuple[str, str, bool]],
) -> None:
    learned, backwards = LearnedWeights(), LearnedWeights()
    for one in seen:
        learned.note(*one)
    for one in reversed(seen):
        backwards.note(*one)
    for kind in ("error", "howto", "", "never"):
        weights = learned.weights(kind)
        assert weights == backwards.weights(kind)
        assert set(weights) == set(MODES)
        assert all(LOWEST <= weight <= HIGHEST for weight in weights.values())
    rows = learned.table()
    assert sum(row["outcomes"] for row in rows if row["task_type"] != "(all)") == len(seen)


def test_few_outcomes_leave_the_weights_alone_and_many_move_them(tmp_path: Path) -> None:
    learned = LearnedWeights()
    for _ in range(7):
        learned.note("error", "dense", False)
    assert set(learned.weights("error").values()) == {1.0}
    for _ in range(50):
        learned.note("error", "dense", False)
        learned.note("error", "sparse", True)
        learned.note("concept", "sparse", False)
        learned.note("concept", "dense", True)
    assert learned.weights("error")["sparse"] > 1.0 > learned.weights("error")["dense"]
    assert learned.weights("concept")["sparse"] < 1.0 < learned.weights("concept")["dense"]
    path = tmp_path / "weights.json"
    learned.save(path)
    assert LearnedWeights.load(path).table() == learned.table()
    save(path, "gnomon-learned-weights", 1, {"error": {"sparse": [9, 3]}})
    with pytest.raises(ValueError, match="no outcomes"):
        LearnedWeights.load(path)
    with pytest.raises(ValueError, match="mode must be"):
        learned.note("error", "psychic", True)
