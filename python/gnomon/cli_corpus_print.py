"""Answers of a corpus as text for people."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from .cli_common import visible

if TYPE_CHECKING:
    from .corpus import Answer, Item


def print_answer(answer: Answer) -> None:
    """Items, lines and what the report says, for people."""
    for item in answer.items:
        _print_item(item)
    for line in answer.lines:
        count = f"  {line.count}" if line.count else ""
        click.echo(
            visible(f"{'  ' * max(line.level - 1, 0)}{line.path or line.title}{count}  {line.id}")
        )
    report = answer.report
    if report.problem is not None:
        said = f"{report.problem.message}; {report.problem.remedy}".removesuffix("; ")
        click.echo(visible(f"gnomon: {said}"), err=True)
        return
    if report.repeat_of is not None:
        click.echo(f"the answer is that of call {report.repeat_of}")
    for fallback in report.fallbacks:
        click.echo(visible(f"[{fallback.step}: {fallback.found}] {fallback.why} {fallback.query}"))
    if report.no_hit is not None:
        _print_no_hit(answer)
    shown = ", ".join(f"{name} {value:g}" for name, value in report.counts.items())
    click.echo(
        visible(
            f"{report.returned} of {report.total}{'' if report.exhaustive else ' (ranked)'}"
            f"{'; ' + shown if shown else ''}"
        )
    )
    if report.session:
        click.echo(f"session {report.session}, call {report.call}")
    if report.cursor:
        click.echo(f"more: --cursor {report.cursor}")


def _print_item(item: Item) -> None:
    first, last = item.span
    mark = f" [{item.relaxed}]" if item.relaxed else ""
    edge = f" {item.edge.source} -{item.edge.relation}-> {item.edge.target}" if item.edge else ""
    score = "" if item.score is None else f" {item.score.value:.3f}"
    click.echo(visible(f"{item.path}:{first}-{last}{score}{mark}{edge}  {item.chunk_id}"))
    color = sys.stdout.isatty()
    before, behind = ("\x1b[1m", "\x1b[0m") if color else ("", "")
    parts, at = [], 0
    for start, end in item.marks:
        parts += [visible(item.excerpt[at:start]), before, visible(item.excerpt[start:end]), behind]
        at = end
    text = "".join([*parts, visible(item.excerpt[at:])]).strip()
    if text:
        click.echo(f"    {text}")


def _print_no_hit(answer: Answer) -> None:
    no_hit = answer.report.no_hit
    assert no_hit is not None
    guilty = f": {', '.join(no_hit.guilty)}" if no_hit.guilty else ""
    click.echo(visible(f"nothing found, {no_hit.reason}{guilty}; {no_hit.advice}"))
    for each in no_hit.nearest:
        click.echo(visible(f"    {each.term}: {', '.join(each.instead)}?"))
