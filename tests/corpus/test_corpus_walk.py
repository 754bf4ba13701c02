"""walk_sources: every file is taken or accounted for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gnomon.corpus import Coverage, process_document, walk_sources


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
