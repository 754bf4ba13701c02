"""The questions of the command line: the same answers as the API, as JSON and as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from corpora import SMALL
from gnomon.cli import cli
from gnomon.corpus import Corpus, CorpusIndex, Documents, Source


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("corpus") / "small.corpus")
    sources = [
        Documents(Source(name=name, acl=acl), [(p, SMALL[p].encode()) for p in paths])
        for name, acl, paths in (
            ("hand", ("staff",), ("docs/setup.md", "docs/errors.md")),
            ("more", ("public",), ("src/Pool.java", "CHANGES", "crlf.md")),
        )
    ]
    index = CorpusIndex.create(path)
    index.update(sources)
    index.close()
    return path


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, ["corpus", *args])


CALLS: list[tuple[list[str], Any]] = [
    (["search", "{}", "max_allowed_packet", "-k", "2"],
     lambda c: c.hybrid_search("max_allowed_packet", k=2, max_tokens=4000)),
    (["search", "{}", "packet", "--filter", "path=docs/*", "--mode", "exact"],
     lambda c: c.hybrid_search("packet", "exact", {"path": ["docs/*"]}, max_tokens=4000)),
    (["grep", "{}", "max.allowed", "--raw"],
     lambda c: c.grep("max.allowed", raw=True, k=10, max_tokens=4000)),
    (["navigate", "{}", "class:pool", "inherits"],
     lambda c: c.navigate("class:pool", "inherits", max_tokens=4000)),
    (["verify-hypothesis", "{}", "packet", "bigger", "--scope", "chunk"],
     lambda c: c.verify_hypothesis("packet", "bigger", "chunk", k=10, max_tokens=4000)),
    (["read", "{}", "CHANGES"], lambda c: c.read("CHANGES", max_tokens=4000)),
    (["outline", "{}", "docs/setup.md"], lambda c: c.outline("docs/setup.md", max_tokens=4000)),
    (["list", "{}", "entities", "max*"], lambda c: c.list("entities", "max*", max_tokens=4000)),
]  # fmt: skip


@pytest.mark.parametrize(("args", "ask"), CALLS, ids=lambda each: str(each)[:20])
def test_commands_answer_as_the_corpus_does(place: str, args: list[str], ask: Any) -> None:
    given = [arg.replace("{}", place) for arg in args]
    done = run(*given, "--json")
    assert done.exit_code == 0, done.output
    right = ask(Corpus.open(place)).to_dict()
    said = json.loads(done.stdout)
    for answer in (said, right):
        answer["report"].pop("budget")
        for item in answer.get("items", []):
            item.pop("retrieved_at")
    assert said == right
    text = run(*given)
    assert text.exit_code == 0
    assert f"{right['report']['returned']} of {right['report']['total']}" in text.output


def test_what_was_not_found_is_explained_in_text(place: str) -> None:
    done = run("search", place, "max_alowed_packet", "--no-relax")
    assert done.exit_code == 0
    assert "nothing found, unknown_term: max_alowed_packet" in done.output
    assert "max_alowed_packet: max_allowed_packet?" in done.output
    relaxed = run("search", place, "max_alowed_packet").output
    assert "[spelling: 3]" in relaxed
    assert "[spelling]" in relaxed


def test_problems_exit_with_two(place: str, tmp_path: Path) -> None:
    wrong = run("search", place, "a", "--filter", "colour=red")
    assert (wrong.exit_code, "there is no field 'colour'" in wrong.stderr) == (2, True)
    assert run("search", place, "a", "--filter", "colour").exit_code == 2
    assert run("search", str(tmp_path / "none"), "a").exit_code == 2
    assert run("search", place, "a", "--session", "zz").exit_code == 2


def test_scopes_are_enforced(place: str) -> None:
    for scope, n in (("staff", 2), ("public", 3), ("other", 0)):
        done = run("list", place, "--as", scope, "--json")
        assert json.loads(done.stdout)["report"].get("total", 0) == n


def test_a_session_goes_on_and_replays(place: str) -> None:
    first = json.loads(run("search", place, "packet", "--session", "new", "--json").stdout)
    session = first["report"]["session"]
    again = run("search", place, "packet", "--session", session)
    assert "the answer is that of call 1" in again.output
    done = run("replay", place, session)
    assert done.exit_code == 0
    assert done.output.splitlines() == ["   1 hybrid_search: same", "   2 hybrid_search: same"]
