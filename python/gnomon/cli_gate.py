"""`gnomon gate`: judge recorded agent runs by their policy, for people and for CI."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

if TYPE_CHECKING:
    from .agent.gate import GatePolicy
    from .agent.gate_load import Loaded
    from .agent.gate_report import Judged

INPUTS = ("auto", "json", "jsonl", "spans")


@click.command(context_settings={"max_content_width": 100})
@click.argument("traces", nargs=-1, metavar="TRACE.json...")
@click.option("--policy", "policy_file", metavar="FILE", help="JSON policy file; see below.")
@click.option(
    "--profile", type=click.Choice(["auto", "v1", "v2"]), help="Overrides the policy file's."
)
@click.option(
    "--strict", is_flag=True, help="Warnings and what is unverifiable fail a trace as well."
)
@click.option(
    "--input",
    "input_kind",
    type=click.Choice(INPUTS),
    default="auto",
    help="auto: JSON Lines by the name .jsonl or .ndjson, spans by their keys, else one trace.",
)
@click.option(
    "--format", "report", type=click.Choice(["text", "json", "junit", "sarif"]), default="text"
)
@click.option("--output", metavar="FILE", help="Where the report goes; default: standard output.")
@click.option(
    "--max-bytes",
    type=click.IntRange(1),
    default=64 * 2**20,
    show_default=True,
    help="Largest text.",
)
@click.option(
    "--rules", "list_rules", is_flag=True, help="Print the documentation of all rules and stop."
)
def gate(
    traces: tuple[str, ...],
    policy_file: str | None,
    profile: str | None,
    strict: bool,
    input_kind: str,
    report: str,
    output: str | None,
    max_bytes: int,
    list_rules: bool,
) -> None:
    """Judge recorded agent runs: tools, evidence, budgets, citations, stop reason.

    `-` reads standard input. Spans of OpenTelemetry (GenAI) and OpenInference are imported.

    \b
    Policy file, all keys optional:
      {"profile": "v2", "strict": true, "canaries": ["sk-canary"],
       "policy": {"max_steps": 8, "allowed_tools": ["search"]},   takes the place of the trace's
       "rules": {"tokens-missing": "error", "G703": "off"}}

    Exit codes: 0 all traces passed, 1 a trace broke a rule, 2 a trace or the policy could not be
    read, or wrong usage.
    """  # noqa: D301  click reads \b
    from .agent.gate_report import FORMATS, exit_code
    from .agent.gate_rules import rules_text

    if list_rules:
        click.echo(rules_text(), nl=False)
        return
    if not traces:
        raise click.UsageError("name at least one trace, or - for standard input")
    policy = _policy(policy_file, profile, strict)
    judged = [one for name in traces for one in _judge_file(name, policy, input_kind, max_bytes)]
    text = FORMATS[report](judged)
    if output is None:
        click.echo(text, nl=False)
    else:
        try:
            with open(
                output, "w", encoding="utf-8", errors="backslashreplace", newline="\n"
            ) as file:
                file.write(text)
        except OSError as error:
            raise click.UsageError(f"{output}: {error.strerror}") from None
    sys.exit(exit_code(judged))


def _policy(path: str | None, profile: str | None, strict: bool) -> GatePolicy:
    from .agent.gate import GatePolicy
    from .agent.gate_load import read_text

    raw: Any = {}
    if path is not None:
        try:
            with open(path, "rb") as file:
                loaded = read_text(file.read(2**20 + 1), 2**20)
        except OSError as error:
            raise click.UsageError(f"{path}: {error.strerror}") from None
        if loaded.unreadable or loaded.findings:
            why = loaded.unreadable or loaded.findings[0].message
            raise click.UsageError(f"{path}: {why}")
        raw = loaded.value
    try:
        if isinstance(raw, dict):
            raw = (
                raw
                | ({"profile": profile} if profile else {})
                | ({"strict": True} if strict else {})
            )
        return GatePolicy.from_dict(raw)
    except (ValueError, TypeError) as error:
        raise click.UsageError(f"{path}: {error}") from None


def _judge_file(name: str, policy: GatePolicy, kind: str, max_bytes: int) -> Iterator[Judged]:
    from .agent.gate_load import is_lines
    from .agent.gate_report import Judged

    try:
        if name == "-":
            yield from _judge_stream(
                "-", sys.stdin.buffer, policy, kind, kind == "jsonl", max_bytes
            )
            return
        name = str(Path(name))  # the reports name a file in one way
        lines = kind == "jsonl" or (kind in ("auto", "spans") and is_lines(name))
        with open(name, "rb") as stream:
            yield from _judge_stream(name, stream, policy, kind, lines, max_bytes)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        yield Judged(name, "unreadable", error=getattr(error, "strerror", None) or str(error))


def _judge_stream(
    name: str, stream: BinaryIO, policy: GatePolicy, kind: str, lines: bool, max_bytes: int
) -> Iterator[Judged]:
    from .agent.gate_load import read_stream
    from .agent.gate_report import Judged

    empty = True
    spans: list[Any] = []
    for loaded in read_stream(stream, lines, max_bytes):
        empty = False
        if loaded.unreadable:
            yield Judged(name, "unreadable", loaded.line, error=loaded.unreadable)
        elif kind == "spans" or (kind == "auto" and _looks_like_spans(loaded.value)):
            spans.append(loaded.value)
        else:
            yield _judge_one(name, loaded, policy)
    if spans:
        yield from _judge_spans(name, spans, policy)
    elif empty:
        yield Judged(name, "unreadable", error="holds no trace")


def _judge_one(name: str, loaded: Loaded, policy: GatePolicy) -> Judged:
    from .agent.gate import trace_passes, validate_trace, weighed
    from .agent.gate_report import Judged

    if not isinstance(loaded.value, dict):
        return Judged(name, "unreadable", loaded.line, error="trace root must be an object")
    profile = policy.profile_of(loaded.value)
    text = [weighed(one, policy, profile) for one in loaded.findings]
    found = [one for one in text if one is not None] + validate_trace(loaded.value, policy)
    verdict = "passed" if trace_passes(found, policy) else "failed"
    return Judged(name, verdict, loaded.line, profile, tuple(found))


def _looks_like_spans(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, dict) and "attributes" in one for one in value)
    return (
        isinstance(value, dict)
        and "policy" not in value
        and ("resourceSpans" in value or {"name", "attributes"} <= value.keys())
    )


def _judge_spans(name: str, parts: list[Any], policy: GatePolicy) -> Iterator[Judged]:
    from .agent.gate_import import import_spans
    from .agent.gate_load import Loaded
    from .agent.gate_report import Judged

    whole = [one for part in parts for one in (part if isinstance(part, list) else [part])]
    try:
        imported = import_spans(whole)
    except ValueError as error:
        yield Judged(name, "unreadable", error=str(error))
        return
    for trace in imported:
        trace_id = trace["trace_id"]
        label = f"{name}#{trace_id}" if len(imported) > 1 else name
        yield _judge_one(label, Loaded(value=trace), policy)
