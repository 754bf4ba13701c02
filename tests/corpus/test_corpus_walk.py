"""walk_sources: every file is taken or accounted for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from gnomon.corpus import (
    Coverage,
    FoundFile,
    process_document,
    process_sources,
    to_json,
    walk_sources,
)


def test_every_file_is_taken_or_accounted_for(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / "a" / "x.md").write_bytes(b"# X")
    (tmp_path / "a" / "b" / "y.txt").write_bytes("ü".encode("utf-16"))
    (tmp_path / "a" / "z.png").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "a" / "huge.md").write_bytes(b"x" * 2000)
    (tmp_path / "a" / ".hidden.md").write_bytes(b"x")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    coverage = Coverage()
    found = [file.path for file in walk_sources(tmp_path, coverage, max_bytes=1000)]
    assert found == ["a/x.md", "a/b/y.txt"]
    assert {(path, reason) for path, reason, _ in coverage.left_out} == {
        (".git", "hidden"),
        ("a/.hidden.md", "hidden"),
        ("a/huge.md", "too large"),
        ("a/z.png", "binary"),
        ("a/loop", "visited before"),
        ("dangling", "unreadable"),
        ("pipe", "not a regular file"),
    }
    assert coverage.taken == 2
    assert coverage.counts()["hidden"] == 2


def test_hidden_files_can_be_taken(tmp_path: Path) -> None:
    (tmp_path / ".notes.md").write_bytes(b"# N")
    assert [f.path for f in walk_sources(tmp_path, Coverage(), hidden=True)] == [".notes.md"]


def test_a_file_is_its_own_source(tmp_path: Path) -> None:
    (tmp_path / "n.md").write_bytes(b"# N")
    [found] = walk_sources(tmp_path / "n.md", Coverage())
    assert found.path == "n.md"
    assert process_document(Path(found.place), "s", path=found.path).document.title == "N"


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        walk_sources(tmp_path / "none", Coverage())
    with pytest.raises(ValueError, match="max_bytes must be at least 1"):
        walk_sources(tmp_path, Coverage(), max_bytes=0)


def test_folders_give_the_same_documents_on_any_number_of_processes(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number:02}.md").write_text(f"# N{number}\n\nSet `opt_{number}=1`.\n" * 60)
    one, two = (
        [to_json(done) for done in process_sources(tmp_path, "s", Coverage(), jobs=jobs)]
        for jobs in (1, 2)
    )
    assert one == two
    assert len(one) == 40


def test_a_file_that_vanishes_is_accounted_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.md").write_text("# A")
    (tmp_path / "b.md").write_text("# B")

    def walk_then_remove(*args: Any, **kwargs: Any) -> list[FoundFile]:
        found = list(walk_sources(*args, **kwargs))
        (tmp_path / "b.md").unlink()
        return found

    monkeypatch.setattr("gnomon.corpus.batch.walk_sources", walk_then_remove)
    coverage = Coverage()
    documents = list(process_sources(tmp_path, "s", coverage))
    assert [done.document.title for done in documents] == ["A"]
    assert coverage.left_out == [("b.md", "unreadable", "No such file or directory")]
    assert coverage.taken == 1
