"""The shared tasks, run by policies without a language model (check 8).

On a part of the corpus (see `dbconn_index`) the tools' plans find everything as on the whole of it;
the shares of the greedy rules and of other searches are those of the part, which is easier for all
of them. GNOMON_DBCONN=full runs it on the whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import dbconn_index
import pytest
from click.testing import CliRunner
from gnomon.cli import cli
from gnomon.corpus.answers import Answer, Fallback, Item, Named, Report
from gnomon.corpus.api import Corpus
from gnomon.corpus.eval_greedy import _ABOUT_FOUND, greedy
from gnomon.corpus.eval_report import Evaluation
from gnomon.corpus.eval_tasks import Task, load_tasks
from gnomon.corpus.eval_world import World
from gnomon.corpus.evaluate import asked_model, evaluate
from gnomon.corpus.tool_search import BY_DOCUMENT


@pytest.fixture(scope="session")
def tasks(shared: Path) -> list[Task]:
    return load_tasks(shared / "cases" / "corpus_tasks.jsonl")


@pytest.fixture(scope="session")
def run(dbconn: Path, tasks: list[Task], shared: Path) -> Evaluation:
    policies = None if dbconn_index.FULL else ["scripted", "greedy", "single_shot", "fts5"]
    return evaluate(Corpus.open(dbconn), tasks, policies, files=shared / "data" / "dbconn")


def test_scripted_plans_find_all_evidence_in_four_calls_and_6000_tokens(run: Evaluation) -> None:
    """Check 8: the tools are enough for all tasks."""
    said = run.summaries()["scripted"]
    failed = {result.task: result.missing for result in run.of("scripted") if not result.success}
    assert failed == {}
    assert (said["success"], said["abstained_rightly"], said["tasks"]) == (21, 2, 23)
    assert said["steps_max"] <= 4
    assert said["tokens"] <= 6000
    assert said["useless_turns"] <= 0.15


def test_greedy_rules_are_twenty_points_above_every_single_shot(run: Evaluation) -> None:
    """Check 8: rules without a model find more than one search does, ours or another's."""
    said = run.summaries()
    greedy = said["greedy"]
    assert greedy["success_rate"] >= 0.6
    assert greedy["abstained_rightly"] == greedy["unanswerable"] == 2
    assert greedy["steps_max"] <= 6
    assert greedy["useless_turns"] <= (0.15 if dbconn_index.FULL else 0.25)
    others = [name for name in said if name not in ("greedy", "scripted")]
    assert {"single_shot", "fts5"} <= set(others)
    if dbconn_index.FULL:
        for name in others:
            assert greedy["success_rate"] >= said[name]["success_rate"] + 0.2, name
    for name in others:
        assert greedy["success_rate"] > said[name]["success_rate"], name


def test_who_cannot_run_is_named_with_the_reason(dbconn: Path, tasks: list[Task]) -> None:
    done = evaluate(Corpus.open(dbconn), tasks[:1], ["tantivy", "ripgrep"])
    assert {*done.policies(), *done.left_out} == {"tantivy", "ripgrep"}
    assert "ripgrep" in done.left_out  # it was given no folder
    with pytest.raises(ValueError, match="no policy 'psychic'"):
        evaluate(Corpus.open(dbconn), tasks[:1], ["psychic"])


def test_a_run_gives_the_same_figures_again(
    run: Evaluation, dbconn: Path, tasks: list[Task]
) -> None:
    again = evaluate(Corpus.open(dbconn), tasks[:4], ["greedy", "scripted"])
    for policy in ("greedy", "scripted"):
        assert again.of(policy) == run.of(policy)[:4]


def test_a_callable_takes_part_as_a_policy(dbconn: Path, tasks: list[Task]) -> None:
    """A model's loop gets the question and the tools, and nothing of the gold evidence."""
    seen: list[str] = []

    def model(question: str, call: object) -> str | None:
        assert callable(call)
        seen.append(question)
        refused = call("search_precise", {"query": "x", "tenant": "y"})
        assert refused["status"] == "refused"
        found = call("search_general_knowledge", {"query": question})
        return "answer" if found["evidence"] else None

    done = evaluate(Corpus.open(dbconn), tasks[:3], [], custom={"model": asked_model(model)})
    assert seen == [task.question for task in tasks[:3]]
    assert [result.steps for result in done.of("model")] == [2, 2, 2] or [
        result.steps for result in done.of("model")
    ] == [1, 1, 1]


def test_a_world_gives_no_more_than_its_limits(dbconn: Path) -> None:
    from gnomon.corpus.eval_world import OutOfCallsError

    world = World(Corpus.open(dbconn), calls_max=2, tokens_max=1500, answer_tokens=1000)
    world.call("search_general_knowledge", {"query": "pool"})
    while world.calls_left and world.tokens_left and world.tokens_left >= 256:
        world.call("search_general_knowledge", {"query": "connection"})
    with pytest.raises(OutOfCallsError):
        world.call("search_general_knowledge", {"query": "timeout"})
    assert sum(turn.tokens for turn in world.turns) <= 1500


def test_the_command_prints_a_table_and_writes_the_page(
    dbconn: Path, shared: Path, tmp_path: Path
) -> None:
    lines = (shared / "cases" / "corpus_tasks.jsonl").read_text("utf-8").splitlines()[:3]
    few = tmp_path / "few.jsonl"
    few.write_text("\n".join(lines), encoding="utf-8")
    command = ["evaluate", str(few), "--corpus", str(dbconn), "--policy", "scripted"]
    done = CliRunner().invoke(cli, [*command, "--html", str(tmp_path / "report.html")])
    assert done.exit_code == 0, done.output
    assert "3/3" in done.output
    assert "<svg" in (tmp_path / "report.html").read_text("utf-8")
    done = CliRunner().invoke(cli, [*command, "--json"])
    assert json.loads(done.output)["policies"]["scripted"]["success"] == 3
    done = CliRunner().invoke(cli, [*command, "--policy", "psychic"])
    assert done.exit_code == 2
    assert "no policy 'psychic'" in done.output


def test_greedy_asks_around_where_a_question_is_in_other_words() -> None:
    """It reads on, asks each clause, and looks up the first code that a heading names."""
    asked: list[tuple[str, dict[str, object]]] = []

    class Canned(World):
        def __init__(self, step: str) -> None:
            self.passages, self.step = 1000, step

        def call(self, tool: str, arguments: Mapping[str, object]) -> Answer:
            asked.append((tool, dict(arguments)))
            item = Item("c1", "docs", "a.md", (0, 9), title="A", excerpt="An old leniency.")
            item.heading = ("Trouble", "Use ignoreThing=true")
            item.entities = (Named("version:1.0"), Named("option:ignorething"))
            steps = (Fallback(self.step, "why"),)
            cursor = "" if "cursor" in arguments else "next"
            return Answer(Report("x", 0, fallbacks=steps, cursor=cursor), [item])

    question = "Commands fail since the driver was changed. How do we get leniency back?"
    assert greedy(Task("t", question), Canned(BY_DOCUMENT))
    search = "search_general_knowledge"
    assert asked == [
        (search, {"query": question}),
        (search, {"query": question, "cursor": "next"}),
        (search, {"query": "Commands fail since the driver was changed"}),
        (search, {"query": "How do we get leniency back"}),
        ("find_api_reference", {"entity": "option:ignorething"}),
    ]
    asked.clear()
    greedy(Task("t", question), Canned("sparse"))
    assert (search, {"query": question, "cursor": "next"}) not in asked


def test_that_after_an_auxiliary_is_about_what_was_found() -> None:
    assert _ABOUT_FOUND.search("for which logins does that not work")
    assert _ABOUT_FOUND.search("what is it good for")
    assert not _ABOUT_FOUND.search("the option that limits packets")
