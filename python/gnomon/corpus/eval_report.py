"""The figures of an evaluation as a table, as JSON, and as one HTML file that loads nothing."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from .._svg import Line, chart
from .eval_metrics import Result, summary
from .eval_world import BUDGETS

FORMAT, VERSION = "gnomon-evaluation", 1
COLUMNS = (
    "policy",
    "success",
    "rate",
    "abstained",
    "steps",
    "tokens",
    "efficiency",
    "useless",
    "depth",
    "docs",
    "surfaced",
    "previewed",
    "read",
    *(f"@{budget}" for budget in BUDGETS),
)
_STYLE = """body{font:14px/1.45 sans-serif;margin:2em auto;max-width:1100px;padding:0
1em;color:#222} table{border-collapse:collapse;margin:1em 0;display:block;overflow-x:auto}
td,th{border:1px solid #ccc;padding:3px 7px;text-align:right;white-space:nowrap}
td:first-child,th:first-child{text-align:left}th{background:#f3f3f3}li{margin:.2em 0}
.no{background:#fbe3e3}.yes{background:#e3f4e3}"""
NOTE = (
    "success: every quote shown at its place and every required text shown, or for a task without "
    "an answer: abstained. useless: calls that brought nothing new of a gold document, no name "
    "that a later call used, and no new absent term. @N: share of quotes within the first N tokens "
    "of passages (bytes of JSON / 4). A single shot makes one call; its calls are not limited by "
    "the tokens of an answer."
)


class Evaluation(msgspec.Struct):
    """All results, the policies that could not run with the reasons, and what was asked."""

    results: list[Result]
    left_out: dict[str, str]
    facts: dict[str, Any]

    def policies(self) -> list[str]:
        """Names, in the order in which they ran."""
        return list(dict.fromkeys(result.policy for result in self.results))

    def of(self, policy: str) -> list[Result]:
        """The results of a policy, in the order of the tasks."""
        return [result for result in self.results if result.policy == policy]

    def summaries(self) -> dict[str, dict[str, Any]]:
        """The figures of each policy."""
        return {policy: summary(self.of(policy)) for policy in self.policies()}

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON data."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "facts": self.facts,
            "left_out": self.left_out,
            "policies": self.summaries(),
            "results": msgspec.to_builtins(self.results, str_keys=True),
        }

    def rows(self) -> list[list[str]]:
        """One row for each policy, in the order of COLUMNS."""
        return [_row(policy, said) for policy, said in self.summaries().items()]


def _row(policy: str, said: Mapping[str, Any]) -> list[str]:
    return [
        policy,
        f"{said['success']}/{said['answerable']}",
        _share(said["success_rate"]),
        f"{said['abstained_rightly']}/{said['unanswerable']}",
        _figure(said["steps"], 2),
        _figure(said["tokens"], 0),
        _share(said["step_efficiency"]),
        _share(said["useless_turns"]),
        _figure(said["depth"], 2),
        _figure(said["documents"], 1),
        *(_share(said[name]) for name in ("surfaced_recall", "previewed_recall", "read_recall")),
        *(_share(said["recall_at"][str(budget)]) for budget in BUDGETS),
    ]


def _figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def html_report(evaluation: Evaluation, *, title: str = "Corpus evaluation") -> str:
    """The page: the table, recall by tokens, success by calls, and every task of every policy.

    >>> page = html_report(Evaluation([], {}, {"tasks": "<a>"}))
    >>> page.count("<script"), page.count("src="), page.count("href="), "&lt;a&gt;" in page
    (0, 0, 0, True)
    """
    escape = html.escape
    facts = [f"{name}: {value}" for name, value in evaluation.facts.items()]
    facts += [f"{name} did not run: {why}" for name, why in evaluation.left_out.items()]
    body = [f"<h1>{escape(title)}</h1>", _items(facts)]
    body += [_table(COLUMNS, evaluation.rows()), f"<p>{escape(NOTE)}</p>"]
    summaries = evaluation.summaries()
    recall = [
        Line(policy, [(float(b), said["recall_at"][str(b)] or 0.0) for b in BUDGETS])
        for policy, said in summaries.items()
    ]
    body += ["<h2>Evidence within a budget of tokens</h2>", chart(recall, "tokens", "recall")]
    steps = [Line(policy, _by_calls(evaluation.of(policy))) for policy in summaries]
    body += ["<h2>Success within a number of calls</h2>", chart(steps, "calls", "success")]
    body += ["<h2>Tasks</h2>", _tasks(evaluation)]
    for policy in summaries:
        name = escape(policy)
        body.append(f"<details><summary>Calls of {name}</summary>")
        body += [_calls(result) for result in evaluation.of(policy)]
        body.append("</details>")
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f"<!doctype html><html><head>{head}</head><body>{''.join(body)}</body></html>\n"


def _by_calls(results: Sequence[Result]) -> list[tuple[float, float]]:
    """The share of answerable tasks that were done within 1, 2, ... calls."""
    asked = [result for result in results if result.answerable]
    most = max((result.steps for result in asked), default=0)
    reached = [result.steps_to_success for result in asked]
    return [
        (float(n), sum(at is not None and at <= n for at in reached) / len(asked))
        for n in range(1, most + 1)
    ]


def _tasks(evaluation: Evaluation) -> str:
    policies = evaluation.policies()
    by_task: dict[str, dict[str, Result]] = {}
    for result in evaluation.results:
        by_task.setdefault(result.task, {})[result.policy] = result
    rows = []
    for task, found in by_task.items():
        cells = [f"<td>{html.escape(task)}</td>"]
        for policy in policies:
            if policy not in found:
                cells.append("<td></td>")
                continue
            result = found[policy]
            kind, mark = ("yes", "✓") if result.success else ("no", "✗")
            why = html.escape("; ".join(result.missing), quote=True)
            cells.append(
                f'<td class="{kind}" title="{why}">{mark} {result.previewed:.2f} · '
                f"{result.steps} calls</td>"
            )
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f"<th>{html.escape(name)}</th>" for name in ("task", *policies))
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _calls(result: Result) -> str:
    lines = [f"{call['tool']} {call['args']} ({call['tokens']} tokens)" for call in result.calls]
    if result.missing:
        lines.append(f"missing: {'; '.join(result.missing)}")
    return f"<h3>{html.escape(result.task)}</h3>{_items(lines)}"


def _items(lines: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in lines) + "</ul>"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
        for cells in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"
