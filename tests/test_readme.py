"""README.md is true: its Python runs, its commands are there, its figures were measured."""

from __future__ import annotations

import doctest
import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner
from gnomon.cli import cli

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def test_python_blocks_run_in_one_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert blocks("python")
    text = "\n".join(blocks("python"))
    example = doctest.DocTestParser().get_doctest(text, {}, "README.md", "README.md", 0)
    assert len(example.examples) >= 10
    report: list[str] = []
    assert doctest.DocTestRunner().run(example, out=report.append).failed == 0, "".join(report)


def test_console_lines_of_recall_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the files that the Python blocks wrote."""
    monkeypatch.chdir(tmp_path)
    text = "\n".join(blocks("python"))
    example = doctest.DocTestParser().get_doctest(text, {}, "README.md", "README.md", 0)
    assert doctest.DocTestRunner().run(example, out=lambda line: None).failed == 0
    lines = "\n".join(blocks("console"))
    commands = re.findall(r"^\$ gnomon ((?:groundtruth|recall) .*)$", lines, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        done = CliRunner().invoke(cli, shlex.split(command))
        assert done.exit_code == 0, (command, done.output)
    assert {"report.html", "curve.csv"} <= {path.name for path in tmp_path.iterdir()}


def test_the_two_commands_are_one_line_each() -> None:
    assert [block.count("\n") for block in blocks("sh")] == [1, 1]
    install, test = (block.strip() for block in blocks("sh"))
    make = "python3 -m venv .venv && .venv/bin/pip install "
    assert install == make + ". && .venv/bin/gnomon demo"
    assert test == make + "'.[test]' && .venv/bin/python -m pytest"


def test_the_map_names_places_that_exist() -> None:
    rows = re.findall(r"^\| [^|]*\? \| (.*) \|$", README, re.MULTILINE)
    assert len(rows) >= 8
    places = [place for row in rows for place in re.findall(r"`([^`]+)`", row)]
    assert [place for place in places if not list(ROOT.glob(place))] == []


def benchmark_runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_run", ROOT / "benchmarks" / "run.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_figures_come_from_the_results() -> None:
    """`python benchmarks/run.py --write` makes this pass; typing a number does not."""
    assert benchmark_runner().with_table(README) == README


def test_no_speed_is_claimed_outside_the_table() -> None:
    outside = re.sub(r"<!-- figures: begin -->.*<!-- figures: end -->", "", README, flags=re.DOTALL)
    assert re.findall(r"\d[\d.,]*\s*(?:MB/s|GB/s|ms\b|µs|x faster|times faster)", outside) == []
