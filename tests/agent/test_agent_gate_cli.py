"""`gnomon gate`: verdicts, exit codes and reports of files; no traceback, whatever the file is."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from gnomon.agent.gate_load import read_text
from gnomon.agent.gate_rules import rules_text
from gnomon.cli import cli
from hypothesis import given
from trace_oracle import judgeable, messages
from traces import changed, good, traces


def run(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    result = CliRunner().invoke(cli, ["gate", *map(str, arguments)], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def write(path: Path, value: Any) -> Path:
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path


def test_cli_says_what_the_document_says(tmp_path: Path) -> None:
    file = write(tmp_path / "t.json", good())
    result = run(file)
    assert (result.exit_code, result.stdout) == (0, f"trace passed: {file}\n")
    trace = changed("/steps/0/tool", "delete")
    result = run(write(file, trace), "--format", "text")
    assert result.exit_code == 1
    lines = [line for line in result.stdout.splitlines() if line.startswith("ERROR")]
    assert lines == [f"ERROR: {message}" for message in messages(trace)]


def test_cli_names_a_file_as_the_documents_program_does(tmp_path: Path) -> None:
    file = write(tmp_path / "t.json", good())
    assert run(f"{tmp_path}/.//t.json").stdout == f"trace passed: {file}\n"


@given(traces)
def test_cli_verdict_is_the_documents(trace: Any) -> None:
    data = json.dumps(trace)
    if judgeable(trace) and "Infinity" not in data and "NaN" not in data:
        loaded = read_text(data.encode())
        assert loaded.unreadable == ""
        assert loaded.findings == ()
        assert loaded.value == trace
        expected = 1 if messages(trace) else 0
        assert run("-", stdin=data.encode()).exit_code == expected


BAD_TEXTS = {
    "empty": (b"", 2),
    "no JSON": (b"{", 2),
    "two documents": (b"{} {}", 2),
    "trailing comma": (b'{"policy": {},}', 2),
    "not UTF-8": (b'{"policy": "\xff"}', 2),
    "UTF-16": ('{"policy": {}}'.encode("utf-16"), 2),
    "byte order mark": (b"\xef\xbb\xbf{}", 2),
    "5,000 digits": (b'{"policy": {}, "n": ' + b"9" * 5000 + b"}", 2),
    "100,000 levels": (b"[" * 100_000 + b"]" * 100_000, 2),
    "100,000 open levels": (b'{"a":' * 100_000, 2),
    "root is a list": (b"[]", 2),
    "root is null": (b"null", 2),
    "a key twice": (json.dumps(good()).replace('"steps"', '"steps": [], "steps"').encode(), 1),
    "NaN tokens": (json.dumps(changed("/steps/0/tokens", math.nan)).encode(), 1),
    "infinite tokens": (json.dumps(good()).replace("40", "1e999").encode(), 1),
    "huge tokens": (json.dumps(changed("/steps/0/tokens", 10**400)).encode(), 1),
    "lone surrogate": (json.dumps(changed("/steps/0/tool", "\ud800")).encode(), 1),
}


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_cli_never_shows_a_traceback(name: str, tmp_path: Path) -> None:
    data, code = BAD_TEXTS[name]
    file = write(tmp_path / "t.json", data)
    for form in ("text", "json", "junit", "sarif"):
        result = run(file, "--format", form)
        assert (result.exit_code, bool(result.stdout)) == (code, True)
        result.stdout.encode()


def test_cli_in_a_small_stack(tmp_path: Path) -> None:
    file = write(
        tmp_path / "t.json", b'{"policy":{},"steps":[],"result":' + b"[" * 190 + b"]" * 190 + b"}"
    )
    codes_seen: list[int] = []
    size = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=lambda: codes_seen.append(run(file).exit_code))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
    assert codes_seen == [1]


def test_cli_usage_errors_are_2(tmp_path: Path) -> None:
    file = write(tmp_path / "t.json", good())
    for arguments in (
        [],
        [tmp_path / "missing.json"],
        [tmp_path],
        ["bad\0name"],
        [file, "--policy", tmp_path / "missing.json"],
        [file, "--policy", write(tmp_path / "p1", b"{")],
        [file, "--policy", write(tmp_path / "p2", {"polcy": {}})],
        [file, "--policy", write(tmp_path / "p3", b'{"strict": true, "strict": false}')],
        [file, "--policy", write(tmp_path / "p4", [])],
        [file, "--format", "xml"],
        [file, "--output", tmp_path / "no" / "file"],
        [file, "--max-bytes", "10"],
    ):
        assert run(*arguments).exit_code == 2, arguments


def test_cli_many_files_and_lines(tmp_path: Path) -> None:
    bad = changed("/steps/0/tool", "delete")
    lines = tmp_path / "runs.jsonl"
    lines.write_text("\n".join([json.dumps(good()), "", json.dumps(bad), ""]))
    single = write(tmp_path / "one.json", good())
    result = run(single, lines)
    assert result.exit_code == 1
    said = result.stdout.splitlines()
    assert f"trace passed: {single}" in said
    assert f"trace passed: {lines}:1" in said
    assert f"ERROR: {lines}:3: steps[0] uses unauthorized tool 'delete'" in said
    with lines.open("a") as file:
        file.write("\n{broken\n")
    assert run(single, lines).exit_code == 2
    assert run(write(tmp_path / "empty.jsonl", b"\n")).exit_code == 2
    assert run("-", "--input", "jsonl", stdin=json.dumps(good()).encode() * 1).exit_code == 0
    assert run(lines, "--max-bytes", "100").exit_code == 2


def test_cli_policy_and_strict(tmp_path: Path) -> None:
    file = write(tmp_path / "t.json", changed("/steps/0/tokens", ...))
    assert run(file).exit_code == 0
    assert run(file, "--strict").exit_code == 1
    assert run(file, "--profile", "v2").exit_code == 1
    policy = write(tmp_path / "p.json", {"rules": {"G404": "off"}, "strict": True})
    assert run(file, "--policy", policy).exit_code == 0
    own = write(tmp_path / "q.json", {"policy": {"max_steps": 1}})
    result = run(file, "--policy", own)
    assert "ERROR: step budget exceeded" in result.stdout


def test_cli_reports_are_valid_and_stable(tmp_path: Path) -> None:
    import xml.etree.ElementTree as ElementTree

    bad = write(tmp_path / "b ad.json", changed("/steps/0/tool", '<&\x01\ud800">'))
    files = [write(tmp_path / "good.json", good()), bad, write(tmp_path / "no.json", b"{")]
    found = json.loads(run(*files, "--format", "json").stdout)
    assert (found["verdict"], found["exit_code"]) == ("unreadable", 2)
    assert [one["verdict"] for one in found["traces"]] == ["passed", "failed", "unreadable"]
    assert found["traces"][1]["findings"][0] | {"message": ""} == {
        "code": "G201",
        "rule": "tool-allowed",
        "severity": "error",
        "path": "/steps/0/tool",
        "message": "",
    }
    suite = ElementTree.fromstring(run(*files, "--format", "junit").stdout)
    assert suite.attrib == {"tests": "3", "failures": "1", "errors": "1"}
    assert len(suite.findall(".//failure")) == len(suite.findall(".//error")) == 1
    sarif = json.loads(run(*files, "--format", "sarif").stdout)
    [results] = [one["results"] for one in sarif["runs"]]
    rules = sarif["runs"][0]["tool"]["driver"]["rules"]
    assert sarif["version"] == "2.1.0"
    assert {one["ruleId"] for one in results} == {"G201", "G504"}
    assert all(rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in results)
    place = results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert place.endswith("b%20ad.json")
    assert sarif["runs"][0]["invocations"][0]["executionSuccessful"] is False
    for form in ("text", "json", "junit", "sarif"):
        target = tmp_path / f"report.{form}"
        result = run(*files, "--format", form, "--output", target)
        assert (result.exit_code, result.stdout) == (2, "")
        assert target.read_text("utf-8") == run(*files, "--format", form).stdout


def test_cli_documents_its_rules() -> None:
    result = run("--rules")
    assert (result.exit_code, result.stdout) == (0, rules_text())


def test_gate_command_runs_without_the_search_engine() -> None:
    """The package of the command is light: no schema validator, no ledger."""
    code = "import sys, gnomon.cli_gate; print('gnomon.agent.gate' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
