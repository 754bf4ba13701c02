"""The tests of gnomon.corpus need its extra, which the test extra includes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

NEEDED = ("msgspec", "pyromark", "tree_sitter", "tree_sitter_rst", "tree_sitter_java")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
# A module that cannot be imported cannot skip itself; the one below says why.
collect_ignore_glob = ["test_corpus_[!e]*.py"] if MISSING else []


@pytest.fixture(scope="session")
def missing_packages() -> list[str]:
    """The packages of the extra that are not installed."""
    return MISSING


@pytest.fixture(scope="session")
def dbconn(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index of the shared tasks' corpus; see `dbconn_index`."""
    import dbconn_index

    return dbconn_index.make(shared, tmp_path_factory.mktemp("dbconn") / "dbconn.corpus")
