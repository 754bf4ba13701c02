"""The evaluation: what counts as success, the figures by hand, policies on a corpus, the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gnomon.corpus.eval_metrics import judged, summary, useless_turns
from gnomon.corpus.eval_questions import STOP, parts, read_question, words
from gnomon.corpus.eval_report import COLUMNS, Evaluation, html_report
from gnomon.corpus.eval_tasks import Passage, Quote, Task, hard_tasks, load_tasks, missing, share
from gnomon.corpus.eval_world import Turn
from hypothesis import given
from hypothesis import strategies as st

ALPHA = Quote("a.md", "max\\_size is 8", 10, 24)
BETA = Quote("b.md", "since <code>2.0</code>", 100, 122)
TASK = Task("t1", "How large is max_size, and since when?", (ALPHA, BETA), ("max_size", "2.0"))


def passage(path: str, start: int, end: int, text: str, **more: Any) -> Passage:
    return Passage(path, start, end, text, **more)


WHOLE_ALPHA = passage("a.md", 0, 40, "The max_size is 8 by default")
WHOLE_BETA = passage("b.md", 90, 200, "It is there since 2.0")


def test_a_quote_is_shown_at_its_place_only() -> None:
    assert missing(TASK, [WHOLE_ALPHA, WHOLE_BETA]) == []
    assert missing(TASK, [WHOLE_ALPHA]) == [BETA.quote, "2.0"]
    elsewhere = passage("c.md", 0, 400, "max_size is 8 since 2.0")
    assert share(TASK, [elsewhere]) == 0.0
    assert missing(TASK, [passage("a.md", 11, 40, "max_size"), WHOLE_BETA]) == [ALPHA.quote]


def test_a_cut_text_shows_a_quote_only_if_its_words_stand_there() -> None:
    cut = passage("a.md", 0, 4000, "something else", cut=True)
    assert not cut.shows(ALPHA)
    assert cut.spans(ALPHA)
    assert share(TASK, [cut, WHOLE_BETA]) == 0.5
    assert share(TASK, [cut, WHOLE_BETA], shown=False) == 1.0
    # The rendered text has neither the escape nor the tags of the raw quote.
    assert passage("a.md", 0, 4000, "... max_size is 8 ...", cut=True).shows(ALPHA)
    assert passage("b.md", 0, 4000, "since `2.0`", cut=True).shows(BETA)


def turn(*passages: Passage, tool: str = "search_precise", **more: Any) -> Turn:
    return Turn(tool, more.pop("args", {}), passages, 100, tuple(60 for _ in passages), **more)


def test_the_figures_of_a_run_by_hand() -> None:
    turns = [
        turn(WHOLE_ALPHA, args={"query": "max_size"}, names=frozenset({"c1", "option:old_name"})),
        turn(args={"query": "nothing"}),  # useless
        turn(args={"query": "zork"}, absent=frozenset({"zork"})),  # tells that zork is absent
        turn(args={"query": "zork"}, absent=frozenset({"zork"})),  # tells it again: useless
        turn(WHOLE_BETA, tool="read", args={"target": "old_name"}),
    ]
    result = judged(TASK, "p", turns, True, plan_steps=2)
    assert result.success
    assert useless_turns(TASK, turns) == [False, True, False, True, False]
    assert (result.steps, result.steps_to_success, result.step_efficiency) == (5, 5, 0.4)
    assert (result.useless, result.depth, result.documents) == (2, 2, 2)
    assert (result.surfaced, result.previewed, result.read) == (1.0, 1.0, 0.5)
    assert result.recall_at == {500: 1.0, 1000: 1.0, 2000: 1.0, 4000: 1.0, 8000: 1.0}
    assert result.tokens == 500


def test_a_name_that_the_question_has_is_no_discovery() -> None:
    first = turn(args={"query": "x"}, names=frozenset({"option:max_size"}))
    second = turn(WHOLE_ALPHA, args={"entity": "max_size"})
    result = judged(TASK, "p", [first, second], True, 1)
    assert result.depth == 1
    assert useless_turns(TASK, [first, second]) == [True, False]


def test_recall_at_a_budget_stops_at_the_passage_that_does_not_fit() -> None:
    long = Turn("t", {}, (WHOLE_ALPHA, WHOLE_BETA), 900, (400, 500))
    assert judged(TASK, "p", [long], True, 1).recall_at[500] == 0.5


def test_abstention_is_right_only_without_an_answer() -> None:
    negative = Task("n", "What is zork?", answerable=False, must_include=("no evidence",))
    assert judged(negative, "p", [turn()], False, 1).success
    assert not judged(negative, "p", [turn(WHOLE_ALPHA)], True, 1).success
    wrongly = judged(TASK, "p", [turn(WHOLE_ALPHA, WHOLE_BETA)], False, 1)
    assert not wrongly.success
    said = summary([wrongly, judged(negative, "p", [turn()], False, 1)])
    assert (said["abstained_rightly"], said["abstained_wrongly"], said["success"]) == (1, 1, 0)


def test_the_figures_of_nothing_are_none() -> None:
    said = summary([])
    assert said["success_rate"] is None
    assert said["useless_turns"] is None


# --- tasks ----------------------------------------------------------------------------------------


def test_tasks_are_read_and_what_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    row = {"id": "a", "question": "q?", "question_hard": "h?", "unknown": 1}
    other = {**row, "id": "b", "question_hard": None}
    path.write_text(f"{json.dumps(row)}\n\n{json.dumps(other)}")
    tasks = load_tasks(path)
    assert [task.id for task in tasks] == ["a", "b"]
    assert [task.question for task in hard_tasks(tasks)] == ["h?"]
    for text, said in (("", "no task"), ("{", "tasks.jsonl:1"), ('{"id": 1}', "tasks.jsonl:1")):
        path.write_text(text)
        with pytest.raises(ValueError, match=said):
            load_tasks(path)
    path.write_text(f"{json.dumps(row)}\n{json.dumps(row)}\n")
    with pytest.raises(ValueError, match="there twice"):
        load_tasks(path)


def test_a_question_is_read_by_its_form() -> None:
    asked = read_question(
        "Error 1205 says 'Lock wait timeout exceeded'. Which variable sets it, and what does "
        "innodb_lock_wait_timeout=0 or getConnection() do?"
    )
    assert asked.errors == ("1205",)
    assert asked.quoted == ("Lock wait timeout exceeded",)
    assert asked.names == ("innodb_lock_wait_timeout=0", "getConnection()")
    assert asked.clauses[1] == "Which variable sets it"
    assert read_question("connection's and server's own").quoted == ()


@given(st.text(max_size=300))
def test_any_text_can_be_read_as_a_question(text: str) -> None:
    asked = read_question(text)
    assert all(clause in text for clause in asked.clauses)
    assert all(word.casefold() not in STOP for word in words(text))
    assert all(part == part.casefold() for part in parts(text))


# --- the report -----------------------------------------------------------------------------------


def test_the_report_escapes_and_loads_nothing() -> None:
    evil = Task("<script>1</script>", "q", (ALPHA,))
    done = Evaluation(
        [judged(evil, "<b>", [turn(args={"query": "<i>"})], True, 1)],
        {"tantivy": "<not installed>"},
        {"tasks": 1},
    )
    page = html_report(done)
    assert "<script" not in page
    assert page.count("src=") == page.count("href=") == 0
    assert "&lt;not installed&gt;" in page
    assert page.count("<svg") == 2
    assert len(done.rows()[0]) == len(COLUMNS)
    assert json.loads(json.dumps(done.as_dict()))["policies"]["<b>"]["success"] == 0
