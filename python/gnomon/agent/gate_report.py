"""Verdicts as text, JSON, JUnit XML and SARIF 2.1.0. The same input gives the same bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from .gate_core import TraceFinding
from .gate_rules import RULES

_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_SARIF_LEVEL = {"error": "error", "unverifiable": "warning", "warning": "warning", "off": "none"}
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Judged:
    """The verdict on one trace: "passed", "failed" or "unreadable" (then ``error`` says why)."""

    file: str
    verdict: str
    line: int = 0
    profile: str = "v1"
    findings: tuple[TraceFinding, ...] = ()
    error: str = ""

    @property
    def name(self) -> str:
        """File name, with the line in a JSON Lines file."""
        return f"{self.file}:{self.line}" if self.line else self.file


def verdict_of(judged: Sequence[Judged]) -> str:
    """The verdict on all: the worst one."""
    found = {one.verdict for one in judged}
    return next((word for word in ("unreadable", "failed") if word in found), "passed")


def exit_code(judged: Sequence[Judged]) -> int:
    """0 all passed, 1 a trace failed, 2 a trace could not be read."""
    return {"passed": 0, "failed": 1, "unreadable": 2}[verdict_of(judged)]


def as_text(judged: Sequence[Judged]) -> str:
    """The lines for people; with more than one trace each names its trace.

    >>> print(as_text([Judged("t.json", "passed")]), end="")
    trace passed: t.json
    """
    several = len(judged) > 1
    lines = []
    for one in judged:
        where = f"{one.name}: " if several else ""
        for finding in one.findings:
            lines.append(f"{finding.severity.upper()}: {where}{finding.message}")
        if one.verdict == "passed":
            lines.append(f"trace passed: {one.name}")
        elif one.verdict == "unreadable":
            lines.append(f"UNREADABLE: {one.name}: {one.error}")
    return "".join(f"{line}\n" for line in lines)


def as_json(judged: Sequence[Judged]) -> str:
    """One JSON object: verdict, exit code, and each trace with its findings."""
    traces = []
    for one in judged:
        entry: dict[str, Any] = {"file": one.file, "line": one.line, "verdict": one.verdict}
        if one.error:
            entry["error"] = one.error
        entry |= {"profile": one.profile, "findings": [_finding(item) for item in one.findings]}
        traces.append(entry)
    found = {"verdict": verdict_of(judged), "exit_code": exit_code(judged), "traces": traces}
    return json.dumps(found, indent=2) + "\n"


def _finding(finding: TraceFinding) -> dict[str, str]:
    return {
        "code": finding.code,
        "rule": RULES[finding.code].name,
        "severity": finding.severity,
        "path": finding.path,
        "message": finding.message,
    }


def as_junit(judged: Sequence[Judged]) -> str:
    """One test case per trace: a failure for findings that fail it, an error if unreadable."""
    failed = sum(one.verdict == "failed" for one in judged)
    unreadable = sum(one.verdict == "unreadable" for one in judged)
    counts = f'tests="{len(judged)}" failures="{failed}" errors="{unreadable}"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites {counts}>"]
    lines += [f'  <testsuite name="gnomon gate" {counts}>']
    for one in judged:
        lines += [f'    <testcase classname="gnomon.gate" name={_attribute(one.name)}>']
        listing = "\n".join(
            f"{item.severity} {item.code} {item.path}: {item.message}" for item in one.findings
        )
        if one.verdict == "failed":
            count = f"{len(one.findings)} findings"
            lines += [f"      <failure message={_attribute(count)}>{_xml(listing)}</failure>"]
        elif one.verdict == "unreadable":
            lines += [f"      <error message={_attribute(one.error)}></error>"]
        elif listing:
            lines += [f"      <system-out>{_xml(listing)}</system-out>"]
        lines += ["    </testcase>"]
    lines += ["  </testsuite>", "</testsuites>"]
    return "\n".join(lines) + "\n"


def _xml(text: str) -> str:
    # What XML 1.0 cannot carry even escaped (control characters, lone surrogates) is spelled out.
    return escape(_NOT_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def as_sarif(judged: Sequence[Judged]) -> str:
    """SARIF 2.1.0 with all rules described; unreadable files are notifications of the run."""
    order = {code: number for number, code in enumerate(RULES)}
    results = [_sarif_result(one, finding, order) for one in judged for finding in one.findings]
    notes = [
        {
            "level": "error",
            "message": {"text": f"{one.name}: {one.error}"},
            "locations": [_sarif_place(one)],
        }
        for one in judged
        if one.verdict == "unreadable"
    ]
    invocation: dict[str, Any] = {"executionSuccessful": not notes}
    if notes:
        invocation["toolExecutionNotifications"] = notes
    driver = {
        "name": "gnomon gate",
        "rules": [
            {
                "id": rule.id,
                "name": rule.name,
                "shortDescription": {"text": rule.asks},
                "help": {"text": rule.remedy},
                "defaultConfiguration": {"level": _SARIF_LEVEL[rule.v2]},
            }
            for rule in RULES.values()
        ],
    }
    run = {"tool": {"driver": driver}, "invocations": [invocation], "results": results}
    log = {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2) + "\n"


def _sarif_result(one: Judged, finding: TraceFinding, order: Mapping[str, int]) -> dict[str, Any]:
    place = _sarif_place(one)
    if finding.path:
        place["logicalLocations"] = [{"fullyQualifiedName": finding.path}]
    return {
        "ruleId": finding.code,
        "ruleIndex": order[finding.code],
        "level": _SARIF_LEVEL[finding.severity],
        "message": {"text": finding.message},
        "locations": [place],
    }


def _sarif_place(one: Judged) -> dict[str, Any]:
    uri = quote(one.file.replace("\\", "/").encode(errors="surrogateescape"))
    place: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if one.line:
        place["region"] = {"startLine": one.line}
    return {"physicalLocation": place}


FORMATS: Mapping[str, Callable[[Sequence[Judged]], str]] = {
    "text": as_text,
    "json": as_json,
    "junit": as_junit,
    "sarif": as_sarif,
}
