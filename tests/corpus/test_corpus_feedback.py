"""What exploring says about the corpus, weights learned from outcomes, what-if questions."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
import small_corpus
from gnomon.corpus.answers import Answer, Item, NoHit, Report, TermCount
from gnomon.corpus.api import Corpus
from gnomon.corpus.feedback import Entry, Feedback, Place, Todo, gap_of, reprocessing_list
from gnomon.corpus.kept_file import load, save
from gnomon.corpus.learned import HIGHEST, LOWEST, MODES, LearnedWeights, weighted_search
from gnomon.corpus.what_if import read_what_if, what_if
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


# --- on a corpus ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    place = tmp_path_factory.mktemp("feedback") / "small.corpus"
    return Corpus.open(small_corpus.make(place), scopes=["docs"])


def test_the_gaps_of_a_session_name_the_documents_to_look_at(
    corpus: Corpus, tmp_path: Path
) -> None:
    answers = [
        corpus.hybrid_search(query, "exact")
        for query in ("wait_timeout", "wait_timeuot", "frobnicationMode")
    ]
    feedback = Feedback(tmp_path / "feedback.json")
    assert feedback.gaps(answers) == 2
    listed = reprocessing_list(feedback.entries())
    assert ("server/variables.md", 1) in [(todo.path, todo.count) for todo in listed]
    assert any("frobnicationMode" in reason for todo in listed for reason in todo.reasons)


def test_learned_weights_change_a_fusion_only_where_they_are_given(corpus: Corpus) -> None:
    learned, plain = LearnedWeights(), LearnedWeights()
    for _ in range(40):
        learned.note("error", "sparse", True)
        learned.note("error", "exact", False)
    modes = ("sparse", "exact")
    query = "max_allowed_packet client"
    before = corpus.hybrid_search(query, "sparse", k=10)
    weighted = weighted_search(corpus, query, learned, "error", modes=modes)
    even = weighted_search(corpus, query, plain, "error", modes=modes)
    assert corpus.hybrid_search(query, "sparse", k=10).to_json(times=False) == before.to_json(
        times=False
    )
    for answer, factor in ((weighted, learned.weights("error")["sparse"]), (even, 1.0)):
        assert answer.report.mode == "weighted"
        for item in answer.items:
            assert item.score is not None
            total = 0.0
            for part in item.score.parts:
                total += part.value
            assert total == item.score.value
        top = answer.items[0].score
        assert top is not None
        assert top.parts[0].value == factor / 61
    assert f"weight of sparse: {learned.weights('error')['sparse']!r}" in weighted.report.notes


def test_a_what_if_question_is_answered_by_evidence(corpus: Corpus) -> None:
    together = what_if(corpus, "AllowPublicKeyRetrieval", "MITM")
    assert together.verdict == "together"
    assert together.scope == "chunk"
    assert together.evidence[0].path == "driver/options.md"
    assert together.lift is not None
    assert together.lift > 2
    apart = what_if(corpus, "wait_timeout", "MITM")
    assert (apart.verdict, apart.scope) == ("apart", "")
    unknown = what_if(corpus, "wait_timeout", "meltdown")
    assert unknown.verdict == "unknown"
    assert "'meltdown'" in unknown.why
    alias = what_if(corpus, "1153", "ER_NET_PACKET_TOO_LARGE")
    assert alias.verdict == "related"
    assert {edge.relation for edge in alias.relations} == {"alias-of"}
    hidden = what_if(corpus, "AllowPublicKeyRetrieval", "swordfish_option")
    assert hidden.verdict == "unknown"  # it stands in what this reader may not see


def test_without_a_consequence_the_names_that_come_with_it_are_told(corpus: Corpus) -> None:
    found = what_if(corpus, "AllowPublicKeyRetrieval")
    assert found.verdict == "together"
    assert any("sslmode" in one.entity for one in found.consequences)
    assert all(0 < one.together <= one.passages for one in found.consequences)
    assert what_if(corpus, "frobnicationMode").verdict == "unknown"
    with pytest.raises(ValueError, match="condition must say"):
        what_if(corpus, " ")


def test_what_if_questions_are_read_by_their_form() -> None:
    assert read_what_if("What happens if the pool is empty?") == ("the pool is empty", "")
    assert read_what_if("Does wait_timeout cause link failures?") == (
        "wait_timeout",
        "link failures",
    )
    with pytest.raises(ValueError, match="no what-if question"):
        read_what_if("Why?")
