"""Every example in a docstring runs, and every public name has one."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import gnomon
import pytest

OPTIONS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
# What the import of a package or one of its modules needs beyond the dependencies.
NEEDS = {
    "gnomon.compat.langchain": "langchain_core",
    "gnomon.compat.llama_index": "llama_index.core",
    "gnomon.compat.haystack": "haystack",
    "gnomon.compat.sklearn": "sklearn",
    "gnomon.compat._st_training": "sentence_transformers",
}
NO_EXAMPLE = {"__version__"}  # data, not a thing to call
MODULES = sorted(
    {"gnomon"}
    | {
        m.name
        for m in pkgutil.walk_packages(gnomon.__path__, "gnomon.")
        if m.name != "gnomon._core"
    }
)


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_examples_in_docstrings_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # an example may write files
    peer = NEEDS.get(".".join(name.split(".")[:3]))
    if peer is not None:
        pytest.importorskip(peer, reason=f"{peer} is not installed")
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=OPTIONS)
    assert result.failed == 0


def is_exception(name: str) -> bool:
    value = getattr(gnomon, name)
    return isinstance(value, type) and issubclass(value, Exception)


@pytest.mark.parametrize("name", sorted(set(gnomon.__all__) - NO_EXAMPLE))
def test_every_public_name_has_an_example_that_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    doc = inspect.getdoc(getattr(gnomon, name)) or ""
    assert doc, f"gnomon.{name} has no docstring"
    if is_exception(name):  # is raised, not called
        return
    names = {"gnomon": gnomon} | vars(gnomon)
    example = doctest.DocTestParser().get_doctest(doc, names, name, None, None)
    assert example.examples, f"gnomon.{name} has no example in its docstring"
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    assert runner.run(example, out=report.append).failed == 0, "".join(report)
