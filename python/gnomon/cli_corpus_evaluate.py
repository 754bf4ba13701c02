"""`gnomon evaluate`: how well policies answer tasks from a corpus."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from .cli_common import print_table, user_errors, visible
from .cli_corpus_open import embedder_option, learned_option, open_corpus

_POLICIES = "scripted, greedy, single_shot, fts5, tantivy, ripgrep"


@click.command(short_help="How well policies answer tasks from a corpus.")
@click.argument("tasks", metavar="TASKS.jsonl", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--corpus",
    "index",
    required=True,
    metavar="INDEX",
    type=click.Path(exists=True, file_okay=False),
    help="The corpus to explore.",
)
@click.option("--policy", "policies", multiple=True, help=f"Of {_POLICIES}; may be given again.")
@click.option("--files", metavar="DIR", help="What the corpus was made of, for ripgrep.")
@click.option("--hard", is_flag=True, help="Ask the tasks' question_hard.")
@click.option("--calls", default=6, show_default=True, type=click.IntRange(1), help="Of a task.")
@click.option("--tokens", type=click.IntRange(256), help="Of a task, all answers together.")
@click.option("--answer-tokens", default=3000, show_default=True, type=click.IntRange(256, 8000))
@click.option(
    "--learn",
    metavar="FILE",
    help="Note there which index found each task's evidence, for --learned.",
)
@embedder_option
@learned_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--html", "html_file", metavar="FILE", help="Write a report that loads nothing.")
def evaluate(
    tasks: str,
    index: str,
    policies: tuple[str, ...],
    files: str | None,
    hard: bool,
    calls: int,
    tokens: int | None,
    answer_tokens: int,
    learn: str | None,
    embedder: str,
    learned: str | None,
    as_json: bool,
    html_file: str | None,
) -> None:
    """Run policies on TASKS and say how well they found the evidence.

    A line of TASKS is a JSON object: id, question, evidence [{path, quote, start, end}],
    must_include, answerable, oracle_plan [{tool, args}], question_hard. No language model takes
    part; gnomon.corpus.evaluate takes one as a callable.
    """
    from .corpus.eval_report import COLUMNS, html_report
    from .corpus.evaluate import evaluate as run
    from .corpus.evaluate import hard_tasks, load_tasks
    from .recall_html import write_text

    with user_errors():
        asked = load_tasks(tasks)
        if hard:
            asked = hard_tasks(asked)
        if not asked:
            raise ValueError(f"{tasks}: no task has a question_hard")
        corpus = open_corpus(index, embedder=embedder, learned=learned)
        if learn:
            _note_outcomes(learn, corpus, asked)
        done = run(
            corpus,
            asked,
            policies or None,
            files=files,
            calls_max=calls,
            tokens_max=tokens,
            answer_tokens=answer_tokens,
        )
        if html_file:
            write_text(html_file, html_report(done))
    if as_json:
        click.echo(json.dumps(done.as_dict()))
        return
    print_table(list(COLUMNS), done.rows())
    for name, why in done.left_out.items():
        click.echo(f"{visible(name)} did not run: {visible(why)}")
    for policy in done.policies():
        lacking = [r.task for r in done.of(policy) if not r.success]
        if lacking:
            click.echo(f"{visible(policy)} failed: {visible(', '.join(lacking))}")


def _note_outcomes(path: str, corpus: Any, tasks: list[Any]) -> None:
    from .corpus.learned import LearnedWeights, observe
    from .corpus.tool_search import SEARCH_TASK

    learned = LearnedWeights.load(path) if os.path.exists(path) else LearnedWeights()
    observe(corpus, tasks, learned, SEARCH_TASK)
    learned.save(path)


@click.command("learned", short_help="Weights of the modes and what they rest on.")
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
def learned_table(path: str, as_json: bool) -> None:
    """Say what outcomes FILE holds and which weights follow from them."""
    with user_errors():
        from .corpus.learned import LearnedWeights

        rows = LearnedWeights.load(path).table()
    if as_json:
        click.echo(json.dumps(rows))
        return
    columns = ("task_type", "mode", "successes", "outcomes", "weight")
    shown = [
        [row["task_type"], row["mode"], *(f"{row[name]:g}" for name in columns[2:])] for row in rows
    ]
    print_table(list(columns), shown)
